"""The folder for copies of sent messages: an existing one or a new one; no other folder disappears."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.model.deliveries import DeliveryKind, NewDelivery
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.model.sync import ListedFolder
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.sent_copies import SentMailFiler
from tests.mailbox.rig import Rig, letter
from tests.servers.dovecot import MailServer

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def rig(tmp_path: Path, mail_server: MailServer) -> Iterator[Rig]:
    made = Rig(tmp_path / "rig", mail_server)
    yield made
    made.close()


def sent(rig: Rig, subject: str, send_at: datetime | None = None) -> tuple[str, str]:
    """Send a message while no folder for sent mail is known; return its operation and its ID."""
    box = Address(email="box@example.org")
    message = OutgoingMessage(sender=box, to=(box,), subject=subject, text="t")
    composed = compose(message, message_id=f"<{subject}@example.org>", date=AT)
    owner = rig.store.database.value("SELECT id FROM members")
    kind: DeliveryKind = "send" if send_at is None else "scheduled"
    new = NewDelivery(rig.account_id, "ses_1", owner, subject, "hash", kind, composed, None, send_at=send_at)
    operation = rig.store.deliveries.accept(new).delivery.operation_id
    rig.store.deliveries.begin_sending(operation)
    rig.store.deliveries.succeed(operation, None, reply_code=250)
    return operation, rig.store.deliveries.get_work(operation).result_id


def file(rig: Rig, *operations: str) -> None:
    logins = Logins(rig.store, rig.settings)
    filer = SentMailFiler(SendingContext(rig.store, logins, rig.settings, rig.events, SystemClock()))
    filer.file(rig.account_id, operations, threading.Event())


def paths(rig: Rig) -> set[str]:
    return {folder.path for folder in rig.store.folders.list(rig.account_id)}


def test_every_copy_has_its_promised_id_and_what_the_server_tells_of_it(rig: Rig) -> None:
    rig.mirror()
    (first, first_id), (second, second_id) = sent(rig, "first"), sent(rig, "second")
    file(rig, first, second)
    rig.direct.examine("Sent")
    there = {
        one.uid: (one.size, one.internal_date) for one in rig.direct.fetch_messages(sorted(rig.direct.fetch_flags()))
    }
    here = rig.store.mailbox_writer.locate(rig.account_id, [first_id, second_id])
    assert {one.uid: (one.size, one.internal_date) for one in here.values()} == there
    assert len(there) == 2
    assert {one.folder.path for one in here.values()} == {"Sent"}


def test_a_folder_that_is_not_listed_at_this_moment_stays(rig: Rig) -> None:
    rig.store.folders.add_listed(rig.account_id, [ListedFolder("Renamed", "/", frozenset())])
    file(rig, sent(rig, "first")[0])
    assert paths(rig) >= {"Renamed", "INBOX", "Sent"}


def test_the_copy_of_a_scheduled_one_has_the_time_at_which_it_was_to_go(rig: Rig) -> None:
    rig.mirror()
    at = datetime(2026, 1, 9, 8, 0, tzinfo=UTC)
    operation, message_id = sent(rig, "later", at)
    file(rig, operation)
    assert rig.store.mailbox_writer.locate(rig.account_id, [message_id])[message_id].internal_date == at


def test_a_copy_of_another_message_whose_id_holds_ours_is_none(rig: Rig) -> None:
    rig.server.deliver(
        rig.user, letter("another", message_id="<x@example.org> (was <first@example.org>)"), folder="Sent"
    )
    rig.mirror()
    file(rig, sent(rig, "first")[0])
    assert rig.at_server("Sent").keys() == {"another", "first"}
    file(rig, sent(rig, "second")[0])
    assert rig.at_server("Sent").keys() == {"another", "first", "second"}


def test_a_folder_that_was_numbered_anew_takes_the_copy_and_no_uid_of_before(rig: Rig) -> None:
    rig.server.deliver(rig.user, letter("old"), folder="Sent")
    rig.mirror()
    rig.server.renumber(rig.user, "Sent")
    operation, message_id = sent(rig, "first")
    file(rig, operation)
    assert rig.store.mailbox_writer.locate(rig.account_id, [message_id])[message_id].uid is None
    assert rig.at_server("Sent").keys() == {"old", "first"}
