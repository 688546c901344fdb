"""Starts, stops and restarts the service for the tray, and finds the process that owns a data directory.

The service has its own session, so it outlives the tray, and the next tray finds it by `run.json`. Its standard output,
which contains the setup code, is discarded; its standard error goes to logs/tray-serve.log.
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
from mailbox_appliance.client.errors import INTERNAL, Failure, unreachable
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
#: Seconds until a process that has closed its files is gone.
_EXIT_SECONDS = 0.5
_OF_ANOTHER = "belongs to another user, who can stop it."
_UNSEEN = "is not visible from here, as when it runs in a container. Stop it there."


class CannotEndProcess(Exception):
    """A process could not be asked to end. The text continues a sentence that starts with the name of the process."""


@dataclass(frozen=True)
class OwnerProcess:
    """The process that owns a data directory.

    `pid`: None if it is not known. `url`: None if the process has not published its address, for example while it
    starts or stops. `is_kept`: systemd runs the process, so the tray must not stop it.
    """

    pid: int | None
    url: str | None
    is_kept: bool


def find_owner(data_dir: Path) -> OwnerProcess | None:
    """Return the process that owns a data directory; None if there is none."""
    running = local.find_running(data_dir)
    if running is None and not local.is_owned(data_dir):
        return None
    pid = files.find_lock_holder(data_dir / "lock") if running is None else running.pid
    is_kept = pid is not None and systemd_stop_command(pid) is not None
    return OwnerProcess(pid, None if running is None else running.url, is_kept)


def find_owner_pid(data_dir: Path) -> int | None:
    """Return the PID of the process that owns the data directory, even before it responds; None if there is none."""
    owner = find_owner(data_dir)
    return None if owner is None else owner.pid


def owner_url(data_dir: Path) -> str:
    """Return the address of the appliance that runs on a data directory.

    Raises Failure if no appliance runs there, or it has not published its address yet.
    """
    running = local.find_running(data_dir)
    if running is None:
        raise unreachable("The appliance does not answer. Check and start it from the menu of the tray icon.")
    return running.url


def systemd_stop_command(pid: int, proc: Path = _PROC) -> str | None:
    """Return the command that stops the process through systemd.

    None if the process does not run in the systemd unit `mailbox-appliance`. `proc`: the path of /proc.
    """
    with suppress(OSError):
        for line in (proc / str(pid) / "cgroup").read_text("utf-8", "replace").splitlines():
            group = line.split(":", 2)[-1]
            if group.rsplit("/", 1)[-1] == _UNIT:
                return f"systemctl {'--user ' if '/user@' in group else ''}stop mailbox-appliance"
    return None


def end_process(lock: Path, pid: int, within: float) -> bool:
    """Ask the process that holds a lock file to end; return whether it ended within `within` seconds.

    Raises CannotEndProcess.
    """
    handle = _open_pidfd(pid)
    try:
        hindrance = _why_not_ended(pid, lock) or _send_end(pid, handle)
        if hindrance is None:
            return _has_ended(lock, pid, handle, within)
    finally:
        if handle is not None:
            os.close(handle)
    if _has_ended(lock, pid, None, _EXIT_SECONDS):  # it was about to end when it was checked
        return True
    raise CannotEndProcess(hindrance)


def _why_not_ended(pid: int, lock: Path) -> str | None:
    """Return why a process must not be asked to end; None if it may be.

    On Linux, a process must have the lock file open. Other systems do not show that, so it is not checked there.
    """
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
    while files.find_lock_holder(lock) == pid:
        if time.monotonic() > until:
            return False
        time.sleep(_EVERY)
    return True


def _open_pidfd(pid: int) -> int | None:
    """Return a handle of a process, which stays valid for it even if the PID is used again. Linux only; else None."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _has_file_open(pid: int, lock: Path) -> bool:
    """Whether a process has the lock file open. Raises PermissionError if the process belongs to another user."""
    wanted = lock.stat()
    for file in (_PROC / str(pid) / "fd").iterdir():
        with suppress(OSError):
            if os.path.samestat(file.stat(), wanted):
                return True
    return False


def _send_end(pid: int, handle: int | None) -> str | None:
    """Ask a process to end. `handle`: from `_open_pidfd`. Return the reason if that is not possible, else None.

    A process that has ended already is not an error.
    """
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


