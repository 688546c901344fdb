"""What was scheduled through the API, when its time has come: who asked for it must still be allowed to."""

import email
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.checked_client import CheckedClient
from tests.operations.conftest import Mailbox
from tests.operations.filled import add_key, add_member
from tests.operations.resting import at
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp


@dataclass
class Later:
    """A mailbox of Ada's at an appliance whose clock the test moves."""

    desk: Desk
    clock: FakeClock
    client: CheckedClient
    mailbox: Mailbox

    def schedule(self, token: str | None = None, **fields: Any) -> Any:
        body = a_message(**{"sendAt": at(hours=1), **fields})
        path, header = f"/accounts/{self.mailbox.id}/send", {"Idempotency-Key": a_key()}
        return self.client.ask("POST", path, body, token=token, headers=header).data

    def change(self, sql: str, *values: str) -> None:
        database = self.desk.appliance.store.database
        with database.transaction(durable=True):
            database.change(sql, values)

    def member(self, name: str) -> str:
        """A member who reaches the mailbox."""
        member = add_member(self.desk.appliance, name)
        self.change("INSERT INTO account_grants VALUES (?, ?)", self.mailbox.id, member)
        return member

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.desk.appliance.scheduler.wake()

    def wait_for_chores(self) -> None:
        """Until nothing is left to be done at the mail server after what is over."""
        left = "SELECT operation, kind FROM delivery_chores"
        database = self.desk.appliance.store.database
        wait_until(lambda: database.rows(left) == [], lambda: str(database.rows(left)), 10)

    def end_of(self, delivery: Any) -> Any:
        """The operation once it waits no more."""
        path = f"/accounts/{self.mailbox.id}/delivery-operations/{delivery['operationId']}"
        wait_until(
            lambda: self.client.ask("GET", path).data["status"] not in ("queued", "sending"),
            lambda: str(self.client.ask("GET", path).data),
            10,
        )
        return self.client.ask("GET", path).data


@pytest.fixture
def later(tmp_path: Path, clock: FakeClock, mail_server: MailServer) -> Iterator[Later]:
    desk = Desk(tmp_path / "later", clock, sending__answer_within=20)
    user = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port)
    client = CheckedClient(desk.appliance)
    client.token = desk.token
    yield Later(desk, clock, client, Mailbox(account, user, smtp))
    desk.close()
    smtp.stop()


@pytest.mark.parametrize("action", ["trash", "delete"])
@pytest.mark.parametrize("is_canceled", [True, False])
def test_a_draft_that_is_lost_while_it_waits_is_kept_when_it_is_not_sent(
    later: Later, mail_server: MailServer, action: str, is_canceled: bool
) -> None:
    path = f"/accounts/{later.mailbox.id}"
    draft = later.client.ask("POST", f"{path}/drafts", a_message(subject="Saved")).data["id"]
    body, header = {"draftId": draft, "sendAt": at(hours=1)}, {"Idempotency-Key": a_key()}
    delivery = later.client.ask("POST", f"{path}/send", body, headers=header).data
    answer = later.client.ask("POST", f"{path}/messages/actions", {"action": action, "messageIds": [draft]})
    assert answer.data["succeededIds"] == [draft]
    assert mail_server.messages(later.mailbox.email, "Drafts") == []
    if is_canceled:
        canceled = later.client.ask("DELETE", f"{path}/scheduled/{delivery['scheduleId']}")
        assert (canceled.status, canceled.warnings) == (200, [])
    else:
        later.mailbox.smtp.recipients["bob@example.test"] = "550 5.1.1 no"
        later.pass_time(3600)
        assert later.end_of(delivery)["error"] == {"code": "recipient_rejected"}
        later.wait_for_chores()
    (kept,) = later.client.ask("GET", f"{path}/drafts").data["items"]
    assert kept["subject"] == "Saved"
    (source,) = mail_server.messages(later.mailbox.email, "Drafts")
    assert email.message_from_bytes(source)["Date"].startswith("Fri, 02 Jan 2026 0")


Undo = Callable[[Later], None]


def _revoke(later: Later) -> None:
    later.change(
        "UPDATE api_keys SET revoked_at = ? WHERE member_id IN (SELECT id FROM members WHERE name = 'bob')", at()
    )


def _narrow(later: Later) -> None:
    later.change("UPDATE api_keys SET account_ids = '[]'")


def _weaken(later: Later) -> None:
    later.change("UPDATE api_keys SET capabilities = '[\"mail.read\"]'")


def _ungrant(later: Later) -> None:
    nobody = {"sharedWithAll": False, "memberIds": []}
    assert later.client.ask("PUT", f"/accounts/{later.mailbox.id}/access", nobody).status == 200


def _suspend(later: Later) -> None:
    assert later.client.ask("PATCH", _bob(later), {"status": "suspended"}).status == 200


def _remove(later: Later) -> None:
    assert later.client.ask("DELETE", _bob(later)).status == 200


def _bob(later: Later) -> str:
    (bob,) = (one["id"] for one in later.client.ask("GET", "/admin/members").data if one["name"] == "bob")
    return f"/admin/members/{bob}"


