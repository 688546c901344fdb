"""Reads HTTP requests as they arrive: strict parsing, limits, and large bodies. Writes responses that stay open.

A body that exceeds the limit, or for which no memory is left, is not kept: only its bytes are counted.

This parser refuses input that Waitress 3.0 handles badly: numbers and addresses that make it raise, a body length that
a proxy and this server could read differently, endless chunk lines, `Expect` without a body.

Waitress internals used:

    HTTPRequestParser   `received`, `parse_header`, `header_plus`, `headers_finished`, `completed`, `error`, `chunked`,
                        `content_length`, `body_rcv`, `expect_continue`, `version`, `headers`, `header_bytes_received`,
                        `body_bytes_received`, `close`

    ChunkedReceiver     `control_line`, `trailer`, `chunk_remainder`, `buf`

    other classes       FixedStreamReceiver, ParsingError, BadRequest
"""

import re
import time
from io import BytesIO
from typing import Any

from waitress.channel import ClientDisconnected
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver, FixedStreamReceiver
from waitress.utilities import BadRequest

from mailbox_appliance.errors import Problem, TooBusy
from mailbox_appliance.web.server.memory import MemoryReservation, RequestBody

_CHUNK_LINE = 1024
_TRAILER = 8192
_RECEIVE_PIECE = 2048
_HANDSHAKE = b"\x16"  # the first byte of a TLS connection (RFC 8446 5.1), which no request has
_FIELD_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # a token (RFC 9110 5.6.2)
_CONTROLS = re.compile(rb"[\0-\x08\n-\x1f\x7f]")  # not allowed in a value (RFC 9110 5.5)
_CODINGS = re.compile(rb"\r\ntransfer-encoding:([^\r]*(?:\r\n[ \t][^\r]*)*)", re.IGNORECASE)
_MAX_SHOWN_NAME = 100  # characters
_MEMORY_STEP = 1 << 20  # bytes of memory that a growing body reserves at a time


class RequestTimeout(BadRequest):
    """The client took too long to send its request."""

    code = 408
    reason = "Request Timeout"

    def __init__(self) -> None:
        super().__init__("")


class RequestAborted(BadRequest):
    """The server stops reading a request that has not arrived completely, for the reason in `problem`. The status is
    503.
    """

    code = 503
    reason = "Service Unavailable"

    def __init__(self, problem: Problem) -> None:
        super().__init__("")
        self.problem = problem


class BadField(BadRequest):
    """The value of a header field contains a forbidden character. `name`: the name of the field, as the client wrote
    it.
    """

    def __init__(self, name: str) -> None:
        super().__init__("A header field contains a control character")
        self.name = name


class DiscardedBody:
    """Counts the bytes of a body instead of keeping them. Replaces Waitress's buffer."""

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def append(self, data: bytes) -> None:
        """Count the bytes of `data` without keeping them."""
        self.size += len(data)

    def getfile(self) -> BytesIO:
        """Return an empty file, which the application gets in place of the body."""
        return BytesIO()

    def close(self) -> None:
        """Do nothing: no bytes are kept."""


class ChunkedBody(ChunkedReceiver):
    """A chunked body (RFC 9112 7.1) with limits for chunk lines and trailers, read in time linear to its size."""

    error: BadRequest | None = None

    def received(self, data: bytes) -> int:
        """Process the bytes at the beginning of `data` that belong to this body; return their number."""
        if self.chunk_remainder >= len(data):
            return super().received(data)
        taken = 0
        while taken < len(data) and not self.completed and self.error is None:
            # Waitress copies the rest of its input at every chunk, so small pieces keep one-byte chunks cheap.
            taken += super().received(data[taken : taken + max(_RECEIVE_PIECE, self.chunk_remainder)])
        if len(self.control_line) > _CHUNK_LINE or len(self.trailer) > _TRAILER:
            self.error = BadRequest("A chunk line or trailer is too long")
        return taken


