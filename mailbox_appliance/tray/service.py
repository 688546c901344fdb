"""Starts, stops and restarts the service for the tray, and finds the owner of a data directory.

The service has a session of its own, so it outlives the tray, and the next tray finds it by `run.json`. Its standard
output, which contains the setup code, is discarded; its standard error goes to logs/tray-serve.log.
"""

import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance import logs, settings
from mailbox_appliance.client import local
from mailbox_appliance.client.errors import INTERNAL, Failure
from mailbox_appliance.clock import Clock
from mailbox_appliance.logs import LARGEST_LAST_WORDS
from mailbox_appliance.system import files, ownership, processes
from mailbox_appliance.tray.login import TOKEN_VARIABLE

# --- The owner of a data directory: which process it is, whether systemd keeps it, and how it is asked to end ---
#
# A PID is only a number: a moment later it may be another process's, and it may come from a container that uses the
# directory too. So where the system shows it, the process must be seen to hold the lock.


_UNIT = "mailbox-appliance.service"
_PROC = Path("/proc")
_EVERY = 0.05
#: Seconds within which one is gone that has closed its files, as it ends.
_EXIT_SECONDS = 0.5
_OF_ANOTHER = "belongs to another user, who can stop it."
_UNSEEN = "is not visible from here, as when it runs in a container. Stop it there."


class CannotEndProcess(Exception):
    """The owner could not be asked to end; the text says why, to follow the owner's name."""


def find_owner_pid(data_dir: Path) -> int | None:
    """The PID of the owner, also while it starts and does not answer yet."""
    if (pid := local.find_lock_holder(data_dir / "lock")) is not None:
        return pid
    running = local.find_running(data_dir)  # a full disk leaves the lock without its pid
    return None if running is None else running.pid


def systemd_stop_command(pid: int, proc: Path = _PROC) -> str | None:
    """The command that stops the systemd unit of a process; None if it is in none of ours."""
    with suppress(OSError):
        for line in (proc / str(pid) / "cgroup").read_text("utf-8", "replace").splitlines():
            group = line.split(":", 2)[-1]
            if group.rsplit("/", 1)[-1] == _UNIT:
                return f"systemctl {'--user ' if '/user@' in group else ''}stop mailbox-appliance"
    return None


def end_process(lock: Path, pid: int, within: float) -> bool:
    """Ask the holder of a lock to end; return whether it has within so many seconds. Raises CannotEndProcess."""
    handle = _open_pidfd(pid)
    try:
        hindrance = _why_not_ended(pid, lock) or _send_end(pid, handle)
        if hindrance is None:
            return _has_ended(lock, pid, handle, within)
    finally:
        if handle is not None:
            os.close(handle)
    if _has_ended(lock, pid, None, _EXIT_SECONDS):  # it was about to, when it was looked at
        return True
    raise CannotEndProcess(hindrance)


def _why_not_ended(pid: int, lock: Path) -> str | None:
    """Why a process is not asked to end, if so: it does not visibly hold the lock. Only Linux shows that."""
    if sys.platform == "linux":
        try:
            return None if _has_file_open(pid, lock) else _UNSEEN
        except PermissionError:
            return _OF_ANOTHER
        except OSError:
            return _UNSEEN
    else:
        return None


def _has_ended(lock: Path, pid: int, handle: int | None, within: float) -> bool:
    if handle is not None:
        return bool(select.select([handle], [], [], within)[0])
    until = time.monotonic() + within
    while local.find_lock_holder(lock) == pid:
        if time.monotonic() > until:
            return False
        time.sleep(_EVERY)
    return True


