"""Messages: added in batches that may be repeated, listed by date, adopted if they are ours."""

from datetime import timedelta

import msgspec
import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.messages import Attachment, Message, MessageFilter, MessageFlags, ParsedAttachment
from mailbox_appliance.model.sync import FlagChange
from mailbox_appliance.store.mailbox_writer import PendingCopy
from mailbox_appliance.store.store import Store
from tests.store.mail import MORNING, Mailbox, fetched, parsed

PICTURE = ParsedAttachment("2", "cat.png", "image/png", 70, None, "attachment")
LOGO = ParsedAttachment("1.2", "", "image/png", 9, "logo@x", "inline")


def get(mailbox: Mailbox, message_id: str) -> Message:
    return mailbox.store.messages.get(mailbox.id, message_id)[0]


def test_a_message_is_read_as_it_was_added(store: Store, mailbox: Mailbox) -> None:
    message = parsed("<A@x>", subject="Grüße", attachments=[PICTURE, LOGO], text="Hallo")
    (added,) = store.mailbox_writer.add(mailbox.folder(), [(fetched(7, ["\\Seen", "$Work", "\\Recent"]), message)])
    found = get(mailbox, added)
    assert (found.id, found.account_id, found.subject, found.snippet) == (added, mailbox.id, "Grüße", "Hallo")
    assert (found.from_, found.to) == (message.sender, message.to)
    assert (found.date, found.flags) == (
        "2026-03-04T05:06:07.000Z",
        MessageFlags(read=True, starred=False, draft=False),
    )
    assert found.labels == ("$Work",)
    assert isinstance(found.attachments, tuple)
    assert [(each.filename, each.disposition) for each in found.attachments] == [
        ("cat.png", "attachment"),
        ("", "inline"),
    ]
    assert all(isinstance(each, Attachment) and each.id.startswith("att_") for each in found.attachments)
    assert (getattr(found.body, "text", None), found.headers) == ("Hallo", {"Message-ID": "<A@x>"})
    listed, _ = store.messages.list(
        [mailbox.id], MessageFilter(), folders=[mailbox.folder().number], before=None, limit=1
    )
    assert [message.id for message in listed] == [added]
    assert store.messages.get_reply_headers(mailbox.id, added) == {"message-id": "<A@x>"}


def test_a_message_of_another_mailbox_is_not_there(store: Store, mailbox: Mailbox) -> None:
    other = Mailbox(store)
    foreign = other.add(1)
    thread = other.thread_of(foreign)
    for message_id in (foreign, "msg_unknown"):
        with pytest.raises(NotFound):
            store.messages.get(mailbox.id, message_id)
        with pytest.raises(NotFound):
            store.messages.get_reply_headers(mailbox.id, message_id)
    assert store.messages.list_thread(mailbox.id, thread, after=None, limit=9) == ((), None)
    assert store.messages.list(
        [mailbox.id], MessageFilter(), folders=[other.folder().number], before=None, limit=9
    ) == ((), None)


def test_adding_twice_changes_nothing(store: Store, mailbox: Mailbox) -> None:
    batch = [(fetched(uid), parsed(f"<{uid}@x>")) for uid in (1, 2, 3)]
    first = store.mailbox_writer.add(mailbox.folder(), batch[:2])
    second = store.mailbox_writer.add(mailbox.folder(), [*batch, batch[2]])
    assert (len(first), len(second)) == (2, 1)
    assert store.mailbox_writer.load_flags(mailbox.folder().number) == dict.fromkeys((1, 2, 3), frozenset())
    assert len(mailbox.subjects()) == 3


def test_the_same_message_in_two_folders_is_two(store: Store, mailbox: Mailbox) -> None:
    assert mailbox.add(1, parsed("<a@x>")) != mailbox.add(1, parsed("<a@x>"), "Sent")


