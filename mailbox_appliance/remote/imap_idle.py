"""Waiting in IDLE (RFC 2177) for one connection; a selector waits for many by the same steps."""

import selectors
import socket
import time

from mailbox_appliance.remote.imap_wire import Wire


def wait(wire: Wire, timeout: float, wake: socket.socket | None) -> bool:
    """True when the server told of a change. Ends after `timeout` seconds or when `wake` is readable."""
    deadline = time.monotonic() + timeout
    changed = wire.begin_idle()
    while not changed and _readable(wire, wake, deadline):
        changed = wire.hear_now()
    return wire.end_idle()


def _readable(wire: Wire, wake: socket.socket | None, deadline: float) -> bool:
    """Whether the server spoke before the deadline; False also when `wake` is readable."""
    if wire.has_pending():
        return True
    left = deadline - time.monotonic()
    if left <= 0:
        return False
    with selectors.DefaultSelector() as selector:
        for one in [wire.channel.sock, *([] if wake is None else [wake])]:
            selector.register(one, selectors.EVENT_READ)
        ready = [key.fileobj for key, _ in selector.select(left)]
    return wire.channel.sock in ready and wake not in ready
