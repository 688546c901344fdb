"""Mailboxes of a provider's sign-in are mirrored, lose their access, regain it; each token is looked at for real."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.sync import mailbox
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.signed_in import SignedIn
from tests.sync.mirrored import source


@pytest.fixture
def google(tmp_path: Path, mail_server: MailServer) -> Iterator[SignedIn]:
    made = SignedIn(tmp_path, mail_server)
    yield made
    made.close()


@pytest.fixture
def outlook(tmp_path: Path, mail_server: MailServer) -> Iterator[SignedIn]:
    made = SignedIn(tmp_path, mail_server, "outlook")
    yield made
    made.close()


def subjects(house: SignedIn) -> set[str]:
    found = house.desk.ask("GET", f"/accounts/{house.account}/messages").data["items"]
    return {message["subject"] for message in found}


def arrives(house: SignedIn, subject: str) -> None:
    house.server.deliver(house.user, source(subject))
    house.nudge_until(lambda: subject in subjects(house))


def test_mail_comes_in_by_token_alone(google: SignedIn) -> None:
    assert google.now["provider"] == "google"
    arrives(google, "one")
    # The token that came with the sign-in does for all of it.
    assert [asked.grant for asked in google.oauth.asked if asked.what == "token"] == ["authorization_code"]
    assert google.server.tokens.count >= 3


def test_a_token_that_ended_early_is_replaced_without_a_word(google: SignedIn) -> None:
    google.clock.advance(120)
    google.oauth.spoil_access()
    google.reconnect("ready")
    google.nudge_until(lambda: google.renewals == 1)
    google.wait_for("ready")
    arrives(google, "afterwards")


def test_a_token_is_renewed_before_it_ends(google: SignedIn) -> None:
    google.clock.advance(google.oauth.lasts - 60)
    google.reconnect("ready")
    assert google.renewals == 1


@pytest.mark.parametrize("end", ["revoke", "expire"])
def test_a_mailbox_whose_access_ended_says_so_and_is_regained(outlook: SignedIn, end: str) -> None:
    getattr(outlook.oauth, end)()
    outlook.clock.advance(120)
    lost = outlook.reconnect("reauth_required")
    named = {"revoke": "access_revoked", "expire": "access_expired"}[end]
    assert (lost["error"]["code"], lost["error"]["fault"]) == ("authentication_failed", named)
    assert "Sign in again." in lost["error"]["message"]
    renewals = outlook.renewals
    outlook.server.deliver(outlook.user, source("meanwhile"))
    regained = outlook.sign_in(accountId=outlook.account)
    assert regained["id"] == outlook.account
    outlook.wait_for("ready")
    outlook.nudge_until(lambda: "meanwhile" in subjects(outlook))
    assert outlook.now["error"] is None
    assert outlook.renewals == renewals  # what came with the sign-in is used


def test_an_outage_of_the_provider_takes_no_access_away(google: SignedIn) -> None:
    google.oauth.out_of_order()
    google.reconnect("ready")  # with the token that is good still
    google.clock.advance(google.oauth.lasts)
    out = google.reconnect("error")
    assert out["error"]["code"] == "provider_unavailable"
    google.oauth.in_order()
    google.clock.advance(10)  # which it is left alone for
    google.nudge_until(lambda: google.now["status"] == "ready")
    arrives(google, "afterwards")


def test_a_provider_that_throttles_or_hangs_up_takes_no_access_away(google: SignedIn) -> None:
    google.clock.advance(google.oauth.lasts)
    google.oauth.out_of_order(429, retry_after=3)
    assert google.reconnect("error")["error"]["code"] == "provider_rate_limited"
    google.oauth.in_order()
    google.oauth.hang_up()
    google.clock.advance(61)
    google.nudge_until(lambda: google.now["error"]["code"] == "provider_unavailable")
    google.oauth.in_order()
    google.clock.advance(10)
    google.nudge_until(lambda: google.now["status"] == "ready")


def test_a_refused_application_is_the_administrators_business(google: SignedIn) -> None:
    google.desk.ask("PUT", "/admin/oauth-apps/google", {"clientId": "google-client", "clientSecret": "an older one"})
    google.clock.advance(google.oauth.lasts)
    refused = google.reconnect("error")
    assert refused["error"]["fault"] == "oauth_app_refused"
    assert "client secret" in refused["error"]["message"]
    app = {"clientId": google.oauth.app.client_id, "clientSecret": google.oauth.app.client_secret}
    google.desk.ask("PUT", "/admin/oauth-apps/google", app)
    google.clock.advance(61)
    google.nudge_until(lambda: google.now["status"] == "ready")


def test_a_server_that_refuses_a_fresh_token_asks_for_a_new_login(google: SignedIn) -> None:
    google.server.tokens.ask = lambda _: "somebody.else@example.test"
    google.clock.advance(120)
    refused = google.reconnect("reauth_required")
    assert (refused["error"]["code"], refused["error"]["fault"]) == ("authentication_failed", "token_refused")
    assert google.renewals == 1  # one more token was tried


def test_tokens_that_are_refused_for_a_while_end_nothing(google: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an outage Microsoft's servers say `AUTHENTICATE failed.` to good ones."""
    monkeypatch.setattr(mailbox, "TOKEN_RETRY", 0.2)
    arrives(google, "before")
    google.reconnect("ready")
    ask, google.server.tokens.ask = google.server.tokens.ask, lambda _: None
    google.clock.advance(120)
    google.reconnect("reauth_required")
    google.server.tokens.ask = ask
    google.clock.advance(120)
    google.wait_for("ready")  # nobody tells it to try
    assert google.now["error"] is None


def test_actions_go_by_token_and_survive_its_end(google: SignedIn) -> None:
    arrives(google, "to be read")
    listed = google.desk.ask("GET", f"/accounts/{google.account}/messages").data["items"]
    google.clock.advance(120)
    google.oauth.spoil_access()
    google.desk.appliance.connections.drop(google.account)
    ids = [message["id"] for message in listed]
    done = google.desk.ask(
        "POST", f"/accounts/{google.account}/messages/actions", {"action": "markRead", "messageIds": ids}
    )
    assert done.status == 200, done
    flags = google.server.doveadm("fetch", "-u", google.user, "flags", "mailbox", "INBOX")
    wait_until(lambda: "\\Seen" in flags, lambda: flags, 5)
