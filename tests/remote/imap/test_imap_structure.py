"""BODYSTRUCTURE as a tree of numbered parts; sections read by those numbers from real Dovecot."""

from collections.abc import Iterator

import pytest

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.model.sync import ListedPart
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.remote.imap.values import read_body_structure
from mailbox_appliance.remote.imap.wire import ResponseReader, Value
from tests.servers.dovecot import MailServer

TEXT = '("text" "plain" ("charset" "utf-8") NIL NIL "7BIT" 10 1 NIL NIL NIL NIL)'
INNER = [("2.1", "text/plain"), ("2.2", "text/plain")]
PDF = """("APPLICATION" "PDF" ("NAME" "ü\\"") " <a@b> " "what it is" "BASE64" 12 "md5"
 ("ATTACHMENT" ("FILENAME*" "utf-8''%C3%BC")) ("de" "en") "loc")""".replace("\n", "")
ENVELOPE = "(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)"


INLINE = ListedPart("1", "text/html", {}, "7bit", 5, None, "inline")


def tree(text: str) -> ListedPart:
    [value] = ResponseReader([text.encode()], 0).read_rest()
    assert isinstance(value, list)
    return read_body_structure(value)


def numbers(part: ListedPart) -> list[tuple[str, str]]:
    return [(part.number, part.mime_type)] + [one for child in part.children for one in numbers(child)]


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        (TEXT, [("1", "text/plain")]),
        (
            f'({TEXT}{TEXT} "MIXED" ("boundary" "x") NIL NIL NIL)',
            [("", "multipart/mixed"), ("1", "text/plain"), ("2", "text/plain")],
        ),
        (
            f'({TEXT}({TEXT}{TEXT} "alternative") "mixed")',
            [("", "multipart/mixed"), ("1", "text/plain"), ("2", "multipart/alternative"), *INNER],
        ),
        (
            f'("message" "rfc822" NIL NIL NIL "7bit" 99 {ENVELOPE} {TEXT} 5 NIL ("attachment" NIL))',
            [("1", "message/rfc822"), ("1.1", "text/plain")],
        ),
        # RFC 9051 6.4.5: what an attached multipart consists of is numbered below the message.
        (
            f'({TEXT}("message" "rfc822" NIL NIL NIL "7bit" 99 {ENVELOPE} ({TEXT}{TEXT} "mixed") 5) "mixed")',
            [
                ("", "multipart/mixed"),
                ("1", "text/plain"),
                ("2", "message/rfc822"),
                ("2.TEXT", "multipart/mixed"),
                *INNER,
            ],
        ),
        ('("message" "rfc822" NIL NIL NIL "base64" 99)', [("1", "message/rfc822")]),
        # What is left out, or odd.
        ("()", [("1", "application/octet-stream")]),
        ("(NIL NIL NIL NIL NIL NIL NIL)", [("1", "application/octet-stream")]),
        ("(() ())", [("", "multipart/mixed"), ("1", "application/octet-stream"), ("2", "application/octet-stream")]),
        ('("TEXT")', [("1", "text/octet-stream")]),
    ],
)
def test_numbers(structure: str, expected: list[tuple[str, str]]) -> None:
    assert numbers(tree(structure)) == expected


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        (TEXT, ListedPart("1", "text/plain", {"charset": "utf-8"}, "7bit", 10)),
        (
            PDF,
            ListedPart(
                *("1", "application/pdf", {"name": 'ü"'}, "base64", 12, "<a@b>", "attachment"),
                {"filename*": "utf-8''%C3%BC"},
            ),
        ),
        ('("text" "html" NIL NIL NIL NIL 5 1 NIL ("inline" NIL))', INLINE),
        # Without the number of lines.
        ('("text" "html" NIL NIL NIL NIL 5 NIL ("inline" NIL))', INLINE),
        (
            '("image" "gif" ("a") NIL NIL "x" -1 NIL ("inline" ("b" NIL "c" "d")))',
            ListedPart("1", "image/gif", {}, "x", 0, None, "inline", {"c": "d"}),
        ),
        ('("image" "gif" "odd" ("odd") NIL (odd) NIL odd odd)', ListedPart("1", "image/gif", {}, "7bit", 0)),
    ],
)
def test_what_is_told_of_a_part(structure: str, expected: ListedPart) -> None:
    assert tree(structure) == expected


