"""What was in a store of an older release goes on working after its upgrade, through the API and at real servers."""

import email
import email.policy
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.settings import BadSetting
from tests.checked_client import Answer, CheckedClient
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import account_at, wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.stores import make_format_3
from tests.stores.make_format_3 import CONNECTION, SECRETS, SEND, Maker
from tests.stores.opening import FORMATS, copied

SEND_PATH = SEND.removeprefix("/api/v1")
BACK = {"password": "a new password of hers", "deviceName": "phone"}


@dataclass
class Upgraded:
    """An appliance on a store that was just upgraded, by a clock that the test moves, and the secrets of the store."""

    appliance: Appliance
    clock: FakeClock
    client: CheckedClient
    known: dict[str, Any]

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.appliance.scheduler.wake()

    def operations(self) -> dict[str, Any]:
        """What was scheduled, by its id, as its administrator sees it."""
        items = self.client.ask("GET", "/accounts/acc_1/delivery-operations").data["items"]
        return {each["scheduleId"]: each for each in items if "scheduleId" in each}


@pytest.fixture(params=FORMATS)
def upgraded(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Upgraded]:
    """Of either format; its workers rest."""
    folder, known = copied(request.param, tmp_path / "data")
    with opened(folder, known, clock) as found:
        yield found


@contextmanager
def opened(folder: Path, known: dict[str, Any], clock: FakeClock) -> Iterator[Upgraded]:
    away = folder / "providers.toml"  # where nobody answers
    away.write_text("".join(f'[{each}]\ntoken_url = "https://127.0.0.1:1/token"\n' for each in ("google", "outlook")))
    environment = {"MAILBOX_APPLIANCE_REMOTE_PROVIDERS_FILE": str(away)}
    appliance = Appliance(folder, settings.load(folder / "config.toml", environment), clock)
    client = CheckedClient(appliance)
    client.token = known["session"]
    yield Upgraded(appliance, clock, client, known)
    appliance.stop()


# --- who they are -----------------------------------------------------------------------------------------------------


def test_an_old_password_logs_in_and_is_hashed_anew(upgraded: Upgraded) -> None:
    members, login = upgraded.appliance.store.members, {"email": "ada@example.org", "deviceName": "new"}
    assert (members.get_password_hash("mem_1") or "").startswith("scrypt$")
    wrong = upgraded.client.ask("POST", "/auth/login", {**login, "password": "x" * 20}, token="")
    assert wrong.refusal == (401, "invalid_credentials")
    for kind in ("$argon2id$", "$argon2id$"):
        answer = upgraded.client.ask("POST", "/auth/login", {**login, "password": upgraded.known["password"]}, token="")
        assert answer.data["member"]["id"] == "mem_1"
        assert (members.get_password_hash("mem_1") or "").startswith(kind)
    assert not members.has_legacy_passwords()


def test_old_tokens_are_good_and_those_that_were_not_are_not(upgraded: Upgraded) -> None:
    def me(token: str) -> Any:
        return upgraded.client.ask("GET", "/me", token=upgraded.known[token])

    assert me("session").data["member"]["name"] == "Ada Admin"
    key = me("apiKey").data["credential"]
    assert (key["id"], key["kind"], key["accountIds"]) == ("key_1", "api_key", ["acc_1"])
    assert sorted(key["capabilities"]) == ["admin.audit", "mail.read", "mail.send"]
    assert me("readerKey").data["credential"]["capabilities"] == ["mail.read", "admin.members"]
    for token in ("revokedKey", "unusedSession", "usedReset"):
        assert me(token).refusal == (401, "unauthenticated")


def test_the_limits_of_sessions_count_from_the_old_times(upgraded: Upgraded) -> None:
    sessions = {each["id"]: each for each in upgraded.client.ask("GET", "/me/sessions").data}
    assert sessions.keys() == {"ses_1", "ses_2"}  # the third was not used for 31 days
    assert sessions["ses_2"]["expiresAt"] == "2026-01-02T03:18:29.678Z"  # 90 days after its log-in
    upgraded.clock.advance(15 * 60)
    old = upgraded.client.ask("GET", "/me", token=upgraded.known["oldSession"])
    assert old.refusal == (401, "unauthenticated")


def test_an_old_invitation_lets_in_once(upgraded: Upgraded) -> None:
    assert enroll(upgraded).data["member"]["id"] == "mem_3"
    assert enroll(upgraded).refusal == (400, "invalid_token")


