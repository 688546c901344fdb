"""Parses batches of messages. Where one has HTML, or there are many, a child process does it.

begin() ... a few without HTML: nothing yet     others: gives them to a child
result() .. parses them here                    waits for the answers, and parses here what the child cannot

In this process HTML is never analyzed: the text of its tags stands for it, with a warning (`mail.readers.TAGS`). There
are two children, so that new mail does not wait for a backlog. Each is started on first use, and ends when it has been
idle. A crash of it costs the message that it was working on its analysis, and others nothing.
"""

import logging
from collections.abc import Sequence

import msgspec

from mailbox_appliance.mail.charsets import without_surrogates
from mailbox_appliance.mail.parse import parse, unreadable
from mailbox_appliance.mail.readers import TAGS, ReadForm, Seen
from mailbox_appliance.mail.searched import with_words
from mailbox_appliance.model.decoding import decode_msgpack
from mailbox_appliance.model.records import ParsedMessage
from mailbox_appliance.sync.parser_process import IDLE, PATIENCE, Batch, ParserChild
from mailbox_appliance.sync.parsing import Body, WholeMessage

log = logging.getLogger(__name__)

FEW, SMALL = 20, 1 << 20  # messages, and bytes of them, that are no backlog
_MOST_CRASHES = 3  # of the child in one batch, after which the rest is parsed here


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

    def extract(self, html: str, form: ReadForm) -> Seen:
        """Return what is seen of the HTML of a large message (`mail.readers.HtmlReader`)."""
        batch = Batch([Body(without_surrogates(html), form, arrives=True)])
        self._for_many.ask(batch)
        batch.ended.wait()
        try:
            return decode_msgpack(b"".join(batch.answers), Seen)
        except msgspec.MsgspecError:
            return TAGS.extract(html, form)

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
        log.exception("an answer of the parsing process could not be read")
    try:
        return read(source)
    except Exception:
        # Not to be: parsing promises not to fail. The log has the place, and not a word of the message.
        log.exception("a message could not be parsed", extra={"size": len(source)})
        return unreadable(source)


def read(source: bytes) -> ParsedMessage:
    """Return what a message says without an analysis of its HTML, and what is searched of it."""
    return with_words(parse(source))
