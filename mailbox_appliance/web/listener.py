"""One listener with its own loop: its socket, its deadlines, and who gets a connection when there are many.

TLS fits in as a channel class and a scheme. Waitress internals used (pinned to 3.0.*): TcpWSGIServer's `channel_class`,
`active_channels`, `accept`, `accepting`, `readable`, `next_channel_cleanup`, `handle_error`, `set_reuse_addr`,
`set_socket_options`, `trigger`, `_map`, `effective_host`, `effective_port`, `add_task`; Adjustments; wasyncore's loop
and dispatcher.
"""

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from mailbox_appliance.errors import Problem
from mailbox_appliance.web.channel import Channel, Discreet
from mailbox_appliance.web.memory import Memory

log = logging.getLogger(__name__)

MEBIBYTE = 1 << 20


class CannotListen(Problem):
    """{reason}"""  # which address, why, and what to do

    code = "cannot_listen"


class AddressInUse(CannotListen):
    """{where} is already in use. Stop the program that uses it, or choose another port with --port or the setting
    server.port.
    """


@dataclass(frozen=True)
class Bounds:
    """Bounds that are no settings: bytes, seconds, and connections of one listener (see `memory` for their sum)."""

    max_body: int = 38 * MEBIBYTE  # larger ones are thrown away, and the application is told
    max_discarded: int = 256 * MEBIBYTE  # larger ones are refused without reading them
    memory: int = 192 * MEBIBYTE  # for large bodies and answers of all listeners together
    free_memory: int = MEBIBYTE  # what a body, and what is to be sent, may have of a connection's own
    ahead: int = MEBIBYTE // 4  # while more than this is unread, the connection's next request is not begun
    max_header: int = 32 * 1024
    upload_rate: int = 32 * 1024  # bytes a second: what was sent prolongs the deadline by the time it may take
    idle_timeout: float = 120
    linger_seconds: float = 2
    linger_bytes: int = 8 * MEBIBYTE
    connections: int = 1024
    patience: float = 2  # how long a connection may keep us waiting before a new one can take its place
    local_patience: float = 0.1


DEFAULT_BOUNDS = Bounds()


