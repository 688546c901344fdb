"""Crowds of bad clients, in a process of their own, that stand until they are told to go; who is closed comes back.

    silent        connects and says nothing: at a TLS port, a handshake that is never begun
    half-hello    the first half of a ClientHello, then a byte a second
    garbage       what is neither TLS nor HTTP
    slow-header   a request whose header goes on for ever, a byte a second
    slow-body     a request with a body of 25 MB, a byte a second
    slow-reader   asks for something large and reads nothing

Over https the last three are behind a handshake that is done. With many sources each client has an address of its own
below 127.7.0.0/16, or shares it with few, so that no bound on a peer hides what they do; with one all come from
127.0.0.1, as the good clients do. Arguments of the program: one JSON object, `vars` of `Plan`. It says a line when all
have come, and ends with its input, with what it saw on another line.
"""

import json
import random
import select
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.servers.certificates import any_certificate

_PATIENCE = 60.0
_TURN, _DRIP = 0.05, 1.0
_COMES_BACK = (5.0, 15.0)  # seconds after it was closed: more of them is a flood, which this is not
_BURST = 40  # handshakes that are begun at a time, as this process does them all alone


@dataclass(frozen=True)
class Plan:
    """Who comes where: how many of each manner, from how many addresses; what the slow readers ask for, and as whom."""

    url: str
    members: Mapping[str, int]
    sources: int = 1
    path: str = "/api/v1/"
    token: str = ""
    seed: int = 1


@dataclass(frozen=True)
class Seen:
    """What became of them: connections that stood, those that the server closed, and the statuses it answered."""

    opened: int
    closed: int
    refused: int
    statuses: Mapping[str, int]

    def __str__(self) -> str:
        told = ", ".join(f"{count} x {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.opened} connections, {self.closed} closed by the server, {self.refused} refused; told {told or '-'}"
        )


