"""Signing in, as a page and in the dialog for an ended session."""

from playwright.sync_api import Dialog, Page, expect

from mailbox_appliance.web.console_files import first_modules
from tests.console.walker import Walker
from tests.servers.running import PASSWORD


def test_a_member_signs_in_and_out(walker: Walker) -> None:
    page = walker.open("/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    walker.look("sign-in")
    page.get_by_label("Email").fill(walker.house.bob.email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Mail")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_the_page_announces_the_modules_of_the_sign_in_page_and_of_the_mail(walker: Walker) -> None:
    fetched = "performance.getEntriesByType('resource').map((one) => one.name)"

    def modules(page: Page) -> set[str]:
        return {
            name.partition("/console/")[2].partition("/")[2] for name in page.evaluate(fetched) if "js" in name[-3:]
        }

    assert modules(walker.open("/sign-in")) == set(first_modules())
    page = walker.open("/mail", walker.house.sign_in(walker.house.bob.email), walker.new_page())
    expect(page.get_by_role("heading", name="Mail")).to_be_visible()
    assert modules(page) == set(first_modules())


def test_a_page_that_cannot_be_fetched_says_so_and_can_be_loaded_again(walker: Walker) -> None:
    walker.expects(404)  # as after an upgrade, which has other addresses
    page = walker.open("/mail", walker.house.sign_in(walker.house.bob.email))
    page.route("**/pages/profile.js", lambda route: route.fulfill(status=404))
    page.get_by_role("link", name="Profile").click()
    expect(page.get_by_role("alert")).to_contain_text("This page could not be loaded.")
    page.unroute("**/pages/profile.js")
    page.get_by_role("alert").get_by_role("button").click()
    expect(page.get_by_role("heading", name="Profile", level=1)).to_be_visible()


def test_a_wrong_password_is_told_and_what_was_typed_stays(walker: Walker) -> None:
    walker.expects(401)
    page = walker.open("/sign-in")
    page.get_by_label("Email").fill("bob@nowhere.example")
    page.get_by_label("Password").fill("not the right one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Email")).to_have_value("bob@nowhere.example")


def test_another_tab_knows_who_is_signed_in_and_signing_out_ends_it_in_both(walker: Walker) -> None:
    house = walker.house
    person = house.sign_in(house.bob.email)
    first = walker.open("/mail", person)
    second = walker.open("/mail", page=walker.new_page())
    expect(second.get_by_role("heading", name="Mail")).to_be_visible()
    first.get_by_role("button", name="Sign out").click()
    expect(second.get_by_role("heading", name="Sign in")).to_be_visible()


def test_who_has_lost_the_session_signs_in_in_place_and_the_page_goes_on(walker: Walker) -> None:
    walker.expects(401)
    house = walker.house
    person = house.sign_in(house.bob.email)
    page = walker.open("/mail", person)
    house.ask(person, "DELETE", f"/me/sessions/{person.logged_in['session']['id']}")
    page.goto(f"{house.url}/#/mailboxes")
    dialog = page.get_by_role("dialog", name="Sign in again")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("heading", name="Mailboxes")).to_be_visible()


def test_every_field_that_is_empty_is_told_at_once_and_a_missing_page_has_a_title(walker: Walker) -> None:
    page = walker.open("/sign-in")
    page.get_by_role("button", name="Sign in").click()
    for label in ("Email", "Password"):
        expect(page.get_by_label(label)).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_label(label)).to_have_accessible_description("Required.")
    expect(page.get_by_label("Email")).to_be_focused()
    expect(page.get_by_role("alert")).to_have_text("Check the marked fields.")
    page.goto(f"{walker.house.url}/#/no-such-page")
    expect(page.get_by_role("heading", name="Page not found")).to_be_focused()
    expect(page).to_have_title("Page not found · mailbox-appliance")


def test_signing_out_ends_the_session_that_it_is_about_and_no_other(walker: Walker) -> None:
    """Two members in two tabs of one browser, such as an administrator and a person who opened an invitation."""
    house = walker.house
    first = walker.open("/profile", house.sign_in(house.ada.email))
    second = walker.open("/profile", house.sign_in(house.bob.email), walker.new_page())
    first.get_by_role("button", name="Sign out").click()
    expect(first.get_by_role("heading", name="Sign in")).to_be_visible()
    second.reload()
    expect(second.get_by_role("heading", name="Profile")).to_be_visible()


