"""Rewrites the database of a closed store, to compact it or to encrypt it with a new key.

The new files are made in a separate folder. One rename then replaces the database and the key file together
(restore/swap.py). If the process is interrupted before the rename, the old store remains; if after it, the next start
completes the change.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import KeyMissing, KeyUnusable, StoreDamaged, StoreUnusable
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.store import files
from mailbox_appliance.store.audit import Actor, Audit, AuditCheck
from mailbox_appliance.store.database import Database, failures_as_unusable, set_cipher_key
from mailbox_appliance.store.exclusive_job import ignore_progress
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE, open_private, remove_database, write_private
from mailbox_appliance.store.key import (
    StoreKey,
    new_key,
    read_key_file,
    read_salt,
    render_key_file,
    require_no_credential,
    rewrap_slots,
)
from mailbox_appliance.store.open_file import DirectoryLock, open_immutable
from mailbox_appliance.store.restore import swap
from mailbox_appliance.store.schema import TABLES, TRIGGERS
from mailbox_appliance.store.store import Store
from mailbox_appliance.system.files import sync_file

if TYPE_CHECKING:
    from mailbox_appliance.store.upgrade.upgrade import UpgradeResult

# --- Replacing the database and the key file of a store that no process uses ---


@dataclass(frozen=True)
class StoreRewrite:
    """A store while its files are replaced: the open store, and the paths for the new database and key file."""

    store: Store
    database: Path
    key_file: Path

    @property
    def old_database(self) -> Path:
        """The path of the database that is replaced."""
        return self.store.folder / DATABASE_FILE


@contextmanager
def rewrite_store(
    folder: Path, key_file: Path, *, passphrase: str | None, progress: Progress | None = None
) -> Iterator[StoreRewrite]:
    """Context manager: open a store, and replace its database and key file by those that the block writes.

    The block gets the open store and the paths for the new files. The files are replaced when it ends; if it raises,
    nothing was changed. `progress`: reports an upgrade that may come first. Raises StoreInUse, NotEnoughRoom, and
    StoreUnusable for a store that cannot be opened or an error of the disk.
    """
    with failures_as_unusable(folder, then="Nothing was changed."):
        lock = DirectoryLock(folder)
        try:
            store = Store.open_locked(folder, lock, SystemClock(), key_file, passphrase=passphrase, progress=progress)
            try:
                making = swap.begin(folder)
                yield StoreRewrite(store, making / DATABASE_FILE, making / KEY_FILE)
            except BaseException:
                store.close_files()
                swap.discard(folder)
                raise
            store.close_files()
            _put_in_place(folder, key_file)
        finally:
            lock.release()


def require_writable(key_file: Path) -> None:
    """Raise KeyUnusable if a key file is a systemd credential or cannot be replaced: a file beside it is tried."""
    require_no_credential(key_file, os.environ)
    real = key_file.resolve()
    probe = real.with_name(f".{real.name}.new")  # the name under which it would be written
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
        probe.unlink()
    except OSError as error:
        reason = (
            f"{key_file} must be rewritten, but cannot be ({error.strerror}). Move it to a writable place and set"
            " MAILBOX_APPLIANCE_KEY_FILE to its path. Nothing was changed."
        )
        raise KeyUnusable(reason=reason) from error


def _put_in_place(folder: Path, key_file: Path) -> None:
    try:
        swap.commit(folder, key_file)
        swap.finish(folder, key_file)
    except OSError as error:
        if not swap.is_committed(folder):
            swap.discard(folder)
            raise
        reason = (
            f"its new files are complete but could not be put in place ({error.filename or folder}: {error.strerror})."
            " Fix the cause; the next start then completes the change."
        )
        raise StoreUnusable(reason=reason) from error


# --- Compacting ---


_COMPACT_STEPS_BETWEEN_REPORTS = 20_000
_COMPACT_STEPS_A_PAGE = 150  # steps for writing a page, roughly
# The tables of the full-text search have no rows of their own to count.
_COUNTED_TABLES = tuple(table for table in TABLES if table not in ("message_index", "message_words"))


@dataclass(frozen=True)
class CompactResult:
    """The size of the database before and after compacting, in bytes.

    `upgraded`: the result of the upgrade that came first, if the store had an older format; otherwise None.
    """

    bytes_before: int
    bytes_after: int
    upgraded: "UpgradeResult | None"


def compact_closed_store(
    folder: Path, key_file: Path, *, passphrase: str | None = None, progress: Progress | None = None
) -> CompactResult:
    """Compact the store of a data directory that no process uses. An interruption leaves the old store or the new one.

    Raises StoreInUse, NotEnoughRoom, StoreDamaged, StoreUnusable, and KeyUnusable if the key file is not writable.
    """
    tell = progress or ignore_progress
    with rewrite_store(folder, key_file, passphrase=passphrase, progress=progress) as rewrite:
        if read_key_file(key_file) is not None:
            require_writable(key_file)
        files.require_room(folder, files.room_for_copy(rewrite.old_database))
        before = files.database_size(rewrite.old_database)
        _write_compacted(rewrite, tell)
        tell("checking the new database", 0, 0)
        require_sound_copy(rewrite.old_database, rewrite.database, rewrite.store.key)
        _require_same_counts(rewrite)
        _write_new_key_file(rewrite)
        after = files.database_size(rewrite.database)
    return CompactResult(before, after, rewrite.store.upgraded)


def _write_compacted(rewrite: StoreRewrite, tell: Progress) -> None:
    database, done = rewrite.store.database, 0
    expected = int(database.value("PRAGMA page_count")) * _COMPACT_STEPS_A_PAGE

    def look() -> None:
        nonlocal done
        done += _COMPACT_STEPS_BETWEEN_REPORTS
        tell("writing the compacted database", min(done, expected), expected)

    # SQLite writes into an empty file, and would create it with the mode of the umask.
    os.close(open_private(rewrite.database))
    with database.progress_handler(_COMPACT_STEPS_BETWEEN_REPORTS, look):
        try:
            # A plain path: the copy gets this connection's key, which appears in no statement.
            database.rows("VACUUM INTO ?", (str(rewrite.database),))
        except apsw.CorruptError as error:
            raise StoreDamaged(file=rewrite.old_database, reason="one of its pages cannot be read") from error


def _require_same_counts(rewrite: StoreRewrite) -> None:
    key = rewrite.store.key
    copy = Database(rewrite.database, key.cipher, key.derive("database"))
    try:
        for table in _COUNTED_TABLES:
            sql = f"SELECT count(*) FROM {table}"
            if copy.value(sql) != rewrite.store.database.value(sql):
                raise StoreDamaged(file=rewrite.old_database, reason=f"not every row of its table {table} was copied")
    finally:
        copy.close()


def _write_new_key_file(rewrite: StoreRewrite) -> None:
    """A key file of one line (release 0.10) has no salt, and stays."""
    there = read_key_file(rewrite.store.key_file)
    known = there.find_key(rewrite.store.key.master) if there else None
    if there is not None and known is not None:
        known = known.with_salt(read_salt(rewrite.database))
        write_private(rewrite.key_file, render_key_file(known, there.slots))


# --- A new master key: the database encrypted under it, and a key file with the same slots around it ---
#
# The old key still opens earlier backups, and copies of the old files.


@dataclass(frozen=True)
class RekeyResult:
    """The result of replacing the master key.

    `audit`: number of rows in the audit log, and the first altered one, if any; in the new log it is still found
    altered. `upgraded`: the result of the upgrade that came first, if the store had an older format; otherwise None.
    """

    audit: AuditCheck
    upgraded: "UpgradeResult | None"


def rekey_closed_store(
    folder: Path, key_file: Path, *, passphrase: str | None = None, progress: Progress | None = None
) -> RekeyResult:
    """Replace the master key of the store in a data directory that no process uses, and encrypt the database again.

    An interruption leaves the old store or the new one. The new key is unlocked in the same ways as the old one.
    `passphrase`: required if one protects the key. Raises StoreInUse, KeyUnusable (including PassphraseNeeded,
    PassphraseWrong and KeychainLocked), NotEnoughRoom, StoreDamaged, StoreUnusable.
    """
    require_writable(key_file)
    with rewrite_store(folder, key_file, passphrase=passphrase, progress=progress) as rewrite:
        there = read_key_file(key_file)
        if there is None:  # It was one line, and opening the store could not rewrite it.
            raise KeyMissing(store=rewrite.old_database, file=key_file)
        old = replace(rewrite.store.key, store_id=there.store_id)
        new = replace(old, master=new_key().master)
        slots = rewrap_slots(there.slots, old, new, passphrase, file=key_file)
        files.require_room(folder, files.room_for_copy(rewrite.old_database))
        made = reencrypt_database(rewrite.old_database, old, rewrite.database, new, progress)
        _record_rekey(rewrite, made.key)
        write_private(rewrite.key_file, render_key_file(made.key, slots))
    assert made.audit is not None  # noqa: S101 - the keys differ
    return RekeyResult(made.audit, rewrite.store.upgraded)


def _record_rekey(rewrite: StoreRewrite, key: StoreKey) -> None:
    database = Database(rewrite.database, key.cipher, key.derive("database"))
    try:
        Audit(database, key.derive("audit"), SystemClock()).record(Actor("local"), "key.replace", ("key", key.store_id))
    finally:
        database.close()


# --- Encrypting a database under another key: a copy, with the audit log sealed for that key ---
#
# SQLite itself copies page by page, so that every row, index and number stays the same. In the audit log only the seals
# change; a log that was broken is broken at the same row afterwards.


_PAGES_AT_ONCE = 2000  # pages copied in a step: about 10 ms
_LOG_TRIGGER = "audit_events_stay"  # the trigger that prevents changing rows of the log


@dataclass(frozen=True)
class ReencryptResult:
    """The result of encrypting a copy of a database with another key.

    `key`: the other key, with the salt of the copy, for its key file. `audit`: the check of the audit log; None if its
    HMACs did not have to be computed again, since both keys have the same master key.
    """

    key: StoreKey
    audit: AuditCheck | None


def reencrypt_database(
    source: Path, old: StoreKey, target: Path, new: StoreKey, progress: Progress | None = None
) -> ReencryptResult:
    """Copy a database of the present format to a new file that opens with another key.

    - source, old: the database and its key; nothing may write to it during the copy.
    - target, new: the new file and its key.

    When this returns, the copy is complete, checked and on the disk. If it raises, there is no copy. Raises
    StoreDamaged if a page cannot be read, apsw.Error (for example for a full disk), and OSError.
    """
    tell = progress or ignore_progress
    try:
        _copy_encrypted(source, old, target, new, tell)
        audit = None
        if old.derive("audit") != new.derive("audit"):
            audit = _rechain_log(target, old, new, tell)
        require_sound_copy(source, target, new)
        sync_file(target)
    except BaseException:
        remove_database(target)
        raise
    return ReencryptResult(new.with_salt(read_salt(target)), audit)


def _copy_encrypted(source: Path, old: StoreKey, target: Path, new: StoreKey, tell: Progress) -> None:
    remove_database(target)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(apsw.Connection(str(source))) as read, closing(apsw.Connection(str(target))) as written:
        set_cipher_key(read, old.cipher, old.derive("database"))
        set_cipher_key(written, new.cipher, new.derive("database"))
        written.pragma("synchronous", "off")  # synced to the disk at the end, all at once
        # Without a transaction of its own, a copy starts again whenever another connection commits.
        read.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        try:
            with written.backup("main", read, "main") as backup:
                while not backup.done:
                    backup.step(_PAGES_AT_ONCE)
                    tell("re-encrypting the store", backup.page_count - backup.remaining, backup.page_count)
        except apsw.CorruptError as error:
            raise StoreDamaged(file=source, reason="one of its pages cannot be read") from error
        read.execute("ROLLBACK")


def _rechain_log(target: Path, old: StoreKey, new: StoreKey, tell: Progress) -> AuditCheck:
    database = Database(target, new.cipher, new.derive("database"))
    try:
        with database.transaction():
            database.change(f"DROP TRIGGER IF EXISTS {_LOG_TRIGGER}")
        check = Audit(database, old.derive("audit"), SystemClock()).rechain(
            new.derive("audit"), lambda done, count: tell("resealing the audit log", done, count)
        )
        with database.transaction():
            database.change(TRIGGERS[_LOG_TRIGGER])
    finally:
        database.close()
    return check


def require_sound_copy(source: Path, target: Path, new: StoreKey) -> None:
    """Read a copy of a database with SQLite's `quick_check`. Raises StoreDamaged, naming `source`."""
    with open_immutable(target, new) as connection:
        try:
            found = connection.pragma("quick_check", 1)
        except apsw.CorruptError as error:
            found = str(error)
        if found != "ok":
            raise StoreDamaged(file=source, reason=f"a copy of it does not pass SQLite's check ({found})")
