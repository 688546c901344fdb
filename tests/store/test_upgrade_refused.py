"""Obstacles to the upgrade of an old store: each has its error, and the old directory stays as it was."""

import base64
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mailbox_appliance import errors
from mailbox_appliance.offline import store
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.maintenance.check import check_closed_store
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.upgrade.dry_run import preview_upgrade
from tests.servers.fake_clock import FakeClock
from tests.store_proof.directories import leave_log, snapshot
from tests.stores.opening import FORMATS, copied

Spoil = Callable[[Path], object]


def sql(*statements: str) -> Spoil:
    """Execute statements in the old file."""

    def spoil(folder: Path) -> None:
        connection = sqlite3.connect(folder / DATABASE_FILE)
        connection.execute("PRAGMA ignore_check_constraints = 1")
        for one in statements:
            connection.execute(one)
        connection.commit()
        connection.close()

    return spoil


def key_becomes(content: bytes) -> Spoil:
    return lambda folder: (folder / KEY_FILE).write_bytes(content)


def page_becomes_nonsense(folder: Path) -> None:
    """Overwrite a page, such as one of the index of members' email addresses."""
    content = bytearray((folder / DATABASE_FILE).read_bytes())
    content[5 * 4096 : 6 * 4096] = b"\xa5" * 4096
    (folder / DATABASE_FILE).write_bytes(content)


def cut(folder: Path) -> None:
    os.truncate(folder / DATABASE_FILE, 10 * 4096)


def cut_a_little(folder: Path) -> None:
    """Truncate the last page, which SQLite then fills with zeros and accepts."""
    os.truncate(folder / DATABASE_FILE, (folder / DATABASE_FILE).stat().st_size - 4)


def cut_by_a_free_page(folder: Path) -> None:
    sql("CREATE TABLE gone AS SELECT zeroblob(20000)", "DROP TABLE gone")(folder)
    os.truncate(folder / DATABASE_FILE, (folder / DATABASE_FILE).stat().st_size - 4096)


def newer_in_the_log(folder: Path) -> None:
    leave_log(folder, "PRAGMA user_version = 6")


def flipped_secret(folder: Path) -> None:
    sql("UPDATE accounts SET sealed_secret = CAST(sealed_secret || x'00' AS BLOB) WHERE id = 'acc_2'")(folder)


#: Such a file has no constraint against it.
OF_TWO = (
    "CREATE TABLE others AS SELECT * FROM sessions",
    "DROP TABLE sessions",
    "ALTER TABLE others RENAME TO sessions",
    "UPDATE sessions SET token_hash = 'x'",
)
DAMAGE: list[tuple[str, Spoil, str]] = [
    ("no such role", sql("UPDATE members SET role = 'king' WHERE id = 'mem_2'"), "members"),
    ("no day", sql("UPDATE sessions SET last_used_at = '2026-02-31T00:00:00.000Z'"), "last_used_at of ses_1"),
    ("no time", sql("UPDATE sessions SET created_at = 'yesterday' WHERE id = 'ses_2'"), "created_at of ses_2"),
    ("no name", sql("UPDATE api_keys SET name = x'00' WHERE id = 'key_1'"), "name of key_1 in its table api_keys"),
    ("no JSON", sql("UPDATE accounts SET connection = '{' WHERE id = 'acc_1'"), "connection of acc_1"),
    ("another JSON", sql("UPDATE accounts SET connection = '{\"imap\": 1}' WHERE id = 'acc_1'"), "connection of acc_1"),
    ("no list", sql("UPDATE api_keys SET capabilities = '{}' WHERE id = 'key_1'"), "capabilities of key_1"),
    (
        "no right",
        sql("UPDATE api_keys SET capabilities = '[\"mail.eat\"]' WHERE id = 'key_1'"),
        "capabilities of key_1",
    ),
    ("no setting", sql("UPDATE settings SET value = 'x'"), "value of attachments in its table settings"),
    (
        "no UTF-8",
        sql("UPDATE members SET name = CAST(x'ff41' AS TEXT)"),
        "a text in its table members is not valid UTF-8",
    ),
    (
        "nobody's",
        sql("UPDATE sessions SET member_id = 'mem_9'"),
        "row 1 of its table sessions refers to a missing row of",
    ),
    ("no table", sql("DROP TABLE invitations"), "its table invitations is missing"),
    ("no column", sql("ALTER TABLE settings RENAME COLUMN value TO worth"), "column value of its table settings"),
    ("one token of two sessions", sql(*OF_TWO), "its rows contradict each other"),
    ("a damaged secret", flipped_secret, "the secret of accounts acc_2 cannot be decrypted"),
    ("a damaged page", page_becomes_nonsense, ""),
    ("cut", cut, "it is truncated"),
    ("cut a little", cut_a_little, "it is truncated"),
    ("cut by a page that nothing is in", cut_by_a_free_page, "it is truncated"),
]
FAULTS: list[tuple[str, Spoil, type[errors.StoreUnusable], str]] = [
    *((name, spoil, errors.StoreDamaged, told) for name, spoil, told in DAMAGE),
    ("another key", key_becomes(base64.b64encode(bytes(range(32)))), errors.KeyWrong, "belongs to another store"),
    ("half a key", key_becomes(b"AAAA"), errors.KeyDamaged, "not 32 bytes"),
    ("no key", lambda folder: (folder / KEY_FILE).unlink(), errors.KeyMissing, "is missing"),
    ("format 6 in the log", newer_in_the_log, errors.StoreNewer, "format 6"),
    (
        "a journal",
        lambda folder: (folder / f"{DATABASE_FILE}-journal").write_bytes(b"x"),
        errors.StoreDamaged,
        "-journal",
    ),
]


