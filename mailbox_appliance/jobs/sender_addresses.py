"""Fetches the addresses that mailboxes may send from: when a mailbox is connected, at the start, and every day.

If a provider does not answer, the earlier addresses stay valid, and it is asked again in an hour. No request waits for
the answer, and nothing but the allowed sender addresses of a mailbox depends on it.
"""

import logging
import threading

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import NotFound
from mailbox_appliance.events import AccountAdded, AccountReconnected, AccountRemoved, Events
from mailbox_appliance.jobs.periodic import PeriodicTask
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

#: Seconds until a provider is asked again: after an answer, and after a failure.
EVERY, AGAIN = 24 * 3600.0, 3600.0
_LOOK = 60.0


class SenderAddressRefresher(PeriodicTask):
    """Fetches the allowed sender addresses of mailboxes from their providers, on a thread of its own."""

    def __init__(self, store: Store, logins: Logins, events: Events, clock: Clock) -> None:
        self._store, self._logins, self._clock = store, logins, clock
        self._lock, self._running = threading.Lock(), threading.Lock()
        self._next_at: dict[str, float] = {}
        super().__init__("sender addresses", self.run_once, _LOOK)
        events.subscribe(AccountAdded, lambda event: self._schedule(event.account_id))
        events.subscribe(AccountReconnected, lambda event: self._schedule(event.account_id))
        events.subscribe(AccountRemoved, lambda event: self._forget(event.account_id))

    def run_once(self) -> None:
        """Fetch the addresses of all mailboxes whose planned time has come. A second concurrent call waits for the
        first.
        """
        with self._running:
            for account_id in self._store.sender_addresses.list_accounts():
                if self.is_stopping:
                    return
                expected = self._next_time(account_id)
                if self._clock.monotonic() >= expected:
                    seconds = EVERY if self._ask_provider(account_id) else AGAIN
                    self._reschedule(account_id, expected, seconds)

    def _ask_provider(self, account_id: str) -> bool:
        try:
            told = self._logins.fetch_sender_addresses(account_id)
        except NotFound:
            return True
        except RemoteFault as fault:
            facts = {"account": account_id, "fault": fault.kind, "named": fault.name}
            log.info("sender_addresses_unavailable", extra=facts)
            return False
        if told is not None:
            self._store.sender_addresses.set_from_provider(account_id, told)
        return True

    def _next_time(self, account_id: str) -> float:
        with self._lock:
            return self._next_at.setdefault(account_id, 0.0)

    def _reschedule(self, account_id: str, expected: float, seconds: float) -> None:
        """Plan the next fetch, unless the mailbox was connected again or removed during this one."""
        with self._lock:
            if self._next_at.get(account_id) == expected:
                self._next_at[account_id] = self._clock.monotonic() + seconds

    def _schedule(self, account_id: str) -> None:
        with self._lock:
            self._next_at[account_id] = self._clock.monotonic()
        self.wake()

    def _forget(self, account_id: str) -> None:
        with self._lock:
            self._next_at.pop(account_id, None)
