"""Commands on a data directory that no process serves. They return the same JSON as the API.

Most open the appliance without listeners, sync and sending, and call the operation that the API calls. The others work
where that is impossible: on a store that does not open, or is replaced while it is closed.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from mailbox_appliance import settings
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.errors import KeyUnusable, KeyWrong, StoreForeign, StoreNewer, StoreUnusable
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.model.base import encode_own_text
from mailbox_appliance.operations import audit, https
from mailbox_appliance.operations.backups import backup_page, create_backup, stray_warnings
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.enrolment import CreateFirstAdminRequest, add_first_admin
from mailbox_appliance.operations.operation import LOCAL, Caller, Operation
from mailbox_appliance.operations.store import StoreMigration, store_overview
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.backup import backups
from mailbox_appliance.store.backup.files import BACKUPS_FOLDER
from mailbox_appliance.store.database import failures_as_unusable
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import FileSlot, StoreKey, find_key_file, load_passphrase, read_key, read_key_file
from mailbox_appliance.store.maintenance.check import check_closed_store
from mailbox_appliance.store.maintenance.rewrite import compact_closed_store, rekey_closed_store
from mailbox_appliance.store.open_file import check_openable, detect_format
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.upgrade.dry_run import UpgradePreview, preview_upgrade
from mailbox_appliance.store.upgrade.upgrade import UPGRADABLE_FORMATS, UpgradeResult
from mailbox_appliance.system.files import find_lock_holder
from mailbox_appliance.tls.files import CertificateFiles
from mailbox_appliance.tls.generate import own_names
from mailbox_appliance.tls.inspect import certificate_warnings, read_facts

# --- The store of a data directory, opened for one command and closed again ---


@contextmanager
def open_store(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> Iterator[Store]:
    """Context manager: keep the store open until the block ends. A missing store is created, and one of an older format
    is upgraded.

    `passphrase`: unlocks the store's key, by default the one in the environment. Raises StoreUnusable.
    """
    key_file, passphrase = _read_store_key(data_dir, passphrase)
    with failures_as_unusable(data_dir):
        store = Store.open(data_dir, key_file=key_file, passphrase=passphrase, progress=progress)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def _open_appliance(
    data_dir: Path,
    passphrase: str | None = None,
    progress: Progress | None = None,
    *,
    options: Settings | None = None,
) -> Iterator[Appliance]:
    options = options or settings.load(data_dir / "config.toml")
    with open_store(data_dir, passphrase, progress) as store:
        yield Appliance(data_dir, options, store=store)


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


def find_own_key(data_dir: Path, passphrase: str | None = None) -> StoreKey | None:
    """Return the key of the store, with which its backups can be opened; None if it is missing or cannot be unlocked.

    A backup that has a passphrase can be opened without the key.
    """
    with suppress(KeyUnusable, OSError):
        return read_key(find_key_file(data_dir, os.environ), passphrase or load_passphrase(os.environ))
    return None


# --- Operations, called as the operator of this computer ---


_OPERATIONS: dict[str, Operation[..., Any]] = {
    "create_backup": create_backup,
    "get_https": https.get_https,
    "update_https": https.update_https,
    "put_certificate": https.put_certificate,
    "rotate_certificate": https.rotate,
    "verify_audit": audit.verify_events,
}
#: Use no settings, so they also work beside a config.toml that is not valid.
_WITHOUT_SETTINGS = ("create_backup", "verify_audit")
#: Create a store if there is none, since its audit log records the change.
_CREATING = ("update_https", "put_certificate", "rotate_certificate")


def call(
    data_dir: Path,
    name: str,
    given: Mapping[str, Any] | None = None,
    passphrase: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Call an operation of the API on an appliance that is opened for it, and return its answer.

    `name`: see `_OPERATIONS`. `given`: the body of the request, if it has one. `passphrase`: of the store's key. Raises
    StoreUnusable, Conflict, Invalid.
    """
    operation = _OPERATIONS[name]
    body = operation.body
    request = {} if body is None else {body.name: convert_body(dict(given or {}), body.type)}
    if name not in _CREATING or given == {"enabled": False}:
        require_store(data_dir)
    options = settings.load(environment={}) if name in _WITHOUT_SETTINGS else None
    with _open_appliance(data_dir, passphrase, progress, options=options) as appliance:
        appliance.exclusive_job.on_progress = progress
        answer = operation.run(appliance, Caller(LOCAL, is_operator=True), request)
        return to_envelope(answer.data, (*upgrade_warnings(appliance.store.upgraded), *answer.warnings))


def setup_on_files(data_dir: Path, *, name: str, email: str, password: str, device_name: str) -> dict[str, Any]:
    """Create the first administrator. No setup code is needed, since the caller can write the files anyway.

    Creates a store if there is none. Returns token, session and member, as the API does. Raises StoreUnusable, Conflict
    if the appliance is already set up, Invalid for invalid values.
    """
    given = {"setupCode": "-", "name": name, "email": email, "password": password, "deviceName": device_name}
    with _open_appliance(data_dir) as appliance:
        answer = add_first_admin(appliance, convert_body(given, CreateFirstAdminRequest), Actor("local"))
        (data_dir / SETUP_CODE).unlink(missing_ok=True)
        return to_envelope(answer, upgrade_warnings(appliance.store.upgraded))


