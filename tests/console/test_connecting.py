"""Connecting mailboxes with a provider's own sign-in, and with servers that the appliance finds."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.signing import Signing
from tests.console.walker import PROFILE, Walker
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Signing]:
    made = Signing(tmp_path_factory.mktemp("signing"), mail_server)
    yield made
    made.stop()


@pytest.fixture
def visitor(chromium: Browser, signing: Signing) -> Iterator[Walker]:
    """A person in front of that appliance, whose browser trusts the provider's certificate."""
    made = Walker(None, signing.house, chromium.new_context(**PROFILE, ignore_https_errors=True))
    yield made
    made.close()


def connected(page: Page, user: str) -> None:
    expect(page.get_by_role("heading", level=1, name=user)).to_be_visible()


# --- servers that are found -------------------------------------------------------------------------------------------


def test_the_servers_are_found_by_the_address(visitor: Walker, signing: Signing) -> None:
    house = signing.house
    page = visitor.open("/mailboxes/connect", house.add_member("dora"))
    page.get_by_label("Email address").fill("dora@cow.example")
    page.get_by_role("button", name="Find servers").click()
    expect(page.get_by_role("heading", name="Sign in to dora@cow.example")).to_be_focused()
    expect(page.get_by_role("radio", name="imap.cow.example and smtp.cow.example (DNS SRV records)")).to_be_checked()
    expect(page.get_by_label("User name", exact=True)).to_have_value("dora@cow.example")
    expect(page.get_by_role("group", name="IMAP")).to_be_hidden()
    page.get_by_text("Where the appliance searched").click()
    expect(page.get_by_role("listitem").filter(has_text="DNS MX records")).to_be_visible()
    visitor.look("connect-found")
    user = house.server.fresh_user()
    page.get_by_text("Servers", exact=True).click()
    for group, port in (("IMAP", house.server.imap_port), ("SMTP", house.server.submission_port)):
        fields = page.get_by_role("group", name=group)
        fields.get_by_label("Server").fill("localhost")
        fields.get_by_label("Port").fill(str(port))
        expect(fields.get_by_label("Security")).to_have_value("starttls")
    page.get_by_label("User name", exact=True).fill(user)
    page.get_by_label("Password", exact=True).fill("secret")
    page.get_by_role("button", name="Connect").click()
    connected(page, "dora@cow.example")


def test_where_nothing_is_found_the_servers_are_asked_for(visitor: Walker, signing: Signing) -> None:
    page = visitor.open("/mailboxes/connect", signing.house.bob)
    page.get_by_label("Email address").fill("someone@nowhere.example")
    page.get_by_role("button", name="Find servers").click()
    expect(page.get_by_text("No servers were found for nowhere.example")).to_be_visible()
    expect(page.get_by_role("group", name="IMAP").get_by_label("Port")).to_have_value("993")
    page.get_by_role("group", name="IMAP").get_by_label("Security").select_option("starttls")
    expect(page.get_by_role("group", name="IMAP").get_by_label("Port")).to_have_value("143")
    page.get_by_role("button", name="Use another address").click()
    expect(page.get_by_label("Email address")).to_have_value("someone@nowhere.example")


def test_a_domain_at_google_is_signed_in_to_there(visitor: Walker, signing: Signing) -> None:
    house = signing.house
    page = visitor.open("/mailboxes/connect", house.add_member("olga"))
    page.get_by_label("Email address").fill("olga@office.example")
    page.get_by_role("button", name="Find servers").click()
    expect(page.get_by_role("heading", name="Or sign in with a password")).to_be_visible()
    expect(page.get_by_role("button", name="Sign in with Microsoft")).to_have_count(0)
    tab = signing.open_provider(visitor, page, "Sign in with Google")
    expect(tab.get_by_role("textbox", name="Email")).to_have_value("olga@office.example")


# --- a provider's sign-in ---------------------------------------------------------------------------------------------


def test_the_tab_that_began_goes_on_when_the_provider_is_done(visitor: Walker, signing: Signing) -> None:
    user = signing.house.server.fresh_user()
    page = visitor.open("/mailboxes/connect", signing.house.add_member("eve"))
    tab = signing.open_provider(visitor, page, "Sign in with Google")
    expect(page.get_by_text("Continue in the Google tab")).to_be_visible()
    signing.agree(tab, user)
    expect(tab.get_by_text("You can close this tab")).to_be_visible()
    assert tab.evaluate("location.hash") == "#/oauth-callback"
    visitor.look("oauth-callback-done", tab)
    connected(page, user)
    assert signing.providers["google"].count(grant="authorization_code") == 1


