"""Positions of the journal: what readers may rely on."""

import os
from pathlib import Path

import pytest

from mailbox_appliance.errors import Invalid
from mailbox_appliance.feed.events import to_events
from mailbox_appliance.model.changes import list_event_types
from mailbox_appliance.model.messages import ParsedAttachment
from mailbox_appliance.model.sync import FlagChange, ListedFolder, MessageIdentity
from mailbox_appliance.store.changes import ChangeFilter
from mailbox_appliance.store.store import Store
from tests.store.labeled import SPAM, LabeledMailbox
from tests.store.mail import MORNING, ROLES, Mailbox, fetched, parsed
from tests.stores.opening import FORMATS, copied

ATTACHMENT = ParsedAttachment("2", "a.pdf", "application/pdf", 10, None, "attachment")


class Told:
    """What a reader is told since it last asked: type and subject of each change."""

    def __init__(self, store: Store, mailbox: Mailbox) -> None:
        self._store = store
        self._seen = ChangeFilter(frozenset(list_event_types()), frozenset({mailbox.id}), mailbox.owner)
        self._after = store.changes.end()

    def now(self) -> list[tuple[str, str]]:
        """All changes since the last call."""
        changes, self._after = self._store.changes.read(self._after, self._seen, 1000)
        return [(str(one.type), one.subject) for one in changes]


