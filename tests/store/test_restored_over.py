"""Backups restored over a store that is not simply a later state: an earlier one, a replacement of a lost one, a
mistake.
"""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from mailbox_appliance.model.deliveries import Phase
from mailbox_appliance.offline import restore as offline_restore
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.backup.container import read_manifest
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.restore.restore import RestoreResult, unpack_into_folder
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox, execute
from tests.store.restore.test_restore import back_up, restore
from tests.store.restored import HOUR, People, accept, add_key, add_session, ended, lets_in, populate, told
from tests.stores.opening import copied

AT = "2026-01-02T03:04:05.678Z"

T = TypeVar("T")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def inside(folder: Path, clock: FakeClock, act: Callable[[Store], T]) -> T:
    """Return the result of an action in an open store; an hour passes afterwards."""
    store = Store.open(folder, clock)
    try:
        return act(store)
    finally:
        store.close()
        clock.advance(HOUR)


def begin(folder: Path, clock: FakeClock) -> People:
    """Schedule two messages, one soon and one late, in a populated store."""

    def act(store: Store) -> People:
        people = populate(store)
        for name, hours in (("soon", 12), ("late", 24), ("canceled", 24)):
            people.more[name] = accept(store, people, name, send_at=clock.now() + timedelta(hours=hours))
        return people

    return inside(folder, clock, act)


def go_on(store: Store, people: People) -> None:
    """Send one, cancel one, revoke a key and a session, and change a password."""
    store.deliveries.begin_sending(people.more["soon"])
    store.deliveries.succeed(people.more["soon"], None, reply_code=250)
    found = store.deliveries.find(people.more["canceled"])
    assert found is not None
    store.deliveries.cancel(people.box, str(found[0].schedule_id))
    told(store, "schedule.cancel", ("schedule", "sch_1"))
    with store.database.transaction():
        store.api_keys.revoke(people.key)
        told(store, "api_key.revoke", ("api_key", people.key))
        store.members.set_password(people.bob, "bob-2")
        told(store, "password.change", ("member", people.bob))
        store.credentials.remove_session(people.bob, people.more["session"])
        told(store, "session.revoke", ("session", people.more["session"]))


def found_in(folder: Path, clock: FakeClock, people: People) -> tuple[object, ...]:
    """Return the state of everything that `go_on` changed, and whether scheduled messages are on hold."""

    def look(store: Store) -> tuple[object, ...]:
        sends = [ended(store, people.more[name]) for name in ("soon", "canceled", "late")]
        let_in = [lets_in(store, mark) is not None for mark in "12"]
        is_held = store.stored_settings.find("sending.hold_scheduled")
        return (*sends, *let_in, store.members.get_password_hash(people.bob), is_held)

    return inside(folder, clock, look)


KNOWN = ("succeeded", "canceled", "queued", False, False, "bob-2", True)


