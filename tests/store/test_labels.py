"""Labels: a message lies in one folder, is shown by all whose label it has, and keeps its id wherever it goes."""

import json
from datetime import timedelta

import pytest

from mailbox_appliance.clock import to_millis
from mailbox_appliance.errors import AllMailHidden
from mailbox_appliance.records import (
    FlagChange,
    FolderState,
    Found,
    MessageFilter,
    ParsedAttachment,
    ParsedMessage,
    Sighting,
    Term,
)
from mailbox_appliance.store.mirror import PendingCopy
from mailbox_appliance.store.search import Search
from mailbox_appliance.store.sources import Bounds
from mailbox_appliance.store.store import Store
from tests.store.labeled import ALL, SPAM, TRASH, LabeledMailbox, listed
from tests.store.mail import MORNING, Mailbox, fetched, parsed

STARRED, SENT, DRAFTS = "[Gmail]/Starred", "[Gmail]/Sent Mail", "[Gmail]/Drafts"


@pytest.fixture
def box(store: Store) -> LabeledMailbox:
    return LabeledMailbox(store, "Work", "Work/2024", "Zürich \\ Bern")


def test_a_message_is_shown_by_every_folder_whose_label_it_has(box: LabeledMailbox) -> None:
    box.bring(1, ("\\Seen", "\\Inbox", "Work/2024", "Zürich \\ Bern", "\\Important", "\\Flagged"))
    box.bring(2, ("\\Draft",))
    box.bring(3, ("\\Sent", "no folder has it"))
    box.bring(4)
    assert box.shown() == {
        "INBOX": [1],
        "Work/2024": [1],
        "Zürich \\ Bern": [1],
        "[Gmail]/Important": [1],
        STARRED: [1],
        DRAFTS: [2],
        SENT: [3],
    }


def test_labels_that_change_show_it_elsewhere(box: LabeledMailbox) -> None:
    box.bring(1, ("\\Inbox", "Work"))
    changes = [
        (("\\Inbox", "Work", "\\Seen"), {"INBOX": [1], "Work": [1]}),
        (("Work", "\\Flagged"), {"Work": [1], STARRED: [1]}),
        (("\\Draft",), {DRAFTS: [1]}),
        ((), {}),
    ]
    for flags, shown in changes:
        box.store.mirror.change_flags(box.folder().number, [FlagChange(1, frozenset(flags))])
        assert box.shown() == shown


@pytest.mark.parametrize("path", [SPAM, TRASH])
def test_what_lies_in_spam_or_trash_is_shown_there_alone(box: LabeledMailbox, path: str) -> None:
    box.bring(1, ("\\Inbox", "Work"))
    assert box.see(7, "m1", ("Work", "\\Flagged"), path) == {7}
    assert box.shown() == {}
    assert box.see(8, "m1", ("Work", "\\Flagged")) == {8}
    assert box.shown() == {"Work": [8], STARRED: [8]}


def test_a_folder_that_comes_later_shows_what_has_its_label(box: LabeledMailbox) -> None:
    for uid in range(1, 6):
        box.bring(uid, ("New",) if uid % 2 else ("Work", "\\Flagged"))
    box.bring(9, ("New",), path=TRASH)
    box.relist("Work", "New")
    assert box.shown() == {"New": [1, 3, 5], "Work": [2, 4], STARRED: [2, 4]}
    box.relist("Work")
    assert box.shown() == {"Work": [2, 4], STARRED: [2, 4]}
    assert box.store.mirror.count(box.folder().number) == 5


def test_what_goes_is_shown_nowhere(box: LabeledMailbox) -> None:
    box.bring(1, ("Work",))
    box.bring(2, ("Work",))
    box.store.mirror.remove(box.folder().number, [1])
    assert box.shown() == {"Work": [2]}


def test_a_mailbox_without_labels_has_nothing_of_the_kind(store: Store, mailbox: Mailbox) -> None:
    store.mirror.add(mailbox.folder(), [(fetched(1, ("\\Flagged", "\\Draft", "Work", "\\Inbox")), parsed())])
    assert store.database.value("SELECT count(*) FROM message_labels") == 0


def test_a_mailbox_whose_labels_were_not_known_has_all_its_messages_lie_where_they_do(
    store: Store, mailbox: Mailbox
) -> None:
    added = mailbox.add(1)
    store.folders.set_state(mailbox.folder().number, FolderState(7, 2, 1, None))
    store.folders.replace(mailbox.id, listed("Sent"))
    located = store.mirror.locate(mailbox.id, [added])[added]
    assert (located.folder.label, located.gone) == (None, True)
    state = mailbox.folder().state
    assert state is not None
    assert state.uidvalidity != 7  # it is compared anew


