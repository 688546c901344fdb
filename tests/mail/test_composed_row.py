"""The row of a composed message equals the parsed result of its bytes. If that is not certain, there is no row."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailbox_appliance.mail.compose import compose, with_bcc, with_plain_text
from mailbox_appliance.mail.forward import forward_message
from mailbox_appliance.mail.html.analysis import TAG_READER
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.search import with_searched_words
from mailbox_appliance.model.messages import Address, ComposedMessage, OutgoingAttachment, OutgoingMessage

DATE = datetime(2026, 3, 1, 12, 30, 5, 678, tzinfo=UTC)
ANN = Address(email="ann@example.org", name="Ann")
BOB = Address(email="Bob.B+x@example.com")
UMLAUTS = Address(email="karl@müller.example", name="Müller, „Karl“ \U0001f600")
QUOTED = Address(email="q@example.org", name='A. "Q" (x) <y@z>, \\ 1')
MANY = tuple(Address(email=f"p{n}@example.org", name=f"Pérson {n}" if n % 3 else "") for n in range(40))
PDF = OutgoingAttachment("résumé 1.pdf", "application/pdf", b"%PDF" * 5000)
LOGO = OutgoingAttachment("logo.png", "image/png", b"\x89PNG\0", "<logo@x>", inline=True)
EMPTY = OutgoingAttachment("", "text/plain", b"")
NOTE = OutgoingAttachment("note.txt", 'text/plain; charset="iso-8859-1"; format=flowed', b"caf\xe9 \n", inline=True)
PAGE = OutgoingAttachment("page.html", "text/HTML", "<p>é</p>".encode())
MAIL = OutgoingAttachment("a.eml", "message/rfc822", b"Subject: =?utf-8?q?x?=\n\nHello")
ODD_MAIL = OutgoingAttachment("", "message/rfc822", b"Subject: \xff\n\nHello")
LARGE = OutgoingAttachment("big.bin", "application/octet-stream", bytes(3 << 20))
HTML = '<html><body><p>Grüße <b>an</b> alle</p><img src="cid:logo@x"></body></html>'
ORIGINAL = b"From: C <c@example.org>\r\nSubject: =?utf-8?b?w6k=?=\r\nMessage-ID: <o@x>\r\n\r\nOriginal\r\n"


def made(**fields: Any) -> ComposedMessage:
    message = OutgoingMessage(**({"sender": ANN, "to": (BOB,), "subject": "Hello", "text": "Hi"} | fields))  # type: ignore[arg-type]
    return compose(with_plain_text(message, TAG_READER), message_id="<0123456789abcdef@example.com>", date=DATE)


def assert_equal(composed: ComposedMessage) -> None:
    assert composed.row is not None
    read = parse_content(with_bcc(composed.wire, composed.bcc_header))
    assert with_searched_words(composed.row) == with_searched_words(read)
    assert list(composed.row.headers) == list(read.headers)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text": ""},
        {"text": None, "subject": "", "attachments": (EMPTY,)},
        {"subject": "Grüße, " * 20 + "Ende"},
        {"subject": "long " * 30 + "end"},
        {"subject": "x" * 300},
        {"sender": UMLAUTS, "to": (QUOTED, UMLAUTS, BOB), "cc": (ANN, QUOTED), "bcc": (UMLAUTS, ANN)},
        {"to": MANY, "cc": MANY[:3], "bcc": MANY[3:5]},
        {"to": (), "cc": (), "bcc": (BOB,)},
        {"to": (), "cc": (BOB,)},
        {"to": (Address(email="a@b.example", name="a@b.example"),)},
        {"text": "> quoted\r\nown\rwords \t\n\n-- \nFrom me\n.dot\n" + "word " * 100},
        {"text": "東京都 \u200b\u202e\U0001f468\u200d\U0001f469 " * 60 + "\n\n\n"},
        {"text": "A" * 200 + " tail=\n" + "=?utf-8?q?x?= " * 40},
        {"text": "base64 like\n" + ("QUJD" * 19 + "\n") * 100},
        {"text": None, "html": HTML},
        {"text": "Plain\n", "html": HTML + "\r\n\n", "attachments": (LOGO,)},
        {"text": None, "html": HTML, "attachments": (LOGO, LOGO, PDF, EMPTY, MAIL)},
        {"html": HTML, "attachments": (PDF,)},
        {"attachments": (PDF, LOGO, NOTE, PAGE, MAIL, ODD_MAIL, EMPTY)},
        {"attachments": (LARGE, PDF), "text": "é" * 30_000},
        {"in_reply_to": "<p@x>", "references": ("<r@x>", "<p@x>", "<r@x>", "bare@x", "<no good>")},
        {"references": tuple(f"<{'reference' * 4}{n}@example.org>" for n in range(50))},
    ],
)
def test_a_common_message_has_its_row_and_it_is_what_is_read(fields: dict[str, Any]) -> None:
    assert_equal(made(**fields))


def test_a_forward_has_its_row() -> None:
    told = forward_message(parse_message(ORIGINAL), "See über", with_attachments=True, reader=TAG_READER)
    files = (OutgoingAttachment("original.eml", "message/rfc822", ORIGINAL),)
    assert_equal(made(subject=told.subject, text=told.text, html=told.html, attachments=files))


@pytest.mark.parametrize(
    "fields",
    [
        {"subject": "=?utf-8?q?x?="},
        {"subject": "two  spaces"},
        {"to": (Address(email="jürgen@example.org"),)},
        {"to": (Address(email="o'brien@example.org"),)},
        {"to": (Address(email="a=b@example.org"),)},
        {"to": (Address(email="a@example.org", name="'Ann'"),)},
        {"to": MANY * 4},
        {"text": "a\0b"},
        {"text": "\ufeffx"},
        {"text": "\ud800"},
        {"text": "x" * 70_000},
        {"text": " ", "html": "<img src='x'>"},
        {"in_reply_to": "<=?utf-8?q?x?=@x>"},
    ],
)
def test_where_bytes_may_be_read_in_another_way_there_is_none(fields: dict[str, Any]) -> None:
    assert made(**fields).row is None


LETTERS = "ab Z9.,;:<>@()[]=?_'\"\\/%*+-\t\n\réß東\u200b\u202e\xa0\xad\u2028\U0001f600\x1b\x7f\x85"
NASTY = st.text(st.sampled_from(LETTERS), max_size=60)
LINE = (NASTY | st.text(max_size=80)).map(lambda text: " ".join(text.split()))
PIECE = NASTY | st.text(max_size=100) | st.sampled_from(["From x", ".", "-- ", "> q", "x " * 50])
BODY = st.lists(PIECE, max_size=8).map("\n".join)
EMAIL = st.sampled_from(
    [*(each.email for each in (ANN, BOB, UMLAUTS, QUOTED)), "o'b@x.example", "a=b@x.example", "x_y/z@1.example"]
)
PEOPLE = st.lists(st.builds(Address, email=EMAIL, name=LINE), max_size=6).map(tuple)
FILE = st.builds(
    OutgoingAttachment,
    LINE,
    st.sampled_from(
        ["text/plain", "text/html", "image/png", "message/rfc822", "application/x-y; a=b", "TEXT/Calendar"]
    ),
    st.binary(max_size=300),
    st.none() | st.sampled_from(["c@x", "<c@x>", "=?c?=", "a'b", "(c)", "c;d"]),
    st.booleans(),
)
MESSAGE = st.builds(
    OutgoingMessage,
    sender=st.builds(Address, email=EMAIL, name=LINE),
    to=PEOPLE,
    cc=PEOPLE,
    bcc=PEOPLE,
    subject=LINE,
    text=st.none() | BODY,
    html=st.none() | BODY.map(lambda text: f"<p>{text}</p>") | BODY,
    attachments=st.lists(FILE, max_size=4).map(tuple),
    in_reply_to=st.none() | st.sampled_from(["<a@b>", "a@b", "<a?=b@c>", "<'a'@b>", "<(a)@b>"]),
    references=st.lists(st.sampled_from(["<a@b>", "<c;d@e>", '<"q"@x>', "<A@B>"]), max_size=5).map(tuple),
)


@settings(max_examples=300, deadline=None)
@given(MESSAGE)
def test_whatever_is_composed_its_row_is_what_is_read_or_there_is_none(message: OutgoingMessage) -> None:
    try:
        composed = compose(message, message_id="<0123@example.com>", date=DATE)
    except ValueError:
        return
    if composed.row is not None:
        assert_equal(composed)
