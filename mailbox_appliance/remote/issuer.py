"""Asks whoever issued a licence whether it is good: one request, one short answer.

    POST {verify_url}   {"token": "..."}   ->   200   {"valid": true}   or   {"valid": false}

HTTPS only, but for a server on this computer. Redirects are not followed, an answer has at most 64 KiB, and the whole
takes no longer than the timeout, however slowly it comes.
"""

import http.client
import io
import json
import socket
import ssl
import time
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from mailbox_appliance.remote import addresses
from mailbox_appliance.remote.faults import RemoteFault, disconnected, timed_out
from mailbox_appliance.remote.tls import context_for, tls_fault
from mailbox_appliance.version import __version__

_LONGEST_ANSWER = 1 << 16


def confirm(url: str, token: str, *, ca_file: str, timeout: float) -> bool:
    """Whether the issuer says that this licence is good. `url` is checked already. Raises RemoteFault."""
    place, until = urlsplit(url), time.monotonic() + timeout
    sock = _connected(place, ca_file, until)
    try:
        sock.settimeout(_left(until))
        sock.sendall(_request(place, token))
        return _verdict(_Answer(sock, until))
    except TimeoutError as error:
        raise timed_out("license") from error
    except OSError as error:
        raise disconnected("license") from error
    except (http.client.HTTPException, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _odd("gave no answer that could be read.") from error
    finally:
        sock.close()


class _Said(msgspec.Struct, frozen=True):
    valid: bool


class _Answer(io.RawIOBase):
    """What comes from a socket, up to a moment: it passes for a socket where an answer of HTTP is read."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until = sock, until

    def makefile(self, _mode: str) -> io.BufferedReader:
        """As `http.client` asks for it."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._until))
        return self._sock.recv_into(buffer)


def _left(until: float) -> float:
    """The seconds up to a moment. Raises TimeoutError after it."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _connected(place: SplitResult, ca_file: str, until: float) -> socket.socket:
    host, is_secure = place.hostname or "", place.scheme == "https"
    port = place.port or (443 if is_secure else 80)
    sock = addresses.connect(host, port, "tls" if is_secure else "none", _left(until), server="license")
    if not is_secure:
        return sock
    try:
        sock.settimeout(_left(until))  # for the whole handshake
        return context_for("license", ca_file).wrap_socket(sock, server_hostname=host)
    except BaseException as error:
        sock.close()
        if isinstance(error, ssl.SSLError):
            raise tls_fault("license", error) from error
        if isinstance(error, OSError):
            raise (timed_out if isinstance(error, TimeoutError) else disconnected)("license") from error
        raise


def _request(place: SplitResult, token: str) -> bytes:
    body = json.dumps({"token": token}).encode()
    target = (place.path or "/") + (f"?{place.query}" if place.query else "")
    head = (
        f"POST {target} HTTP/1.1\r\nHost: {place.netloc}\r\nUser-Agent: mailbox-appliance/{__version__}\r\n"
        "Accept: application/json\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _verdict(answer: _Answer) -> bool:
    response = http.client.HTTPResponse(answer, method="POST")  # type: ignore[arg-type]  # it needs makefile() only
    response.begin()
    if response.status != 200:
        raise _odd(f"answered with status {response.status}.")
    content = response.read(_LONGEST_ANSWER + 1)
    if len(content) > _LONGEST_ANSWER:
        raise _odd("gave a longer answer than we read.")
    if response.length:
        raise _odd("broke off in the middle of its answer.")
    return msgspec.json.decode(content, type=_Said).valid


def _odd(what: str) -> RemoteFault:
    return RemoteFault("license", "malformed", f"The licence server {what}")
