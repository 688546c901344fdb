"""The HTTP server: all listeners of the door and the workers they share.

Each address has its own loop, so that what one suffers does not reach the other. Waitress internals used (pinned to
3.0.*): ThreadedTaskDispatcher's `start_new_thread`, `set_thread_count`, `shutdown`, `queue` and `active_count`.
"""

import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from waitress.task import ThreadedTaskDispatcher

from mailbox_appliance.errors import Problem
from mailbox_appliance.web.bounds import DEFAULT_BOUNDS, Bounds
from mailbox_appliance.web.channel import Discreet
from mailbox_appliance.web.crowd import Places
from mailbox_appliance.web.group import Group, join
from mailbox_appliance.web.listener import Server
from mailbox_appliance.web.memory import Memory
from mailbox_appliance.web.ports import AddressInUse, CannotListen, open_all
from mailbox_appliance.web.task_queue import TaskQueue

__all__ = ["AddressInUse", "Bounds", "CannotListen", "Figures", "Group", "Listeners", "Server", "Workers"]


class Workers(ThreadedTaskDispatcher):
    """The threads that answer requests, for all listeners."""

    logger = Discreet()

    def __init__(self, most_slow: int) -> None:
        """`most_slow`: how many of them may read bodies of mail at once."""
        super().__init__()
        self.queue = TaskQueue(most_slow, self.queue_cv)
        self._started: list[threading.Thread] = []

    def start_new_thread(self, target: Callable[[int], None], thread_no: int) -> None:
        """Start one worker; Waitress calls this."""
        thread = threading.Thread(target=target, args=(thread_no,), name=f"web-worker-{thread_no}", daemon=True)
        self._started.append(thread)
        thread.start()

    def stop(self, timeout: float) -> bool:
        """Let each finish what it does; returns whether all ended within so many seconds."""
        deadline = time.monotonic() + timeout
        self.queue.lift_limit()
        self.shutdown(timeout=timeout)
        return join(self._started, deadline)


@dataclass(frozen=True)
class Figures:
    """What goes on: connections that stand now, handshakes that failed since the beginning, requests, workers."""

    connections_http: int
    connections_https: int
    handshakes_failed: int
    waiting_requests: int  # complete, and no worker has them yet
    busy_workers: int


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
        trusted: Callable[[str], bool] | None = None,
        bounds: Bounds = DEFAULT_BOUNDS,
        context: ssl.SSLContext | None = None,
        spool_folder: Path | None = None,
    ) -> None:
        """Open the first group, which may have no address. `trusted` tells of a proxy that speaks for many.

        `spool_folder`: where large bodies lie while they are needed; None for the place for temporary files.

        Raises CannotListen.
        """
        self._count, self._workers = workers, Workers(max(1, workers // 2))
        self.memory = Memory(bounds.memory, spool_folder)
        places = Places(per_peer, per_local_peer, trusted)
        self._open_one = partial(
            Server,
            app,
            dispatcher=self._workers,
            memory=self.memory,
            request_timeout=request_timeout,
            places=places,
            bounds=bounds,
        )
        self._lock = threading.Lock()
        self._is_started = self._is_stopped = False
        # The groups that are there, and the failed handshakes of those that are over, for who looks at one moment.
        self._groups_and_failures: tuple[tuple[Group, ...], int] = (), 0
        self._first_group = self.open(addresses, context)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where the first group listens, in the order asked for; `::1` is left out on a machine without it."""
        return self._first_group.addresses

    @property
    def servers(self) -> tuple[Server, ...]:
        """Every listener that is there, also those that only answer what is left."""
        return tuple(server for group in self._groups for server in group.servers)

    @property
    def _groups(self) -> tuple[Group, ...]:
        return self._groups_and_failures[0]

    def open(self, addresses: Sequence[tuple[str, int]], context: ssl.SSLContext | None) -> Group:
        """Listen at these addresses, too: over TLS with a context. Port 0 is a free port, the same for all of them.

        May be called before and after `start`. Raises CannotListen.
        """
        with self._lock:
            if self._is_stopped:
                raise CannotListen(reason="The service is about to end. Start it again first.")
            group = Group(open_all(partial(self._open_one, context=context), addresses))
            known, failed_before = self._groups_and_failures
            over = [one for one in known if one.has_ended]
            self._groups_and_failures = (
                (*(one for one in known if one not in over), group),
                failed_before + _failed(over),
            )
            if self._is_started:
                group.start()
        return group

    def start(self) -> None:
        """Start the workers and one loop per address."""
        with self._lock:
            self._is_started = True
            self._workers.set_thread_count(self._count)
            for group in self._groups:
                group.start()

    def stats(self) -> Figures:
        """What goes on now. Takes no lock that serving waits for."""
        groups, failed_before = self._groups_and_failures
        servers = [server for group in groups for server in group.servers]
        return Figures(
            connections_http=sum(len(server.active_channels) for server in servers if not server.is_secure),
            connections_https=sum(len(server.active_channels) for server in servers if server.is_secure),
            handshakes_failed=failed_before + _failed(groups),
            waiting_requests=len(self._workers.queue),
            busy_workers=self._workers.active_count,
        )

    def is_busy(self) -> bool:
        """Whether any request is being received or answered, or may be on its way from who has only just come."""
        channels = (channel for server in self.servers for channel in list(server.active_channels.values()))
        return any(channel.is_sending() or channel.owes() for channel in channels)

    def stop_listening(self) -> None:
        """Take no new connection and close idle ones; requests that are being received go on."""
        with self._lock:
            self._is_stopped = True
        if self._is_started:
            for server in self.servers:
                server.stop_listening()

    def refuse_unfinished(self, problem: Problem) -> None:
        """Answer 503 with this problem to requests that are still being received."""
        if self._is_started:
            for server in self.servers:
                server.refuse_unfinished(problem)

    def stop(self, timeout: float = 30) -> bool:
        """Stop listening, answer what is in flight, flush, end all threads; False when something had to be cut off.

        What is still being received is given up.
        """
        deadline = time.monotonic() + timeout
        self.stop_listening()
        if not self._is_started:
            for group in self._groups:
                group.close()
            return True
        answered = [server.finish(deadline) for server in self.servers]
        ended = self._workers.stop(max(0.1, deadline - time.monotonic()))
        flushed = [server.stop(max(0.0, deadline - time.monotonic())) for server in self.servers]
        last = max(deadline, time.monotonic() + 1)
        joined = [group.join(last) for group in self._groups]
        return ended and all(answered) and all(flushed) and all(joined)


def _failed(groups: Sequence[Group]) -> int:
    return sum(server.handshakes_failed for group in groups for server in group.servers)
