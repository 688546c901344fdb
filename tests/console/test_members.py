"""Members: inviting, reactivating, editing, suspending and removing them."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.console.house import House, Person
from tests.console.walker import Walker
from tests.servers.running import PASSWORD


@pytest.fixture(scope="module")
def admin(house: House) -> Person:
    return house.add_member("lea", "admin")


def _link(page: Page) -> str:
    dialog = page.get_by_role("dialog")
    link = dialog.get_by_label("Link", exact=True).locator("code").text_content()
    assert link is not None
    return link.partition("#")[2]


@pytest.mark.slow
def test_somebody_is_invited_with_a_link_that_is_shown_once(walker: Walker, admin: Person) -> None:
    walker.expects(409)
    page = walker.open("/members", admin)
    page.get_by_role("button", name="Invite a member").click()
    page.get_by_label("Name").fill("Mia")
    page.get_by_label("Email").fill(admin.email)
    page.get_by_role("button", name="Invite member").click()
    expect(page.get_by_text("Another member already uses this email address.", exact=True)).to_be_visible()
    expect(page.get_by_label("Email")).to_be_focused()
    page.get_by_label("Email").fill("mia@example.org")
    page.get_by_role("button", name="Invite member").click()
    expect(page.get_by_role("dialog", name="Invitation for Mia")).to_be_visible()
    expect(page.get_by_text("works only on this computer")).to_be_visible()
    token = _link(page).removeprefix("enroll=")
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Close this window?").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="I have saved the link").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert token not in page.content()
    expect(page.get_by_role("listitem").filter(has_text="mia@example.org")).to_contain_text("Invited")
    walker.look("members")
    body = {"token": token, "password": PASSWORD, "deviceName": "test"}
    assert walker.house.running.ask("POST", "/auth/enroll", body).status == 200


def test_an_error_is_shown_beside_its_field_whatever_it_says(walker: Walker, admin: Person) -> None:
    walker.expects(400)
    page = walker.open("/members", admin)
    page.get_by_role("button", name="Invite a member").click()
    page.get_by_label("Name").fill("Mia")
    page.get_by_label("Email").fill("mia@example.org")
    details = [{"path": "/email", "message": "Reworded: use `x`."}]
    error = {"code": "invalid_request", "message": "Invalid: reworded.", "requestId": "req_1", "details": details}
    page.route("**/admin/members", lambda route: route.fulfill(status=400, json={"error": error}))
    page.get_by_role("button", name="Invite member").click()
    expect(page.get_by_label("Email")).to_have_accessible_description(re.compile(r"Reworded: use x ?\.$"))
    expect(page.get_by_text("Invalid: reworded.")).to_have_count(0)
    expect(page.locator("small.wrong code")).to_have_text("x")


def test_a_new_invitation_ends_the_one_before(walker: Walker, admin: Person) -> None:
    house = walker.house
    email, first = house.invite("nora")
    page = walker.open("/members", admin)
    page.get_by_role("listitem").filter(has_text=email).get_by_role("link").click()
    page.get_by_role("button", name="Invite again").click()
    second = _link(page).removeprefix("enroll=")
    body = {"password": PASSWORD, "deviceName": "test"}
    assert house.running.ask("POST", "/auth/enroll", {**body, "token": first}).status == 400
    assert house.running.ask("POST", "/auth/enroll", {**body, "token": second}).status == 200


def test_a_member_is_changed_gets_a_new_password_and_is_made_an_administrator(walker: Walker, admin: Person) -> None:
    house = walker.house
    person = house.add_member("olga")
    page = walker.open(f"/members/{person.id}", admin)
    page.get_by_label("Name", exact=True).fill("Olga the Second")
    page.get_by_label("Role", exact=True).select_option("admin")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Make administrator").click()
    expect(page.get_by_role("heading", name="Olga the Second")).to_be_visible()
    expect(page.get_by_text("Administrator", exact=True)).to_be_visible()
    assert house.ask(person, "GET", "/me").data["member"]["role"] == "admin"
    page.get_by_role("button", name="Reset password").click()
    page.get_by_role("dialog").get_by_role("button", name="Reset password").click()
    expect(page.get_by_role("dialog", name="Password reset for Olga")).to_be_visible()
    walker.look("members-link")
    body = {"token": _link(page).removeprefix("reset="), "password": "another good one", "deviceName": "test"}
    assert house.running.ask("POST", "/auth/password-reset", body).status == 200


def test_sessions_end_and_a_suspended_member_is_let_in_again(walker: Walker, admin: Person) -> None:
    house = walker.house
    person = house.add_member("quinn")
    another = house.sign_in(person.email)
    page = walker.open(f"/members/{person.id}", admin)
    page.get_by_role("button", name="End test").first.click()
    expect(page.get_by_role("button", name="End test")).to_have_count(1)
    assert {house.ask(one, "GET", "/me").status for one in (person, another)} == {200, 401}
    page.get_by_role("button", name="Suspend").click()
    page.get_by_role("dialog").get_by_role("button", name="Suspend").click()
    expect(page.get_by_text("Suspended", exact=True)).to_be_visible()
    expect(page.get_by_text("No sessions.")).to_be_visible()
    page.get_by_role("button", name="Reactivate").click()
    expect(page.get_by_text("can sign in again")).to_be_visible()
    house.sign_in(person.email)


def test_who_owns_a_mailbox_is_not_removed_and_who_owns_none_is(walker: Walker, admin: Person) -> None:
    walker.expects(409)
    house = walker.house
    person = house.add_member("rosa")
    box = house.connect(person)
    page = walker.open(f"/members/{person.id}", admin)
    _remove(page)
    expect(page.get_by_role("status").get_by_text("mailbox")).to_be_visible()
    assert house.ask(person, "DELETE", f"/accounts/{box.id}").status == 200
    _remove(page)
    expect(page.get_by_text("Rosa was removed.")).to_be_visible()
    expect(page.get_by_role("heading", name="Members")).to_be_visible()
    expect(page.get_by_text(person.email)).to_have_count(0)


def _remove(page: Page) -> None:
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Remove member").click()


@pytest.mark.parametrize("path", ["/members", "/audit"])
def test_members_who_are_no_administrators_do_not_see_the_page(walker: Walker, path: str) -> None:
    page = walker.open(path, walker.house.bob, walker.new_page())
    expect(page.get_by_role("heading", name="Administrators only")).to_be_visible()
