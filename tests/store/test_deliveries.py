"""The journal keeps the bytes of a message as long as they are needed, and no longer."""

from datetime import UTC, datetime

import pytest

from mailbox_appliance.mail.compose import compose
from mailbox_appliance.model.deliveries import DeliveryStatus, NewDelivery, Phase
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox, add_member

AT = "2026-01-02T03:04:05.678Z"


def accept(
    store: Store, mailbox: Mailbox, key: str = "key", text: str = "t", member: str = "", warnings: tuple[str, ...] = ()
) -> str:
    """Accept an operation whose message has a Bcc."""
    ada, bob, eve = (Address(email=f"{name}@example.test") for name in ("ada", "bob", "eve"))
    outgoing = OutgoingMessage(sender=ada, to=(bob,), cc=(), bcc=(eve,), subject="s", text=text, html=None)
    new = NewDelivery(
        account_id=mailbox.id,
        credential_id="ses_1",
        member_id=member or mailbox.owner,
        idempotency_key=key,
        request_hash="hash",
        kind="send",
        message=compose(outgoing, message_id="<a@example.test>", date=datetime(2026, 1, 2, tzinfo=UTC)),
        thread_id=None,
        warnings=warnings,
    )
    return store.deliveries.accept(new).delivery.operation_id


def test_what_is_told_from_the_beginning_is_told_whatever_becomes_of_it(store: Store) -> None:
    mailbox = Mailbox(store)
    operation = accept(store, mailbox, warnings=("first",))
    store.deliveries.set_outcome(operation, "uncertain", warnings=("second",))
    assert store.delivery_lists.get(mailbox.id, operation, mailbox.owner)[1] == ("first", "second")
    store.deliveries.resolve(operation, "failed")
    assert store.delivery_lists.get(mailbox.id, operation, mailbox.owner)[1] == ("first",)


def kept(store: Store, operation_id: str) -> tuple[bool, bool]:
    """Return whether message and Bcc are still stored."""
    work = store.deliveries.get_work(operation_id)
    return bool(work.wire), bool(work.bcc_header)


@pytest.mark.parametrize(
    ("status", "mailbox_stays", "stays"),
    [
        ("failed", True, False),
        ("failed", False, False),
        ("uncertain", True, True),  # a person may find that it was not delivered
        ("uncertain", False, False),
    ],
)
def test_how_long_a_message_is_kept(store: Store, status: DeliveryStatus, mailbox_stays: bool, stays: bool) -> None:
    mailbox = Mailbox(store)
    operation = accept(store, mailbox)
    assert kept(store, operation) == (True, True)
    if not mailbox_stays:
        with store.database.transaction():
            store.deliveries.end_mailbox_deliveries(mailbox.id)
            store.accounts.remove(mailbox.id)
    store.deliveries.set_outcome(operation, status)
    assert kept(store, operation) == (stays, stays)


def test_what_was_being_sent_is_listed_in_order_with_its_phase(store: Store) -> None:
    mailbox = Mailbox(store)
    first, second, third = (accept(store, mailbox, key) for key in ("one", "two", "three"))
    store.deliveries.enter_phases(first, [(Phase.DOT, AT)])
    store.deliveries.mark_shown(second)
    store.deliveries.set_outcome(third, "failed", "message_rejected")
    listed = [(one.operation_id, one.account_id, one.phase, one.is_shown) for one in store.deliveries.list_sending()]
    assert listed == [(first, mailbox.id, Phase.DOT, False), (second, mailbox.id, Phase.ACCEPTED, True)]


def test_a_phase_does_not_write_the_message_again(store: Store) -> None:
    operation = accept(store, Mailbox(store), text="line\n" * 400_000)
    log = store.folder / "mailbox.db-wal"
    before = log.stat().st_size
    for phase in (Phase.CONNECTING, Phase.ENVELOPE, Phase.DATA, Phase.DOT):
        assert store.deliveries.enter_phases(operation, [(phase, AT)])
    store.deliveries.set_outcome(operation, "uncertain")
    assert before > 2_000_000
    assert log.stat().st_size - before < 200_000


def test_the_pages_of_a_member_hold_their_own_and_the_scheduled_ones_of_everybody(
    store: Store, mailbox: Mailbox
) -> None:
    bob, expected = add_member(store, "Bob"), list[str]()
    for n in range(12):
        operation = accept(store, mailbox, str(n), member=(mailbox.owner, bob)[n % 2])
        if n % 4 == 3:  # Bob's, scheduled
            at = {"schedule": f"sch_{n}", "id": operation}
            with store.database.transaction():
                sql = "UPDATE delivery_operations SET kind = 'scheduled', schedule_id = :schedule WHERE id = :id"
                store.database.change(sql, at)
        if n != 4:  # This one has not been shown to a client.
            store.deliveries.mark_shown(operation)
        if (n % 2 == 0 and n != 4) or n % 4 == 3:
            expected.insert(0, operation)
    found, before = list[str](), None
    for _ in range(4):
        items, before = store.delivery_lists.list(mailbox.id, mailbox.owner, before=before, limit=3)
        found += [item.operation_id for item in items]
        if before is None:
            break
    assert (found, before) == (expected, None)


def test_a_message_can_be_read_from_here_as_long_as_its_copy_is_to_be_filed(store: Store, mailbox: Mailbox) -> None:
    operation = accept(store, mailbox)
    result_id = store.deliveries.get_work(operation).result_id
    assert store.delivery_lists.find_source(mailbox.id, result_id) is None
    store.deliveries.succeed(operation, None, reply_code=250)
    source = store.delivery_lists.find_source(mailbox.id, result_id)
    assert source is not None
    assert b"Bcc: eve@example.test\r\n" in source.read()
    assert store.delivery_lists.find_source("acc_other", result_id) is None
    store.sent_copies.mark_filed(operation)
    assert store.delivery_lists.find_source(mailbox.id, result_id) is None
