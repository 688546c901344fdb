"""HTML that requests read: whole where its text is written or stored, and all of a request within one deadline."""

import time
from collections.abc import Iterator

import pytest

from mailbox_appliance.mail.compose import with_plain_text
from mailbox_appliance.mail.forward import forward_message
from mailbox_appliance.mail.html.analysis import TAG_READER, UNANALYZED_PART, extract_visible
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.sync.html_readers import HtmlReaders

WORDS = 5_000
LONG_HTML = "<p>word</p>" * WORDS
PLAIN = "<p>seen</p><p hidden>not seen</p>"


def expensive(number: int) -> str:
    """HTML that takes more than a second to analyze, and milliseconds to read by its tags."""
    sheet, rows = ".qa .b>.c~.d+.e{color:red}" * 20_000, "<p class='qa b c d e'>x</p>" * 3_000
    return f"<style>{sheet}</style><p>number {number}</p>{rows}"


@pytest.fixture
def readers() -> Iterator[HtmlReaders]:
    made = HtmlReaders(4, within=60.0)
    yield made
    made.close()


@pytest.fixture
def busy() -> HtmlReaders:
    """Readers without a child to analyze anything, as under a flood of hostile mail."""
    made = HtmlReaders(4)
    made.close()
    return made


def test_a_request_reads_what_cannot_be_analyzed_whole(busy: HtmlReaders) -> None:
    shown = busy.extract(LONG_HTML, "text")
    assert not shown.is_whole
    for reader in (busy.for_request(), busy.for_request()):
        assert reader.extract(LONG_HTML, "text") == TAG_READER.extract(LONG_HTML, "text")
        assert reader.has_failed


def test_mail_that_is_sent_loses_nothing_of_its_plain_part(busy: HtmlReaders) -> None:
    outgoing = OutgoingMessage(sender=Address(email="a@example.org"), html=LONG_HTML)
    text = with_plain_text(outgoing, busy.for_request()).text
    assert text is not None
    assert text.count("word") == WORDS
    original = parse_message(f"Content-Type: text/html\r\n\r\n{LONG_HTML}".encode())
    assert (
        forward_message(original, None, with_attachments=False, reader=busy.for_request()).text.count("word") == WORDS
    )


def test_after_a_body_that_is_too_expensive_the_others_are_read_by_their_tags(readers: HtmlReaders) -> None:
    assert readers.extract(PLAIN, "text").is_analyzed
    reader = readers.for_request(within=0.7)
    began = time.monotonic()
    first = reader.extract(expensive(0), "text")
    first_seconds = time.monotonic() - began
    others = [reader.extract(expensive(number), "text") for number in range(1, 6)]
    assert time.monotonic() - began < 4 * first_seconds
    assert not first.is_analyzed
    for number, seen in enumerate([first, *others]):
        assert (seen.is_analyzed, seen.text[:10].strip()) == (False, f"number {number}")
    assert reader.extract(PLAIN, "text").text == "seen"  # its analysis is kept


def test_mail_of_many_expensive_parts_takes_the_time_of_one(readers: HtmlReaders) -> None:
    parts = "".join(f"--B\r\nContent-Type: text/html\r\n\r\n{expensive(number)}\r\n" for number in range(12))
    source = f"Content-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n\r\nHi\r\n{parts}--B--\r\n".encode()
    began = time.monotonic()
    assert not readers.for_request(within=0.7).extract(expensive(99), "text").is_analyzed
    one = time.monotonic() - began
    began = time.monotonic()
    parsed = parse_message(source, readers.for_request(within=0.7))
    assert time.monotonic() - began < 8 * one
    assert (parsed.text, parsed.warnings[0]) == ("Hi", UNANALYZED_PART)


def test_bodies_that_are_shown_together_share_a_deadline(readers: HtmlReaders) -> None:
    began = time.monotonic()
    with readers.sharing(within=0.7):
        assert not readers.extract(expensive(0), "text").is_analyzed
        first_seconds = time.monotonic() - began
        assert not any(readers.extract(expensive(number), "markdown").is_analyzed for number in range(1, 6))
        assert readers.differs("seen", PLAIN) is None
        assert time.monotonic() - began < 4 * first_seconds
    assert readers.differs("seen", PLAIN) is False


def test_a_request_without_time_does_not_make_a_body_too_expensive_for_the_next(readers: HtmlReaders) -> None:
    readers.for_request(within=0.2).extract(PLAIN, "text")
    assert readers.for_request(within=60.0).extract(PLAIN, "text").text == extract_visible(PLAIN, "text")[0]