def test_an_old_invitation_lets_no_administrator_in(upgraded: Upgraded) -> None:
    """Nobody knows whether an API key was shown it."""
    client = upgraded.client
    assert client.ask("PATCH", "/admin/members/mem_3", {"role": "admin"}).data["invitation"] is None
    assert enroll(upgraded).refusal == (400, "invalid_token")
    assert client.ask("POST", "/admin/members/mem_3/invitation").status == 201


def test_whom_an_old_invitation_let_in_is_no_administrator_until_a_person_did(upgraded: Upgraded) -> None:
    assert enroll(upgraded).status == 200
    assert upgraded.client.ask("PATCH", "/admin/members/mem_3", {"role": "admin"}).refusal == (409, "conflict")
    reset = upgraded.client.ask("POST", "/admin/members/mem_3/password-reset").data["token"]
    body = {"token": reset, "password": "another one of hers", "deviceName": "phone"}
    assert upgraded.client.ask("POST", "/auth/password-reset", body, token="").status == 200
    assert upgraded.client.ask("PATCH", "/admin/members/mem_3", {"role": "admin"}).data["role"] == "admin"


def test_who_was_let_in_before_the_upgrade_may_become_an_administrator(upgraded: Upgraded) -> None:
    """Nobody need reset a password that was chosen then."""
    assert not upgraded.appliance.store.one_time_tokens.is_password_known_to_key("mem_1")


def test_an_old_invitation_makes_nobody_another_administrator(upgraded: Upgraded) -> None:
    store = upgraded.appliance.store
    with store.database.transaction():
        store.members.update("mem_3", role="admin")
    assert upgraded.client.ask("PATCH", "/admin/members/mem_1", {"role": "member"}).refusal == (409, "last_admin")
    with store.database.transaction():
        store.one_time_tokens.issue("invitation", "mem_3", "hash", timedelta(days=7))
    assert upgraded.client.ask("PATCH", "/admin/members/mem_1", {"role": "member"}).status == 200


def enroll(upgraded: Upgraded) -> Answer:
    """Take the old invitation of mem_3 up."""
    return upgraded.client.ask("POST", "/auth/enroll", {"token": upgraded.known["invitation"], **BACK}, token="")


# --- what they asked for ----------------------------------------------------------------------------------------------


def test_a_stored_answer_is_given_again_for_its_24_hours(upgraded: Upgraded) -> None:
    def send(key: str, body: Any) -> Any:
        header = {"Idempotency-Key": key}
        return upgraded.client.ask("POST", SEND_PATH, body, token=upgraded.known["apiKey"], headers=header)

    bodies = upgraded.known["legacyRequests"]
    for number in (1, 2):
        answer = send(f"legacy-{number}", bodies[f"legacy-{number}"])
        assert answer.data == {"id": f"old-{number}", "threadId": f"old-thread-{number}"}
        assert (answer.status, answer.headers["idempotency-replayed"]) == (200, "true")
    other = bodies["legacy-1"] | {"subject": "other"}
    assert send("legacy-1", other).refusal == (409, "idempotency_conflict")
    # Older than 24 hours, or from the moment that they are over: what comes is a request like any other.
    later = {"sendAt": "2026-01-09T00:00:00.000Z"}
    assert send("legacy-3", bodies["legacy-3"] | later).status == 202
    upgraded.clock.advance(3600)
    assert send("legacy-2", bodies["legacy-2"] | later).status == 202


def test_what_was_scheduled_is_listed_and_can_be_canceled(upgraded: Upgraded) -> None:
    items = upgraded.client.ask("GET", "/accounts/acc_1/scheduled").data["items"]
    assert (items[0]["id"], items[0]["subject"]) == ("sch_1", "later")
    assert items[0]["sendAt"] == "2026-01-02T04:04:05.678Z"
    assert items[0]["to"] == [{"email": "bob@example.org", "name": "Bob"}]
    upgraded.client.ask("DELETE", "/accounts/acc_1/scheduled/sch_1")
    assert upgraded.operations()["sch_1"]["error"] == {"code": "canceled"}


def test_operations_that_are_over_say_how_they_ended(tmp_path: Path, clock: FakeClock) -> None:
    with opened(*copied(3, tmp_path / "data"), clock) as old:
        found = old.operations()
        assert found["sch_2"]["result"] == {"id": "old-sent", "threadId": "old-sent"}
        assert found["sch_3"]["error"] == {"code": "message_rejected"}
        assert (found["sch_4"]["status"], found["sch_4"]["error"]) == ("failed", {"code": "canceled"})


# --- what they look after ---------------------------------------------------------------------------------------------


