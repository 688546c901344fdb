"""Parse batches of messages that sync has fetched. HTML and large batches are parsed in a child process.

    Parsers.begin ........ sends the batch to a child; does nothing for a few messages without HTML
    PendingBatch.result .. waits for the child, and parses in this process the messages that no child has parsed

This process never analyzes HTML, which may be hostile: for a message that no child parsed, it uses the text between the
tags, with a warning (`TAG_READER`). There are two children, so that new mail does not wait behind large batches. Each
starts on first use and ends when it is idle. If a child crashes, only the message it was parsing is not analyzed.
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

import msgspec

from mailbox_appliance.mail.encoded_words import without_surrogates
from mailbox_appliance.mail.html.analysis import TAG_READER, ReadForm, VisibleContent
from mailbox_appliance.mail.parse import parse_message, parse_unreadable
from mailbox_appliance.mail.search import with_searched_words
from mailbox_appliance.model.decoding import decode_msgpack
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.sync import parse_child
from mailbox_appliance.sync.parse_child import Body, WholeMessage
from mailbox_appliance.system import processes

# --- The child process and its two threads: one reads its answers, one enforces its time limit ---


log = logging.getLogger(__name__)

# Seconds without work after which the child ends, and seconds for one answer after which it is killed.
IDLE, PATIENCE = 30.0, 20.0
_LONGEST_COMPLAINT = 2_000
_MOST_FAILURES, _PAUSE = 3, 60.0  # Failed starts in a row, and seconds until the next attempt after these.
#: On other systems the child lowers its own priority.
_LOW_PRIORITY = 0x4000 if sys.platform == "win32" else 0  # BELOW_NORMAL_PRIORITY_CLASS
# Nothing else of the environment is passed to the child: it may contain tokens and key files.
_ENVIRONMENT = (
    *("PATH", "LD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL"),
    *("SYSTEMROOT", "TEMP", "TMP", "TMPDIR"),
)


class Batch:
    """Requests to a child process and its answers so far. `ended` is set when no more answers will come."""

    def __init__(self, requests: Sequence[parse_child.Request]) -> None:
        self.requests = requests
        self.answers: list[bytes] = []
        #: Whether the child ended during the first request without an answer; False if another batch was the cause.
        self.is_cause = self.is_victim = False
        self.ended = threading.Event()


class ParserChild:
    """A child process that parses, started when it is needed and again after it ended. Any number of threads may use
    it.
    """

    def __init__(self, *, idle: float = IDLE, patience: float = PATIENCE) -> None:
        self._idle, self._patience = idle, patience
        self._turn = threading.Lock()  # held while a batch is written
        self._process: ParserProcess | None = None
        self._failures, self._next_start = 0, 0.0  # failed starts in a row; when the next attempt is allowed
        self._closed = threading.Event()

    def ask(self, batch: Batch) -> None:
        """Send a batch to the child, waiting until it accepts it. If no child can be started, the batch ends at
        once.
        """
        with self._turn:
            process = self._find()
            if process is None or not process.ask(batch):
                batch.ended.set()

    def kill(self) -> None:
        """Kill the current process, if any. Batches that still lack answers end without them."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process, and never start another one."""
        self._closed.set()
        if self._process is not None:
            self._process.close()

    def _find(self) -> "ParserProcess | None":
        """Return the running process, or start one.

        Returns None if this object is closed, or for a minute after three failed starts in a row.
        """
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
            log.exception("parser_start_failed")
            self._record_start(is_failure=True)
        if self._closed.is_set() and self._process is not None:  # closed during the start
            self._process.close()
        return self._process

    def _record_start(self, *, is_failure: bool) -> None:
        self._failures = self._failures + 1 if is_failure else 0
        if self._failures >= _MOST_FAILURES:
            self._failures, self._next_start = 0, time.monotonic() + _PAUSE


