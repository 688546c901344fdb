"""The SQL statements of a search, by themselves: over one connection to the store, without HTTP and Python's part."""

import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from mailbox_appliance.operations.messages import read_filter
from mailbox_appliance.store.database import Database, Parameters, Row
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.folders import Folders
from mailbox_appliance.store.key import read_key
from mailbox_appliance.store.messages import SELECT_MESSAGES, Messages

_Statements = Sequence[tuple[str, Parameters]]


class BareSearches:
    """A connection to a store that somebody else may serve, with the pragmas of the appliance's own connections."""

    def __init__(self, data: Path) -> None:
        key = read_key(data / KEY_FILE, None)
        self._database = _Noting(data / DATABASE_FILE, key.cipher, key.derive("database"))
        self._messages, self._folders = Messages(self._database), Folders(self._database)
        self._accounts = [
            account_id for (account_id,) in self._database.rows("SELECT id FROM accounts ORDER BY number")
        ]

    def close(self) -> None:
        """Close the connection; nothing of the store is changed."""
        self._database.close_without_checkpoint()

    def statements(self, path: str) -> _Statements:
        """The two statements that a search below /api/v1 is about: which messages match, and what a list shows of them.

        They are executed once.
        """
        parts, asked = urlsplit(path), parse_qs(urlsplit(path).query)
        ids = [part for part in parts.path.split("/") if part.startswith("acc_")] or self._accounts
        folder = asked.get("folder")
        folders = self._folders.find_numbers(ids, folder[0]) if folder else None
        self._database.noted.clear()
        self._messages.list(ids, read_filter(q=asked["q"][0]), folders=folders, before=None, limit=50)
        return [
            (sql, given) for sql, given in self._database.noted if " MATCH " in sql or sql.startswith(SELECT_MESSAGES)
        ]

    def milliseconds(self, statements: _Statements) -> float:
        """How long they take, one after the other."""
        began = time.perf_counter()
        for sql, given in statements:
            self._database.rows(sql, given)
        return (time.perf_counter() - began) * 1000


class _Noting(Database):
    """Notes the statements that return rows."""

    def __init__(self, file: Path, cipher: str, key: bytes) -> None:
        super().__init__(file, cipher, key)
        self.noted: list[tuple[str, Parameters]] = []

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        self.noted.append((sql, parameters))
        return super().rows(sql, parameters)
