"""The HTTP server: all listeners of the door and the workers they share.

Each address has its own loop, so that what one suffers does not reach the other. Waitress internals used (pinned to
3.0.*): ThreadedTaskDispatcher's `start_new_thread`, `set_thread_count` and `shutdown`.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from waitress.task import ThreadedTaskDispatcher

from mailbox_appliance.web.channel import Discreet
from mailbox_appliance.web.listener import DEFAULT_BOUNDS, AddressInUse, Bounds, CannotListen, Server
from mailbox_appliance.web.memory import Memory

__all__ = ["AddressInUse", "Bounds", "CannotListen", "Listeners", "Server", "Workers"]

log = logging.getLogger(__name__)

_ATTEMPTS = 10


class Workers(ThreadedTaskDispatcher):
    """The threads that answer requests, for all listeners."""

    logger = Discreet()

    def __init__(self) -> None:
        super().__init__()
        self._started: list[threading.Thread] = []

    def start_new_thread(self, target: Callable[[int], None], thread_no: int) -> None:
        """Start one worker; Waitress calls this."""
        thread = threading.Thread(target=target, args=(thread_no,), name=f"web-worker-{thread_no}", daemon=True)
        self._started.append(thread)
        thread.start()

    def stop(self, timeout: float) -> bool:
        """Let each finish what it does; returns whether all ended within so many seconds."""
        deadline = time.monotonic() + timeout
        self.shutdown(timeout=timeout)
        return _join(self._started, deadline)


class Listeners:
    """All listeners of the HTTP door and their workers. They are open from the beginning and answer from `start`."""

    def __init__(
        self,
        app: Any,
        addresses: Sequence[tuple[str, int]],
        *,
        workers: int = 8,
        request_timeout: float = 60,
        per_peer: int = 32,
        per_local_peer: int = 256,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Port 0 is a free port, the same for all addresses. Raises CannotListen."""
        self._count, self._workers = workers, Workers()
        self.memory = Memory(bounds.memory)
        self._threads: list[threading.Thread] = []

        def open_one(address: tuple[str, int]) -> Server:
            return Server(
                app,
                address,
                self._workers,
                self.memory,
                request_timeout=request_timeout,
                per_peer=per_peer,
                per_local_peer=per_local_peer,
                bounds=bounds,
            )

        self._servers = _open_all(open_one, addresses)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where they listen, in the order asked for; `::1` is left out on a machine without it."""
        return tuple(server.address for server in self._servers)

    def start(self) -> None:
        """Start the workers and one loop per address."""
        self._workers.set_thread_count(self._count)
        for server in self._servers:
            host, port = server.address
            thread = threading.Thread(target=server.run, name=f"web-{host}-{port}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, timeout: float = 30) -> bool:
        """Stop listening, answer what is in flight, flush, end all threads; False when something had to be cut off."""
        deadline = time.monotonic() + timeout
        if not self._threads:
            return _close_all(self._servers)
        for server in self._servers:
            server.stop_listening()
        answered = [server.finish(deadline) for server in self._servers]
        ended = self._workers.stop(max(0.1, deadline - time.monotonic()))
        flushed = [server.stop(max(0.0, deadline - time.monotonic())) for server in self._servers]
        return _join(self._threads, max(deadline, time.monotonic() + 1)) and ended and all(answered) and all(flushed)


def _open_all(open_one: Callable[[tuple[str, int]], Server], addresses: Sequence[tuple[str, int]]) -> list[Server]:
    for attempt in range(_ATTEMPTS):
        servers: list[Server] = []
        try:
            for address in addresses:
                servers += _open_next(open_one, address, servers)
            return servers
        except CannotListen as error:
            _close_all(servers)
            # Port 0: what the system chose for the first address may be taken on the next; it chooses again.
            chosen = bool(servers) and addresses[0][1] == 0 and attempt < _ATTEMPTS - 1
            if not (chosen and isinstance(error, AddressInUse)):
                raise
    raise AssertionError("the last attempt returns or raises")


def _open_next(
    open_one: Callable[[tuple[str, int]], Server], address: tuple[str, int], before: Sequence[Server]
) -> list[Server]:
    host, port = address
    try:
        return [open_one((host, port or (before[0].address[1] if before else 0)))]
    except AddressInUse:
        raise
    except CannotListen:
        if host != "::1" or not before:
            raise
        log.info("this computer has no IPv6 loopback address")
        return []


def _close_all(servers: Iterable[Server]) -> bool:
    for server in servers:
        server.close()
    return True


def _join(threads: Iterable[threading.Thread], deadline: float) -> bool:
    alive = False
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        alive = alive or thread.is_alive()
    return not alive
