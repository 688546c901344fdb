"""Holds what folders show by their labels against the server's counts, one folder in each round.

Nobody promises that everything which changes labels counts as a change of the messages: a label may have got another
name, or be made again under its old one. Where a count differs twice, all labels are to be compared. That is a lot to
ask for, and some counts never agree, as where a server shows no more than a thousand messages in a folder: so a folder
that gave rise to it is left alone for a while.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping

from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.sync.context import SyncSession

#: Seconds until the same folder may give rise to a comparison again.
PAUSE = 6 * 3600.0

_Counts = tuple[int, int]  # at the server, and here
_NEW: _Counts = (-1, -1)


class LabelCounts:
    """What is known of the counts, for as long as a connection lasts."""

    def __init__(self, session: SyncSession) -> None:
        self._session = session
        self._order: deque[str] = deque()
        self._suspects: dict[str, _Counts] = {}

    def add_new(self, paths: Iterable[str]) -> None:
        """Look at these folders first: a difference there is no coincidence."""
        for path in paths:
            self._suspects[path] = _NEW
            self._order.appendleft(path)

    def check_next(self, numbers: Mapping[str, int]) -> bool:
        """Compare the counts of the next of these folders (path to number); return whether to compare all labels.

        Raises RemoteFault.
        """
        path = self._pick_folder(numbers)
        counts = None if path is None else self._fetch_counts(path, numbers[path])
        if path is None or counts is None or counts[0] == counts[1]:
            self._suspects.pop(path or "", None)
            return False
        if self._suspects.pop(path, None) in (counts, _NEW):
            self._session.backoff.label_pauses[path] = time.monotonic() + PAUSE
            return True
        self._suspects[path] = counts  # it may have changed since the messages were looked at
        self._order.appendleft(path)
        return False

    def _pick_folder(self, numbers: Mapping[str, int]) -> str | None:
        if not self._order:
            self._order.extend(sorted(numbers))
        pauses, now = self._session.backoff.label_pauses, time.monotonic()
        while self._order:
            path = self._order.popleft()
            if path in numbers and pauses.get(path, now) <= now:
                return path
        return None

    def _fetch_counts(self, path: str, number: int) -> _Counts | None:
        try:
            return self._session.mailbox.get_folder_state(path).exists, self._session.store.folders.count_labeled(
                number
            )
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            return None  # just dropped
