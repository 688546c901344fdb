"""A forwarded message: the block above the original, the visible parts of its HTML, and the files sent with it."""

import email
import re
import time

import pytest
from msgspec.structs import replace

from mailbox_appliance.mail.address import has_forbidden_characters
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mail.forward import ForwardedMessage, decode_parts, embed_html, forward_message
from mailbox_appliance.mail.parse import attachment_bytes, parse_message
from mailbox_appliance.model.messages import Address, OutgoingMessage
from tests.mail import fuzz
from tests.mail.test_compose import DATE, MESSAGE_ID
from tests.mail.test_corpus import CASES

ALICE = Address(email="alice@example.com")
HEAD = "From: Bob <bob@example.org>\r\nTo: alice@example.com, Carol <carol@example.org>\r\nSubject: Plan\r\n"
DATED = HEAD + "Date: Sun, 1 Mar 2026 09:05:06 +0530\r\n"


def text_message(head: str = DATED, body: str = "Hello\r\n") -> bytes:
    return f"{head}Content-Type: text/plain; charset=utf-8\r\n\r\n{body}".encode()


def html_message(html: str, *parts: str, head: str = DATED) -> bytes:
    """Return a multipart/related with this HTML, and with parts that are given with their headers."""
    root = f"Content-Type: text/html; charset=utf-8\r\n\r\n{html}"
    pieces = "".join(f"--b\r\n{part}\r\n" for part in (root, *parts))
    return f"{head}MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n{pieces}--b--\r\n".encode()


def image(content_id: str, content: str = "png", name: str = "p.png") -> str:
    head = f"Content-Type: image/png\r\nContent-ID: <{content_id}>\r\n"
    return f'{head}Content-Disposition: inline; filename="{name}"\r\n\r\n{content}'


FILE = 'Content-Type: application/pdf\r\nContent-Disposition: attachment; filename="a.pdf"\r\n\r\npdf'


def made(source: bytes, comment: str | None = None, *, with_attachments: bool = True) -> ForwardedMessage:
    return forward_message(parse_message(source), comment, with_attachments=with_attachments)


def sent(source: bytes, comment: str | None = None, *, with_attachments: bool = True) -> bytes:
    found = made(source, comment, with_attachments=with_attachments)
    message = OutgoingMessage(
        sender=ALICE,
        to=(Address(email="dan@example.net"),),
        subject=found.subject,
        text=found.text,
        html=found.html,
        attachments=decode_parts(source, found.parts),
    )
    return compose(message, message_id=MESSAGE_ID, date=DATE).wire.read()


def test_the_comment_stands_above_the_header_block_and_the_text() -> None:
    found = made(text_message(), "See below,\r\nplease.")
    assert found.text == (
        "See below,\r\nplease.\n\n---------- Forwarded message ----------\nFrom: Bob <bob@example.org>\n"
        "Date: Sun, 1 Mar 2026, 09:05 (UTC+05:30)\nSubject: Plan\n"
        "To: alice@example.com, Carol <carol@example.org>\n\nHello"
    )
    assert (found.subject, found.html, found.parts) == ("Fwd: Plan", None, ())


def test_without_a_comment_it_begins_with_the_header_block() -> None:
    assert made(text_message()).text.startswith("---------- Forwarded message ----------\nFrom: Bob")


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("Date: Sun, 1 Mar 2026 09:05:06 +0530", "Sun, 1 Mar 2026, 09:05 (UTC+05:30)"),
        ("Date: 1 Mar 2026 23:05 -0800", "Sun, 1 Mar 2026, 23:05 (UTC-08:00)"),
        ("Date: Sun, 1 Mar 2026 09:05:06 EST", "Sun, 1 Mar 2026, 09:05 (UTC-05:00)"),
        ("Date: Sun, 1 Mar 2026 09:05:06 +0000 (GMT)", "Sun, 1 Mar 2026, 09:05 (UTC)"),
        ("Date: Sun, 1 Mar 2026 09:05:06 -0000", "Sun, 1 Mar 2026, 09:05 (UTC)"),
        ("Date: 2026-03-01T09:05:06+01:00", "Sun, 1 Mar 2026, 09:05 (UTC+01:00)"),
        ("dATE: Sun Mar  1 09:05:06 2026", "Sun, 1 Mar 2026, 09:05 (UTC)"),
        ("Date: Fri, 31 Dec 9999 23:59:59 +2359", "Fri, 31 Dec 9999, 23:59 (UTC+23:59)"),
        ("Date: Sun, 1 Mar 2026 09:05:06 +9900", None),
        ("Date: soon", None),
        ("X: y", None),
    ],
)
def test_the_date_is_that_of_the_sender(field: str, shown: str | None) -> None:
    line = f"\nDate: {shown}\n" if shown else "\nSubject: Plan\n"
    found = made(text_message(f"{HEAD}{field}\r\n")).text
    assert line in found
    assert ("\nDate: " in found) == (shown is not None or "+9900" in field)


