"""Background maintenance of an open store, in steps so short that other threads hardly wait.

- It deletes the mail of removed mailboxes.
- It merges the pieces of the full-text index. Every batch of messages adds a piece, and many pieces slow down searches.
- It deletes expired rows and uploads, and keeps the attachment cache within its limit.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mailbox_appliance.clock import Clock, to_millis, to_timestamp
from mailbox_appliance.store import moves
from mailbox_appliance.store.attachment_cache import PartCache
from mailbox_appliance.store.changes import Changes
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.undo import UndoTokens
from mailbox_appliance.store.uploads import Uploads

log = logging.getLogger(__name__)

# --- Expired rows ---
#
#     legacy_idempotency   kept until the key has expired
#     delivery_phases      kept for `store.keep_phases_days`, and until the operation is over; its outcome stays
#     undo_tokens          kept for 24 hours
#     approvals            kept as long as their delivery operation, which is permanent like its idempotency key
#     changes              kept for `events.keep_days`, at most `events.keep_count` of them


PHASES_KEPT = timedelta(days=90)  # the default of `store.keep_phases_days`
PHASES_AT_ONCE = 500  # phases checked in a step: about 10 ms if all of them are deleted

# in the order in which they were written
_NEXT_PHASES = """
SELECT p.rowid, p.at < ?, d.status IN ('succeeded', 'failed') FROM delivery_phases p
  CROSS JOIN delivery_operations d ON d.id = p.operation WHERE p.rowid > ? ORDER BY p.rowid LIMIT ?"""


def delete_some_phases(database: Database, now: datetime, after: int, kept: timedelta = PHASES_KEPT) -> int | None:
    """Check the next 500 rows of the delivery history, and delete the expired ones. Runs in a transaction of its own.

    `after`: row number after which to continue, 0 at first. `kept`: time for which the history of an ended delivery is
    kept. Returns the `after` of the next call; None if all old rows were checked.
    """
    rows = database.rows(_NEXT_PHASES, (to_timestamp(now - kept), after, PHASES_AT_ONCE))
    outdated = [(number,) for number, is_old, is_over in rows if is_old and is_over]
    if outdated:
        with database.transaction():
            database.change_many("DELETE FROM delivery_phases WHERE rowid = ?", outdated)
    return rows[-1][0] if len(rows) == PHASES_AT_ONCE and any(is_old for _, is_old, _ in rows) else None


# --- The cleaner ---


CLEANUP_INTERVAL = 5.0  # seconds between two checks
_EXPIRY_INTERVAL = 3600.0
STEP_PAUSE = 0.005  # between two steps, for other writers
# More than FEW are merged when writing pauses, more than MANY at once. MANY are those of a first sync of 140,000
# messages, in which a search takes 3 ms longer; from 1,000 on, FTS5 merges within a batch.
FEW_PIECES, MANY_PIECES = 16, 700
_PAGES_A_STEP = 100  # pages of the index written in a step: about 20 ms

_COUNT_PIECES = """
WITH RECURSIVE piece (id) AS (SELECT min(segid) FROM message_index_idx UNION ALL
  SELECT (SELECT min(segid) FROM message_index_idx WHERE segid > piece.id) FROM piece WHERE piece.id IS NOT NULL)
