"""Owns every operation that is being sent: starts each once, lets requests wait for it, takes up what was interrupted.

Threads come as they are needed and go when they are not. There is a bound for all of them, a lower one for the
mailboxes of one server and a still lower one for each mailbox, so that a server that stalls holds up its own mailboxes
and no other. What somebody waits for goes before what was scheduled, which never takes all places.
"""

import logging
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from mailbox_appliance import retry
from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import NotFound, Problem
from mailbox_appliance.events import AccountRemoved, Events
from mailbox_appliance.records import OpenDelivery, Phase
from mailbox_appliance.sending.handover import Handover
from mailbox_appliance.sending.outcome import Recorder
from mailbox_appliance.sending.submissions import Submissions
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

MOST_THREADS = 48
MOST_PER_SERVER = 16
MOST_PER_ACCOUNT = 2
MOST_SCHEDULED = 12
MOST_SCHEDULED_PER_ACCOUNT = 1
_IDLE_SECONDS = 20.0  # after which a thread that nobody needs ends: each has its own connection to the store
_RECORD_WAIT, _LONGEST_RECORD_WAIT = 0.2, 60.0


@dataclass
class Ticket:
    """What a request waits on: set when the operation is settled, withdrawn (with its problem), or left for later."""

    operation_id: str
    account_id: str
    server: str
    is_scheduled: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    problem: Problem | None = None
    handover: Handover | None = None
    not_before: float = 0.0
    failures: int = 0

    def wait(self, seconds: float) -> bool:
        """Whether the operation ended within so many seconds."""
        return self.done.wait(seconds)

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """What it takes while it is being sent: a name, and how many may have that at once."""
        taken = ((f"server {self.server}", MOST_PER_SERVER), (f"mailbox {self.account_id}", MOST_PER_ACCOUNT))
        if not self.is_scheduled:
            return taken
        mine = (f"scheduled {self.account_id}", MOST_SCHEDULED_PER_ACCOUNT)
        return (*taken, mine, ("scheduled", MOST_SCHEDULED))


