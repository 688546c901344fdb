"""Helpers of the tests of compacting and of a new key: a filled store, its facts, and interruptions."""

import subprocess
import sys
from pathlib import Path

from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.files import KEY_FILE
from mailbox_appliance.store.maintenance.check import check_closed_store
from mailbox_appliance.store.schema import TABLES
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox, fetched, parsed

#: A process that ends, as if it were killed, at the n-th report of its progress.
_DYING = """
import os, sys
from pathlib import Path
from mailbox_appliance.store.maintenance.rewrite import {module}_closed_store as renew
left = int(sys.argv[2])
def tell(what, done, total):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
folder = Path(sys.argv[1])
renew(folder, folder / "encryption.key", progress=tell)
"""


def fill(store: Store, messages: int = 40) -> None:
    """Add mail, and some rows of the audit log."""
    mailbox = Mailbox(store)
    batch = [(fetched(uid, after=uid), parsed(f"<{uid}@x>", text=f"word{uid} " * 200)) for uid in range(1, messages)]
    store.mailbox_writer.add(mailbox.folder(), batch)
    for action in ("start", "stop"):
        store.audit.record(SYSTEM_ACTOR, action)


def facts(database: Database) -> dict[str, list[Row]]:
    """Return every row, without the seals of the audit log and without the rows that a new key adds."""
    found = {table: database.rows(f"SELECT * FROM {table}") for table in TABLES if not table.startswith("message_")}
    found["audit_events"] = [row[:-1] for row in found["audit_events"] if row[6] != "key.replace"]
    found["meta"] = [row for row in found["meta"] if not row[0].startswith("audit")]
    return found


def opened_facts(folder: Path, passphrase: str | None = None) -> dict[str, list[Row]]:
    """Return the same for a data directory, after a check that finds nothing."""
    answer = check_closed_store(folder, folder / KEY_FILE, full=True, passphrase=passphrase)
    assert answer.problems == ()
    store = Store.open(folder, passphrase=passphrase)
    try:
        return facts(store.database)
    finally:
        store.close()


def names(folder: Path) -> set[str]:
    """Return the names in a data directory."""
    return {path.name for path in folder.iterdir()} - {"lock"}


def die(module: str, folder: Path, after: int) -> bool:
    """Rewrite a store in a process that dies at a given progress report; return whether it died."""
    code = _DYING.format(module=module)
    child = subprocess.run((sys.executable, "-c", code, str(folder), str(after)), capture_output=True, check=False)
    assert child.returncode in (0, 9), child.stderr
    return child.returncode == 9
