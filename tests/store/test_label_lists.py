"""Messages of label folders: listed, counted and searched."""

import json
from datetime import timedelta

import pytest

from mailbox_appliance.clock import to_millis
from mailbox_appliance.model.messages import MessageFilter, ParsedAttachment, SearchTerm
from mailbox_appliance.store.search import Search, SearchLimits
from mailbox_appliance.store.store import Store
from tests.store.labeled import ALL, SPAM, TRASH, LabeledMailbox, listed
from tests.store.mail import MORNING, Mailbox, fetched, parsed

STARRED, SENT, DRAFTS = "[Gmail]/Starred", "[Gmail]/Sent Mail", "[Gmail]/Drafts"


@pytest.fixture
def box(store: Store) -> LabeledMailbox:
    return LabeledMailbox(store, "Work", "Work/2024", "Zürich \\ Bern")


def _listed(box: LabeledMailbox, folder: str | None = None, **wanted: object) -> list[str]:
    """Return the IDs that a list shows, which must be the same with every query plan."""
    folders = None if folder is None else [box.folder(folder).number]
    message_filter = MessageFilter(**wanted)  # type: ignore[arg-type]
    page, _ = box.store.messages.list([box.id], message_filter, folders=folders, before=None, limit=50)
    for bounds in (
        SearchLimits(0, 0, 0, 0, 0),
        SearchLimits(dates=0),
        SearchLimits(folders=0),
        SearchLimits(gathered=0),
    ):
        numbers = Search(box.store.database, bounds).find_numbers(
            [box.id], message_filter, folders=folders, before=None, limit=50
        )
        ids = [box.store.database.value("SELECT id FROM messages WHERE number = ?", (number,)) for number in numbers]
        assert ids == [message.id for message in page], bounds
    return [message.subject.removeprefix("message ") for message in page]


@pytest.fixture
def full(box: LabeledMailbox) -> LabeledMailbox:
    with_file = parsed(
        subject="message 4", attachments=[ParsedAttachment("2", "a.pdf", "application/pdf", 9, None, "attachment")]
    )
    box.bring(1, ("\\Inbox", "\\Seen", "Work"))
    box.bring(2, ("\\Inbox", "Work", "Work/2024", "unseen by IMAP"))
    box.bring(3, ("\\Seen", "Work/2024", "\\Flagged"))
    box.bring(4, ("\\Inbox", "\\Sent", "Work"), with_file)
    box.bring(5, ("\\Sent",))
    box.bring(6, ("\\Draft",))
    box.bring(7, ("Work",), path=TRASH, provider_id="m7", after=7)
    box.bring(8)
    return box


LISTS: list[tuple[str | None, dict[str, object], str]] = [
    (None, {}, "8654321"),
    ("INBOX", {}, "421"),
    ("Work", {}, "421"),
    (TRASH, {}, "7"),
    (ALL, {}, "8654321"),
    ("Work", {"unread": True}, "42"),
    ("Work", {"unread": False}, "1"),
    (STARRED, {"starred": True}, "3"),
    ("Work", {"has_attachment": True}, "4"),
    ("INBOX", {"labels": ("work",)}, "421"),
    ("INBOX", {"labels": ("WORK", "Work/2024")}, "2"),
    (None, {"labels": ("Work/2024",)}, "32"),
    (None, {"labels": ("Work/2024", "unseen by imap")}, "2"),
    ("INBOX", {"labels": ("unseen by IMAP",)}, "2"),
    (TRASH, {"labels": ("Work",)}, "7"),
    (None, {"labels": ("\\Inbox",)}, ""),
    (None, {"labels": ("no such",)}, ""),
    ("Work", {"before": to_millis(MORNING) + 2500}, "21"),
    ("Work", {"after": to_millis(MORNING) + 2000, "labels": ("Work/2024",)}, "2"),
    (None, {"terms": (SearchTerm("text"),)}, "8654321"),
    ("INBOX", {"terms": (SearchTerm("text"),)}, "421"),
    ("INBOX", {"terms": (SearchTerm("text"),), "labels": ("Work/2024",), "unread": True}, "2"),
    (None, {"terms": (SearchTerm("text"),), "labels": ("Work/2024", "unseen by IMAP")}, "2"),
]


