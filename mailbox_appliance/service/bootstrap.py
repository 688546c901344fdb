"""Opens the appliance of a data directory, at the start of the service and again after a restore."""

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
    """The parameters for opening the appliance of a data directory, at the start and again after a restore.

    `flags`: settings from the command line. `prepare`: called before the appliance starts, to subscribe to its events.
    """

    data_dir: Path
    key_file: Path
    passphrase: str | None = field(default=None, repr=False)
    flags: Mapping[str, Value] | None = None
    oauth_apps: EnvironmentApps | None = field(default=None, repr=False)
    prepare: Callable[[Appliance], None] | None = None

    def finish_pending_restore(self) -> None:
        """Finish an earlier restore that was interrupted after it had begun to replace files.

        Load the settings afterwards, since the restore may also replace the configuration file. Raises StoreInUse,
        StoreUnusable.
        """
        if swap.is_committed(self.data_dir):
            with failures_as_unusable(self.data_dir):
                lock = DirectoryLock(self.data_dir)
                try:
                    swap.finish(self.data_dir, self.key_file)
                finally:
                    lock.release()

    def load_settings(self) -> Settings:
        """Load the settings from the configuration file, the environment and the command line. Raises BadSetting."""
        return settings.load_settings(self.data_dir / "config.toml", self.flags)

    def open(self, options: Settings, progress: Progress | None = None) -> Appliance:
        """Open the appliance, and lock its data directory. `options`: the settings. `progress`: called during an
        upgrade.

        Raises StoreUnusable, also if another process uses the directory.
        """
        clock = SystemClock()
        store = Store.open(self.data_dir, clock, self.key_file, passphrase=self.passphrase, progress=progress)
        try:
            return Appliance(self.data_dir, options, clock, oauth_apps=self.oauth_apps, store=store)
        except BaseException:
            store.close()
            raise

    def reopen(self, lock: DirectoryLock) -> Appliance:
        """Open a new appliance on the data directory with its current configuration.

        `lock`: held by this process already.
        """
        swap.finish(self.data_dir, self.key_file)
        options, clock = self.load_settings(), SystemClock()
        store = Store.open_locked(self.data_dir, lock, clock, self.key_file, passphrase=self.passphrase)
        try:
            return Appliance(self.data_dir, options, clock, oauth_apps=self.oauth_apps, store=store)
        except BaseException:
            store.close_files()
            raise


def ensure_setup_code(appliance: Appliance) -> str | None:
    """Write a new setup code to its file, which only the owner can read, and return it.

    If there is already a member, delete the file and return None.
    """
    file = appliance.folder / SETUP_CODE
    if appliance.store.members.has_any():
        file.unlink(missing_ok=True)
        return None
    code = "-".join(secrets.token_hex(3) for _ in range(4))
    write_private(file, code.encode() + b"\n")
    return code


def tune_garbage_collector(*, is_restored: bool = False) -> None:
    """Make garbage collection cheaper: ignore all objects that exist now, since they stay, and collect less often.

    `is_restored`: an earlier appliance has frozen its objects, which are garbage now. A start leaves next to none.
    """
    if is_restored:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
