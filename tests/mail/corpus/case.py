"""Hard messages and their expected results."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

#: An expected attachment: name, type, decoded bytes, Content-ID, disposition.
Listed = tuple[str, str, int, str | None, str | None]


@dataclass(frozen=True)
class Case:
    """A message and its expected result: only the fields in `expected` are compared, and no other warning may
    appear.
    """

    name: str
    source: bytes = field(repr=False)
    expected: dict[str, Any]
    warned: str = ""  # words of each warning, in order, separated by a vertical bar; empty: no warning
    is_well_formed: bool = True  # the standard library must read the same


def case(name: str, source: str | bytes, *, warned: str = "", broken: bool = False, **expected: Any) -> Case:
    """Return a case from a source with line feeds, which become CRLF. Text is encoded as UTF-8."""
    raw = source.encode() if isinstance(source, str) else source
    return verbatim(name, raw.replace(b"\n", b"\r\n"), warned=warned, broken=broken, **expected)


def verbatim(name: str, source: bytes, *, warned: str = "", broken: bool = False, **expected: Any) -> Case:
    """Return a case from unchanged bytes."""
    return Case(name, source, expected, warned, not (broken or warned))


def subjects(kind: str, rows: list[tuple[str | bytes, str]], *, broken: bool = False) -> Iterator[Case]:
    """Yield messages that test their Subject."""
    for number, (raw, subject) in enumerate(rows, 1):
        written = raw.encode() if isinstance(raw, str) else raw
        source = b"From: a@example.com\nSubject: " + written + b"\n\nText.\n"
        yield case(f"{kind} {number}", source, broken=broken, subject=subject, text="Text.")


def addresses(kind: str, rows: list[tuple[str, list[str]]], *, broken: bool = False) -> Iterator[Case]:
    """Yield messages that test their To field. An expected address has the form `name|email`."""
    for number, (raw, expected) in enumerate(rows, 1):
        source = f"From: a@example.com\nTo: {raw}\nSubject: x\n\nText.\n"
        yield case(f"{kind} {number}", source, broken=broken, to=expected, subject="x", text="Text.")


def dates(kind: str, rows: list[tuple[str, str | None]], *, broken: bool = False) -> Iterator[Case]:
    """Yield messages that test their Date. Expected dates are in UTC."""
    for number, (raw, expected) in enumerate(rows, 1):
        source = f"From: a@example.com\nDate: {raw}\nSubject: x\n\nText.\n"
        moment = datetime.fromisoformat(expected).replace(tzinfo=UTC) if expected else None
        yield case(f"{kind} {number}", source, broken=broken, date=moment, subject="x", text="Text.")


def names(kind: str, rows: list[tuple[str | bytes, str]], *, broken: bool = False) -> Iterator[Case]:
    """Yield messages that test the name of their only attachment, given as the text after `attachment` or a whole
    Content-Type field.
    """
    for number, (raw, expected) in enumerate(rows, 1):
        written = raw.encode() if isinstance(raw, str) else raw
        if not written.startswith(b"Content-Type"):
            written = b"Content-Type: application/pdf\nContent-Disposition: attachment" + written
        source = b"Subject: x\n" + written + b"\nContent-Transfer-Encoding: base64\n\nJVBERg==\n"
        yield case(f"{kind} {number}", source, broken=broken, names=[expected], text=None, sizes=[4])


def texts(kind: str, rows: list[tuple[str, bytes, str, str]], *, broken: bool = False) -> Iterator[Case]:
    """Yield messages of one text: the text after `text/plain` with other fields; the body; the expected text; words of
    a warning.
    """
    for number, (fields, body, text, warned) in enumerate(rows, 1):
        head = f"Subject: x\nMIME-Version: 1.0\nContent-Type: text/plain{fields}\n\n".replace("\n", "\r\n").encode()
        yield verbatim(f"{kind} {number}", head + body, warned=warned, broken=broken, subject="x", text=text, html=None)
