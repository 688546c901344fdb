"""Find the parts of a message as positions in its bytes, and decode their transfer encodings (RFC 2045, RFC 2046)."""

import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from mailbox_appliance.mail import encoded_words, headers
from mailbox_appliance.mail.headers import Fields
from mailbox_appliance.model.base import own_text

MAX_PARTS = 1_000
MAX_DEPTH = 100
TOO_MANY = own_text("This message has too many parts; some are not shown.")
TOO_DEEP = own_text("This message is nested too deeply; its innermost parts are not shown.")
#: The warning for a multipart without delimiters between its parts.
NO_BOUNDARY = own_text("A boundary between parts of this message is missing.")
_MAX_CANDIDATES = 100_000  # places in one message that may be a boundary
_IDENTITY = frozenset({"", "7bit", "8bit", "binary"})
_TYPE = re.compile(r"[^\s/;,\"]+/[^\s/;,()\"]+")
_PART_NUMBER = re.compile(r"[1-9][0-9]{0,3}")
_LONGEST_TYPE = 255
_LONGEST_REMEMBERED = 100
_NO_PARAMETERS: Mapping[str, str] = {}
_LONGEST_BOUNDARY = 1000
_FIRST_BOUNDARY = re.compile(rb"(?:\A|\n)--([^\s][^\r\n]{0,150})\r?\n")
_SPACES_AT_END = (b" \r\n", b" \n", b"\t\r\n", b"\t\n")
_TRAILING_SPACE = re.compile(rb"(?<![ \t])[ \t]+(?=\r?\n)")


@dataclass(slots=True, eq=False)
class MimePart:
    """One part of a message: its number as in IMAP (RFC 9051 6.4.5), its type, and the position of its body (`start`,
    `end`) in the bytes of the message (`source`).
    """

    number: str
    source: bytes = field(repr=False)
    start: int
    end: int
    fields: Fields = field(repr=False)
    mime_type: str
    parameters: Mapping[str, str]
    disposition: str
    disposition_parameters: Mapping[str, str]
    children: list["MimePart"] = field(default_factory=list)
    estimated: int | None = None  # decoded bytes of a body that was not fetched
    begin: int = 0  # the start of its header

    def encoding(self) -> str:
        """The Content-Transfer-Encoding in lower case (RFC 2045 6.1), without any text after it. Empty if the part
        names none.
        """
        name = headers.first_value(self.fields, "content-transfer-encoding").strip(" \t\"'").lower()
        for known in ("base64", "quoted-printable"):
            if name.startswith(known):
                return known
        return name.partition(";")[0].rstrip()

    def size(self) -> int:
        """The decoded size of the body, in bytes. An estimate if the body was not fetched."""
        if self.estimated is not None:
            return self.estimated
        encoding = self.encoding()
        if encoding == "quoted-printable":
            return len(self.content()[0])
        if encoding != "base64":
            return self.end - self.start
        size = encoded_words.size_of_base64(self.source[self.start : self.end])
        return len(self.content()[0]) if size is None else size

    def content(self, limit: int | None = None, *, is_text: bool = False) -> tuple[bytes, bool]:
        """Return the decoded body, and whether its encoding was known and complete. At most `limit` encoded bytes are
        decoded. `is_text`: CRLF may become line feeds.
        """
        raw = self.source[self.start : self.end if limit is None else min(self.end, self.start + limit)]
        encoding = self.encoding()
        if encoding == "base64":
            return encoded_words.decode_base64(raw)
        if encoding == "quoted-printable":
            return decode_quoted_printable(raw.replace(b"\r\n", b"\n") if is_text else raw), True
        return raw, encoding in _IDENTITY

    def content_id(self) -> str | None:
        """The Content-ID without angle brackets, or None if the part has none."""
        value = headers.decode_text(headers.first_value(self.fields, "content-id"))[:1000]
        return value.removeprefix("<").removesuffix(">").strip() or None

    def filename(self) -> str:
        """The file name, safe to show; empty if the part has none."""
        given = self.disposition_parameters.get("filename") or self.parameters.get("name") or ""
        return headers.read_file_name(given)


@dataclass
class _Budget:
    parts: int = MAX_PARTS
    candidates: int = _MAX_CANDIDATES


def parse_structure(source: bytes) -> tuple[MimePart, list[tuple[str, str]], tuple[str, ...]]:
    """Return the root of the tree of parts, the header fields of the message, and warnings about its structure, such as
    a missing boundary.
    """
    if b"\n" not in source:
        source = source.replace(b"\r", b"\n")  # Seen in practice: lines that end with CR only
    warnings: list[str] = []
    fields, start = _read_header(source, 0, len(source), warnings)
    root = _make_part(source, "", headers.fields_by_name(fields), (start, len(source)), "text/plain")
    _descend(root, _Budget(), 0, warnings)
    if not root.children:
        root.number = "1"
    return root, fields, tuple(dict.fromkeys(warnings))


