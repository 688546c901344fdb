"""Work at the server that follows a delivery: done once, however often it is interrupted, and finally given up."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from mailbox_appliance.clock import Clock, SystemClock, from_millis
from mailbox_appliance.events import FolderWritten
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mailbox.after_send import MAX_ATTEMPTS, PostSendTasks
from mailbox_appliance.mailbox.drafts import Drafts, DraftVersion, version_of
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.deliveries import DeliveryKind, NewDelivery
from mailbox_appliance.model.messages import Address, OutgoingMessage
from tests.mailbox.rig import WHEN, Rig, letter
from tests.servers.fake_clock import FakeClock

SEEN = frozenset({"\\Seen"})
DRAFT = frozenset({"\\Draft", "\\Seen"})


class Office:
    """A mailbox whose operations end as a test requires, and the tasks that remain."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.store = rig, rig.store
        self.drafts = Drafts(rig.connections, rig.store, rig.events)
        rig.mirror()

    def operation(self, key: str, *, send_at: datetime | None = None, kind: DeliveryKind = "send", **more: Any) -> str:
        """Return an operation that is being sent, or is scheduled."""
        box, eve = Address(email=self.rig.user), Address(email="eve@example.test")
        outgoing = OutgoingMessage(box, (Address(email="bob@example.test"),), bcc=(eve,), subject=key, text="t")
        message = compose(outgoing, message_id=f"<{key}@sent.test>", date=WHEN)
        owner = self.store.database.value("SELECT id FROM members")
        kind = kind if send_at is None else "scheduled"
        new = NewDelivery(
            self.rig.account_id, "ses_1", owner, key, "hash", kind, message, None, send_at=send_at, **more
        )
        return self.store.deliveries.accept(new).delivery.operation_id

    def sent(self, key: str, **more: Any) -> str:
        """Return an operation that succeeded."""
        operation = self.operation(key, **more)
        self.store.deliveries.succeed(operation, None, reply_code=250)
        return operation

    def canceled(self, key: str, **more: Any) -> str:
        """Return a scheduled operation that was canceled."""
        operation = self.operation(key, send_at=SystemClock().now() + timedelta(days=3), **more)
        sql = "SELECT schedule_id FROM delivery_operations WHERE id = ?"
        self.store.deliveries.cancel(self.rig.account_id, self.store.database.value(sql, (operation,)))
        return operation

    def draft(self, subject: str) -> tuple[str, str]:
        """Save a draft; return its ID and its version."""
        version = DraftVersion(Content(letter(subject)), f"<{subject}@example.test>", WHEN)
        draft_id = self.drafts.create(self.rig.account_id, version, None)
        return draft_id, version_of(self.store.mailbox_writer.locate(self.rig.account_id, [draft_id])[draft_id])

    def by(self, clock: Clock) -> PostSendTasks:
        """Return the runner of the tasks with this clock."""
        return PostSendTasks(self.store, self.rig.connections, self.drafts, self.rig.events, clock)

    def work(self, ahead: timedelta = timedelta()) -> None:
        """Run what is due after this much time."""
        clock = FakeClock(SystemClock().now() + ahead)
        for account_id in self.by(clock).due_accounts(clock.now()):
            self.by(clock).work(account_id, threading.Event())

    def left(self, operation: str) -> list[int]:
        """Return the number of attempts of each remaining task."""
        return [chore.attempts for chore in self.store.schedule.list_chores(operation)]

    def warnings(self, operation: str) -> tuple[str, ...]:
        found = self.store.deliveries.find(operation)
        assert found is not None
        assert found[0].result
        return found[0].result.warnings or ()

    def next_in(self) -> timedelta:
        """Return the time until the next task is due; nothing if none is left."""
        millis = self.store.database.value("SELECT min(next_at) FROM delivery_chores")
        return timedelta() if millis is None else from_millis(millis) - SystemClock().now()

    def set_attempts(self, attempts: int) -> None:
        """Set the number of attempts of every remaining task."""
        with self.store.database.transaction():
            self.store.database.change("UPDATE delivery_chores SET attempts = ?", (attempts,))

    def sources(self) -> list[bytes]:
        """Return the raw messages in the drafts folder at the server."""
        self.rig.direct.examine("Drafts")
        return [message.source for message in self.rig.direct.fetch_messages(sorted(self.rig.direct.fetch_flags()))]

    def away(self) -> None:
        """Make the server unreachable."""
        self.rig.proxy.is_shut = True
        self.rig.proxy.cut_all()


@pytest.fixture
def office(rig: Rig) -> Office:
    return Office(rig)