def test_microsoft_leads_back_under_the_other_name_of_this_computer(visitor: Walker, signing: Signing) -> None:
    user = signing.house.server.fresh_user()
    page = visitor.open("/mailboxes/connect", signing.house.add_member("mia"))
    tab = signing.open_provider(visitor, page, "Sign in with Microsoft")
    signing.agree(tab, user)
    expect(tab.get_by_text("You can close this tab")).to_be_visible()
    connected(page, user)


def test_who_is_signed_in_under_both_names_of_this_computer_is_led_to_where_they_began(
    visitor: Walker, signing: Signing
) -> None:
    visitor.expects(400)
    house, user = signing.house, signing.house.server.fresh_user()
    page = visitor.open("/mailboxes/connect", house.add_member("nora"))
    other = json.dumps(house.url.replace("127.0.0.1", "localhost"))
    session = json.dumps(json.dumps(house.bob.logged_in))
    visitor.context.add_init_script(
        f"if (location.origin === {other}) sessionStorage.setItem('mailbox-appliance.session', {session})"
    )
    signing.agree(signing.open_provider(visitor, page, "Sign in with Microsoft"), user)
    expect(page.get_by_role("heading", level=1, name=user)).to_be_visible(timeout=12_000)


@pytest.mark.slow
def test_what_is_under_way_is_shown_where_it_was_begun_and_its_end_anywhere(visitor: Walker, signing: Signing) -> None:
    house, first, second = signing.house, signing.house.server.fresh_user(), signing.house.server.fresh_user()
    page = visitor.open("/mailboxes/connect", house.add_member("olaf"))
    tab = signing.open_provider(visitor, page, "Sign in with Google")
    page.get_by_role("button", name="Stop waiting").press("Enter")
    expect(page.locator("section.form-page")).to_be_focused()
    tab.close()
    signing.agree(signing.open_provider(visitor, page, "Sign in with Microsoft"), first)
    connected(page, first)
    page.get_by_role("link", name="All mailboxes").click()
    page.get_by_role("button", name="Connect a mailbox").click()
    tab = signing.open_provider(visitor, page, "Sign in with Google")
    page.go_back()
    page.get_by_role("link", name=first).first.click()
    expect(page.get_by_role("button", name="Sign in again with Microsoft")).to_be_visible()
    signing.agree(tab, second)
    expect(page.get_by_text(f"{second} is connected.")).to_be_visible()
    connected(page, first)