def find_part(root: MimePart, number: str) -> MimePart | None:
    """Return the part with this number, such as `2` or `1.3`. None if it does not exist."""
    if not root.children:
        return root if number == "1" else None
    found = root
    for step in number.split("."):
        if not (_PART_NUMBER.fullmatch(step) and int(step) <= len(found.children)):
            return None
        found = found.children[int(step) - 1]
    return found


def _read_header(source: bytes, start: int, end: int, warnings: list[str]) -> tuple[list[tuple[str, str]], int]:
    """Return the header fields of the part from `start` to `end`, and the position of its body. If it has no header,
    all of it is body, and a warning is added to `warnings`.
    """
    body = headers.body_start(source, start, end)
    header = source[start : min(body, start + headers.MAX_HEADER)]
    fields = headers.split_fields(header)
    if b"\n--" in header and (cut := _first_delimiter(header, fields)) >= 0:
        body = start + cut  # seen in practice: no blank line before the first part
        fields = headers.split_fields(header[:cut])
    if fields or not header.strip():
        return fields, body
    warnings.append(own_text("This message has no header, so all of it is shown as text."))
    return [], start


def _first_delimiter(header: bytes, fields: list[tuple[str, str]]) -> int:
    """Return the position in `header` of a multipart's first delimiter line, or -1 if it is not there. It is there only
    if the message lacks the blank line after its header. `fields`: the parsed fields of that header.
    """
    content_type = headers.first_value(headers.fields_by_name(fields), "content-type")
    boundary = _boundary(headers.parse_parameters(headers.decode_octets(content_type))[1])
    return header.find(b"\n--" + boundary) + 1 or -1 if boundary else -1


def _boundary(parameters: Mapping[str, str]) -> bytes:
    return parameters.get("boundary", "").rstrip().encode("utf-8", "replace")[:_LONGEST_BOUNDARY]


def _make_part(source: bytes, number: str, fields: Fields, span: tuple[int, int], default_type: str) -> MimePart:
    content_type = headers.first_value(fields, "content-type").strip()
    mime_type, parameters = default_type, _NO_PARAMETERS
    if content_type:
        is_short = len(content_type) <= _LONGEST_REMEMBERED
        mime_type, parameters = (_remembered_type if is_short else _media_type)(content_type)
    disposition, disposition_parameters = "", _NO_PARAMETERS
    if given := headers.first_value(fields, "content-disposition"):
        disposition, disposition_parameters = headers.parse_parameters(headers.decode_octets(given))
    return MimePart(number, source, *span, fields, mime_type, parameters, disposition, disposition_parameters)


def _media_type(content_type: str) -> tuple[str, Mapping[str, str]]:
    mime_type, parameters = headers.parse_parameters(headers.decode_octets(content_type))
    found = _TYPE.search(encoded_words.remove_comments(mime_type)[:_LONGEST_TYPE])
    # RFC 2045 5.2: an invalid type means plain text; seen in practice: `text`.
    return (found[0] if found else "text/plain"), parameters


_remembered_type = lru_cache(maxsize=500)(_media_type)  # most parts are of one of a few types


def _descend(part: MimePart, budget: _Budget, depth: int, warnings: list[str]) -> None:
    """Find the children of a multipart, recursively, and add them to `part`."""
    if not part.mime_type.startswith("multipart/"):
        return
    if depth >= MAX_DEPTH:
        warnings.append(TOO_DEEP)
        return
    spans = _part_spans(part, budget, warnings)
    if not spans:
        part.mime_type = "text/plain"  # Degraded: showing the text is better than losing it.
        return
    default_type = "message/rfc822" if part.mime_type == "multipart/digest" else "text/plain"  # RFC 2046 5.1.5
    for position, (start, end) in enumerate(spans, 1):
        if budget.parts <= 0:
            warnings.append(TOO_MANY)
            return
        budget.parts -= 1
        number = f"{part.number}.{position}" if part.number else str(position)
        fields, body = _read_header(part.source, start, end, warnings)
        child = _make_part(part.source, number, headers.fields_by_name(fields), (body, end), default_type)
        child.begin = start
        part.children.append(child)
        _descend(child, budget, depth + 1, warnings)


def _part_spans(part: MimePart, budget: _Budget, warnings: list[str]) -> list[tuple[int, int]]:
    """Return start and end position of each child of a multipart (RFC 2046 5.1.1)."""
    boundary = _boundary(part.parameters)
    if not boundary:
        guess = _FIRST_BOUNDARY.search(part.source, max(0, part.start - 1), min(part.end, part.start + 10_000))
        warnings.append(NO_BOUNDARY)
        if not guess:
            return []
        boundary = guess[1].rstrip()
    spans: list[tuple[int, int]] = []
    opened: int | None = None
    for line_start, line_end, closing in _delimiter_lines(part, b"--" + boundary, budget):
        if opened is not None:
            spans.append((opened, max(opened, line_start)))
        opened = None if closing else line_end
        if closing or len(spans) > MAX_PARTS:
            break
    if opened is not None and opened < part.end and len(spans) <= MAX_PARTS:
        warnings.append(own_text("The end of a part of this message is missing."))
        spans.append((opened, part.end))
    elif not spans and opened is None:
        warnings.append(NO_BOUNDARY)
    return spans


