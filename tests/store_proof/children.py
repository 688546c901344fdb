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
from collections.abc import Mapping, Sequence
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
_PATIENCE = 120.0


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th call of a kind: the process is killed, or the call fails (from then on, if so)."""

    call: str
    nth: int
    error: Literal["EIO", "ENOSPC", "EACCES"] | None = None  # None: kill -9
    onwards: bool = False

    def __str__(self) -> str:
        what = self.error or "SIGKILL"
        return f"{what} at {self.call} {self.nth}{'+' if self.onwards else ''}"

    @property
    def injection(self) -> str:
        """As strace takes it."""
        what = f"error={self.error}" if self.error else "signal=SIGKILL"
        return f"inject={self.call}:{what}:when={self.nth}{'+' if self.onwards else ''}"


@dataclass(frozen=True)
class Step:
    """A call that changed something below the data directory, in a run without a fault."""

    call: str
    nth: int
    text: str


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


def environment(**more: str) -> dict[str, str]:
    """What a child finds around it: nothing of this user's log-ins and keychain."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAILBOX_APPLIANCE_")}
    ours = {"MAILBOX_APPLIANCE_KEYCHAIN": "off", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"}
    return kept | ours | more


def command(folder: Path, argv: Sequence[str]) -> list[str]:
    """The command line, on a data directory."""
    return [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(folder), *argv]


def run(argv: Sequence[str], given: str = "", more: Mapping[str, str] | None = None, user: int | None = None) -> Ended:
    """Run a program to its end; `given` is what it reads."""
    done = subprocess.run(
        argv, input=given, capture_output=True, text=True, env=environment(**(more or {})), timeout=_PATIENCE,
        user=user, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def can_trace() -> str:
    """Why system calls cannot be made to fail here; empty where they can."""
    if shutil.which("strace") is None:
        return "strace is missing: run scripts/setup"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"strace is not allowed here: {done.stderr.strip()}"


def run_with(fault: Fault, argv: Sequence[str], given: str = "", more: Mapping[str, str] | None = None) -> Ended:
    """Run a program with a fault in it."""
    tracing = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", f"trace={fault.call}"]
    return run([*tracing, "-e", fault.injection, *argv], given, more)


def steps_of(
    argv: Sequence[str], folder: Path, record: Path, given: str = "", more: Mapping[str, str] | None = None
) -> tuple[list[Step], Ended]:
    """Run a program without a fault; answers what it changed below a folder, in order."""
    tracing = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "32", "-o", str(record), "-e"]
    ended = run([*tracing, f"trace={','.join(CHANGING)}", *argv], given, more)
    return list(_steps(record.read_text(errors="replace").splitlines(), str(folder))), ended


def _steps(lines: Sequence[str], folder: str) -> list[Step]:
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    for line in lines:
        if (match := _CALL.match(line)) is None:  # the end of a call that another thread's came into
            continue
        process, call, text = match.groups()
        counts[process, call] += 1
        if folder in text and _changes(call, text):
            found.append(Step(call, counts[process, call], text))
    return found


def _changes(call: str, text: str) -> bool:
    return " = -1 " not in text and (call != "openat" or "O_CREAT" in text)


def run_on_small_disk(
    size: int,
    template: Path,
    result: Path,
    argv_of: Sequence[str],
    given: str = "",
    more: Mapping[str, str] | None = None,
) -> Ended:
    """Run the command line on a copy of a directory that lies on a file system of so many KiB, and copy what is left.

    The file system is mounted where only the process sees it, and is gone when that ends.
    """
    place = result.with_name(result.name + "-disk")
    place.mkdir()
    script = (
        'mount -t tmpfs -o size="$1"k,mode=700 tmpfs "$2" && { [ ! -d "$3" ] || cp -a "$3" "$2/data"; } || exit 125; '
        'target="$4"; folder="$2"; shift 4; "$@"; code=$?; [ ! -d "$folder/data" ] || cp -a "$folder/data" "$target" '
        "|| exit 125; exit $code"
    )
    argv = command(place / "data", argv_of)
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    try:
        return run(
            [*alone, "sh", "-c", script, "sh", str(size), str(place), str(template), str(result), *argv], given, more
        )
    finally:
        place.rmdir()


def can_mount() -> bool:
    """Whether a small file system can be mounted."""
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    return (
        subprocess.run([*alone, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False).returncode
        == 0
    )
