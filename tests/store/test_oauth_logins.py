"""How mailboxes of Google and Outlook are logged in to: what is kept of it, and what replaces what."""

from dataclasses import replace

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.records import AccountError, OAuthLogin
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
