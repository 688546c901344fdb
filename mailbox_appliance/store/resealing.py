"""Sealing the audit log for another key, row after row; and where the end of a log is kept."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from mailbox_appliance.store.database import Database

_TOGETHER = 1000
_KEEP = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


def keep_end(database: Database, count: int, head: str) -> None:
    """Keep how many rows the log has, and what the next one is chained to."""
    database.change_many(_KEEP, (("audit_head", head), ("audit_count", str(count))))


class Resealing:
    """Gives the rows of a log new seals, from the first one on. `head` and `seal` are those of the new key."""

    def __init__(
        self,
        database: Database,
        head: Callable[[int, bytes], str],
        seal: Callable[[str, Sequence[object]], bytes],
        each: Callable[[int, int], None],
    ) -> None:
        self._database, self._head, self._seal, self._each = database, head, seal, each
        self._number, self._last = 0, b""
        self._sealed: list[tuple[bytes, int]] = []

    def add_row(self, row: Sequence[Any], count: int) -> None:
        """Seal the next row, given with its old seal at the end; `count`: how many there are."""
        self._last = self._seal(self._head(self._number, self._last), row[:-1])
        self._number = row[0]
        self._sealed.append((self._last, self._number))
        if len(self._sealed) >= _TOGETHER:
            self._write_seals()
            self._each(self._number, count)

    def finish(self, *, is_right: bool) -> None:
        """Write the rest, and the end of the log: one that fits no row where the log is not right."""
        self._write_seals()
        with self._database.transaction():
            if is_right:
                keep_end(self._database, self._number, self._head(self._number, self._last))
            else:
                self._database.change(_KEEP, ("audit_head", secrets.token_hex(32)))

    def _write_seals(self) -> None:
        with self._database.transaction():
            self._database.change_many("UPDATE audit_events SET mac = ? WHERE number = ?", self._sealed)
        self._sealed.clear()
