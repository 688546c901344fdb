"""Mailboxes: their servers, the members with access, and complete removal."""

import logging
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.accounts import AccountCapabilities, AccountError, FolderRoles, OAuthLogin
from mailbox_appliance.model.sync import ListedFolder
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox, add_member, connection, execute, parsed


def grant(store: Store, mailbox: Mailbox, member: str) -> None:
    execute(store, "INSERT INTO account_grants VALUES (?, ?)", (mailbox.id, member))


def rows(store: Store) -> dict[str, set[tuple[object, ...]]]:
    """Return all rows of the tables that contain data of a mailbox."""
    tables = ("accounts", "account_grants", "folders", "threads", "thread_links", "messages", "bodies")
    return {table: set(store.database.rows(f"SELECT * FROM {table}")) for table in tables}


def test_a_connection_is_read_as_it_was_written(store: Store) -> None:
    ada, wanted = add_member(store), connection("Ünï@example.test")
    with store.database.transaction():
        account = store.accounts.add(ada, "Work", wanted)
    assert store.accounts.get_connection(account) == wanted
    for secret in ("imap-password", "smtp-password"):
        assert secret not in repr(store.accounts.get_connection(account))
        assert secret not in repr(store.accounts.get(account))


def test_nothing_of_a_mailbox_is_logged_at_any_level(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ada = add_member(store)
    with store.database.transaction():
        store.accounts.add(ada, "Work", connection("box@example.test"))
    assert not [secret for secret in ("box@example", "password", "Work") if secret in caplog.text]


LOST = AccountError(code="authentication_failed", message="Sign in again.", fault="access_revoked")
OTHER = AccountError(code="authentication_failed", message="The SMTP server refused.")


def test_why_a_mailbox_is_not_in_order_is_kept_with_its_name(store: Store) -> None:
    box = Mailbox(store)
    store.accounts.set_status(box.id, "reauth_required", LOST)
    assert store.accounts.get(box.id).error == LOST
    store.accounts.set_status(box.id, "error", OTHER)
    assert store.accounts.get(box.id).error == OTHER
    store.accounts.set_status(box.id, "ready")
    assert store.accounts.get(box.id).error is None


def test_trouble_that_sending_met_ends_with_a_message_that_is_sent(store: Store) -> None:
    box = Mailbox(store)
    store.accounts.set_status(box.id, "ready")
    for error in (OTHER, LOST):
        store.accounts.note_refused_sending(box.id, error)
        assert (store.accounts.get(box.id).status, store.accounts.get(box.id).error) == ("reauth_required", error)
    store.accounts.clear_refused_sending(box.id)
    assert (store.accounts.get(box.id).status, store.accounts.get(box.id).error) == ("ready", None)


def test_trouble_of_reading_outlasts_what_is_sent(store: Store) -> None:
    box = Mailbox(store)
    store.accounts.note_refused_sending(box.id, OTHER)
    store.accounts.set_status(box.id, "reauth_required", LOST)
    store.accounts.note_refused_sending(box.id, OTHER)
    store.accounts.clear_refused_sending(box.id)
    assert (store.accounts.get(box.id).status, store.accounts.get(box.id).error) == ("reauth_required", LOST)


def test_a_new_mailbox(store: Store) -> None:
    ada = add_member(store)
    with store.database.transaction():
        account = store.accounts.add(ada, None, connection("box@example.test"))
    found = store.accounts.get(account)
    assert (found.id, found.email, found.display_name, found.owner_member_id) == (
        account,
        "box@example.test",
        None,
        ada,
    )
    assert (found.status, found.error, found.last_sync_at) == ("connecting", None, None)
    assert (found.shared_with_all, found.granted_member_ids, found.folders) == (False, (), FolderRoles())
    assert found.capabilities == AccountCapabilities()
    assert store.accounts.exists("BOX@example.test", ada)
    assert not store.accounts.exists("box@example.test", add_member(store))
    assert not store.accounts.exists("other@example.test", ada)


def test_what_a_person_mapped_is_shown_until_the_server_tells_what_there_is(store: Store) -> None:
    """This is the state after an upgrade."""
    with store.database.transaction():
        account_id = store.accounts.add(add_member(store), None, connection("box@example.test"))
    store.folders.set_user_mapping(account_id, {"sent": "Gesendet", "spam": None})
    assert store.accounts.get(account_id).folders == FolderRoles(sent="Gesendet")
    store.folders.add_listed(account_id, [ListedFolder(path, "/", frozenset()) for path in ("INBOX", "Sent")])
    assert store.accounts.get(account_id).folders == FolderRoles(sent="Sent"), "it is not there any more"


def test_what_sync_finds_out_is_shown(store: Store, mailbox: Mailbox) -> None:
    store.accounts.set_status(mailbox.id, "reauth_required", AccountError(code="authentication_failed", message="No."))
    store.accounts.set_capabilities(mailbox.id, AccountCapabilities(move=True, idle=True))
    found = store.accounts.get(mailbox.id)
    assert (found.status, found.error) == ("reauth_required", AccountError(code="authentication_failed", message="No."))
    assert found.capabilities == AccountCapabilities(move=True, idle=True)
    assert found.folders == FolderRoles(sent="Sent", spam="Junk")
    store.accounts.set_status(mailbox.id, "ready")
    store.accounts.mark_synced(mailbox.id)
    found = store.accounts.get(mailbox.id)
    assert (found.status, found.error, found.last_sync_at) == ("ready", None, "2026-01-02T03:04:05.678Z")
    store.accounts.set_status("acc_gone", "ready")


def test_who_reaches_a_mailbox(store: Store) -> None:
    owner, friend, stranger = (add_member(store) for _ in range(3))
    private, granted, shared = (Mailbox(store, owner) for _ in range(3))
    grant(store, granted, friend)
    execute(store, "UPDATE accounts SET shared_with_all = 1 WHERE id = ?", (shared.id,))
    reached = {owner: (private.id, granted.id, shared.id), friend: (granted.id, shared.id), stranger: (shared.id,)}
    for member, expected in reached.items():
        assert tuple(account.id for account in store.accounts.list_reachable(member)) == expected
        for mailbox in (private, granted, shared):
            found = store.accounts.find_reachable(mailbox.id, member)
            assert (found is not None) == (mailbox.id in expected)
    assert store.accounts.get(granted.id).granted_member_ids == (friend,)
    assert store.accounts.get(shared.id).shared_with_all
    assert store.accounts.list_ids() == (private.id, granted.id, shared.id)
    assert store.accounts.find_reachable("acc_unknown", owner) is None


def test_removing_takes_all_of_a_mailbox_and_nothing_else(store: Store) -> None:
    kept = Mailbox(store)
    kept.add(1, parsed("<root@x>"))
    before = rows(store)
    gone = Mailbox(store, kept.owner)
    grant(store, gone, add_member(store))
    root = gone.add(1, parsed("<root@x>"))
    assert gone.thread_of(gone.add(2, parsed("<a@x>", references=["<root@x>"]), "Sent")) == gone.thread_of(root)
    assert all(len(rows(store)[table]) > len(before[table]) for table in before)
    with store.database.transaction():
        store.accounts.remove(gone.id)
    assert store.accounts.list_ids() == (kept.id,)
    assert [account.id for account in store.accounts.list_reachable(kept.owner)] == [kept.id]
    store.cleaner.delete_removed_mailboxes()
    assert rows(store) == before
    for ask in (store.accounts.get, store.accounts.get_connection):
        with pytest.raises(NotFound):
            ask(gone.id)
    with pytest.raises(NotFound), store.database.transaction():
        store.accounts.remove(gone.id)
    assert store.folders.get_user_mapping(gone.id) == {}


def test_the_passwords_of_a_removed_mailbox_are_overwritten(store: Store, mailbox: Mailbox) -> None:
    assert store.database.value("PRAGMA secure_delete") == 1


# --- Sign-ins of Google and Outlook mailboxes: storing and replacing them ---


LOGIN = OAuthLogin("outlook", "sales@example.org", "ada@example.org", "first", "smtp")


@pytest.fixture
def account(store: Store) -> str:
    with store.database.transaction(durable=True):
        ada = store.members.add(name="Ada", email="ada@example.org", role="admin", password_hash=None)
        return store.oauth_logins.add(ada.id, "Sales", LOGIN)


def test_how_somebody_signed_in_stays_known(store: Store, account: str) -> None:
    login = replace(LOGIN, by_device=True)
    with store.database.transaction():
        store.oauth_logins.set(account, login)
        store.oauth_logins.confirm(account, "graph")
    assert store.oauth_logins.find(account) == replace(login, sends_via="graph")


def test_what_is_kept(store: Store, account: str) -> None:
    shown = store.accounts.get(account)
    assert (shown.email, shown.display_name, shown.provider, shown.status) == (
        "sales@example.org",
        "Sales",
        "outlook",
        "connecting",
    )
    assert store.oauth_logins.find(account) == LOGIN
    assert "first" not in repr(LOGIN)
    assert LOGIN.is_shared
    assert store.accounts.find_own("SALES@example.org", shown.owner_member_id) == shown
    assert store.accounts.find_own("ada@example.org", shown.owner_member_id) is None


def test_a_token_takes_the_place_of_the_one_that_brought_it_and_of_no_other(store: Store, account: str) -> None:
    logins = store.oauth_logins
    assert logins.replace_token(account, "first", "second")
    assert not logins.replace_token(account, "first", "third")
    assert logins.replace_token(account, "second", "second")
    assert not logins.replace_token("acc_none", "second", "third")
    found = logins.find(account)
    assert found is not None
    assert (found.refresh_token, found.username) == ("second", "ada@example.org")


def test_a_token_that_is_refused_is_told_of_while_it_is_the_one_and_no_longer(store: Store, account: str) -> None:
    error = AccountError(code="authentication_failed", message="Sign in again.", fault="access_revoked")
    assert not store.accounts.note_refused_token(account, "an older one", error)
    assert not store.accounts.note_refused_token("acc_none", "first", error)
    assert store.accounts.get(account).status == "connecting"
    assert store.accounts.note_refused_token(account, "first", error)
    shown = store.accounts.get(account)
    assert (shown.status, shown.error) == ("reauth_required", error)


def test_another_token_is_on_the_disk_before_it_is_used(
    store: Store, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, transaction = list[bool](), store.database.transaction

    def begin(*, durable: bool = False) -> AbstractContextManager[None]:
        begun.append(durable)
        return transaction(durable=durable)

    monkeypatch.setattr(store.database, "transaction", begin)
    assert store.oauth_logins.replace_token(account, "first", "second")
    assert begun == [True]


@pytest.mark.parametrize("anew", [True, False])
def test_signing_in_anew_and_trying_again_forget_the_trouble(anew: bool, store: Store, account: str) -> None:
    error = AccountError(code="authentication_failed", message="Sign in again.", fault="access_revoked")
    logins = store.oauth_logins
    store.accounts.set_status(account, "reauth_required", error)
    with store.database.transaction(durable=True):
        logins.replace_token(account, "first", "second")
        if anew:
            logins.set(account, LOGIN)
        else:
            logins.confirm(account, "graph")
    shown = store.accounts.get(account)
    assert (shown.status, shown.error) == ("connecting", None)
    found = logins.find(account)
    assert found is not None
    assert (found.refresh_token, found.sends_via) == (("first", "smtp") if anew else ("second", "graph"))


def test_one_of_an_upgraded_store_has_no_more_than_the_token(store: Store, account: str) -> None:
    execute(store, "UPDATE accounts SET connection = '{}' WHERE id = ?", (account,))
    found = store.oauth_logins.find(account)
    assert found == OAuthLogin("outlook", "sales@example.org", "sales@example.org", "first", "smtp")
    store.oauth_logins.set_sends_via(account, "graph")
    found = store.oauth_logins.find(account)
    assert found == OAuthLogin("outlook", "sales@example.org", "sales@example.org", "first", "graph")


def test_a_mailbox_that_is_gone_has_none(store: Store, account: str) -> None:
    with store.database.transaction():
        store.accounts.remove(account)
    with pytest.raises(NotFound):
        store.oauth_logins.find(account)
    assert "first" not in str(store.database.rows("SELECT * FROM accounts"))
    assert not store.oauth_logins.replace_token(account, "first", "second")
