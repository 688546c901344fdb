"""Long work, one job at a time, with its progress: backups, their verification, checks, a restore.

A second job is refused rather than queued, since each waiting request holds a worker.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from mailbox_appliance.errors import BrokenOff, StoreAtWork
from mailbox_appliance.model.backups import Progress

JobKind = Literal["backup", "daily_backup", "backup_verification", "restore", "store_check"]

#: The name of each kind in messages, at the beginning of a sentence.
_NAMES: dict[JobKind, str] = {
    "backup": "A backup",
    "daily_backup": "The daily backup",
    "backup_verification": "The verification of a backup",
    "restore": "A restore",
    "store_check": "A check of the store",
}


@dataclass(frozen=True)
class JobProgress:
    """The kind of a running job, its current step, and the progress of that step; 0 of 0 means unknown."""

    kind: JobKind
    step: str = ""
    done: int = 0
    total: int = 0

    @property
    def work(self) -> str:
        """The name of the job in messages. Programs compare `kind` instead."""
        return _NAMES[self.kind]


class ExclusiveJob:
    """The lock that every long job must hold."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._now: JobProgress | None = None
        self._stays = self._is_broken_off = False

    @property
    def current(self) -> JobProgress | None:
        """The running job and its progress, or None."""
        return self._now

    @contextmanager
    def run(self, kind: JobKind) -> Iterator[Progress]:
        """Hold the lock for one job and yield its progress callback. Raises StoreAtWork if another job holds it.

        The callback raises BrokenOff once `cancel` was called.
        """
        with self._guard:
            if self._now is not None:
                raise StoreAtWork(what=self._now.work)
            self._now = JobProgress(kind)
        try:
            yield lambda step, done, total: self._report(JobProgress(kind, step, done, total))
        finally:
            if not self._stays:
                self._now = None

    def never_release(self) -> None:
        """Keep the lock permanently, so that no other job can begin."""
        self._stays = True

    def cancel(self) -> None:
        """End the running job when it next reports progress, and every job that begins later as well."""
        self._is_broken_off = True

    def _report(self, now: JobProgress) -> None:
        if self._is_broken_off and not self._stays:
            raise BrokenOff(what=now.work)
        self._now = now


def ignore_progress(what: str, done: int, total: int) -> None:
    """Ignore a progress report."""
