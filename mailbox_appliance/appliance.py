"""The parts, assembled: all that an operation may use, made in one place, started in order, stopped in reverse."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from mailbox_appliance import logs, settings
from mailbox_appliance import settings as settings_table
from mailbox_appliance.clock import Clock, SystemClock
from mailbox_appliance.concurrency import WorkerLimits
from mailbox_appliance.errors import LogInsBusy, ServersBusy, WorkersBusy
from mailbox_appliance.events import AccountReconnected, AccountRemoved, DeliveryScheduled, DeliverySettled, Events
from mailbox_appliance.jobs.daily_backup import DailyBackup, DiskSpaceWatch
from mailbox_appliance.jobs.licence_check import LicenceCheck
from mailbox_appliance.jobs.memory_trim import MemoryTrimmer
from mailbox_appliance.jobs.sender_addresses import SenderAddressRefresher
from mailbox_appliance.mailbox.after_send import PostSendTasks
from mailbox_appliance.mailbox.attachments import AttachmentFetcher, BodyFetcher
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.mailbox.drafts import Drafts
from mailbox_appliance.metrics import Counters
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.model.decoding import prepare_types
from mailbox_appliance.oauth.environment import EnvironmentApps
from mailbox_appliance.oauth.flows import Flows
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote.net.calls import RemoteCalls
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.reconcile import Reconciler
from mailbox_appliance.sending.scheduler import Scheduler
from mailbox_appliance.sending.sent_copies import SentMailTask
from mailbox_appliance.sending.worker import Sender
from mailbox_appliance.settings import Settings, Value
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.exclusive_job import ExclusiveJob
from mailbox_appliance.store.maintenance.cleanup import CleanupLimits
from mailbox_appliance.store.restore.restore import PreparedRestore
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.html_readers import HtmlReaders
from mailbox_appliance.sync.supervisor import Supervisor

if TYPE_CHECKING:
    from mailbox_appliance.tls.inspect import CertificateFacts


SETUP_CODE = "setup-code"
_RETRY_AFTER = 5
_HTTPS_SETTINGS = ("server.https", "server.https_port", "server.https_host", "server.hsts_days")
# A password takes some hundredths of a second.
_HASHING_RETRY_AFTER = 1
_SYNC_STOP_SECONDS = 2.0


class HttpsControl(Protocol):
    """Who serves offers HTTPS, as the settings and the files of the certificate say."""

    @property
    def url(self) -> str | None:
        """Where it answers, as this computer reaches it; None where HTTPS is not offered."""

    @property
    def trouble(self) -> str | None:
        """What an operator should see to, as a sentence: it is asked for and not offered, or its files do not fit."""

    @property
    def certificate(self) -> "CertificateFacts | None":
        """The certificate that clients see; None where HTTPS is not offered."""

    def apply(self) -> None:
        """Open, move or close the listener as the settings say now, and take the certificate that is there now.

        What is under way on an old listener is still answered. Raises HttpsNotOffered; then all is as it was.
        """


class Appliance:
    """An open store and those who work on it."""

    def __init__(
        self,
        folder: Path,
        settings: Settings | None = None,
        clock: Clock | None = None,
        key_file: Path | None = None,
        oauth_apps: EnvironmentApps | None = None,
        passphrase: str | None = None,
        store: Store | None = None,
    ) -> None:
        """Open the store of a data directory; nothing works yet. The key may lie elsewhere. Raises StoreUnusable.

        `passphrase`: of the key, where it is locked by one. `oauth_apps`: those that the environment gives, which rule
        over what is stored. `store`: where it is open already.
        """
        prepare_types()
        self.folder = folder
        self.environment_oauth_apps: EnvironmentApps = oauth_apps or {}
        #: Where the appliance answers on its own computer; the one who listens says so.
        self.local_url = "http://127.0.0.1:8025"
        #: Shows that somebody on this computer is its operator; new at each start, None where nobody serves.
        self.operator_secret: str | None = None
        #: What takes long is done one at a time.
        self.exclusive_job = ExclusiveJob()
        #: Who serves lets a prepared restore take this one's place, on behalf of somebody; None where nobody serves.
        self.start_restore: Callable[[PreparedRestore, Actor], None] | None = None
        #: The HTTPS listener; None where nobody serves.
        self.https: HttpsControl | None = None
        self.settings = settings or settings_table.load(environment={})
        self.clock = clock or SystemClock()
        self.events = Events()
        self.counters = Counters(self.events)
        self.store = store or Store.open(folder, self.clock, key_file, passphrase=passphrase)
        #: Held from storing a change of settings until it has taken effect, or was put back: one at a time.
        self.settings_lock = threading.RLock()
        self._load_stored_settings()
        self.store.cleaner.get_limits = self._cleanup_limits
        #: What every connection to a mailbox's servers is opened with.
        self.logins = Logins(self.store, self.settings, self.clock, self.environment_oauth_apps)
        #: Sign-ins at providers that somebody has begun.
        self.flows = Flows(self.logins, self.clock)
        sending = SendingContext(self.store, self.logins, self.settings, self.events, self.clock)
        self.sender = Sender(sending)
        #: Calls of other servers that requests wait for.
        self.calls = RemoteCalls()
        self.connections = Connections(self.logins, self.settings, self.calls)
        self.events.subscribe(AccountRemoved, lambda event: self.connections.drop(event.account_id))
        self.events.subscribe(AccountRemoved, lambda event: self.logins.remove_account(event.account_id))
        self.events.subscribe(AccountReconnected, lambda event: self.connections.drop(event.account_id))
        self.attachment_fetcher = AttachmentFetcher(self.store, self.connections, self.settings, self.events)
        workers, waiting = (self.settings.number(f"server.{name}") for name in ("workers", "waiting_workers"))
        #: Reads HTML for requests. Half of the workers may read bodies; of these, one is always quick.
        self.html_readers = HtmlReaders(workers // 2 - 1)
        self.body_fetcher = BodyFetcher(
            self.store, self.connections, self.attachment_fetcher, self.html_readers.for_request
        )
        self.drafts = Drafts(self.connections, self.store, self.events)
        self.sent_mail = SentMailTask(sending, self.sender.is_sending)
        self.post_send_tasks = PostSendTasks(self.store, self.connections, self.drafts, self.events, self.clock)
        lend = partial(self.connections.borrow, in_background=True)
        self.reconciler = Reconciler(sending, lend)
        tasks = (self.reconciler, self.sent_mail, self.post_send_tasks)
        self.scheduler = Scheduler(sending, self.sender.begin_due, tasks)
        self.events.subscribe(DeliveryScheduled, lambda _: self.scheduler.wake())
        self.events.subscribe(DeliverySettled, lambda _: self.scheduler.wake())
        self.events.subscribe(AccountReconnected, lambda _: self.scheduler.wake())
        self.licence_check = LicenceCheck(self.store, self.settings, self.clock)
        self.disk_space_watch = DiskSpaceWatch(self.store, self.settings)
        self.sender_address_refresher = SenderAddressRefresher(self.store, self.logins, self.events, self.clock)
        self.daily_backup = DailyBackup(self.store, self.settings, self.events, self.clock, self.exclusive_job)
        self._jobs = (
            *(self.licence_check, self.disk_space_watch, self.sender_address_refresher, self.daily_backup),
            MemoryTrimmer(self.events),
        )
        self.sync = Supervisor(self.store, self.logins, self.settings, self.events, self.clock)
        self.started_at = self.clock.monotonic()
        #: Which requests may wait, so that reading is never held up.
        self.worker_limits = WorkerLimits(workers, waiting)

    def apply_stored_settings(self) -> None:
        """Let what was stored of settings take effect, after it is committed. Raises HttpsNotOffered."""
        with self.settings_lock:
            before = self.settings.values
            self._load_stored_settings()
            self._apply_changes(before)

    def _apply_changes(self, before: Mapping[str, Value]) -> None:
        now = self.settings.values
        if now["log.level"] != before["log.level"]:
            logs.set_level(self.settings.text("log.level"))
        if now["sync.poll_interval"] != before["sync.poll_interval"]:
            self.sync.wake_all()
        if any(now[name] != before[name] for name in ("store.keep_phases_days", "sync.cache_mib")):
            self.store.cleaner.apply_limits()
        if now["sending.hold_scheduled"] != before["sending.hold_scheduled"]:
            self.scheduler.wake()
        if self.https is not None and any(now[name] != before[name] for name in _HTTPS_SETTINGS):
            self.https.apply()

    def apply_configuration(self, loaded: Settings) -> tuple[str, ...]:
        """Let a config.toml that was read again take effect; answers the settings that wait for the next start.

        Raises HttpsNotOffered.
        """
        with self.settings_lock:
            before = self.settings.values
            later = self.settings.apply_file(loaded)
            self._apply_changes(before)
        return later

    def _cleanup_limits(self) -> CleanupLimits:
        days, mib = (self.settings.number(name) for name in ("store.keep_phases_days", "sync.cache_mib"))
        return CleanupLimits(timedelta(days=days), mib << 20)

    def _load_stored_settings(self) -> None:
        self.settings.use_stored(self.store.stored_settings.get_all())

    def start(self) -> None:
        """Look after the store, take up interrupted sends and what is due, then bring mail in."""
        self.store.cleaner.start()
        self.sender.start()
        self.scheduler.start()
        for job in self._jobs:
            job.start()
        self.sync.start()

    def stop_sending(self) -> None:
        """Begin to send nothing more, and let every request that waits for a send answer with what is known now."""
        self.scheduler.release()
        self.sender.release()

    def abort_requests(self) -> None:
        """Have every request that waits for other servers, or works long, answer soon that the appliance is stopped."""
        self.stop_sending()
        self.daily_backup.stop(0)
        self.exclusive_job.cancel()
        self.store.backups.stop(0)
        self.connections.abort_all()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop working and close the store."""
        self.stop_workers(timeout)
        self.store.close()

    def stop_workers(self, timeout: float = 5.0) -> None:
        """Stop working for good, within some such seconds; the store stays open."""
        self.stop_sending()
        until = time.monotonic() + timeout
        self.html_readers.close()
        self.sync.stop(max(_SYNC_STOP_SECONDS, timeout / 2))
        self.sender.stop(max(0.0, until - time.monotonic()))
        self.connections.stop(max(0.0, until - time.monotonic()))
        self.scheduler.stop(max(0.0, until - time.monotonic()))
        for job in self._jobs:
            job.stop(max(0.0, until - time.monotonic()))

    @property
    def public_url(self) -> str:
        """Where others reach the appliance, for links that are sent to them; never taken from a request.

        As the operator says; else where HTTPS is offered to other computers; else where this one reaches it.
        """
        offered = self.https and self.https.url
        by_https = settings.public_https_url(self.settings, urlsplit(offered).port) if offered else None
        return self.settings.text("server.public_url").rstrip("/") or by_https or self.local_url

    def url_for(self, *, is_local: bool) -> str:
        """Where the browser of somebody reaches it who asks from this computer, or from another one."""
        is_given = self.settings.text("server.public_url")
        return self.local_url if is_local and not is_given else self.public_url

    def io_slot(self) -> AbstractContextManager[bool]:
        """One of the few places for requests that wait for other servers, so that reading is never held up.

        Gives False where all are taken; the caller must not wait then.
        """
        return self.worker_limits.slot_for_io()

    @contextmanager
    def require_io_slot(self) -> Iterator[None]:
        """As `io_slot`, for what cannot be done without waiting. Raises ServersBusy where all are taken."""
        with self.io_slot() as has_place:
            if not has_place:
                raise ServersBusy(retry_after=_RETRY_AFTER)
            yield

    @contextmanager
    def exclusive_work(self, work: str) -> Iterator[Progress]:
        """As `ExclusiveJob.run`, for a request that waits for it: the request takes an I/O slot as well.

        Raises StoreAtWork, and WorkersBusy where all slots are taken.
        """
        with self.exclusive_job.run(work) as progress, self.io_slot() as has_place:
            if not has_place:
                raise WorkersBusy(retry_after=_RETRY_AFTER)
            yield progress

    @contextmanager
    def hashing_slot(self, *, is_local: bool) -> Iterator[None]:
        """One of the few places for requests that wait for a password to be hashed, so that reading is never held up.

        One of them is for this computer only, whose own wait. From elsewhere a few do, for a second at most.
        Raises LogInsBusy for the others.
        """
        with self.worker_limits.slot_for_hashing(is_local=is_local) as has_place:
            if not has_place:
                raise LogInsBusy(retry_after=_HASHING_RETRY_AFTER)
            yield
