"""Messages of every kind as they are composed, each with what must arrive."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mail.draft import to_sendable
from mailbox_appliance.mail.forward import decode_parts, forward_message
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.reply import reply_recipients, reply_threading
from mailbox_appliance.mail.threads import reply_subject
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.messages import Address, ComposedMessage, OutgoingAttachment, OutgoingMessage
from mailbox_appliance.sync.parse_child import BoundedReader
from tests.mail.parents import as_stored
from tests.mail.test_compose import DATE, MESSAGES

ALICE = Address(email="alice@example.com", name="Alice")
BLOCK = (
    "---------- Forwarded message ----------\nFrom: Bob <bob@example.org>\nDate: Mon, 5 Jan 2026, 10:00 (UTC-05:00)\n"
)
DATE_FIELD = "Date: Mon, 5 Jan 2026 10:00:00 -0500"


@dataclass(frozen=True)
class File:
    """An attachment as it must arrive."""

    name: str
    mime_type: str
    content: bytes
    content_id: str | None = None
    inline: bool = False


@dataclass(frozen=True)
class Mail:
    """A message as it must arrive. Addresses are `name|email`, without a name `email`; HTML may be given in part."""

    sender: str = "Alice|alice@example.com"
    to: tuple[str, ...] = ("Bob|bob@example.org",)
    cc: tuple[str, ...] = ()
    subject: str = ""
    text: str = ""
    html: str | None = None
    holds: tuple[str, ...] = ()  # parts of the HTML, if it is not given in full
    files: tuple[File, ...] = ()
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Letter:
    """A composed message, its recipients, and what must arrive."""

    name: str
    composed: ComposedMessage
    recipients: tuple[str, ...]
    mail: Mail


def message_id(name: str) -> str:
    """Return a Message-ID that contains the name of the message."""
    return f"<{name.replace(' ', '-').replace(',', '')}@example.com>".encode("ascii", "replace").decode()


def source(*fields: str, body: str = "Hello\r\n") -> bytes:
    """Return a message with these header fields."""
    return ("\r\n".join(fields) + "\r\n\r\n" + body).encode()


def answer(parent: bytes, **given: object) -> OutgoingMessage:
    """Return the reply `Yes` to a message, as Alice sends it."""
    message, headers = as_stored(parent)
    people = reply_recipients(message, headers, ("alice@example.com",), **given)  # type: ignore[arg-type]
    ties = reply_threading(headers)
    return OutgoingMessage(
        sender=ALICE,
        to=people.to,
        cc=people.cc,
        subject=reply_subject(message.subject),
        text="Yes",
        in_reply_to=ties.in_reply_to,
        references=ties.references,
    )


def passed_on(original: bytes, comment: str | None, *, with_attachments: bool = True) -> OutgoingMessage:
    """Return a message forwarded to Bob, as Alice sends it."""
    made = forward_message(parse_message(original), comment, with_attachments=with_attachments, reader=BoundedReader())
    return OutgoingMessage(
        sender=ALICE,
        to=(Address(email="bob@example.org", name="Bob"),),
        subject=made.subject,
        text=made.text,
        html=made.html,
        attachments=decode_parts(original, made.parts),
    )


def _inline() -> list[Letter]:
    found = []
    for name, message in MESSAGES.items():
        people = [each.email for each in (*message.to, *message.cc, *message.bcc)]
        shown = message.html is not None
        files = sorted(message.attachments, key=lambda each: not (each.inline and shown))
        mail = Mail(
            to=tuple(map(_written, message.to)),
            cc=tuple(map(_written, message.cc)),
            subject=message.subject,
            text=message.text or "",
            html=message.html,
            files=tuple(
                File(
                    a.filename,
                    a.mime_type.partition(";")[0].lower(),
                    Content(a.content).read(),
                    _bare(a.content_id),
                    a.inline,
                )
                for a in files
            ),
            in_reply_to=message.in_reply_to,
            references=message.references,
        )
        composed = compose(message, message_id=message_id(name), date=DATE)
        found.append(Letter(name, composed, tuple(people), mail))
    return found


def _written(address: Address) -> str:
    return f"{address.name}|{address.email}" if isinstance(address.name, str) and address.name else address.email


def _type(file: OutgoingAttachment) -> str:
    return file.mime_type.partition(";")[0].lower()


def _bare(content_id: str | None) -> str | None:
    return content_id.removeprefix("<").removesuffix(">") if content_id else None


BOB = ("From: Bob <bob@example.org>", "Message-ID: <p@example.org>", DATE_FIELD)
ROOT = ("References: <r@example.org>", "In-Reply-To: <r@example.org>")
MANY = tuple(f"<{number}@example.org>" for number in range(120))
REPLY = Mail(subject="Re: Lunch", text="Yes", in_reply_to="<p@example.org>", references=("<p@example.org>",))
EVERYBODY: dict[str, object] = {"everybody": True}
# fmt: off
REPLIES: dict[str, tuple[bytes, dict[str, object], Mail]] = {
    "a reply": (source(*BOB, "Subject: Lunch"), {}, REPLY),
    "a reply in a thread": (source(*BOB, "Subject: RE: re: Lunch", *ROOT), {},
        replace(REPLY, references=("<r@example.org>", "<p@example.org>"))),
    "a reply to Reply-To": (source(*BOB, "Reply-To: =?utf-8?Q?L=C3=A4den?= <l@example.net>", "Subject: Lunch"), {},
        replace(REPLY, to=("Läden|l@example.net",))),
    "a reply to ourselves": (source("From: ALICE@example.com", "To: Bob <bob@example.org>", *BOB[1:], "Subject: Lunch"),
        {}, REPLY),
    "a reply to all": (source(*BOB, "To: Alice <Alice@Example.com>, d@Example.net", "Cc: D@example.NET, e@example.net",
        "Subject: Lunch"), EVERYBODY,
        replace(REPLY, to=("Bob|bob@example.org", "d@example.net"), cc=("e@example.net",))),
    "a reply to all of a list": (source(*BOB, "To: alice@example.com", "List-Post: <mailto:list@example.net>",
        "Subject: [list] Lunch"), EVERYBODY,
        replace(REPLY, subject="Re: [list] Lunch", to=("Bob|bob@example.org", "list@example.net"))),
    "a reply to a long thread": (source(*BOB, "Subject: Lunch", "References: " + "\r\n ".join(MANY)), {},
        replace(REPLY, references=(MANY[0], *MANY[-48:], "<p@example.org>"))),
    "a reply to a parent without an id": (source(BOB[0], DATE_FIELD), {},
        replace(REPLY, subject="Re:", in_reply_to=None, references=())),
    "a reply to a hostile parent": (source(
        'From: "=?utf-8?B?QQ0KQmNjOiBldmVAZXhhbXBsZS5uZXQ=?=" <bob@example.org>', "Message-ID: <p@example.org>",
        "References: <=?utf-8?Q?=0D=0ABcc:_e@f?=> <\u00e4@example.org>",
        "Subject: =?utf-8?Q?a=0D=0ABcc:_eve@example.net?="), {},
        replace(REPLY, to=("A Bcc: eve@example.net|bob@example.org",), subject="Re: a Bcc: eve@example.net",
            references=("<p@example.org>",))),
    "a reply to an internationalized domain": (source("From: Bob <bob@bücher.example>", *BOB[1:], "Subject: Größe"), {},
        replace(REPLY, to=("Bob|bob@xn--bcher-kva.example",), subject="Re: Größe")),
}

HEAD = (*BOB, "To: alice@example.com", "MIME-Version: 1.0")
PLAIN = source(*HEAD, "Subject: Plan", "Content-Type: text/plain; charset=utf-8", body="Grüße\r\n  Bob\r\n")
PICTURES = source(*HEAD, "Subject: FW: Plan", 'Content-Type: multipart/mixed; boundary="m"', body=(
    "--m\r\nContent-Type: multipart/related; boundary=r\r\n\r\n--r\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    '<html><head><title>t</title></head><body bgcolor="#fff">See <img src="cid:one%40x" alt="it"></body></html>\r\n'
    "--r\r\nContent-Type: image/png\r\nContent-ID: <one@x>\r\n\r\none\r\n--r\r\nContent-Type: image/png\r\n"
    "Content-ID: <two@x>\r\nContent-Disposition: inline; filename=two.png\r\n\r\ntwo\r\n--r--\r\n--m\r\n"
    'Content-Type: application/pdf; name="Ü.pdf"\r\nContent-Transfer-Encoding: base64\r\n\r\ncGRm\r\n--m--\r\n'))
FORWARD = Mail(subject="Fwd: Plan")
OVER = BLOCK + "Subject: Plan\nTo: alice@example.com\n\n"
SHOWN = File("attachment-1.2.png", "image/png", b"one", "one@x", inline=True)
FILES = (File("two.png", "image/png", b"two"), File("Ü.pdf", "application/pdf", b"pdf"))
QUOTED = (
    ">From:</b> Bob &lt;bob@example.org&gt;<br ",
    '<div style="background-color: #fff">See <img src="cid:one%40x"',
)
PICTURED = replace(FORWARD, text=BLOCK + "Subject: FW: Plan\nTo: alice@example.com\n\nSee it", holds=QUOTED)
INNER = "Subject: inner\r\n\r\nx\r\n"
MEETING = source(*HEAD, "Subject: Plan", "Content-Type: multipart/mixed; boundary=m", body=(
    "--m\r\n\r\nHi\r\n--m\r\nContent-Type: text/calendar; method=REQUEST; charset=iso-8859-1\r\n"
    "Content-Disposition: attachment; filename=i.ics\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=FC\r\n"
    f"--m\r\nContent-Type: message/rfc822\r\n\r\n{INNER}--m--\r\n"))
FORWARDS: dict[str, tuple[bytes, str | None, bool, Mail]] = {
    "a forward": (PLAIN, None, True, replace(FORWARD, text=f"{OVER}Grüße\n  Bob")),
    "a forward with a comment": (PLAIN, "See:\r\nit", True, replace(FORWARD, text=f"See:\n\nit\n\n{OVER}Grüße\n  Bob"
        .replace("\n\nit", "\nit", 1))),
    "a forward with pictures": (PICTURES, None, True, replace(PICTURED, files=(SHOWN, *FILES))),
    "a forward with pictures, without files": (PICTURES, None, False, replace(PICTURED, files=(SHOWN,))),
    "a forward with pictures and a comment": (PICTURES, "a < b\nc", False, replace(PICTURED, text="a < b\nc\n\n"
        + PICTURED.text, files=(SHOWN,), holds=(*QUOTED, ">a &lt; b<br ", "\nc</div>"))),
    "a forward of a meeting": (MEETING, None, True, replace(FORWARD, text=f"{OVER}Hi", files=(
        File("i.ics", "text/calendar", b"\xfc"), File("inner.eml", "message/rfc822", INNER.encode())))),
    "a forward of a meeting, without files": (MEETING, None, False, replace(FORWARD, text=f"{OVER}Hi")),
    "a forward of a reply": (PLAIN.replace(b"Plan", b"Re: [Fwd: Plan]"), None, True, replace(FORWARD,
        subject="Fwd: Re: Plan", text=f"{OVER}Grüße\n  Bob".replace("Plan", "Re: [Fwd: Plan]"))),
}

TO = "To: Bob <bob@example.org>"
SIGNED = (
    "--s\r\nContent-Type: text/plain\r\n\r\nsigned  \r\n"
    "--s\r\nContent-Type: application/pgp-signature; name=s.asc\r\n\r\n-----BEGIN PGP SIGNATURE-----\r\n--s--\r\n")
DRAFTS: dict[str, tuple[bytes, tuple[str, ...], Mail]] = {
    "a draft": (source(TO, "Subject: s", "From: Alice <ALICE@example.com>", "Message-ID: <old@example.com>"), (),
        Mail(subject="s", text="Hello")),
    "a draft with hidden recipients": (source("bCC: eve@example.net,", " Max <max@example.net>", TO, "X-Bcc: eve@x.y"),
        ("eve@example.net", "max@example.net"), Mail(text="Hello")),
    "a draft in 8 bit": (source(TO, "Subject: Größe", "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: 8bit", body="Grüße\r\n.\r\n"), (), Mail(subject="Größe", text="Grüße\n.\n")),
    "a draft of Thunderbird": (source("X-Mozilla-Draft-Info: internal/draft", "X-Identity-Key: id1", "FCC: imap://x",
        TO, "User-Agent: Mozilla Thunderbird", "X-Priority: 1"), (),
        Mail(text="Hello", others={"User-Agent": "Mozilla Thunderbird", "X-Priority": "1"})),
    "a draft of Apple Mail": (source("X-Uniform-Type-Identifier: com.apple.mail-draft", "X-Apple-Auto-Saved: 1", TO,
        "X-Universally-Unique-Identifier: 1", "Mime-Version: 1.0 (Mac OS X Mail 16.0)"), (), Mail(text="Hello")),
    "a draft that is a reply": (source(TO, "In-Reply-To: <p@example.org>",
        "References: <r@example.org> <p@example.org>"), (),
        Mail(text="Hello", in_reply_to="<p@example.org>", references=("<r@example.org>", "<p@example.org>"))),
    "a draft with HTML": (source(TO, "Content-Type: text/html; charset=utf-8", body="<p>Grüße</p>\r\n"), (),
        Mail(html="<p>Grüße</p>\n")),
    "a draft with a file": (source(TO, "Content-Type: multipart/mixed; boundary=m", body=(
        '--m\r\n\r\nHi\r\n--m\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename="ü.pdf"\r\n'
        "Content-Transfer-Encoding: base64\r\n\r\ncGRm\r\n--m--\r\n")), (),
        Mail(text="Hi", files=(File("ü.pdf", "application/pdf", b"pdf"),))),
    "a draft that is signed": (source(TO, "Content-Type: multipart/signed; boundary=s", body=SIGNED), (),
        Mail(text="signed  ", files=(File("s.asc", "application/pgp-signature", b"-----BEGIN PGP SIGNATURE-----"),))),
    "a draft to a group of nobody": (source("To: undisclosed-recipients:;", "Cc: c@bücher.example"), (),
        Mail(to=(), cc=("c@xn--bcher-kva.example",), text="Hello")),
}
# fmt: on


def _envelope(mail: Mail) -> tuple[str, ...]:
    return tuple(each.rpartition("|")[2] for each in (*mail.to, *mail.cc))


def _made() -> list[Letter]:
    found = _inline()
    for name, (parent, given, mail) in REPLIES.items():
        composed = compose(answer(parent, **given), message_id=message_id(name), date=DATE)
        found.append(Letter(name, composed, _envelope(mail), mail))
    for name, (original, comment, with_attachments, mail) in FORWARDS.items():
        outgoing = passed_on(original, comment, with_attachments=with_attachments)
        found.append(Letter(name, compose(outgoing, message_id=message_id(name), date=DATE), _envelope(mail), mail))
    for name, (draft, hidden, mail) in DRAFTS.items():
        composed = to_sendable(draft, ALICE, message_id=message_id(name), date=DATE)
        found.append(Letter(name, composed, (*_envelope(mail), *hidden), mail))
    return found


LETTERS = _made()
