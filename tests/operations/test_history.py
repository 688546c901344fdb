"""How much was sent and how much came, in steps, and only what the caller sees."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.store import delivery_queries
from tests.checked_client import CheckedClient
from tests.operations.filled import FilledMailbox, add_key, add_member, letter
from tests.servers.fake_clock import FakeClock

#: FilledMailbox has its messages come a minute apart from 05:07:07 on.
NOON = datetime(2026, 3, 4, 12, 0, 30, tzinfo=UTC)
PATH = "/status/history"


@pytest.fixture
def box(timed: Appliance, clock: FakeClock) -> FilledMailbox:
    """A mailbox of the first administrator, at noon."""
    clock.set_wall(NOON)
    ada = CheckedClient(timed).set_up()
    return FilledMailbox(timed, ada.member["id"])


def ask(timed: Appliance, query: str = "", token: str | None = None, *, status: int = 200) -> Any:
    """The history, as the administrator or with a token."""
    client = CheckedClient(timed)
    answer = (
        client.log_in("ada@example.org").ask("GET", PATH + query)
        if token is None
        else client.ask("GET", PATH + query, token=token)
    )
    assert answer.status == status, answer.body
    return answer.data if status == 200 else answer


def ada_of(timed: Appliance) -> str:
    """The administrator's id."""
    return str(timed.store.database.value("SELECT id FROM members WHERE email = 'ada@example.org'"))


def totals(found: Any) -> dict[str, int]:
    """What was counted in all."""
    names = ("succeeded", "failed", "uncertain", "other")
    return {name: sum(one[name] for one in found["deliveries"]) for name in names} | {
        "messages": sum(one["messages"] for one in found["arrived"])
    }


@pytest.mark.parametrize(
    ("hours", "step", "steps", "first"),
    [
        (1, 300, 12, "2026-03-04T11:05:00.000Z"),
        (6, 300, 72, "2026-03-04T06:05:00.000Z"),
        (7, 3600, 7, "2026-03-04T06:00:00.000Z"),
        (48, 3600, 48, "2026-03-02T13:00:00.000Z"),
        (49, 21_600, 9, "2026-03-02T12:00:00.000Z"),
        (168, 21_600, 28, "2026-02-25T18:00:00.000Z"),
    ],
)
def test_steps_are_whole_and_now_is_in_the_last(
    timed: Appliance, box: FilledMailbox, hours: int, step: int, steps: int, first: str
) -> None:
    found = ask(timed, f"?hours={hours}")
    assert (found["stepSeconds"], len(found["deliveries"]), len(found["arrived"])) == (step, steps, steps)
    assert found["from"] == found["deliveries"][0]["at"] == found["arrived"][0]["at"] == first
    last = datetime.fromisoformat(found["arrived"][-1]["at"])
    assert last <= NOON < last + timedelta(seconds=step) == datetime.fromisoformat(found["to"])
    assert set(totals(found).values()) == {0}


@pytest.mark.parametrize("hours", ["0", "169", "x", "1.5"])
def test_other_hours_are_refused(timed: Appliance, box: FilledMailbox, hours: str) -> None:
    answer = ask(timed, f"?hours={hours}", status=400)
    assert answer.places == ["query:hours"]


def test_messages_count_when_they_came(timed: Appliance, box: FilledMailbox) -> None:
    box.deliver(*[letter(str(number)) for number in range(60)])  # from 05:07 to 06:06
    box.deliver(letter("ours"), folder="Sent")
    with box.store.database.transaction():
        box.store.database.change("UPDATE folders SET role = 'drafts' WHERE path = 'null'")
    box.deliver(letter("a draft"), folder="null")
    found = {one["at"][11:16]: one["messages"] for one in ask(timed)["arrived"] if one["messages"]}
    assert found == {"05:00": 53, "06:00": 7}
    assert totals(ask(timed, "?hours=6"))["messages"] == 2, "05:07 is longer ago than 6 hours; 06:05 and 06:06 are not"


def test_deliveries_count_when_they_were_accepted(timed: Appliance, box: FilledMailbox, clock: FakeClock) -> None:
    ada = ada_of(timed)
    clock.set_wall(NOON - timedelta(hours=30))
    box.accept(ada, "failed")
    clock.set_wall(NOON - timedelta(hours=2))
    for outcome in ("succeeded", "succeeded", "uncertain", "failed", ""):
        box.accept(ada, outcome)
    clock.set_wall(NOON)
    box.accept(ada, kind="scheduled", send_at=NOON + timedelta(days=1))
    box.accept(ada, is_shown=False)
    found = ask(timed)
    assert totals(found) == {"succeeded": 2, "failed": 1, "uncertain": 1, "other": 2, "messages": 0}
    at_ten = {"succeeded": 2, "failed": 1, "uncertain": 1, "other": 1}
    assert {"at": "2026-03-04T10:00:00.000Z", **at_ten} in found["deliveries"]
    assert totals(ask(timed, "?hours=48"))["failed"] == 2


def test_the_first_moment_of_a_step_belongs_to_it(timed: Appliance, box: FilledMailbox, clock: FakeClock) -> None:
    first = datetime(2026, 3, 3, 13, tzinfo=UTC)
    for moment in (first - timedelta(milliseconds=1), first):
        clock.set_wall(moment)
        box.accept(ada_of(timed), "succeeded")
    clock.set_wall(NOON)
    assert [one["succeeded"] for one in ask(timed)["deliveries"]] == [1] + [0] * 23


def test_only_what_the_caller_sees_counts(timed: Appliance, box: FilledMailbox) -> None:
    bob = add_member(timed, "bob")
    _, key = add_key(timed, bob, "mail.read")
    box.accept(bob, "succeeded")
    ada = ada_of(timed)
    box.accept(ada, "failed")
    box.accept(ada, kind="scheduled", send_at=NOON + timedelta(days=1))
    box.deliver(*[letter(str(number)) for number in range(3)])
    assert set(totals(ask(timed, token=key)).values()) == {0}
    box.grant(bob)
    assert totals(ask(timed, token=key)) == {"succeeded": 1, "failed": 0, "uncertain": 0, "other": 1, "messages": 3}
    _, elsewhere = add_key(timed, bob, "mail.read", accounts=[])
    assert set(totals(ask(timed, token=elsewhere)).values()) == {0}


def test_it_is_asked_of_indexes(box: FilledMailbox) -> None:
    values = dict.fromkeys(("accounts", "from", "step", "member", "first", "since", "until", "low", "high"), "[1]")
    plan = [
        str(row[3]) for row in box.store.database.rows(f"EXPLAIN QUERY PLAN {delivery_queries._COUNT_ARRIVALS}", values)
    ]
    assert any("COVERING INDEX messages_account (account=? AND number>? AND number<?)" in step for step in plan), plan
    plan = [
        str(row[3])
        for row in box.store.database.rows(f"EXPLAIN QUERY PLAN {delivery_queries._COUNT_DELIVERIES}", values)
    ]
    assert any("delivery_operations_account (account_id=? AND number>?)" in step for step in plan), plan
