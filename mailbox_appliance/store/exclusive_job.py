"""Runs long jobs one at a time and reports their progress: backups, their verification, store checks, restores.

If a job is running, a second one is refused instead of queued, since a waiting request would occupy a worker thread.
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
    """The progress of a running job: its kind, the name of its current step, and how much of that step is done.

    `done` and `total` have the unit of the step, such as bytes or pages; if both are 0, the progress is unknown.
    """

    kind: JobKind
    step: str = ""
    done: int = 0
    total: int = 0

    @property
    def work(self) -> str:
        """The name of the job at the beginning of a sentence, such as "A backup". Programs compare `kind` instead."""
        return _NAMES[self.kind]


class ExclusiveJob:
    """Lock that allows only one long job at a time."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._now: JobProgress | None = None
        self._stays = self._is_broken_off = False
        #: Also called with the progress of the running job, if set.
        self.on_progress: Progress | None = None

    @property
    def current(self) -> JobProgress | None:
        """The running job and its progress, or None."""
        return self._now

    @contextmanager
    def run(self, kind: JobKind) -> Iterator[Progress]:
        """Context manager: hold the lock until the block ends, and yield the callback with which the job reports
        progress.

        Raises StoreAtWork if another job holds the lock. After `cancel` was called, the callback raises BrokenOff,
        which ends the job.
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
        """Keep the lock even after the running job has ended, so that no other job can begin."""
        self._stays = True

    def cancel(self) -> None:
        """End the running and all later jobs with BrokenOff when they next report. No effect after `never_release`."""
        self._is_broken_off = True

    def _report(self, now: JobProgress) -> None:
        if self._is_broken_off and not self._stays:
            raise BrokenOff(what=now.work)
        self._now = now
        if self.on_progress is not None:
            self.on_progress(now.step, now.done, now.total)


def ignore_progress(what: str, done: int, total: int) -> None:
    """Do nothing; a progress callback for callers that report no progress."""
