"""Messages of ours that the server has by now, drafts and copies of what was sent: where they lie, and as what.

The id that was promised stays, whatever sync has seen meanwhile. On a server with labels all of them lie in one folder,
where a draft and what was sent of it may have the same Message-ID.
"""

from collections.abc import Sequence

from mailbox_appliance.clock import to_millis
from mailbox_appliance.model.records import MessageIdentity
from mailbox_appliance.store import provided, removal
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import HAS_ATTACHMENT, flag_bits, keywords
from mailbox_appliance.store.provided import Provided

_DOUBLE = """
SELECT m.number, other.number, other.uid, other.size, other.internal_date, other.flags, other.keywords,
  other.provider_id, t.provider_id
  FROM messages m
  JOIN messages other INDEXED BY messages_message_id ON other.account = m.account AND other.message_id = m.message_id
  AND other.folder = m.folder AND other.uid IS NOT NULL AND (?1 IS NULL OR other.uid = ?1)
  AND (m.provider_id IS NULL OR other.flags & 4 = m.flags & 4)
  JOIN threads t ON t.number = other.thread
  WHERE m.id = ?2 AND m.uid IS NULL AND m.gone = 0 ORDER BY other.uid DESC LIMIT 1"""
_SET_UID = """
UPDATE OR IGNORE messages SET uid = ?, size = coalesce(?, size), internal_date = coalesce(?, internal_date)
  WHERE id = ? AND uid IS NULL AND gone = 0"""
_SET_FLAGS = f"UPDATE messages SET flags = (flags & {HAS_ATTACHMENT}) | ?, keywords = ? WHERE number = ?"
_WITH_ID = "SELECT number, id FROM messages WHERE account = ? AND provider_id = ?"
_THREAD_IS_NEW = """
SELECT 1 FROM messages m JOIN threads t ON t.number = m.thread AND t.provider_id IS NULL WHERE m.number = ?"""
_PLACE = "UPDATE messages SET folder = ?, uid = ?, size = ?, internal_date = ?, gone = 0 WHERE number = ?"


def set_uid(
    database: Database, account: int, message_id: str, uid: int | None, size: int | None, at: int | None
) -> None:
    """Note where the server put a message, with the size and date (milliseconds) that it has there; None: not told.

    Where sync has seen it there meanwhile, that row goes, and its place is taken with all that it knew. Another message
    keeps its UID. Inside a transaction.
    """
    double = database.row(_DOUBLE, (uid, message_id))
    if double is None:
        if uid is not None:
            database.change(_SET_UID, (uid, size, at, message_id))
        return
    number, seen, *place, bits, words, provider_id, thread_id = double
    _replace(database, account, [seen], Provided(number, provider_id or "", thread_id))
    database.change(_SET_UID, (*place, message_id))
    if provider_id:
        database.change(_SET_FLAGS, (bits & ~HAS_ATTACHMENT, words, number))


def settle(database: Database, account: int, folder: int, message_id: str, seen: MessageIdentity) -> None:
    """As `set_uid`, for a message whose provider has an id of its own for it: that is what was seen there.

    Inside a transaction.
    """
    number = database.value("SELECT number FROM messages WHERE id = ? AND account = ?", (message_id, account))
    if number is None or seen.provider_id is None:
        return
    doubles = [row[0] for row in database.rows(_WITH_ID, (account, seen.provider_id)) if row[1] != message_id]
    _replace(database, account, doubles, Provided(number, seen.provider_id, seen.provider_thread_id))
    holder = database.value("SELECT id FROM messages WHERE folder = ? AND uid = ?", (folder, seen.uid))
    if holder in (None, message_id):  # else sync has not told yet that its UIDs are others now
        database.change(_PLACE, (folder, seen.uid, seen.size, to_millis(seen.internal_date), number))
        database.change(_SET_FLAGS, (flag_bits(seen.flags), keywords(seen.flags), number))


def _replace(database: Database, account: int, doubles: Sequence[int], ours: Provided) -> None:
    """Let a message of ours stand for those that sync has seen, in the provider's thread.

    Where nobody knew which thread ours begins, it is the promised one that stays.
    """
    is_new = database.value(_THREAD_IS_NEW, (ours.number,)) is not None
    if is_new:
        removal.delete(database, doubles)
    if ours.provider_id:
        provided.give(database, account, [ours])
    if not is_new:
        removal.delete(database, doubles)
