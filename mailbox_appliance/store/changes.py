"""The journal of changes, which readers of events follow: pages of it, its beginning and end, and its size.

Triggers write it in the transaction of each change (`formats/format_5.py`), so it has neither gaps nor doubles. It
names what has changed; what readers are shown is read when they ask, so it is never older than the event. Readers get
only what is on the disk: after a power failure, a position that they know would belong to another change.

A position is a number that only grows, with the mark of its store. A restore makes a new mark, since the mirror has
then changed as a whole: readers with an earlier position must read the lists again. So must readers whose position was
deleted, because there were later ones for too long, or too many.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mailbox_appliance.errors import Invalid
from mailbox_appliance.model.changes import EventType, list_event_types
from mailbox_appliance.security.tokens import id_of
from mailbox_appliance.store.database import Database

#: SQL condition that a member sees the approval of a delivery `d`.
# The owner sees all of a mailbox; others see those of their own API keys, in mailboxes that they have access to.
VISIBLE_APPROVALS = """
EXISTS (SELECT 1 FROM accounts a WHERE a.id = d.account_id AND (a.owner_member_id = :member
  OR (substr(d.credential_id, 1, 4) = 'key_' AND d.member_id = :member AND (a.shared_with_all OR EXISTS (
    SELECT 1 FROM account_grants g WHERE g.account_id = a.id AND g.member_id = :member)))))"""
#: The types of events by their numbers in the column `kind`, beginning with 1. 0 stands for changed rights.
KINDS: tuple[EventType, ...] = list_event_types()
#: The kind of a row that makes readers that wait check what they may read. It is not shown.
RIGHTS = 0
_NUMBERS = {kind: number for number, kind in enumerate(KINDS, start=1)}
_WINDOW = 20_000  # rows that one statement reads, so that it never takes long
_DELETED_AT_ONCE = 5000

_MARK, _FLOOR = "changes_mark", "changes_floor"
_PUT = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_END = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"
# Deliveries are seen by those who see them in lists.
_READ = f"""
SELECT c.position, c.at, c.kind, a.id, c.subject FROM changes c LEFT JOIN accounts a ON a.number = c.account
  WHERE c.position > :after AND c.position <= :until AND c.kind IN (SELECT value FROM json_each(:kinds))
  AND (c.account IS NULL OR c.account IN (
    SELECT number FROM accounts WHERE id IN (SELECT value FROM json_each(:accounts))))
  AND (c.kind <> 5 OR EXISTS (SELECT 1 FROM delivery_operations d
    WHERE d.id = c.subject AND d.shown AND (d.member_id = :member OR d.kind = 'scheduled')))
  AND (c.kind NOT IN (7, 8) OR EXISTS (SELECT 1 FROM approvals p JOIN delivery_operations d ON d.id = p.operation
    WHERE p.id = c.subject AND {VISIBLE_APPROVALS}))
  ORDER BY c.position LIMIT :limit"""


@dataclass(frozen=True)
class Change:
    """A row of the journal.

    - position: Its number.
    - at: When it was written, in milliseconds since 1970.
    - type: What kind of change it is; None if the rights of some credential changed.
    - account_id: The mailbox; None for what is of no mailbox.
    - subject: ID of what has changed; for a failed backup the reason.
    """

    position: int
    at: int
    type: EventType | None
    account_id: str | None
    subject: str


@dataclass(frozen=True)
class ChangeFilter:
    """The changes that a reader sees: their types, the IDs of the mailboxes, and the member who sees deliveries."""

    types: frozenset[EventType]
    account_ids: frozenset[str]
    member_id: str

    def includes(self, other: "ChangeFilter") -> bool:
        """Whether a reader with this filter sees all that one with the other filter sees."""
        return self.types >= other.types and self.account_ids >= other.account_ids


class Changes:
    """Reads the journal of changes, and keeps it within its limits."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mark: str | None = None

    @property
    def mark(self) -> str:
        """The mark of this store, which all its positions have. A restore changes it."""
        if self._mark is None:
            find = "SELECT value FROM meta WHERE name = ?"
            self._mark = self._database.value(find, (_MARK,))
            if self._mark is None:
                with self._database.transaction(durable=True):
                    self._database.change("INSERT OR IGNORE INTO meta VALUES (?, ?)", (_MARK, secrets.token_hex(8)))
                self._mark = self._database.value(find, (_MARK,))
        return str(self._mark)

    def end(self) -> int:
        """Return the number of the last change that was ever written, once it is on the disk; 0 if there was none."""
        number = int(self._database.value(_END))
        self._database.wait_until_durable(all_commits=True)
        return number

    def floor(self) -> int:
        """Return the number up to which changes were deleted. Readers must have read up to it."""
        return int(self._database.value("SELECT value FROM meta WHERE name = ?", (_FLOOR,)) or 0)

    def to_position(self, number: int) -> str:
        """Return the position that readers are given for a number."""
        return f"{self.mark}-{number}"

    def from_position(self, position: str) -> int | None:
        """Return the number of a position. None: changes after it are missing here, so its reader must start again.

        Raises Invalid if it is not a position.
        """
        mark, _, digits = position.rpartition("-")
        if not (mark.isalnum() and digits.isdecimal() and len(digits) < 20):
            raise Invalid.at("after", "This is not a position. Use `nextPosition` or the `position` of an event.")
        number = int(digits)
        return number if mark == self.mark and self.floor() <= number <= self.end() else None

    def event_id(self, number: int) -> str:
        """Return the ID of an event, which is the same each time that it is shown."""
        return id_of("evt", (int(self.mark, 16) << 64) | number)

    def read(
        self, after: int, wanted: ChangeFilter, limit: int, end: int | None = None
    ) -> tuple[tuple[Change, ...], int]:
        """Return the next changes that a reader sees, in order, and the number after which to read on.

        `after`: number of the last change that was read. That number grows although nothing is returned if the reader
        sees none of the changes. `end`: number of the last change to read; None: of the last one that there is.
        """
        found: list[Change] = []
        end = self.end() if end is None else end
        values = _filter_values(wanted)
        while after < end and len(found) < limit:
            until, missing = min(after + _WINDOW, end), limit - len(found)
            rows = self._database.rows(_READ, values | {"after": after, "until": until, "limit": missing})
            found += [
                Change(number, at, KINDS[kind - 1], account, subject) for number, at, kind, account, subject in rows
            ]
            after = found[-1].position if len(rows) == missing else until
        return tuple(found), after

    def start_of_last(self, wanted: ChangeFilter, count: int) -> int:
        """Return the number after which the last `count` changes come that a reader sees, of the newest 20,000."""
        end = self.end()
        after = max(self.floor(), end - _WINDOW)
        values = _filter_values(wanted) | {"after": after, "until": end, "limit": count}
        rows = self._database.rows(_READ.replace("ORDER BY c.position", "ORDER BY c.position DESC"), values)
        return rows[-1][0] - 1 if len(rows) == count else after

    def has_changed_rights(self, after: int) -> bool:
        """Whether the rights of any credential may have changed after this number."""
        sql = "SELECT 1 FROM changes WHERE position > ? AND kind = ? LIMIT 1"
        return self._database.value(sql, (after, RIGHTS)) is not None

    def record(self, kind: EventType, subject: str, account_id: str | None = None) -> None:
        """Write a change of which no trigger knows, such as a backup. Call it inside a transaction.

        `subject`: ID of what has changed; for a failed backup the reason.
        """
        self._database.change(
            "INSERT INTO changes (kind, account, subject) VALUES (?, (SELECT number FROM accounts WHERE id = ?), ?)",
            (_NUMBERS[kind], account_id, subject),
        )

    def delete_some(self, before: int, most: int) -> bool:
        """Delete the oldest changes: those before a time (milliseconds since 1970), and those beyond `most` rows.

        Deletes some thousands at once, in a transaction of its own. Returns False if none is left to delete.
        """
        first = self._database.value("SELECT min(position) FROM changes")
        if first is None:
            return False
        # Positions have no gaps, so they tell how many rows there are; counting would read them all.
        surplus = min(self.end() - most, first + _DELETED_AT_ONCE - 1)
        # Only the clock decides about age: the rows are in the order of their commits, and so of their times, except
        # after the clock was set back.
        aged = self._database.value(
            "SELECT max(position) FROM (SELECT position, at FROM changes ORDER BY position LIMIT ?) WHERE at < ?",
            (_DELETED_AT_ONCE, before),
        )
        until = max(surplus, aged or 0)
        if until < first:
            return False
        with self._database.transaction():
            self._database.change("DELETE FROM changes WHERE position <= ?", (until,))
            self._database.change(_PUT, (_FLOOR, str(until)))
        return True