def https_fingerprint(data_dir: Path) -> dict[str, Any]:
    """Return the fingerprint of the certificate. If there is no certificate, create one and add a warning to the
    result.

    Neither the store nor its key is read, so this also works while an appliance is running. Raises CertificateUnusable,
    BadSetting.
    """
    files, now = CertificateFiles(data_dir), datetime.now(UTC)
    is_new = files.ensure(own_names(settings.load(data_dir / "config.toml")), now)
    found = read_facts(files)
    told = (_certificate_made_warning(data_dir, files),) if is_new else ()
    return to_envelope(found, (*told, *certificate_warnings(found, now)))


def _certificate_made_warning(data_dir: Path, files: CertificateFiles) -> str:
    """Also name what may be wrong: a mistyped directory, or clients that pinned an earlier certificate."""
    made = f"This certificate was created now in {files.folder}, because none existed."
    if os.path.lexists(data_dir / DATABASE_FILE):
        return f"{made} Clients that pinned an earlier certificate refuse this one."
    return f"{made} The directory holds no store yet. If your appliance uses another one, name it with --data-dir."


# --- Backups, listed and verified also if the store is lost ---


def list_backups(data_dir: Path, *, limit: int, cursor: str | None) -> dict[str, Any]:
    """Return a page of the backups of a data directory, newest first. No backup is opened. `limit`: backups per page.

    Raises StoreUnusable if there is neither a store nor a backup folder.
    """
    _require_backups(data_dir)
    return to_envelope(
        backup_page(backups.list_backups(data_dir), limit, cursor), stray_warnings(backups.list_unlisted(data_dir))
    )


def verify_backup(
    data_dir: Path, backup_id: str, passphrase: str | None, progress: Progress | None = None
) -> dict[str, Any]:
    """Read and check a backup of a data directory. The store is not opened. `passphrase`: of the backup, if it has one.

    Raises NotFound, BackupUnusable.
    """
    _require_backups(data_dir)
    file = backups.find_backup(data_dir, backup_id)
    return to_envelope(backups.verify_file(file, passphrase, find_own_key(data_dir, passphrase), progress))


def verify_backup_file(file: Path, passphrase: str | None, progress: Progress | None = None) -> dict[str, Any]:
    """Read and check a backup file in any folder. `passphrase`: of the backup, if it has one. Raises BackupUnusable."""
    return to_envelope(backups.verify_file(file, passphrase, None, progress))


def _require_backups(data_dir: Path) -> None:
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
    is_older, preview = number in UPGRADABLE_FORMATS, None
    if is_older and pid is None:
        try:
            preview = preview_upgrade(data_dir, key_file, load_passphrase(os.environ))
        except StoreUnusable as error:
            problem = error.message
    answer = store_overview(
        data_dir,
        key_file,
        settings.load(data_dir / "config.toml"),
        store_format=number,
        backups=backups.list_backups(data_dir),
        pid=pid,
        migration=None if preview is None else _migration_facts(preview),
        problem=problem,
    )
    warnings = (*answer.warnings, *((_OLDER,) if is_older else ()), *(preview.warnings if preview else ()))
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
    """Return the format, and why the store cannot be opened. It is opened only if it `is_free` and prompts nobody."""
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
    """Whether the key opens without a keychain or a passphrase."""
    try:
        there = read_key_file(key_file)
    except (KeyUnusable, OSError):
        return False
    return there is None or any(isinstance(slot, FileSlot) for slot in there.slots)


def _migration_facts(preview: UpgradePreview) -> StoreMigration:
    return StoreMigration(
        from_format=preview.format,
        to_format=preview.upgrades_to,
        rows=preview.rows,
        bytes_needed=preview.bytes_needed,
        problems=preview.problems,
    )


def _read_store_key(data_dir: Path, passphrase: str | None) -> tuple[Path, str | None]:
    return find_key_file(data_dir, os.environ), passphrase or load_passphrase(os.environ)


# --- Upgrade of a store of an older release, real or as a dry run ---


def upgrade(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Upgrade the store to the current format, if it has an older one. `passphrase`: of the store's key.

    Returns `upgradedFrom` and the name of the migration backup, both null if nothing was upgraded. Raises
    StoreUnusable, Conflict.
    """
    require_store(data_dir)
    with open_store(data_dir, passphrase, progress) as store:
        done = store.upgraded
    told = {"format": format_5.NUMBER, "upgradedFrom": None, "backup": None}
    if done is None:
        return {"data": told}
    return to_envelope(told | {"upgradedFrom": done.format, "backup": done.backup}, done.warnings)


def dry_run_upgrade(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Report what an upgrade would do and what prevents it, without changing anything. Raises StoreUnusable."""
    require_store(data_dir)
    key_file, passphrase = _read_store_key(data_dir, passphrase)
    with failures_as_unusable(data_dir):
        found = preview_upgrade(data_dir, key_file, passphrase, progress)
    told = {"format": found.format, "upgradesTo": found.upgrades_to, "rows": found.rows}
    told |= {"bytesNeeded": found.bytes_needed, "bytesFree": found.bytes_free}
    return to_envelope({**told, "ready": not found.problems, "problems": list(found.problems)}, found.warnings)