@pytest.mark.parametrize(("folder", "wanted", "expected"), LISTS)
def test_a_folder_with_a_label_lists_what_has_it(
    full: LabeledMailbox, folder: str | None, wanted: dict[str, object], expected: str
) -> None:
    assert "".join(_listed(full, folder, **wanted)) == expected


def test_pages_of_a_label_go_on_where_the_last_one_ended(full: LabeledMailbox) -> None:
    assert full.subjects("Work", limit=2) == ["message 4", "message 2", "message 1"]


def test_mailboxes_with_and_without_labels_are_searched_at_once(full: LabeledMailbox, mailbox: Mailbox) -> None:
    flags = ("Work", "\\Seen")
    mailbox.store.mailbox_writer.add(mailbox.folder(), [(fetched(1, flags, after=99), parsed(subject="plain"))])
    folders = [full.folder("INBOX").number, mailbox.folder().number]
    for wanted in (MessageFilter(labels=("Work",)), MessageFilter(labels=("Work",), terms=(SearchTerm("text"),))):
        for named in (folders, None):
            page, _ = full.store.messages.list([full.id, mailbox.id], wanted, folders=named, before=None, limit=9)
            assert [message.subject for message in page] == ["plain", "message 4", "message 2", "message 1"]


def test_folders_count_what_they_show(full: LabeledMailbox) -> None:
    shown = {
        folder.path: (folder.unread_count, folder.total_count)
        for folder in full.store.folders.list_with_counts(full.id)
    }
    assert {path: counts for path, counts in shown.items() if counts != (0, 0)} == {
        ALL: (5, 7),
        "INBOX": (2, 3),
        "Work": (2, 3),
        "Work/2024": (1, 2),
        STARRED: (0, 1),
        SENT: (2, 2),
        DRAFTS: (1, 1),
        TRASH: (1, 1),
    }


def test_clients_see_people_s_labels_and_where_to_look_for_a_message(full: LabeledMailbox) -> None:
    page, _ = full.store.messages.list([full.id], MessageFilter(), folders=None, before=None, limit=50)
    seen = [(m.folder.name if m.folder else None, m.labels or ()) for m in page]
    assert seen == [
        ("All Mail", ()),
        ("Drafts", ()),
        ("Sent Mail", ()),
        ("INBOX", ("Work",)),
        ("All Mail", ("Work/2024",)),
        ("INBOX", ("Work", "Work/2024", "unseen by IMAP")),
        ("INBOX", ("Work",)),
    ]
    assert full.store.messages.list_labels(full.id) == ("unseen by IMAP", "Work", "Work/2024", "Zürich \\ Bern")
    whole, _ = full.store.messages.get(full.id, page[3].id)
    assert whole.folder == page[3].folder


def test_folders_beside_the_one_of_all_mail_are_no_labels(box: LabeledMailbox) -> None:
    box.relist("Work", "[Gmail]/Chats", "[Imap]/Drafts")
    assert box.store.messages.list_labels(box.id) == ("[Imap]/Drafts", "Work")


def test_what_we_sent_has_not_arrived(full: LabeledMailbox) -> None:
    accounts, until = json.dumps([full.id]), MORNING + timedelta(hours=1)
    assert full.store.history.count_arrivals(accounts, MORNING, until, 3600) == {0: 5}


def test_names_and_people_give_no_folder_a_role_where_there_are_labels(box: LabeledMailbox) -> None:
    box.store.folders.set_user_mapping(box.id, {"trash": "Work", "archive": ALL})
    box.store.folders.add_listed(box.id, listed("Work", "Archive"))
    roles = {folder.path: folder.role for folder in box.store.folders.list(box.id) if folder.role}
    assert roles == {
        "INBOX": "inbox",
        ALL: "all",
        SPAM: "spam",
        TRASH: "trash",
        SENT: "sent",
        DRAFTS: "drafts",
        STARRED: "starred",
    }
