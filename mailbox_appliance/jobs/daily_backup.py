"""Makes a backup every day, and watches the free disk space. Warns operators of problems with both.

A backup is due 24 hours after the newest daily one. A backup whose date is in the future is ignored, because the clock
was wrong when it was made, or is wrong now. A failed backup is retried each hour. After each success, old daily backups
are removed. The first check comes a minute after the start, so that it does not slow the start down.
"""

import logging
from datetime import datetime, timedelta

from mailbox_appliance.clock import Clock, from_timestamp
from mailbox_appliance.errors import BackupNotMade, Problem, StoreAtWork
from mailbox_appliance.events import BackupFailed, BackupFinished, Events
from mailbox_appliance.jobs.periodic import PeriodicTask
from mailbox_appliance.model.backups import Backup, BackupTrouble, Progress
from mailbox_appliance.model.base import own_text
from mailbox_appliance.settings import Settings
from mailbox_appliance.store import files
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.backup.backups import is_in_future
from mailbox_appliance.store.exclusive_job import ExclusiveJob
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

_EVERY = 60.0  # seconds between two checks of the clock
_RETRY_SECONDS = 3600.0
_DAY, _STALE = timedelta(hours=24), timedelta(hours=48)


class DailyBackup(PeriodicTask):
    """Makes the daily backups, on a thread of its own. The first check comes a minute after the start."""

    def __init__(self, store: Store, settings: Settings, events: Events, clock: Clock, job: ExclusiveJob) -> None:
        self._store, self._settings, self._events, self._clock = store, settings, events, clock
        self._exclusive_job = job
        super().__init__("daily-backup", self.run_once, _EVERY, at_once=False)
        self._failed: str | None = None
        self._again_at = 0.0  # monotonic
        self._newest: datetime | None = None

    @property
    def trouble(self) -> BackupTrouble | None:
        """The problem with daily backups, if any.

        `failed` if the last attempt failed; `overdue` if the newest daily backup is older than 48 hours; otherwise
        None. Always None if daily backups are off.
        """
        if not self._settings.flag("backup.daily"):
            return None
        if self._failed is not None:
            return "failed"
        return "overdue" if self._age() > _STALE else None

    def warning(self) -> str | None:
        """Return a warning for operators if the last daily backup failed or is overdue, otherwise None."""
        trouble, failed = self.trouble, self._failed
        if trouble == "failed":
            return f"The daily backup failed. The appliance tries again every hour. {failed}"
        days = self._age().days
        if trouble is None:
            return None
        return own_text(
            "The newest daily backup is {days} days old. Check the log of the appliance for the cause.", days=days
        )

    def _age(self) -> timedelta:
        return timedelta() if self._newest is None else self._clock.now() - self._newest

    def run_once(self) -> None:
        """Make a backup if the newest daily one is at least 24 hours old. A failure is logged, and `warning()` reports
        it.
        """
        # a new appliance has no data to lose
        if not self._settings.flag("backup.daily") or not self._store.members.has_any():
            self._failed = None
            return
        self._newest = self._last_daily_backup()
        now = self._clock.now()
        if self._newest is not None and now - self._newest < _DAY:
            self._failed = None
            return
        if self._failed is None or self._clock.monotonic() >= self._again_at:
            self._make_backup()

    def _last_daily_backup(self) -> datetime | None:
        now = self._clock.now()
        made = (from_timestamp(one.created_at) for one in self._store.backups.list() if one.reason == "daily")
        return max((moment for moment in made if not is_in_future(moment, now)), default=None)

    def _make_backup(self) -> None:
        try:
            with self._exclusive_job.run("daily_backup") as progress:
                made = self._store.backups.create("daily", None, self._abort_when_stopping(progress))
                self._record_and_thin(made)
        except StoreAtWork:  # looked for again in a minute
            return
        except Problem as problem:
            if not self.is_stopping:
                log.error("daily_backup_failed", extra={"code": problem.code, "why": problem.message})
                self._record_failure(problem.message)
            return
        except Exception:
            log.exception("daily_backup_failed")
            self._record_failure("The log has the reason.")
            return
        self._failed, self._newest = None, from_timestamp(made.created_at)
        self._events.publish(BackupFinished(made.id))

    def _record_and_thin(self, made: Backup) -> None:
        with self._store.database.transaction(durable=True):
            self._store.audit.record(SYSTEM_ACTOR, "backup.create", ("backup", made.id))
            self._store.changes.record("backup.finished", made.id)
        keep = (self._settings.number(f"backup.keep_{period}") for period in ("daily", "weekly"))
        self._store.backups.prune(self._clock.now(), *keep)

    def _record_failure(self, reason: str) -> None:
        # Every member may read it in the status, and nobody there needs to know where the data directory is.
        self._failed = reason.replace(f"{self._store.folder}/", "")
        self._again_at = self._clock.monotonic() + _RETRY_SECONDS
        self._events.publish(BackupFailed(self._failed))
        # Last, since a full disk may be the reason.
        with self._store.database.transaction():
            self._store.changes.record("backup.failed", self._failed)

    def _abort_when_stopping(self, progress: Progress) -> Progress:
        def tell(what: str, done: int, total: int) -> None:
            if self.is_stopping:
                raise BackupNotMade(reason="the appliance is stopping.")
            progress(what, done, total)

        return tell


# --- Low disk space: logged when it begins and when it ends; `GET /status` warns of it in between ---


class DiskSpaceWatch(PeriodicTask):
    """Checks the free disk space every minute, and logs when it becomes low and when that ends. Has a thread of its
    own.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        super().__init__("store-watch", self.run_once, _EVERY)
        self._is_low = False

    def run_once(self) -> None:
        """Check the free disk space once, and log a change.

        The space counts as sufficient again only at a tenth above the limit, so that small changes are not logged
        repeatedly.
        """
        low = self._settings.number("store.low_space_mib")
        file, facts = self._store.folder / DATABASE_FILE, {"free_bytes": self._store.free_bytes}
        if not self._is_low and (warning := files.low_room_warning(file, low)):
            self._is_low = True
            log.warning("disk_space_low", extra=facts | {"why": warning})
        elif self._is_low and not files.low_room_warning(file, low + low // 10):
            self._is_low = False
            log.info("disk_space_recovered", extra=facts)
