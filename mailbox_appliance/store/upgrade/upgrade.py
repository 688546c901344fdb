"""Upgrading a store of format 3 or 4 to format 5: a new file beside the old one, then one rename.

    1  the old files are written byte for byte to a backup, which is still hidden
    2  the old store is checked (old_store.py): every page, value and secret
    3  mailbox.db.new is filled in one transaction, compared with the old one, checked, and synced to the disk
    4  the old write-ahead log is written into its database and removed, so that SQLite cannot apply it to the new file
    5  the backup gets its name, and the new file replaces the old one; then the key file is rewritten

If it stops before the rename, the old store has the same content as before, and the next start begins again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import apsw

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import StoreDamaged, StoreInUse, StoreUnusable
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.store import files
from mailbox_appliance.store.audit import SYSTEM_ACTOR, Audit
from mailbox_appliance.store.backup.container import SECTION_NAMES, SectionSource
from mailbox_appliance.store.backup.files import BACKUPS_FOLDER, stage_backup
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.exclusive_job import ignore_progress
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE, remove_database, unfinished_path
from mailbox_appliance.store.formats import format_4, format_4_deliveries, format_5
from mailbox_appliance.store.key import StoreKey, new_key, read_salt, read_slots, write_key_if_allowed
from mailbox_appliance.store.open_file import (
    check_opens_with,
    detect_plain_format,
    load_store_key,
    require_complete,
    wal_path,
)
from mailbox_appliance.store.upgrade.old_store import OldStore, attach_old_store, file_state, require_not_in_use
from mailbox_appliance.system.files import replace_file, sync_file, sync_folder

# --- Filling a new store from the attached old one, and comparing the two ---


Secrets = Mapping[tuple[str, str], str]
_MAX_NAMED = 20
_SAME_EMAIL = (
    "The email address of the member {0} differs from that of {1} only in spelling, so {0} must sign in with exactly"
    " this spelling. An administrator can change the address."
)
_REJECTED_SEND = "The scheduled message {} has no content or no recipients, so it is kept as failed (message_rejected)."


def build_store(
    database: Database, number: int, key: StoreKey, secrets: Secrets, clock: Clock, tell: Progress
) -> tuple[str, tuple[str, ...]]:
    """Fill an empty database from the attached old store, in one transaction; return the time of that and warnings.

    `number`: the format of the old store. `secrets`: its decrypted secrets. `tell`: reports progress. Raises ValueError
    for values that the new format cannot store, and SQLite's errors.
    """
    now = clock.now()
    since = to_timestamp(now)
    with database.transaction():
        for statement in _schema_statements(are_triggers=False):
            database.change(statement)
        warnings = _prepare_conversion(database, number, secrets)
        for done, copied in enumerate(format_4.TABLE_COPIES):
            tell("copying the store", done, len(format_4.TABLE_COPIES) + 1)
            database.rows(copied.insert_sql, {"now": since})
        format_4_deliveries.copy_deliveries(database, now)
        _copy_audit_log(database, key, clock, tell)
        for statement in _schema_statements(are_triggers=True):
            database.change(statement)
        database.change(f"PRAGMA main.application_id = {format_5.APPLICATION_ID}")
        database.change(f"PRAGMA main.user_version = {format_5.NUMBER}")
    return since, warnings


def rehearse_build(database: Database, number: int, secrets: Secrets, clock: Clock) -> tuple[str, ...]:
    """Try the conversion of `build_store` in memory, and return its warnings.

    `database`: an empty database in memory, with the old store attached. `number`: the format of the old store. The
    audit log and the responses stored for idempotency keys are left out, since they may be very large. Messages are
    converted one by one and not kept. Raises ValueError for values that the new format cannot store, and SQLite's
    errors.
    """
    now = clock.now()
    for statement in _schema_statements(are_triggers=False):
        database.change(statement)
    warnings = _prepare_conversion(database, number, secrets)
    for copied in format_4.TABLE_COPIES:
        if copied.table != "legacy_idempotency":
            database.rows(copied.insert_sql, {"now": to_timestamp(now)})
    format_4_deliveries.rehearse_deliveries(database, now)
    return warnings


def compare_stores(database: Database, number: int, secrets: Secrets, since: str, tell: Progress) -> None:
    """Check that the new store has all content of the attached old one: rows, columns and secrets.

    `number`: the format of the old store. `since`: the time of the upgrade as a timestamp. Raises StoreUnusable for the
    first difference, naming its table and row.
    """
    total = len(format_4.TABLE_COPIES) + 2
    database.change(format_4.OPERATION_IDS)
    if number == 3:
        format_4_deliveries.load_operation_ids(database)
    for done, copied in enumerate(format_4.TABLE_COPIES):
        tell("comparing the stores", done, total)
        _require_same(database, copied.table, (copied.count_old_sql, copied.count_new_sql), copied.differing_sql, since)
    tell("comparing the stores", total - 2, total)
    counts = format_4_deliveries.DELIVERY_COUNT, "SELECT count(*) FROM main.delivery_operations"
    _require_same(database, "delivery_operations", counts, format_4_deliveries.DELIVERY_DIFFERING, since)
    tell("comparing the stores", total - 1, total)
    counts = format_4.AUDIT_COUNT, "SELECT count(*) - 1 FROM main.audit_events"  # The row of the upgrade is the last.
    _require_same(database, "audit_events", counts, format_4.AUDIT_DIFFERING, since)
    for (table, row), secret in secrets.items():
        if database.value(format_4.COMPARED_SECRETS[table], (row,)) != secret:
            raise _difference_error(table, row)


@contextmanager
def failures_as_damage(file: Path) -> Iterator[None]:
    """Context manager: raise StoreDamaged, for the old store in `file`, instead of an error of the conversion in the
    block.

    For example, rows can contradict each other although each value is valid.
    """
    try:
        yield
    except ValueError as error:
        raise StoreDamaged(file=file, reason=str(error)) from error
    except apsw.ConstraintError as error:
        raise StoreDamaged(file=file, reason=f"its rows contradict each other ({error})") from error
    except apsw.CorruptError as error:
        raise StoreDamaged(file=file, reason="one of its pages cannot be read") from error


def _schema_statements(*, are_triggers: bool) -> list[str]:
    """Triggers are created after the rows are copied; otherwise they would run for each row."""
    statements = (statement for statement in format_5.SCHEMA.split(";\n") if statement.strip())
    return [statement for statement in statements if ("CREATE TRIGGER" in statement) == are_triggers]


def _prepare_conversion(database: Database, number: int, secrets: Secrets) -> tuple[str, ...]:
    """Fill temporary tables with values that SQL cannot compute, such as decrypted secrets; return warnings."""
    for statement in (*format_4.TEMPORARY_TABLES, format_4.OPERATION_IDS):
        database.change(statement)
    members = database.rows("SELECT id, email FROM older_members ORDER BY created_at, id")
    keys, twins = format_4.assign_email_keys((row[0], row[1]) for row in members)
    database.change_many("INSERT INTO temp.email_keys VALUES (?, ?)", list(keys.items()))
    rows = [(*place, secret) for place, secret in secrets.items()]
    database.change_many("INSERT INTO temp.secrets VALUES (?, ?, ?)", rows)
    if number == 3:
        format_4_deliveries.assign_operation_ids(database)
    rejected = format_4_deliveries.list_rejected(database)
    return (
        *_format_warnings(_SAME_EMAIL, list(twins.items())),
        *_format_warnings(_REJECTED_SEND, [(send,) for send in rejected]),
    )


def _format_warnings(sentence: str, found: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield from (sentence.format(*names) for names in found[:_MAX_NAMED])
    if len(found) > _MAX_NAMED:
        yield f"The same is true of {len(found) - _MAX_NAMED:,} more."


def _copy_audit_log(database: Database, key: StoreKey, clock: Clock, tell: Progress) -> None:
    audit, total = Audit(database, key.derive("audit"), clock), database.value(format_4.AUDIT_COUNT)
    audit.start_log()
    audit.append(format_4.read_audit_rows(database, lambda done: tell("sealing the audit log", done, total)))
    audit.record(SYSTEM_ACTOR, "store.upgrade")


def _require_same(database: Database, table: str, counts: tuple[str, str], differing: str, since: str) -> None:
    now = {"now": since}
    old, new = (database.value(sql, now) for sql in counts)
    if old != new:
        raise _difference_error(table, f"{new} rows instead of {old}")
    if (row := database.row(differing, now)) is not None:
        raise _difference_error(table, row[0])


def _difference_error(table: str, what: object) -> StoreUnusable:
    reason = f"the upgrade would have changed its table {table} ({what}), so nothing was changed."
    return StoreUnusable(reason=f"{reason} This is a bug in this release: use the previous release, and report it.")


# --- The upgrade of a data directory ---


#: The formats that can be upgraded.
UPGRADABLE_FORMATS = (3, 4)
_CACHE_KIB = 32 * 1024


@dataclass(frozen=True)
class UpgradeResult:
    """Result of an upgrade: the previous format, the file name of the backup of the old store, and warnings."""

    format: int
    backup: str
    warnings: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result in sentences, to show when a start has upgraded the store without being asked."""
        done = f"The store was upgraded from format {self.format} to {format_5.NUMBER}. The previous store is kept in"
        return (f"{done} {BACKUPS_FOLDER}/{self.backup}.", *self.warnings)


