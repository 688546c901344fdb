"""The audit chain: intact as written, and every change is found at its row."""

import hmac
import os
import threading
from collections.abc import Callable

import pytest

from mailbox_appliance.errors import LogBeingChecked
from mailbox_appliance.store.audit import SYSTEM_ACTOR, ActByOther, Actor, Audit, AuditBreak, AuditCheck, Mac
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import execute

SOMEBODY = Actor("session", "ses_1", "mem_1", "192.0.2.7")


@pytest.fixture
def audit(store: Store) -> Audit:
    """A log of five rows; the third has every field, the others do not."""
    store.audit.record(SYSTEM_ACTOR, "start")
    store.audit.record(Actor("local"), "setup", ("member", "mem_1"))
    store.audit.record(SOMEBODY, "session.create", ("session", "ses_1"), "failure")
    store.audit.record(SOMEBODY, "account.remove", ("account", "acc_1"), "denied")
    store.audit.record(SYSTEM_ACTOR, "stop")
    return store.audit


def first_broken(audit: Audit) -> int | None:
    """Return the number of the first broken row."""
    broken = audit.verify().broken
    return None if broken is None else broken.number


def tamper(store: Store, *statements: str) -> None:
    """Change the log without its triggers."""
    with store.database.transaction():
        for name in ("stay", "remain"):
            store.database.change(f"DROP TRIGGER audit_events_{name}")
        for statement in statements:
            store.database.change(statement)


def set_row(number: int, change: str) -> str:
    return f"UPDATE audit_events SET {change} WHERE number = {number}"


def test_a_log_as_it_was_written_is_whole(store: Store, audit: Audit) -> None:
    assert first_broken(audit) is None
    rows = store.database.rows("SELECT id, number, at, actor_kind, action, outcome FROM audit_events ORDER BY number")
    assert [row[0][:4] for row in rows] == ["aud_"] * 5
    assert rows[2][1:] == (3, "2026-01-02T03:04:05.678Z", "session", "session.create", "failure")


def test_an_empty_log_is_whole(store: Store) -> None:
    assert first_broken(store.audit) is None


def test_rows_that_were_written_elsewhere_follow_the_last_one(store: Store, audit: Audit) -> None:
    told = ("2026-01-01T00:00:00.000Z", "session", None, None, "x", None, None, "success", None, None)
    with store.database.transaction():
        audit.append((f"aud_{number}", *told) for number in range(2_500))
        audit.append(())
    audit.record(SYSTEM_ACTOR, "start")
    assert audit.verify() == AuditCheck(2_506, None)
    rows = store.database.rows("SELECT number, id FROM audit_events WHERE number IN (5, 6, 2505) ORDER BY number")
    assert [row[0] for row in rows] == [5, 6, 2505]
    assert [row[1] for row in rows][1:] == ["aud_0", "aud_2499"]


def test_a_row_is_there_only_with_what_it_tells_of(store: Store, audit: Audit) -> None:
    def fail() -> None:
        with store.database.transaction():
            audit.record(SYSTEM_ACTOR, "nothing")
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert store.database.value("SELECT count(*) FROM audit_events") == 5
    assert first_broken(audit) is None
    audit.record(SYSTEM_ACTOR, "something")
    assert first_broken(audit) is None


