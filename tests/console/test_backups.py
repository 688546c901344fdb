"""Backups: creating, verifying, downloading, and a real restore from its dry run to its result."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.console.house import House, a_mail
from tests.console.walker import Walker
from tests.servers.dovecot import MailServer
from tests.servers.running import PASSWORD

PASSPHRASE = "a boat, a lamp, a garden"
# Browsers ask for a file before a page can write it; here the choice is a file that the page can read again.
_CHOOSES = """globalThis.showSaveFilePicker = async ({ suggestedName }) =>
  (await navigator.storage.getDirectory()).getFileHandle(suggestedName, { create: true });"""
_CHOOSES_NOT = "delete globalThis.showSaveFilePicker"
_SAVED = """async (name) => {
  const handle = await (await navigator.storage.getDirectory()).getFileHandle(name);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await (await handle.getFile()).arrayBuffer()));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}"""


@pytest.fixture(scope="module")
def sealed(house: House) -> dict[str, str]:
    """A backup with a passphrase."""
    return _made(house, PASSPHRASE)


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    """An appliance that is restored from its backups."""
    made = House(tmp_path_factory.mktemp("restored-house"), mail_server)
    yield made
    made.stop()


@pytest.fixture
def own_walker(profile: BrowserContext, changing: House) -> Iterator[Walker]:
    """A person in front of that appliance's console."""
    made = Walker(None, changing, profile, is_shared=True)
    yield made
    made.close()


@pytest.mark.slow
def test_a_backup_is_made_and_checked(walker: Walker) -> None:
    walker.expects(400)
    page = walker.open("/backups", walker.house.ada)
    page.get_by_role("button", name="Create a backup").click()
    dialog = page.get_by_role("dialog", name="Create a backup")
    dialog.get_by_label("Protect with a passphrase").check()
    dialog.get_by_label("Passphrase", exact=True).fill(PASSPHRASE)
    dialog.get_by_label("Repeat the passphrase").fill("another one altogether")
    dialog.get_by_role("button", name="Create backup").click()
    expect(dialog.get_by_text("The passphrases do not match.")).to_be_visible()
    walker.look("backup-create")
    dialog.get_by_label("Repeat the passphrase").fill(PASSPHRASE)
    dialog.get_by_role("button", name="Create backup").click()
    expect(dialog).to_be_hidden(timeout=20_000)
    expect(page.get_by_text("The backup was verified.")).to_be_visible()
    entry = page.get_by_role("listitem").filter(has_text=re.compile("Passphrase")).first
    entry.get_by_role("button", name="Verify the backup").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Backup passphrase").fill("not the right one at all")
    dialog.get_by_role("button", name="Verify backup").click()
    expect(dialog.get_by_role("alert")).to_contain_text("cannot be opened", timeout=20_000)
    dialog.get_by_label("Backup passphrase").fill(PASSPHRASE)
    dialog.get_by_role("button", name="Verify backup").click()
    expect(dialog.get_by_text("The backup is intact.")).to_be_visible(timeout=20_000)
    dialog.get_by_role("button", name="Close").last.click()
    expect(entry.get_by_role("button", name="Verify the backup")).to_be_focused()
    walker.look("backups")


def test_a_backup_is_saved_on_ones_own_computer_as_it_is(walker: Walker, sealed: dict[str, str]) -> None:
    wanted = hashlib.sha256(_file(walker.house, sealed).read_bytes()).hexdigest()
    walker.page.add_init_script(_CHOOSES)
    page = walker.open("/backups", walker.house.ada)
    dialog = _download(page, sealed)
    expect(dialog.get_by_role("status")).to_contain_text("Backup saved.")
    assert page.evaluate(_SAVED, sealed["fileName"]) == wanted


def test_browsers_that_let_pages_write_no_files_save_it_as_a_download(walker: Walker, sealed: dict[str, str]) -> None:
    walker.page.add_init_script(_CHOOSES_NOT)
    page = walker.open("/backups", walker.house.ada)
    with page.expect_download() as downloading:
        _download(page, sealed)
    assert downloading.value.suggested_filename == sealed["fileName"]
    assert downloading.value.path().read_bytes() == _file(walker.house, sealed).read_bytes()


def test_one_that_anybody_could_open_is_not_given_out_and_the_page_says_what_to_do(walker: Walker) -> None:
    page = walker.open("/backups", walker.house.ada)
    page.get_by_role("button", name="Create a backup").click()
    page.get_by_role("dialog").get_by_role("button", name="Create backup").click()
    warned = page.get_by_text(re.compile(r"^\S+[.]mbxbackup: Anyone who has this file can open it"))
    expect(warned).to_be_visible(timeout=20_000)
    page.get_by_role("button", name="Restore the backup").first.click()
    expect(page.get_by_role("button", name="Start dry run")).to_be_visible()
    expect(warned).to_be_hidden()
    page.get_by_role("link", name="All backups").click()
    page.get_by_role("button", name="Download the backup").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("This backup has no passphrase")).to_be_visible()
    dialog.get_by_role("button", name="Create a backup with a passphrase").click()
    expect(page.get_by_role("dialog", name="Create a backup").get_by_label("Passphrase", exact=True)).to_be_visible()


