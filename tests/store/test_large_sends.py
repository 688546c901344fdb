"""The bytes of a large message are stored in chunks, and deleted with it."""

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.content import LARGE, PIECE, Content
from mailbox_appliance.model.deliveries import NewDelivery
from mailbox_appliance.model.messages import ComposedMessage, Envelope
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox

HEAD = b"Subject: large\r\n\r\n"
_COUNT = "SELECT count(*) FROM delivery_chunks"


def large(size: int) -> Content:
    return Content(HEAD, bytes(range(256)) * (size // 256))


def accept(store: Store, wire: Content) -> str:
    mailbox = Mailbox(store)
    composed = ComposedMessage(wire, b"Bcc: c@example.org\r\n", Envelope("a@example.org", ("b@example.org",)), "<m@x>")
    new = NewDelivery(mailbox.id, "ses_1", mailbox.owner, "key", "hash", "send", composed, None)
    return store.deliveries.accept(new).delivery.operation_id


@pytest.mark.parametrize("size", [256, LARGE - 256, LARGE, LARGE + 256, 3 * LARGE])
def test_what_was_accepted_is_sent_byte_for_byte(store: Store, size: int) -> None:
    operation = accept(store, large(size))
    wire = store.deliveries.get_work(operation).wire
    assert len(wire) == len(HEAD) + size // 256 * 256
    assert wire.read() == wire.read() == large(size).read()
    chunks = store.database.value(_COUNT)
    assert (chunks > 0) == (len(wire) > LARGE)
    assert not chunks or store.database.value("SELECT max(length(content)) FROM delivery_chunks") <= PIECE


def test_the_chunks_go_with_the_message(store: Store) -> None:
    operation = accept(store, large(2 * LARGE))
    wire = store.deliveries.get_work(operation).wire
    store.deliveries.set_outcome(operation, "failed", "message_rejected")
    assert store.database.value(_COUNT) == 0
    with pytest.raises(NotFound):
        wire.read()
