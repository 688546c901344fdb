"""Damage of any byte is a named error or changes no answer, and what is refused is left as it is.

Bytes are flipped one after the other in one process; that the command line says the same is seen for a few of them.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path

import pytest

from mailbox_appliance import errors
from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.cli import main
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.store.backup.backups import verify_file
from mailbox_appliance.store.backup.container import open_container
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import StoreKey, read_key
from mailbox_appliance.store.store import Store
from tests.store.test_open_file import leave_log
from tests.store_proof.children import command, environment, run
from tests.store_proof.directories import copy, make_store, snapshot
from tests.store_proof.facts import Facts, difference, facts_of

STRIDE, PAGE = 97, 4096


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store."""
    return make_store(tmp_path_factory.mktemp("template") / "data")


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    return copy(template, tmp_path / "data")


@pytest.fixture(scope="module")
def facts(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """All that the store says."""
    return facts_in(copy(template, tmp_path_factory.mktemp("facts") / "data"))


def facts_in(folder: Path) -> Facts:
    store = Store.open(folder)
    try:
        assert store.audit.verify().broken is None
        return facts_of(store)
    finally:
        store.close()


@contextmanager
def flipped(file: Path, position: int, mask: int = 0x40) -> Iterator[None]:
    """One byte of a file is another for a while; its times stay."""
    times = file.stat()
    with file.open("r+b", buffering=0) as handle:
        content = os.pread(handle.fileno(), 1, position)
        os.pwrite(handle.fileno(), bytes((content[0] ^ mask,)), position)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        yield
        os.pwrite(handle.fileno(), content, position)


@pytest.mark.slow
def test_every_flipped_byte_of_the_database_is_told(template: Path, folder: Path, facts: Facts) -> None:
    file, size = folder / DATABASE_FILE, (folder / DATABASE_FILE).stat().st_size
    outcomes: Counter[str] = Counter()
    for position in range(0, size, STRIDE):
        with flipped(file, position):
            before = file.stat()
            outcome = answer(folder, facts)
            assert outcome == "no effect" or file.stat().st_mtime_ns == before.st_mtime_ns, position
        outcomes[outcome] += 1
        if outcome == "no effect":
            restore(template, folder)
    # Each was put back as it was, and nothing else was touched.
    assert {name: seen[-1] for name, seen in snapshot(folder).items()} == {
        name: seen[-1] for name, seen in snapshot(template).items()
    }
    # Only what SQLite's header leaves readable may be without effect: 16 to 23 of the first page.
    assert outcomes["no effect"] <= 1, outcomes
    assert set(outcomes) <= {"no effect", "store_damaged", "store_foreign", "key_wrong"}, outcomes


def answer(folder: Path, facts: Facts) -> str:
    """What opening says: the code of a named error, or `no effect` where every answer is the same."""
    try:
        found = facts_in(folder)
    except errors.StoreUnusable as error:
        return error.code
    assert not difference(facts, found)
    return "no effect"


def restore(template: Path, folder: Path) -> None:
    """After a successful opening, which may have written something."""
    shutil.rmtree(folder)
    copy(template, folder)


def test_every_flipped_byte_of_the_key_file_is_told(folder: Path) -> None:
    before, size = snapshot(folder), (folder / KEY_FILE).stat().st_size
    for position in range(size):  # all of them: it is small
        for mask in (0x01, 0x20, 0x80):
            with flipped(folder / KEY_FILE, position, mask):
                with pytest.raises(errors.KeyUnusable) as caught:
                    Store.open(folder)
                assert caught.value.code in ("key_damaged", "key_wrong"), position
        # Also the difference between upper and lower case in a hexadecimal digest is damage.
    after = snapshot(folder)
    assert {name: seen[-1] for name, seen in after.items()} == {name: seen[-1] for name, seen in before.items()}


def swap_pages(folder: Path, _older: Path) -> None:
    content = bytearray((folder / DATABASE_FILE).read_bytes())
    one, other = slice(10 * PAGE, 11 * PAGE), slice(20 * PAGE, 21 * PAGE)
    content[one], content[other] = content[other], content[one]
    (folder / DATABASE_FILE).write_bytes(content)


def page_of_another_store(folder: Path, other: Path) -> None:
    content = bytearray((folder / DATABASE_FILE).read_bytes())
    content[12 * PAGE : 13 * PAGE] = (other / DATABASE_FILE).read_bytes()[12 * PAGE : 13 * PAGE]
    (folder / DATABASE_FILE).write_bytes(content)


def database_of_another_store(folder: Path, other: Path) -> None:
    shutil.copy(other / DATABASE_FILE, folder / DATABASE_FILE)


def longer_file(folder: Path, _older: Path) -> None:
    with (folder / DATABASE_FILE).open("ab") as handle:
        handle.write(os.urandom(PAGE))


DAMAGES: list[tuple[str, Callable[[Path, Path], None], str | None]] = [
    ("two pages swapped", swap_pages, "store_damaged"),
    ("page of another store", page_of_another_store, "store_damaged"),
    ("database of another store", database_of_another_store, "key_wrong"),
    ("a page too many", longer_file, None),
]
ON_THE_COMMAND_LINE = (swap_pages, database_of_another_store)


@pytest.mark.parametrize(("spoil", "code"), [damage[1:] for damage in DAMAGES], ids=[damage[0] for damage in DAMAGES])
def test_what_is_said_of_damage(
    folder: Path, facts: Facts, tmp_path: Path, spoil: Callable[[Path, Path], None], code: str | None
) -> None:
    spoil(folder, make_store(tmp_path / "other"))
    before = snapshot(folder)
    assert answer(folder, facts) == (code or "no effect")
    if code is None:
        return
    if spoil in ON_THE_COMMAND_LINE:
        ended = run(command(folder, ["serve", "--port", "0"]), folder)
        told = json.loads(ended.complaints)["error"]
        assert (told["code"], ended.code) == (code, 4 if code.startswith("key") else 1)
        assert str(folder) in told["message"]
    assert snapshot(folder) == before


# --- a backup ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def backup(folder: Path) -> Path:
    """A backup in that copy of the store."""
    store = Store.open(folder)
    made = store.backups.find(store.backups.create("manual").id)
    store.close()
    return made


def test_every_flipped_byte_of_a_backup_is_told(folder: Path, backup: Path) -> None:
    key, before, outcomes = read_key(folder / KEY_FILE), snapshot(folder), Counter[str]()
    for number, position in enumerate(range(0, backup.stat().st_size, STRIDE)):
        read = verify_file if number % 100 == 0 else check  # all that is done with it takes longer
        with flipped(backup, position), pytest.raises(errors.BackupUnusable) as caught:
            read(backup, None, key)
        outcomes[caught.value.code] += 1
    assert set(outcomes) == {"backup_altered", "not_a_backup"}, outcomes
    assert outcomes["not_a_backup"] <= 1  # within its first ten bytes
    assert {name: seen[-1] for name, seen in snapshot(folder).items()} == {
        name: seen[-1] for name, seen in before.items()
    }


def check(file: Path, passphrase: str | None, key: StoreKey) -> None:
    """Read all of a backup, and authenticate it."""
    open_container(file, passphrase=passphrase, key=key).check()


CHANGES: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda raw: raw[: len(raw) // 2] + b"?" + raw[len(raw) // 2 + 1 :], "backup_altered"),
    (lambda raw: raw[: len(raw) // 2], "backup_truncated"),
    (lambda raw: raw + b"?", "backup_altered"),
    (lambda _raw: b"", "not_a_backup"),
    (lambda _raw: b"Dear diary", "not_a_backup"),
]


@pytest.mark.parametrize(("change", "code"), CHANGES, ids=["altered", "truncated", "longer", "empty", "text"])
def test_a_damaged_backup_is_not_restored(
    folder: Path, backup: Path, change: Callable[[bytes], bytes], code: str
) -> None:
    backup.write_bytes(change(backup.read_bytes()))
    before = snapshot(folder)
    for argv in (("verify", str(backup)), ("restore", str(backup)), ("restore", str(backup), "--to", f"{folder}-2")):
        output, complaints = StringIO(), StringIO()
        terminal = Terminal(BytesIO(), output, complaints, environment(folder))
        assert main.run(["--data-dir", str(folder), "backup", *argv], SERVICES, terminal) == 2, argv
        assert json.loads(complaints.getvalue())["error"]["code"] == code, argv
        assert snapshot(folder) == before, argv
    assert not folder.with_name(f"{folder.name}-2").exists()


# --- the log beside the file ------------------------------------------------------------------------------------------


def left_by_a_crash(folder: Path, name: str) -> bytes:
    """A commit that lies in the log only; answers the log."""
    leave_log(folder, f"INSERT INTO meta VALUES ('{name}', 'late')")
    return (folder / (DATABASE_FILE + "-wal")).read_bytes()


def test_a_log_of_another_store_is_never_taken_for_ours(folder: Path, facts: Facts, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other")
    foreign = left_by_a_crash(other, "foreign")
    (folder / (DATABASE_FILE + "-wal")).write_bytes(foreign)
    before = snapshot(folder)
    # SQLite takes any log that is whole in itself, and would fold it in; the pages in it do not open with our key.
    assert answer(folder, facts) == "store_damaged"
    after = snapshot(folder)
    after.pop(DATABASE_FILE + "-shm", None)
    assert after == before


def test_a_log_that_was_cut_or_spoilt_gives_a_prefix_of_what_was_committed(folder: Path, facts: Facts) -> None:
    log = left_by_a_crash(folder, "late")
    late = facts_in(copy(folder, folder.with_name("late")))
    assert difference(facts, late).startswith("meta")
    saved = {suffix: (folder / (DATABASE_FILE + suffix)).read_bytes() for suffix in ("", "-wal")}
    outcomes: Counter[str] = Counter()
    cuts = [log[:size] for size in range(0, len(log), STRIDE * 7)]
    flips = [log[:at] + bytes((log[at] ^ 0x40,)) + log[at + 1 :] for at in range(0, len(log), STRIDE * 7)]
    for spoilt in (*cuts, *flips):
        for suffix, content in (("", saved[""]), ("-wal", spoilt)):
            (folder / (DATABASE_FILE + suffix)).write_bytes(content)
        (folder / (DATABASE_FILE + "-shm")).unlink(missing_ok=True)
        found = facts_in(folder)
        outcomes["before" if not difference(facts, found) else "after"] += 1
        assert not difference(facts, found) or not difference(late, found)
    assert outcomes["before"] > 0


def test_an_older_copy_of_a_page_cannot_be_told_by_the_page_alone(folder: Path) -> None:
    """A page is sealed with its number, not with its time: an attacker who writes the file may put an old one back.

    This is said in the documentation; what is promised is that it is no crash and no made-up content.
    """
    older = (folder / DATABASE_FILE).read_bytes()
    store = Store.open(folder)
    with store.database.transaction():
        store.database.change("UPDATE members SET name = name || ' the second'")
    store.close()
    newer = bytearray((folder / DATABASE_FILE).read_bytes())
    changed = [
        at for at in range(0, min(len(older), len(newer)), PAGE) if older[at : at + PAGE] != newer[at : at + PAGE]
    ]
    names = {outcome_of_names(folder, bytes(newer), older, at) for at in changed}
    assert names <= {"old", "new", "store_damaged"}, names
    assert "old" in names  # not detected


def outcome_of_names(folder: Path, newer: bytes, older: bytes, at: int) -> str:
    (folder / DATABASE_FILE).write_bytes(newer[:at] + older[at : at + PAGE] + newer[at + PAGE :])
    try:
        store = Store.open(folder)
    except errors.StoreDamaged as error:
        return error.code
    names = [name for (name,) in store.database.rows("SELECT name FROM members")]
    store.close()
    return "new" if all(name.endswith("the second") for name in names) else "old"
