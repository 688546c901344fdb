"""Start and stop the sync of mailboxes."""

import logging
import threading
import time

from mailbox_appliance.clock import Clock
from mailbox_appliance.events import Events, FolderWritten
from mailbox_appliance.model.sync import SyncProgress
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.context import SyncServices
from mailbox_appliance.sync.mailbox import MailboxSync
from mailbox_appliance.sync.parsers import Parsers
from mailbox_appliance.sync.scheduler import Pool
from mailbox_appliance.sync.storing import StoringThread

log = logging.getLogger(__name__)

# Seconds for all mailboxes together: to stop by themselves, and then with their connections cut.
STOP_TIMEOUT, CUT_TIMEOUT = 1.0, 8.0


class Supervisor:
    """Starts and stops the sync of each mailbox, and passes on requests to check mailboxes. Any thread may call it."""

    def __init__(self, store: Store, logins: Logins, settings: Settings, events: Events, clock: Clock) -> None:
        self._parsers = Parsers()
        self._storing = StoringThread()
        self._services = SyncServices(store, logins, settings, events, clock, self._parsers, self._storing)
        self._pool = Pool(settings.number("sync.workers"))
        self._lock = threading.Lock()
        self._mailboxes: dict[str, MailboxSync] = {}
        self._is_started = self._is_stopped = False
        events.subscribe(FolderWritten, lambda event: self.wake(event.account_id, event.path))

    def start(self) -> None:
        """Start the sync of every mailbox in the store."""
        for account_id in self._services.store.accounts.list_ids():
            self.add(account_id)

    def add(self, account_id: str) -> None:
        """Start the sync of a mailbox. Does nothing if it runs already, or after `stop`."""
        with self._lock:
            if self._is_stopped or account_id in self._mailboxes:
                return
            if not self._is_started:
                self._is_started = True
                self._pool.start()
            mailbox = self._mailboxes[account_id] = MailboxSync(account_id, self._services)
        self._pool.submit(mailbox)

    def remove(self, account_id: str) -> None:
        """Stop the sync of a mailbox, and wait at most 9 seconds for its end."""
        with self._lock:
            mailbox = self._mailboxes.pop(account_id, None)
        if mailbox is not None:
            self._stop_mailboxes([mailbox])

    def wake(self, account_id: str, path: str | None) -> None:
        """Check the folder with this path now. None: check all folders, even while sync waits after an error."""
        with self._lock:
            mailbox = self._mailboxes.get(account_id)
        if mailbox is not None and mailbox.wake(path):
            # The appliance itself has just written to the folder.
            self._pool.submit(mailbox, is_heard=path is not None)

    def wake_all(self) -> None:
        """Check all folders of every mailbox now."""
        with self._lock:
            account_ids = tuple(self._mailboxes)
        for account_id in account_ids:
            self.wake(account_id, None)

    def progress(self, account_id: str) -> SyncProgress | None:
        """Return how far the sync of a mailbox is with fetching messages or bodies; None if it fetches nothing."""
        with self._lock:
            mailbox = self._mailboxes.get(account_id)
        return None if mailbox is None else mailbox.progress

    def stop(self, timeout: float = STOP_TIMEOUT + CUT_TIMEOUT) -> None:
        """Stop the sync of all mailboxes within about `timeout` seconds. `add` does nothing afterwards."""
        until = time.monotonic() + timeout
        with self._lock:
            self._is_stopped = True
            mailboxes = list(self._mailboxes.values())
            self._mailboxes.clear()
        self._parsers.close()
        self._stop_mailboxes(mailboxes, timeout)
        self._storing.close(max(0.1, until - time.monotonic()))
        self._pool.stop(min(STOP_TIMEOUT, max(0.1, until - time.monotonic())))

    def _stop_mailboxes(self, mailboxes: list[MailboxSync], timeout: float = STOP_TIMEOUT + CUT_TIMEOUT) -> None:
        until = time.monotonic() + timeout
        for mailbox in mailboxes:
            mailbox.stop()
            self._pool.submit(mailbox, is_heard=True)  # which waits for no server
        left = _wait_for_end(mailboxes, min(STOP_TIMEOUT, timeout / 2))
        # A thread that connects to a silent host cannot be cut; it ends by itself and changes nothing.
        cut = [mailbox for mailbox in left if mailbox.interrupt()]
        for mailbox in _wait_for_end(cut, max(0.0, until - time.monotonic())):
            log.warning("sync_stop_timeout", extra={"accountId": mailbox.account_id})


def _wait_for_end(mailboxes: list[MailboxSync], within: float) -> list[MailboxSync]:
    deadline = time.monotonic() + within
    return [mailbox for mailbox in mailboxes if not mailbox.ended.wait(max(0.0, deadline - time.monotonic()))]
