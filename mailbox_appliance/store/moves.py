"""Recognizes messages that moved to another folder, and deletes those that are gone; also assigns row numbers.

    in a folder, with its UID --detach--> gone: no UID, still readable --reattach--> in the folder where it was seen
                                            `--purge: not found after every folder was checked--> (deleted)

Sync compares the messages that it sees in a folder with the stored messages that are gone. Two messages count as the
same in these cases:

- If the provider has message IDs, that ID alone decides, even if the stored message is not gone from its place yet.
- Otherwise Message-ID, size and date at the server must agree, the date to the second (RFC 9051 2.3.3).
- Without Message-ID, size and date suffice if exactly one gone message and exactly one seen message have them.

Messages that were mirrored without a provider's ID are recognized in the second or third way.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mailbox_appliance.clock import to_millis
from mailbox_appliance.model.sync import MessageIdentity
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.messages import (
    HAS_ATTACHMENT,
    JoiningMessage,
    ThreadAssigner,
    as_json,
    flag_bits,
    pack_keywords,
)

# --- Deleting messages: in batches, each a transaction, so that other writers do not wait long ---
#
# Deleting a message deletes its body, its entry in the full-text index, its cached parts, and its thread if that
# becomes empty.


DELETED_AT_ONCE = 250  # messages deleted at once: about 40 ms

_EMPTY_THREADS = """
SELECT j.value FROM json_each(?) j WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.thread = j.value)"""


def delete_messages(database: Database, numbers: Collection[int]) -> None:
    """Delete the messages with these row numbers, and threads that become empty. Call it inside a transaction."""
    of = "SELECT DISTINCT m.thread FROM json_each(?) j CROSS JOIN messages m ON m.number = j.value"
    threads = [row[0] for row in database.rows(of, (as_json(numbers),))]
    _delete_rows(database, [(number,) for number in sorted(numbers)])
    delete_empty_threads(database, threads)


def delete_empty_threads(database: Database, threads: Collection[int]) -> None:
    """Delete those of these threads (row numbers) that have no messages. Call it inside a transaction.

    If a message of a deleted thread comes back later, it begins a new thread.
    """
    empty = database.rows(_EMPTY_THREADS, (as_json(threads),))
    database.change_many("DELETE FROM threads WHERE number = ?", empty)


def delete_folder_messages(database: Database, folder: int) -> None:
    """Delete all messages of a folder (row number). Each batch is a transaction."""
    while rows := database.rows("SELECT number FROM messages WHERE folder = ? LIMIT ?", (folder, DELETED_AT_ONCE)):
        with database.transaction():
            delete_messages(database, [row[0] for row in rows])


def delete_some_of_account(database: Database, account: int) -> bool:
    """Delete one batch of a removed mailbox: messages first, then threads, at last its row. Runs in a transaction of
    its own.

    Returns False if nothing is left to delete.
    """
    with database.transaction():
        rows = database.rows("SELECT number FROM messages WHERE account = ? LIMIT ?", (account, DELETED_AT_ONCE))
        if rows:
            _delete_rows(database, rows)
            return True
        threads = database.rows("SELECT number FROM threads WHERE account = ? LIMIT ?", (account, DELETED_AT_ONCE))
        if threads:
            database.change_many("DELETE FROM threads WHERE number = ?", threads)
            return True
        return bool(database.change("DELETE FROM accounts WHERE number = ?", (account,)))


def _delete_rows(database: Database, rows: Sequence[Sequence[int]]) -> None:
    # The trigger would do this too, but would make FTS5 write to its tables for each message: three times the work.
    database.change_many("DELETE FROM message_index WHERE rowid = ?", rows)
    database.change_many("DELETE FROM messages WHERE number = ?", rows)


# --- The provider's IDs of messages and threads, stored for messages that were mirrored without them ---


_SELECT_MESSAGES_TO_THREAD = """
SELECT m.number, m.message_id, m.subject, m.internal_date, t.id, t.number FROM json_each(?) j
  CROSS JOIN messages m ON m.number = j.value JOIN threads t ON t.number = m.thread"""
# A delivery names the thread that its message was assigned to.
_SET_RESULT_THREAD = """
UPDATE delivery_operations SET result_thread_id = (SELECT id FROM threads WHERE number = ?)
  WHERE copy = 'pending' AND result_id = (SELECT id FROM messages WHERE number = ?)"""


@dataclass(frozen=True)
class ProviderIds:
    """A message, by row number, with the provider's IDs of the message and of its thread (None: unknown)."""

    number: int
    provider_id: str
    provider_thread_id: str | None