class Server(TcpWSGIServer):
    """One listener with its own loop. It listens from the beginning, and answers while `run` runs."""

    channel_class = Channel
    logger = Discreet()
    next_channel_cleanup: float = 0

    def __init__(
        self,
        app: Any,
        address: tuple[str, int],
        dispatcher: ThreadedTaskDispatcher,
        memory: Memory,
        *,
        request_timeout: float = 60,
        per_peer: int = 32,
        per_local_peer: int = 256,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Raises CannotListen."""
        self.bounds, self.request_timeout = bounds, request_timeout
        self.per_peer, self.per_local_peer = per_peer, per_local_peer
        self.draining = self._ending = self._closed = False
        self._closing = threading.Lock()
        self.socket: Any = None
        self.trigger: Any = None
        try:
            adjustments = _adjustments(address, request_timeout, bounds)
            adjustments.memory = memory
            super().__init__(app, dispatcher=dispatcher, adj=adjustments, sockinfo=adjustments.listen[0])
        except (OSError, ValueError) as error:
            self.close()
            raise _cannot_listen(address, error) from error

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens: the numeric host and the real port."""
        return self.effective_host, int(self.effective_port)

    def set_reuse_addr(self) -> None:
        """On Windows the usual option would let two programs have one port; there the exclusive one is right."""
        if os.name == "nt":
            self.socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", -5), 1)
        else:
            super().set_reuse_addr()

    # The loop's thread.

    def run(self) -> None:
        """Serve until stopped. One failure does not end the loop: it is reported and the loop goes on."""
        while not (self._ending or self._closed):
            try:
                wasyncore.loop(self.adj.asyncore_loop_timeout, self.adj.asyncore_use_poll, self._map, count=1)
            except Exception:
                log.exception("the listener's loop failed")
                time.sleep(0.1)
        self.close()

    def handle_accept(self) -> None:
        """Take a new connection, unless its peer or the listener has too many that are busy."""
        try:
            connection, address = self.accept() or (None, None)
        except OSError as error:
            self._no_connection(error)
            return
        if connection is None:
            return
        taken = False
        try:
            taken = self._take(connection, address)
        except OSError:
            log.debug("a connection was gone before it was taken", exc_info=True)
        finally:
            if not taken:
                connection.close()

    def _take(self, connection: socket.socket, address: Any) -> bool:
        if not self._has_room_for(address[0]):
            return False
        self.set_socket_options(connection)
        self.channel_class(self, connection, address, self.adj, map=self._map)
        return True

    def handle_error(self) -> None:
        """Report what must not happen. Waitress would close the listener."""
        log.exception("a connection could not be taken")

    def _has_room_for(self, host: str) -> bool:
        channels = list(self.active_channels.values())
        peer, local = self.peer_of(host), _is_local(host)
        limit, patience = self.per_peer, self.bounds.patience
        if local:
            limit, patience = self.per_local_peer, self.bounds.local_patience
        own = [channel for channel in channels if channel.peer == peer]
        if len(own) >= limit:
            return _drop_longest_waiting(own, patience)
        return len(channels) < self.bounds.connections or _drop_longest_waiting(channels, patience)

    def _no_connection(self, error: OSError) -> None:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            log.error("no files left for new connections", extra={"errno": error.errno})
            # The socket stays readable and would spin the loop: with nothing to drop, rest until the next maintenance.
            self.accepting = _drop_longest_waiting(list(self.active_channels.values()), 0)

    def readable(self) -> bool:
        """Whether new connections are wanted. Asked in every turn of the loop: the place to look at deadlines, too."""
        now = time.monotonic()
        if now >= self.next_channel_cleanup:
            self.next_channel_cleanup = now + self.adj.cleanup_interval
            self.maintenance(now)
        return bool(self.accepting)

    def maintenance(self, now: float) -> None:
        """Look at every deadline. Not on the wall clock, as Waitress does: when that is set back, nothing would end."""
        self.accepting = not self.draining
        for channel in list(self.active_channels.values()):
            channel.check(now)

    @staticmethod
    def peer_of(host: str) -> str:
        """What connections are counted by: the IPv4 address, the /64 of an IPv6 one."""
        address = ip_address(host.partition("%")[0])
        return address.packed[:8].hex() if isinstance(address, IPv6Address) else host

    # Any thread.

    def add_task(self, task: Channel) -> None:
        """Have the connection's next request answered, once its client has read enough of what went before."""
        if not task.pauses():
            super().add_task(task)

    def resume(self, task: Channel) -> None:
        """Have the next request answered of a connection that paused."""
        super().add_task(task)

    def pull_trigger(self, thunk: Callable[[], None] | None = None) -> None:
        """Wake the loop, to run this in its thread; nothing once it has ended (its descriptors are others' by then)."""
        with self._closing:
            if not self._closed:
                self.trigger.pull_trigger(thunk)

    def stop_listening(self) -> None:
        """Take no new connection, and close those that ask for nothing."""
        self.pull_trigger(self._stop_listening)

    def _stop_listening(self) -> None:
        if not self.draining:
            self.draining, self.accepting = True, False
            self.del_channel()
            self.socket.close()
        for channel in list(self.active_channels.values()):
            busy = channel.requests or channel.total_outbufs_len or channel.close_when_flushed
            if not busy and channel.lingers_until is None:
                channel.handle_close()

    def finish(self, deadline: float) -> bool:
        """Wait until all complete requests are answered and the answers sent; False when it got too late."""
        while any(channel.requests or channel.total_outbufs_len for channel in list(self.active_channels.values())):
            if time.monotonic() > deadline:
                return False
            self.stop_listening()
            time.sleep(0.01)
        return True

    def stop(self, timeout: float) -> bool:
        """Answer what is in flight, then end the loop; False when something was cut off after so many seconds."""
        self.stop_listening()
        finished = self.finish(time.monotonic() + timeout)
        self._ending = True
        self.pull_trigger()
        return finished

    def close(self) -> None:
        """Close every socket. For the loop's thread, or where no loop was started."""
        for channel in list(getattr(self, "active_channels", {}).values()):
            channel.handle_close()
        with self._closing:
            self._closed = True
            if self.trigger is not None:
                self.trigger.close()
            if self.socket is not None:
                wasyncore.dispatcher.close(self)


def _adjustments(address: tuple[str, int], request_timeout: float, bounds: Bounds) -> Adjustments:
    host, port = address
    adjustments = Adjustments(
        listen=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        ident=None,
        # What a client says about forwarding is the application's to judge: it must see it.
        trusted_proxy=None,
        clear_untrusted_proxy_headers=False,
        asyncore_use_poll=True,
        recv_bytes=16384,  # one TLS record
        outbuf_high_watermark=bounds.ahead,
        max_request_header_size=bounds.max_header,
        max_request_body_size=bounds.max_discarded + 1,
    )
    adjustments.max_stored_body, adjustments.free_memory = bounds.max_body, bounds.free_memory
    adjustments.cleanup_interval = adjustments.asyncore_loop_timeout = min(1.0, request_timeout / 4)
    return adjustments


def _cannot_listen(address: tuple[str, int], error: OSError | ValueError) -> CannotListen:
    host, port = address
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    number = error.errno if isinstance(error, OSError) else errno.EINVAL
    if number == errno.EADDRINUSE:
        return AddressInUse(where=where)
    if number in (errno.EACCES, errno.EPERM):
        advice = "Ports below 1024 are often reserved; choose another with --port or the setting server.port."
        return CannotListen(reason=f"The system does not allow listening on {where}. {advice}")
    advice = "Choose an address of this computer with --host or the setting server.host."
    return CannotListen(reason=f"It is not possible to listen on {where}. {advice}")


def _drop_longest_waiting(channels: Sequence[Channel], patience: float) -> bool:
    """Close the connection that has kept us waiting longest; False when none has for longer than `patience`."""
    now = time.monotonic()
    longest = max(channels, key=lambda channel: channel.waiting(now), default=None)
    if longest is None or longest.waiting(now) <= patience:
        return False
    longest.handle_close()
    return True


def _is_local(host: str) -> bool:
    return ip_address(host.partition("%")[0]).is_loopback
