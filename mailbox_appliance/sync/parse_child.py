"""The child process that parses messages and analyzes HTML. It reads requests from stdin and writes answers to stdout.

A block is a length, then that many bytes. Lengths and counts are four bytes, big-endian. First, the child writes an
empty block to show that it works. A batch of requests is their count, then a block for each request. The child answers
each request with one block, which is empty if it failed. Requests and answers are MessagePack:

    WholeMessage ... answered by a ParsedMessage
    Body ........... answered by a VisibleContent
    Comparison ..... answered by whether plain text and HTML differ, or null if that took too long

It uses no store and no server, and ends when its stdin ends. It runs at low priority. Where the system supports that,
its memory and the processor time for each body are limited. Beyond either limit the answer is the text between the HTML
tags, or the process ends.
"""

import os
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import IO, Any, TypeVar

import msgspec

from mailbox_appliance.mail.alternatives import LONGEST_COMPARED, alternatives_differ
from mailbox_appliance.mail.html.analysis import (
    TAG_READER,
    HiddenText,
    ReadForm,
    VisibleContent,
    extract_preview,
    extract_visible,
    visible_text,
)
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.search import with_searched_words
from mailbox_appliance.model.decoding import decode_msgpack
from mailbox_appliance.model.messages import ParsedMessage

NUMBER = struct.Struct(">I")
#: Seconds of processor time for one body, and the minimum after many expensive ones.
DEADLINE, SHORTEST_DEADLINE = 2.0, 0.125
#: Seconds of processor time after the deadline for a call of a C library that cannot be interrupted.
MOST_UNINTERRUPTED = 0.5
#: Bytes of address space. Ordinary batches need less than a third.
MOST_MEMORY = 512 << 20
#: Seconds of processor time for one message above which the deadline halves, and below which it doubles again.
_MUCH, _LITTLE = 0.25, 0.05
_NICENESS = 10

T = TypeVar("T")


class WholeMessage(msgspec.Struct, frozen=True, tag=True):
    """Request to parse a raw message."""

    source: bytes


class Body(msgspec.Struct, frozen=True, tag=True):
    """Request to extract the visible content of HTML.

    - form: the output format, or `beginning` for a one-line preview.
    - arrives: whether the message is new, so that nobody waits for the answer. Then the time limit depends on
      earlier messages.
    """

    html: str
    form: ReadForm
    arrives: bool = False


class Comparison(msgspec.Struct, frozen=True, tag=True):
    """Request to compare the plain-text body of a message with its HTML body."""

    text: str
    html: str


Request = WholeMessage | Body | Comparison
_REQUEST: Any = Request

_encoder = msgspec.msgpack.Encoder()


def main() -> None:
    """Answer requests until stdin ends.

    Of a failure, only the kind of error goes to stderr, because its text may quote a message.
    """
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing but answers goes to stdout
    try:
        _limit_process()
        extract_visible("", "markdown")  # loads the libraries before the first deadline runs
        serve(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError):
        pass
    except BaseException as error:  # noqa: BLE001 - the interpreter would print its text
        print(f"the parsing process ended with {type(error).__name__}", file=sys.stderr)  # noqa: T201
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if sys.platform == "win32":

    def _limit_process() -> None:
        """Do nothing: on Windows the parent sets the priority, and memory is not limited."""

    def _run_within(seconds: float, work: Callable[[], T]) -> T:  # noqa: ARG001 - as elsewhere
        """Return the result of `work`. On Windows only the parent limits its time, by killing this process."""
        return work()

