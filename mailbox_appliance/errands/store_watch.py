"""Looks every minute whether the disk of the store has room left, and says so in the log when that begins and ends.

`GET /status` says it for as long as it is so (`store/room.warning`).
"""

import logging

from mailbox_appliance.errands.repeating import Repeating
from mailbox_appliance.settings import Settings
from mailbox_appliance.store import files
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

_EVERY = 60.0  # seconds between two looks


class StoreWatch:
    """Watches on a thread of its own."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._task = Repeating("store-watch", self.run_once, _EVERY)
        self._is_low = False

    def start(self) -> None:
        """Begin with a look at once."""
        self._task.start()

    def stop(self, timeout: float) -> None:
        """Look no more."""
        self._task.stop(timeout)

    def run_once(self) -> None:
        """Look once. What has begun ends only when there is a tenth more room, so that it is not told over and over."""
        low = self._settings.number("store.low_space_mib")
        file, facts = self._store.folder / DATABASE_FILE, {"free_bytes": self._store.free_bytes}
        if not self._is_low and (warning := files.low_room_warning(file, low)):
            self._is_low = True
            log.warning(warning, extra=facts)
        elif self._is_low and not files.low_room_warning(file, low + low // 10):
            self._is_low = False
            log.info("The disk of the store has room again.", extra=facts)
