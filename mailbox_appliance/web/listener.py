"""One listener with its own loop: its socket, its deadlines, and who gets a connection when there are many.

TLS fits in as a channel class and a scheme (see `tls`). Waitress internals used (pinned to 3.0.*): TcpWSGIServer's
`channel_class`, `active_channels`, `accept`, `accepting`, `readable`, `next_channel_cleanup`, `handle_error`,
`set_reuse_addr`, `set_socket_options`, `trigger`, `_map`, `adj`, `effective_host`, `effective_port`, `add_task`;
wasyncore's dispatcher and `read`.
"""

import errno
import logging
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from waitress import wasyncore
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from mailbox_appliance.errors import Problem
from mailbox_appliance.remote.net.connect import OWN_PORTS
from mailbox_appliance.web.bounds import DEFAULT_BOUNDS, Bounds, adjustments
from mailbox_appliance.web.channel import Channel, Discreet
from mailbox_appliance.web.crowd import Places, Shortage, drop_longest_waiting, peer_of
from mailbox_appliance.web.framing import Unfinished
from mailbox_appliance.web.memory import Memory
from mailbox_appliance.web.ports import cannot_listen, socket_address
from mailbox_appliance.web.tls import SecureChannel
from mailbox_appliance.web.turns import Turns

log = logging.getLogger(__name__)

_PLACES = Places()
_TURN_WITHIN = 2.0  # seconds in which a loop that is well has come round
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server(TcpWSGIServer):
    """One listener with its own loop. It listens from the beginning, and answers while `run` runs."""

    channel_class: type[Channel] = Channel
    logger = Discreet()
    peer_of = staticmethod(peer_of)
    next_channel_cleanup: float = 0

    def __init__(
        self,
        app: Any,
        address: tuple[str, int],
        dispatcher: ThreadedTaskDispatcher,
        memory: Memory,
        *,
        request_timeout: float = 60,
        places: Places = _PLACES,
        bounds: Bounds = DEFAULT_BOUNDS,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """With a context it speaks TLS; another one may be assigned at any time, for new connections.

        Raises CannotListen.
        """
        self.bounds, self.request_timeout, self.peer_limits = bounds, request_timeout, places
        self.context, self.is_secure = context, context is not None
        self.channel_class = SecureChannel if self.is_secure else Channel
        self.handshakes_failed = 0
        self.draining = self._spares_unfinished = self._ending = self._closed = False
        self._retire_deadline: float | None = None
        self._closing = threading.Lock()
        self._selector = Turns()
        self._pending_calls: deque[Callable[[], None]] = deque()
        self._shortage = Shortage()
        self.socket: Any = None
        self.trigger: Any = None
        try:
            where = socket_address(*address)
            told = adjustments(bounds, request_timeout, "https" if self.is_secure else "http")
            told.memory = memory
            super().__init__(app, self._selector, dispatcher=dispatcher, adj=told, sockinfo=where)
        except (OSError, ValueError) as error:
            self.close()
            raise cannot_listen(address, error, is_secure=self.is_secure) from error
        OWN_PORTS.add(self, self.address[1])

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
        """Serve until stopped or retired. One failure does not end the loop: it is reported and the loop goes on."""
        while not self._has_ended():
            try:
                self._check_deadlines()
                self._selector.poll(self.adj.cleanup_interval)
                while self._pending_calls:
                    self._pending_calls.popleft()()
                if self.draining:
                    self._close_idle()
            except Exception:
                log.exception("the listener's loop failed")
                time.sleep(0.1)
        self.close()

    def _has_ended(self) -> bool:
        if self._ending or self._closed:
            return True
        return self._retire_deadline is not None and self.draining and self._is_empty_or_late(self._retire_deadline)

    def _is_empty_or_late(self, deadline: float) -> bool:
        if time.monotonic() > deadline:
            log.warning("a listener ends before all is answered", extra={"connections": len(self.active_channels)})
            return True
        return not self.active_channels

    def handle_accept(self) -> None:
        """Take a new connection, unless its peer or the listener has too many that are busy."""
        self._accept_one()

    def _accept_one(self) -> bool:
        """Whether one more was there, and may have been taken."""
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
            log.debug("a connection was gone before it was taken", exc_info=True)
        finally:
            if not taken:
                connection.close()
        return True

    def handle_error(self) -> None:
        """Report what must not happen. Waitress would close the listener."""
        log.exception("a connection could not be taken")

    def _has_room_for(self, host: str) -> bool:
        channels = list(self.active_channels.values())
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
        self._shortage.record(error.errno)
        # The socket stays readable and would spin the loop: with nothing to drop, rest until the next maintenance.
        self.accepting = drop_longest_waiting(list(self.active_channels.values()), 0)
        return self.accepting

    def readable(self) -> bool:
        """Whether new connections are wanted."""
        return bool(self.accepting)

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if now >= self.next_channel_cleanup:
            self.next_channel_cleanup = now + self.adj.cleanup_interval
            self.maintenance(now)

    def maintenance(self, now: float) -> None:
        """Look at every deadline. Not on the wall clock, as Waitress does: when that is set back, nothing would end."""
        self.accepting = not self.draining
        for channel in list(self.active_channels.values()):
            channel.check(now)
        self._selector.poll_all = True
        self._shortage.report()

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
                if thunk is not None:  # Waitress would run it with a lock held that this one waits for
                    self._pending_calls.append(thunk)
                self.trigger.pull_trigger()

    def _run_in_loop(self, act: Callable[[], None]) -> None:
        """Have the loop's thread do this; it is done when this returns, unless that loop has ended or hangs."""
        done = threading.Event()

        def do() -> None:
            try:
                act()
            finally:
                self._selector.poll_all = True
                done.set()

        self.pull_trigger(do)
        deadline = time.monotonic() + _TURN_WITHIN
        while not (done.wait(0.02) or self._closed or time.monotonic() > deadline):
            pass

    def stop_listening(self) -> None:
        """Take no new connection, and close those that ask for nothing; what is being sent to us may go on.

        Whoever was connected before is answered: those that wait to be accepted are taken first.
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
        """Close who asks for nothing. What has come and was not read yet may be a request: that is read before."""
        for channel in list(self.active_channels.values()):
            if channel.is_idle() and not self._is_spared(channel):
                if channel.has_unread():
                    channel.expect()
                    wasyncore.read(channel)
                if channel.is_idle() and not self._is_spared(channel):
                    channel.handle_close()

    def _is_spared(self, channel: Channel) -> bool:
        return self._spares_unfinished and channel.is_sending()

    def refuse_unfinished(self, problem: Problem) -> None:
        """Answer 503, saying so, to requests that are not complete yet; for when no more are taken."""

        def refuse() -> None:
            for channel in list(self.active_channels.values()):
                channel.refuse(Unfinished(problem))

        self._run_in_loop(refuse)

    def retire(self, timeout: float) -> None:
        """End by itself once all is answered, after so many seconds at most. The port is free when this returns."""
        self._retire_deadline = time.monotonic() + timeout
        self.stop_listening()

    def finish(self, deadline: float) -> bool:
        """Wait until all complete requests are answered and the answers sent; False when it got too late."""
        self._spares_unfinished = False
        self._run_in_loop(self._stop_listening)
        while any(channel.owes() for channel in list(self.active_channels.values())):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def stop(self, timeout: float) -> bool:
        """Answer what is in flight, then end the loop; False when something was cut off after so many seconds."""
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
            OWN_PORTS.remove(self)
            self._selector.close()
