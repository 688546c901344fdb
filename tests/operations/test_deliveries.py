"""Delivery operations through the API: who sees which, and who decides what is uncertain."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailbox_appliance.model.deliveries import Phase
from tests.checked_client import Answer, CheckedClient
from tests.operations.conftest import Mailbox
from tests.operations.filled import add_key, add_member
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.smtp_script import DROP, Keep

AT = "2026-01-02T03:04:05.678Z"


@dataclass
class Shared:
    """A mailbox of Ada's that Bob and Carol reach, and their tokens."""

    id: str
    mailbox: Mailbox
    client: CheckedClient
    tokens: dict[str, str] = field(default_factory=dict)

    def ask(self, who: str, method: str, path: str, body: object = None, **more: Any) -> Answer:
        token = self.tokens.get(who)
        return self.client.ask(method, f"/accounts/{self.id}/{path}", body, token=token, **more)

    def send(self, who: str, key: str | None = None, **fields: Any) -> Any:
        answer = self.ask(who, "POST", "send", a_message(**fields), headers={"Idempotency-Key": key or a_key()})
        return answer.data

    def uncertain(self, who: str, **fields: Any) -> Any:
        """A delivery of which nobody knows whether it was made."""
        self.mailbox.smtp.at("reply", Keep(DROP))
        delivery = self.send(who, **fields)
        self.mailbox.smtp.at("reply", None)
        assert delivery["status"] == "uncertain"
        return delivery

    def see(self, who: str, delivery: Any) -> Answer:
        return self.ask(who, "GET", f"delivery-operations/{delivery['operationId']}")

    def resolve(self, who: str, delivery: Any, outcome: object = "failed") -> Answer:
        path = f"delivery-operations/{delivery['operationId']}/resolve"
        return self.ask(who, "POST", path, {"outcome": outcome})


@pytest.fixture(scope="module")
def tokens(desk: Desk) -> dict[str, str]:
    """What the members come with; `bob's key` is an API key of Bob's."""
    found = {}
    for name in ("bob", "carol", "eve"):
        member = add_member(desk.appliance, name)
        found[name] = CheckedClient(desk.appliance).log_in(f"{name}@example.org").token
        found[f"{name}'s key"] = add_key(desk.appliance, member, "mail.read", "mail.send")[1]
    return found


@pytest.fixture
def shared(asking: CheckedClient, mailbox: Mailbox, tokens: dict[str, str]) -> Shared:
    database = asking.appliance.store.database
    with database.transaction():
        database.change(
            "INSERT OR IGNORE INTO account_grants SELECT ?, id FROM members WHERE name IN ('bob', 'carol')",
            (mailbox.id,),
        )
    return Shared(mailbox.id, mailbox, asking, {"ada": asking.token, **tokens})


def test_a_member_sees_their_own_whatever_they_come_with(shared: Shared) -> None:
    delivery = shared.send("bob's key")
    assert delivery["status"] == "succeeded"
    for who in ("bob", "bob's key"):
        assert shared.see(who, delivery).data == delivery
        assert delivery in shared.ask(who, "GET", "delivery-operations").data["items"]
    for who in ("ada", "carol", "carol's key", "eve"):
        assert shared.see(who, delivery).refusal == (404, "not_found"), who
    for who in ("ada", "carol"):
        assert delivery not in shared.ask(who, "GET", "delivery-operations").data["items"]


def test_the_newest_comes_first_and_pages_follow_each_other(shared: Shared) -> None:
    sent = [shared.send("carol", subject=str(number))["operationId"] for number in range(3)]
    first = shared.ask("carol", "GET", "delivery-operations?limit=2").data
    rest = shared.ask("carol", "GET", f"delivery-operations?limit=1&cursor={first['nextCursor']}").data
    assert [each["operationId"] for each in (*first["items"], *rest["items"])] == sent[::-1]
    wrong = shared.ask("carol", "GET", f"scheduled?cursor={first['nextCursor']}")
    assert (wrong.refusal, wrong.places) == ((400, "invalid_request"), ["query:cursor"])
    no_page = shared.ask("carol", "GET", "delivery-operations?limit=101")
    assert (no_page.refusal, no_page.places) == ((400, "invalid_request"), ["query:limit"])


