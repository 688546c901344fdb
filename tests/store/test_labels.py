"""Labels: a message is in one folder, is shown by all folders whose label it has, and keeps its ID when it moves."""

import pytest

from mailbox_appliance.errors import AllMailHidden
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.model.sync import FlagChange, FolderState, MessageIdentity
from mailbox_appliance.store.mailbox_writer import PendingCopy
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
        box.store.mailbox_writer.change_flags(box.folder().number, [FlagChange(1, frozenset(flags))])
        assert box.shown() == shown


@pytest.mark.parametrize("path", [SPAM, TRASH])
def test_what_lies_in_spam_or_trash_is_shown_there_alone(box: LabeledMailbox, path: str) -> None:
    box.bring(1, ("\\Inbox", "Work"))
    assert box.see(7, "m1", ("Work", "\\Flagged", "\\Draft"), path) == {7}
    assert box.shown() == {}
    assert box.see(8, "m1", ("Work", "\\Flagged", "\\Draft")) == {8}
    assert box.shown() == {"Work": [8], STARRED: [8], DRAFTS: [8]}


def test_a_folder_that_is_told_of_later_shows_what_has_its_label(box: LabeledMailbox) -> None:
    whole = listed("Work")
    late = [each for each in whole if each.path not in ("Work", DRAFTS, STARRED)]
    box.store.folders.replace(box.id, late, folder_roles.assign_roles(late))
    box.bring(1, ("Work", "\\Flagged"))
    box.bring(2, ("\\Draft",))
    assert box.shown() == {}
    box.relist("Work")
    assert box.shown() == {"Work": [1], STARRED: [1], DRAFTS: [2]}


def test_labels_of_one_mailbox_show_nothing_in_another(box: LabeledMailbox) -> None:
    other = LabeledMailbox(box.store, "Work", owner=box.store.accounts.get(box.id).owner_member_id)
    box.bring(1, ("Work", "\\Inbox", "\\Flagged", "\\Draft"))
    assert box.shown().keys() == {"Work", "INBOX", STARRED, DRAFTS}
    assert other.shown() == {}
    other.relist("Work", "new")
    assert other.shown() == {}


def test_a_folder_that_comes_later_shows_what_has_its_label(box: LabeledMailbox) -> None:
    for uid in range(1, 6):
        box.bring(uid, ("New",) if uid % 2 else ("Work", "\\Flagged"))
    box.bring(9, ("New",), path=TRASH)
    box.relist("Work", "New")
    assert box.shown() == {"New": [1, 3, 5], "Work": [2, 4], STARRED: [2, 4]}
    box.relist("Work")
    assert box.shown() == {"Work": [2, 4], STARRED: [2, 4]}
    assert box.store.mailbox_writer.count_in_folder(box.folder().number) == 5


def test_what_goes_is_shown_nowhere(box: LabeledMailbox) -> None:
    box.bring(1, ("Work",))
    box.bring(2, ("Work",))
    box.store.mailbox_writer.delete_by_uid(box.folder().number, [1])
    assert box.shown() == {"Work": [2]}


def test_a_mailbox_without_labels_has_nothing_of_the_kind(store: Store, mailbox: Mailbox) -> None:
    store.mailbox_writer.add(mailbox.folder(), [(fetched(1, ("\\Flagged", "\\Draft", "Work", "\\Inbox")), parsed())])
    assert store.database.value("SELECT count(*) FROM message_labels") == 0


def upgrade(mailbox: Mailbox) -> None:
    mailbox.store.folders.replace(mailbox.id, listed("Sent"))
    assert mailbox.store.folders.detach_unlabeled(mailbox.id, ALL)


def test_a_mailbox_whose_labels_were_not_known_has_all_its_messages_lie_where_they_do(
    store: Store, mailbox: Mailbox
) -> None:
    added = mailbox.add(1)
    store.folders.set_state(mailbox.folder().number, FolderState(7, 2, 1, None))
    upgrade(mailbox)
    located = store.mailbox_writer.locate(mailbox.id, [added])[added]
    assert (located.folder.label, located.gone) == (None, True)
    state = mailbox.folder().state
    assert state is not None
    assert state.uidvalidity != 7  # it is compared again


def test_what_was_mirrored_before_labels_were_known_keeps_its_id_and_thread(store: Store, mailbox: Mailbox) -> None:
    first = mailbox.add(1, parsed("<a@x>"))
    mailbox.add(5, parsed("<a@x>"), "Sent")
    reply = mailbox.add(2, parsed("<b@x>", references=["<a@x>"]))
    threads = {mailbox.thread_of(each) for each in (first, reply)}
    upgrade(mailbox)
    home = next(folder for folder in store.folders.list(mailbox.id) if folder.role == "all")
    seen = frozenset({"\\Inbox", "Sent"})
    sightings = [
        MessageIdentity(8, seen, "a@x", 1000, MORNING, "m1", "T1"),
        MessageIdentity(9, seen, "b@x", 1000, MORNING, "m2", "T1"),
    ]
    assert store.mailbox_writer.reattach(home, sightings) == {8, 9}
    assert store.mailbox_writer.purge_gone(mailbox.id) == 1
    located = store.mailbox_writer.locate(mailbox.id, [first, reply])
    assert [(each.uid, each.provider_id) for each in (located[first], located[reply])] == [(8, "m1"), (9, "m2")]
    assert {mailbox.thread_of(each) for each in (first, reply)} == threads
    assert mailbox.subjects() == ["Subject", "Subject"]


