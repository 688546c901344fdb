"""What a process and its children take: memory, sampled while something runs, and processor time."""

import threading
from types import TracebackType
from typing import Self

import psutil

_MIB = 1 << 20


class MemoryWatch:
    """Notes every 50 ms what a process and its children take; `peak` is the highest sum of their RSS in MiB."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch")
        self.peak = 0.0
        self.peak_of_main = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            main, children = memory_of(self._process)
            self.peak, self.peak_of_main = max(self.peak, main + children), max(self.peak_of_main, main)


def memory_of(process: psutil.Process) -> tuple[float, float]:
    """The RSS of a process and that of its children, in MiB."""
    children = 0.0
    for child in process.children(recursive=True):
        try:
            children += child.memory_info().rss / _MIB
        except psutil.NoSuchProcess:  # it has just ended
            continue
    return process.memory_info().rss / _MIB, children


def seconds_of(pid: int) -> float:
    """The processor time that a process and its children that live have taken."""
    process = psutil.Process(pid)
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
