"""Parse a large message without keeping its large files in memory: long runs of base64 lines are left out first."""

import binascii
import re
import secrets
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from mailbox_appliance.mail.parse import attachments_bytes, parse_message
from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.model.messages import ParsedAttachment, ParsedMessage

# A run of complete lines: `compose` writes 76 characters a line (RFC 2045 6.8), Apple's programs 72. Anchored and
# possessive: a search that restarts at each byte of a line takes seconds.
_RUN = re.compile(rb"(?m)^(?:(?:[A-Za-z0-9+/]{76}\r\n)++|(?:[A-Za-z0-9+/]{72}\r\n)++)")
_FEWEST_LINES = 64
# The replacement of a run: one line of 76 characters with its CRLF, and the bytes that it decodes to.
_MARK_LINE, _RAW_LINE = 78, 57
_LONGEST_LINE = 1000


def parse_content(content: Content) -> ParsedMessage:
    """Return the content of a message as `parse_message` does, but with little memory: large attachments are skipped.
    Their sizes are exact.
    """
    if len(content) <= LARGE:
        return parse_message(content.read())
    runs: dict[bytes, tuple[int, int]] = {}
    outline = b"".join(_outline(content, runs))
    parsed = parse_message(outline)
    if runs:
        bytes_of = attachments_bytes(outline)
        sized = tuple(_with_full_size(bytes_of(one.part) or b"", one, runs) for one in parsed.attachments)
        # A run outside attachments is text, of which nothing may be left out.
        parsed = parse_message(content.read()) if runs else replace(parsed, attachments=sized)
    return parsed


def _outline(content: Content, runs: dict[bytes, tuple[int, int]]) -> Iterator[bytes]:
    """Yield the message with a random line in place of each long run of base64 lines.

    Each replacement is added to `runs`. The key is the random line, decoded. The value is the numbers of encoded and of
    decoded bytes by which the message became shorter.
    """
    for piece in _whole_lines(content):
        yield _RUN.sub(_left_out_runs(runs), piece)


def _left_out_runs(runs: dict[bytes, tuple[int, int]]) -> "Callable[[re.Match[bytes]], bytes]":
    def stand_in(run: re.Match[bytes]) -> bytes:
        mark, size = secrets.token_bytes(_RAW_LINE), run.end() - run.start()
        line = run[0].find(b"\r\n")
        lines = size // (line + 2)
        if lines < _FEWEST_LINES:
            return run[0]
        runs[mark] = (size - _MARK_LINE, lines * (line // 4 * 3) - _RAW_LINE)
        return binascii.b2a_base64(mark, newline=False) + b"\r\n"

    return stand_in


def _whole_lines(content: Content) -> Iterator[bytes]:
    """Yield the bytes of the content in pieces that end with a whole line. Only a very long line may be cut."""
    held = b""
    for piece in content.pieces():
        held += piece
        end = held.rfind(b"\n") + 1
        if end or len(held) > _LONGEST_LINE:
            yield held[: end or len(held)]
            held = held[end or len(held) :]
    yield held


def _with_full_size(found: bytes, attachment: ParsedAttachment, runs: dict[bytes, tuple[int, int]]) -> ParsedAttachment:
    """Return the attachment with its real size, and remove the runs of base64 that it contained from `runs`."""
    size = attachment.size_bytes
    for mark, (raw, decoded) in list(runs.items()):
        if mark in found:
            size += decoded
        elif binascii.b2a_base64(mark, newline=False) in found:  # inside an attached message, which is not encoded
            size += raw
        else:
            continue
        del runs[mark]
    return replace(attachment, size_bytes=size)
