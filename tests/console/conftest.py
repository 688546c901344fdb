"""A browser and a running appliance for the tests of the console."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.console.browsers import launch
from tests.console.house import House
from tests.console.walker import PROFILE, Walker
from tests.servers.dovecot import MailServer

#: Milliseconds; on a busy machine a page takes longer than the default of five seconds.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser of all tests; each file has its own profile in it."""
    with sync_playwright() as playwright:
        browser = launch(playwright.chromium)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    """The appliance of all tests. A test creates whatever it changes, such as a member or a mailbox."""
    # A daily backup begins a minute after the start, and would refuse the backup that a test creates.
    no_backups = {"MAILBOX_APPLIANCE_BACKUP_DAILY": "no"}
    made = House(tmp_path_factory.mktemp("house"), mail_server, environment=no_backups)
    yield made
    made.stop()


@pytest.fixture
def own_house(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    """An appliance for a test that changes all of it: settings, restores, the end of all sessions."""
    made = House(tmp_path_factory.mktemp("own-house"), mail_server)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    """The browser profile that the tests of a file share."""
    made = chromium.new_context(**PROFILE)
    yield made
    made.close()


@pytest.fixture
def walker(profile: BrowserContext, house: House) -> Iterator[Walker]:
    """A person in front of the browser; the test fails if the browser reports any problem."""
    made = Walker(None, house, profile, is_shared=True)
    yield made
    made.close()


@pytest.fixture
def own_walker(chromium: Browser, own_house: House) -> Iterator[Walker]:
    """A person in front of `own_house`."""
    made = Walker(chromium, own_house)
    yield made
    made.close()