def _open_pidfd(pid: int) -> int | None:
    """A handle of this process that no later one of its number can take; only Linux has it."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _has_file_open(pid: int, lock: Path) -> bool:
    """Whether a process has the lock's file open. Raises PermissionError if it is another user's."""
    wanted = lock.stat()
    for file in (_PROC / str(pid) / "fd").iterdir():
        with suppress(OSError):
            if os.path.samestat(file.stat(), wanted):
                return True
    return False


def _send_end(pid: int, handle: int | None) -> str | None:
    """Ask a process to end; return why that was not possible, if so. A process that is gone counts as asked."""
    try:
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        else:
            files.request_end(pid)
    except PermissionError:
        return _OF_ANOTHER
    except ProcessLookupError:
        pass
    return None


# --- The standard error of a service, kept in a small private file to say why it ended ---


#: Bytes that are read, and lines that are shown if none is an error of ours.
_TOLD, _LINES = 16 * 1024, 3


@dataclass(frozen=True)
class LastError:
    """Why it ended: the code of its error, if it is one of ours, and the sentence."""

    code: str | None
    text: str


class ErrorOutput:
    """The file, and where the output of the newest start begins in it."""

    def __init__(self, file: Path) -> None:
        self._file, self._begin = file, 0

    @contextmanager
    def open_for_start(self) -> Iterator[int]:
        """A handle for the standard error of a start. It appends, since the service empties a file that grows."""
        self._file.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(handle).st_size > LARGEST_LAST_WORDS:
                os.ftruncate(handle, 0)
            self._begin = os.fstat(handle).st_size
            yield handle
        finally:
            os.close(handle)

    def read_last_error(self) -> LastError:
        """The last output since `open_for_start`."""
        try:
            said = files.read_regular(self._file, LARGEST_LAST_WORDS + _TOLD)
        except OSError:
            said = b""
        begin = self._begin if self._begin <= len(said) else 0  # it was emptied
        lines = said[begin:][-_TOLD:].decode("utf-8", "replace").splitlines()
        return _parse_last_error([line for line in lines if line.strip()])


def _parse_last_error(lines: list[str]) -> LastError:
    """The error that the last line is, or the last lines as they are."""
    if not lines:
        return LastError(None, "")
    values = _parse_line(lines[-1])
    error = values.get("error")
    if isinstance(error, dict) and "message" in error:
        return LastError(str(error.get("code")), str(error["message"]))
    return LastError(None, " ".join(_sentence_of_line(line) for line in lines[-_LINES:]))


def _sentence_of_line(line: str) -> str:
    """Return the sentence of a log line with its cause, or any other line unchanged."""
    values = _parse_line(line)
    if "message" not in values:
        return line.strip()
    return " ".join(str(values[name]) for name in ("message", "why") if name in values)


def _parse_line(line: str) -> dict[str, object]:
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


# --- Crashes: whether a service that ended has crashed, and when it is started again ---


#: Seconds before the first, the second and each later restart.
_DELAYS = (0.0, 5.0, 30.0)
#: So many restarts within so many seconds; a service that crashes more often is left alone.
MAX_RESTARTS, RESTART_WINDOW = 5, 600.0
#: Signals that end a service on purpose, as for systemd's `Restart=on-failure`; SIGHUP comes from a closed terminal.
_ON_PURPOSE = frozenset(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
#: Exit codes of Windows from here on name a fault; Ctrl-C is the one that is none.
_FIRST_FAULT, _CTRL_C = 0xC000_0000, 0xC000_013A


def has_crashed(code: int) -> bool:
    """Whether a return code (of `subprocess`) means that a signal ended the process which nobody sends to stop it."""
    if sys.platform == "win32":
        return code >= _FIRST_FAULT and code != _CTRL_C
    else:
        return code < 0 and -code not in _ON_PURPOSE


class RestartLimit:
    """Counts the restarts of one tray's service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: list[float] = []

    def next_delay(self) -> float | None:
        """Seconds until the restart that is due after a crash now; None if there were too many lately."""
        now = self._clock.monotonic()
        self._began = [at for at in self._began if now - at < RESTART_WINDOW]
        if len(self._began) >= MAX_RESTARTS:
            return None
        delay = _DELAYS[min(len(self._began), len(_DELAYS) - 1)]
        self._began.append(now)
        return delay


