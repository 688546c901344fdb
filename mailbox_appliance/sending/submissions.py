"""The connections over which messages are handed over: one that served well is kept a few seconds for the next message.

A connection is kept for one mailbox and one way to log in, after a success only, and is lent to one thread at a time.
One that is kept and turns out to be of no use costs a new one: until a message has its dot, nobody can have got it.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from mailbox_appliance.model.records import Endpoint
from mailbox_appliance.remote.smtp import Submission
from mailbox_appliance.settings import Settings

log = logging.getLogger(__name__)

#: Messages on one connection; many servers set such a bound, and end the connection where it is passed.
MOST_MESSAGES = 50
#: Connections that are kept for all mailboxes together.
MOST_KEPT = 32
#: Mailboxes that were removed and are remembered, for those messages of theirs that were under way.
MOST_GONE = 1000
_SHORT_GOODBYE = 0.5  # seconds, where somebody waits for it
_SHORTEST_LOOK = 0.25  # seconds, also where none is kept any more
_LAST_GOODBYES = 1.0  # for all of them when the appliance stops


@dataclass(frozen=True)
class _Kept:
    """A connection that nobody uses, and since when."""

    session: Submission
    endpoint: Endpoint
    since: float


class SmtpConnectionPool:
    """Opens, keeps and closes connections. May be used from any thread."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        """`clock` counts seconds that only grow."""
        self._settings, self._clock = settings, clock
        self._changed = threading.Condition()
        self._kept: dict[str, list[_Kept]] = defaultdict(list)
        self._gone: dict[str, None] = {}  # in the order in which they went
        self._renewals: dict[str, int] = defaultdict(int)
        self._closer: threading.Thread | None = None
        self._is_stopped = False

    @property
    def _longest(self) -> int:
        """Seconds that a connection is kept; this may change while running."""
        return self._settings.number("sending.keep_connection")

    def open(self, endpoint: Endpoint) -> Submission:
        """A new connection. Raises RemoteFault."""
        return Submission.open(
            endpoint,
            ca_file=self._settings.text("remote.ca_file"),
            timeout=self._settings.number("remote.timeout"),
            clock=self._clock,
        )

    def take(self, account_id: str, endpoint: Endpoint) -> Submission | None:
        """A connection that was kept for this mailbox and can be used, for oneself; None where there is none."""
        while (kept := self._pop(account_id)) is not None:
            is_recent = self._clock() - kept.since < self._longest
            if kept.endpoint == endpoint and is_recent and kept.session.is_ready():
                return kept.session
            kept.session.close()  # who waits for a message to go does not wait for a goodbye
        return None

    def keep(self, account_id: str, endpoint: Endpoint, session: Submission) -> bool:
        """Keep a connection on which the last message was taken. False where it is to be closed by its user."""
        if session.accepted_count >= MOST_MESSAGES or not self._longest:
            return False
        with self._changed:
            count = sum(map(len, self._kept.values()))
            if self._is_stopped or account_id in self._gone or count >= MOST_KEPT or not self._has_closer():
                return False
            self._kept[account_id].append(_Kept(session, endpoint, self._clock()))
        return True

    def drop(self, account_id: str) -> None:
        """The mailbox is gone: its connections are closed, and none is kept for it any more."""
        with self._changed:
            self._gone[account_id] = None
            if len(self._gone) > MOST_GONE:
                del self._gone[next(iter(self._gone))]
            left = self._kept.pop(account_id, [])
        for kept in left:
            kept.session.quit(_SHORT_GOODBYE)

    def renew(self, account_id: str) -> None:
        """The mailbox is reached in another way: its connections are closed, and new ones may be kept."""
        with self._changed:
            self._renewals[account_id] += 1
            left = self._kept.pop(account_id, [])
        for kept in left:
            kept.session.quit(_SHORT_GOODBYE)

    def count_renewals(self, account_id: str) -> int:
        """How often that has happened: a login that was refused before says nothing of the one that came since."""
        with self._changed:
            return self._renewals.get(account_id, 0)

    def close_unused(self) -> None:
        """Say goodbye on those that nobody has used for long enough."""
        oldest = self._clock() - self._longest
        for kept in self._remove(lambda kept: kept.since <= oldest):
            kept.session.quit()

    def stop(self) -> None:
        """Close all, and keep none from now on."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        left = self._remove(lambda _: True)
        for kept in left:
            kept.session.quit(_LAST_GOODBYES / len(left))

    def _pop(self, account_id: str) -> _Kept | None:
        """The one that was used last: the others may grow old."""
        with self._changed:
            kept = self._kept.get(account_id)
            found = kept.pop() if kept else None
            if not kept:
                self._kept.pop(account_id, None)
            return found

    def _remove(self, is_meant: Callable[[_Kept], bool]) -> list[_Kept]:
        with self._changed:
            removed = [kept for each in self._kept.values() for kept in each if is_meant(kept)]
            for account_id, each in list(self._kept.items()):
                each[:] = [kept for kept in each if not is_meant(kept)]
                if not each:
                    del self._kept[account_id]
            return removed

    def _has_closer(self) -> bool:
        """Whether somebody closes what nobody uses: else nothing may be kept."""
        if self._closer is None:
            closer = threading.Thread(target=self._run, name="kept smtp connections", daemon=True)
            try:
                closer.start()
            except RuntimeError:  # no more threads are to be had
                log.warning("no thread is to be had that closes connections, so none is kept")
                return False
            self._closer = closer
        return True

    def _run(self) -> None:
        """Close those that are not used; this thread lives while there are any."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopped, max(self._longest / 4, _SHORTEST_LOOK))
                if self._is_stopped or not self._kept:
                    self._closer = None
                    return
            self.close_unused()
