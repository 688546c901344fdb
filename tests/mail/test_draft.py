"""Drafts of many programs, converted for sending: their recipients are certain, and Bcc recipients stay secret."""

import base64
import email
import email.policy
import random
import re
from collections.abc import Iterator
from email.message import Message
from email.utils import getaddresses

import pytest

from mailbox_appliance.mail.compose import compose, with_bcc
from mailbox_appliance.mail.draft import to_sendable
from mailbox_appliance.mail.parse import attachment_bytes, parse_message
from mailbox_appliance.model.messages import Address, ComposedMessage
from tests.mail import fuzz
from tests.mail.test_compose import DATE, MESSAGE_ID, MESSAGES
from tests.mail.test_corpus import CASES

ME = Address(email="alice@example.com", name="Alice A.")
TO = "To: bob@example.org"
HIDDEN = "hidden-7f3@secret.example"


def draft(*fields: str, body: str = "Hello\r\n") -> bytes:
    return ("\r\n".join(fields) + "\r\n\r\n" + body).encode("utf-8", "surrogateescape")


def made(source: bytes, sender: Address = ME) -> ComposedMessage:
    return to_sendable(source, sender, message_id=MESSAGE_ID, date=DATE)


def read(wire: bytes) -> Message:
    return email.message_from_bytes(wire)


def body_of(message: bytes) -> bytes:
    return message.partition(b"\r\n\r\n")[2]


def leaves(message: Message) -> Iterator[tuple[str, bytes]]:
    for part in message.walk():
        if not part.is_multipart():
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            yield part.get_content_type(), content


def sound(composed: ComposedMessage) -> None:
    """Check that every server accepts the message, and that it does not reveal a Bcc recipient."""
    wire = composed.wire.read()
    assert wire.isascii() or composed.envelope.smtputf8
    assert not {0x00, 0x0A, 0x0D} & set(wire.replace(b"\r\n", b""))
    assert max(map(len, wire.split(b"\r\n"))) <= 998
    assert wire.endswith(b"\r\n")
    head = wire.partition(b"\r\n\r\n")[0]
    names = [name.lower() for name in re.findall(rb"^([^\s:]+):", head, re.M)]
    once = (b"from", b"to", b"cc", b"reply-to", b"subject", b"date", b"message-id", b"in-reply-to", b"references")
    for name in (*once, b"mime-version", b"content-type", b"content-transfer-encoding"):
        assert names.count(name) <= 1, name
    assert all(names.count(name) == 1 for name in (b"from", b"date", b"message-id", b"mime-version"))
    assert not any(b"bcc" in name for name in names)


# --- fields that are kept or written again ---


#: Fields that the appliance writes, the body with its single line break, and tabs that readers take for spaces.
TOLD_OTHERWISE = ("empty", "empty text", "subject with a tab")


def test_a_draft_of_our_own_goes_as_it_was() -> None:
    for name, message in MESSAGES.items():
        if not (message.to or message.cc or message.bcc) or name in TOLD_OTHERWISE:
            continue
        saved = compose(message, message_id="<draft@example.com>", date=DATE)
        sent = made(with_bcc(saved.wire, saved.bcc_header).read(), message.sender)
        once = compose(message, message_id=MESSAGE_ID, date=DATE)
        assert body_of(sent.wire.read()) == body_of(saved.wire.read()), name
        assert (sent.bcc_header, sent.envelope) == (once.bcc_header, once.envelope), name
        for field in ("From", "To", "Cc", "Subject", "Date", "Message-ID", "In-Reply-To", "References"):
            assert read(sent.wire.read())[field] == read(once.wire.read())[field], (name, field)
        assert read(sent.wire.read())["Content-Type"] == read(saved.wire.read())["Content-Type"], name
        sound(sent)


