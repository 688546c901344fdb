"""Gmail's double: folders, messages, searching; asked by imaplib and imapclient."""

import imaplib
from collections.abc import Callable

import pytest
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError

from tests.servers.gmail import PASSWORD, Gmail
from tests.servers.gmail_letters import ALL, USER, letter
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
        told = client.uid("FETCH", "1", "(UID X-GM-LABELS)")[1][0]
    assert told == rb'1 (X-GM-LABELS ("\\Inbox" "a \"b\" c" "back\\slash" plain &ANE-) UID 1)'


def test_parts_headers_and_structures_are_told(opens: Opens, box: GmailMailbox) -> None:
    fields = 'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="x"\r\n'
    parts = "--x\r\nContent-Type: text/plain\r\n\r\nhello\r\n--x\r\nContent-Type: image/png\r\n\r\nPNG\r\n--x--"
    box.deliver(letter("one", fields=fields, text=parts))
    client = opens()
    asked = ["BODYSTRUCTURE", "BODY.PEEK[1]", "BODY.PEEK[HEADER.FIELDS (SUBJECT)]"]
    told = client.fetch([1], [*asked, "BODY.PEEK[]<5.3>"])[1]
    assert told[b"BODYSTRUCTURE"].is_multipart
    assert told[b"BODY[1]"].rstrip() == b"hello"
    assert told[b"BODY[HEADER.FIELDS (SUBJECT)]"] == b"Subject: one\r\n\r\n"
    assert told[b"BODY[]<5>"] == b" bo"
    assert not client.get_flags([1])[1]


# --- searching --------------------------------------------------------------------------------------------------------


def test_search(opens: Opens, box: GmailMailbox) -> None:
    numbers = [box.deliver(letter(subject)) for subject in ("one", "two")]
    client = opens()
    assert client.search() == [1, 2]
    assert client.search(["HEADER", "Message-ID", "<two@example.test>"]) == [2]
    assert client.search(["X-GM-MSGID", str(numbers[0])]) == [1]


def test_answers_are_threads_where_the_subject_is_the_same(box: GmailMailbox) -> None:
    reference = "References: <one@example.test>\r\n"
    first = box.deliver(letter("one"))
    reply = letter("two", fields=reference).replace(b"Subject: two", b"Subject: Re: ONE")
    threads = [box.letters[box.deliver(each)].thread for each in (reply, letter("three", fields=reference))]
    assert threads[0] == first != threads[1]
