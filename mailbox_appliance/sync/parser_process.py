"""A child process that parses, with the two threads that keep it: one takes its answers, one watches over it.

ParserChild ..... the child that serves one kind of requests now: started on first use, and again when it has ended
ParserProcess ... one such process
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import IO

from mailbox_appliance.sync import parsing
from mailbox_appliance.system import processes

log = logging.getLogger(__name__)

IDLE, PATIENCE = 30.0, 20.0  # seconds without work after which it ends; for one answer after which it is killed
_LONGEST_COMPLAINT = 2_000
_MOST_FAILURES, _PAUSE = 3, 60.0  # starts in a row that fail; seconds until the next one is tried after these
#: On other systems the child takes low priority by itself.
_LOW_PRIORITY = 0x4000 if sys.platform == "win32" else 0  # BELOW_NORMAL_PRIORITY_CLASS
# Nothing else of the environment reaches the child: there may be tokens and key files in it.
_ENVIRONMENT = (
    *("PATH", "LD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL"),
    *("SYSTEMROOT", "TEMP", "TMP", "TMPDIR"),
)


class Batch:
    """Requests, and where the answers go. `ended` is set when there will be no more of them."""

    def __init__(self, requests: Sequence[parsing.Request]) -> None:
        self.requests = requests
        self.answers: list[bytes] = []
        #: The child ended over the first request without an answer, or over another batch.
        self.is_cause = self.is_victim = False
        self.ended = threading.Event()


class ParserChild:
    """The child process of one kind of requests. Any number of threads may use it."""

    def __init__(self, *, idle: float = IDLE, patience: float = PATIENCE) -> None:
        self._idle, self._patience = idle, patience
        self._turn = threading.Lock()  # held while a batch is written
        self._process: ParserProcess | None = None
        self._failures, self._next_start = 0, 0.0  # of starts, in a row; when another one may be tried
        self._closed = threading.Event()

    def ask(self, batch: Batch) -> None:
        """Give a batch to the child, and wait while it does not take it. Without a child the batch ends at once."""
        with self._turn:
            process = self._find()
            if process is None or not process.ask(batch):
                batch.ended.set()

    def kill(self) -> None:
        """Kill the child that works now, if any. Batches without their answers end."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the child, and start no other one."""
        self._closed.set()
        if self._process is not None:
            self._process.close()

    def _find(self) -> "ParserProcess | None":
        """The process, started if there is none; None if that has failed too often, or the child is closed."""
        if self._process is not None and self._process.is_usable:
            return self._process
        if self._process is not None:
            self._record_start(is_failure=self._process.has_failed and not self._process.has_started)
            self._process = None
        if self._closed.is_set() or time.monotonic() < self._next_start:
            return None
        try:
            self._process = ParserProcess(idle=self._idle, patience=self._patience)
        except OSError:
            log.exception("the parsing process does not start")
            self._record_start(is_failure=True)
        if self._closed.is_set() and self._process is not None:  # closed while it started
            self._process.close()
        return self._process

    def _record_start(self, *, is_failure: bool) -> None:
        self._failures = self._failures + 1 if is_failure else 0
        if self._failures >= _MOST_FAILURES:
            self._failures, self._next_start = 0, time.monotonic() + _PAUSE


def command() -> list[str]:
    """How the child is started: by what it is, where that can be, and in a bundle by a hidden command."""
    if processes.is_bundle():
        return processes.own_command("parse-mail")
    return [sys.executable, "-P", "-m", parsing.__name__]


def environment() -> dict[str, str]:
    """What the child's environment holds: how to find the interpreter's libraries, and this package."""
    kept = {name: value for name, value in os.environ.items() if name in _ENVIRONMENT or _is_of_bundle(name)}
    return processes.child_environment(kept)


def _is_of_bundle(name: str) -> bool:
    """Whether it says where this bundle is unpacked: a child that did not know would unpack another one."""
    return processes.is_bundle() and name.startswith(processes.BUNDLE_PREFIX)