def test_what_was_mirrored_before_labels_were_known_keeps_its_id_and_thread(store: Store, mailbox: Mailbox) -> None:
    first = mailbox.add(1, parsed("<a@x>"))
    mailbox.add(5, parsed("<a@x>"), "Sent")
    reply = mailbox.add(2, parsed("<b@x>", references=["<a@x>"]))
    threads = {mailbox.thread_of(each) for each in (first, reply)}
    store.folders.replace(mailbox.id, listed("Sent"))
    home = next(folder for folder in store.folders.list(mailbox.id) if folder.role == "all")
    seen = frozenset({"\\Inbox", "Sent"})
    sightings = [
        Sighting(8, seen, "a@x", 1000, MORNING, "m1", "T1"),
        Sighting(9, seen, "b@x", 1000, MORNING, "m2", "T1"),
    ]
    assert store.mirror.reattach(home, sightings) == {8, 9}
    assert store.mirror.purge(mailbox.id) == 1
    located = store.mirror.locate(mailbox.id, [first, reply])
    assert [(each.uid, each.provider_id) for each in (located[first], located[reply])] == [(8, "m1"), (9, "m2")]
    assert {mailbox.thread_of(each) for each in (first, reply)} == threads
    assert mailbox.subjects() == ["Subject", "Subject"]


def test_the_home_of_a_folder_with_a_label_is_all_mail(box: LabeledMailbox) -> None:
    homes = {folder.path: box.store.folders.home(folder).path for folder in box.store.folders.list(box.id)}
    assert {path for path, home in homes.items() if home == path} == {ALL, SPAM, TRASH}
    assert {home for path, home in homes.items() if home != path} == {ALL}


def test_all_mail_that_is_hidden_is_told(box: LabeledMailbox) -> None:
    folders = [folder for folder in listed("Work") if folder.path != ALL]
    box.store.folders.replace(box.id, folders)
    assert box.store.folders.home(box.folder(TRASH)).path == TRASH
    with pytest.raises(AllMailHidden):
        box.store.folders.home(box.folder("Work"))


# --- ids ---


def test_a_message_keeps_its_id_wherever_the_provider_has_it(box: LabeledMailbox) -> None:
    (first,) = box.bring(1, ("\\Inbox",))
    assert box.bring(5, ("\\Inbox",), provider_id="m1", path=TRASH) == ()
    located = box.store.mirror.locate(box.id, [first])[first]
    assert (located.folder.path, located.uid, located.gone, located.provider_id) == (TRASH, 5, False, "m1")
    assert box.bring(9, ("Work",), provider_id="m1") == ()
    assert box.store.mirror.known(box.folder().number) == {9: frozenset({"Work"})}
    assert box.store.mirror.count(box.folder(TRASH).number) == 0


@pytest.mark.parametrize("how", ["bring", "see"])
def test_what_we_moved_has_the_labels_that_the_server_left_it(box: LabeledMailbox, how: str) -> None:
    (first,) = box.bring(1, ("\\Inbox", "Work"))
    box.store.mirror.moved(box.id, [(first, box.folder(TRASH).number, 4)])
    if how == "bring":
        assert box.bring(4, ("Work",), provider_id="m1", path=TRASH) == ()
    else:
        assert box.see(4, "m1", ("Work",), TRASH) == {4}
    assert box.store.mirror.known(box.folder(TRASH).number) == {4: frozenset({"Work"})}


def test_messages_that_agree_in_all_but_the_provider_s_id_are_different_ones(box: LabeledMailbox) -> None:
    (first,) = box.bring(1, message=parsed("<a@x>"))
    box.store.mirror.detach(box.folder().number, None)
    (second,) = box.bring(2, message=parsed("<a@x>"), provider_id="other", after=1)
    assert box.see(3, "m1") == {3}
    located = box.store.mirror.locate(box.id, [first, second])
    assert [located[each].uid for each in (first, second)] == [3, 2]


def test_a_body_that_was_missing_comes_with_a_message_that_moved(box: LabeledMailbox) -> None:
    (first,) = box.store.mirror.add_headers(box.folder(), [(fetched(1), parsed(text="no"))])
    box.store.database.change("UPDATE messages SET provider_id = 'm1'")
    box.bring(4, message=parsed(text="the body"), provider_id="m1", path=TRASH)
    assert box.store.messages.body(box.id, first).text == "the body"


