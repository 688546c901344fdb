"""Listeners that are opened and closed together: one port, and all of them HTTP, or HTTPS with one certificate."""

import ssl
import threading
import time
from collections.abc import Iterable, Sequence

from mailbox_appliance.web.listener import Server
from mailbox_appliance.web.ports import close_all


class Group:
    """Some listeners, each with a loop of its own from `start` on. Any thread may close it, also one that answers."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = tuple(servers)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where they listen, in the order asked for; `::` and `::1` are left out on a machine without IPv6."""
        return tuple(server.address for server in self.servers)

    @property
    def has_ended(self) -> bool:
        """Whether it was closed, and the last answer is on its way."""
        return self._is_closed and not any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Begin to answer, unless it is closed."""
        with self._lock:
            if self._is_closed or self._threads:
                return
            for server in self.servers:
                host, port = server.address
                thread = threading.Thread(target=server.run, name=f"web-{host}-{port}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def use_certificate(self, context: ssl.SSLContext) -> None:
        """Have new connections use this certificate; those that stand go on with theirs."""
        for server in self.servers:
            server.context = context

    def close(self, timeout: float = 30) -> None:
        """Stop listening: the ports are free when this returns.

        Requests that were begun are answered by the group's own loops, which then end; after so many seconds what is
        left is cut off.
        """
        with self._lock:
            self._is_closed = True
            if not self._threads:
                close_all(self.servers)
                return
        for server in self.servers:
            server.retire(timeout)

    def join(self, deadline: float) -> bool:
        """Wait for its loops, which are told to end; returns whether they did."""
        return join(self._threads, deadline)


def join(threads: Iterable[threading.Thread], deadline: float) -> bool:
    """Wait for threads until that time of the monotonic clock; returns whether all have ended."""
    alive = False
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        alive = alive or thread.is_alive()
    return not alive