@contextmanager
def told_as_one(database: Database, message_id: str, *, has_moved: bool) -> Iterator[None]:
    """Context manager: the block deletes a message and adds it again; for readers it was updated, or has moved. Call it
    inside a transaction.
    """
    before = int(database.value(_END))
    yield
    its = "WHERE position > ? AND subject = ? AND kind = ?"
    if database.change(f"DELETE FROM changes {its}", (before, message_id, _NUMBERS["message.deleted"])):
        kind = _NUMBERS["message.moved" if has_moved else "message.updated"]
        database.change(f"UPDATE changes SET kind = ? {its}", (kind, before, message_id, _NUMBERS["message.created"]))


def _filter_values(wanted: ChangeFilter) -> dict[str, object]:
    return {
        "kinds": json.dumps([_NUMBERS[kind] for kind in wanted.types]),
        "accounts": json.dumps(sorted(wanted.account_ids)),
        "member": wanted.member_id,
    }


def begin_anew(database: Database, at_least: int) -> None:
    """Make a journal whose earlier positions all count as lost, as in a restored store. Call it inside a transaction.

    `at_least`: the number that the next change exceeds.
    """
    database.change("DELETE FROM main.changes")
    database.change(_PUT.replace("INTO meta", "INTO main.meta"), (_MARK, secrets.token_hex(8)))
    number = max(at_least, int(database.value(_END.replace("FROM sqlite", "FROM main.sqlite"))))
    database.change("DELETE FROM main.sqlite_sequence WHERE name = 'changes'")
    database.change("INSERT INTO main.sqlite_sequence (name, seq) VALUES ('changes', ?)", (number,))
    database.change(_PUT.replace("INTO meta", "INTO main.meta"), (_FLOOR, str(number)))


def skip_webhooks(database: Database) -> None:
    """Let the webhooks of a restored store send only what changes from now on. Call it inside a transaction."""
    sql = (
        "UPDATE main.webhooks SET position = ?, replays = replays + 1, failures = 0, failing_since = NULL,"
        " next_at = NULL"
    )
    database.change(sql, (int(database.value(_END.replace("FROM sqlite", "FROM main.sqlite"))),))
