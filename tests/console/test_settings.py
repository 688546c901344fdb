"""Settings: those that can change while running, HTTPS and its certificate, the license, the store."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from mailbox_appliance.settings import BY_NAME
from tests.console.house import House
from tests.console.walker import Walker
from tests.servers import issuer
from tests.servers.certificates import make_certificates
from tests.servers.dovecot import MailServer
from tests.servers.running import PASSWORD


@pytest.fixture(scope="module")
def set_up(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    """An appliance whose settings the tests change, with an issuer of licenses."""
    folder = tmp_path_factory.mktemp("set-house")
    (folder / "config.toml").write_text(f'[license]\nissuer_public_key = "{issuer.PUBLIC_KEY}"\n')
    made = House(folder, mail_server)
    yield made
    made.stop()


@pytest.fixture
def walking(profile: BrowserContext, set_up: House) -> Iterator[Walker]:
    """The administrator in front of that appliance's console."""
    made = Walker(None, set_up, profile, is_shared=True)
    yield made
    made.close()


def test_settings_are_changed_refused_and_taken_back(walking: Walker) -> None:
    walking.expects(400)
    house = walking.house
    page = walking.open("/settings", house.ada)
    group = page.get_by_role("form", name="Daily backups")
    expect(group.locator('[name="backup.keep_daily"]')).to_have_value("7")
    expect(group.get_by_text("backup.keep_daily, from 1 to 3660")).to_be_visible()
    help_text = BY_NAME["backup.keep_daily"].help
    expect(group.locator('[name="backup.keep_daily"]')).to_have_accessible_name(help_text)
    walking.look("settings")
    group.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    group.locator('[name="backup.keep_daily"]').fill("0")
    group.get_by_role("button", name="Save").click()
    expect(group.locator('[name="backup.keep_daily"]')).to_be_focused()
    expect(group.get_by_text("backup.keep_daily must be between 1 and 3660 (got 0).")).to_be_visible()
    group.locator('[name="backup.keep_daily"]').fill("9")
    group.locator('[name="backup.daily"]').uncheck()
    group.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. The change applies now.")).to_be_visible()
    assert _values(house)["backup.keep_daily"] == 9
    assert _values(house)["backup.daily"] is False
    page.get_by_role("button", name="Undo").click()
    expect(group.locator('[name="backup.keep_daily"]')).to_have_value("7")
    assert _values(house)["backup.daily"] is True


def test_lists_and_choices_are_changed_and_a_group_goes_back_to_its_file(walking: Walker) -> None:
    house = walking.house
    page = walking.open("/settings", house.ada)
    metrics = page.get_by_role("form", name="Metrics")
    metrics.locator('[name="metrics.allowed"]').fill("192.0.2.7\n10.0.0.0/8")
    metrics.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. The change applies now.")).to_be_visible()
    assert _values(house)["metrics.allowed"] == ["192.0.2.7", "10.0.0.0/8"]
    page.get_by_role("form", name="Log").locator('[name="log.level"]').select_option("warning")
    page.get_by_role("form", name="Log").get_by_role("button", name="Save").click()
    expect(page.get_by_role("form", name="Log").get_by_text("Not saved yet")).to_be_hidden()
    assert _values(house)["log.level"] == "warning"
    page.get_by_role("button", name="Log: reset to config.toml").click()
    page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(page.get_by_role("form", name="Log").locator('[name="log.level"]')).to_have_value("info")