else:
    import resource
    import signal

    def _limit_process() -> None:
        """Lower the priority of this process, and limit its memory."""
        with suppress(OSError):  # a sandbox that forbids it
            os.nice(_NICENESS)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        bound = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(MOST_MEMORY, hard)
        with suppress(ValueError, OSError):  # macOS refuses a limit below current use.
            resource.setrlimit(resource.RLIMIT_AS, (bound, hard))

    def _run_within(seconds: float, work: Callable[[], T]) -> T:
        """Return the result of `work`. Raises _DeadlinePassed if it takes more than `seconds` of processor time.

        A single call of a C library cannot be interrupted. If one continues after the deadline, SIGVTALRM, which has no
        handler, ends this process.
        """
        signal.signal(signal.SIGPROF, _pass_deadline)
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds + MOST_UNINTERRUPTED)
            return work()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer batches of requests until the input ends. Then raises EOFError."""
    messages = _MessageReader()
    write_block(answers, b"")
    answers.flush()
    while True:
        blocks = [read_block(requests) for _ in range(read_number(requests))]
        blocks.reverse()
        while blocks:
            write_block(answers, _answer(blocks.pop(), messages))
            answers.flush()  # so that a crash is attributed to the next request


class BoundedReader:
    """Analyzes the HTML of one message within a limit of processor time.

    After that limit, it returns only the text between the HTML tags.
    """

    def __init__(self, deadline: float = DEADLINE) -> None:
        self._deadline = deadline
        #: Whether a body was too expensive. The rest of the message is then not analyzed.
        self.has_failed = False
        #: Seconds of processor time that all bodies took so far; the deadline applies to their sum.
        self.used = 0.0

    def extract(self, html: str, form: ReadForm) -> VisibleContent:
        """Return the visible content of HTML. `form`: the output format, or `beginning` for a one-line preview.

        If the analysis takes too long, return the text between the HTML tags.
        """
        return self._run_bounded(lambda: _analyze(html, form)) or TAG_READER.extract(html, form)

    def differs(self, text: str, html: str) -> bool | None:
        """Return whether a message's plain text contains something that its HTML does not show.

        Returns None if the analysis takes too long.
        """
        return self._run_bounded(lambda: _differs(text, html))

    def _run_bounded(self, work: Callable[[], T]) -> T | None:
        if self.has_failed or self.used >= self._deadline:
            self.has_failed = True
            return None
        began = time.process_time()
        try:
            return _run_within(self._deadline - self.used, work)
        except (_DeadlinePassed, MemoryError):
            self.has_failed = True
            return None
        finally:
            self.used += time.process_time() - began


class _MessageReader:
    """Parses messages one after the other, with a time limit for each that adapts to the ones before.

    Each message that is expensive to analyze halves the time limit of the next one, and each cheap one doubles it
    again. So a burst of expensive messages delays those behind it by seconds instead of minutes.
    """

    def __init__(self) -> None:
        self._deadline = DEADLINE

    def read(self, source: bytes) -> ParsedMessage:
        """Parse a raw message and analyze its HTML. The result includes the words for the search."""
        reader = BoundedReader(self._deadline)
        parsed = with_searched_words(parse_message(source, reader), reader)
        self._adjust_deadline(reader)
        return parsed

    def extract(self, html: str, form: ReadForm) -> VisibleContent:
        """Return the visible content of an HTML body of a large message.

        `form`: the output format, or `beginning` for a one-line preview.
        """
        reader = BoundedReader(self._deadline)
        seen = reader.extract(html, form)
        if form != "beginning" or _is_expensive(reader):  # A cheap beginning does not predict the cost of the rest.
            self._adjust_deadline(reader)
        return seen

    def _adjust_deadline(self, reader: BoundedReader) -> None:
        factor = 0.5 if _is_expensive(reader) else 2.0 if reader.used < _LITTLE else 1.0
        self._deadline = min(DEADLINE, max(SHORTEST_DEADLINE, self._deadline * factor))


def _is_expensive(reader: BoundedReader) -> bool:
    return reader.has_failed or reader.used > _MUCH


class _DeadlinePassed(BaseException):
    """Raised when the analysis of a body took too long.

    It is a BaseException, so that no `except Exception` in a parser catches it.
    """


def _pass_deadline(_: int, __: FrameType | None) -> None:
    raise _DeadlinePassed


def _analyze(html: str, form: ReadForm) -> VisibleContent:
    if form == "beginning":
        return VisibleContent(extract_preview(html), HiddenText())
    return VisibleContent(*extract_visible(html, form))


def _differs(text: str, html: str) -> bool:
    return alternatives_differ(visible_text(text[:LONGEST_COMPARED])[0], extract_visible(html, "text")[0])


def _answer(block: bytes, messages: _MessageReader) -> bytes:
    try:
        return _encoder.encode(_evaluate(decode_msgpack(block, _REQUEST), messages))
    except Exception:  # noqa: BLE001 - the appliance reads this one again, without HTML
        return b""


def _evaluate(request: Request, messages: _MessageReader) -> Any:
    match request:
        case WholeMessage(source):
            return messages.read(source)
        case Body(html, form, arrives):
            return (messages if arrives else BoundedReader()).extract(html, form)
        case Comparison(text, html):
            return BoundedReader().differs(text, html)


def encode(request: Request) -> bytes:
    """Encode a request as the content of a block (MessagePack)."""
    return _encoder.encode(request)


def read_number(stream: IO[bytes]) -> int:
    """Read a count or a length: four bytes, big-endian. Raises EOFError if the stream ends."""
    raw = stream.read(NUMBER.size)
    if len(raw) < NUMBER.size:
        raise EOFError
    number: int = NUMBER.unpack(raw)[0]
    return number


def read_block(stream: IO[bytes]) -> bytes:
    """Read a block: a length, then that many bytes. Raises EOFError if the stream ends."""
    length = read_number(stream)
    block = stream.read(length)
    if len(block) < length:
        raise EOFError
    return block


def write_block(stream: IO[bytes], block: bytes) -> None:
    """Write a block: the length, then the bytes."""
    stream.write(NUMBER.pack(len(block)))
    stream.write(block)


if __name__ == "__main__":
    main()
