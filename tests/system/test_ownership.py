"""A data directory is private: files that others own or can reach are refused, and modes are narrowed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.errors import StoreUnusable
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.store import Store
from mailbox_appliance.system import ownership
from tests.cli.conftest import CommandLine
from tests.servers.running import RunningAppliance
from tests.store_proof.children import can_trace
from tests.stores.opening import copied
from tests.templates import Template

FOREIGN = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files to another user takes root")

#: Everything that opens a data directory.
COMMANDS = (
    ("serve", "--port", "0"),
    ("setup", "--name", "Ada", "--email", "ada@example.org", "--password-stdin"),
    ("status",),
    ("tray",),
    ("logs",),
    ("store", "status"),
    ("store", "check"),
    ("store", "compact"),
    ("store", "rekey"),
    ("store", "migrate"),
    ("store", "migrate", "--dry-run"),
    ("key", "show"),
    ("key", "use-file"),
    ("backup", "create"),
    ("backup", "list"),
    ("backup", "restore", "--yes", "BACKUP"),
    ("https", "status"),
    ("https", "enable"),
    ("https", "fingerprint"),
    ("audit", "verify"),
)
FOLDERS = ("tls", "logs", "backups", ".next", ".next.making")
#: What a directory that was in use has.
NAMES = (
    DATABASE_FILE,
    f"{DATABASE_FILE}-wal",
    f"{DATABASE_FILE}-shm",
    f"{DATABASE_FILE}-journal",
    KEY_FILE,
    "config.toml",
    "run.json",
    "setup-code",
    "lock",
    "key-place",
    "tray.lock",
    "tls/cert.pem",
    "tls/key.pem",
    "tls/.next/key.pem",
    "logs/appliance.log",
    ".next/mailbox.db",
)
LINKED = (DATABASE_FILE, KEY_FILE, "config.toml", "tls/cert.pem", "tls/key.pem")
#: Root may own these: it reads everything anyhow, and often it is what brings them.
READ = (KEY_FILE, "config.toml", "tls/cert.pem", "tls/key.pem", "logs/appliance.log")


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """A command line on an empty directory."""
    return CommandLine(tmp_path, services=dict(SERVICES))


@pytest.fixture
def owned(cli: CommandLine, templates: dict[str, Template]) -> CommandLine:
    """A command line on a store of this user, without problems."""
    shutil.copytree(templates["new"].folder, cli.data_dir, dirs_exist_ok=True)
    cli.data_dir.chmod(0o700)
    (cli.data_dir / "lock").unlink()
    return cli


def put(folder: Path, name: str) -> Path:
    """Create a file or folder of this name if it does not exist."""
    path = folder / name
    if name in FOLDERS:
        path.mkdir(mode=0o700, exist_ok=True)
    else:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    return path


def look(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return everything that a refusal must not change."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns, content)
    return found


def require_refused(cli: CommandLine, argv: tuple[str, ...], *words: str) -> None:
    """Check that the command names the problem with exit code 1 and leaves the directory unchanged."""
    before = look(cli.data_dir)
    outcome = cli(*argv, stdin=b"correct horse battery\n")
    assert outcome.code == 1, (argv, outcome)
    assert outcome.error["code"] == "store_unusable"
    for word in (*words, "Nothing was changed."):
        assert word in outcome.error["message"]
    assert look(cli.data_dir) == before


@as_root
@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_every_command_refuses_a_directory_of_another_user(owned: CommandLine, argv: tuple[str, ...]) -> None:
    """Root refuses too, since the owner could exchange every file in it."""
    os.chown(owned.data_dir, FOREIGN, FOREIGN)
    owned.data_dir.chmod(0o755)
    require_refused(owned, argv, str(owned.data_dir), f"uid {FOREIGN}", "root (uid 0)", f"chown -R 0 {owned.data_dir}")


@as_root
def test_an_empty_directory_of_another_user_is_refused(cli: CommandLine) -> None:
    os.chown(cli.data_dir, FOREIGN, FOREIGN)
    require_refused(cli, ("serve", "--port", "0"), f"uid {FOREIGN}")


@as_root
def test_a_backup_is_not_restored_into_a_directory_of_another_user(owned: CommandLine, tmp_path: Path) -> None:
    backup = owned("backup", "create").data["fileName"]
    target = tmp_path / "elsewhere"
    target.mkdir()
    os.chown(target, FOREIGN, FOREIGN)
    for options in ((), ("--dry-run",)):
        outcome = owned("backup", "restore", str(owned.data_dir / "backups" / backup), "--to", str(target), *options)
        assert (outcome.code, outcome.error["code"]) == (1, "store_unusable")
        assert f"chown -R 0 {target}" in outcome.error["message"]
    assert list(target.iterdir()) == []


@as_root
@pytest.mark.parametrize("name", [*NAMES, *FOLDERS])
def test_a_file_of_another_user_is_refused(owned: CommandLine, name: str) -> None:
    path = put(owned.data_dir, name)
    os.chown(path, FOREIGN, FOREIGN)
    require_refused(owned, ("store", "check"), f"{path} belongs to uid {FOREIGN}")
    with pytest.raises(StoreUnusable, match=f"uid {FOREIGN}"):
        Store.open(owned.data_dir)
    assert name == "lock" or not (owned.data_dir / "lock").exists()


@as_root
@pytest.mark.parametrize("name", ["logs/appliance.log.1.gz", "logs/shipper.state"])
def test_what_other_programs_put_beside_the_logs_is_let_be(owned: CommandLine, name: str) -> None:
    os.chown(put(owned.data_dir, name), FOREIGN, FOREIGN)
    assert owned("store", "check").code == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_file_with_a_second_name_is_refused(owned: CommandLine, tmp_path: Path, name: str) -> None:
    path = put(owned.data_dir, name)
    (tmp_path / "elsewhere").hardlink_to(path)
    require_refused(owned, ("store", "check"), f"{path} has 2 hard links", f"cp -p {path}")


def test_the_command_that_mends_a_second_name_does(owned: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "else where").hardlink_to(owned.data_dir / DATABASE_FILE)
    message = owned("store", "check").error["message"]
    subprocess.run(message.partition("`")[2].partition("`")[0], shell=True, check=True)
    assert owned("store", "check").code == 0
    assert (owned.data_dir / DATABASE_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [f"{DATABASE_FILE}-wal", "lock", "run.json", "setup-code"])
def test_what_is_no_regular_file_is_refused(owned: CommandLine, name: str) -> None:
    (owned.data_dir / name).unlink(missing_ok=True)
    os.mkfifo(owned.data_dir / name)
    outcome = owned("store", "compact")
    assert outcome.code == 1
    assert f"{owned.data_dir / name} is not a regular file" in outcome.error["message"]


def test_a_link_in_place_of_what_is_written_is_refused_and_its_target_stays(owned: CommandLine, tmp_path: Path) -> None:
    victim = tmp_path / "diary"
    victim.write_text("Dear diary")
    for name in ("lock", "run.json", "setup-code", f"{DATABASE_FILE}-wal"):
        (owned.data_dir / name).symlink_to(victim)
        require_refused(owned, ("store", "compact"), f"{owned.data_dir / name} is a link")
        (owned.data_dir / name).unlink()
    assert victim.read_text() == "Dear diary"


def test_a_directory_may_be_reached_by_a_link(owned: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(owned.data_dir)
    assert owned("--data-dir", str(tmp_path / "link"), "store", "check").code == 0


@as_root
@pytest.mark.parametrize("name", LINKED)
def test_a_link_is_refused_if_another_user_owns_it_or_its_target(owned: CommandLine, tmp_path: Path, name: str) -> None:
    path, real = put(owned.data_dir, name), tmp_path / "real"
    path.rename(real)
    path.symlink_to(real)
    ownership.require_own(owned.data_dir)
    os.chown(path, FOREIGN, FOREIGN, follow_symlinks=False)
    require_refused(owned, ("store", "check"), f"{path} belongs to uid {FOREIGN}", f"chown -h 0 {path}")
    os.chown(path, 0, 0, follow_symlinks=False)
    os.chown(real, FOREIGN, FOREIGN)
    require_refused(owned, ("store", "check"), f"{path} belongs to uid {FOREIGN}", f"chown 0 {path}")


@as_root
def test_the_log_beside_a_linked_database_is_checked_as_well(owned: CommandLine, tmp_path: Path) -> None:
    (owned.data_dir / DATABASE_FILE).rename(tmp_path / "real.db")
    (owned.data_dir / DATABASE_FILE).symlink_to(tmp_path / "real.db")
    (tmp_path / "real.db-wal").touch(mode=0o600)
    os.chown(tmp_path / "real.db-wal", FOREIGN, FOREIGN)
    require_refused(owned, ("store", "check"), str(tmp_path / "real.db-wal"))


# --- the key elsewhere ------------------------------------------------------------------------------------------------


@pytest.fixture
def key(owned: CommandLine, tmp_path: Path) -> Path:
    """The key of the store in a named file outside of the directory."""
    place = tmp_path / "kept" / "the.key"
    place.parent.mkdir()
    (owned.data_dir / KEY_FILE).rename(place)
    owned.environment["MAILBOX_APPLIANCE_KEY_FILE"] = str(place)
    return place


@pytest.fixture
def named(key: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same key, named for the whole process."""
    monkeypatch.setenv("MAILBOX_APPLIANCE_KEY_FILE", str(key))
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    return key


