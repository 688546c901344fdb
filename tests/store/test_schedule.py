"""Tasks that are due: read from the journal, planned by the wall clock, and moved closer after the clock was set
back.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailbox_appliance.mail.compose import compose
from mailbox_appliance.model.deliveries import DeliveryKind, NewDelivery
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox

BOB = Address(email="bob@example.test")


def accept(store: Store, mailbox: Mailbox, key: str = "key", **more: Any) -> str:
    """Accept an operation that is being sent, or is scheduled for `send_at`."""
    sender = Address(email="ada@example.test")
    message = compose(
        OutgoingMessage(sender, (BOB,), text="t"),
        message_id=f"<{key}@example.test>",
        date=datetime(2026, 1, 2, tzinfo=UTC),
    )
    kind: DeliveryKind = "scheduled" if "send_at" in more else more.pop("kind", "send")
    new = NewDelivery(mailbox.id, "ses_1", mailbox.owner, key, "hash", kind, message, None, **more)
    return store.deliveries.accept(new).delivery.operation_id


def in_seconds(clock: FakeClock, seconds: float) -> datetime:
    return clock.now() + timedelta(seconds=seconds)


def chores(store: Store, operation_id: str) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(c.kind, c.message_id, c.draft_version, c.flag) for c in store.schedule.list_chores(operation_id)]


def test_nothing_is_due_in_a_store_where_nothing_waits(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    accept(store, mailbox)
    assert store.schedule.find_next_due(clock.now()) is None
    assert store.schedule.list_due_sends(in_seconds(clock, 1e8)) == ()


def test_what_is_due_next_is_the_earliest_of_what_is_later(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    start = clock.now()
    soon, late = (accept(store, mailbox, str(n), send_at=in_seconds(clock, n)) for n in (60, 7200))
    store.deliveries.set_outcome(accept(store, mailbox, "uncertain"), "uncertain")
    seconds = list[float]()
    after: datetime | None = start
    while after is not None and (after := store.schedule.find_next_due(after)) is not None:
        seconds.append((after - start).total_seconds())
    assert seconds == [5, 60, 7200]
    assert [one.operation_id for one in store.schedule.list_due_sends(in_seconds(clock, 7200))] == [soon, late]
    assert [one.operation_id for one in store.schedule.list_due_sends(in_seconds(clock, 7199))] == [soon]


def test_many_of_one_mailbox_hide_none_of_another(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    others, at = Mailbox(store), in_seconds(clock, 1)
    many = [accept(store, mailbox, str(n), send_at=at + timedelta(milliseconds=n)) for n in range(100)]
    other = accept(store, others, "other", send_at=at + timedelta(hours=1))
    found = [one.operation_id for one in store.schedule.list_due_sends(in_seconds(clock, 3602))]
    assert found == [*many[: len(found) - 1], other]
    assert 10 < len(found) < 100
    for operation in many[:50]:
        store.deliveries.begin_sending(operation)
    assert store.schedule.list_due_sends(in_seconds(clock, 3602))[0].operation_id == many[50]


def test_evidence_is_due_by_mailbox_with_all_that_it_takes(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    other = Mailbox(store)
    operation = accept(store, mailbox)
    store.deliveries.set_outcome(operation, "uncertain")
    clock.advance(1)
    store.deliveries.set_outcome(accept(store, other, "other"), "uncertain")
    assert store.schedule.list_evidence_accounts(in_seconds(clock, 3)) == ()
    assert store.schedule.list_evidence_accounts(in_seconds(clock, 4)) == (mailbox.id,)
    assert store.schedule.list_evidence_accounts(in_seconds(clock, 5)) == (mailbox.id, other.id)
    [found] = store.schedule.list_due_evidence(in_seconds(clock, 5), mailbox.id)
    assert (found.operation_id, found.message_id, found.recipients) == (operation, "<key@example.test>", (BOB.email,))
    assert (found.since, found.looks) == (in_seconds(clock, -1), 0)
    store.schedule.schedule_evidence(operation, in_seconds(clock, 30))
    assert store.schedule.list_due_evidence(in_seconds(clock, 29), mailbox.id) == ()
    [found] = store.schedule.list_due_evidence(in_seconds(clock, 30), mailbox.id)
    assert found.looks == 1
    store.schedule.schedule_evidence(operation, None)
    assert store.schedule.list_due_evidence(in_seconds(clock, 1e9), mailbox.id) == ()


CHORES: list[tuple[str, dict[str, Any], str, list[tuple[str, str | None, str | None, str | None]]]] = [
    ("nothing", {}, "succeeded", []),
    (
        "a draft that answers",
        {"draft_id": "msg_1", "draft_version": "v", "parent_id": "msg_2"},
        "succeeded",
        [("flag_parent", "msg_2", "v", "\\Answered"), ("remove_draft", "msg_1", "v", None)],
    ),
    (
        "a forward",
        {"kind": "forward", "parent_id": "msg_2"},
        "succeeded",
        [("flag_parent", "msg_2", None, "$Forwarded")],
    ),
    ("in doubt", {"draft_id": "msg_1", "parent_id": "msg_2"}, "uncertain", []),
    ("refused", {"draft_id": "msg_1", "parent_id": "msg_2"}, "failed", []),
    ("a scheduled one, refused", {"send_at": True}, "failed", [("keep_draft", None, None, None)]),
    (
        "a scheduled draft, refused",
        {"send_at": True, "draft_id": "msg_1", "draft_version": "v"},
        "failed",
        [("keep_draft", "msg_1", "v", None)],
    ),
]


@pytest.mark.parametrize(
    ("more", "status", "expected"), [each[1:] for each in CHORES], ids=[each[0] for each in CHORES]
)
def test_what_an_ending_leaves_to_be_done(
    store: Store, mailbox: Mailbox, clock: FakeClock, more: dict[str, Any], status: Any, expected: list[Any]
) -> None:
    operation = accept(store, mailbox, **more | ({"send_at": in_seconds(clock, 1)} if "send_at" in more else {}))
    store.deliveries.begin_sending(operation)
    if status == "succeeded":
        store.deliveries.succeed(operation, None, reply_code=250)
    else:
        store.deliveries.set_outcome(operation, status, "message_rejected" if status == "failed" else None)
    assert sorted(chores(store, operation)) == expected
    assert store.schedule.list_chore_accounts(clock.now()) == ((mailbox.id,) if expected else ())


def test_a_chore_is_put_off_and_finished_and_warnings_stand_beside_those_of_the_copy(
    store: Store, mailbox: Mailbox, clock: FakeClock
) -> None:
    operation = accept(store, mailbox, draft_id="msg_1")
    store.deliveries.succeed(operation, None, reply_code=250)
    store.sent_copies.postpone(operation, 60, "no copy")
    [chore] = store.schedule.list_due_chores(clock.now(), mailbox.id)
    store.schedule.postpone_chore(chore, in_seconds(clock, 60))
    assert store.schedule.list_due_chores(in_seconds(clock, 59), mailbox.id) == ()
    [chore] = store.schedule.list_due_chores(in_seconds(clock, 60), mailbox.id)
    assert chore.attempts == 1
    store.schedule.finish_chore(chore, "it stays")
    assert store.schedule.list_chores(operation) == ()
    assert warnings(store, operation) == ("no copy", "it stays")
    store.sent_copies.mark_filed(operation)
    assert warnings(store, operation) == ("it stays",)


def warnings(store: Store, operation_id: str) -> tuple[str, ...]:
    found = store.deliveries.find(operation_id)
    assert found is not None
    assert found[0].result
    return found[0].result.warnings or ()


def test_in_a_removed_mailbox_nothing_is_due(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    sent = accept(store, mailbox, "sent", draft_id="msg_1")
    store.deliveries.succeed(sent, None, reply_code=250)
    store.deliveries.set_outcome(accept(store, mailbox, "uncertain"), "uncertain")
    accept(store, mailbox, "scheduled", send_at=in_seconds(clock, 9))
    with store.database.transaction(durable=True):
        store.deliveries.end_mailbox_deliveries(mailbox.id)
        store.accounts.remove(mailbox.id)
    far = in_seconds(clock, 1e8)
    assert store.schedule.find_next_due(clock.now() - timedelta(days=1)) is None
    assert (
        store.schedule.list_due_sends(far),
        store.schedule.list_evidence_accounts(far),
        store.schedule.list_chore_accounts(far),
    ) == ((), (), ())


def test_a_clock_that_was_set_back_brings_near_what_it_planned_and_leaves_what_a_person_meant(
    store: Store, mailbox: Mailbox, clock: FakeClock
) -> None:
    wrong, right = clock.now() + timedelta(days=300), clock.now()
    meant = accept(store, mailbox, "meant", send_at=in_seconds(clock, 3 * 3600))
    tried = accept(store, mailbox, "tried", send_at=in_seconds(clock, 1))
    uncertain, sent = accept(store, mailbox, "uncertain"), accept(store, mailbox, "sent", draft_id="msg_1")
    clock.set_wall(wrong)
    store.deliveries.begin_sending(tried)
    store.deliveries.requeue(tried, in_seconds(clock, 60), "unavailable")
    store.deliveries.set_outcome(uncertain, "uncertain")
    store.deliveries.succeed(sent, None, reply_code=250)
    store.sent_copies.postpone(sent, 60, "later")
    store.schedule.postpone_chore(store.schedule.list_chores(sent)[0], in_seconds(clock, 60))
    clock.set_wall(right + timedelta(seconds=2))
    assert store.schedule.find_next_due(clock.now()) == right + timedelta(hours=3)
    store.schedule.pull_forward(clock.now())
    assert [one.operation_id for one in store.schedule.list_due_sends(clock.now())] == [tried]
    assert store.schedule.list_evidence_accounts(clock.now()) == (mailbox.id,)
    assert store.schedule.list_chore_accounts(clock.now()) == (mailbox.id,)
    assert store.sent_copies.list_due_accounts(clock.now()) == (mailbox.id,)
    assert store.schedule.find_next_due(clock.now()) == right + timedelta(hours=3)
    assert meant in {one.operation_id for one in store.schedule.list_due_sends(right + timedelta(hours=3))}
