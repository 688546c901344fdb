"""Settings that were changed while running, and other values that belong to this instance: name -> JSON value."""

import json

from mailbox_appliance.store.database import Database
from mailbox_appliance.store.tables import SETTINGS


class StoredSettings:
    """Reads and writes the settings table. What a release does not know stays there, for one that does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get_all(self) -> dict[str, object]:
        """Every value, by name."""
        return {name: json.loads(text) for name, text in self._database.rows("SELECT name, value FROM settings")}

    def find(self, name: str) -> object:
        """The value of this name, or None."""
        text = self._database.value("SELECT value FROM settings WHERE name = ?", (name,))
        return None if text is None else json.loads(text)

    def put(self, name: str, value: object) -> None:
        """Keep a value in place of the one before. Inside a transaction."""
        self._database.change(
            "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, json.dumps(value)),
        )

    def remove(self, name: str) -> None:
        """Forget a value. Inside a transaction."""
        self._database.run(SETTINGS.delete().where(SETTINGS.name == name))
