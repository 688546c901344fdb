"""A large message is read without its files, with the same result."""

import random
import time
from datetime import UTC, datetime

import pytest

from mailbox_appliance.mail import outline
from mailbox_appliance.mail.compose import compose, with_bcc
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.model.messages import Address, OutgoingAttachment, OutgoingMessage

NOISE = random.Random(3).randbytes(3 * LARGE)
ME = Address(email="me@example.org")


def file(name: str, content: bytes, mime_type: str = "application/octet-stream") -> OutgoingAttachment:
    return OutgoingAttachment(name, mime_type, content)


def source(*files: OutgoingAttachment, text: str = "Hello", html: str | None = None) -> Content:
    message = OutgoingMessage(sender=ME, to=(ME,), bcc=(ME,), subject="s", text=text, html=html, attachments=files)
    made = compose(message, message_id="<a@example.org>", date=datetime(2026, 1, 2, tzinfo=UTC))
    return with_bcc(made.wire, made.bcc_header)


INNER = source(file("inner", NOISE)).read()
SOURCES = {
    "one file": source(file("a", NOISE)),
    "odd sizes": source(*(file(f"f{n}", NOISE[: LARGE + n]) for n in range(60))),
    "an image that is shown": source(
        OutgoingAttachment("i.png", "image/png", NOISE, "i@x", inline=True), html='<img src="cid:i@x">'
    ),
    "an attached message": source(file("m.eml", INNER, "message/rfc822")),
    "a text file": source(file("t.txt", b"a line of text\r\n" * 100_000, "text/plain")),
    "a long text": source(file("a", NOISE), text="ä" * 400_000),
    "a text that looks like a file": source(file("a", NOISE), text=("A" * 76 + "\n") * 20_000),
    "lines of 72": Content(
        b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: image/png\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + (b"A" * 72 + b"\r\n") * 30_000 + b"AAA=\r\n--x--\r\n"
    ),
    "not large": source(file("a", NOISE[:1000])),
    "no message": Content(NOISE),
}


@pytest.mark.parametrize("content", SOURCES.values(), ids=SOURCES)
def test_it_says_what_the_whole_says(content: Content) -> None:
    assert parse_content(content) == parse_message(content.read())


@pytest.mark.parametrize(
    "name", ["one file", "odd sizes", "an image that is shown", "an attached message", "lines of 72"]
)
def test_files_are_left_out_before_it_is_parsed(name: str) -> None:
    assert sum(map(len, outline._outline(SOURCES[name], {}))) < LARGE // 4


def encoded(width: int, lines: int) -> bytes:
    return (b"A" * width + b"\r\n") * lines


SLOW = {
    "64 columns": encoded(64, 120_000),
    "75 columns": encoded(75, 100_000),
    "990 columns": encoded(990, 8_000),
    "short runs": (encoded(76, 63) + b"\r\n") * 1_600,
}


@pytest.mark.parametrize("body", SLOW.values(), ids=SLOW)
def test_lines_of_any_length_are_quick(body: bytes) -> None:
    message = Content(b"Subject: x\r\n\r\n" + body)
    began = time.process_time()
    found = parse_content(message)
    assert time.process_time() - began < 0.8  # seconds for 8 MB; it was 1.1 to 1.7
    assert found == parse_message(message.read())
