"""Parses batches of messages: large backlogs in a child process, so that fetching and storing have a core of their own.

begin() ... few messages: nothing yet        many: gives them to the child, when it has done earlier ones
result() .. parses them here                 waits for its answers; parses here what it does not answer
The child is started when there is a backlog, and ends when it has been idle. A crash of it loses nothing.
"""

import logging
import threading
from collections.abc import Sequence

import msgspec

from mailbox_appliance.decoding import decode_msgpack
from mailbox_appliance.mail.parse import unreadable
from mailbox_appliance.records import ParsedMessage
from mailbox_appliance.sync.parser_process import ParserProcess
from mailbox_appliance.sync.parsing import read

log = logging.getLogger(__name__)

FEW, SMALL = 20, 1 << 20  # messages, and bytes of them, that are no backlog
IDLE, PATIENCE = 30.0, 60.0  # seconds without work after which the child ends; on one batch after which it is killed
_MOST_FAILURES = 3  # in a row


class Pending:
    """A batch that is being parsed."""

    def __init__(self, sources: Sequence[bytes]) -> None:
        self.sources = sources
        self.answers: list[bytes] = []
        self.ended = threading.Event()

    def result(self) -> list[ParsedMessage]:
        """What the messages say, in their order; waits for it. Never raises; ask once."""
        self.ended.wait()
        answers, self.answers = self.answers, []
        return [
            _read(source, answers[position] if position < len(answers) else b"")
            for position, source in enumerate(self.sources)
        ]


class Parsers:
    """Parses for all mailboxes. Any number of threads may use it."""

    def __init__(self, *, idle: float = IDLE, patience: float = PATIENCE) -> None:
        self._idle, self._patience = idle, patience
        self._turn = threading.Lock()  # held while a batch is written
        self._child: ParserProcess | None = None
        self._failures = 0  # of children, in a row
        self._closed = threading.Event()

    def begin(self, sources: Sequence[bytes]) -> Pending:
        """Begin to parse a batch; of a backlog, wait until the child has taken it in."""
        pending = Pending(sources)
        if self._closed.is_set() or (len(sources) <= FEW and sum(map(len, sources)) <= SMALL):
            pending.ended.set()
            return pending
        with self._turn:
            child = self._find_child()
            if child is None or not child.ask(pending):
                pending.ended.set()
        return pending

    def close(self) -> None:
        """End the child. What is pending, and whatever comes after, is parsed in this process."""
        self._closed.set()
        if self._child is not None:
            self._child.close()

    def _find_child(self) -> ParserProcess | None:
        """The child, started where there is none; None where that has failed too often."""
        if self._child is not None and self._child.is_usable:
            return self._child
        if self._child is not None:
            is_no_use = self._child.has_failed and not self._child.has_answered
            self._failures = self._failures + 1 if is_no_use else 0
            self._child = None
        if self._failures < _MOST_FAILURES and not self._closed.is_set():
            self._child = self._start()
            if self._closed.is_set() and self._child is not None:  # closed while it started
                self._child.close()
        return self._child

    def _start(self) -> ParserProcess | None:
        try:
            return ParserProcess(idle=self._idle, patience=self._patience)
        except OSError:
            log.exception("the parsing process does not start")
            self._failures += 1
            return None


def _read(source: bytes, answer: bytes) -> ParsedMessage:
    try:
        if answer:
            return decode_msgpack(answer, ParsedMessage)
    except msgspec.MsgspecError:
        log.exception("an answer of the parsing process could not be read")
    try:
        return read(source)
    except Exception:
        # Not to be: parsing promises not to fail. The log has the place, and not a word of the message.
        log.exception("a message could not be parsed", extra={"size": len(source)})
        return unreadable(source)
