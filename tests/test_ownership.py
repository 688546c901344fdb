"""The files of the appliance are for its user alone from the moment they are made, whatever the umask is."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailbox_appliance import ownership
from mailbox_appliance.store.files import DATABASE
from tests.servers.running import RunningAppliance
from tests.store_proof.children import can_trace
from tests.stores.opening import copied


def test_folders_that_are_missing_are_made_closed(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ownership.make_folder(tmp_path / "home" / ".config" / "mailbox-appliance")
    finally:
        os.umask(before)
    made = [tmp_path / "home", *(tmp_path / "home").rglob("*")]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] * 3


def modes_of(folder: Path) -> set[int]:
    """The modes of a folder and of all below it."""
    return {path.lstat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


# What makes files and folders, or changes their modes. A question mark: not every processor has the call.
_CALLS = "umask,?open,openat,?creat,?mkdir,mkdirat,?mknod,mknodat,?chmod,fchmod,fchmodat"
_CALL = re.compile(r'^\d+ +(\w+)\((?:.*?"([^"]*)"|\d+<([^>]*)>)?.*?0?([0-7]{3,4}|0)\b *(?:\)| <unfinished|$)')


@dataclass
class Traced:
    """Commands of a user whose home is empty and whose umask is 0; strace tells what they make in that home."""

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
        """How the program is started."""
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
        """Run a command to its good end; what it says."""
        done = subprocess.run(
            [*self.argv(), *argv], input=stdin, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, (argv, done)
        return done.stdout

    def calls(self, record: Path) -> Iterator[tuple[str, str, int]]:
        """The calls of one run that make something in the home or change a mode or the umask, in order."""
        for line in record.read_text().splitlines():
            match = _CALL.match(line)
            if match is None or (match[1].startswith("open") and "O_CREAT" not in line):
                continue
            call, path = match[1], match[2] or match[3] or ""
            if call == "umask" or path.startswith(str(self.home)):
                yield call, path, int(match[4], 8)


def test_nothing_is_ever_open_to_others(tmp_path: Path) -> None:
    """With umask 0, through set-up, HTTPS, backups, restores, compacting, a new key and an upgrade."""
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
        assert wide <= {DATABASE, f"{DATABASE}.new"}, record  # SQLite names 0644 when it opens what is there as well


_OPENING = """
import os, sys
from mailbox_appliance import ownership
from mailbox_appliance.tray.opening import Opening
os.umask(0o022)
ownership.restrict_umask()
assert Opening({"BROWSER": sys.argv[1], "PATH": os.environ["PATH"]}).browser(lambda: "http://127.0.0.1/")
os.mkdir(sys.argv[2])
"""


def test_a_browser_that_the_tray_opens_keeps_the_umask_of_the_desktop(tmp_path: Path) -> None:
    """Else what the user downloads with it from anywhere could be read by nobody else."""
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\numask >{tmp_path / 'told'}\n")
    browser.chmod(0o700)
    subprocess.run([sys.executable, "-c", _OPENING, str(browser), str(tmp_path / "ours")], check=True)
    assert (tmp_path / "told").read_text() == "0022\n"
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o700
