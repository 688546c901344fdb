"""Drafts in the console: reopening, editing and deleting them."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.walker import Walker


@pytest.mark.slow
def test_drafts_are_found_again_whole_and_deleted(walker: Walker, tmp_path: Path) -> None:
    house = walker.house
    dan = house.add_member("dan")
    box, other = house.connect(dan), house.connect(dan)
    page = walker.open(f"/drafts?account={box.id}", dan)
    expect(page.get_by_text("No drafts")).to_be_visible()
    page.get_by_role("main").get_by_role("button", name="Write a message").click()
    page.get_by_label("To", exact=True).fill("Gail <gail@example.net>")
    page.get_by_role("button", name="Add Cc or Bcc").click()
    page.get_by_label("Bcc", exact=True).fill("hal@example.net")
    page.get_by_label("Subject").fill("Lunch")
    page.get_by_label("Text", exact=True).fill("At noon?\n\nOr later.")
    (tmp_path / "menu.txt").write_text("soup")
    page.get_by_label("Attachments", exact=True).set_input_files(tmp_path / "menu.txt")
    expect(page.get_by_text("Saved in Drafts")).to_be_visible()
    page.get_by_role("link", name="Drafts").click()
    page.get_by_label("Mailbox").select_option(box.id)
    walker.look("drafts")
    page.get_by_role("link", name="Lunch").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value("At noon?\n\nOr later.")
    expect(page.get_by_role("button", name="Remove gail@example.net")).to_be_visible()
    expect(page.get_by_role("button", name="Remove hal@example.net")).to_be_visible()
    expect(page.get_by_role("button", name="Remove menu.txt")).to_be_visible()
    page.get_by_label("From").select_option(other.id)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Draft saved.")).to_be_visible()
    assert house.ask(dan, "GET", f"/accounts/{box.id}/drafts").data["items"] == []
    [moved] = house.ask(dan, "GET", f"/accounts/{other.id}/drafts").data["items"]
    assert [each["filename"] for each in moved["attachments"]] == ["menu.txt"]
    page.goto(f"{house.url}/#/drafts?account={other.id}")
    page.get_by_role("button", name="Delete “Lunch”").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No drafts")).to_be_visible()


def test_formatting_of_another_program_stays_until_the_text_is_changed(walker: Walker) -> None:
    house = walker.house
    dan = house.add_member("dan")
    box = house.connect(dan)
    body = {"text": "Hello", "html": "<p>Hello <b>there</b></p>"}
    made = house.ask(dan, "POST", f"/accounts/{box.id}/drafts", {"subject": "Styled", "body": body})
    assert made.status == 201
    page = walker.open(f"/compose?account={box.id}&draft={made.data['id']}", dan)
    page.get_by_label("Subject").fill("Styled, still")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Draft saved.")).to_be_visible()
    kept = house.ask(dan, "GET", f"/accounts/{box.id}/drafts/{made.data['id']}").data["body"]
    assert "<b>there</b>" in kept["html"]
    page.get_by_label("Text", exact=True).fill("Hello, all")
    page.get_by_role("button", name="Restore the formatting").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value("Hello")


def test_discarding_deletes_what_was_saved(walker: Walker) -> None:
    walker.expects(404)
    house = walker.house
    dan = house.add_member("dan")
    box = house.connect(dan)
    page = walker.open("/compose", dan)
    page.get_by_label("Subject").fill("Never mind")
    expect(page.get_by_text("Saved in Drafts")).to_be_visible()
    draft = page.url
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(page.get_by_text("No drafts")).to_be_visible()
    assert house.ask(dan, "GET", f"/accounts/{box.id}/drafts").data["items"] == []
    page.goto(draft)
    expect(page.get_by_role("heading", name="Could not open the message")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Drafts").click()
    expect(page.get_by_role("heading", name="Drafts")).to_be_visible()
