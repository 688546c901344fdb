import random
import time
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailbox_appliance.mail.address import has_forbidden_characters
from mailbox_appliance.mail.html.analysis import UNANALYZED_PART, UNANALYZED_PREVIEW
from mailbox_appliance.mail.parse import attachment_bytes, header_message_id, parse_message
from mailbox_appliance.model.messages import Address, ParsedMessage


def head(fields: str | bytes, body: bytes = b"") -> ParsedMessage:
    raw = fields.encode() if isinstance(fields, str) else fields
    return parse_message(raw.replace(b"\n", b"\r\n") + (b"\r\n\r\n" if raw else b"\r\n") + body)


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        (b"Hello", "Hello"),
        (b"Hello\n world", "Hello world"),
        (b"Hello\n\tworld", "Hello world"),
        (b"=?utf-8?Q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
        (b"=?UTF-8?b?R3LDvMOfZQ==?=", "Grüße"),
        (b"=?iso-8859-1?q?Gr=FC=DFe_=80?=", "Grüße €"),
        (b"=?utf-8?Q?a?= =?utf-8?Q?b?=", "ab"),
        (b"=?utf-8?Q?a?=\n =?utf-8?Q?b?= c", "ab c"),
        (b"=?utf-8?B?R3LD?= =?utf-8?B?vMOfZQ==?=", "Grüße"),  # a character cut in two
        (b"=?utf-8*de?Q?Gr=C3=BC?=", "Grü"),
        (b"=?utf-8?Q?with space?=", "with space"),
        (b"x=?utf-8?Q?y?=z", "xyz"),
        (b"=?utf-8?B?SGVsbG8?=", "Hello"),  # base64 without padding
        (b"=?utf-8?B?SGVsbG8*!?=", "Hello"),
        (b"=?unknown-8bit?Q?Gr=C3=BC?=", "Grü"),
        (b"=?x-nonsense?Q?Gr=FC?=", "Grü"),
        (b"=?gb2312?B?xOO6w4FA?=", "你好丂"),  # gb18030 under another name
        (b"=?ks_c_5601-1987?Q?=BE=C8=B3=E7=94=EE?=", "안녕뷁"),
        (b"=?iso-2022-jp?B?GyRCMnE1RBsoQg==?=", "会議"),
        (b"=?idna?Q?xn--abc?=", "xn--abc"),
        (b"=?unicode_escape?Q?=5Cn?=", "\\n"),
        (b"=?utf-7?Q?+2AA-?=", "\ufffd"),
        (b"=?utf-8?Q?a=0D=0Ab=00c?=", "a b c"),
        (b"=?utf-8?Q?unfinished", "=?utf-8?Q?unfinished"),
        ("Grüße".encode(), "Grüße"),  # RFC 6532
        (b"Gr\xfc\xdfe", "Grüße"),
        (b"a\x07b", "a b"),
        (b"=?utf-8?Q?=3D=3Futf-8=3FQ=3Fok=3F=3D?=", "=?utf-8?Q?ok?="),
        (b"=?utf-8?Q?=3D=3Futf-8=3FQ=3F=3D0A=3F=3D?=", "= ?utf-8?Q?=0A?="),  # a line break in two wrappings
    ],
)
def test_subject(raw: bytes, subject: str) -> None:
    assert head(b"Subject: " + raw).subject == subject


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a@b.c", [("a@b.c", None)]),
        ("Ann Lee <a@b.c>", [("a@b.c", "Ann Lee")]),
        ('"Lee, Ann" <a@b.c>, d@e.f', [("a@b.c", "Lee, Ann"), ("d@e.f", None)]),
        ('"a \\"b\\" \\\\c" <a@b.c>', [("a@b.c", 'a "b" \\c')]),
        ("Team: a@b.c, D <d@e.f>;", [("a@b.c", None), ("d@e.f", "D")]),
        ("undisclosed-recipients:;", []),
        ("Empty:; , x@y.z", [("x@y.z", None)]),
        ("a@b.c; d@e.f", [("a@b.c", None), ("d@e.f", None)]),
        ("a@b.c (Ann)", [("a@b.c", "Ann")]),
        ("<@relay.x,@other.y:a@b.c>", [("a@b.c", None)]),
        ('"a b"@c.d', [('"a b"@c.d', None)]),
        ("=?utf-8?Q?Lee=2C_J=C3=B6rg?= <a@b.c>", [("a@b.c", "Lee, Jörg")]),
        ("=?utf-8?Q?Lee,_Ann?= <a@b.c>", [("a@b.c", "Lee, Ann")]),
        ('"=?utf-8?Q?J=C3=B6rg?=" <a@b.c>', [("a@b.c", "Jörg")]),
        ("=?utf-8?Q?Ann_<a=40b.c>?=", [("a@b.c", "Ann")]),
        ("'Ann' <a@b.c>", [("a@b.c", "Ann")]),
        ('"a@b.c" <a@b.c>', [("a@b.c", None)]),
        ("=?utf-8?Q?=3D=3Fx=3FQ=3F=3D00=3F=3D?= <a@b.c>", [("a@b.c", "= ?x?Q?=00?=")]),
        ("< a@b.c >", [("a@b.c", None)]),
        ("Ann <a@b.c", [("a@b.c", "Ann")]),
        ('"Ann <a@b.c>', []),
        ("Nobody, <>, @, a@, @b, nothing", []),
        ("jörg@müller.example", [("jörg@müller.example", None)]),
        ("A\n B <a@b.c>,\n d@e.f", [("a@b.c", "A B"), ("d@e.f", None)]),
        ("", []),
    ],
)
def test_addresses(raw: str, expected: list[tuple[str, str | None]]) -> None:
    assert head(f"To: {raw}").to == tuple(Address(email=e, name=n) if n else Address(email=e) for e, n in expected)