def test_what_is_not_known_has_no_line() -> None:
    assert made(b"\r\nHi").text == "---------- Forwarded message ----------\n\nHi"


# --- the header block cannot be forged ---


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ('From: "CEO <ceo@bank.example>" <eve@x.example>', 'From: "CEO <ceo@bank.example>" <eve@x.example>'),
        ('From: "a@bank.example, b" <eve@x.example>', 'From: "a@bank.example, b" <eve@x.example>'),
        ('From: "a \\"b\\" \\\\" <eve@x.example>', 'From: "a \\"b\\" \\\\" <eve@x.example>'),
        ("From: =?utf-8?Q?a=0ATo:_b?= <eve@x.example>", 'From: "a To: b" <eve@x.example>'),
        ("From: =?utf-8?Q?a=E2=80=AEb?= <eve@x.example>", "From: ab <eve@x.example>"),
        ("Subject: =?utf-8?Q?a=0D=0ATo:_b?=", "Subject: a To: b"),
        ("Subject: <b>x</b> & y", "Subject: <b>x</b> & y"),
        ("Subject: =?utf-8?Q?<br>To:_b?=", "Subject: <br>To: b"),
    ],
)
def test_no_name_and_no_subject_forges_a_line(field: str, line: str) -> None:
    source = html_message("x", head=field + "\r\n")
    found = made(source, "c")
    assert line in found.text.split("\n")
    html = found.html or ""
    shown = parse_message(compose_html(html)).text or ""
    assert line in shown.split("\n")
    above = html[: html.index("\n<div>x</div>")]
    assert above.count("<div") == above.count("</div") == 2
    assert set(re.findall(r"<[a-z/!]+", above)) <= {"<!", "<html", "<body", "<div", "</div", "<br", "<b", "</b"}


def compose_html(html: str) -> bytes:
    return compose(OutgoingMessage(sender=ALICE, to=(ALICE,), html=html), message_id=MESSAGE_ID, date=DATE).wire.read()


def test_the_comment_is_text_in_the_html_too() -> None:
    html = made(html_message("<p>x</p>"), "<b>1 < 2</b>\r\n  two  spaces\rthree\n\nend").html or ""
    expected = ">&lt;b&gt;1 &lt; 2&lt;/b&gt;<br>\n\u00a0 two\u00a0\u00a0spaces<br>\nthree<br>\n<br>\nend</div>"
    assert expected in re.sub("<br [^>]*>", "<br>", html)


def test_no_style_sheet_hides_what_stands_above() -> None:
    html = made(html_message("<style>* {display: none !important}</style>x", head=f"{DATED}Cc: c@d.e\r\n"), "a\nb").html
    above, _, _ = (html or "").partition("\n<div><style>")
    for tag in re.findall("<(?!/|!)[^>]*>", above):
        name, *rules = re.split('[ ;"]', tag.strip("<>"))
        rules = [rule for rule in rules if rule and rule != "style="]
        assert all(rule.endswith("!important") for rule in rules), tag
        assert f"display:{'inline' if name in ('b', 'br') else 'block'}!important" in rules
        if name in ("div", "b"):
            seen = ("visibility:visible", "opacity:1", "color:#000", "font-size:medium")
            assert {f"{rule}!important" for rule in seen} <= set(rules)
            assert rules[0].startswith("all:")  # the text after it counts
    assert above.count("<br ") == 1 + 5 + 2  # the comment, the block, and the lines between


# --- the HTML of the original ---


