"""Records native crashes of the appliance, and remembers the last crash until an administrator dismisses it.

logs/crash.txt             written by `faulthandler` at SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT; otherwise empty
logs/crash-<UTC time>.txt  the traces of crashes before this start
logs/last-crash.json       the last crash, until it is dismissed

A trace holds files, lines and functions of every thread: no mail, no addresses, no values. All files have mode 0600.
"""

import faulthandler
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.model.base import Timestamp, Wire
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.system import files
from mailbox_appliance.system.files import replace_file

TRACE, _LAST = "crash.txt", "last-crash.json"
#: The number of traces to keep.
KEPT = 5
_LARGEST = 1024 * 1024
_FOLDER = "logs"
#: First lines of a trace (CPython, Modules/faulthandler.c). On Windows, exceptions that a program handles are traced
#: too; only those named here are crashes.
_SIGNALS = {
    "Fatal Python error: Segmentation fault": "SIGSEGV",
    "Fatal Python error: Bus error": "SIGBUS",
    "Fatal Python error: Floating point exception": "SIGFPE",
    "Fatal Python error: Illegal instruction": "SIGILL",
    "Fatal Python error: Aborted": "SIGABRT",
    "Windows fatal exception: access violation": "SIGSEGV",
    "Windows fatal exception: stack overflow": "SIGSEGV",
    "Windows fatal exception: int divide by zero": "SIGFPE",
}


class Crash(Wire, frozen=True, kw_only=True):
    """A crash of the appliance: its time, its signal, such as SIGSEGV, and the name of the trace file in the log
    folder.
    """

    at: Timestamp
    signal: str
    file: str


def record(data_dir: Path) -> Crash | None:
    """If the previous run crashed, keep its trace under a new name and return the crash; otherwise return None.

    Call it while holding the lock of the data directory, before `watch`. Raises OSError.
    """
    folder = data_dir / _FOLDER
    trace = folder / TRACE
    try:
        lines = files.read_regular(trace, _LARGEST).decode("utf-8", "replace").splitlines()
        moment = datetime.fromtimestamp(trace.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
    signals = [_SIGNALS[line] for line in lines if line in _SIGNALS]
    if not signals:
        return None
    # The first one is the cause: abort() in the first process of a container ends with SIGSEGV.
    crash = Crash(at=to_timestamp(moment), signal=signals[0], file=f"crash-{moment:%Y%m%dT%H%M%SZ}.txt")
    # In this order, so that a start that is killed in between repeats both steps.
    files.write_whole(folder / _LAST, msgspec.json.encode(crash))
    replace_file(trace, folder / crash.file)
    for old in sorted(folder.glob("crash-*.txt"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return crash


def watch(data_dir: Path) -> None:
    """From now on, write a trace of all threads if a fatal signal arrives. The signal still ends the process.

    Only for a process that owns the data directory. `faulthandler` has one output file for each process, so `-X
    faulthandler` has no effect afterwards. Raises OSError.
    """
    handle = os.open(data_dir / _FOLDER / TRACE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    faulthandler.enable(handle, all_threads=True)  # the handle stays open until the process ends


def find(data_dir: Path) -> Crash | None:
    """Return the last crash; None if there was none or it was dismissed."""
    try:
        return decode_json(files.read_regular(data_dir / _FOLDER / _LAST, _LARGEST), Crash)
    except (OSError, msgspec.MsgspecError):
        return None


def dismiss(data_dir: Path, file: str) -> None:
    """Stop reporting the last crash, if `file` is its trace; the trace file stays. Otherwise do nothing.

    Raises OSError.
    """
    crash = find(data_dir)
    if crash is not None and crash.file == file:
        (data_dir / _FOLDER / _LAST).unlink(missing_ok=True)


def warning(crash: Crash) -> str:
    """Return the text of the warning that administrators get about a crash."""
    return (
        f"The appliance crashed ({crash.signal}) at {crash.at} and was restarted. Report this with the trace"
        f" {_FOLDER}/{crash.file}; it contains no mail."
    )
