"""Composed messages, read back with the `email` package, which shares no code with the writer."""

import email
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.header import decode_header
from email.message import Message
from email.utils import collapse_rfc2231_value, getaddresses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailbox_appliance.mail.compose import compose, encode_text, has_text, new_message_id, with_bcc, with_date
from mailbox_appliance.mail.html.analysis import TAG_READER
from mailbox_appliance.mail.parse import attachment_bytes, parse_message
from mailbox_appliance.mail.preview import preview_of
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.messages import Address, ComposedMessage, OutgoingAttachment, OutgoingMessage

DATE = datetime(2026, 3, 1, 12, 30, 5, tzinfo=timezone(timedelta(hours=1)))
MESSAGE_ID = "<0123456789abcdef@example.com>"
ALICE = Address(email="alice@example.com", name="Alice")
BOB = Address(email="bob@example.org")


def file(name: str, content: bytes = b"x", mime_type: str = "application/pdf") -> OutgoingAttachment:
    return OutgoingAttachment(filename=name, mime_type=mime_type, content=content)


def image(content_id: str) -> OutgoingAttachment:
    return OutgoingAttachment("logo.png", "image/png", b"\x89PNG\r\n\x1a\n\0", content_id, inline=True)


def outgoing(**fields: object) -> OutgoingMessage:
    return OutgoingMessage(**({"sender": ALICE, "to": (BOB,), "subject": "Hello", "text": "Hi"} | fields))  # type: ignore[arg-type]


def made(message: OutgoingMessage) -> ComposedMessage:
    return compose(message, message_id=MESSAGE_ID, date=DATE)


def decoded(value: str) -> str:
    """Return a header value as RFC 2047 readers see it, decoded by the standard library."""
    unfolded = re.sub(r"\r?\n", "", value)
    return "".join(t.decode(c or "ascii") if isinstance(t, bytes) else t for t, c in decode_header(unfolded))


def people(message: Message, name: str) -> list[tuple[str, str]]:
    found = getaddresses([re.sub(r"\r?\n", "", value) for value in message.get_all(name, [])])
    return [(decoded(shown), address) for shown, address in found if "@" in address]


def filename(part: Message) -> str:
    found = part.get_param("filename", header="Content-Disposition")
    return collapse_rfc2231_value(found) if found else ""


def leaves(message: Message) -> Iterator[Message]:
    for part in message.walk():
        if not part.is_multipart():
            yield part


def lines(text: str) -> str:
    """Return text as it must arrive: CRLF after each line, whatever the line breaks were."""
    body = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    return body if not body or body.endswith("\r\n") else body + "\r\n"