# --- The service, as the tray starts and stops it ---


log = logging.getLogger(__name__)

#: Seconds within which a service ends on request; it promises 10.
_END_SECONDS = 15.0
#: Seconds until a process that was faster must answer.
_OTHER_SECONDS = 60.0
#: How often one is started beside others that had the store and did not come to answer.
_TRIES = 2
_IN_USE, _CANNOT_LISTEN = "store_in_use", "cannot_listen"
#: Bytes without which a service ends, and cannot say so in a file.
_LITTLE_ROOM = 1_000_000
#: The exit code of a start that was stopped before it served; and the code of its Failure.
_END_CODES = (0, -signal.SIGTERM)
STOPPED = "stopped"
#: The code of the Failure of a start that crashed before it answered.
CRASHED = "crashed"


class ServiceProcess:
    """Starts and stops the service of one data directory. Both block; for threads that may take their time."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._environment = {name: value for name, value in environment.items() if name != TOKEN_VARIABLE}
        self._error_output = ErrorOutput(data_dir / "logs" / logs.LAST_WORDS)
        self._one_start, self._one_birth = threading.Lock(), threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_abandoned = False
        self._is_unwanted = threading.Event()
        #: Called in a thread of its own when a service that was started here and has answered crashes; see `restart`.
        self.on_crash: Callable[[], None] = lambda: None

    def start(self) -> local.RunningAppliance:
        """Have a service that answers, whoever started it. An upgrade of the store takes as long as it takes.

        If the usual port is in use, as on a computer of several users, it takes a free one; not if a port is
        configured. Raises Failure with its last output if it ends before it answers.
        """
        self._is_unwanted.clear()
        return self._start()

    def restart(self, delay: float) -> local.RunningAppliance:
        """As `start`, after a crash and so many seconds. Raises Failure, STOPPED if somebody stops it meanwhile."""
        if self._is_unwanted.wait(delay):
            raise _stopped_failure()
        return self._start()

    def _start(self) -> local.RunningAppliance:
        with self._one_start:
            try:
                return self._start_or_find()
            except Failure as failure:
                if failure.code != _CANNOT_LISTEN or self._has_port():
                    raise
            log.info("tray_port_changed")
            return self._start_or_find("--port", "0")

    def stop(self) -> None:
        """Stop the service, which answers what is in progress; it is gone afterwards. None to stop is good enough.

        Raises Failure if it is another user's, or does not end.
        """
        self._is_unwanted.set()
        self._end_starting_child()
        pid = find_owner_pid(self._data_dir)
        if pid is None:
            return
        if (unit := systemd_stop_command(pid)) is not None:
            raise _not_stopped_failure(f"systemd keeps the appliance running. Stop it with `{unit}`.")
        try:
            if not end_process(self._data_dir / "lock", pid, _END_SECONDS):
                raise _not_stopped_failure(f"The appliance (pid {pid}) did not end within {_END_SECONDS:.0f} seconds.")
        except CannotEndProcess as why:
            raise _not_stopped_failure(f"The appliance (pid {pid}) {why}") from why

    def quit(self) -> None:
        """As `stop`, but a service that systemd keeps continues; and nothing is started here any more."""
        self.abandon()
        pid = find_owner_pid(self._data_dir)
        if pid is None or not is_kept_by_systemd(pid):
            self.stop()

    def abandon(self) -> None:
        """Start nothing any more, and end a service started here that does not serve yet; an owner continues."""
        with self._one_birth:
            self._is_abandoned = True
        self._is_unwanted.set()
        self._end_starting_child()

    def _start_or_find(self, *options: str) -> local.RunningAppliance:
        try:
            for _ in range(_TRIES):
                if (running := self._find_running() or self._wait_until_answering(self._spawn(*options))) is not None:
                    return running
                self._wait_for_other()
        except OSError as error:
            raise _not_started_failure(
                f"{error.filename or self._data_dir} cannot be used ({error.strerror})."
            ) from error
        # Another release, or a program for databases, has the store open, which shows at no lock of ours.
        raise _not_started_failure(self._error_output.read_last_error().text, _IN_USE)

    def _has_port(self) -> bool:
        return settings.load(self._data_dir / "config.toml", self._environment).is_set("server.port")

    def _find_running(self) -> local.RunningAppliance | None:
        return local.find_running(self._data_dir)

    def _end_starting_child(self) -> None:
        """End what was started here and does not own the directory yet: nobody would find it later."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        pid = find_owner_pid(self._data_dir)
        if pid is None or not _belongs_to(child, pid):
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END_SECONDS)

    def _spawn(self, *options: str) -> "subprocess.Popen[bytes]":
        ownership.make_folder(self._data_dir)
        with self._one_birth, self._error_output.open_for_start() as stderr:
            if self._is_abandoned:
                raise _stopped_failure()
            self._child = subprocess.Popen(
                processes.own_command("--data-dir", str(self._data_dir), "serve", *options),
                env=processes.detached_environment(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=self._data_dir,  # whatever the tray was started in can be unmounted
                start_new_session=sys.platform != "win32",
                creationflags=processes.NO_WINDOW,
            )
        return self._child

    def _wait_until_answering(self, child: "subprocess.Popen[bytes]") -> local.RunningAppliance | None:
        """The one that answers before this child ends; None if the child has met another that is still starting."""
        while child.poll() is None:
            if (running := self._find_running()) is not None:
                if not _belongs_to(child, running.pid):
                    child.terminate()  # it was too slow, and must not replace the other when that ends
                threading.Thread(
                    target=self._watch_child, args=(child,), name=f"child-{child.pid}", daemon=True
                ).start()
                return running
            time.sleep(_EVERY)
        if has_crashed(child.returncode):
            raise Failure(CRASHED, f"It crashed ({child.returncode}) before it answered.", INTERNAL)
        words = self._error_output.read_last_error()
        if words.code == _IN_USE:
            return None
        if child.returncode in _END_CODES:  # whatever it logged before
            raise _stopped_failure()
        raise _not_started_failure(words.text or self._why_silent(child.returncode), words.code)

    def _watch_child(self, child: "subprocess.Popen[bytes]") -> None:
        """Wait until a child ends; one that crashes on its way out was to end all the same."""
        if has_crashed(child.wait()) and not self._is_unwanted.is_set():
            log.warning("tray_service_crashed", extra={"code": child.returncode})
            self.on_crash()

    def _wait_for_other(self) -> None:
        """Wait until the owner of the directory answers, or is gone."""
        until = time.monotonic() + _OTHER_SECONDS
        while self._find_running() is None and local.is_owned(self._data_dir):
            if time.monotonic() > until:
                raise _not_started_failure(self._error_output.read_last_error().text)
            time.sleep(_EVERY)

    def _why_silent(self, code: int) -> str:
        if files.free_bytes(self._data_dir) < _LITTLE_ROOM:  # so are its words, which lie there too
            return f"The disk is full: no space is left in {self._data_dir}."
        return f"It ended (exit code {code}) without an error message."


def is_kept_by_systemd(pid: int) -> bool:
    """Whether systemd keeps this process running, so that stopping it is not the tray's business."""
    return systemd_stop_command(pid) is not None


def _belongs_to(child: "subprocess.Popen[bytes]", pid: int) -> bool:
    """Whether a process is this child, or one of its session: a bundle in one file is two processes."""
    if sys.platform == "win32":
        return child.pid == pid
    else:
        try:
            return os.getsid(pid) == child.pid
        except OSError:
            return False


def _stopped_failure() -> Failure:
    return Failure(STOPPED, "The appliance was stopped before it answered.", INTERNAL)


def _not_started_failure(why: str, code: str | None = None) -> Failure:
    return Failure(code or "not_started", why, INTERNAL)


def _not_stopped_failure(message: str) -> Failure:
    return Failure("not_stopped", message, INTERNAL)
