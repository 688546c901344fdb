"""Stores that tests begin with: made once and copied, since making one takes several times as long as opening it."""

import shutil
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.store.store import Store
from tests.checked_client import CheckedClient


@dataclass(frozen=True)
class Template:
    """A closed store. Where it is set up: the first administrator, and the token of her session."""

    folder: Path
    token: str = ""
    member: dict[str, Any] | None = None

    def copy(self, folder: Path) -> None:
        """Put a copy of the store into a folder that is not there yet."""
        shutil.copytree(self.folder, folder)

    def appliance(self, folder: Path, clock: Clock | None = None) -> Appliance:
        """An appliance on a copy; `set_up` of the first client goes on as the administrator who is there."""
        self.copy(folder)
        made = Appliance(folder, clock=clock)
        if self.member is not None:
            now = to_timestamp(made.clock.now())  # when somebody would have logged in: one test begins as any other
            with made.store.database.transaction():
                made.store.database.change(
                    "UPDATE sessions SET created_at = ?, last_used_at = ?, logged_in_at = ?", (now,) * 3
                )
            CheckedClient.is_set_up(made, self.token, deepcopy(self.member))
        return made


def new_store(folder: Path, clock: Clock | None = None) -> Template:
    """One with nothing in it."""
    Store.open(folder, clock).close()
    return Template(folder)


def set_up_store(folder: Path, clock: Clock | None = None) -> Template:
    """One with an administrator, as `POST /setup` makes her."""
    made = Appliance(folder, clock=clock)
    client = CheckedClient(made).set_up()
    made.stop()
    return Template(folder, client.token, client.member)
