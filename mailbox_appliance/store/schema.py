"""Compares the tables and triggers of a store with those that its format requires, and restores triggers.

A missing table is reported as damage. A missing or changed trigger is restored, with a warning in the log: without the
triggers, rows of the audit log could be changed.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import lru_cache

import apsw

from mailbox_appliance.store.database import DATABASE_ERRORS, Database
from mailbox_appliance.store.formats import format_5

log = logging.getLogger(__name__)

TABLE_NAMES = "SELECT name FROM sqlite_schema WHERE type = 'table'"
#: Without the tables that SQLite maintains for itself and for the search index.
_OBJECTS = (
    "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND name NOT LIKE 'message_index_%'"
)
TABLES = tuple(re.findall(r"^CREATE (?:VIRTUAL )?TABLE (\w+)", format_5.SCHEMA, re.MULTILINE))
#: By name, with the text that SQLite stores.
TRIGGERS = {
    found[1]: found[0]
    for found in re.finditer(r"^CREATE TRIGGER (\w+) .*?\bEND(?=;$)", format_5.SCHEMA, re.MULTILINE | re.DOTALL)
}


def find_missing_table(there: Iterable[str]) -> str | None:
    """Return the name of a required table that is not among the existing tables `there`; None if all exist."""
    names = frozenset(there)
    return next((table for table in TABLES if table not in names), None)


def find_schema_differences(database: Database) -> Iterator[str]:
    """Yield a sentence for each table, index or trigger that is missing, changed, or not part of this format."""
    there: dict[tuple[str, str], str | None] = {(kind, name): sql for kind, name, sql in database.rows(_OBJECTS)}
    expected = _expected_schema()
    for (kind, name), sql in expected.items():
        if (kind, name) not in there:
            yield f"The {kind} {name} is missing."
        elif _without_comments(there[kind, name]) != _without_comments(sql):
            yield f"The {kind} {name} differs from the schema."
    for kind, name in there.keys() - expected.keys():
        yield f"The {kind} {name} does not belong to this format."


def _without_comments(sql: str | None) -> str | None:
    """SQLite stores comments with the schema, and they may differ between releases."""
    return None if sql is None else re.sub(r"\s*--[^\n]*", "", sql)


@lru_cache(1)
def _expected_schema() -> dict[tuple[str, str], str | None]:
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(format_5.SCHEMA)
        return {(kind, name): sql for kind, name, sql in connection.execute(_OBJECTS)}


def restore_triggers(database: Database) -> None:
    """Restore the triggers that are missing or changed, such as those that protect rows of the audit log.

    An error, such as a full disk, is only logged, so that the store can be opened.
    """
    there: dict[str, str] = dict(database.rows("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
    for name in (name for name, sql in TRIGGERS.items() if there.get(name) != sql):
        try:
            with database.transaction(durable=True):
                database.change(f"DROP TRIGGER IF EXISTS {name}")
                database.change(TRIGGERS[name])
        except DATABASE_ERRORS:
            log.exception("trigger_restore_failed", extra={"trigger": name})
        else:
            log.warning("trigger_restored", extra={"trigger": name})
