"""Giving the database of a store that nobody uses, and its key file, a new form: both of them, or neither.

The new files are made in a folder of their own while the old ones stay what they are; one rename decides (store/swap).
Whatever fails before it, or stops the process, leaves the old store; after it the next start finishes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import KeyUnusable, StoreUnusable
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store import swap
from mailbox_appliance.store.failing import failures_as_unusable
from mailbox_appliance.store.files import DATABASE, KEY
from mailbox_appliance.store.key_place import require_own
from mailbox_appliance.store.lock import DirectoryLock
from mailbox_appliance.store.store import Store


@dataclass(frozen=True)
class Renewal:
    """The open store, and where the files that take the place of its own are to be made."""

    store: Store
    database: Path
    key_file: Path

    @property
    def old_database(self) -> Path:
        """The database that is there."""
        return self.store.folder / DATABASE


@contextmanager
def renewing(
    folder: Path, key_file: Path, *, passphrase: str | None, progress: Progress | None = None
) -> Iterator[Renewal]:
    """Let the block make new files, and put them in place when it ends well; where it raises, nothing has changed.

    Raises StoreInUse, NotEnoughRoom, and StoreUnusable for a store that cannot be opened or a disk that fails.
    """
    with failures_as_unusable(folder, then="Nothing was changed."):
        lock = DirectoryLock(folder)
        try:
            store = Store.open_locked(folder, lock, SystemClock(), key_file, passphrase=passphrase, progress=progress)
            try:
                making = swap.begin(folder)
                yield Renewal(store, making / DATABASE, making / KEY)
            except BaseException:
                store.close_files()
                swap.discard(folder)
                raise
            store.close_files()
            _put_in_place(folder, key_file)
        finally:
            lock.release()


def require_writable(key_file: Path) -> None:
    """Raise KeyUnusable where a key file cannot be replaced, or is a systemd credential; tried on the disk."""
    require_own(key_file, os.environ)
    real = key_file.resolve()
    probe = real.with_name(f".{real.name}.new")  # the name under which it would be written
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
        probe.unlink()
    except OSError as error:
        reason = (
            f"{key_file} has to be written anew, and cannot be ({error.strerror}). Keep it where it can be written"
            " (MAILBOX_APPLIANCE_KEY_FILE) for this; nothing was changed."
        )
        raise KeyUnusable(reason=reason) from error


def _put_in_place(folder: Path, key_file: Path) -> None:
    try:
        swap.decide(folder, key_file)
        swap.finish(folder, key_file)
    except OSError as error:
        if not swap.is_decided(folder):
            swap.discard(folder)
            raise
        reason = (
            f"its new files are complete but could not be put in place ({error.filename or folder}: {error.strerror})."
            " Once that is mended, the next start does it."
        )
        raise StoreUnusable(reason=reason) from error