def set_provider_ids(database: Database, account: int, messages: Sequence[ProviderIds]) -> None:
    """Store the provider's IDs of messages, and move each message to the provider's thread. Call it inside a
    transaction.

    `account`: row number of the mailbox. If no stored thread has the provider's thread ID yet, the message's current
    thread gets it.
    """
    if not messages:
        return
    ids = {message.number: message for message in messages}
    rows = database.rows(_SELECT_MESSAGES_TO_THREAD, (as_json(ids),))
    joining = [
        JoiningMessage(own, (own,) if own else (), subject, millis, thread_id, ids[number].provider_thread_id)
        for number, own, subject, millis, thread_id, _ in rows
    ]
    threads = ThreadAssigner(database, account, joining).assign()
    given = [(ids[row[0]].provider_id, thread, row[0]) for row, thread in zip(rows, threads, strict=True)]
    database.change_many("UPDATE messages SET provider_id = ?, thread = ? WHERE number = ?", given)
    moved = [(thread, row[0]) for row, thread in zip(rows, threads, strict=True) if row[5] != thread]
    database.change_many(_SET_RESULT_THREAD, moved)
    delete_empty_threads(database, [row[5] for row in rows])


# --- Messages that are gone, and found again ---


_MOVED_AT_ONCE = 1000

_DETACH = """
UPDATE messages SET uid = NULL, gone = 1 WHERE folder = ? AND uid IN (SELECT value FROM json_each(?))"""
_STILL_GONE = "SELECT m.number FROM json_each(?) j JOIN messages m ON m.number = j.value AND m.gone > 0"
_SELECT_GONE = """
SELECT m.number, m.folder, m.message_id, m.size, m.internal_date FROM json_each(?) j
  CROSS JOIN messages m INDEXED BY messages_gone ON m.account = ? AND m.message_id = j.value AND m.gone > 0
  WHERE coalesce(m.provider_id, '') = '' ORDER BY m.folder = ? DESC, m.number"""
_NUMBERS_BY_PROVIDER = """
SELECT m.provider_id, m.number FROM json_each(?) j CROSS JOIN messages m INDEXED BY messages_provider
  ON m.account = ? AND m.provider_id = j.value"""
_GONE_NAMELESS = """
SELECT number, folder, message_id, size, internal_date FROM messages INDEXED BY messages_gone
  WHERE account = ? AND message_id IS NULL AND gone > 0 AND coalesce(provider_id, '') = ''"""
_ELSEWHERE = """
SELECT m.number, m.folder, m.message_id, m.size, m.internal_date FROM json_each(?) j
  CROSS JOIN messages m INDEXED BY messages_message_id ON m.account = ? AND m.message_id = j.value AND m.gone = 0
  WHERE m.folder <> ? AND m.uid IS NOT NULL"""
_REATTACH = f"""
UPDATE messages SET folder = ?, uid = ?, gone = 0, flags = (flags & {HAS_ATTACHMENT}) | ?, keywords = ?
  WHERE number = ?"""
# For messages without Message-ID the size must suffice.
_DOUBLES = """
SELECT other.number FROM messages m JOIN messages other ON other.folder = ? AND other.uid = ? AND other.id <> m.id
  AND other.message_id IS m.message_id AND (m.message_id IS NOT NULL OR other.size = m.size)
  WHERE m.id = ? AND m.account = ?"""
_SET_MOVED = """
UPDATE messages SET folder = ?, uid = ?, gone = ? WHERE id = ? AND account = ?"""
_HAS_UID = "SELECT 1 FROM messages WHERE folder = ? AND uid = ? AND id <> ?"
# Sync may already have found it there.
_IS_THERE = "SELECT 1 FROM messages WHERE id = ? AND folder = ? AND uid IS NOT NULL"
_TAKEN_UIDS = (
    "SELECT m.uid, m.provider_id FROM json_each(?) j CROSS JOIN messages m ON m.folder = ? AND m.uid = j.value"
)

_Fingerprint = tuple[str | None, int, int]  # facts of a message that never change: Message-ID, size, second


def detach_messages(database: Database, folder: int, uids: Collection[int] | None) -> int:
    """Mark messages of a folder as `gone`, and return their number. Each batch is a transaction."""
    if uids is None:
        rows = database.rows("SELECT uid FROM messages WHERE folder = ? AND uid IS NOT NULL", (folder,))
        uids = [row[0] for row in rows]
    count = 0
    for batch in _batches(sorted(uids, reverse=True)):
        with database.transaction():
            count += database.change(_DETACH, (folder, as_json(batch)))
    return count