LONG_REFERENCES = tuple(f"<{number:04d}.{'r' * 40}@mail.example.com>" for number in range(40))
MESSAGES = {
    "plain": outgoing(),
    "empty": outgoing(text=None, subject=""),
    "empty text": outgoing(text=""),
    "subject of 300 letters": outgoing(subject="s" * 300),
    "subject of 300 words": outgoing(subject="word " * 299 + "end"),
    "subject of 300 emoji": outgoing(subject="🎉" * 300),
    "subject with accents": outgoing(subject="Größe und Maße für die Übersicht " * 5 + "!"),
    "subject in Chinese": outgoing(subject="请查看附件中的合同" * 12),
    "subject with spaces": outgoing(subject="  two  spaces   everywhere  "),
    "subject with a tab": outgoing(subject="a\tb"),
    "subject that looks encoded": outgoing(subject="=?utf-8?Q?Hello?="),
    "subject that looks encoded, in text": outgoing(subject="see =?utf-8?B?SGVsbG8=?= there"),
    "subject that looks half encoded": outgoing(subject="=?utf-8?Q?Hello and =? and ?="),
    "subject with combining marks": outgoing(subject="e\u0301" * 80),
    "subject with a colon": outgoing(subject="Bcc: eve@example.com"),
    "name with a comma": outgoing(to=(Address(email="a@b.example", name="Doe, Jane"),)),
    "name with quotes": outgoing(to=(Address(email="a@b.example", name='Jane "JD" Doe'),)),
    "name with a backslash": outgoing(to=(Address(email="a@b.example", name="back\\slash\\"),)),
    "name with brackets": outgoing(to=(Address(email="a@b.example", name="Jane <x@y> (Doe); [z]:"),)),
    "name with an accent and a comma": outgoing(to=(Address(email="a@b.example", name="Müller, Jörg"),)),
    "name with an accent and quotes": outgoing(to=(Address(email="a@b.example", name='Jörg "der" \\ Große'),)),
    "name of emoji": outgoing(to=(Address(email="a@b.example", name="🎈 Party 👩‍👩‍👧‍👦 🎈"),)),
    "name that looks encoded": outgoing(to=(Address(email="a@b.example", name="=?utf-8?Q?Eve?="),)),
    "name that is an address": outgoing(to=(Address(email="a@b.example", name="c@d.example"),)),
    "name of 300 letters": outgoing(to=(Address(email="a@b.example", name="n" * 300),)),
    "name of 100 words with quotes": outgoing(to=(Address(email="a@b.example", name='"word" ' * 99 + "end"),)),
    "name with a dot": outgoing(to=(Address(email="a@b.example", name="J. R. Doe"),)),
    "empty name": outgoing(to=(Address(email="a@b.example", name=""),)),
    "100 recipients": outgoing(to=tuple(Address(email=f"p{n}@b.example", name=f"Pérson, {n}") for n in range(100))),
    "cc": outgoing(cc=(Address(email="c@d.example", name="C"), Address(email="e@f.example"))),
    "bcc only": outgoing(to=(), bcc=(BOB,)),
    "long address": outgoing(to=(Address(email="l" * 64 + "@" + "d" * 60 + ".example"),)),
    "reply": outgoing(in_reply_to="<parent@example.com>", references=("<root@example.com>", "<parent@example.com>")),
    "long references": outgoing(references=LONG_REFERENCES),
    "dots at line starts": outgoing(text=".\n..\n.dot\nmiddle\n."),
    "From at line starts": outgoing(text="From me\n>From you\nFrom"),
    "line of 10,000 letters": outgoing(text="x" * 10_000),
    "line of 10,000 dots": outgoing(text="." * 10_000),
    "line of 10,000 emoji": outgoing(text="🎉" * 10_000),
    "trailing spaces": outgoing(text="one  \ntwo\t\n  \nend "),
    "blank lines": outgoing(text="\n\none\n\n\ntwo\n\n"),
    "lone CR": outgoing(text="one\rtwo\r\rthree"),
    "mixed line breaks": outgoing(text="one\r\ntwo\nthree\r"),
    "NUL in text": outgoing(text="a\0b"),
    "controls in text": outgoing(text="a\x07b\x1b[0m\x7f\x0cc"),
    "text in German": outgoing(text="Schöne Grüße aus Köln\n" * 20),
    "text in Russian": outgoing(text="Счёт на оплату за март\n" * 20),
    "text with equals signs": outgoing(text="a=b =20 =\n=E4"),
    "text like a boundary": outgoing(text="--=_mixed_0\n--\n", attachments=(file("a.pdf"),)),
    "line separators in text": outgoing(text="a\u2028b\u2029c\x85d"),
    "text and HTML": outgoing(html="<p>Grüße</p>"),
    "HTML with long lines": outgoing(html="<p>" + "x" * 5000 + "</p>\n.\n"),
    "inline image": outgoing(html='<img src="cid:logo">', attachments=(image("logo"),)),
    "inline image and file": outgoing(html='<img src="cid:a@b">', attachments=(image("<a@b>"), file("x.pdf"))),
    "inline image without HTML": outgoing(attachments=(image("logo"),)),
    "100 files": outgoing(attachments=tuple(file(f"f{n}.bin", bytes([n]) * n) for n in range(100))),
    "file name with quotes": outgoing(attachments=(file('a "b" c.pdf'),)),
    "file name in Unicode": outgoing(attachments=(file("Überweisung – Größe 🎉.pdf"),)),
    "file name of 200 letters": outgoing(attachments=(file("ü" * 150 + "n" * 46 + ".pdf"),)),
    "file name with percent and quotes": outgoing(attachments=(file("100%25 'sure'; x=\"y\".pdf"),)),
    "file name that looks encoded": outgoing(attachments=(file("=?utf-8?Q?a.pdf?="),)),
    "text file kept exactly": outgoing(attachments=(file("a.txt", b"a\nb\r\nc\rd\xff\0 \n.\n", "text/plain"),)),
    "empty file": outgoing(attachments=(file("empty.bin", b""),)),
    "calendar": outgoing(attachments=(file("i.ics", "Grüße".encode(), 'text/calendar; method=REQUEST; x="a b"'),)),
}  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_an_independent_reader_gets_every_field_back(message: OutgoingMessage) -> None:
    wire = made(message).wire.read()
    read = email.message_from_bytes(wire)
    assert [part.defects for part in read.walk() if part.defects] == []
    assert decoded(read.get("Subject", "")) == message.subject
    for name, addresses in (("From", (message.sender,)), ("To", message.to), ("Cc", message.cc)):
        assert people(read, name) == [(a.name if isinstance(a.name, str) else "", a.email) for a in addresses]
    assert read["Bcc"] is None
    assert read["Date"] == "Sun, 01 Mar 2026 12:30:05 +0100"
    assert read["Message-ID"] == MESSAGE_ID
    assert (read["In-Reply-To"] or None) == message.in_reply_to
    assert tuple(re.sub(r"\r\n", "", read["References"] or "").split()) == message.references
    texts = [part for part in leaves(read) if part.get_content_disposition() is None]
    assert _text(texts[0]) == lines(message.text or "")
    assert [_text(part) for part in texts[1:]] == ([lines(message.html)] if message.html is not None else [])
    files = [part for part in leaves(read) if part.get_content_disposition() is not None]
    wanted = sorted(message.attachments, key=lambda a: not (a.inline and message.html is not None))
    assert [(filename(p), p.get_payload(decode=True), p.get_content_type()) for p in files] == [
        (a.filename, a.content, a.mime_type.partition(";")[0]) for a in wanted
    ]