def upgrade_store(
    folder: Path, key_file: Path, clock: Clock, progress: Progress | None = None, *, passphrase: str | None = None
) -> UpgradeResult:
    """Upgrade the store of a data directory to the current format. The caller must hold the directory's lock.

    Raises NotEnoughRoom, BackupNotMade, or a StoreUnusable with the reason; then the old store is kept, with all its
    content.
    """
    tell = progress or ignore_progress
    file = (folder / DATABASE_FILE).resolve()  # A link stays a link, and its target is replaced.
    remove_database(unfinished_path(file))
    key = _load_key(key_file, file, passphrase)
    require_not_in_use(file)
    require_complete(file)
    files.require_room(file.parent, files.room_for_backup(file))
    number, sources, before = detect_plain_format(file) or 0, _old_files(folder, file, key_file), file_state(file)
    with (
        _remove_empty_folder(folder / BACKUPS_FOLDER),
        stage_backup(
            folder, "migration", sources, key, read_slots(key_file, key.master), number, clock, progress
        ) as backup,
    ):
        made = unfinished_path(file)
        try:
            warnings = _make_new_store(made, file, key, key_file, clock, before, tell)
            kept = backup.publish()
            _replace_old(file, made, kept)
        finally:
            remove_database(made)
    _update_key_file(file, key_file, key)
    return UpgradeResult(number, kept.name, warnings)


