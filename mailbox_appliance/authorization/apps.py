"""The application that an appliance asks a provider for access by: the operator's, else the one that is saved."""

from mailbox_appliance.model.records import OAuthApp, OAuthProvider
from mailbox_appliance.oauth.environment import EnvironmentApps
from mailbox_appliance.remote import providers_file
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.oauth import Asking
from mailbox_appliance.remote.providers import KnownProvider
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store


class Apps:
    """Says who asks a provider. May be used from any thread."""

    def __init__(self, store: Store, settings: Settings, given: EnvironmentApps) -> None:
        self._store, self._settings, self._given = store, settings, given

    def find(self, provider: OAuthProvider) -> OAuthApp | None:
        """The application in force for a provider, with its secret; None where nobody configured one."""
        given = self._given.get(provider)
        return self._store.oauth_apps.find(provider) if given is None else given.app

    def get_provider(self, provider: OAuthProvider) -> KnownProvider:
        """Where a provider is asked, as the operator has it. Raises RemoteFault."""
        return providers_file.known(self._settings, provider)

    def get_client(self, provider: OAuthProvider) -> Asking:
        """What a provider is asked with now. Raises RemoteFault where there is no application."""
        app = self.find(provider)
        known = self.get_provider(provider)
        if app is None:
            raise missing(known.title)
        ca_file, timeout = self._settings.text("remote.ca_file"), self._settings.number("remote.timeout")
        return Asking(known, app, ca_file, timeout)


def missing(title: str) -> RemoteFault:
    """There is no application any more that a mailbox was connected by."""
    reason = f"No OAuth application of {title} is configured. An administrator sets the one that was used before."
    fault = RemoteFault("oauth", "refused", reason)
    fault.name = "oauth_app_refused"
    return fault