# --- threads ---


def test_the_provider_alone_says_what_belongs_together(box: LabeledMailbox) -> None:
    (one,) = box.bring(1, message=parsed("<a@x>", subject="Lunch"), thread="T1")
    (two,) = box.bring(2, message=parsed("<b@x>", subject="Re: Lunch", references=["<a@x>"]), thread="T2")
    (three,) = box.bring(3, message=parsed("<c@x>", subject="Dinner"), thread="T1")
    assert box.thread_of(one) == box.thread_of(three) != box.thread_of(two)


def test_a_reply_of_ours_lies_in_the_thread_it_answers_until_the_provider_has_it(box: LabeledMailbox) -> None:
    (asked,) = box.bring(1, ("\\Inbox",), parsed("<a@x>"), thread="T1")
    (other,) = box.bring(2, ("\\Inbox",), parsed("<b@x>"), thread="T2")
    reply = parsed("<c@x>", subject="Re: Subject", references=["<b@x>", "<a@x>"])
    with box.store.database.transaction():
        pending = fetched(0, ("\\Seen", "\\Sent"))
        box.store.mirror.add_pending(box.folder(), pending, reply, PendingCopy("msg_reply", "thr_reply"))
    assert box.thread_of("msg_reply") == box.thread_of(asked) != box.thread_of(other)
    assert box.bring(3, ("\\Seen", "\\Sent", "Work"), reply, thread="T1") == ()
    assert box.thread_of("msg_reply") == box.thread_of(asked)
    assert box.shown() == {"INBOX": [1, 2], SENT: [3], "Work": [3]}
    assert box.store.mirror.locate(box.id, ["msg_reply"])["msg_reply"].provider_id == "m3"


def test_a_thread_that_we_began_becomes_the_provider_s(box: LabeledMailbox) -> None:
    with box.store.database.transaction():
        new = parsed("<c@x>", subject="New")
        box.store.mirror.add_pending(box.folder(), fetched(0), new, PendingCopy("msg_new", "thr_new"))
    box.bring(3, ("\\Sent",), new, thread="T9")
    (answer,) = box.bring(4, message=parsed("<d@x>", subject="no relation"), thread="T9")
    assert box.thread_of("msg_new") == box.thread_of(answer) == "thr_new"


def test_a_copy_of_ours_that_belongs_elsewhere_goes_there(box: LabeledMailbox) -> None:
    (first,) = box.bring(1, message=parsed("<a@x>", subject="Old"), thread="T1")
    with box.store.database.transaction():
        new = parsed("<c@x>", subject="New")
        box.store.mirror.add_pending(box.folder(), fetched(0), new, PendingCopy("msg_new", "thr_new"))
    box.bring(3, ("\\Sent",), new, thread="T1")
    assert box.thread_of("msg_new") == box.thread_of(first)
    assert box.store.database.value("SELECT count(*) FROM threads") == 1


# --- what is read ---