@pytest.mark.parametrize("who", ["bob", "ada"])
def test_sender_and_owner_decide(shared: Shared, who: str) -> None:
    delivery = shared.uncertain("bob")
    for other, refusal in (("carol", (404, "not_found")), ("eve", (404, "not_found"))):
        assert shared.resolve(other, delivery).refusal == refusal
    assert shared.resolve("bob's key", delivery).refusal == (403, "session_required")
    answer = shared.resolve(who, delivery)
    assert (answer.status, answer.data["status"]) == (200, "failed")
    assert answer.data["error"] == {"code": "resolved_as_failed"}
    assert shared.see("bob", delivery).data == answer.data
    again = shared.resolve(who, delivery, "succeeded")
    assert (again.refusal, "failed" in again.message) == ((409, "conflict"), True)
    database = shared.client.appliance.store.database
    sql = "SELECT action, actor_kind, outcome FROM audit_events WHERE target_id = ?"
    assert database.rows(sql, (delivery["operationId"],)) == [("delivery.resolve_failed", "session", "success")]


def test_of_what_was_sent_after_all_our_copy_is_there_at_once(shared: Shared, mail_server: MailServer) -> None:
    delivery = shared.uncertain("bob", subject="Decided")
    assert "result" not in delivery
    answer = shared.resolve("bob", delivery, "succeeded")
    result = answer.data["result"]
    message = shared.ask("bob", "GET", f"messages/{result['id']}").data
    assert (message["subject"], message["folder"]["role"]) == ("Decided", "sent")
    assert message["threadId"] == result["threadId"]
    wait_until(lambda: copies(mail_server, shared, "Decided") == 1, lambda: "no copy was filed", 10)
    sql = "SELECT action FROM audit_events WHERE target_id = ?"
    rows = shared.client.appliance.store.database.rows(sql, (delivery["operationId"],))
    assert rows == [("delivery.resolve_succeeded",)]


def copies(server: MailServer, shared: Shared, subject: str) -> int:
    return sum(f"Subject: {subject}".encode() in source for source in server.messages(shared.mailbox.email, "Sent"))


def test_a_scheduled_one_is_seen_by_all_and_decided_by_few(shared: Shared) -> None:
    delivery = doubtful(shared)
    assert shared.see("carol", delivery).data["status"] == "uncertain"
    refused = shared.resolve("carol", delivery)
    assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["owner"])
    assert shared.resolve("carol", delivery, "nonsense").refusal == (403, "permission_denied"), "who, before what"
    nonsense = shared.resolve("ada", delivery, "uncertain")
    assert (nonsense.refusal, nonsense.places) == ((400, "invalid_request"), ["/outcome"])
    assert shared.resolve("eve", delivery).refusal == (404, "not_found")
    assert shared.resolve("ada", delivery).data["status"] == "failed"


def doubtful(shared: Shared) -> Any:
    """A scheduled send of Bob's that was handed over, and nobody knows how that ended."""
    delivery = shared.send("bob", sendAt=(datetime.now(UTC) + timedelta(days=9)).isoformat())
    deliveries, operation_id = shared.client.appliance.store.deliveries, delivery["operationId"]
    assert deliveries.begin_sending(operation_id)
    deliveries.enter_phases(operation_id, [(Phase.DOT, AT)])
    deliveries.set_outcome(operation_id, "uncertain")
    return delivery


def test_only_what_is_uncertain_is_decided(shared: Shared) -> None:
    delivery = shared.send("bob")
    assert shared.resolve("bob", delivery).refusal == (409, "conflict")
    unknown = {"operationId": "dlv_00000000000000000000000000"}
    assert shared.resolve("bob", unknown).refusal == (404, "not_found")
    assert shared.see("bob", unknown).refusal == (404, "not_found")
