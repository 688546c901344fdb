"""The few fixtures that all tests share."""

import signal
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
from tests.servers.gmail import Gmail
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.templates import Template, new_store, set_up_store

pytest_plugins = ["tests.pace"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """What this suite takes besides."""
    parser.addoption("--update-golden", action="store_true", help="write the files of tests/cli/golden anew")


def pytest_configure() -> None:
    """Let tests send signals to what they start, also when this run was started in the background or by nohup.

    A child inherits what its parent ignores. It does not inherit a handler, not even one that does nothing.
    """
    for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has only the first
        if number is not None and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


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
def gmail() -> Iterator[Gmail]:
    """Gmail's double, without an account."""
    with Gmail() as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """New stores, and such as were set up; by the clock of this computer, and by the first moment of a `FakeClock`."""
    folder = tmp_path_factory.mktemp("templates")
    return {
        "new": new_store(folder / "new"),
        "new, timed": new_store(folder / "new-timed", FakeClock()),
        "set up": set_up_store(folder / "set-up"),
        "set up, timed": set_up_store(folder / "set-up-timed", FakeClock()),
    }


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock, templates: dict[str, Template]) -> Iterator[Store]:
    """A new, empty store, by `clock`."""
    templates["new, timed"].copy(tmp_path / "data")
    opened = Store.open(tmp_path / "data", clock)
    yield opened
    opened.close()


@pytest.fixture
def appliance(tmp_path: Path, templates: dict[str, Template], request: pytest.FixtureRequest) -> Iterator[Appliance]:
    """An appliance in this process, on a store of its own; its workers run. Set up only for `checked_client`."""
    made = templates["set up" if "checked_client" in request.fixturenames else "new"].appliance(tmp_path / "data")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def timed(
    tmp_path: Path, clock: FakeClock, templates: dict[str, Template], request: pytest.FixtureRequest
) -> Iterator[Appliance]:
    """An appliance by `clock`; its workers rest. Set up only for `ada`."""
    template = templates["set up, timed" if "ada" in request.fixturenames else "new, timed"]
    made = template.appliance(tmp_path / "timed", clock)
    yield made
    made.stop()


@pytest.fixture
def client(appliance: Appliance) -> TestApp:
    """The HTTP interface of `appliance`, called in process, as a program on this computer would."""
    # WebTest would ask as HTTP/1.0, which only proxies and health checks speak.
    environ = {"HTTP_HOST": "127.0.0.1:8025", "REMOTE_ADDR": "127.0.0.1", "SERVER_PROTOCOL": "HTTP/1.1"}
    return TestApp(App(appliance), extra_environ=environ)


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
