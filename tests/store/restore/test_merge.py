"""Events since the backup count after the restore: nothing is sent twice, and revoked credentials stay revoked."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.model.approvals import SendingPolicy
from mailbox_appliance.model.deliveries import Phase
from mailbox_appliance.store.audit import SYSTEM_ACTOR, Actor
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.restore.merge import merge_present
from mailbox_appliance.store.schema import TABLES
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox, connection, execute, fetched, parsed
from tests.store.restored import (
    ASKED,
    AT,
    LATER,
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

#: The result of a restore for each table; a new table must be added here.
DECIDED = {
    "carried": "members sessions invitations api_keys webhooks attempts accounts account_grants delivery_operations"
    " delivery_messages delivery_chunks delivery_phases delivery_chores approvals legacy_idempotency audit_events",
    "begins anew": "changes webhook_attempts undo_tokens uploads upload_chunks",
    "one row of it": "settings meta",
    "as in the backup": "oauth_apps folders threads thread_links messages message_labels bodies message_index"
    " message_words cached_parts cached_chunks",
}


def test_of_every_table_it_is_decided_what_a_restore_makes_of_it() -> None:
    assert sorted(TABLES) == sorted(" ".join(DECIDED.values()).split())


# --- deliveries -------------------------------------------------------------------------------------------------------


def at(clock: FakeClock, seconds: float | None) -> datetime | None:
    return None if seconds is None else clock.now() + timedelta(seconds=seconds)


SOON, LATE = 60.0, 2 * LATER
SENDS = [
    # when it is due (seconds from the backup; None: at once), event since, result with the present store, without it
    (None, "nothing", "uncertain", "uncertain"),  # an attempt without an end: the restore is not followed by another
    (None, "sending", "uncertain", "uncertain"),
    (None, "succeeded", "succeeded", "uncertain"),
    (None, "message_rejected", "message_rejected", "uncertain"),
    (None, "uncertain", "uncertain", "uncertain"),
    (None, "withdrawn", "uncertain", "uncertain"),
    (SOON, "nothing", "uncertain", "uncertain"),  # It was not sent in time, and must not be sent after the restore.
    (SOON, "sending", "uncertain", "uncertain"),
    (SOON, "succeeded", "succeeded", "uncertain"),
    (SOON, "canceled", "canceled", "uncertain"),
    (LATE, "nothing", "queued", "queued"),
    (LATE, "succeeded", "succeeded", "queued"),  # for example with a clock that was ahead
    (LATE, "canceled", "canceled", "queued"),
]


@pytest.mark.parametrize(("send_at", "since", "with_present", "alone"), SENDS)
@pytest.mark.parametrize("is_known", [True, False], ids=["present", "none"])
def test_a_send_of_the_backup(
    restoring: Restoring, send_at: float | None, since: str, with_present: str, alone: str, is_known: bool
) -> None:
    def before(store: Store, people: People, clock: FakeClock) -> None:
        people.more["op"] = accept(store, people, "key", send_at=at(clock, send_at))

    store, people = restoring.run(
        before, lambda store, people, _: become(store, people.more["op"], since), with_present=is_known
    )
    operation = people.more["op"]
    assert ended(store, operation) == (with_present if is_known else alone)
    assert restoring.carried.is_known == is_known
    is_held = store.stored_settings.find("sending.hold_scheduled")
    assert is_held == (None if is_known else True)
    found = store.deliveries.find_replay(people.key, "key", "hash")
    assert found is not None
    assert found.delivery.operation_id == operation
    if ended(store, operation) == "uncertain":
        looked_for = store.schedule.list_due_evidence(at(restoring.clock, 10) or restoring.clock.now(), people.box)
        assert [one.operation_id for one in looked_for] == [operation]
        assert store.deliveries.get_work(operation).wire


APPROVALS = [
    # when it is due, decision since, then status and approval with the present store, and without it
    (None, "nothing", ("queued", "pending"), ("uncertain", "expired")),
    (None, "approved", ("uncertain", "approved"), ("uncertain", "expired")),  # it was about to be sent
    (None, "succeeded", ("succeeded", "approved"), ("uncertain", "expired")),
    (None, "rejected", ("approval_rejected", "rejected"), ("uncertain", "expired")),
    (SOON, "nothing", ("queued", "pending"), ("uncertain", "expired")),
    (SOON, "approved", ("uncertain", "approved"), ("uncertain", "expired")),
    (LATE, "nothing", ("queued", "pending"), ("uncertain", "expired")),
    (LATE, "approved", ("queued", "approved"), ("uncertain", "expired")),
]


@pytest.mark.parametrize(("send_at", "since", "with_present", "alone"), APPROVALS)
@pytest.mark.parametrize("is_known", [True, False], ids=["present", "none"])
def test_a_message_of_the_backup_that_waits_for_a_person(
    restoring: Restoring, send_at: float | None, since: str, with_present: Any, alone: Any, is_known: bool
) -> None:
    def before(store: Store, people: People, clock: FakeClock) -> None:
        people.more["op"] = accept(store, people, "key", send_at=at(clock, send_at), approval=ASKED)

    def later(store: Store, people: People, clock: FakeClock) -> None:
        decide(store, people, people.more["op"], since)

    store, people = restoring.run(before, later, with_present=is_known)
    operation = people.more["op"]
    assert (ended(store, operation), approval_of(store, operation)) == (with_present if is_known else alone)
    assert store.deliveries.begin_sending(operation) == (is_known and with_present == ("queued", "approved"))


def test_an_approval_newer_than_the_backup_comes_with_its_message(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        for name in ("nothing", "approved", "rejected"):
            people.more[name] = accept(store, people, name, approval=ASKED)
            decide(store, people, people.more[name], name)

    store, people = restoring.run(nothing, since)
    found = [(ended(store, people.more[name]), approval_of(store, people.more[name])) for name in (*people.more,)[-3:]]
    assert found == [("queued", "pending"), ("queued", "approved"), ("approval_rejected", "rejected")]
    assert not store.deliveries.begin_sending(people.more["nothing"])


def test_what_waits_for_another_try_is_not_tried_after_the_restore(restoring: Restoring) -> None:
    """Operations that are newer than the backup, or not due yet, do not become uncertain."""

    def before(store: Store, people: People, clock: FakeClock) -> None:
        for name, seconds in (("due", SOON), ("started", SOON), ("late", LATE)):
            people.more[name] = accept(store, people, name, send_at=at(clock, seconds))
        store.deliveries.begin_sending(people.more["started"])

    def since(store: Store, people: People, clock: FakeClock) -> None:
        people.more["newer"] = accept(store, people, "newer", send_at=at(clock, SOON))
        store.deliveries.begin_sending(people.more["due"])
        for name in ("due", "started"):
            store.deliveries.enter_phases(people.more[name], [(Phase.CONNECTING, AT)])
            store.deliveries.requeue(people.more[name], at(clock, LATE) or clock.now(), "a cause")

    store, people = restoring.run(before, since)
    assert restoring.carried.relation == "continues"
    found = {name: ended(store, people.more[name]) for name in ("due", "started", "late", "newer")}
    assert found == {"due": "uncertain", "started": "uncertain", "late": "queued", "newer": "queued"}
    assert restoring.carried.sends.uncertain == 2


def test_an_operation_newer_than_the_backup_comes_whole(restoring: Restoring) -> None:
    """With its message, its steps and its follow-up tasks, after those of the backup."""

    def before(store: Store, people: People, clock: FakeClock) -> None:
        people.more["old"] = accept(store, people, "old", send_at=at(clock, LATE))

    def since(store: Store, people: People, clock: FakeClock) -> None:
        sent = people.more["sent"] = accept(store, people, "sent", draft_id="msg_gone")
        store.deliveries.enter_phases(sent, [(Phase.CONNECTING, AT), (Phase.DOT, AT)])
        store.deliveries.succeed(sent, None, reply_code=250)
        people.more["later"] = accept(store, people, "later", send_at=at(clock, LATE))

    store, people = restoring.run(before, since)
    listed, _ = store.delivery_lists.list(people.box, people.bob, before=None, limit=10)
    assert [one.operation_id for one in listed] == [people.more[name] for name in ("later", "sent", "old")]
    sent = people.more["sent"]
    assert store.deliveries.get_work(sent).wire
    phases = "SELECT phase FROM delivery_phases WHERE operation = ? ORDER BY rowid"
    steps = [row[0] for row in store.database.rows(phases, (sent,))]
    assert steps == ["accepted", "connecting", "dot", "replied"]
    assert [chore.kind for chore in store.schedule.list_chores(sent)] == ["remove_draft"]
    assert store.sent_copies.list_due(restoring.clock.now(), people.box) == (sent,)
    assert ended(store, people.more["later"]) == "queued"
    assert restoring.carried.sends.newer == 2
    assert restoring.carried.sends.waiting == 2


def test_what_has_been_done_since_is_not_left_to_be_done(restoring: Restoring) -> None:
    """Follow-up tasks and bytes that were needed at the time of the backup, and no longer are."""

    def before(store: Store, people: People, clock: FakeClock) -> None:
        operation = people.more["op"] = accept(store, people, "key", draft_id="msg_gone")
        store.deliveries.succeed(operation, None, reply_code=250)

    def since(store: Store, people: People, clock: FakeClock) -> None:
        (chore,) = store.schedule.list_chores(people.more["op"])
        store.schedule.finish_chore(chore)
        store.sent_copies.mark_filed(people.more["op"])

    store, people = restoring.run(before, since)
    assert store.schedule.list_chores(people.more["op"]) == ()
    assert store.sent_copies.list_due(restoring.clock.now(), people.box) == ()
    assert not store.deliveries.get_work(people.more["op"]).wire


@pytest.mark.parametrize("outcome", ["filed", "nothing", "given up"])
def test_our_copy_in_the_mirror_is_filed_once_or_let_go(restoring: Restoring, outcome: str) -> None:
    """Filed since: the mirror finds it by its Message-ID. Given up since: nothing else would remove it."""

    def before(store: Store, people: People, clock: FakeClock) -> None:
        operation = people.more["op"] = accept(store, people, "key")
        (sent,) = (folder for folder in store.folders.list(people.box) if folder.path == "Sent")
        copy = (sent, fetched(0), parsed("<key@example.test>"))
        store.deliveries.succeed(operation, copy, reply_code=250)

    def since(store: Store, people: People, clock: FakeClock) -> None:
        work = store.deliveries.get_work(people.more["op"])
        with store.database.transaction():
            if outcome == "filed":
                store.mailbox_writer.set_uid(work.result_id, 7)
                store.sent_copies.mark_filed(work.operation_id)
            elif outcome == "given up":
                store.mailbox_writer.drop_pending(work.result_id)
                store.sent_copies.give_up(work.operation_id, "never")

    store, people = restoring.run(before, since)
    work = store.deliveries.get_work(people.more["op"])
    sent = next(folder for folder in store.folders.list(people.box) if folder.path == "Sent")
    assert list(store.mailbox_writer.locate(people.box, [work.result_id])) == (
        [] if outcome == "given up" else [work.result_id]
    )
    assert bool(store.sent_copies.list_due(restoring.clock.now(), people.box)) == (outcome == "nothing")
    store.mailbox_writer.add(sent, [(fetched(7), parsed("<key@example.test>"))])
    assert store.mailbox_writer.count_in_folder(sent.number) == 1
    if outcome == "filed":
        assert store.mailbox_writer.locate(people.box, [work.result_id])[work.result_id].uid == 7


def test_a_key_that_was_taken_back_and_used_again_names_the_later_operation(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        assert store.deliveries.withdraw(people.more["op"])
        people.more["again"] = accept(store, people, "key")
        store.deliveries.set_outcome(people.more["again"], "failed", "message_rejected")

    store, people = restoring.run(lambda s, p, _: p.more.update(op=accept(s, p, "key")), since)
    assert ended(store, people.more["op"]) == "none"
    found = store.deliveries.find_replay(people.key, "key", "hash")
    assert found is not None
    assert found.delivery.operation_id == people.more["again"]


def test_numbers_that_both_have_given_are_given_anew(restoring: Restoring) -> None:
    """This happens after the restore of a store that did not open: each of the two continued on its own."""

    def before(store: Store, people: People, clock: FakeClock) -> None:
        people.more |= {f"b{n}": accept(store, people, f"b{n}", send_at=at(clock, LATE)) for n in range(3)}

    def since(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.database.change("DELETE FROM delivery_operations")
            store.database.change("DELETE FROM sqlite_sequence WHERE name = 'delivery_operations'")
        people.more |= {f"p{n}": accept(store, people, f"p{n}", send_at=at(clock, LATE)) for n in range(2)}

    store, people = restoring.run(before, since)
    listed, _ = store.delivery_lists.list(people.box, people.bob, before=None, limit=10)
    assert [one.operation_id for one in listed] == [people.more[name] for name in ("p1", "p0", "b2", "b1", "b0")]


def test_what_waits_in_a_mailbox_that_the_backup_does_not_know_ends(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        box = people.more["box"] = Mailbox(store, people.bob).id
        for key, send_at in (("queued", LATE), ("uncertain", None), ("sent", None)):
            people.more[key] = accept(store, people, key, send_at=at(clock, send_at), box=box)
        store.deliveries.set_outcome(people.more["uncertain"], "uncertain")
        store.deliveries.succeed(people.more["sent"], None, reply_code=250)

    store, people = restoring.run(nothing, since)
    found = [ended(store, people.more[key]) for key in ("queued", "uncertain", "sent")]
    assert found == ["account_removed", "uncertain", "succeeded"]
    assert store.database.value("SELECT count(*) FROM delivery_messages") == 0
    assert store.schedule.list_evidence_accounts(restoring.clock.now() + timedelta(days=1)) == ()
    assert store.sent_copies.list_due_accounts(restoring.clock.now() + timedelta(days=1)) == ()
    assert restoring.carried.sends.ended == 1


def test_what_waits_of_who_is_not_in_the_backup_is_given_back(restoring: Restoring) -> None:
    """Nobody revoked access, but the message would be refused when due, and dropped."""

    def since(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            eve = store.members.add(name="Eve", email="eve@example.org", role="member", password_hash="eve").id
            store.accounts.set_access(people.box, shared_with_all=False, member_ids=[eve, people.bob])
            store.accounts.set_access(people.others_box, shared_with_all=False, member_ids=[people.ada])
        for name, member_id, box in (
            ("new-member", eve, people.box),
            ("new-grant", people.ada, people.others_box),
            ("as-before", people.bob, people.box),
            ("lost-before", eve, people.others_box),
        ):
            people.more[name] = accept(store, people, name, send_at=at(clock, LATE), box=box)
            with store.database.transaction():
                sql = "UPDATE delivery_operations SET member_id = ? WHERE id = ?"
                store.database.change(sql, (member_id, people.more[name]))

    store, people = restoring.run(nothing, since)
    for name in ("new-member", "new-grant"):
        assert ended(store, people.more[name]) == "permission_revoked"
        assert store.deliveries.get_work(people.more[name]).wire
        assert [chore.kind for chore in store.schedule.list_chores(people.more[name])] == ["keep_draft"]
        found = store.deliveries.find(people.more[name])
        assert found is not None
        assert found[1] == ()  # nothing is lost, and there is no other warning
    assert [ended(store, people.more[name]) for name in ("as-before", "lost-before")] == ["queued", "queued"]
    assert (restoring.carried.sends.given_back, restoring.carried.sends.waiting) == (2, 2)


@pytest.mark.parametrize(("then", "now"), [(None, None), (True, None), (None, True), (True, False), (False, True)])
def test_scheduled_sends_are_held_as_they_are_now(restoring: Restoring, then: bool | None, now: bool | None) -> None:
    def put(value: bool | None) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            with store.database.transaction():
                store.stored_settings.remove("sending.hold_scheduled")
                if value is not None:
                    store.stored_settings.put("sending.hold_scheduled", value)

        return act

    store, _ = restoring.run(put(then), put(now))
    assert store.stored_settings.find("sending.hold_scheduled") == now


def test_answers_of_earlier_releases_are_carried_over(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            row = (people.key, "old", "hash", 200, "{}", "2026-01-03T00:00:00.000Z")
            store.database.change("INSERT INTO legacy_idempotency VALUES (?, ?, ?, ?, ?, ?)", row)

    store, people = restoring.run(nothing, since)
    assert store.database.value("SELECT credential_id FROM legacy_idempotency") == people.key


def test_many_operations_are_carried_over_in_batches(restoring: Restoring) -> None:
    def before(store: Store, people: People, clock: FakeClock) -> None:
        people.more["op"] = accept(store, people, "key")
        store.deliveries.set_outcome(people.more["op"], "failed", "x")

    def since(store: Store, people: People, clock: FakeClock) -> None:
        columns = [row[1] for row in store.database.rows("PRAGMA table_info(delivery_operations)")][2:]
        own = ", ".join("idempotency_key || '-' || n" if name == "idempotency_key" else name for name in columns)
        with store.database.transaction():
            store.database.change(
                "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 4999)"
                f" INSERT INTO delivery_operations (id, {', '.join(columns)})"
                f" SELECT 'dlv_' || n, {own} FROM delivery_operations, c"
            )

    store, _ = restoring.run(before, since)
    assert restoring.carried.sends.newer == 4999
    assert store.database.value("SELECT count(*) FROM delivery_operations") == 5000


# --- rights -----------------------------------------------------------------------------------------------------------


def member(store: Store, member_id: str) -> str:
    """Return role, status and password hash of a member."""
    found = store.members.get(member_id)
    return f"{found.role} {found.status} {store.members.get_password_hash(member_id)}"


def bob(**change: Any) -> Act:
    """Return the event that changes Bob."""

    def act(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            password = change.get("password")
            if password:
                store.members.set_password(people.bob, password)
            store.members.update(people.bob, **{name: one for name, one in change.items() if name != "password"})

    return act


MEMBERS = [
    ({}, {}, "member active bob-1"),
    ({}, {"password": "bob-2"}, "member active bob-2"),
    ({}, {"status": "suspended"}, "member suspended bob-1"),
    ({"status": "suspended"}, {"status": "active"}, "member suspended bob-1"),
    ({"role": "admin"}, {"role": "member"}, "member active bob-1"),
    ({"role": "member"}, {"role": "admin"}, "member active bob-1"),
    ({"role": "admin"}, {"password": "bob-2", "status": "suspended"}, "admin suspended bob-2"),
]


@pytest.mark.parametrize(("then", "now", "after"), MEMBERS)
def test_a_member_of_the_backup(restoring: Restoring, then: Any, now: Any, after: str) -> None:
    store, people = restoring.run(bob(**then), bob(**now))
    assert member(store, people.bob) == after
    assert member(store, people.ada) == "admin active ada-1"
    assert (lets_in(store, "2") == people.bob) == (" active " in after), "sessions of who is suspended are over"


def test_a_password_that_was_taken_away_since_is_gone(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        execute(store, "UPDATE members SET password_hash = NULL WHERE id = ?", (people.bob,))

    store, people = restoring.run(nothing, since)
    assert member(store, people.bob) == "member active None"


def test_how_often_somebody_failed_to_log_in_is_as_now(restoring: Restoring) -> None:
    def failed(bucket: str) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            with store.database.transaction():
                store.database.change("DELETE FROM attempts")
                store.database.change("INSERT INTO attempts VALUES (?, 1)", (bucket,))

        return act

    store, _ = restoring.run(failed("then"), failed("now"))
    assert store.database.rows("SELECT bucket, at FROM attempts") == [("now", 1)]


def remove_bob(store: Store, people: People, clock: FakeClock) -> None:
    with store.database.transaction():
        store.accounts.remove(people.others_box)
        store.members.remove(people.bob)


def test_a_member_who_was_removed_comes_back_without_any_way_in(restoring: Restoring) -> None:
    def before(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.one_time_tokens.issue("password_reset", people.bob, "reset", timedelta(days=9))

    store, people = restoring.run(before, remove_bob)
    assert member(store, people.bob) == "member suspended None"
    assert (lets_in(store, "1"), lets_in(store, "2")) == (None, None)
    assert store.one_time_tokens.find("password_reset", "reset") is None
    assert store.accounts.get(people.others_box).owner_member_id == people.bob
    assert store.accounts.get(people.box).granted_member_ids == ()
    assert (restoring.carried.rights.revoked, restoring.carried.rights.suspended) == (1, 1)


CREDENTIALS = [
    # events since; whether key 1, session 2, key 3 and session 4 are valid
    ("nothing", True, True, False, False),
    ("revoke key", False, True, False, False),
    ("end session", True, False, False, False),
    ("make key", True, True, True, False),
    ("log in", True, True, False, True),
]


@pytest.mark.parametrize(("since", "key_1", "session_2", "key_3", "session_4"), CREDENTIALS)
def test_credentials(
    restoring: Restoring, since: str, key_1: bool, session_2: bool, key_3: bool, session_4: bool
) -> None:
    def act(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            if since == "revoke key":
                store.api_keys.revoke(people.key)
            elif since == "end session":
                store.credentials.remove_session(people.bob, people.more["session"])
            elif since == "make key":
                add_key(store, people.bob, "3")
            elif since == "log in":
                add_session(store, people.bob, "4")

    store, people = restoring.run(nothing, act)
    expected = [people.bob if one else None for one in (key_1, session_2, key_3, session_4)]
    assert [lets_in(store, mark) for mark in "1234"] == expected
    assert restoring.carried.rights.revoked == (since == "revoke key")


def test_what_a_key_may_do_is_as_now(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        execute(store, "UPDATE api_keys SET capabilities = '[]', account_ids = '[]'")

    store, people = restoring.run(nothing, since)
    key = store.api_keys.get(people.key)
    assert (key.capabilities, key.account_ids) == ((), ())


def test_one_time_tokens_are_those_of_now(restoring: Restoring) -> None:
    def issue(store: Store, people: People, name: str, **more: Any) -> None:
        kind = "console_link" if more else "password_reset"
        with store.database.transaction():
            store.one_time_tokens.issue(kind, people.ada, name, timedelta(days=9), **more)  # type: ignore[arg-type]

    def before(store: Store, people: People, clock: FakeClock) -> None:
        people.more["ended"] = add_session(store, people.ada, "5")
        issue(store, people, "link-ended", session_id=people.more["ended"])
        issue(store, people, "link", session_id=people.more["session"])
        issue(store, people, "replaced")

    def since(store: Store, people: People, clock: FakeClock) -> None:
        issue(store, people, "newer")
        with store.database.transaction():
            store.credentials.remove_session(people.ada, people.more["ended"])

    store, _ = restoring.run(before, since)
    rows = store.database.rows("SELECT token_hash FROM invitations ORDER BY token_hash")
    assert [row[0] for row in rows] == ["link", "newer"]


def test_a_link_of_a_session_that_is_over_is_over(restoring: Restoring) -> None:
    """A member suspended in the backup is suspended again, and has no session for the link."""

    def since(store: Store, people: People, clock: FakeClock) -> None:
        bob(status="active")(store, people, clock)
        session = add_session(store, people.bob, "5")
        with store.database.transaction():
            store.one_time_tokens.issue("console_link", people.bob, "link", timedelta(days=9), session_id=session)

    store, _ = restoring.run(bob(status="suspended"), since)
    assert store.database.rows("SELECT token_hash FROM invitations") == []


def share(*, with_all: bool, with_bob: bool) -> Act:
    def act(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            bobs = [people.bob] if with_bob else []
            store.accounts.set_access(people.box, shared_with_all=with_all, member_ids=bobs)

    return act


SHARES = [  # shares then (with all, with Bob), now, after
    ((True, True), (True, True), (True, True)),
    ((True, True), (False, False), (False, False)),
    ((False, False), (True, True), (False, False)),
    ((True, False), (False, True), (False, False)),
]


@pytest.mark.parametrize(("then", "now", "after"), SHARES)
def test_a_mailbox_is_shared_where_it_was_and_is(restoring: Restoring, then: Any, now: Any, after: Any) -> None:
    acts = [share(with_all=one[0], with_bob=one[1]) for one in (then, now)]
    store, people = restoring.run(*acts)
    box = store.accounts.get(people.box)
    assert (box.shared_with_all, box.granted_member_ids == (people.bob,)) == after


def test_a_mailbox_that_was_removed_comes_back_for_its_owner(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.accounts.remove(people.box)

    store, people = restoring.run(nothing, since)
    box = store.accounts.get(people.box)
    assert (box.owner_member_id, box.shared_with_all, box.granted_member_ids) == (people.ada, False, ())
    assert store.accounts.get_connection(people.box).imap.password == "imap-password"


def test_sending_policies_are_those_of_now(restoring: Restoring) -> None:
    def policies(store: Store, people: People, box: SendingPolicy, others: SendingPolicy) -> None:
        with store.database.transaction():
            store.sending_policies.set_of_account(people.box, box)
            store.sending_policies.set_of_account(people.others_box, others)
            store.sending_policies.set_of_key(people.key, box)

    strict, loose, none = SendingPolicy(approval="always"), SendingPolicy(max_recipients=9), SendingPolicy()
    store, people = restoring.run(
        lambda store, people, _: policies(store, people, loose, strict),
        lambda store, people, _: policies(store, people, strict, none),
    )
    assert store.sending_policies.read(people.box, people.key) == (strict, strict)
    assert store.sending_policies.find_of_account(people.others_box) is None


def test_a_mailbox_is_reached_as_now(restoring: Restoring) -> None:
    """Its numbers differ in the two stores."""

    def since(store: Store, people: People, clock: FakeClock) -> None:
        store.database.change("PRAGMA foreign_keys = off")
        with store.database.transaction():
            store.accounts.set_connection(people.box, connection("ada@new.test"))
            for sql in ("folders SET account = account", "accounts SET number = number"):
                store.database.change(f"UPDATE {sql} + 100")

    store, people = restoring.run(nothing, since)
    assert store.accounts.get_connection(people.box).imap.username == "ada@new.test"
    assert store.accounts.get(people.box).status == "connecting"
    assert store.folders.find(people.box, "INBOX") is not None


def test_somebody_can_administrate(restoring: Restoring) -> None:
    """Ada was an administrator then, Bob and Eve are now: the lesser role of both would leave no administrator."""

    def since(store: Store, people: People, clock: FakeClock) -> None:
        bob(role="admin", password="bob-2")(store, people, clock)
        with store.database.transaction():
            people.more["eve"] = store.members.add(
                name="Eve", email="eve@example.org", role="admin", password_hash="eve"
            ).id
            store.members.update(people.ada, role="member")
        add_session(store, people.more["eve"], "6")

    store, people = restoring.run(nothing, since)
    found = [member(store, one) for one in (people.ada, people.bob, people.more["eve"])]
    assert found == ["member active ada-1", "admin active bob-2", "admin active eve"]
    assert lets_in(store, "6") == people.more["eve"]


def test_an_administrator_of_now_has_their_email_though_somebody_else_had_it(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.accounts.remove(people.box)
            store.members.add(name="Eve", email="eve@example.org", role="admin", password_hash="eve")
            store.members.remove(people.ada)
            people.more["new"] = store.members.add(
                name="New", email="ada@example.org", role="admin", password_hash="new"
            ).id

    store, people = restoring.run(nothing, since)
    assert store.members.get(people.more["new"]).email == "ada@example.org"
    assert member(store, people.ada) == "admin suspended None"
    assert store.members.get(people.ada).email == f"{people.ada}@former.invalid"


# --- events that nobody knows -----------------------------------------------------------------------------------------


def test_without_a_present_store_nobody_is_logged_in(restoring: Restoring) -> None:
    def before(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.one_time_tokens.issue("password_reset", people.bob, "open", timedelta(days=9))
            store.one_time_tokens.issue("invitation", people.bob, "used", timedelta(days=9), by_key=True)
            store.one_time_tokens.redeem("invitation", "used")

    store, people = restoring.run(before, nothing, with_present=False)
    assert lets_in(store, "2") is None
    assert lets_in(store, "1") == people.bob, "that it was revoked cannot be known"
    assert store.one_time_tokens.find("password_reset", "open") is None
    assert store.one_time_tokens.is_password_known_to_key(people.bob)
    assert member(store, people.bob) == "member active bob-1"


def test_a_store_of_somebody_else_says_nothing_of_this_one(restoring: Restoring, tmp_path: Path) -> None:
    """This happens if the backup is moved to a computer on which another store has been set up."""

    def before(store: Store, people: People, clock: FakeClock) -> None:
        people.more["op"] = accept(store, people, "key", send_at=at(clock, LATE))

    store, people = restoring.run(before, nothing, with_present=False)
    key = store.key
    other = Store.open(tmp_path / "other", restoring.clock, store.key_file)
    with other.database.transaction():
        other.members.add(name="Zoe", email="zoe@example.org", role="admin", password_hash="zoe")
        other.audit.record(SYSTEM_ACTOR, "member.create")
    other.close()
    carried = merge_present(store.database, tmp_path / "other" / DATABASE_FILE, key, restoring.clock.now())
    assert not carried.is_known
    assert carried.sends.waiting == 1
    assert store.stored_settings.find("sending.hold_scheduled") is True
    assert [one.name for one in store.members.list()] == ["Ada", "Bob"]
    assert member(store, people.bob) == "member active bob-1"
    execute(store, "UPDATE members SET password_hash = NULL")
    merge_present(store.database, tmp_path / "other" / DATABASE_FILE, key, restoring.clock.now())
    assert [one.name for one in store.members.list() if store.members.get_password_hash(one.id)] == ["Zoe"], (
        "else nobody could"
    )


# --- the audit log ----------------------------------------------------------------------------------------------------


def events(store: Store) -> list[str]:
    return [event.action for event in reversed(store.audit.list(None, 100)[0])]


def test_the_audit_log_goes_on_with_what_was_written_since(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        store.audit.record(Actor("session", "ses_9", people.ada, "::1"), "api_key.revoke", ("api_key", "key_9"))

    store, _ = restoring.run(nothing, since)
    store.audit.record(SYSTEM_ACTOR, "backup.restore")
    assert events(store) == ["member.create", "api_key.revoke", "backup.restore"]
    check = store.audit.verify()
    assert (check.count, check.broken) == (3, None)


def test_a_log_that_does_not_begin_as_the_backups_is_not_appended(restoring: Restoring) -> None:
    def since(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.database.change("DROP TRIGGER audit_events_stay")
            store.database.change("UPDATE audit_events SET outcome = 'failure'")
        store.audit.record(SYSTEM_ACTOR, "settings.update")

    store, _ = restoring.run(nothing, since)
    assert events(store) == ["member.create"]
    assert store.audit.verify().broken is None


def test_a_log_that_was_changed_since_is_found_changed(restoring: Restoring) -> None:
    """Appended rows keep their seals."""

    def since(store: Store, people: People, clock: FakeClock) -> None:
        store.audit.record(SYSTEM_ACTOR, "settings.update")
        store.audit.record(SYSTEM_ACTOR, "api_key.revoke")
        with store.database.transaction():
            store.database.change("DROP TRIGGER audit_events_stay")
            store.database.change("UPDATE audit_events SET action = 'nothing.much' WHERE number = 2")

    store, _ = restoring.run(nothing, since)
    broken = store.audit.verify().broken
    assert broken is not None
    assert broken.number == 2


def test_it_is_done_whole_or_not_at_all(restoring: Restoring) -> None:
    store, people = restoring.run(nothing, nothing, with_present=False)
    present = Store.open(restoring.present, restoring.clock)
    with present.database.transaction():
        present.database.change("DROP TABLE legacy_idempotency")
    present.close()
    add_session(store, people.bob, "7")
    with pytest.raises(Exception, match="legacy_idempotency"):
        merge_present(store.database, restoring.present / DATABASE_FILE, store.key, restoring.clock.now())
    assert lets_in(store, "7") == people.bob
    assert [row[1] for row in store.database.rows("PRAGMA database_list")] == ["main"]
