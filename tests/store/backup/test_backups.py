"""Backups of a store in use, and of files of older formats: made, listed, verified and pruned."""

import base64
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import (
    BackupAltered,
    BackupNotMade,
    BackupTruncated,
    BackupUnusable,
    BackupWrongPassphrase,
    Invalid,
    NotABackup,
    NotEnoughRoom,
    NotFound,
    StoreAtWork,
)
from mailbox_appliance.model.backups import Backup
from mailbox_appliance.store import key
from mailbox_appliance.store.backup import backups
from mailbox_appliance.store.backup.backups import UnlistedFile
from mailbox_appliance.store.backup.container import SectionName, SectionSource, open_container
from mailbox_appliance.store.backup.files import stage_backup
from mailbox_appliance.store.database import Database, set_cipher_key
from mailbox_appliance.store.key import FileSlot, new_key, wrap_with_passphrase
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox, execute, parsed

PASSPHRASE, OTHER = "correct horse battery", "incorrect donkey"


def file_of(store: Store, backup: Backup) -> Path:
    return store.folder / "backups" / backup.file_name


def lying_there(store: Store) -> list[str]:
    """Return the names in `backups/`, including hidden ones."""
    folder = store.folder / "backups"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@contextmanager
def content(store: Store, backup: Backup, folder: Path, passphrase: str | None = None) -> Iterator[Database]:
    """Open the database in a backup with the key file in it."""
    folder.mkdir()
    container = open_container(file_of(store, backup), passphrase=passphrase)
    container.extract("mailbox.db", folder / "mailbox.db")
    (folder / "encryption.key").write_bytes(container.read("encryption.key"))
    opened = Store.open(folder)
    try:
        yield opened.database
    finally:
        opened.close()


# --- making ---


def test_what_is_in_it_and_what_is_told_of_it(store: Store, mailbox: Mailbox, tmp_path: Path, clock: FakeClock) -> None:
    for uid in range(1, 6):
        mailbox.add(uid, parsed(subject=f"Letter {uid}"))
    (store.folder / "config.toml").write_text("[log]\nlevel = 'debug'\n")
    (store.folder / "tls").mkdir()
    (store.folder / "tls" / "key.pem").write_text("secret")
    told: list[str] = []
    made = store.backups.create("manual", progress=lambda what, _done, _total: told.append(what))
    assert list(dict.fromkeys(told)) == ["copying", "checking", "encrypting", "verifying"]
    file = file_of(store, made)
    assert (made.file_name, made.created_at) == ("20260102T030405Z-manual.mbxbackup", "2026-01-02T03:04:05.678Z")
    assert (made.reason, made.format, made.size_bytes) == ("manual", 5, file.stat().st_size)
    assert (made.verified, made.passphrase_protected) == (True, False)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert lying_there(store) == [made.file_name]
    container = open_container(file)
    assert [section.name for section in container.manifest.sections] == [
        "mailbox.db",
        "encryption.key",
        "config.toml",
        "tls/key.pem",
    ]
    assert container.read("tls/key.pem") == b"secret"
    with content(store, made, tmp_path / "out") as database:
        assert database.value("SELECT count(*) FROM messages") == 5
    summary = store.backups.verify(made.id)
    assert (summary.ok, summary.members, summary.accounts, summary.messages) == (True, 1, 1, 5)
    assert (summary.created_at, summary.format, summary.version) == (made.created_at, 5, made.version)
    assert lying_there(store) == [made.file_name]


def test_the_key_inside_knows_how_the_copy_begins(store: Store, tmp_path: Path) -> None:
    made = store.backups.create("manual")
    container = open_container(file_of(store, made))
    container.extract("mailbox.db", tmp_path / "db")
    (tmp_path / "key").write_bytes(container.read("encryption.key"))
    inside = key.read_key(tmp_path / "key")
    assert inside == replace(store.key, salt=(tmp_path / "db").read_bytes()[:16].hex())
    assert not (tmp_path / "db-wal").exists()


def test_with_a_passphrase(store: Store, tmp_path: Path) -> None:
    made = store.backups.create("manual", PASSPHRASE)
    assert made.passphrase_protected
    assert store.key.master not in file_of(store, made).read_bytes()
    for passphrase in (None, OTHER):
        with pytest.raises(BackupWrongPassphrase):
            store.backups.verify(made.id, passphrase)
    assert store.backups.verify(made.id, PASSPHRASE).ok
    with content(store, made, tmp_path / "out", PASSPHRASE) as database:
        assert database.value("PRAGMA user_version") == 5
    with pytest.raises(Invalid):
        store.backups.create("manual", "short")
    # A wrong passphrase does not mean that the file is damaged.
    assert [one.verified for one in store.backups.list()] == [True]