REST = (
    "at, actor_kind, actor_id, actor_member_id, action, target_kind, target_id, outcome, client_address,"
    " about_member_id, mac"
)
MEDDLING: list[tuple[str, tuple[str, ...], int]] = [
    *(
        (f"{column} of a row", (set_row(3, f"{column} = 'x'"),), 3)
        for column in (
            *("id", "at", "actor_kind", "actor_id", "actor_member_id", "action", "target_kind", "target_id"),
            *("outcome", "client_address", "about_member_id"),
        )
    ),
    ("what was not there", (set_row(1, "actor_id = '-'"),), 1),
    ("what was not there, empty", (set_row(1, "target_kind = ''"),), 1),
    ("what is not there any more", (set_row(3, "client_address = NULL"),), 3),
    ("two facts changed about", (set_row(3, "target_kind = target_id, target_id = target_kind"),), 3),
    ("what moves from one fact to the next", (set_row(2, "action = 'setupmem', target_kind = 'ber'"),), 2),
    ("seal of a row", (set_row(3, "mac = zeroblob(32)"),), 3),
    ("no seal", (set_row(3, "mac = x''"),), 3),
    ("first row dropped", ("DELETE FROM audit_events WHERE number = 1",), 1),
    ("row dropped", ("DELETE FROM audit_events WHERE number = 3",), 3),
    (
        "row dropped, the rest moved up",
        ("DELETE FROM audit_events WHERE number = 3", "UPDATE audit_events SET number = number - 1 WHERE number > 3"),
        3,
    ),
    ("last row cut off", ("DELETE FROM audit_events WHERE number = 5",), 5),
    ("last rows cut off", ("DELETE FROM audit_events WHERE number > 3",), 4),
    ("all rows gone", ("DELETE FROM audit_events",), 1),
    ("two rows changed about", (set_row(3, "number = 99"), set_row(4, "number = 3"), set_row(99, "number = 4")), 3),
    ("row added below the first, which was dropped", ("UPDATE audit_events SET number = 0 WHERE number = 1",), 0),
    ("head and count forgotten", ("DELETE FROM meta WHERE name LIKE 'audit%'",), 1),
    (
        "all rows gone, head and count with them",
        ("DELETE FROM audit_events", "DELETE FROM meta WHERE name LIKE 'audit%'"),
        1,
    ),
    ("count made nonsense of", ("UPDATE meta SET value = 'x' WHERE name = 'audit_count'",), 1),
    ("head made nonsense of", ("UPDATE meta SET value = 'x' WHERE name = 'audit_head'",), 6),
    ("count set back", ("UPDATE meta SET value = '4' WHERE name = 'audit_count'",), 5),
    (
        "last row cut off, count and head set back",
        (
            "DELETE FROM audit_events WHERE number = 5",
            "UPDATE meta SET value = '4' WHERE name = 'audit_count'",
            "UPDATE meta SET value = (SELECT hex(mac) FROM audit_events WHERE number = 4) WHERE name = 'audit_head'",
        ),
        5,
    ),
]


@pytest.mark.parametrize(("statements", "row"), [case[1:] for case in MEDDLING], ids=[case[0] for case in MEDDLING])
def test_meddling_is_found_at_its_row(store: Store, audit: Audit, statements: tuple[str, ...], row: int) -> None:
    tamper(store, *statements)
    assert first_broken(audit) == row


@pytest.mark.parametrize("number", [0, -1, -(1 << 40), 6, 7, 1 << 40])
def test_a_row_that_was_added_is_named(store: Store, audit: Audit, number: int) -> None:
    tamper(store, f"INSERT INTO audit_events SELECT {number}, 'aud_x', {REST} FROM audit_events WHERE number = 5")
    assert audit.verify() == AuditCheck(5, AuditBreak(number, "aud_x", "it was added"))


def test_a_log_whose_table_is_gone_is_broken(store: Store, audit: Audit) -> None:
    tamper(store, "DROP TABLE audit_events")
    broken = audit.verify().broken
    assert broken is not None
    assert (broken.number, broken.id, "whole table" in broken.reason) == (1, None, True)


def test_a_log_is_checked_once_at_a_time(store: Store, audit: Audit) -> None:
    with audit.exclusive_check(), pytest.raises(LogBeingChecked) as caught:
        audit.verify()
    assert caught.value.retry_after == 3
    for _ in range(2):
        assert first_broken(audit) is None


def test_a_log_under_another_key_is_broken(store: Store, audit: Audit, clock: FakeClock) -> None:
    assert first_broken(audit) is None
    assert first_broken(Audit(store.database, b"another", clock)) == 1


