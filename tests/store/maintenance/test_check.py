"""A check finds and names each fault, changes nothing, and does not delay other threads."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from mailbox_appliance.errors import KeyMissing, KeyWrong, StoreForeign, StoreInUse, StoreUnusable
from mailbox_appliance.model.backups import StoreCheck
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import new_key, write_key
from mailbox_appliance.store.maintenance.check import CheckedStore, check_closed_store, check_open_store
from mailbox_appliance.store.store import Store
from tests.store.labeled import LabeledMailbox
from tests.store.mail import Mailbox, execute, fetched, parsed

#: statements executed with the key -> the codes that a full check finds
# fmt: off
MEDDLING: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("nothing",            (), set()),
    ("not indexed",        ("DELETE FROM message_index WHERE rowid = (SELECT max(number) FROM messages)",),
                           {"index_incomplete", "index_differs"}),
    ("index not emptied",  ("DROP TRIGGER messages_leave_index",
                            "DELETE FROM messages WHERE number = (SELECT max(number) FROM messages)"),
                           {"schema_differs", "index_outdated", "index_differs", "reference_broken"}),
    ("index cut",          ("DELETE FROM message_index_data WHERE id = (SELECT max(id) FROM message_index_data)",),
                           {"page_damaged", "unreadable"}),
    ("content gone",       ("DELETE FROM bodies WHERE number = (SELECT max(number) FROM bodies)",), {"bodies_missing"}),
    ("content of nobody",  ("DELETE FROM messages WHERE number = (SELECT max(number) FROM messages)",),
                           {"reference_broken"}),
    ("row of another",     ("UPDATE folders SET account = account + 1 WHERE path = 'INBOX'",),
                           {"reference_broken", "mailbox_differs"}),
    ("attachment cut",     ("DELETE FROM cached_chunks WHERE position = 1",), {"parts_incomplete"}),
    ("index dropped",      ("DROP INDEX messages_thread",), {"schema_differs"}),
    ("comment changed",    ("PRAGMA writable_schema = on",
                            "UPDATE sqlite_schema SET sql = replace(sql, 'SHA-256', 'hash') WHERE name = 'sessions'"),
                           set()),
    ("column changed",     ("PRAGMA writable_schema = on",
                            "UPDATE sqlite_schema SET sql = replace(sql, 'UNIQUE', '') WHERE name = 'sessions'"),
                           {"schema_differs"}),
    ("trigger added",      ("CREATE TRIGGER x AFTER INSERT ON sessions BEGIN SELECT 1; END",), {"schema_differs"}),
    ("trigger weakened",   ("DROP TRIGGER audit_events_stay",), {"schema_differs"}),
    ("audit row changed",  ("DROP TRIGGER audit_events_stay", "UPDATE audit_events SET at = '' WHERE number = 1"),
                           {"schema_differs", "audit_broken"}),
]
# fmt: on


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with one of most things."""
    mailbox = Mailbox(store)
    for uid in range(1, 40):
        mailbox.add(uid, parsed(f"<{uid}@x>", text=f"word{uid} " * 50), after=uid)
    number = store.database.value("SELECT max(number) FROM messages")
    store.part_cache.put(number, "2", [bytes(300_000)], limit=1 << 30).close()
    for action in ("start", "stop"):
        store.audit.record(SYSTEM_ACTOR, action)
    return store


def subject(store: Store) -> CheckedStore:
    return CheckedStore(store.database, store.key, store.folder / KEY_FILE, store.audit)


def codes(answer: StoreCheck) -> set[str]:
    return {problem.code for problem in answer.problems}


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != "lock"}


def closed(store: Store) -> Path:
    store.close()
    return store.folder


def files(folder: Path, *, full: bool = True) -> StoreCheck:
    return check_closed_store(folder, folder / KEY_FILE, full=full)


@pytest.mark.parametrize(
    ("statements", "expected"), [case[1:] for case in MEDDLING], ids=[case[0] for case in MEDDLING]
)
def test_what_does_not_agree_is_named(filled: Store, statements: tuple[str, ...], expected: set[str]) -> None:
    filled.database.rows("PRAGMA foreign_keys = off")
    with filled.database.transaction():
        for statement in statements:
            filled.database.change(statement)
    answer = check_open_store(subject(filled), full=True)
    assert (codes(answer), answer.ok) == (expected, not expected)
    assert all(problem.message.endswith(".") for problem in answer.problems)
    assert answer.checked == ("pages", "references", "schema", "key", "counts", "search", "audit")


