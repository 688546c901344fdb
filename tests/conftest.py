"""The few fixtures that all tests share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from webtest import TestApp

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.store.store import Store
from mailbox_appliance.web.app import App
from tests.checked_client import CheckedClient
from tests.servers.dovecot import CannotStart, MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp


@pytest.fixture(scope="session")
def mail_server() -> Iterator[MailServer]:
    """Dovecot and Postfix, for the whole run; take a mailbox of your own with `fresh_user()`."""
    # Not tmp_path: the servers change user, and that folder is closed to others.
    with tempfile.TemporaryDirectory(prefix="mail-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        server = MailServer()
        try:
            server.start(folder)
        except CannotStart as problem:
            pytest.fail(str(problem), pytrace=False)
        yield server
        server.stop()


@pytest.fixture
def scripted_smtp() -> Iterator[ScriptedSmtp]:
    """An SMTP server that does what the test tells it."""
    server = ScriptedSmtp().start()
    yield server
    server.stop()


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    """A new, empty store, by `clock`."""
    opened = Store.open(tmp_path / "data", clock)
    yield opened
    opened.close()


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance in this process, on a store of its own, not yet set up; its workers run."""
    made = Appliance(tmp_path / "data")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def timed(tmp_path: Path, clock: FakeClock) -> Iterator[Appliance]:
    """An appliance by `clock`, not yet set up; its workers rest."""
    made = Appliance(tmp_path / "timed", clock=clock)
    yield made
    made.stop()


@pytest.fixture
def client(appliance: Appliance) -> TestApp:
    """The HTTP door of `appliance`, called in process, as a program on this computer would."""
    return TestApp(App(appliance), extra_environ={"HTTP_HOST": "127.0.0.1:8025", "REMOTE_ADDR": "127.0.0.1"})


@pytest.fixture
def checked_client(appliance: Appliance) -> CheckedClient:
    """As `client`, set up, as an administrator; every answer is held against the contract."""
    return CheckedClient(appliance).set_up()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningAppliance]:
    """The appliance as a process of its own, set up, with an administrator's token."""
    process = RunningAppliance(tmp_path / "running").start()
    process.set_up()
    yield process
    process.stop()