class Sender:
    """The worker of the sending side."""

    def __init__(self, store: Store, settings: Settings, events: Events, clock: Clock) -> None:
        self._store, self._settings, self._events, self._clock = store, settings, events, clock
        self._submissions = Submissions(settings, clock.monotonic)
        self._recorder = Recorder(store, events, clock)
        self._changed = threading.Condition()
        self._tickets: dict[str, Ticket] = {}
        self._waiting: deque[Ticket] = deque()
        self._servers: dict[str, str] = {}
        self._taken: Counter[str] = Counter()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._stopping = False
        events.subscribe(AccountRemoved, lambda event: self._submissions.drop(event.account_id))

    def start(self) -> None:
        """Take up what was interrupted, by the phase that it had reached; then be ready for more."""
        for left in self._store.deliveries.list_sending():
            if left.phase is Phase.DOT or not self._is_taken_back(left):
                self.submit(left.operation_id, left.account_id)

    def release(self) -> None:
        """Begin nothing more, and let every waiting request answer with what is known now."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            for ticket in self._tickets.values():
                ticket.done.set()

    def stop(self, timeout: float) -> None:
        """End, giving what is under way so many seconds. What does not end in time stands in the journal."""
        self.release()
        self._submissions.stop()
        deadline = self._clock.monotonic() + timeout
        with self._changed:
            threads = list(self._threads)
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self._clock.monotonic()))

    def submit(self, operation_id: str, account_id: str) -> Ticket:
        """Have an operation sent, or join the one who waits for it already."""
        return self._submit(operation_id, account_id, is_scheduled=False)

    def begin_due(self, operation_id: str, account_id: str) -> None:
        """The time of a scheduled operation has come: have it sent, unless that is under way.

        It waits still, and can be canceled, until it is its turn. Then rights, mailbox and sender are looked at again.
        """
        with self._changed:
            if self._stopping or operation_id in self._tickets:
                return
        self._submit(operation_id, account_id, is_scheduled=True)

    def is_sending(self) -> bool:
        """Whether a message is being handed over at this moment."""
        return bool(self._taken)

    def _is_taken_back(self, left: OpenDelivery) -> bool:
        """Nobody got it: a scheduled one waits again, and one that nobody was shown is as if it had never been.

        The client of the latter got no answer, and may come again with the same key.
        """
        if left.kind == "scheduled":
            return self._recorder.put_back(self._store.deliveries.work(left.operation_id), "interrupted")
        return not left.is_shown and self._store.deliveries.withdraw(left.operation_id)

    def _submit(self, operation_id: str, account_id: str, *, is_scheduled: bool) -> Ticket:
        server = self._server_of(account_id)
        with self._changed:
            ticket = self._tickets.get(operation_id)
            if ticket is None:
                ticket = self._tickets[operation_id] = Ticket(operation_id, account_id, server, is_scheduled)
                self._waiting.append(ticket)
                if self._stopping:
                    ticket.done.set()  # it stands in the journal, and is taken up at the next start
                else:
                    self._find_hands()
            return ticket

    def _server_of(self, account_id: str) -> str:
        """Host and port, as they were when this was asked first: they only tell who shares the fate of whom."""
        if account_id not in self._servers:
            try:
                endpoint = self._store.accounts.connection(account_id).smtp
            except NotFound:
                return ""
            self._servers[account_id] = f"{endpoint.host.lower()}:{endpoint.port}"
        return self._servers[account_id]

    def _find_hands(self) -> None:
        # A thread that was just told counts as idle until it wakes: so the idle are held against all that waits.
        if self._ready_together() > self._idle and len(self._threads) < MOST_THREADS:
            thread = threading.Thread(target=self._work, name="sending", daemon=True)
            self._threads.add(thread)
            thread.start()
        self._changed.notify()

    def _ready_together(self) -> int:
        """How many of those that wait may begin now, besides what is under way."""
        taken, ready = self._taken.copy(), 0
        for ticket in self._waiting:
            if _may_begin(ticket, taken):
                taken.update(name for name, _ in ticket.places)
                ready += 1
        return ready

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
        """What to do next; None where this thread is to end."""
        with self._changed:
            until = time.monotonic() + _IDLE_SECONDS
            while not self._stopping:
                ticket = self._take()
                if ticket is not None:
                    return ticket
                left, pause = until - time.monotonic(), self._pause()
                if left <= 0 and (pause is None or self._idle):
                    break
                self._idle += 1
                self._changed.wait(min(each for each in (left, pause) if each is not None and each > 0))
                self._idle -= 1
            self._threads.discard(threading.current_thread())
            return None

    def _take(self) -> Ticket | None:
        """The first that may begin, of those that somebody waits for before those that were scheduled."""
        ready = [ticket for ticket in self._waiting if _may_begin(ticket, self._taken)]
        found = next((ticket for ticket in ready if not ticket.is_scheduled), ready[0] if ready else None)
        if found is not None:
            self._waiting.remove(found)
            self._taken.update(name for name, _ in found.places)
        return found

    def _pause(self) -> float | None:
        """Seconds until something that was put off may be tried again; None where nothing was."""
        now = time.monotonic()
        return min((ticket.not_before - now for ticket in self._waiting if ticket.not_before > now), default=None)

    def _deliver(self, ticket: Ticket) -> None:
        if ticket.handover is None:
            ticket.handover = Handover(
                self._store, self._settings, self._events, self._submissions, self._recorder, ticket.operation_id
            )
        try:
            outcome = ticket.handover.run()
            ticket.problem = outcome.problem
            ticket.done.set()  # nobody waits for our goodbye to the server
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
        self._taken.subtract(name for name, _ in ticket.places)
        self._taken = +self._taken  # those that are taken by nobody are forgotten
        self._changed.notify()


def _may_begin(ticket: Ticket, taken: Counter[str]) -> bool:
    if ticket.not_before > time.monotonic():
        return False
    return all(taken[name] < most for name, most in ticket.places)
