"""Sessions expire in time, are found by their token's hash, and failed sign-ins are counted."""

from contextlib import ExitStack
from datetime import timedelta

import apsw
import pytest

from mailbox_appliance.clock import from_timestamp, to_timestamp
from mailbox_appliance.errors import NotFound, Throttled
from mailbox_appliance.model.members import Capability
from mailbox_appliance.store import credentials
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import add_member, execute

HASH, OTHER_HASH = "a" * 64, "b" * 64
DAY = 86_400
WINDOW = timedelta(minutes=15)


@pytest.fixture
def member(store: Store) -> str:
    """A member's id."""
    return add_member(store)


def log_in(store: Store, member: str, token_hash: str = HASH) -> str:
    with store.database.transaction():
        return store.credentials.add_session(member, token_hash, "a device").id


def last_used(store: Store) -> str:
    return str(store.database.value("SELECT last_used_at FROM sessions"))


def test_a_session_is_found_by_the_hash_of_its_token(store: Store, member: str) -> None:
    session = log_in(store, member)
    found = store.credentials.find(HASH)
    assert found == FoundCredential("session", session, store.members.get(member))
    for unknown in (OTHER_HASH, HASH.upper(), "", HASH[:-1]):
        assert store.credentials.find(unknown) is None


def test_a_credential_is_decoded_once_until_a_commit(
    store: Store, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_MOST_READ", 1)
    log_in(store, member)
    log_in(store, member, OTHER_HASH)
    found = store.credentials.find(HASH)
    assert found is not None
    assert store.credentials.find(HASH) is found
    assert store.credentials.find(OTHER_HASH) is not found  # which makes room for itself
    assert store.credentials.find(HASH) == found
    execute(store, "UPDATE members SET role = 'admin', name = 'Other' WHERE id = ?", (member,))
    changed = store.credentials.find(HASH)
    assert changed is not None
    assert (changed.member.role, changed.member.name) == ("admin", "Other")
    execute(store, "DELETE FROM sessions WHERE token_hash = ?", (HASH,))
    assert store.credentials.find(HASH) is None


#: Days that pass between uses, and whether the session is still valid after them.
LIVES: list[tuple[tuple[float, ...], bool]] = [
    ((29.99,), True),
    ((30,), False),
    ((29, 29, 29), True),
    ((29, 29, 29, 2.99), True),
    ((29, 29, 29, 3), False),
    ((0, 30.01), False),
]


@pytest.mark.parametrize(("passed", "lives"), LIVES)
def test_a_session_dies_unused_or_old(
    store: Store, clock: FakeClock, member: str, passed: tuple[float, ...], lives: bool
) -> None:
    log_in(store, member)
    for days in passed[:-1]:
        clock.advance(days * DAY)
        assert store.credentials.find(HASH) is not None
    clock.advance(passed[-1] * DAY)
    assert bool(store.credentials.list_sessions(member, None)) == lives
    assert (store.credentials.find(HASH) is not None) == lives


def test_the_end_that_is_shown_is_the_one_that_comes_first(store: Store, clock: FakeClock, member: str) -> None:
    log_in(store, member)
    (session,) = store.credentials.list_sessions(member, None)
    assert from_timestamp(session.expires_at) - from_timestamp(session.last_used_at) == timedelta(days=30)
    for _ in range(3):
        clock.advance(29 * DAY)
        store.credentials.find(HASH)
    (session,) = store.credentials.list_sessions(member, None)
    assert from_timestamp(session.expires_at) - from_timestamp(session.created_at) == timedelta(days=90)


def test_use_is_noted_once_a_minute(store: Store, clock: FakeClock, member: str) -> None:
    log_in(store, member)
    began = last_used(store)
    clock.advance(59.9)
    store.credentials.find(HASH)
    assert last_used(store) == began
    clock.advance(0.1)
    store.credentials.find(HASH)
    assert last_used(store) == to_timestamp(clock.now()) > began


def test_a_full_disk_ends_no_session(
    store: Store, clock: FakeClock, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(store, member)
    before = last_used(store)

    def refuse(sql: str, parameters: object = ()) -> int:
        raise apsw.FullError

    clock.advance(120)
    with monkeypatch.context() as patch:
        patch.setattr(store.database, "change", refuse)
        assert store.credentials.find(HASH) is not None
    assert last_used(store) == before
    assert store.credentials.find(HASH) is not None
    assert last_used(store) > before


def test_a_clock_that_is_set_back_ends_no_session_and_notes_nothing(
    store: Store, clock: FakeClock, member: str
) -> None:
    log_in(store, member)
    began = last_used(store)
    clock.set_wall(clock.now() - timedelta(days=400))
    assert store.credentials.find(HASH) is not None
    assert last_used(store) == began


def test_those_that_died_are_swept_out_now_and_then(store: Store, clock: FakeClock, member: str) -> None:
    log_in(store, member)
    log_in(store, member, OTHER_HASH)

    def count_after(age: timedelta, passed: float, column: str = "last_used_at") -> int:
        clock.advance(passed)
        with store.database.transaction():
            store.database.change(
                f"UPDATE sessions SET {column} = ? WHERE token_hash = ?", (to_timestamp(clock.now() - age), HASH)
            )
        with store.database.transaction():
            store.credentials.add_session(member, to_timestamp(clock.now()), "a device")
        return int(store.database.value("SELECT count(*) FROM sessions"))

    # Each adds one session; the expired one is deleted at the first sign-in after a minute.
    assert count_after(timedelta(days=30), 59.9) == 3
    assert count_after(timedelta(days=30), 0.1) == 3
    assert count_after(timedelta(days=30), 60) == 4


def test_a_session_of_an_earlier_log_in_ends_with_that(store: Store, clock: FakeClock, member: str) -> None:
    first, began = log_in(store, member), to_timestamp(clock.now())
    for _ in range(3):
        clock.advance(29 * DAY)
        assert store.credentials.find(HASH) is not None
    assert store.credentials.find_login_time(first) == began
    with store.database.transaction():
        session = store.credentials.add_session(member, OTHER_HASH, "x", logged_in_at=began)
    assert session.created_at == to_timestamp(clock.now())
    assert session.expires_at == to_timestamp(from_timestamp(began) + timedelta(days=90))
    assert store.credentials.get_session(member, session.id, None).expires_at == session.expires_at
    clock.advance(3 * DAY)
    for token_hash in (HASH, OTHER_HASH):
        assert store.credentials.find(token_hash) is None
    assert store.credentials.find_login_time(first) is None
    assert store.credentials.find_login_time("ses_unknown") is None


def test_a_member_has_so_many_sessions(
    store: Store, clock: FakeClock, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "MOST_SESSIONS", 10)
    stranger = add_member(store)
    others = log_in(store, stranger, "c" * 64)
    made = [log_in(store, member, f"{number:064}") for number in range(12)]
    clock.advance(120)
    assert store.credentials.find(f"{0:064}") is not None
    clock.set_wall(clock.now() - timedelta(days=1))
    newest = log_in(store, member)
    with store.database.transaction():
        assert sorted(store.credentials.remove_surplus_sessions(member, newest)) == sorted(made[1:4])
        assert store.credentials.remove_surplus_sessions(member, newest) == ()
    left = {session.id for session in store.credentials.list_sessions(member, None)}
    assert left == {newest, made[0], *made[4:]}
    assert [session.id for session in store.credentials.list_sessions(stranger, None)] == [others]


def test_one_that_died_is_not_told_among_the_surplus(
    store: Store, clock: FakeClock, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "MOST_SESSIONS", 10)
    log_in(store, member)
    execute(store, "UPDATE sessions SET last_used_at = ?", (to_timestamp(clock.now() - timedelta(days=31)),))
    made = [log_in(store, member, f"{number:064}") for number in range(10)]
    with store.database.transaction():
        assert store.credentials.remove_surplus_sessions(member, made[-1]) == ()
    assert store.database.value("SELECT count(*) FROM sessions") == 10


def test_one_session_is_shown_to_its_member(store: Store, clock: FakeClock, member: str) -> None:
    stranger, session = add_member(store), log_in(store, member)
    assert store.credentials.get_session(member, session, session).current
    assert not store.credentials.get_session(member, session, None).current
    for owner, wanted in ((stranger, session), (member, "ses_unknown")):
        with pytest.raises(NotFound):
            store.credentials.get_session(owner, wanted, None)
    clock.advance(30 * DAY)
    with pytest.raises(NotFound):
        store.credentials.get_session(member, session, None)


def test_sessions_are_listed_by_use_and_ended_one_by_one(store: Store, clock: FakeClock, member: str) -> None:
    stranger = add_member(store)
    first, second = log_in(store, member), log_in(store, member, OTHER_HASH)
    clock.advance(3600)
    store.credentials.find(HASH)
    listed = store.credentials.list_sessions(member, second)
    assert [(session.id, session.current) for session in listed] == [(first, False), (second, True)]
    assert store.credentials.list_sessions(stranger, None) == ()
    for owner, session in ((stranger, first), (member, "ses_unknown")):
        with pytest.raises(NotFound), store.database.transaction():
            store.credentials.remove_session(owner, session)
    with store.database.transaction():
        store.credentials.remove_session(member, first)
    assert store.credentials.find(HASH) is None
    assert store.credentials.find(OTHER_HASH) is not None


def test_a_key_is_found_with_what_it_may_do_until_it_is_revoked(store: Store, member: str) -> None:
    with store.database.transaction():
        store.database.change(
            "INSERT INTO api_keys (id, name, member_id, token_hash, permission_profile, capabilities, account_ids,"
            " created_at) VALUES ('key_1', 'k', ?, ?, 'custom', '[\"mail.read\"]', '[\"acc_1\"]', '')",
            (member, HASH),
        )
    may_read = (Capability.MAIL_READ,)
    owner = store.members.get(member)
    assert store.credentials.find(HASH) == FoundCredential("api_key", "key_1", owner, may_read, frozenset({"acc_1"}))
    assert store.database.value("SELECT last_used_at FROM api_keys") == "2026-01-02T03:04:05.678Z"
    execute(store, "UPDATE api_keys SET account_ids = NULL")
    assert store.credentials.find(HASH) == FoundCredential("api_key", "key_1", owner, may_read, None)
    execute(store, "UPDATE api_keys SET revoked_at = 'now'")
    assert store.credentials.find(HASH) is None


# --- Failures are counted by bucket, for fifteen minutes, and no burst exceeds a limit ---


def wait(store: Store, **limits: int) -> int:
    """Return the seconds until an attempt is allowed; 0: now."""
    try:
        store.login_attempts.require_room(limits)
    except Throttled as problem:
        return problem.retry_after or -1
    return 0


def fail(store: Store, **limits: int) -> int:
    """Do the same, and count a failure if an attempt is allowed."""
    if not (seconds := wait(store, **limits)):
        with store.login_attempts.reserve(limits), store.database.transaction():
            store.login_attempts.record_failure(limits)
    return seconds


def test_attempts_have_a_limit_in_every_bucket(store: Store, clock: FakeClock) -> None:
    for _ in range(3):
        assert fail(store, email=3, address=5) == 0
        clock.advance(60)
    assert fail(store, email=3, address=5) == 12 * 60
    # Refused attempts were not counted.
    assert [fail(store, address=5) for _ in range(3)] == [0, 0, 12 * 60]


def test_attempts_are_forgotten_after_the_window(store: Store, clock: FakeClock) -> None:
    assert [fail(store, email=1), fail(store, email=1)] == [0, 900]
    clock.advance(899.5)
    assert fail(store, email=1) == 1
    clock.advance(0.5)
    assert fail(store, email=1) == 0
    assert store.database.value("SELECT count(*) FROM attempts") == 1


def test_a_bucket_is_cleared(store: Store) -> None:
    for _ in range(2):
        assert fail(store, email=2, address=3) == 0
    with store.database.transaction():
        store.login_attempts.clear("email")
    assert [fail(store, email=2, address=3), fail(store, email=2, address=3) > 0] == [0, True]


def test_attempts_under_way_leave_room_for_their_failures(store: Store) -> None:
    limits = {"email": 5, "address": 3}
    assert fail(store, address=3) == 0
    with ExitStack() as under_way:
        for _ in range(2):
            under_way.enter_context(store.login_attempts.reserve(limits))
        with pytest.raises(Throttled) as refused, store.login_attempts.reserve(limits):
            pass
        # Both may still succeed, so the wait is not fifteen minutes.
        assert refused.value.retry_after == 1
        with store.login_attempts.reserve({"email": 5}):
            pass
    with store.login_attempts.reserve(limits):
        pass
    assert store.database.value("SELECT count(*) FROM attempts") == 1


def test_looking_and_what_turns_out_well_write_nothing(store: Store) -> None:
    before = store.database.value("SELECT total_changes()")
    assert wait(store, email=1) == 0
    with store.login_attempts.reserve({"email": 1}):
        pass
    assert store.database.value("SELECT total_changes()") == before


def test_a_clock_that_is_set_back_locks_nobody_out(store: Store, clock: FakeClock) -> None:
    for _ in range(2):
        fail(store, email=2)
    clock.set_wall(clock.now() - timedelta(days=1))
    assert [fail(store, email=2) for _ in range(3)] == [0, 0, 900]


def test_attempts_survive_a_restart(store: Store, clock: FakeClock) -> None:
    fail(store, email=1)
    store.close()
    again = Store.open(store.folder, clock)
    assert fail(again, email=1) == 900
    again.close()
