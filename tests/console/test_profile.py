"""The profile: name, password, sessions and recent activity."""

from playwright.sync_api import expect

from tests.console.walker import Walker
from tests.servers.running import PASSWORD

_NEW = "four words are better"


def test_a_name_is_changed_everywhere_and_single_keys_are_turned_off(walker: Walker) -> None:
    person = walker.house.add_member("sven")
    page = walker.open("/profile", person)
    expect(page.get_by_text(f"Your member ID, for people who share a mailbox with you: {person.id}")).to_be_visible()
    page.get_by_label("Your name").fill("Sven the Tall")
    page.get_by_role("button", name="Change name").click()
    expect(page.get_by_role("navigation", name="Pages").get_by_text("Sven the Tall")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="accepted an invitation")).to_contain_text("You")
    walker.look("profile")
    page.get_by_role("switch").uncheck()
    page.get_by_role("heading", name="Profile").click()
    page.keyboard.press("c")
    page.reload()
    expect(page.get_by_role("switch")).not_to_be_checked()
    expect(page.get_by_role("heading", name="Profile")).to_be_visible()


def test_a_password_is_changed_and_ends_the_other_sessions(walker: Walker) -> None:
    walker.expects(401, 400)
    house = walker.house
    person = house.add_member("tara")
    other = house.sign_in(person.email)
    page = walker.open("/profile", person)
    expect(page.get_by_role("button", name="End test")).to_have_count(1)
    page.get_by_label("Current password").fill("not this one, no")
    page.get_by_label("New password").fill(_NEW)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_label("Current password")).to_be_focused()
    expect(page.get_by_text("This is not your current password.")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("Your password was changed")).to_be_visible()
    expect(page.get_by_label("New password")).to_have_value("")
    expect(page.get_by_role("button", name="End test")).to_have_count(0)
    assert house.ask(other, "GET", "/me").status == 401
    assert house.ask(person, "GET", "/me").status == 200
    house.sign_in(person.email, _NEW)


def test_one_ends_sessions_and_sees_what_others_did(walker: Walker) -> None:
    walker.expects(404)
    house = walker.house
    person = house.add_member("udo")
    others = [house.sign_in(person.email) for _ in range(3)]
    house.ask(house.ada, "POST", f"/admin/members/{person.id}/password-reset", {})
    page = walker.open("/profile", person)
    expect(page.get_by_text("An administrator issued a password reset for you")).to_be_visible()
    page.get_by_role("button", name="End test").first.click()
    expect(page.get_by_role("button", name="End test")).to_have_count(2)
    shown = [one for one in house.ask(person, "GET", "/me/sessions").data if not one["current"]]
    assert house.ask(person, "DELETE", f"/me/sessions/{shown[0]['id']}").status == 200  # it has ended by itself
    page.get_by_role("button", name="End all other sessions").click()
    page.get_by_role("dialog").get_by_role("button", name="End sessions").click()
    expect(page.get_by_role("button", name="End test")).to_have_count(0)
    expect(page.get_by_role("heading", name="Sessions")).to_be_focused()
    assert {house.ask(one, "GET", "/me").status for one in others} == {401}
    expect(page.get_by_role("listitem").filter(has_text="issued a password reset")).to_contain_text("An administrator")
