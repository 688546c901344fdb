"""Status and dry run describe the existing files correctly."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance import errors
from mailbox_appliance.offline import store
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store_proof.directories import snapshot
from tests.stores.opening import copied


def no_format(folder: Path) -> None:
    connection = sqlite3.connect(folder / DATABASE_FILE)
    connection.execute("PRAGMA user_version = 0")
    connection.close()


def zeros(folder: Path) -> None:
    content = (folder / DATABASE_FILE).read_bytes()
    (folder / DATABASE_FILE).write_bytes(bytes(16) + content[16:])


def empty(folder: Path) -> None:
    (folder / DATABASE_FILE).write_bytes(b"")


def text(folder: Path) -> None:
    (folder / DATABASE_FILE).write_bytes(b"nothing that we know\n" * 400)


@pytest.mark.parametrize("spoil", [no_format, zeros, empty, text])
def test_what_is_no_store_has_no_format(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    folder, _ = copied(3, tmp_path / "data")
    spoil(folder)
    before = snapshot(folder)
    told = store.status(folder)["data"]
    assert (told["format"], told["migration"]) == (None, None)
    with pytest.raises(errors.StoreUnusable) as caught:
        store.dry_run_upgrade(folder)
    assert told["problem"] == caught.value.message
    assert snapshot(folder) == before
    with pytest.raises(type(caught.value)) as refused:
        store.upgrade(folder)
    assert type(refused.value) is type(caught.value)


def test_a_store_that_would_not_open_says_why(tmp_path: Path, clock: FakeClock) -> None:
    folder = tmp_path / "data"
    Store.open(folder, clock).close()
    assert told(folder) == (5, None)
    content = bytearray((folder / DATABASE_FILE).read_bytes())
    content[9 * 4096 + 77] ^= 1
    (folder / DATABASE_FILE).write_bytes(content)
    assert told(folder) == (5, problem(folder))
    Store.open(tmp_path / "other", clock).close()
    (folder / KEY_FILE).write_bytes((tmp_path / "other" / KEY_FILE).read_bytes())
    assert told(folder) == (None, problem(folder))
    (folder / KEY_FILE).unlink()  # the key's own problem reports this
    assert told(folder) == (5, None)
    with pytest.raises(errors.KeyMissing):
        store.dry_run_upgrade(folder)


def told(folder: Path) -> tuple[Any, Any]:
    """Return the format and the problem."""
    found = store.status(folder)["data"]
    return found["format"], found["problem"]


def problem(folder: Path) -> str:
    """Return why the dry run refuses, which is also why the upgrade would."""
    with pytest.raises(errors.StoreUnusable) as caught:
        store.dry_run_upgrade(folder)
    with pytest.raises(type(caught.value)):
        store.upgrade(folder)
    return caught.value.message
