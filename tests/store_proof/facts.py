"""All that a store says, as it can be compared: of a store that is open, and of a plain file of an older format."""

import hashlib
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mailbox_appliance.store.store import Store

#: A row as a digest -> how often it is there; of every table.
Facts = Mapping[str, Counter[str]]
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"
#: How the full-text index lays its words out is its own business; the words are compared.
_INDEX, AUDIT = "message_index", "audit_events"
_JOURNAL = "changes"  # a backup adds a row, a restore begins another one
_MADE = re.compile(rb"<[0-9a-f]{32}@")


def facts_of(store: Store, without: Mapping[str, frozenset[str]] | None = None) -> Facts:
    """Every row of every table but the audit log's and the journal's; `without` names columns of a table that need not
    be equal.
    """
    left_out = without or {}
    found = [name for (name,) in store.database.rows(_TABLES)]
    names = [name for name in found if not name.startswith(_INDEX) and name not in (AUDIT, _JOURNAL)]
    return {name: _rows(store, name, left_out.get(name, frozenset())) for name in sorted(names)}


def _rows(store: Store, table: str, without: frozenset[str]) -> Counter[str]:
    columns = [name for (name,) in store.database.rows(f"SELECT name FROM pragma_table_info('{table}')")]
    wanted = ", ".join(f'"{name}"' for name in columns if name not in without)
    # What the audit log keeps elsewhere goes with it.
    meta = "WHERE name NOT LIKE 'audit_%' AND name NOT LIKE 'changes_%'"
    others = {"meta": meta, "sqlite_sequence": f"WHERE name NOT IN ('{AUDIT}', '{_JOURNAL}')"}.get(table, "")
    rows = store.database.rows(f"SELECT {wanted} FROM {table} {others}")
    return _counted(tuple(map(_without_made, row)) for row in rows) if without else _counted(rows)


def _without_made(value: object) -> object:
    """A value in which a Message-ID that was made is the same each time."""
    if isinstance(value, bytes):
        return _MADE.sub(b"<made@", value)
    return _MADE.sub(b"<made@", value.encode()).decode() if isinstance(value, str) else value


def plain_facts(folder: Path) -> Facts:
    """The same of a plain store, which is copied first: looking would fold its log into it."""
    with tempfile.TemporaryDirectory() as name:
        for suffix in ("", "-wal"):
            if (source := folder / f"mailbox.db{suffix}").exists():
                shutil.copy(source, name)
        connection = sqlite3.connect(Path(name) / "mailbox.db")
        try:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            names = [name for (name,) in connection.execute(_TABLES)]
            return {table: _counted(connection.execute(f"SELECT * FROM {table}")) for table in sorted(names)}
        finally:
            connection.close()


def _counted(rows: Iterable[Sequence[Any]]) -> Counter[str]:
    return Counter(hashlib.sha256(repr(tuple(row)).encode()).hexdigest()[:20] for row in rows)


def difference(one: Facts, other: Facts) -> str:
    """Where two stores differ: table, rows that only the first has, rows that only the other has. Empty: nowhere."""
    told = []
    for table in sorted(one.keys() | other.keys()):
        here, there = one.get(table, Counter[str]()), other.get(table, Counter[str]())
        if here != there:
            told.append(f"{table} (-{(here - there).total()} +{(there - here).total()})")
    return ", ".join(told)
