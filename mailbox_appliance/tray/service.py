"""The service of a data directory, as a desktop starts and stops it. Never two: its own lock sees to that.

What is started here has a session of its own, so that it outlives the tray, and the next tray finds it by `run.json`.
Its standard output, which has the set-up code, goes nowhere; its standard error goes to logs/tray-serve.log.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from mailbox_appliance import logs, settings
from mailbox_appliance.client import local
from mailbox_appliance.client.errors import INTERNAL, Failure
from mailbox_appliance.system import files, ownership, processes
from mailbox_appliance.tray import owner
from mailbox_appliance.tray.last_words import LastWords
from mailbox_appliance.tray.log_in import TOKEN_VARIABLE
from mailbox_appliance.tray.restarts import has_crashed

log = logging.getLogger(__name__)

_EVERY = 0.05
#: Seconds within which a service that was told to end has ended; it promises 10.
_ENDS_WITHIN = 15.0
#: Seconds that whoever was faster has until it answers.
_OTHER_WITHIN = 60.0
#: How often one is started beside others that had the store and did not come to answer.
_TRIES = 2
_IN_USE, _CANNOT_LISTEN = "store_in_use", "cannot_listen"
#: Bytes without which a service ends, and cannot say so in a file.
_LITTLE_ROOM = 1_000_000
#: How one ends that was told to before it served; and the code of the Failure of a start that ends so.
_TOLD_TO_END = (0, -signal.SIGTERM)
STOPPED = "stopped"
#: The code of the Failure of a start that crashed before it answered.
CRASHED = "crashed"


class Service:
    """Starts and stops the service of one data directory. Both block; for threads that may take their time."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._environment = {name: value for name, value in environment.items() if name != TOKEN_VARIABLE}
        self._error_output = LastWords(data_dir / "logs" / logs.LAST_WORDS)
        self._one_start, self._one_birth = threading.Lock(), threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_abandoned = False
        self._is_unwanted = threading.Event()
        #: Called in a thread of its own when a service that was started here and has answered crashes; see `restart`.
        self.on_crash: Callable[[], None] = lambda: None

    def start(self) -> local.RunningAppliance:
        """Let there be one that answers, whoever started it. An upgrade of the store takes as long as it takes.

        Where somebody else has the usual port, as on a computer of several users, it takes a free one; not where a port
        is set. Raises Failure with its last words where it ends before it answers.
        """
        self._is_unwanted.clear()
        return self._start()

    def restart(self, delay: float) -> local.RunningAppliance:
        """As `start`, after a crash and so many seconds. Raises Failure, STOPPED if somebody stops it meanwhile."""
        if self._is_unwanted.wait(delay):
            raise _stopped()
        return self._start()

    def _start(self) -> local.RunningAppliance:
        with self._one_start:
            try:
                return self._start_or_find()
            except Failure as failure:
                if failure.code != _CANNOT_LISTEN or self._has_port():
                    raise
            log.info("the usual port is taken, so a free one is")
            return self._start_or_find("--port", "0")

    def stop(self) -> None:
        """Let it end, answering what is under way; it is gone afterwards. None to stop is good enough.

        Raises Failure where that is not this user's business, or it does not end.
        """
        self._is_unwanted.set()
        self._end_starting_child()
        pid = owner.find(self._data_dir)
        if pid is None:
            return
        if (unit := owner.kept_by(pid)) is not None:
            raise _not_stopped(f"systemd keeps the appliance running: stop it with `{unit}`.")
        try:
            if not owner.end(self._data_dir / "lock", pid, _ENDS_WITHIN):
                raise _not_stopped(f"The appliance (pid {pid}) was told to end and has not, in {_ENDS_WITHIN:.0f} s.")
        except owner.OutOfReach as why:
            raise _not_stopped(f"The appliance (pid {pid}) {why}") from why

    def quit(self) -> None:
        """As `stop`, but what systemd keeps goes on; and nothing is started here any more."""
        self.abandon()
        pid = owner.find(self._data_dir)
        if pid is None or not is_kept(pid):
            self.stop()

    def abandon(self) -> None:
        """Start nothing any more, and end what was started here and serves nobody yet; an owner goes on."""
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
            raise _not_started(f"{error.filename or self._data_dir} cannot be used ({error.strerror}).") from error
        # Another release, or a program for databases, has the store open, which shows at no lock of ours.
        raise _not_started(self._error_output.read_last_error().text, _IN_USE)

    def _has_port(self) -> bool:
        return settings.load(self._data_dir / "config.toml", self._environment).is_set("server.port")

    def _find_running(self) -> local.RunningAppliance | None:
        return local.find_running(self._data_dir)

    def _end_starting_child(self) -> None:
        """End what was started here and does not own the directory yet: nobody would find it, and it would later."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        pid = owner.find(self._data_dir)
        if pid is None or not _is_of(child, pid):
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_ENDS_WITHIN)

    def _spawn(self, *options: str) -> "subprocess.Popen[bytes]":
        ownership.make_folder(self._data_dir)
        with self._one_birth, self._error_output.open_for_start() as stderr:
            if self._is_abandoned:
                raise _stopped()
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
        """Who answers before this child ends; None where the child has met another that is on its way."""
        while child.poll() is None:
            if (running := self._find_running()) is not None:
                if not _is_of(child, running.pid):
                    child.terminate()  # it was too slow, and is not to take the place of the other when that ends
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
        if child.returncode in _TOLD_TO_END:  # whatever it logged before
            raise _stopped()
        raise _not_started(words.text or self._why_silent(child.returncode), words.code)

    def _watch_child(self, child: "subprocess.Popen[bytes]") -> None:
        """Wait until a child ends; one that crashes on its way out was to end all the same."""
        if has_crashed(child.wait()) and not self._is_unwanted.is_set():
            log.warning("the service crashed", extra={"code": child.returncode})
            self.on_crash()

    def _wait_for_other(self) -> None:
        """Wait until whoever owns the directory answers, or does so no more."""
        until = time.monotonic() + _OTHER_WITHIN
        while self._find_running() is None and local.is_owned(self._data_dir):
            if time.monotonic() > until:
                raise _not_started(self._error_output.read_last_error().text)
            time.sleep(_EVERY)

    def _why_silent(self, code: int) -> str:
        if files.free_bytes(self._data_dir) < _LITTLE_ROOM:  # so are its words, which lie there too
            return f"The disk is full: no room is left in {self._data_dir}."
        return f"It ended ({code}) and said nothing."


def is_kept(pid: int) -> bool:
    """Whether systemd keeps this process running, so that stopping it is not the tray's business."""
    return owner.kept_by(pid) is not None


def _is_of(child: "subprocess.Popen[bytes]", pid: int) -> bool:
    """Whether a process is this child, or one of its session: a bundle in one file is two processes."""
    if sys.platform == "win32":
        return child.pid == pid
    else:
        try:
            return os.getsid(pid) == child.pid
        except OSError:
            return False


def _stopped() -> Failure:
    return Failure(STOPPED, "The appliance was stopped before it answered.", INTERNAL)


def _not_started(why: str, code: str | None = None) -> Failure:
    return Failure(code or "not_started", why, INTERNAL)


def _not_stopped(message: str) -> Failure:
    return Failure("not_stopped", message, INTERNAL)
