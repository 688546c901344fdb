"""The audit log: filters, pages, and the verification that finds changed events."""

from playwright.sync_api import Page, expect

from tests.console.walker import Walker


def rows(page: Page) -> "list[str]":
    """Return the texts of the list."""
    return page.get_by_role("list", name="Events").get_by_role("listitem").all_inner_texts()


def test_what_was_done_is_listed_and_filtered(walker: Walker) -> None:
    walker.expects(401)
    house = walker.house
    nora = house.add_member("nora")
    house.running.ask("POST", "/auth/login", {"email": nora.email, "password": "not the right one", "deviceName": "x"})
    page = walker.open("/audit", house.ada)
    page.get_by_label("Member").select_option(nora.id)
    expect(page.get_by_role("list", name="Events").get_by_role("listitem")).to_have_count(5)
    events = rows(page)
    assert "tried to sign in" in events[0]
    assert "Failed" in events[0]
    assert any(event.startswith("Ada added a member") and "member Nora" in event for event in events)
    walker.look("audit")
    page.get_by_label("Outcome").select_option("Failed")
    expect(page.get_by_role("list", name="Events").get_by_role("listitem")).to_have_count(1)
    page.get_by_label("Object").select_option("Backup")
    expect(page.get_by_text("No events match.")).to_be_visible()
    page.get_by_role("button", name="Show all events").click()
    expect(page.get_by_label("Member")).to_have_value("")
    expect(page.get_by_role("list", name="Events")).to_be_visible()


def test_every_row_is_checked(walker: Walker) -> None:
    walker.expects(503)
    walker.page.route("**/admin/members", lambda route: route.fulfill(status=503, body="away"))
    page = walker.open("/audit", walker.house.ada)
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("list", name="Events").get_by_text(f"Member {walker.house.ada.id}").first).to_be_visible()
    page.get_by_role("button", name="Verify the log").press("Enter")
    expect(page.get_by_role("region", name="Verify the log").get_by_role("status")).to_contain_text("The log is intact")
    expect(page.get_by_role("button", name="Verify the log")).to_be_focused()


def test_pages_follow_each_other(walker: Walker) -> None:
    house = walker.house
    for number in range(26):
        assert house.ask(house.ada, "PATCH", "/me", {"name": f"Ada {number}"}).status == 200
    assert house.ask(house.ada, "PATCH", "/me", {"name": "Ada"}).status == 200
    page = walker.open("/audit?action=member.update", house.ada)
    expect(page.get_by_role("list", name="Events").get_by_role("listitem")).to_have_count(25)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Page 2")).to_be_visible()
    expect(page.get_by_role("list", name="Events").get_by_role("listitem").first).to_contain_text("changed a name")
