"""Scheduled sends through the API: accepted, listed, canceled; `tests/sending` has what happens when they are due."""

from email import message_from_bytes
from email.utils import parsedate_to_datetime

import pytest

from mailbox_appliance.clock import from_timestamp
from tests.operations.filled import add_key, add_member
from tests.operations.resting import START, RestingMailbox, at
from tests.servers.desk import a_key, a_message
from tests.servers.fake_clock import FakeClock

BOB = {"email": "bob@example.test"}


def test_a_send_for_later_is_fixed_now(box: RestingMailbox, clock: FakeClock) -> None:
    key, when = a_key(), at(days=2, seconds=0.25)
    body = a_message(subject="Later", cc=[BOB], sendAt=when)
    answer = box.send(body, key)
    delivery = answer.data
    assert (answer.status, delivery["kind"], delivery["status"]) == (202, "scheduled", "queued")
    assert delivery["scheduleId"].startswith("sch_")
    work = box.store.deliveries.get_work(delivery["operationId"])
    message = message_from_bytes(work.wire.read())
    assert parsedate_to_datetime(message["Date"]) == from_timestamp(when).replace(microsecond=0)
    assert work.send_at == from_timestamp(when)

    clock.advance(3600)
    again = box.send(body, key)
    assert (again.status, again.data) == (202, delivery)
    assert box.operations() == 1
    (listed,) = box.ask("GET", "/scheduled").data["items"]
    assert listed == {
        "id": delivery["scheduleId"],
        "accountId": box.id,
        "operationId": delivery["operationId"],
        "sendAt": when,
        "status": "queued",
        "to": [BOB],
        "subject": "Later",
        "createdAt": at(),
    }


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-01-03T04:04:05.9999+01:00", "2026-01-03T03:04:05.999Z"),
        ("2026-01-03t03:04:05z", "2026-01-03T03:04:05.000Z"),
    ],
)
def test_a_time_is_kept_to_the_millisecond(box: RestingMailbox, given: str, kept: str) -> None:
    box.schedule(sendAt=given)
    assert [item["sendAt"] for item in box.ask("GET", "/scheduled").data["items"]] == [kept]


def test_the_soonest_comes_first_and_pages_follow_each_other(box: RestingMailbox) -> None:
    for hours in (3, 1, 2, 1, 5):
        box.schedule(sendAt=at(hours=hours), subject=str(hours))
    pages = list(box.client.pages(f"/accounts/{box.id}/scheduled", 2))
    assert [[item["subject"] for item in page["items"]] for page in pages] == [["1", "1"], ["2", "3"], ["5"]]
    other = box.ask("GET", f"/delivery-operations?cursor={pages[0]['nextCursor']}")
    assert (other.refusal, other.places) == ((400, "invalid_request"), ["query:cursor"])


def test_one_that_is_taken_back(box: RestingMailbox) -> None:
    key = a_key()
    delivery = box.schedule(key).data
    path = f"/scheduled/{delivery['scheduleId']}"
    answer = box.ask("DELETE", path)
    assert (answer.status, answer.data) == (200, {"id": delivery["scheduleId"], "deleted": True})
    assert [warning for warning in answer.warnings if "draft" in warning], "its server cannot be asked"
    (chore,) = box.store.schedule.list_chores(delivery["operationId"])
    assert chore.kind == "keep_draft"
    after = box.ask("GET", f"/delivery-operations/{delivery['operationId']}").data
    assert (after["status"], after["error"]) == ("failed", {"code": "canceled"})
    assert box.ask("GET", "/scheduled").data["items"] == []
    assert box.ask("DELETE", path).status == 200, "a repeated request meets what it wanted"
    replay = box.schedule(key)
    assert (replay.status, replay.data) == (202, after)
    audited = "SELECT count(*) FROM audit_events WHERE action = 'schedule.cancel' AND target_id = ?"
    assert box.store.database.value(audited, (delivery["scheduleId"],)) == 1, "nothing changed the second time"


def test_one_that_is_being_sent_is_not_taken_back(box: RestingMailbox) -> None:
    delivery = box.schedule().data
    assert box.store.deliveries.begin_sending(delivery["operationId"])
    answer = box.ask("DELETE", f"/scheduled/{delivery['scheduleId']}")
    assert answer.refusal == (409, "conflict")
    assert "sending" in answer.message
    assert [item["status"] for item in box.ask("GET", "/scheduled").data["items"]] == ["sending"]
    audited = "SELECT count(*) FROM audit_events WHERE action = 'schedule.cancel'"
    assert box.store.database.value(audited) == 0
    assert box.ask("DELETE", "/scheduled/sch_00000000000000000000000000").refusal == (404, "not_found")


def test_who_sees_and_who_takes_back(box: RestingMailbox) -> None:
    appliance, ada = box.client.appliance, box.client.member["id"]
    delivery = box.schedule().data
    path, one = f"/scheduled/{delivery['scheduleId']}", f"/delivery-operations/{delivery['operationId']}"
    _, reader = add_key(appliance, ada, "mail.read")
    _, sender = add_key(appliance, ada, "mail.send")
    _, elsewhere = add_key(appliance, ada, "mail.read", "mail.send", accounts=[])
    add_member(appliance, "eve")
    box.grant(add_member(appliance, "bob"))
    bob, eve = box.client.log_in("bob@example.org").token, box.client.log_in("eve@example.org").token
    for token in (reader, bob):
        assert len(box.ask("GET", "/scheduled", token=token).data["items"]) == 1
        assert box.ask("GET", one, token=token).data == delivery, "a scheduled one is seen by all who reach the mailbox"
        assert box.ask("GET", "/delivery-operations", token=token).data["items"] == [delivery]
    for token in (elsewhere, eve):
        for method, where in (("GET", "/scheduled"), ("GET", one), ("DELETE", path)):
            assert box.ask(method, where, token=token).refusal == (404, "not_found")
    assert box.ask("GET", "/scheduled", token=sender).refusal == (403, "permission_denied")
    refused = box.ask("DELETE", path, token=reader)
    assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["capability"])
    assert box.ask("DELETE", path, token=bob).status == 200


def test_it_is_never_due_in_the_past(box: RestingMailbox, clock: FakeClock) -> None:
    for wrong in (at(), at(days=366.1), START.isoformat()[:10], 5, None):
        answer = box.send(a_message(sendAt=wrong))
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/sendAt"])
    assert box.send(a_message(sendAt=at(days=366))).status == 202
    clock.advance(86_400)
    assert box.operations() == 1
