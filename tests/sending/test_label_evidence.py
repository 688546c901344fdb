"""At Gmail an uncertain message is found in All Mail by its label, which a draft of it does not have."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.sending import sent_copies
from tests.servers.desk import a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.gmail import Gmail
from tests.servers.labeled_desk import ADDRESS, LabeledDesk
from tests.servers.mailboxes import wait_until
from tests.servers.smtp_script import DROP, Keep


@pytest.fixture
def desk(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabeledDesk]:
    monkeypatch.setattr(sent_copies, "_GLANCE", 0.01)
    with Gmail() as gmail:
        made = LabeledDesk(tmp_path / "data", gmail, clock)
        yield made
        made.close()


def _look(desk: LabeledDesk, clock: FakeClock, operation: str) -> str:
    """Let time pass until a search was made; return the status."""
    store = desk.desk.appliance.store

    def looks() -> tuple[int, str]:
        sql = "SELECT evidence_looks, status FROM delivery_operations WHERE id = ?"
        return tuple(store.database.rows(sql, (operation,))[0])

    before = looks()
    clock.advance(30)
    desk.desk.appliance.scheduler.wake()
    wait_until(lambda: looks() != before, lambda: "nobody looked", 10)
    return looks()[1]


@pytest.mark.parametrize("recipient", ["bob@example.test", ADDRESS])
def test_what_lies_among_all_mail_as_sent_was_taken(desk: LabeledDesk, clock: FakeClock, recipient: str) -> None:
    desk.gmail.smtp.at("reply", Keep(DROP))
    answer = desk.desk.send(desk.account, a_message(recipient))
    assert answer.data["status"] == "uncertain", answer
    assert _look(desk, clock, answer.data["operationId"]) == "succeeded"
    result = desk.desk.delivery(desk.account, answer.data["operationId"]).data["result"]
    desk.wait_until_same()
    assert [each["id"] for each in desk.ask("GET", "/messages?folder=sent").data["items"]] == [result["id"]]
    assert desk.ask("GET", f"/messages/{result['id']}").data["threadId"] == result["threadId"]


def test_a_draft_with_its_message_id_is_no_evidence(desk: LabeledDesk, clock: FakeClock) -> None:
    desk.gmail.smtp.at("reply", DROP)
    answer = desk.desk.send(desk.account, a_message())
    assert answer.data["status"] == "uncertain", answer
    work = desk.desk.appliance.store.deliveries.get_work(answer.data["operationId"])
    desk.box.deliver(work.wire.read(), "\\Draft")
    assert _look(desk, clock, answer.data["operationId"]) == "uncertain"


def test_what_a_person_knows_of_it_holds_while_all_mail_is_hidden(desk: LabeledDesk) -> None:
    desk.gmail.smtp.at("reply", DROP)
    operation = desk.desk.send(desk.account, a_message()).data["operationId"]
    database = desk.desk.appliance.store.database
    with database.transaction():
        database.change("UPDATE folders SET role = NULL WHERE role = 'all'")
    answer = desk.ask("POST", f"/delivery-operations/{operation}/resolve", {"outcome": "succeeded"})
    assert (answer.status, answer.data["status"]) == (200, "succeeded"), answer
