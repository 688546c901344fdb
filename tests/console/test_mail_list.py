"""The message list: folders, rows, pages, search, keys, and new mail."""

import re

from playwright.sync_api import expect

from tests.console.house import House, Person, a_mail
from tests.console.walker import Walker
from tests.servers.mailboxes import wait_until

_DAYS = "Mon, 0{} Jun 2026 10:00:00 +0000"


def _reader(house: House, *sources: bytes) -> tuple[Person, str]:
    """Return a new member with one mailbox."""
    person = house.add_member("reader")
    return person, house.connect(person, *sources).id


def test_who_has_no_mailbox_is_told_how_to_get_one(walker: Walker) -> None:
    page = walker.open("/mail", walker.house.add_member("newcomer"))
    expect(page.get_by_text("No mailbox is connected yet")).to_be_visible()
    walker.look("mail-no-mailbox")
    page.get_by_role("button", name="Connect a mailbox").click()
    assert page.url.endswith("#/mailboxes/connect")


def test_the_inbox_shows_messages_newest_first_and_leads_to_them(walker: Walker) -> None:
    house = walker.house
    long = "A subject that goes on and on, longer than any line of a list may ever be, and then some more of it"
    person, account = _reader(
        house,
        a_mail("The plan (\u202eexe.pdf)", "Shall we meet on Tuesday?", Date=_DAYS.format(1)),
        a_mail(long, "So does its text. " * 20, Date=_DAYS.format(2)),
        a_mail("", "Without a subject.", From='"boss@example.org" <dan@example.net>', Date=_DAYS.format(3)),
    )
    page = walker.open("/mail", person)
    rows = page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("dan@example.net")
    expect(rows.nth(2)).to_contain_text("The plan (exe.pdf)")
    expect(rows.nth(2)).to_contain_text("Shall we meet on Tuesday?")
    rows.nth(2).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("Inbox")
    assert f"#/mail/{account}/msg_" in page.url
    page.go_back()
    expect(page.get_by_role("link", name="The plan")).to_be_focused()


def test_a_refresh_moves_no_focus_and_loses_no_selection(walker: Walker) -> None:
    house = walker.house
    person = house.add_member("reader")
    box = house.connect(person, a_mail("One"), a_mail("Two"))
    walker.page.clock.install()
    page = walker.open("/mail", person)
    page.get_by_label("Select “One”").check()
    page.get_by_role("link", name="Two").focus()
    house.server.deliver(box.email, a_mail("Three"))
    wait_until(lambda: len(house.messages(box)) == 3, str, 20)
    page.clock.fast_forward(10_000)
    expect(page.get_by_role("link", name="Three")).to_be_visible()
    expect(page.get_by_role("link", name="Two")).to_be_focused()
    expect(page.get_by_label("Select “One”")).to_be_checked()
    expect(page.get_by_text("1 selected")).to_be_visible()


def test_a_search_shows_where_the_words_stand_and_where_was_searched_or_says_why_not(walker: Walker) -> None:
    walker.expects(400)
    house = walker.house
    text = "Much is said first, of this and that, before the word turnip appears among others."
    person, _ = _reader(house, a_mail("Vegetables", text), a_mail("Something else"))
    page = walker.open("/mail", person)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search mail")).to_be_focused()
    page.keyboard.type("Turnip")
    page.keyboard.press("Enter")
    row = page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(row).to_have_count(1)
    expect(row.locator("mark")).to_have_text("turnip")
    page.get_by_text("Search tips").click()
    walker.look("mail-search")
    page.get_by_role("searchbox").fill("in:nowhere turnips")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("No messages match")).to_be_visible()
    expect(page.get_by_text(re.compile("^in: "))).to_be_visible()
    page.get_by_role("link", name="clear the search").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Mail: Inbox")
    expect(row).to_have_count(2)
    page.get_by_role("searchbox").fill("a*")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text(re.compile(r"^\s*[^.]*letters[^.]*\.\s*$"))
    expect(page.get_by_role("searchbox")).to_have_value("a*")


def test_several_mailboxes_are_one_list_or_are_looked_at_one_by_one(walker: Walker) -> None:
    house = walker.house
    person, _ = _reader(house, a_mail("In the first"))
    second = house.connect(person, a_mail("In the second"), displayName="Second")
    page = walker.open("/mail", person)
    rows = page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="In the second")).to_contain_text(second.email)
    walker.look("mail-all-mailboxes")
    page.get_by_role("combobox", name="Mailbox").select_option(label=f"Second ({second.email})")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Trash").click()
    expect(page.get_by_text("Trash is empty")).to_be_visible()
    expect(page.get_by_text("New mail appears here")).to_be_hidden()


def test_a_long_list_is_turned_page_by_page_and_never_grows(walker: Walker) -> None:
    house = walker.house
    person, account = _reader(house, *(a_mail(f"Number {number:03}") for number in range(102)))
    listed = f"/accounts/{account}/messages?limit=100"
    wait_until(lambda: all(one.get("snippet") for one in house.ask(person, "GET", listed).data["items"]), str, 20)
    page = walker.open("/mail", person)
    rows = page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(rows).to_have_count(50)
    expect(page.get_by_role("link", name="Trash")).to_be_visible()
    first = rows.first.inner_text()
    nodes = page.evaluate("document.querySelectorAll('*').length")
    page.get_by_role("button", name="Next", exact=True).click()
    expect(page.get_by_text("Page 2").first).to_be_visible()
    expect(rows).to_have_count(50)
    assert page.evaluate("document.querySelectorAll('*').length") <= nodes
    expect(rows.first.get_by_role("link")).to_be_focused()
    page.keyboard.press("n")
    expect(rows).to_have_count(2)
    rows.first.get_by_role("link").click()
    page.get_by_role("heading", level=1).wait_for()
    page.go_back()
    expect(page.get_by_text("Page 3").first).to_be_visible()
    expect(rows.first.get_by_role("link")).to_be_focused()
    page.keyboard.press("a")
    page.keyboard.press("e")  # nothing is left on this page
    expect(page.get_by_text("Page 2").first).to_be_visible()
    expect(rows).to_have_count(50)
    page.keyboard.press("p")
    expect(rows.first).to_have_text(first, use_inner_text=True)
