"""Readers that wait for events, half of them streams and half long polls, as a process of its own.

It prints `ready` when all wait, reads until its input ends, and then prints one line of JSON: for each event, its type
and position, and after how many milliseconds each reader had it. The time of an event is that of its row in the
journal, which is written before its commit.
"""

import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from urllib.parse import urlsplit

_POSITION = re.compile(rb'"nextPosition":"([^"]+)"')
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_EVENT = re.compile(rb'"position":"([^"]+)","id":"evt_[^"]+","type":"([^"]+)","at":"([^"]+)"')


@dataclass(frozen=True)
class Told:
    """An event, and the milliseconds after which the readers had it."""

    type: str
    position: str
    late: Sequence[float]


class Readers:
    """The process, as those who start it see it. All wait from the moment at which the block begins."""

    def __init__(self, url: str, tokens: Sequence[str], count: int) -> None:
        command = [sys.executable, "-m", "benchmarks.waiting", url, str(count)]
        environment = {**os.environ, "TOKENS": " ".join(tokens)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit("the readers cannot wait")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()

    def stop(self) -> list[Told]:
        """End them; what they were told, in order."""
        told, _ = self._process.communicate(timeout=120)
        assert self._process.returncode == 0
        return [Told(**each) for each in json.loads(told)]


class _Reader:
    """A connection. `position`: where a long poll goes on; None for a stream."""

    def __init__(self, url: str, token: str, position: str | None) -> None:
        place = urlsplit(url)
        self._head = f"Host: {place.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
        self._position, self._rest, self.is_waiting = position, b"", position is not None
        self.socket = socket.create_connection((str(place.hostname), int(place.port or 80)), timeout=30)
        if position is None:
            self._send("/events/stream")
        else:
            self._poll()

    def _send(self, path: str) -> None:
        self.socket.sendall(f"GET /api/v1{path} HTTP/1.1\r\n{self._head}".encode())

    def _poll(self) -> None:
        self._send(f"/events?wait=30&after={self._position}")

    def read(self) -> bytes:
        """Take what has come, and poll again when an answer is complete; events are in it whole."""
        data = self.socket.recv(1 << 18)
        if not data or (not self._rest and not self.is_waiting and not data.startswith(b"HTTP/1.1 200 ")):
            raise SystemExit(f"a reader was let down: {data[:200]!r}")
        if self._position is None:
            self.is_waiting = True
            return data
        self._rest += data
        head, mark, body = self._rest.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not mark or length is None or len(body) < int(length[1]):
            return b""
        found = _POSITION.search(body)
        if not head.startswith(b"HTTP/1.1 200 ") or found is None:
            raise SystemExit(f"a reader was let down: {head!r}")
        self._rest, self._position = b"", found[1].decode()
        self._poll()
        return body


def _first_position(url: str, token: str) -> str:
    place = urlsplit(url)
    with socket.create_connection((str(place.hostname), int(place.port or 80)), timeout=30) as connection:
        request = f"GET /api/v1/events HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\n"
        connection.sendall(f"{request}Connection: close\r\n\r\n".encode())
        data = b"".join(iter(lambda: connection.recv(65536), b""))
    found = _POSITION.search(data)
    if found is None:
        raise SystemExit(f"no position: {data[:200]!r}")
    return found[1].decode()


def _read_all(url: str, tokens: Sequence[str], count: int) -> list[dict[str, object]]:
    position = _first_position(url, tokens[0])
    readers: dict[int, _Reader] = {}
    poll = select.epoll()
    for number in range(count):
        one = _Reader(url, tokens[number % len(tokens)], position if number % 2 else None)
        readers[one.socket.fileno()] = one
        poll.register(one.socket, select.EPOLLIN)
    poll.register(0, select.EPOLLIN | select.EPOLLHUP)
    had: list[tuple[float, bytes]] = []
    is_ready, is_over = False, False
    while not is_over:
        for number, _ in poll.poll(1):
            if number == 0:
                is_over = True
            else:
                data = readers[number].read()
                had.append((time.time(), data))
        if not is_ready and all(one.is_waiting for one in readers.values()):
            print("ready", flush=True)
            is_ready = True
    return _summed_up(had)


def _summed_up(had: Sequence[tuple[float, bytes]]) -> list[dict[str, object]]:
    told: dict[bytes, dict[str, object]] = {}
    for at, data in had:
        for found in _EVENT.finditer(data):
            new: dict[str, object] = {"type": found[2].decode(), "position": found[1].decode(), "late": []}
            late = told.setdefault(found[1], new)["late"]
            assert isinstance(late, list)
            late.append((at - datetime.fromisoformat(found[3].decode()).timestamp()) * 1000)
    return list(told.values())


if __name__ == "__main__":
    print(json.dumps(_read_all(sys.argv[1], os.environ["TOKENS"].split(), int(sys.argv[2]))))