class ParserProcess:
    """One child. It is ended when it has been idle, killed when it does not answer, and not used again after either."""

    def __init__(self, *, idle: float, patience: float) -> None:
        """Start it. Raises OSError."""
        self.has_failed, self.has_started = False, False
        self._idle, self._patience = idle, patience
        self._lock = threading.Lock()
        self._waiting: deque[Batch] = deque()
        self._moved = time.monotonic()  # when it was last given work to begin with, or answered
        self._is_ending = False
        self._gone = threading.Event()
        self._process = _start()
        threading.Thread(target=self._take_answers, name="sync-parser", daemon=True).start()
        threading.Thread(target=self._watch, name="sync-parser-watch", daemon=True).start()

    @property
    def is_usable(self) -> bool:
        """Whether it still takes batches."""
        return not self._is_ending and not self._gone.is_set()

    def ask(self, batch: Batch) -> bool:
        """Hand a batch over, one caller at a time; waits while the child is busy. False: it is not usable any more."""
        with self._lock:
            if not self.is_usable:
                return False
            if not self._waiting:
                self._moved = time.monotonic()
            self._waiting.append(batch)
        try:
            _write(self._process.stdin, batch.requests)
        except (OSError, ValueError):  # it is gone: the batch ends without answers
            self._process.kill()
        return True

    def kill(self) -> None:
        """Kill it. Batches without their answers end."""
        self._process.kill()

    def close(self) -> None:
        """End it. Batches without their answers end; there is nothing in it that could be lost."""
        with self._lock:
            self._is_ending = True
        self._process.kill()
        self._gone.wait(5)

    def _take_answers(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - as asked for
        try:
            parsing.read_block(self._process.stdout)
            self.has_started = True
            while True:
                self._take_answer(parsing.read_block(self._process.stdout))
        except (EOFError, OSError, IndexError):  # the last: an answer that nobody asked for
            pass
        finally:
            self._process.kill()
            self._finish(self._process.wait())

    def _take_answer(self, answer: bytes) -> None:
        with self._lock:
            batch = self._waiting[0]
            batch.answers.append(answer)
            self._moved = time.monotonic()
            if len(batch.answers) == len(batch.requests):
                self._waiting.popleft().ended.set()

    def _finish(self, code: int) -> None:
        with self._lock:
            self.has_failed = not self._is_ending
            self._gone.set()
            left = list(self._waiting)
            self._waiting.clear()
        if self.has_failed:
            log.warning("the parsing process ended", extra={"code": code, "said": self._read_complaint()})
        for batch in left:
            batch.is_cause = self.has_started and batch is left[0]
            batch.is_victim = self.has_started and not batch.is_cause
            batch.ended.set()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            _close(pipe)

    def _read_complaint(self) -> str:
        """What it wrote to stderr: frames and kinds of errors, never a message (`parsing.main`)."""
        stderr = self._process.stderr
        return stderr.read(_LONGEST_COMPLAINT).decode("utf-8", "replace") if stderr else ""

    def _watch(self) -> None:
        while not self._gone.wait(min(1.0, self._idle / 2, self._patience / 2)):
            with self._lock:
                quiet = time.monotonic() - self._moved
                is_stuck = bool(self._waiting) and quiet > self._patience
                self._is_ending = self._is_ending or (not self._waiting and quiet > self._idle)
                is_over = is_stuck or self._is_ending
            if is_stuck:
                log.warning("the parsing process does not answer", extra={"seconds": self._patience})
            if is_over:
                self._process.kill()


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,  # Ctrl-C is for the appliance, which ends its child itself
        creationflags=processes.NO_WINDOW | _LOW_PRIORITY,
    )


def _write(pipe: IO[bytes] | None, requests: Sequence[parsing.Request]) -> None:
    assert pipe is not None  # noqa: S101 - as asked for
    pipe.write(parsing.NUMBER.pack(len(requests)))
    for request in requests:
        parsing.write_block(pipe, parsing.encode(request))
    pipe.flush()


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:  # what could not be written any more
        pass
