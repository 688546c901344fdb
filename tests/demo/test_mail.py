"""The sample mail is well-formed, reproducible and varied."""

from datetime import UTC, datetime
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest

from mailbox_appliance.demo import mail, maildir
from mailbox_appliance.demo.mail import Letter

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)


def parsed(letter: Letter) -> EmailMessage:
    message = message_from_bytes(mail.compose_letter(letter, NOW), policy=default)
    assert isinstance(message, EmailMessage)
    return message


@pytest.mark.parametrize("letter", [pytest.param(letter, id=letter.key) for _, letter in mail.LETTERS])
def test_a_message_is_well_formed(letter: Letter) -> None:
    content = mail.compose_letter(letter, NOW)
    assert content == mail.compose_letter(letter, NOW), "deterministic"
    assert content.count(b"\n") == content.count(b"\r\n") == content.count(b"\r"), "RFC 5322 2.1: lines end with CR LF"
    assert max(len(line) for line in content.split(b"\r\n")) <= 998, "RFC 5322 2.1.1"
    head = content.partition(b"\r\n\r\n")[0]
    head.decode("ascii")
    message = parsed(letter)
    for part in message.walk():
        assert part.defects == []
        assert [(name, value.defects) for name, value in part.items() if value.defects] == []
    assert str(make_header(decode_header(message["Subject"]))) == letter.subject
    if letter.text:
        body = message.get_body(("plain",))
        assert isinstance(body, EmailMessage)
        assert body.get_content().replace("\r\n", "\n") == letter.text


def test_the_mailbox_is_varied() -> None:
    messages = [parsed(letter) for _, letter in mail.LETTERS]
    parts = [part for message in messages for part in message.walk()]
    assert 38 <= len(messages) <= 45
    assert len({message["Message-ID"] for message in messages}) == len(messages)
    assert {path for path, _ in mail.LETTERS} == {
        *("INBOX", "Sent", "Drafts", "Trash", "Archive", "Junk", "Projects/Lighthouse")
    }
    kinds = {part.get_content_type() for part in parts}
    assert {"text/html", "text/calendar", "text/csv", "application/pdf", "image/png", "message/rfc822"} <= kinds
    assert {"utf-8", "iso-2022-jp", "koi8-r", "iso-8859-1", "gb18030", "windows-1252"} <= {
        part.get_content_charset() for part in parts
    }
    assert any(part["Content-ID"] for part in parts)
    assert any(message["List-Id"] for message in messages)
    assert any("\u0590" <= character <= "\u05ff" for message in messages for character in message["Subject"])
    assert max(len(message["Subject"]) for message in messages) > 150
    times = [message["Date"].datetime for message in messages]
    assert len({time.date() for time in times}) >= 5
    assert max(times) < NOW


def test_answers_name_what_they_answer() -> None:
    known = {parsed(letter)["Message-ID"] for _, letter in mail.LETTERS}
    answers = [parsed(letter) for _, letter in mail.LETTERS if letter.answers]
    assert len(answers) >= 5
    for answer in answers:
        references = answer["References"].split()
        assert answer["In-Reply-To"] == references[-1]
        assert set(references) <= known


def test_messages_are_stored_byte_for_byte(tmp_path: Path) -> None:
    mail.fill_mailboxes(tmp_path, NOW)
    home = tmp_path / mail.OWNER_EMAIL
    stored = {maildir.read_message(file) for file in home.rglob("*") if file.is_file()}
    assert stored == {mail.compose_letter(letter, NOW) for _, letter in mail.LETTERS}
    assert not [file for file in (tmp_path / mail.COLLEAGUE_EMAIL).rglob("*") if file.is_file()]
