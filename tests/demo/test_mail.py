"""The sample mail is well-formed, reproducible and varied."""

from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest

from mailbox_appliance.demo import mail, maildir
from mailbox_appliance.demo.mail import Letter

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
LETTERS = mail.list_letters()


def parsed(letter: Letter) -> EmailMessage:
    message = message_from_bytes(letter.content(NOW), policy=default)
    assert isinstance(message, EmailMessage)
    return message


@pytest.mark.parametrize(
    "letter", LETTERS, ids=lambda letter: letter.source.partition(b"@sample")[0].rpartition(b"<")[2]
)
def test_a_message_is_well_formed(letter: Letter) -> None:
    content = letter.content(NOW)
    assert content.count(b"\n") == content.count(b"\r\n") == content.count(b"\r"), "RFC 5322 2.1: lines end with CR LF"
    assert max(len(line) for line in content.split(b"\r\n")) <= 998, "RFC 5322 2.1.1"
    head = content.partition(b"\r\n\r\n")[0]
    head.decode("ascii")
    message = parsed(letter)
    for part in message.walk():
        assert part.defects == []
        assert [(name, value.defects) for name, value in part.items() if value.defects] == []
        if part.get_content_maintype() == "text":
            assert "\ufffd" not in part.get_content()
    assert message["Date"].datetime == letter.sent_at(NOW) < NOW
    assert set(letter.flags) <= set("SFRD")


def test_dates_are_relative_to_now() -> None:
    for letter in LETTERS:
        assert letter.sent_at(NOW + timedelta(days=1)) == letter.sent_at(NOW) + timedelta(days=1)


def test_the_mailbox_is_varied() -> None:
    messages = [parsed(letter) for letter in LETTERS]
    parts = [part for message in messages for part in message.walk()]
    assert 38 <= len(messages) <= 45
    assert len({message["Message-ID"] for message in messages}) == len(messages)
    assert {letter.folder for letter in LETTERS} == {
        *("INBOX", "Sent", "Drafts", "Trash", "Archive", "Junk", "Projects/Lighthouse")
    }
    kinds = {part.get_content_type() for part in parts}
    assert {"text/html", "text/calendar", "text/csv", "application/pdf", "image/png", "message/rfc822"} <= kinds
    assert {"utf-8", "iso-2022-jp", "koi8-r", "iso-8859-1", "gb18030", "windows-1252"} <= {
        part.get_content_charset() for part in parts
    }
    assert any(part["Content-ID"] for part in parts)
    assert any(message["List-Id"] for message in messages)
    subjects = [str(make_header(decode_header(message["Subject"]))) for message in messages]
    assert any("\u0590" <= character <= "\u05ff" for subject in subjects for character in subject)
    assert max(map(len, subjects)) > 150
    assert len({message["Date"].datetime.date() for message in messages}) >= 5


def test_answers_name_what_they_answer() -> None:
    messages = [parsed(letter) for letter in LETTERS]
    known = {message["Message-ID"] for message in messages}
    answers = [message for message in messages if message["In-Reply-To"]]
    assert len(answers) >= 5
    for answer in answers:
        references = answer["References"].split()
        assert answer["In-Reply-To"] == references[-1]
        assert set(references) <= known


def test_messages_are_stored_byte_for_byte(tmp_path: Path) -> None:
    mail.fill_mailboxes(tmp_path, NOW)
    home = tmp_path / mail.OWNER_EMAIL
    stored = {maildir.read_message(file) for file in home.rglob("*") if file.is_file()}
    assert stored == {letter.content(NOW) for letter in LETTERS}
    assert not [file for file in (tmp_path / mail.COLLEAGUE_EMAIL).rglob("*") if file.is_file()]
