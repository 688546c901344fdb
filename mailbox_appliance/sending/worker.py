"""Runs all deliveries in progress on threads: starts each once, lets requests wait for it, recovers interrupted ones.

Threads start as needed and end when idle, except for one. Their number is limited. `Queue` has lower limits for the
mailboxes of one server and for each mailbox, so that a stalled server delays only its own mailboxes. Operations that a
request waits for come before scheduled ones, which never use all threads.
"""

import heapq
import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from mailbox_appliance import clock
from mailbox_appliance.errors import NotFound, Problem, Unsupported
from mailbox_appliance.events import AccountReconnected, AccountRemoved, LargeWorkEnded
from mailbox_appliance.model.deliveries import OpenDelivery, Phase, PhaseStep
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.delivery import DeliveryAttempt
from mailbox_appliance.sending.graph import GraphDrafts
from mailbox_appliance.sending.outcome import Recorder, to_problem
from mailbox_appliance.sending.sent_copies import UnshownCopies
from mailbox_appliance.sending.smtp import SmtpConnectionPool
from mailbox_appliance.store.database import DATABASE_ERRORS

# --- The queue of operations that wait to be sent. Pure: no threads, no network, no clock ---
#
# Each mailbox has two lines: operations that a request waits for, and scheduled ones. The first of a line may start as
# soon as its server and its mailbox have a free place. Lines of the first kind have priority; the others take turns,
# and leave places free: a server that does not answer holds what was scheduled there for minutes.


MOST_PER_SERVER = 16
MOST_PER_ACCOUNT = 2
# Of all threads and of these places, how many scheduled messages use, so that they never keep a request waiting.
MOST_SCHEDULED = 36
MOST_SCHEDULED_PER_SERVER = 12
MOST_SCHEDULED_PER_ACCOUNT = 1
_SCHEDULED = ("scheduled", "all")


@dataclass(frozen=True)
class Line:
    """The waiting line of a mailbox, either for scheduled messages or for those that a request waits for."""

    server: str
    account_id: str
    is_scheduled: bool

    @cached_property
    def limits(self) -> Mapping[tuple[str, str], int]:
        """The most deliveries in progress, for the server and for the mailbox of this line, and the most scheduled."""
        found = {("server", self.server): MOST_PER_SERVER, ("mailbox", self.account_id): MOST_PER_ACCOUNT}
        if self.is_scheduled:
            found[_SCHEDULED] = MOST_SCHEDULED
            found["scheduled server", self.server] = MOST_SCHEDULED_PER_SERVER
            found["scheduled mailbox", self.account_id] = MOST_SCHEDULED_PER_ACCOUNT
        return found


class Waiting(Protocol):
    """An item of a `Queue`. It has the field `line`: the waiting line to which it belongs."""

    @property
    def line(self) -> Line: ...


T = TypeVar("T", bound=Waiting)


