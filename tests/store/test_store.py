"""A store is created, closed, opened again, owned by one process, and intact after a crash."""

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mailbox_appliance.errors import KeyDamaged, StoreInUse, StoreUnusable
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE, write_private
from mailbox_appliance.store.key import CIPHERS, StoreKey, new_key, read_key, write_key
from mailbox_appliance.store.store import Store
from tests.store.mail import execute

#: Opens the store in argv[1], reports it, and waits for its input to end; with `write` it first commits a row.
HOLDER = """
import sys
from pathlib import Path
from mailbox_appliance.store.store import Store
store = Store.open(Path(sys.argv[1]))
if len(sys.argv) > 2:
    with store.database.transaction(durable=True):
        store.database.change("INSERT INTO meta VALUES ('note', 'of the killed')")
print("open", flush=True)
sys.stdin.read()
store.close()
"""


@contextmanager
def held(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the store open."""
    command = [sys.executable, "-c", HOLDER, str(folder), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process


def modes(folder: Path) -> dict[str, str]:
    """Return name -> mode of a directory and everything in it."""
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.rglob("*"))}


def value(folder: Path, name: str) -> str | None:
    """Return a value of the store in a directory."""
    store = Store.open(folder)
    try:
        found = store.database.value("SELECT value FROM meta WHERE name = ?", (name,))
    finally:
        store.close()
    return None if found is None else str(found)


def note(folder: Path) -> None:
    """Add a row by which the store can be recognized."""
    store = Store.open(folder)
    execute(store, "INSERT INTO meta VALUES ('note', 'mine')")
    store.close()


def test_a_new_store_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "data"
    before = os.umask(0)
    try:
        store = Store.open(folder)
        while_open = modes(folder)
        store.close()
    finally:
        os.umask(before)
    private = dict.fromkeys((DATABASE_FILE, KEY_FILE, "lock"), "0o600") | {"data": "0o700"}
    assert while_open == private | dict.fromkeys((DATABASE_FILE + "-wal", DATABASE_FILE + "-shm"), "0o600")
    assert modes(folder) == private


def test_a_store_is_opened_again_with_what_was_in_it(tmp_path: Path) -> None:
    note(tmp_path / "data")
    key = (tmp_path / "data" / KEY_FILE).read_bytes()
    assert value(tmp_path / "data", "note") == "mine"
    assert (tmp_path / "data" / KEY_FILE).read_bytes() == key


def test_the_key_may_be_kept_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "stick").mkdir()
    elsewhere = tmp_path / "stick" / "key"
    Store.open(tmp_path / "data", key_file=elsewhere).close()
    assert not (tmp_path / "data" / KEY_FILE).exists()
    assert modes(tmp_path / "stick")["key"] == "0o600"
    Store.open(tmp_path / "data", key_file=elsewhere).close()


@pytest.mark.parametrize("cipher", CIPHERS)
def test_a_key_of_one_line_opens_its_store_whatever_the_cipher(tmp_path: Path, cipher: str) -> None:
    (tmp_path / "data").mkdir()
    write_key(tmp_path / "data" / KEY_FILE, StoreKey(bytes(range(32)), "an id", cipher))
    note(tmp_path / "data")
    slot = json.loads((tmp_path / "data" / KEY_FILE).read_bytes())["slots"][0]
    (tmp_path / "data" / KEY_FILE).write_text(slot["key"] + "\n")
    assert value(tmp_path / "data", "note") == "mine"


def test_keys_for_different_purposes_have_nothing_in_common() -> None:
    key, other = new_key(), new_key()
    derived = {key.master, key.derive("database"), key.derive("audit"), other.derive("database")}
    assert len(derived) == 4
    assert key.derive("audit") == key.derive("audit")


# --- one owner --------------------------------------------------------------------------------------------------


def test_a_second_process_is_told_who_owns_the_directory(tmp_path: Path) -> None:
    with held(tmp_path / "data") as holder:
        before = (tmp_path / "data" / DATABASE_FILE).stat().st_mtime_ns
        with pytest.raises(StoreInUse, match=f"pid {holder.pid}"):
            Store.open(tmp_path / "data")
        assert (tmp_path / "data" / "lock").read_text() == f"{holder.pid}\n"
        assert (tmp_path / "data" / DATABASE_FILE).stat().st_mtime_ns == before
        _, _ = holder.communicate("")
    assert holder.returncode == 0
    Store.open(tmp_path / "data").close()


def test_a_lock_ends_with_the_process_that_is_killed(tmp_path: Path) -> None:
    with held(tmp_path / "data", "write") as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
    assert (tmp_path / "data" / "lock").read_text() == f"{holder.pid}\n"
    assert value(tmp_path / "data", "note") == "of the killed"
    assert not (tmp_path / "data" / (DATABASE_FILE + "-wal")).exists()


@pytest.mark.parametrize("place", ["file", "below a file", "lock"])
def test_a_place_that_cannot_be_a_data_directory(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "free" / "lock").mkdir(parents=True)
    folder = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "data", "lock": tmp_path / "free"}[place]
    with pytest.raises(StoreUnusable, match=str(tmp_path)):
        Store.open(folder)
    assert (tmp_path / "file").read_text() == ""


def test_nothing_of_ours_holds_a_file_after_closing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    opened = {Path(file.path).name for file in psutil.Process().open_files() if str(tmp_path) in file.path}
    assert {DATABASE_FILE, "lock"} <= opened
    store.close()
    assert not [file for file in psutil.Process().open_files() if str(tmp_path) in file.path]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [KEY_FILE, "lock", DATABASE_FILE]


def test_sizes(store: Store) -> None:
    execute(store, "INSERT INTO meta VALUES ('large', ?)", ("x" * 100_000,))
    log = store.folder / (DATABASE_FILE + "-wal")
    assert store.size_bytes == (store.folder / DATABASE_FILE).stat().st_size + log.stat().st_size
    assert log.stat().st_size > 100_000
    assert store.free_bytes > 0


# --- a crash during its creation ------------------------------------------------------------------------------------


def only_a_key(folder: Path) -> None:
    write_key(folder / KEY_FILE, new_key())


def half_a_key(folder: Path) -> None:
    (folder / f".{KEY_FILE}.new").write_bytes(b'{"format"')


def key_and_file_begun(folder: Path) -> None:
    only_a_key(folder)
    (folder / f"{DATABASE_FILE}.new").touch()


def key_and_file_half_written(folder: Path) -> None:
    only_a_key(folder)
    for suffix in (".new", ".new-wal", ".new-shm"):
        (folder / (DATABASE_FILE + suffix)).write_bytes(os.urandom(12_345))


def file_complete_under_the_other_name(folder: Path) -> None:
    note(folder)
    (folder / DATABASE_FILE).rename(folder / f"{DATABASE_FILE}.new")


def file_complete_and_its_key_not_told(folder: Path) -> None:
    file_complete_under_the_other_name(folder)
    write_key(folder / KEY_FILE, StoreKey(read_key(folder / KEY_FILE).master, "an id", "aegis"))


CRASHES = (
    only_a_key,
    half_a_key,
    key_and_file_begun,
    key_and_file_half_written,
    file_complete_under_the_other_name,
    file_complete_and_its_key_not_told,
)


@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: str(crash.__name__))
def test_making_a_store_is_taken_up_again_after_a_crash(tmp_path: Path, crash: Callable[[Path], None]) -> None:
    crash(tmp_path)
    key = read_key(tmp_path / KEY_FILE) if (tmp_path / KEY_FILE).exists() else None
    assert value(tmp_path, "note") is None
    assert value(tmp_path, "release") is not None
    made = read_key(tmp_path / KEY_FILE)
    assert key is None or (made.master, made.store_id) == (key.master, key.store_id)
    assert sorted(path.name for path in tmp_path.iterdir()) == [KEY_FILE, "lock", DATABASE_FILE]


def test_a_store_whose_log_could_not_be_folded_in_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens on a disk that fills up: SQLite then leaves the log, and reports nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(Database, "close", leave_log_beside)
        with pytest.raises(StoreUnusable, match="could not be completed"):
            Store.open(tmp_path)
    assert not (tmp_path / DATABASE_FILE).exists()
    assert value(tmp_path, "release") is not None


def leave_log_beside(database: Database) -> None:
    database.disable_checkpoints()
    for connection in database._list_opened():
        connection.close()


def test_a_damaged_key_without_a_store_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"half a k")
    with pytest.raises(KeyDamaged):
        Store.open(tmp_path)
    assert (tmp_path / KEY_FILE).read_bytes() == b"half a k"
    assert not (tmp_path / DATABASE_FILE).exists()


def test_a_store_that_was_moved_away_opens_again_when_it_is_back(tmp_path: Path) -> None:
    note(tmp_path / "data")
    shutil.move(tmp_path / "data" / DATABASE_FILE, tmp_path / "away")
    assert value(tmp_path / "data", "note") is None, "a new store is made, with the old key"
    shutil.move(tmp_path / "away", tmp_path / "data" / DATABASE_FILE)
    assert value(tmp_path / "data", "note") == "mine"


def test_a_private_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o644)
    with (tmp_path / "file").open() as reader:
        write_private(tmp_path / "file", b"new")
        assert reader.read() == "old"
    assert (tmp_path / "file").read_text() == "new"
    assert modes(tmp_path)["file"] == "0o600"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_private_file_stays_when_there_is_no_room_for_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write_private(tmp_path / "file", b"new" * 4096)  # a single write would write the part that fits
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_database_that_is_a_link_is_backed_up_with_its_log(tmp_path: Path) -> None:
    Store.open(tmp_path / "data").close()
    (tmp_path / "data" / "mailbox.db").rename(tmp_path / "real.db")
    (tmp_path / "data" / "mailbox.db").symlink_to(tmp_path / "real.db")
    store = Store.open(tmp_path / "data")
    with store.database.transaction(durable=True):
        store.audit.record(Actor("local"), "key.change", ("key", "k"))
    assert store.size_bytes == sum((tmp_path / f"real.db{suffix}").stat().st_size for suffix in ("", "-wal"))
    made = store.backups.create("manual")
    assert store.backups.verify(made.id).ok
    store.close()
    assert not (tmp_path / "data" / "mailbox.db-wal").exists()
