"""Send one HTTPS request and read its response, for external servers other than mail servers.

- The connection goes to the same IP address that was checked, and certificate names are always checked.
- Redirects are followed only if the caller asks for it. Each goes over HTTPS to a host that is checked like the first
  one, and does not get the body and the headers.
- The response is limited in length, and the whole exchange in time. A large request gets more time, by its size.
- Plain `http://` works only for private addresses, and callers must have checked the URL.
"""

import http.client
import io
import math
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import idna
import msgspec

from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.remote.errors import (
    SERVER_NAMES,
    RemoteFault,
    ServerName,
    disconnected_fault,
    malformed_fault,
    timeout_fault,
)
from mailbox_appliance.remote.net import connect
from mailbox_appliance.remote.net.channel import CHUNK, SLOWEST_RATE
from mailbox_appliance.remote.net.connect import AddressLookup, context_or_fault, tls_fault
from mailbox_appliance.version import __version__

T = TypeVar("T")
LONGEST_ANSWER = 1 << 16
_COURTESY = 1.0  # seconds for reading what nobody needs
LONGEST_UPLOAD = 600.0  # seconds that a large request gets in addition to the timeout
_REDIRECTS = (301, 302, 303, 307, 308)
# RFC 3986 2: characters of a target that are sent unchanged; all others are percent-encoded.
_TARGET = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True)
class HttpsOptions:
    """Options of a request.

    - server: the server's name for faults.
    - ca_file: file with additional CAs; may be empty.
    - timeout: seconds for the whole exchange; a large body adds to it.
    - only_public: whether only public addresses are allowed, as for hosts that the operator did not configure.
    - look_up: replaces the system's name lookup.
    - limit: the largest response in bytes.
    - on_connected: gets the socket before the TLS handshake, such as to end the request from another thread.
    """

    server: ServerName
    ca_file: str
    timeout: float
    only_public: bool = True
    look_up: AddressLookup | None = None
    limit: int = LONGEST_ANSWER
    on_connected: Callable[[socket.socket], object] | None = None


@dataclass(frozen=True)
class HttpsResponse:
    """A response with any status, also one for an error. The names of header fields are in lower case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def retry_after(self) -> float | None:
        """The seconds to wait from Retry-After (RFC 9110 10.2.3), at most an hour. None if it is missing or a date."""
        text = self.headers.get("retry-after", "")
        return min(float(text), 3600.0) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def decode(self, kind: type[T], server: ServerName) -> T:
        """Return the JSON of the body as this type. Raises RemoteFault (`malformed`) if it does not fit."""
        try:
            return decode_json(self.body, kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise malformed_fault(server) from error


def get(
    url: str, options: HttpsOptions, headers: Mapping[str, str] | None = None, *, redirects: int = 0
) -> HttpsResponse:
    """Send a GET request and return the response. `redirects`: how many redirects to follow. Raises RemoteFault."""
    until = time.monotonic() + options.timeout
    answer = _send_request("GET", url, options, headers or {}, b"", until)
    for _ in range(redirects):
        if answer.status not in _REDIRECTS or "location" not in answer.headers:
            break
        url = _redirect_target(url, answer.headers["location"], options.server)
        answer = _send_request("GET", url, options, {}, b"", until)
    return answer


def request(
    method: str, url: str, options: HttpsOptions, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> HttpsResponse:
    """Send a request and return the response. Redirects are not followed.

    Raises RemoteFault. If it is `in_doubt`, the server may have received the request.
    """
    return _send_request(
        method, url, options, headers or {}, body, time.monotonic() + seconds_allowed(options, len(body))
    )


def post_for_status(url: str, options: HttpsOptions, headers: Mapping[str, str], body: bytes) -> int:
    """Post a body, and return the status of the response. Redirects are not followed. Raises RemoteFault.

    Only the head of the response counts. The rest is read for a second at most, so that the server can finish sending
    it. At most `options.limit` bytes are read in all, and a large body gets no additional time.
    """
    until = time.monotonic() + options.timeout
    return _send_request("POST", url, options, headers, body, until, _read_status).status


def seconds_allowed(options: HttpsOptions, size: int) -> float:
    """Return the seconds that a request with a body of `size` bytes may take, including its response."""
    return options.timeout + min(size / SLOWEST_RATE, LONGEST_UPLOAD)


@dataclass(frozen=True)
class _ParsedUrl:
    """The parts of a URL, all in ASCII. `authority`: host and port for the Host field. `target`: path and query."""

    is_secure: bool
    host: str
    port: int
    authority: str
    target: str


def _parse_url(url: str, server: ServerName) -> _ParsedUrl:
    """Parse an http or https URL. Raises RemoteFault if it has no usable host, or contains a user name."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host = host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
        is_secure = parts.scheme == "https"
        if parts.scheme in ("https", "http") and "@" not in parts.netloc and host.isprintable() and host.strip():
            authority = (f"[{host}]" if ":" in host else host) + (f":{parts.port}" if parts.port else "")
            target = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_TARGET)
            return _ParsedUrl(is_secure, host, parts.port or (443 if is_secure else 80), authority, target)
    except (ValueError, UnicodeError):  # an invalid port; idna's errors are UnicodeErrors
        pass
    raise RemoteFault(server, "unreachable", f"The address of the {SERVER_NAMES[server]} server is none.")


