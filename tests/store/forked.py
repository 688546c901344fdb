"""Two related stores that diverged: changes in each, and a restore of one over the other."""

import shutil
from pathlib import Path

from mailbox_appliance.store.audit import SYSTEM_ACTOR, Actor
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.restore.merge import MergeResult, merge_present
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.restored import Act, People, populate

HOUR = 3600.0


class Parting:
    """A store that continues twice from one moment: as the source of a backup, and as the present store.

    One hour each passes before the changes in the backup, the changes in the present store, and the restore.
    """

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.folder, self.present = folder / "backup", folder / "present"
        self.carried = MergeResult(is_known=False)

    def run(self, together: Act, ours: Act, theirs: Act) -> tuple[Store, People]:
        """Run `ours` in the store that is backed up and `theirs` in the present store; return the restored store, open.

        Each of the two has a row of its own in its log.
        """
        store = Store.open(self.folder, self.clock)
        people = populate(store)
        together(store, people, self.clock)
        store.close()
        shutil.copytree(self.folder, self.present)
        self.clock.advance(HOUR)
        self._go_on(self.folder, people, ours)
        self.clock.advance(HOUR)
        self._go_on(self.present, people, theirs)
        self.clock.advance(HOUR)
        store = Store.open(self.folder, self.clock)
        self.carried = merge_present(store.database, self.present / DATABASE_FILE, store.key, self.clock.now())
        return store, people

    def _go_on(self, folder: Path, people: People, act: Act) -> None:
        store = Store.open(folder, self.clock)
        store.audit.record(SYSTEM_ACTOR, "settings.update", ("setting", folder.name))
        act(store, people, self.clock)
        store.close()


def told(store: Store, action: str, target: tuple[str, str]) -> None:
    """Record an action in the log."""
    store.audit.record(Actor("session"), action, target)
