"""The services that every part of sending uses (store, sign-ins, settings, events, clock), in one record."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mailbox_appliance.clock import Clock
from mailbox_appliance.events import Events
from mailbox_appliance.settings import Settings

if TYPE_CHECKING:
    from mailbox_appliance.oauth.logins import Logins
    from mailbox_appliance.store.store import Store


@dataclass(frozen=True)
class SendingContext:
    """The services that sending needs: store, sign-ins at providers, settings, events and clock."""

    store: "Store"
    logins: "Logins"
    settings: Settings
    events: Events
    clock: Clock
