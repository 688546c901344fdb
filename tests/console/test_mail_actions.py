"""Actions on messages: buttons and keys, partial results, and undo."""

import json

from playwright.sync_api import Page, Route, expect

from tests.console.house import Box, House, a_mail
from tests.console.walker import Walker


def _box(house: House, *subjects: str) -> Box:
    return house.connect(house.add_member("sorter"), *map(a_mail, subjects))


def _open(walker: Walker, box: Box, path: str = "/mail") -> Page:
    page = walker.open(path, box.owner)
    page.get_by_role("list", name="Messages").wait_for()
    return page


def _subjects(walker: Walker, box: Box, folder: str) -> set[str]:
    return {one["subject"] for one in walker.house.messages(box, folder=folder)}


def test_what_is_selected_is_archived_and_brought_back(walker: Walker) -> None:
    box = _box(walker.house, "One", "Two", "Three")
    page = _open(walker, box)
    page.get_by_label("Select “One”").check()
    page.get_by_label("Select “Three”").check()
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("2 messages archived.")).to_be_visible()
    expect(page.get_by_role("link", name="One")).to_be_hidden()
    expect(page.get_by_role("link", name="Two")).to_be_focused()
    assert _subjects(walker, box, "archive") == {"One", "Three"}
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("link", name="Three")).to_be_visible()
    assert _subjects(walker, box, "inbox") == {"One", "Two", "Three"}


def test_an_undo_leaves_what_was_changed_since(walker: Walker) -> None:
    box = _box(walker.house, "One", "Two")
    page = _open(walker, box)
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Mark as read").click()
    expect(page.get_by_text("2 messages marked as read.")).to_be_visible()
    changed = next(one["id"] for one in walker.house.messages(box) if one["subject"] == "One")
    body = {"action": "star", "messageIds": [changed]}
    walker.house.ask(box.owner, "POST", f"/accounts/{box.id}/messages/actions", body)
    undo = page.get_by_role("button", name="Undo")
    undo.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 message was not restored: changed since.")).to_be_visible()
    expect(page.get_by_text("1 message restored.")).to_be_visible()
    expect(undo).to_be_hidden()
    walker.look("mail-undo")
    read = {one["subject"] for one in walker.house.messages(box) if one["flags"]["read"]}
    assert read == {"One"}


def test_everything_can_be_done_by_keys(walker: Walker) -> None:
    box = _box(walker.house, "One", "Two", "Three")
    page = _open(walker, box)
    rows = page.get_by_role("list", name="Messages").get_by_role("listitem")
    page.keyboard.press("j")
    expect(rows.nth(0).get_by_role("link")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("s")
    expect(rows.nth(1).get_by_role("button", name="Star")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("u")
    expect(rows.nth(1)).not_to_contain_text("Unread")
    expect(rows.nth(1).get_by_role("link")).to_be_focused()
    page.keyboard.press("#")
    expect(rows).to_have_count(2)
    expect(rows.nth(1).get_by_role("link")).to_be_focused()
    page.keyboard.press("z")
    expect(rows).to_have_count(3)
    expect(page.get_by_text("1 message restored.")).to_be_visible()
    expect(page.get_by_text("1 message moved to the trash.")).to_be_hidden()
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("a")
    page.keyboard.press("e")
    expect(page.get_by_text("Inbox is empty")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_a_message_is_moved_and_labelled(walker: Walker) -> None:
    house = walker.house
    box = _box(house, "The plan")
    house.server.make_folder(box.email, "Projects")
    house.ask(box.owner, "PATCH", f"/accounts/{box.id}/imap/folders", {"spam": None})  # asks the server for its folders
    page = _open(walker, box)
    page.get_by_label("Select “The plan”").check()
    page.get_by_role("button", name="Labels").click()
    walker.look("mail-labels")
    page.get_by_label("Label", exact=True).fill("hard work")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("one word")
    page.get_by_label("Label", exact=True).fill("work")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Messages").get_by_text("work")).to_be_visible()
    page.get_by_role("button", name="Move…").click()
    page.get_by_role("button", name="Projects").click()
    expect(page.get_by_text("1 message moved to Projects.")).to_be_visible()
    expect(page.get_by_text("Inbox is empty")).to_be_visible()
    page.get_by_role("link", name="Projects").click()
    expect(page.get_by_role("link", name="The plan")).to_be_visible()


def test_deleting_for_good_asks_first(walker: Walker) -> None:
    box = _box(walker.house, "Old news")
    found = walker.house.messages(box)
    body = {"action": "trash", "messageIds": [found[0]["id"]]}
    walker.house.ask(box.owner, "POST", f"/accounts/{box.id}/messages/actions", body)
    page = _open(walker, box, "/mail?folder=trash")
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Delete permanently").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("cannot be undone")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("link", name="Old news")).to_be_visible()
    page.get_by_role("button", name="Delete permanently").click()
    dialog.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_text("Trash is empty")).to_be_visible()
    assert _subjects(walker, box, "trash") == set()


def test_what_did_not_succeed_is_told_and_stays_selected(walker: Walker) -> None:
    walker.expects(503)
    page = _open(walker, _box(walker.house, "One", "Two", "Three", "Four"))
    kind = "failed"

    def answer(route: Route) -> None:
        if kind == "away":
            problem = {
                "code": "provider_unavailable",
                "message": "The mail server cannot be reached.",
                "requestId": "r",
            }
            return route.fulfill(status=503, json={"error": problem})
        asked = json.loads(route.request.post_data or "")["messageIds"]
        failed = [{"messageId": one, "code": "provider_rejected"} for one in asked[1:] if kind == "failed"]
        uncertain = asked[1:] if kind == "uncertain" else []
        data = {"action": "archive", "succeededIds": asked[:1], "failed": failed, "uncertainIds": uncertain}
        return route.fulfill(json={"data": data})

    page.route("**/messages/actions", answer)
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("3 messages were not archived: the mail server rejected it.")).to_be_visible()
    expect(page.get_by_text("3 selected")).to_be_visible()
    kind = "uncertain"
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("Check the messages that are still selected before you try again.")).to_be_visible()
    expect(page.get_by_text("2 selected")).to_be_visible()
    kind = "away"
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("The mail server cannot be reached.")).to_be_visible()
    expect(page.get_by_text("2 selected")).to_be_visible()
    walker.look("mail-selected")
