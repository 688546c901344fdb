"""A new master key for a store: its database written anew under it, and the key file with the same slots round it.

What the old key opens stays so: backups that were made before, and copies of the old files.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import KeyMissing
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store import room
from mailbox_appliance.store.audit import Actor, Audit, AuditCheck
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.files import write_private
from mailbox_appliance.store.key_slots import rewrap
from mailbox_appliance.store.keyfile import StoreKey, new_key, read_file, render
from mailbox_appliance.store.reencrypt import reencrypt
from mailbox_appliance.store.renewal import Renewal, renewing, require_writable
from mailbox_appliance.store.upgrade import Upgraded


@dataclass(frozen=True)
class Rekeyed:
    """How many rows the audit log has, and the first that was not right before: it is found so afterwards too.
    `upgraded`: where the store had to be, first.
    """

    audit: AuditCheck
    upgraded: Upgraded | None


def rekey(folder: Path, key_file: Path, *, passphrase: str | None = None, progress: Progress | None = None) -> Rekeyed:
    """Give the store of a data directory that nobody uses a new master key; whatever stops it leaves the old or the
    new one.

    `passphrase` opens the passphrase slot, where there is one, and opens the new one. Raises StoreInUse, KeyUnusable
    (PassphraseNeeded, PassphraseWrong and KeychainLocked among them), NotEnoughRoom, StoreDamaged, StoreUnusable.
    """
    require_writable(key_file)
    with renewing(folder, key_file, passphrase=passphrase, progress=progress) as renewal:
        there = read_file(key_file)
        if there is None:  # it was one line, and opening has rewritten it where it could
            raise KeyMissing(store=renewal.old_database, file=key_file)
        old = replace(renewal.store.key, store_id=there.store_id)
        new = replace(old, master=new_key().master)
        slots = rewrap(there.slots, old, new, passphrase, file=key_file)
        room.require_room(folder, room.needed_for_copy(renewal.old_database))
        made = reencrypt(renewal.old_database, old, renewal.database, new, progress)
        _record(renewal, made.key)
        write_private(renewal.key_file, render(made.key, slots))
    assert made.audit is not None  # noqa: S101 - the keys differ
    return Rekeyed(made.audit, renewal.store.upgraded)


def _record(renewal: Renewal, key: StoreKey) -> None:
    """Write into the new log, which alone it concerns, that it was begun under another key."""
    database = Database(renewal.database, key.cipher, key.derive("database"))
    try:
        Audit(database, key.derive("audit"), SystemClock()).record(Actor("local"), "key.replace", ("key", key.store_id))
    finally:
        database.close()
