"""Restore while no appliance is running."""

import json
import os
import shutil
import sqlite3
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.cli import main
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.errors import (
    Conflict,
    KeyElsewhere,
    NotABackup,
    NotEnoughRoom,
    NotFound,
    PassphraseNeeded,
    ReplacedUnopened,
    StoreUnusable,
)
from mailbox_appliance.offline import restore
from mailbox_appliance.offline.store import verify_backup
from mailbox_appliance.store import files
from mailbox_appliance.store.backup.backups import list_backups
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import read_key, render_key_file
from mailbox_appliance.store.maintenance.rewrite import rekey_closed_store
from mailbox_appliance.store.store import Store
from tests.cli.test_backup import at_a_terminal, read_until
from tests.servers.fake_clock import FakeClock
from tests.store.restored import People, accept, lets_in, populate
from tests.store.test_key_slots import quickly_sealed
from tests.stores.opening import copied

SECRET = "seven words that nobody guesses"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def people(folder: Path) -> People:
    """A store with a backup and a scheduled send; the key was revoked after the backup."""
    store = Store.open(folder)
    made = populate(store)
    made.more["later"] = accept(store, made, "later", send_at=FakeClock().now().replace(year=2099))
    made.more["now"] = accept(store, made, "now")
    made.more["backup"] = store.backups.create("manual").id
    with store.database.transaction():
        store.api_keys.revoke(made.key)
    store.deliveries.set_outcome(made.more["now"], "failed", "message_rejected")
    store.close()
    return made


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a directory except the lock."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != "lock"}


def test_of_several_it_is_told_in_the_plural(folder: Path, people: People) -> None:
    store = Store.open(folder)
    accept(store, people, "another", send_at=FakeClock().now().replace(year=2099))
    store.close()
    answer = restore.restore(folder, people.more["backup"], dry_run=True)
    assert answer["warnings"][0] == "2 scheduled sends wait for their time."


def test_in_place(folder: Path, people: People) -> None:
    answer = restore.restore(folder, people.more["backup"])
    assert (answer["data"]["ok"], answer["data"]["members"], answer["data"]["accounts"]) == (True, 2, 2)
    (kept,) = [one.file_name for one in list_backups(folder) if one.reason == "pre-restore"]
    assert answer["warnings"] == [
        "1 scheduled send waits for its time.",
        "1 API key of the backup is revoked.",
        f"The previous store is kept as backups/{kept}.",
    ]
    store = Store.open(folder)
    assert lets_in(store, "1") is None
    assert store.deliveries.get_work(people.more["now"]).status == "failed"
    newest = store.audit.list(None, 1)[0][0]
    assert (newest.action, newest.actor.kind) == ("backup.restore", "local")
    store.close()


def test_a_dry_run_tells_the_same_and_changes_nothing(folder: Path, people: People) -> None:
    before = contents(folder)
    told = restore.restore(folder, people.more["backup"], dry_run=True)
    assert contents(folder) == before
    done = restore.restore(folder, people.more["backup"])
    assert done["data"] == told["data"]
    assert done["warnings"][:-1] == told["warnings"]


def test_where_the_present_store_does_not_open(folder: Path, people: People) -> None:
    (folder / DATABASE_FILE).write_bytes((folder / DATABASE_FILE).read_bytes()[: 40 << 10])
    before = contents(folder)
    told = restore.restore(folder, people.more["backup"], dry_run=True)
    assert contents(folder) == before
    first, *more = told["warnings"]
    assert "othing was changed" not in first, "something is to be"
    assert "API keys that were revoked" in first
    assert "damaged" in first
    assert more == [
        "1 send may have been delivered and is uncertain now.",
        "1 scheduled send is on hold until you run `mailbox-appliance scheduled release`.",
    ]
    assert restore.restore(folder, people.more["backup"])["warnings"][:-1] == told["warnings"]
    store = Store.open(folder)
    assert lets_in(store, "1") == people.bob
    assert store.stored_settings.find("sending.hold_scheduled") is True
    store.close()


def test_a_damaged_page_that_is_found_on_the_way_only(folder: Path, people: People) -> None:
    """In a large store, which is not fully checked when opened: sends that cannot be carried over are held."""
    store = Store.open(folder)
    root = store.database.value("SELECT rootpage FROM sqlite_schema WHERE name = 'delivery_operations'")
    with store.database.transaction():
        store.database.change("CREATE TABLE padding (content BLOB)")
        store.database.change("INSERT INTO padding VALUES (zeroblob(70000000))")
    store.close()
    with (folder / DATABASE_FILE).open("r+b") as file:
        file.seek((root - 1) * 4096 + 100)
        file.write(b"damage")
    answer = restore.restore(folder, people.more["backup"])
    assert "one of its pages cannot be read" in answer["warnings"][0]
    store = Store.open(folder)
    assert store.deliveries.get_work(people.more["now"]).status == "uncertain"
    store.close()


