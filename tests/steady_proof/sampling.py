"""What a service holds over time: samples of memory, threads and open files, and the verdict on them."""

import csv
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import psutil

_MIB = 1 << 20
#: Growth that is always allowed, by field: MiB of memory, threads, files. Otherwise `RATIO` of the first quarter.
ALLOWED = {"rss": 5.0, "children_rss": 5.0, "threads": 2.0, "files": 5.0}
RATIO = 0.05
_JUDGED_SECONDS = 3600.0
_FEWEST = 8  # samples: two in each quarter


@dataclass(frozen=True)
class Sample:
    """One moment of a service and its child processes. Memory is RSS in MiB; times are in seconds."""

    at: float  # since the load began
    rss: float
    children_rss: float
    threads: int  # of the service and its children
    files: int  # open file descriptors of both, sockets included
    children: int
    cpu: float  # processor time used since the service started, children included
    store: float  # MiB of the database and its write-ahead log; grows by design
    requests: int
    refused: int
    failed: int


class Sampler:
    """Writes a sample into a CSV file each `every` seconds, in a thread of its own, until `stop`."""

    def __init__(self, pid: int, store: Path, file: Path, counts: Callable[[], tuple[int, int, int]], every: float):
        """`counts`: how many requests were made, refused by design, and failed."""
        self._process, self._store, self._file, self._counts, self._every = (
            psutil.Process(pid),
            store,
            file,
            counts,
            every,
        )
        self.samples: list[Sample] = []
        self.trouble: Exception | None = None
        self._began, self._ending = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")

    def start(self) -> "Sampler":
        """Begin; the load begins now."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End. Raises what ended the sampling before; a service that has ended is no error here."""
        self._ending.set()
        self._thread.join()
        if self.trouble is not None:
            raise self.trouble

    def _run(self) -> None:
        with self._file.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(field.name for field in fields(Sample))
            try:
                while not self._ending.wait(self._every):
                    taken = self._take()
                    if taken is None:
                        return
                    self.samples.append(taken)
                    writer.writerow(round(value, 2) for value in astuple(self.samples[-1]))
                    file.flush()
            except Exception as error:  # noqa: BLE001 - reported by `stop`
                self.trouble = error

    def _take(self) -> Sample | None:
        """None if the service has ended."""
        own = _taken(self._process)
        if own is None:
            return None
        children = [taken for child in _children(self._process) if (taken := _taken(child))]
        threads, files, cpu = (sum(one[place] for one in (own, *children)) for place in (1, 2, 3))
        store = sum(file.stat().st_size for file in self._store.parent.glob(f"{self._store.name}*"))
        return Sample(
            time.monotonic() - self._began,
            own[0] / _MIB,
            sum(child[0] for child in children) / _MIB,
            int(threads),
            int(files),
            len(children),
            cpu,
            store / _MIB,
            *self._counts(),
        )


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _taken(process: psutil.Process) -> tuple[int, int, int, float] | None:
    """RSS, threads, file descriptors and processor time; None for a process that has ended."""
    try:
        with process.oneshot():
            times = process.cpu_times()
            return process.memory_info().rss, process.num_threads(), process.num_fds(), times.user + times.system
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return None


@dataclass(frozen=True)
class Line:
    """One line of the verdict."""

    name: str
    first: float  # median of the first quarter of what is judged
    last: float  # median of its last quarter
    peak: float  # of the whole run
    end: float

    @property
    def holds(self) -> bool:
        """Whether the growth is within what is allowed."""
        return self.last - self.first <= max(ALLOWED[self.name], RATIO * self.first)

    def __str__(self) -> str:
        growth = f"{self.first:.1f} -> {self.last:.1f}"
        return f"{'holds' if self.holds else 'FAILS'}  {self.name}: {growth}, peak {self.peak:.1f}, end {self.end:.1f}"


def judge(samples: Sequence[Sample]) -> list[Line]:
    """Compare the first and the last quarter of the last hour, or of the last half of a run of less than two hours.

    Raises ValueError if there are too few samples to compare.
    """
    if not samples:
        raise ValueError("there is no sample")
    end = samples[-1].at
    judged = [sample for sample in samples if sample.at >= end - min(_JUDGED_SECONDS, end / 2)]
    if len(judged) < _FEWEST:
        raise ValueError(f"there are {len(judged)} samples to judge, and {_FEWEST} are needed")
    quarter = len(judged) // 4
    return [
        Line(
            name,
            statistics.median(getattr(sample, name) for sample in judged[:quarter]),
            statistics.median(getattr(sample, name) for sample in judged[-quarter:]),
            max(getattr(sample, name) for sample in samples),
            getattr(samples[-1], name),
        )
        for name in ALLOWED
    ]