class IncomingRequest(HTTPRequestParser):
    """Parses one request while it arrives.

    `adj`: Waitress's settings, with two more: `max_stored_body`, the bytes of the largest body that is kept for the
    application, and `free_memory`, the bytes of the largest body that is kept without reserving memory from the shared
    budget `adj.memory`.
    """

    error: BadRequest | None = None
    body_rcv: Any = None
    too_large = False
    postponed = False  # no memory was left for this body
    _bad_field: str | None = None
    holder: object = None  # keeps the body of a request that was set aside
    unread = False  # the body was neither requested nor read, so the connection cannot be used again

    def __init__(self, adj: Any) -> None:
        super().__init__(adj)
        self.started = time.monotonic()
        self.part = MemoryReservation(adj.memory)

    @property
    def received_bytes(self) -> int:
        """The number of bytes received so far, header and body."""
        return self.header_bytes_received + self.body_bytes_received

    @property
    def discarded_bytes(self) -> int:
        """The size of a body that is not kept: the bytes counted so far, or the announced length if it was not read at
        all.
        """
        return self.content_length if self.unread else len(self.body_rcv)

    def received(self, data: bytes) -> int:
        """Process the bytes at the beginning of `data` that belong to this request; return their number."""
        taken = super().received(data)
        if self._bad_field is not None:
            self.error = BadField(self._bad_field)
        if not self.headers_finished:
            self._check_line_ends()
        elif self.body_rcv is not None:
            self._reserve_memory(len(self.body_rcv))
        if self.error is not None:
            self.expect_continue = False  # Waitress would request the body of a refused request
        return taken

    def _check_line_ends(self) -> None:
        # For Waitress neither would ever be complete, so answer now instead of waiting.
        if self.error is not None:
            return
        if b"\n\n" in self.header_plus:
            self.error, self.completed = BadRequest("Lines must end with CR LF"), True
        elif self.header_plus.startswith(_HANDSHAKE):
            self.error, self.completed = BadRequest("This port expects plain HTTP, but the client started TLS"), True

    def _reserve_memory(self, size: int) -> None:
        """Reserve memory for the `size` bytes of the body that have arrived, and for up to 1 MiB more.

        If there is not enough memory, or the body exceeds the limit, discard it. The announced length does not count:
        otherwise clients that announce large bodies and send nothing would block others.
        """
        most = self.adj.max_stored_body
        if size > most and not self.too_large:
            self.too_large, self.postponed = True, False
            self._discard(size)
        elif size > max(self.adj.free_memory, self.part.size) and not (self.too_large or self.postponed):
            ahead = min(size + _MEMORY_STEP, most if self.chunked else self.content_length)
            self.postponed = not (self.part.resize(ahead) or self.part.resize(size))
            if self.postponed:
                self._discard(size)
        if self._has_failed() and not (self.too_large or self.postponed):
            self.postponed = True
            self._discard(size)
        if self.completed and self.part.size:
            self.part.resize(size)

    def _has_failed(self) -> bool:
        """Whether the body could not be written to the disk. The client gets the same error as for a lack of memory."""
        body = self.body_rcv.getbuf()
        return isinstance(body, RequestBody) and body.has_failed

    def _discard(self, size: int) -> None:
        kept, self.body_rcv.buf = self.body_rcv.getbuf(), DiscardedBody(size)
        kept.close()
        self.part.resize(0)

    def parse_header(self, header_plus: bytes) -> None:
        """Parse the request line and the header, and choose how to read the body. Raises ParsingError."""
        try:
            super().parse_header(header_plus)
        except ParsingError:
            self._bad_field = _find_bad_field(header_plus)
            raise
        except ValueError as error:  # an IPv6 address without its bracket, a Content-Length of 5,000 digits
            raise ParsingError("The address or the Content-Length is invalid") from error
        self._check_framing(header_plus)
        self._choose_host()
        self._choose_body()

    def _check_framing(self, header: bytes) -> None:
        headers = self.headers
        if self.version not in ("1.0", "1.1"):
            raise ParsingError("The version must be HTTP/1.0 or HTTP/1.1")
        if "," in headers.get("HOST", "," if self.version == "1.1" else ""):
            raise ParsingError("There must be exactly one Host header field")  # RFC 9112 3.2
        # RFC 9112 6.1, 6.3: two declarations of a length allow requests to be smuggled past a proxy.
        if "TRANSFER_ENCODING" in headers or (self.chunked and "CONTENT_LENGTH" in headers):
            raise ParsingError("Transfer-Encoding cannot be used here")
        # RFC 9112 6.1: `chunked` may be applied at most once. Waitress accepts repetitions, and no other coding.
        codings = _CODINGS.findall(header)
        if codings and [coding.strip(b" \t").lower() for coding in codings] != [b"chunked"]:
            raise ParsingError("Transfer-Encoding must be `chunked`, exactly once")

    def _choose_host(self) -> None:
        """Use the host of an absolute URL in the request line instead of the Host field (RFC 9112 3.2.2). Raises
        ParsingError.
        """
        if self.proxy_scheme and not self.proxy_netloc:
            raise ParsingError("The address has no host")  # RFC 9110 4.2.1
        if self.proxy_netloc:
            self.headers["HOST"] = self.proxy_netloc

    def _choose_body(self) -> None:
        if self.chunked:
            self.body_rcv = ChunkedBody(RequestBody(self.adj.memory.folder))
        elif self.content_length == 0:
            self.expect_continue = False  # there is no body to continue with; Waitress would wait forever
        elif self._has_room(self.content_length):
            self.body_rcv = FixedStreamReceiver(self.content_length, RequestBody(self.adj.memory.folder))
        elif self.expect_continue:  # RFC 9110 10.1.1: the final response may come instead of 100
            self.expect_continue, self.unread, self.body_rcv = False, True, None
        else:
            self.body_rcv = FixedStreamReceiver(self.content_length, DiscardedBody())

    def _has_room(self, size: int) -> bool:
        self.too_large = size > self.adj.max_stored_body
        if not self.too_large and size > self.adj.free_memory:
            self.postponed = not self.part.resize(size)  # is enough free now?
            self.part.resize(0)
        return not (self.too_large or self.postponed)

    def close(self) -> None:
        """Drop the body and release its memory, unless the request was set aside. May be called repeatedly."""
        if self.holder is None:
            super().close()
            self.part.resize(0)


