"""What only the provider knows of messages that were here before: its own ids of each, and of its thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from mailbox_appliance.store import removal
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import as_json
from mailbox_appliance.store.threads import Joining, Threads

_OF = """
SELECT m.number, m.message_id, m.subject, m.internal_date, t.id, t.number FROM json_each(?) j
  CROSS JOIN messages m ON m.number = j.value JOIN threads t ON t.number = m.thread"""
# What we sent is known by the thread that it was thought to lie in.
_TELL = """
UPDATE delivery_operations SET result_thread_id = (SELECT id FROM threads WHERE number = ?)
  WHERE copy = 'pending' AND result_id = (SELECT id FROM messages WHERE number = ?)"""


@dataclass(frozen=True)
class Provided:
    """A message, by number, and the ids that its provider has of it and of its thread."""

    number: int
    provider_id: str
    provider_thread_id: str | None


def give(database: Database, account: int, messages: Sequence[Provided]) -> None:
    """Note the ids, and let each message lie in the provider's thread. Inside a transaction.

    The thread in which it was stays where none is known to be the provider's: it is that one then.
    """
    if not messages:
        return
    ids = {message.number: message for message in messages}
    rows = database.rows(_OF, (as_json(ids),))
    joining = [
        Joining(own, (own,) if own else (), subject, millis, thread_id, ids[number].provider_thread_id)
        for number, own, subject, millis, thread_id, _ in rows
    ]
    threads = Threads(database, account, joining).assign()
    given = [(ids[row[0]].provider_id, thread, row[0]) for row, thread in zip(rows, threads, strict=True)]
    database.change_many("UPDATE messages SET provider_id = ?, thread = ? WHERE number = ?", given)
    moved = [(thread, row[0]) for row, thread in zip(rows, threads, strict=True) if row[5] != thread]
    database.change_many(_TELL, moved)
    removal.delete_empty_threads(database, [row[5] for row in rows])