def test_mailboxes_are_there_again_after_a_sign_in_in_place(walker: Walker) -> None:
    walker.expects(401)
    house = walker.house
    person = house.add_member("lost")
    box = house.connect(person)
    page = walker.open("/mailboxes", person)
    expect(page.get_by_text(box.email)).to_be_visible()
    house.ask(person, "DELETE", f"/me/sessions/{person.logged_in['session']['id']}")
    page.evaluate("location.hash = '#/keys'")
    dialog = page.get_by_role("dialog", name="Sign in again")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()
    page.evaluate("location.hash = '#/mailboxes'")
    expect(page.get_by_text(box.email)).to_be_visible()


def test_an_appliance_that_stopped_is_told_and_the_focus_stays(own_walker: Walker) -> None:
    walker = own_walker
    page = walker.open("/sign-in")
    walker.house.stop()
    page.get_by_label("Email").fill("ada@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    walker.complaints.clear()
    page.get_by_role("button", name="Sign in").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("does not respond")
    expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    walker.complaints.clear()  # the browser logs each request without a response


def test_a_link_of_somebody_else_asks_and_a_token_stays_nowhere(walker: Walker) -> None:
    house = walker.house
    bob, eve = house.add_member("writer"), house.add_member("eve")
    house.connect(bob)
    page = walker.open("/compose", bob)
    page.get_by_label("Subject").fill("Not saved yet")
    link = house.ask(eve, "POST", "/auth/console-links", {}).data["url"]
    asked: list[str] = []

    def refuse(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", refuse)
    page.evaluate("link => { location.hash = new URL(link).hash }", link)
    question = page.get_by_role("dialog", name="Sign in with this link?")
    expect(question).to_contain_text("You are signed in as")
    question.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Subject")).to_have_value("Not saved yet")
    assert asked
    history = page.context.new_cdp_session(page).send("Page.getNavigationHistory")
    assert not [entry["url"] for entry in history["entries"] if "mbx" in entry["url"]]
    page.once("dialog", lambda dialog: dialog.accept())
    page.evaluate("link => { location.hash = new URL(link).hash }", link)
    question.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text(eve.logged_in["member"]["name"], exact=True)).to_be_visible()
    expect(page.get_by_label("Subject")).to_have_count(0)
    assert house.ask(bob, "GET", "/me").status == 401


def test_a_link_leads_to_a_page_where_it_names_one(walker: Walker) -> None:
    """A link of the tray, also in a tab in which another member has the console open."""
    walker.expects(401)  # the requests of the ended session are repeated with the new one
    house = walker.house
    link = house.ask(house.ada, "POST", "/auth/console-links", {}).data["url"]
    page = walker.new_page()
    page.goto(f"{link}&to=/backups")
    expect(page.get_by_role("heading", name="Backups")).to_be_visible()
    assert page.url == f"{house.url}/#/backups"
    link = house.ask(house.add_member("led"), "POST", "/auth/console-links", {}).data["url"]
    page.evaluate("link => { location.hash = new URL(link).hash + '&to=/keys' }", link)
    page.get_by_role("dialog", name="Sign in with this link?").get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()
    assert page.url == f"{house.url}/#/keys"


def test_a_session_that_could_not_be_ended_is_told(walker: Walker) -> None:
    house = walker.house
    page = walker.open("/profile", house.sign_in(house.bob.email))
    page.route("**/api/v1/auth/logout", lambda route: route.abort())
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("could not end this session")).to_be_visible()
    walker.complaints.clear()  # the browser logs the canceled request


def test_who_writes_in_one_tab_loses_nothing_when_another_signs_out(walker: Walker) -> None:
    walker.expects(401)
    house = walker.house
    person = house.add_member("two-tabs")
    house.connect(person)
    writing = walker.open("/compose", person)
    other = walker.open("/profile", person, walker.new_page())
    writing.get_by_label("Subject").fill("Half a sen")
    other.get_by_role("button", name="Sign out").click()
    dialog = writing.get_by_role("dialog", name="Sign in again")
    expect(dialog.get_by_label("Email")).not_to_be_editable()
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Sign in").click()
    expect(writing.get_by_label("Subject")).to_have_value("Half a sen")


def test_a_role_that_changed_meanwhile_counts_when_the_console_is_loaded_anew(walker: Walker) -> None:
    house = walker.house
    person = house.add_member("climber")
    page = walker.open("/profile", person)
    changed = house.ask(house.ada, "PATCH", f"/admin/members/{person.id}", {"role": "admin", "name": "Risen"})
    assert changed.status == 200
    page.reload()
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Members")).to_be_visible()
    expect(page.get_by_text("Risen", exact=True)).to_be_visible()


def test_a_link_that_was_cut_off_is_told(walker: Walker) -> None:
    page = walker.open("/sign-in")
    page.goto(f"{walker.house.url}/#enroll=")
    expect(page.get_by_text("This link is incomplete.")).to_be_visible()
    assert "enroll" not in page.url
