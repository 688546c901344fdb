"""How the appliance of a data directory is opened: at the start, and again after a restore."""

import gc
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.clock import SystemClock
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.oauth.environment import EnvironmentApps
from mailbox_appliance.operations import settings
from mailbox_appliance.settings import Settings, Value
from mailbox_appliance.store.database import failures_as_unusable
from mailbox_appliance.store.files import write_private
from mailbox_appliance.store.open_file import DirectoryLock
from mailbox_appliance.store.restore import swap
from mailbox_appliance.store.store import Store


@dataclass(frozen=True)
class Bootstrap:
    """How the appliance of a data directory is opened, at the start and again after a restore.

    `prepare` may subscribe to what happens, before anything does.
    """

    data_dir: Path
    key_file: Path
    passphrase: str | None = field(default=None, repr=False)
    flags: Mapping[str, Value] | None = None
    oauth_apps: EnvironmentApps | None = field(default=None, repr=False)
    prepare: Callable[[Appliance], None] | None = None

    def finish_pending_restore(self) -> None:
        """Move into place what a restore has decided before it was killed: the configuration may be among it.

        Raises StoreInUse, StoreUnusable.
        """
        if swap.is_committed(self.data_dir):
            with failures_as_unusable(self.data_dir):
                lock = DirectoryLock(self.data_dir)
                try:
                    swap.finish(self.data_dir, self.key_file)
                finally:
                    lock.release()

    def load_settings(self) -> Settings:
        """The settings as they are now. Raises BadSetting."""
        return settings.load_settings(self.data_dir / "config.toml", self.flags)

    def open(self, options: Settings, progress: Progress | None = None) -> Appliance:
        """The appliance, on a directory that nobody has; `progress` is told of an upgrade. Raises StoreUnusable."""
        clock = SystemClock()
        store = Store.open(self.data_dir, clock, self.key_file, passphrase=self.passphrase, progress=progress)
        try:
            return Appliance(self.data_dir, options, clock, oauth_apps=self.oauth_apps, store=store)
        except BaseException:
            store.close()
            raise

    def reopen(self, lock: DirectoryLock) -> Appliance:
        """Another appliance, on the directory that is ours already, with the configuration that is there then."""
        swap.finish(self.data_dir, self.key_file)
        options, clock = self.load_settings(), SystemClock()
        store = Store.open_locked(self.data_dir, lock, clock, self.key_file, passphrase=self.passphrase)
        try:
            return Appliance(self.data_dir, options, clock, oauth_apps=self.oauth_apps, store=store)
        except BaseException:
            store.close_files()
            raise


def ensure_setup_code(appliance: Appliance) -> str | None:
    """The code that set-up asks for, kept in a file that only the owner reads; None where set-up is done."""
    file = appliance.folder / SETUP_CODE
    if appliance.store.members.has_any():
        file.unlink(missing_ok=True)
        return None
    code = "-".join(secrets.token_hex(3) for _ in range(4))
    write_private(file, code.encode() + b"\n")
    return code


def tune_garbage_collector() -> None:
    """What stays for good is not looked through for garbage any more, and the rest not after every few objects."""
    gc.unfreeze()  # another appliance may have been there before
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
