"""The store of a data directory, opened for one command and closed again."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mailbox_appliance.errors import StoreUnusable
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store.backup.files import BACKUPS_FOLDER
from mailbox_appliance.store.files import DATABASE_FILE, failures_as_unusable
from mailbox_appliance.store.key import find_key_file, load_passphrase
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.upgrade.upgrade import UpgradeResult


@contextmanager
def existing_store(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> Iterator[Store]:
    """The store that is there; one of an older format is upgraded. Raises StoreUnusable, also where there is none.

    `passphrase`: of its key, where that does not stand in the environment.
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


def told_of(upgraded: UpgradeResult | None) -> tuple[str, ...]:
    """What is to be told of an upgrade that a command did on its way."""
    return () if upgraded is None else upgraded.sentences


def enveloped(data: Any, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """An answer as the API gives it."""
    return {"data": msgspec.to_builtins(data), **({"warnings": list(warnings)} if warnings else {})}


def require_store(data_dir: Path) -> None:
    """Raises StoreUnusable where there is no store: a command that is about one makes none."""
    if not os.path.lexists(data_dir / DATABASE_FILE):
        raise StoreUnusable(reason=f"there is no store in {data_dir}. Name the directory that has one with --data-dir.")


def require_backups(data_dir: Path) -> None:
    """The same for what is about backups, which are there also where the store has been lost."""
    if not (data_dir / BACKUPS_FOLDER).is_dir():
        require_store(data_dir)
