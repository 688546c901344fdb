"""The HTTP server: listeners with an event loop each, groups of listeners, and the workers that they share.

A listener is an open port at one address. Each has its own loop, so that a problem at one does not affect the others.
"""

import errno
import logging
import os
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from waitress import wasyncore
from waitress.server import TcpWSGIServer

from mailbox_appliance.errors import Problem, ReadersBusy
from mailbox_appliance.remote.net.connect import OWN_PORTS
from mailbox_appliance.settings import host_for_url
from mailbox_appliance.web.server.connection import HttpConnection, QuietLogger, TlsConnection
from mailbox_appliance.web.server.framing import RequestAborted
from mailbox_appliance.web.server.memory import DEFAULT_BOUNDS, MemoryBudget, ServerBounds, waitress_adjustments
from mailbox_appliance.web.server.selector import PeerLimits, SocketSelector, drop_longest_waiting, peer_of
from mailbox_appliance.web.server.workers import WorkerPool, join_threads

# --- Opening addresses at one port, and the errors if that is not possible ---


log = logging.getLogger(__name__)

_ATTEMPTS = 10
#: The errors of a machine without IPv6; every IPv6 address follows its IPv4 counterpart.
_NEEDS_IPV6 = ("::1", "::")
_LOCALHOST, _LOOPBACK = "localhost", ("127.0.0.1", "::1")


class CannotListen(Problem):
    """{reason}"""  # the address, the cause and the next step

    code = "cannot_listen"


class AddressInUse(CannotListen):
    """{where} is already in use. Stop the program that uses it, or set another port with {port}."""


def to_listen_error(address: tuple[str, int], error: OSError | ValueError, *, is_secure: bool) -> CannotListen:
    """Return the error to raise for an address that cannot be opened; its text names the next step.

    `is_secure`: the listener is for HTTPS.
    """
    where = _format_address(address)
    port, host = (_port_options(name, is_secure=is_secure) for name in ("port", "host"))
    number = error.errno if isinstance(error, OSError) else errno.EINVAL
    if number == errno.EADDRINUSE:
        return AddressInUse(where=where, port=port)
    if number in (errno.EACCES, errno.EPERM):
        # Windows reports a port that another program uses exclusively with this error too.
        often = (
            "Another program uses the port, or Windows reserves it"
            if os.name == "nt"
            else "Ports below 1024 are often reserved"
        )
        advice = f"{often}; set another port with {port}."
        return CannotListen(reason=f"The operating system does not allow listening on {where}. {advice}")
    advice = f"Set an address of this computer with {host}."
    return CannotListen(reason=f"Cannot listen on {where}. {advice}")


def _port_options(name: str, *, is_secure: bool) -> str:
    """Return the settings and options that set another port or host, for the text of an error."""
    if is_secure:
        return f"`https enable --{name}`, `serve --https-{name}` or the setting server.https_{name}"
    return f"--{name} or the setting server.{name}"


def _format_address(address: tuple[str, int]) -> str:
    host, port = address
    return f"{host_for_url(host)}:{port}"


def socket_address(host: str, port: int) -> tuple[Any, ...]:
    """Return family, type, protocol and address of a socket for an IP address, as `socket.getaddrinfo` does.

    Host names are not looked up, since that could block. Raises ValueError if `host` is not an IP address, and OSError.
    """
    ip_address(host)
    numeric = socket.AI_NUMERICHOST | socket.AI_PASSIVE
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=numeric)
    family, kind, protocol, _, address = found[0]
    return family, kind, protocol, address


def open_listeners(
    open_one: Callable[[tuple[str, int]], "HttpListener"], addresses: Sequence[tuple[str, int]]
) -> tuple["HttpListener", ...]:
    """Open a listener at each address with `open_one`, or at none of them. Raises CannotListen.

    An address is an IP address, or `localhost` for both loopback addresses. Port 0 picks one free port for all
    addresses.
    """
    addresses = [(one, port) for host, port in addresses for one in (_LOOPBACK if host == _LOCALHOST else (host,))]
    for attempt in range(_ATTEMPTS):
        servers: list[HttpListener] = []
        try:
            for address in addresses:
                servers += _open_one(open_one, address, servers)
            return tuple(servers)
        except CannotListen as error:
            close_listeners(servers)
            # With port 0, the port that the system chose for the first address may be in use on the next, so try again.
            chosen = bool(servers) and addresses[0][1] == 0 and attempt < _ATTEMPTS - 1
            if not (chosen and isinstance(error, AddressInUse)):
                raise
    raise AssertionError("the last attempt returns or raises")


