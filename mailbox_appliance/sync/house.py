"""What all mailboxes that are mirrored have in common, and how one of them is connected to."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mailbox_appliance.authorization.logins import Logins
from mailbox_appliance.clock import Clock
from mailbox_appliance.events import Events
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.parser import Parsers


@dataclass(frozen=True)
class House:
    """What all mailboxes have in common."""

    store: Store
    logins: Logins
    settings: Settings
    events: Events
    clock: Clock
    parsers: Parsers

    def connect(self, account_id: str, on_connected: Callable[[Callable[[], None]], None]) -> ImapMailbox:
        """Log in to the server of a mailbox. `on_connected`: told how to cut it. Raises NotFound and RemoteFault."""
        ca_file, timeout = self.settings.text("remote.ca_file"), float(self.settings.number("remote.timeout"))
        opening = partial(ImapMailbox.open, ca_file=ca_file, timeout=timeout, on_connected=on_connected)
        return self.logins.imap(account_id, opening)
