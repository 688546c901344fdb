"""Long work, one job at a time, with its progress: backups, their verification, checks, a restore.

A second job is refused rather than queued, since each waiting request holds a worker.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mailbox_appliance.errors import BrokenOff, StoreAtWork
from mailbox_appliance.model.backups import Progress


@dataclass(frozen=True)
class JobProgress:
    """What is being done: the whole, as `A backup`, and of its present step so much out of so much; 0 of 0: unknown."""

    work: str
    step: str = ""
    done: int = 0
    total: int = 0


class ExclusiveJob:
    """The one place that any long work must hold."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._now: JobProgress | None = None
        self._stays = self._is_broken_off = False

    @property
    def current(self) -> JobProgress | None:
        """What is under way, if anything is."""
        return self._now

    @contextmanager
    def run(self, work: str) -> Iterator[Progress]:
        """Take the place for some work; gives what is to be told of its progress. Raises StoreAtWork where it is taken.

        `work` begins a sentence: `A backup`. Telling of progress raises BrokenOff once all work is broken off.
        """
        with self._guard:
            if self._now is not None:
                raise StoreAtWork(what=self._now.work)
            self._now = JobProgress(work)
        try:
            yield lambda step, done, total: self._report(JobProgress(work, step, done, total))
        finally:
            if not self._stays:
                self._now = None

    def never_release(self) -> None:
        """What is under way stays so: nothing else begins here any more."""
        self._stays = True

    def cancel(self) -> None:
        """Have what is under way end when it next tells how far it is, and whatever is begun afterwards as well."""
        self._is_broken_off = True

    def _report(self, now: JobProgress) -> None:
        if self._is_broken_off and not self._stays:
            raise BrokenOff(what=now.work)
        self._now = now


def ignore_progress(what: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""
