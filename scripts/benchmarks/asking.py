"""Requests over one connection that is kept, each timed from the first byte out to the last byte in."""

import http.client
import json
import statistics
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.servers.running import RunningAppliance


class Asker:
    """Asks one appliance for paths below /api/v1."""

    def __init__(self, running: RunningAppliance) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=60)
        self._fields = {"Authorization": f"Bearer {running.token}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def body(self, path: str) -> bytes:
        """The answer to GET, unread."""
        self._connection.request("GET", "/api/v1" + path, headers=self._fields)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise SystemExit(f"GET {path}: {answer.status} {content[:200]!r}")
        return content

    def data(self, path: str) -> Any:
        """The `data` of the answer to GET."""
        return json.loads(self.body(path))["data"]

    def milliseconds(self, paths: Iterable[str]) -> list[float]:
        """How long each took, one after the other."""
        took = []
        for path in paths:
            began = time.perf_counter()
            self.body(path)
            took.append((time.perf_counter() - began) * 1000)
        return took


def p95(values: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed."""
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)]


def described(values: Sequence[float], form: str = ".1f") -> str:
    """Median, p95 and the slowest, in milliseconds."""
    return f"median {statistics.median(values):{form}}, p95 {p95(values):{form}}, max {max(values):{form}} ms"
