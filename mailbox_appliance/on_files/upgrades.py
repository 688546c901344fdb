"""The upgrade of a store of an older release, for its own sake: done, or only looked at."""

import os
from pathlib import Path
from typing import Any

from mailbox_appliance.model.records import Progress
from mailbox_appliance.on_files.opening import enveloped, existing_store, require_store
from mailbox_appliance.store.files import failures_as_unusable
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import find_key_file, load_passphrase
from mailbox_appliance.store.upgrade.dry_run import preview_upgrade


def upgraded(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Upgrade the store; one that is of this format stays as it is. Raises StoreUnusable, Conflict.

    Answers `upgradedFrom`, and the name of the migration backup that was made; both null where nothing was done.
    """
    with existing_store(data_dir, passphrase, progress) as store:
        done = store.upgraded
    told = {"format": format_5.NUMBER, "upgradedFrom": None, "backup": None}
    if done is None:
        return {"data": told}
    return enveloped(told | {"upgradedFrom": done.format, "backup": done.backup}, done.warnings)


def surveyed(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """What an upgrade would do, and what stands in its way; nothing is changed. Raises StoreUnusable."""
    require_store(data_dir)
    passphrase = passphrase or load_passphrase(os.environ)
    with failures_as_unusable(data_dir):
        found = preview_upgrade(data_dir, find_key_file(data_dir, os.environ), passphrase, progress)
    told = {"format": found.format, "upgradesTo": found.upgrades_to, "rows": found.rows}
    told |= {"bytesNeeded": found.bytes_needed, "bytesFree": found.bytes_free}
    return enveloped({**told, "ready": not found.problems, "problems": list(found.problems)}, found.warnings)
