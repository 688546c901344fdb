"""No header value from a client or a parent is ever read as another header field."""

import base64
import email
import re
from collections.abc import Callable
from email.header import decode_header
from email.message import Message

import pytest

from mailbox_appliance.mail.compose import compose, with_bcc
from mailbox_appliance.mail.draft import to_sendable
from mailbox_appliance.mail.forward import decode_parts, forward_message
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.reply import reply_recipients, reply_threading
from mailbox_appliance.mail.threads import reply_subject
from mailbox_appliance.model.messages import Address, ComposedMessage, OutgoingAttachment, OutgoingMessage
from tests.mail.parents import as_stored
from tests.mail.test_compose import DATE, MESSAGE_ID

ALICE = Address(email="alice@example.com")
BREAKS = ["\r\n", "\n", "\r", "\0", "\x0b", "\x85", "\u2028"]


def q(text: str, charset: str = "utf-8") -> str:
    coded = "".join(f"={byte:02X}" for byte in text.encode(charset))
    return f"=?{charset}?Q?{coded}?="


def b(text: str) -> str:
    return f"=?utf-8?B?{base64.b64encode(text.encode()).decode()}?="


PAYLOADS = [f"x{each}Bcc: eve@example.net{each}{each}body" for each in BREAKS]
HIDDEN = [
    *(q(payload) for payload in PAYLOADS),
    b(PAYLOADS[0]),
    q(PAYLOADS[0], "iso-8859-1"),
    q(b(PAYLOADS[0])),
    b(q(q(PAYLOADS[0]))),
    f"a{q(PAYLOADS[0])}b",
    "=?utf-8*en?q?=0D=0ABcc:_e@x?=",
    *("=?utf-8?Q?a=0a?=", "=?UTF-8?b?YQpC?=", "=?utf-8*en?q?=00?="),
    "=?utf-7?Q?+AA0ACg-Bcc:?=",
    "=?utf-8?Q?a=0D?= =?utf-8?Q?=0ABcc:_e@x?=",
]

TWICE = (q(b(PAYLOADS[0])), b(q(q(PAYLOADS[0]))))


def reads_well(composed: ComposedMessage) -> Message:
    """Return the message. Checks that it has only fields that the appliance wrote, and no line break in any value, also
    decoded.
    """
    read = email.message_from_bytes(with_bcc(composed.wire, composed.bcc_header).read())
    names = [name.lower() for name in read]
    usual = {"from", "to", "cc", "bcc", "subject", "date", "message-id", "in-reply-to", "references", "mime-version"}
    assert len(names) == len(set(names))
    usual |= {"reply-to", "list-post"}  # for a draft
    assert set(names) <= usual | {"content-type", "content-transfer-encoding", "content-disposition", "content-id"}
    assert "bcc" not in names or composed.bcc_header
    for part in read.walk():
        for value in part.values():
            unfolded = re.sub(r"\r?\n(?=[ \t])", "", str(value))
            assert not re.search("[\r\n\0]", _decoded(unfolded)), unfolded
    return read


def _decoded(text: str) -> str:
    try:
        found = decode_header(text)
    except email.errors.HeaderParseError:
        return text
    return "".join(each.decode("latin_1") if isinstance(each, bytes) else str(each) for each, _ in found)


# --- values from a client ---


def file(name: str = "a.pdf", mime_type: str = "a/b", content_id: str | None = None) -> dict[str, object]:
    return {"attachments": (OutgoingAttachment(name, mime_type, b"x", content_id),)}


PLACES: dict[str, Callable[[str], dict[str, object]]] = {
    "subject": lambda text: {"subject": text},
    "name of the sender": lambda text: {"sender": Address(email="alice@example.com", name=text)},
    "name in To": lambda text: {"to": (Address(email="b@example.com", name=text),)},
    "name in Cc": lambda text: {"cc": (Address(email="b@example.com", name=text),)},
    "name in Bcc": lambda text: {"bcc": (Address(email="b@example.com", name=text),)},
    "sender": lambda text: {"sender": Address(email=f"{text}@example.com")},
    "address in To": lambda text: {"to": (Address(email=f"a@example.com{text}"),)},
    "address in Cc": lambda text: {"cc": (Address(email=f"{text}@example.com"),)},
    "address in Bcc": lambda text: {"bcc": (Address(email=f"a@{text}.example"),)},
    "file name": lambda text: file(name=text),
    "file type": lambda text: file(mime_type=f"text/{text}"),
    "parameter": lambda text: file(mime_type=f'a/b; c="{text}"'),
    "content id": lambda text: file(content_id=text),
}