# --- the draft that was sent ---


def test_the_draft_that_was_sent_is_removed(office: Office) -> None:
    (draft, version), (other, _) = office.draft("one"), office.draft("other")
    operation = office.sent("a", draft_id=draft, draft_version=version)
    office.work()
    assert office.rig.here("Drafts") == office.rig.at_server("Drafts") == {"other": DRAFT}
    assert (office.left(operation), office.warnings(operation)) == ([], ())
    assert office.rig.id("other") == other


def test_the_draft_alone_is_removed_where_that_is_asked_for(office: Office) -> None:
    draft, version = office.draft("one")
    (parent,) = office.rig.deliver("hello")
    operation = office.sent("a", draft_id=draft, draft_version=version, parent_id=parent)
    assert office.by(SystemClock()).is_draft_left(operation)
    office.by(SystemClock()).remove_draft_now(operation)
    assert office.rig.at_server("Drafts") == {}
    assert not office.by(SystemClock()).is_draft_left(operation)
    assert [chore.kind for chore in office.store.schedule.list_chores(operation)] == ["flag_parent"]


def test_a_draft_that_was_changed_meanwhile_stays_and_the_result_says_so(office: Office) -> None:
    draft, version = office.draft("one")
    operation = office.sent("a", draft_id=draft, draft_version=version)
    new = DraftVersion(Content(letter("two")), "<two@example.test>", WHEN)
    office.drafts.replace(office.rig.account_id, draft, new, may_delete=False)
    office.work()
    assert office.rig.here("Drafts") == office.rig.at_server("Drafts") == {"two": DRAFT}
    assert office.left(operation) == []
    assert "was changed" in office.warnings(operation)[0]


def test_a_draft_that_is_gone_is_no_trouble(office: Office) -> None:
    draft, version = office.draft("one")
    office.drafts.remove(office.rig.account_id, draft, may_delete=False)
    operation = office.sent("a", draft_id=draft, draft_version=version)
    office.work()
    assert (office.left(operation), office.warnings(operation)) == ([], ())


def test_a_draft_that_another_program_moved_is_removed_where_it_is_found(office: Office) -> None:
    draft, version = office.draft("one")
    operation = office.sent("a", draft_id=draft, draft_version=version)
    office.rig.direct.move("Drafts", [1], "Archive")
    office.work()
    assert office.left(operation) == [1]
    archive = office.store.folders.find(office.rig.account_id, "Archive")
    assert archive is not None
    office.store.mailbox_writer.record_moves(office.rig.account_id, [(draft, archive.number, 1)])  # as sync finds it
    office.work(timedelta(seconds=61))
    assert office.left(operation) == []
    assert office.rig.at_server("Archive") == {}


def test_one_that_another_program_removed_is_no_trouble_once_sync_has_found_that_out(office: Office) -> None:
    draft, version = office.draft("one")
    operation = office.sent("a", draft_id=draft, draft_version=version)
    office.rig.direct.expunge("Drafts", [1])
    office.work()
    office.work(timedelta(seconds=61))
    assert office.left(operation) == [2]
    folder = office.store.folders.find(office.rig.account_id, "Drafts")
    assert folder is not None
    office.store.mailbox_writer.delete_by_uid(folder.number, [1])
    office.work(timedelta(seconds=300))
    assert (office.left(operation), office.warnings(operation)) == ([], ())


def test_one_that_stays_where_nobody_finds_it_is_given_up_and_the_result_says_so(office: Office) -> None:
    draft, version = office.draft("one")
    (parent,) = office.rig.deliver("hello")
    operation = office.sent("a", draft_id=draft, draft_version=version, parent_id=parent)
    office.rig.direct.expunge("Drafts", [1])
    office.rig.direct.expunge("INBOX", [1])
    office.set_attempts(MAX_ATTEMPTS - 1)
    office.work()
    assert office.left(operation) == []
    assert sorted(warning.partition(", ")[2][:13] for warning in office.warnings(operation)) == [
        "but its draft",
        "but the origi",
    ]


def test_where_single_messages_cannot_be_removed_the_result_says_so(office: Office) -> None:
    rig = office.rig
    draft, version = office.draft("one")
    rig.deliver("of others", folder="Drafts", flags="\\Deleted")
    operation = office.sent("a", draft_id=draft, draft_version=version)
    rig.connections.drop(rig.account_id)
    rig.proxy.make_poor()
    office.work()
    assert office.left(operation) == []
    assert "could not be deleted permanently" in office.warnings(operation)[0]
    assert rig.at_server("Drafts").keys() == {"one", "of others"}