def _text(part: Message) -> str:
    raw = part.get_payload(decode=True)
    assert isinstance(raw, bytes)
    return raw.decode(part.get_content_charset("ascii"))


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_the_bytes_pass_every_server(message: OutgoingMessage) -> None:
    wire = made(message).wire.read()
    assert wire.isascii()
    assert b"\0" not in wire
    assert not {0x0A, 0x0D} & set(wire.replace(b"\r\n", b""))
    head, _, body = wire.partition(b"\r\n\r\n")
    assert max(map(len, body.split(b"\r\n"))) <= 78
    # Only a single word makes a longer line: an address or a Message-ID, which is never cut.
    assert all(len(line) <= 78 or b" " not in line.strip().split(b": ", 1)[-1] for line in head.split(b"\r\n"))
    assert max(map(len, head.split(b"\r\n"))) <= 998
    assert not re.search(rb"^\.", body, re.M)


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_our_own_reader_gets_the_same(message: OutgoingMessage) -> None:
    read = parse_message(made(message).wire.read())
    assert read.warnings == ()
    assert read.subject == message.subject.replace("\t", " ")
    assert [a.email for a in read.to] == [a.email for a in message.to]
    assert read.references == message.references
    assert read.text == lines(message.text or "").replace("\r\n", "\n").rstrip("\n").replace("\0", "")
    wanted = sorted(message.attachments, key=lambda a: not (a.inline and message.html is not None))
    assert [attachment_bytes(made(message).wire.read(), a.part) for a in read.attachments] == [
        a.content for a in wanted
    ]


def structure(message: Message) -> object:
    if not message.is_multipart():
        return message.get_content_type()
    parts = (structure(part) for part in message.get_payload() if isinstance(part, Message))
    return (message.get_content_type(), *parts)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (outgoing(), "text/plain"),
        (outgoing(text=None), "text/plain"),
        (outgoing(text=None, html="<b>x</b>"), ("multipart/alternative", "text/plain", "text/html")),
        (
            outgoing(html="<img>", attachments=(image("a"), file("x.pdf"))),
            (
                "multipart/mixed",
                ("multipart/alternative", "text/plain", ("multipart/related", "text/html", "image/png")),
                "application/pdf",
            ),
        ),
        (outgoing(attachments=(file("x.pdf"),)), ("multipart/mixed", "text/plain", "application/pdf")),
        (outgoing(attachments=(image("a"),)), ("multipart/mixed", "text/plain", "image/png")),
    ],
)
def test_a_message_has_the_levels_it_needs(message: OutgoingMessage, expected: object) -> None:
    assert structure(email.message_from_bytes(made(message).wire.read())) == expected


