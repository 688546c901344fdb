"""Mailboxes: connecting them manually, and the settings that their owner can change."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.console.house import Box, Person, a_mail
from tests.console.walker import Walker


def _of(walker: Walker, *mails: bytes) -> tuple[Person, Box]:
    """Return a new member with a mailbox."""
    owner = walker.house.add_member("mia")
    return owner, walker.house.connect(owner, *mails)


@contextmanager
def _another(walker: Walker) -> Iterator[Walker]:
    """A second person in front of the same appliance."""
    assert walker.context.browser is not None
    made = Walker(walker.context.browser, walker.house)
    yield made
    made.close()


@pytest.mark.slow
def test_nothing_is_connected_yet_then_a_mailbox_is_by_hand(walker: Walker) -> None:
    walker.expects(400)
    house = walker.house
    owner = house.add_member("noah")
    user = house.server.fresh_user()
    page = walker.open("/mailboxes", owner)
    expect(page.get_by_text("No mailbox is connected yet")).to_be_visible()
    page.get_by_role("button", name="Connect a mailbox").click()
    page.get_by_role("button", name="Enter servers manually").click()
    page.get_by_label("Email address").fill(user)
    expect(page.get_by_label("User name")).to_have_value(user)
    page.get_by_role("button", name="Use another address").click()
    expect(page.get_by_label("Email address")).to_have_value(user)
    page.get_by_role("button", name="Find servers").click()
    expect(page.get_by_text("No servers were found for")).to_be_visible(timeout=10_000)
    for kind, port in (("IMAP", house.server.imap_port), ("SMTP", house.server.submission_port)):
        servers = page.get_by_role("group", name=kind)
        servers.get_by_label("Server").fill("127.0.0.1")
        servers.get_by_label("Security").select_option("none")
        servers.get_by_label("Port").fill(str(port))
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("list", name="Server check results").get_by_text("failed")).to_have_count(2)
    expect(page.get_by_label("User name")).to_be_focused()
    walker.look("connect-refused")
    page.get_by_label("Password", exact=True).fill("secret")
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("heading", level=1, name=user)).to_be_visible()
    expect(page.get_by_text("Up to date")).to_be_visible(timeout=20_000)


def test_an_administrator_sees_of_the_mailboxes_of_others_their_settings_alone(walker: Walker) -> None:
    _, box = _of(walker)
    page = walker.open("/mailboxes", walker.house.ada)
    others = page.get_by_role("region", name="Mailboxes of other members")
    expect(others.get_by_role("article", name=box.email).get_by_text("not shared")).to_be_visible()
    expect(others.get_by_role("link", name="Read mail")).to_have_count(0)
    walker.look("mailboxes-admin")
    others.get_by_role("link", name=box.email).click()
    expect(page.get_by_role("heading", level=1, name=box.email)).to_be_visible()
    expect(page.get_by_text("Only the owner has access to this mailbox.")).to_be_visible()
    expect(page.get_by_role("heading", name="Folders")).to_have_count(0)


def test_the_owner_renames_maps_folders_and_signs_in_again(walker: Walker) -> None:
    walker.expects(400)
    owner, box = _of(walker, a_mail())
    page = walker.open("/mailboxes", owner)
    expect(page.get_by_role("article", name=box.email).get_by_text("Up to date")).to_be_visible()
    walker.look("mailboxes")
    page.get_by_role("link", name=box.email, exact=True).click()
    page.get_by_label("Mailbox name").fill("Office")
    page.get_by_role("button", name="Save name").click()
    expect(page.get_by_role("heading", level=1, name=f"Office ({box.email})")).to_be_visible()

    page.get_by_label("Archive").select_option("Junk")
    page.get_by_role("button", name="Save folders").click()
    expect(page.locator(".notice.warning")).to_contain_text("spam")
    expect(page.get_by_label("Archive")).to_have_value("Junk")
    expect(page.get_by_label("Spam").locator("option:checked")).to_have_text("Automatic (none)")
    assert walker.house.ask(owner, "GET", f"/accounts/{box.id}").data["folders"]["archive"] == "Junk"

    sign_in = page.get_by_role("article").filter(has=page.get_by_role("heading", name="Sign-in"))
    sign_in.get_by_label("New password").fill("wrong")
    sign_in.get_by_role("button", name="Sign in again").click()
    expect(sign_in.get_by_label("New password")).to_be_focused()
    expect(sign_in.get_by_role("list", name="Server check results").get_by_text("failed")).to_have_count(2)
    sign_in.get_by_text("Change servers").click()
    walker.look("mailbox")
    sign_in.get_by_label("New password").fill("secret")
    sign_in.get_by_role("button", name="Sign in again").click()
    expect(page.get_by_text("Signed in to both servers")).to_be_visible()


def test_a_mailbox_whose_login_fails_says_so_and_asks_for_the_password_first(walker: Walker) -> None:
    owner, box = _of(walker)
    answer = walker.house.ask(owner, "GET", f"/accounts/{box.id}")
    refused = answer.data | {
        "status": "reauth_required",
        "error": {"code": "login_refused", "message": "The IMAP server refused the login."},
    }
    walker.context.route("**/api/v1/accounts", lambda route: route.fulfill(json={"data": [refused]}))
    page = walker.open(f"/mailboxes/{box.id}", owner)
    expect(page.get_by_text("Sign-in needed")).to_be_visible()
    expect(page.get_by_role("heading", level=2)).to_contain_text(
        [re.compile("Status"), "Sign-in", "Name", "Sharing", "Folders", "Remove"]
    )


def test_an_owner_shares_with_whom_and_an_administrator_only_takes_away(walker: Walker) -> None:
    house = walker.house
    owner, box = _of(walker)
    friend = house.add_member("fay")
    page = walker.open(f"/mailboxes/{box.id}", owner)
    page.get_by_label("Add a member by ID").fill(friend.id)
    page.get_by_role("button", name="Save sharing").click()
    expect(page.get_by_role("checkbox", name=friend.id)).to_be_checked()
    with _another(walker) as second:
        shared = second.open("/mailboxes", friend)
        expect(shared.get_by_role("article", name=box.email).get_by_text("shared with you")).to_be_visible()
        shared.get_by_role("link", name=box.email, exact=True).click()
        expect(shared.get_by_text("only its owner can change it")).to_be_visible()
        expect(shared.get_by_role("button", name="Remove")).to_have_count(0)
        second.look("mailbox-of-another")
    with _another(walker) as third:
        seen = third.open(f"/mailboxes/{box.id}", house.ada)
        expect(seen.get_by_text("Only the owner can grant it")).to_be_visible()
        seen.get_by_role("checkbox", name=friend.email).uncheck()
        seen.get_by_role("button", name="Save sharing").click()
        expect(seen.get_by_text("Only the owner has access to this mailbox.")).to_be_visible()
    assert house.ask(friend, "GET", "/accounts").data == []


def test_an_administrator_shares_their_own_by_name_and_with_everybody(walker: Walker) -> None:
    house = walker.house
    admin = house.add_member("admira", "admin")
    friend = house.add_member("gus")
    box = house.connect(admin)
    page = walker.open(f"/mailboxes/{box.id}", admin)
    page.get_by_role("checkbox", name=friend.email).check()
    page.get_by_role("button", name="Save sharing").click()
    expect(page.get_by_text("Sharing saved.")).to_be_visible()
    assert house.ask(admin, "GET", f"/accounts/{box.id}").data["grantedMemberIds"] == [friend.id]
    page.get_by_role("switch", name="Share with all members").check()
    page.get_by_role("button", name="Save sharing").click()
    expect(page.get_by_role("checkbox", name=friend.email)).to_have_count(0)
    expect(page.get_by_role("button", name="Save sharing")).to_be_enabled()
    assert house.ask(admin, "GET", f"/accounts/{box.id}").data["sharedWithAll"] is True
    house.ask(admin, "DELETE", f"/accounts/{box.id}")


def test_removing_says_what_is_lost_and_asks(walker: Walker) -> None:
    owner, box = _of(walker)
    page = walker.open(f"/mailboxes/{box.id}", owner)
    page.get_by_role("button", name="Remove this mailbox").click()
    dialog = page.get_by_role("dialog", name=f"Remove {box.email}?")
    expect(dialog).to_contain_text("The mail stays on its server")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Remove this mailbox")).to_be_focused()
    page.get_by_role("button", name="Remove this mailbox").click()
    dialog.get_by_role("button", name="Remove mailbox").click()
    expect(page.get_by_text("No mailbox is connected yet")).to_be_visible()
    expect(page.get_by_role("heading", name="Mailboxes")).to_be_focused()
    assert walker.house.ask(owner, "GET", "/accounts").data == []


def test_a_mailbox_that_is_not_there_is_said_to_be_gone(walker: Walker) -> None:
    page = walker.open("/mailboxes/acc_nothing", walker.house.bob)
    expect(page.get_by_role("heading", name="Mailbox not found")).to_be_visible()
