"""Sees to it that the copies of sent messages are filed: soon, but after the sends that are under way.

Copies are filed a mailbox at a time, all that are due over one connection, so that a server that is slow holds up its
own copies only. When is `due`'s to know.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.copies import SentMailFiler

# A copy can wait, a message cannot: filing begins when two glances see nothing being sent, or after so many seconds.
_GLANCE, _LONGEST_HOLD = 0.1, 3.0


class SentMailTask:
    """Files copies. `is_sending` tells whether a message is being handed over."""

    name = "sent copies"

    def __init__(self, context: SendingContext, is_sending: Callable[[], bool]) -> None:
        self._store, self._clock, self._is_sending = context.store, context.clock, is_sending
        self._filer = SentMailFiler(context)
        self._changed, self._at_work = threading.Condition(), set[str]()

    def due_accounts(self, now: datetime) -> tuple[str, ...]:
        """The mailboxes with copies whose time has come."""
        return self._store.sent_copies.list_due_accounts(now)

    def work(self, account_id: str, stopping: threading.Event) -> None:
        """File the copies of a mailbox that are due, once there is a quiet moment."""
        until, quiet = time.monotonic() + _LONGEST_HOLD, 0
        while quiet < 2 and time.monotonic() < until and not stopping.wait(_GLANCE):
            quiet = 0 if self._is_sending() else quiet + 1
        if not stopping.is_set():
            self._file(account_id, stopping)

    def _file(self, account_id: str, stopping: threading.Event) -> None:
        with self._lock(account_id):
            operations = self._store.sent_copies.list_due(self._clock.now(), account_id)
            if operations:
                self._filer.file(account_id, operations, stopping)

    @contextmanager
    def _lock(self, account_id: str) -> Iterator[None]:
        """Have nobody else file the copies of this mailbox meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: account_id not in self._at_work)
            self._at_work.add(account_id)
        try:
            yield
        finally:
            with self._changed:
                self._at_work.discard(account_id)
                self._changed.notify_all()