def test_a_store_whose_key_is_elsewhere_can_be_had_back(
    folder: Path, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shell without the variables of the unit file; the store itself is intact."""
    rekey_closed_store(folder, folder / KEY_FILE)
    (folder / KEY_FILE).rename(tmp_path / "key")
    before = contents(folder)
    told = restore.restore(folder, people.more["backup"], dry_run=True)
    assert contents(folder) == before
    for word in ("is missing", "MAILBOX_APPLIANCE_KEY_FILE", "systemd"):
        assert word in told["warnings"][0]
    asked = list[str]()

    def declining(why: str) -> bool:
        asked.append(why)
        return False

    with pytest.raises(Conflict, match=r"not discarded.*MAILBOX_APPLIANCE_KEY_FILE"):
        restore.restore(folder, people.more["backup"], give_up=declining)
    assert contents(folder) == before
    assert "MAILBOX_APPLIANCE_KEY_FILE" in asked[0]
    answer = restore.restore(folder, people.more["backup"])
    (kept,) = [one for one in list_backups(folder) if one.reason == "pre-restore"]
    assert answer["warnings"][-1] == f"The previous store is kept as backups/{kept.file_name}."

    with pytest.raises(ReplacedUnopened):
        verify_backup(folder, kept.id, None)
    told = restore.unpack(folder, kept.id, tmp_path / "back", dry_run=True)
    assert not (tmp_path / "back").exists()
    unpacked = restore.unpack(folder, kept.id, tmp_path / "back")
    assert told == unpacked
    assert unpacked["data"]["ok"] is False
    assert "does not open with the key of the backup" in unpacked["warnings"][0]
    assert (tmp_path / "back" / DATABASE_FILE).read_bytes() == before[DATABASE_FILE]
    monkeypatch.setenv("MAILBOX_APPLIANCE_KEY_FILE", str(tmp_path / "key"))
    store = Store.open(tmp_path / "back", key_file=tmp_path / "key")
    assert lets_in(store, "1") is None, "it was revoked"
    store.close()


def test_a_store_whose_key_is_noted_to_be_elsewhere_is_not_given_up(
    folder: Path, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / KEY_FILE).rename(tmp_path / "key")
    Store.open(folder, key_file=tmp_path / "key").close()
    before = contents(folder)
    for dry_run in (True, False):
        with pytest.raises(KeyElsewhere, match="MAILBOX_APPLIANCE_KEY_FILE"):
            restore.restore(folder, people.more["backup"], dry_run=dry_run)
        assert contents(folder) == before
    monkeypatch.setenv("MAILBOX_APPLIANCE_KEY_FILE", str(tmp_path / "key"))
    assert restore.restore(folder, people.more["backup"])["data"]["ok"] is True


def test_what_was_replaced_becomes_a_store_elsewhere_that_sends_nothing_again(
    folder: Path, people: People, tmp_path: Path
) -> None:
    restore.restore(folder, people.more["backup"])
    (kept,) = [one for one in list_backups(folder) if one.reason == "pre-restore"]
    unpacked = restore.unpack(folder, kept.id, tmp_path / "back")
    assert (unpacked["data"]["ok"], unpacked["data"]["members"]) == (True, 2)
    assert "changes since the backup are unknown" in unpacked["warnings"][0]
    store = Store.open(tmp_path / "back")
    assert store.stored_settings.find("sending.hold_scheduled") is True
    store.close()


@pytest.mark.parametrize("named", [f"bak_{'0' * 26}", Path(__file__)])
def test_what_is_refused_leaves_no_directory(tmp_path: Path, named: str | Path) -> None:
    with pytest.raises((NotFound, NotABackup)):
        restore.restore(tmp_path / "nothing", named)
    assert not (tmp_path / "nothing").exists()


def test_a_present_store_whose_passphrase_is_not_given_is_not_given_up(folder: Path, people: People) -> None:
    key = read_key(folder / KEY_FILE)
    (folder / KEY_FILE).write_bytes(render_key_file(key, (quickly_sealed(key, SECRET),)))
    before = contents(folder)
    with pytest.raises(PassphraseNeeded):
        restore.restore(folder, people.more["backup"])
    assert contents(folder) == before
    answer = restore.restore(folder, people.more["backup"], SECRET)
    assert "1 API key of the backup is revoked." in answer["warnings"], "it was opened"


def test_an_empty_directory_as_on_another_computer(folder: Path, people: People, tmp_path: Path) -> None:
    file = next((folder / "backups").iterdir())
    answer = restore.restore(tmp_path / "new", file)
    assert answer["warnings"][0].startswith("There is no current store.")
    Store.open(tmp_path / "new").close()
    unpacked = restore.unpack(folder, people.more["backup"], tmp_path / "elsewhere")
    assert unpacked["data"] == answer["data"]
    Store.open(tmp_path / "elsewhere").close()


# --- stores of old releases -------------------------------------------------------------------------------------------


def scheduled(folder: Path) -> list[tuple[str, str]]:
    store = Store.open(folder)
    sql = "SELECT schedule_id, status FROM delivery_operations WHERE schedule_id IS NOT NULL ORDER BY schedule_id"
    found = [(row[0], row[1]) for row in store.database.rows(sql)]
    assert store.audit.verify().broken is None
    store.close()
    return found


@pytest.fixture
def old(folder: Path) -> Path:
    """A store of format 3 that was upgraded and has since sent what was scheduled."""
    copied(3, folder)
    store = Store.open(folder)
    for (operation,) in store.database.rows("SELECT id FROM delivery_operations WHERE status = 'queued'"):
        store.deliveries.begin_sending(operation)
        store.deliveries.succeed(operation, None, reply_code=250)
    store.close()
    return folder


def test_a_migration_backup_in_place_sends_nothing_again(old: Path) -> None:
    (migration,) = list_backups(old)
    before = scheduled(old)
    assert "queued" not in dict(before).values()
    answer = restore.restore(old, migration.id)
    assert (answer["data"]["format"], scheduled(old)) == (3, before)
    assert any(
        "The email address of the member mem_4 differs from that of mem_3 only in spelling" in warning
        for warning in answer["warnings"]
    )
    store = Store.open(old)
    newest = [event.action for event in store.audit.list(None, 2)[0]]
    assert newest == ["backup.restore", "store.upgrade"]
    assert store.stored_settings.find("sending.hold_scheduled") is None
    store.close()


def test_a_migration_backup_without_the_store_of_now_holds_what_is_scheduled(old: Path, tmp_path: Path) -> None:
    (migration,) = list_backups(old)
    (tmp_path / "new").mkdir()
    shutil.copytree(old / "backups", tmp_path / "new" / "backups")
    answer = restore.restore(tmp_path / "new", migration.id)
    assert answer["warnings"][0].startswith("There is no current store.")
    assert {status for _, status in scheduled(tmp_path / "new")} & {"queued", "uncertain"}
    store = Store.open(tmp_path / "new")
    assert store.stored_settings.find("sending.hold_scheduled") is True
    store.close()


def test_a_migration_backup_elsewhere_is_byte_for_byte_what_was_there(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (migration,) = list_backups(old)
    for dry_run in (True, False):
        with monkeypatch.context() as full:
            full.setattr(files, "free_bytes", lambda _: 1 << 10)
            with pytest.raises(NotEnoughRoom):
                restore.unpack(old, migration.id, tmp_path / "old", dry_run=dry_run)
    told = restore.unpack(old, migration.id, tmp_path / "old", dry_run=True)
    assert not (tmp_path / "old").exists()
    answer = restore.unpack(old, migration.id, tmp_path / "old")
    assert told == answer
    assert (answer["data"]["format"], len(answer["warnings"])) == (3, 1)
    assert contents(tmp_path / "old") == contents(copied(3, tmp_path / "original")[0])
    connection = sqlite3.connect(tmp_path / "old" / DATABASE_FILE)
    assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    connection.close()


def test_a_dry_run_elsewhere_tells_the_same_and_leaves_nothing(folder: Path, people: People, tmp_path: Path) -> None:
    before = contents(tmp_path)
    told = restore.unpack(folder, people.more["backup"], tmp_path / "new" / "store", dry_run=True)
    assert (contents(tmp_path), [one.name for one in tmp_path.iterdir()]) == (before, ["data"])
    assert told["data"]["ok"] is True
    assert "changes since the backup are unknown" in told["warnings"][0]
    assert told == restore.unpack(folder, people.more["backup"], tmp_path / "new" / "store")


@pytest.mark.parametrize("target", ["/proc/new", "file/new"])
def test_a_dry_run_elsewhere_is_refused_where_nothing_could_be(
    folder: Path, people: People, tmp_path: Path, target: str
) -> None:
    (tmp_path / "file").touch()
    told = []
    for dry_run in (True, False):
        with pytest.raises(StoreUnusable) as refused:
            restore.unpack(folder, people.more["backup"], tmp_path / target, dry_run=dry_run)
        told.append(refused.value.message)
    assert told[0] == told[1]


def test_a_dry_run_elsewhere_asks_for_room(
    folder: Path, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda _: 1 << 10)
    with pytest.raises(NotEnoughRoom):
        restore.unpack(folder, people.more["backup"], tmp_path / "new", dry_run=True)
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


def test_a_present_store_of_an_old_format_is_upgraded_first(folder: Path, people: People, tmp_path: Path) -> None:
    file = next((folder / "backups").iterdir())
    copied(3, tmp_path / "old")
    before = contents(tmp_path / "old")
    told = restore.restore(tmp_path / "old", file, dry_run=True)
    assert "has format 3" in told["warnings"][0]
    assert contents(tmp_path / "old") == before
    done = restore.restore(tmp_path / "old", file)
    assert done["warnings"][0].startswith(
        "The store was upgraded from format 3 to 5. The previous store is kept in backups/"
    )
    assert sorted(one.reason for one in list_backups(tmp_path / "old")) == ["migration", "pre-restore"]


# --- the command ------------------------------------------------------------------------------------------------------


def command(folder: Path, *words: str, given: bytes = b"") -> tuple[int, Any]:
    out, complaints = StringIO(), StringIO()
    code = main.run(
        ["--data-dir", str(folder), "backup", "restore", *words], SERVICES, Terminal(BytesIO(given), out, complaints)
    )
    return code, json.loads(out.getvalue() or complaints.getvalue())


def test_the_command(folder: Path, people: People, tmp_path: Path) -> None:
    backup = people.more["backup"]
    code, told = command(folder, backup, "--dry-run")
    assert (code, told["data"]["members"]) == (0, 2)
    assert command(folder, backup, "--to", str(tmp_path / "there"))[0] == 0
    code, refused = command(folder, backup, "--to", str(tmp_path / "there"))
    assert (code, refused["error"]["code"]) == (2, "conflict")
    code, restored = command(folder, str(next((folder / "backups").iterdir())))
    assert (code, restored["data"]) == (0, told["data"])
    assert command(folder, f"bak_{'0' * 26}")[0] == 2
    assert command(folder, str(folder / DATABASE_FILE))[1]["error"]["code"] == "not_a_backup"


@pytest.mark.parametrize("name", ["x" * 5000, "nothing/there"])
def test_a_file_that_is_not_there(folder: Path, people: People, name: str) -> None:
    code, refused = command(folder, name)
    assert (code, refused["error"]["code"]) == (2, "invalid_request")


def test_a_file_that_is_no_file(folder: Path, people: People, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        code, refused = command(folder, str(file))
        assert (code, refused["error"]["code"]) == (2, "not_a_backup")


def test_at_a_terminal_it_is_asked_before_a_store_is_given_up(folder: Path, people: People) -> None:
    (folder / KEY_FILE).unlink()
    before = contents(folder)
    line = ("--data-dir", str(folder), "backup", "restore", people.more["backup"])
    code, refused = command(folder, people.more["backup"])  # no prompt is possible
    assert (code, refused["error"]["details"][0]["path"]) == (2, "option:--yes")
    for answer, code in ((b"\n", 2), (b"yes\n", 0)):
        assert contents(folder) == before
        with at_a_terminal(*line, environment={}) as (process, terminal):
            shown = read_until(terminal, b"[y/N] ")
            os.write(terminal, answer)
            assert process.wait(60) == code
        assert b"MAILBOX_APPLIANCE_KEY_FILE" in shown
    Store.open(folder).close()
    (folder / KEY_FILE).unlink()
    with at_a_terminal(*line, "--yes", environment={}) as (process, terminal):
        assert process.wait(60) == 0


def test_the_appliance_must_not_run(folder: Path, people: People) -> None:
    store = Store.open(folder)
    code, refused = command(folder, people.more["backup"])
    assert (code, refused["error"]["code"]) == (1, "store_in_use")
    assert "pid" in refused["error"]["message"]
    store.close()


def test_a_backup_with_a_passphrase(folder: Path, people: People) -> None:
    store = Store.open(folder)
    made = store.backups.create("manual", SECRET)
    store.close()
    code, refused = command(folder, made.id)
    assert (code, refused["error"]["code"]) == (4, "backup_wrong_passphrase")
    assert command(folder, made.id, "--passphrase-stdin", given=SECRET.encode() + b"\n")[0] == 0
