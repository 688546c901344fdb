"""Commands on the store while no appliance is running: status, check, compact, rekey, upgrade, setup, audit check."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mailbox_appliance import settings
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.errors import KeyUnusable, KeyWrong, StoreForeign, StoreNewer, StoreUnusable
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.model.base import encode_own_text
from mailbox_appliance.operations.audit import verify_audit_log
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.enrolment import CreateFirstAdminRequest, add_first_admin
from mailbox_appliance.operations.store import StoreMigration, store_overview
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.backup import backups
from mailbox_appliance.store.backup.files import BACKUPS_FOLDER
from mailbox_appliance.store.database import failures_as_unusable
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import FileSlot, find_key_file, load_passphrase, read_key_file
from mailbox_appliance.store.maintenance.check import check_closed_store
from mailbox_appliance.store.maintenance.rewrite import compact_closed_store, rekey_closed_store
from mailbox_appliance.store.open_file import check_openable, detect_format
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.upgrade.dry_run import UpgradePreview, preview_upgrade
from mailbox_appliance.store.upgrade.upgrade import UPGRADABLE_FORMATS, UpgradeResult
from mailbox_appliance.system.files import find_lock_holder

# --- The store of a data directory, opened for one command and closed again ---


@contextmanager
def open_existing_store(
    data_dir: Path, passphrase: str | None = None, progress: Progress | None = None
) -> Iterator[Store]:
    """Context manager: keep the existing store open until the block ends. A store of an older format is upgraded.

    `passphrase`: unlocks the store's key, by default the one in the environment. Raises StoreUnusable, also without a
    store.
    """
    require_store(data_dir)
    passphrase = passphrase or load_passphrase(os.environ)
    key_file = find_key_file(data_dir, os.environ)
    with failures_as_unusable(data_dir):
        store = Store.open(data_dir, key_file=key_file, passphrase=passphrase, progress=progress)
        try:
            yield store
        finally:
            store.close()


def upgrade_warnings(upgraded: UpgradeResult | None) -> tuple[str, ...]:
    """Return sentences about the upgrade that opening the store made; none if there was no upgrade (None)."""
    return () if upgraded is None else upgraded.sentences


def to_envelope(data: Any, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return a result in the form of an API response: `data` and, if there are any, `warnings`."""
    return {
        "data": msgspec.to_builtins(data, enc_hook=encode_own_text),
        **({"warnings": list(warnings)} if warnings else {}),
    }


def require_store(data_dir: Path) -> None:
    """Raise StoreUnusable if there is no store, for commands that must not create one."""
    if not os.path.lexists(data_dir / DATABASE_FILE):
        raise StoreUnusable(reason=f"there is no store in {data_dir}. Name the right directory with --data-dir.")


def require_backups(data_dir: Path) -> None:
    """Raise StoreUnusable if there is neither a store nor a backup folder.

    For commands on backups, which remain usable if the store is lost.
    """
    if not (data_dir / BACKUPS_FOLDER).is_dir():
        require_store(data_dir)


# --- Status, check, compact, rekey ---


_OLDER = "The store has the format of an older release. `mailbox-appliance store migrate` or `serve` upgrades it."
_OLD_KEY = (
    "Earlier backups and copies of the old files still open with the old key. Create a backup now, and delete the ones"
    " that must not open any more."
)
_BROKEN_LOG = "The audit log was altered before the key was changed: see `mailbox-appliance audit verify`."


def status(data_dir: Path) -> dict[str, Any]:
    """Return the status of the store, with the reason if it cannot be used. Nothing is upgraded or changed.

    Raises StoreUnusable if there is no store.
    """
    require_store(data_dir)
    key_file, pid = find_key_file(data_dir, os.environ), find_lock_holder(data_dir / "lock")
    number, problem = _identify_store(data_dir, key_file, is_free=pid is None)
    is_older, migration = number in UPGRADABLE_FORMATS, None
    if is_older and pid is None:
        try:
            migration = preview_upgrade(data_dir, key_file, load_passphrase(os.environ))
        except StoreUnusable as error:
            problem = error.message
    answer = store_overview(
        data_dir,
        key_file,
        settings.load(data_dir / "config.toml"),
        store_format=number,
        backups=backups.list_backups(data_dir),
        pid=pid,
        migration=None if migration is None else _migration_facts(migration),
        problem=problem,
    )
    warnings = (*answer.warnings, *((_OLDER,) if is_older else ()), *(migration.warnings if migration else ()))
    return to_envelope(answer.data, warnings)