def _find_bad_field(header: bytes) -> str | None:
    """Return the name of the first field whose value has a forbidden character; None if there is none."""
    name = b""
    for line in header.split(b"\r\n")[1:]:
        is_folded = line[:1] in (b" ", b"\t")
        found, _, value = (name, b"", line) if is_folded else line.partition(b":")
        name = found
        if _CONTROLS.search(value) and _FIELD_NAME.fullmatch(name):
            return name[:_MAX_SHOWN_NAME].decode("ascii")
    return None


# --- Requests that wait, and responses that stay open ---


MOST_UNREAD = 64 * 1024


def may_wait(channel: Any) -> bool:
    """Whether a request may wait: its client is still connected, as far as is known, and the listener does not end."""
    return bool(channel.connected) and not (channel.will_close or channel.server.draining)


class Hold:
    """Keeps the next entry in the queue of a connection from being continued, until `release` is called."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._is_released = self._is_waiting = False

    def release(self) -> None:
        """Let a worker continue. May be called from any thread, and more than once."""
        with self._channel.requests_lock:
            is_next = self._is_waiting and not self._is_released
            self._is_released = True
            if is_next:
                self._channel.held = False
        if is_next:
            self._channel.server.resume(self._channel)

    def waits(self) -> bool:
        """Whether the entry must wait. The caller holds the lock of the queue; `release` queues the connection."""
        self._is_waiting = not self._is_released
        return self._is_waiting


class ResponseSink:
    """An open response, into which any thread writes whatever there is, until it ends it.

    No function blocks: what the client has not read waits in memory, and when that is too much, `is_ready` is False. A
    client that then reads nothing is disconnected after the listener's `request_timeout`.
    """

    def __init__(self, channel: Any, *, is_chunked: bool) -> None:
        self._channel, self._is_chunked, self.hold = channel, is_chunked, Hold(channel)

    @property
    def is_open(self) -> bool:
        """Whether the client is still connected, as far as is known, and the listener does not end."""
        return may_wait(self._channel)

    def is_ready(self) -> bool:
        """Whether the client has read enough of what was written to be sent more."""
        return bool(self._channel.total_outbufs_len <= MOST_UNREAD)

    def write(self, data: bytes) -> bool:
        """Send data, which must not be empty. Returns False if the client has disconnected, or no memory is left."""
        if not self.is_open:
            return False
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data
        try:
            self._channel.make_room(len(framed), waits=False)
            self._channel.write_soon(framed)
        except (ClientDisconnected, TooBusy):
            return False
        if self._channel.total_outbufs_len or self._channel.will_close:
            self._channel.server.ask(self._channel)
        return True

    def end(self) -> None:
        """End the response. May be called more than once."""
        self.hold.release()
