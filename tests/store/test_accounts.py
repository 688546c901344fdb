"""Mailboxes: how they are reached, by whom, and that nothing of one is left when it is removed."""

import logging

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.accounts import AccountCapabilities, AccountError, MappedFolders
from mailbox_appliance.model.sync import ListedFolder
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox, add_member, connection, parsed


def grant(store: Store, mailbox: Mailbox, member: str) -> None:
    with store.database.transaction():
        store.database.change("INSERT INTO account_grants VALUES (?, ?)", (mailbox.id, member))


def rows(store: Store) -> dict[str, set[tuple[object, ...]]]:
    """All rows of the tables that hold something of a mailbox."""
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
    assert (found.shared_with_all, found.granted_member_ids, found.folders) == (False, (), MappedFolders())
    assert found.capabilities == AccountCapabilities()
    assert store.accounts.exists("BOX@example.test", ada)
    assert not store.accounts.exists("box@example.test", add_member(store))
    assert not store.accounts.exists("other@example.test", ada)


def test_what_a_person_mapped_is_shown_until_the_server_tells_what_there_is(store: Store) -> None:
    """As after an upgrade."""
    with store.database.transaction():
        account_id = store.accounts.add(add_member(store), None, connection("box@example.test"))
    store.folders.set_user_mapping(account_id, {"sent": "Gesendet", "spam": None})
    assert store.accounts.get(account_id).folders == MappedFolders(sent="Gesendet")
    store.folders.add_listed(account_id, [ListedFolder(path, "/", frozenset()) for path in ("INBOX", "Sent")])
    assert store.accounts.get(account_id).folders == MappedFolders(sent="Sent"), "it is not there any more"


def test_what_sync_finds_out_is_shown(store: Store, mailbox: Mailbox) -> None:
    store.accounts.set_status(mailbox.id, "reauth_required", AccountError(code="authentication_failed", message="No."))
    store.accounts.set_capabilities(mailbox.id, AccountCapabilities(move=True, idle=True))
    found = store.accounts.get(mailbox.id)
    assert (found.status, found.error) == (
        "reauth_required",
        AccountError(code="authentication_failed", message="No."),
    )
    assert found.capabilities == AccountCapabilities(move=True, idle=True)
    assert found.folders == MappedFolders(sent="Sent", spam="Junk")
    store.accounts.set_status(mailbox.id, "ready")
    store.accounts.mark_synced(mailbox.id)
    found = store.accounts.get(mailbox.id)
    assert (found.status, found.error, found.last_sync_at) == ("ready", None, "2026-01-02T03:04:05.678Z")
    store.accounts.set_status("acc_gone", "ready")


def test_who_reaches_a_mailbox(store: Store) -> None:
    owner, friend, stranger = (add_member(store) for _ in range(3))
    private, granted, shared = (Mailbox(store, owner) for _ in range(3))
    grant(store, granted, friend)
    with store.database.transaction():
        store.database.change("UPDATE accounts SET shared_with_all = 1 WHERE id = ?", (shared.id,))
    reached = {
        owner: (private.id, granted.id, shared.id),
        friend: (granted.id, shared.id),
        stranger: (shared.id,),
    }
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