def test_a_folder_that_is_gone_takes_nothing(store: Store, mailbox: Mailbox) -> None:
    folder = mailbox.folder("Sent")
    store.folders.replace(mailbox.id, (), {})
    assert store.mailbox_writer.add(folder, [(fetched(1), parsed())]) == ()


def test_flags_are_what_the_server_says_last(store: Store, mailbox: Mailbox) -> None:
    (added,) = store.mailbox_writer.add(mailbox.folder(), [(fetched(1, ["\\Flagged"]), parsed(attachments=[PICTURE]))])
    number = mailbox.folder().number
    for flags in (
        frozenset({"\\Seen", "\\Draft", "$Forwarded", "Work", "\\Deleted", "\\Answered"}),
        frozenset({"work"}),
        frozenset({"\\Flagged"}),
    ):
        store.mailbox_writer.change_flags(number, [FlagChange(1, flags), FlagChange(99, flags)])
        assert store.mailbox_writer.load_flags(number) == {1: flags}
    assert get(mailbox, added).flags == MessageFlags(read=False, starred=True, draft=False)
    assert store.database.value("SELECT flags & 64 FROM messages") == 64, "it still has its attachment"


def test_an_inline_picture_is_no_attachment_to_search_for(store: Store, mailbox: Mailbox) -> None:
    store.mailbox_writer.add(mailbox.folder(), [(fetched(1), parsed(attachments=[LOGO]))])
    assert store.database.value("SELECT flags FROM messages") == 0


def test_flags_are_understood_in_any_case(store: Store, mailbox: Mailbox) -> None:
    (added,) = store.mailbox_writer.add(mailbox.folder(), [(fetched(1, ["\\SEEN", "$forwarded"]), parsed())])
    assert get(mailbox, added).flags.read
    assert store.mailbox_writer.load_flags(mailbox.folder().number) == {1: {"\\Seen", "$Forwarded"}}


def test_what_the_server_no_longer_has_goes_with_its_body(store: Store, mailbox: Mailbox) -> None:
    mailbox.add(1), mailbox.add(2), mailbox.add(1, path="Sent")
    store.mailbox_writer.delete_by_uid(mailbox.folder().number, [1, 99])
    assert set(store.mailbox_writer.load_flags(mailbox.folder().number)) == {2}
    assert len(mailbox.subjects("Sent")) == 1
    assert store.database.value("SELECT count(*) FROM bodies") == 2


# --- our own copies -----------------------------------------------------------------------------------------------


@pytest.fixture
def pending(store: Store, mailbox: Mailbox) -> str:
    """The ID of a copy of ours that is in Sent and not on the server yet."""
    with store.database.transaction():
        copy = PendingCopy("msg_ours", "thr_ours")
        store.mailbox_writer.add_pending(mailbox.folder("Sent"), fetched(0, ["\\Seen"]), parsed("<Ours@x>"), copy)
    return "msg_ours"


def test_a_copy_of_ours_is_there_before_the_server_has_it(store: Store, mailbox: Mailbox, pending: str) -> None:
    found = get(mailbox, pending)
    assert (found.thread_id, found.flags.read) == ("thr_ours", True)
    assert store.mailbox_writer.load_flags(mailbox.folder("Sent").number) == {}


def test_a_copy_of_ours_is_adopted_and_not_new(store: Store, mailbox: Mailbox, pending: str) -> None:
    number = mailbox.folder("Sent").number
    elsewhere = mailbox.add(5, parsed("<ours@x>"))
    assert elsewhere != pending
    assert store.mailbox_writer.add(mailbox.folder("Sent"), [(fetched(8), parsed("<other@x>"))]) != ()
    assert store.mailbox_writer.add(mailbox.folder("Sent"), [(fetched(9), parsed(" <ours@x> "))]) == ()
    assert set(store.mailbox_writer.load_flags(number)) == {8, 9}
    again = mailbox.add(10, parsed("<ours@x>"), "Sent")
    assert again != pending, "a second message with that Message-ID is another one"
    store.mailbox_writer.set_uid(pending, 77)
    assert set(store.mailbox_writer.load_flags(number)) == {8, 9, 10}


