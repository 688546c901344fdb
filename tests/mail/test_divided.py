"""Divided messages: the content of their MIME, and that nothing is lost or changed."""

import base64
import random
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default

import pytest

from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mail.large import SplitMessage, split_attachments
from mailbox_appliance.mail.parse import attachment_bytes, parse_message
from mailbox_appliance.model.messages import Address, OutgoingAttachment, OutgoingMessage, ParsedMessage

MOST = 10_000
DATE = datetime(2026, 1, 2, tzinfo=UTC)
PICTURE = '<p>See <img src="cid:a@x"> and <img src="cid:b@x"></p>'


def file(name: str, size: int, mime_type: str = "application/pdf", **more: object) -> OutgoingAttachment:
    content = random.Random(name).randbytes(size)
    return OutgoingAttachment(filename=name, mime_type=mime_type, content=content, **more)  # type: ignore[arg-type]


def wire(*attachments: OutgoingAttachment, text: str = "Hello", html: str | None = None, number: int = 1) -> bytes:
    message = OutgoingMessage(
        sender=Address(email="ada@x.test", name="Ada, the „first“"),
        to=(Address(email="bob@x.test"),),
        subject="Grüße",
        in_reply_to="<a@x.test>",
        references=("<a@x.test>",),
        text=text,
        html=html,
        attachments=attachments,
    )
    return compose(message, message_id=f"<{number}@x.test>", date=DATE).wire.read()


def names(made: SplitMessage) -> list[str]:
    return [each.name for each in made.files]


def put_together(whole: bytes, made: SplitMessage) -> None:
    """Check that nothing is lost or doubled, and that the rest is unchanged."""
    before, rest = parse_message(whole), parse_message(made.mime)
    assert texts(before) == texts(rest)
    assert not rest.warnings
    found = sorted((each.filename, attachment_bytes(whole, each.part)) for each in before.attachments)
    kept = [(each.filename, attachment_bytes(made.mime, each.part)) for each in rest.attachments]
    assert found == sorted([*kept, *((each.name, each.content()) for each in made.files)])
    assert all(each.size == len(each.content()) for each in made.files)
    assert all(b"".join(each.pieces(777)) == each.content() for each in made.files)
    assert not message_from_bytes(made.mime, policy=default).defects


def texts(read: ParsedMessage) -> tuple[object, ...]:
    header = {name: value for name, value in read.headers.items() if not name.lower().startswith("content-")}
    return header, (read.text or "").strip(), (read.html or "").strip(), read.message_id, read.references, read.to


def test_what_fits_stays_whole() -> None:
    source = wire(file("a.pdf", 500))
    assert split_attachments(source, MOST) == SplitMessage(source)
    assert split_attachments(source, len(source)).mime is source


@pytest.mark.parametrize(
    ("sizes", "out"),
    [
        ([20_000], ["0"]),
        ([20_000, 100], ["0"]),
        ([100, 20_000, 200, 8_000], ["1", "3"]),
        ([3_000] * 5, ["2", "3", "4"]),
        ([5_000, 1_000, 4_000], ["0"]),
        ([1_000] * 30, [str(number) for number in range(5, 30)]),
    ],
)
def test_the_largest_are_left_out_in_their_order(sizes: list[int], out: list[str]) -> None:
    source = wire(*(file(str(number), size) for number, size in enumerate(sizes)))
    made = split_attachments(source, MOST)
    assert names(made) == out
    assert len(made.mime) <= MOST
    put_together(source, made)


def test_pictures_that_a_text_shows_stay_before_other_files() -> None:
    shown = file("b.png", 4_000, "image/png", content_id="b@x", inline=True)
    source = wire(file("c.pdf", 3_000), shown, file("d.pdf", 900), html=PICTURE)
    made = split_attachments(source, MOST)
    assert names(made) == ["c.pdf"]
    put_together(source, made)


