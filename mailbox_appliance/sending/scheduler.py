"""The timer of the appliance: starts scheduled messages when they are due, and runs other work that is due at a time.

It has no state of its own: what is due, and when, is in the store. It starts what is due now. Then it sleeps until the
next item is due, until `wake` is called, or for a few seconds, since clocks jump and machines sleep. Work in progress
stays due until it is done, and is not started a second time.
"""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Protocol

from mailbox_appliance.clock import Backoff
from mailbox_appliance.sending.context import SendingContext

log = logging.getLogger(__name__)

#: Mailboxes per task that are processed at the same time.
MOST_AT_ONCE = 4
# The longest and the shortest time between two checks, in seconds.
_LONGEST, _SHORTEST = 5.0, 0.1
# Seconds for which a mailbox's task pauses if it could not even be planned; they grow with each failure.
_FIRST_REST, _LONGEST_REST = 5.0, 300.0


class TimedTask(Protocol):
    """Work that the timer starts at planned times, one mailbox at a time, such as saving copies in Sent."""

    @property
    def name(self) -> str:
        """The name of the task in thread names and in the log."""
        ...

    def due_accounts(self, now: datetime) -> Collection[str]:
        """Return the IDs of the mailboxes with work planned for `now` or earlier. Only the store may be queried."""
        ...

    def work(self, account_id: str, stopping: threading.Event) -> None:
        """Do the work of a mailbox that is due, or plan it for later. Starts nothing once `stopping` is set."""
        ...


class Scheduler:
    """The timer of the appliance.

    `begin`: starts a scheduled message, by the IDs of operation and mailbox, unless it has started already. `tasks`:
    the other kinds of work.
    """

    def __init__(self, context: SendingContext, begin: Callable[[str, str], None], tasks: Sequence[TimedTask]) -> None:
        self._store, self._settings, self._clock = context.store, context.settings, context.clock
        self._begin, self._tasks = begin, tasks
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._at_work: dict[tuple[str, str], threading.Thread] = {}
        self._failures = Backoff[str](_FIRST_REST, _LONGEST_REST)
        self._last_look: datetime | None = None
        self._thread = threading.Thread(target=self._run, name="due", daemon=True)

    def start(self) -> None:
        """Start the thread of the timer. Work that is already due begins at once."""
        self._thread.start()

    def wake(self) -> None:
        """Make the timer check soon. Call this after planning work for an earlier time than before."""
        self._woken.set()

    def release(self) -> None:
        """Start no more work, without waiting for work in progress."""
        self._stopping.set()
        self._woken.set()

    def stop(self, timeout: float) -> None:
        """Stop, and wait up to `timeout` seconds for work in progress. The next start repeats unfinished work."""
        self.release()
        deadline = self._clock.monotonic() + timeout
        with self._lock:
            threads = [self._thread, *self._at_work.values()]
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self._clock.monotonic()))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()  # first, so that a wake during the check is not lost
            pause = self._run_due()
            self._stopping.wait(_SHORTEST)
            self._woken.wait(max(0.0, pause - _SHORTEST))

    def _run_due(self) -> float:
        """Start all work whose planned time has come, and return the seconds until the next check."""
        now = self._clock.now()
        self._try("the clock", lambda: self._check_clock(now))
        self._try("scheduled sends", lambda: self._begin_scheduled(now))
        for task in self._tasks:
            self._try(task.name, lambda task=task: self._begin_task(task, now))  # type: ignore[misc]
        next_at: list[datetime | None] = []
        self._try("what is due", lambda: next_at.append(self._store.schedule.find_next_due(now)))
        if not next_at or next_at[0] is None:
            return _LONGEST
        return min(_LONGEST, (next_at[0] - self._clock.now()).total_seconds())

    def _check_clock(self, now: datetime) -> None:
        if self._last_look is None or now < self._last_look:
            self._store.schedule.pull_forward(now)
        self._last_look = now

    def _begin_scheduled(self, now: datetime) -> None:
        if self._settings.flag("sending.hold_scheduled"):
            return
        for due in self._store.schedule.list_due_sends(now):
            if self._stopping.is_set():
                return
            self._begin(due.operation_id, due.account_id)

    def _begin_task(self, task: TimedTask, now: datetime) -> None:
        for account_id in task.due_accounts(now):
            with self._lock:
                busy = sum(1 for name, _ in self._at_work if name == task.name)
                if self._stopping.is_set() or busy >= MOST_AT_ONCE:
                    return
                is_paused = self._failures.is_paused(f"{task.name} {account_id}")
                if (task.name, account_id) not in self._at_work and not is_paused:
                    self._start_task(task, account_id)

    def _start_task(self, task: TimedTask, account_id: str) -> None:
        name = f"{task.name} {account_id}"
        thread = threading.Thread(target=self._work, args=(task, account_id), name=name, daemon=True)
        self._at_work[task.name, account_id] = thread
        try:
            thread.start()
        except BaseException:  # no more threads can be started
            del self._at_work[task.name, account_id]
            raise

    def _work(self, task: TimedTask, account_id: str) -> None:
        is_through = self._try(f"{task.name} {account_id}", lambda: task.work(account_id, self._stopping))
        with self._lock:
            del self._at_work[task.name, account_id]
        if is_through:  # otherwise it stays due, and the next check is soon enough
            self.wake()

    def _try(self, what: str, act: Callable[[], object]) -> bool:
        """Call `act`, and return False if it raises an error, such as on a full disk.

        `what`: its name in the log. Only the first of successive failures is logged, and the success that ends them.
        """
        try:
            act()
        except Exception:
            if what not in self._failures and not self._stopping.is_set():
                log.exception("scheduled_task_failed", extra={"what": what})
            self._failures.fail(what)
            return False
        if self._failures.succeed(what):
            log.info("scheduled_task_recovered", extra={"what": what})
        return True
