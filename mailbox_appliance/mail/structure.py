"""The tree of the parts of a message, as offsets into its bytes (RFC 2045, RFC 2046).

The `email` package is not used for it: it recurses as deep as a sender likes, takes quadratic time on nested parts, and
needs most of the time that a message may cost.
"""

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from mailbox_appliance.mail import comments, encoded_words, field_reading, file_names
from mailbox_appliance.mail.field_reading import Fields

MAX_PARTS = 1_000
MAX_DEPTH = 100
TOO_MANY = "The message has too many parts; the rest is not shown."
TOO_DEEP = "The message is nested too deeply; what lies deeper is not shown."
_MAX_CANDIDATES = 100_000  # places in one message that look like a boundary
_IDENTITY = frozenset({"", "7bit", "8bit", "binary"})
_TYPE = re.compile(r"[^\s/;,\"]+/[^\s/;,()\"]+")
_STEP = re.compile(r"[1-9][0-9]{0,3}")
_LONGEST_TYPE = 255
_LONGEST_REMEMBERED = 100
_NOTHING: Mapping[str, str] = {}
_LONGEST_BOUNDARY = 1000
_FIRST_BOUNDARY = re.compile(rb"(?:\A|\n)--([^\s][^\r\n]{0,150})\r?\n")
_SPACES_AT_END = (b" \r\n", b" \n", b"\t\r\n", b"\t\n")
_TRAILING_SPACE = re.compile(rb"(?<![ \t])[ \t]+(?=\r?\n)")


@dataclass(slots=True, eq=False)
class Part:
    """A part: its number as in IMAP (RFC 9051 6.4.5), its type, and where its body lies in the source."""

    number: str
    source: bytes = field(repr=False)
    start: int
    end: int
    fields: Fields = field(repr=False)
    mime_type: str
    parameters: Mapping[str, str]
    disposition: str
    disposition_parameters: Mapping[str, str]
    children: list["Part"] = field(default_factory=list)
    estimated: int | None = None  # bytes, decoded, of a body that is not at hand
    begin: int = 0  # where its header begins

    def encoding(self) -> str:
        """The Content-Transfer-Encoding (RFC 2045 6.1) without what may follow it."""
        name = field_reading.first(self.fields, "content-transfer-encoding").strip(" \t\"'").lower()
        for known in ("base64", "quoted-printable"):
            if name.startswith(known):
                return known
        return name.partition(";")[0].rstrip()

    def size(self) -> int:
        """How many bytes the body has, decoded."""
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
        """The body, decoded, and whether its encoding was whole; at most `limit` bytes of the source are looked at.

        Of text, line breaks need not stay as they are.
        """
        raw = self.source[self.start : self.end if limit is None else min(self.end, self.start + limit)]
        encoding = self.encoding()
        if encoding == "base64":
            return encoded_words.decode_base64(raw)
        if encoding == "quoted-printable":
            return from_quoted_printable(raw.replace(b"\r\n", b"\n") if is_text else raw), True
        return raw, encoding in _IDENTITY

    def content_id(self) -> str | None:
        """The Content-ID without its angle brackets."""
        value = field_reading.text(field_reading.first(self.fields, "content-id"))[:1000]
        return value.removeprefix("<").removesuffix(">").strip() or None

    def filename(self) -> str:
        """The name of the file, safe to show; empty where the part has none."""
        given = self.disposition_parameters.get("filename") or self.parameters.get("name") or ""
        return file_names.received(given)


@dataclass
class _Budget:
    parts: int = MAX_PARTS
    candidates: int = _MAX_CANDIDATES


def read(source: bytes) -> tuple[Part, list[tuple[str, str]], tuple[str, ...]]:
    """The tree, the header fields of the message, and warnings about its structure."""
    if b"\n" not in source:
        source = source.replace(b"\r", b"\n")  # Seen in practice: lines that end with CR alone
    warnings: list[str] = []
    fields, start = _header(source, 0, len(source), warnings)
    root = _part(source, "", field_reading.by_name(fields), (start, len(source)), "text/plain")
    _descend(root, _Budget(), 0, warnings)
    if not root.children:
        root.number = "1"
    return root, fields, tuple(dict.fromkeys(warnings))


def find(root: Part, number: str) -> Part | None:
    """The part with this number (`2`, `1.3`), or None."""
    if not root.children:
        return root if number == "1" else None
    found = root
    for step in number.split("."):
        if not (_STEP.fullmatch(step) and int(step) <= len(found.children)):
            return None
        found = found.children[int(step) - 1]
    return found


def _header(source: bytes, start: int, end: int, warnings: list[str]) -> tuple[list[tuple[str, str]], int]:
    """The header fields of what begins at `start`, and where its body begins; what has no header is all body."""
    body = field_reading.body_start(source, start, end)
    header = source[start : min(body, start + field_reading.MAX_HEADER)]
    fields = field_reading.split(header)
    if b"\n--" in header and (cut := _first_delimiter(header, fields)) >= 0:
        body = start + cut  # seen in practice: no blank line before the first part
        fields = field_reading.split(header[:cut])
    if fields or not header.strip():
        return fields, body
    warnings.append("A header is missing; all that is there is shown as text.")
    return [], start