def problems(folder: Path) -> tuple[str, ...]:
    """Return the problems that a dry run finds, or its error."""
    try:
        return preview_upgrade(folder, folder / KEY_FILE).problems
    except errors.StoreUnusable as problem:
        return (problem.message,)


@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize(
    ("spoil", "error", "told"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_a_fault_is_named_and_changes_nothing(
    number: int, spoil: Spoil, error: type[errors.StoreUnusable], told: str, tmp_path: Path, clock: FakeClock
) -> None:
    folder, _ = copied(number, tmp_path / "data")
    spoil(folder)
    before = snapshot(folder)
    (problem,) = problems(folder)
    assert told in problem
    assert snapshot(folder) == before
    with pytest.raises(errors.StoreUnusable) as caught:
        Store.open(folder, clock)
    assert type(caught.value) is error
    assert told in caught.value.message
    assert snapshot(folder) == before


@pytest.mark.parametrize("spoil", [cut, cut_a_little, cut_by_a_free_page])
def test_a_check_notices_what_is_cut_off(spoil: Spoil, tmp_path: Path) -> None:
    folder, _ = copied(3, tmp_path / "data")
    spoil(folder)
    found = check_closed_store(folder, folder / KEY_FILE, full=False)
    assert (found.ok, found.problems[0].code) == (False, "store_damaged")
    assert "it is truncated" in found.problems[0].message


def test_who_has_it_open_is_noticed(tmp_path: Path, clock: FakeClock) -> None:
    folder, _ = copied(3, tmp_path / "data")
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM members').fetchall();"
        " print('open', flush=True); sys.stdin.read()"
    )
    command = (sys.executable, "-c", code, str(folder / DATABASE_FILE))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        for attempt in (lambda: Store.open(folder, clock), lambda: preview_upgrade(folder, folder / KEY_FILE)):
            with pytest.raises(errors.StoreInUse):
                attempt()
        other.communicate()
    Store.open(folder, clock).close()


def test_without_room_nothing_is_begun(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = copied(3, tmp_path / "data")
    before = snapshot(folder)
    real = os.statvfs

    def full(path: Path) -> os.statvfs_result:
        found = list(real(path))
        found[4] = 1  # blocks that a user may use
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", full)
    with pytest.raises(errors.NotEnoughRoom):
        Store.open(folder, clock)
    found = preview_upgrade(folder, folder / KEY_FILE)
    assert (found.bytes_free < found.bytes_needed, len(found.problems)) == (True, 1)
    assert snapshot(folder) == before


def test_what_a_crash_left_is_removed_by_the_next_start(tmp_path: Path, clock: FakeClock) -> None:
    folder, _ = copied(3, tmp_path / "data")
    (folder / "backups").mkdir()
    left = [folder / f"{DATABASE_FILE}.new", folder / f"{DATABASE_FILE}.new-wal", folder / "backups" / ".making-1"]
    for file in left:
        file.write_bytes(b"half of it")
    Store.open(folder, clock).close()
    assert not [file for file in left if file.exists()]
    assert len(list((folder / "backups").iterdir())) == 1


def test_a_link_is_upgraded_where_it_leads(tmp_path: Path, clock: FakeClock) -> None:
    folder, _ = copied(3, tmp_path / "data")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (DATABASE_FILE, KEY_FILE):
        (folder / name).rename(elsewhere / name)
        (folder / name).symlink_to(elsewhere / name)
    Store.open(folder, clock).close()
    assert (folder / DATABASE_FILE).is_symlink()
    assert (folder / KEY_FILE).is_symlink()
    assert (elsewhere / KEY_FILE).read_bytes().startswith(b"{")
    Store.open(folder, clock).close()


def test_a_key_file_that_cannot_be_written_stays(tmp_path: Path, clock: FakeClock) -> None:
    folder, _ = copied(3, tmp_path / "data")
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (folder / KEY_FILE).rename(credentials / "db-key")
    before = (credentials / "db-key").read_bytes()
    credentials.chmod(0o500)
    try:
        Store.open(folder, clock, credentials / "db-key").close()
        Store.open(folder, clock, credentials / "db-key").close()
    finally:
        credentials.chmod(0o700)
    assert (credentials / "db-key").read_bytes() == before or os.geteuid() == 0


def test_migrating_and_looking_only(tmp_path: Path) -> None:
    folder, _ = copied(3, tmp_path / "data")
    before = snapshot(folder)
    told = store.dry_run_upgrade(folder)["data"]
    assert (told["format"], told["upgradesTo"], told["ready"], told["problems"]) == (3, 5, True, [])
    assert (told["rows"]["scheduled_sends"], told["rows"]["audit_events"]) == (5, 17)
    assert snapshot(folder) == before
    done = store.upgrade(folder)["data"]
    assert (done["format"], done["upgradedFrom"]) == (5, 3)
    assert (folder / "backups" / done["backup"]).is_file()
    assert store.upgrade(folder)["data"] == {"format": 5, "upgradedFrom": None, "backup": None}
    assert store.dry_run_upgrade(folder)["data"]["upgradesTo"] == 5
    with pytest.raises(errors.StoreUnusable):
        store.dry_run_upgrade(tmp_path / "nothing")
