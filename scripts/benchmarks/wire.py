"""A cheap HTTP client that asks for one path again and again over connections that are kept, as a process of its own.

It parses one answer per connection; the later ones are told by their length, which the paths asked for do not change.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Load:
    """What came of it. Latencies are in milliseconds."""

    rate: float  # answers a second
    p50: float
    p95: float
    p99: float


def load(url: str, path: str, *, connections: int, seconds: float, token: str = "") -> Load:
    """Ask from another process for so many seconds. Raises CalledProcessError where an answer is not a 200."""
    place = urlsplit(url)
    arguments = [str(place.hostname), str(place.port), path, str(connections), str(seconds)]
    command = [sys.executable, "-m", "benchmarks.wire", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "TOKEN": token})
    return Load(**json.loads(done.stdout))


class _Connection:
    """One connection with one request under way."""

    def __init__(self, address: tuple[str, int], request: bytes) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


def _run(host: str, port: int, path: str, connections: int, seconds: float) -> dict[str, float]:
    token = os.environ.get("TOKEN", "")
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\n{authorization}\r\n".encode()
    opened = [_Connection((host, port), request) for _ in range(connections)]
    by_number = {each.socket.fileno(): each for each in opened}
    poll = select.epoll()
    took: list[float] = []
    began = time.perf_counter()
    end = began + seconds
    for number, each in by_number.items():
        poll.register(number, select.EPOLLIN)
        each.ask()
    while (now := time.perf_counter()) < end:
        for number, _ in poll.poll(1):
            each = by_number[number]
            if each.read():
                took.append(time.perf_counter() - each.asked)
                each.ask()
    took.sort()
    points = {f"p{part}": took[min(len(took) - 1, len(took) * part // 100)] * 1000 for part in (50, 95, 99)}
    return {"rate": len(took) / (now - began), **points}


if __name__ == "__main__":
    host, port, path, connections, seconds = sys.argv[1:]
    print(json.dumps(_run(host, int(port), path, int(connections), float(seconds))))
