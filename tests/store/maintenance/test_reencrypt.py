"""A store under another key: every row is the same, the old key does not open it, and the audit log is the same."""

import sqlite3
from pathlib import Path
from typing import Any

import apsw
import pytest

from mailbox_appliance.errors import StoreDamaged
from mailbox_appliance.store.audit import SYSTEM_ACTOR, Actor, Audit, AuditBreak
from mailbox_appliance.store.database import DATABASE_ERRORS, Database
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import StoreKey, new_key, write_key
from mailbox_appliance.store.maintenance.rewrite import ReencryptResult, reencrypt_database
from mailbox_appliance.store.open_file import check_opens_with
from mailbox_appliance.store.schema import TRIGGERS
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox, parsed
from tests.store.renewed import facts

#: change to the log -> the row that a check names before and afterwards
# fmt: off
MEDDLING: list[tuple[str, tuple[str, ...], int]] = [
    ("changed",         ("UPDATE audit_events SET outcome = 'failure' WHERE number = 3",), 3),
    ("first changed",   ("UPDATE audit_events SET outcome = 'failure' WHERE number = 1",), 1),
    ("dropped",         ("DELETE FROM audit_events WHERE number = 2",), 2),
    ("last dropped",    ("DELETE FROM audit_events WHERE number = 5",), 5),
    ("all dropped",     ("DELETE FROM audit_events",), 1),
    ("last covered up", ("DELETE FROM audit_events WHERE number = 5",
                         "UPDATE meta SET value = '4' WHERE name = 'audit_count'"), 5),
    ("added",           (("INSERT INTO audit_events SELECT 6, 'aud_x', at, actor_kind, NULL, NULL, 'x', NULL, NULL,"
                          " outcome, NULL, NULL, mac FROM audit_events WHERE number = 5"),), 6),
    ("end forgotten",   ("DELETE FROM meta WHERE name LIKE 'audit%'",), 1),
]
# fmt: on
ROWS = 5


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with mail and an audit log of five rows."""
    mailbox = Mailbox(store)
    for uid in range(1, 40):
        mailbox.add(uid, parsed(f"<{uid}@x>", text=f"word{uid} " * 50), after=uid)
    store.audit.record(SYSTEM_ACTOR, "start")
    store.audit.record(Actor("session", "ses_1", "mem_1", "192.0.2.7"), "session.create", ("session", "ses_1"))
    for _ in range(ROWS - 2):
        store.audit.record(SYSTEM_ACTOR, "stop")
    return store


def copy_of(store: Store, new: StoreKey, progress: Any = None) -> tuple[Path, ReencryptResult]:
    """Copy a store under a new key."""
    target = store.folder / "copy.db"
    return target, reencrypt_database(store.folder / DATABASE_FILE, store.key, target, new, progress)


@pytest.mark.parametrize("cipher", ["aegis", "chacha20"])
def test_everything_is_there_under_the_new_key(filled: Store, clock: FakeClock, cipher: str) -> None:
    other = new_key()
    new = StoreKey(other.master, other.store_id, cipher)
    told: list[tuple[int, int]] = []
    target, made = copy_of(filled, new, lambda _what, done, total: told.append((done, total)))
    assert made.audit is not None
    assert (made.audit.count, made.audit.broken) == (ROWS, None)
    assert told[-1][0] == told[-1][1] > 50
    with pytest.raises(apsw.NotADBError):
        check_opens_with(target, filled.key)
    check_opens_with(target, made.key)
    copied = Database(target, new.cipher, new.derive("database"))
    assert facts(copied) == facts(filled.database)
    assert copied.rows("SELECT rowid FROM message_index WHERE message_index MATCH 'word7'") != []
    assert dict(copied.rows("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")) == TRIGGERS
    audit = Audit(copied, new.derive("audit"), clock)
    assert audit.verify().broken is None
    audit.record(SYSTEM_ACTOR, "start")
    assert (audit.verify().count, audit.verify().broken) == (ROWS + 1, None)
    copied.close()


def test_it_opens_as_a_store_with_the_key_that_is_answered(filled: Store, tmp_path: Path) -> None:
    target, made = copy_of(filled, new_key())
    (tmp_path / "other").mkdir()
    target.rename(tmp_path / "other" / DATABASE_FILE)
    write_key(tmp_path / "other" / KEY_FILE, made.key)
    opened = Store.open(tmp_path / "other")
    assert opened.audit.verify().broken is None
    opened.close()


@pytest.mark.parametrize(("statements", "number"), [case[1:] for case in MEDDLING], ids=[case[0] for case in MEDDLING])
def test_a_log_that_was_meddled_with_stays_so(
    filled: Store, clock: FakeClock, statements: tuple[str, ...], number: int
) -> None:
    with filled.database.transaction():
        for name in ("add", "stay", "remain"):
            filled.database.change(f"DROP TRIGGER audit_events_{name}")
        for statement in statements:
            filled.database.change(statement)
    before = filled.audit.verify()
    target, made = copy_of(filled, new := new_key())
    copied = Database(target, new.cipher, new.derive("database"))
    audit = Audit(copied, new.derive("audit"), clock)
    for _ in range(2):
        found = audit.verify()
        assert (found.broken or AuditBreak(0, None, "")).number == number
        audit.record(SYSTEM_ACTOR, "more")
    assert made.audit == before
    copied.close()


def test_an_empty_log_is_whole(store: Store, clock: FakeClock) -> None:
    target, _ = copy_of(store, new := new_key())
    copied = Database(target, new.cipher, new.derive("database"))
    assert Audit(copied, new.derive("audit"), clock).verify().broken is None
    copied.close()


def test_with_the_same_master_key_the_seals_stay(filled: Store) -> None:
    _, made = copy_of(filled, StoreKey(filled.key.master, filled.key.store_id, "chacha20"))
    assert made.audit is None


def test_rows_that_are_still_in_the_log_are_copied(filled: Store) -> None:
    assert (filled.folder / f"{DATABASE_FILE}-wal").stat().st_size > 0
    target, _ = copy_of(filled, new := new_key())
    copied = Database(target, new.cipher, new.derive("database"))
    assert copied.value("SELECT count(*) FROM messages") == 39
    copied.close()


def test_a_damaged_page_leaves_no_copy(filled: Store) -> None:
    file = filled.folder / DATABASE_FILE
    filled.close()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    target = filled.folder / "copy.db"
    with pytest.raises(StoreDamaged):
        reencrypt_database(file, filled.key, target, new_key())
    assert not list(filled.folder.glob("copy.db*"))


def test_a_copy_that_cannot_be_finished_is_removed(filled: Store) -> None:
    class Stop(Exception):
        pass

    def stop(_what: str, _done: int, _total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        copy_of(filled, new_key(), stop)
    assert not list(filled.folder.glob("copy.db*"))


def test_the_wrong_old_key_makes_nothing(filled: Store) -> None:
    with pytest.raises(DATABASE_ERRORS):
        reencrypt_database(filled.folder / DATABASE_FILE, new_key(), filled.folder / "copy.db", new_key())
    assert not list(filled.folder.glob("copy.db*"))


def test_it_is_no_plain_file(filled: Store) -> None:
    target, _ = copy_of(filled, new_key())
    content = target.read_bytes()
    assert b"word" not in content
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(target).execute("SELECT * FROM sqlite_schema")
