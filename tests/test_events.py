"""Listeners receive what they subscribed to, in order, and cannot affect each other. Every event counts."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from mailbox_appliance.events import (
    AccountAdded,
    AccountRemoved,
    BackupFailed,
    BackupFinished,
    DeliverySettled,
    Event,
    Events,
    MessageArrived,
    SignInRejected,
)


def test_listeners_hear_their_kind_in_the_order_of_subscribing() -> None:
    events, heard = Events(), []
    events.subscribe(AccountAdded, lambda event: heard.append(("first", event.account_id)))
    events.subscribe(AccountRemoved, lambda event: heard.append(("removed", event.account_id)))
    events.subscribe(AccountAdded, lambda event: heard.append(("second", event.account_id)))
    events.publish(AccountAdded("acc_1"))
    events.publish(MessageArrived("acc_1", "msg_1"))
    events.publish(AccountAdded("acc_2"))
    assert heard == [("first", "acc_1"), ("second", "acc_1"), ("first", "acc_2"), ("second", "acc_2")]


def test_a_kind_is_exactly_that_kind() -> None:
    events, heard = Events(), list[Event]()
    events.subscribe(Event, heard.append)
    events.publish(AccountAdded("acc_1"))
    assert heard == []


def test_a_failing_listener_is_logged_and_keeps_nobody_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    events, heard = Events(), list[Event]()

    def fail(event: AccountAdded) -> None:
        raise RuntimeError(f"cannot add {event.account_id}")

    events.subscribe(AccountAdded, fail)
    events.subscribe(AccountAdded, heard.append)
    with caplog.at_level(logging.ERROR):
        events.publish(AccountAdded("acc_1"))
    assert heard == [AccountAdded("acc_1")]
    assert [(record.levelname, vars(record)["kind"]) for record in caplog.records] == [("ERROR", "AccountAdded")]


def test_a_listener_may_subscribe_and_publish() -> None:
    events, heard = Events(), list[str]()

    def on_added(event: AccountAdded) -> None:
        events.subscribe(AccountRemoved, lambda removed: heard.append(f"removed {removed.account_id}"))
        events.publish(AccountRemoved(event.account_id))

    events.subscribe(AccountAdded, on_added)
    events.publish(AccountAdded("acc_1"))
    assert heard == ["removed acc_1"]


def test_events_count_by_class_and_label_and_none_is_lost_where_many_publish_at_once() -> None:
    events = Events()

    def publish(_: int) -> None:
        for _ in range(2000):
            events.publish(SignInRejected("wrong"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(publish, range(8)))
    for status in ("failed", "failed", "withdrawn"):
        events.publish(DeliverySettled("op_1", "acc_1", status))
    events.publish(BackupFailed("The disk is full: /home/ada."))
    assert events.count(SignInRejected, "wrong") == 16_000
    assert events.count(SignInRejected, "busy") == 0
    assert [events.count(DeliverySettled, status) for status in ("failed", "withdrawn", "sending")] == [2, 1, 0]
    assert [events.count(BackupFailed), events.count(BackupFinished)] == [1, 0]