def test_parts_are_nested_only_so_deep() -> None:
    structure: Value = [b"text", b"plain"]
    for _ in range(900):
        structure = [structure, b"mixed"]
    part, depth = read_body_structure(structure), 0  # type: ignore[arg-type]
    while part.children:
        part, depth = part.children[0], depth + 1
    assert 100 <= depth < 200


# --- real ---

ATTACHED = (
    b"Subject: inner\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n"
    b"--i\r\n\r\ninner one\r\n--i\r\n\r\ninner two\r\n--i--\r\n"
)
MIXED = (
    b"Subject: outer\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=o\r\n\r\n"
    b"--o\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nouter one\r\n"
    b"--o\r\nContent-Type: message/rfc822\r\n\r\n" + ATTACHED + b"\r\n"
    b"--o\r\nContent-Type: application/pdf; name=a.pdf\r\nContent-Transfer-Encoding: base64\r\n"
    b"Content-Disposition: attachment; filename=a.pdf\r\nContent-ID: <x@y>\r\n\r\nQUJD\r\n--o--\r\n"
)


@pytest.fixture
def mailbox(mail_server: MailServer) -> Iterator[ImapMailbox]:
    user = mail_server.fresh_user()
    mail_server.deliver(user, MIXED, b"Subject: plain\r\n\r\nthe text\r\n")
    endpoint = Endpoint("127.0.0.1", mail_server.imap_port, "none", user, "secret")
    with ImapMailbox.open(endpoint, ca_file="", timeout=10) as mailbox:
        mailbox.examine("INBOX")
        yield mailbox


def test_the_numbers_are_those_of_a_real_server(mailbox: ImapMailbox) -> None:
    structure = mailbox.fetch_structure(1)
    assert [number for number, _ in numbers(structure)] == ["", "1", "2", "2.TEXT", "2.1", "2.2", "3"]
    pdf = structure.children[2]
    assert (pdf.mime_type, pdf.encoding, pdf.octets, pdf.content_id) == ("application/pdf", "base64", 4, "<x@y>")
    assert (pdf.disposition, pdf.disposition_parameters) == ("attachment", {"filename": "a.pdf"})
    sections = {"": MIXED, "1": b"outer one", "2": ATTACHED, "2.1": b"inner one", "2.2": b"inner two", "3": b"QUJD"}
    assert {section: mailbox.read_section(1, section, 0, 10_000) for section in sections} == sections
    assert mailbox.read_section(1, "HEADER", 0, 16) == b"Subject: outer\r\n"
    assert b"application/pdf" in mailbox.read_section(1, "3.MIME", 0, 1000)
    assert mailbox.fetch_structure(2).number == "1"
    assert mailbox.read_section(2, "1", 0, 100) == b"the text\r\n"
    assert mailbox.fetch_flags() == {1: frozenset(), 2: frozenset()}


def test_a_section_is_read_in_pieces(mailbox: ImapMailbox) -> None:
    assert [mailbox.read_section(1, "3", offset, 3) for offset in (0, 3, 4, 100)] == [b"QUJ", b"D", b"", b""]
    assert mailbox.read_section(1, "7", 0, 10) == b""


@pytest.mark.parametrize("section", ["1.2 x", "A", "1.", "1]", "HEADER.FIELDS (A)", "1\r\n"])
def test_a_section_cannot_be_anything(mailbox: ImapMailbox, section: str) -> None:
    with pytest.raises(ValueError):
        mailbox.read_section(1, section, 0, 1)


def test_a_message_that_is_gone(mailbox: ImapMailbox) -> None:
    for gone in (lambda: mailbox.fetch_structure(99), lambda: mailbox.read_section(99, "1", 0, 1)):
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "refused"):
            gone()