def evacuate_folder(database: Database, folder: int, refuge: int) -> None:
    """Move all messages of a folder to the folder `refuge`, and mark them as `gone`, before the folder is removed.

    They wait there until sync finds them or they are deleted. Both folders are row numbers. Each batch is a
    transaction.
    """
    numbers = [row[0] for row in database.rows("SELECT number FROM messages WHERE folder = ?", (folder,))]
    for batch in _batches(numbers):
        with database.transaction():
            rows = [(refuge, number, folder) for number in batch]
            sql = "UPDATE messages SET folder = ?, uid = NULL, gone = 2 WHERE number = ? AND folder = ?"
            database.change_many(sql, rows)


def detach_without_provider_id(database: Database, folder: int) -> None:
    """Mark the messages without a provider's ID in a folder (row number) as `gone`, so that sync finds them again.

    They stay in the folder. Each batch is a transaction.
    """
    rows = database.rows("SELECT number FROM messages WHERE folder = ? AND provider_id IS NULL AND gone = 0", (folder,))
    for batch in _batches([row[0] for row in rows]):
        with database.transaction():
            sql = "UPDATE messages SET uid = NULL, gone = 1 WHERE number = ? AND folder = ? AND provider_id IS NULL"
            database.change_many(sql, [(number, folder) for number in batch])


def reattach_messages(
    database: Database, account: int, folder: int, sightings: Sequence[MessageIdentity]
) -> frozenset[int]:
    """Move stored messages that were seen in a folder to it, and return their UIDs. Call it inside a transaction."""
    uids = as_json(sighting.uid for sighting in sightings)
    taken: dict[int, str | None] = dict(database.rows(_TAKEN_UIDS, (uids, folder)))
    new = [
        sighting
        for sighting in {each.uid: each for each in sightings}.values()
        if sighting.uid not in taken or (sighting.provider_id and sighting.provider_id == taken[sighting.uid])
    ]
    named = {sighting.provider_id: sighting for sighting in new if sighting.provider_id is not None}
    rows: dict[str, int] = dict(database.rows(_NUMBERS_BY_PROVIDER, (as_json(named), account)) if named else ())
    pairs = [(named[provider_id], number) for provider_id, number in rows.items()]
    known = {seen.uid for seen, _ in pairs}
    by_marks = _match_by_fingerprint(
        database, account, folder, [sighting for sighting in new if sighting.uid not in known]
    )
    pairs += by_marks
    found = [(folder, seen.uid, flag_bits(seen.flags), pack_keywords(seen.flags), number) for seen, number in pairs]
    database.change_many(_REATTACH, found)
    told = [
        ProviderIds(number, seen.provider_id, seen.provider_thread_id) for seen, number in by_marks if seen.provider_id
    ]
    set_provider_ids(database, account, told)
    return frozenset(seen.uid for seen, _ in pairs)


def _match_by_fingerprint(
    database: Database, account: int, folder: int, sightings: Sequence[MessageIdentity]
) -> list[tuple[MessageIdentity, int]]:
    gone: dict[_Fingerprint, list[int]] = {}
    for number, _, *mark in database.rows(_SELECT_GONE, (_message_ids_json(sightings), account, folder)):
        gone.setdefault(_fingerprint(*mark), []).append(number)
    gone |= _unambiguous_gone(database, account, sightings)
    return [(each, found.pop(0)) for each in sightings if (found := gone.get(_fingerprint_of(each)))]


def _unambiguous_gone(
    database: Database, account: int, sightings: Sequence[MessageIdentity]
) -> dict[_Fingerprint, list[int]]:
    """Find messages that may have moved and have no Message-ID: map size and date to the row number of the stored
    message.

    A stored message counts if it is no longer in its folder (`gone`), and if no other such message and only one of
    `sightings` has its size and date. So each list in the result has one row number. `account`: row number of the
    mailbox. `sightings`: the messages that sync saw.
    """
    seen = Counter(_fingerprint_of(sighting) for sighting in sightings if sighting.message_id is None)
    gone: dict[_Fingerprint, list[int]] = {}
    for number, _, *mark in database.rows(_GONE_NAMELESS, (account,)) if seen else ():
        gone.setdefault(_fingerprint(*mark), []).append(number)
    return {mark: numbers for mark, numbers in gone.items() if seen[mark] == len(numbers) == 1}


def find_other_folders(
    database: Database, account: int, folder: int, sightings: Sequence[MessageIdentity]
) -> frozenset[int]:
    """Return the other folders that contain, in the store, a message that sync saw without a provider's ID."""
    sightings = [sighting for sighting in sightings if sighting.provider_id is None]
    marks = {_fingerprint_of(sighting) for sighting in sightings}
    rows = database.rows(_ELSEWHERE, (_message_ids_json(sightings), account, folder))
    return frozenset(other for _, other, *mark in rows if _fingerprint(*mark) in marks)


