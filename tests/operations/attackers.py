"""Those who try to get in from thousands of addresses, over real connections, and what each of them was told."""

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from queue import Empty, SimpleQueue
from typing import Any, Literal

from mailbox_appliance.operations.operation import Origin
from mailbox_appliance.operations.sessions import address_bucket
from mailbox_appliance.security.tokens import new_token

PASSWORD = "correct horse battery"
Aim = Literal["an email", "emails", "a network", "tokens"]
_NETWORK = int(IPv6Address("2001:db8:1:2::"))
#: Answers that say to wait longer than this are about a limit, others about the moment.
MOMENT = 1
#: Connections over which they come; an answer that takes long holds up one of them.
AT_ONCE = 16
_ONE_PEER = "192.0.2.77"


@dataclass(frozen=True)
class Try:
    """One request. `email` is None where it is a token that is tried."""

    aim: Aim
    path: str
    body: dict[str, str]
    peer: str

    @property
    def email(self) -> str | None:
        """Whose password is tried."""
        return self.body.get("email")

    @property
    def bucket(self) -> str:
        """What the address counts under."""
        return address_bucket(Origin(self.peer, is_local=False, is_secure=True))


@dataclass(frozen=True)
class Told:
    """What came of one: a status, or 0 where the connection was lost; and the seconds that it was told to wait."""

    tried: Try
    status: int
    retry_after: int


def tries(chance: random.Random, count: int, victim: str, members: Sequence[str]) -> Iterator[Try]:
    """So many, of all kinds, in random order."""
    strangers = [f"m{number}@example.org" for number in range(count // 20)]
    for number in range(count):
        peer = str(IPv4Address("198.18.0.0") + number)
        aim: Aim = chance.choices(("an email", "emails", "a network", "tokens"), (3, 4, 2, 1))[0]
        if aim == "an email":
            yield _log_in(aim, victim, peer, PASSWORD if chance.random() < 0.1 else "wrong")
        elif aim == "emails":
            yield _log_in(aim, chance.choice([*members, *strangers]), peer, "wrong")
        elif aim == "a network":
            peer = str(IPv6Address(_NETWORK + chance.getrandbits(64)))
            yield _log_in(aim, f"n{number}@example.org", peer, "wrong")
        else:
            yield _token(chance)


def _log_in(aim: Aim, email: str, peer: str, password: str) -> Try:
    return Try(aim, "/auth/login", {"email": email, "password": password, "deviceName": "x"}, peer)


def _token(chance: random.Random) -> Try:
    path = chance.choice(("/auth/enroll", "/auth/password-reset", "/auth/console-links/redeem"))
    body = {"token": new_token("mbxi")}
    if "redeem" not in path:
        body |= {"password": "a password like any", "deviceName": "x"}
    return Try("tokens", path, body, _ONE_PEER)


class Connection:
    """A connection that is kept, and made anew where it was lost."""

    def __init__(self, netloc: Callable[[], str]) -> None:
        self._netloc = netloc
        self._open: http.client.HTTPConnection | None = None

    def ask(self, tried: Try) -> Told:
        """Send it once."""
        try:
            if self._open is None:
                self._open = http.client.HTTPConnection(self._netloc(), timeout=60)
            headers = {"Content-Type": "application/json", "Peer": tried.peer}
            self._open.request("POST", "/api/v1" + tried.path, json.dumps(tried.body), headers)
            response = self._open.getresponse()
            answer: Any = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            return Told(tried, 0, 0)
        if response.status == 429:
            assert answer["error"]["code"] == "too_many_attempts"
        return Told(tried, response.status, int(response.headers.get("Retry-After", "0")))

    def close(self) -> None:
        """Close it; the next request opens another."""
        if self._open is not None:
            self._open.close()
        self._open = None


class Pace:
    """So many a second, over all threads."""

    def __init__(self, rate: float) -> None:
        self._every, self._lock, self._next = 1 / rate, threading.Lock(), 0.0

    def keep(self) -> None:
        """Wait for one's turn."""
        with self._lock:
            self._next = max(self._next + self._every, time.monotonic())
            turn = self._next
        time.sleep(max(0.0, turn - time.monotonic()))


def attack(given: Sequence[Try], rate: float, netloc: Callable[[], str]) -> list[Told]:
    """Try all of them, so many a second; answers what each was told. Some who are told to come back do so at once."""
    waiting: SimpleQueue[Try] = SimpleQueue()
    for tried in given:
        waiting.put(tried)
    told: list[Told] = []
    pace = Pace(rate)

    def go_on() -> None:
        connection = Connection(netloc)
        while True:
            try:
                tried = waiting.get_nowait()
            except Empty:
                connection.close()
                return
            pace.keep()
            told.append(connection.ask(tried))
            if tried.aim != "emails" and told[-1].retry_after == MOMENT:
                waiting.put(tried)

    threads = [threading.Thread(target=go_on, name=f"attacker-{number}") for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told
