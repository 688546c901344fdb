"""Messages of ours at a server with labels: each stands there once, under the id that was promised."""

import pytest

from mailbox_appliance.model.deliveries import FoundCopy
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.model.sync import MessageIdentity
from mailbox_appliance.store.mailbox_writer import PendingCopy
from mailbox_appliance.store.store import Store
from tests.store.labeled import LabeledMailbox
from tests.store.mail import MORNING, fetched, parsed

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