def test_the_slots_of_the_key_file_travel(store: Store) -> None:
    slots = (FileSlot(store.key.master), wrap_with_passphrase(store.key, PASSPHRASE))
    key.replace_key_file(store.key_file, key.render_key_file(store.key, slots))
    made = store.backups.create("manual")
    assert made.passphrase_protected
    assert store.key.master not in file_of(store, made).read_bytes()
    assert store.backups.verify(made.id).ok  # here the store's own key opens it
    assert backups.verify_file(file_of(store, made), PASSPHRASE).ok
    with pytest.raises(BackupWrongPassphrase):
        backups.verify_file(file_of(store, made))


def test_a_key_file_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "key"
    file.parent.mkdir()
    opened = Store.open(tmp_path / "data", key_file=file)
    opened.close()
    line = base64.b64encode(opened.key.master) + b"\n"
    file.write_bytes(line)
    opened = Store.open(tmp_path / "data", key_file=file)
    file.write_bytes(line)  # as in a folder that is not writable
    assert opened.backups.verify(opened.backups.create("manual").id).ok
    opened.close()


@pytest.mark.parametrize("change", ["gone", "damaged", "another"])
def test_no_backup_with_a_key_that_does_not_open_it(store: Store, change: str) -> None:
    if change == "gone":
        store.key_file.unlink()
    else:
        other = new_key()
        store.key_file.write_bytes(
            key.render_key_file(other, (FileSlot(other.master),)) if change == "another" else b"{"
        )
    with pytest.raises(BackupNotMade):
        store.backups.create("manual")
    assert lying_there(store) == []


def test_two_of_one_second(store: Store) -> None:
    first, second = store.backups.create("manual"), store.backups.create("manual")
    assert [first.file_name, second.file_name] == [
        "20260102T030405Z-manual.mbxbackup",
        "20260102T030406Z-manual.mbxbackup",
    ]
    assert store.backups.list() == (second, first)


# --- while others write ---


