"""A provider of each kind, a store with their applications, and the objects that return tokens."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mailbox_appliance import settings as settings_table
from mailbox_appliance.model.accounts import OAuthLogin
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.settings import Settings, Value
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.servers.oauth_provider import OAuthServer


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oauth")


@pytest.fixture
def google(certificates: Path) -> Iterator[OAuthServer]:
    with OAuthServer(certificates, "google") as server:
        yield server


@pytest.fixture
def outlook(certificates: Path) -> Iterator[OAuthServer]:
    with OAuthServer(certificates, "outlook") as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, google: OAuthServer, outlook: OAuthServer) -> Settings:
    file = tmp_path / "providers.toml"
    file.write_text(google.row() + outlook.row())
    given: dict[str, Value] = {
        "remote.providers_file": str(file),
        "remote.ca_file": str(google.ca_file),
        "remote.timeout": 5,
    }
    return settings_table.load(flags=given, environment={})


@pytest.fixture
def logins(store: Store, settings: Settings, clock: FakeClock, google: OAuthServer, outlook: OAuthServer) -> Logins:
    with store.database.transaction(durable=True):
        store.oauth_apps.put(google.app)
        store.oauth_apps.put(outlook.app)
    return Logins(store, settings, clock)


Connect = Callable[..., str]


@pytest.fixture
def connect(store: Store) -> Connect:
    """Return a function that stores the mailbox of a person who signs in, or one shared with them, and returns
    its ID.
    """

    def connected(server: OAuthServer, email: str | None = None) -> str:
        login = OAuthLogin(server.provider, email or server.person, server.person, server.sign_up())
        with store.database.transaction(durable=True):
            if not store.members.has_any():
                store.members.add(name="Ada", email="ada@example.org", role="admin", password_hash=None)
            return store.oauth_logins.add(store.members.list()[0].id, None, login)

    return connected
