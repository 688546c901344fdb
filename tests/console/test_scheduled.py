"""Scheduled messages in the console."""

from playwright.sync_api import expect

from tests.console.walker import Walker


def test_a_message_waits_for_its_time_and_is_taken_back(walker: Walker) -> None:
    house = walker.house
    sid = house.add_member("sid")
    box = house.connect(sid)
    page = walker.open("/scheduled", sid)
    expect(page.get_by_text("No scheduled messages")).to_be_visible()
    page.goto(f"{house.url}/#/compose")
    page.get_by_label("To", exact=True).fill("gail@example.net")
    page.get_by_label("Subject").fill("Lunch")
    page.get_by_label("Text", exact=True).fill("At noon?")
    page.get_by_role("button", name="Send later").click()
    dialog = page.get_by_role("dialog", name="Schedule this message?")
    dialog.get_by_label("When").fill("2001-01-01T08:00")
    dialog.get_by_role("button", name="Schedule").click()
    expect(dialog.get_by_text("Choose a time in the future.")).to_be_visible()
    walker.look("later")
    dialog.get_by_role("button", name="Keep editing").click()
    page.get_by_role("button", name="Send later").click()
    dialog.get_by_role("button", name="Schedule").click()
    expect(page.get_by_text("waits for its scheduled time")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Scheduled").click()
    expect(page.get_by_role("button", name="Cancel send “Lunch”")).to_be_visible()
    walker.look("scheduled")
    [waiting] = house.ask(sid, "GET", f"/accounts/{box.id}/scheduled").data["items"]
    assert waiting["sendAt"].endswith("T08:00:00.000Z")
    page.get_by_role("button", name="Cancel send “Lunch”").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel message").click()
    expect(page.get_by_text("No scheduled messages")).to_be_visible()
    page.locator(".notice").get_by_role("link", name="Drafts").click()
    expect(page.get_by_role("link", name="Lunch")).to_be_visible()