def test_every_address_field_has_its_place() -> None:
    read = head("From: f@x\nTo: t@x\nTo: t2@x\nCc: c@x\nBcc: b@x\nReply-To: r@x\nSender: s@x")
    found = [[a.email for a in field] for field in (read.to, read.cc, read.bcc, read.reply_to)]
    assert found == [["t@x", "t2@x"], ["c@x"], ["b@x"], ["r@x"]]
    assert read.sender == Address(email="f@x")
    assert head("Sender: s@x").sender == Address(email="s@x")
    assert head("From: nobody").sender is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"Sun, 1 Mar 2026 12:30:05 +0100", datetime(2026, 3, 1, 11, 30, 5, tzinfo=UTC)),
        (b"1 Mar 2026 12:30 +0000 (UTC)", datetime(2026, 3, 1, 12, 30, tzinfo=UTC)),
        (b"Sun, 1 Mar 2026 12:30:05 GMT", datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)),
        (b"Sun, 1 Mar 26 12:30:05 EST", datetime(2026, 3, 1, 17, 30, 5, tzinfo=UTC)),
        (b"Sun, 1 Mar 2026 12:30:05", datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)),
        (b"Sun, 1 Mar 2026 23:59:60 +0000", datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)),
        (b"Sun Mar  1 12:30:05 2026", datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)),
        (b"31 Dec 9999 23:59:59 -2359", None),
        (b"1 Jan 0001 00:00:00 +2300", None),
        (b"1 Jan 2026 10:00:00 +9999999999999999", None),
        (b"32 Jan 2026 10:00:00 +0000", None),
        (b"1 Foo 2026 10:00:00 +0000", None),
        (b"0 0 0", None),
        (b"\xff\xfe", None),
        (b"", None),
    ],
)
def test_date(raw: bytes, expected: datetime | None) -> None:
    assert head(b"Date: " + raw).date == expected


