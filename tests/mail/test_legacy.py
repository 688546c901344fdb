"""Scheduled messages of release 0.10: they are sent unchanged, except for anything that would prevent sending."""

import email
import email.policy
from datetime import UTC, datetime

import pytest

from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.legacy import MessageListing, normalize, read_listing
from mailbox_appliance.model.messages import Address, ComposedMessage, Envelope
from tests.mail import fuzz
from tests.mail.test_corpus import CASES
from tests.mail.test_draft import sound

DATE = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ENVELOPE = Envelope("ada@example.org", ("bob@example.org",))
PLAIN = b"From: ada@example.org\r\nTo: bob@example.org\r\nSubject: later\r\nMessage-ID: <later-1@example.org>\r\n"
DATED = b"Date: Wed, 04 Mar 2026 05:06:07 +0000\r\n"
NAMELESS = b"From: ada@example.org\r\n"
BODY = b"\r\nhello\r\n"


def ready(source: bytes, envelope: Envelope = ENVELOPE) -> ComposedMessage:
    return normalize(source, envelope, message_id="<new@example.org>", date=DATE)


@pytest.mark.parametrize(
    ("source", "wire"),
    [
        (PLAIN + DATED + BODY, PLAIN + DATED + BODY),
        (PLAIN + b"X-Odd:  two  spaces \r\n\tfolded\r\n" + DATED + BODY,) * 2,
        (PLAIN + BODY, PLAIN + DATED + BODY),
        ((PLAIN + BODY).replace(b"\r\n", b"\n"), PLAIN + DATED + BODY),
        (PLAIN + b"Date: \r\n" + BODY, PLAIN + DATED + BODY),
        (PLAIN + DATED + b"\r\nno end", PLAIN + DATED + b"\r\nno end\r\n"),
        (PLAIN + DATED, PLAIN + DATED + b"\r\n\r\n"),
        (PLAIN + DATED + b"Bcc: eve@example.org\r\nResent-Bcc: x@example.org\r\n" + BODY, PLAIN + DATED + BODY),
        (NAMELESS + DATED + BODY, NAMELESS + DATED + b"Message-ID: <new@example.org>\r\n" + BODY),
        (b"\r\nhello\r\n", b"From: <ada@example.org>\r\n" + DATED + b"Message-ID: <new@example.org>\r\n" + BODY),
    ],
)
def test_what_is_missing_is_added_and_nothing_else_is_changed(source: bytes, wire: bytes) -> None:
    assert ready(source).wire.read() == wire


def test_hidden_recipients_stay_for_our_own_copy() -> None:
    made = ready(PLAIN + DATED + b"Bcc: eve@example.org,\r\n mallory@example.org\r\n" + BODY)
    assert b"eve" not in made.wire.read()
    source = with_bcc(made.wire, made.bcc_header).read()
    assert b"\r\nBcc: eve@example.org,\r\n mallory@example.org\r\n\r\nhello" in source


def test_eight_bits_are_written_in_seven() -> None:
    source = PLAIN.replace(b"later\r", "später ☂\r".encode()) + DATED + "\r\nGrüße\r\n".encode()
    made = ready(source)
    sound(made)
    read = email.message_from_bytes(made.wire.read(), policy=email.policy.default)
    assert (read["Subject"], read.get_content()) == ("später ☂", "Grüße\r\n")
    assert made.message_id == "<later-1@example.org>"
    assert not made.envelope.smtputf8


def test_a_mailbox_in_utf_8_needs_a_server_that_takes_it() -> None:
    source = PLAIN.replace(b"bob@example.org", "bøb@exämple.org".encode()) + DATED + BODY
    made = ready(source, Envelope("ada@example.org", ("bøb@exämple.org", "bøb@exämple.org")))
    assert made.envelope == Envelope("ada@example.org", ("bøb@xn--exmple-cua.org",), smtputf8=True)
    assert "To: bøb@xn--exmple-cua.org\r\n".encode() in made.wire.read()


def test_a_signature_that_would_break_goes_in_eight_bits() -> None:
    parts = "--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße\r\n--b\r\n\r\nsig\r\n--b--\r\n"
    source = PLAIN + DATED + b"Content-Type: multipart/signed; boundary=b\r\n\r\n" + parts.encode()
    assert ready(source).wire.read() == source


def test_how_it_is_listed() -> None:
    source = b"To: Bob <bob@example.org>, x@example.org\nSubject: =?utf-8?q?sp=C3=A4ter?=\nMessage-ID: <a@b>\n\nhi"
    bob, x = Address(email="bob@example.org", name="Bob"), Address(email="x@example.org")
    assert (read_listing(source).to, read_listing(source).subject, read_listing(source).message_id) == (
        (bob, x),
        "später",
        "<a@b>",
    )
    assert read_listing(b"") == read_listing(b"hello") == MessageListing((), "", "")


def test_whatever_was_stored_can_be_made_ready() -> None:
    sources = [case.source for case in CASES] + [fuzz.message(7, number) for number in range(200)]
    for source in (source for source in sources if len(source) < 100_000):
        made = ready(source)
        assert made.wire.read().endswith(b"\r\n")
        assert b"\nbcc:" not in made.wire.read().partition(b"\r\n\r\n")[0].lower()
        read_listing(source)
