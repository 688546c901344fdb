"""Gmail's double: what a command does to a message, and who is told."""

import imaplib
from collections.abc import Callable
from typing import Any

import pytest
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError

from tests.servers.gmail import PASSWORD, Gmail
from tests.servers.gmail_letters import ALL, SPAM, TRASH, USER, heard, in_folders, letter
from tests.servers.gmail_mailbox import GmailMailbox

Opens = Callable[..., IMAPClient]


def test_labels_move_a_message_in_and_out_of_folders_for_other_connections(opens: Opens, box: GmailMailbox) -> None:
    box.deliver(letter("one"))
    mine, others, inbox = opens(), opens("[Gmail]/Starred"), opens("INBOX")
    others.idle()
    inbox.idle()
    assert mine.add_gmail_labels([1], ["\\Starred", "new"]) == {1: ["\\Inbox", "\\Starred", "new"]}
    assert heard(others) == [(1, b"EXISTS")]
    mine.remove_gmail_labels([1], ["\\Inbox"])
    told: list[Any] = []
    while (1, b"EXPUNGE") not in told:  # the flag is told besides, maybe before
        more = heard(inbox)
        assert more, told
        told += more
    assert mine.set_gmail_labels([1], ["other"]) == {1: ["other"]}
    assert in_folders(box, next(iter(box.letters))) == {ALL, "other"}


def test_idle_in_all_mail_tells_of_flags_and_new_mail_but_not_of_labels(opens: Opens, box: GmailMailbox) -> None:
    number = box.deliver(letter("one"))
    before = opens().folder_status(ALL, ["HIGHESTMODSEQ"])[b"HIGHESTMODSEQ"]
    client = opens()
    client.idle()
    box.unlabel(number, "\\Inbox")
    box.label(number, "Work")
    box.flag(number, "\\Seen")
    assert heard(client) == [(1, b"FETCH", (b"UID", 1, b"FLAGS", (b"\\Seen",)))]
    box.deliver(letter("two"))
    assert heard(client) == [(2, b"EXISTS")]
    client.idle_done()
    assert client.fetch([1], ["X-GM-LABELS"], [f"CHANGEDSINCE {before}"])[1][b"X-GM-LABELS"] == (b"Work",)


@pytest.mark.parametrize(
    ("begin", "do", "folders"),
    [
        ("INBOX", lambda client: client.copy([1], "foo"), {ALL, "INBOX", "foo"}),
        ("INBOX", lambda client: client.move([1], "foo"), {ALL, "foo"}),
        ("INBOX", lambda client: client.move([1], ALL), {ALL}),
        ("INBOX", lambda client: client.delete_messages([1]), {ALL}),
        ("INBOX", lambda client: client.move([1], TRASH), {TRASH}),
        ("INBOX", lambda client: client.copy([1], TRASH), {TRASH}),
        ("INBOX", lambda client: client.move([1], SPAM), {SPAM}),
        (ALL, lambda client: client.move([1], "foo"), {ALL, "INBOX", "foo"}),
        (ALL, lambda client: client.move([1], TRASH), {TRASH}),
        (ALL, lambda client: client.delete_messages([1]), {ALL, "INBOX"}),
        (TRASH, lambda client: client.move([1], ALL), {ALL}),
        (TRASH, lambda client: client.move([1], "INBOX"), {ALL, "INBOX"}),
        (TRASH, lambda client: client.delete_messages([1]), set()),
        (SPAM, lambda client: client.copy([1], "INBOX"), {ALL, "INBOX"}),
    ],
)  # fmt: skip
def test_what_a_command_does(
    opens: Opens, box: GmailMailbox, begin: str, do: Callable[[IMAPClient], None], folders: set[str]
) -> None:
    place: Any = {TRASH: "trash", SPAM: "spam"}.get(begin, "all")
    box.make_label("foo")
    number = box.deliver(letter("one"), place=place)
    client = opens(begin)
    do(client)
    assert in_folders(box, number) == folders
    assert box.expunged_in_all_mail == (begin == ALL and folders == {ALL, "INBOX"})


def test_copy_move_and_append_tell_the_new_uids(gmail: Gmail, opens: Opens, box: GmailMailbox) -> None:
    box.deliver(letter("one"), "Work")
    client = opens("Work")
    trash, drafts = box.own("\\Trash").uidvalidity, box.own("\\Drafts").uidvalidity
    assert f"[APPENDUID {drafts} 1]".encode() in client.append("[Gmail]/Drafts", letter("draft"), flags=["\\Draft"])
    assert f"[APPENDUID {drafts} 1]".encode() in client.append("[Gmail]/Drafts", letter("draft")), "the same message"
    with imaplib.IMAP4(gmail.host, gmail.imap_port, timeout=10) as other:
        other.login(USER, PASSWORD)
        other.select("Work")
        assert other.uid("MOVE", "1", f'"{TRASH}"')[0] == "OK"
        assert other.untagged_responses.pop("COPYUID")[-1] == f"{trash} 1 1".encode()
    assert client.noop()[1] == [(1, b"EXPUNGE")]


def test_a_draft_is_one_where_it_lies(opens: Opens, box: GmailMailbox) -> None:
    client = opens("[Gmail]/Drafts")
    client.append("[Gmail]/Drafts", letter("draft"))
    client.noop()
    assert client.get_flags([1])[1] == (b"\\Draft",)
    client.set_flags([1], [b"\\Seen"])
    assert client.get_flags([1])[1] == (b"\\Draft", b"\\Seen")
    assert in_folders(box, next(iter(box.letters))) == {ALL, "[Gmail]/Drafts"}


def test_mod_sequences_tell_what_changed(opens: Opens, box: GmailMailbox) -> None:
    for subject in ("one", "two", "three"):
        box.deliver(letter(subject))
    client = opens()
    since = client.folder_status(ALL, ["HIGHESTMODSEQ"])[b"HIGHESTMODSEQ"]
    client.add_gmail_labels([2], ["foo"])
    assert set(client.fetch([1, 2, 3], ["FLAGS"], [f"CHANGEDSINCE {since}"])) == {2}
    with pytest.raises(IMAPClientError):
        client.fetch([1], ["FLAGS"], [f"CHANGEDSINCE {since} VANISHED"])


def test_what_gmail_labels_itself_nobody_else_does(opens: Opens, box: GmailMailbox) -> None:
    number = box.deliver(letter("one"), "\\Sent", "foo")
    client = opens()
    assert client.set_gmail_labels([1], ["bar", "\\Draft"]) == {1: ["\\Sent", "bar"]}
    client.remove_gmail_labels([1], ["\\Sent"])
    with pytest.raises(IMAPClientError, match="CANNOT"):
        client.copy([1], "[Gmail]/Drafts")
    box.trash(number)
    box.restore(number, "foo")
    assert in_folders(box, number) == {ALL, "[Gmail]/Sent Mail", "foo"}
