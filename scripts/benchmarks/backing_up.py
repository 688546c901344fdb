"""A backup of a large store while it serves; what it costs those who ask meanwhile, and what comes out of it again."""

import http.client
import itertools
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.asking import Asker, described, p95
from benchmarks.figures import Figure
from benchmarks.filling import filled
from benchmarks.options import OPTIONS
from benchmarks.questions import questions
from tests.servers.running import PASSWORD, RunningAppliance

_MESSAGES, _EACH = 1_000_000, 40
_A_SECOND, _CONNECTIONS, _PEACE = 50, 8, 20.0
_WARM = 20.0


def measure() -> Iterator[Figure]:
    """The same mixed requests at the same pace, before the backup and while it is made."""
    count = OPTIONS.scaled(_MESSAGES, least=20_000)
    running = filled(OPTIONS.cache, count)
    folder = running.folder
    shutil.rmtree(folder / "backups", ignore_errors=True)
    try:
        running.ask("PATCH", "/admin/settings", {"backup.daily": False})  # none but ours
        with Asker(running) as asker:
            paths = [path for kind in questions(asker, _EACH) for path in kind.paths]
            random.Random(3).shuffle(paths)
            sampled = paths[:: max(1, len(paths) // 60)]
            said = [asker.data(path) for path in sampled]
        with Paced(running, paths) as warm:
            time.sleep(_WARM)
        with Paced(running, paths) as peace:
            time.sleep(_PEACE)
        with Paced(running, paths) as meanwhile:
            made = running.ask("POST", "/admin/backups", {}, timeout=3600)
        assert made.status == 201, made
        steps = _steps_of(folder)
    finally:
        running.stop()
    file = folder / "backups" / made.data["fileName"]
    del warm
    yield Figure(
        f"p95 of {_A_SECOND} requests a second while a backup of {count:,} is made, over peace",
        p95(meanwhile.took) / p95(peace.took),
        2,
        "at most",
        "x",
        described(meanwhile.took),
        f"peace: {described(peace.took)}",
    )
    copied = _seconds_of_a_copy(folder / "mailbox.db")
    apart = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in steps.items())
    size = file.stat().st_size / 2**30
    yield Figure(
        f"copy step of a backup of {count:,} over cp",
        steps["copy"] / copied,
        3,
        "at most",
        "x",
        f"{size:.1f} GiB: {apart}",
        f"cp: {copied:.1f} s",
    )
    same = _answers_of_restored(folder, file, sampled) == said
    yield Figure(
        "answers of the restored store that are the same", float(same), 1, "at least", "", f"{len(sampled)} asked"
    )


class Paced:
    """Asks so many times a second, whatever the answers take; `took`: milliseconds from when each was due."""

    def __init__(self, running: RunningAppliance, paths: list[str]) -> None:
        self.took: list[float] = []
        self._running, self._paths = running, itertools.cycle(paths)
        self._taking, self._ended = threading.Lock(), threading.Event()
        self._next = time.perf_counter()
        self._threads = [threading.Thread(target=self._ask, name=f"paced-{n}") for n in range(_CONNECTIONS)]

    def __enter__(self) -> "Paced":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        place = urlsplit(self._running.url).netloc
        connection = http.client.HTTPConnection(place, timeout=60)
        fields = {"Authorization": f"Bearer {self._running.token}"}
        while not self._ended.is_set():
            with self._taking:
                due, path = self._next, next(self._paths)
                self._next += 1 / _A_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.request("GET", "/api/v1" + path, headers=fields)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f"GET {path}: {answer.status}")
            self.took.append((time.perf_counter() - due) * 1000)
        connection.close()


def _steps_of(folder: Path) -> dict[str, float]:
    """How long each step took, as the log tells."""
    import json

    for line in reversed((folder / "logs" / "appliance.log").read_text().splitlines()):
        record: dict[str, Any] = json.loads(line)
        if "copy_ms" in record:
            return {name.removesuffix("_ms"): record[name] / 1000 for name in record if name.endswith("_ms")}
    raise SystemExit("the log tells of no backup")


def _seconds_of_a_copy(file: Path) -> float:
    """Copying the file and putting the copy on the disk; the fastest of three."""
    target, took = file.with_name("copied"), []
    for _ in range(3):
        began = time.perf_counter()
        shutil.copyfile(file, target)
        with target.open("rb") as handle:
            os.fsync(handle.fileno())
        took.append(time.perf_counter() - began)
        target.unlink()
    return min(took)


def _answers_of_restored(folder: Path, backup: Path, paths: list[str]) -> list[Any]:
    target = folder.with_name("restored")
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "mailbox_appliance", "backup", "restore", str(backup), "--to", str(target)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    restored = RunningAppliance(target).start()
    try:
        login = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "bench"}
        restored.token = restored.ask("POST", "/auth/login", login).data["token"]
        with Asker(restored) as asker:
            return [asker.data(path) for path in paths]
    finally:
        restored.stop()
        shutil.rmtree(target, ignore_errors=True)
