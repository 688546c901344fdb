"""Messages that leave a folder, and are found in another one or under another UID.

    in a folder, with its UID --detach--> gone: no UID, still readable --reattach--> in the folder where it was seen
                                            `--purge: everything has been looked at, and it was nowhere--> (deleted)

What is seen is the same message when Message-ID, size and internal date agree, the date in seconds (RFC 9051 2.3.3).
A message without Message-ID is never taken for another one: two notices of a machine may well agree in the rest.
"""

from collections.abc import Collection, Iterator, Sequence

from mailbox_appliance.clock import to_millis
from mailbox_appliance.records import Sighting
from mailbox_appliance.store import removal
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import HAS_ATTACHMENT, as_json, flag_bits, keywords

_BATCH = 1000

_DETACH = """
UPDATE messages SET uid = NULL, gone = 1 WHERE folder = ? AND uid IN (SELECT value FROM json_each(?))"""
_STILL_GONE = "SELECT m.number FROM json_each(?) j JOIN messages m ON m.number = j.value AND m.gone = 1"
_GONE = """
SELECT m.number, m.folder, m.message_id, m.size, m.internal_date FROM json_each(?) j
  CROSS JOIN messages m INDEXED BY messages_gone ON m.account = ? AND m.message_id = j.value AND m.gone = 1
  ORDER BY m.folder = ? DESC, m.number"""
_ELSEWHERE = """
SELECT m.number, m.folder, m.message_id, m.size, m.internal_date FROM json_each(?) j
  CROSS JOIN messages m INDEXED BY messages_message_id ON m.account = ? AND m.message_id = j.value AND m.gone = 0
  WHERE m.folder <> ? AND m.uid IS NOT NULL"""
_REATTACH = f"""
UPDATE messages SET folder = ?, uid = ?, gone = 0, flags = (flags & {HAS_ATTACHMENT}) | ?, keywords = ?
  WHERE number = ?"""
_DOUBLES = "SELECT number FROM messages WHERE folder = ? AND uid = ? AND id <> ?"
_TAKEN = "SELECT j.value FROM json_each(?) j WHERE EXISTS (SELECT 1 FROM messages WHERE folder = ? AND uid = j.value)"

_Mark = tuple[str | None, int, int]  # what stays the same of a message: Message-ID, size, second


def detach(database: Database, folder: int, uids: Collection[int] | None) -> int:
    """Let messages be gone, in batches; None: all of the folder. Answers how many."""
    if uids is None:
        rows = database.rows("SELECT uid FROM messages WHERE folder = ? AND uid IS NOT NULL", (folder,))
        uids = [row[0] for row in rows]
    count = 0
    for batch in _batches(sorted(uids, reverse=True)):
        with database.transaction():
            count += database.change(_DETACH, (folder, as_json(batch)))
    return count


def evacuate(database: Database, folder: int, refuge: int) -> None:
    """Let all messages of a folder that is no more be gone and stand in another one meanwhile, in batches."""
    numbers = [row[0] for row in database.rows("SELECT number FROM messages WHERE folder = ?", (folder,))]
    for batch in _batches(numbers):
        with database.transaction():
            rows = [(refuge, number, folder) for number in batch]
            sql = "UPDATE messages SET folder = ?, uid = NULL, gone = 1 WHERE number = ? AND folder = ?"
            database.change_many(sql, rows)


def reattach(database: Database, account: int, folder: int, sightings: Sequence[Sighting]) -> frozenset[int]:
    """Let gone messages take the UIDs under which they were seen; answers these. Inside a transaction."""
    uids = as_json(sighting.uid for sighting in sightings)
    taken = {row[0] for row in database.rows(_TAKEN, (uids, folder))}
    gone: dict[_Mark, list[int]] = {}
    for number, _, *mark in database.rows(_GONE, (_named(sightings), account, folder)):
        gone.setdefault(_mark(*mark), []).append(number)
    rows: list[tuple[object, ...]] = []
    for sighting in sightings:
        found = gone.get(_mark_of(sighting))
        if found and sighting.uid not in taken:
            taken.add(sighting.uid)
            flags = (flag_bits(sighting.flags), keywords(sighting.flags))
            rows.append((folder, sighting.uid, *flags, found.pop(0)))
    database.change_many(_REATTACH, rows)
    return frozenset(int(str(row[1])) for row in rows)


def elsewhere(database: Database, account: int, folder: int, sightings: Sequence[Sighting]) -> frozenset[int]:
    """The numbers of the other folders in which one of these messages lies as far as we know."""
    marks = {_mark_of(sighting) for sighting in sightings}
    rows = database.rows(_ELSEWHERE, (_named(sightings), account, folder))
    return frozenset(other for _, other, *mark in rows if _mark(*mark) in marks)


def move(database: Database, account: int, moves: Sequence[tuple[str, int, int | None]]) -> None:
    """Note where messages are after a move of ours: id, folder, UID there. Inside a transaction.

    Sync may have seen one in its new place before this is told: that row goes, and the id that is known stays. One
    without a UID is gone until it is seen there.
    """
    for identity, folder, uid in moves:
        removal.delete(database, [row[0] for row in database.rows(_DOUBLES, (folder, uid, identity))])
        values = (folder, uid, int(uid is None), identity, account)
        database.change("UPDATE messages SET folder = ?, uid = ?, gone = ? WHERE id = ? AND account = ?", values)


def purge(database: Database, account: int, before: Collection[int] | None) -> int:
    """Delete the messages that are gone, or those of `before` that still are, in batches; answers how many."""
    numbers = sorted(list_gone(database, account))
    if before is not None:
        numbers = [number for number in numbers if number in before]
    count = 0
    for batch in _batches(numbers, removal.BATCH):
        with database.transaction():
            # One may have been found since we asked.
            still = [row[0] for row in database.rows(_STILL_GONE, (as_json(batch),))]
            removal.delete(database, still)
            count += len(still)
    return count


def list_gone(database: Database, account: int) -> frozenset[int]:
    """The numbers of the messages that are gone."""
    rows = database.rows("SELECT number FROM messages WHERE account = ? AND gone = 1", (account,))
    return frozenset(row[0] for row in rows)


def _named(sightings: Sequence[Sighting]) -> str:
    return as_json({each.message_id for each in sightings if each.message_id})


def _mark_of(sighting: Sighting) -> _Mark:
    return _mark(sighting.message_id, sighting.size, to_millis(sighting.internal_date))


def _mark(message_id: str | None, size: int, millis: int) -> _Mark:
    return message_id, size, millis // 1000


def _batches(numbers: Sequence[int], count: int = _BATCH) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), count):
        yield numbers[start : start + count]