THUNDERBIRD = draft(
    "X-Mozilla-Status: 0001", "X-Mozilla-Status2: 00800000", "X-Mozilla-Draft-Info: internal/draft; vcard=0", "FCC: x",
    "X-Identity-Key: id1", "X-Account-Key: account1", "Message-ID: <old@example.com>", f"BCC: {HIDDEN}",
    "Date: Sat, 1 Jan 2000 00:00:00 +0000", "MIME-Version: 1.0", "User-Agent: Mozilla Thunderbird",
    "Content-Language: de-DE", TO, "Cc: =?UTF-8?B?SsO2cmc=?= <joerg@example.org>", "From: Ann <alice@EXAMPLE.com>",
    "Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=", "In-Reply-To: <p@example.org>", "References: <r@example.org>",
    " <p@example.org>", "Content-Type: text/plain; charset=UTF-8; format=flowed", "Content-Transfer-Encoding: 8bit",
    body="Schöne Grüße \r\nund mehr\r\n-- \r\nAnn\r\n",
)  # fmt: skip


def test_a_draft_of_another_program() -> None:
    sent = made(THUNDERBIRD)
    sound(sent)
    message = email.message_from_bytes(sent.wire.read(), policy=email.policy.default)
    assert [name for name, _ in message.items()] == [
        *("From", "To", "Cc", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "User-Agent"),
        *("MIME-Version", "Content-Language", "Content-Type", "Content-Transfer-Encoding"),
    ]
    assert (message["From"], message["Subject"]) == ("Ann <alice@example.com>", "Grüße")
    assert (message["Message-ID"], message["References"]) == (MESSAGE_ID, "<r@example.org> <p@example.org>")
    assert message["Date"] == "Sun, 01 Mar 2026 12:30:05 +0100"
    assert message["Content-Type"] == 'text/plain; charset="UTF-8"; format="flowed"'
    content = message.get_payload(decode=True)
    assert content == "Schöne Grüße \r\nund mehr\r\n-- \r\nAnn\r\n".encode()
    assert HIDDEN not in sent.wire.read().decode()
    assert sent.bcc_header == f"Bcc: {HIDDEN}\r\n".encode()
    assert sent.envelope.recipients == ("bob@example.org", "joerg@example.org", HIDDEN)


STALE = (
    *("Return-Path: <x@y.example>", "Received: from a by b", "Delivered-To: alice@example.com", "Sender: x@y.example"),
    *("Resent-To: x@y.example", "Resent-Bcc: x@y.example", "X-Unsent: 1", "X-Apple-Mail-Remote-Attachments: YES"),
    *(
        "X-Uniform-Type-Identifier: com.apple.mail-draft",
        "X-Universally-Unique-Identifier: 1",
        "Status: RO",
        "X-UID: 5",
    ),
    *("X-Keys: a", "X-KMail-Fcc: 5", "DKIM-Signature: v=1", "Content-Length: 5", "R: <x@y.example>", "S: x@y.example"),
    *("X-BCC: x@y.example", "X-Foo: Bcc: x@y.example", "X-Foo: a\r\n Bcc : x@y.example", "X-Foo: 8-bit ä"),
    *("X-Foo: =?utf-8?Q?a=0D=0ABcc:_x?=", "X-Foo: a\x07", f"X-Foo: to {HIDDEN.upper()}", "X-Foo: " + "x" * 1000),
    *("X-Foo:\r\n \r\n x", "X-Foo: a\r\n \t", "no field at all", f"X-Foo: =?utf-8?Q?{HIDDEN.replace('@', '=40')}?="),
)


@pytest.mark.parametrize("field", STALE)
def test_what_others_must_not_see_or_could_misread_is_dropped(field: str) -> None:
    source = draft("X-Priority: 1", field, TO, f"Bcc: {HIDDEN}", "X-Mailer: l")
    names = [name for name, _ in read(made(source).wire.read()).items()]
    assert names == ["From", "To", "Date", "Message-ID", "X-Priority", "X-Mailer", "MIME-Version"]


LOCAL, DOMAIN = HIDDEN.split("@")


