"""Mailboxes with a provider sign-in send with tokens; without access, scheduled messages wait for a new sign-in."""

import base64
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.clock import to_timestamp
from tests.servers.desk import a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.signed_in import SignedIn
from tests.servers.smtp_script import Stall

WANTS_ANOTHER = base64.b64encode(b'{"status":"401","schemes":"bearer","scope":"https://mail.google.com/"}').decode()


class TokenSmtp(ScriptedSmtp):
    """An SMTP server that accepts any token."""

    mechanisms = ("PLAIN", "XOAUTH2")

    def takes(self, mechanism: str, given: bytes) -> tuple[str, str]:
        assert mechanism == "XOAUTH2"
        assert b"\x01auth=Bearer access-" in given
        return self.user, ""


@pytest.fixture
def house(tmp_path: Path, mail_server: MailServer) -> Iterator[SignedIn]:
    made = SignedIn(tmp_path, mail_server, "outlook")
    yield made
    made.close()


def send(house: SignedIn, to: str, **more: Any) -> Any:
    return house.desk.send(house.account, a_message(to, **more), a_key())


def test_postfix_takes_a_message_by_token(house: SignedIn) -> None:
    to = house.server.fresh_user()
    sent = send(house, to)
    assert sent.status == 200, sent
    assert sent.data["status"] == "succeeded"
    assert len(house.server.wait_for_messages(to, 1)) == 1


def test_a_token_that_ended_early_costs_no_message(house: SignedIn) -> None:
    to = house.server.fresh_user()
    house.clock.advance(120)
    house.oauth.spoil_access()
    assert send(house, to).data["status"] == "succeeded"
    assert house.renewals == 1
    assert len(house.server.wait_for_messages(to, 1)) == 1


def test_without_access_nobody_gets_it_and_the_sender_is_told_why(house: SignedIn) -> None:
    to, key = house.server.fresh_user(), a_key()
    house.oauth.revoke()
    house.clock.advance(120)
    refused = house.desk.send(house.account, a_message(to), key)
    assert refused.status == 503, refused
    assert "Sign in again. Nobody received the message." in refused.body["error"]["message"]
    lost = house.wait_for("reauth_required")
    assert (lost["error"]["code"], lost["error"]["fault"]) == ("authentication_failed", "access_revoked")
    preview = house.desk.ask("POST", f"/accounts/{house.account}/send/preview", a_message(to))
    assert "needs a new sign-in" in str(preview.body)
    house.sign_in(accountId=house.account)
    again = house.desk.send(house.account, a_message(to), key)  # its key is free
    assert again.data["status"] == "succeeded"
    assert len(house.server.wait_for_messages(to, 1)) == 1


@pytest.mark.parametrize("end", ["revoke", "expire"])
def test_a_scheduled_message_waits_for_the_access_to_be_regained(house: SignedIn, end: str) -> None:
    to = house.server.fresh_user()
    at = to_timestamp(house.clock.now() + timedelta(minutes=30))
    operation = str(send(house, to, sendAt=at).data["operationId"])
    getattr(house.oauth, end)()
    house.clock.advance(1800)
    house.desk.appliance.scheduler.wake()
    house.wait_for("reauth_required")
    house.desk.wait_for(house.account, operation, "queued")
    house.clock.advance(3600 * 3)  # it is tried again at intervals
    house.desk.appliance.scheduler.wake()
    house.sign_in(accountId=house.account)
    house.desk.wait_for(house.account, operation, "succeeded")
    assert len(house.server.wait_for_messages(to, 1)) == 1


def test_an_outage_of_the_provider_is_no_refused_login(house: SignedIn) -> None:
    to, key = house.server.fresh_user(), a_key()
    house.clock.advance(house.oauth.lasts)
    house.oauth.out_of_order()
    out = house.desk.send(house.account, a_message(to), key)
    assert (out.status, out.body["error"]["code"]) == (503, "provider_unavailable")
    assert "sign-in" in out.body["error"]["message"]
    assert house.now["status"] == "ready"
    house.oauth.in_order()
    house.clock.advance(10)
    assert house.desk.send(house.account, a_message(to), key).data["status"] == "succeeded"
    assert len(house.server.wait_for_messages(to, 1)) == 1


def test_what_smtp_alone_refused_is_over_with_the_next_message(tmp_path: Path, mail_server: MailServer) -> None:
    smtp = TokenSmtp()
    smtp.start()
    house = SignedIn(tmp_path, mail_server, smtp=smtp, sending__keep_connection=0)
    try:
        house.clock.advance(120)
        smtp.at("auth", [f"535 5.7.8 {WANTS_ANOTHER}"] * 2)
        refused = send(house, "bob@example.test")
        assert refused.status == 503, refused
        assert house.renewals == 1  # another token was tried
        lost = house.wait_for("reauth_required")
        assert lost["error"]["fault"] == "token_refused"
        assert "SMTP" in lost["error"]["message"]
        assert send(house, "bob@example.test").data["status"] == "succeeded"
        assert (house.now["status"], house.now["error"]) == ("ready", None)
    finally:
        house.close()
        smtp.stop()


def test_a_try_that_ends_after_the_access_was_regained_takes_nothing_back(
    tmp_path: Path, mail_server: MailServer
) -> None:
    smtp = TokenSmtp()
    smtp.start()
    house = SignedIn(tmp_path, mail_server, smtp=smtp)
    try:
        at = to_timestamp(house.clock.now() + timedelta(minutes=30))
        operation = str(send(house, "bob@example.test", sendAt=at).data["operationId"])
        smtp.at("auth", [Stall(f"535 5.7.8 {WANTS_ANOTHER}")])
        before = smtp.count("auth")
        house.clock.advance(1800)
        house.desk.appliance.scheduler.wake()
        smtp.reached("auth", before + 1)
        house.sign_in(accountId=house.account)
        smtp.at("auth", [f"535 5.7.8 {WANTS_ANOTHER}"])  # the other token too
        smtp.release()
        house.nudge_until(lambda: house.desk.delivery(house.account, operation).data["status"] == "succeeded")
        assert len(smtp.messages) == 1
        house.wait_for("ready")
    finally:
        house.close()
        smtp.stop()


def test_a_table_of_providers_that_is_of_no_use_any_more_is_told(house: SignedIn) -> None:
    house.file.write_text("[outlook]\nimap = 7\n")
    refused = send(house, "bob@example.test")
    assert refused.status == 503, refused
    assert house.now["status"] == "ready"


def test_no_token_is_written_down(house: SignedIn, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    house.oauth.revoke()
    house.clock.advance(120)
    said = send(house, "bob@example.test")
    kept = b"".join(file.read_bytes() for file in house.desk.appliance.folder.rglob("*") if file.is_file())
    shown = [vars(record) for record in caplog.records]
    for secret in ("access-", "refresh-", str(house.oauth.app.client_secret), "very own words"):
        assert secret not in f"{shown} {said}"
        assert secret.encode() not in kept
