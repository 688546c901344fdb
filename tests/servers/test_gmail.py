"""Gmail's double: folders, messages, searching; asked by imaplib and imapclient."""

import imaplib
from collections.abc import Callable
from typing import Any

import pytest
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError

from tests.servers.gmail import PASSWORD, Gmail
from tests.servers.gmail_letters import ALL, TRASH, USER, in_folders, letter
from tests.servers.gmail_mailbox import GERMAN, GmailMailbox

Opens = Callable[..., IMAPClient]


# --- capabilities, folders --------------------------------------------------------------------------------------------


def test_most_capabilities_are_told_after_the_login_only(gmail: Gmail) -> None:
    with imaplib.IMAP4(gmail.host, gmail.imap_port, timeout=10) as client:
        before = set(client.capabilities)
        client.login(USER, PASSWORD)
        after = set(client.capability()[1][0].decode().split())
    assert "X-GM-EXT-1" in before & after
    assert {"MOVE", "UIDPLUS", "CONDSTORE", "SPECIAL-USE", "ESEARCH"} <= after - before
    assert "QRESYNC" not in after


def test_folders_have_attributes_whatever_they_are_called(gmail: Gmail) -> None:
    gmail.add("eva@gmail.test", prefix="[Google Mail]", names=GERMAN).make_label("Müll/alt")
    with IMAPClient(gmail.host, gmail.imap_port, ssl=False) as client:
        client.login("eva@gmail.test", PASSWORD)
        listed = {path: set(flags) - {b"\\HasNoChildren"} for flags, _, path in client.list_folders()}
    assert listed["[Google Mail]/Alle Nachrichten"] == {b"\\All"}
    assert listed["[Google Mail]/Entwürfe"] == {b"\\Drafts"}
    assert listed["[Google Mail]/Wichtig"] == {b"\\Important"}
    assert listed["[Google Mail]/Markiert"] == {b"\\Flagged"}
    assert listed["[Google Mail]/Papierkorb"] == {b"\\Trash"}
    assert listed["Müll"] == {b"\\Noselect", b"\\HasChildren"}
    assert listed["INBOX"] == listed["Müll/alt"] == set()


def test_folders_are_made_renamed_and_removed_with_their_label(opens: Opens, box: GmailMailbox) -> None:
    client = opens()
    client.create_folder("Work")
    number = box.deliver(letter("one"), "Work", "Work/2024")
    client.rename_folder("Work", "Job")
    assert box.letters[number].labels == {"Job", "Job/2024"}
    client.delete_folder("Job/2024")
    assert in_folders(box, number) == {ALL, "Job"}
    for path in (TRASH, "[Gmail]/Mine"):
        with pytest.raises(IMAPClientError):
            (client.delete_folder if path == TRASH else client.create_folder)(path)


def test_a_folder_that_is_hidden_is_not_there(opens: Opens, box: GmailMailbox) -> None:
    box.hide_all_mail()
    client = opens(None)
    assert ALL not in {path for *_, path in client.list_folders()}
    with pytest.raises(IMAPClientError, match="NONEXISTENT"):
        client.select_folder(ALL)


# --- one message ------------------------------------------------------------------------------------------------------


def test_one_message_in_five_labels_is_one_message(opens: Opens, box: GmailMailbox) -> None:
    box.deliver(letter("zero"), "foo")
    box.deliver(letter("one"), "\\Inbox", "foo", "Muy Importante", "Ñ/2024", "\\Starred", flags=["\\Seen"])
    client = opens()
    told = client.fetch([2], ["X-GM-MSGID", "X-GM-THRID", "X-GM-LABELS", "FLAGS"])[2]
    assert client.get_gmail_labels([2])[2] == ["Muy Importante", "\\Inbox", "\\Starred", "foo", "Ñ/2024"]
    assert told[b"FLAGS"] == (b"\\Flagged", b"\\Seen")
    uids = {}
    for path in ("INBOX", "foo", "Muy Importante", "Ñ/2024", "[Gmail]/Starred"):
        client.select_folder(path)
        uids[path] = max(client.search())
        again = client.fetch([uids[path]], ["X-GM-MSGID", "X-GM-THRID", "X-GM-LABELS", "BODY.PEEK[]"])[uids[path]]
        assert again[b"X-GM-MSGID"] == told[b"X-GM-MSGID"]
        assert again[b"X-GM-THRID"] == told[b"X-GM-THRID"]
        assert len(again[b"X-GM-LABELS"]) == 4, "the label of the selected folder is not told"
        assert b"\r\n\r\nbody" in again[b"BODY[]"]
    assert uids == {"INBOX": 1, "foo": 2, "Muy Importante": 1, "Ñ/2024": 1, "[Gmail]/Starred": 1}