@as_root
def test_a_key_elsewhere_of_another_user_is_refused(owned: CommandLine, named: Path) -> None:
    assert owned("store", "check").code == 0
    os.chown(named, FOREIGN, FOREIGN)
    (owned.data_dir / "lock").unlink(missing_ok=True)
    require_refused(owned, ("store", "compact"), f"{named} belongs to uid {FOREIGN}")


@as_root
def test_a_credential_may_be_anybodys(owned: CommandLine, named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's secret has the owner that it has on the host; the person who starts the service chose it."""
    credential = named.rename(named.with_name("db-key"))
    os.chown(credential, FOREIGN, FOREIGN)
    monkeypatch.delenv("MAILBOX_APPLIANCE_KEY_FILE")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credential.parent))
    assert owned("store", "check").code == 0


#: Runs as another user than root: what they may use is a key that root owns, if others cannot write to it.
_AS_ANOTHER = """
import os, shlex, sys  # what is loaded later cannot be: another user may not read it
from pathlib import Path
from mailbox_appliance.system import ownership
from mailbox_appliance.errors import StoreUnusable
os.setgid(54321); os.setuid(54321)
for path in map(Path, sys.argv[1:]):
    try:
        (ownership.require_own if path.is_dir() else ownership.require_own_key)(path)
        print("used")
    except StoreUnusable as error:
        print(error.message)
"""