def test_it_is_tried_for_a_day_and_then_given_up(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    draft, version = office.draft("one")
    operation = office.sent("a", draft_id=draft, draft_version=version)
    office.away()
    waits = []
    ahead = timedelta()
    while office.left(operation):
        office.work(ahead)
        waits.append(round(office.next_in().total_seconds() - ahead.total_seconds()))
        ahead += timedelta(seconds=waits[-1] + 1)
    assert waits[:-1] == [60, 120, 240, 480, 960] + [1800] * (MAX_ATTEMPTS - 6)
    assert 23 * 3600 < sum(waits[:-1]) < 24 * 3600
    assert [record.message for record in caplog.records if record.levelname == "WARNING"][
        -1
    ] == "after_send_task_abandoned"
    assert office.warnings(operation)[0].startswith("The message was sent, but its draft could not be removed")
    assert office.rig.at_server("Drafts") == {"one": DRAFT}


def test_what_waited_while_nothing_ran_is_tried_as_often_as_anything(office: Office) -> None:
    draft, version = office.draft("one")
    operation = office.sent("a", draft_id=draft, draft_version=version)
    office.away()
    office.work(timedelta(days=30))  # the network is not available at the first attempt
    assert office.left(operation) == [1]
    office.rig.proxy.is_shut = False
    office.work(timedelta(days=30, seconds=61))
    assert (office.left(operation), office.warnings(operation)) == ([], ())
    assert office.rig.at_server("Drafts") == {}


# --- the message that was answered ---


@pytest.mark.parametrize(("kind", "flag"), [("send", "\\Answered"), ("forward", "$Forwarded")])
def test_what_was_answered_or_forwarded_is_marked_so(office: Office, kind: DeliveryKind, flag: str) -> None:
    (parent,) = office.rig.deliver("hello", flags="\\Seen")
    operation = office.sent("a", parent_id=parent, kind=kind)
    office.work()
    assert office.rig.here() == office.rig.at_server() == {"hello": SEEN | {flag}}
    assert office.left(operation) == []
    assert "INBOX" in office.rig.touched


def test_a_server_that_keeps_no_keywords_is_done_without(office: Office) -> None:
    rig = office.rig
    rig.proxy.change_answers(rb"\[PERMANENTFLAGS \([^)]*\)\]", lambda _: rb"[PERMANENTFLAGS (\Answered \Seen)]")
    (parent,) = rig.deliver("hello")
    forwarded, answered = office.sent("a", parent_id=parent, kind="forward"), office.sent("b", parent_id=parent)
    office.work()
    assert (office.left(forwarded), office.left(answered)) == ([], [])
    assert rig.at_server() == {"hello": frozenset({"\\Answered"})}
    assert rig.proxy.count("UID STORE") == 1


def test_what_was_marked_already_is_left_alone(office: Office) -> None:
    (parent,) = office.rig.deliver("hello", flags="\\Answered")
    operation = office.sent("a", parent_id=parent)
    office.work()
    assert (office.left(operation), office.rig.proxy.count("UID STORE")) == ([], 0)


def test_a_parent_that_is_gone_is_no_trouble(office: Office) -> None:
    rig = office.rig
    gone, vanished = rig.deliver("gone", "vanished")
    rig.act("delete", [gone])
    rig.direct.expunge("INBOX", [2])
    operations = [office.sent(key, parent_id=parent) for key, parent in (("a", gone), ("b", vanished), ("c", "msg_x"))]
    office.work()
    assert [office.left(operation) for operation in operations] == [[], [1], []]


# --- the scheduled message that was not sent ---


def test_a_message_that_was_taken_back_is_a_draft_again_with_its_bcc(office: Office) -> None:
    operation = office.canceled("a")
    promised = office.store.deliveries.get_work(operation).result_id
    assert office.by(SystemClock()).run_now(operation)
    assert office.rig.here("Drafts") == office.rig.at_server("Drafts") == {"a": DRAFT}
    message, _ = office.store.messages.get(office.rig.account_id, office.rig.id("a"))
    assert [address.email for address in message.bcc or ()] == ["eve@example.test"]
    assert message.id != promised
    assert office.store.deliveries.get_work(operation).wire.read() == b""
    assert office.by(SystemClock()).run_now(operation)
    assert office.rig.at_server("Drafts").keys() == {"a"}


def test_it_is_a_draft_of_now_not_of_when_it_was_to_be_sent(office: Office) -> None:
    office.canceled("a")
    office.work(timedelta(days=1))
    (source,) = office.sources()
    (date,) = re.findall(rb"^Date: (.*)\r$", source, re.M)
    age = SystemClock().now() + timedelta(days=1) - parsedate_to_datetime(date.decode())
    assert timedelta() <= age < timedelta(minutes=1)
    assert source.count(b"Bcc: eve@example.test\r\n") == 1


def test_one_that_failed_is_a_draft_again(office: Office) -> None:
    operation = office.operation("a", send_at=SystemClock().now())
    assert office.store.deliveries.fail_queued(operation, "expired")
    office.work()
    assert office.rig.here("Drafts") == office.rig.at_server("Drafts") == {"a": DRAFT}


def test_it_is_kept_once_though_the_server_hangs_up_after_it_took_it(office: Office) -> None:
    rig = office.rig
    operation = office.canceled("a")

    def end(command: str) -> None:
        if command.upper().startswith("APPEND"):
            rig.proxy.is_shut = True

    rig.proxy.on_command = end
    rig.proxy.cut_at("APPEND", moment="after")
    assert not office.by(SystemClock()).run_now(operation)
    assert rig.at_server("Drafts").keys() == {"a"}
    rig.proxy.is_shut, rig.proxy.on_command = False, lambda _: None
    office.work(timedelta(seconds=61))
    assert office.left(operation) == []
    assert rig.at_server("Drafts") == {"a": DRAFT}
    rig.mirror()
    assert rig.agrees("Drafts")


def test_it_is_kept_once_though_we_stop_before_that_is_recorded(office: Office) -> None:
    operation = office.canceled("a")
    trigger = "CREATE TRIGGER full BEFORE DELETE ON delivery_chores BEGIN SELECT RAISE(ABORT, 'full'); END"
    with office.store.database.transaction():
        office.store.database.change(trigger)
    assert not office.by(SystemClock()).run_now(operation)
    with office.store.database.transaction():
        office.store.database.change("DROP TRIGGER full")
    office.work()
    assert (office.left(operation), list(office.rig.at_server("Drafts"))) == ([], ["a"])
    office.rig.direct.examine("Drafts")
    assert len(office.rig.direct.fetch_flags()) == 1


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_draft_that_was_removed_before_the_next_start_does_not_come_back(office: Office) -> None:
    operation, rig = office.canceled("a"), office.rig

    def end(event: FolderWritten) -> None:
        if office.sources():
            raise Killed

    rig.events.subscribe(FolderWritten, end)
    with pytest.raises(Killed):
        office.by(SystemClock()).run_now(operation)
    with suppress(Killed):
        office.drafts.remove(rig.account_id, rig.id("a"), may_delete=True)
    office.work(timedelta(seconds=61))
    assert (office.left(operation), office.sources()) == ([], [])


@pytest.mark.parametrize("is_seen", [True, False])
def test_one_that_was_put_there_unrecorded_is_put_there_again_unless_it_is_known(office: Office, is_seen: bool) -> None:
    operation, database = office.canceled("a"), office.store.database
    with database.transaction():
        database.change("CREATE TRIGGER full BEFORE DELETE ON delivery_chores BEGIN SELECT RAISE(ABORT, 'full'); END")
    assert not office.by(SystemClock()).run_now(operation)
    assert (office.left(operation), office.rig.here("Drafts"), len(office.sources())) == ([0], {}, 1)
    with database.transaction():
        database.change("DROP TRIGGER full")
    office.rig.direct.move("Drafts", [1], "Trash")
    if is_seen:
        office.rig.mirror()
    office.work()
    assert (office.left(operation), len(office.sources())) == ([], 0 if is_seen else 1)


# --- the saved draft that was scheduled and not sent ---


def test_a_saved_draft_that_lies_there_as_it_was_is_left_alone(office: Office) -> None:
    draft, version = office.draft("one")
    operation = office.canceled("a", draft_id=draft, draft_version=version)
    assert office.left(operation) == [0]
    office.work()
    assert (office.left(operation), office.rig.at_server("Drafts")) == ([], {"one": DRAFT})
    assert office.rig.proxy.count("APPEND") == 1
    assert office.store.deliveries.get_work(operation).wire.read() == b""


def _remove(office: Office, draft: str) -> None:
    office.drafts.remove(office.rig.account_id, draft, may_delete=True)


def _trash(office: Office, draft: str) -> None:
    assert office.rig.act("trash", [draft]).succeeded_ids == (draft,)


def _remove_elsewhere(office: Office, draft: str) -> None:
    office.rig.direct.expunge("Drafts", [1])


def _move_elsewhere(office: Office, draft: str) -> None:
    office.rig.direct.move("Drafts", [1], "Archive")


def _mark_elsewhere(office: Office, draft: str) -> None:
    office.rig.direct.store_flags("Drafts", [1], add=frozenset({"\\Deleted"}), remove=frozenset())
    office.rig.direct.examine("Drafts")


@pytest.mark.parametrize("lose", [_remove, _trash, _remove_elsewhere, _move_elsewhere, _mark_elsewhere])
@pytest.mark.parametrize("is_canceled", [True, False])
def test_one_whose_draft_is_gone_is_a_draft_again(
    office: Office, lose: Callable[[Office, str], None], is_canceled: bool
) -> None:
    draft, version = office.draft("one")
    if is_canceled:
        operation = office.canceled("a", draft_id=draft, draft_version=version)
    else:
        operation = office.operation("a", send_at=SystemClock().now(), draft_id=draft, draft_version=version)
        office.store.deliveries.begin_sending(operation)
        office.store.deliveries.set_outcome(operation, "failed", "recipient_rejected")
    lose(office, draft)
    office.work()
    assert office.left(operation) == []
    assert office.rig.at_server("Drafts")["a"] == DRAFT
    assert office.store.deliveries.get_work(operation).wire.read() == b""


def test_what_was_scheduled_is_kept_beside_a_draft_that_was_changed_since(office: Office) -> None:
    draft, version = office.draft("one")
    operation = office.canceled("a", draft_id=draft, draft_version=version)
    new = DraftVersion(Content(letter("two")), "<two@example.test>", WHEN)
    office.drafts.replace(office.rig.account_id, draft, new, may_delete=False)
    office.work()
    assert (office.left(operation), set(office.rig.at_server("Drafts"))) == ([], {"two", "a"})


def test_the_message_is_kept_here_until_its_draft_was_looked_for(office: Office) -> None:
    draft, version = office.draft("one")
    operation = office.canceled("a", draft_id=draft, draft_version=version)
    office.away()
    office.work()
    assert (office.left(operation), bool(office.store.deliveries.get_work(operation).wire)) == ([1], True)
    office.rig.direct.expunge("Drafts", [1])
    office.rig.proxy.heal()
    office.work(timedelta(seconds=61))
    assert office.rig.at_server("Drafts") == {"a": DRAFT}


# --- all at once ---


def test_whoever_asks_at_once_with_the_timer_gets_one_draft(office: Office) -> None:
    operation, aftermath = office.canceled("a"), office.by(SystemClock())
    with ThreadPoolExecutor(4) as pool:
        answers = [each.result() for each in [pool.submit(aftermath.run_now, operation) for _ in range(4)]]
    assert answers == [True] * 4
    assert office.rig.proxy.count("APPEND") == 1


def test_a_message_that_is_to_be_kept_is_never_given_up(office: Office) -> None:
    operation = office.canceled("a")
    office.away()
    for days in range(3):
        office.work(timedelta(days=days))
    assert office.left(operation) == [3]
    office.rig.proxy.heal()
    office.work(timedelta(days=4))
    assert office.rig.at_server("Drafts") == {"a": DRAFT}


def test_where_there_is_no_drafts_folder_one_is_made(bare: Rig) -> None:
    office = Office(bare)
    assert office.by(SystemClock()).run_now(office.canceled("a"))
    assert bare.at_server("INBOX.Drafts") == {"a": DRAFT}


# --- all of them ---


def test_one_that_fails_holds_up_none_of_the_others(office: Office) -> None:
    (parent,) = office.rig.deliver("hello")
    broken, sound = office.canceled("a"), office.sent("b", parent_id=parent)
    with office.store.database.transaction():  # an unexpected error, such as from a damaged disk
        office.store.database.change("UPDATE delivery_operations SET envelope = '{' WHERE id = ?", (broken,))
    office.work()
    assert (office.left(broken), office.left(sound)) == ([1], [])


def test_in_a_removed_mailbox_nothing_is_done(office: Office) -> None:
    operation = office.canceled("a")
    with office.store.database.transaction(durable=True):
        office.store.deliveries.end_mailbox_deliveries(office.rig.account_id)
        office.store.accounts.remove(office.rig.account_id)
    assert office.by(SystemClock()).run_now(operation)
    office.work()


def test_our_own_stop_is_no_failed_try(office: Office) -> None:
    operation = office.canceled("a")
    stopping = threading.Event()
    office.rig.proxy.on_command = lambda _: stopping.set()
    office.rig.proxy.cut_at("UID SEARCH")
    office.by(SystemClock()).work(office.rig.account_id, stopping)
    assert office.rig.proxy.cuts == 1
    assert office.left(operation) == [0]