@pytest.mark.parametrize("statement", ["DELETE FROM message_labels", "UPDATE message_labels SET flags = 1"])
def test_what_folders_show_by_labels_is_compared(store: Store, statement: str) -> None:
    LabeledMailbox(store, "Work").bring(1, ("Work", "\\Flagged"))
    assert check_open_store(subject(store), full=True).ok
    execute(store, statement)
    assert codes(check_open_store(subject(store), full=True)) == {"labels_differ"}


def test_a_quick_one_looks_at_less(filled: Store) -> None:
    answer = check_open_store(subject(filled), full=False)
    assert (answer.ok, answer.full, answer.format) == (True, False, 5)
    assert answer.checked == ("pages", "references", "schema", "key")


@pytest.mark.parametrize(
    ("meddle", "code"),
    [
        (lambda file, key: file.unlink(), "key_missing"),
        (lambda file, key: file.write_bytes(b"{}"), "key_damaged"),
        (lambda file, key: write_key(file, new_key()), "key_differs"),
        (lambda file, key: write_key(file, key.with_salt("00" * 16)), "key_differs"),
    ],
)
def test_the_next_start_must_find_the_key(filled: Store, meddle: Callable[..., None], code: str) -> None:
    meddle(filled.folder / KEY_FILE, filled.key)
    assert codes(check_open_store(subject(filled), full=False)) == {code}


def test_it_tells_how_far_it_is(filled: Store) -> None:
    told: list[tuple[str, int, int]] = []
    check_open_store(subject(filled), full=True, progress=lambda *now: told.append(now))
    assert len({what for what, _, _ in told}) == 7
    assert all(done <= total for _, done, total in told)


def test_others_write_and_read_meanwhile(store: Store) -> None:
    mailbox = Mailbox(store)
    batch = [(fetched(uid, after=uid), parsed(f"<{uid}@x>", text=f"word{uid} " * 100)) for uid in range(1, 5000)]
    mailbox.store.mailbox_writer.add(mailbox.folder(), batch)
    answers: list[StoreCheck] = []
    checking = threading.Thread(
        target=lambda: answers.append(check_open_store(subject(store), full=True, serving=True))
    )
    checking.start()
    waited = [0.0]
    for uid in range(5000, 5100):
        began = time.monotonic()
        mailbox.add(uid, parsed(f"<{uid}@x>"), after=uid)
        waited.append(time.monotonic() - began)
    checking.join()
    assert answers[0].problems == ()
    assert sorted(waited)[len(waited) // 2] < 0.2


def test_a_store_that_is_closed_ends_its_check(filled: Store) -> None:
    began, failures = threading.Event(), list[BaseException]()

    def stall(_what: str, _done: int, _total: int) -> None:
        began.set()
        time.sleep(0.01)

    def run() -> None:
        try:
            while True:
                check_open_store(subject(filled), full=True, progress=stall)
        except StoreUnusable as problem:
            failures.append(problem)

    checking = threading.Thread(target=run)
    checking.start()
    began.wait(10)
    filled.close()
    checking.join(10)
    assert isinstance(failures[0], StoreUnusable)


# --- on files ---


def test_files_that_nobody_has_open_are_left_as_they_are(filled: Store) -> None:
    folder = closed(filled)
    before = state(folder)
    answer = files(folder)
    assert (answer.ok, answer.problems, answer.format) == (True, (), 5)
    assert state(folder) == before


def test_a_log_that_was_left_is_read(filled: Store, tmp_path: Path) -> None:
    (tmp_path / "crashed").mkdir()
    for name, content in state(filled.folder).items():
        (tmp_path / "crashed" / name).write_bytes(content)
    assert (tmp_path / "crashed" / f"{DATABASE_FILE}-wal").stat().st_size > 0
    assert files(tmp_path / "crashed").problems == ()
    store = Store.open(tmp_path / "crashed")
    assert store.database.value("SELECT count(*) FROM messages") == 39
    store.close()


@pytest.mark.parametrize("place", [20, 150, 4096 * 3 + 99, 4096 * 20 + 99, -99])
def test_a_damaged_page_is_named_and_stays_as_it_is(filled: Store, place: int) -> None:
    folder = closed(filled)
    content = bytearray((folder / DATABASE_FILE).read_bytes())
    content[place] ^= 1
    (folder / DATABASE_FILE).write_bytes(content)
    before = state(folder)
    answer = files(folder, full=False)
    assert "store_damaged" in codes(answer)
    assert codes(answer) & {"page_damaged", "unreadable"}
    assert not answer.ok
    assert state(folder) == before


def test_a_log_is_not_folded_into_a_damaged_file(filled: Store, tmp_path: Path) -> None:
    filled.database.rows("PRAGMA wal_checkpoint(truncate)")
    filled.audit.record(SYSTEM_ACTOR, "start")
    folder = tmp_path / "crashed"
    folder.mkdir()
    for name, content in state(filled.folder).items():
        changed = bytearray(content)
        if name == DATABASE_FILE:
            changed[-99] ^= 1
        (folder / name).write_bytes(changed)
    before = state(folder)
    assert not files(folder).ok
    after = state(folder)
    for name in (DATABASE_FILE, f"{DATABASE_FILE}-wal"):
        assert after[name] == before[name] != b""


def test_what_cannot_be_opened_for_its_key_is_an_error(filled: Store) -> None:
    folder = closed(filled)
    kept = (folder / KEY_FILE).read_bytes()
    (folder / KEY_FILE).unlink()
    with pytest.raises(KeyMissing):
        files(folder)
    write_key(folder / KEY_FILE, new_key())
    with pytest.raises(KeyWrong):
        files(folder)
    (folder / KEY_FILE).write_bytes(kept)
    assert files(folder).ok


def test_what_is_no_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / DATABASE_FILE).write_bytes(b"hello" * 100)
    with pytest.raises(StoreForeign):
        files(tmp_path)


