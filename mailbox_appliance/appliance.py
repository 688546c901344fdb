"""The class Appliance: holds all parts that an operation can use, and creates, starts and stops them in one place."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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
from mailbox_appliance.feed.waiting import WaitingReaders
from mailbox_appliance.feed.webhooks import WebhookSender
from mailbox_appliance.jobs.daily_backup import DailyBackup, DiskSpaceWatch
from mailbox_appliance.jobs.licence_check import LicenceCheck
from mailbox_appliance.jobs.memory_trim import MemoryTrimmer
from mailbox_appliance.jobs.sender_addresses import SenderAddressRefresher
from mailbox_appliance.mailbox.after_send import PostSendTasks
from mailbox_appliance.mailbox.attachments import AttachmentFetcher, BodyFetcher
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.mailbox.drafts import Drafts
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
from mailbox_appliance.store.exclusive_job import ExclusiveJob, JobKind
from mailbox_appliance.store.maintenance.cleanup import CleanupLimits
from mailbox_appliance.store.restore.restore import PreparedRestore
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.html_readers import HtmlReaders
from mailbox_appliance.sync.supervisor import Supervisor

if TYPE_CHECKING:
    from mailbox_appliance.tls.inspect import Certificate


SETUP_CODE = "setup-code"
_RETRY_AFTER = 5
_HTTPS_SETTINGS = ("server.https", "server.https_port", "server.https_host", "server.hsts_days")
_CLEANUP_SETTINGS = ("store.keep_phases_days", "sync.cache_mib", "events.keep_days", "events.keep_count")
# A password takes some hundredths of a second.
_HASHING_RETRY_AFTER = 1
_SYNC_STOP_SECONDS = 2.0


class HttpsControl(Protocol):
    """The interface to the HTTPS listener of the running service: its address and certificate, and how to apply new
    settings to it.
    """

    @property
    def url(self) -> str | None:
        """The HTTPS address for clients on this computer; None if HTTPS is off."""

    @property
    def trouble(self) -> str | None:
        """A warning for operators if HTTPS is enabled but not running, or if its certificate files are not valid;
        otherwise None.
        """

    @property
    def certificate(self) -> "Certificate | None":
        """The certificate that clients get; None if HTTPS is off."""

    def apply(self) -> None:
        """Open, move or close the HTTPS listener as the settings require, and load the certificate from its files
        again.

        Requests in progress on a closed listener are still answered. Raises HttpsNotOffered; then nothing has changed.
        """


class Appliance:
    """An open store and all parts that work on it: sync, sending, drafts, sign-ins to mail servers, periodic jobs."""

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
        """Open the store of a data directory without starting any work. Raises StoreUnusable.

        - folder: The data directory.
        - key_file: The file with the store's key, if it is not in the data directory.
        - oauth_apps: OAuth applications from the environment, which override stored ones.
        - passphrase: Passphrase of the store's key, if it is protected by one.
        - store: The store, if it is already open.
        """
        prepare_types()
        self.folder = folder
        self.environment_oauth_apps: EnvironmentApps = oauth_apps or {}
        #: The address of the appliance on its own computer; the service sets it when it listens.
        self.local_url = "http://127.0.0.1:8025"
        #: Proves that a local caller is the operator. New at each start; None if nothing serves.
        self.operator_secret: str | None = None
        #: Runs one maintenance task at a time.
        self.exclusive_job = ExclusiveJob()
        #: Replaces this appliance by a prepared restore, on behalf of an actor; None if nothing serves.
        self.start_restore: Callable[[PreparedRestore, Actor], None] | None = None
        #: The HTTPS listener; None if nothing serves.
        self.https: HttpsControl | None = None
        self.settings = settings or settings_table.load(environment={})
        self.clock = clock or SystemClock()
        self.events = Events()
        self.store = store or Store.open(folder, self.clock, key_file, passphrase=passphrase)
        #: Held from storing a change of settings until it has taken effect or was reverted: one change at a time.
        self.settings_lock = threading.RLock()
        self._load_stored_settings()
        self.store.cleaner.get_limits = self._cleanup_limits
        #: Opens every connection to the servers of a mailbox.
        self.logins = Logins(self.store, self.settings, self.clock, self.environment_oauth_apps)
        #: Provider sign-ins in progress.
        self.flows = Flows(self.logins, self.clock)
        sending = SendingContext(self.store, self.logins, self.settings, self.events, self.clock)
        self.sender = Sender(sending)
        self.store.mailbox_writer.add_copies_left = self.sender.unshown.show
        #: Calls to other servers that requests wait for.
        self.calls = RemoteCalls()
        self.connections = Connections(self.logins, self.settings, self.calls)
        self.events.subscribe(AccountRemoved, lambda event: self.connections.drop(event.account_id))
        self.events.subscribe(AccountRemoved, lambda event: self.logins.remove_account(event.account_id))
        self.events.subscribe(AccountReconnected, lambda event: self.connections.drop(event.account_id))
        self.attachment_fetcher = AttachmentFetcher(self.store, self.connections, self.settings, self.events)
        workers, waiting = (self.settings.number(f"server.{name}") for name in ("workers", "waiting_workers"))
        #: Reads HTML for requests. At most half of the workers read bodies, and one of these always handles short ones.
        self.html_readers = HtmlReaders(workers // 2 - 1)
        self.body_fetcher = BodyFetcher(
            self.store, self.connections, self.attachment_fetcher, self.html_readers.for_request
        )
        self.drafts = Drafts(self.connections, self.store, self.events)
        self.sent_mail = SentMailTask(sending, self.sender.unshown, self.sender.is_sending)
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
        #: Requests and streams that wait for events.
        self.readers = WaitingReaders(self.store)
        self.webhook_sender = WebhookSender(self.store, self.settings, self.clock)
        self.started_at = self.clock.monotonic()
        #: Stores uploads one at a time, so that they occupy no worker.
        self.upload_writer = ThreadPoolExecutor(1, "upload-writer")
        #: Limits the requests that wait, so that reading is never delayed.
        self.worker_limits = WorkerLimits(workers, waiting)

    def apply_stored_settings(self) -> None:
        """Read the stored settings again and let changed ones take effect. Raises HttpsNotOffered."""
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
        if any(now[name] != before[name] for name in _CLEANUP_SETTINGS):
            self.store.cleaner.apply_limits()
        if now["sending.hold_scheduled"] != before["sending.hold_scheduled"]:
            self.scheduler.wake()
        if self.https is not None and any(now[name] != before[name] for name in _HTTPS_SETTINGS):
            self.https.apply()

    def apply_configuration(self, loaded: Settings) -> tuple[str, ...]:
        """Let changes in a newly read config.toml take effect; return the settings that need a restart.

        `loaded`: the settings of that file. Raises HttpsNotOffered.
        """
        with self.settings_lock:
            before = self.settings.values
            later = self.settings.apply_file(loaded)
            self._apply_changes(before)
        return later

    def _cleanup_limits(self) -> CleanupLimits:
        days, mib, event_days, most_events = (self.settings.number(name) for name in _CLEANUP_SETTINGS)
        return CleanupLimits(timedelta(days=days), mib << 20, timedelta(days=event_days), most_events)

    def _load_stored_settings(self) -> None:
        self.settings.use_stored(self.store.stored_settings.get_all())

    def start(self) -> None:
        """Start all background work: cleanup of the store, interrupted sends, scheduled messages, periodic jobs, and
        sync.
        """
        self.store.cleaner.start()
        self.sender.start()
        self.scheduler.start()
        for job in self._jobs:
            job.start()
        self.readers.start()
        self.webhook_sender.start()
        self.sync.start()

    def stop_sending(self) -> None:
        """Start no further sends. Requests that wait for the outcome of a send return its current status."""
        self.scheduler.release()
        self.sender.release()

    def abort_requests(self) -> None:
        """Make requests that wait for other servers or for maintenance end soon, with the error that the appliance is
        stopping.
        """
        self.stop_sending()
        self.daily_backup.stop(0)
        self.exclusive_job.cancel()
        self.store.backups.stop(0)
        self.connections.abort_all()
        self.readers.stop()
        self.webhook_sender.stop(0)

    def stop(self, timeout: float = 5.0) -> None:
        """Stop all work, within about `timeout` seconds, and close the store."""
        self.stop_workers(timeout)
        self.store.close()

    def stop_workers(self, timeout: float = 5.0) -> None:
        """Stop all background work, within about `timeout` seconds, and leave the store open. It cannot be started
        again.
        """
        self.stop_sending()
        until = time.monotonic() + timeout
        self.upload_writer.shutdown(wait=False, cancel_futures=True)
        self.readers.stop()
        self.webhook_sender.stop(0)
        self.html_readers.close()
        self.sync.stop(max(_SYNC_STOP_SECONDS, timeout / 2))
        self.sender.stop(max(0.0, until - time.monotonic()))
        self.connections.stop(max(0.0, until - time.monotonic()))
        self.scheduler.stop(max(0.0, until - time.monotonic()))
        for job in (*self._jobs, self.webhook_sender):
            job.stop(max(0.0, until - time.monotonic()))

    @property
    def public_url(self) -> str:
        """The base URL for links that are sent to people. It never comes from a request. The first of these that
        exists:

        - the setting `server.public_url`
        - the HTTPS address, if other computers can use it
        - the HTTP address on this computer
        """
        offered = self.https and self.https.url
        by_https = settings.public_https_url(self.settings, urlsplit(offered).port) if offered else None
        return self.settings.text("server.public_url").rstrip("/") or by_https or self.local_url

    def url_for(self, *, is_local: bool) -> str:
        """Return the base URL for a browser. `is_local`: the browser runs on the appliance's computer."""
        is_given = self.settings.text("server.public_url")
        return self.local_url if is_local and not is_given else self.public_url

    def io_slot(self) -> AbstractContextManager[bool]:
        """Context manager: try to take one of the few slots for requests that wait for other servers, until the block
        ends.

        Yields whether a slot was free. If not, the caller must not wait for a server, so that workers stay free for
        reading.
        """
        return self.worker_limits.slot_for_io()

    @contextmanager
    def require_io_slot(self) -> Iterator[None]:
        """Context manager: take one of the few slots for requests that wait for other servers, until the block ends.

        Use it for work that cannot avoid waiting. Raises ServersBusy if all slots are taken.
        """
        with self.io_slot() as has_place:
            if not has_place:
                raise ServersBusy(retry_after=_RETRY_AFTER)
            yield

    @contextmanager
    def exclusive_work(self, kind: JobKind) -> Iterator[Progress]:
        """Context manager for a maintenance task that a request waits for. Yield an object that records its progress.

        Until the block ends, no other maintenance task can start, and the request takes one of the slots for requests
        that wait (see `io_slot`). Raises StoreAtWork if another maintenance task is running, and WorkersBusy if all
        slots are taken.
        """
        with self.exclusive_job.run(kind) as progress, self.io_slot() as has_place:
            if not has_place:
                raise WorkersBusy(retry_after=_RETRY_AFTER)
            yield progress

    @contextmanager
    def hashing_slot(self, *, is_local: bool) -> Iterator[None]:
        """Context manager: take one of the few slots for requests that hash a password, until the block ends. This
        keeps workers free for reading.

        `is_local`: the request comes from this computer. One slot is reserved for such requests, which wait as long as
        needed. A few remote requests wait for at most one second; the others raise LogInsBusy.
        """
        with self.worker_limits.slot_for_hashing(is_local=is_local) as has_place:
            if not has_place:
                raise LogInsBusy(retry_after=_HASHING_RETRY_AFTER)
            yield
