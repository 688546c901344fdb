"""Messages that leave a folder, and are found in another one or under another UID.

    in a folder, with its UID --detach--> gone: no UID, still readable --reattach--> in the folder where it was seen
                                            `--purge: everything has been looked at, and it was nowhere--> (deleted)

What is seen is the same message when Message-ID, size and internal date agree, the date in seconds (RFC 9051 2.3.3).
One without Message-ID is only known again where exactly one is gone, and exactly one seen, of that size and second:
two notices of a machine may well agree in the rest.

Where the provider has an id of its own for each message, that alone decides: then a message that is seen is that one,
also where it has not been found gone from anywhere yet. What was mirrored without such ids is told by the rest.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from mailbox_appliance.clock import to_millis
from mailbox_appliance.model.records import MessageIdentity
from mailbox_appliance.store import provided, removal
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import HAS_ATTACHMENT, as_json, flag_bits, keywords
from mailbox_appliance.store.provided import Provided

_BATCH = 1000

_DETACH = """
UPDATE messages SET uid = NULL, gone = 1 WHERE folder = ? AND uid IN (SELECT value FROM json_each(?))"""
_STILL_GONE = "SELECT m.number FROM json_each(?) j JOIN messages m ON m.number = j.value AND m.gone = 1"
_GONE = """
SELECT m.number, m.folder, m.message_id, m.size, m.internal_date FROM json_each(?) j
  CROSS JOIN messages m INDEXED BY messages_gone ON m.account = ? AND m.message_id = j.value AND m.gone = 1
  WHERE coalesce(m.provider_id, '') = '' ORDER BY m.folder = ? DESC, m.number"""
_PROVIDED = """
SELECT m.provider_id, m.number FROM json_each(?) j CROSS JOIN messages m INDEXED BY messages_provider
  ON m.account = ? AND m.provider_id = j.value"""
_GONE_NAMELESS = """
SELECT number, folder, message_id, size, internal_date FROM messages INDEXED BY messages_gone
  WHERE account = ? AND message_id IS NULL AND gone = 1 AND coalesce(provider_id, '') = ''"""
_ELSEWHERE = """
SELECT m.number, m.folder, m.message_id, m.size, m.internal_date FROM json_each(?) j
  CROSS JOIN messages m INDEXED BY messages_message_id ON m.account = ? AND m.message_id = j.value AND m.gone = 0
  WHERE m.folder <> ? AND m.uid IS NOT NULL"""
_REATTACH = f"""
UPDATE messages SET folder = ?, uid = ?, gone = 0, flags = (flags & {HAS_ATTACHMENT}) | ?, keywords = ?
  WHERE number = ?"""
# Of messages without Message-ID the size must do.
_DOUBLES = """
SELECT other.number FROM messages m JOIN messages other ON other.folder = ? AND other.uid = ? AND other.id <> m.id
  AND other.message_id IS m.message_id AND (m.message_id IS NOT NULL OR other.size = m.size)
  WHERE m.id = ? AND m.account = ?"""
_MOVE = """
UPDATE messages SET folder = ?, uid = ?, gone = ? WHERE id = ? AND account = ?"""
_HOLDER = "SELECT 1 FROM messages WHERE folder = ? AND uid = ? AND id <> ?"
# Sync may have found it there already.
_IS_THERE = "SELECT 1 FROM messages WHERE id = ? AND folder = ? AND uid IS NOT NULL"
_TAKEN = "SELECT m.uid, m.provider_id FROM json_each(?) j CROSS JOIN messages m ON m.folder = ? AND m.uid = j.value"

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


def detach_untold(database: Database, folder: int) -> None:
    """Let the messages of a folder be gone that have no provider's id, in batches; they stand where they are."""
    rows = database.rows("SELECT number FROM messages WHERE folder = ? AND provider_id IS NULL AND gone = 0", (folder,))
    for batch in _batches([row[0] for row in rows]):
        with database.transaction():
            sql = "UPDATE messages SET uid = NULL, gone = 1 WHERE number = ? AND folder = ? AND provider_id IS NULL"
            database.change_many(sql, [(number, folder) for number in batch])


