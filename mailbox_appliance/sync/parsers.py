"""Parses batches of messages. If one has HTML, or there are many, a child process does it.

begin() ... a few without HTML: nothing yet     others: gives them to a child
result() .. parses them here                    waits for the answers, and parses here what the child cannot

In this process HTML is never analyzed: the text of its tags stands for it, with a warning (`TAG_READER`). There are two
children, so that new mail does not wait for a backlog. Each is started on first use, and ends when it has been idle. If
it crashes, the message that it was working on is not analyzed; other messages lose nothing.
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

# --- The child process, with the two threads that keep it: one takes its answers, one watches over it ---
#
# ParserChild ..... the child that serves one kind of requests now: started on first use, and again when it has ended
# ParserProcess ... one such process


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

    def __init__(self, requests: Sequence[parse_child.Request]) -> None:
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
            log.exception("parser_start_failed")
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
    return [sys.executable, "-P", "-m", parse_child.__name__]


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
            parse_child.read_block(self._process.stdout)
            self.has_started = True
            while True:
                self._take_answer(parse_child.read_block(self._process.stdout))
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
            log.warning("parser_ended", extra={"code": code, "said": self._read_complaint()})
        for batch in left:
            batch.is_cause = self.has_started and batch is left[0]
            batch.is_victim = self.has_started and not batch.is_cause
            batch.ended.set()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            _close(pipe)

    def _read_complaint(self) -> str:
        """What it wrote to stderr: frames and kinds of errors, never a message (`parse_child.main`)."""
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
        start_new_session=True,  # Ctrl-C is for the appliance, which ends its child itself
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


FEW, SMALL = 20, 1 << 20  # messages, and bytes of them, that are no backlog
_MOST_CRASHES = 3  # of the child in one batch, after which the others are parsed here


class PendingBatch:
    """A batch that is being parsed; without a child it is parsed when its result is wanted."""

    def __init__(self, sources: Sequence[bytes], child: ParserChild | None) -> None:
        self.sources = sources
        self._child = child
        self._batch = self._ask(sources) if child is not None else None

    def _ask(self, sources: Sequence[bytes]) -> Batch:
        assert self._child is not None  # noqa: S101 - as the callers know
        batch = Batch([WholeMessage(source) for source in sources])
        self._child.ask(batch)
        return batch

    def result(self) -> list[ParsedMessage]:
        """Wait, and return what the messages say, in their order. Never raises; ask once."""
        answers = self._collect_answers()
        return [_decode_or_read(source, answer) for source, answer in zip(self.sources, answers, strict=True)]

    def _collect_answers(self) -> list[bytes]:
        """An answer for each message; an empty one for a message that the child cannot parse."""
        answers: list[bytes] = []
        batch, self._batch = self._batch, None
        crashes = 0
        while batch is not None:
            batch.ended.wait()
            answers += batch.answers
            if batch.is_cause:
                answers.append(b"")  # the child ended over this one; the others are asked again
            crashes += batch.is_cause or batch.is_victim
            left = self.sources[len(answers) :]
            is_asked_again = left and (batch.is_cause or batch.is_victim) and crashes <= _MOST_CRASHES
            batch = self._ask(left) if is_asked_again else None
        return answers + [b""] * (len(self.sources) - len(answers))


class Parsers:
    """Parses for all mailboxes. Any number of threads may use it."""

    def __init__(self, *, idle: float = IDLE, patience: float = PATIENCE) -> None:
        self._for_few, self._for_many = (ParserChild(idle=idle, patience=patience) for _ in range(2))

    def begin(self, sources: Sequence[bytes]) -> PendingBatch:
        """Begin to parse a batch; of a backlog, wait until the child has taken it in."""
        if len(sources) > FEW or sum(map(len, sources)) > SMALL:
            return PendingBatch(sources, self._for_many)
        return PendingBatch(sources, self._for_few if any(map(_has_html, sources)) else None)

    def extract(self, html: str, form: ReadForm) -> VisibleContent:
        """Return what is seen of the HTML of a large message, as an `HtmlReader`."""
        batch = Batch([Body(without_surrogates(html), form, arrives=True)])
        self._for_many.ask(batch)
        batch.ended.wait()
        try:
            return decode_msgpack(b"".join(batch.answers), VisibleContent)
        except msgspec.MsgspecError:
            return TAG_READER.extract(html, form)

    def close(self) -> None:
        """End the children. What is pending, and whatever comes after, is parsed in this process."""
        self._for_few.close()
        self._for_many.close()


def _has_html(source: bytes) -> bool:
    """Whether a message may have HTML: its type stands literally in a header field (RFC 2045 5.1)."""
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
        # Not to be: parsing promises not to fail. The log has the place, and not a word of the message.
        log.exception("message_parse_failed", extra={"size": len(source)})
        return parse_unreadable(source)


def read(source: bytes) -> ParsedMessage:
    """Return what a message says without an analysis of its HTML, and what is searched of it."""
    return with_searched_words(parse_message(source))