def command() -> list[str]:
    """Return the command that starts the child process.

    It is the Python module `parse_child`, or in a bundled program a hidden command of that program.
    """
    if processes.is_bundle():
        return processes.own_command("parse-mail")
    return [sys.executable, "-P", "-m", parse_child.__name__]


def environment() -> dict[str, str]:
    """Return the environment variables for the child process: only those that Python needs to find its libraries and
    this package.
    """
    kept = {name: value for name, value in os.environ.items() if name in _ENVIRONMENT or _is_of_bundle(name)}
    return processes.child_environment(kept)


def _is_of_bundle(name: str) -> bool:
    """Whether an environment variable names the folder into which the bundled program was unpacked.

    Without it, a child would unpack the program again.
    """
    return processes.is_bundle() and name.startswith(processes.BUNDLE_PREFIX)


class ParserProcess:
    """One run of the child process. It ends after `idle` seconds without work. After it ended, it is not used again.

    It is killed if an answer takes more than `patience` seconds.
    """

    def __init__(self, *, idle: float, patience: float) -> None:
        """Start the process. Raises OSError.

        `idle`: seconds without work after which it ends. `patience`: seconds for one answer after which it is killed.
        """
        self.has_failed, self.has_started = False, False
        self._idle, self._patience = idle, patience
        self._lock = threading.Lock()
        self._waiting: deque[Batch] = deque()
        self._moved = time.monotonic()  # when it last got work or answered
        self._is_ending = False
        self._gone = threading.Event()
        self._process = _start()
        threading.Thread(target=self._take_answers, name="sync-parser", daemon=True).start()
        threading.Thread(target=self._watch, name="sync-parser-watch", daemon=True).start()

    @property
    def is_usable(self) -> bool:
        """Whether the process runs and accepts batches."""
        return not self._is_ending and not self._gone.is_set()

    def ask(self, batch: Batch) -> bool:
        """Send a batch, waiting while the child is busy. Only one thread at a time may call it.

        Returns False if the process has ended and did not get the batch.
        """
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
        """Kill the process. Batches that still lack answers end without them."""
        self._process.kill()

    def close(self) -> None:
        """End the process. Batches that still lack answers end without them; the process holds no other data."""
        with self._lock:
            self._is_ending = True
        self._process.kill()
        self._gone.wait(5)

    def _take_answers(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - as asked for
        try:
            parse_child.read_block(self._process.stdout)
            self.has_started = True
            while True:
                self._take_answer(parse_child.read_block(self._process.stdout))
        except (EOFError, OSError, IndexError):  # the last one, or an answer without a request
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
            log.warning("parser_ended", extra={"code": code, "said": self._read_complaint()})
        for batch in left:
            batch.is_cause = self.has_started and batch is left[0]
            batch.is_victim = self.has_started and not batch.is_cause
            batch.ended.set()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            _close(pipe)

    def _read_complaint(self) -> str:
        """Return the start of the child's stderr: stack frames and kinds of errors, never text of a message."""
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
                log.warning("parser_timeout", extra={"seconds": self._patience})
            if is_over:
                self._process.kill()


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,  # Ctrl-C is for the appliance, which ends its child itself.
        creationflags=processes.NO_WINDOW | _LOW_PRIORITY,
    )


def _write(pipe: IO[bytes] | None, requests: Sequence[parse_child.Request]) -> None:
    assert pipe is not None  # noqa: S101 - as asked for
    pipe.write(parse_child.NUMBER.pack(len(requests)))
    for request in requests:
        parse_child.write_block(pipe, parse_child.encode(request))
    pipe.flush()


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:  # what could not be written any more
        pass


# --- Batches of messages ---


FEW, SMALL = 20, 1 << 20  # number and bytes of messages above which a batch is a backlog
_MOST_CRASHES = 3  # crashes of the child in one batch, after which the rest is parsed here


