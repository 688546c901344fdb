"""Deliveries as people look at them: of all mailboxes, with what was sent to whom, and each step that one went."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.store.delivery_queries import _ENTRY_NUMBERS
from tests.checked_client import Answer, CheckedClient
from tests.operations.conftest import Mailbox
from tests.operations.filled import FilledMailbox, add_key, add_member
from tests.servers.desk import a_key, a_message
from tests.servers.mailboxes import wait_until
from tests.servers.smtp_script import DROP, Keep

ALL = "/delivery-operations"


def send(asking: CheckedClient, mailbox: Mailbox, **fields: Any) -> Any:
    """What became of a send."""
    path, key = f"/accounts/{mailbox.id}/send", {"Idempotency-Key": a_key()}
    return asking.ask("POST", path, a_message(**fields), headers=key).data


def uncertain(asking: CheckedClient, mailbox: Mailbox, **fields: Any) -> Any:
    """A send of which nobody knows whether it was taken."""
    mailbox.smtp.at("reply", Keep(DROP))
    operation = send(asking, mailbox, **fields)
    mailbox.smtp.at("reply", None)
    return operation


def timeline(asking: CheckedClient, operation: Any, **more: Any) -> Answer:
    """The steps of an operation."""
    path = f"/accounts/{operation['accountId']}/delivery-operations/{operation['operationId']}/timeline"
    return asking.ask("GET", path, **more)


def steps(found: Any) -> list[str]:
    """Their names, in order; their times never go back."""
    times = [one["at"] for one in found["steps"]]
    assert times == sorted(times)
    return [one["step"] for one in found["steps"]]


HANDED_OVER = ["accepted", "connecting", "envelope", "data", "dot"]


def test_a_success_step_by_step(asking: CheckedClient, mailbox: Mailbox) -> None:
    bcc = [{"email": "eve@example.test"}]
    operation = send(asking, mailbox, subject="Grüße", bcc=bcc)
    wait_until(lambda: timeline(asking, operation).data["sentCopy"] == "filed", lambda: "no copy was filed", 10)
    found = timeline(asking, operation).data
    assert steps(found) == [*HANDED_OVER, "replied", "succeeded"]
    assert found.items() >= operation.items()
    assert (found["subject"], found["recipients"]) == ("Grüße", ["bob@example.test", "eve@example.test"])
    assert (found["attempts"], found["replyCode"], found["looks"], found["nextLookAt"]) == (1, 250, 0, None)
    assert found["createdAt"] == found["steps"][0]["at"]
    assert found["updatedAt"] == found["steps"][-1]["at"]
    assert mailbox.smtp.accepted(found["messageIdHeader"]) == 1


def test_doubt_is_a_step_and_so_is_its_end(asking: CheckedClient, mailbox: Mailbox) -> None:
    operation = uncertain(asking, mailbox, subject="Doubt")
    found = timeline(asking, operation).data
    assert steps(found) == [*HANDED_OVER, "uncertain"]
    assert (found["subject"], found["isOwn"], found["sentCopy"]) == ("Doubt", True, "none")
    assert found["nextLookAt"] > found["updatedAt"]
    assert timeline(asking, operation).warnings == found["outcomeWarnings"] != []
    (listed,) = asking.ask("GET", f"{ALL}?status=uncertain&accountId={mailbox.id}&limit=1").data["items"]
    assert listed["operationId"] == operation["operationId"]
    path = f"/accounts/{mailbox.id}/delivery-operations/{operation['operationId']}/resolve"
    assert asking.ask("POST", path, {"outcome": "failed"}).status == 200
    found = timeline(asking, operation).data
    assert steps(found) == [*HANDED_OVER, "uncertain", "failed"]
    assert (found["error"], found["subject"]) == ({"code": "resolved_as_failed"}, None), "its bytes are not kept"
    assert found["nextLookAt"] is None


def test_a_list_of_all_goes_by_pages_and_keeps_to_its_filters(asking: CheckedClient, mailbox: Mailbox) -> None:
    sent = [send(asking, mailbox, subject=f"Page {number}")["operationId"] for number in range(3)]
    first = asking.ask("GET", f"{ALL}?limit=2").data
    rest = asking.ask("GET", f"{ALL}?limit=1&cursor={first['nextCursor']}").data
    assert [one["operationId"] for one in (*first["items"], *rest["items"])] == sent[::-1]
    assert [one["subject"] for one in first["items"]] == ["Page 2", "Page 1"]
    foreign = asking.ask("GET", f"{ALL}?status=failed&cursor={first['nextCursor']}")
    assert (foreign.refusal, foreign.places) == ((400, "invalid_request"), ["query:cursor"])
    failed = asking.ask("GET", f"{ALL}?status=failed").data["items"]
    assert {one["status"] for one in failed} <= {"failed"}
    for query, refusal in (("status=lost", (400, "invalid_request")), ("accountId=acc_unknown", (404, "not_found"))):
        assert asking.ask("GET", f"{ALL}?{query}").refusal == refusal


@pytest.fixture
def bob(asking: CheckedClient, mailbox: Mailbox) -> str:
    """The token of a member who reaches the mailbox."""
    appliance = asking.appliance
    member = add_member(appliance, f"bob-{a_key()}")
    with appliance.store.database.transaction():
        appliance.store.database.change("INSERT INTO account_grants VALUES (?, ?)", (mailbox.id, member))
    return add_key(appliance, member, "mail.read")[1]


def test_others_see_what_is_scheduled_without_its_hidden_recipients(
    asking: CheckedClient, mailbox: Mailbox, bob: str
) -> None:
    own = send(asking, mailbox)
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    scheduled = send(asking, mailbox, sendAt=later, bcc=[{"email": "eve@example.test"}], subject="Later")
    assert timeline(asking, own, token=bob).refusal == (404, "not_found")
    found = timeline(asking, scheduled, token=bob).data
    assert (found["recipients"], found["isOwn"], found["subject"]) == (["bob@example.test"], False, "Later")
    assert (steps(found), found["nextAttemptAt"]) == (["accepted"], found["sendAt"])
    listed = [one["operationId"] for one in asking.ask("GET", ALL, token=bob).data["items"]]
    assert scheduled["operationId"] in listed
    assert own["operationId"] not in listed


def test_an_operation_is_told_under_its_own_mailbox_only(timed: Appliance, ada: CheckedClient) -> None:
    member = ada.member["id"]
    box, other = FilledMailbox(timed, member), FilledMailbox(timed, member, "other@example.org")
    mine = {"operationId": box.accept(member, "succeeded"), "accountId": box.id}
    assert timeline(ada, mine).status == 200
    assert timeline(ada, mine | {"accountId": other.id}).refusal == (404, "not_found")
    _, key = add_key(timed, member, "mail.read", accounts=[other.id])
    for account in (other.id, box.id):
        assert timeline(ada, mine | {"accountId": account}, token=key).refusal == (404, "not_found")
    assert ada.ask("GET", ALL, token=key).data["items"] == []


def test_what_no_client_was_shown_is_nowhere(timed: Appliance, ada: CheckedClient) -> None:
    member = ada.member["id"]
    box = FilledMailbox(timed, member)
    shown = [box.accept(member, "succeeded") for _ in range(2)]
    unshown = box.accept(member, is_shown=False)
    assert timeline(ada, {"operationId": unshown, "accountId": box.id}).refusal == (404, "not_found")
    page = ada.ask("GET", f"{ALL}?limit=2").data
    assert [one["operationId"] for one in page["items"]] == shown[::-1]
    assert page["nextCursor"] is None, "the last page is full"


def test_a_scheduled_one_keeps_its_subject(timed: Appliance, ada: CheckedClient) -> None:
    member = ada.member["id"]
    box = FilledMailbox(timed, member)
    later = datetime(2027, 1, 1, tzinfo=UTC)
    operation = box.accept(member, kind="scheduled", send_at=later, subject="Later")
    box.store.deliveries.fail_queued(operation, "expired")
    found = timeline(ada, {"operationId": operation, "accountId": box.id}).data
    assert (found["status"], found["subject"]) == ("failed", "Later"), "though its bytes are not kept"


def test_a_page_is_asked_of_indexes(asking: CheckedClient) -> None:
    values = {"accounts": "[]", "member": "m", "before": 1, "most": 1}
    for whose, index in (("member_id = :member", "_member"), ("kind = 'scheduled'", "_of_all")):
        sql = f"EXPLAIN QUERY PLAN {_ENTRY_NUMBERS.format(whose=whose, status='')}"
        plan = [str(row[3]) for row in asking.appliance.store.database.rows(sql, values)]
        assert any(f"delivery_operations{index} (account_id=?" in step for step in plan), plan