@contextmanager
def _remove_empty_folder(backups: Path) -> Iterator[None]:
    """If the block raises, the folder goes unless it existed before or is not empty."""
    was_there = backups.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            with suppress(OSError):
                backups.rmdir()
        raise


def _load_key(key_file: Path, file: Path, passphrase: str | None) -> StoreKey:
    key = load_store_key(key_file, file, passphrase)
    return replace(new_key(), master=key.master) if key.is_bare else key


def _old_files(folder: Path, file: Path, key_file: Path) -> list[SectionSource]:
    elsewhere = {DATABASE_FILE: file, f"{DATABASE_FILE}-wal": wal_path(file), KEY_FILE: key_file}
    places = [(name, elsewhere.get(name, folder / name)) for name in SECTION_NAMES]
    return [SectionSource(name, path) for name, path in places if path.exists()]


def _make_new_store(
    made: Path, file: Path, key: StoreKey, key_file: Path, clock: Clock, before: object, tell: Progress
) -> tuple[str, ...]:
    """Return warnings. `before`: the `file_state` of the old store when its backup began."""
    made.touch(mode=0o600)
    with _open_both(made, file, key) as (database, older):
        if file_state(file) != before:
            raise StoreInUse(holder="", folder=file.parent)
        older.require_sound(tell)
        secrets = older.load_secrets(key.master, key_file)
        with failures_as_damage(file):
            since, warnings = build_store(database, older.number, key, secrets, clock, tell)
    with _open_both(made, file, key) as (database, older):
        with failures_as_damage(file):
            compare_stores(database, older.number, secrets, since, tell)
        if database.value("PRAGMA main.quick_check(1)") != "ok":
            raise StoreUnusable(
                reason=f"{made} could not be read back as it was written. Check the disk. Nothing was changed."
            )
        ((is_busy, *_),) = database.rows("PRAGMA old.wal_checkpoint(TRUNCATE)")
        if is_busy:
            raise StoreInUse(holder="", folder=file.parent)
    check_opens_with(made, key)
    sync_file(made)
    return warnings


@contextmanager
def _open_both(made: Path, file: Path, key: StoreKey) -> Iterator[tuple[Database, OldStore]]:
    """The new store has no journal, since an unfinished one is deleted anyway."""
    database = Database(made, key.cipher, key.derive("database"))
    with attach_old_store(database, file) as older:
        for pragma in ("journal_mode = off", "synchronous = off", f"cache_size = -{_CACHE_KIB}"):
            database.rows(f"PRAGMA main.{pragma}")
        yield database, older


def _replace_old(file: Path, made: Path, kept: Path) -> None:
    """If this fails, the old database is still in place, and the backup `kept` is removed."""
    try:
        for suffix in ("-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        sync_folder(file.parent)
        replace_file(made, file)
    except BaseException:
        with suppress(OSError):
            kept.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def _update_key_file(file: Path, key_file: Path, key: StoreKey) -> None:
    """The store also opens without its salt there, so errors are ignored."""
    key = key.with_salt(read_salt(file))
    with suppress(OSError):  # The next start tries again.
        write_key_if_allowed(key_file, key)
