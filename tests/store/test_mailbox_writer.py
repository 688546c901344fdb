"""The mirror: headers first and bodies later, messages that leave a folder and are found again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.model.deliveries import FoundCopy
from mailbox_appliance.model.messages import ParsedAttachment, ParsedMessage
from mailbox_appliance.model.sync import FetchedMessage, ListedFolder, MessageIdentity, MirroredFolder
from mailbox_appliance.store.mailbox_writer import MailboxWriter, PendingCopy
from mailbox_appliance.store.store import Store
from tests.store.labeled import LabeledMailbox
from tests.store.mail import MORNING, ROLES, Mailbox, fetched, parsed

PICTURE = ParsedAttachment("2", "cat.png", "image/png", 70, None, "attachment")


@pytest.fixture
def mirror(store: Store) -> MailboxWriter:
    return store.mailbox_writer


@pytest.fixture
def inbox(mailbox: Mailbox) -> MirroredFolder:
    return mailbox.folder()


@pytest.fixture
def sent(mailbox: Mailbox) -> MirroredFolder:
    return mailbox.folder("Sent")


def seen(
    uid: int, message_id: str | None, flags: Sequence[str] = (), *, after: float = 0, size: int = 1000
) -> MessageIdentity:
    """Return a message as it is seen in a folder; by default with the size and time of `fetched`."""
    message = fetched(uid, flags, after=after)
    return MessageIdentity(uid, message.flags, canonical_message_id(message_id or ""), size, message.internal_date)


def place(mailbox: Mailbox, message_id: str) -> tuple[str, int | None]:
    """Return folder and UID of a message."""
    found = mailbox.store.mailbox_writer.locate(mailbox.id, [message_id])[message_id]
    return found.folder.path, found.uid


# --- headers first, bodies later ----------------------------------------------------------------------------------


def header(message_id: str, subject: str = "Subject") -> ParsedMessage:
    return parsed(message_id, subject=subject, text="")


def test_a_message_gets_its_body_later(
    store: Store, mailbox: Mailbox, mirror: MailboxWriter, inbox: MirroredFolder
) -> None:
    (added,) = mirror.add_headers(inbox, [(fetched(1, ["\\Seen"]), header("<a@x>"))])
    assert store.messages.get_reply_headers(mailbox.id, added) == {"message-id": "<a@x>"}
    assert mirror.list_without_body(inbox.number, 9) == ((1, 1000),)
    assert mirror.count_without_body(mailbox.id) == 1
    whole = (fetched(1), parsed("<a@x>", text="The body", attachments=[PICTURE]))
    assert mirror.add(inbox, [whole]) == ()
    message = store.messages.get(mailbox.id, added)[0]
    assert (message.snippet, getattr(message.body, "text", None), message.flags.read) == ("The body", "The body", True)
    assert isinstance(message.attachments, tuple)
    assert store.database.value("SELECT flags FROM messages") == 1 | 64
    assert (mirror.list_without_body(inbox.number, 9), mirror.count_without_body(mailbox.id)) == ((), 0)
    assert mirror.add(inbox, [(fetched(1), parsed("<a@x>", text="Another"))]) == ()
    assert mirror.add_headers(inbox, [(fetched(1), header("<a@x>"))]) == ()
    assert store.messages.get(mailbox.id, added)[0].snippet == "The body"


def test_a_body_that_comes_for_a_message_that_left_is_passed_over(
    store: Store, mailbox: Mailbox, mirror: MailboxWriter, inbox: MirroredFolder, sent: MirroredFolder
) -> None:
    (added,) = mirror.add_headers(inbox, [(fetched(1), header("<a@x>"))])
    mirror.record_moves(mailbox.id, [(added, sent.number, 7)])
    mirror.add_bodies(inbox, [(fetched(1), parsed("<a@x>")), (fetched(2), parsed("<b@x>"))])
    assert store.database.rows("SELECT uid, body FROM messages") == [(7, 0)]
    mirror.add_bodies(sent, [(fetched(7), parsed("<a@x>"))], large=True)
    assert store.database.rows("SELECT uid, body FROM messages") == [(7, 2)]


def test_the_newest_are_filled_first(mailbox: Mailbox, mirror: MailboxWriter, inbox: MirroredFolder) -> None:
    mirror.add_headers(inbox, [(fetched(uid, after=-uid), header(f"<{uid}@x>")) for uid in range(1, 6)])
    mirror.detach(inbox.number, [2])
    assert [uid for uid, _ in mirror.list_without_body(inbox.number, 3)] == [1, 3, 4]
    assert mirror.load_flags(inbox.number).keys() == {1, 3, 4, 5}
    assert mirror.count_in_folder(inbox.number) == 4
    assert mirror.load_flags(inbox.number, [1, 2, 9]) == {1: frozenset()}


def test_of_one_second_the_later_one_is_the_newer(
    mailbox: Mailbox, mirror: MailboxWriter, inbox: MirroredFolder
) -> None:
    batch = [(fetched(uid), header(f"<{uid}@x>", f"number {uid}")) for uid in range(40, 0, -1)]
    mirror.add_headers(inbox, batch)
    assert mailbox.subjects() == [f"number {uid}" for uid in range(40, 0, -1)]


@pytest.mark.parametrize("count", [0, 1, 501])
def test_a_batch_may_have_any_size(mailbox: Mailbox, mirror: MailboxWriter, inbox: MirroredFolder, count: int) -> None:
    batch = [(fetched(uid, after=-uid), parsed(f"<{uid}@x>")) for uid in range(1, count + 1)]
    heads = mirror.add_headers(inbox, batch)
    assert len(heads) == len(set(heads)) == count
    assert mirror.add(inbox, batch[: count // 2]) == ()
    assert mirror.count_without_body(mailbox.id) == count - count // 2
    mirror.delete_by_uid(inbox.number, [message.uid for message, _ in batch])
    assert mirror.count_in_folder(inbox.number) == 0


# --- gone, and found again ------------------------------------------------------------------------------------------


def test_what_is_gone_is_read_until_it_is_purged(store: Store, mailbox: Mailbox, mirror: MailboxWriter) -> None:
    number = mailbox.folder().number
    first, second = mailbox.add(1, parsed("<a@x>", subject="a")), mailbox.add(2, parsed("<b@x>", subject="b"), after=1)
    assert not mirror.has_gone(mailbox.id)
    assert mirror.detach(number, [1, 99]) == 1
    assert set(mirror.load_flags(number)) == {2}
    assert mirror.has_gone(mailbox.id)
    assert mailbox.subjects() == ["b", "a"]
    assert mirror.purge_gone(mailbox.id) == 1
    assert mailbox.subjects() == ["b"]
    with pytest.raises(NotFound):
        store.messages.get(mailbox.id, first)
    assert mirror.detach(number, None) == 1
    assert mirror.purge_gone(mailbox.id, frozenset({7})) == 0, "only what was gone when the look began"
    assert mirror.purge_gone(mailbox.id, mirror.list_gone(mailbox.id)) == 1
    assert mailbox.subjects() == []
    assert store.database.rows("SELECT * FROM threads") == [], second
    assert store.database.rows("SELECT * FROM thread_links") == []


def test_a_thread_that_is_not_empty_stays(store: Store, mailbox: Mailbox, mirror: MailboxWriter) -> None:
    mailbox.add(1, parsed("<a@x>"))
    answer = mailbox.add(2, parsed("<b@x>", references=["<a@x>"]))
    thread = mailbox.thread_of(answer)
    mirror.delete_by_uid(mailbox.folder().number, [1])
    assert mailbox.thread_of(answer) == thread
    assert mailbox.thread_of(mailbox.add(3, parsed("<c@x>", references=["<a@x>"]))) == thread


def test_a_message_is_found_in_another_folder(
    store: Store, mailbox: Mailbox, mirror: MailboxWriter, inbox: MirroredFolder, sent: MirroredFolder
) -> None:
    (moved,) = mirror.add(inbox, [(fetched(5, after=3), parsed("<A@x>", attachments=[PICTURE]))])
    thread = mailbox.thread_of(moved)
    mirror.detach(inbox.number, [5])
    found = mirror.reattach(sent, [seen(8, "<a@X>", ["\\Seen", "Work"], after=3.9), seen(9, "<b@x>")])
    assert found == {8}
    assert place(mailbox, moved) == ("Sent", 8)
    assert mirror.load_flags(sent.number) == {8: {"\\Seen", "Work"}}
    assert mailbox.thread_of(moved) == thread
    assert store.database.value("SELECT flags FROM messages") == 1 | 64
    assert not mirror.has_gone(mailbox.id)


def test_after_a_new_uidvalidity_messages_keep_their_ids(mailbox: Mailbox, mirror: MailboxWriter) -> None:
    inbox, sent = mailbox.folder(), mailbox.folder("Sent")
    copies = [mailbox.add(uid, parsed("<a@x>"), path) for uid, path in ((1, "INBOX"), (2, "INBOX"), (1, "Sent"))]
    other = mailbox.add(3, parsed("<b@x>"))
    mirror.detach(sent.number, None)
    mirror.detach(inbox.number, None)
    assert mirror.reattach(inbox, [seen(11, "<a@x>"), seen(12, "<b@x>"), seen(13, "<a@x>")]) == {11, 12, 13}
    assert place(mailbox, other) == ("INBOX", 12)
    assert {place(mailbox, copy) for copy in copies[:2]} == {("INBOX", 11), ("INBOX", 13)}
    assert place(mailbox, copies[2]) == ("Sent", None), "those of the folder itself go first"
    assert mirror.reattach(inbox, [seen(14, "<a@x>")]) == {14}
    assert mirror.reattach(inbox, [seen(15, "<a@x>")]) == frozenset()


@pytest.mark.parametrize(
    "sighting",
    [
        seen(8, "<a@x>", size=1001),
        seen(8, "<a@x>", after=1),
        seen(8, "<b@x>"),
        seen(8, None, after=1),
        seen(8, None, size=1001),
        seen(7, "<a@x>"),  # this UID is another message
    ],
)
def test_what_only_looks_alike_is_another_message(
    mailbox: Mailbox, mirror: MailboxWriter, sighting: MessageIdentity
) -> None:
    mailbox.add(1, parsed("<a@x>")), mailbox.add(2, parsed(None)), mailbox.add(7, parsed("<c@x>"), "Sent")
    mirror.detach(mailbox.folder().number, None)
    assert mirror.reattach(mailbox.folder("Sent"), [sighting]) == frozenset()


def test_a_message_without_message_id_is_known_again_where_there_is_no_doubt(
    mailbox: Mailbox, mirror: MailboxWriter
) -> None:
    inbox, sent = mailbox.folder(), mailbox.folder("Sent")
    lone, twin, _ = (mailbox.add(uid, parsed(None), after=max(0, uid - 1)) for uid in (1, 2, 3))
    mirror.record_moves(mailbox.id, [(twin, sent.number, 4)])
    mirror.detach(inbox.number, None)
    assert mirror.reattach(sent, [seen(5, None), seen(6, None)]) == frozenset(), "one of the two, but which?"
    assert mirror.reattach(sent, [seen(4, None), seen(7, None, after=0.9)]) == {7}
    assert (place(mailbox, lone), place(mailbox, twin)) == (("Sent", 7), ("Sent", 4))
    mirror.detach(sent.number, None)
    mirror.record_moves(mailbox.id, [(mailbox.add(9, parsed(None)), sent.number, None)])
    assert mirror.reattach(sent, [seen(10, None)]) == frozenset(), "two are gone, and either may be this one"


def test_mailboxes_do_not_take_messages_from_each_other(store: Store, mailbox: Mailbox, mirror: MailboxWriter) -> None:
    other = Mailbox(store)
    mailbox.add(1, parsed("<a@x>"))
    assert mirror.find_other_folders(other.folder("Sent"), [seen(5, "<a@x>")]) == frozenset()
    mirror.detach(mailbox.folder().number, None)
    assert mirror.reattach(other.folder(), [seen(1, "<a@x>")]) == frozenset()
    assert (mirror.has_gone(other.id), mirror.purge_gone(other.id)) == (False, 0)
    assert mirror.locate(other.id, [row[0] for row in store.database.rows("SELECT id FROM messages")]) == {}


def test_where_else_a_message_lies(mailbox: Mailbox, mirror: MailboxWriter) -> None:
    mailbox.add(1, parsed("<a@x>"), "Junk"), mailbox.add(1, parsed("<a@x>"))
    inbox, junk = mailbox.folder(), mailbox.folder("Junk")
    asked = [seen(5, "<a@x>"), seen(6, "<b@x>"), seen(7, None)]
    assert mirror.find_other_folders(mailbox.folder("Sent"), asked) == {inbox.number, junk.number}
    assert mirror.find_other_folders(inbox, asked) == {junk.number}
    assert mirror.find_other_folders(mailbox.folder("Sent"), [seen(5, "<a@x>", size=1)]) == frozenset()
    mirror.detach(junk.number, None)
    assert mirror.find_other_folders(inbox, asked) == frozenset(), "what is gone is nowhere"


def test_a_folder_that_goes_leaves_its_messages_to_be_found(
    store: Store, mailbox: Mailbox, mirror: MailboxWriter
) -> None:
    listed = [ListedFolder(path, "/", frozenset()) for path in ("INBOX", "Trash", "Old")]
    roles = {**ROLES, "Trash": ("trash", "name")}
    store.folders.replace(mailbox.id, listed, roles)
    moved = mailbox.add(1, parsed("<a@x>"), "Old")
    store.folders.replace(mailbox.id, [*listed[:2], ListedFolder("New", "/", frozenset())], roles)
    assert place(mailbox, moved) == ("Trash", None)
    assert mirror.reattach(mailbox.folder("New"), [seen(1, "<a@x>")]) == {1}
    assert place(mailbox, moved) == ("New", 1)


# --- moved by us --------------------------------------------------------------------------------------------------


def test_what_we_moved_is_in_its_new_place_at_once(
    mailbox: Mailbox, mirror: MailboxWriter, sent: MirroredFolder
) -> None:
    told, untold = mailbox.add(1, parsed("<a@x>")), mailbox.add(2, parsed("<b@x>"))
    mirror.record_moves(
        mailbox.id, [(told, sent.number, 7), (untold, sent.number, None), ("msg_unknown", sent.number, 9)]
    )
    assert (place(mailbox, told), place(mailbox, untold)) == (("Sent", 7), ("Sent", None))
    assert mirror.has_gone(mailbox.id)
    assert mirror.reattach(sent, [seen(8, "<b@x>")]) == {8}
    assert place(mailbox, untold) == ("Sent", 8)


def test_the_id_that_is_known_stays_where_sync_was_quicker(mailbox: Mailbox, mirror: MailboxWriter) -> None:
    first = mailbox.add(1, parsed("<a@x>"))
    mailbox.add(7, parsed("<a@x>"), "Sent")
    sent = mailbox.folder("Sent")
    mirror.record_moves(mailbox.id, [(first, sent.number, 7)])
    assert place(mailbox, first) == ("Sent", 7)
    assert mailbox.subjects(None) == ["Subject"]
    mirror.record_moves(mailbox.id, [(first, sent.number, 7)])
    assert place(mailbox, first) == ("Sent", 7), "told twice"


def test_another_message_keeps_the_uid_that_we_were_told(mailbox: Mailbox, mirror: MailboxWriter) -> None:
    names = (("<a@x>", "<b@x>"), (None, "<b@x>"), (None, None))
    for uid, (ours, others) in enumerate(names, start=1):
        moving = mailbox.add(uid, parsed(ours))
        message = replace(fetched(uid), size=7)
        (other,) = mirror.add(mailbox.folder("Sent"), [(message, parsed(others))])
        mirror.record_moves(mailbox.id, [(moving, mailbox.folder("Sent").number, uid)])
        assert (place(mailbox, moving), place(mailbox, other)) == (("Sent", None), ("Sent", uid)), names
        assert mirror.locate(mailbox.id, [moving])[moving].gone, "until it is seen"


def test_a_message_without_message_id_that_sync_saw_first(mailbox: Mailbox, mirror: MailboxWriter) -> None:
    moving, double = mailbox.add(1, parsed(None)), mailbox.add(7, parsed(None), "Sent")
    mirror.record_moves(mailbox.id, [(moving, mailbox.folder("Sent").number, 7)])
    assert place(mailbox, moving) == ("Sent", 7)
    assert not mirror.locate(mailbox.id, [double])


def test_what_sync_has_found_in_its_new_place_stays_there(mailbox: Mailbox, mirror: MailboxWriter) -> None:
    moving, sent = mailbox.add(1, parsed("<a@x>")), mailbox.folder("Sent")
    mirror.detach(mailbox.folder().number, [1])
    assert mirror.reattach(sent, [seen(7, "<a@x>")]) == {7}
    mirror.record_moves(mailbox.id, [(moving, sent.number, None)])
    assert place(mailbox, moving) == ("Sent", 7)
    assert not mirror.has_gone(mailbox.id)


def test_a_message_is_located_with_what_it_must_still_be(mailbox: Mailbox, mirror: MailboxWriter) -> None:
    (added,) = mirror.add_headers(mailbox.folder(), [(fetched(4, ["\\Seen", "Work"], after=1.5), parsed("<A@x>"))])
    (found,) = mirror.locate(mailbox.id, [added, "msg_unknown"]).values()
    assert (found.id, found.folder, found.uid, found.message_id) == (added, mailbox.folder(), 4, "a@x")
    assert (found.size, set(found.flags), found.body) == (1000, {"\\Seen", "Work"}, 0)
    assert found.internal_date == fetched(4, after=1.5).internal_date
    assert mirror.locate("acc_unknown", [added]) == {}


# --- drafts, and copies of ours -----------------------------------------------------------------------------------


def test_a_draft_keeps_its_id_and_its_thread_in_a_new_version(
    store: Store, mailbox: Mailbox, mirror: MailboxWriter
) -> None:
    answered = mailbox.add(1, parsed("<a@x>"))
    draft = mailbox.add(5, parsed("<d1@x>", references=["<a@x>"], text="one"), "Sent")
    lone = mailbox.add(6, parsed("<e1@x>"), "Sent")
    version = replace(fetched(0, ["\\Draft"], after=60), size=2000)
    for each, name in ((draft, "<d2@x>"), (lone, "<e2@x>")):
        thread = mailbox.thread_of(each)
        mirror.replace_source(each, version, parsed(name, subject="Two", text="two", attachments=[PICTURE]))
        message = store.messages.get(mailbox.id, each)[0]
        assert (message.subject, message.snippet, message.thread_id) == ("Two", "two", thread)
        assert message.date == "2026-03-04T05:07:07.000Z"
        assert place(mailbox, each) == ("Sent", None)
    assert mailbox.thread_of(draft) == mailbox.thread_of(answered)
    mirror.set_uid(draft, 9)
    assert mirror.load_flags(mailbox.folder("Sent").number) == {9: {"\\Draft"}}
    with pytest.raises(NotFound):
        mirror.replace_source("msg_unknown", version, parsed())


def test_a_new_version_lies_where_it_was_put(mailbox: Mailbox, mirror: MailboxWriter, sent: MirroredFolder) -> None:
    draft = mailbox.add(1, parsed("<d1@x>"), "Junk")  # somebody has moved the earlier one
    mirror.replace_source(draft, fetched(0), parsed("<d2@x>"), sent)
    mirror.set_uid(draft, 3, 1234, fetched(0, after=9).internal_date)
    (found,) = mirror.locate(mailbox.id, [draft]).values()
    assert (found.folder.path, found.uid, found.size) == ("Sent", 3, 1234)
    assert found.internal_date == fetched(0, after=9).internal_date


@pytest.fixture
def pending(store: Store, mailbox: Mailbox) -> str:
    """The ID of a copy of ours that is in Sent and not on the server yet."""
    with store.database.transaction():
        copy = PendingCopy("msg_ours", "thr_ours")
        store.mailbox_writer.add_pending(
            mailbox.folder("Sent"), fetched(0, ["\\Seen"], after=0.7), parsed("<ours@x>"), copy
        )
    return "msg_ours"


def test_a_copy_of_ours_is_adopted_by_its_header(mailbox: Mailbox, mirror: MailboxWriter, pending: str) -> None:
    message = replace(fetched(9), size=1234)
    assert mirror.add_headers(mailbox.folder("Sent"), [(message, header("<OURS@x>"))]) == ()
    (found,) = mirror.locate(mailbox.id, [pending]).values()
    assert (found.uid, found.size, found.internal_date, found.body) == (9, 1234, message.internal_date, 1)


def test_the_promised_id_stays_where_sync_saw_our_copy_first(
    mailbox: Mailbox, mirror: MailboxWriter, pending: str
) -> None:
    number = mailbox.folder("Sent").number
    mirror.detach(number, None)
    assert not mirror.has_gone(mailbox.id), "what is not on the server yet cannot be gone"
    mirror.add(mailbox.folder("Sent"), [(fetched(9), parsed("<ours@x>"))])
    doubled = mailbox.add(10, parsed("<ours@x>"), "Sent")
    mirror.replace_source(pending, FetchedMessage(0, frozenset(), fetched(0).internal_date, 5, b""), parsed("<ours@x>"))
    mirror.set_uid(pending, 10)
    assert place(mailbox, pending) == ("Sent", 10)
    assert mirror.locate(mailbox.id, [pending])[pending].size == 1000, "the server's date, not ours"
    assert doubled not in mirror.locate(mailbox.id, [doubled])


def test_without_a_uid_that_which_sync_has_seen_is_it(mailbox: Mailbox, mirror: MailboxWriter, pending: str) -> None:
    mirror.set_uid(pending, None)
    assert place(mailbox, pending) == ("Sent", None)
    with mailbox.store.database.transaction():  # as if sync had been faster than the record of the copy
        mailbox.store.database.change("UPDATE messages SET gone = 1")
    doubled = mailbox.add(10, parsed("<ours@x>"), "Sent")
    with mailbox.store.database.transaction():
        mailbox.store.database.change("UPDATE messages SET gone = 0")
    mirror.set_uid(pending, None)
    assert place(mailbox, pending) == ("Sent", 10)
    assert not mirror.locate(mailbox.id, [doubled])


# --- Messages of ours at a server with labels: each exists once, under its promised ID ---


STARRED, SENT, DRAFTS = "[Gmail]/Starred", "[Gmail]/Sent Mail", "[Gmail]/Drafts"


@pytest.fixture
def box(store: Store) -> LabeledMailbox:
    return LabeledMailbox(store, "Work", "Work/2024", "Zürich \\ Bern")


def _pend(box: LabeledMailbox, flags: tuple[str, ...], message: ParsedMessage, identity: str = "msg_ours") -> None:
    with box.store.database.transaction():
        copy = PendingCopy(identity, "thr_ours")
        box.store.mailbox_writer.add_pending(box.folder(), fetched(0, flags), message, copy)


def _seen(uid: int, flags: tuple[str, ...], provider_id: str = "m3", thread: str = "T3") -> MessageIdentity:
    return MessageIdentity(uid, frozenset(flags), "c@x", 1000, MORNING, provider_id, thread)


def test_what_the_provider_filed_before_it_was_known_here_is_the_promised_one(box: LabeledMailbox) -> None:
    message = parsed("<c@x>")
    (draft,) = box.bring(1, ("\\Draft",), message)
    (sent,) = box.bring(3, ("\\Seen", "\\Sent", "Work"), message, thread="T3")
    thread = box.thread_of(sent)
    _pend(box, ("\\Seen", "\\Sent"), message)
    assert box.shown() == {DRAFTS: [1], SENT: [3], "Work": [3]}
    assert sorted(box.subjects(None)) == ["Subject", "Subject"]
    located = box.store.mailbox_writer.locate(box.id, ["msg_ours", draft])
    assert [(each.uid, each.provider_id) for each in (located["msg_ours"], located[draft])] == [(3, "m3"), (1, "m1")]
    assert box.thread_of("msg_ours") == thread != box.thread_of(draft)


def test_a_draft_is_not_taken_for_what_was_sent_of_it(box: LabeledMailbox) -> None:
    message = parsed("<c@x>")
    _pend(box, ("\\Seen", "\\Sent"), message)
    (draft,) = box.bring(2, ("\\Draft",), message)
    assert box.bring(3, ("\\Seen", "\\Sent"), message) == ()
    located = box.store.mailbox_writer.locate(box.id, ["msg_ours", draft])
    assert [located[each].uid for each in ("msg_ours", draft)] == [3, 2]


@pytest.mark.parametrize("was_seen", [False, True])
def test_a_copy_that_was_found_at_the_server_is_what_it_is_there(box: LabeledMailbox, was_seen: bool) -> None:
    message = parsed("<c@x>")
    _pend(box, ("\\Seen", "\\Sent"), message)
    if was_seen:
        box.store.database.change("UPDATE messages SET message_id = 'hidden'")
        box.bring(3, ("\\Sent", "Work"), message, thread="T3")
        box.store.database.change("UPDATE messages SET message_id = 'c@x'")
    found = FoundCopy(box.folder(), 3, 1000, MORNING, _seen(3, ("\\Sent", "Work")))
    box.store.mailbox_writer.record_server_copy("msg_ours", found)
    located = box.store.mailbox_writer.locate(box.id, ["msg_ours"])["msg_ours"]
    assert (located.uid, located.provider_id, located.flags) == (3, "m3", frozenset({"\\Sent", "Work"}))
    assert box.shown() == {SENT: [3], "Work": [3]}
    assert box.subjects(None) == ["Subject"]
    assert box.bring(3, ("\\Sent", "Work"), message, thread="T3") == ()


def test_a_copy_that_was_found_before_the_folder_was_compared_anew_waits_for_its_uid(box: LabeledMailbox) -> None:
    (other,) = box.bring(3)
    _pend(box, ("\\Sent",), parsed("<c@x>"))
    box.store.mailbox_writer.record_server_copy(
        "msg_ours", FoundCopy(box.folder(), 3, 1000, MORNING, _seen(3, ("\\Sent",), "m9"))
    )
    located = box.store.mailbox_writer.locate(box.id, ["msg_ours", other])
    assert [located[each].uid for each in ("msg_ours", other)] == [None, 3]