def test_the_home_of_a_folder_with_a_label_is_all_mail(box: LabeledMailbox) -> None:
    homes = {
        folder.path: box.store.folders.get_message_folder(folder).path for folder in box.store.folders.list(box.id)
    }
    assert {path for path, home in homes.items() if home == path} == {ALL, SPAM, TRASH}
    assert {home for path, home in homes.items() if home != path} == {ALL}


def test_all_mail_that_is_hidden_is_told(box: LabeledMailbox) -> None:
    folders = [folder for folder in listed("Work") if folder.path != ALL]
    box.store.folders.replace(box.id, folders)
    assert box.store.folders.get_message_folder(box.folder(TRASH)).path == TRASH
    with pytest.raises(AllMailHidden):
        box.store.folders.get_message_folder(box.folder("Work"))


# --- ids ---


def test_a_message_keeps_its_id_wherever_the_provider_has_it(box: LabeledMailbox) -> None:
    (first,) = box.bring(1, ("\\Inbox",))
    assert box.bring(5, ("\\Inbox",), provider_id="m1", path=TRASH) == ()
    located = box.store.mailbox_writer.locate(box.id, [first])[first]
    assert (located.folder.path, located.uid, located.gone, located.provider_id) == (TRASH, 5, False, "m1")
    assert box.bring(9, ("Work",), provider_id="m1") == ()
    assert box.store.mailbox_writer.load_flags(box.folder().number) == {9: frozenset({"Work"})}
    assert box.store.mailbox_writer.count_in_folder(box.folder(TRASH).number) == 0


@pytest.mark.parametrize("how", ["bring", "see"])
def test_what_we_moved_has_the_labels_that_the_server_left_it(box: LabeledMailbox, how: str) -> None:
    (first,) = box.bring(1, ("\\Inbox", "Work"))
    box.store.mailbox_writer.record_moves(box.id, [(first, box.folder(TRASH).number, 4)])
    if how == "bring":
        assert box.bring(4, ("Work",), provider_id="m1", path=TRASH) == ()
    else:
        assert box.see(4, "m1", ("Work",), TRASH) == {4}
    assert box.store.mailbox_writer.load_flags(box.folder(TRASH).number) == {4: frozenset({"Work"})}


def test_messages_that_agree_in_all_but_the_provider_s_id_are_different_ones(box: LabeledMailbox) -> None:
    (first,) = box.bring(1, message=parsed("<a@x>"))
    box.store.mailbox_writer.detach(box.folder().number, None)
    (second,) = box.bring(2, message=parsed("<a@x>"), provider_id="other", after=1)
    assert box.see(3, "m1") == {3}
    located = box.store.mailbox_writer.locate(box.id, [first, second])
    assert [located[each].uid for each in (first, second)] == [3, 2]


def test_a_body_that_was_missing_comes_with_a_message_that_moved(box: LabeledMailbox) -> None:
    (first,) = box.store.mailbox_writer.add_headers(box.folder(), [(fetched(1), parsed(text="no"))])
    box.store.database.change("UPDATE messages SET provider_id = 'm1'")
    box.bring(4, message=parsed(text="the body"), provider_id="m1", path=TRASH)
    assert box.store.messages.get_body(box.id, first).text == "the body"


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
        box.store.mailbox_writer.add_pending(box.folder(), pending, reply, PendingCopy("msg_reply", "thr_reply"))
    assert box.thread_of("msg_reply") == box.thread_of(asked) != box.thread_of(other)
    assert box.bring(3, ("\\Seen", "\\Sent", "Work"), reply, thread="T1") == ()
    assert box.thread_of("msg_reply") == box.thread_of(asked)
    assert box.shown() == {"INBOX": [1, 2], SENT: [3], "Work": [3]}
    assert box.store.mailbox_writer.locate(box.id, ["msg_reply"])["msg_reply"].provider_id == "m3"


def test_a_thread_that_we_began_becomes_the_provider_s(box: LabeledMailbox) -> None:
    with box.store.database.transaction():
        new = parsed("<c@x>", subject="New")
        box.store.mailbox_writer.add_pending(box.folder(), fetched(0), new, PendingCopy("msg_new", "thr_new"))
    box.bring(3, ("\\Sent",), new, thread="T9")
    (answer,) = box.bring(4, message=parsed("<d@x>", subject="no relation"), thread="T9")
    assert box.thread_of("msg_new") == box.thread_of(answer) == "thr_new"


def test_a_copy_of_ours_that_belongs_elsewhere_goes_there(box: LabeledMailbox) -> None:
    (first,) = box.bring(1, message=parsed("<a@x>", subject="Old"), thread="T1")
    with box.store.database.transaction():
        new = parsed("<c@x>", subject="New")
        box.store.mailbox_writer.add_pending(box.folder(), fetched(0), new, PendingCopy("msg_new", "thr_new"))
    box.bring(3, ("\\Sent",), new, thread="T1")
    assert box.thread_of("msg_new") == box.thread_of(first)
    assert box.store.database.value("SELECT count(*) FROM threads") == 1