@pytest.mark.parametrize("text", [None, "", " \r\n\t\u00a0"])
def test_only_html_gets_a_text_made_from_it(text: str | None) -> None:
    assert (
        parse_message(made(outgoing(text=text, html="<h1>Hi</h1><p>Größe<br>M</p>")).wire.read()).text
        == "Hi\n\nGröße\nM"
    )


@pytest.mark.parametrize(
    ("given", "mime_type", "name"),
    [
        ("../../etc/passwd", "text/plain", "passwd"),
        ("C:\\temp\\boot.ini", "text/plain", "boot.ini"),
        ("a/b\\c.txt", "text/plain", "c.txt"),
        ("rtl\u202etxt.exe", "text/plain", "rtltxt.exe"),
        ("\u2066a\u2069\u200e.pdf", "application/pdf", "a.pdf"),
        ("a\tb.txt ", "text/plain", "ab.txt"),
        ("", "text/plain", "attachment.txt"),
        (" ", "image/png; x=y", "attachment.png"),
        (".", "IMAGE/JPEG", "attachment.jpg"),
        ("..", "message/rfc822", "attachment.eml"),
        ("x/", "application/x-y", "attachment"),
        ("\\", "application/pdf", "attachment.pdf"),
        (".htaccess", "text/plain", ".htaccess"),
        ("x" * 300 + ".pdf", "application/pdf", "x" * 196 + ".pdf"),
        ("x" * 199 + " y", "application/pdf", "x" * 199),
    ],
)
def test_a_file_is_called_on_the_wire_what_the_preview_calls_it(given: str, mime_type: str, name: str) -> None:
    composed = made(outgoing(attachments=(file(given, b"\xff", mime_type),)))
    assert [filename(part) for part in leaves(email.message_from_bytes(composed.wire.read()))][1:] == [name]
    assert [each.filename for each in preview_of("acc_1", composed, "").attachments] == [name]


def test_an_inline_image_has_its_content_id() -> None:
    read = email.message_from_bytes(made(outgoing(html="<img>", attachments=(image("<a@b>"),))).wire.read())
    assert [part["Content-ID"] for part in leaves(read) if part["Content-ID"]] == ["<a@b>"]


@pytest.mark.parametrize(
    "message",
    [
        outgoing(to=(Address(email="a@b\r\nBcc: c@d"),)),
        outgoing(to=(Address(email="no address"),)),
        outgoing(attachments=(file("a", mime_type="pdf"),)),
        outgoing(attachments=(file("a", mime_type="text/plain; x"),)),
        outgoing(attachments=(file("a", mime_type="multipart/mixed"),)),
        outgoing(attachments=(file("a", mime_type="text/plain;"),)),
        outgoing(attachments=(file("a", mime_type="text/plain; charset=a b"),)),
        outgoing(attachments=(file("a", mime_type="text/plain; charset=a/b"),)),
        outgoing(attachments=(file("a", mime_type='text/plain; charset="a'),)),
        outgoing(attachments=(file("a", mime_type="text/plain; charset=a; CHARSET=b"),)),
        outgoing(attachments=(file("a", mime_type="text/plain" + "".join(f"; p{n}=v" for n in range(21))),)),
        outgoing(attachments=(file("a", mime_type="text/pläin"),)),
        outgoing(attachments=(image("a b"),)),
        outgoing(attachments=(image("ä"),)),
        outgoing(attachments=(image("a><b"),)),
        outgoing(subject="x" * 10_001),
    ],
)
def test_what_no_header_can_hold_is_refused(message: OutgoingMessage) -> None:
    with pytest.raises(ValueError):
        made(message)