def test_nobody_else_has_it_open_meanwhile(filled: Store) -> None:
    with pytest.raises(StoreInUse, match="pid"):
        files(filled.folder)


@pytest.mark.parametrize("number", [3, 4])
@pytest.mark.parametrize("with_log", [False, True])
def test_an_older_format_is_looked_at_and_not_touched(tmp_path: Path, number: int, with_log: bool) -> None:
    source, folder = tmp_path / "source", tmp_path / "data"
    source.mkdir()
    folder.mkdir()
    connection = apsw.Connection(str(source / DATABASE_FILE))
    connection.pragma("journal_mode", "wal")
    connection.execute(f"PRAGMA application_id = {format_5.APPLICATION_ID}; PRAGMA user_version = {number}")
    connection.execute("CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a INTEGER REFERENCES a (id))")
    if not with_log:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    for name in (DATABASE_FILE, f"{DATABASE_FILE}-wal"):
        (folder / name).write_bytes((source / name).read_bytes())
    if with_log:
        connection.wal_checkpoint()  # The format in the file itself is known, whatever the log contains.
        (folder / DATABASE_FILE).write_bytes((source / DATABASE_FILE).read_bytes())
    connection.close()
    before = state(folder)
    answer = files(folder)
    assert (answer.ok, answer.format, answer.checked) == (True, number, ("pages", "references"))
    assert state(folder) == before


def test_a_damaged_file_of_an_older_format_is_told(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / DATABASE_FILE))
    connection.execute(f"PRAGMA application_id = {format_5.APPLICATION_ID}; PRAGMA user_version = 3")
    connection.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, b TEXT); CREATE INDEX ab ON a (b)")
    connection.execute("CREATE TABLE c (a INTEGER REFERENCES a (id)); INSERT INTO c VALUES (7)")
    with connection:
        connection.executemany("INSERT INTO a (b) VALUES (?)", [(str(n) * 100,) for n in range(1000)])
    connection.close()
    content = bytearray((tmp_path / DATABASE_FILE).read_bytes())
    content[4096 * 5 : 4096 * 6] = bytes(4096)
    (tmp_path / DATABASE_FILE).write_bytes(content)
    assert "page_damaged" in codes(files(tmp_path))