def test_large_pictures_keep_their_ids() -> None:
    pictures = [file(f"{name}.png", 30_000, "image/png", content_id=f"{name}@x", inline=True) for name in "ab"]
    source = wire(*pictures, file("c.pdf", 20_000, content_id="c@x"), html=PICTURE)
    made = split_attachments(source, MOST)
    assert [(each.name, each.content_id, each.is_inline) for each in made.files] == [
        ("a.png", "a@x", True),
        ("b.png", "b@x", True),
        ("c.pdf", "c@x", False),
    ]
    assert "cid:a@x" in str(parse_message(made.mime).html)
    put_together(source, made)


@pytest.mark.parametrize("html", [None, "<p>Hello</p>", "<p>cid:other@x</p>"])
def test_a_file_that_no_text_shows_is_listed_whatever_it_says_of_itself(html: str | None) -> None:
    source = wire(file("a.pdf", 30_000, content_id="a@x", inline=True), html=html)
    made = split_attachments(source, MOST)
    assert [(each.name, each.content_id, each.is_inline) for each in made.files] == [("a.pdf", "a@x", False)]
    put_together(source, made)


def test_an_invitation_stays_one() -> None:
    invitation = file("i.ics", 3_000, 'text/calendar; method="REQUEST"')
    shown = file("b.png", 9_000, "image/png", content_id="b@x", inline=True)
    source = wire(invitation, shown, file("c.pdf", 30_000), html=PICTURE)
    made = split_attachments(source, MOST)
    assert names(made) == ["b.png", "c.pdf"]
    assert b"REQUEST" in made.mime
    put_together(source, made)


def test_what_is_written_in_a_way_that_nobody_knows_stays_as_it_is() -> None:
    source = of(b"mixed", b"text/plain", b"application/pdf") + b"\r\n--b--\r\n"
    assert names(split_attachments(source, MOST)) == ["f"]
    unknown = source.replace(b"Encoding: base64", b"Encoding: x-uuencode")
    assert split_attachments(unknown, MOST) == SplitMessage(unknown)


def test_names_and_types_are_those_that_readers_are_shown() -> None:
    name = "Übersicht „Juli“ 日本 " + "x" * 150 + ".csv"
    source = wire(file(name, 20_000, "text/csv"), file("b", 20_000, 'application/x-b; version="1"'))
    made = split_attachments(source, MOST)
    assert [(each.name, each.mime_type) for each in made.files] == [(name, "text/csv"), ("b", "application/x-b")]
    put_together(source, made)


def test_an_attached_message_stays_where_there_is_room() -> None:
    inner = wire(file("inside", 4_000), number=2)
    attached = OutgoingAttachment(filename="m.eml", mime_type="message/rfc822", content=inner)
    source = wire(attached, file("b", 3_000))
    assert names(split_attachments(source, MOST)) == ["b"]
    made = split_attachments(source, 5_000)
    assert [(each.name, each.mime_type, each.content()) for each in made.files][:1] == [
        ("m.eml", "message/rfc822", inner)
    ]


LARGE = base64.encodebytes(bytes(range(256)) * 100).replace(b"\n", b"\r\n")
HEAD = b"From: a@x.test\r\nTo: b@x.test\r\nSubject: x\r\nMIME-Version: 1.0\r\n"
AS_FILE = b"Content-Disposition: attachment; filename=f\r\nContent-Transfer-Encoding: base64\r\n"


def test_a_message_that_is_nothing_but_a_file() -> None:
    source = HEAD + b"Content-Type: application/pdf;\r\n name=f\r\n" + AS_FILE + b"X-Other: y\r\n\r\n" + LARGE
    made = split_attachments(source, MOST)
    assert made.mime == HEAD + b"X-Other: y\r\n\r\n"
    put_together(source, made)


@pytest.mark.parametrize(
    ("written", "mime_type"),
    [
        (b"IMAGE/PNG", "image/png"),
        (b"application/x-\xc3\xa4", "application/octet-stream"),
        (b"application/" + b"x" * 200, "application/octet-stream"),
        (b"nonsense", "text/plain"),
    ],
)
def test_a_type_that_cannot_be_written_is_any_file(written: bytes, mime_type: str) -> None:
    source = HEAD + b"Content-Type: " + written + b"\r\n" + AS_FILE + b"\r\n" + LARGE
    assert [each.mime_type for each in split_attachments(source, MOST).files] == [mime_type]


