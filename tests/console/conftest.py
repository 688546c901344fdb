"""A browser, and a house to look at with it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.console.browsers import launch
from tests.console.house import House
from tests.console.walker import PROFILE, Walker
from tests.servers.dovecot import MailServer

#: Milliseconds: beside other work a page takes longer than the five seconds that are usual.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One for all tests; each file has a profile of its own in it."""
    with sync_playwright() as playwright:
        browser = launch(playwright.chromium)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    """One for all: what a test changes it makes for itself, such as a member or a mailbox."""
    made = House(tmp_path_factory.mktemp("house"), mail_server)
    yield made
    made.stop()


@pytest.fixture
def own_house(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    """One for tests that change it as a whole: settings, restores, the end of all sessions."""
    made = House(tmp_path_factory.mktemp("own-house"), mail_server)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    """What the tests of a file walk in, one after the other."""
    made = chromium.new_context(**PROFILE)
    yield made
    made.close()


@pytest.fixture
def walker(profile: BrowserContext, house: House) -> Iterator[Walker]:
    """Somebody in front of the browser; the test fails if the browser complains of anything."""
    made = Walker(None, house, profile, is_shared=True)
    yield made
    made.close()


@pytest.fixture
def own_walker(chromium: Browser, own_house: House) -> Iterator[Walker]:
    """The same before `own_house`."""
    made = Walker(chromium, own_house)
    yield made
    made.close()
