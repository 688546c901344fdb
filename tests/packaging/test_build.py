"""The checks of `packaging/build` before it builds; for its results see test_packages.py."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from mailbox_appliance.version import __version__
from tests.packaging.unit_files import ROOT
from tests.servers.mailboxes import wait_until

#: The tools of the system that it looks for first.
TOOLS = ("objdump", "strip", "ldd")


def checkout(folder: Path) -> Path:
    """Copy the parts of this checkout that the build checks first, with the tools; return the program."""
    shutil.copytree(ROOT / "packaging", folder / "packaging", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "mailbox_appliance").mkdir()
    shutil.copy(ROOT / "mailbox_appliance" / "version.py", folder / "mailbox_appliance")
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    (folder / "tools").mkdir()
    for name in TOOLS:
        (folder / "tools" / name).symlink_to("/bin/true")
    return folder / "packaging" / "build"


def start(program: Path) -> "subprocess.Popen[str]":
    environment = {"PATH": str(program.parents[1] / "tools"), "SOURCE_DATE_EPOCH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(program)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def test_a_release_without_notes_and_a_missing_tool_are_told_first(tmp_path: Path) -> None:
    program = checkout(tmp_path)
    (tmp_path / "tools" / "objdump").unlink()
    told = []
    for version in (__version__, "9.9.9"):
        (tmp_path / "mailbox_appliance" / "version.py").write_text(f'__version__ = "{version}"\n')
        with start(program) as build:
            told.append(build.communicate(timeout=30)[1])
        assert build.returncode == 1
    assert told[0] == "build: objdump is missing; on Debian: apt-get install binutils libc-bin\n"
    assert "CHANGELOG.md has no release 9.9.9" in told[1]


def test_interrupted_it_says_so_and_leaves_no_packages(tmp_path: Path) -> None:
    program = checkout(tmp_path)
    (tmp_path / "build").mkdir()
    with (tmp_path / "build" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another build, for which this one waits
        inode = f":{os.fstat(lock.fileno()).st_ino} "
        with start(program) as build:
            locks = Path("/proc/locks")
            wait_until(
                lambda: any("->" in line and inode in line for line in locks.read_text().splitlines()),
                locks.read_text,
                30,
            )
            build.send_signal(signal.SIGINT)
            told = build.communicate(timeout=30)[1]
    assert build.returncode == 130
    assert "Traceback" not in told
    assert not (tmp_path / "dist").exists()
