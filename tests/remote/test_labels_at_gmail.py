"""A mailbox with labels over one connection, at Gmail's double."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from tests.servers.gmail import OVERQUOTA, PASSWORD, Gmail
from tests.servers.gmail_mailbox import GERMAN, GmailMailbox

ALL, DRAFTS, TRASH = "[Gmail]/All Mail", "[Gmail]/Drafts", "[Gmail]/Trash"
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOTHING: frozenset[str] = frozenset()


def source(name: str) -> bytes:
    return f"Message-ID: <{name}@example.test>\r\nSubject: {name}\r\n\r\ntext of {name}\r\n".encode()


@pytest.fixture
def box(gmail: Gmail) -> GmailMailbox:
    return gmail.add("ada@gmail.test")


@pytest.fixture
def mailbox(gmail: Gmail, box: GmailMailbox) -> Iterator[ImapMailbox]:
    with opened(gmail, box) as mailbox:
        yield mailbox


def opened(gmail: Gmail, box: GmailMailbox) -> ImapMailbox:
    endpoint = Endpoint(gmail.host, gmail.imap_port, "none", box.address, PASSWORD)
    return ImapMailbox.open(endpoint, ca_file="", timeout=5)


def kept(mailbox: ImapMailbox, path: str = ALL) -> dict[int, frozenset[str]]:
    mailbox.examine(path)
    return mailbox.fetch_flags()


def test_folders_are_told_with_their_labels_and_few_positions(gmail: Gmail) -> None:
    box = gmail.add("eva@gmail.test", names=GERMAN, prefix="[Google Mail]")
    box.deliver(source("one"), "Über uns/2024", "Work")
    with opened(gmail, box) as mailbox:
        assert mailbox.has_labels
        assert mailbox.capabilities.labels
        assert not any(command.startswith("SELECT") for command in gmail.commands)
        listed, states = mailbox.list_folders_with_states()
    assert {folder.label for folder in listed if not folder.path.startswith("[")} == {
        "\\Inbox",
        "Über uns/2024",
        "Work",
    }
    lying = {folder.path for folder in listed if folder.label is None}
    assert lying == {f"[Google Mail]/{name}" for name in ("Alle Nachrichten", "Papierkorb", "Spam")}
    assert states.keys() == lying
    assert states["[Google Mail]/Alle Nachrichten"].exists == 1


def test_labels_are_changed_apart_from_flags(gmail: Gmail, box: GmailMailbox, mailbox: ImapMailbox) -> None:
    number = box.deliver(source("one"), "\\Inbox", "old")
    add = frozenset({"\\Seen", "$Forwarded", "Über (uns)", 'q"\\', "\\Important"})
    mailbox.store_flags(ALL, [1], add=add, remove=frozenset({"\\Inbox", "old", "\\Flagged"}))
    assert kept(mailbox) == {1: add}
    assert box.letters[number].labels == {"Über (uns)", 'q"\\', "\\Important"}
    assert sum(command.startswith("UID STORE") for command in gmail.commands) == 4
    mailbox.store_flags(ALL, [1], add=frozenset({"\\Flagged"}), remove=NOTHING)
    assert "\\Starred" in box.letters[number].labels
    with pytest.raises(RemoteFault) as caught:
        mailbox.store_flags(ALL, [1], add=frozenset({"\\Nothing"}), remove=NOTHING)
    assert caught.value.kind == "unsupported"
    assert "\\*" in mailbox.permanent_flags(ALL)


def test_news_tell_labels_that_others_change(box: GmailMailbox, mailbox: ImapMailbox) -> None:
    first, second = box.deliver(source("one")), box.deliver(source("two"), "Work")
    state = mailbox.folder_news(ALL, None, 0).state
    box.label(first, "Work")
    box.trash(second)
    box.deliver(source("three"), "Home")
    news = mailbox.folder_news(ALL, state, 2)
    assert news.changed == {1: {"\\Inbox", "Work"}, 3: {"Home"}}
    assert news.present == frozenset({1, 3})
    assert mailbox.folder_news(ALL, news.state, 2).changed == {}


def test_messages_come_with_their_ids(box: GmailMailbox, mailbox: ImapMailbox) -> None:
    number = box.deliver(source("one"), "Work", flags=["\\Seen"])
    thread = str(box.letters[number].thread)
    mailbox.examine(ALL)
    told = (frozenset({"\\Seen", "Work"}), str(number), thread)
    for fetched in (*mailbox.fetch_headers([1]), *mailbox.fetch_outlines([1]), *mailbox.fetch_messages([1])):
        assert (fetched.flags, fetched.provider_id, fetched.provider_thread_id) == told
    _, sightings = mailbox.identify(ALL, [1, 2])
    assert (sightings[1].provider_id, sightings[1].provider_thread_id) == (str(number), thread)
    assert sightings.keys() == {1}
    assert mailbox.search_provider_id(ALL, str(number)) == 1
    assert mailbox.search_provider_id(TRASH, str(number)) is None
    assert mailbox.search_provider_id(ALL, "7") is None


def test_a_draft_is_found_where_it_lies(gmail: Gmail, box: GmailMailbox, mailbox: ImapMailbox) -> None:
    box.deliver(source("other"))
    uid = mailbox.append(DRAFTS, source("draft"), flags=frozenset({"\\Draft", "\\Seen", "Work"}), at=NOON)
    assert uid == 1
    assert not any("Work" in each for each in gmail.commands if each.startswith("APPEND"))
    _, sightings = mailbox.identify(DRAFTS, [uid])
    provider_id = sightings[uid].provider_id
    assert provider_id is not None
    assert mailbox.search_provider_id(ALL, provider_id) == 2
    assert kept(mailbox)[2] == {"\\Draft", "\\Seen"}, "labels are no flags of an APPEND"


def test_moving_to_trash_and_back_leaves_all_mail_as_it_was(box: GmailMailbox, mailbox: ImapMailbox) -> None:
    number = box.deliver(source("one"), "\\Inbox", "Work")
    moved = mailbox.move(ALL, [1], TRASH)
    assert moved == {1: 1}
    assert kept(mailbox) == {}
    mailbox.move(TRASH, [1], ALL)
    assert mailbox.search_provider_id(ALL, str(number)) == 2
    mailbox.move(ALL, [2], TRASH)
    mailbox.expunge(TRASH, [2])
    assert not box.letters
    assert box.expunged_in_all_mail == 0


@pytest.mark.parametrize("command", ["UID FETCH", "UID STORE", "EXAMINE", "LIST"])
def test_a_limit_is_told_as_one(gmail: Gmail, box: GmailMailbox, mailbox: ImapMailbox, command: str) -> None:
    box.deliver(source("one"))
    gmail.refuse(command, OVERQUOTA, times=1)
    acts = {
        "UID FETCH": lambda: kept(mailbox),
        "UID STORE": lambda: mailbox.store_flags(ALL, [1], add=frozenset({"a"}), remove=NOTHING),
        "EXAMINE": lambda: mailbox.examine(ALL),
        "LIST": mailbox.list_folders_with_states,
    }
    with pytest.raises(RemoteFault) as caught:
        acts[command]()
    assert (caught.value.kind, caught.value.code) == ("throttled", "OVERQUOTA")
    assert kept(mailbox) == {1: {"\\Inbox"}}, "the connection is as good as before"
