"""The messages of a filled store as files, once, with notmuch's index of them; for searches beside it."""

import json
from email.utils import formatdate
from pathlib import Path

from benchmarks import peers
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import read_key

_FOLDER_FILES = 5000
_MESSAGES = (
    "SELECT m.number, m.subject, m.date / 1000, b.headers, b.text FROM messages m JOIN bodies b USING (number)"
    " ORDER BY m.number"
)


def indexed(data: Path) -> Path:
    """A folder in which notmuch finds the messages of the store in `data`. It is made where there is none."""
    folder, stamp = data.parent / "notmuch", data.parent / "indexed"
    if not stamp.exists():
        _write(data, folder)
        peers.notmuch_new(folder)
        stamp.touch()
    return folder


def _write(data: Path, folder: Path) -> None:
    key = read_key(data / KEY_FILE, None)
    database = Database(data / DATABASE_FILE, key.cipher, key.derive("database"))
    for count, (number, subject, second, headers, text) in enumerate(database.iterate(_MESSAGES)):
        place = folder / f"mail-{count // _FOLDER_FILES:04}" / "cur"
        if count % _FOLDER_FILES == 0:
            place.mkdir(parents=True, exist_ok=True)
        fields = {**json.loads(headers), "Subject": subject, "Date": formatdate(second)}
        for name in ("From", "To"):
            people, _, email = fields[name].rpartition(" ")
            fields[name] = f"{people} <{email}>"
        head = "".join(f"{name}: {value}\n" for name, value in fields.items())
        kind = "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n"
        (place / f"{number}").write_text(f"{head}{kind}\n{text}\n", "utf-8")
    database.close_without_checkpoint()