@pytest.mark.slow
def test_a_refusal_is_told_in_both_tabs_and_one_may_begin_anew(visitor: Walker, signing: Signing) -> None:
    visitor.expects(400)
    page = visitor.open("/mailboxes/connect", signing.house.bob)
    tab = signing.open_provider(visitor, page, "Sign in with Google")
    tab.get_by_role("button", name="Refuse").click()
    for each in (tab, page):
        expect(each.get_by_role("alert")).to_be_visible()
        expect(each.get_by_text("very own words")).to_have_count(0)
    expect(page.get_by_role("button", name="Sign in with Google")).to_be_visible()
    page.get_by_role("link", name="Back to mailboxes").click()
    page.get_by_role("button", name="Connect a mailbox").click()
    expect(page.get_by_role("button", name="Sign in with Google")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_tab_of_the_provider_finishes_where_the_one_before_is_gone(visitor: Walker, signing: Signing) -> None:
    user = signing.house.server.fresh_user()
    page = visitor.open("/mailboxes/connect", signing.house.add_member("fred"))
    tab = signing.open_provider(visitor, page, "Sign in with Google")
    page.reload()
    expect(page.get_by_role("heading", name="Connect a mailbox")).to_be_visible()
    signing.agree(tab, user)
    connected(tab, user)


def test_an_address_that_could_not_be_reached_is_pasted(visitor: Walker, signing: Signing) -> None:
    visitor.expects(400)
    user = signing.house.server.fresh_user()
    page = visitor.open("/mailboxes/connect", signing.house.add_member("gina"))
    tab = signing.open_provider(visitor, page, "Sign in with Google")
    address = signing.providers["google"].consent(tab.url, user)
    tab.close()
    page.get_by_text("The tab shows an error").click()
    pasted = page.get_by_label("Address of that tab")
    pasted.fill("http://localhost:1/nothing")
    page.get_by_role("button", name="Finish sign-in").click()
    expect(pasted).to_have_attribute("aria-invalid", "true")
    visitor.look("connect-pasted", page)
    pasted.fill(address)
    page.get_by_role("button", name="Finish sign-in").click()
    connected(page, user)


def test_who_comes_back_to_an_address_without_session_takes_it_to_the_other_tab(visitor: Walker) -> None:
    page = visitor.open("/oauth-callback?state=abc&code=def")
    expect(page.get_by_text("You are not signed in to the console at this address")).to_be_visible()
    expect(page.get_by_text("code=def")).to_be_visible()


@pytest.mark.slow
def test_who_began_in_a_terminal_is_given_the_address(visitor: Walker, signing: Signing) -> None:
    visitor.expects(400)
    page = visitor.open("/oauth-callback?state=abc&code=def", signing.house.bob)
    # The page checks both names of this computer, which takes seconds.
    expect(page.get_by_text("If you started in a terminal")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("code=def")).to_be_visible()
    visitor.look("oauth-callback-terminal")


def test_a_code_is_typed_on_another_device(visitor: Walker, signing: Signing) -> None:
    visitor.expects(409)
    outlook, user = signing.providers["outlook"], signing.house.server.fresh_user()
    page = visitor.open("/mailboxes/connect", signing.house.add_member("hal"))
    page.get_by_role("button", name="on another device").click()
    code = page.get_by_label("Code", exact=True).locator("code")
    expect(code).to_be_visible()
    visitor.look("connect-code")
    outlook.type_code(code.inner_text(), user)
    connected(page, user)


def test_a_shared_mailbox_is_connected_by_who_reaches_it(visitor: Walker, signing: Signing) -> None:
    house = signing.house
    office, owner = house.server.fresh_user(), house.add_member("ida")
    signing.shared["ann@contoso.test"] = office
    page = visitor.open("/mailboxes/connect", owner)
    page.get_by_label("Email address").fill(office)
    tab = signing.open_provider(visitor, page, "Sign in with Microsoft")
    signing.agree(tab, "ann@contoso.test")
    connected(page, office)


# --- access that ended ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_mailbox_whose_access_ended_is_signed_in_to_again(visitor: Walker, signing: Signing) -> None:
    house, google = signing.house, signing.providers["google"]
    user, owner = house.server.fresh_user(), house.add_member("jane")
    page = visitor.open("/mailboxes/connect", owner)
    tab = signing.open_provider(visitor, page, "Sign in with Google")
    signing.agree(tab, user)
    connected(page, user)
    tab.close()
    account = house.ask(owner, "GET", "/accounts").data[0]["id"]

    def state() -> str:
        return str(house.ask(owner, "GET", f"/accounts/{account}").data["status"])

    wait_until(lambda: state() == "ready", state, 20)
    google.revoke(user)
    house.server.doveadm("kick", user)
    wait_until(lambda: state() == "reauth_required", state, 20)
    visitor.open("/mailboxes", owner)
    expect(page.get_by_text("Sign-in needed")).to_be_visible()
    page.get_by_role("link", name="Sign in again").click()
    expect(page.get_by_text("Sign in again.")).to_be_visible()
    visitor.look("mailbox-sign-in-needed")
    visitor.expects(400)
    page.get_by_role("button", name="Try the stored sign-in again").click()
    expect(page.get_by_role("status").filter(has_text="was revoked")).to_be_visible()
    tab = signing.open_provider(visitor, page, "Sign in again with Google")
    expect(tab.get_by_role("textbox", name="Email")).to_have_value(user)
    signing.agree(tab, user)
    expect(page.get_by_text("Up to date")).to_be_visible(timeout=20_000)
    assert house.ask(owner, "GET", "/accounts").data[0]["id"] == account


# --- without an application -------------------------------------------------------------------------------------------


def test_an_appliance_without_an_application_says_what_to_do(walker: Walker) -> None:
    walker.expects(409)
    page = walker.open("/mailboxes/connect", walker.house.bob)
    page.get_by_role("button", name="Sign in with Microsoft", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("No OAuth application is configured for Microsoft")
    expect(page.get_by_role("button", name="Sign in with Microsoft", exact=True)).to_be_enabled()


def test_administrators_are_led_to_set_an_app_up(walker: Walker) -> None:
    page = walker.open("/mailboxes/connect", walker.house.ada)
    expect(page.get_by_role("button", name="Sign in with")).to_have_count(0)
    page.get_by_role("link", name="Set one up").click()
    expect(page.get_by_role("heading", name="OAuth apps", level=1)).to_be_visible()