@pytest.fixture
def reachable(tmp_path: Path) -> Iterator[Path]:
    """A folder that other users can access."""
    with tempfile.TemporaryDirectory(prefix="ownership-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@as_root
def test_another_user_may_use_what_root_brings_for_reading(reachable: Path) -> None:
    data = reachable / "data"
    for name in READ:
        put(data, name).chmod(0o644)
    for path in (data, data / "tls", data / "logs"):
        path.chmod(0o755)
        os.chown(path, FOREIGN, FOREIGN)
    key, wide = reachable / "key", reachable / "wide"
    for path, mode in ((key, 0o440), (wide, 0o666)):
        path.touch()
        path.chmod(mode)
    theirs = reachable / "theirs"
    theirs.mkdir()
    (put(theirs, DATABASE_FILE)).chmod(0o644)
    os.chown(theirs, FOREIGN, FOREIGN)
    argv = [sys.executable, "-c", _AS_ANOTHER, *map(str, (data, key, wide, theirs))]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert told[:2] == ["used", "used"]
    assert f"Other users can write to {wide}" in told[2]
    assert f"{theirs / DATABASE_FILE} belongs to root (uid 0), but this process runs as uid {FOREIGN}" in told[3]


# --- modes ------------------------------------------------------------------------------------------------------------


def test_wide_modes_are_narrowed_when_a_store_is_opened(owned: CommandLine) -> None:
    names = (KEY_FILE, "config.toml", "setup-code", "tls/cert.pem", "logs/appliance.log", "backups/a.mbxbackup")
    for name in names:
        put(owned.data_dir, name).chmod(0o666)
    (owned.data_dir / "mine.txt").touch(mode=0o644)
    for path in (owned.data_dir, *(owned.data_dir / name for name in ("tls", "logs", "backups"))):
        path.chmod(0o777)
    Store.open(owned.data_dir).close()
    found = {str(path.relative_to(owned.data_dir)): path.stat().st_mode & 0o777 for path in owned.data_dir.rglob("*")}
    assert owned.data_dir.stat().st_mode & 0o777 == 0o700
    assert {name: found[name] for name in (*names, "tls", "logs", "backups")} == {
        **dict.fromkeys(names, 0o600),
        **dict.fromkeys(("tls", "logs", "backups"), 0o700),
    }
    assert found["mine.txt"] == 0o644


def test_what_a_certificate_links_to_keeps_its_mode(owned: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "fullchain.pem").touch(mode=0o644)
    put(owned.data_dir, "tls")
    (owned.data_dir / "tls" / "cert.pem").symlink_to(tmp_path / "fullchain.pem")
    Store.open(owned.data_dir).close()
    assert (tmp_path / "fullchain.pem").stat().st_mode & 0o777 == 0o644


@as_root
@pytest.mark.parametrize("name", [".", "tls", KEY_FILE])
def test_what_is_exchanged_before_the_directory_is_closed_is_seen_after(owned: CommandLine, name: str) -> None:
    owned.data_dir.chmod(0o755)
    put(owned.data_dir, "tls")
    (owned.data_dir / name).chmod(0o777)
    os.chown(owned.data_dir / DATABASE_FILE, FOREIGN, FOREIGN)
    with pytest.raises(StoreUnusable, match=DATABASE_FILE):
        ownership.close_to_other_writers(owned.data_dir)
    assert owned.data_dir.stat().st_mode & 0o777 == 0o700


def test_folders_that_are_missing_are_made_closed(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ownership.make_folder(tmp_path / "home" / ".config" / "mailbox-appliance")
    finally:
        os.umask(before)
    made = [tmp_path / "home", *(tmp_path / "home").rglob("*")]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] * 3


def modes_of(folder: Path) -> set[int]:
    """Return the modes of a folder and everything in it."""
    return {path.lstat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


# What makes files and folders, or changes their modes. A question mark: not every processor has the call.
_CALLS = "umask,?open,openat,?creat,?mkdir,mkdirat,?mknod,mknodat,?chmod,fchmod,fchmodat"
_CALL = re.compile(r'^\d+ +(\w+)\((?:.*?"([^"]*)"|\d+<([^>]*)>)?.*?0?([0-7]{3,4}|0)\b *(?:\)| <unfinished|$)')


@dataclass
class Traced:
    """Commands of a user with an empty home and umask 0; strace records the files they create there."""

    folder: Path

    def __post_init__(self) -> None:
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("MAILBOX_APPLIANCE_", "XDG_"))
        }
        ours = {"HOME": str(self.home), "MAILBOX_APPLIANCE_KEYCHAIN": "off", "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment, self.count = kept | ours, 0

    def argv(self) -> list[str]:
        """The command that starts the program."""
        self.count += 1
        record = str(self.folder / f"record-{self.count:02}")
        tracing = [
            "strace",
            "-D",
            "-f",
            "--seccomp-bpf",
            "-y",
            "-qq",
            "-s",
            "4096",
            "-o",
            record,
            "-e",
            f"trace={_CALLS}",
        ]
        return ["sh", "-c", 'umask 0; exec "$@"', "sh", *tracing, sys.executable, "-m", "mailbox_appliance"]

    def __call__(self, *argv: str, stdin: str = "") -> str:
        """Run a command, which must succeed; return its output."""
        done = subprocess.run(
            [*self.argv(), *argv], input=stdin, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, (argv, done)
        return done.stdout

    def calls(self, record: Path) -> Iterator[tuple[str, str, int]]:
        """Yield the calls of one run that create files in the home or change a mode or the umask, in order."""
        for line in record.read_text().splitlines():
            match = _CALL.match(line)
            if match is None or (match[1].startswith("open") and "O_CREAT" not in line):
                continue
            call, path = match[1], match[2] or match[3] or ""
            if call == "umask" or path.startswith(str(self.home)):
                yield call, path, int(match[4], 8)


def test_nothing_is_ever_open_to_others(tmp_path: Path) -> None:
    """With umask 0: setup, HTTPS, backups, restores, compacting, a new key and an upgrade."""
    if reason := can_trace():
        pytest.skip(reason)
    run = Traced(tmp_path)
    data = run.home / ".local" / "share" / "mailbox-appliance"
    serving = RunningAppliance(data, run.environment, run.argv()).start()
    try:
        run("setup", "--name", "Ada", "--email", "ada@example.org", "--password-stdin", stdin="correct horse battery\n")
        run("https", "enable")
        made = json.loads(run("backup", "create"))["data"]
        run("backup", "verify", made["id"])
    finally:
        serving.stop()
    run("backup", "verify", made["id"])
    run("store", "compact")
    run("store", "rekey")
    run("https", "rotate")
    run("backup", "restore", "--yes", made["id"])
    run("backup", "restore", str(data / "backups" / made["fileName"]), "--to", str(run.home / "new" / "place"))
    copied(3, run.home / "old")[0].chmod(0o700)
    run("--data-dir", str(run.home / "old"), "store", "migrate")
    assert modes_of(run.home) == {0o600, 0o700}
    assert (run.home / ".config" / "mailbox-appliance").is_dir()
    for record in sorted(tmp_path.glob("record-*")):
        first, *rest = run.calls(record)
        assert first == ("umask", "", 0o077), record  # before anything is made
        assert "umask" not in [call for call, _, _ in rest], record
        wide = {Path(path).name for _, path, mode in rest if mode & 0o077}
        assert wide <= {DATABASE_FILE, f"{DATABASE_FILE}.new"}, (
            record
        )  # SQLite names 0644 when it opens what is there as well


_OPENING = """
import os, sys
from mailbox_appliance.system import ownership
from mailbox_appliance.tray.item_actions import DesktopLauncher
os.umask(0o022)
ownership.restrict_umask()
assert DesktopLauncher({"BROWSER": sys.argv[1], "PATH": os.environ["PATH"]}).open_browser(lambda: "http://127.0.0.1/")
os.mkdir(sys.argv[2])
"""


def test_a_browser_that_the_tray_opens_keeps_the_umask_of_the_desktop(tmp_path: Path) -> None:
    """Otherwise only this user could read the files that they download with it."""
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\numask >{tmp_path / 'told'}\n")
    browser.chmod(0o700)
    subprocess.run([sys.executable, "-c", _OPENING, str(browser), str(tmp_path / "ours")], check=True)
    assert (tmp_path / "told").read_text() == "0022\n"
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o700
