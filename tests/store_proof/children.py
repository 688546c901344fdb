"""The command line as a process of its own, with a fault that strace puts into its system calls.

strace counts each system call by itself and for each thread. A process that is killed at the n-th call does not carry
it out; so to kill it at every call that changes something is to stop it in every state that it goes through.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_OF_FILES = ("write", "sendfile", "copy_file_range", "ftruncate", "fsync", "fdatasync", "chmod", "fchmod")
_OF_NAMES = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "rmdir", "link", "linkat", "symlink")
#: Calls that a store makes few of, and each of which may decide something.
DECISIVE = frozenset((*_OF_FILES, *_OF_NAMES))
#: What changes a disk; `openat` where it makes a file.
CHANGING = (*sorted(DECISIVE), "pwrite64", "writev", "pwritev", "pwritev2", "fallocate", "truncate", "openat")
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")
_CREATED = re.compile(r', "([^"]*)", ')
_PATIENCE = 120.0


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th call of a kind: the process is killed, or the call fails (from then on, if so)."""

    call: str
    nth: int
    error: Literal["EIO", "ENOSPC"] | None = None  # None: kill -9
    onwards: bool = False
    file: str = ""  # below the directory: only calls that name it count

    def __str__(self) -> str:
        what = self.error or "SIGKILL"
        return f"{what} at {self.call} {self.nth}{'+' if self.onwards else ''} {self.file}".rstrip()

    @property
    def injection(self) -> str:
        """As strace takes it."""
        what = f"error={self.error}" if self.error else "signal=SIGKILL"
        return f"inject={self.call}:{what}:when={self.nth}{'+' if self.onwards else ''}"


@dataclass(frozen=True)
class Step:
    """A call that changed something below the data directory, in a run without a fault.

    An `openat` is counted among those of its file: how many there are before depends on what Python imports.
    """

    call: str
    nth: int
    text: str
    file: str = ""


@dataclass(frozen=True)
class Ended:
    """How a process ended. `code` is negative where a signal ended it."""

    code: int
    output: str
    complaints: str

    @property
    def is_killed(self) -> bool:
        """Whether a kill -9 met it."""
        return self.code == -9


def environment(folder: Path) -> dict[str, str]:
    """What a child finds around it: nothing of this user's log-ins and keychain, but a place of its own for them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAILBOX_APPLIANCE_")}
    ours = {"KEYCHAIN": "off", "CONFIG_DIR": str(folder.with_name(f"{folder.name}-log-ins"))}
    return (
        kept | {f"MAILBOX_APPLIANCE_{name}": value for name, value in ours.items()} | {"PYTHONDONTWRITEBYTECODE": "1"}
    )


def command(folder: Path, argv: Sequence[str]) -> list[str]:
    """The command line, on a data directory."""
    return [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(folder), *argv]


def run(argv: Sequence[str], folder: Path, given: str = "") -> Ended:
    """Run a program that works on a directory to its end; `given` is what it reads."""
    done = subprocess.run(
        argv, input=given, capture_output=True, text=True, env=environment(folder), timeout=_PATIENCE, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def can_trace() -> str:
    """Why system calls cannot be made to fail here; empty where they can."""
    if shutil.which("strace") is None:
        return "strace is missing: run scripts/setup"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"strace is not allowed here: {done.stderr.strip()}"


def run_with(fault: Fault, folder: Path, argv: Sequence[str], given: str = "") -> Ended:
    """Run a command on a directory with a fault in it."""
    # Stopped by a filter of the kernel, which is quicker, a process does not take a signal.
    how = ["--seccomp-bpf"] if fault.error else []
    how += ["-P", str(folder / fault.file)] if fault.file else []
    tracing = ["strace", "-f", *how, "-qq", "-o", "/dev/null", "-e", f"trace={fault.call}"]
    return run([*tracing, "-e", fault.injection, *command(folder, argv)], folder, given)


def steps_of(folder: Path, argv: Sequence[str], given: str = "") -> tuple[list[Step], Ended]:
    """Run a command on a directory without a fault; answers what it changed there, in order."""
    record = folder.with_name(f"{folder.name}-steps")
    tracing = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "32", "-o", str(record), "-e"]
    ended = run([*tracing, f"trace={','.join(CHANGING)}", *command(folder, argv)], folder, given)
    return _steps(record.read_text(errors="replace").splitlines(), str(folder)), ended


def _steps(lines: Sequence[str], folder: str) -> list[Step]:
    counts: Counter[tuple[str, str, str]] = Counter()
    within = re.compile(re.escape(folder) + r"[/\">]")
    found = []
    for line in lines:
        if (match := _CALL.match(line)) is None:  # the end of a call that another thread's came into
            continue
        process, call, text = match.groups()
        named = _CREATED.search(text) if call == "openat" else None
        file = named[1].removeprefix(f"{folder}/") if named else ""
        counts[process, call, file] += 1
        if within.search(text) and _changes(call, text):
            found.append(Step(call, counts[process, call, file], text, file))
    return found


def _changes(call: str, text: str) -> bool:
    return " = -1 " not in text and (call != "openat" or "O_CREAT" in text)


def alone() -> list[str]:
    """Run the rest of a command line where it may mount what only it sees."""
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]


def can_mount() -> bool:
    """Whether a small file system can be mounted."""
    done = subprocess.run([*alone(), "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return done.returncode == 0


_ON_DISK = """
size="$1" disk="$2" template="$3" result="$4"; shift 4
mount -t tmpfs -o size="$size"k,mode=700 tmpfs "$disk" || exit 125
if [ -d "$template" ]; then cp -a "$template" "$disk/data" || exit 125; fi
"$@"; code=$?
if [ -d "$disk/data" ]; then cp -a "$disk/data" "$result" || exit 125; fi
exit $code
"""


def run_on_disk(size: int, template: Path, result: Path, argv: Sequence[str], given: str = "") -> Ended:
    """Run a command on a copy of a directory that lies on a file system of so many KiB, and copy what is left of it."""
    disk = result.with_name(f"{result.name}-disk")
    disk.mkdir()
    names = (str(size), str(disk), str(template), str(result))
    ended = run([*alone(), "sh", "-c", _ON_DISK, "sh", *names, *command(disk / "data", argv)], result, given)
    disk.rmdir()
    assert ended.code != 125, ended.complaints
    return ended
