"""One-time links: an invitation, a password reset, and a console sign-in link."""

from playwright.sync_api import Page, expect

from tests.console.house import Person
from tests.console.walker import Walker
from tests.servers.running import PASSWORD

_NEW = "four words are better"


def _follow(walker: Walker, fragment: str) -> Page:
    walker.page.goto(f"{walker.house.url}/#{fragment}")
    walker.page.locator("h1").first.wait_for()
    return walker.page


def _choose(page: Page, password: str) -> None:
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Set password").click()


def _reset_of(walker: Walker, person: Person) -> str:
    house = walker.house
    answer = house.ask(house.ada, "POST", f"/admin/members/{person.id}/password-reset", {})
    assert answer.status == 201, answer.body
    return str(answer.data["url"]).partition("#")[2]


def test_an_invitation_lets_one_choose_a_password_once_and_its_token_does_not_stay_in_the_address(
    walker: Walker,
) -> None:
    walker.expects(400)
    email, token = walker.house.invite("carol")
    page = _follow(walker, f"enroll={token}")
    expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
    assert token not in page.url
    assert token not in page.content()
    walker.look("enroll")
    _choose(page, "too short")
    expect(page.get_by_label("Password", exact=True)).to_be_focused()
    page.get_by_label("Show password").check()
    expect(page.get_by_label("Password", exact=True)).to_have_attribute("type", "text")
    _choose(page, _NEW)
    expect(page.get_by_text(f"Welcome. You sign in as {email}.")).to_be_visible()
    expect(page.get_by_role("heading", name="Mail")).to_be_visible()
    page.go_back()  # the previous page of this tab is not the link either
    assert token not in page.url
    assert walker.house.sign_in(email, _NEW).email == email


def test_a_link_that_was_used_says_what_to_do(walker: Walker) -> None:
    walker.expects(400)
    _, token = walker.house.invite("dora")
    body = {"token": token, "password": PASSWORD, "deviceName": "test"}
    assert walker.house.running.ask("POST", "/auth/enroll", body).status == 200
    page = _follow(walker, f"enroll={token}")
    _choose(page, _NEW)
    expect(page.get_by_text("ask an administrator for a new one")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Open your link again")).to_be_visible()


def test_a_reset_changes_the_password_and_signs_out_everywhere_else(walker: Walker) -> None:
    house = walker.house
    person = house.add_member("emil")
    page = _follow(walker, _reset_of(walker, person))
    expect(page.get_by_role("heading", name="Set a new password")).to_be_visible()
    _choose(page, _NEW)
    expect(page.get_by_text("Your password was changed.")).to_be_visible()
    assert house.ask(person, "GET", "/me").status == 401
    assert house.sign_in(person.email, _NEW).id == person.id


def test_a_link_for_somebody_else_says_who_is_signed_in_and_then_changes_to_them(walker: Walker) -> None:
    house = walker.house
    _, token = house.invite("fred")
    walker.open("/profile", house.sign_in(house.bob.email))
    page = _follow(walker, f"enroll={token}")
    expect(page.get_by_text(f"You are signed in as {house.bob.email}")).to_be_visible()
    page.evaluate("globalThis.isOfBob = true")
    _choose(page, _NEW)
    expect(page.get_by_role("heading", name="Mail")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages").get_by_text("Fred")).to_be_visible()
    assert page.evaluate("globalThis.isOfBob") is None  # nothing of the previous member stays on the page


def test_a_link_into_the_console_signs_in_once(walker: Walker) -> None:
    walker.expects(400)
    house = walker.house
    answer = house.ask(house.bob, "POST", "/auth/console-links", {})
    assert answer.status == 201, answer.body
    url = str(answer.data["url"])
    walker.page.goto(url)
    expect(walker.page.get_by_role("heading", name="Mail")).to_be_visible()
    assert "mbxc_" not in walker.page.url
    walker.page.evaluate("sessionStorage.clear()")
    other = walker.new_page()
    walker.page.close()
    other.goto(url)
    expect(other.locator(".notice.warning")).to_be_visible()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "mbxc_" not in other.url
