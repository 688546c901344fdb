"""Keeps one mailbox mirrored, in a thread of its own.

connecting -> syncing -> ready: INBOX first, then the others; then what changes is followed
a fault ............... error, tried again after 5 s growing to 5 minutes, at once when told
a refused login ....... reauth_required, tried again only when told: repeated wrong logins lock mailboxes
"""

import logging
import threading
from collections.abc import Callable

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import NotFound
from mailbox_appliance.events import Events
from mailbox_appliance.records import AccountError, AccountStatus
from mailbox_appliance.remote.faults import FaultKind, RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.retry import backoff
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.folder import Stopped
from mailbox_appliance.sync.follower import Follower, Following
from mailbox_appliance.sync.waker import Waker

log = logging.getLogger(__name__)

FIRST_RETRY, LONGEST_RETRY = 5.0, 300.0

#: The code of an account's error; every other kind is `provider_unavailable`.
_CODES: dict[FaultKind, str] = {"login_refused": "authentication_failed", "throttled": "provider_rate_limited"}


class Worker:
    """The thread of one mailbox. Start it once, stop it once."""

    def __init__(self, account_id: str, store: Store, settings: Settings, events: Events, clock: Clock) -> None:
        self.account_id = account_id
        self._store, self._settings, self._events, self._clock = store, settings, events, clock
        self._stopping = threading.Event()
        self._following = Following(Waker(), self._stopping.is_set)
        self._waits = backoff(FIRST_RETRY, LONGEST_RETRY)
        self._cut: Callable[[], None] = _nothing
        self._thread = threading.Thread(target=self._run, name=f"sync-{account_id}", daemon=True)

    @property
    def progress(self) -> str | None:
        """What it is busy with, for a person; None when there is nothing to tell."""
        return self._following.progress

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self, path: str | None) -> None:
        """Look at this folder now; None: at all of them, also when a login was refused or a retry is far off."""
        self._following.waker.wake(path)

    def stop(self) -> None:
        """Tell it to end; it does so between two batches."""
        self._stopping.set()
        self._following.waker.wake(None)

    def interrupt(self) -> None:
        """Cut its connection, so that it does not wait for a server that is silent."""
        self._cut()

    def has_ended(self, within: float) -> bool:
        """Whether the thread ends within so many seconds."""
        self._thread.join(within)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._tell("connecting")
            while True:
                self._wait_told(self._attempt())
        except (Stopped, NotFound):  # NotFound: the mailbox was removed while we were at it
            pass
        except Exception:
            log.exception("sync ended", extra={"accountId": self.account_id})
        finally:
            self._following.waker.close()

    def _attempt(self) -> float | None:
        """One connection, for as long as it lasts. Then: how long to wait before the next, None: until told."""
        try:
            self._follow()
        except RemoteFault as fault:
            if self._stopping.is_set():
                raise Stopped from fault
            extra = {"accountId": self.account_id, "server": fault.server, "kind": fault.kind}
            log.warning("sync met a fault", extra=extra)
            error = AccountError(code=_CODES.get(fault.kind, "provider_unavailable"), message=fault.reason)
            self._tell("reauth_required" if fault.kind == "login_refused" else "error", error)
            return None if fault.kind == "login_refused" else next(self._waits)
        except (Stopped, NotFound):
            raise
        except Exception:
            log.exception("sync met a fault of ours", extra={"accountId": self.account_id})
            self._tell("error", AccountError(code="internal_error", message="A fault of ours; the log has more."))
            return next(self._waits)
        finally:
            self._following.progress, self._cut = None, _nothing
        raise AssertionError("following ends only with an exception")

    def _follow(self) -> None:
        endpoint = self._store.accounts.connection(self.account_id).imap
        ca_file, timeout = self._settings.text("remote.ca_file"), float(self._settings.number("remote.timeout"))
        interval = float(self._settings.number("sync.poll_interval"))
        with ImapMailbox.open(endpoint, ca_file=ca_file, timeout=timeout, on_connected=self._connected) as mailbox:
            self._store.accounts.set_capabilities(self.account_id, mailbox.capabilities)
            self._set_status("syncing")
            follower = Follower(
                self.account_id, self._store, mailbox, self._events, self._clock, interval, self._following
            )
            follower.run(self._is_ready)

    def _connected(self, cut: Callable[[], None]) -> None:
        self._cut = cut
        if self._stopping.is_set():
            raise Stopped

    def _is_ready(self) -> None:
        self._waits = backoff(FIRST_RETRY, LONGEST_RETRY)
        self._set_status("ready")

    def _set_status(self, status: AccountStatus, error: AccountError | None = None) -> None:
        self._store.accounts.set_status(self.account_id, status, error)

    def _tell(self, status: AccountStatus, error: AccountError | None = None) -> None:
        """As `_set_status`; that it cannot be noted (a full disk) is no reason to end, it is all tried again later."""
        try:
            self._set_status(status, error)
        except Exception:
            log.exception("the status of a mailbox was not noted", extra={"accountId": self.account_id})

    def _wait_told(self, seconds: float | None) -> None:
        """Wait so long, or until told about the whole mailbox; a write to one folder is no reason. Raises Stopped."""
        until = None if seconds is None else self._clock.monotonic() + seconds
        while True:
            told = None in self._following.waker.take()
            if self._stopping.is_set():
                raise Stopped
            left = None if until is None else until - self._clock.monotonic()
            if told or (left is not None and left <= 0):
                return
            self._following.waker.wait(left)


def _nothing() -> None:
    """There is no connection to cut."""