@pytest.mark.parametrize(
    ("html", "inside"),
    [
        ("<p>a</p>", "<div><p>a</p></div>"),
        ("<!DOCTYPE html><html><head><title>t</title></head><body><p>a</p></body></html>", "<div><p>a</p></div>"),
        ('<?xml version="1.0"?><HTML lang=x><BODY>a</BODY></HTML>', "<div>a</div>"),
        ("<head><style>p > a {color:red}</style></head>a", "<div><style>p > a {color:red}</style>a</div>"),
        ("<head><style><body></style></head>a", "<div><style><body></style>a</div>"),
        ("<head><meta charset=utf-16><base href='http://evil.example/'></head>a", "<div>a</div>"),
        (
            '<body bgcolor="#eee" text=red style="margin:0;" dir=rtl onload="x()">a',
            '<div style="margin:0; background-color: #eee; color: red" dir="rtl">a</div>',
        ),
        ("<body style='font-family:\"A&amp;B\"'>a", '<div style="font-family:&quot;A&amp;B&quot;">a</div>'),
        ('<body bgcolor="red;position:fixed">a', "<div>a</div>"),
        ("<body>a</body><body dir=rtl>b</body>", '<div dir="rtl">ab</div>'),
        ("<svg><title>kept</title></svg><title>gone</title>a", "<div><svg><title>kept</title></svg>a</div>"),
        ("<title>a</title", "<div></div>"),
        ("a<title>never closed", "<div>a</div>"),
        ('<p title="</body></html>">a</p>', '<div><p title="</body></html>">a</p></div>'),
        ("<!-- <body> --><!--[if mso]><p><![endif]-->a", "<div><!-- <body> --><!--[if mso]><p><![endif]-->a</div>"),
        ("1 < 2 && <b>x", "<div>1 < 2 && <b>x</div>"),
        ("a<script>if (a < b) x('<p>')</script>b", "<div>ab</div>"),
        ("a<SCRIPT src=x />x()</Script >b", "<div>ab</div>"),
        ("a<script>never closed <p>b</style>", "<div>a</div>"),
        (f'a<script x="{"y" * 6_000}">x()</script>b', "<div>ab</div>"),
        ("a</script>b<scripts>", "<div>ab<scripts></div>"),
        ("<svg><script>x()</script></svg>a", "<div><svg></svg>a</div>"),
        ("<style>p {} <!-- </style>a", "<div><style>p {} <!-- </style>a</div>"),
        ("a<style>never closed", "<div>a<style>never closed</style></div>"),
        ("a<!-- never closed <p>b", "<div>a</div>"),
        ("a<!--", "<div>a</div>"),
        ("<!-->a<!--->b<!-- c --!>d", "<div><!-->a<!--->b<!-- c --!>d</div>"),
        ("", "<div></div>"),
    ],
)
def test_a_document_becomes_a_part_of_another(html: str, inside: str) -> None:
    assert embed_html(html) == inside


