"""What a hard message is, and what must come out of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

#: How an attachment is expected: name, type, bytes decoded, content id, disposition.
Listed = tuple[str, str, int, str | None, str | None]


@dataclass(frozen=True)
class Case:
    """A message and its point: only the fields of `expected` are compared, and that nothing is warned of unasked."""

    name: str
    source: bytes = field(repr=False)
    expected: dict[str, Any]
    warned: str = ""  # words of each warning, in their order, with `|` between; empty: there must be none
    is_well_formed: bool = True  # the standard library must read the same


def case(name: str, source: str | bytes, *, warned: str = "", broken: bool = False, **expected: Any) -> Case:
    """A case from a source with line feeds, which become CRLF; text is UTF-8."""
    raw = source.encode() if isinstance(source, str) else source
    return verbatim(name, raw.replace(b"\n", b"\r\n"), warned=warned, broken=broken, **expected)


def verbatim(name: str, source: bytes, *, warned: str = "", broken: bool = False, **expected: Any) -> Case:
    """A case from the very bytes."""
    return Case(name, source, expected, warned, not (broken or warned))


def subjects(kind: str, rows: list[tuple[str | bytes, str]], *, broken: bool = False) -> Iterator[Case]:
    """Messages that are all about their Subject."""
    for number, (raw, subject) in enumerate(rows, 1):
        written = raw.encode() if isinstance(raw, str) else raw
        source = b"From: a@example.com\nSubject: " + written + b"\n\nText.\n"
        yield case(f"{kind} {number}", source, broken=broken, subject=subject, text="Text.")


def addresses(kind: str, rows: list[tuple[str, list[str]]], *, broken: bool = False) -> Iterator[Case]:
    """Messages that are all about their To field; an address is expected as `name|email`."""
    for number, (raw, expected) in enumerate(rows, 1):
        source = f"From: a@example.com\nTo: {raw}\nSubject: x\n\nText.\n"
        yield case(f"{kind} {number}", source, broken=broken, to=expected, subject="x", text="Text.")


def dates(kind: str, rows: list[tuple[str, str | None]], *, broken: bool = False) -> Iterator[Case]:
    """Messages that are all about their Date; what is expected is in UTC."""
    for number, (raw, expected) in enumerate(rows, 1):
        source = f"From: a@example.com\nDate: {raw}\nSubject: x\n\nText.\n"
        moment = datetime.fromisoformat(expected).replace(tzinfo=UTC) if expected else None
        yield case(f"{kind} {number}", source, broken=broken, date=moment, subject="x", text="Text.")


def names(kind: str, rows: list[tuple[str | bytes, str]], *, broken: bool = False) -> Iterator[Case]:
    """Messages whose one attachment is all about its name: what follows `attachment`, or a whole Content-Type field."""
    for number, (raw, expected) in enumerate(rows, 1):
        written = raw.encode() if isinstance(raw, str) else raw
        if not written.startswith(b"Content-Type"):
            written = b"Content-Type: application/pdf\nContent-Disposition: attachment" + written
        source = b"Subject: x\n" + written + b"\nContent-Transfer-Encoding: base64\n\nJVBERg==\n"
        yield case(f"{kind} {number}", source, broken=broken, names=[expected], text=None, sizes=[4])


def texts(kind: str, rows: list[tuple[str, bytes, str, str]], *, broken: bool = False) -> Iterator[Case]:
    """Messages of one text: what follows `text/plain`, and other fields; the body; the text; words of a warning."""
    for number, (fields, body, text, warned) in enumerate(rows, 1):
        head = f"Subject: x\nMIME-Version: 1.0\nContent-Type: text/plain{fields}\n\n".replace("\n", "\r\n").encode()
        yield verbatim(f"{kind} {number}", head + body, warned=warned, broken=broken, subject="x", text=text, html=None)
