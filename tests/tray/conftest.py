"""A data directory of a desktop user, and the environment of its processes."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailbox_appliance.client import local
from mailbox_appliance.client.instances import local_key
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.tray import service
from tests.servers.session_bus import SessionBus
from tests.servers.tray_watcher import TrayHost
from tests.templates import Template


@dataclass(frozen=True)
class Desk:
    """The data directory of one user's appliance. `token`: of a session of its administrator."""

    folder: Path
    token: str
    environment: dict[str, str]

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def config_dir(self) -> Path:
        """The directory where sessions are stored."""
        return self.folder / "config"

    @property
    def tokens(self) -> TokenStore:
        """The stored sessions."""
        return TokenStore(self.config_dir, self.environment)

    def log_in(self) -> None:
        """Store a session of the administrator, as `login` does."""
        self.tokens.put(local_key(self.data_dir), self.token)

    def running(self) -> local.RunningAppliance:
        """Return the service that answers."""
        found = local.find_running(self.data_dir)
        assert found is not None, "no service"
        return found

    def stop(self) -> None:
        """End the service, if there is one."""
        if (pid := service.find_owner_pid(self.data_dir)) is not None:
            assert service.end_process(self.data_dir / "lock", pid, 15)


def desk_at(folder: Path, template: Template) -> Desk:
    """Return a desk with a store that is set up; its service uses free ports and no keychain."""
    template.copy(folder / "data")
    named = {name: value for name, value in os.environ.items() if not name.startswith(("MAILBOX_", "XDG_", "DBUS_"))}
    ours = {
        "MAILBOX_APPLIANCE_DATA_DIR": str(folder / "data"),
        "MAILBOX_APPLIANCE_CONFIG_DIR": str(folder / "config"),
        "MAILBOX_APPLIANCE_KEYCHAIN": "off",
        "MAILBOX_APPLIANCE_SERVER_PORT": "0",
        "MAILBOX_APPLIANCE_SERVER_HTTPS_PORT": "0",
        "MAILBOX_APPLIANCE_SERVER_HTTPS_HOST": "127.0.0.1",
    }
    return Desk(folder, template.token, named | ours)


@pytest.fixture
def desk(tmp_path: Path, templates: dict[str, Template]) -> Iterator[Desk]:
    """A store that is set up, without a running service or a session. Everything started on it ends with the test."""
    made = desk_at(tmp_path, templates["set up"])
    yield made
    made.stop()


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionBus]:
    """One bus for all tests of a module that do not end it."""
    bus = SessionBus(tmp_path_factory.mktemp("session")).start()
    yield bus
    bus.stop()


@pytest.fixture
def host(bus: SessionBus) -> Iterator[TrayHost]:
    """A desktop on the bus that shows icons and notifications."""
    host = TrayHost(bus.address).start()
    yield host
    host.stop()