def test_header_fields_are_decoded_and_the_first_of_a_name_counts() -> None:
    read = head("Received: from b\n by c\nreceived: from a\nX-Test: =?utf-8?Q?=C3=BC?=\nnot a field\nList-Id: <l.x>")
    assert read.headers == {"Received": "from b by c", "X-Test": "ü", "List-Id": "<l.x>"}


def test_header_fields_are_bounded() -> None:
    assert sum(map(len, head("".join(f"X-{n}: {'x' * 5000}\n" for n in range(100)) + "a: b").headers.values())) <= 65536
    assert len(head("".join(f"X-{n}: x\n" for n in range(1000)) + "a: b").headers) == 200


def test_ids() -> None:
    source = b"Message-ID:\r\n <A@b>\r\nIn-Reply-To: <c@d>\r\nReferences: <e@f>\r\n\t<c@d>\r\n\r\nMessage-ID: <no@no>"
    read = parse_message(source)
    assert (read.message_id, read.in_reply_to, read.references) == ("<A@b>", ("<c@d>",), ("<e@f>", "<c@d>"))
    assert header_message_id(source) == "<A@b>"
    assert header_message_id(b"\r\nMessage-ID: <no@no>") is None


@pytest.mark.parametrize(
    ("fields", "body", "text", "warned"),
    [
        ("", b"Hi\r\nthere\r\n", "Hi\nthere", False),
        ("", "Grüße".encode(), "Grüße", False),
        ("", b"Gr\xfc\xdfe \x80", "Grüße €", True),
        ("Content-Type: text/plain; charset=iso-8859-1", b"Gr\xfc\xdfe \x80", "Grüße €", False),
        ("Content-Type: text/plain; charset=us-ascii", "Grüße".encode(), "Grüße", True),
        ("Content-Type: text/plain; charset=utf-8", b"Gr\xfc\xdfe", "Grüße", True),
        ("Content-Type: text/plain; charset=utf-8", "Grüße, größer".encode() + b"\xff", "Grüße, größer\ufffd", True),
        ("Content-Type: text/plain; charset=x-unheard-of", b"Gr\xfc\xdfe", "Grüße", True),
        ("Content-Type: text/plain; charset=unknown-8bit", "Grüße".encode(), "Grüße", True),
        ("Content-Type: text/plain; charset=gb2312", "丂".encode("gb18030"), "丂", False),
        ("Content-Type: text/plain; charset=ks_c_5601-1987", "안녕".encode("cp949"), "안녕", False),
        ("Content-Type: text/plain; charset=utf-16", "Hi".encode("utf-16"), "Hi", False),
        ("Content-Type: text/plain", "会議".encode("iso-2022-jp"), "会議", False),
        ("Content-Type: text", b"Hi", "Hi", False),
        ("Content-Type: nonsense; boundary=x", b"Hi", "Hi", False),
        ("Content-Transfer-Encoding: quoted-printable", b"Gr=C3=BC=C3=9Fe=\r\n!  \r\n=ZZ", "Grüße!\n=ZZ", False),
        ("Content-Transfer-Encoding: base64", b"SGkg\r\ndGhlcmU=\r\n", "Hi there", False),
        ("Content-Transfer-Encoding: BASE64", b"SGkgdGhlcmU", "Hi there", True),
        ("Content-Transfer-Encoding: x-new", b"Hi", "Hi", True),
        ("", b"a\0b\rc\r\nd\n\n", "ab\nc\nd", False),
        ("Content-Type: multipart/mixed; boundary=b", b"no boundary in here", "no boundary in here", True),
        ("Content-Type: multipart/mixed", b"--z\r\n\r\nguessed\r\n--z--", "guessed", True),
        ("Content-Type: multipart/mixed; boundary=b", b"--b\r\n\r\ncut off", "cut off", True),
        ('Content-Type: multipart/mixed; boundary="b b"', b"pre\r\n--b b \r\n\r\nHi\r\n--b b--\r\nend", "Hi", False),
        ("Content-Type: multipart/mixed; boundary=b", b"--b\n\nHi\n--bb\nx\n--b--", "Hi\n--bb\nx", False),
    ],
)  # fmt: skip
def test_text(fields: str, body: bytes, text: str, warned: bool) -> None:
    read = head(fields, body)
    assert read.text == text
    assert bool(read.warnings) == warned