@pytest.mark.parametrize("text", [*PAYLOADS, *HIDDEN])
@pytest.mark.parametrize("place", PLACES)
def test_what_a_client_gives_is_refused(place: str, text: str) -> None:
    given = {"sender": ALICE, "to": (ALICE,), "html": "<b>x</b>"} | PLACES[place](text)
    try:
        composed = compose(OutgoingMessage(**given), message_id=MESSAGE_ID, date=DATE)  # type: ignore[arg-type]
    except ValueError:
        return
    # Only a text that readers take literally may pass: encoded words inside encoded words.
    assert text in TWICE
    reads_well(composed)


@pytest.mark.parametrize("text", [*PAYLOADS, *HIDDEN])
def test_ids_with_such_are_left_out(text: str) -> None:
    outgoing = OutgoingMessage(
        sender=ALICE, to=(ALICE,), in_reply_to=f"<{text}@x>", references=("<ok@x>", f"<{text}>", text)
    )
    read = reads_well(compose(outgoing, message_id=MESSAGE_ID, date=DATE))
    assert read["References"].split()[0] == "<ok@x>"
    for bad in ("a\r\nBcc: x@y", text, *([f"<{text}@x>"] if text not in TWICE else [])):
        with pytest.raises(ValueError):
            compose(outgoing, message_id=bad, date=DATE)


# --- values from a parent ---

MIXED = "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
PARENT_PLACES = [
    'From: "{}" <bob@example.org>',
    "From: {} <bob@example.org>",
    "From: {}@example.org, bob@example.org",
    "Reply-To: {} <bob@example.org>",
    "To: {} <bob@example.org>",
    "Cc: bob@example.org ({})",
    "Subject: {}",
    "Message-ID: <{}@example.org>",
    "Message-ID: {}",
    "References: <a@b> <{}> {}",
    "In-Reply-To: <{}@x>",
    "List-Post: <mailto:{}@example.org>",
    'Content-Disposition: attachment; filename="{}"',
    'Content-Type: application/pdf; name="{}"; x="{}"',
    "Content-Type: {}/{}\r\nContent-Disposition: attachment",
    "Content-ID: <{}>\r\nContent-Disposition: attachment\r\nContent-Type: image/png",
]


@pytest.mark.parametrize("text", [*HIDDEN, *PAYLOADS, "a\r b", "\x00", "a%0D%0ABcc:x"])
@pytest.mark.parametrize("place", PARENT_PLACES)
def test_what_a_parent_brings_along_is_disarmed(place: str, text: str) -> None:
    field = place.replace("{}", text)
    for source in (
        f"{field}\r\nDate: Mon, 5 Jan 2026 10:00:00 +0000\r\n\r\nHello\r\n".encode(),
        f"{MIXED}--b\r\n\r\ncid:{text}\r\n--b\r\n{field}\r\n\r\nx\r\n--b--\r\n".encode(),
    ):
        for message in (*replies(source), passed_on(source)):
            reads_well(compose(message, message_id=MESSAGE_ID, date=DATE))


def replies(source: bytes) -> list[OutgoingMessage]:
    parent, headers = as_stored(source)
    found = []
    for everybody in (False, True):
        try:
            people = reply_recipients(parent, headers, ("alice@example.com",), everybody=everybody)
        except ValueError:
            continue
        ties = reply_threading(headers)
        found.append(
            OutgoingMessage(
                sender=ALICE,
                to=people.to,
                cc=people.cc,
                subject=reply_subject(parent.subject),
                in_reply_to=ties.in_reply_to,
                references=ties.references,
            )
        )
    return found


def passed_on(source: bytes) -> OutgoingMessage:
    made = forward_message(parse_message(source), "c", with_attachments=True)
    files = decode_parts(source, made.parts)
    return OutgoingMessage(
        sender=ALICE, to=(ALICE,), subject=made.subject, text=made.text, html=made.html, attachments=files
    )


@pytest.mark.parametrize("text", [*HIDDEN, "a\x0bb", "a%0D%0ABcc:x"])
@pytest.mark.parametrize("place", PARENT_PLACES)
def test_what_a_saved_draft_holds_is_disarmed_or_refused(place: str, text: str) -> None:
    field = place.replace("{}", text).replace("bob@example.org", "alice@example.com")
    source = f"{field}\r\nTo: bob@example.org\r\n\r\nHello\r\n".encode()
    try:
        composed = to_sendable(source, ALICE, message_id=MESSAGE_ID, date=DATE)
    except ValueError:
        return
    reads_well(composed)
    assert composed.bcc_header == b""