class PendingBatch:
    """A batch of messages that is being parsed.

    `child`: the process that parses it. Without one, `result()` parses the batch in this process.
    """

    def __init__(self, sources: Sequence[bytes], child: ParserChild | None) -> None:
        self.sources = sources
        self._child = child
        self._batch = self._ask(sources) if child is not None else None

    def _ask(self, sources: Sequence[bytes]) -> Batch:
        assert self._child is not None  # noqa: S101 - as the callers know
        batch = Batch([WholeMessage(source) for source in sources])
        self._child.ask(batch)
        return batch

    @property
    def is_parsed(self) -> bool:
        """Whether no child is parsing the batch any more."""
        return self._batch is None or self._batch.ended.is_set()

    def result(self) -> list[ParsedMessage]:
        """Wait for the batch, and return the parsed messages in the order of their sources. Never raises. Call it
        once.
        """
        answers = self._collect_answers()
        return [_decode_or_read(source, answer) for source, answer in zip(self.sources, answers, strict=True)]

    def _collect_answers(self) -> list[bytes]:
        """Return one answer for each message, in order; empty if the child could not parse the message.

        After a crash of the child, the messages after the one that caused it are sent again.
        """
        answers: list[bytes] = []
        batch, self._batch = self._batch, None
        crashes = 0
        while batch is not None:
            batch.ended.wait()
            answers += batch.answers
            if batch.is_cause:
                answers.append(b"")  # The child ended during this one; the others are sent again.
            crashes += batch.is_cause or batch.is_victim
            left = self.sources[len(answers) :]
            is_asked_again = left and (batch.is_cause or batch.is_victim) and crashes <= _MOST_CRASHES
            batch = self._ask(left) if is_asked_again else None
        return answers + [b""] * (len(self.sources) - len(answers))


class Parsers:
    """Parses messages for the sync of all mailboxes. Any number of threads may use it."""

    def __init__(self, *, idle: float = IDLE, patience: float = PATIENCE) -> None:
        self._for_few, self._for_many = (ParserChild(idle=idle, patience=patience) for _ in range(2))

    def begin(self, sources: Sequence[bytes]) -> PendingBatch:
        """Send raw messages to a child process to be parsed. `result()` of the returned batch waits for the parsed
        messages.

        For a large batch, this waits until the child has accepted it. A few messages without HTML are not sent;
        `result()` parses them.
        """
        if len(sources) > FEW or sum(map(len, sources)) > SMALL:
            return PendingBatch(sources, self._for_many)
        return PendingBatch(sources, self._for_few if any(map(_has_html, sources)) else None)

    def extract(self, html: str, form: ReadForm) -> VisibleContent:
        """Return the visible content of an HTML body of a large message.

        `form`: the output format, or `beginning` for a one-line preview. If the child does not answer, return the text
        between the HTML tags.
        """
        batch = Batch([Body(without_surrogates(html), form, arrives=True)])
        self._for_few.ask(batch)  # Large messages are fetched while the other child parses a batch.
        batch.ended.wait()
        try:
            return decode_msgpack(b"".join(batch.answers), VisibleContent)
        except msgspec.MsgspecError:
            return TAG_READER.extract(html, form)

    def close(self) -> None:
        """End the child processes. Later batches, and those without all answers, are parsed in this process."""
        self._for_few.close()
        self._for_many.close()


def _has_html(source: bytes) -> bool:
    """Whether a raw message may contain HTML, judged by the word `html` anywhere in it (RFC 2045 5.1)."""
    return b"text/html" in source or b"html" in source.lower()


def _decode_or_read(source: bytes, answer: bytes) -> ParsedMessage:
    try:
        if answer:
            return decode_msgpack(answer, ParsedMessage)
    except msgspec.MsgspecError:
        log.exception("parser_answer_invalid")
    try:
        return read(source)
    except Exception:
        # This should not happen: the parser promises not to fail. The log has the place and no text of the message.
        log.exception("message_parse_failed", extra={"size": len(source)})
        return parse_unreadable(source)


def read(source: bytes) -> ParsedMessage:
    """Parse a raw message in this process, without analyzing its HTML. The result includes the words for the search."""
    return with_searched_words(parse_message(source))