def _first_delimiter(header: bytes, fields: list[tuple[str, str]]) -> int:
    """Where in a header the delimiter line stands that its own Content-Type names; -1 where there is none."""
    content_type = field_reading.first(field_reading.by_name(fields), "content-type")
    boundary = _boundary(field_reading.parameters(field_reading.readable(content_type))[1])
    return header.find(b"\n--" + boundary) + 1 or -1 if boundary else -1


def _boundary(parameters: Mapping[str, str]) -> bytes:
    return parameters.get("boundary", "").rstrip().encode("utf-8", "replace")[:_LONGEST_BOUNDARY]


def _part(source: bytes, number: str, fields: Fields, span: tuple[int, int], default_type: str) -> Part:
    content_type = field_reading.first(fields, "content-type").strip()
    mime_type, parameters = default_type, _NOTHING
    if content_type:
        is_short = len(content_type) <= _LONGEST_REMEMBERED
        mime_type, parameters = (_remembered_type if is_short else _type)(content_type)
    disposition, disposition_parameters = "", _NOTHING
    if given := field_reading.first(fields, "content-disposition"):
        disposition, disposition_parameters = field_reading.parameters(field_reading.readable(given))
    return Part(number, source, *span, fields, mime_type, parameters, disposition, disposition_parameters)


def _type(content_type: str) -> tuple[str, Mapping[str, str]]:
    mime_type, parameters = field_reading.parameters(field_reading.readable(content_type))
    found = _TYPE.search(comments.remove(mime_type)[:_LONGEST_TYPE])
    # RFC 2045 5.2: what cannot be read is plain text; seen in practice: `text`.
    return (found[0] if found else "text/plain"), parameters


_remembered_type = lru_cache(maxsize=500)(_type)  # most parts are of one of a few types


def _descend(part: Part, budget: _Budget, depth: int, warnings: list[str]) -> None:
    """Find the children of a multipart, and theirs."""
    if not part.mime_type.startswith("multipart/"):
        return
    if depth >= MAX_DEPTH:
        warnings.append(TOO_DEEP)
        return
    spans = _spans(part, budget, warnings)
    if not spans:
        part.mime_type = "text/plain"  # Degraded: what is there is better shown than lost.
        return
    default_type = "message/rfc822" if part.mime_type == "multipart/digest" else "text/plain"  # RFC 2046 5.1.5
    for position, (start, end) in enumerate(spans, 1):
        if budget.parts <= 0:
            warnings.append(TOO_MANY)
            return
        budget.parts -= 1
        number = f"{part.number}.{position}" if part.number else str(position)
        fields, body = _header(part.source, start, end, warnings)
        child = _part(part.source, number, field_reading.by_name(fields), (body, end), default_type)
        child.begin = start
        part.children.append(child)
        _descend(child, budget, depth + 1, warnings)


def _spans(part: Part, budget: _Budget, warnings: list[str]) -> list[tuple[int, int]]:
    """Where the parts of a multipart begin and end (RFC 2046 5.1.1)."""
    boundary = _boundary(part.parameters)
    if not boundary:
        guess = _FIRST_BOUNDARY.search(part.source, max(0, part.start - 1), min(part.end, part.start + 10_000))
        warnings.append("A boundary between parts is missing.")
        if not guess:
            return []
        boundary = guess[1].rstrip()
    spans: list[tuple[int, int]] = []
    opened: int | None = None
    for line_start, line_end, closing in _delimiters(part, b"--" + boundary, budget):
        if opened is not None:
            spans.append((opened, max(opened, line_start)))
        opened = None if closing else line_end
        if closing or len(spans) > MAX_PARTS:
            break
    if opened is not None and opened < part.end and len(spans) <= MAX_PARTS:
        warnings.append("The end of a part is missing.")
        spans.append((opened, part.end))
    elif not spans and opened is None:
        warnings.append("A boundary between parts is missing.")
    return spans


def _delimiters(part: Part, delimiter: bytes, budget: _Budget) -> list[tuple[int, int, bool]]:
    """The delimiter lines: where the line break before begins, where the next line begins, whether it closes."""
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


def from_quoted_printable(raw: bytes) -> bytes:
    """The decoded bytes of whole lines; what is no quoted-printable stays as it is."""
    # RFC 2045 6.7 (3): white space at the end of a line was added on the way.
    if any(space in raw for space in (_SPACES_AT_END if b"\r" in raw or b"\t" in raw else (b" \n",))):
        raw = _TRAILING_SPACE.sub(b"", raw)
    return binascii.a2b_qp(raw)
