"""Asks `GET /me` over and over, in a process of its own, until its input ends; then prints how long the answers took.

While it waits for an answer it asks nothing. Who would have come meanwhile counts as well, with the rest of that wait:
else a long wait would be one among many answers, and a server that stands still most of the time would seem quick.

Arguments: host:port, or an https URL, of which any certificate is taken; and a token. The output is JSON: count, and
median, p95 and worst in milliseconds.
"""

import http.client
import json
import select
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.servers.certificates import any_certificate

_EVERY = 0.004


@dataclass(frozen=True)
class Latency:
    """How long answers took, in milliseconds."""

    count: int
    median: float
    p95: float
    worst: float


class Prober:
    """The process, as those who start it see it."""

    def __init__(self, place: str, token: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.prober", place, token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> Latency:
        """End it; answers what it measured."""
        told, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        return Latency(**json.loads(told))


def _connection(place: str) -> http.client.HTTPConnection:
    if not place.startswith("https:"):
        return http.client.HTTPConnection(place, timeout=30)
    return http.client.HTTPSConnection(urlsplit(place).netloc, timeout=30, context=any_certificate())


def probe(place: str, token: str) -> Latency:
    """Ask until the input ends."""
    connection = _connection(place)
    times: list[float] = []
    while not times or not select.select([sys.stdin], [], [], _EVERY)[0]:
        began = time.perf_counter()
        connection.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        assert response.read()
        assert response.status == 200, response.status
        waited = time.perf_counter() - began
        while waited > 0:
            times.append(waited * 1000)
            waited -= _EVERY
    times.sort()
    return Latency(len(times), statistics.median(times), times[len(times) * 95 // 100], times[-1])


if __name__ == "__main__":
    print(json.dumps(vars(probe(*sys.argv[1:3]))))
