"""How mailboxes of Google and Outlook are logged in to: what is kept of it, and what replaces what."""

from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.accounts import AccountError, OAuthLogin
from mailbox_appliance.store.store import Store

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
    with store.database.transaction():
        store.database.change("UPDATE accounts SET connection = '{}' WHERE id = ?", (account,))
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