def record_moves(database: Database, account: int, moves: Sequence[tuple[str, int, int | None]]) -> None:
    """Record that the appliance has moved messages at the server. Call it inside a transaction.

    `moves`: for each message its ID, the row number of its new folder, and its new UID (None: unknown). If sync has
    already mirrored the message in its new folder, that row is deleted, and the moved message keeps its ID. If the UID
    is unknown, or another stored message has it, the message is marked `gone` until sync sees it.
    """
    for identity, folder, uid in moves:
        if uid is None and database.value(_IS_THERE, (identity, folder)) is not None:
            continue
        delete_messages(database, [row[0] for row in database.rows(_DOUBLES, (folder, uid, identity, account))])
        known = None if database.value(_HAS_UID, (folder, uid, identity)) is not None else uid
        database.change(_SET_MOVED, (folder, known, int(known is None), identity, account))


def purge_gone(database: Database, account: int, before: Collection[int] | None) -> int:
    """Delete the messages that are gone, and return their number. Each batch is a transaction."""
    numbers = sorted(list_gone(database, account))
    if before is not None:
        numbers = [number for number in numbers if number in before]
    count = 0
    for batch in _batches(numbers, DELETED_AT_ONCE):
        with database.transaction():
            # Some may have been found since the query.
            still = [row[0] for row in database.rows(_STILL_GONE, (as_json(batch),))]
            delete_messages(database, still)
            count += len(still)
    return count


def list_gone(database: Database, account: int) -> frozenset[int]:
    """Return the row numbers of a mailbox's messages that are missing from their folder and not found yet."""
    rows = database.rows("SELECT number FROM messages WHERE account = ? AND gone > 0", (account,))
    return frozenset(row[0] for row in rows)


def _message_ids_json(sightings: Sequence[MessageIdentity]) -> str:
    return as_json({each.message_id for each in sightings if each.message_id})


def _fingerprint_of(sighting: MessageIdentity) -> _Fingerprint:
    return _fingerprint(sighting.message_id, sighting.size, to_millis(sighting.internal_date))


def _fingerprint(message_id: str | None, size: int, millis: int) -> _Fingerprint:
    return message_id, size, millis // 1000


def _batches(numbers: Sequence[int], count: int = _MOVED_AT_ONCE) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), count):
        yield numbers[start : start + count]


# --- The numbers of messages: (internal date in seconds << 4), counting up if a second has several messages ---
#
# So the order of the numbers is that of the dates, in whatever order messages arrive. If more than sixteen share a
# second, their numbers continue into those of the next seconds.


def first_number(millis: int) -> int:
    """Return the lowest row number for a message with this date at the server (milliseconds).

    A row number contains the second of the date, so that the order of the numbers is that of the dates.
    """
    return (millis // 1000) << 4


def free_numbers(database: Database, moments: Sequence[int]) -> list[int]:
    """Return an unused row number for each message's date (milliseconds). Call it inside a transaction."""
    wanted = [first_number(millis) for millis in moments]
    taken = {row[0] for row in database.rows(_TAKEN_NUMBERS, (as_json(set(wanted)),))}
    return [*map(_NumberAllocator(database, taken).allocate, wanted)]


_TAKEN_NUMBERS = "SELECT m.number FROM json_each(?) j CROSS JOIN messages m ON m.number = j.value"


class _NumberAllocator:
    def __init__(self, database: Database, taken: set[int]) -> None:
        self._database, self._taken = database, taken
        self._next: dict[int, int] = {}  # first number of a second -> number to continue the search from

    def allocate(self, first: int) -> int:
        number = first
        if first in self._taken:
            number = self._find_free_after(self._next.get(first, first))
            self._next[first] = number
        self._taken.add(number)
        return number

    def _find_free_after(self, number: int) -> int:
        """Fast even if many messages share a second, as imported ones."""
        step = 1
        while self._is_taken(number + step):
            step *= 2
        taken, free = number + step // 2, number + step
        while free - taken > 1:
            middle = (taken + free) // 2
            taken, free = (middle, free) if self._is_taken(middle) else (taken, middle)
        return free

    def _is_taken(self, number: int) -> bool:
        if number in self._taken:
            return True
        is_taken = self._database.value("SELECT 1 FROM messages WHERE number = ?", (number,)) is not None
        if is_taken:
            self._taken.add(number)
        return is_taken
