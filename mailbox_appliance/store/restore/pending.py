"""Marker file of an accepted restore. If the restore fails, the audit log records that, even if the process was killed.

The file is `.next.making/accepted` in the data directory. It is written before the client gets its answer, and it
disappears when the restored store is in place. So the next start finds it only if the restore failed. Then it records
`backup.restore` as failed, with the actor who requested it.
"""

import json
import logging
from dataclasses import asdict
from pathlib import Path

from mailbox_appliance.store.audit import Actor, Audit
from mailbox_appliance.store.database import DATABASE_ERRORS, Database
from mailbox_appliance.store.files import write_private
from mailbox_appliance.store.restore import swap
from mailbox_appliance.system import files

log = logging.getLogger(__name__)

_MAX_MARKER_SIZE = 10_000


def mark_pending(folder: Path, backup_id: str, actor: Actor) -> None:
    """Write the marker of an accepted restore, unless it exists. Errors are logged: a restore needs no marker."""
    try:
        place = swap.marker_path(folder)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(place, json.dumps({"backup": backup_id, "actor": asdict(actor)}).encode())
    except OSError:
        log.exception("restore_request_not_recorded", extra={"backup": backup_id})


def record_failed_restore(folder: Path, database: Database, audit: Audit) -> None:
    """If there is a marker of a failed restore, record the failure in the audit log and remove the restore's files."""
    noted = _read_marker(swap.marker_path(folder))
    try:
        if noted is not None:
            backup_id, actor = noted
            with database.transaction(durable=True):
                audit.record(actor, "backup.restore", ("backup", backup_id), "failure")
            log.warning("restore_not_completed", extra={"backup": backup_id})
    except DATABASE_ERRORS:  # On a full disk mail can still be read; the next opening finds the marker again.
        log.exception("restore_failure_not_recorded")
        return
    swap.discard(folder)


def _read_marker(place: Path) -> tuple[str, Actor] | None:
    try:
        found = json.loads(files.read_regular(place, _MAX_MARKER_SIZE))
        return str(found["backup"]), Actor(**found["actor"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