def test_settings_that_are_not_known_are_kept_and_shown(upgraded: Upgraded) -> None:
    found = upgraded.client.ask("GET", "/admin/settings").data
    assert found["attachments"] == {"maxBytes": 26214400}
    assert (found["remote.timeout"], upgraded.appliance.settings.number("remote.timeout")) == (45, 45)
    upgraded.client.ask("PATCH", "/admin/settings", {"remote.timeout": 46})
    assert upgraded.client.ask("GET", "/admin/settings").data["attachments"] == {"maxBytes": 26214400}


def test_the_audit_log_is_there_and_whole(upgraded: Upgraded) -> None:
    items = upgraded.client.ask("GET", "/admin/audit-events?limit=100").data["items"]
    assert (items[0]["action"], items[0]["actor"]["kind"]) == ("store.upgrade", "system")
    assert items[-1]["id"] == "aud_1"
    assert {"aud_3", "aud_7", "aud_8"}.isdisjoint(each["id"] for each in items)
    assert upgraded.client.ask("GET", "/admin/audit-events/verify").data["ok"]
    assert upgraded.client.ask("GET", "/me/audit-events").data["items"]


def test_applications_and_members_are_shown(upgraded: Upgraded) -> None:
    apps = upgraded.client.ask("GET", "/admin/oauth-apps").data
    google, outlook = apps["google"], apps["outlook"]
    assert (google["clientId"], google["clientSecretConfigured"]) == ("client.apps.example", True)
    assert (outlook["clientId"], outlook["tenantId"], outlook["clientSecretConfigured"]) == (
        "0000-client",
        "contoso",
        False,
    )
    members = {each["id"]: each for each in upgraded.client.ask("GET", "/admin/members").data}
    assert (members["mem_1"]["email"], members["mem_2"]["status"]) == ("Ada@Example.org", "suspended")
    keys = {each["id"]: each for each in upgraded.client.ask("GET", "/admin/api-keys").data}
    assert keys.keys() == {"key_1", "key_2"}
    custom = (each for each in keys.values() if each["permissionProfile"] == "custom")
    for key in custom:
        admin = [one for one in key["capabilities"] if one.startswith("admin.")]
        assert key["supplementalCapabilities"] == admin


def test_mailboxes_whose_provider_is_away_hold_nothing_up(upgraded: Upgraded) -> None:
    upgraded.appliance.start()

    def states() -> dict[str, Any]:
        return {each["id"]: each for each in upgraded.client.ask("GET", "/accounts").data}

    wait_until(lambda: states()["acc_2"]["status"] == "error", lambda: str(states()), 10)
    assert states()["acc_2"]["error"]["code"] == "provider_unavailable"
    assert states().keys() == {"acc_1", "acc_2"}  # the third is not hers
    body = {"imap": account_at("a", 1, 1)["imap"]}
    refused = upgraded.client.ask("POST", "/accounts/acc_2/reconnect", body)
    assert refused.refusal == (422, "unsupported_capability")
    assert upgraded.client.ask("GET", "/status").data["accounts"]
    key, message = {"Idempotency-Key": "a-key"}, {"to": [{"email": "bob@example.org"}], "body": {"text": "hi"}}
    sent = upgraded.client.ask("POST", "/accounts/acc_2/send", message, headers=key)
    assert sent.refusal == (503, "provider_unavailable")


def test_an_old_configuration_with_settings_that_are_not_known_says_so(tmp_path: Path) -> None:
    folder, _ = copied(3, tmp_path / "data")
    (folder / "config.toml").write_text("[server]\nport = 8025\nthreads = 9\n")
    with pytest.raises(BadSetting, match=r"unknown setting server\.threads"):
        settings.load(folder / "config.toml", {})


# --- what is sent -----------------------------------------------------------------------------------------------------


