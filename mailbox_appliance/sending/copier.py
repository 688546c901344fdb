"""Sees to it that the copies of sent messages are filed: soon, but after the sends that are under way.

Copies are filed a mailbox at a time, all that are due over one connection, each mailbox in a thread of its own, so that
a server that is slow holds up its own copies only.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from mailbox_appliance.clock import Clock, to_millis
from mailbox_appliance.events import Events
from mailbox_appliance.sending.copies import file_copies
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

MOST_AT_ONCE = 4
_LOOK = 30.0
# A copy can wait, a message cannot: filing begins when two glances see nothing being sent, or after so many seconds.
_GLANCE, _LONGEST_HOLD = 0.1, 3.0


class Copier:
    """Files copies in the background. `is_sending` tells whether a message is being handed over."""

    def __init__(
        self, store: Store, settings: Settings, events: Events, clock: Clock, is_sending: Callable[[], bool]
    ) -> None:
        self._store, self._settings, self._events, self._clock = store, settings, events, clock
        self._is_sending = is_sending
        self._stopping = threading.Event()
        self._due = threading.Event()
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._filing: dict[str, threading.Thread] = {}
        self._thread = threading.Thread(target=self._run, name="sent copies", daemon=True)

    def start(self) -> None:
        """Take up what was left, and be ready for more."""
        self._due.set()
        self._thread.start()

    def notice(self) -> None:
        """A message was sent; its copy is due."""
        self._due.set()

    def release(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
        self._due.set()

    def threads(self) -> list[threading.Thread]:
        """The threads that may still be at work."""
        with self._lock:
            return [self._thread, *self._filing.values()]

    def file_due(self) -> None:
        """File every copy whose time has come, now and here."""
        for account_id in self._accounts():
            self._file_account(account_id)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._due.wait(_LOOK)
            self._due.clear()
            self._wait_for_quiet()
            try:
                for account_id in self._accounts():
                    self._begin(account_id)
            except Exception:
                log.exception("looking for copies failed")

    def _wait_for_quiet(self) -> None:
        until, quiet = time.monotonic() + _LONGEST_HOLD, 0
        while quiet < 2 and time.monotonic() < until and not self._stopping.wait(_GLANCE):
            quiet = 0 if self._is_sending() else quiet + 1

    def _accounts(self) -> list[str]:
        now = to_millis(self._clock.now())
        return list(dict.fromkeys(account for _, due, account in self._store.sent_copies.list() if due <= now))

    def _begin(self, account_id: str) -> None:
        with self._lock:
            if self._stopping.is_set() or account_id in self._filing or len(self._filing) >= MOST_AT_ONCE:
                return
            name = f"sent copies {account_id}"
            thread = threading.Thread(target=self._file_and_look, args=(account_id,), name=name, daemon=True)
            self._filing[account_id] = thread
            thread.start()

    def _file_and_look(self, account_id: str) -> None:
        is_filed = self._try_to_file(account_id)
        with self._lock:
            del self._filing[account_id]
        if is_filed:
            self._due.set()  # others may wait for this place, or became due meanwhile

    def _try_to_file(self, account_id: str) -> bool:
        try:
            self._file_account(account_id)
        except Exception:  # the store's: the copies stay due, and are looked for again after a while
            log.exception("filing sent copies failed", extra={"account": account_id})
            return False
        return True

    def _file_account(self, account_id: str) -> None:
        with self._lock:
            turn = self._turns[account_id]
        with turn:
            now = to_millis(self._clock.now())
            copies = self._store.sent_copies.list()
            operations = [operation for operation, due, account in copies if account == account_id and due <= now]
            if operations:
                file_copies(self._store, self._settings, self._events, account_id, operations)
