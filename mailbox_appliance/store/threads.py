"""Which messages belong together: by the Message-IDs they have and name (RFC 5256, the REFERENCES part)."""

from collections.abc import Iterable

from mailbox_appliance.ids import new_id
from mailbox_appliance.store.database import Database

# A message may name any number of others; more than this tells no more about where it belongs.
_MOST_LINKS = 100


def join_thread(database: Database, account: int, message_ids: Iterable[str], *, proposed: str | None = None) -> int:
    """The number of the thread that these canonical Message-IDs belong to: an old one, several joined, or a new one.

    `proposed` is the id of the thread where none is found, whether it is there already or not. Inside a transaction.
    """
    named = list(dict.fromkeys(message_ids))[:_MOST_LINKS]
    marks = ", ".join("?" * len(named))
    found = [
        row[0]
        for row in database.rows(
            f"SELECT DISTINCT thread FROM thread_links WHERE account = ? AND message_id IN ({marks}) ORDER BY thread",
            (account, *named),
        )
    ]
    thread = found[0] if found else _new_thread(database, account, proposed)
    for other in found[1:]:  # the oldest keeps its id, so that it stays what clients know
        for table in ("messages", "thread_links"):
            database.change(f"UPDATE {table} SET thread = ? WHERE thread = ?", (thread, other))
        database.change("DELETE FROM threads WHERE number = ?", (other,))
    database.change_many(
        "INSERT INTO thread_links VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(account, message_id, thread) for message_id in named],
    )
    return thread


def _new_thread(database: Database, account: int, proposed: str | None) -> int:
    identity = proposed or new_id("thr")
    return int(
        database.value(
            # Not DO NOTHING: that would return no row.
            "INSERT INTO threads (id, account) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET id = id RETURNING number",
            (identity, account),
        )
    )
