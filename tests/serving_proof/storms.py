"""SIGHUP, other certificates, HTTPS off, on, moved and given another certificate, some hundred times under load.

Meanwhile clients ask over connections that are kept. Over HTTP none may fail; over HTTPS only those whose listener was
closed. At the end there are as many threads and open files as before, and no more memory.
"""

import http.client
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.serving_proof.asking import connection_to
from tests.serving_proof.swapping import Swapper

#: MiB by which the process may have grown: what allocators keep, not what each step would add.
MOST_GROWTH = 12.0
_KEPT, _MANY = 3, 24
_MIB = 1 << 20


@dataclass(frozen=True)
class Held:
    threads: int
    files: int  # but those of the store: a thread opens them when it first needs them
    memory: float  # MiB

    @classmethod
    def of(cls, running: RunningAppliance) -> "Held":
        assert running.process is not None
        process = psutil.Process(running.process.pid)
        of_store = sum("/mailbox.db" in opened.path for opened in process.open_files())
        return cls(process.num_threads(), process.num_fds() - of_store, process.memory_info().rss / _MIB)


class Kept:
    """A client that asks over one connection for as long as that stands, and then over another."""

    def __init__(self, url: Callable[[], str | None], token: str, pause: float = 0.01) -> None:
        self._url, self._token, self._pause = url, token, pause
        self.asked = self.closed = 0
        self.failures: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kept")
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            if (url := self._url()) is None:
                self._ending.wait(0.02)
                continue
            connection = connection_to(url, 20)
            try:
                self._go_on(connection)
            except (OSError, http.client.HTTPException) as error:
                self.closed += 1
                if url == self._url():
                    self.failures.append(f"{type(error).__name__}: {error}")
            finally:
                connection.close()

    def _go_on(self, connection: http.client.HTTPConnection) -> None:
        while not self._ending.wait(self._pause):
            connection.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {self._token}"})
            response = connection.getresponse()
            response.read()
            self.asked += 1
            if response.status != 200:
                self.failures.append(f"status {response.status}")
            if response.will_close:
                raise http.client.RemoteDisconnected("as it said")


class Storm:
    """Who does all this, one step after the other."""

    def __init__(self, running: RunningAppliance, seed: int) -> None:
        self._running, self._chance = running, random.Random(seed)
        self.done: Counter[str] = Counter()
        #: Where HTTPS is offered, and not about to be offered elsewhere.
        self.secure: str | None = None
        self._set(enabled=True, port=0, host="127.0.0.1")
        self._swapper = Swapper(running.folder, seed, 1.0)

    def step(self) -> None:
        steps: dict[str, Callable[[], None]] = {
            "reload": self._reload,
            "swap": self._swapper.swap,
            "off and on": self._off_and_on,
            "move": lambda: self._set(port=0, host=self._chance.choice(("127.0.0.1", "127.0.0.2"))),
            "rotate": self._rotate,
        }
        name = self._chance.choices(list(steps), (4, 1, 3, 2, 2))[0]
        steps[name]()
        self.done[name] += 1

    def _set(self, **change: object) -> None:
        """Change HTTPS; clients learn where it is then."""
        self.secure = None
        answer = self._running.ask("PATCH", "/admin/https", change)
        assert answer.status == 200, answer
        self.secure = answer.data["url"]

    def _off_and_on(self) -> None:
        self._set(enabled=False)
        time.sleep(self._chance.uniform(0, 0.05))
        self._set(enabled=True)

    def _reload(self) -> None:
        assert self._running.process is not None
        for _ in range(self._chance.choice((1, 1, 5))):
            self._running.process.send_signal(signal.SIGHUP)

    def _rotate(self) -> None:
        answer = self._running.ask("POST", "/admin/https/rotate", {})
        assert answer.status == 200, answer


@dataclass(frozen=True)
class Outcome:
    done: Counter[str]
    before: Held
    after: Held
    asked: tuple[int, int]  # over HTTP, over HTTPS
    closed: int

    def __str__(self) -> str:
        done = ", ".join(f"{count} x {name}" for name, count in self.done.most_common())
        return (
            f"{done}\n  {self.asked[0]} requests over kept HTTP connections, {self.asked[1]} over HTTPS, of which"
            f" {self.closed} connections were closed with their listener\n  before {self.before}\n  after  {self.after}"
        )


def play(folder: Path, seed: int, count: int) -> Outcome:
    """So many changes. Raises AssertionError."""
    running = RunningAppliance(folder).start()
    try:
        running.set_up()
        outcome = _stormed(running, seed, count)
        assert running.stop() == 0
        return outcome
    finally:
        if running.process is not None and running.process.poll() is None:
            running.kill()


def _warm(running: RunningAppliance, storm: Storm, count: int) -> None:
    """What is made once is there then: each worker has opened its files."""
    clients = [Kept(lambda: running.url, running.token or "", pause=0) for _ in range(_MANY)]
    for _ in range(count):
        storm.step()
    for client in clients:
        client.stop()
    time.sleep(1)


def _stormed(running: RunningAppliance, seed: int, count: int) -> Outcome:
    storm = Storm(running, seed)
    _warm(running, storm, max(5, count // 5))
    before = Held.of(running)
    plain = [Kept(lambda: running.url, running.token or "") for _ in range(_KEPT)]
    secure = [Kept(lambda: storm.secure, running.token or "") for _ in range(_KEPT)]
    try:
        for _ in range(count):
            storm.step()
    finally:
        for client in (*plain, *secure):
            client.stop()
    failures = [failure for client in (*plain, *secure) for failure in client.failures]
    assert not failures, f"{len(failures)} requests failed on kept connections: {failures[:5]}"
    assert not sum(client.closed for client in plain), "HTTP connections were closed"
    wait_until(lambda: Held.of(running).threads <= before.threads, lambda: f"{before} became {Held.of(running)}", 40)
    wait_until(lambda: Held.of(running).files <= before.files, lambda: f"{before} became {Held.of(running)}", 10)
    after = Held.of(running)
    assert after.memory - before.memory < MOST_GROWTH, f"{before} became {after}"
    asked = sum(client.asked for client in plain), sum(client.asked for client in secure)
    return Outcome(storm.done, before, after, asked, sum(client.closed for client in secure))
