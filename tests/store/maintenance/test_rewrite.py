"""Compacting: a smaller file, the same rows, the same key; the old store after any failure."""

from pathlib import Path

import pytest

from mailbox_appliance.errors import KeyUnusable, StoreDamaged, StoreInUse
from mailbox_appliance.store.database import Row
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import read_key, read_key_file
from mailbox_appliance.store.maintenance.rewrite import compact_closed_store
from mailbox_appliance.store.store import Store
from tests.store.mail import execute
from tests.store.renewed import die, fill, names, opened_facts


@pytest.fixture
def folder(store: Store) -> Path:
    """A closed store from which many rows were deleted."""
    fill(store, 400)
    execute(store, "DELETE FROM messages WHERE uid > 40")
    store.close()
    return store.folder


@pytest.fixture
def before(folder: Path) -> dict[str, list[Row]]:
    """The rows in it."""
    return opened_facts(folder)


def test_it_is_smaller_and_the_same(folder: Path, before: dict[str, list[Row]]) -> None:
    key, size, there = read_key(folder / KEY_FILE), (folder / DATABASE_FILE).stat().st_size, names(folder)
    told: list[tuple[str, int, int]] = []
    answer = compact_closed_store(folder, folder / KEY_FILE, progress=lambda *now: told.append(now))
    assert (answer.bytes_before, answer.bytes_after) == (size, (folder / DATABASE_FILE).stat().st_size)
    assert answer.bytes_after < answer.bytes_before / 2
    assert opened_facts(folder) == before
    after = read_key(folder / KEY_FILE)
    assert (after.master, after.store_id) == (key.master, key.store_id)
    assert after.salt == (folder / DATABASE_FILE).read_bytes()[:16].hex()
    assert names(folder) == there
    assert (folder / DATABASE_FILE).stat().st_mode & 0o777 == 0o600
    assert all(done <= total for _, done, total in told)


def test_whatever_stops_it_leaves_the_old_or_the_new(folder: Path, before: dict[str, list[Row]]) -> None:
    number = 0
    while die("compact", folder, number):
        assert opened_facts(folder) == before
        assert ".next.making" not in names(folder)
        number += 1
    assert number >= 1


def test_what_fails_leaves_nothing_behind(folder: Path, before: dict[str, list[Row]]) -> None:
    class Stop(Exception):
        pass

    def stop(what: str, _done: int, _total: int) -> None:
        if what.startswith("checking"):
            raise Stop

    there, content = names(folder), (folder / DATABASE_FILE).read_bytes()
    with pytest.raises(Stop):
        compact_closed_store(folder, folder / KEY_FILE, progress=stop)
    assert names(folder) == there
    assert (folder / DATABASE_FILE).read_bytes() == content
    assert opened_facts(folder) == before


def test_files_that_cannot_be_put_in_place_are_by_the_next_start(folder: Path, before: dict[str, list[Row]]) -> None:
    obstacle = folder / f".{KEY_FILE}.new"

    def obstruct(what: str, _done: int, _total: int) -> None:
        if what.startswith("checking"):
            obstacle.mkdir()

    size = (folder / DATABASE_FILE).stat().st_size
    with pytest.raises(Exception, match="the next start then completes"):
        compact_closed_store(folder, folder / KEY_FILE, progress=obstruct)
    obstacle.rmdir()
    assert opened_facts(folder) == before
    assert (folder / DATABASE_FILE).stat().st_size < size / 2
    assert read_key(folder / KEY_FILE).salt == (folder / DATABASE_FILE).read_bytes()[:16].hex()


def test_it_needs_the_directory(store: Store) -> None:
    with pytest.raises(StoreInUse, match="pid"):
        compact_closed_store(store.folder, store.folder / KEY_FILE)


def test_a_damaged_store_is_left_as_it_is(folder: Path) -> None:
    content = bytearray((folder / DATABASE_FILE).read_bytes())
    content[-99] ^= 1
    (folder / DATABASE_FILE).write_bytes(content)
    with pytest.raises(StoreDamaged):
        compact_closed_store(folder, folder / KEY_FILE)
    assert (folder / DATABASE_FILE).read_bytes() == content


def test_a_key_file_that_cannot_be_written_is_told_before_anything_is_done(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / KEY_FILE).rename(elsewhere / KEY_FILE)
    (elsewhere / f".{KEY_FILE}.new").mkdir()  # the name of the temporary file
    told: list[str] = []
    with pytest.raises(KeyUnusable, match="cannot be"):
        compact_closed_store(folder, elsewhere / KEY_FILE, progress=lambda what, _done, _total: told.append(what))
    assert told == []
    assert read_key_file(elsewhere / KEY_FILE) is not None


def test_a_database_that_is_a_link_is_replaced_where_it_lies(folder: Path, tmp_path: Path) -> None:
    (folder / DATABASE_FILE).rename(tmp_path / "elsewhere.db")
    (folder / DATABASE_FILE).symlink_to(tmp_path / "elsewhere.db")
    before = (tmp_path / "elsewhere.db").read_bytes()
    compact_closed_store(folder, folder / KEY_FILE)
    assert (folder / DATABASE_FILE).is_symlink()
    assert (tmp_path / "elsewhere.db").read_bytes() != before
    Store.open(folder).close()
