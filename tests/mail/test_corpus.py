"""The hard messages with their expected results; and the standard library's reading of the well-formed ones."""

import email
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any

import pytest

from mailbox_appliance.mail.parse import attachment_bytes, parse_message
from mailbox_appliance.model.messages import Address, ParsedMessage
from mailbox_appliance.sync.parse_child import BoundedReader
from tests.mail.corpus import addresses, dates, filenames, headers, multiparts, pages, special, texts
from tests.mail.corpus.case import Case
from tests.mail.test_parse import sound

CASES: list[Case] = [
    each
    for module in (addresses, dates, filenames, headers, multiparts, pages, special, texts)
    for each in module.CASES
]


def as_text(address: Address) -> str:
    return f"{address.name if isinstance(address.name, str) else ''}|{address.email}"


def found(read: ParsedMessage) -> dict[str, Any]:
    """Return the values read, under the names that cases use."""
    lists = {name: [as_text(each) for each in getattr(read, name)] for name in ("to", "cc", "bcc", "reply_to")}
    files = read.attachments
    return lists | {
        "subject": read.subject,
        "sender": as_text(read.sender) if read.sender else None,
        "date": read.date,
        "date_text": read.date.date().isoformat() if read.date else None,
        "text": read.text,
        "html": read.html,
        "snippet": read.snippet,
        "message_id": read.message_id,
        "in_reply_to": list(read.in_reply_to),
        "references": list(read.references),
        "reference_count": len(read.references),
        "header_count": len(read.headers),
        "to_count": len(read.to),
        "warnings": list(read.warnings),
        "attachment_count": len(files),
        "listed": [(a.filename, a.mime_type, a.size_bytes, a.content_id, a.disposition) for a in files],
        "names": [a.filename for a in files],
        "types": [a.mime_type for a in files],
        "sizes": [a.size_bytes for a in files],
        "parts": [a.part for a in files],
        "cids": [a.content_id for a in files],
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hard_message_is_read(case: Case) -> None:
    read = parse_message(case.source, BoundedReader())
    everything = found(read)
    assert {name: everything[name] for name in case.expected} == case.expected
    words = case.warned.split("|") if case.warned else []
    assert [[word for word in words if word in each] for each in read.warnings] == [[word] for word in words]
    sound(read)
    for listed in read.attachments[:20]:
        assert len(attachment_bytes(case.source, listed.part) or b"") == listed.size_bytes


def test_there_are_many_of_them() -> None:
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)


# --- the reading of the standard library, which shares no code with the parser ---


#: Well-formed messages that it cannot read.
NOT_BY_THE_STANDARD_LIBRARY = {
    "RFC 5322 A.5 1": "a comment in an address is no name",
    "RFC 5322 A.5 2": "a comment in an address is no name",
    "by the book 4": "a comment may hold another",
    "encoded words 25": "RFC 2231 5: a language behind the character set",
    "encoded words 26": "RFC 2231 5: a language behind the character set",
    "transfer encodings 4": "RFC 2045 6.7 (3): white space at the end of a line",
    "transfer encodings 5": "RFC 2045 6.7 (3): white space at the end of a line",
    "character sets 2": "RFC 2045 5.1: a comment behind a parameter",
    "character sets 13": "iso-8859-8-i",
    "character sets 14": "windows-874",
    "text to be saved": "which parts are the text",
    "text with a name": "which parts are the text",
}
WELL_FORMED = [each for each in CASES if each.is_well_formed and each.name not in NOT_BY_THE_STANDARD_LIBRARY]


def std_text(value: str) -> str:
    unfolded = re.sub(r"\r?\n", "", value)
    pieces = [t.decode(c or "ascii") if isinstance(t, bytes) else t for t, c in decode_header(unfolded)]
    return "".join(pieces).replace("\t", " ").strip()


def std_people(message: "Message[str, str]", name: str) -> list[str]:
    listed = getaddresses([re.sub(r"\r?\n", "", value) for value in message.get_all(name, [])])
    return [f"{std_text(shown)}|{address}" for shown, address in listed if "@" in address]


def std_date(message: "Message[str, str]") -> datetime | None:
    found = parsedate_to_datetime(re.sub(r"\r?\n", "", message["Date"])) if message["Date"] else None
    return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC) if found else None


def std_leaves(message: "Message[str, str]") -> Iterator["Message[str, str]"]:
    if message.get_content_maintype() == "multipart":
        for part in message.get_payload():
            assert isinstance(part, Message)
            yield from std_leaves(part)
    else:
        yield message


def std_texts(message: "Message[str, str]") -> list[str]:
    """Return the texts of all text/plain parts, with line feeds, without those at the end."""
    found = []
    for part in std_leaves(message):
        if part.get_content_type() == "text/plain" and not part.get_filename():
            raw = part.get_payload(decode=True)
            assert isinstance(raw, bytes)
            text = raw.decode(part.get_content_charset("ascii")).removeprefix("\ufeff")
            found.append(re.sub(r"\r\n?", "\n", text).rstrip("\n"))
    return found


@pytest.mark.parametrize("case", WELL_FORMED, ids=lambda case: case.name)
def test_the_standard_library_reads_the_same(case: Case) -> None:
    read, std = parse_message(case.source, BoundedReader()), email.message_from_bytes(case.source)
    everything = found(read)
    assert everything["subject"] == std_text(std["Subject"] or "")[:2000]
    for name, field in (("to", "To"), ("cc", "Cc"), ("bcc", "Bcc"), ("reply_to", "Reply-To")):
        assert everything[name] == std_people(std, field)[:1000]
    assert read.date == std_date(std)
    if b"flowed" not in case.source.lower():
        texts = [text for text in std_texts(std) if text]
        if texts and "<pre>" in (read.html or ""):  # text of HTML is between them
            assert all(text in (read.text or "") for text in texts)
            return
        assert (read.text or "")[:4_000_000] == "\n\n".join(texts)[:4_000_000]