@pytest.mark.parametrize(
    "value",
    [
        base64.b64encode(HIDDEN.encode()).decode(),
        f"{LOCAL}%40{DOMAIN}",
        f"{LOCAL[:4]}\r\n {LOCAL[4:]}@{DOMAIN}",
        f"{LOCAL} @ {DOMAIN}",
        f'"{LOCAL}"@{DOMAIN}',
        f"{LOCAL}(c)@{DOMAIN}",
        "Hidden Person",
    ],
)
def test_a_field_that_nobody_knows_tells_of_no_hidden_recipient(value: str) -> None:
    named = f"Bcc: Hidden Person <{HIDDEN}>"
    assert b"X-Foo" not in made(draft(f"X-Foo: {value}", TO, named)).wire.read()
    assert b"X-Foo" in made(draft("X-Foo: 1", TO)).wire.read()  # no Bcc recipient


@pytest.mark.parametrize(
    "field",
    ["X-Priority: 1", "Autocrypt: addr=a@b.example;\r\n keydata=abc\r\n def", "Importance:high", "X-A:\ta  b\t"],
)
def test_other_fields_stay_as_they_are(field: str) -> None:
    assert f"\r\n{field}\r\n".encode() in made(draft(field, TO)).wire.read()


# --- recipients ---


@pytest.mark.parametrize(
    ("fields", "recipients"),
    [
        (["To: a@x.example", "TO : b@x.example", "to:c@x.example"], "a@x.example b@x.example c@x.example"),
        (["To: undisclosed-recipients:;", "Bcc: a@x.example"], "a@x.example"),
        (["To: =?utf-8?Q?Verborgene_Empf=C3=A4nger?=: ;", "Cc: a@x.example"], "a@x.example"),
        (["To: ,a@x.example,,b@x.example,"], "a@x.example b@x.example"),
        (["To: a@x.example; b@x.example"], "a@x.example b@x.example"),
        (['To: =?utf-8?Q?Doe,_J.?= <a@x.example>, "b, c" <d@x.example> (e, f)'], "a@x.example d@x.example"),
        (["To: =?utf-8?B?QsO8?= <a@bücher.example>"], "a@xn--bcher-kva.example"),
        (["To: a@x.example,\r\n b@x.example,\r\n\tc@x.example"], "a@x.example b@x.example c@x.example"),
        (["To: a@x.example", "bcc:\r\n b@x.example"], "a@x.example b@x.example"),
        (["To: a@x.example", "Bcc: a@x.example"], "a@x.example"),
        (["To: jörg@x.example"], "jörg@x.example"),
    ],
)
def test_who_it_goes_to(fields: list[str], recipients: str) -> None:
    sent = made(draft(*fields))
    assert sent.envelope.recipients == tuple(recipients.split())
    sound(sent)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([], "no recipients"),
        (["To: undisclosed-recipients:;"], "no recipients"),
        (["To: ", "Cc:,,"], "no recipients"),
        (["To: Friends: a@x.example, b@x.example;"], "group"),
        (["To: a@x.example, Friends: b@x.example;"], "group"),
        (["Bcc: Friends: a@x.example;", TO], "Bcc .* group"),
        (["To: bob"], "its entry 1 is not a single address"),
        (["To: a@x.example, bob"], "its entry 2 is not a single address"),
        (["To: a@x.example b@x.example"], "is not a single address"),
        (["To: <a@x.example> <b@x.example>"], "is not a single address"),
        (["To: <>", TO], "is not a single address"),
        (["To: a@[192.0.2.1]"], "cannot be sent to address 1"),
        (['To: "a b"@x.example'], "cannot be sent to address 1"),
        (["To: a@-x.example"], "cannot be sent to address 1"),
        ([TO, "Bcc: a@x.example\x00"], "control characters"),
        ([TO, "X: a\rBcc: b@x.example"], "control characters"),
        ([TO, "X: a\r\r\nBcc: b@x.example"], "control characters"),
        ([TO, "Reply-To: bob"], "Reply-To"),
        (["From: eve@x.example", TO], "not this mailbox"),
        (["From: alice@example.com, eve@x.example", TO], "not this mailbox"),
        (["From: alice@example.com", "From: eve@x.example", TO], "not this mailbox"),
        (["From: alice", TO], "From field is not valid"),
        ([TO, "X: " + "x" * 300_000], "too long"),
        ([TO, *["X: y"] * 1_000], "too long"),
    ],
)
def test_a_draft_that_cannot_go_says_why(fields: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        made(draft(*fields))


@pytest.mark.parametrize(
    "source",
    [
        draft(TO, body=""),
        draft(TO, "Subject: ", body=" \r\n\t\r\n"),
        draft(TO, "Content-Type: text/html", body="<html><body><p>&nbsp;<br></p></body></html>"),
        draft(TO, "Content-Type: multipart/alternative; boundary=b", body="--b\r\n\r\n \r\n--b--\r\n"),
    ],
)
def test_an_empty_draft_does_not_go(source: bytes) -> None:
    with pytest.raises(ValueError, match="empty"):
        made(source)


@pytest.mark.parametrize(
    "source",
    [
        draft(TO, body="."),
        draft(TO, "Content-Type: text/html", body='<img src="https://x.example/a.png">'),
        draft(TO, "Content-Type: application/pdf", body="x"),
        draft(TO, "Subject: EOM", body=""),
        draft(TO, "Subject: EOM", "Content-Type: multipart/alternative; boundary=b", body="--b\r\n\r\n \r\n--b--\r\n"),
    ],
)
def test_little_is_not_nothing(source: bytes) -> None:
    sound(made(source))


def test_the_sender_has_the_name_of_the_draft_else_of_the_mailbox() -> None:
    assert read(made(draft("From: <ALICE@example.com>", TO)).wire.read())["From"] == '"Alice A." <alice@example.com>'
    assert read(made(draft("From: Al <alice@example.com>", TO)).wire.read())["From"] == "Al <alice@example.com>"
    assert read(made(draft(TO)).wire.read())["From"] == '"Alice A." <alice@example.com>'


def test_where_answers_go_stays() -> None:
    sent = made(draft("Reply-To: Größe <g@bücher.example>", TO))
    assert read(sent.wire.read())["Reply-To"] == "=?utf-8?B?R3LDtsOfZQ==?= <g@xn--bcher-kva.example>"
    assert not sent.envelope.smtputf8
    assert made(draft("Reply-To: jörg@x.example", TO)).envelope.smtputf8


def test_hostile_ids_are_left_out_and_many_are_trimmed() -> None:
    ids = "<a b@x> <x=?utf-8?Q?=0ABcc:x?=@x> <ok@x> <\u00e4@x>"
    message = read(made(draft(TO, f"In-Reply-To: {ids}", f"References: {ids} {ids} <two@x>")).wire.read())
    assert message["In-Reply-To"] == "<ok@x>"
    assert message["References"].split() == ["<ok@x>", "<two@x>"]
    many = "References: " + "\r\n ".join(f"<{number}@x>" for number in range(200))
    assert len(read(made(draft(TO, many)).wire.read())["References"].split()) == 50


def test_a_long_subject_is_whole_or_refused() -> None:
    assert read(made(draft(TO, "Subject: " + "word " * 900 + "end")).wire.read())["Subject"].split() == [
        "word"
    ] * 900 + ["end"]
    with pytest.raises(ValueError, match="header field"):
        made(draft(TO, "Subject: " + "word " * 9000))


# --- parts that are encoded again ---

MIXED = "Content-Type: multipart/mixed; boundary=b"


def mixed(*parts: bytes, fields: tuple[str, ...] = (TO, MIXED)) -> bytes:
    return draft(*fields, body="preamble\r\n") + b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + b"--b--\r\n"


CONTENTS = [
    (b"Content-Type: text/plain; charset=utf-8", "Grüße\r\n\r\n.\r\nFrom x\r\n".encode()),
    (b"Content-Type: text/plain; charset=utf-8", "кириллица\r\n".encode() * 200),
    (b"Content-Type: text/plain; charset=iso-8859-1", b"Gr\xfc\xdfe"),
    (b"Content-Type: text/plain\r\nContent-Transfer-Encoding: 7bit", b"x" * 5000),
    (b"Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit", "<p>ü</p>".encode() * 500),
    (b"Content-Type: text/plain; charset=utf-16\r\nContent-Transfer-Encoding: binary", "ab\r\nc".encode("utf-16")),
    (b"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary", bytes(range(256)) * 20),
    (b"Content-Type: image/png", b"\x89PNG\r\n\x1a\n\0"),
    (b"Content-Type: text/plain; charset=utf-8", "see --b and \n--c\xfc".encode() + b"y" * 70 + b" --b\r\nx"),
]


@pytest.mark.parametrize(("head", "content"), CONTENTS)
def test_what_is_not_7_bit_is_encoded_anew(head: bytes, content: bytes) -> None:
    clean = b"Content-Type: text/plain; x=y\r\nX-Other: z\r\n\r\n kept exactly \r\n"
    sent = made(mixed(clean, head + b"\r\nContent-Description: d\r\n\r\n" + content, clean))
    sound(sent)
    first, second, third = leaves(read(sent.wire.read()))
    assert first == third == ("text/plain", b" kept exactly \r\n")
    assert (
        second[1].replace(b"\n", b"\r\n").replace(b"\r\r\n", b"\r\n") == content
        or second[1] == content
        or (head.startswith(b"Content-Type: text/") and second[1] == re.sub(rb"\r\n|\r|\n", b"\r\n", content))
    )
    assert sent.wire.read().count(b"Content-Description: d") == 1
    alone = made(draft(TO).removesuffix(b"\r\nHello\r\n") + head + b"\r\n\r\n" + content)
    assert parse_message(alone.wire.read()).text == parse_message(head + b"\r\n\r\n" + content).text
    sound(alone)


def test_a_text_without_a_character_set_is_told_to_be_utf_8() -> None:
    sent = made(draft(TO, body="Grüße\r\n"))
    assert read(sent.wire.read()).get_content_charset() == "utf-8"
    assert parse_message(sent.wire.read()).text == "Grüße"


def test_names_in_8_bit_are_written_anew() -> None:
    part = 'Content-Type: application/pdf; name="ü.pdf"\r\nContent-Disposition: attachment; filename="ü.pdf"\r\n\r\n\0'
    message = email.message_from_bytes(made(mixed(b"\r\nx", part.encode())).wire.read(), policy=email.policy.default)
    assert [part.get_filename() for part in message.walk()][1:] == [None, "ü.pdf"]


def test_an_attached_message_in_8_bit_goes_as_a_file() -> None:
    inner = "Subject: ü\r\n\r\nü\r\n".encode()
    sent = made(mixed(b"\r\nx", b"Content-Type: message/rfc822\r\n\r\n" + inner))
    (listed,) = parse_message(sent.wire.read()).attachments
    assert (listed.mime_type, listed.filename) == ("application/octet-stream", "ü.eml")
    assert attachment_bytes(sent.wire.read(), listed.part) == inner.removesuffix(b"\r\n") + b"\r\n"
    sound(sent)


SIGNED = 'Content-Type: multipart/signed; protocol="application/pgp-signature"; micalg=pgp-sha256; boundary=s'


@pytest.mark.parametrize("inside", [False, True])
def test_a_signed_part_stays_exactly_or_is_refused(inside: bool) -> None:
    for text, goes in ((b"clean  \r\ntext", True), ("Grüße".encode(), False), (b"x" * 2000, False)):
        signed = (
            b"--s\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" + text + b"\r\n--s\r\n"
            b"Content-Type: application/pgp-signature\r\n\r\n-----BEGIN\r\n--s--\r\n"
        )
        source = draft(TO, SIGNED, body="").removesuffix(b"\r\n") + b"\r\n" + signed
        if inside:
            source = mixed("\r\nü".encode(), SIGNED.encode() + b"\r\n\r\n" + signed)
        if goes:
            assert signed in made(source).wire.read()
            continue
        with pytest.raises(ValueError, match="signature"):
            made(source)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (mixed(b"Content-Type: x/y\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\nbegin \xff"), "encoding"),
        (draft(TO, "Content-Type: multipart/mixed", body="--b\r\n\r\nü"), "boundaries between its parts"),
        (draft(TO, "Content-Type: multipart/mixed; boundary=x", body="--b\r\n\r\nü"), "boundaries between its parts"),
        (mixed(*[b"\r\nx"] * 1100, "\r\nü".encode()), "boundaries between its parts"),
        (draft(TO, 'Content-Type: multipart/mixed; boundary="ü"', body="--ü\r\n\r\nü\r\n--ü--"), "boundary"),
    ],
)
def test_what_cannot_be_encoded_anew_says_so(source: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        made(source)


def test_bare_line_feeds_become_line_ends() -> None:
    sent = made(mixed(b"\r\nx", b"Content-Transfer-Encoding: base64\r\n\r\nYQ==").replace(b"\r\n", b"\n"))
    assert [content for _, content in leaves(read(sent.wire.read()))] == [b"x", b"a"]
    sound(sent)


# --- the hard messages, and damaged drafts ---


def test_the_hard_messages_as_drafts() -> None:
    gone = 0
    for case in CASES:
        before = parse_message(case.source)
        source = f"Bcc: {HIDDEN}\r\nTo: bob@example.org\r\n".encode() + case.source
        try:
            sent = made(source, Address(email=before.sender.email if before.sender else ME.email))
        except ValueError:
            continue
        gone += 1
        sound(sent)
        assert HIDDEN not in sent.wire.read().decode(), case.name
        assert HIDDEN in sent.envelope.recipients, case.name
        after = parse_message(sent.wire.read())
        assert (after.text, after.html) == (before.text, before.html) or before.warnings, case.name
        assert len(after.attachments) == len(before.attachments), case.name
    assert gone > 200


DRAFTS = [
    THUNDERBIRD,
    mixed(*(head + b"\r\n\r\n" + content for head, content in CONTENTS), fields=(TO, f"bCC: {HIDDEN}", MIXED)),
    draft("From: alice@example.com", f"Bcc: x <a@x.example>,\r\n {HIDDEN}", TO, "Cc: b@x.example", "Subject: s"),
]


@pytest.mark.parametrize("seed", range(3))
def test_no_damage_brings_a_hidden_recipient_to_light(seed: int) -> None:
    gone = 0
    for number in range(700):
        dice = random.Random(f"{seed}.{number}")
        source = bytearray(DRAFTS[seed])
        for _ in range(dice.choice((1, 1, 2, 3, 5))):
            dice.choice((*fuzz.MUTATIONS, _trick, _trick))(source, dice)
        try:
            sent = made(bytes(source))
        except ValueError:
            continue
        gone += 1
        sound(sent)
        message = email.message_from_bytes(bytes(source).replace(b"\r\r\n", b"\r\n"))
        bcc = " ".join(str(value) for value in message.get_all("Bcc", []))
        if bytes(source).count(HIDDEN.encode()) == bcc.count(HIDDEN):
            assert HIDDEN not in sent.wire.read().decode(), f"seed {seed}, draft {number}"
        assert read(sent.wire.read()).get_all("Bcc") is None
        if sent.envelope.smtputf8:  # the `email` package does not read such addresses
            continue
        shown = getaddresses([v for name in ("To", "Cc") for v in read(sent.wire.read()).get_all(name, [])])
        known = {each.casefold() for each in sent.envelope.recipients}
        assert {each.casefold() for _, each in shown if "@" in each} <= known, f"seed {seed}, draft {number}"
    assert gone > 100


TRICKS = [
    *(b"\r\nBCC : ", b"\rBcc: ", b"\nbcc:\n ", b"\0", b"\r\n \r\n", b"\r\n\t", b"\r\n\r\n", b"\nBcc:", b"Bcc:\r\n "),
    *(HIDDEN.encode(), b"\r\nX-A: ", b"\r\nTo: ", b"=?utf-8?Q?=0D=0ABcc:_", b"?=", b"\r\r\n", b"\x85", b":;", b", "),
]


def _trick(source: bytearray, dice: random.Random) -> None:
    at = dice.randrange(min(len(source), 600) + 1)
    source[at:at] = dice.choice(TRICKS)
