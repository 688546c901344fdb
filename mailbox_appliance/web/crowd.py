"""Who gets a connection when there are many: what peers are counted by, and who makes room."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from mailbox_appliance.web.channel import Channel

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Places:
    """How many connections one peer may have, and one that is local or a trusted proxy, which speaks for many."""

    per_peer: int = 32
    per_local_peer: int = 256
    trusted: Callable[[str], bool] | None = None

    def is_shared_peer(self, host: str) -> bool:
        """Whether this peer is local, or a trusted proxy."""
        address = host.partition("%")[0]
        return ip_address(address).is_loopback or (self.trusted is not None and self.trusted(address))


def peer_of(host: str) -> str:
    """What connections are counted by: the IPv4 address, the /64 of an IPv6 one."""
    address = ip_address(host.partition("%")[0])
    return address.packed[:8].hex() if isinstance(address, IPv6Address) else host


def drop_longest_waiting(channels: Sequence[Channel], patience: float) -> bool:
    """Close the connection that has kept us waiting longest; False when none has for longer than `patience` seconds."""
    now = time.monotonic()
    longest = max(channels, key=lambda channel: channel.waiting(now), default=None)
    if longest is None or longest.waiting(now) <= patience:
        return False
    longest.handle_close()
    return True


class Shortage:
    """Connections for which the system had no file: there may be thousands of them a second, and few records of it."""

    def __init__(self, again: float = 10.0) -> None:
        """`again`: seconds between two records."""
        self._interval = again
        self._times, self._errno, self._reported_at = 0, 0, -math.inf

    def record(self, errno: int) -> None:
        """One more."""
        self._times, self._errno = self._times + 1, errno
        self.report()

    def report(self) -> None:
        """Log how many there were since the last record, unless that was only just now."""
        now = time.monotonic()
        if self._times and now - self._reported_at >= self._interval:
            log.error("no files left for new connections", extra={"errno": self._errno, "times": self._times})
            self._times, self._reported_at = 0, now