def test_ids_that_cannot_be_written_are_left_out() -> None:
    read = parse_message(
        made(outgoing(in_reply_to="<ä@b>", references=("<ok@b>", "<x y@b>", "<a\r\nBcc: x@y>", "bare@b"))).wire.read()
    )
    assert (read.in_reply_to, read.references) == ((), ("<ok@b>", "<bare@b>"))


def test_the_envelope_names_everyone_once() -> None:
    message = outgoing(
        to=(Address(email="a@Müller.example"), Address(email="B@example.com")),
        cc=(Address(email="b@example.com"), Address(email="a@xn--mller-kva.example")),
        bcc=(Address(email="B@EXAMPLE.com"), Address(email="secret@example.com")),
    )
    envelope = made(message).envelope
    assert envelope.sender == "alice@example.com"
    assert envelope.recipients == ("a@xn--mller-kva.example", "B@example.com", "b@example.com", "secret@example.com")
    assert not envelope.smtputf8


def test_a_local_part_that_is_not_ascii_needs_smtputf8_and_stands_in_utf_8() -> None:
    composed = made(outgoing(to=(Address(email="jörg@müller.example", name="Jörg"),)))
    assert composed.envelope.smtputf8
    assert "<jörg@xn--mller-kva.example>\r\n".encode() in composed.wire.read()
    assert parse_message(composed.wire.read()).to == (Address(email="jörg@xn--mller-kva.example", name="Jörg"),)


def test_bcc_stands_in_our_copy_only() -> None:
    bcc = tuple(Address(email=f"hidden{n}@example.com", name="Größe, x") for n in range(20))
    composed = made(outgoing(bcc=bcc, text="body\n\nof two"))
    assert b"hidden" not in composed.wire.read()
    copy = with_bcc(composed.wire, composed.bcc_header).read()
    assert parse_message(copy).bcc == bcc
    assert max(map(len, copy.partition(b"\r\n\r\n")[0].split(b"\r\n"))) <= 78
    assert copy.replace(composed.bcc_header, b"") == composed.wire.read()
    assert with_bcc(composed.wire, made(outgoing()).bcc_header) == composed.wire


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("From: a@b\r\nDate: x\r\nTo: c@d\r\n", "From: a@b\r\n{date}To: c@d\r\n"),
        ("DATE : x\r\n y\r\n\tz\r\nX-Date: x\r\nDate: w\r\n", "{date}X-Date: x\r\nDate: w\r\n"),
        ("Subject: x\r\n Date: y\r\n", "Subject: x\r\n Date: y\r\n{date}"),
        ("Subject: x\r\nDate: x\r\n", "Subject: x\r\n{date}"),
    ],
)
@pytest.mark.parametrize("body", ["", "Date: y\r\n\r\nDate: z\r\n"])
def test_another_date(head: str, expected: str, body: str) -> None:
    wire = with_date(Content(f"{head}\r\n{body}".encode()), DATE).read()
    assert wire.decode() == expected.format(date="Date: Sun, 01 Mar 2026 12:30:05 +0100\r\n") + f"\r\n{body}"


def test_a_composed_message_with_another_date() -> None:
    message, later = outgoing(html="<b>x</b>", attachments=(file("a.pdf"),)), DATE + timedelta(days=1)
    dated = compose(message, message_id=MESSAGE_ID, date=later)
    assert with_date(made(message).wire, later).read() == dated.wire.read()


def test_nobody_visible_is_told_as_such() -> None:
    assert b"To: undisclosed-recipients:;\r\n" in made(outgoing(to=(), bcc=(BOB,))).wire.read()