def test_what_a_reader_gets_is_on_the_disk(store: Store, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power failure takes it back, and its position comes to mean another change."""
    synced: list[int] = []
    seen = ChangeFilter(frozenset(list_event_types()), frozenset({mailbox.id}), mailbox.owner)
    store.changes.to_position(store.changes.end())
    monkeypatch.setattr(os, "fsync", synced.append)
    mailbox.add(1)
    assert synced == []  # who follows no events does not wait either
    changes, _ = store.changes.read(0, seen, 100)
    assert len(synced) == 1
    mailbox.add(2)  # what is shown of a change may be later than the change
    to_events(store, changes)
    assert len(synced) == 2
    assert store.changes.end()
    assert len(synced) == 2


@pytest.mark.parametrize("position", ["", "-", "12", "-12", "a-", "a--1", "a-1.0", "a b-1", f"a-{'1' * 20}"])
def test_what_is_no_position_is_refused(store: Store, position: str) -> None:
    with pytest.raises(Invalid):
        store.changes.from_position(position)


def test_positions_of_another_store_and_of_the_future_are_lost(store: Store, mailbox: Mailbox) -> None:
    mailbox.add(1)
    end, mark = store.changes.end(), store.changes.mark
    assert store.changes.from_position(f"{mark}-{end}") == end
    assert store.changes.from_position(f"{mark}-{end + 1}") is None
    assert store.changes.from_position(f"{'0' * 16}-{end}") is None


@pytest.mark.parametrize(
    ("flag", "types"),
    [
        ("\\Seen", ["message.updated"]),
        ("\\Flagged", ["message.updated"]),
        ("\\Draft", ["message.updated"]),
        ("work", ["message.updated"]),
        ("$MDNSent", ["message.updated"]),
        ("\\Answered", []),
        ("$Forwarded", []),
        ("\\Deleted", []),
        ("\\Recent", []),
    ],
)
def test_a_flag_is_told_of_if_lists_show_it(store: Store, mailbox: Mailbox, flag: str, types: list[str]) -> None:
    message = mailbox.add(1)
    told, before = Told(store, mailbox), store.messages.get(mailbox.id, message)[0]
    for flags, expected in ((frozenset({flag}), types), (frozenset({flag}), []), (frozenset[str](), types)):
        store.mailbox_writer.change_flags(mailbox.folder().number, [FlagChange(1, flags)])
        assert (store.messages.get(mailbox.id, message)[0] != before) == (bool(flags) and types != [])
        assert told.now() == [(one, message) for one in expected]


def test_a_draft_that_is_saved_again_is_the_same_message(store: Store, mailbox: Mailbox) -> None:
    told, draft = Told(store, mailbox), mailbox.add(1)
    assert told.now() == [("message.created", draft)]
    store.mailbox_writer.replace_source(draft, fetched(0, after=60), parsed(subject="another"))
    assert told.now() == [("message.updated", draft)]
    store.mailbox_writer.set_uid(draft, 2)
    assert told.now() == []
    store.mailbox_writer.replace_source(draft, fetched(0), parsed(), mailbox.folder("Sent"))
    assert told.now() == [("message.moved", draft)]
    assert store.messages.get(mailbox.id, draft)[0].subject == "Subject"


def test_a_message_whose_folder_is_gone_is_told_of_when_it_changes_and_when_it_is_found(
    store: Store, mailbox: Mailbox
) -> None:
    message = mailbox.add(1, parsed("<1@example.test>", attachments=[ATTACHMENT]), "Junk")
    (number,) = store.database.row("SELECT number FROM messages") or ()
    told = Told(store, mailbox)
    listed = [ListedFolder(path, "/", frozenset()) for path in ("INBOX", "Sent")]
    store.folders.replace(mailbox.id, listed, ROLES)
    assert told.now() == []
    store.mailbox_writer.correct_sizes(number, {("2", "application/pdf"): 5})
    assert told.now() == [("message.updated", message)]
    seen = MessageIdentity(1, frozenset(), "1@example.test", 1000, MORNING)
    assert store.mailbox_writer.reattach(mailbox.folder(), [seen]) == {1}
    assert told.now() == [("message.moved", message)]


def test_what_was_never_told_of_is_new_when_it_is_saved_again(store: Store, mailbox: Mailbox) -> None:
    told = Told(store, mailbox)
    (draft,) = store.mailbox_writer.add_headers(mailbox.folder(), [(fetched(1), parsed("<1@example.test>"))])
    assert told.now() == []
    store.mailbox_writer.replace_source(draft, fetched(0), parsed("<1@example.test>", subject="another"))
    assert told.now() == [("message.created", draft)]


@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        (["\\Inbox"], [], ["message.moved"]),  # archived
        ([], ["\\Inbox"], ["message.moved"]),
        (["\\Sent"], ["\\Sent", "\\Inbox"], ["message.moved"]),
        (["\\Draft"], ["\\Sent"], ["message.moved"]),
        (["\\Inbox"], ["\\Inbox", "\\Draft", "\\Sent"], ["message.updated"]),  # still shown in the inbox
        (["\\Inbox"], ["\\Inbox", "Work"], ["message.updated"]),
        (["Inbox"], ["Work"], ["message.updated"]),
        (["\\Inbox"], ["\\Inbox", "\\Seen"], ["message.updated"]),
        (["\\Inbox"], ["\\Inbox"], []),
    ],
)
def test_labels_move_a_message_where_they_change_its_folder(
    store: Store, before: list[str], after: list[str], types: list[str]
) -> None:
    mailbox = LabeledMailbox(store, "Work", "Inbox")
    (message,) = mailbox.bring(1, before)
    told, old = Told(store, mailbox), store.messages.get(mailbox.id, message)[0].folder
    mailbox.see(1, "m1", after)
    assert told.now() == [(one, message) for one in types]
    assert (store.messages.get(mailbox.id, message)[0].folder == old) == (types != ["message.moved"])


def test_a_message_with_labels_that_becomes_spam_moves(store: Store) -> None:
    mailbox = LabeledMailbox(store)
    (message,) = mailbox.bring(1, ["\\Inbox"])
    told = Told(store, mailbox)
    mailbox.see(7, "m1", [], SPAM)
    assert told.now() == [("message.moved", message)]


@pytest.mark.parametrize("number", FORMATS)
def test_an_upgraded_store_begins_without_changes(tmp_path: Path, number: int) -> None:
    """Past formats have no messages, so all that sync brings is told of from the beginning."""
    folder, _ = copied(number, tmp_path / "data")
    store = Store.open(folder)
    try:
        assert store.database.value("SELECT count(*) FROM messages") == 0
        assert store.changes.end() == 0
        assert store.changes.from_position(store.changes.to_position(0)) == 0
    finally:
        store.close()