def test_a_message_of_files_alone_has_an_empty_text() -> None:
    part = b"--b\r\nContent-Type: application/pdf\r\n" + AS_FILE + b"\r\n" + LARGE + b"\r\n"
    source = HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * 2 + b"--b--\r\n"
    made = split_attachments(source, MOST)
    assert made.mime.endswith(b"boundary=b\r\n\r\n--b\r\n\r\n\r\n--b--\r\n")
    assert names(made) == ["f", "f"]
    put_together(source, made)


def test_lines_that_end_with_lf_alone() -> None:
    source = wire(file("a", 20_000), file("b", 100)).replace(b"\r\n", b"\n")
    put_together(source, split_attachments(source, MOST))


def of(kind: bytes, first: bytes, second: bytes) -> bytes:
    inside = b"\r\n--b\r\nContent-Type: " + first + b"\r\n\r\nHello\r\n--b\r\nContent-Type: " + second + b"\r\n"
    return HEAD + b"Content-Type: multipart/" + kind + b"; boundary=b\r\n" + inside + AS_FILE + b"\r\n" + LARGE


@pytest.mark.parametrize(
    "source",
    [
        wire(text="Hello\n" * 5_000),
        wire(file("a", 20_000), text="Hello\n" * 5_000),
        wire(html="<p>Hello</p>\n" * 5_000),
        of(b"signed", b"text/plain", b"application/pdf") + b"\r\n--b--\r\n",
        of(b"encrypted", b"application/pgp-encrypted", b"application/octet-stream") + b"\r\n--b--\r\n",
        of(b"report", b"text/plain", b"application/octet-stream") + b"\r\n--b--\r\n",
        of(b"alternative", b"text/plain", b"text/calendar") + b"\r\n--b--\r\n",
        of(b"mixed", b"text/plain", b"message/delivery-status") + b"\r\n--b--\r\n",
        HEAD + b"Content-Type: application/pkcs7-mime\r\n" + AS_FILE + b"\r\n" + LARGE,
        HEAD + b"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n" + LARGE,
        of(b"related", b"text/html", b"image/png") + b"\r\n--b--\r\n",  # not by an ID: by its place, or its address
        HEAD + b"Content-Type: multipart/related; boundary=b\r\n\r\n--b\r\nContent-Type: application/xhtml+xml\r\n"
        b"Content-ID: <a@x>\r\nContent-Transfer-Encoding: base64\r\n\r\n" + LARGE + b"--b\r\n\r\nx\r\n--b--\r\n",
        HEAD + b"\r\n" + LARGE.replace(b"\r\n", b"\r"),
        b"",
    ],
    ids=range(14),
)
def test_what_belongs_together_stays_together(source: bytes) -> None:
    assert split_attachments(source, min(MOST, max(0, len(source) - 1))) == SplitMessage(source)


def test_what_is_signed_may_have_files_beside_it() -> None:
    signed = of(b"signed", b"text/plain", b"application/pgp-signature").partition(b"MIME-Version: 1.0\r\n")[2]
    signed = signed.replace(LARGE, b"eA==") + b"\r\n--b--\r\n"
    file_beside = b"\r\n--o\r\nContent-Type: application/pdf\r\n" + AS_FILE + b"\r\n" + LARGE + b"\r\n--o--\r\n"
    source = HEAD + b"Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\n" + signed + file_beside
    made = split_attachments(source, MOST)
    assert names(made) == ["f"]
    assert signed in made.mime


def test_whatever_comes_divided_or_not_nothing_is_lost() -> None:
    dice = random.Random(7)
    for _ in range(60):
        files = [
            file(f"{number}.bin", dice.randrange(0, 9_000), dice.choice(["image/png", "text/plain", "application/zip"]))
            for number in range(dice.randrange(1, 12))
        ]
        source = wire(*files, html=dice.choice([None, PICTURE]))
        made = split_attachments(source, MOST)
        assert len(made.mime) <= MOST
        put_together(source, made)
