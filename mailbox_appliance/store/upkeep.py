"""What is done to the store while nobody waits for it, in steps so short that nobody has to.

Removed mailboxes: their mail is deleted bit by bit. The full-text index: every batch of messages leaves a piece of its
own, which is cheap to write; searching gets slower with the number of pieces, so they are merged when writing pauses.
What is kept for a time only is deleted after it (store/outdated); what was fetched on demand is kept within its bound.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from mailbox_appliance.clock import Clock
from mailbox_appliance.store import outdated, removal
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.part_cache import PartCache

log = logging.getLogger(__name__)

EVERY = 5.0  # seconds between two looks
_FORGET_EVERY = 3600.0
PAUSE = 0.005  # between two steps, for whoever wants to write
FEW_PIECES, MANY_PIECES = 16, 256  # more are merged when writing pauses; or at once
_STEP = 100  # pages of the index that are written in a step: some 20 ms

_PIECES = """
WITH RECURSIVE piece (id) AS (SELECT min(segid) FROM message_index_idx UNION ALL
  SELECT (SELECT min(segid) FROM message_index_idx WHERE segid > piece.id) FROM piece WHERE piece.id IS NOT NULL)
SELECT count(id) FROM piece"""
_STRUCTURE = "SELECT block FROM message_index_data WHERE id = 10"  # which pieces there are; sqlite.org/fts5.html 9
_MERGE = "INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)"


@dataclass(frozen=True)
class Bounds:
    """How much is kept: how long the steps of deliveries that are over, and how many bytes fetched on demand, if that
    is bounded.
    """

    phases: timedelta = outdated.PHASES_KEPT
    parts: int | None = None


class Upkeep:
    """Looks after an open store on a thread of its own. `bounds` is asked each time, so that settings may change."""

    def __init__(self, database: Database, clock: Clock, parts: PartCache) -> None:
        self._database, self._clock, self._parts = database, clock, parts
        self.get_limits: Callable[[], Bounds] = Bounds
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._pieces = 0  # when we looked last
        self._expires_at = 0.0  # monotonic

    def start(self) -> None:
        """Begin, also with what an earlier run left undone."""
        self._thread = threading.Thread(target=self._run, name="store-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End with the step that is under way. What is left is done after the next start."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """There is something to be done at once."""
        self._woken.set()

    def apply_limits(self) -> None:
        """What may be kept has changed: see to it at once."""
        self._expires_at = 0.0
        self.wake()

    def delete_removed_mailboxes(self) -> None:
        """Delete what is left of removed mailboxes."""
        for (number,) in self._database.rows("SELECT number FROM accounts WHERE status = 'removed'"):
            while not self._stopping.is_set() and removal.delete_some(self._database, number):
                self._stopping.wait(PAUSE)

    def delete_expired(self) -> None:
        """Delete what was to be kept for a time only, or is more than may be kept."""
        now, after, bounds = self._clock.now(), 0, self.get_limits()
        outdated.delete_legacy_keys(self._database, now)
        while not self._stopping.is_set():
            found = outdated.delete_some_phases(self._database, now, after, bounds.phases)
            if found is None:
                break
            after = found
            self._stopping.wait(PAUSE)
        while bounds.parts is not None and not self._stopping.is_set() and self._parts.evict_one(bounds.parts):
            self._stopping.wait(PAUSE)

    def merge_index(self) -> None:
        """Merge the pieces of the index until there are few."""
        while not self._stopping.is_set() and self._merge_step():
            self._stopping.wait(PAUSE)

    def count_index_pieces(self) -> int:
        """How many pieces the index has."""
        return int(self._database.value(_PIECES))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                self._run_once()
            except Exception:  # a full disk, say: it is tried again
                log.exception("the store could not be looked after")
            self._woken.wait(EVERY)

    def _run_once(self) -> None:
        self.delete_removed_mailboxes()
        if time.monotonic() >= self._expires_at:
            self._expires_at = time.monotonic() + _FORGET_EVERY  # before it is done: it may be wanted again meanwhile
            self.delete_expired()
        before, self._pieces = self._pieces, self.count_index_pieces()
        is_paused = before == self._pieces
        if self._pieces > (FEW_PIECES if is_paused else MANY_PIECES):
            self.merge_index()
            self._pieces = self.count_index_pieces()

    def _merge_step(self) -> bool:
        """A step of merging; False where there was nothing to do."""
        with self._database.transaction():
            before = self._database.value(_STRUCTURE)
            self._database.change(_MERGE, (_STEP,))
            return bool(self._database.value(_STRUCTURE) != before)