@pytest.mark.parametrize(
    ("content", "mime_type", "arrives"),
    [
        (b"Subject: x\r\n\r\nbody\r\n", "message/rfc822", b"Subject: x\r\n\r\nbody\r\n"),
        (b"Subject: x\n\nbody", "message/rfc822", b"Subject: x\r\n\r\nbody\r\n"),
        (b"Subject: x\n\nb\xf6dy\n", "application/octet-stream", b"Subject: x\n\nb\xf6dy\n"),
        (b"Subject: x\n\n" + b"y" * 999, "application/octet-stream", b"Subject: x\n\n" + b"y" * 999),
    ],
)
def test_an_attached_message_is_not_encoded(content: bytes, mime_type: str, arrives: bytes) -> None:
    wire = made(outgoing(attachments=(file("m.eml", content, "message/rfc822"),))).wire.read()
    (listed,) = parse_message(wire).attachments
    assert (listed.mime_type, listed.filename) == (mime_type, "m.eml")
    assert attachment_bytes(wire, listed.part) == arrives
    inside = [part["Subject"] for part in email.message_from_bytes(wire).walk()]
    assert ("x" in inside) == (mime_type == "message/rfc822")


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("text/plain; charset=iso-8859-1", {"charset": "iso-8859-1"}),
        ("Text/Calendar;method=REQUEST ; Charset=UTF-8", {"method": "REQUEST", "charset": "UTF-8"}),
        ('application/x; a="b; c=\\"d\\\\"', {"a": 'b; c="d\\'}),
        ('application/x; name="../x"; boundary=b; a=1', {"a": "1"}),
        (f'application/x; a="{"long " * 30}"', {"a": "long " * 30}),
    ],
)
def test_the_parameters_of_a_type_are_kept(given: str, written: dict[str, str]) -> None:
    wire = made(outgoing(attachments=(file("a.bin", b"x", given),))).wire.read()
    part = list(leaves(email.message_from_bytes(wire)))[1]
    params = part.get_params() or []
    assert params[0][0] == given.partition(";")[0].lower()
    assert {name: collapse_rfc2231_value(value) for name, value in params[1:]} == written


def test_the_same_message_gives_the_same_bytes() -> None:
    message = outgoing(html="<b>x</b>", attachments=(file("a.pdf"),))
    assert made(message).wire.read() == made(message).wire.read()


def test_a_message_id_is_new_each_time_and_lies_at_the_domain_of_the_sender() -> None:
    first, second = new_message_id("a@Müller.example"), new_message_id("a@Müller.example")
    assert first != second
    assert re.fullmatch(r"<[0-9a-f]{32}@xn--mller-kva\.example>", first)
    with pytest.raises(ValueError):
        new_message_id("nobody")


def test_date_in_utc() -> None:
    wire = compose(outgoing(), message_id=MESSAGE_ID, date=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)).wire.read()
    assert b"Date: Fri, 02 Jan 2026 03:04:05 +0000\r\n" in wire


PRINTABLE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=120)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(subject=PRINTABLE, name=PRINTABLE, text=st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_any_text_arrives(subject: str, name: str, text: str) -> None:
    message = outgoing(subject=subject, to=(Address(email="a@b.example", name=name),), text=text)
    try:
        wire = made(message).wire.read()
    except ValueError:
        assert "=?" in subject + name
        return
    read = email.message_from_bytes(wire)
    assert decoded(read.get("Subject", "")) == subject
    assert people(read, "To") == [(name, "a@b.example")]
    assert _text(read) == lines(text)


@pytest.mark.parametrize(
    ("text", "html", "expected"),
    [
        (None, None, False),
        ("", None, False),
        (" \r\n\t", "", False),
        (None, "<p> &nbsp;<br></p>", False),
        (None, "<style>p {}</style>", False),
        (".", None, True),
        ("", "<p>x</p>", True),
        ("", '<IMG src="cid:a">', True),
    ],
)
def test_what_has_a_text(text: str | None, html: str | None, expected: bool) -> None:
    assert has_text(text, html) is expected


def test_an_attached_text_without_line_breaks_is_folded_with_crlf() -> None:
    assert encode_text("ü".encode() + b"x" * 200)[1].count(b"=\r\n") == 2


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>x</p>", True),
        ("<p> \u200b&nbsp;</p>", False),
        ("<style>p{}</style><title>t</title>", False),
        ("<img src=x>", True),
        (f"<style>{'x' * 3_000_000}</style>x", True),
    ],
)
def test_whether_html_has_text(html: str, expected: bool) -> None:
    assert has_text(None, html) == expected


def test_whether_html_has_text_shows_at_its_first_word() -> None:
    html = "<p>word</p>" * 100_000
    began = time.process_time()
    assert has_text(None, html)
    first = time.process_time() - began
    began = time.process_time()
    TAG_READER.extract(html, "text")
    assert first < (time.process_time() - began) / 5