@pytest.mark.parametrize(
    ("more", "body", "text"),
    [
        ("", "one \ntwo\nthree", "one two\nthree"),
        ("; delsp=yes", "on \ne", "one"),
        ("", "> quoted \n> more\n> \nown", "> quoted more\n> \nown"),
        ("", ">> deep \n> less", ">> deep \n> less"),
        ("", " >not a quote\n From me", ">not a quote\nFrom me"),
        ("", "end \n-- \nAnn", "end \n-- \nAnn"),
    ],
)
def test_format_flowed(more: str, body: str, text: str) -> None:
    assert head(f"Content-Type: text/plain; format=flowed{more}", body.encode()).text == text


TREE = b"""\
Content-Type: multipart/mixed; boundary=m

--m
Content-Type: multipart/alternative; boundary=a

--a
Content-Type: text/plain

plain
--a
Content-Type: multipart/related; boundary=r

--r
Content-Type: text/html

<p>html <img src=cid:i@x></p>
--r
Content-Type: image/png; name=logo.png
Content-ID: <i@x>
Content-Transfer-Encoding: base64
Content-Disposition: inline

iVBO
--r--
--a--
--m
Content-Type: text/plain; name="notes.txt"

notes
--m
Content-Type: message/rfc822

Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?= / x

inner
--m
Content-Type: text/plain

footer
--m--
"""


def test_a_tree_of_parts() -> None:
    read = parse_message(TREE)
    assert (read.text, read.warnings) == ("plain\n\nfooter", ())
    assert read.html == "<p>html <img src=cid:i@x></p>\n<pre>footer</pre>"
    assert [(a.part, a.filename, a.mime_type, a.size_bytes, a.content_id, a.disposition) for a in read.attachments] == [
        ("1.2.2", "logo.png", "image/png", 3, "i@x", "inline"),
        ("2", "notes.txt", "text/plain", 5, None, None),
        ("3", "Grüße - x.eml", "message/rfc822", 47, None, None),
    ]
    assert attachment_bytes(TREE, "1.2.2") == b"\x89PN"
    assert attachment_bytes(TREE, "2") == b"notes"
    assert [attachment_bytes(TREE, part) for part in ("", "1", "9", "0", "1.2.2.1", "x", "-1", "²")] == [None] * 8
    assert attachment_bytes(b"\r\nHi", "1") == b"Hi"
    assert attachment_bytes(b"\r\nHi", "2") is None