@pytest.mark.parametrize(
    ("undo", "is_kept"),
    [(_revoke, True), (_narrow, True), (_weaken, True), (_ungrant, False), (_suspend, False), (_remove, False)],
)
def test_who_may_not_send_any_more_does_not(later: Later, undo: Undo, is_kept: bool) -> None:
    _, key = add_key(later.desk.appliance, later.member("bob"), "mail.send")
    denied, allowed = later.schedule(key, subject="denied"), later.schedule(subject="allowed")
    undo(later)
    later.pass_time(3600)
    ended = later.end_of(denied)
    assert (ended["status"], ended["error"]) == ("failed", {"code": "permission_revoked"})
    assert later.end_of(allowed)["status"] == "succeeded"
    (message,) = later.mailbox.smtp.messages
    assert email.message_from_bytes(message.source)["Subject"] == "allowed"
    # Whoever lost the mailbox itself leaves nothing behind in it, which is told.
    later.wait_for_chores()
    drafts = later.client.ask("GET", f"/accounts/{later.mailbox.id}/drafts").data["items"]
    assert [draft["subject"] for draft in drafts] == (["denied"] if is_kept else [])
    path = f"/accounts/{later.mailbox.id}/delivery-operations/{denied['operationId']}"
    warnings = later.client.ask("GET", path).warnings
    assert [warning.partition(",")[0] for warning in warnings] == (
        [] if is_kept else ["The message was not saved as a draft"]
    )


def test_what_the_owner_of_a_mailbox_wrote_is_kept_in_it(later: Later) -> None:
    _, key = add_key(
        later.desk.appliance, later.desk.appliance.store.database.value("SELECT id FROM members"), "mail.send"
    )
    delivery = later.schedule(key, subject="Mine")
    later.change("UPDATE api_keys SET revoked_at = ?", at())
    later.pass_time(3600)
    assert later.end_of(delivery)["error"] == {"code": "permission_revoked"}
    later.wait_for_chores()
    (kept,) = later.client.ask("GET", f"/accounts/{later.mailbox.id}/drafts").data["items"]
    assert kept["subject"] == "Mine"


def test_what_somebody_wrote_in_a_mailbox_that_is_shared_with_all_is_kept_in_it(later: Later) -> None:
    everybody = {"sharedWithAll": True, "memberIds": []}
    assert later.client.ask("PUT", f"/accounts/{later.mailbox.id}/access", everybody).status == 200
    _, key = add_key(later.desk.appliance, add_member(later.desk.appliance, "bob"), "mail.send")
    delivery = later.schedule(key, subject="Mine")
    _revoke(later)
    later.pass_time(3600)
    assert later.end_of(delivery)["error"] == {"code": "permission_revoked"}
    later.wait_for_chores()
    (kept,) = later.client.ask("GET", f"/accounts/{later.mailbox.id}/drafts").data["items"]
    assert kept["subject"] == "Mine"
    path = f"/accounts/{later.mailbox.id}/delivery-operations/{delivery['operationId']}"
    assert later.client.ask("GET", path).warnings == []


def test_a_session_that_has_ended_is_no_right_that_was_taken_away(later: Later) -> None:
    later.member("bob")
    bob = CheckedClient(later.desk.appliance).log_in("bob@example.org")
    delivery = later.schedule(bob.token)
    bob.ask("POST", "/auth/logout")
    later.pass_time(3600)
    assert later.end_of(delivery)["status"] == "succeeded"


@pytest.mark.parametrize("undo", [_suspend, _remove])
def test_what_a_session_planned_is_not_sent_for_a_member_who_is_out(later: Later, undo: Undo) -> None:
    later.member("bob")
    delivery = later.schedule(CheckedClient(later.desk.appliance).log_in("bob@example.org").token)
    undo(later)
    later.pass_time(3600)
    assert later.end_of(delivery)["error"] == {"code": "permission_revoked"}
    assert later.mailbox.smtp.messages == ()


def test_it_goes_at_its_time_as_it_was_accepted(later: Later, mail_server: MailServer) -> None:
    draft = later.client.ask("POST", f"/accounts/{later.mailbox.id}/drafts", a_message(subject="Saved")).data["id"]
    path, header = f"/accounts/{later.mailbox.id}/send", {"Idempotency-Key": a_key()}
    body = {"draftId": draft, "sendAt": at(hours=2)}
    delivery = later.client.ask("POST", path, body, headers=header).data
    later.pass_time(7199)
    assert later.mailbox.smtp.count("mail") == 0
    later.pass_time(1)
    assert later.end_of(delivery)["status"] == "succeeded"
    (message,) = later.mailbox.smtp.messages
    assert email.message_from_bytes(message.source)["Date"] == "Fri, 02 Jan 2026 05:04:05 +0000"
    wait_until(
        lambda: mail_server.messages(later.mailbox.email, "Drafts") == [], lambda: "the draft is still there", 10
    )
    replay = later.client.ask("POST", path, body, headers=header)
    assert (replay.status, replay.data["status"]) == (202, "succeeded")


def test_one_that_is_taken_back_is_a_draft_at_once(later: Later) -> None:
    delivery = later.schedule(subject="Not yet", bcc=[{"email": "di@example.test"}])
    answer = later.client.ask("DELETE", f"/accounts/{later.mailbox.id}/scheduled/{delivery['scheduleId']}")
    assert (answer.status, answer.warnings) == (200, [])
    (draft,) = later.client.ask("GET", f"/accounts/{later.mailbox.id}/drafts").data["items"]
    assert (draft["subject"], draft["bcc"]) == ("Not yet", [{"email": "di@example.test"}])
    later.pass_time(3600)
    assert later.end_of(delivery)["error"] == {"code": "canceled"}
    assert later.mailbox.smtp.messages == ()


def test_the_mailbox_is_gone_by_then(later: Later) -> None:
    later.schedule()
    later.client.ask("DELETE", f"/accounts/{later.mailbox.id}")
    later.pass_time(3600)
    found = later.desk.appliance.store.database.rows("SELECT status, error_code FROM delivery_operations")
    assert found == [("failed", "account_removed")]
    assert later.mailbox.smtp.messages == ()