def redirected(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Have the old store's mailbox lie at other servers."""
    connection = json.loads(json.dumps(CONNECTION))
    change(connection)
    database = sqlite3.connect(folder / "mailbox.db")
    database.execute("UPDATE accounts SET connection = ? WHERE id = 'acc_1'", (json.dumps(connection),))
    database.commit()
    database.close()


@pytest.mark.parametrize("number", FORMATS)
def test_what_was_scheduled_is_sent_once_at_its_time(number: int, tmp_path: Path, clock: FakeClock) -> None:
    folder, known = copied(number, tmp_path / "data")
    smtp = ScriptedSmtp(user="ada", password=known["smtpPassword"]).start()
    redirected(folder, lambda servers: servers["smtp"].update(port=smtp.port))
    try:
        with opened(folder, known, clock) as old:
            old.appliance.start()
            old.pass_time(3599)
            assert smtp.messages == ()
            old.pass_time(1)
            hard = {3: "sch_5", 4: "sch_7"}[number]
            old.clock.advance(3600)
            old.appliance.scheduler.wake()
            waited = {"sch_1", hard} | ({"sch_8"} if number == 4 else set())
            wait_until(lambda: sent(old) >= waited, lambda: str(old.operations()), 10)
            old.pass_time(3600)
        _is_as_it_was(smtp, len(waited))
    finally:
        smtp.stop()


def sent(old: Upgraded) -> set[str]:
    return {name for name, each in old.operations().items() if each["status"] == "succeeded"}


def _is_as_it_was(smtp: ScriptedSmtp, count: int) -> None:
    """Each went out once; the hard one without its Bcc, in 7 bits, with a date; the plain one as it was, but dated."""
    assert len(smtp.messages) == count
    by_recipients = {each.recipients: each for each in smtp.messages}
    hard = by_recipients["bob@example.org", "eve@example.org"].source
    read = email.message_from_bytes(hard, policy=email.policy.default)
    assert hard.isascii()
    assert (read["Subject"], read["Bcc"]) == ("Grüße ☂", None)
    assert read["Date"] == "Fri, 02 Jan 2026 05:04:05 +0000"
    assert read.get_content().splitlines() == ["Schöne Grüße", ".", "from Ada"]
    plain = next(each.source for each in smtp.messages if each.message_id == "later-1@example.org")
    assert plain.replace(b"Date: Fri, 02 Jan 2026 04:04:05 +0000\r\n", b"") == make_format_3.PLAIN % 1


def test_what_its_sender_lost_the_right_to_is_not_sent(tmp_path: Path, clock: FakeClock) -> None:
    """The operations of format 3 name no credential: their member is judged."""
    folder, known = copied(3, tmp_path / "data")
    database = sqlite3.connect(folder / "mailbox.db")
    database.execute("UPDATE scheduled_sends SET member_id = 'mem_2' WHERE id = 'sch_1'")  # who is suspended
    database.execute("UPDATE scheduled_sends SET member_id = 'mem_4' WHERE id = 'sch_5'")  # who has no grant
    database.commit()
    database.close()
    with opened(folder, known, clock) as old:
        old.appliance.start()
        old.pass_time(2 * 3600)
        wait_until(lambda: ended(old) == {"sch_1", "sch_5"}, lambda: str(old.operations()), 10)


def ended(old: Upgraded) -> set[str]:
    lost = {"code": "permission_revoked"}
    return {name for name, each in old.operations().items() if each.get("error") == lost}


def test_what_was_scheduled_arrives_and_is_filed(mail_server: MailServer, tmp_path: Path, clock: FakeClock) -> None:
    user = mail_server.fresh_user()
    known = make_format_3.make(tmp_path / "data", now=clock.now())
    with opened(_at_real_servers(tmp_path / "data", mail_server, user), known, clock) as old:
        old.appliance.start()
        wait_until(lambda: status(old) == "ready", lambda: status(old), 10)
        old.pass_time(timedelta(hours=1).total_seconds())
        wait_until(lambda: "sch_1" in sent(old), lambda: str(old.operations()), 10)
        wait_until(lambda: len(mail_server.messages(user, "INBOX")) == 1, lambda: "nothing came", 10)
        wait_until(lambda: len(mail_server.messages(user, "Sent")) == 1, lambda: "nothing was filed", 10)
    assert len(mail_server.messages(user, "INBOX")) == 1


def status(old: Upgraded) -> str:
    return str(old.client.ask("GET", "/accounts/acc_1").data["status"])


def _at_real_servers(folder: Path, server: MailServer, user: str) -> Path:
    """Ada's mailbox is this user's, and what she scheduled is from and to them."""
    made = Maker.again(folder)
    passwords = made.seal("accounts", "acc_1", "sealed_secret", '{"imapPassword": "secret", "smtpPassword": "secret"}')
    assert SECRETS["imapPassword"] != "secret"
    made.database.execute("UPDATE accounts SET email = ?, sealed_secret = ? WHERE id = 'acc_1'", (user, passwords))
    envelope = json.dumps({"from": user, "recipients": [user]})
    made.database.execute("UPDATE scheduled_sends SET envelope = ?", (envelope,))
    made.database.execute("UPDATE accounts SET folders = '{}'")
    made.close()

    def change(servers: dict[str, Any]) -> None:
        servers["imap"].update(port=server.imap_port, username=user)
        servers["smtp"].update(port=server.submission_port, username=user)

    redirected(folder, change)
    return folder
