"""Creating the first administrator in the browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.walker import Walker
from tests.servers.running import PASSWORD, RunningAppliance


class _Fresh:
    """An appliance that is not set up."""

    def __init__(self, folder: Path) -> None:
        self.running = RunningAppliance(folder, {"MAILBOX_APPLIANCE_KEYCHAIN": "off"}).start()
        self.url = self.running.url.rstrip("/")
        self.code = (folder / "setup-code").read_text().strip()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[_Fresh]:
    made = _Fresh(tmp_path)
    yield made
    made.running.stop()


def test_the_first_administrator_is_made_and_signed_in(chromium: Browser, fresh: _Fresh) -> None:
    walker = Walker(chromium, fresh)  # type: ignore[arg-type]  # only its address is asked
    walker.expects(400)
    page = walker.open("/")
    expect(page.get_by_role("heading", name="Set up")).to_be_visible()
    expect(page.get_by_label("Setup code")).to_be_focused()
    page.get_by_text("Where do I find the setup code?").click()
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_text("Required.")).to_have_count(4)  # all empty fields are marked at once
    walker.look("set-up")
    page.get_by_label("Setup code").fill("not the setup code")
    page.get_by_label("Your name").fill("Ada")
    page.get_by_label("Your email").fill("ada@example.org")
    page.get_by_label("Password", exact=True).fill("short")
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_label("Setup code")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Setup code")).to_be_focused()
    page.get_by_label("Setup code").fill(f" {fresh.code} ")
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_label("Password", exact=True)).to_be_focused()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_text("Your appliance is set up.")).to_be_visible()
    assert page.url.endswith("#/mailboxes/connect")
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Members")).to_be_visible()
    page.goto(f"{fresh.url}/#/set-up")
    expect(page.get_by_text("is already set up")).to_be_visible()
    walker.close()