def test_over_an_earlier_state_of_the_store(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    """For example a copy of the directory, or a machine that was rolled back."""
    people = begin(folder, clock)
    shutil.copytree(folder, tmp_path / "old")
    inside(folder, clock, lambda store: go_on(store, people))
    file = back_up(folder, clock)
    restored = restore(tmp_path / "old", file, clock)
    assert restored.carried.relation == "forked"
    assert found_in(tmp_path / "old", clock, people) == KNOWN


def test_it_is_told_in_plain_words(folder: Path, tmp_path: Path) -> None:
    clock = FakeClock()
    people = begin(folder, clock)
    shutil.copytree(folder, tmp_path / "old")
    inside(folder, clock, lambda store: go_on(store, people))
    warnings = offline_restore.restore(tmp_path / "old", back_up(folder, clock))["warnings"]
    assert warnings[:-1] == [
        (
            "The current store is not a later state of the backup: it is earlier, the two have diverged, or a restore"
            " is undone. Sends of both are kept, and API keys that were revoked in either stay revoked. Everything else"
            " is as it was in the backup: review the members, their passwords and the API keys. All sessions have"
            " ended."
        ),
        "1 send may have been delivered and is uncertain now.",
    ]


@pytest.mark.parametrize("outcome", ["succeeded", "uncertain", "sending", "tried again"])
def test_over_an_earlier_state_where_only_the_sends_tell(
    folder: Path, clock: FakeClock, tmp_path: Path, outcome: str
) -> None:
    people = begin(folder, clock)
    if outcome == "tried again":
        inside(folder, clock, lambda store: try_once(store, people, clock))
    shutil.copytree(folder, tmp_path / "old")

    def send(store: Store) -> None:
        store.deliveries.begin_sending(people.more["soon"])
        if outcome == "tried again":
            store.deliveries.enter_phases(people.more["soon"], [(Phase.CONNECTING, AT)])
        if outcome == "succeeded":
            store.deliveries.succeed(people.more["soon"], None, reply_code=250)
        elif outcome == "uncertain":
            store.deliveries.set_outcome(people.more["soon"], "uncertain")

    inside(folder, clock, send)
    restored = restore(tmp_path / "old", back_up(folder, clock), clock)
    assert restored.carried.relation == "forked"
    assert found_in(tmp_path / "old", clock, people) == (
        "succeeded" if outcome == "succeeded" else "uncertain",
        *("queued", "queued", True, False, "bob-1", True),
    )


def try_once(store: Store, people: People, clock: FakeClock) -> None:
    """Fail an attempt: the message that is due soon is queued again."""
    store.deliveries.begin_sending(people.more["soon"])
    store.deliveries.enter_phases(people.more["soon"], [(Phase.CONNECTING, AT)])
    store.deliveries.requeue(people.more["soon"], clock.now() + timedelta(hours=12), "a cause")


def test_a_send_that_waits_again_after_a_try_that_failed_since(folder: Path, clock: FakeClock) -> None:
    """Its present state counts: the present store is the later one."""
    people = begin(folder, clock)
    inside(folder, clock, lambda store: store.deliveries.begin_sending(people.more["soon"]))
    file = back_up(folder, clock)
    inside(folder, clock, lambda store: try_once_more(store, people, clock))
    assert restore(folder, file, clock).carried.relation == "continues"
    assert inside(folder, clock, lambda store: ended(store, people.more["soon"])) == "queued"


def try_once_more(store: Store, people: People, clock: FakeClock) -> None:
    store.deliveries.enter_phases(people.more["soon"], [(Phase.CONNECTING, AT)])
    store.deliveries.requeue(people.more["soon"], clock.now() + timedelta(hours=12), "a cause")


def test_an_older_backup_first_then_the_newest(folder: Path, clock: FakeClock) -> None:
    """The store was lost: the events since the older backup are unknown, but the newest backup has them."""
    people = begin(folder, clock)
    first = back_up(folder, clock)
    inside(folder, clock, lambda store: go_on(store, people))
    newest = back_up(folder, clock)
    (folder / DATABASE_FILE).unlink()
    assert restore(folder, first, clock, is_known=False).carried.relation is None
    inside(folder, clock, lambda store: add_session(store, people.bob, "9"))
    carried = restore(folder, newest, clock).carried
    assert (carried.relation, carried.has_log) == ("forked", False), "the first restore is not in the log"
    assert found_in(folder, clock, people) == KNOWN
    assert inside(folder, clock, lambda store: lets_in(store, "9")) is None, "all sessions end"


def test_back_to_the_old_release_and_forward_again(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    """The store unpacked from the migration backup is upgraded; the newest backup is restored over it."""
    copied(3, folder)
    key = inside(folder, clock, lambda store: store.api_keys.list()[0].id)
    (migration,) = (folder / "backups").glob("*-migration.mbxbackup")
    upgraded = back_up(folder, clock)

    def revoke(store: Store) -> str:
        sql = "SELECT id FROM delivery_operations WHERE status = 'queued' AND schedule_id IS NOT NULL LIMIT 1"
        waiting = str(store.database.value(sql))
        store.deliveries.begin_sending(waiting)
        store.deliveries.succeed(waiting, None, reply_code=250)
        with store.database.transaction():
            store.api_keys.revoke(key)
            told(store, "api_key.revoke", ("api_key", key))
        found = store.deliveries.find(waiting)
        assert found is not None
        return str(found[0].schedule_id)

    schedule = inside(folder, clock, revoke)
    newest = back_up(folder, clock)
    unpack_into_folder(migration, tmp_path / "old", clock)
    inside(tmp_path / "old", clock, lambda _: None)
    shutil.copytree(tmp_path / "old", tmp_path / "again")
    again = restore(tmp_path / "again", upgraded, clock).carried
    assert (again.relation, again.sends.are_held) == ("forked", True), "each was upgraded by itself"
    assert restore(tmp_path / "old", newest, clock).carried.relation == "forked"

    def look(store: Store) -> tuple[object, ...]:
        status = store.database.rows("SELECT status FROM delivery_operations WHERE schedule_id = ?", (schedule,))
        return status, store.database.value("SELECT revoked_at IS NULL FROM api_keys WHERE id = ?", (key,))

    assert inside(tmp_path / "old", clock, look) == ([("succeeded",)], 0)


# --- undoing a restore ------------------------------------------------------------------------------------------------


def add_eve(store: Store, people: People) -> None:
    """Add an administrator, their key, a mailbox shared with all and with Bob, a scheduled and a sent message."""
    with store.database.transaction():
        eve = store.members.add(name="Eve", email="eve@example.org", role="admin", password_hash="eve").id
        told(store, "member.create", ("member", eve))
    people.more |= {"eve": eve, "box": Mailbox(store, eve).id, "key": add_key(store, eve, "7")}
    told(store, "account.create", ("account", people.more["box"]))
    later = FakeClock().now() + timedelta(days=9)
    people.more["waits"] = accept(store, people, "waits", send_at=later, box=people.more["box"])
    people.more["sent"] = accept(store, people, "sent", box=people.more["box"])
    store.deliveries.succeed(people.more["sent"], None, reply_code=250)
    with store.database.transaction():
        store.accounts.set_access(people.more["box"], shared_with_all=True, member_ids=[people.bob])
        store.accounts.set_access(people.box, shared_with_all=True, member_ids=[people.bob, eve])
        told(store, "account.access", ("account", people.box))
        store.members.update(people.bob, role="admin")
        told(store, "member.promote", ("member", people.bob))


def take_back(
    folder: Path, clock: FakeClock, since: Callable[[Store, People], None] = lambda _store, _people: None
) -> tuple[People, RestoreResult]:
    """Restore an old backup by mistake, let events happen, and restore the backup of the replaced store."""
    people = begin(folder, clock)
    old = back_up(folder, clock)
    clock.advance(HOUR)
    inside(folder, clock, lambda store: add_eve(store, people))
    mistake = restore(folder, old, clock)
    assert mistake.carried.relation == "continues"
    assert mistake.carried.sends.ended == 1
    assert mistake.kept is not None
    clock.advance(HOUR)
    inside(folder, clock, lambda store: since(store, people))
    assert read_manifest(mistake.kept).reason == "pre-restore"
    return people, restore(folder, mistake.kept, clock)


def test_what_a_restore_took_comes_back(folder: Path, clock: FakeClock) -> None:
    """Everybody is signed out, and scheduled messages are on hold."""
    people, restored = take_back(folder, clock)
    assert (restored.carried.relation, restored.carried.sends.ended, restored.carried.has_log) == ("forked", 0, True)
    assert (restored.carried.rights.revoked, restored.carried.rights.suspended) == (0, 0)
    store = Store.open(folder, clock)
    members = {one.name: (one.role, one.status) for one in store.members.list()}
    assert members == {"Ada": ("admin", "active"), "Bob": ("admin", "active"), "Eve": ("admin", "active")}
    assert store.members.get_password_hash(people.more["eve"]) == "eve"
    assert (lets_in(store, "7"), lets_in(store, "2")) == (people.more["eve"], None)
    assert [ended(store, people.more[name]) for name in ("waits", "sent")] == ["queued", "succeeded"]
    assert store.stored_settings.find("sending.hold_scheduled") is True
    assert [bool(store.deliveries.get_work(people.more[name]).wire) for name in ("waits", "sent")] == [True, True]
    assert store.sent_copies.list_due(clock.now(), people.more["box"]) == (people.more["sent"],)
    box, shared = store.accounts.get(people.more["box"]), store.accounts.get(people.box)
    assert (box.shared_with_all, box.granted_member_ids) == (True, (people.bob,))
    assert (shared.shared_with_all, {*shared.granted_member_ids}) == (True, {people.bob, people.more["eve"]})
    actions = [event.action for event in store.audit.list(None, 3)[0]]
    assert actions == ["backup.restore", "backup.restore", "member.promote"]
    assert store.audit.verify().broken is None
    store.close()


def test_what_was_sent_and_revoked_after_it_stays_so(folder: Path, clock: FakeClock) -> None:
    people, restored = take_back(folder, clock, go_on)
    assert restored.carried.relation == "forked"
    assert found_in(folder, clock, people) == ("succeeded", "canceled", "queued", False, False, "bob-1", True)


# --- missing files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["audit_head", "audit_count"])
def test_a_present_log_that_has_no_end_is_not_gone_on_with(folder: Path, clock: FakeClock, name: str) -> None:
    people = begin(folder, clock)
    file = back_up(folder, clock)

    def damage(store: Store) -> None:
        go_on(store, people)
        execute(store, "DELETE FROM meta WHERE name = ?", (name,))

    inside(folder, clock, damage)
    carried = restore(folder, file, clock).carried
    assert (carried.relation, carried.has_log) == ("continues", False)
    assert found_in(folder, clock, people) == (*KNOWN[:-1], None)
    store = Store.open(folder, clock)
    assert [event.action for event in store.audit.list(None, 1)[0]] == ["backup.restore"]
    store.audit.record(SYSTEM_ACTOR, "settings.update")
    assert store.audit.verify().broken is None
    store.close()