def reattach(database: Database, account: int, folder: int, sightings: Sequence[MessageIdentity]) -> frozenset[int]:
    """Let gone messages take the UIDs under which they were seen; answers these. Inside a transaction.

    Those whose provider has an id for each need not be gone. One that we have moved there ourselves has the flags that
    were seen from now on: a server may have dropped labels.
    """
    uids = as_json(sighting.uid for sighting in sightings)
    taken: dict[int, str | None] = dict(database.rows(_TAKEN, (uids, folder)))
    new = [
        sighting
        for sighting in {each.uid: each for each in sightings}.values()
        if sighting.uid not in taken or (sighting.provider_id and sighting.provider_id == taken[sighting.uid])
    ]
    pairs = _by_provider(database, account, new)
    known = {seen.uid for seen, _ in pairs}
    by_marks = _by_marks(database, account, folder, [sighting for sighting in new if sighting.uid not in known])
    pairs += by_marks
    rows = [(folder, seen.uid, flag_bits(seen.flags), keywords(seen.flags), number) for seen, number in pairs]
    database.change_many(_REATTACH, rows)
    told = [
        Provided(number, seen.provider_id, seen.provider_thread_id) for seen, number in by_marks if seen.provider_id
    ]
    provided.give(database, account, told)
    return frozenset(seen.uid for seen, _ in pairs)


def _by_provider(
    database: Database, account: int, sightings: Sequence[MessageIdentity]
) -> list[tuple[MessageIdentity, int]]:
    named = {sighting.provider_id: sighting for sighting in sightings if sighting.provider_id is not None}
    rows: dict[str, int] = dict(database.rows(_PROVIDED, (as_json(named), account)) if named else ())
    return [(named[provider_id], number) for provider_id, number in rows.items()]


def _by_marks(
    database: Database, account: int, folder: int, sightings: Sequence[MessageIdentity]
) -> list[tuple[MessageIdentity, int]]:
    gone: dict[_Mark, list[int]] = {}
    for number, _, *mark in database.rows(_GONE, (_named(sightings), account, folder)):
        gone.setdefault(_mark(*mark), []).append(number)
    gone |= _certain(database, account, sightings)
    return [(each, found.pop(0)) for each in sightings if (found := gone.get(_mark_of(each)))]


def _certain(database: Database, account: int, sightings: Sequence[MessageIdentity]) -> dict[_Mark, list[int]]:
    """Gone messages without Message-ID that can be meant by one sighting only, and no other by it."""
    seen = Counter(_mark_of(sighting) for sighting in sightings if sighting.message_id is None)
    gone: dict[_Mark, list[int]] = {}
    for number, _, *mark in database.rows(_GONE_NAMELESS, (account,)) if seen else ():
        gone.setdefault(_mark(*mark), []).append(number)
    return {mark: numbers for mark, numbers in gone.items() if seen[mark] == len(numbers) == 1}


def elsewhere(database: Database, account: int, folder: int, sightings: Sequence[MessageIdentity]) -> frozenset[int]:
    """The numbers of the other folders in which one of these messages lies as far as we know.

    Not of those with a provider's id: `reattach` needs no look for them.
    """
    sightings = [sighting for sighting in sightings if sighting.provider_id is None]
    marks = {_mark_of(sighting) for sighting in sightings}
    rows = database.rows(_ELSEWHERE, (_named(sightings), account, folder))
    return frozenset(other for _, other, *mark in rows if _mark(*mark) in marks)


def move(database: Database, account: int, moves: Sequence[tuple[str, int, int | None]]) -> None:
    """Note where messages are after a move of ours: id, folder, UID there. Inside a transaction.

    Sync may have seen one in its new place before this is told: that row goes, and the id that is known stays. One
    without a UID is gone until it is seen there; so is one whose UID another message has, as far as we know.
    """
    for identity, folder, uid in moves:
        if uid is None and database.value(_IS_THERE, (identity, folder)) is not None:
            continue
        removal.delete(database, [row[0] for row in database.rows(_DOUBLES, (folder, uid, identity, account))])
        known = None if database.value(_HOLDER, (folder, uid, identity)) is not None else uid
        database.change(_MOVE, (folder, known, int(known is None), identity, account))


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


def _named(sightings: Sequence[MessageIdentity]) -> str:
    return as_json({each.message_id for each in sightings if each.message_id})


def _mark_of(sighting: MessageIdentity) -> _Mark:
    return _mark(sighting.message_id, sighting.size, to_millis(sighting.internal_date))


def _mark(message_id: str | None, size: int, millis: int) -> _Mark:
    return message_id, size, millis // 1000


def _batches(numbers: Sequence[int], count: int = _BATCH) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), count):
        yield numbers[start : start + count]
