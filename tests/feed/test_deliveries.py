"""Events of deliveries: each state once the ID is shown, with the operation as a lookup shows it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.console.house import Box, House
from tests.feed.conftest import letter
from tests.feed.following import all_events, events
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import DROP, ScriptedSmtp

TO = {"to": [{"email": "eve@example.org"}], "subject": "Hello", "body": {"text": "Hello"}}
LATER = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def smtp() -> Iterator[ScriptedSmtp]:
    server = ScriptedSmtp().start()
    yield server
    server.stop()


class Sending:
    """A mailbox that sends by a scripted server, and what is told of its deliveries."""

    def __init__(self, house: House, smtp: ScriptedSmtp) -> None:
        self.house, self.box = house, house.connect(house.add_member("sender"), letter("first"), smtp=smtp)
        self.position = events(house.running, self.box.owner.token)["nextPosition"]

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        """Ask for something in the mailbox."""
        return self.house.ask(self.box.owner, method, f"/accounts/{self.box.id}{path}", body, **headers).data

    def told(self, reader: Box | None = None) -> list[dict[str, Any]]:
        """The data of all events of deliveries, as the sender or another reader sees them."""
        token = (reader or self.box).owner.token
        found = all_events(self.house.running, token, self.position, types="delivery.updated", limit=100)
        assert all(one["accountId"] == self.box.id for one in found)
        return [one["data"] for one in found]

    def wait_for(self, *statuses: str) -> dict[str, Any]:
        """Wait for exactly these states, each as it is now; return what a lookup shows, which the last event has."""
        wait_until(lambda: len(self.told()) >= len(statuses), lambda: str(self.told()), 10)
        found = self.told()
        assert len(found) == len(statuses), found
        shown: dict[str, Any] = self.ask("GET", f"/delivery-operations/{found[-1]['operationId']}")
        assert (found[-1], shown["status"]) == (shown, statuses[-1])
        return shown


@pytest.fixture
def sending(house: House, smtp: ScriptedSmtp) -> Sending:
    return Sending(house, smtp)


def test_a_send_that_is_accepted(sending: Sending) -> None:
    answer = sending.ask("POST", "/send", TO, Idempotency_Key="one")
    shown = sending.wait_for("succeeded")
    assert (shown["operationId"], shown["kind"]) == (answer["operationId"], "send")
    again = sending.ask("POST", "/send", TO, Idempotency_Key="one")
    assert again["operationId"] == answer["operationId"]
    sending.wait_for("succeeded")  # a repeated request is no event


def test_a_send_that_is_refused(sending: Sending, smtp: ScriptedSmtp) -> None:
    smtp.recipients["eve@example.org"] = "550 5.1.1 no such user"
    sending.ask("POST", "/send", TO, Idempotency_Key="one")
    assert sending.wait_for("failed")["error"]["code"] == "recipient_rejected"


def test_a_send_that_nobody_answers_is_uncertain_until_it_is_resolved(sending: Sending, smtp: ScriptedSmtp) -> None:
    smtp.at("dot", DROP)
    sending.ask("POST", "/send", TO, Idempotency_Key="one")
    operation = sending.wait_for("uncertain")["operationId"]
    sending.ask("POST", f"/delivery-operations/{operation}/resolve", {"outcome": "failed"})
    sending.wait_for("uncertain", "failed")


def test_a_send_that_nobody_got_and_nobody_saw_is_not_told_of(sending: Sending, smtp: ScriptedSmtp) -> None:
    smtp.at("mail", "451 4.3.0 later")
    answer = sending.house.ask(sending.box.owner, "POST", f"/accounts/{sending.box.id}/send", TO, Idempotency_Key="one")
    assert answer.status == 503
    assert sending.told() == []


def test_a_forward_and_a_draft_that_is_sent(sending: Sending) -> None:
    (first,) = sending.house.messages(sending.box)
    sending.ask("POST", f"/messages/{first['id']}/forward", {"to": TO["to"]}, Idempotency_Key="one")
    assert sending.wait_for("succeeded")["kind"] == "forward"
    draft = sending.ask("POST", "/drafts", TO)
    sending.ask("POST", "/send", {"draftId": draft["id"]}, Idempotency_Key="two")
    assert sending.wait_for("succeeded", "succeeded")["kind"] == "send"


def test_a_scheduled_send_is_told_of_while_it_waits_and_when_it_is_canceled(sending: Sending) -> None:
    waiting = sending.ask("POST", "/send", TO | {"sendAt": LATER}, Idempotency_Key="one")
    assert sending.wait_for("queued")["scheduleId"] == waiting["scheduleId"]
    sending.ask("DELETE", f"/scheduled/{waiting['scheduleId']}")
    assert sending.wait_for("queued", "failed")["error"]["code"] == "canceled"


def test_others_are_told_of_what_they_may_look_up(sending: Sending) -> None:
    """A mailbox that is shared shows its scheduled sends to all of them, and other sends to their sender."""
    house, other = sending.house, sending.house.add_member("other")
    reader = Box(sending.box.id, sending.box.email, other)
    assert sending.ask("PUT", "/access", {"sharedWithAll": False, "memberIds": [other.id]})
    sending.ask("POST", "/send", TO, Idempotency_Key="one")
    waiting = sending.ask("POST", "/send", TO | {"sendAt": LATER}, Idempotency_Key="two")
    assert [one["operationId"] for one in sending.told(reader)] == [waiting["operationId"]]
    for one in sending.told():
        path = f"/accounts/{reader.id}/delivery-operations/{one['operationId']}"
        assert (house.ask(other, "GET", path).status == 200) == (one in sending.told(reader))