# --- The standard error of a service, kept in a small private file to explain why it ended ---


#: Maximum bytes to read, and lines to show if none is an error of ours.
_TOLD, _LINES = 16 * 1024, 3


@dataclass(frozen=True)
class LastError:
    """The reason why a service ended: a sentence and, if the appliance reported the error, its code."""

    code: str | None
    text: str


class ErrorOutput:
    """The file with the service's standard error.

    Remembers the offset at which the output of the newest start begins.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._begin = file, 0

    @contextmanager
    def open_for_start(self) -> Iterator[int]:
        """Context manager: keep the file open for the standard error of a new service process; yields its file
        descriptor.

        It is opened for appending, since the service truncates the file when that grows too large.
        """
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
        """Return the last error that was written since `open_for_start`."""
        try:
            said = files.read_regular(self._file, LARGEST_LAST_WORDS + _TOLD)
        except OSError:
            said = b""
        begin = self._begin if self._begin <= len(said) else 0  # the file was truncated
        lines = said[begin:][-_TOLD:].decode("utf-8", "replace").splitlines()
        return _parse_last_error([line for line in lines if line.strip()])


def _parse_last_error(lines: list[str]) -> LastError:
    """Return the error object on the last line or, if that is not one, the messages and causes of the last lines."""
    values = [_parse_line(line) for line in lines[-_LINES:]]
    error = values[-1].get("error") if values else None
    if isinstance(error, dict) and "message" in error:
        return LastError(str(error.get("code")), str(error["message"]))
    return LastError(None, " ".join(str(each[name]) for each in values for name in ("message", "why") if name in each))


def _parse_line(line: str) -> dict[str, object]:
    """Return the values of a JSON log line; a line that is not JSON is a message."""
    try:
        values = json.loads(line)
    except ValueError:
        values = None
    return values if isinstance(values, dict) else {"message": line.strip()}


# --- Crashes: whether a service has crashed, and when it is restarted ---


#: Seconds before the first, the second and each later restart.
_DELAYS = (0.0, 5.0, 30.0)
#: Maximum restarts within so many seconds; a service that crashes more often is not restarted.
MAX_RESTARTS, RESTART_WINDOW = 5, 600.0
#: Signals that end a service on purpose, as for systemd's `Restart=on-failure`; SIGHUP comes from a closed terminal.
_ON_PURPOSE = frozenset(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
#: Windows exit codes from this one on mean a fault, except that of Ctrl-C.
_FIRST_FAULT, _CTRL_C = 0xC000_0000, 0xC000_013A


def has_crashed(code: int) -> bool:
    """Whether a process has crashed. `code`: its return code, as in `subprocess`.

    A crash is an end by a signal, except SIGTERM, SIGINT and SIGHUP, with which people stop processes. On Windows it is
    an end by a fault, except Ctrl-C.
    """
    if sys.platform == "win32":
        return code >= _FIRST_FAULT and code != _CTRL_C
    else:
        return code < 0 and -code not in _ON_PURPOSE


class RestartLimit:
    """Decides whether and when the tray restarts a crashed service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: list[float] = []

    def next_delay(self) -> float | None:
        """Return the seconds to wait before a restart after a crash; None if there were too many restarts recently.

        Each call counts as a restart.
        """
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
#: Seconds within which another process that was faster must answer.
_OTHER_SECONDS = 60.0
#: How often to start a service while others hold the store without answering.
_TRIES = 2
_IN_USE, _CANNOT_LISTEN = "store_in_use", "cannot_listen"
#: Free bytes below which a service ends without being able to write the reason to a file.
_LITTLE_ROOM = 1_000_000
#: The exit code of a start that was stopped before it served, and the code of its Failure.
_END_CODES = (0, -signal.SIGTERM)
STOPPED = "stopped"
#: The code of the Failure of a start that crashed before it answered.
CRASHED = "crashed"


