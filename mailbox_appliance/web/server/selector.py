"""The sockets that an event loop waits for, and the limit of connections for each client address.

In every pass of its loop, Waitress asks every connection whether it wants to read or write, and registers it with the
operating system again. With hundreds of idle connections, that delays every other request two or three times. Here a
registration stays, and a connection is asked again only in these cases:

- after an event on it
- in each pass while a worker answers its request
- with all others, when deadlines are checked (`SocketSelector.poll_all`)

This replaces the socket map and `wasyncore.loop` of Waitress (pinned to 3.0.*), and uses `wasyncore.read` and `write`.
"""

import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from waitress import wasyncore

from mailbox_appliance.web.server.connection import HttpConnection

# --- The sockets of one loop ---


class SocketSelector(dict[int, Any]):
    """The sockets of one listener by file descriptor: the listening socket, its connections, and the pipe that wakes
    its loop.

    Only the loop's thread may use it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.poll_all = True  # whether all are asked in the next turn
        self._selector = selectors.DefaultSelector()
        self._registered: dict[int, int] = {}  # the events for which each is registered
        self._to_update: set[int] = set()

    def __setitem__(self, descriptor: int, one: Any) -> None:
        super().__setitem__(descriptor, one)
        self._to_update.add(descriptor)

    def __delitem__(self, descriptor: int) -> None:
        super().__delitem__(descriptor)
        if self._registered.pop(descriptor, 0):
            self._selector.unregister(descriptor)

    def ask(self, descriptor: int | None) -> None:
        """Ask this connection in the next turn whether it wants to read or write."""
        if descriptor is not None:
            self._to_update.add(descriptor)

    def poll(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for events, then call the read and write handlers of the sockets that are
        ready.
        """
        asked, self._to_update = (list(self) if self.poll_all else self._to_update), set()
        self.poll_all = False
        for descriptor in asked:
            self._update(descriptor)
        for key, events in self._selector.select(timeout):
            self._to_update.add(key.fd)
            # An earlier event of this turn may have closed this connection, and another may have its descriptor.
            if events & selectors.EVENT_READ and self.get(key.fd) is key.data:
                wasyncore.read(key.data)
            if events & selectors.EVENT_WRITE and self.get(key.fd) is key.data:
                wasyncore.write(key.data)

    def _update(self, descriptor: int) -> None:
        if (one := self.get(descriptor)) is None:
            return
        try:
            self._update_interest(descriptor, one)
        except Exception:  # noqa: BLE001 - it is reported there, and the others are asked all the same
            one.handle_error()

    def _update_interest(self, descriptor: int, one: Any) -> None:
        # First, since a worker that finishes right after this wakes the loop, so the next turn sees it.
        if getattr(one, "is_with_worker", False):
            self._to_update.add(descriptor)
        wanted = selectors.EVENT_READ if one.readable() else 0
        wanted |= selectors.EVENT_WRITE if one.writable() else 0
        self._register(descriptor, wanted, one)

    def _register(self, descriptor: int, wanted: int, one: Any) -> None:
        told = self._registered.get(descriptor, 0)
        if wanted == told:
            return
        if not wanted:
            self._selector.unregister(descriptor)
        elif told:
            self._selector.modify(descriptor, wanted, one)
        else:
            self._selector.register(descriptor, wanted, one)
        self._registered[descriptor] = wanted

    def close(self) -> None:
        """Stop watching all sockets; they stay open."""
        self._registered.clear()
        self._selector.close()


# --- Peers: how connections are counted, and which one a new one replaces ---


@dataclass(frozen=True)
class PeerLimits:
    """The maximum number of connections for one client address.

    - per_peer: The limit for a remote address.
    - per_local_peer: The limit for a loopback address or a trusted proxy, which many clients share.
    - trusted: Returns whether an address is a trusted proxy; None if no proxy is trusted.
    """

    per_peer: int = 32
    per_local_peer: int = 256
    trusted: Callable[[str], bool] | None = None

    def is_shared_peer(self, host: str) -> bool:
        """Whether this IP address is local or a trusted proxy, so that many clients may share it."""
        address = host.partition("%")[0]
        return ip_address(address).is_loopback or (self.trusted is not None and self.trusted(address))


def peer_of(host: str) -> str:
    """Return the key by which connections of one client are counted: its IPv4 address, or the /64 network of its IPv6
    address.
    """
    address = ip_address(host.partition("%")[0])
    return address.packed[:8].hex() if isinstance(address, IPv6Address) else host


def drop_longest_waiting(channels: Sequence[HttpConnection], patience: float) -> bool:
    """Close one of these connections: the one whose client has kept the server waiting longest.

    Returns False, and closes none, if the server has waited for none of them longer than `patience` seconds.
    """
    now = time.monotonic()
    longest = max(channels, key=lambda channel: channel.waiting(now), default=None)
    if longest is None or longest.waiting(now) <= patience:
        return False
    longest.handle_close()
    return True
