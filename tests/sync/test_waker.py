"""No wake is lost, and nobody is woken for nothing."""

import threading
import time

from mailbox_appliance.sync.waker import Waker


def test_wakes_are_kept_once_each_in_order() -> None:
    waker = Waker()
    for path in ("Sent", None, "Sent", "INBOX"):
        waker.wake(path)
    assert waker.take() == ("Sent", None, "INBOX")
    assert waker.take() == ()
    waker.close()


def test_a_wake_before_the_wait_ends_it_at_once_and_later_ones_end_it_too() -> None:
    waker = Waker()
    began = time.monotonic()
    waker.wake(None)
    waker.wait(30)
    waker.take()
    threading.Timer(0.05, waker.wake, (None,)).start()
    waker.wait(30)
    assert time.monotonic() - began < 10
    waker.take()
    waker.wait(0.05)  # nobody wakes it: only the time ends it
    assert waker.take() == ()
    waker.close()


def test_many_wakes_and_wakes_after_the_end_are_harmless() -> None:
    waker = Waker()
    for _ in range(5_000):
        waker.wake("INBOX")
    assert waker.take() == ("INBOX",)
    waker.close()
    waker.wake("INBOX")