def _open_one(
    open_one: Callable[[tuple[str, int]], "HttpListener"], address: tuple[str, int], before: Sequence["HttpListener"]
) -> list["HttpListener"]:
    host, port = address
    try:
        return [open_one((host, port or (before[0].address[1] if before else 0)))]
    except AddressInUse:
        raise
    except CannotListen:
        if host not in _NEEDS_IPV6 or not before:
            raise
        log.info("ipv6_unavailable")
        return []


def close_listeners(servers: Iterable["HttpListener"]) -> None:
    """Close listeners whose loops were not started."""
    for server in servers:
        server.close()


# --- One listener with its own loop: its socket, its deadlines, and the limit of connections ---
#
# TLS is a channel class and a scheme (see `connection`). Waitress internals used (pinned to 3.0.*): TcpWSGIServer's
# `channel_class`, `active_channels`, `accept`, `accepting`, `readable`, `next_channel_cleanup`, `handle_error`,
# `set_reuse_addr`, `set_socket_options`, `trigger`, `_map`, `adj`, `effective_host`, `effective_port`, `add_task`;
# wasyncore's dispatcher and `read`.


_DEFAULT_PEER_LIMITS = PeerLimits()
_READERS_RETRY_AFTER = 5
_LOOP_PATIENCE = 2.0  # seconds in which a working loop completes a turn
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class HttpListener(TcpWSGIServer):
    """One open port with its own event loop. The socket is open after construction; `run` serves it."""

    channel_class: type[HttpConnection] = HttpConnection
    logger = QuietLogger()
    peer_of = staticmethod(peer_of)
    next_channel_cleanup: float = 0

    def __init__(
        self,
        app: Any,
        address: tuple[str, int],
        dispatcher: WorkerPool,
        memory: MemoryBudget,
        *,
        request_timeout: float = 60,
        places: PeerLimits = _DEFAULT_PEER_LIMITS,
        bounds: ServerBounds = DEFAULT_BOUNDS,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Open the socket. Raises CannotListen.

        - dispatcher: The workers that answer requests.
        - memory: The budget for large bodies and responses, shared with other listeners.
        - request_timeout: Seconds that a client may take to send a request.
        - places: The limits of connections for each client address.
        - context: The certificate for TLS; None for plain HTTP. It may be replaced at any time, for new connections.
        """
        self.bounds, self.request_timeout, self.peer_limits = bounds, request_timeout, places
        self.context, self.is_secure = context, context is not None
        self.channel_class = TlsConnection if self.is_secure else HttpConnection
        self.handshakes_failed = 0
        self.draining = self._spares_unfinished = self._ending = self._closed = False
        self._retire_deadline: float | None = None
        self._closing = threading.Lock()
        self._counting = threading.Lock()
        self._readers = Counter[str]()  # connections that wait, by peer
        self._selector = SocketSelector()
        self._pending_calls: deque[Callable[[], None]] = deque()
        self._without_file: list[int] = []  # the error of each connection for which no file descriptor was left
        self.socket: Any = None
        self.trigger: Any = None
        try:
            where = socket_address(*address)
            told = waitress_adjustments(bounds, request_timeout, "https" if self.is_secure else "http")
            told.memory = memory
            super().__init__(app, self._selector, dispatcher=dispatcher, adj=told, sockinfo=where)
        except (OSError, ValueError) as error:
            self.close()
            raise to_listen_error(address, error, is_secure=self.is_secure) from error
        OWN_PORTS.add(self, self.address[1])

    @property
    def address(self) -> tuple[str, int]:
        """The numeric IP address and the port that the listener actually uses."""
        return self.effective_host, int(self.effective_port)

    def set_reuse_addr(self) -> None:
        """Set the socket option that lets a restarted server use its port at once.

        On Windows that option would let two programs share the port, so the exclusive option is set there instead.
        """
        if os.name == "nt":
            self.socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", -5), 1)
        else:
            super().set_reuse_addr()

    # The loop's thread.

    def run(self) -> None:
        """Serve until `stop` or `retire` ends the loop. Unexpected exceptions are logged, and the loop continues."""
        while not self._has_ended():
            try:
                self._check_deadlines()
                late = self.task_dispatcher.check_lateness()
                self._selector.poll(self.adj.cleanup_interval if late is None else late)
                while self._pending_calls:
                    self._pending_calls.popleft()()
                if self.draining:
                    self._close_idle()
            except Exception:
                log.exception("listener_loop_failed")
                time.sleep(0.1)
        self.close()

    def _has_ended(self) -> bool:
        if self._ending or self._closed:
            return True
        return self._retire_deadline is not None and self.draining and self._is_empty_or_late(self._retire_deadline)

    def _is_empty_or_late(self, deadline: float) -> bool:
        if time.monotonic() > deadline:
            log.warning("listener_closed_early", extra={"connections": len(self.active_channels)})
            return True
        return not self.active_channels

    def handle_accept(self) -> None:
        """Accept a new connection.

        If its client or the listener has too many connections, another one is closed for it, or else the new one.
        """
        self._accept_one()

    def _accept_one(self) -> bool:
        """Accept a connection that waits, or refuse it if there are too many. Returns False if none was waiting, or if
        no file descriptor is left for it.
        """
        try:
            accepted = self.accept()
        except OSError as error:
            return self._drop_for_new(error)
        if accepted is None:
            return False
        (connection, address), taken = accepted, False
        try:
            if self._has_room_for(address[0]):
                self.set_socket_options(connection)
                taken = bool(self.channel_class(self, connection, address, self.adj, map=self._map).connected)
        except OSError:
            log.debug("connection_closed_before_accept", exc_info=True)
        finally:
            if not taken:
                connection.close()
        return True

    def handle_error(self) -> None:
        """Log an unexpected exception and continue. Waitress would close the listener."""
        log.exception("accept_failed")

    def _has_room_for(self, host: str) -> bool:
        channels = [channel for channel in self.active_channels.values() if not channel.is_reader]
        limit, patience = self.peer_limits.per_peer, self.bounds.patience
        if self.peer_limits.is_shared_peer(host):
            limit, patience = self.peer_limits.per_local_peer, self.bounds.local_patience
        peer = self.peer_of(host)
        own = [channel for channel in channels if channel.peer == peer]
        if len(own) >= limit:
            return drop_longest_waiting(own, patience)
        return len(channels) < self.bounds.connections or drop_longest_waiting(channels, patience)

    def _drop_for_new(self, error: OSError) -> bool:
        if error.errno not in _NO_FILES:
            return True
        self._without_file.append(error.errno)
        # The socket stays readable and would keep the loop spinning: if no connection can be dropped, pause until the
        # next maintenance.
        self.accepting = drop_longest_waiting(list(self.active_channels.values()), 0)
        return self.accepting

    def readable(self) -> bool:
        """Whether the listener accepts new connections."""
        return bool(self.accepting)

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if now >= self.next_channel_cleanup:
            self.next_channel_cleanup = now + self.adj.cleanup_interval
            self.maintenance(now)

    def maintenance(self, now: float) -> None:
        """Check the deadlines of all connections. `now`: the monotonic time.

        Waitress uses the wall clock, with which no deadline would pass after the clock is set back.
        """
        self.accepting = not self.draining
        for channel in list(self.active_channels.values()):
            channel.check(now)
        self._selector.poll_all = True
        if self._without_file:  # thousands a second are possible, so one log line reports many
            log.error("no_file_descriptors", extra={"errno": self._without_file[-1], "times": len(self._without_file)})
            self._without_file.clear()

    # Any thread.

    def add_task(self, task: HttpConnection) -> None:
        """Queue a connection's next request for the workers, or keep it until the client has read enough earlier
        responses.
        """
        if not task.pauses():
            super().add_task(task)

    def resume(self, task: HttpConnection) -> None:
        """Queue the next request of a connection whose client has now read enough."""
        super().add_task(task)

    def ask(self, channel: HttpConnection, *, wakes: bool = True) -> None:
        """Make the loop ask a connection whether it wants to read or write, after a thread other than a worker changed
        that.

        `wakes`: whether to wake the loop for it.
        """
        self._pending_calls.append(lambda: self._selector.ask(channel._fileno))
        if wakes:
            self.pull_trigger()

    def check_readers(self, channel: HttpConnection) -> None:
        """Raise ReadersBusy if too many connections wait, of the client of this one or in total, and it is a new one.

        Connections that wait do not count as connections of their client otherwise, so they do not take the place of
        other requests.
        """
        if not (channel.is_reader or self._has_room_for_reader(channel)):
            raise ReadersBusy(retry_after=_READERS_RETRY_AFTER)

    def _has_room_for_reader(self, channel: HttpConnection) -> bool:
        most = self.bounds.readers
        if not self.peer_limits.is_shared_peer(channel.addr[0]):
            most = min(most, self.bounds.readers_per_peer)
        return self._readers.total() < self.bounds.readers and self._readers[channel.peer] < most

    def count_early(self, channel: HttpConnection) -> None:
        """Count a connection as one that waits while its request waits for a worker: hundreds may come at once."""
        if self._has_room_for_reader(channel):
            self.count_reader(channel, is_reader=True)

    def count_reader(self, channel: HttpConnection, *, is_reader: bool) -> None:
        """Record whether a connection is one that waits. A closed one never is."""
        with self._counting:
            is_reader = is_reader and channel.connected
            if channel.is_reader != is_reader:
                channel.is_reader = is_reader
                self._readers[channel.peer] += 1 if is_reader else -1
                if not self._readers[channel.peer]:
                    del self._readers[channel.peer]

    def pull_trigger(self, thunk: Callable[[], None] | None = None) -> None:
        """Wake the loop. `thunk`: a function to run in the loop's thread.

        Does nothing once the loop has ended, since its file descriptors may be in use for something else.
        """
        with self._closing:
            if not self._closed:
                if thunk is not None:  # Waitress would run it while holding a lock that this thread waits for
                    self._pending_calls.append(thunk)
                self.trigger.pull_trigger()

    def _run_in_loop(self, act: Callable[[], None]) -> None:
        """Run a function in the loop's thread and wait for it, at most 2 seconds. Does not wait if the loop has
        ended.
        """
        done = threading.Event()

        def do() -> None:
            try:
                act()
            finally:
                self._selector.poll_all = True
                done.set()

        self.pull_trigger(do)
        deadline = time.monotonic() + _LOOP_PATIENCE
        while not (done.wait(0.02) or self._closed or time.monotonic() > deadline):
            pass

    def stop_listening(self) -> None:
        """Accept no new connections and close idle ones. Requests that are still arriving continue.

        Connections that the operating system has already established are accepted first.
        """
        self._spares_unfinished = True
        self._run_in_loop(self._stop_listening)

    def _stop_listening(self) -> None:
        if not self.draining:
            self.draining = True
            for _ in range(self.adj.backlog + 1):
                if not self._accept_one():
                    break
            self.accepting = False
            self.del_channel()
            self.socket.close()
            OWN_PORTS.remove(self)
        self._close_idle()

    def _close_idle(self) -> None:
        """Close idle connections. Unread data is read first, since it may be a request."""
        for channel in list(self.active_channels.values()):
            if channel.is_idle() and not self._is_spared(channel):
                if channel.has_unread():
                    channel.expect()
                    wasyncore.read(channel)
                if channel.is_idle() and not self._is_spared(channel):
                    channel.handle_close()

    def _is_spared(self, channel: HttpConnection) -> bool:
        return self._spares_unfinished and channel.is_sending()

    def refuse_unfinished(self, problem: Problem) -> None:
        """Answer 503 with `problem` to requests that have not arrived completely. Call after `stop_listening`."""

        def refuse() -> None:
            for channel in list(self.active_channels.values()):
                channel.refuse(RequestAborted(problem))

        self._run_in_loop(refuse)

    def retire(self, timeout: float) -> None:
        """Stop listening, and let the loop end by itself when all requests are answered, after at most `timeout`
        seconds.

        The port is free when this returns.
        """
        self._retire_deadline = time.monotonic() + timeout
        self.stop_listening()

    def finish(self, deadline: float) -> bool:
        """Stop listening, and wait until all complete requests are answered and their responses sent.

        Incomplete requests are dropped. Returns False if the `deadline` (monotonic time) passes first.
        """
        self._spares_unfinished = False
        self._run_in_loop(self._stop_listening)
        while any(channel.owes() for channel in list(self.active_channels.values())):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def stop(self, timeout: float) -> bool:
        """Answer requests in progress, then end the loop. Returns False if any was cut off after `timeout` seconds."""
        finished = self.finish(time.monotonic() + timeout)
        self._ending = True
        self.pull_trigger()
        return finished

    def close(self) -> None:
        """Close every socket. Before the loop was started any thread may call this, afterwards only the loop's
        thread.
        """
        for channel in list(getattr(self, "active_channels", {}).values()):
            channel.handle_close()
        with self._closing:
            self._closed = True
            if self.trigger is not None:
                self.trigger.close()
            if self.socket is not None:
                wasyncore.dispatcher.close(self)
            OWN_PORTS.remove(self)
            self._selector.close()


# --- Groups of listeners that open and close together: one port, all HTTP, or all HTTPS with one certificate ---


class ListenerGroup:
    """Listeners that are opened and closed together, each with its own loop after `start`.

    Any thread may close the group, even a worker that answers one of its requests.
    """

    def __init__(self, servers: Sequence[HttpListener]) -> None:
        self.servers = tuple(servers)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The IP addresses and ports, in the requested order; `::` and `::1` are omitted on a computer without IPv6."""
        return tuple(server.address for server in self.servers)

    @property
    def has_ended(self) -> bool:
        """Whether `close` was called and all listeners have finished their requests."""
        return self._is_closed and not any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Start the loop of each listener. Does nothing if they were started before or the group is closed."""
        with self._lock:
            if self._is_closed or self._threads:
                return
            for server in self.servers:
                host, port = server.address
                thread = threading.Thread(target=server.run, name=f"web-{host}-{port}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def use_certificate(self, context: ssl.SSLContext) -> None:
        """Use the certificate in `context` for new connections; open connections keep theirs."""
        for server in self.servers:
            server.context = context

    def close(self, timeout: float = 30) -> None:
        """Stop listening. The ports are free when this returns.

        The loops continue until requests in progress are answered; after `timeout` seconds the others are cut off.
        """
        with self._lock:
            self._is_closed = True
            if not self._threads:
                close_listeners(self.servers)
                return
        for server in self.servers:
            server.retire(timeout)

    def join(self, deadline: float) -> bool:
        """Wait for the loops to end after `close` or `stop`. Returns False if the `deadline` (monotonic time) passes
        first.
        """
        return join_threads(self._threads, deadline)


# --- The server: all listeners and their workers ---


@dataclass(frozen=True)
class ServerStats:
    """Current numbers for metrics: open connections, failed TLS handshakes since the start, waiting requests, busy
    workers.
    """

    connections_http: int
    connections_https: int
    handshakes_failed: int
    waiting_requests: int  # complete, but not taken by a worker yet
    busy_workers: int


class HttpServer:
    """The complete HTTP server: all listeners and their workers. The sockets are open after construction; `start`
    serves them.
    """

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
        bounds: ServerBounds = DEFAULT_BOUNDS,
        context: ssl.SSLContext | None = None,
        spool_folder: Path | None = None,
    ) -> None:
        """Open listeners at `addresses`, which may be empty. Raises CannotListen.

        - app: The WSGI application.
        - request_timeout: Seconds that a client may take to send a request.
        - per_peer, per_local_peer: Maximum connections of a remote, and of a local or trusted address.
        - trusted: Whether an address is a trusted proxy, which many clients share.
        - context: The certificate for HTTPS; None for HTTP.
        - spool_folder: Folder for large request bodies while they are used; None for the system's temporary folder.
        """
        self._count, self._workers = workers, WorkerPool(max(1, workers // 2))
        self.memory = MemoryBudget(bounds.memory, spool_folder)
        places = PeerLimits(per_peer, per_local_peer, trusted)
        self._open_one = partial(
            HttpListener,
            app,
            dispatcher=self._workers,
            memory=self.memory,
            request_timeout=request_timeout,
            places=places,
            bounds=bounds,
        )
        self._lock = threading.Lock()
        self._is_started = self._is_stopped = False
        # The current groups and the failed handshakes of closed ones, replaced together, so that readers need no lock.
        self._groups_and_failures: tuple[tuple[ListenerGroup, ...], int] = (), 0
        self._first_group = self.open(addresses, context)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses that the constructor opened, in the requested order; `::1` is omitted on a computer without
        IPv6.
        """
        return self._first_group.addresses

    @property
    def servers(self) -> tuple[HttpListener, ...]:
        """All listeners, including closed ones that still answer their last requests."""
        return tuple(server for group in self._groups for server in group.servers)

    @property
    def _groups(self) -> tuple[ListenerGroup, ...]:
        return self._groups_and_failures[0]

    def open(self, addresses: Sequence[tuple[str, int]], context: ssl.SSLContext | None) -> ListenerGroup:
        """Open further listeners at these addresses. Raises CannotListen.

        May be called before and after `start`. `context`: the certificate for HTTPS; None for HTTP. Port 0 picks one
        free port for all addresses.
        """
        with self._lock:
            if self._is_stopped:
                raise CannotListen(reason="The appliance is stopping. Start it again first.")
            group = ListenerGroup(open_listeners(partial(self._open_one, context=context), addresses))
            known, failed_before = self._groups_and_failures
            over = [one for one in known if one.has_ended]
            self._groups_and_failures = (
                (*(one for one in known if one not in over), group),
                failed_before + _count_failed_handshakes(over),
            )
            if self._is_started:
                group.start()
        return group

    def start(self) -> None:
        """Start the workers and the loop of each listener."""
        with self._lock:
            self._is_started = True
            self._workers.start(self._count)
            for group in self._groups:
                group.start()

    def stats(self) -> ServerStats:
        """Return the current numbers. Takes no lock, so it never delays requests."""
        groups, failed_before = self._groups_and_failures
        servers = [server for group in groups for server in group.servers]
        return ServerStats(
            connections_http=sum(len(server.active_channels) for server in servers if not server.is_secure),
            connections_https=sum(len(server.active_channels) for server in servers if server.is_secure),
            handshakes_failed=failed_before + _count_failed_handshakes(groups),
            waiting_requests=self._workers.waiting_count,
            busy_workers=self._workers.busy_count,
        )

    def is_busy(self) -> bool:
        """Whether any request is arriving or being answered, or may still arrive on a new connection."""
        channels = (channel for server in self.servers for channel in list(server.active_channels.values()))
        return any(channel.is_sending() or channel.owes() for channel in channels)

    def stop_listening(self) -> None:
        """Accept no new connections and close idle ones. Requests that are still arriving continue."""
        with self._lock:
            self._is_stopped = True
        if self._is_started:
            for server in self.servers:
                server.stop_listening()

    def refuse_unfinished(self, problem: Problem) -> None:
        """Answer 503 with `problem` to requests that have not arrived completely."""
        if self._is_started:
            for server in self.servers:
                server.refuse_unfinished(problem)

    def stop(self, timeout: float = 30) -> bool:
        """Stop listening, answer complete requests, and end all threads.

        Incomplete requests are dropped. Returns False if a request was cut off, or a thread did not end, within
        `timeout` seconds.
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


def _count_failed_handshakes(groups: Sequence[ListenerGroup]) -> int:
    return sum(server.handshakes_failed for group in groups for server in group.servers)