def _delimiter_lines(part: MimePart, delimiter: bytes, budget: _Budget) -> list[tuple[int, int, bool]]:
    """Return the delimiter lines of a multipart in order. Each has the position of the line break before it, the
    position of the next line, and whether it is the closing delimiter.
    """
    source = part.source
    found: list[tuple[int, int, bool]] = []
    position = source.find(delimiter, part.start, part.end)
    while position >= 0 and budget.candidates > 0 and len(found) <= MAX_PARTS + 1:
        budget.candidates -= 1
        limit = min(part.end, position + len(delimiter) + 1000)
        line_end = source.find(b"\n", position, limit) + 1 or limit
        rest = source[position + len(delimiter) : line_end].strip()
        if rest in (b"", b"--") and (position == part.start or source[position - 1] == 0x0A):
            before = position - 1 if position > part.start else position
            before -= before > part.start and source[before - 1] == 0x0D
            found.append((before, line_end, rest == b"--"))
            if rest:
                break
        position = source.find(delimiter, position + len(delimiter), part.end)
    return found


def decode_quoted_printable(raw: bytes) -> bytes:
    """Return the decoded bytes. `raw` must end at the end of a line. Text that is not quoted-printable stays
    unchanged.
    """
    # RFC 2045 6.7 (3): white space at the end of a line was added in transit.
    if any(space in raw for space in (_SPACES_AT_END if b"\r" in raw or b"\t" in raw else (b" \n",))):
        raw = _TRAILING_SPACE.sub(b"", raw)
    return binascii.a2b_qp(raw)


# --- Transfer encodings, decoded piece by piece while large parts arrive (RFC 2045 6). Broken ones never raise ---
#
# The result equals that of `mail.parse` for the same part in one piece; only a few bytes are held back between pieces.


_OUTSIDE_BASE64 = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="))
_RUNS = re.compile(rb"=+|[^=]+")
_LONGEST_LINE = 64 * 1024  # bytes held back of a quoted-printable line; RFC 2045 6.7 (5) allows 76


def decode_transfer(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the decoded bytes of a part, piece by piece. `encoding`: its Content-Transfer-Encoding; if it is unknown,
    the bytes stay unchanged.
    """
    name = encoding.strip().lower()
    if name.startswith("base64"):
        return _decode_base64_pieces(pieces)
    if name.startswith("quoted-printable"):
        return _decode_quoted_printable_pieces(pieces)
    return iter(pieces)


def _decode_base64_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes decoded from base64. Characters that are not base64 are skipped (RFC 2045 6.8), and so is
    misplaced `=` padding. Valid padding ends the data.
    """
    held, has_ended = b"", False
    padding = _Padding()
    for piece in pieces:
        if has_ended:
            continue  # read to the end, so that the source of the pieces finishes
        data, has_ended = padding.strip(piece.translate(None, _OUTSIDE_BASE64))
        held += data
        whole = len(held) // 4 * 4
        if whole:
            yield binascii.a2b_base64(held[:whole])
            held = held[whole:]
    if len(held) > 1:  # six bits are not a byte
        yield binascii.a2b_base64(held + b"=" * (-len(held) % 4))


class _Padding:
    """Finds the `=` padding that ends base64 data, across pieces. As in `binascii`, padding that does not complete a
    group of four characters is ignored.
    """

    def __init__(self) -> None:
        self._place = self._signs = 0  # characters of the current group, and `=` after them

    def strip(self, piece: bytes) -> tuple[bytes, bool]:
        """Return the next piece without padding, up to the padding that ends the data, and whether that end was
        found.
        """
        if b"=" not in piece:
            self._pass(len(piece))
            return piece, False
        kept: list[bytes] = []
        for run in _RUNS.findall(piece):
            if not run.startswith(b"="):
                kept.append(run)
                self._pass(len(run))
            elif self._place >= 2:
                self._signs += len(run)
                if self._place + self._signs >= 4:
                    return b"".join(kept), True
        return b"".join(kept), False

    def _pass(self, count: int) -> None:
        if count:
            self._place, self._signs = (self._place + count) % 4, 0


def _decode_quoted_printable_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes decoded from quoted-printable, line by line. White space at the end of a line is dropped: servers
    added it (RFC 2045 6.7 (3)).
    """
    held = b""
    for piece in pieces:
        held += piece
        cut = held.rfind(b"\n") + 1
        if not cut and len(held) > _LONGEST_LINE:
            cut = _safe_cut(held)
        if cut:
            yield decode_quoted_printable(held[:cut])
            held = held[cut:]
    if held:
        yield decode_quoted_printable(held)


def _safe_cut(held: bytes) -> int:
    """Return a position at which a very long line may be cut for decoding: not inside an escape (`=3D`), and not within
    white space that may be the end of the line.
    """
    end = len(held.rstrip(b" \t\r"))
    return end if b"=" not in held[max(0, end - 2) : end] else held.rindex(b"=", 0, end)
