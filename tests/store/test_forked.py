"""If neither store is the later one, operations ended in either stay ended, and keys revoked in either stay revoked."""

from datetime import timedelta

import pytest

from mailbox_appliance.model.approvals import SendingPolicy
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox, connection, execute
from tests.store.restored import (
    ASKED,
    HOUR,
    Act,
    People,
    Restoring,
    accept,
    add_key,
    add_session,
    approval_of,
    become,
    decide,
    ended,
    lets_in,
    nothing,
)

# --- deliveries -------------------------------------------------------------------------------------------------------

NOW, SOON, LATE = None, 1.5 * HOUR, 9 * HOUR
SENDS = [
    # when it is due, status in the backup, in the present store, and after the restore
    (LATE, "succeeded", "nothing", "succeeded"),
    (LATE, "nothing", "succeeded", "succeeded"),
    (LATE, "canceled", "nothing", "canceled"),
    (LATE, "nothing", "canceled", "canceled"),
    (LATE, "succeeded", "canceled", "succeeded"),
    (LATE, "canceled", "succeeded", "succeeded"),
    (LATE, "canceled", "message_rejected", "message_rejected"),
    (NOW, "uncertain", "message_rejected", "message_rejected"),
    (NOW, "message_rejected", "uncertain", "message_rejected"),
    (NOW, "uncertain", "nothing", "uncertain"),
    (NOW, "nothing", "uncertain", "uncertain"),
    (NOW, "nothing", "nothing", "uncertain"),
    (LATE, "sending", "nothing", "uncertain"),
    (LATE, "nothing", "sending", "uncertain"),
    (LATE, "nothing", "nothing", "queued"),
    (SOON, "nothing", "nothing", "uncertain"),
    # accepted in one of the two only
    (LATE, "nothing", None, "queued"),
    (SOON, "nothing", None, "uncertain"),
    (NOW, "succeeded", None, "succeeded"),
    (LATE, None, "nothing", "queued"),
    (SOON, None, "nothing", "queued"),
    (NOW, None, "succeeded", "succeeded"),
]


def accepted(store: Store, people: People, clock: FakeClock, number: int, send_at: float | None) -> None:
    when = None if send_at is None else FakeClock().now() + timedelta(seconds=send_at)
    people.more[f"op-{number}"] = accept(store, people, f"op-{number}", send_at=when)


def sends(side: int) -> Act:
    """Return the events of the table for the backup (0) or the present store (1)."""

    def act(store: Store, people: People, clock: FakeClock) -> None:
        for number, (send_at, *outcomes, _) in enumerate(SENDS):
            if outcomes[1 - side] is None:
                accepted(store, people, clock, number, send_at)
            if (outcome := outcomes[side]) is not None:
                become(store, people.more[f"op-{number}"], outcome)

    return act


def test_of_a_send_the_store_counts_that_knows_more(restoring: Restoring) -> None:
    def together(store: Store, people: People, clock: FakeClock) -> None:
        for number, (send_at, *outcomes, _) in enumerate(SENDS):
            if None not in outcomes:
                accepted(store, people, clock, number, send_at)

    store, people = restoring.run_forked(together, sends(0), sends(1))
    found = [ended(store, people.more[f"op-{number}"]) for number in range(len(SENDS))]
    assert [(*row[:3], one) for row, one in zip(SENDS, found, strict=True)] == SENDS
    assert restoring.carried.relation == "forked"
    assert store.stored_settings.find("sending.hold_scheduled") is True
    assert restoring.carried.sends.are_held
    assert restoring.carried.sends.waiting == found.count("queued")
    for number, (row, one) in enumerate(zip(SENDS, found, strict=True)):
        operation = people.more[f"op-{number}"]
        assert bool(store.deliveries.get_work(operation).wire) == (one != "message_rejected" or row[0] is not NOW), row
        chores = [chore.kind for chore in store.schedule.list_chores(operation)]
        is_given_back = one in ("canceled", "message_rejected") and row[0] is not NOW
        assert chores == (["keep_draft"] if is_given_back else []), row
        steps = store.database.value("SELECT count(*) FROM delivery_phases WHERE operation = ?", (operation,))
        assert steps == {"succeeded": 4, "canceled": 1, "queued": 1}.get(one, steps), row


def test_a_message_that_waits_for_a_person_may_have_been_sent(restoring: Restoring) -> None:
    """It waits on only if it was accepted in the present store. An approval goes with the row that counts."""
    cases = [
        # decision in the backup, in the present store (None: not accepted there), and afterward
        ("nothing", "nothing", ("uncertain", "expired")),
        ("approved", "nothing", ("uncertain", "expired")),
        ("nothing", "approved", ("uncertain", "approved")),
        ("succeeded", "nothing", ("succeeded", "approved")),
        ("nothing", "succeeded", ("succeeded", "approved")),
        ("rejected", "nothing", ("approval_rejected", "rejected")),
        ("rejected", "succeeded", ("succeeded", "approved")),
        ("nothing", None, ("uncertain", "expired")),
        (None, "nothing", ("queued", "pending")),
        (None, "approved", ("queued", "approved")),
    ]

    def add(store: Store, people: People, number: int) -> None:
        people.more[f"op-{number}"] = accept(store, people, f"op-{number}", approval=ASKED)

    def together(store: Store, people: People, clock: FakeClock) -> None:
        for number, case in enumerate(cases):
            if None not in case:
                add(store, people, number)

    def decisions(side: int) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            for number, case in enumerate(cases):
                decision = case[side]
                if case[1 - side] is None:
                    add(store, people, number)
                if isinstance(decision, str):
                    decide(store, people, people.more[f"op-{number}"], decision)

        return act

    store, people = restoring.run_forked(together, decisions(0), decisions(1))
    operations = [people.more[f"op-{number}"] for number in range(len(cases))]
    found = [(ended(store, one), approval_of(store, one)) for one in operations]
    assert [(*case[:2], one) for case, one in zip(cases, found, strict=True)] == cases


