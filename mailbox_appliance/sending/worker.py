"""Owns every operation that is being sent: starts each once, lets requests wait for it, takes up what was interrupted.

Threads come as they are needed, up to a bound, and of one mailbox only a few are at work, so that a server that stalls
holds up its own mailbox and no other. Filing copies is `copier`'s.
"""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from mailbox_appliance import retry
from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import Problem
from mailbox_appliance.events import Events
from mailbox_appliance.records import Phase
from mailbox_appliance.sending.copier import Copier
from mailbox_appliance.sending.handover import Handover
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

MOST_THREADS = 24
MOST_PER_ACCOUNT = 2
_RECORD_WAIT, _LONGEST_RECORD_WAIT = 0.2, 60.0


@dataclass
class Ticket:
    """What a request waits on: set when the operation is settled, withdrawn (with its problem), or left for later."""

    operation_id: str
    account_id: str
    done: threading.Event = field(default_factory=threading.Event)
    problem: Problem | None = None
    handover: Handover | None = None
    not_before: float = 0.0
    failures: int = 0

    def wait(self, seconds: float) -> bool:
        """Whether the operation ended within so many seconds."""
        return self.done.wait(seconds)


class Sender:
    """The worker of the sending side."""

    def __init__(self, store: Store, settings: Settings, events: Events, clock: Clock) -> None:
        self._store, self._settings, self._events, self._clock = store, settings, events, clock
        self._changed = threading.Condition()
        self._tickets: dict[str, Ticket] = {}
        self._waiting: deque[Ticket] = deque()
        self._running: dict[str, int] = {}
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._stopping = False
        self._copier = Copier(store, settings, events, clock, lambda: bool(self._running))

    def start(self) -> None:
        """Take up what was interrupted, by the phase that it had reached; then be ready for more."""
        for left in self._store.deliveries.list_sending():
            if left.phase is Phase.DOT or left.is_shown:
                self.submit(left.operation_id, left.account_id)
            else:
                # Its client got no answer, and nobody got the message: it may come again with the same key.
                self._store.deliveries.withdraw(left.operation_id)
        self._copier.start()

    def release(self) -> None:
        """Begin nothing more, and let every waiting request answer with what is known now."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            for ticket in self._tickets.values():
                ticket.done.set()
        self._copier.release()

    def stop(self, timeout: float) -> None:
        """End, giving what is under way so many seconds. What does not end in time stands in the journal."""
        self.release()
        deadline = self._clock.monotonic() + timeout
        threads = [*self._threads, *self._copier.threads()]
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self._clock.monotonic()))

    def submit(self, operation_id: str, account_id: str) -> Ticket:
        """Have an operation sent, or join the one who waits for it already."""
        with self._changed:
            ticket = self._tickets.get(operation_id)
            if ticket is None:
                ticket = self._tickets[operation_id] = Ticket(operation_id, account_id)
                self._waiting.append(ticket)
                if self._stopping:
                    ticket.done.set()  # it stands in the journal, and is taken up at the next start
                else:
                    self._find_hands()
            return ticket

    def _find_hands(self) -> None:
        # A thread that was just told counts as idle until it wakes: so the idle are held against all that waits.
        ready = sum(1 for ticket in self._waiting if self._may_begin(ticket))
        if ready > self._idle and len(self._threads) < MOST_THREADS:
            thread = threading.Thread(target=self._work, name=f"sending {len(self._threads) + 1}", daemon=True)
            self._threads.add(thread)
            thread.start()
        self._changed.notify()

    def _may_begin(self, ticket: Ticket) -> bool:
        busy = self._running.get(ticket.account_id, 0) >= MOST_PER_ACCOUNT
        return not busy and ticket.not_before <= time.monotonic()

    def _work(self) -> None:
        while (ticket := self._next()) is not None:
            try:
                self._deliver(ticket)
            except Exception:  # the journal cannot be written; what is known is kept until it can
                log.exception("a delivery could not be recorded", extra={"operation": ticket.operation_id})
                self._put_off(ticket)
            else:
                self._end(ticket)

    def _next(self) -> Ticket | None:
        with self._changed:
            while not self._stopping:
                for ticket in self._waiting:
                    if self._may_begin(ticket):
                        self._waiting.remove(ticket)
                        self._running[ticket.account_id] = self._running.get(ticket.account_id, 0) + 1
                        return ticket
                self._idle += 1
                self._changed.wait(self._pause())
                self._idle -= 1
            return None

    def _pause(self) -> float | None:
        """Seconds until something that was put off may be tried again; None where nothing was."""
        now = time.monotonic()
        return min((ticket.not_before - now for ticket in self._waiting if ticket.not_before > now), default=None)

    def _deliver(self, ticket: Ticket) -> None:
        if ticket.handover is None:
            ticket.handover = Handover(self._store, self._settings, self._events, ticket.operation_id)
        try:
            outcome = ticket.handover.run()
            ticket.problem = outcome.problem
            ticket.done.set()  # nobody waits for our goodbye to the server
            if outcome.needs_copy:
                self._copier.notice()
        finally:
            ticket.handover.hang_up()

    def _put_off(self, ticket: Ticket) -> None:
        with self._changed:
            ticket.failures += 1
            wait = retry.delay(ticket.failures, _RECORD_WAIT, _LONGEST_RECORD_WAIT)
            ticket.not_before = time.monotonic() + wait
            self._waiting.append(ticket)
            self._leave(ticket)

    def _end(self, ticket: Ticket) -> None:
        with self._changed:
            self._tickets.pop(ticket.operation_id, None)
            self._leave(ticket)
        ticket.done.set()

    def _leave(self, ticket: Ticket) -> None:
        left = self._running[ticket.account_id] - 1
        if left:
            self._running[ticket.account_id] = left
        else:
            del self._running[ticket.account_id]
        self._changed.notify()

    def file_due_copies(self) -> None:
        """File the copies whose time has come; each is left for later where it cannot be filed now."""
        self._copier.file_due()
