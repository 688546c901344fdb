"""Calls of other servers can be given up, whatever they wait for."""

import threading

import pytest

from mailbox_appliance.logs import request_id
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.net.calls import RemoteCalls
from tests.servers.mailboxes import wait_until


def test_the_outcome_is_that_of_the_call() -> None:
    calls = RemoteCalls()
    assert calls.start("imap", lambda: 3).result(5) == 3
    with pytest.raises(ZeroDivisionError):
        calls.start("imap", lambda: 1 // 0).result(5)


def test_all_are_given_up_at_once_and_what_comes_too_late_is_discarded() -> None:
    calls, ending, discarded = RemoteCalls(), threading.Event(), list[str]()

    def slow() -> str:
        ending.wait(10)
        return "too late"

    waiting = [calls.start("imap", slow, discarded.append), calls.start("smtp", slow, discarded.append)]
    calls.abandon_all()
    for call in waiting:
        with pytest.raises(RemoteFault, match="disconnected"):
            call.result(5)
    with pytest.raises(RemoteFault) as caught:
        calls.start("license", slow)
    assert "being stopped" in caught.value.reason
    ending.set()
    wait_until(lambda: len(discarded) == 2, lambda: str(discarded), 5)


def test_what_a_call_logs_is_part_of_its_request() -> None:
    token = request_id.set("req_1")
    try:
        call = RemoteCalls().start("imap", request_id.get)
    finally:
        request_id.reset(token)
    assert call.result(5) == "req_1"


def test_a_call_that_finds_no_thread_is_not_waited_for() -> None:
    calls, before = RemoteCalls(), threading.stack_size(1 << 46)  # more than there is
    try:
        with pytest.raises(RuntimeError, match="thread"):
            calls.start("imap", lambda: 3)
    finally:
        threading.stack_size(before)
    assert calls._waiting == {}
    assert calls.start("imap", lambda: 3).result(5) == 3
