"""The applications that members connect Google and Outlook mailboxes by, as an administrator saved them."""

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import NothingToRemove
from mailbox_appliance.model.records import OAuthApp, OAuthProvider
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.tables import OAUTH_APPS

_SAVE = """
INSERT INTO oauth_apps (provider, client_id, client_secret, tenant_id, public_client, updated_at)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (provider) DO UPDATE SET client_id = excluded.client_id,
  client_secret = excluded.client_secret, tenant_id = excluded.tenant_id, public_client = excluded.public_client,
  updated_at = excluded.updated_at"""


class OAuthApps:
    """Reads and writes OAuth applications, with their secrets."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def find(self, provider: OAuthProvider) -> OAuthApp | None:
        """The application saved for a provider, or None."""
        sql = "SELECT client_id, client_secret, tenant_id, public_client FROM oauth_apps WHERE provider = ?"
        row = self._database.row(sql, (provider,))
        return None if row is None else OAuthApp(provider, row[0], row[1], row[2], bool(row[3]))

    def put(self, app: OAuthApp) -> None:
        """Save an application in place of the one before. Inside a transaction."""
        at = to_timestamp(self._clock.now())
        facts = (app.provider, app.client_id, app.client_secret, app.tenant_id, int(app.public_client), at)
        self._database.change(_SAVE, facts)

    def remove(self, provider: OAuthProvider) -> None:
        """Forget a saved application. Inside a transaction. Raises NothingToRemove."""
        if not self._database.run(OAUTH_APPS.delete().where(OAUTH_APPS.provider == provider)):
            raise NothingToRemove(what="saved OAuth application")
