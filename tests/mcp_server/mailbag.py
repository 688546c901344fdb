"""The mailbox of the client tests: a conversation, a long letter, one with files, and more to fill pages."""

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass

SENDER = "Bartje Poulsen <bartje@example.test>"
#: The search term, which only one letter contains.
RARE = "Kniephafen"
ANSWERS, FILLERS = 12, 20
#: All letters together.
COUNT = FILLERS + ANSWERS + 2
CONVERSATION, LONG, FILES = "Sailing to Norderney", "The long letter", "Charts and tide tables"


@dataclass(frozen=True)
class File:
    """An attachment and its content."""

    name: str
    media_type: str
    content: bytes


TIDES = File("tides.txt", "text/plain", b"High water 06:12, low water 12:31.\r\n" * 30)
CHART = File("chart.pdf", "application/pdf", b"%PDF-1.4\n" + random.Random(7).randbytes(200_000))


def long_text() -> str:
    """Return some 45,000 characters, some of several bytes or UTF-16 units."""
    lines = [
        f"Day {number}: wind from the north-west, Grüße von der Fähre \N{SAILBOAT}, log {number * 37}."
        for number in range(650)
    ]
    return "\n".join(lines)


def letters(to: str) -> Iterator[bytes]:
    """Yield all letters, oldest first."""
    for number in range(FILLERS):
        yield _letter(to, f"Note {number}", f"Nothing much happened on day {number}.", f"note{number}")
    for number in range(ANSWERS):
        before = [f"<sail{earlier}@example.test>" for earlier in range(number)]
        subject = CONVERSATION if number == 0 else f"Re: {CONVERSATION}"
        yield _letter(to, subject, f"Message {number} about the trip. " * 20, f"sail{number}", before)
    yield _letter(to, LONG, long_text(), "long")
    yield _with_files(to)


def _head(to: str, subject: str, name: str, references: list[str]) -> str:
    fields = [f"From: {SENDER}", f"To: {to}", f"Subject: {subject}", f"Message-ID: <{name}@example.test>"]
    fields += ["Date: Sat, 21 Nov 2026 05:00:00 +0000", "MIME-Version: 1.0"]
    if references:
        fields += [f"In-Reply-To: {references[-1]}", "References: " + "\r\n ".join(references)]
    return "\r\n".join(fields)


def _letter(to: str, subject: str, text: str, name: str, references: list[str] | None = None) -> bytes:
    head = _head(to, subject, name, references or [])
    body = text.replace("\n", "\r\n")
    return (
        f"{head}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{body}".encode()
    )


def _with_files(to: str) -> bytes:
    text = f"The harbour is called {RARE}. See the files."
    parts = [f"Content-Type: text/plain; charset=utf-8\r\n\r\n{text}"]
    for file in (TIDES, CHART):
        head = f'Content-Type: {file.media_type}\r\nContent-Disposition: attachment; filename="{file.name}"'
        content = base64.encodebytes(file.content).decode().replace("\n", "\r\n")
        parts.append(f"{head}\r\nContent-Transfer-Encoding: base64\r\n\r\n{content}")
    inner = "".join(f"--edge\r\n{part}\r\n" for part in parts)
    head = _head(to, FILES, "files", [])
    return f"{head}\r\nContent-Type: multipart/mixed; boundary=edge\r\n\r\n{inner}--edge--\r\n".encode()
