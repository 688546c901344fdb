"""Connecting mailboxes with what is found about their servers, and by a provider's own sign-in."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.beyond import Beyond
from tests.console.house import House
from tests.console.walker import Walker


@pytest.fixture
def beyond(house: House) -> Iterator[Beyond]:
    """The house with discovery and providers."""
    made = Beyond(house)
    yield made
    made.stop()


@pytest.fixture
def visitor(chromium: Browser, beyond: Beyond) -> Iterator[Walker]:
    """Somebody before it."""
    made = Walker(chromium, beyond.as_house)
    yield made
    made.close()


def _candidate(host: str, source: str, house: House) -> dict[str, Any]:
    server = {"host": host, "security": "none"}
    return {
        "source": source,
        "imap": server | {"port": house.server.imap_port},
        "smtp": server | {"port": house.server.submission_port},
    }


def _provider_tab(visitor: Walker, page: Page) -> Page:
    """The tab that the button opens."""
    with visitor.context.expect_page() as opened:
        page.get_by_role("button", name="Sign in with Google").click()
    expect(opened.value.get_by_role("heading", name="A provider")).to_be_visible()
    return opened.value


def test_the_servers_are_found_by_the_address(visitor: Walker, beyond: Beyond) -> None:
    house = beyond.house
    beyond.candidates = [_candidate("localhost", "srv", house), _candidate("127.0.0.1", "mx", house)]
    owner = house.add_member("dora")
    user = house.server.fresh_user()
    page = visitor.open("/mailboxes/connect", owner)
    page.get_by_label("Email address of the mailbox").fill(user)
    page.get_by_role("button", name="Find the servers").click()
    expect(page.get_by_role("heading", name=f"Sign in to {user}")).to_be_focused()
    expect(page.get_by_role("radio", name="localhost")).to_be_checked()
    expect(page.get_by_role("group", name="IMAP")).to_be_hidden()
    visitor.look("connect-found")
    page.get_by_role("radio", name="127.0.0.1").check()
    page.get_by_label("Password", exact=True).fill("secret")
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("heading", level=1, name=user)).to_be_visible()
    assert beyond.asked == [("/accounts/discover", {"email": user})]


def test_where_nothing_is_found_the_servers_are_asked_for(visitor: Walker, beyond: Beyond) -> None:
    page = visitor.open("/mailboxes/connect", beyond.house.bob)
    page.get_by_label("Email address of the mailbox").fill("someone@nowhere.example")
    page.get_by_role("button", name="Find the servers").click()
    expect(page.get_by_text("Nothing was found out about nowhere.example")).to_be_visible()
    expect(page.get_by_role("group", name="IMAP").get_by_label("Port")).to_have_value("993")
    page.get_by_role("group", name="IMAP").get_by_label("Protection").select_option("starttls")
    expect(page.get_by_role("group", name="IMAP").get_by_label("Port")).to_have_value("143")
    page.get_by_role("button", name="Use another address").click()
    expect(page.get_by_label("Email address of the mailbox")).to_have_value("someone@nowhere.example")


def test_the_tab_that_began_goes_on_when_the_provider_is_done(visitor: Walker, beyond: Beyond) -> None:
    page = visitor.open("/mailboxes/connect", beyond.house.add_member("eve"))
    tab = _provider_tab(visitor, page)
    expect(page.get_by_text("Go on in the tab of Google")).to_be_visible()
    tab.get_by_role("link", name="Allow").click()
    expect(tab.get_by_text("You can close this tab")).to_be_visible()
    assert tab.evaluate("location.hash") == "#/oauth-callback"
    visitor.look("oauth-callback-done", tab)
    expect(page.get_by_role("heading", level=1, name="user")).to_be_visible()
    path, body = beyond.asked[-1]
    assert path == "/accounts/oauth/google/finish"
    assert sorted(body) == ["code", "state"]
    assert [each for each, _ in beyond.asked].count(path) == 1


def test_a_refusal_is_told_in_both_tabs_and_one_may_begin_anew(visitor: Walker, beyond: Beyond) -> None:
    page = visitor.open("/mailboxes/connect", beyond.house.bob)
    tab = _provider_tab(visitor, page)
    tab.get_by_role("link", name="Refuse").click()
    for each in (tab, page):
        expect(each.get_by_role("alert").get_by_text("access was not granted")).to_be_visible()
    expect(page.get_by_role("button", name="Sign in with Google")).to_be_visible()
    assert [path for path, _ in beyond.asked] == ["/accounts/oauth/google"]


def test_the_tab_of_the_provider_finishes_where_the_one_before_is_gone(visitor: Walker, beyond: Beyond) -> None:
    page = visitor.open("/mailboxes/connect", beyond.house.add_member("fred"))
    tab = _provider_tab(visitor, page)
    page.reload()
    expect(page.get_by_role("heading", name="Connect a mailbox")).to_be_visible()
    tab.get_by_role("link", name="Allow").click()
    expect(tab.get_by_role("heading", level=1, name="user")).to_be_visible()


def test_an_address_that_could_not_be_reached_is_pasted(visitor: Walker, beyond: Beyond) -> None:
    visitor.expects(400)
    page = visitor.open("/mailboxes/connect", beyond.house.add_member("gina"))
    tab = _provider_tab(visitor, page)
    address = str(tab.get_by_role("link", name="Allow").get_attribute("href"))
    tab.close()
    page.get_by_text("The tab ended with an error").click()
    pasted = page.get_by_label("Address of the page where you ended")
    pasted.fill("http://localhost:1/nothing")
    page.get_by_role("button", name="Finish with this address").click()
    expect(page.get_by_role("alert")).to_contain_text("Begin anew")
    visitor.look("connect-pasted", page)
    pasted.fill(address.replace("127.0.0.1", "localhost"))
    page.get_by_role("button", name="Finish with this address").click()
    expect(page.get_by_role("heading", level=1, name="user")).to_be_visible()


def test_who_comes_back_to_an_address_without_session_takes_it_to_the_other_tab(visitor: Walker) -> None:
    page = visitor.open("/oauth-callback?state=abc&code=def")
    expect(page.get_by_text("Nobody is signed in to the console at this address")).to_be_visible()
    expect(page.get_by_text("code=def")).to_be_visible()
    visitor.look("oauth-callback-elsewhere")


def test_an_appliance_without_providers_says_what_to_do_instead(walker: Walker) -> None:
    walker.expects(404, 405)
    page = walker.open("/mailboxes/connect", walker.house.bob)
    page.get_by_role("button", name="Sign in with Microsoft").click()
    expect(page.get_by_role("alert")).to_contain_text("app password")
    expect(page.get_by_role("button", name="Sign in with Microsoft")).to_be_enabled()


def test_administrators_are_led_to_set_an_app_up(walker: Walker) -> None:
    page = walker.open("/mailboxes/connect", walker.house.ada)
    expect(page.get_by_role("button", name="Sign in with")).to_have_count(0)
    page.get_by_role("link", name="Set one up").click()
    expect(page.get_by_role("heading", name="OAuth apps", level=1)).to_be_visible()
