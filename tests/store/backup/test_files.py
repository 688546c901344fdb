"""A copy of a database during writes is the store at one moment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.store.backup.files import OnlineCopier, check_copy
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.open_file import open_immutable, wal_path
from mailbox_appliance.store.store import Store

ROWS = 300


@pytest.fixture
def folded(store: Store) -> Store:
    """A store with a long, completely checkpointed log: the next commit would reset it."""
    with store.database.transaction():
        rows = [(f"k{number}", "0" * 3000) for number in range(ROWS)]
        store.database.change_many("INSERT INTO settings VALUES (?, ?)", rows)
        store.database.change_many("INSERT INTO meta VALUES (?, ?)", rows)
    for letter in "ab":
        write(store, letter)
    store.database.rows("PRAGMA wal_checkpoint(PASSIVE)")
    return store


@pytest.fixture
def copier(folded: Store) -> Iterator[OnlineCopier]:
    """The copier of that store."""
    made = OnlineCopier(folded.folder / DATABASE_FILE, folded.key, folded.database)
    yield made
    made.close()


def write(store: Store, letter: str) -> None:
    """Update all rows of both tables in one transaction."""
    with store.database.transaction():
        store.database.change("UPDATE settings SET value = ?", (letter * 3000,))
        store.database.change("UPDATE meta SET value = ? WHERE name LIKE 'k%'", (letter * 3000,))


def test_the_log_does_not_begin_anew_under_a_copy(folded: Store, copier: OnlineCopier, tmp_path: Path) -> None:
    log = wal_path(folded.folder / DATABASE_FILE)
    headers = []

    def look(*_: object) -> None:
        headers.append(log.read_bytes()[:32])
        write(folded, "cde"[len(headers) % 3])
        headers.append(log.read_bytes()[:32])

    copier.copy(tmp_path / "copy", look)
    assert len(headers) > 1
    assert len(set(headers)) == 1


def test_a_copy_is_of_one_moment(folded: Store, copier: OnlineCopier, tmp_path: Path) -> None:
    written = iter("cdefghijklmnopqrstuvwxyz")
    copier.copy(tmp_path / "copy", lambda *_: write(folded, next(written)))
    last = chr(ord(next(written)) - 1)
    check_copy(tmp_path / "copy", folded.key)
    with open_immutable(tmp_path / "copy", folded.key) as copy:
        seen = "SELECT DISTINCT substr(value, 1, 1) FROM {} WHERE name LIKE 'k%'"
        assert {row[0] for table in ("settings", "meta") for row in copy.execute(seen.format(table))} == {last}
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy"]


def test_afterwards_the_log_is_folded_in_as_ever(folded: Store, copier: OnlineCopier, tmp_path: Path) -> None:
    copier.copy(tmp_path / "copy")
    before = wal_path(folded.folder / DATABASE_FILE).read_bytes()[:32]
    folded.database.rows("PRAGMA wal_checkpoint(PASSIVE)")
    write(folded, "z")
    assert wal_path(folded.folder / DATABASE_FILE).read_bytes()[:32] != before