@pytest.mark.parametrize(
    "piece",
    [
        "<script>",
        '<script a="',
        "<script></script>",
        "<!-->",
        "<title>",
        "<style>",
        "<body ",
        "<body style='",
        "<!--",
        "</svg>",
        '"cid:',
        "cid:a ",
        '<a href="cid:x',
    ],
)
def test_hostile_html_takes_no_long_time(piece: str) -> None:
    read = parse_message(html_message("x", image("x")))
    start = time.process_time()
    forward_message(replace(read, html=piece * (2_000_000 // len(piece)), text=""), "c", with_attachments=True)
    assert time.process_time() - start < 3


# --- parts that are sent with it ---


def along(source: bytes, *, with_attachments: bool) -> list[tuple[str, str | None, str | None]]:
    parts = made(source, with_attachments=with_attachments).parts
    return [(each.part, each.content_id, each.disposition) for each in parts]


SHOWN = [
    ('<img src="cid:a@b">', "a@b"),
    ("<img src='cid:a%40b'>", "a@b"),
    ("<img src=cid:a@b>", "a@b"),
    ('<img src=" CID:a@b ">', "a@b"),
    ('<td background="cid:a@b">', "a@b"),
    ('<p style="background: url(cid:a@b)">', "a@b"),
    ("<p style=\"background: url('cid:a@b')\">", "a@b"),
    ('<p style="background: url(&quot;cid:a@b&quot;)">', "a@b"),
    ("<style>p {background: url(cid:a@b);}</style>", "a@b"),
    ('<img src="cid:a&amp;b">', "a&b"),
    ('<img src="cid:a(1)">', "a(1)"),
    ('<img src="cid:a%b">', "a%b"),
    ('<img src="cid:a%25b">', "a%b"),
]


@pytest.mark.parametrize(("html", "content_id"), SHOWN)
def test_a_picture_that_the_html_shows_goes_along_always(html: str, content_id: str) -> None:
    source = html_message(html, image(content_id), FILE, image("other@b"))
    assert along(source, with_attachments=False) == [("2", content_id, "inline")]
    assert along(source, with_attachments=True) == [
        ("2", content_id, "inline"),
        ("3", None, "attachment"),
        ("4", None, "attachment"),
    ]
    assert html in (made(source).html or "")


@pytest.mark.parametrize("html", ['<img src="cid:b">', '<img src="https://x.example/a@b">', "acid:a@b", "<p>a@b</p>"])
def test_a_picture_that_it_does_not_show_is_a_file(html: str) -> None:
    source = html_message(html, image("a@b"))
    assert along(source, with_attachments=False) == []
    assert along(source, with_attachments=True) == [("2", None, "attachment")]


def test_without_html_nothing_is_shown() -> None:
    body = "--b\r\n\r\ncid:a@b\r\n--b\r\n" + image("a@b") + "\r\n--b--\r\n"
    source = f"{DATED}Content-Type: multipart/mixed; boundary=b\r\n\r\n{body}".encode()
    assert along(source, with_attachments=False) == []
    assert along(source, with_attachments=True) == [("2", None, "attachment")]


def test_of_two_parts_with_one_content_id_the_first_is_shown() -> None:
    source = html_message('<img src="cid:a">', image("a", "one"), image("a", "two"))
    assert along(source, with_attachments=True) == [("2", "a", "inline"), ("3", None, "attachment")]


def test_what_the_html_names_is_what_the_parts_have() -> None:
    html = '<img src="cid:im%20g"><img src="cid:gr%C3%BC%C3%9Fe"><img src="cid:LOGO"><img src="cid:=?utf-8?Q?=0A?=">'
    source = html_message(html, image("im g"), image("grüße"), image("Logo"), image("part-2@forwarded"))
    ids = [content_id for _, content_id, _ in along(source, with_attachments=True)]
    assert ids == ["x-part-2@forwarded", "part-3@forwarded", "Logo", None]
    assert re.findall('cid:([^"]+)"', made(source).html or "") == [*ids[:3], "=?utf-8?Q?=0A?="]
    wire = sent(source)
    assert [each.content_id for each in parse_message(wire).attachments] == ids


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        ("Content-Type: text/calendar; method=REQUEST; charset=iso-8859-1", "text/calendar"),
        ("Content-Type: text/plain; charset=iso-8859-1; name=x; format=flowed", "text/plain"),
        ("Content-Type: image/p\xe4ng", "application/octet-stream"),
        ("Content-Type: " + "x" * 200 + "/y", "application/octet-stream"),
        ('Content-Type: application/x; a="b; c\\\\d"; long*0=' + "e" * 300, "application/x"),
    ],
)
def test_a_file_stays_what_it_is(head: str, kept: str) -> None:
    more = "Content-Disposition: attachment; filename=x\r\nContent-Transfer-Encoding: quoted-printable"
    wire = sent(html_message("x", f"{head}\r\n{more}\r\n\r\n=E4"))
    (listed,) = parse_message(wire).attachments
    assert (listed.mime_type, attachment_bytes(wire, listed.part)) == (kept, b"\xe4")
    assert ('charset="iso-8859-1"' in wire.decode()) == ("iso-8859-1" in head)
    assert ('method="REQUEST"' in wire.decode()) == ("REQUEST" in head)


HIDDEN = "=?utf-8?B?YQpi?="  # a line break
HOSTILE = [
    f'Content-Type: image/png; name="{HIDDEN}"',
    f'Content-Type: image/png; x="{HIDDEN}"; y=z',
    'Content-Type: image/png; a="=?utf-8?B?"; b="YQpi?="',
    f"Content-Type: image/{HIDDEN}; x=y",
    f'Content-Type: image/png; name*0="=?utf-8?B?Y"; name*1="Qpi?="; {HIDDEN}=x',
    f'Content-Type: image/png; charset="{HIDDEN}"; boundary="{HIDDEN}"',
    f"Content-Type: {HIDDEN}",
    'Content-Type: image/png; x="a\rb"; y="\0"; z="\x85"',
    "Content-Type: image/png" + "".join(f"; p{n}=v" for n in range(50)),
    'Content-Type: image/png; x="' + "\\\\" * 300 + '"; x=y; X=z',
    "Content-Type: multipart/mixed",
    "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64",
    f'Content-Type: image/png\r\nContent-Disposition: inline; filename="{HIDDEN}"',
    "Content-Type: image/png\r\nContent-Disposition: inline; filename*=utf-8''%3D%3Futf-8%3FB%3FYQpi%3F%3D",
    'Content-Type: image/png\r\nContent-Disposition: inline; filename*0="=?utf-8?B?"; filename*1="YQpi?="',
    'Content-Type: image/png\r\nContent-Disposition: inline; filename="../..\u202e/\u2066"',
]


@pytest.mark.parametrize("head", HOSTILE)
@pytest.mark.parametrize("content_id", ["k", HIDDEN, "a b", "a\rb", "\0", "k" * 2_000, "<>", "\u202e"])
@pytest.mark.parametrize("with_attachments", [False, True])
def test_no_part_makes_a_forward_impossible(head: str, content_id: str, with_attachments: bool) -> None:
    part = f"{head}\r\nContent-ID: <{content_id}>\r\n\r\nYQpi"
    source = html_message(f'<img src="cid:{content_id}"><img src="cid:k">', part, head=f"{DATED}Subject: {HIDDEN}\r\n")
    wire = sent(source, "c", with_attachments=with_attachments)
    assert wire.isascii()
    for each in email.message_from_bytes(wire).walk():
        assert not [
            value for value in each.values() if has_forbidden_characters(re.sub("\r\n(?=[ \t])", "", str(value)))
        ]
    if with_attachments and "rfc822" not in head:
        assert [attachment_bytes(wire, each.part) for each in parse_message(wire).attachments] == [b"YQpi"]


def test_what_else_a_hostile_type_says_is_kept() -> None:
    wire = sent(html_message("x", f'Content-Type: image/png; name="{HIDDEN}"; x="{HIDDEN}"; y=z\r\n\r\nx'))
    assert b'Content-Type: image/png; y="z"\r\n' in wire
    assert [each.filename for each in parse_message(wire).attachments] == ["ab"]


@pytest.mark.parametrize("number", range(60))
def test_damaged_messages_can_be_forwarded(number: int) -> None:
    for each in range(5):
        source = fuzz.message(5, number * 5 + each)
        for with_attachments in (False, True):
            assert sent(source, with_attachments=with_attachments).isascii()


def test_an_attached_message_goes_along_whole() -> None:
    inner = "Subject: inner\r\nBcc: x@y.example\r\n\r\nbody\r\n"
    source = html_message("x", f"Content-Type: message/rfc822\r\n\r\n{inner}")
    wire = sent(source)
    (listed,) = parse_message(wire).attachments
    assert (listed.mime_type, listed.filename) == ("message/rfc822", "inner.eml")
    assert attachment_bytes(wire, listed.part) == inner.removesuffix("\r\n").encode() + b"\r\n"


@pytest.mark.parametrize("with_attachments", [False, True])
def test_every_hard_message_can_be_forwarded(with_attachments: bool) -> None:
    for case in CASES:
        if len(case.source) > 200_000:
            continue
        wire = sent(case.source, "Größe", with_attachments=with_attachments)
        head = wire.partition(b"\r\n\r\n")[0]
        assert wire.isascii()
        assert not {0x0A, 0x0D} & set(wire.replace(b"\r\n", b"")), case.name
        names = re.findall(rb"^([^\s:]+):", head, re.M)
        assert not {b"Bcc", b"In-Reply-To", b"References"} & set(names), case.name
        assert len(names) == len(set(names)), case.name
        if with_attachments:
            original, found = parse_message(case.source), parse_message(wire)
            assert len(found.attachments) == min(len(original.attachments), 999), case.name
