"""Store commands: through the running appliance as its operator, or on the files."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.offline.store import setup_on_files
from mailbox_appliance.store.key import read_key
from mailbox_appliance.store.store import Store
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer
from tests.cli.test_login import owned
from tests.servers.running import PASSWORD

STORES = Path(__file__).parents[1] / "stores"
PASSPHRASE = "seven words that nobody guesses"
FINE = {"ok": True, "full": False, "format": 5, "checked": ["pages", "key"], "problems": []}
BAD = FINE | {"ok": False, "problems": [{"code": "page_damaged", "message": "SQLite: it is."}]}


# --- who is asked -----------------------------------------------------------------------------------------------------


@pytest.fixture
def running(cli: CommandLine, server: RecordingServer) -> Iterator[RecordingServer]:
    """A server that owns the data directory of the command line."""
    server.data("GET", "/admin/store", {"format": 5, "pid": 7})
    server.data("POST", "/admin/store/check", FINE)
    with owned(cli.data_dir, server.url):
        yield server


def test_what_is_found_is_the_exit_code(cli: CommandLine, running: RecordingServer) -> None:
    fine = cli("store", "check", "--format", "table")
    assert (fine.code, fine.out.endswith("The store is intact. Checked: pages, key.\n")) == (0, True)
    running.data("POST", "/admin/store/check", BAD)
    assert cli("store", "check").code == 1
    told = cli("store", "check", "--format", "table")
    assert (told.code, "SQLite: it is.\n" in told.out, "restore a backup" in told.out) == (1, True, True)


# --- on the files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def files(cli: CommandLine) -> CommandLine:
    """A command line on a data directory that is set up, without a running appliance."""
    cli.services |= SERVICES
    setup_on_files(cli.data_dir, name="Ada", email="ada@example.org", password=PASSWORD, device_name="d")
    return cli


def content(files: CommandLine) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files.data_dir.iterdir() if path.is_file()}


def test_status_changes_nothing_and_needs_no_key(files: CommandLine) -> None:
    before = content(files)
    told = files("store", "status")
    assert (told.code, told.err) == (0, "")
    assert (told.data["format"], told.data["pid"], told.data["lastBackup"]) == (5, None, None)
    assert told.data["key"]["slots"] == ["file"]
    assert content(files) == before
    (files.data_dir / "encryption.key").unlink()
    without = files("store", "status")
    assert (without.code, without.data["format"]) == (0, 5)
    assert "cannot be read" in without.data["key"]["problem"]
    assert "encryption.key" not in content(files)


def test_status_tells_the_newest_backup(files: CommandLine) -> None:
    made = files("backup", "create").data
    newest = files("store", "status").data["lastBackup"]
    assert newest == {"id": made["id"], "at": made["createdAt"], "reason": "manual"}


def test_checked_on_the_files(files: CommandLine) -> None:
    before = content(files)
    full = files("store", "check", "--full")
    assert (full.code, full.data["ok"], len(full.data["checked"])) == (0, True, 7)
    assert content(files) == before
    assert "reading every page" in files("store", "check", screen=True).err


def test_a_damaged_page_is_a_problem_and_no_traceback(files: CommandLine) -> None:
    file = files.data_dir / "mailbox.db"
    damaged = bytearray(file.read_bytes())
    damaged[-99] ^= 1
    file.write_bytes(damaged)
    outcome = files("store", "check")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.data["problems"][0]["code"] == "store_damaged"
    assert file.read_bytes() == damaged


def test_compacted_on_the_files(files: CommandLine) -> None:
    done = files("store", "compact")
    assert (done.code, done.err) == (0, "")
    assert done.data["bytesBefore"] >= done.data["bytesAfter"] > 0
    assert files("store", "check", "--full").data["ok"]


def test_a_new_key_on_the_files(files: CommandLine) -> None:
    before = read_key(files.data_dir / "encryption.key").master
    done = files("store", "rekey")
    assert (done.code, done.data) == (0, {"rekeyed": True, "auditRows": 2, "auditOk": True})
    assert "old key" in json.loads(done.out)["warnings"][0]
    assert read_key(files.data_dir / "encryption.key").master != before
    assert files("audit", "verify").data["ok"]
    assert files("store", "check", "--full").data["ok"]


@pytest.mark.parametrize("number", [3, 4])
def test_an_older_store_is_told_and_not_touched(cli: CommandLine, number: int) -> None:
    cli.services |= SERVICES
    for file in (STORES / f"format{number}").iterdir():
        (cli.data_dir / file.name).write_bytes(file.read_bytes())
    before = content(cli)
    told = cli("store", "status")
    assert (told.code, told.data["format"]) == (0, number)
    assert (told.data["migration"]["toFormat"], told.data["migration"]["problems"]) == (5, [])
    assert told.data["migration"]["rows"]["members"] > 0
    assert "store migrate" in json.loads(told.out)["warnings"][0]
    checked = cli("store", "check", "--full")
    assert (checked.code, checked.data["format"], checked.data["problems"]) == (0, number, [])
    (cli.data_dir / "encryption.key").unlink()
    without = cli("store", "status").data
    assert (without["format"], "missing" in without["migration"]["problems"][0]) == (number, True)
    after = content(cli)
    after.pop("lock")
    assert after | {"encryption.key": before["encryption.key"]} == before


@pytest.mark.parametrize("kind", ["pipe", "directory", "link to nowhere"])
def test_what_is_no_file_is_no_store_and_is_not_waited_for(cli: CommandLine, kind: str) -> None:
    cli.services |= SERVICES
    file = cli.data_dir / "mailbox.db"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    else:
        file.symlink_to("/nowhere/mailbox.db")
    for line in ("store check", "store rekey", "store migrate", "backup create", "audit verify", "serve --port 0"):
        refused = cli(*line.split(" "))
        assert (refused.code, refused.error["code"]) == (1, "store_unusable"), line
        assert "mailbox.db: " in refused.error["message"]
    told = cli("store", "status")
    assert (told.code, told.data["format"]) == (0, None)
    assert "mailbox.db: " in told.data["problem"]


def test_a_directory_whose_name_is_not_utf_8(cli: CommandLine, tmp_path: Path) -> None:
    cli.services |= SERVICES
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff"))
    Store.open(cli.data_dir).close()
    shutil.copytree(cli.data_dir, folder)
    for line in ("store check", "backup create", "serve --port 0"):
        refused = cli("--data-dir", str(folder), *line.split(" "))
        assert (refused.code, refused.error["code"]) == (1, "store_unusable"), refused.err
        assert "is not valid UTF-8" in refused.error["message"]


def test_another_file_of_that_name_is_no_store(cli: CommandLine) -> None:
    cli.services |= SERVICES
    (cli.data_dir / "mailbox.db").write_bytes(b"hello" * 100)
    told = cli("store", "status")
    assert (told.code, told.data["format"], "is not a mailbox-appliance store" in told.data["problem"]) == (
        0,
        None,
        True,
    )
    for line in ("check", "compact", "rekey", "migrate"):
        refused = cli("store", line)
        assert (refused.code, refused.error["code"]) in ((1, "store_foreign"), (4, "key_missing"))
    assert (cli.data_dir / "mailbox.db").read_bytes() == b"hello" * 100
