"""A cheap HTTP client that asks for one path again and again over connections that are kept, as a process of its own.

It parses one answer per connection; the later ones are told by their length, which the paths asked for do not change.
Over https it takes any certificate, and the TLS version that it is told to.
"""

import json
import os
import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Load:
    """What came of it. Latencies are in milliseconds."""

    rate: float  # answers a second
    p50: float
    p95: float
    p99: float


def load(
    url: str, path: str, *, connections: int, seconds: float, token: str = "", tls: str = "1.3", kept: bool = True
) -> Load:
    """Ask from another process for so many seconds. Raises CalledProcessError where an answer is not a 200.

    `tls`: 1.2 or 1.3, where the URL is one of https. Not `kept`: a connection for each request, one after the other.
    """
    arguments = [url, path, str(connections if kept else 0), str(seconds), tls]
    command = [sys.executable, "-m", "benchmarks.wire", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "TOKEN": token})
    return Load(**json.loads(done.stdout))


class _Connection:
    """One connection with one request under way."""

    def __init__(self, address: tuple[str, int], request: bytes, context: ssl.SSLContext | None) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket)
        self._request = request
        self._length = self._left = self._first_length()

    def ask(self) -> None:
        """Send the request."""
        self.asked = time.perf_counter()
        self.socket.sendall(self._request)

    def read(self) -> bool:
        """Take what has come; True when the answer is complete."""
        data = self.socket.recv(65536)
        if not data or (self._left == self._length and not data.startswith(b"HTTP/1.1 200 ")):
            raise SystemExit(f"an answer that is no 200: {data[:60]!r}")
        self._left -= len(data)
        if self._left > 0:
            return False
        self._left = self._length
        return True

    def _first_length(self) -> int:
        self.ask()
        data = b""
        while b"\r\n\r\n" not in data:
            part = self.socket.recv(65536)
            if not part:
                raise SystemExit("the server hung up")
            data += part
        head, _, _ = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = len(head) + 4 + int(fields[b"content-length"])
        while len(data) < length:
            data += self.socket.recv(65536)
        return length


def _context(tls: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    version = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[tls]
    context.minimum_version = context.maximum_version = version
    return context


def _run(url: str, path: str, connections: int, seconds: float, tls: str) -> dict[str, float]:
    place, token = urlsplit(url), os.environ.get("TOKEN", "")
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    request = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: */*\r\n{authorization}\r\n".encode()
    address, context = (str(place.hostname), int(place.port or 80)), None
    if place.scheme == "https":
        context = _context(tls)
    began = time.perf_counter()
    if connections:
        opened = [_Connection(address, request, context) for _ in range(connections)]
        took, began = _over_kept(opened, seconds)
    else:
        took = _one_by_one(lambda: _Connection(address, request, context), seconds)
    rate = len(took) / (time.perf_counter() - began)
    took.sort()
    points = {f"p{part}": took[min(len(took) - 1, len(took) * part // 100)] * 1000 for part in (50, 95, 99)}
    return {"rate": rate, **points}


def _over_kept(opened: Sequence[_Connection], seconds: float) -> tuple[list[float], float]:
    """How long each answer took, and when it began."""
    by_number = {each.socket.fileno(): each for each in opened}
    poll = select.epoll()
    took: list[float] = []
    began = time.perf_counter()
    end = began + seconds
    for number, each in by_number.items():
        poll.register(number, select.EPOLLIN)
        each.ask()
    while time.perf_counter() < end:
        for number, _ in poll.poll(1):
            each = by_number[number]
            if each.read():
                took.append(time.perf_counter() - each.asked)
                each.ask()
    return took, began


def _one_by_one(connect: Callable[[], _Connection], seconds: float) -> list[float]:
    took: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        connect().socket.close()  # it has asked once
        took.append(time.perf_counter() - began)
    return took


if __name__ == "__main__":
    url, path, connections, seconds, tls = sys.argv[1:]
    print(json.dumps(_run(url, path, int(connections), float(seconds), tls)))