def test_a_policy_is_that_of_the_backup_or_else_that_of_now(restoring: Restoring) -> None:
    ours, theirs = SendingPolicy(max_recipients=1), SendingPolicy(approval="always")

    def both(box: SendingPolicy, others: SendingPolicy) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            with store.database.transaction():
                store.sending_policies.set_of_account(people.box, box)
                store.sending_policies.set_of_account(people.others_box, others)
                store.sending_policies.set_of_key(people.key, others)

        return act

    store, people = restoring.run_forked(nothing, both(ours, SendingPolicy()), both(theirs, theirs))
    assert store.sending_policies.read(people.box, people.key) == (ours, theirs)
    assert store.sending_policies.find_of_account(people.others_box) == theirs


def test_what_is_over_keeps_no_bytes_that_the_other_store_still_needs(restoring: Restoring) -> None:
    def together(store: Store, people: People, clock: FakeClock) -> None:
        accepted(store, people, clock, 0, LATE)

    def ours(store: Store, people: People, clock: FakeClock) -> None:
        become(store, people.more["op-0"], "succeeded")
        store.sent_copies.mark_filed(people.more["op-0"])

    store, people = restoring.run_forked(together, ours, nothing)
    assert not store.deliveries.get_work(people.more["op-0"]).wire


@pytest.mark.parametrize("side", [0, 1], ids=["backup", "present"])
def test_a_key_that_each_used_by_itself_names_what_is_over(restoring: Restoring, side: int) -> None:
    def used(*, is_over: bool) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            operation = accept(store, people, "once", send_at=FakeClock().now() + timedelta(seconds=LATE))
            people.more["over" if is_over else "open"] = operation
            if is_over:
                store.deliveries.begin_sending(operation)
                store.deliveries.succeed(operation, None, reply_code=250)

        return act

    store, people = restoring.run_forked(nothing, used(is_over=side == 0), used(is_over=side == 1))
    found = store.deliveries.find_replay(people.key, "once", "hash")
    assert found is not None
    assert found.delivery.operation_id == people.more["over"]
    assert store.deliveries.find(people.more["open"]) is None
    assert store.database.rows("PRAGMA foreign_key_check") == []


# --- everything else --------------------------------------------------------------------------------------------------


def test_everything_else_is_as_in_the_backup(restoring: Restoring) -> None:
    """Nobody is signed in, and only revoked keys stay revoked."""

    def together(store: Store, people: People, clock: FakeClock) -> None:
        for name, mark in (("ours", "c1"), ("theirs", "c2"), ("gone", "c3")):
            people.more[name] = add_key(store, people.bob, mark)

    def change(name: str, mark: str) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            with store.database.transaction():
                email = f"{name}@example.org"
                one = store.members.add(name=name, email=email, role="member", password_hash=name).id
                store.one_time_tokens.issue("invitation", one, name, timedelta(days=9))
                store.api_keys.revoke(people.more[name])
                store.members.set_password(people.bob, name)
                store.accounts.set_access(people.box, shared_with_all=name == "ours", member_ids=[one])
                store.accounts.set_connection(people.others_box, connection(f"{name}@example.test"))
            people.more[f"{name}'s box"] = Mailbox(store, one).id
            add_key(store, one, mark)
            add_session(store, one, mark + "5")

        return act

    def theirs(store: Store, people: People, clock: FakeClock) -> None:
        change("theirs", "c5")(store, people, clock)
        execute(store, "DELETE FROM api_keys WHERE id = ?", (people.more["gone"],))

    store, people = restoring.run_forked(together, change("ours", "c4"), theirs)
    carried = restoring.carried
    assert (carried.relation, carried.is_known, carried.has_log) == ("forked", False, False)
    assert [one.name for one in store.members.list()] == ["Ada", "Bob", "ours"]
    assert store.members.get_password_hash(people.bob) == "ours"
    assert [lets_in(store, f"c{number}") is not None for number in range(1, 6)] == [False, False, True, True, False]
    assert restoring.carried.rights.revoked == 1
    for table in ("sessions", "invitations"):
        assert store.database.value(f"SELECT count(*) FROM {table}") == 0, table
    assert store.accounts.get(people.box).shared_with_all
    assert store.accounts.get_connection(people.others_box).imap.username == "ours@example.test"
    assert store.database.value("SELECT count(*) FROM accounts WHERE id = ?", (people.more["theirs's box"],)) == 0
    store.audit.record(SYSTEM_ACTOR, "backup.restore")
    assert [event.target and event.target.id for event in store.audit.list(None, 2)[0]] == [None, "restored"]
    assert store.audit.verify().broken is None


def test_somebody_can_administrate(restoring: Restoring) -> None:
    """If nobody in the backup can, the present administrators do."""

    def ours(store: Store, people: People, clock: FakeClock) -> None:
        execute(store, "UPDATE members SET password_hash = NULL")

    store, people = restoring.run_forked(nothing, ours, nothing)
    assert [store.members.get_password_hash(one) for one in (people.ada, people.bob)] == ["ada-1", None]