class ServiceProcess:
    """Starts and stops the service of one data directory. Its methods block, so call them in separate threads."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._environment = {name: value for name, value in environment.items() if name != TOKEN_VARIABLE}
        self._error_output = ErrorOutput(data_dir / "logs" / logs.LAST_WORDS)
        self._one_start, self._one_birth = threading.Lock(), threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_abandoned = False
        self._is_unwanted = threading.Event()
        #: Called in a separate thread when a service that was started here and has answered crashes; see `restart`.
        self.on_crash: Callable[[], None] = lambda: None

    def start(self) -> local.RunningAppliance:
        """Start the service unless it runs, wait until it responds, and return it. An upgrade of the store can make
        this take long.

        If the default port is in use, as on a computer of several users, a free one is used, unless a port is
        configured. Raises Failure with the service's last output if it ends before it responds.
        """
        self._is_unwanted.clear()
        return self._start()

    def restart(self, delay: float) -> local.RunningAppliance:
        """Wait `delay` seconds after a crash, then start the service and return it once it responds.

        Raises Failure if it does not start. If the user stops the service in the meantime, the Failure has the code
        STOPPED.
        """
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
        """Stop the service and wait until its process has ended. Requests in progress are completed. Does nothing if
        none runs.

        Raises Failure if the service belongs to another user, is run by systemd, or does not end.
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
        """Stop the service, unless systemd runs it, and wait until its process has ended.

        Nothing is started afterwards.
        """
        self.abandon()
        owner = find_owner(self._data_dir)
        if owner is None or not owner.is_kept:
            self.stop()

    def abandon(self) -> None:
        """Start nothing from now on.

        End a service started by this tray that does not respond yet; keep one that does.
        """
        with self._one_birth:
            self._is_abandoned = True
        self._is_unwanted.set()
        self._end_starting_child()

    def _start_or_find(self, *options: str) -> local.RunningAppliance:
        try:
            for _ in range(_TRIES):
                if (
                    running := local.find_running(self._data_dir) or self._wait_until_answering(self._spawn(*options))
                ) is not None:
                    return running
                self._wait_for_other()
        except OSError as error:
            raise _not_started_failure(
                f"{error.filename or self._data_dir} cannot be used ({error.strerror})."
            ) from error
        # Another release, or a database program, has the store open without our lock.
        raise _not_started_failure(self._error_output.read_last_error().text, _IN_USE)

    def _has_port(self) -> bool:
        return settings.load(self._data_dir / "config.toml", self._environment).is_set("server.port")

    def _end_starting_child(self) -> None:
        """End a service process of this tray that has not locked the data directory yet.

        Without the lock, no other function can find the process.
        """
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
                cwd=self._data_dir,  # the tray's working directory may be unmounted
                start_new_session=sys.platform != "win32",
                creationflags=processes.NO_WINDOW,
            )
        return self._child

    def _wait_until_answering(self, child: "subprocess.Popen[bytes]") -> local.RunningAppliance | None:
        """Wait until a service responds, and return it; None if the child ended because another service is starting.

        `child`: the process that this tray has started. Raises Failure if it crashed or ended for another reason.
        """
        while child.poll() is None:
            if (running := local.find_running(self._data_dir)) is not None:
                if not _belongs_to(child, running.pid):
                    child.terminate()  # it was too slow, and must not take over when the other one ends
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
        if child.returncode in _END_CODES:  # regardless of what it logged
            raise _stopped_failure()
        raise _not_started_failure(words.text or self._why_silent(child.returncode), words.code)

    def _watch_child(self, child: "subprocess.Popen[bytes]") -> None:
        """Wait until the service process `child` ends. Report a crash, unless the user has stopped the service."""
        if has_crashed(child.wait()) and not self._is_unwanted.is_set():
            log.warning("tray_service_crashed", extra={"code": child.returncode})
            self.on_crash()

    def _wait_for_other(self) -> None:
        """Wait until the process that owns the data directory responds or has ended. Raises Failure after some time."""
        until = time.monotonic() + _OTHER_SECONDS
        while local.find_running(self._data_dir) is None and local.is_owned(self._data_dir):
            if time.monotonic() > until:
                raise _not_started_failure(self._error_output.read_last_error().text)
            time.sleep(_EVERY)

    def _why_silent(self, code: int) -> str:
        if files.free_bytes(self._data_dir) < _LITTLE_ROOM:  # then its output, on the same disk, is lost too
            return f"The disk is full: no space is left in {self._data_dir}."
        return f"It ended (exit code {code}) without an error message."


def _belongs_to(child: "subprocess.Popen[bytes]", pid: int) -> bool:
    """Whether `pid` is the process `child` or one in its session.

    A service from a one-file bundle has two processes.
    """
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
