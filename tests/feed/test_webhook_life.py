"""The life of webhooks, in process and with a clock that a test moves: back-off and disabling, changes while an event
is sent, rotation, trims, members who are suspended, and stopping.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_timestamp, to_millis
from mailbox_appliance.model.changes import EventType
from mailbox_appliance.model.webhooks import WebhookAttempt
from mailbox_appliance.store.webhooks import KEPT_ATTEMPTS, NewWebhook, StoredWebhook
from tests.feed.targets import REFUSING, Target, answers, hangs_after
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until

OLD, NEW = "whsec_" + "QUFB" * 8, "whsec_" + "QkJC" * 8
GOOD = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@dataclass
class Rig:
    """An appliance that only sends webhooks, and its administrator."""

    folder: Path
    clock: FakeClock

    def __post_init__(self) -> None:
        self.open()
        self.owner = self.store.members.add(name="Ada", email="a@example.org", role="admin", password_hash=None).id
        self.store.members.add(name="Bob", email="b@example.org", role="admin", password_hash="x")

    def open(self) -> None:
        """Open the store, and begin to send."""
        given = settings.load(environment={"MAILBOX_APPLIANCE_WEBHOOKS_ALLOW_PRIVATE": "yes"})
        self.appliance = Appliance(self.folder, given, self.clock)
        self.store = self.appliance.store
        self.appliance.webhook_sender.start()

    def add(self, target: Target, *types: EventType) -> str:
        """Add a webhook that sends failed backups, or these types."""
        new = NewWebhook(target.url, types or ("backup.failed",), None, include_body=False)
        webhook_id = self.store.webhooks.add(self.owner, new, OLD, self.store.changes.end())
        self.appliance.webhook_sender.wake()
        return webhook_id

    def happen(self, *reasons: str) -> None:
        """Let backups fail."""
        with self.store.database.transaction():
            for reason in reasons or ("disk",):
                self.store.changes.record("backup.failed", reason)

    def get(self, webhook_id: str) -> StoredWebhook:
        """The webhook as it is stored."""
        return self.store.webhooks.get(webhook_id)

    def attempts(self, webhook_id: str) -> tuple[WebhookAttempt, ...]:
        """The last attempts, newest first."""
        return self.store.webhooks.list_attempts(webhook_id, before=None, limit=100)[0]

    def until(self, holds: Callable[[], bool], what: str = "it does not happen", seconds: float = 10) -> None:
        """Wait until something holds."""
        wait_until(holds, lambda: what, seconds)

    def change(self, webhook_id: str, url: str, status: str = "active") -> None:
        """Change a webhook as the API does."""
        new = NewWebhook(url, ("backup.failed",), None, include_body=False)
        self.store.webhooks.change(webhook_id, new, status)  # type: ignore[arg-type]
        self.appliance.webhook_sender.begin_anew(webhook_id)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "data", FakeClock(datetime.now(UTC)))
    yield made
    made.appliance.stop()


def test_waits_grow_from_5_seconds_to_12_hours_and_end_after_3_days(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    waits = []
    with Target("fails", REFUSING["fails"]) as target:
        webhook = rig.add(target)
        began = rig.clock.now()
        rig.happen()
        for count in range(1, 30):
            rig.until(lambda count=count: rig.get(webhook).failures == count, f"attempt {count} is not made")  # type: ignore[misc]
            next_at = rig.store.database.value("SELECT next_at FROM webhooks WHERE id = ?", (webhook,))
            if rig.get(webhook).shown.status == "disabled":
                break
            waits.append(round((next_at - to_millis(rig.clock.now())) / 1000))
            rig.clock.advance((next_at - to_millis(rig.clock.now())) / 1000)
            rig.appliance.webhook_sender.wake()
        passed = rig.clock.now() - began
        assert len({got.headers["webhook-id"] for got in target.got}) == 1
        assert len(target.got) == count
    assert waits[:6] == [5, 10, 20, 40, 80, 160]
    assert max(waits) == 12 * 3600
    assert timedelta(days=3) <= passed < timedelta(days=3, seconds=1)
    shown = rig.get(webhook).shown
    assert shown.last_failure is not None
    assert (shown.last_failure.status, shown.last_failure.reason) == (500, "The answer had the status 500.")
    sql = "SELECT count(*) FROM audit_events WHERE action = 'webhook.disable'"
    assert rig.store.database.value(sql) == 1
    said = caplog.text + repr(rig.store.database.rows("SELECT * FROM audit_events"))
    assert OLD not in said
    assert OLD[6:] not in said


def test_a_clock_that_is_set_back_does_not_silence_it(rig: Rig) -> None:
    with Target("fails", REFUSING["fails"]) as target:
        webhook = rig.add(target)
        rig.happen()
        rig.until(lambda: rig.get(webhook).failures == 1)
        target.calm()
        rig.clock.set_wall(rig.clock.now() - timedelta(days=365))
        rig.appliance.webhook_sender.wake()
        rig.until(lambda: len(target.got) == 2)


def test_what_targets_say_is_not_quoted(rig: Rig) -> None:
    with ExitStack() as stack:
        names = [one for one in REFUSING if "hangs" not in one and one != "drips"]
        targets = [stack.enter_context(Target(name, REFUSING[name])) for name in names]
        hooks = [rig.add(target) for target in targets]
        rig.happen()
        rig.until(lambda: all(rig.get(hook).failures for hook in hooks))
        for hook in hooks:
            shown = rig.get(hook).shown.last_failure
            assert shown is not None
            assert "XYZZY" not in shown.reason
            assert [one.error for one in rig.attempts(hook)] == [shown.reason]


def test_a_change_ends_what_is_sent_to_the_old_address(rig: Rig) -> None:
    with Target("hangs", hangs_after()) as old, Target() as new:
        webhook = rig.add(old)
        rig.happen()
        rig.until(lambda: old.connected == 1)
        rig.change(webhook, new.url)
        rig.until(lambda: len(new.got) == 1, seconds=1)
        rig.until(lambda: old.connected == 0, seconds=1)
        rig.until(lambda: rig.get(webhook).shown.last_success_at is not None)
        found = rig.get(webhook)
        assert (found.failures, found.shown.last_failure) == (0, None)


def test_disabled_and_deleted_while_an_event_is_sent(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    with Target("hangs", hangs_after()) as target:
        hooks = [rig.add(target), rig.add(target)]
        rig.happen()
        rig.until(lambda: target.connected == 2)
        rig.change(hooks[0], target.url, "disabled")
        rig.store.webhooks.delete(hooks[1])
        rig.appliance.webhook_sender.begin_anew(hooks[1])
        rig.until(lambda: target.connected == 0, seconds=1)
        rig.happen()
        time.sleep(0.3)
        assert len(target.got) == 2
        assert rig.get(hooks[0]).failures == 0
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_the_previous_secret_signs_for_a_day(rig: Rig) -> None:
    with Target() as target:
        webhook = rig.add(target)
        rig.store.webhooks.rotate(webhook, NEW, rig.clock.now() + timedelta(hours=24))
        for seconds, signed in ((0, [True, True]), (24 * 3600 - 60, [True, True]), (61, [True, False])):
            rig.clock.advance(seconds)
            rig.happen()
            rig.until(lambda: not rig.store.webhooks.list_due(rig.store.changes.end()))
            assert [target.got[-1].is_signed(secret) for secret in (NEW, OLD)] == signed
        assert len(target.got) == 3


def test_events_that_were_trimmed_are_one_failure(rig: Rig) -> None:
    with Target() as target:
        webhook = rig.add(target)
        rig.change(webhook, target.url, "disabled")
        rig.happen("one", "two", "three")
        while rig.store.changes.delete_some(1 << 60, 0):
            pass
        rig.change(webhook, target.url)
        rig.happen("four", "five")
        rig.until(lambda: len(target.got) == 2)
        rig.until(lambda: rig.get(webhook).position == rig.store.changes.end())
        assert [got.verified["data"]["data"]["reason"] for got in target.got] == ["four", "five"]
        shown = rig.get(webhook).shown
        assert shown.last_failure is not None
        assert "deleted before they could be sent" in shown.last_failure.reason
        assert [one.error for one in rig.attempts(webhook)] == [None, None]


def test_a_trim_of_what_it_does_not_see_is_no_failure(rig: Rig) -> None:
    with Target() as target:
        webhook = rig.add(target, "account.updated")
        rig.happen("one", "two")
        rig.until(lambda: rig.appliance.webhook_sender._seen.get(webhook, (0, 0, 0))[2] == rig.store.changes.end())
        while rig.store.changes.delete_some(1 << 60, 0):
            pass
        rig.happen("three")
        rig.until(lambda: rig.get(webhook).position >= rig.store.changes.floor())
        assert rig.get(webhook).shown.last_failure is None


def test_a_suspended_member_gets_nothing_and_costs_nothing(rig: Rig) -> None:
    with Target() as target:
        rig.add(target)
        status = "UPDATE members SET status = ? WHERE id = ?"
        with rig.store.database.transaction():
            rig.store.database.change(status, ("suspended", rig.owner))
        rig.happen()
        time.sleep(0.2)
        began = time.process_time()
        time.sleep(1)
        assert time.process_time() - began < 0.3
        assert target.got == []
        with rig.store.database.transaction():
            rig.store.database.change(status, ("active", rig.owner))
        rig.until(lambda: len(target.got) == 1)


def test_stopping_does_not_wait_for_a_target_that_hangs(rig: Rig) -> None:
    with Target("hangs", hangs_after()) as target:
        webhook = rig.add(target)
        rig.happen()
        rig.until(lambda: target.connected == 1)
        began = time.monotonic()
        rig.appliance.stop()
        assert time.monotonic() - began < 3
        target.calm()
        rig.open()
        rig.until(lambda: len(target.got) == 2)
        assert target.got[0].headers["webhook-id"] == target.got[1].headers["webhook-id"]
        rig.until(lambda: rig.get(webhook).shown.last_success_at is not None)
        assert rig.get(webhook).shown.last_failure is None


def test_the_last_thousand_attempts_are_kept(rig: Rig) -> None:
    with Target() as target:
        webhook = rig.add(target)
        at = rig.get(webhook).shown.created_at
        with rig.store.database.transaction():
            for number in range(KEPT_ATTEMPTS + 5):
                attempt = WebhookAttempt(
                    id=f"wat_{number}", event_id="evt_1", at=at, status=200, duration_ms=1, error=None
                )
                rig.store.webhooks.note(webhook, attempt)
        count = "SELECT count(*), max(number) - min(number) FROM webhook_attempts"
        assert tuple(rig.store.database.row(count) or ()) == (KEPT_ATTEMPTS, KEPT_ATTEMPTS - 1)


def test_text_is_never_sent_without_tls(rig: Rig) -> None:
    with Target() as target:
        webhook = rig.add(target)
        new = NewWebhook(target.url, ("backup.failed",), None, include_body=True)
        rig.store.webhooks.change(webhook, new, "active")
        rig.happen()
        rig.until(lambda: rig.get(webhook).failures == 1)
        assert target.got == []


def test_without_the_setting_nothing_is_sent_without_tls(rig: Rig) -> None:
    with Target() as target:
        webhook = rig.add(target)
        rig.appliance.webhook_sender._settings = settings.load(environment={})
        rig.happen()
        rig.until(lambda: rig.get(webhook).failures == 1)
        assert target.got == []


def test_twenty_that_hang_hold_up_nobody(rig: Rig) -> None:
    with ExitStack() as stack:
        hanging = [stack.enter_context(Target("hangs", hangs_after())) for _ in range(20)]
        healthy = [stack.enter_context(Target()) for _ in range(3)]
        for target in (*hanging, *healthy):
            rig.add(target)
        began, most = time.monotonic(), 0
        while time.monotonic() - began < 6:
            rig.happen(str(time.monotonic() - began))
            time.sleep(0.1)
            most = max(most, sum(target.connected for target in hanging))
        assert most <= 8
        count = rig.store.changes.end()
        rig.until(lambda: all(len(target.got) >= count for target in healthy), seconds=2)
        delays = sorted(
            got.at - from_timestamp(got.verified["data"]["at"]).timestamp() for one in healthy for got in one.got
        )
        # The first events take a second or two, while every target is unknown.
        assert delays[len(delays) // 2] < 0.2
        assert delays[-1] < 4


def test_time_in_which_nothing_was_tried_disables_nothing(rig: Rig) -> None:
    with Target("fails", REFUSING["fails"]) as target:
        hook = rig.add(target)
        rig.happen()
        rig.until(lambda: rig.get(hook).failures == 1)
        rig.appliance.stop()
        rig.clock.advance(4 * 86_400)
        rig.open()
        rig.until(lambda: rig.get(hook).failures == 2)
        assert rig.get(hook).shown.status == "active"


def test_what_was_deleted_while_its_event_was_read_sends_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with Target("good", GOOD) as target:
        hook, other = rig.add(target), rig.add(target)
        sender = rig.appliance.webhook_sender
        find_next, is_read, goes_on = sender._find_next, threading.Event(), threading.Event()

        def slow(webhook: StoredWebhook) -> object:
            found = find_next(webhook)
            if found is not None and webhook.shown.id == hook:
                is_read.set()
                goes_on.wait(10)
            return found

        monkeypatch.setattr(sender, "_find_next", slow)
        rig.happen()
        assert is_read.wait(10)
        with rig.store.database.transaction(durable=True):
            rig.store.webhooks.delete(hook)
        sender.begin_anew(hook)
        goes_on.set()
        rig.until(lambda: len(target.got) == 1)
        rig.happen()
        rig.until(lambda: len(rig.attempts(other)) == 2)
        assert len(target.got) == 2


def test_a_change_of_a_disabled_webhook_leaves_its_warning(rig: Rig) -> None:
    with Target("gone", answers(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")) as target:
        hook = rig.add(target)
        rig.happen()
        rig.until(lambda: rig.get(hook).shown.status == "disabled")
        rig.change(hook, target.url, "disabled")
        assert rig.get(hook).failures > 0
        rig.change(hook, target.url, "active")
        assert rig.get(hook).failures == 0