CHANGES: list[Callable[[Database], int]] = [
    lambda database: database.change("REPLACE INTO audit_events SELECT * FROM audit_events WHERE number = 4"),
    lambda database: database.change("UPDATE audit_events SET action = 'x' WHERE number = 2"),
    lambda database: database.change("DELETE FROM audit_events WHERE number = 5"),
    lambda database: database.change("DELETE FROM audit_events"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_file_itself_refuses_changes(store: Store, audit: Audit, change: Callable[[Database], int]) -> None:
    with pytest.raises(Exception, match="audit rows are final"), store.database.transaction():
        change(store.database)
    assert first_broken(audit) is None


def test_replacing_a_row_is_found_where_no_trigger_sees_it(store: Store, audit: Audit) -> None:
    # SQLite runs no delete trigger for REPLACE unless recursive_triggers is on.
    execute(store, "DROP TRIGGER audit_events_add")
    with store.database.transaction():
        store.database.change(
            "REPLACE INTO audit_events SELECT number, id, at, actor_kind, actor_id, actor_member_id, 'harmless',"
            " target_kind, target_id, outcome, client_address, about_member_id, mac FROM audit_events WHERE number = 4"
        )
    assert first_broken(audit) == 4


def test_rows_that_follow_do_not_hide_those_that_were_cut_off(store: Store, audit: Audit) -> None:
    tamper(store, "DELETE FROM audit_events WHERE number > 3", "UPDATE meta SET value = '3' WHERE name = 'audit_count'")
    audit.record(SYSTEM_ACTOR, "something")
    audit.record(SYSTEM_ACTOR, "something else")
    assert first_broken(audit) == 4


def test_a_log_whose_count_is_wrong_goes_on(store: Store, audit: Audit) -> None:
    tamper(store, "UPDATE meta SET value = '2' WHERE name = 'audit_count'")
    audit.record(SYSTEM_ACTOR, "something")
    assert store.database.value("SELECT action FROM audit_events WHERE number = 6") == "something"
    assert first_broken(audit) is None, "every row is there"


def test_rows_are_listed_newest_first_and_page_by_page(store: Store, audit: Audit) -> None:
    first, following = audit.list(None, 3)
    second, end = audit.list(following, 3)
    assert [event.action for event in first] == ["stop", "account.remove", "session.create"]
    assert [event.action for event in second] == ["setup", "start"]
    assert (following, end) == (3, None)
    assert first[2].target is not None
    assert (first[2].actor.member_id, first[2].target.id, first[2].client_address) == ("mem_1", "ses_1", "192.0.2.7")


def test_what_concerns_a_member(store: Store, audit: Audit) -> None:
    audit.record(Actor("session", "ses_9", "mem_9"), "api_key.revoke", ("api_key", "key_1"), about="mem_1")
    audit.record(Actor("session", "ses_9", "mem_9"), "member.create", ("member", "mem_2"))
    actions = [event.action for event in audit.list(None, 50, about="mem_1")[0]]
    assert actions == ["api_key.revoke", "account.remove", "session.create", "setup"]
    assert audit.list(None, 2, about="mem_1")[0] == audit.list(None, 50, about="mem_1")[0][:2]
    assert [event.action for event in audit.list(6, 50, about="mem_1")[0]] == actions[1:]


def test_what_others_did_to_a_member(store: Store, audit: Audit, clock: FakeClock) -> None:
    other = Actor("session", "ses_9", "mem_9")
    for _ in range(2):
        audit.record(other, "api_key.revoke", ("api_key", "key_1"), about="mem_1")
    audit.record(SOMEBODY, "api_key.revoke", ("api_key", "key_2"), about="mem_1")
    audit.record(other, "session.create", ("member", "mem_1"), "failure")
    audit.record(other, "member.update", ("member", "mem_2"))
    clock.advance(86400)
    audit.record(Actor("local"), "member.update", ("member", "mem_1"))
    audit.record(Actor("local"), "backup.restore")
    revoked = ActByOther("2026-01-02", "session", "api_key.revoke")
    since = [ActByOther("2026-01-03", "local", action) for action in ("backup.restore", "member.update")]
    assert audit.list_acts_by_others("mem_1", "2026-01-02T04") == tuple(since)
    assert audit.list_acts_by_others("mem_1", "2026-01-02T03")[1:] == (revoked, *since)
    assert audit.list_acts_by_others("mem_9", "2026-01-02T03") == (since[0],)


def test_the_chain_is_looked_at_while_rows_are_written(store: Store, audit: Audit) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.001):  # Without a pause, the chain grows faster than it is checked.
            audit.record(SYSTEM_ACTOR, "something")

    writer = threading.Thread(target=write, name="writer")
    writer.start()
    try:
        assert [audit.verify().broken for _ in range(150)] == [None] * 150
    finally:
        stop.set()
        writer.join()


# --- The codes equal those of the standard library's HMAC ---


@pytest.mark.parametrize("key", [b"", b"k", bytes(32), bytes(range(32)), bytes(range(100, 164))])
def test_it_is_hmac(key: bytes) -> None:
    mac = Mac(key)
    for text in (b"", b"x", os.urandom(63), os.urandom(64), os.urandom(1000)):
        assert mac.digest(text) == mac.digest(text) == hmac.digest(key, text, "sha256")


def test_a_long_key_is_refused() -> None:
    with pytest.raises(ValueError):
        Mac(bytes(65))