@pytest.mark.parametrize(
    ("fields", "filename"),
    [
        ('Content-Disposition: attachment; filename="a b.pdf"', "a b.pdf"),
        ("Content-Disposition: attachment; filename=a b.pdf", "a b.pdf"),
        ("Content-Disposition: attachment; filename*=utf-8''%C3%BC.pdf", "ü.pdf"),
        ("Content-Disposition: attachment; filename=x; filename*=utf-8''%C3%BC.pdf", "ü.pdf"),
        ("Content-Disposition: attachment; filename*1*=%BC.pdf; filename*0*=utf-8''%C3", "ü.pdf"),
        ('Content-Disposition: attachment; filename*0="a "; filename*1="b.pdf"', "a b.pdf"),
        ('Content-Disposition: attachment; filename="=?utf-8?Q?=C3=BC?=.pdf"', "ü.pdf"),
        ('Content-Disposition: attachment; filename="a\\"b.pdf"', 'a"b.pdf'),
        ('Content-Disposition: attachment; filename="unclosed.pdf', "unclosed.pdf"),
        ('Content-Disposition: attachment; filename="ü.pdf"', "ü.pdf"),
        ("Content-Type: application/pdf; name=n.pdf", "n.pdf"),
        ('Content-Disposition: attachment; filename="../../etc/passwd"', "passwd"),
        ('Content-Disposition: attachment; filename="C:\\\\x\\\\boot.ini"', "boot.ini"),
        ("Content-Disposition: attachment; filename*=utf-8''a%00%0D%0Ab%2Fc%E2%80%AEfdp.exe", "cfdp.exe"),
        ('Content-Disposition: attachment; filename=".."', "attachment-1"),
        ('Content-Disposition: attachment; filename=""', "attachment-1"),
        ("Content-Disposition: attachment", "attachment-1"),
        ("Content-Type: application/pdf", "attachment-1.pdf"),
        (f"Content-Disposition: attachment; filename={'x' * 300}.pdf", "x" * 196 + ".pdf"),
    ],
)
def test_file_names(fields: str, filename: str) -> None:
    given = fields if "Content-Type" in fields else f"Content-Type: application/octet-stream\n{fields}"
    assert [a.filename for a in head(given, b"x").attachments] == [filename]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (b"no headers at all just text\r\nmore text\r\n", "no headers at all just text\nmore text"),
        (b"first line\r\n\r\nsecond: line\r\n", "first line\n\nsecond: line"),
        (b"x" * 2_000_000, "x" * 2_000_000),
        (b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nonly text\r\n--b--\r\n", "only text"),
    ],
)
def test_what_has_no_header_is_shown_as_text(source: bytes, text: str) -> None:
    read = parse_message(source)
    assert read.text == text
    assert read.warnings == ("This message has no header, so all of it is shown as text.",)


@pytest.mark.parametrize("source", [b"", b"\r\n", b"\r\ntext", b"Subject: x", b"\nSubject: x"])
def test_a_header_that_is_empty_or_all_there_is_is_not_missing(source: bytes) -> None:
    assert parse_message(source).warnings == ()


def test_only_html() -> None:
    read = head("Content-Type: text/html; charset=utf-8", "<style>x</style><p>Grüße &amp; so</p>".encode())
    assert (read.text, read.html) == (None, "<style>x</style><p>Grüße &amp; so</p>")
    # Without an analysis any of it may be hidden, and a preview shows no warning.
    assert (read.snippet, read.warnings) == ("", (UNANALYZED_PREVIEW,))


def test_html_beside_a_text_is_left_out_without_an_analysis() -> None:
    parts = b"--B\r\n\r\nHi\r\n--B\r\nContent-Type: text/html\r\n\r\n<p hidden>no</p>\r\n--B\r\n\r\nBye\r\n--B--\r\n"
    read = head("Content-Type: multipart/mixed; boundary=B", parts)
    assert (read.text, read.snippet, read.warnings) == ("Hi\n\nBye", "Hi Bye", (UNANALYZED_PART,))
    assert head("Content-Type: text/html", b'<meta charset="iso-8859-2">\xb3').html == '<meta charset="iso-8859-2">ł'


@pytest.mark.parametrize(
    ("text", "snippet"),
    [
        ("One  two\n\nthree", "One two three"),
        ("> quoted\nmine\n>> more", "mine"),
        ("> only quoted", "> only quoted"),
        ("\u200b\u034f \u00adHi", "Hi"),
        ("a\u200db\u200d \u200c 👩\u200d", "ab 👩"),
        (
            "👩\u200d💻 👩🏽\u200d❤\ufe0f\u200d👨 🏳\ufe0f\u200d🌈",
            "👩\u200d💻 👩🏽\u200d❤\ufe0f\u200d👨 🏳\ufe0f\u200d🌈",
        ),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👨\u200d👩\u200d" * 200, ("👨\u200d👩\u200d" * 50)[:-1] + "…"),
        ("word " * 100, ("word " * 100)[:199] + "…"),
        ("x" * 300, "x" * 200 + "…"),
        ("", ""),
    ],
)
def test_snippet(text: str, snippet: str) -> None:
    assert head("Content-Type: text/plain; charset=utf-8", text.encode()).snippet == snippet


