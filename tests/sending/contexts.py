"""A sending context around a store, for tests of single parts."""

from mailbox_appliance import settings as settings_table
from mailbox_appliance.clock import Clock
from mailbox_appliance.events import Events
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store


def context_of(store: Store, clock: Clock, settings: Settings | None = None) -> SendingContext:
    """Return a context whose events have no listeners, with the default settings if none are given."""
    settings = settings or settings_table.load(environment={})
    return SendingContext(store, Logins(store, settings, clock), settings, Events(), clock)
