"""Directories that cannot be used, or only just: each has a clear error with its code, and nothing in it is changed.

The command line is a process of its own here, where it must be as another user.
"""

import json
import os
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.store import Store
from tests.servers.running import RunningAppliance
from tests.store_proof.children import Ended, alone, can_mount, command, environment, run
from tests.store_proof.directories import copy, make_store, snapshot

NOBODY = 65534
#: Root without what lets root pass by the modes of files: then it is a user as any other, who still reaches the Python
#: that the tests run with. Other users' files are NOBODY's.
POWERS = "-dac_override,-dac_read_search,-fowner,-chown"
PLAIN_USER = ["setpriv", f"--bounding-set={POWERS}", f"--inh-caps={POWERS}"]
SERVE = ("serve", "--port", "0", "--ready-json")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
mounting = pytest.mark.skipif(not can_mount(), reason="no small file system can be mounted here")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store."""
    return make_store(tmp_path_factory.mktemp("template") / "data")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that others can reach, as tmp_path is not."""
    with tempfile.TemporaryDirectory(prefix="directories-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def folder(template: Path, place: Path) -> Path:
    """A copy of the store."""
    return copy(template, place / "data")


def served(folder: Path, *, before: Sequence[str] = ()) -> Ended:
    """Start the appliance; where it does start, it is told to stop at once."""
    process = subprocess.Popen(
        [*before, *command(folder, SERVE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(folder),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if line:
        process.send_signal(signal.SIGTERM)
    output, complaints = process.communicate(timeout=60)
    return Ended(process.returncode, line + output, complaints)


def refused(ended: Ended, code: str, *words: str) -> None:
    """It said so in one error object, with these words, and with the exit code that goes with it."""
    lines = ended.complaints.strip().splitlines()
    assert len(lines) == 1, ended
    error = json.loads(lines[0])["error"]
    assert error["code"] == code, error
    assert ended.code == {"key": 4, "inv": 2}.get(code[:3], 1), ended
    for word in words:
        assert word in error["message"], error
    assert ended.output == ""


def works(ended: Ended) -> None:
    assert ended.code == 0, ended
    assert json.loads(ended.output.splitlines()[0])["event"] == "ready"


# --- two processes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Second:
    """A command that needs the directory for itself."""

    argv: tuple[str, ...]
    given: str = ""


SECONDS = {
    "serve": Second(SERVE),
    "rekey": Second(("store", "rekey")),
    "compact": Second(("store", "compact")),
    "migrate": Second(("store", "migrate")),
    "restore": Second(("backup", "restore", "BACKUP")),
    "add-passphrase": Second(("key", "add-passphrase", "--passphrase-stdin"), "fourteen umbrellas\n"),
    "use-file": Second(("key", "use-file")),
}


@pytest.fixture(scope="module")
def owner(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    """An appliance that owns its directory."""
    folder = copy(template, tmp_path_factory.mktemp("owner") / "data")
    store = Store.open(folder)
    store.backups.create("manual")
    store.close()
    running = RunningAppliance(folder).start()
    yield running
    running.stop()


@pytest.mark.parametrize("name", SECONDS)
def test_a_second_process_names_the_first(owner: RunningAppliance, name: str) -> None:
    second = SECONDS[name]
    before = snapshot(owner.folder, but=frozenset({"lock", "logs", "appliance.log"}))
    (backup,) = (owner.folder / "backups").iterdir()
    argv = [str(backup) if word == "BACKUP" else word for word in second.argv]
    ended = run(command(owner.folder, argv), owner.folder, second.given)
    assert owner.process is not None
    refused(ended, "store_in_use", f"pid {owner.process.pid}", str(owner.folder))
    assert (owner.folder / "lock").read_text().strip() == str(owner.process.pid)
    assert snapshot(owner.folder, but=frozenset({"lock", "logs", "appliance.log"})).keys() == before.keys()


@pytest.mark.parametrize("content", ["999999\n", "1\n", "no pid" * 1000])
def test_a_lock_that_nobody_holds_is_taken(folder: Path, content: str) -> None:
    """Whatever pid it names, a living one's included: what counts is that a process holds it."""
    (folder / "lock").write_text(content)
    works(served(folder))
    assert (folder / "lock").read_text() == ""


# --- what may not be written or read ----------------------------------------------------------------------------------


@as_root
def test_a_directory_that_may_only_be_read(folder: Path) -> None:
    (folder / "lock").unlink()
    folder.chmod(0o500)
    before = snapshot(folder, but=frozenset())
    refused(served(folder, before=PLAIN_USER), "store_unusable", str(folder), "Permission denied")
    assert snapshot(folder, but=frozenset()) == before
    # The lock is there from before, and may be written.
    (folder / "lock").touch(mode=0o600)
    before = snapshot(folder)
    refused(served(folder, before=PLAIN_USER), "store_unusable", str(folder))
    assert snapshot(folder) == before


@as_root
@pytest.mark.parametrize("before", [PLAIN_USER, []], ids=["plain", "root"])
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_directory_of_somebody_else(folder: Path, mode: int, before: list[str]) -> None:
    folder.chmod(mode)
    for path in (folder, *folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    was = snapshot(folder, but=frozenset())
    refused(served(folder, before=before), "store_unusable", f"{folder} belongs to nobody (uid {NOBODY})")
    assert snapshot(folder, but=frozenset()) == was


@as_root
@pytest.mark.parametrize("name", [KEY_FILE, DATABASE_FILE, "config.toml"])
def test_a_file_of_somebody_else(folder: Path, name: str) -> None:
    os.chown(folder / name, NOBODY, NOBODY)
    (folder / name).chmod(0o600)
    before = snapshot(folder, but=frozenset())
    refused(served(folder, before=PLAIN_USER), "store_unusable", f"{folder / name} belongs to nobody (uid {NOBODY})")
    assert snapshot(folder, but=frozenset()) == before


@as_root
@pytest.mark.parametrize(
    ("name", "code"),
    [(KEY_FILE, "key_unusable"), (DATABASE_FILE, "store_unusable"), ("config.toml", "invalid_request")],
)
def test_a_file_that_may_not_be_read(folder: Path, name: str, code: str) -> None:
    (folder / name).chmod(0)
    before = snapshot(folder)
    refused(served(folder, before=PLAIN_USER), code, str(folder / name), "Permission denied")
    assert snapshot(folder) == before


def on_disk(script: str, folder: Path, place: Path) -> tuple[Ended, str]:
    """Start on a copy of a directory on a small file system that only this process sees; answers what it holds after.

    The script prepares it; the copy is `data`, beside it.
    """
    disk = place / "disk"
    disk.mkdir()
    # What SQLite makes beside a database says nothing while it is empty.
    digest = 'find data -type f ! -name lock ! -name "*-shm" ! -size 0 -printf "%P %m " -exec sha256sum {} \\; | sort'
    whole = (
        'mount -t tmpfs -o size=4m,mode=755 tmpfs "$1" && cd "$1" && { [ ! -d "$2" ] || cp -a "$2" data; } '
        f'&& {script} || exit 125; folder="$3"; shift 3; {digest} >"$folder/before"; '
        f'"$@"; code=$?; {digest} >"$folder/after"; exit $code'
    )
    argv = [*alone(), "sh", "-c", whole, "sh", str(disk), str(folder), str(place), *command(disk / "data", SERVE)]
    ended = run(argv, folder)
    assert (place / "before").read_text() == (place / "after").read_text()
    return ended, (place / "after").read_text()


@mounting
def test_a_file_system_that_may_only_be_read(folder: Path, place: Path) -> None:
    ended, _ = on_disk('mount -o remount,ro "$1"', folder, place)
    refused(ended, "store_unusable", "Read-only file system")


FILL = "{ dd if=/dev/zero of=ballast bs=512 count=100000 2>/dev/null; true; }"


@mounting
def test_a_full_disk(folder: Path, place: Path) -> None:
    ended, left = on_disk(FILL, folder, place)
    refused(ended, "store_unusable")
    assert any(words in ended.complaints for words in ("No space left", "disk is full", "full"))
    assert DATABASE_FILE in left


@mounting
def test_a_new_store_on_a_full_disk(place: Path) -> None:
    ended, left = on_disk(f"mkdir data && {FILL}", place / "none", place)
    refused(ended, "store_unusable")
    assert left == ""


# --- links, modes, names ----------------------------------------------------------------------------------------------


def test_a_key_file_that_is_a_link_works_and_stays_one(folder: Path, place: Path) -> None:
    (place / "kept").mkdir()
    (folder / KEY_FILE).rename(place / "kept" / "the.key")
    (folder / KEY_FILE).symlink_to("../kept/the.key")
    works(served(folder))
    assert (folder / KEY_FILE).is_symlink()
    assert stat.S_IMODE((place / "kept" / "the.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("has_store", [True, False])
def test_a_key_file_that_is_a_link_to_nowhere_is_missing(folder: Path, has_store: bool) -> None:
    (folder / KEY_FILE).unlink()
    (folder / KEY_FILE).symlink_to("../not-mounted/the.key")
    if not has_store:
        (folder / DATABASE_FILE).unlink()
    before = snapshot(folder)
    refused(served(folder), "key_missing", str(folder / KEY_FILE))
    assert snapshot(folder) == before
    assert not (folder.parent / "not-mounted").exists()


def test_modes_that_are_too_wide_are_narrowed(folder: Path) -> None:
    for path, mode in ((folder, 0o755), (folder / KEY_FILE, 0o644), (folder / DATABASE_FILE, 0o666)):
        path.chmod(mode)
    works(served(folder))
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / KEY_FILE, folder / DATABASE_FILE)
    }
    assert modes == {"data": 0o700, KEY_FILE: 0o600, DATABASE_FILE: 0o600}


def test_a_directory_with_any_name_is_made_and_private(place: Path) -> None:
    folder = place / "missing parent" / "Bücher ☂" / "#% ?=& data"
    works(served(folder))
    works(served(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} >= {DATABASE_FILE, KEY_FILE, "lock"}
    assert [path.name for path in folder.iterdir() if path.name.startswith((".", DATABASE_FILE + "."))] == []