def check(
    data_dir: Path, *, full: bool, passphrase: str | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Check the integrity of the store and return the result. `passphrase`: of the store's key.

    `full`: also check indexes, counts, the search index and the audit log, which takes longer. Nothing is upgraded or
    changed. Raises StoreUnusable.
    """
    require_store(data_dir)
    key_file, passphrase = _read_store_key(data_dir, passphrase)
    found = check_closed_store(data_dir, key_file, full=full, passphrase=passphrase, progress=progress)
    return to_envelope(found, (_OLDER,) if found.format in UPGRADABLE_FORMATS else ())


def compact(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Rewrite the database so that the space of deleted rows becomes free. `passphrase`: of the store's key.

    Raises StoreUnusable, NotEnoughRoom.
    """
    require_store(data_dir)
    key_file, passphrase = _read_store_key(data_dir, passphrase)
    done = compact_closed_store(data_dir, key_file, passphrase=passphrase, progress=progress)
    return to_envelope(
        {"bytesBefore": done.bytes_before, "bytesAfter": done.bytes_after}, upgrade_warnings(done.upgraded)
    )


def rekey(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Encrypt the store with a new master key. `passphrase`: of the current key.

    Raises StoreUnusable, KeyUnusable, NotEnoughRoom.
    """
    require_store(data_dir)
    key_file, passphrase = _read_store_key(data_dir, passphrase)
    done = rekey_closed_store(data_dir, key_file, passphrase=passphrase, progress=progress)
    is_whole = done.audit.broken is None
    warnings = (*upgrade_warnings(done.upgraded), _OLD_KEY, *(() if is_whole else (_BROKEN_LOG,)))
    return to_envelope({"rekeyed": True, "auditRows": done.audit.count, "auditOk": is_whole}, warnings)


def _identify_store(data_dir: Path, key_file: Path, *, is_free: bool) -> tuple[int | None, str | None]:
    """Return the format number of the store, and the reason why it cannot be opened; each may be None.

    The format is None if the file is not a store. Opening is tried only if that prompts nobody and `is_free` is set,
    which means that no process uses the store.
    """
    file, number = data_dir / DATABASE_FILE, None
    try:
        with failures_as_unusable(data_dir):
            number = detect_format(file, key_file)
            if number == format_5.NUMBER and is_free and _opens_without_asking(key_file):
                check_openable(file, key_file, load_passphrase(os.environ))
    except (StoreForeign, StoreNewer, KeyWrong) as error:
        return None, error.message
    except StoreUnusable as error:
        return number, error.message
    return number, None


def _opens_without_asking(key_file: Path) -> bool:
    """Whether the key can be unlocked without a keychain or a passphrase. False if the key file cannot be read."""
    try:
        there = read_key_file(key_file)
    except (KeyUnusable, OSError):
        return False
    return there is None or any(isinstance(slot, FileSlot) for slot in there.slots)


def _migration_facts(told: UpgradePreview) -> StoreMigration:
    return StoreMigration(
        from_format=told.format,
        to_format=told.upgrades_to,
        rows=told.rows,
        bytes_needed=told.bytes_needed,
        problems=told.problems,
    )


def _read_store_key(data_dir: Path, passphrase: str | None) -> tuple[Path, str | None]:
    return find_key_file(data_dir, os.environ), passphrase or load_passphrase(os.environ)


# --- Upgrade of a store of an older release, real or as a dry run ---


def upgrade(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Upgrade the store to the current format, if it has an older one. `passphrase`: of the store's key.

    Returns `upgradedFrom` and the name of the migration backup, both null if nothing was upgraded. Raises
    StoreUnusable, Conflict.
    """
    with open_existing_store(data_dir, passphrase, progress) as store:
        done = store.upgraded
    told = {"format": format_5.NUMBER, "upgradedFrom": None, "backup": None}
    if done is None:
        return {"data": told}
    return to_envelope(told | {"upgradedFrom": done.format, "backup": done.backup}, done.warnings)


def dry_run_upgrade(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Report what an upgrade would do and what prevents it, without changing anything. Raises StoreUnusable."""
    require_store(data_dir)
    passphrase = passphrase or load_passphrase(os.environ)
    with failures_as_unusable(data_dir):
        found = preview_upgrade(data_dir, find_key_file(data_dir, os.environ), passphrase, progress)
    told = {"format": found.format, "upgradesTo": found.upgrades_to, "rows": found.rows}
    told |= {"bytesNeeded": found.bytes_needed, "bytesFree": found.bytes_free}
    return to_envelope({**told, "ready": not found.problems, "problems": list(found.problems)}, found.warnings)


# --- Setup of the first administrator, and verifying the audit log ---


def setup_on_files(data_dir: Path, *, name: str, email: str, password: str, device_name: str) -> dict[str, Any]:
    """Create the first administrator. No setup code is needed, since the caller can write the files anyway.

    Creates a store if there is none. Returns token, session and member, as the API does. Raises StoreUnusable, Conflict
    if the appliance is already set up, Invalid for invalid values.
    """
    given = {"setupCode": "-", "name": name, "email": email, "password": password, "deviceName": device_name}
    options, key_file = settings.load(data_dir / "config.toml"), find_key_file(data_dir, os.environ)
    with failures_as_unusable(data_dir):
        appliance = Appliance(data_dir, options, key_file=key_file, passphrase=load_passphrase(os.environ))
        try:
            answer = add_first_admin(appliance, convert_body(given, CreateFirstAdminRequest), Actor("local"))
            (data_dir / SETUP_CODE).unlink(missing_ok=True)
        finally:
            appliance.store.close()
    return to_envelope(answer, upgrade_warnings(appliance.store.upgraded))


def verify_audit_on_files(data_dir: Path, passphrase: str | None = None) -> dict[str, Any]:
    """Verify the HMAC chain of the audit log; return the same as the API. Raises StoreUnusable."""
    with open_existing_store(data_dir, passphrase) as store:
        return to_envelope(verify_audit_log(store), upgrade_warnings(store.upgraded))
