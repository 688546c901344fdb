"""Whether what stands in a store in more than one place agrees: asked in SQL, answered in counts."""

from collections.abc import Iterator

from mailbox_appliance.model.records import StoreFault
from mailbox_appliance.store.database import Database

_MOST = 20
#: What is told of rows that should not be, and which these are: each is one pass over an index or two.
_ELSEWHERE = """messages m JOIN folders f ON f.number = m.folder JOIN threads t ON t.number = m.thread
  WHERE f.account <> m.account OR t.account <> m.account"""
_INCOMPLETE = """cached_parts p WHERE p.size >= 0 AND p.size <>
  (SELECT coalesce(sum(length(c.content)), 0) FROM cached_chunks c WHERE c.part = p.number)"""
_BY_LABEL = """(
  SELECT * FROM (SELECT folder, number, flags FROM message_labels EXCEPT SELECT * FROM messages_by_label)
  UNION ALL SELECT * FROM (SELECT * FROM messages_by_label EXCEPT SELECT folder, number, flags FROM message_labels))"""
_RULES: tuple[tuple[str, str, str], ...] = (
    (
        "index_incomplete",
        "{} messages are not in the search index, so that no search finds them",
        "messages m LEFT JOIN message_index_docsize d ON d.id = m.number WHERE d.id IS NULL",
    ),
    (
        "index_outdated",
        "the search index holds {} messages that are not there",
        "message_index_docsize d LEFT JOIN messages m ON m.number = d.id WHERE m.number IS NULL",
    ),
    (
        "bodies_missing",
        "{} messages have no row for their content",
        "messages m LEFT JOIN bodies b ON b.number = m.number WHERE b.number IS NULL",
    ),
    ("mailbox_differs", "{} messages lie in a folder or thread of another mailbox", _ELSEWHERE),
    ("labels_differ", "{} times a folder shows a message by its label, or does not, where it should not", _BY_LABEL),
    ("parts_incomplete", "{} attachments that were kept are not complete", _INCOMPLETE),
)
# In one statement, so that both counts are of one moment.
_FOUND = """
SELECT (SELECT count(*) FROM messages WHERE account = ?),
  (SELECT count(*) FROM message_index WHERE message_index MATCH ?)"""


def broken_references(database: Database) -> Iterator[StoreFault]:
    """Rows that name another one that is not there: how many of each table, and in what."""
    counts: dict[tuple[str, str], int] = {}
    for table, _row, parent, _key in database.iterate("PRAGMA foreign_key_check"):
        counts[table, parent] = counts.get((table, parent), 0) + 1
    for (table, parent), count in list(counts.items())[:_MOST]:
        text = f"{count} rows of the table {table} belong to rows of {parent} that are not there."
        yield StoreFault(code="reference_broken", message=text)


def disagreements(database: Database) -> Iterator[StoreFault]:
    """Rows of two tables that should agree, and do not."""
    for code, text, rows in _RULES:
        if count := database.value(f"SELECT count(*) FROM {rows}"):
            yield StoreFault(code=code, message=_sentence(text.format(count)))


def index_disagreements(database: Database) -> Iterator[StoreFault]:
    """Mailboxes of which the search index does not find every message: it is asked, not only counted."""
    for number, account in database.rows("SELECT number, id FROM accounts"):
        there, found = database.row(_FOUND, (number, f"scope: a{number}")) or (0, 0)
        if found != there:
            text = f"the search index finds {found} of the {there} messages of the mailbox {account}"
            yield StoreFault(code="index_differs", message=_sentence(text))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
