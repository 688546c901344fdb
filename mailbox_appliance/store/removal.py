"""How messages are deleted: a batch at a time, each a transaction, so that nobody waits long for the right to write.

With a message go its body, its place in the full-text index, what was cached of it, and its thread when that is empty.
"""

from collections.abc import Collection, Sequence

from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import as_json

BATCH = 250  # messages that are deleted at once: some 40 ms

_EMPTY = """
SELECT j.value FROM json_each(?) j WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.thread = j.value)"""


def delete(database: Database, numbers: Collection[int]) -> None:
    """Delete these messages, and threads that are empty then. Inside a transaction."""
    of = "SELECT DISTINCT m.thread FROM json_each(?) j CROSS JOIN messages m ON m.number = j.value"
    threads = [row[0] for row in database.rows(of, (as_json(numbers),))]
    _delete_rows(database, [(number,) for number in sorted(numbers)])
    delete_empty_threads(database, threads)


def delete_empty_threads(database: Database, threads: Collection[int]) -> None:
    """Delete those of these threads that have no message. Inside a transaction.

    Their links go with them: what was part of such a thread begins a new one if it ever comes back.
    """
    empty = database.rows(_EMPTY, (as_json(threads),))
    database.change_many("DELETE FROM threads WHERE number = ?", empty)


def delete_folder(database: Database, folder: int) -> None:
    """Delete the messages of a folder, in batches."""
    while rows := database.rows("SELECT number FROM messages WHERE folder = ? LIMIT ?", (folder, BATCH)):
        with database.transaction():
            delete(database, [row[0] for row in rows])


def delete_some(database: Database, account: int) -> bool:
    """Delete a part of a mailbox that nobody can ask for any more, its row last. A transaction; False: it is gone."""
    with database.transaction():
        rows = database.rows("SELECT number FROM messages WHERE account = ? LIMIT ?", (account, BATCH))
        if rows:
            _delete_rows(database, rows)
            return True
        threads = database.rows("SELECT number FROM threads WHERE account = ? LIMIT ?", (account, BATCH))
        if threads:
            database.change_many("DELETE FROM threads WHERE number = ?", threads)
            return True
        return bool(database.change("DELETE FROM accounts WHERE number = ?", (account,)))


def _delete_rows(database: Database, rows: Sequence[Sequence[int]]) -> None:
    """Delete messages by number, and what belongs to each."""
    # The trigger would do this too, and make FTS5 write to its tables for each message: three times the work.
    database.change_many("DELETE FROM message_index WHERE rowid = ?", rows)
    database.change_many("DELETE FROM messages WHERE number = ?", rows)