def _listed(box: LabeledMailbox, folder: str | None = None, **wanted: object) -> list[str]:
    """The ids that a list shows; the same whichever way SQLite goes."""
    folders = None if folder is None else [box.folder(folder).number]
    message_filter = MessageFilter(**wanted)  # type: ignore[arg-type]
    page, _ = box.store.messages.list([box.id], message_filter, folders=folders, before=None, limit=50)
    for bounds in (Bounds(0, 0, 0, 0, 0), Bounds(dates=0), Bounds(folders=0), Bounds(gathered=0)):
        numbers = Search(box.store.database, bounds).numbers(
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
    (None, {"terms": (Term("text"),)}, "8654321"),
    ("INBOX", {"terms": (Term("text"),)}, "421"),
    ("INBOX", {"terms": (Term("text"),), "labels": ("Work/2024",), "unread": True}, "2"),
    (None, {"terms": (Term("text"),), "labels": ("Work/2024", "unseen by IMAP")}, "2"),
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
    mailbox.store.mirror.add(mailbox.folder(), [(fetched(1, flags, after=99), parsed(subject="plain"))])
    folders = [full.folder("INBOX").number, mailbox.folder().number]
    for wanted in (MessageFilter(labels=("Work",)), MessageFilter(labels=("Work",), terms=(Term("text"),))):
        for named in (folders, None):
            page, _ = full.store.messages.list([full.id, mailbox.id], wanted, folders=named, before=None, limit=9)
            assert [message.subject for message in page] == ["plain", "message 4", "message 2", "message 1"]


def test_folders_count_what_they_show(full: LabeledMailbox) -> None:
    shown = {folder.path: (folder.unread_count, folder.total_count) for folder in full.store.folders.show(full.id)}
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
    assert full.store.messages.labels(full.id) == ("unseen by IMAP", "Work", "Work/2024", "Zürich \\ Bern")
    whole, _ = full.store.messages.get(full.id, page[3].id)
    assert whole.folder == page[3].folder


def test_what_we_sent_has_not_arrived(full: LabeledMailbox) -> None:
    accounts, until = json.dumps([full.id]), MORNING + timedelta(hours=1)
    assert full.store.history.arrived(accounts, MORNING, until, 3600) == {0: 5}


def test_names_and_people_give_no_folder_a_role_where_there_are_labels(box: LabeledMailbox) -> None:
    box.store.folders.set_user_mapping(box.id, {"trash": "Work", "archive": ALL})
    box.store.folders.take_in(box.id, listed("Work", "Archive"))
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


# --- messages of ours ---


def _pend(box: LabeledMailbox, flags: tuple[str, ...], message: ParsedMessage, identity: str = "msg_ours") -> None:
    with box.store.database.transaction():
        copy = PendingCopy(identity, "thr_ours")
        box.store.mirror.add_pending(box.folder(), fetched(0, flags), message, copy)


def _seen(uid: int, flags: tuple[str, ...], provider_id: str = "m3", thread: str = "T3") -> Sighting:
    return Sighting(uid, frozenset(flags), "c@x", 1000, MORNING, provider_id, thread)


def test_what_the_provider_filed_before_it_was_known_here_is_the_promised_one(box: LabeledMailbox) -> None:
    message = parsed("<c@x>")
    (draft,) = box.bring(1, ("\\Draft",), message)
    (sent,) = box.bring(3, ("\\Seen", "\\Sent", "Work"), message, thread="T3")
    thread = box.thread_of(sent)
    _pend(box, ("\\Seen", "\\Sent"), message)
    assert box.shown() == {DRAFTS: [1], SENT: [3], "Work": [3]}
    assert sorted(box.subjects(None)) == ["Subject", "Subject"]
    located = box.store.mirror.locate(box.id, ["msg_ours", draft])
    assert [(each.uid, each.provider_id) for each in (located["msg_ours"], located[draft])] == [(3, "m3"), (1, "m1")]
    assert box.thread_of("msg_ours") == thread != box.thread_of(draft)


def test_a_draft_is_not_taken_for_what_was_sent_of_it(box: LabeledMailbox) -> None:
    message = parsed("<c@x>")
    _pend(box, ("\\Seen", "\\Sent"), message)
    (draft,) = box.bring(2, ("\\Draft",), message)
    assert box.bring(3, ("\\Seen", "\\Sent"), message) == ()
    located = box.store.mirror.locate(box.id, ["msg_ours", draft])
    assert [located[each].uid for each in ("msg_ours", draft)] == [3, 2]


@pytest.mark.parametrize("was_seen", [False, True])
def test_a_copy_that_was_found_at_the_server_is_what_it_is_there(box: LabeledMailbox, was_seen: bool) -> None:
    message = parsed("<c@x>")
    _pend(box, ("\\Seen", "\\Sent"), message)
    if was_seen:
        box.store.database.change("UPDATE messages SET message_id = 'hidden'")
        box.bring(3, ("\\Sent", "Work"), message, thread="T3")
        box.store.database.change("UPDATE messages SET message_id = 'c@x'")
    found = Found(box.folder(), 3, 1000, MORNING, _seen(3, ("\\Sent", "Work")))
    box.store.mirror.landed("msg_ours", found)
    located = box.store.mirror.locate(box.id, ["msg_ours"])["msg_ours"]
    assert (located.uid, located.provider_id, located.flags) == (3, "m3", frozenset({"\\Sent", "Work"}))
    assert box.shown() == {SENT: [3], "Work": [3]}
    assert box.subjects(None) == ["Subject"]
    assert box.bring(3, ("\\Sent", "Work"), message, thread="T3") == ()


def test_a_copy_that_was_found_before_the_folder_was_compared_anew_waits_for_its_uid(box: LabeledMailbox) -> None:
    (other,) = box.bring(3)
    _pend(box, ("\\Sent",), parsed("<c@x>"))
    box.store.mirror.landed("msg_ours", Found(box.folder(), 3, 1000, MORNING, _seen(3, ("\\Sent",), "m9")))
    located = box.store.mirror.locate(box.id, ["msg_ours", other])
    assert [located[each].uid for each in ("msg_ours", other)] == [None, 3]