@pytest.mark.slow
def test_https_is_turned_on_used_and_turned_off(walking: Walker, chromium: Browser) -> None:
    walking.expects(409)
    house = walking.house
    page = walking.open("/settings?part=https", house.ada)
    form = page.get_by_role("form", name="HTTPS")
    form.get_by_label("Enable HTTPS").check()
    form.get_by_label("Port").fill(house.url.rpartition(":")[2])
    form.get_by_label("Listen address").fill("127.0.0.1")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("HTTPS cannot be enabled")
    form.get_by_label("Port").fill("0")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("On", exact=True)).to_be_visible()
    walking.look("settings-https")
    url = page.get_by_role("link", name="https://").inner_text()
    other = chromium.new_context(ignore_https_errors=True, locale="en-GB")
    try:
        _turn_off_from_there(other.new_page(), url)
    finally:
        other.close()
    assert house.ask(house.ada, "GET", "/admin/https").data["enabled"] is False


def _turn_off_from_there(page: Page, url: str) -> None:
    """Turn HTTPS off over HTTPS, and check that the console asks first."""
    page.goto(f"{url}/#/settings?part=https")
    page.get_by_label("Email").fill("ada@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Enable HTTPS").uncheck()
    page.get_by_role("form", name="HTTPS").get_by_role("button", name="Save").click()
    question = page.get_by_role("dialog", name="Turn off HTTPS?")
    question.get_by_role("button", name="Turn off").click()
    expect(page.get_by_text("HTTPS is off.").first).to_be_visible()


def test_a_certificate_is_taken_from_files_and_another_one_is_made(walking: Walker, tmp_path: Path) -> None:
    walking.expects(400)
    make_certificates(tmp_path)
    page = walking.open("/settings?part=https", walking.house.ada)
    page.get_by_role("button", name="Use a CA-issued certificate").click()
    dialog = page.get_by_role("dialog", name="Use a CA-issued certificate")
    dialog.get_by_label("Certificate with its chain", exact=True).fill("no certificate at all")
    dialog.get_by_label("Private key from a file").set_input_files(tmp_path / "server.key")
    dialog.get_by_role("button", name="Use certificate").click()
    expect(dialog.get_by_label("Certificate with its chain", exact=True)).to_be_focused()
    dialog.get_by_label("Certificate with its chain from a file").set_input_files(tmp_path / "server.pem")
    dialog.get_by_role("button", name="Use certificate").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("A CA that this computer does not trust")).to_be_visible()
    expect(page.get_by_text("mail.localhost")).to_be_visible()
    page.get_by_role("button", name="Create a new self-signed certificate").click()
    page.get_by_role("dialog").get_by_role("button", name="Replace certificate").click()
    expect(page.get_by_text("The appliance (self-signed):")).to_be_visible()


def test_a_licence_is_installed_and_removed(walking: Walker) -> None:
    walking.expects(400)
    page = walking.open("/settings?part=licence", walking.house.ada)
    expect(page.get_by_text("No license. None is required.")).to_be_visible()
    page.get_by_label("License token").fill("nothing of the kind")
    page.get_by_role("button", name="Install license").click()
    expect(page.get_by_label("License token")).to_have_attribute("aria-invalid", "true")
    until = (datetime.now(UTC) + timedelta(days=90)).strftime("%Y-%m-%dT%H:%M:%SZ")
    page.get_by_label("License token").fill(issuer.sign({**issuer.PAYLOAD, "maxMembers": 20, "expiresAt": until}))
    page.get_by_role("button", name="Install license").click()
    expect(page.get_by_text("Example Ltd")).to_be_visible()
    page.get_by_role("button", name="Remove license").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove license").click()
    expect(page.get_by_text("No license. None is required.")).to_be_visible()


def test_the_store_is_looked_through(walking: Walker) -> None:
    page = walking.open("/settings?part=store", walking.house.ada)
    expect(page.get_by_text("Unlocked by")).to_be_visible()
    page.get_by_label("Full check").check()
    page.get_by_role("button", name="Check integrity").click()
    expect(page.get_by_text("The store is intact.")).to_be_visible()
    walking.look("settings-store")


def _values(house: House) -> dict[str, object]:
    """Return the current settings from the API."""
    values: dict[str, object] = json.loads(json.dumps(house.ask(house.ada, "GET", "/admin/settings").data))
    return values