class Queue(Generic[T]):
    """A fair queue of deliveries, with a line for each mailbox. Not thread-safe: callers must lock.

    Times are seconds of any clock that never decreases.
    """

    def __init__(self) -> None:
        # By kind, in order of priority: first what a request waits for.
        self._lines: dict[bool, dict[Line, deque[T]]] = {False: {}, True: {}}
        self._put_off: list[tuple[float, int, T]] = []
        self._numbers = itertools.count()
        self._taken = Counter[tuple[str, str]]()

    @property
    def is_busy(self) -> bool:
        """Whether any delivery is in progress, that is, was taken and has not left."""
        return bool(self._taken)

    def add(self, one: T) -> None:
        """Append a delivery to the end of its line."""
        self._line_of(one).append(one)

    def put_off(self, one: T, until: float) -> None:
        """Make a delivery wait until the time `until`, then put it back at the head of its line."""
        heapq.heappush(self._put_off, (until, next(self._numbers), one))

    def next_at(self) -> float | None:
        """Return the earliest time until which a delivery is put off; None if there is none."""
        return self._put_off[0][0] if self._put_off else None

    def take(self, now: float) -> T | None:
        """Remove and return the next delivery that may start now; None if none may. Call `leave` when it has ended."""
        self._bring_back(now)
        line = next(self._ready(self._taken), None)
        if line is None:
            return None
        waiting = self._lines[line.is_scheduled].pop(line)
        one = waiting.popleft()
        if waiting:
            self._lines[line.is_scheduled][line] = waiting  # behind the others
        self._taken.update(line.limits.keys())
        return one

    def leave(self, one: T) -> None:
        """End a delivery that was taken, so that others can use its server and mailbox."""
        self._taken -= Counter(one.line.limits.keys())

    def count_ready(self, now: float, most: int) -> int:
        """Return how many waiting deliveries could start now without exceeding a limit.

        Those in progress count toward the limits. Counting stops at `most`.
        """
        self._bring_back(now)
        taken, count = self._taken.copy(), 0
        for line in self._ready(taken):
            left = len(self._lines[line.is_scheduled][line])
            while left and count < most and _has_room(line, taken):
                taken.update(line.limits.keys())
                left, count = left - 1, count + 1
            if count == most:
                break
        return count

    def _ready(self, taken: Counter[tuple[str, str]]) -> Iterator[Line]:
        """Yield the lines whose first delivery may start, those with priority first. `taken`: the deliveries in
        progress; the caller may change it while it iterates.
        """
        for lines in self._lines.values():
            for line in lines:
                if line.is_scheduled and taken[_SCHEDULED] >= MOST_SCHEDULED:
                    return  # no other line can start either
                if _has_room(line, taken):
                    yield line

    def _bring_back(self, now: float) -> None:
        while self._put_off and self._put_off[0][0] <= now:
            one = heapq.heappop(self._put_off)[2]
            self._line_of(one).appendleft(one)

    def _line_of(self, one: T) -> deque[T]:
        return self._lines[one.line.is_scheduled].setdefault(one.line, deque())


def _has_room(line: Line, taken: Counter[tuple[str, str]]) -> bool:
    return all(taken[name] < most for name, most in line.limits.items())


# --- The worker ---


log = logging.getLogger(__name__)

MOST_THREADS = 48
#: Operations that keep the row of the sent copy in memory. Further rows are read from the message again: a stalled
#: server can let thousands wait, with up to 250 KiB each.
MOST_ROWS = 64
_IDLE_SECONDS = 20.0  # until an idle thread ends: each has its own connection to the store
_PAUSE = 0.05  # seconds without a message until copies are shown
_RECORD_WAIT, _LONGEST_RECORD_WAIT = 0.2, 60.0


class _Pause:
    """No message is being sent: a moment for other work."""


@dataclass(eq=False)
class Ticket:
    """A delivery in the queue or in progress, and the handle on which a request waits for it.

    - done: set when the attempt has ended, or the appliance stops.
    - problem: the error for the client if the operation was withdrawn (deleted, because nobody received the message).
    - interrupted: an attempt that the previous run of the appliance began and did not finish; None if there is none.
      It is undone before this delivery starts.
    - row: the parsed message for the list of messages, if the caller has it already.
    """

    operation_id: str
    line: Line
    interrupted: OpenDelivery | None = None
    row: ParsedMessage | None = field(default=None, repr=False)
    done: threading.Event = field(default_factory=threading.Event)
    problem: Problem | None = None
    attempt: DeliveryAttempt | None = None
    failures: int = 0

    def wait(self, seconds: float) -> bool:
        """Wait for the delivery to end, up to this many seconds. Returns False on a timeout."""
        return self.done.wait(seconds)