def _redirect_target(url: str, location: str, server: ServerName) -> str:
    try:
        there = urljoin(url, location)
        if urlsplit(there).scheme == "https":
            return there
    except ValueError:
        pass
    raise _malformed_response(server, "redirects to a URL that is not allowed.")


def _send_request(
    method: str,
    url: str,
    options: HttpsOptions,
    headers: Mapping[str, str],
    body: bytes,
    until: float,
    read: Callable[[str, socket.socket, HttpsOptions, float], HttpsResponse] | None = None,
) -> HttpsResponse:
    place = _parse_url(url, options.server)
    whole = _request_head(method, place, headers, body) + body
    sock = _connect(place, options, until)
    is_sent = False
    try:
        last = (len(whole) - 1) // CHUNK * CHUNK
        _send(sock, whole[:last], options, until)
        is_sent = True  # From here on the server may have the whole request.
        _send(sock, whole[last:], options, until)
        return (read or _read_response)(method, sock, options, until)
    except (OSError, http.client.HTTPException, ValueError, RemoteFault) as error:
        fault = _to_fault(error, options.server)
        fault.in_doubt = is_sent
        raise fault from error
    finally:
        sock.close()


def _to_fault(error: Exception, server: ServerName) -> RemoteFault:
    if isinstance(error, RemoteFault):
        return error
    if isinstance(error, TimeoutError):
        return timeout_fault(server)
    return (
        disconnected_fault(server)
        if isinstance(error, OSError)
        else _malformed_response(server, "returned an invalid response.")
    )


def _connect(place: _ParsedUrl, options: HttpsOptions, until: float) -> socket.socket:
    sock = connect.open_connection(
        place.host,
        place.port,
        "tls" if place.is_secure else "none",
        max(0.001, until - time.monotonic()),
        server=options.server,
        only_public=options.only_public,
        find=options.look_up,
    )
    try:
        if place.is_secure:
            context = context_or_fault(options.server, options.ca_file)
            sock = context.wrap_socket(sock, server_hostname=place.host, do_handshake_on_connect=False)
        if options.on_connected is not None:
            options.on_connected(sock)
        sock.settimeout(_seconds_left(until))  # for the whole handshake
        if isinstance(sock, ssl.SSLSocket):
            sock.do_handshake()
        return sock
    except BaseException as error:
        sock.close()
        if isinstance(error, ssl.SSLError):
            raise tls_fault(options.server, error) from error
        if isinstance(error, OSError):
            raise _to_fault(error, options.server) from error
        raise


def _request_head(method: str, place: _ParsedUrl, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = {
        "Host": place.authority,
        "User-Agent": f"mailbox-appliance/{__version__}",
        "Accept": "application/json",
        "Connection": "close",
        **headers,
    }
    if body or method not in ("GET", "HEAD"):
        lines["Content-Length"] = str(len(body))
    head = [f"{method} {place.target} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items())]
    if not all(line.isascii() and line.isprintable() for line in head):
        raise ValueError("a header field has characters that none may have")
    return "\r\n".join([*head, "", ""]).encode("ascii")


def _send(sock: socket.socket, data: bytes, options: HttpsOptions, until: float) -> None:
    view = memoryview(data)
    for start in range(0, len(view), CHUNK):
        sock.settimeout(min(_seconds_left(until), options.timeout))
        sock.sendall(view[start : start + CHUNK])


class _Stream(io.RawIOBase):
    """Lets `http.client` read a response from a socket, until a time limit (`until`) and, if given, a size limit.

    `is_at_end`: the connection, or what may be read of it, has ended.
    """

    def __init__(self, sock: socket.socket, until: float, limit: float = math.inf) -> None:
        self._sock, self.until, self._left = sock, until, limit
        self.is_at_end = False

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return this stream. `http.client` calls this method on what it takes for a socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_seconds_left(self.until))
        most = min(len(buffer), self._left)
        count = self._sock.recv_into(buffer, int(most)) if most > 0 else 0
        self._left -= count
        self.is_at_end = not count
        return count


def _seconds_left(until: float) -> float:
    """Return the seconds until a time limit (`time.monotonic`). Raises TimeoutError if it has passed."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _read_response(method: str, sock: socket.socket, options: HttpsOptions, until: float) -> HttpsResponse:
    response = _read_head(method, _Stream(sock, until))
    body = response.read(options.limit + 1)
    if len(body) > options.limit:
        raise _malformed_response(options.server, "returned a response that is too long.")
    if response.length:
        raise _malformed_response(options.server, "ended the connection during its response.")
    return HttpsResponse(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def _read_status(method: str, sock: socket.socket, options: HttpsOptions, until: float) -> HttpsResponse:
    """Return a response without header fields and body, which may break the protocol."""
    stream = _Stream(sock, until, options.limit)
    response = _read_head(method, stream)
    stream.until = min(until, time.monotonic() + _COURTESY)
    try:
        while response.read(CHUNK):
            pass
    except (OSError, http.client.HTTPException, ValueError):
        pass
    return HttpsResponse(response.status, {}, b"")


def _read_head(method: str, stream: _Stream) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(stream, method=method)  # type: ignore[arg-type]  # it needs makefile() only
    response.begin()
    if stream.is_at_end:  # RFC 9112 8: a head that breaks off is not a response, but http.client returns it.
        raise ConnectionResetError
    return response


def _malformed_response(server: ServerName, what: str) -> RemoteFault:
    return RemoteFault(server, "malformed", f"The {SERVER_NAMES[server]} server {what}")