def test_a_moment_of_a_store_that_is_written_to(store: Store, tmp_path: Path) -> None:
    written, stop = [0], threading.Event()

    def change(number: int) -> None:
        noise = json.dumps(secrets.token_hex(20_000))
        with store.database.transaction():
            for name in ("one", "other"):
                rows = ((name, str(number)), (f"{name}{number % 300}", noise))
                store.database.change_many("INSERT OR REPLACE INTO settings VALUES (?, ?)", rows)
        written[0] = number

    def write() -> None:
        number = 0
        while not stop.is_set():
            change(number := number + 1)

    def fold() -> None:
        connection = apsw.Connection(str(store.folder / "mailbox.db"))
        set_cipher_key(connection, store.key.cipher, store.key.derive("database"))
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        while not stop.is_set():
            for mode in (apsw.SQLITE_CHECKPOINT_PASSIVE, apsw.SQLITE_CHECKPOINT_TRUNCATE):
                try:
                    connection.wal_checkpoint(mode=mode)
                except apsw.BusyError:
                    pass
                stop.wait(0.002)
        connection.close()

    threads = [threading.Thread(target=work) for work in (write, fold)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(6):
            before = written[0]
            made = store.backups.create("manual")
            after = written[0] + 1
            with content(store, made, tmp_path / f"out{turn}") as database:
                one, other = (
                    int(database.value("SELECT value FROM settings WHERE name = ?", (n,)) or 0)
                    for n in ("one", "other")
                )
                assert before <= one == other <= after
                assert database.value("PRAGMA integrity_check") == "ok"
            assert store.backups.verify(made.id).ok
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_one_at_a_time(store: Store) -> None:
    refused: list[Exception] = []

    def second(what: str, _done: int, _total: int) -> None:
        if what == "encrypting":
            with pytest.raises(StoreAtWork) as raised:
                store.backups.create("manual")
            refused.append(raised.value)

    store.backups.create("manual", progress=second)
    assert refused
    assert len(lying_there(store)) == 1


# --- failures ---


class Stopped(BaseException):
    """An interruption such as Ctrl-C."""


@pytest.mark.parametrize("step", ["copying", "checking", "encrypting", "verifying"])
def test_stopped_in_the_middle(store: Store, step: str) -> None:
    def stop(what: str, _done: int, _total: int) -> None:
        if what == step:
            raise Stopped

    with pytest.raises(Stopped):
        store.backups.create("manual", progress=stop)
    assert lying_there(store) == []
    assert store.backups.verify(store.backups.create("manual").id).ok


def test_a_store_that_is_closed_meanwhile(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    reached = threading.Event()
    raised: list[BackupNotMade] = []

    def wait(_what: str, _done: int, _total: int) -> None:
        reached.set()

    def create() -> None:
        while not raised:
            try:
                store.backups.create("manual", progress=wait)
            except BackupNotMade as error:
                raised.append(error)

    thread = threading.Thread(target=create)
    thread.start()
    reached.wait()
    store.close()
    thread.join()
    assert "is stopping" in raised[0].message
    assert not [name for name in lying_there(store) if name.startswith(".")]


def test_what_a_crash_left_goes_with_the_next_start(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    (tmp_path / "backups" / ".making-1").mkdir(parents=True)
    for name in (".making-1/mailbox.db", ".making-2", ".making-2-wal", "other"):
        (tmp_path / "backups" / name).write_text("left")
    Store.open(tmp_path).close()
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["other"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
@pytest.mark.parametrize("step", ["", "copying", "checking", "verifying"])
def test_a_full_disk(tmp_path: Path, step: str) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        store = Store.open(folder / "data")

        def fill() -> None:
            with (folder / "ballast").open("wb", buffering=0) as file:
                while True:
                    try:
                        if file.write(bytes(65536)) < 65536:
                            return
                    except OSError:
                        return

        def at(what: str, _done: int, _total: int) -> None:
            if what == step and not (folder / "ballast").exists():
                fill()

        if not step:
            fill()
        if step == "verifying":  # it is written by then
            assert store.backups.create("manual", progress=at).verified
        else:
            with pytest.raises(NotEnoughRoom) as raised:
                store.backups.create("manual", progress=at)
            assert "does not have enough space" in raised.value.message
            assert lying_there(store) == []
        (folder / "ballast").unlink()
        store.backups.create("manual")
        store.close()
    finally:
        subprocess.run(["umount", "-l", folder], check=True, capture_output=True)


def test_a_folder_that_is_none(store: Store) -> None:
    (store.folder / "backups").write_text("something else")
    with pytest.raises(BackupNotMade) as raised:
        store.backups.create("manual")
    assert "backups" in raised.value.message
    assert (store.backups.list(), store.backups.list_unlisted()) == ((), ())


# --- listing and verifying ---


def test_newest_first_and_what_is_none_apart(store: Store, clock: FakeClock) -> None:
    made = []
    for _ in range(4):
        made.append(store.backups.create("manual"))
        clock.advance(3600)
    assert store.backups.list() == tuple(reversed(made)) == backups.list_backups(store.folder)
    cut, longer = (file_of(store, one) for one in made[:2])
    os.truncate(cut, cut.stat().st_size - 1)
    longer.write_bytes(longer.read_bytes() + b"\0")
    (store.folder / "backups" / "notes.mbxbackup").write_text("notes")
    (store.folder / "backups" / "notes.txt").write_text("notes")
    assert store.backups.list() == tuple(reversed(made[2:]))
    names = (cut.name, longer.name, "notes.mbxbackup")
    assert store.backups.list_unlisted() == tuple(UnlistedFile(name, "unusable") for name in names)
    # They are found by ID, and report their damage.
    for one, error in zip(made, (BackupTruncated, BackupAltered), strict=False):
        with pytest.raises(error):
            store.backups.verify(one.id)
    with pytest.raises(NotFound):
        store.backups.find("bak_00000000000000000000000000")


def test_copies_are_listed_once_and_told_of(store: Store) -> None:
    made = store.backups.create("manual")
    file = file_of(store, made)
    shutil.copy(file, file.with_name("a copy.mbxbackup"))
    file.with_name("1.mbxbackup").symlink_to(file)
    (listed,) = store.backups.list()
    assert (listed.id, listed.file_name) == (made.id, made.file_name)
    assert store.backups.find(made.id) == file
    copies = ("1.mbxbackup", "a copy.mbxbackup")
    assert store.backups.list_unlisted() == tuple(UnlistedFile(name, "copy", made.file_name) for name in copies)
    file.unlink()
    assert [one.file_name for one in store.backups.list()] == ["a copy.mbxbackup"]
    assert store.backups.list_unlisted() == (UnlistedFile("1.mbxbackup", "unusable"),), "it leads nowhere"


def test_copies_stand_behind_the_file_that_was_made(store: Store, clock: FakeClock) -> None:
    """This holds for any name, damaged or not, and even without a known file from an earlier listing."""
    clock.advance(3600)
    store.backups.create("manual")
    second = store.backups.create("manual")  # its name is that of the next second
    file = file_of(store, second)
    raw = file.read_bytes()
    shutil.copy(file, file.with_name("1.mbxbackup"))
    earlier = file.with_name("20000101T000000Z-manual.mbxbackup")
    earlier.write_bytes(raw[:-1] + bytes((raw[-1] ^ 1,)))
    of_another_kind = Path(shutil.copy(file, file.with_name(file.name.replace("-manual", "-daily"))))
    for listed in (store.backups.list(), backups.list_backups(store.folder)):
        assert second.file_name in [one.file_name for one in listed]
        assert not {earlier.name, of_another_kind.name} & {one.file_name for one in listed}
    assert store.backups.verify(second.id).ok
    moved = file.rename(file.with_name("moved.mbxbackup"))
    earlier.unlink()
    of_another_kind.unlink()
    assert store.backups.find(second.id).name == "1.mbxbackup", "which is known from now on"
    shutil.copy(moved, file)
    assert store.backups.find(second.id).name == "1.mbxbackup"
    assert backups.find_backup(store.folder, second.id) == file


#: change to the file of a backup, error
OVERWRITTEN = [
    ("hello", lambda whole: b"hello", NotABackup),
    ("nothing", lambda whole: b"", NotABackup),
    ("its first byte", lambda whole: b"N" + whole[1:], NotABackup),
    ("30 bytes of it", lambda whole: whole[:30], BackupTruncated),
    ("500 bytes of it", lambda whole: whole[:500], BackupTruncated),
    ("the name of its id", lambda whole: whole[:60] + b"x" + whole[61:], BackupAltered),
    ("its id", lambda whole: whole.replace(b'"id":"bak_', b'"id":"bak_0', 1)[: len(whole)], BackupAltered),
]


@pytest.mark.parametrize(("change", "error"), [one[1:] for one in OVERWRITTEN], ids=[one[0] for one in OVERWRITTEN])
@pytest.mark.parametrize("seen_by", ["made", "listed", "found"])
def test_what_was_overwritten_says_what_is_wrong_with_it(
    tmp_path: Path, change: Callable[[bytes], bytes], error: type[Exception], seen_by: str, made_once: Path
) -> None:
    """This holds while the file exists, and is not replaced by another backup."""
    shutil.copytree(made_once, tmp_path / "data")
    store = Store.open(tmp_path / "data")
    try:
        made, *_ = [store.backups.create("manual")] if seen_by == "made" else backups.list_backups(store.folder)
        if seen_by == "listed":
            store.backups.list()
        elif seen_by == "found":
            store.backups.find(made.id)
        file = file_of(store, made)
        file.write_bytes(change(file.read_bytes()))
        for _ in range(2):
            with pytest.raises(error):
                store.backups.verify(made.id)
            store.backups.list()
        shutil.copy(made_once / "other.mbxbackup", file)
        with pytest.raises(NotFound):
            store.backups.find(made.id)
        file.write_bytes(b"hello")
        assert store.backups.find(made.id) == file
        file.unlink()
        with pytest.raises(NotFound):
            store.backups.find(made.id)
    finally:
        store.close()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with a backup, and another backup of it beside."""
    folder = tmp_path_factory.mktemp("made") / "data"
    store = Store.open(folder)
    other = file_of(store, store.backups.create("manual"))
    other.rename(folder / "other.mbxbackup")
    store.backups.create("manual")
    store.close()
    return folder


def test_a_name_that_is_no_utf_8_is_told_of_and_hinders_nothing(store: Store) -> None:
    made = store.backups.create("manual")
    folder = os.fsencode(store.folder / "backups")
    for name in (b"\xff.mbxbackup", b"\x1b[2J\xfe.mbxbackup"):
        shutil.copy(os.fsencode(file_of(store, made)), os.path.join(folder, name))
    assert [one.id for one in store.backups.list()] == [made.id]
    assert store.backups.list_unlisted() == (
        UnlistedFile("\\x1b[2J\\xfe.mbxbackup", "name"),
        UnlistedFile("\\xff.mbxbackup", "name"),
    )


@pytest.mark.parametrize("day", ["2026-02-30", "0000-01-01", "9999-99-99"])
def test_a_day_that_there_is_not(store: Store, day: str) -> None:
    made = store.backups.create("daily")
    forged = file_of(store, made).with_name("forged.mbxbackup")
    raw = file_of(store, made).read_bytes()
    length = int.from_bytes(raw[10:14], "big")
    text = raw[46 : 46 + length].replace(made.created_at[:10].encode(), day.encode())
    text = text.replace(made.id.encode(), b"bak_" + b"0" * 26)
    forged.write_bytes(raw[:14] + hashlib.sha256(text).digest() + text + raw[46 + length :])
    assert [one.id for one in store.backups.list()] == [made.id]
    assert store.backups.list_unlisted() == (UnlistedFile(forged.name, "unusable"),)
    assert store.backups.prune(SystemClock().now(), 1, 1) == ()


def test_one_that_is_found_bad_is_not_verified_any_more(store: Store) -> None:
    made = store.backups.create("manual")
    file = file_of(store, made)
    raw = file.read_bytes()
    file.write_bytes(raw[:-1] + bytes((raw[-1] ^ 1,)))
    with pytest.raises(BackupAltered):
        store.backups.verify(made.id)
    assert [one.verified for one in store.backups.list()] == [False]
    file.write_bytes(raw)
    assert store.backups.verify(made.id).ok
    assert [one.verified for one in store.backups.list()] == [True]


def test_a_backup_elsewhere(store: Store, tmp_path: Path) -> None:
    made = store.backups.create("manual")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(file_of(store, made), elsewhere / "mine")
    assert backups.verify_file(elsewhere / "mine").messages == 0
    assert [path.name for path in elsewhere.iterdir()] == ["mine"]


DAMAGE = [
    ("the search index", "DELETE FROM message_index_data WHERE id > 10"),
    ("a row without its owner", "PRAGMA foreign_keys = 0; UPDATE folders SET account = 99"),
    ("the audit log", "UPDATE meta SET value = '7' WHERE name = 'audit_count'"),
    ("a table", "DROP TABLE thread_links"),
    ("the format", "PRAGMA user_version = 4"),
]


@pytest.mark.parametrize("sql", [row[1] for row in DAMAGE], ids=[row[0] for row in DAMAGE])
def test_a_database_that_is_wrong_inside(store: Store, mailbox: Mailbox, tmp_path: Path, sql: str) -> None:
    mailbox.add(1)
    made = open_container(file_of(store, store.backups.create("manual")))
    made.extract("mailbox.db", tmp_path / "db")
    connection = apsw.Connection(str(tmp_path / "db"))
    set_cipher_key(connection, store.key.cipher, store.key.derive("database"))
    connection.pragma("journal_mode", "delete")
    connection.execute(sql)
    connection.close()
    source, slots = SectionSource("mailbox.db", tmp_path / "db"), (FileSlot(store.key.master),)
    end = made.manifest.audit
    with stage_backup(store.folder, "manual", [source], store.key, slots, 5, SystemClock(), audit=end) as bundle:
        bundle.publish()
        backup_id = bundle.manifest.id
    with pytest.raises(BackupAltered) as raised:
        store.backups.verify(backup_id)
    assert "damaged" in raised.value.message


def test_a_damaged_store_makes_no_backup(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    execute(store, "INSERT INTO settings VALUES ('large', ?)", ("x" * 500_000,))
    store.database.row("PRAGMA wal_checkpoint(TRUNCATE)")
    file = store.folder / "mailbox.db"
    with file.open("r+b") as handle:
        handle.seek(file.stat().st_size - 6000)
        handle.write(b"\xff" * 10)
    with pytest.raises(BackupNotMade) as raised:
        store.backups.create("manual")
    assert "cannot be copied" in raised.value.message or "damaged" in raised.value.message
    assert lying_there(store) == []
    store.close()


# --- raw files ---


def test_files_of_this_format_with_a_log(store: Store, mailbox: Mailbox, tmp_path: Path) -> None:
    """A pre-restore backup keeps the files like this."""
    mailbox.add(1)
    names: tuple[SectionName, ...] = ("mailbox.db", "mailbox.db-wal", "encryption.key")
    sources = [SectionSource(name, (store.folder / name).read_bytes()) for name in names]
    assert sources[1].content
    slots = (FileSlot(store.key.master),)
    with stage_backup(tmp_path, "pre-restore", sources, store.key, slots, 5, SystemClock()) as made:
        file = made.publish()
    assert backups.verify_file(file).messages == 1
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def older(folder: Path, *, with_log: bool) -> list[SectionSource]:
    """Return an unencrypted store, whose log may not be checkpointed yet."""
    folder.mkdir()
    connection = sqlite3.connect(folder / "live.db", isolation_level=None)
    connection.executescript(
        "PRAGMA application_id = 0x4D424F58; PRAGMA user_version = 3; PRAGMA journal_mode = WAL;"
        "CREATE TABLE members (id TEXT PRIMARY KEY, name TEXT); CREATE TABLE accounts (id TEXT PRIMARY KEY);"
        "INSERT INTO members VALUES ('mem_1', 'Marker Ada');"
    )
    if with_log:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("INSERT INTO members VALUES ('mem_2', 'Marker Bob')")
        connection.execute("INSERT INTO accounts VALUES ('acc_1')")
    else:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (folder / "mailbox.db").write_bytes((folder / "live.db").read_bytes())
    sources = [SectionSource("mailbox.db", folder / "mailbox.db")]
    if with_log:
        (folder / "mailbox.db-wal").write_bytes((folder / "live.db-wal").read_bytes())
        sources.append(SectionSource("mailbox.db-wal", folder / "mailbox.db-wal"))
    connection.close()
    return sources


@pytest.mark.parametrize(
    ("with_log", "members", "accounts"), [(False, 1, 0), (True, 2, 1)], ids=["whole", "with a log"]
)
def test_a_plain_store_is_read_where_it_lies(tmp_path: Path, with_log: bool, members: int, accounts: int) -> None:
    key, folder = new_key(), tmp_path / "data"
    folder.mkdir()
    sources = older(tmp_path / "old", with_log=with_log)
    with stage_backup(folder, "migration", sources, key, (FileSlot(key.master),), 3, SystemClock()) as made:
        file = made.publish()
    summary = backups.verify_file(file)
    assert (summary.ok, summary.format, summary.members, summary.accounts, summary.messages) == (
        True,
        3,
        members,
        accounts,
        0,
    )
    assert b"Marker" not in file.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    container = open_container(file)
    for source in sources:
        container.extract(source.name, folder / source.name)
        assert isinstance(source.content, Path)
        assert (folder / source.name).read_bytes() == source.content.read_bytes()


def test_what_is_not_kept_is_not_there(tmp_path: Path) -> None:
    key = new_key()
    sources = [SectionSource("mailbox.db", b"anything")]
    slots = (FileSlot(key.master),)
    with stage_backup(tmp_path, "migration", sources, key, slots, 3, SystemClock()) as made:
        assert len(list((tmp_path / "backups").iterdir())) == 1
    assert list((tmp_path / "backups").iterdir()) == []
    assert made.manifest.reason == "migration"
    with (
        pytest.raises(BackupNotMade),
        stage_backup(tmp_path, "migration", [SectionSource("mailbox.db", tmp_path)], key, slots, 3, SystemClock()),
    ):
        pass


def test_a_plain_store_that_is_damaged_inside(tmp_path: Path) -> None:
    key = new_key()
    sources = [SectionSource("mailbox.db", b"SQLite format 3\0" + bytes(5000))]
    with stage_backup(tmp_path, "migration", sources, key, (FileSlot(key.master),), 3, SystemClock()) as made:
        file = made.publish()
    with pytest.raises(BackupUnusable):
        backups.verify_file(file)


# --- pruning ---


def test_only_daily_ones_go(store: Store, clock: FakeClock) -> None:
    manual = store.backups.create("manual")
    for _ in range(5):
        store.backups.create("daily")
        clock.advance(timedelta(days=1).total_seconds())
    gone = store.backups.prune(clock.now(), 2, 0)
    assert [one.reason for one in gone] == ["daily"] * 3
    assert [one.reason for one in store.backups.list()] == ["daily", "daily", "manual"]
    assert store.backups.list()[-1] == manual
    assert store.backups.prune(clock.now(), 2, 0) == ()


def test_a_bad_one_takes_nobodys_place(store: Store, clock: FakeClock) -> None:
    good = store.backups.create("daily")
    clock.advance(3600)
    bad = store.backups.create("daily")
    raw = file_of(store, bad).read_bytes()
    file_of(store, bad).write_bytes(raw[:-1] + bytes((raw[-1] ^ 1,)))
    with pytest.raises(BackupAltered):
        store.backups.verify(bad.id)
    assert store.backups.prune(clock.now(), 1, 1) == ()
    assert [one.id for one in store.backups.list()] == [bad.id, good.id]
