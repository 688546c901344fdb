"""The possible contents of a data directory, and the errors of opening it; a refusal changes nothing but `lock`."""

import base64
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from io import BytesIO, StringIO
from pathlib import Path

import apsw
import pytest

from mailbox_appliance import errors
from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.cli import main
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.store import schema
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.database import set_cipher_key
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import read_key
from mailbox_appliance.store.open_file import CHECKED_UP_TO
from mailbox_appliance.store.store import Store
from tests.store.mail import execute
from tests.store_proof.directories import snapshot

PAGE = 4096


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with a row of its own."""
    folder = tmp_path_factory.mktemp("template") / "data"
    store = Store.open(folder)
    execute(store, "INSERT INTO meta VALUES ('note', 'of the template')")
    store.close()
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """A copy of that store, to be damaged."""
    return Path(shutil.copytree(template, tmp_path / "data"))


@pytest.fixture
def other_key(tmp_path: Path) -> bytes:
    """The key file of another store."""
    Store.open(tmp_path / "other").close()
    return (tmp_path / "other" / KEY_FILE).read_bytes()


def flip(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 0x40
    file.write_bytes(content)


def in_key(change: Callable[[dict[str, object]], object]) -> Callable[[Path, bytes], None]:
    def spoil(folder: Path, _other: bytes) -> None:
        content = json.loads((folder / KEY_FILE).read_bytes())
        change(content)
        (folder / KEY_FILE).write_text(json.dumps(content))

    return spoil


def key_becomes(content: bytes) -> Callable[[Path, bytes], None]:
    return lambda folder, _other: write(folder / KEY_FILE, content)


def store_becomes(content: bytes) -> Callable[[Path, bytes], None]:
    return lambda folder, _other: write(folder / DATABASE_FILE, content)


def write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def becomes_folder(name: str) -> Callable[[Path, bytes], None]:
    def spoil(folder: Path, _other: bytes) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return spoil


def cut(name: str, size: int) -> Callable[[Path, bytes], None]:
    return lambda folder, _other: os.truncate(folder / name, size)


def flipped(*positions: int) -> Callable[[Path, bytes], None]:
    def spoil(folder: Path, _other: bytes) -> None:
        for position in positions:
            flip(folder / DATABASE_FILE, position)

    return spoil


def plain_store(number: int, application: int = format_5.APPLICATION_ID) -> Callable[[Path, bytes], None]:
    def spoil(folder: Path, _other: bytes) -> None:
        (folder / DATABASE_FILE).unlink()
        connection = sqlite3.connect(folder / DATABASE_FILE)
        connection.executescript(
            f"PRAGMA application_id = {application}; PRAGMA user_version = {number}; CREATE TABLE t (a)"
        )
        connection.close()
        write(folder / KEY_FILE, base64.b64encode(bytes(32)))

    return spoil


def pragma(name: str, value: int) -> Callable[[Path, bytes], None]:
    """Set a pragma of the file, written with its key."""

    def spoil(folder: Path, _other: bytes) -> None:
        connection = opened_raw(folder)
        connection.execute(f"PRAGMA {name} = {value}")
        connection.close()

    return spoil


def opened_raw(folder: Path) -> apsw.Connection:
    connection = apsw.Connection(str(folder / DATABASE_FILE))
    key = read_key(folder / KEY_FILE)
    set_cipher_key(connection, key.cipher, key.derive("database"))
    return connection


def statement(*sql: str) -> Callable[[Path, bytes], None]:
    """Execute statements with the key."""

    def spoil(folder: Path, _other: bytes) -> None:
        connection = opened_raw(folder)
        for one in sql:
            connection.execute(one)
        connection.close()

    return spoil


def in_the_log(spoil: Callable[[Path, bytes], None]) -> Callable[[Path, bytes], None]:
    """Damage a store that a crash left with a log."""

    def crash_and_spoil(folder: Path, other: bytes) -> None:
        leave_log(folder)
        spoil(folder, other)

    return crash_and_spoil


def leave_log(folder: Path, sql: str = "INSERT INTO meta VALUES ('late', 'in the log')") -> None:
    """Leave a log, as a process does that is killed right after a commit."""
    store = Store.open(folder)
    with store.database.transaction(durable=True):
        store.database.change(sql)
    names = [DATABASE_FILE, DATABASE_FILE + "-wal", DATABASE_FILE + "-shm"]
    saved = {name: (folder / name).read_bytes() for name in names}
    store.close()
    for name, content in saved.items():
        write(folder / name, content)


def remove(name: str) -> Callable[[Path, bytes], None]:
    return lambda folder, _other: (folder / name).unlink()


def other_key_file(folder: Path, other: bytes) -> None:
    write(folder / KEY_FILE, other)


def other_key_as_one_line(folder: Path, other: bytes) -> None:
    write(folder / KEY_FILE, json.loads(other)["slots"][0]["key"].encode())


def link_to_nowhere(folder: Path, _other: bytes) -> None:
    (folder / DATABASE_FILE).unlink()
    (folder / DATABASE_FILE).symlink_to("/nowhere/mailbox.db")


def newer_in_the_log(folder: Path, _other: bytes) -> None:
    leave_log(folder, "PRAGMA user_version = 6")


JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00" + bytes(range(256)) * 40
FAULTS: list[tuple[str, Callable[[Path, bytes], None], type[errors.StoreUnusable]]] = [
    # the key
    ("another store's key", other_key_file, errors.KeyWrong),
    ("another store's key as one line", other_key_as_one_line, errors.KeyWrong),
    ("random key", key_becomes(base64.b64encode(os.urandom(32))), errors.KeyWrong),
    ("another store's key, with a log", in_the_log(other_key_file), errors.KeyWrong),
    ("no key", remove(KEY_FILE), errors.KeyMissing),
    ("empty key", key_becomes(b""), errors.KeyDamaged),
    ("cut key", cut(KEY_FILE, 100), errors.KeyDamaged),
    ("10 MB of key", key_becomes(b"A" * 10_000_000), errors.KeyDamaged),
    ("10 MB of braces", key_becomes(b"{" * 10_000_000), errors.KeyDamaged),
    ("binary key", key_becomes(bytes(range(256))), errors.KeyDamaged),
    ("31 bytes of key", key_becomes(base64.b64encode(bytes(31))), errors.KeyDamaged),
    ("nested key", key_becomes(b'{"slots":' + b"[" * 30_000), errors.KeyDamaged),
    ("no store id", in_key(lambda key: key.update(storeId=None)), errors.KeyDamaged),
    ("other cipher", in_key(lambda key: key.update(cipher="chacha20")), errors.KeyDamaged),
    ("odd cipher", in_key(lambda key: key.update(cipher=["aegis"])), errors.KeyDamaged),
    ("odd salt", in_key(lambda key: key.update(salt=7)), errors.KeyDamaged),
    ("check of no letters", in_key(lambda key: key.update(check="\ud800")), errors.KeyDamaged),
    ("odd check", in_key(lambda key: key.update(check=None)), errors.KeyDamaged),
    ("odd slots", in_key(lambda key: key.update(slots={"file": 1})), errors.KeyDamaged),
    *(
        (f"no {name}", in_key(lambda key, name=name: key.pop(name)), errors.KeyDamaged)  # type: ignore[misc]
        for name in ("format", "storeId", "cipher", "salt", "check", "slots")
    ),
    ("key is a folder", becomes_folder(KEY_FILE), errors.KeyUnusable),
    # the file
    ("picture", store_becomes(JPEG), errors.StoreForeign),
    ("text", store_becomes(b"Dear diary,\n" * 1000), errors.StoreForeign),
    ("short text", store_becomes(b"x"), errors.StoreForeign),
    ("somebody's SQLite file", plain_store(3, application=0), errors.StoreForeign),
    ("format 6 of others", plain_store(6, application=0), errors.StoreForeign),
    ("plain, no format", plain_store(0), errors.StoreUnusable),
    ("plain, format 2", plain_store(2), errors.StoreUnusable),
    ("plain, format 5", plain_store(5), errors.StoreUnusable),
    ("plain, format 6", plain_store(6), errors.StoreNewer),
    ("somebody's file under our key", pragma("application_id", 7), errors.StoreForeign),
    ("format 3 without its tables", plain_store(3), errors.StoreDamaged),
    ("format 4 without its tables", plain_store(4), errors.StoreDamaged),
    ("format 6", pragma("user_version", 6), errors.StoreNewer),
    ("format 6, in the log", newer_in_the_log, errors.StoreNewer),
    ("empty store", store_becomes(b""), errors.StoreDamaged),
    ("cut within the first page", cut(DATABASE_FILE, 1000), errors.StoreDamaged),
    ("one page left", cut(DATABASE_FILE, PAGE), errors.StoreDamaged),
    ("cut between pages", cut(DATABASE_FILE, 20 * PAGE), errors.StoreDamaged),
    ("cut within a page", cut(DATABASE_FILE, 20 * PAGE + 100), errors.StoreDamaged),
    ("damaged readable header", flipped(17), errors.StoreDamaged),
    ("damaged first page", flipped(2000), errors.StoreDamaged),
    ("damaged later page", flipped(9 * PAGE + 77), errors.StoreDamaged),
    ("damaged seal of a page", flipped(7 * PAGE - 1), errors.StoreDamaged),
    ("damaged readable header, with a log", in_the_log(flipped(16, 17, 18)), errors.StoreDamaged),
    ("damaged first page, with a log", in_the_log(flipped(2000)), errors.StoreDamaged),
    ("table of the audit log dropped", statement("DROP TABLE audit_events"), errors.StoreDamaged),
    ("index of the messages dropped", statement("DROP TABLE message_words"), errors.StoreDamaged),
    ("only the log left", in_the_log(remove(DATABASE_FILE)), errors.StoreDamaged),
    ("store is a folder", becomes_folder(DATABASE_FILE), errors.StoreUnusable),
    ("store is a link to nowhere", link_to_nowhere, errors.StoreUnusable),
]


@pytest.mark.parametrize(("spoil", "error"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_fault_has_its_own_error_and_changes_nothing(
    folder: Path, other_key: bytes, spoil: Callable[[Path, bytes], None], error: type[errors.StoreUnusable]
) -> None:
    spoil(folder, other_key)
    folder.chmod(0o755)  # a refused directory may belong to anybody
    before = snapshot(folder)
    for command in (_open, _serve):
        problem, code = command(folder)
        assert problem["code"] == error.code
        assert code == (4 if issubclass(error, errors.KeyUnusable) else 1)
        assert str(folder) in str(problem["message"])
        after = snapshot(folder)
        if (folder / (DATABASE_FILE + "-wal")).exists():
            # If the log has to be read as well, its index is created again.
            before.pop(DATABASE_FILE + "-shm", None), after.pop(DATABASE_FILE + "-shm")
        assert after == before


def test_the_table_that_is_missing_is_named(folder: Path) -> None:
    for table in ("meta", "audit_events", "invitations"):
        statement(f"ALTER TABLE {table} RENAME TO {table}_2")(folder, b"")
        with pytest.raises(errors.StoreDamaged, match=f"its table {table} is missing"):
            Store.open(folder)
        statement(f"ALTER TABLE {table}_2 RENAME TO {table}")(folder, b"")
    Store.open(folder).close()


def test_triggers_that_were_dropped_or_changed_are_put_back(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    Store.open(folder).close()
    assert caplog.records == []
    harmless = "CREATE TRIGGER audit_events_stay BEFORE UPDATE ON audit_events BEGIN SELECT 1; END"
    drops = [f"DROP TRIGGER {name}" for name in schema.TRIGGERS]
    statement(*drops, harmless)(folder, b"")
    store = Store.open(folder)
    told = {str(record.__dict__["trigger"]): record.levelname for record in caplog.records}
    assert told == dict.fromkeys(schema.TRIGGERS, "WARNING")
    store.audit.record(SYSTEM_ACTOR, "start")
    for change in ("UPDATE audit_events SET action = 'x'", "DELETE FROM audit_events"):
        with pytest.raises(apsw.ConstraintError, match="final"), store.database.transaction():
            store.database.change(change)
    store.close()
    caplog.clear()
    Store.open(folder).close()
    assert caplog.records == []


def _open(folder: Path) -> tuple[dict[str, object], int]:
    with pytest.raises(errors.StoreUnusable) as caught:
        Store.open(folder)
    code = 4 if isinstance(caught.value, errors.KeyUnusable) else 1
    return {"code": caught.value.code, "message": caught.value.message}, code


def _serve(folder: Path) -> tuple[dict[str, object], int]:
    output, complaints = StringIO(), StringIO()
    terminal = Terminal(stdin=BytesIO(), stdout=output, stderr=complaints)
    code = main.run(["--data-dir", str(folder), "serve", "--port", "0"], SERVICES, terminal)
    assert output.getvalue() == ""
    return json.loads(complaints.getvalue().splitlines()[-1])["error"], code


def test_a_page_that_a_crash_left_half_written_comes_from_the_log(folder: Path) -> None:
    leave_log(folder, "PRAGMA user_version = 5")
    flip(folder / DATABASE_FILE, 2000)
    store = Store.open(folder)
    assert store.database.value("SELECT value FROM meta WHERE name = 'note'") == "of the template"
    store.close()
    Store.open(folder).close()


def cut_checkpoint(folder: Path, *, pages: int) -> None:
    """Leave file and log as an interrupted checkpoint does that has written the first page and not the last ones: the
    process was killed, or the disk is full.
    """
    file, log, kept = folder / DATABASE_FILE, folder / (DATABASE_FILE + "-wal"), folder / "kept"
    store = Store.open(folder)
    store.database.value("PRAGMA wal_checkpoint(TRUNCATE)")
    execute(store, "INSERT INTO meta VALUES ('long', ?)", ("long " * 20_000,))
    shutil.copy(log, kept)
    store.close()
    with file.open("r+b") as handle:
        handle.truncate(file.stat().st_size - pages * PAGE)
    kept.rename(log)


@pytest.mark.parametrize("pages", [1, 10])
def test_a_checkpoint_that_was_broken_off_is_made_up_for(folder: Path, pages: int) -> None:
    cut_checkpoint(folder, pages=pages)
    store = Store.open(folder)
    assert len(str(store.database.value("SELECT value FROM meta WHERE name = 'long'"))) == 100_000
    assert store.database.value("PRAGMA integrity_check") == "ok"
    store.close()


def test_without_its_log_such_a_file_is_damaged(folder: Path) -> None:
    cut_checkpoint(folder, pages=3)
    (folder / (DATABASE_FILE + "-wal")).unlink()
    with pytest.raises(errors.StoreDamaged):
        Store.open(folder)


def test_a_file_too_large_to_be_checked_as_a_whole_is_opened(folder: Path) -> None:
    store = Store.open(folder)
    execute(store, "INSERT INTO meta VALUES ('large', hex(zeroblob(?)))", (CHECKED_UP_TO // 2,))
    store.close()
    assert (folder / DATABASE_FILE).stat().st_size > CHECKED_UP_TO
    Store.open(folder).close()