def test_parts_and_depth_are_bounded() -> None:
    wide = (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
        + b"--b\r\nContent-Type: a/b\r\n\r\nx\r\n" * 2000
        + b"--b--"
    )
    assert len(parse_message(wide).attachments) == 1000
    deep = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(5000))
    assert any("nested" in warning for warning in parse_message(deep).warnings)


@pytest.mark.parametrize(
    "source",
    [
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b " * 250_000,
        b"".join(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" for _ in range(90)) + b"x--b" * 250_000,
        b"To: " + b'"(<=?' * 200_000,
        b"Subject: " + b"=?utf-8?Q?a?= " * 70_000,
        b"Content-Type: text/plain" + b';a="' * 250_000,
        b"Content-Transfer-Encoding: quoted-printable\r\n\r\n" + b" " * 1_000_000 + b"x",
        b"Content-Type: text/plain; format=flowed\r\n\r\n" + b"a \r\n" * 250_000,
        b"Content-Type: text/html\r\n\r\n" + b"<a " * 330_000,
        b"A:" + b"\r\n " * 330_000,
    ],
)
def test_a_megabyte_of_malice_takes_no_time(source: bytes) -> None:
    start = time.process_time()
    parse_message(source)
    assert time.process_time() - start < 5  # half a second here; quadratic reading would take minutes


LETTER = (
    b"From: A <a@b>\r\nTo: =?utf-8?Q?B=C3=BC?= <c@d>, G: e@f;\r\nSubject: =?gb2312?B?xOO6ww==?=\r\n"
    b"Date: Sun, 1 Mar 2026 12:30:05 +0100\r\nReferences: <a@b> <c@d>\r\nContent-Type: text/plain; charset=utf-7;"
    b" format=flowed; name*0*=utf-8''%41\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n> a =\r\n=41 \r\n"
)
BITS = [
    *(
        b"\r\n",
        b"\n\n",
        b"--m",
        b"--a--\r\n",
        b"=?utf-7?Q?+2AA-?=",
        b"=?",
        b"?=",
        b'"',
        b"(",
        b"<",
        b"\0",
        b"\xff\xfe",
        b";",
    ),
    *(b"charset=utf-16", b"base64", b"message/rfc822", b"multipart/digest; boundary=m", b"\x1b$B", b"=", b":", b"*0*="),
]
PIECES = st.lists(st.sampled_from(BITS) | st.binary(max_size=8), max_size=30)


def sound(read: ParsedMessage) -> None:
    """Check that everything read can be written as UTF-8, and that header values are on one line."""
    msgspec.json.encode(read)
    shown = [read.subject, *read.headers.values(), *(a.filename for a in read.attachments)]
    shown += [a.name for field in (read.to, read.cc) for a in field if isinstance(a.name, str)]
    assert not any(has_forbidden_characters(text) or "\t" in text for text in shown)
    assert all(a.filename and "/" not in a.filename for a in read.attachments)


@pytest.mark.parametrize("seed", range(400))
def test_a_damaged_message_is_read_all_the_same(seed: int) -> None:
    dice = random.Random(seed)
    source = bytearray(dice.choice((TREE, LETTER)))
    for _ in range(dice.randint(1, 12)):
        at = dice.randrange(len(source) + 1)
        source[at : at + dice.choice((0, 0, 1, 30))] = dice.choice([*BITS, bytes([dice.randrange(256)])])
    read = parse_message(bytes(source))
    sound(read)
    assert all(len(attachment_bytes(bytes(source), a.part) or b"") == a.size_bytes for a in read.attachments)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(PIECES, st.sampled_from(["To", "Subject", "Content-Type", "Date"]))
def test_any_bytes_are_read(pieces: list[bytes], name: str) -> None:
    sound(parse_message(b"".join(pieces)))
    sound(parse_message(name.encode() + b": " + b"".join(pieces) + b"\r\n\r\n" + b"".join(reversed(pieces))))