class Crowd:
    """The process, as those who start it see it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.seen: Seen | None = None

    def __enter__(self) -> Self:
        """Return when all have come once."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.crowd", json.dumps(vars(self._plan))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise AssertionError(f"the crowd did not come: {self._process.wait(60)}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        told, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        self.seen = Seen(**json.loads(told))


# --- the program ------------------------------------------------------------------------------------------------------


class _Client:
    """One bad client, through all its connections."""

    def __init__(self, crowd: "_Program", manner: str, source: str | None) -> None:
        self._crowd, self._manner, self._source = crowd, manner, source
        self._is_secure = crowd.context is not None and manner.startswith("slow")
        self._socket: socket.socket | None = None
        self._act: Callable[[], None] = self._finish_connecting
        self._rest = b""
        self.due = 0.0
        self.has_come = False

    def turn(self, now: float) -> None:
        """Connect where there is no connection, else say the next byte."""
        if self._socket is None:
            self._connect()
        elif self._act == self._read:
            self.due = now + _DRIP
            self._say(self._next_byte())
        else:  # it is still getting in
            self.due = now + _DRIP

    def ready(self) -> None:
        """The socket has something for us."""
        try:
            self._act()
        except (ssl.SSLWantReadError, BlockingIOError):
            self._watch(select.EPOLLIN)
        except ssl.SSLWantWriteError:
            self._watch(select.EPOLLOUT)
        except OSError:
            self._lost()

    def _connect(self) -> None:
        made = socket.socket()
        made.setblocking(False)
        if self._manner == "slow-reader":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if self._source:
            made.bind((self._source, 0))
        self._socket, self._act, self.due = made, self._finish_connecting, time.monotonic() + _DRIP
        self._crowd.by_number[made.fileno()] = self
        self._crowd.poll.register(made.fileno(), select.EPOLLOUT)
        made.connect_ex(self._crowd.address)

    def _finish_connecting(self) -> None:
        assert self._socket is not None
        if number := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._crowd.refused += 1
            raise OSError(number, "refused")
        if self._is_secure:
            assert self._crowd.context is not None
            plain = self._socket
            self._socket = self._crowd.context.wrap_socket(plain, do_handshake_on_connect=False)
            self._act = self._shake_hands
            self._shake_hands()
        else:
            self._begin()

    def _shake_hands(self) -> None:
        assert isinstance(self._socket, ssl.SSLSocket)
        self._socket.do_handshake()
        self._begin()

    def _begin(self) -> None:
        self._crowd.opened += 1
        self.has_come, self._act = True, self._read
        self._rest = self._crowd.words[self._manner]
        self._watch(0 if self._manner == "slow-reader" else select.EPOLLIN)
        said, self._rest = self._rest[:-1], self._rest[-1:]
        if self._manner == "half-hello":
            said, self._rest = (said + self._rest)[:100], (said + self._rest)[100:-1]
        self.due = time.monotonic() + _DRIP * self._crowd.chance.random()
        self._say(said)

    def _next_byte(self) -> bytes:
        """A byte more; what has no end ends in its last byte for ever."""
        if self._manner in ("silent", "garbage", "slow-reader"):
            return b""
        if self._manner == "half-hello":
            byte, self._rest = self._rest[:1], self._rest[1:]
            return byte
        return self._rest

    def _say(self, said: bytes) -> None:
        if said and self._socket is not None:
            try:
                self._socket.send(said)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                pass
            except OSError:
                self._lost()

    def _read(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError
        if data.startswith(b"HTTP/1.1 "):
            self._crowd.statuses[data[9:12].decode("latin-1")] += 1

    def _watch(self, events: int) -> None:
        assert self._socket is not None
        self._crowd.poll.modify(self._socket.fileno(), events)

    def _lost(self) -> None:
        if self._socket is None:
            return
        self._crowd.closed += 1
        del self._crowd.by_number[self._socket.fileno()]
        self._socket.close()
        self._socket = None
        self.due = time.monotonic() + self._crowd.chance.uniform(*_COMES_BACK)


class _Program:
    """All of them, in one thread."""

    def __init__(self, plan: Plan) -> None:
        place = urlsplit(plan.url)
        self.address = str(place.hostname), int(place.port or 0)
        self.chance, self.poll = random.Random(plan.seed), select.epoll()
        self.by_number: dict[int, _Client] = {}
        self.opened = self.closed = self.refused = 0
        self.statuses: Counter[str] = Counter()
        self.context = any_certificate() if place.scheme == "https" else None
        self.words = _words(place.netloc, plan)
        manners = [manner for manner, count in plan.members.items() for _ in range(count)]
        self.chance.shuffle(manners)
        self._clients = [
            _Client(self, manner, _source(number % plan.sources) if plan.sources > 1 else None)
            for number, manner in enumerate(manners)
        ]

    def run(self) -> Seen:
        self.poll.register(sys.stdin.fileno(), select.EPOLLIN)
        until, has_told = time.monotonic() + _PATIENCE, False
        while True:
            for number, _ in self.poll.poll(_TURN):
                if number == sys.stdin.fileno():
                    return Seen(self.opened, self.closed, self.refused, self.statuses)
                if number in self.by_number:
                    self.by_number[number].ready()
            self._turn()
            if not has_told and all(client.has_come for client in self._clients):
                has_told = True
                print("all have come", flush=True)
            elif not has_told and time.monotonic() > until:
                raise SystemExit(f"{sum(not client.has_come for client in self._clients)} did not get in")

    def _turn(self) -> None:
        now, left = time.monotonic(), _BURST
        for client in self._clients:
            if client.due <= now and left:
                left -= not client.has_come
                client.turn(now)


def _words(netloc: str, plan: Plan) -> dict[str, bytes]:
    """What each manner says at once; its last byte comes later, again and again."""
    host = f"Host: {netloc}\r\n"
    authorized = f"{host}Authorization: Bearer {plan.token}\r\n"
    body = f"{host}Content-Type: application/json\r\nContent-Length: 25000000\r\n\r\n"
    return {
        "silent": b"",
        "half-hello": _client_hello(),
        "garbage": b"\x00\xff\r\n" * 20,
        "slow-header": f"GET /api/v1/me HTTP/1.1\r\n{host}Slow: aa".encode(),
        "slow-body": f'POST /api/v1/auth/login HTTP/1.1\r\n{body}{{"email": "aa'.encode(),
        "slow-reader": f"GET {plan.path} HTTP/1.1\r\n{authorized}\r\n ".encode(),
    }


def _client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    try:
        any_certificate().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def _source(number: int) -> str:
    return f"127.7.{number // 250}.{number % 250 + 1}"


if __name__ == "__main__":
    print(json.dumps(vars(_Program(Plan(**json.loads(sys.argv[1]))).run())))