def test_labels_are_written_as_gmail_writes_them(gmail: Gmail, box: GmailMailbox) -> None:
    box.deliver(letter("one"), "\\Inbox", "plain", 'a "b" c', "Ñ", "back\\slash")
    with imaplib.IMAP4(gmail.host, gmail.imap_port, timeout=10) as client:
        client.login(USER, PASSWORD)
        client.select(f'"{ALL}"', readonly=True)
        told = client.fetch("1", "(UID X-GM-LABELS)")[1][0]
    assert told == rb'1 (X-GM-LABELS ("\\Inbox" "a \"b\" c" "back\\slash" plain &ANE-) UID 1)'


def test_parts_headers_and_structures_are_told(opens: Opens, box: GmailMailbox) -> None:
    fields = 'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="x"\r\n'
    parts = "--x\r\nContent-Type: text/plain\r\n\r\nhello\r\n--x\r\nContent-Type: image/png\r\n\r\nPNG\r\n--x--"
    box.deliver(letter("one", fields=fields, text=parts))
    client = opens()
    asked = ["BODYSTRUCTURE", "ENVELOPE", "BODY.PEEK[1]", "BODY.PEEK[2.MIME]", "BODY.PEEK[HEADER.FIELDS (SUBJECT)]"]
    told = client.fetch([1], [*asked, "BODY.PEEK[]<5.3>"])[1]
    assert told[b"BODYSTRUCTURE"].is_multipart
    assert told[b"ENVELOPE"].subject == b"one"
    assert told[b"BODY[1]"].rstrip() == b"hello"
    assert told[b"BODY[2.MIME]"].startswith(b"Content-Type: image/png")
    assert told[b"BODY[HEADER.FIELDS (SUBJECT)]"] == b"Subject: one\r\n\r\n"
    assert told[b"BODY[]<5>"] == b" bo"
    assert not client.get_flags([1])[1]
    client.fetch([1], ["BODY[TEXT]"])
    assert client.get_flags([1])[1] == (b"\\Seen",)


# --- searching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (["ALL"], [1, 2, 3]),
        (["X-GM-RAW", "subject:report"], [1]),
        (["X-GM-RAW", "subject:repo"], []),
        (["X-GM-RAW", "from:eve@example.test"], [2]),
        (["X-GM-RAW", "has:attachment"], [3]),
        (["X-GM-RAW", "label:work-2024"], [2]),
        (["X-GM-RAW", "in:inbox is:unread"], [1]),
        (["X-GM-RAW", "-in:inbox"], [2]),
        (["X-GM-LABELS", "Work/2024"], [2]),
        (["HEADER", "Message-ID", "<report@example.test>"], [1]),
        (["SUBJECT", "report", "UNSEEN"], [1]),
        (["OR", "SEEN", "UID", "1"], [1, 3]),
        (["NOT", ["X-GM-LABELS", "\\Inbox"]], [2]),
    ],
)
def test_search(opens: Opens, box: GmailMailbox, query: list[Any], found: list[int]) -> None:
    box.deliver(letter("report"))
    eve = letter("other").replace(b"bob@", b"eve@")
    box.deliver(eve, "Work/2024")
    box.deliver(letter("file", fields="Content-Disposition: attachment\r\n"), flags=["\\Seen"])
    client = opens()
    assert client.search(query) == found
    number = next(iter(box.letters))
    assert client.search(["X-GM-MSGID", str(number)]) == client.search(["X-GM-THRID", str(number)]) == [1]


def test_answers_are_threads_where_the_subject_is_the_same(box: GmailMailbox) -> None:
    reference = "References: <one@example.test>\r\n"
    first = box.deliver(letter("one"))
    reply = letter("two", fields=reference).replace(b"Subject: two", b"Subject: Re: ONE")
    threads = [box.letters[box.deliver(each)].thread for each in (reply, letter("three", fields=reference))]
    assert threads[0] == first != threads[1]
