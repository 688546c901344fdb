"""A connection that speaks TLS: the handshake and the records, inside the same loop as every other connection.

The loop reads while workers write, and an SSLSocket is for one thread at a time (CPython 3.11 has no lock of its own
there): every use of it holds `_tls`, and whoever holds that takes no other lock.
"""

import math
import socket
import ssl
import threading
import time
from typing import Any

from mailbox_appliance.web.channel import Channel

# What is sent in one call. OpenSSL tells of it when all of it is with the system: larger ones would look like a client
# that takes nothing.
_PIECE = 64 * 1024


class SecureChannel(Channel):
    """A connection behind `server.context`, as it was when the connection was made."""

    handshaking = True
    wants_write = False  # OpenSSL has something of its own to send before it reads on: a flight, an answer to KeyUpdate
    said_goodbye = False  # close_notify is sent; from here on the socket may be a plain one to Python

    def __init__(self, server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        self._tls = threading.Lock()
        sock.setblocking(False)
        wrapped = server.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        super().__init__(server, wrapped, addr, adj, map=map)
        self.sendbuf_len = min(self.sendbuf_len, _PIECE)

    def _has_timed_out(self, now: float) -> bool:
        if self.handshaking:
            return now - self.rested > float(self.server.bounds.handshake_timeout)
        return super()._has_timed_out(now)

    def readable(self) -> bool:
        """Whether the loop is to read here. While OpenSSL must write first, what came would only keep it spinning."""
        if self.wants_write:
            return False
        return not self.will_close if self.handshaking else bool(super().readable())

    def writable(self) -> bool:
        """Whether the loop has something to do here when the socket takes data."""
        return self.wants_write or (self.will_close if self.handshaking else super().writable())

    def handle_read(self) -> None:
        """Go on with the handshake, or take a record. OpenSSL holds none back: poll tells of those that come behind."""
        if not self.connected or self.will_close:
            return
        data = self._receive()
        if data:
            self.last_activity = time.time()
            self.received(data)
        elif data is not None:
            self.handle_close()
        elif self.handshaking:  # and has begun to: from here on its own deadline counts
            self.expected_until = math.inf

    def _receive(self) -> bytes | None:
        """What the client sent: empty where it ended or broke the rules, None where there is nothing now."""
        size = self.adj.recv_bytes
        try:
            with self._tls:
                self.wants_write = False
                if self.said_goodbye:  # what still comes is thrown away, so nobody needs to decrypt it
                    return socket.socket.recv(self.socket, size)
                if self.handshaking:
                    self.socket.do_handshake()
                    self.handshaking, self.rested = False, time.monotonic()
                    self.expect()
                return bytes(self.socket.recv(size))
        except (ssl.SSLWantReadError, BlockingIOError):
            return None
        except ssl.SSLWantWriteError:
            self.wants_write = True
            return None
        except OSError:  # an SSLError is one: plain HTTP, garbage, an old version; or a reset
            return b""

    def send(self, data: Any, do_close: bool = True) -> int:
        """Send what the socket takes now; 0 is nothing. For workers as well, as they hold `outbuf_lock`."""
        try:
            with self._tls:
                if self.connected and not self.said_goodbye:  # else it would leave in plain
                    return int(self.socket.send(data))
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except OSError:
            pass
        self.will_close = True
        if do_close:
            self.handle_close()
        return 0

    def handle_write(self) -> None:
        """Send what is pending: what OpenSSL has to say first, then answers, and close_notify behind the last one."""
        if self.wants_write:
            self.handle_read()
        if self.handshaking:
            if self.will_close:
                self.handle_close()
        elif self.connected and not self._holds_goodbye_back():
            super().handle_write()

    def _holds_goodbye_back(self) -> bool:
        """Whether all is sent on a connection that is to be closed, but for close_notify."""
        if not self.close_when_flushed or self.will_close:
            return False
        self._flush_exception(self._flush_some)
        return not (self.total_outbufs_len or self.will_close or self._say_goodbye())

    def _say_goodbye(self) -> bool:
        """Send close_notify (RFC 8446 6.1), not waiting for the client's; False where the socket takes nothing now."""
        with self._tls:
            if self.connected and not self.said_goodbye:
                try:
                    self.socket.unwrap()
                except ssl.SSLWantWriteError:
                    return False
                except (OSError, ValueError):  # mostly SSLWantReadError: the client's is not here yet
                    pass
                self.said_goodbye = True
        return True

    def handle_close(self) -> None:
        """Close the connection; with close_notify, unless an answer is cut off: then its end must not look like one."""
        if self.handshaking:
            self.server.handshakes_failed += self.connected
        elif not (self.requests or self.total_outbufs_len):
            self._say_goodbye()
        super().handle_close()