def test_the_server_says_where_it_put_our_copy(store: Store, mailbox: Mailbox, pending: str) -> None:
    store.mailbox_writer.set_uid(pending, 7)
    assert set(store.mailbox_writer.load_flags(mailbox.folder("Sent").number)) == {7}
    assert store.mailbox_writer.add(mailbox.folder("Sent"), [(fetched(7), parsed("<ours@x>"))]) == ()
    store.mailbox_writer.set_uid("msg_unknown", 8)


def test_a_place_that_is_taken_is_not_taken_twice(store: Store, mailbox: Mailbox, pending: str) -> None:
    other = mailbox.add(7, parsed("<other@x>"), "Sent")
    store.mailbox_writer.set_uid(pending, 7)
    assert set(store.mailbox_writer.load_flags(mailbox.folder("Sent").number)) == {7}
    assert store.database.value("SELECT id FROM messages WHERE uid = 7") == other


# --- order and pages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 7, 50, 51, 1000])
def test_many_messages_in_one_second_come_once_each_newest_first(store: Store, mailbox: Mailbox, limit: int) -> None:
    batch = [(fetched(uid, after=uid % 2), parsed(subject=f"{uid % 2} {uid:03}")) for uid in range(51)]
    store.mailbox_writer.add(mailbox.folder(), batch)
    expected = sorted((message.subject for _, message in batch), reverse=True)
    # 26 messages of one second take numbers of the next: these arrived later but count as of the same time.
    assert sorted(mailbox.subjects(limit=limit), reverse=True) == expected
    assert mailbox.subjects(limit=limit) == mailbox.subjects()
    assert [each for each in mailbox.subjects() if each.startswith("0")] == expected[-26:]


def test_the_order_is_by_date_whatever_came_first(store: Store, mailbox: Mailbox) -> None:
    days = {"b": 0.0, "d": 86_400.0, "a": -86_400.0, "c": 1.0, "before 1970": -3e9}
    for uid, (subject, after) in enumerate(days.items(), 1):
        mailbox.add(uid, parsed(subject=subject), after=after)
    assert mailbox.subjects() == ["d", "c", "b", "a", "before 1970"]
    assert mailbox.subjects(limit=2) == mailbox.subjects()


def test_an_import_of_many_messages_within_a_second_finds_its_numbers(store: Store, mailbox: Mailbox) -> None:
    """Far more messages than a second has numbers: they continue into those of the next seconds."""
    store.mailbox_writer.add(mailbox.folder(), [(fetched(uid), parsed(subject=f"{uid:03}")) for uid in range(500)])
    mailbox.add(900, parsed(subject="later"), after=100)
    assert mailbox.subjects() == ["later", *(f"{uid:03}" for uid in reversed(range(500)))]


def test_the_pages_of_a_mailbox_leave_spam_out_until_it_is_named(store: Store, mailbox: Mailbox) -> None:
    for uid, path in enumerate(("INBOX", "Junk", "Sent", "Junk", "INBOX"), 1):
        mailbox.add(uid, parsed(subject=f"{uid} {path}"), path, after=uid)
    assert mailbox.subjects(None, limit=1) == ["5 INBOX", "3 Sent", "1 INBOX"]
    assert mailbox.subjects("Junk") == ["4 Junk", "2 Junk"]


def test_the_date_is_the_senders_and_the_order_the_servers(store: Store, mailbox: Mailbox) -> None:
    early = MORNING - timedelta(days=400)
    dated = msgspec.structs.replace(parsed(subject="dated"), date=early)
    mailbox.add(1, parsed(subject="undated"))
    added = mailbox.add(2, dated, after=5)
    assert get(mailbox, added).date == "2025-01-28T05:06:07.000Z"
    assert mailbox.subjects() == ["dated", "undated"]