class Sender:
    """Accepts deliveries and runs them on its threads."""

    def __init__(self, context: SendingContext) -> None:
        self._context, self._store, self._logins = context, context.store, context.logins
        self._events, self._clock = context.events, context.clock
        self._pool = SmtpConnectionPool(context.settings, context.clock.monotonic)
        #: Copies of sent messages that the mirror does not show yet.
        self.unshown = UnshownCopies(context.store)
        self._recorder, self._drafts = Recorder(context, self.unshown), GraphDrafts(context.logins)
        self._changed = threading.Condition()
        self._tickets: dict[str, Ticket] = {}
        self._queue = Queue[Ticket]()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._lacks_threads = False
        self._last_left = 0.0
        self._stopping = False
        context.events.subscribe(AccountRemoved, lambda event: self._pool.drop(event.account_id))
        context.events.subscribe(AccountReconnected, lambda event: self._retry_account(event.account_id))

    def start(self) -> None:
        """Recover the deliveries that the previous run left, by the phase that they reached, then accept new ones.

        If a delivery must be undone and that fails, such as on a full disk, it is tried again before it is sent.
        """
        self.unshown.recover()
        with self._changed:
            self._start_thread()  # the thread that never ends, in case no other can be started later
        for left in self._store.deliveries.list_sending():
            if left.phase is Phase.DOT:
                self.submit(left.operation_id, left.account_id)
                continue
            try:
                is_over = self._take_back(left)
            except Exception:
                log.exception("interrupted_send_not_undone", extra={"operation": left.operation_id})
                self._submit(left.operation_id, self._line(left.account_id), left)
            else:
                if not is_over:
                    self.submit(left.operation_id, left.account_id)

    def release(self) -> None:
        """Start no more deliveries, and stop all waiting, so that requests answer with the current status."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            for ticket in self._tickets.values():
                ticket.done.set()

    def stop(self, timeout: float) -> None:
        """Stop, and wait up to `timeout` seconds for deliveries in progress. The next start recovers the others."""
        self.release()
        self._pool.stop()
        deadline = self._clock.monotonic() + timeout
        with self._changed:
            threads = list(self._threads)
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self._clock.monotonic()))

    def submit(self, operation_id: str, account_id: str, row: ParsedMessage | None = None) -> Ticket:
        """Queue an operation. Returns the ticket to wait on: the existing one if it is queued already.

        `row`: the parsed message for the list of messages, if the caller has it already.
        """
        return self._submit(operation_id, self._line(account_id), row=row)

    def begin_due(self, operation_id: str, account_id: str) -> None:
        """Queue a scheduled operation whose time has come, unless it is queued or in progress already.

        It can still be canceled until an attempt begins; then permissions, mailbox and sender are checked again.
        """
        with self._changed:
            if self._stopping or operation_id in self._tickets:
                return
        self._submit(operation_id, self._line(account_id, is_scheduled=True))

    def is_sending(self, within: float = 0.0) -> bool:
        """Whether a message is being sent now, or was within so many seconds."""
        return self._queue.is_busy or time.monotonic() - self._last_left < within

    def unwritten_steps(self, operation_id: str) -> tuple[PhaseStep, ...]:
        """Return the phases of an attempt in progress that the journal does not have yet; empty if there is none."""
        with self._changed:
            ticket = self._tickets.get(operation_id)
        attempt = None if ticket is None else ticket.attempt
        return () if attempt is None else attempt.unwritten_steps

    def _retry_account(self, account_id: str) -> None:
        """Retry the failed deliveries of a mailbox that has new credentials.

        An attempt that is still running with the old credentials is retried too, when it has failed.
        """
        self._pool.renew(account_id)
        self._recorder.retry_soon(account_id)

    def _take_back(self, left: OpenDelivery) -> bool:
        """Undo a delivery that the previous run began and did not finish; nobody has received it.

        - A scheduled one is queued again.
        - One that no client has seen is withdrawn: its client got no answer, and may repeat the request.
        - Any other is not changed.

        Returns whether the delivery was undone. If not, the caller submits it.
        """
        if left.kind == "scheduled":
            return self._recorder.requeue(self._store.deliveries.get_work(left.operation_id), "interrupted")
        if left.is_shown:
            return False
        work = self._store.deliveries.get_work(left.operation_id)
        is_over = self._store.deliveries.withdraw(left.operation_id)
        if is_over and left.phase in (Phase.ENVELOPE, Phase.DATA):
            self._drafts.remove_later(work.account_id, work.message_id)
        return is_over

    def _submit(
        self,
        operation_id: str,
        line: Line,
        interrupted: OpenDelivery | None = None,
        row: ParsedMessage | None = None,
    ) -> Ticket:
        with self._changed:
            ticket = self._tickets.get(operation_id)
            if ticket is None:
                kept = row if len(self._tickets) < MOST_ROWS else None
                ticket = self._tickets[operation_id] = Ticket(operation_id, line, interrupted, kept)
                self._queue.add(ticket)
                if self._stopping:
                    ticket.done.set()  # it is in the journal, and the next start recovers it
                else:
                    self._ensure_threads()
            return ticket

    def _line(self, account_id: str, *, is_scheduled: bool = False) -> Line:
        """Return the waiting line of a mailbox, by host and port of its SMTP server (empty if unknown)."""
        try:
            endpoint = self._logins.endpoint(account_id, "smtp")
        except (NotFound, Unsupported, RemoteFault, *DATABASE_ERRORS):  # the attempt itself handles these errors
            return Line("", account_id, is_scheduled)
        return Line(f"{endpoint.host.lower()}:{endpoint.port}", account_id, is_scheduled)

    def _ensure_threads(self, coming: int = 0) -> None:
        """Start one more thread if there are fewer idle threads than deliveries that may start, and wake an idle one.

        `coming`: the number of threads that are about to become idle.
        """
        # A notified thread counts as idle until it wakes, so idle threads are compared with all waiting operations.
        enough = self._idle + coming
        if len(self._threads) < MOST_THREADS and self._queue.count_ready(time.monotonic(), enough + 1) > enough:
            self._start_thread()
        self._changed.notify()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name="sending", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # the existing threads continue, and another start is tried soon
            self._threads.discard(thread)
            if not self._lacks_threads:
                log.warning("sender_thread_failed", extra={"threads": len(self._threads)})
            self._lacks_threads = True
        else:
            self._lacks_threads = False

    def _work(self) -> None:
        while (ticket := self._next()) is not None:
            if isinstance(ticket, _Pause):
                self.unshown.show()
                continue
            try:
                self._deliver(ticket)
            except Exception:  # the journal cannot be written; the verdict is kept until it can
                log.exception("delivery_not_recorded", extra={"operation": ticket.operation_id})
                self._put_off(ticket)
            else:
                self._end(ticket)
            if self.unshown.is_full:
                self.unshown.show()
            del ticket  # free the message: the next operation may be long in coming

    def _next(self) -> "Ticket | _Pause | None":
        """Wait for the next delivery and remove it from the queue. Returns None if this thread must end, and a _Pause
        if copies are to be shown, since no message was sent for a moment.

        A thread ends when the appliance stops, or after 20 idle seconds if another thread is idle.
        """
        with self._changed:
            until = time.monotonic() + _IDLE_SECONDS
            quiet = time.monotonic() + _PAUSE
            while not self._stopping:
                now = time.monotonic()
                if (ticket := self._queue.take(now)) is not None:
                    return ticket
                if now >= until and self._idle:
                    break
                if self.unshown.left and now >= quiet:
                    return _Pause()
                times = [each for each in (until, self._queue.next_at()) if each is not None and each > now]
                times += [quiet] if self.unshown.left else []
                self._idle += 1
                self._changed.wait(min(times) - now if times else None)
                self._idle -= 1
            self._threads.discard(threading.current_thread())
            return None

    def _deliver(self, ticket: Ticket) -> None:
        if ticket.interrupted is not None:
            if self._take_back(ticket.interrupted):
                ticket.problem = to_problem("unavailable")
                return
            ticket.interrupted = None
        if ticket.attempt is None:
            ticket.attempt = DeliveryAttempt(self._context, self._pool, self._recorder, ticket.operation_id, ticket.row)
        try:
            outcome = ticket.attempt.run()
            ticket.problem = outcome.problem
            ticket.done.set()  # no request waits for QUIT
        finally:
            ticket.attempt.close()
            if ticket.attempt.is_large:
                self._events.publish(LargeWorkEnded())

    def _put_off(self, ticket: Ticket) -> None:
        with self._changed:
            ticket.failures += 1
            wait = clock.retry_delay(ticket.failures, _RECORD_WAIT, _LONGEST_RECORD_WAIT)
            self._queue.put_off(ticket, time.monotonic() + wait)
            self._leave(ticket)

    def _end(self, ticket: Ticket) -> None:
        with self._changed:
            self._tickets.pop(ticket.operation_id, None)
            self._leave(ticket)
        ticket.done.set()

    def _leave(self, ticket: Ticket) -> None:
        self._queue.leave(ticket)
        self._last_left = time.monotonic()
        if not self._stopping:
            self._ensure_threads(coming=1)