SELECT count(id) FROM piece"""
_INDEX_STRUCTURE = "SELECT block FROM message_index_data WHERE id = 10"  # the list of pieces; sqlite.org/fts5.html 9
_MERGE_PIECES = "INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)"


@dataclass(frozen=True)
class CleanupLimits:
    """Limits of stored data. `phases`: time for which the history of ended deliveries is kept.

    `parts`: maximum size of the attachment cache in bytes; None: no limit. `changes`, `most_changes`: time for which
    events can be read, and their maximum number.
    """

    phases: timedelta = PHASES_KEPT
    parts: int | None = None
    changes: timedelta = timedelta(days=30)
    most_changes: int = 1_000_000


class StoreCleaner:
    """Runs the background maintenance of an open store on a thread of its own.

    `get_limits`: replaceable function that returns the limits; it is called again for each run, so that settings may
    change.
    """

    def __init__(self, database: Database, clock: Clock, parts: PartCache, changes: Changes, uploads: Uploads) -> None:
        self._database, self._clock, self._parts, self._changes = database, clock, parts, changes
        self._undo = UndoTokens(database, clock)
        self._uploads = uploads
        self.get_limits: Callable[[], CleanupLimits] = CleanupLimits
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._pieces = 0  # at the last check
        self._expires_at = 0.0  # monotonic

    def start(self) -> None:
        """Start the thread. It also continues work that was interrupted by the last stop."""
        self._thread = threading.Thread(target=self._run, name="store-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after its current step, and wait for it. The next start continues the work."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Make the thread look for work at once, instead of at its next interval."""
        self._woken.set()

    def apply_limits(self) -> None:
        """Make the thread delete data beyond the limits at once, after settings were changed."""
        self._expires_at = 0.0
        self.wake()

    def delete_removed_mailboxes(self) -> None:
        """Delete the mail of removed mailboxes in small transactions, until none is left or `stop` is called."""
        for (number,) in self._database.rows("SELECT number FROM accounts WHERE status = 'removed'"):
            while not self._stopping.is_set() and moves.delete_some_of_account(self._database, number):
                self._stopping.wait(STEP_PAUSE)

    def delete_uploads(self) -> None:
        """Delete expired uploads, and the content of all that have ended."""
        while not self._stopping.is_set() and self._uploads.delete_some():
            self._stopping.wait(STEP_PAUSE)

    def delete_expired(self) -> None:
        """Delete expired rows, and evict cached attachments beyond the limit."""
        now, after, bounds = self._clock.now(), 0, self.get_limits()
        with self._database.transaction():
            self._database.change("DELETE FROM legacy_idempotency WHERE expires_at <= ?", (to_timestamp(now),))
        self._undo.delete_expired()
        while not self._stopping.is_set():
            found = delete_some_phases(self._database, now, after, bounds.phases)
            if found is None:
                break
            after = found
            self._stopping.wait(STEP_PAUSE)
        oldest = to_millis(now - bounds.changes)
        while not self._stopping.is_set() and self._changes.delete_some(oldest, bounds.most_changes):
            self._stopping.wait(STEP_PAUSE)
        while bounds.parts is not None and not self._stopping.is_set() and self._parts.evict_one(bounds.parts):
            self._stopping.wait(STEP_PAUSE)

    def merge_index(self) -> None:
        """Merge the pieces (FTS5 segments) of the full-text index, in small transactions, until few are left."""
        while not self._stopping.is_set() and self._merge_step():
            self._stopping.wait(STEP_PAUSE)

    def count_index_pieces(self) -> int:
        """Return the number of pieces (FTS5 segments) of the full-text index."""
        return int(self._database.value(_COUNT_PIECES))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                self._run_once()
            except Exception:  # For example a full disk: it is tried again.
                log.exception("cleanup_failed")
            self._woken.wait(CLEANUP_INTERVAL)

    def _run_once(self) -> None:
        self.delete_removed_mailboxes()
        self.delete_uploads()
        if time.monotonic() >= self._expires_at:
            self._expires_at = (
                time.monotonic() + _EXPIRY_INTERVAL
            )  # Before the work, since `wake` may be called during it.
            self.delete_expired()
        before, self._pieces = self._pieces, self.count_index_pieces()
        is_paused = before == self._pieces
        if self._pieces > (FEW_PIECES if is_paused else MANY_PIECES):
            self.merge_index()
            self._pieces = self.count_index_pieces()

    def _merge_step(self) -> bool:
        """Merge some pieces (FTS5 segments) of the full-text index. Returns False if there was nothing to merge."""
        with self._database.transaction():
            before = self._database.value(_INDEX_STRUCTURE)
            self._database.change(_MERGE_PIECES, (_PAGES_A_STEP,))
            return bool(self._database.value(_INDEX_STRUCTURE) != before)