def test_a_restore_is_walked_from_its_trial_run_to_its_outcome(own_walker: Walker) -> None:
    walker, house = own_walker, own_walker.house
    walker.expects(503)
    house.connect(house.ada, a_mail("Before the backup"))
    made = _made(house)
    _, _ = house.invite("since")
    page = walker.open("/backups", house.ada)
    _entry(page, made).get_by_role("button", name="Restore the backup").click()
    page.get_by_role("button", name="Start dry run").click()
    expect(page.get_by_role("heading", name="Step 2: Review and restore")).to_be_focused()
    expect(page.get_by_text("There are 3 members and 1 mailbox now")).to_be_visible()
    walker.look("restore-decide")
    page.get_by_role("button", name="Restore this backup").click()
    question = page.get_by_role("dialog", name="Restore this backup?")
    question.get_by_role("button", name="Restore backup").click()
    expect(page.get_by_role("heading", name="Backup restored")).to_be_focused(timeout=30_000)
    expect(page.get_by_role("link", name="restore that backup")).to_be_visible()
    walker.look("restored")
    members = house.ask(house.ada, "GET", "/admin/members").data
    assert len(members) == 2, "members invited after the backup are removed"
    page.get_by_role("link", name="restore that backup").click()
    expect(page.get_by_text("Before a restore")).to_be_visible()


def test_who_is_not_in_the_backup_signs_in_as_somebody_who_is_and_sees_how_it_went(own_walker: Walker) -> None:
    walker, house = own_walker, own_walker.house
    walker.expects(401, 503)
    made = _made(house)
    eve = house.add_member("eve", "admin")
    page = walker.open(f"/backups?restore={made['id']}", eve)
    page.get_by_role("button", name="Start dry run").click()
    page.get_by_role("button", name="Restore this backup").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore backup").click()
    dialog = page.get_by_role("dialog", name="Sign in again")
    expect(dialog).to_be_visible(timeout=30_000)
    expect(dialog.get_by_text("Sign in as a member in the backup")).to_be_visible()
    expect(dialog.get_by_label("Password")).to_be_focused()
    dialog.get_by_role("button", name="Switch to another member").click()
    page.get_by_label("Email").fill("ada@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Backup restored")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_contain_text("Ada")


def test_what_is_damaged_is_not_restored_and_the_page_says_that_all_is_as_it_was(walker: Walker) -> None:
    walker.expects(400)
    made = _made(walker.house)
    page = walker.open(f"/backups?restore={made['id']}", walker.house.ada)
    page.get_by_role("button", name="Start dry run").click()
    expect(page.get_by_role("heading", name="Step 2: Review and restore")).to_be_visible()
    file = _file(walker.house, made)
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    page.get_by_role("button", name="Restore this backup").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore backup").click()
    expect(page.get_by_role("alert")).to_contain_text("is damaged or was altered")
    expect(page.get_by_text("Nothing was restored.")).to_be_visible()
    # After a lost response, the page finds the result in the audit log.
    walker.open(f"/backups?restore={made['id']}&after=-")
    expect(page.get_by_role("heading", name="The restore failed")).to_be_focused()
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("button", name="Start dry run").click()
    expect(page.get_by_role("alert")).to_contain_text("is damaged or was altered")
    expect(page.get_by_role("button", name="Restore this backup")).to_have_count(0)
    file.unlink()


def test_a_running_restore_is_recognized_by_its_kind_whatever_its_name(walker: Walker) -> None:
    progress = {"kind": "restore", "work": "Reworded", "step": "reading", "done": 3, "total": 4}
    missing = f"/backups?restore={_made(walker.house)['id']}&after=-"

    def reword(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["data"]["store"]["progress"] = progress
        route.fulfill(response=answer, json=body)

    walker.page.route("**/api/v1/status", reword)
    page = walker.open(missing, walker.house.ada)
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "3")


def _made(house: House, passphrase: str | None = None) -> dict[str, str]:
    """Create a backup; return it as the API describes it."""
    body = {} if passphrase is None else {"passphrase": passphrase}
    answer = house.ask(house.ada, "POST", "/admin/backups", body)
    assert answer.status == 201, answer.body
    made: dict[str, str] = answer.data
    return made


def _file(house: House, made: dict[str, str]) -> Path:
    return house.running.folder / "backups" / made["fileName"]


def _entry(page: Page, made: dict[str, str]) -> Locator:
    return page.get_by_role("listitem").filter(has_text=re.compile(re.escape(made["fileName"])))


def _download(page: Page, made: dict[str, str]) -> Locator:
    _entry(page, made).get_by_role("button", name="Download the backup").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Download", exact=True).click()
    return dialog
