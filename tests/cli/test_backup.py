"""Backup commands: through the running appliance as its operator, on the files, and on any backup file."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.offline.store import setup_on_files
from tests.cli.conftest import CommandLine, Outcome
from tests.cli.recording_server import Canned, RecordingServer
from tests.cli.test_login import owned
from tests.servers.running import PASSWORD

PASSPHRASE = "seven words that nobody guesses"
BACKUP = {"id": "bak_1", "fileName": "a.mbxbackup", "passphraseProtected": False}
SUMMARY = {"ok": True, "members": 1, "accounts": 0, "messages": 1234}
OPEN = "Anyone who has this file can open it"


def has_opened(answer: Any) -> tuple[int, ...]:
    return answer["members"], answer["accounts"], answer["messages"]


# --- who is asked -----------------------------------------------------------------------------------------------------


@pytest.fixture
def running(cli: CommandLine, server: RecordingServer) -> Iterator[RecordingServer]:
    """A server that owns the data directory of the command line."""
    server.data("GET", "/admin/backups", {"items": [BACKUP], "nextCursor": None})
    server.answer("POST", "/admin/backups", Canned(201, {"data": BACKUP, "warnings": [OPEN]}))
    server.data("POST", "/admin/backups/bak_1/verify", SUMMARY)
    with owned(cli.data_dir, server.url):
        yield server


def test_pages_are_followed(cli: CommandLine, running: RecordingServer) -> None:
    running.data("GET", "/admin/backups?limit=100", {"items": [BACKUP], "nextCursor": "c"})
    running.data("GET", "/admin/backups?limit=100&cursor=c", {"items": [BACKUP], "nextCursor": None})
    assert cli("backup", "list", "--all").data == {"items": [BACKUP] * 2, "nextCursor": None}


def test_answers_for_people(cli: CommandLine, running: RecordingServer) -> None:
    made = cli("backup", "create", "--format", "table")
    assert (made.code, "bak_1" in made.out, made.err) == (0, True, f"Warning: {OPEN}\n")
    assert "a.mbxbackup" in cli("backup", "list", "--format", "table").out
    assert json.loads(cli("backup", "list", "--format", "ndjson").out) == BACKUP
    whole = cli("backup", "verify", "bak_1", "--format", "table")
    assert whole.out.endswith("The backup is intact and holds 1 member, 0 mailboxes, 1,234 messages.\n")
    assert "Creating a backup…" in cli("backup", "create", screen=True).err


def test_a_terminal_is_told_how_far_the_running_appliance_is(cli: CommandLine, running: RecordingServer) -> None:
    running.answer("POST", "/admin/backups", Canned(201, {"data": BACKUP}, after="GET /admin/store"))
    progress = {"work": "A backup", "step": "copying", "done": 3, "total": 4}
    running.data("GET", "/admin/store", {"progress": progress})
    outcome = cli("backup", "create", screen=True)
    assert outcome.code == 0
    assert "Creating a backup…" in outcome.err
    assert "copying [######################--------]  75 %" in outcome.err
    assert outcome.err.endswith("\r\x1b[K"), "it is wiped away"


# --- on the files -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A data directory that is set up, and the output of the commands that created its backups."""

    folder: Path
    plain: Outcome
    sealed: Outcome


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Create the backups once, since deriving keys from passphrases is slow."""
    line = CommandLine(tmp_path_factory.mktemp("made"), services=dict(SERVICES))
    setup_on_files(line.data_dir, name="Ada", email="ada@example.org", password=PASSWORD, device_name="d")
    plain = line("backup", "create")
    sealed = line("backup", "create", "--passphrase-stdin", stdin=PASSPHRASE.encode())
    return Made(line.data_dir, plain, sealed)


@pytest.fixture
def files(cli: CommandLine, made: Made) -> CommandLine:
    """A command line on a copy of this directory, without a running appliance."""
    cli.services |= SERVICES
    shutil.copytree(made.folder, cli.data_dir, dirs_exist_ok=True)
    return cli


def file_of(files: CommandLine, outcome: Outcome) -> Path:
    return files.data_dir / "backups" / str(outcome.data["fileName"])


def test_made_listed_and_verified_on_the_files(files: CommandLine, made: Made) -> None:
    first, second = made.plain, made.sealed
    assert (first.code, first.err) == (0, "")
    assert json.loads(first.out)["warnings"][0].startswith(OPEN)
    assert "warnings" not in json.loads(second.out)
    assert [first.data["passphraseProtected"], second.data["passphraseProtected"]] == [False, True]
    assert files("backup", "list").data == {"items": [second.data, first.data], "nextCursor": None}
    page = files("backup", "list", "--limit", "1").data
    assert page["items"] == [second.data]
    assert files("backup", "list", "--cursor", page["nextCursor"]).data["items"] == [first.data]
    assert len(files("backup", "list", "--limit", "1", "--all").data["items"]) == 2
    whole = files("backup", "verify", first.data["id"])
    assert (whole.data["ok"], has_opened(whole.data)) == (True, (1, 0, 0))
    opened = files("backup", "verify", second.data["id"], "--passphrase-stdin", stdin=PASSPHRASE.encode())
    assert opened.data == whole.data | {"createdAt": second.data["createdAt"]}
    assert {one.name for one in files.data_dir.iterdir()} == {one.name for one in made.folder.iterdir()}


def test_what_is_no_backup_among_them_is_told(files: CommandLine, made: Made) -> None:
    file = file_of(files, made.plain)
    file.write_bytes(file.read_bytes()[:-1])
    outcome = files("backup", "list")
    assert outcome.data["items"] == [made.sealed.data]
    (warning,) = json.loads(outcome.out)["warnings"]
    assert file.name in warning


def test_a_file_is_verified_wherever_it_lies_and_nothing_else_is_touched(
    files: CommandLine, made: Made, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file_of(files, made.sealed).rename(elsewhere / "copy")
    nowhere = {"MAILBOX_APPLIANCE_DATA_DIR": str(tmp_path / "no such folder")}
    verify = ("backup", "verify", str(elsewhere / "copy"))
    missing = files(*verify, environment=nowhere)
    assert (missing.code, missing.error["code"]) == (4, "backup_wrong_passphrase")
    wrong = files(*verify, environment={**nowhere, "MAILBOX_APPLIANCE_PASSPHRASE": "another one altogether"})
    assert (wrong.code, wrong.error["code"]) == (4, "backup_wrong_passphrase")
    right = files(*verify, environment={**nowhere, "MAILBOX_APPLIANCE_PASSPHRASE": PASSPHRASE})
    assert (right.code, right.data["members"]) == (0, 1)
    assert [path.name for path in elsewhere.iterdir()] == ["copy"]
    assert not (tmp_path / "no such folder").exists()


def test_a_file_in_backups_is_named_by_its_name_alone(
    files: CommandLine, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(made.plain.data["fileName"])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert files("backup", "verify", name).data["members"] == 1
    assert files("backup", "restore", name, "--dry-run").data["members"] == 1
    assert files("backup", "verify", f"./../{name}").error["code"] == "invalid_request"
    among_them = file_of(files, made.plain)
    for path in (f"sub/{name}", f"../{name}"):  # a path leads from here, never from there
        (among_them.parent / path).parent.mkdir(exist_ok=True)
        shutil.copy(among_them, among_them.parent / path)
        assert files("backup", "verify", path).error["code"] == "invalid_request"
    Path(name).write_text("another file of this name, in the folder that one is in")
    assert files("backup", "verify", name).error["code"] == "not_a_backup"


def test_what_would_be_unpacked_is_told_and_nothing_is(files: CommandLine, made: Made, tmp_path: Path) -> None:
    target = tmp_path / "there" / "within"
    dry = ("backup", "restore", made.plain.data["id"], "--to", str(target), "--dry-run", "--format", "table")
    outcome = files(*dry)
    assert (outcome.code, "changes since the backup are unknown" in outcome.err) == (0, True)
    assert f"The backup would be unpacked in {target}. Nothing was changed.\n" in outcome.out
    assert not target.parent.exists()
    target.mkdir(parents=True)
    assert files(*dry).code == 0
    assert (list(target.iterdir()), [one.name for one in target.parent.iterdir()]) == ([], ["within"])
    (target / "a").touch()
    full = files(*dry)
    assert (full.code, "is not an empty directory" in full.err) == (2, True)
    (target / "a").unlink()
    file_of(files, made.plain).write_bytes(DAMAGED["backup_altered"](file_of(files, made.plain).read_bytes()))
    assert "backup_altered" in files(*dry[:-2]).err


def newer(_: bytes) -> bytes:
    """Return a possible beginning of a backup of a later release."""
    manifest = b'{"backup": 2, "format": 7, "id": "bak_00000000000000000000000000"}'
    return b"MBXBACKUP\n" + len(manifest).to_bytes(4, "big") + sha256(manifest).digest() + manifest + bytes(32)


#: the code of the error <- what is done to the bytes of a backup
DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "backup_newer_format": newer,
    "not_a_backup": lambda whole: b"x" + whole,
    "backup_truncated": lambda whole: whole[:-1],
    "backup_altered": lambda whole: whole[:-1] + bytes((whole[-1] ^ 1,)),
}


@pytest.mark.parametrize("code", DAMAGED)
def test_a_damaged_file_says_what_is_wrong_with_it(files: CommandLine, made: Made, code: str) -> None:
    file = file_of(files, made.plain)
    file.write_bytes(DAMAGED[code](file.read_bytes()))
    refused = files("backup", "verify", str(file))
    assert (refused.code, refused.error["code"]) == (2, code)
    assert file.name in refused.error["message"]


def test_backups_are_listed_where_the_store_is_lost(files: CommandLine, made: Made) -> None:
    (files.data_dir / "mailbox.db").unlink()
    assert len(files("backup", "list").data["items"]) == 2
    unknown = files("backup", "verify", f"bak_{'0' * 26}")
    assert (unknown.code, unknown.error["code"]) == (2, "not_found")


def test_a_list_on_the_files_looks_as_that_of_a_running_appliance(
    files: CommandLine, made: Made, server: RecordingServer
) -> None:
    lines = files("backup", "list", "--format", "ndjson").out.splitlines()
    assert [json.loads(line) for line in lines] == [made.sealed.data, made.plain.data]
    on_files = files("backup", "list", "--format", "table").out
    assert len(on_files.splitlines()) == 3
    server.data("GET", "/admin/backups", {"items": [made.sealed.data, made.plain.data], "nextCursor": None})
    files.speak_to(server)
    assert files("backup", "list", "--format", "table").out == on_files


# fmt: off
#: what is named as a backup <- the code of the error
NO_FILES: list[tuple[str, str]] = [
    ("x" * 5000,     "invalid_request"),
    ("none",         "invalid_request"),
    ("lock/within",  "invalid_request"),
    ("folder",       "not_a_backup"),
    ("pipe",         "not_a_backup"),
    ("/dev/null",    "not_a_backup"),
    ("/dev/zero",    "not_a_backup"),
]
# fmt: on


@pytest.mark.parametrize(("name", "code"), NO_FILES)
def test_what_is_no_file_is_no_backup(cli: CommandLine, name: str, code: str) -> None:
    cli.services |= SERVICES
    (cli.data_dir / "folder").mkdir()
    (cli.data_dir / "lock").touch()
    os.mkfifo(cli.data_dir / "pipe")
    refused = cli("backup", "verify", str(cli.data_dir / name))
    assert (refused.code, refused.error["code"]) == (2, code)
    assert len(refused.error["message"]) < 500


def test_a_short_passphrase_is_refused(files: CommandLine) -> None:
    refused = files("backup", "create", "--passphrase-stdin", stdin=b"elevenchars")
    assert (refused.code, refused.error["code"]) == (2, "invalid_request")
    assert refused.error["details"][0]["path"] == "/passphrase"
    assert len(files("backup", "list").data["items"]) == 2


# --- as processes -----------------------------------------------------------------------------------------------------


def test_somebody_at_a_terminal_is_asked_and_sees_how_far_it_is(files: CommandLine, made: Made) -> None:
    with at_a_terminal("backup", "verify", str(file_of(files, made.sealed)), environment=files.environment) as (
        process,
        terminal,
    ):
        shown = read_until(terminal, b"Passphrase: ")
        os.write(terminal, f"{PASSPHRASE}\n".encode())
        shown += read_until(terminal, b" %")
        assert process.stdout is not None
        answer = json.loads(process.stdout.read())
        assert process.wait(60) == 0
    assert answer["data"]["members"] == 1
    assert b"[#" in shown or b"[-" in shown
    assert PASSPHRASE.encode() not in shown


def test_a_new_passphrase_is_typed_twice(files: CommandLine) -> None:
    for again, code in ((PASSPHRASE, 0), ("another one altogether", 2)):
        line = ("backup", "create", "--with-passphrase")
        with at_a_terminal(*line, environment=files.environment) as (process, terminal):
            read_until(terminal, b"New passphrase: ")
            os.write(terminal, f"{PASSPHRASE}\n".encode())
            read_until(terminal, b"New passphrase again: ")
            os.write(terminal, f"{again}\n".encode())
            assert process.stdout is not None
            process.stdout.read()
            assert process.wait(60) == code
    newest, *others = files("backup", "list").data["items"]
    assert (newest["passphraseProtected"], len(others)) == (True, 2)


@contextmanager
def at_a_terminal(*argv: str, environment: Mapping[str, str]) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Start a command whose stdin and stderr are a terminal; yield it and the other end of the terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mailbox_appliance", *argv]
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, **environment},
        start_new_session=True,  # otherwise it would prompt at the terminal of the person who runs the tests
    ) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def read_until(terminal: int, wanted: bytes) -> bytes:
    """Return the terminal's output up to the wanted text, which must come within seconds."""
    shown = b""
    while wanted not in shown:
        assert select.select([terminal], [], [], 20)[0], f"nothing more is shown after {shown!r}"
        shown += os.read(terminal, 4096)
    return shown
