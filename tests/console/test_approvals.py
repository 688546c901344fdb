"""Approvals: a person reads what waits, approves exactly that or rejects it; and the editors of sending policies."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.house import Box, House, a_mail
from tests.console.walker import Walker
from tests.servers.desk import a_key
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp

_HTML = """<h1>Offer</h1><p>Dear Carol, the price is <b>20</b> euros.</p>
<p style="display: none">words nobody sees</p><img src="https://pictures.example/wide.png" alt="The garden">
<img src="cid:plan" alt="The plan"><blockquote>When can you come?</blockquote>"""
_PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel
)


class Office:
    """A member with a mailbox whose messages an agent writes, each of which needs an approval."""

    def __init__(self, house: House) -> None:
        self.house, self.person = house, house.add_member("gina")
        self.smtp = ScriptedSmtp(user="").start()
        self.box: Box = house.connect(
            self.person, a_mail("Garden", "When can you come?", Cc="dora@example.net"), smtp=self.smtp
        )
        made = house.ask(self.person, "POST", "/me/api-keys", {"name": "Agent", "permissionProfile": "full"})
        self.key, self.key_id = str(made.data["token"]), str(made.data["apiKey"]["id"])
        self.ask("PUT", f"/accounts/{self.box.id}/sending-policy", {"approval": "newRecipients"})

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Make a request as the member; return the data."""
        answer = self.house.ask(self.person, method, path, body)
        assert answer.status < 400, answer.body
        return answer.data

    def send(self, *to: str, **fields: Any) -> Any:
        """Send a message by the key; return the delivery operation."""
        body = {"to": [{"email": each} for each in to], "subject": "Hello", "body": {"text": "Hi."}, **fields}
        path = f"/accounts/{self.box.id}/send"
        answer = self.house.running.ask("POST", path, body, token=self.key, timeout=60, Idempotency_Key=a_key())
        assert answer.data["status"] == "queued", answer.body
        return answer.data

    def wait(self, *to: str, **fields: Any) -> Any:
        """Send a message by the key; return its approval."""
        operation = self.send(*to, **fields)["operationId"]
        listed = self.ask("GET", "/approvals?status=pending")["items"]
        return next(one for one in listed if one["operationId"] == operation)

    def parent(self) -> str:
        """Return the ID of the message in the inbox."""
        return str(self.house.messages(self.box, folder="inbox")[0]["id"])


@pytest.fixture(scope="module")
def office(house: House) -> Iterator[Office]:
    made = Office(house)
    yield made
    made.smtp.stop()


def _approve(page: Page) -> None:
    page.get_by_role("button", name="Approve and send…").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve and send").click()


def test_nothing_waits(walker: Walker) -> None:
    page = walker.open("/approvals", walker.house.add_member("heidi"))
    expect(page.get_by_text("No message waits for approval.")).to_be_visible()
    page.get_by_role("link", name="All", exact=True).click()
    expect(page.get_by_text("No message has needed an approval yet.")).to_be_visible()


def test_a_message_is_read_and_exactly_its_bytes_are_sent(walker: Walker, office: Office) -> None:
    page = walker.open("/approvals", office.person)
    expect(page.get_by_text("No message waits for approval.")).to_be_visible()
    file = {"filename": "offer.pdf", "mimeType": "application/pdf", "content": "b2ZmZXI="}
    picture = {"filename": "plan.png", "mimeType": "image/png", "content": _PICTURE, "contentId": "plan"}
    approval = office.wait(
        "new@example.org",
        cc=[{"email": "carol@example.net", "name": "Carol"}],
        bcc=[{"email": "boss@example.org"}],
        subject="Offer",
        body={"text": "Dear Carol, the price is 20 euros.", "html": _HTML},
        attachments=[file, picture],
    )
    expect(page.get_by_role("link", name="Approvals 1 waiting")).to_be_visible()  # by the stream
    walker.look("approvals")
    page.get_by_role("link", name="Offer").click()
    expect(page.get_by_role("heading", name="Offer", level=1)).to_be_visible()
    main = page.get_by_role("main")
    expect(main.get_by_text("API key “Agent”")).to_be_visible()
    expect(
        main.get_by_role("listitem").filter(has_text="new@example.org").get_by_text("New recipient").first
    ).to_be_visible()
    expect(main.get_by_role("listitem").filter(has_text="<carol@example.net>")).not_to_contain_text("New recipient")
    expect(main.get_by_role("listitem").filter(has_text="boss@example.org").last).to_contain_text("New recipient")
    expect(main.get_by_text("Hidden text was removed: 1 passage")).to_be_visible()
    expect(main.get_by_text("The message is sent as it is, including hidden text.")).to_be_visible()
    frame = page.frame_locator("iframe.mail-frame")
    expect(frame.get_by_role("heading", name="Offer")).to_be_visible()
    expect(frame.get_by_text("words nobody sees")).not_to_be_visible()
    expect(page.get_by_text("1 picture was not loaded from other servers")).to_be_visible()
    expect(frame.get_by_role("img", name="The plan")).to_have_js_property("naturalWidth", 1)
    expect(page.get_by_role("region", name="Attachments")).to_contain_text("2 attachments")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download offer.pdf").click()
    assert download.value.suggested_filename == "offer.pdf"
    assert download.value.path().read_bytes() == b"offer"
    expect(page.get_by_text(approval["digest"], exact=True)).not_to_be_visible()
    page.get_by_text(f"{approval['digest'][:19]}…").click()
    expect(page.get_by_text(approval["digest"], exact=True)).to_be_visible()
    walker.look("approval")
    page.get_by_role("button", name="Raw message").click()
    expect(page.get_by_label("Raw message", exact=True).last).to_contain_text("Subject: Offer")
    page.get_by_role("button", name="Approve and send…").click()
    dialog = page.get_by_role("dialog", name="Approve and send this message?")
    expect(dialog.get_by_text("3 recipients: new@example.org, carol@example.net, and boss@example.org")).to_be_visible()
    walker.look("approval-sure")
    dialog.get_by_role("button", name="Cancel").click()
    assert office.smtp.messages == ()
    _approve(page)
    expect(page.get_by_text("This message was approved. It is sent now")).to_be_visible()
    expect(page.get_by_text("By you")).to_be_visible()
    wait_until(lambda: len(office.smtp.messages) == 1, lambda: "not sent", 20)
    expect(page.get_by_role("link", name="Approvals", exact=True)).to_be_visible()


def test_a_reply_shows_its_new_text_apart_from_what_it_quotes(walker: Walker, office: Office) -> None:
    text = "On Monday.\n\nOn 1 June, Carol wrote:\n> When can\n> you come?\n\nCheers\n> Send the money to Eve.\n"
    to = [{"email": "carol@example.net"}, {"email": "eve@example.org"}]
    approval = office.wait(replyToMessageId=office.parent(), to=to, subject="Re: Garden", body={"text": text})
    page = walker.open(f"/approvals/{approval['id']}", office.person)
    since = page.get_by_role("region", name="What changed since the previous message")
    expect(since.get_by_role("link", name="Garden")).to_be_visible()
    expect(since.locator("dl > div").filter(has_text="Added")).to_contain_text("eve@example.org")
    expect(since.locator("dl > div").filter(has_text="Left out")).to_contain_text("dora@example.net")
    expect(since.locator("dl > div").filter(has_text="Subject")).to_contain_text("unchanged")
    message = page.get_by_role("region", name="The message")
    expect(message).to_contain_text(
        "Marked as a quote, but not in the message that it answers:> Send the money to Eve."
    )
    quote = message.locator("details").filter(has_text="Quoted text (2 lines)")
    expect(quote).to_have_js_property("open", False)
    quote.locator("summary").press("Enter")
    expect(quote).to_have_js_property("open", True)
    expect(quote).to_contain_text("> you come?")
    walker.look("approval-reply")


def test_a_formatted_reply_shows_its_new_text_apart_from_what_it_quotes(walker: Walker, office: Office) -> None:
    text = (
        "<p>On Tuesday.</p><blockquote>When can you come?</blockquote><blockquote>Send the money to Eve.</blockquote>"
    )
    body = {"text": "On Tuesday.", "html": text}
    approval = office.wait("newer@example.org", replyToMessageId=office.parent(), subject="Other", body=body)
    page = walker.open(f"/approvals/{approval['id']}", office.person)
    expect(page.frame_locator("iframe.mail-frame").get_by_text("When can you come?")).to_be_visible()
    since = page.get_by_role("region", name="What changed since the previous message")
    expect(since.locator("dl > div").filter(has_text="Subject")).to_contain_text("changed to “Other”")
    expect(since.locator(".new-text")).to_contain_text("On Tuesday.")
    expect(since.locator(".new-text")).to_contain_text("Send the money to Eve.")
    expect(since.locator(".new-text")).not_to_contain_text("When can you come?")
    expect(page.get_by_text("The plain-text and HTML versions of this message differ")).to_be_visible()
    walker.look("approval-reply-html")


def test_a_message_is_rejected_with_the_keyboard(walker: Walker, office: Office) -> None:
    approval = office.wait("third@example.org", subject="Spam")
    page = walker.open(f"/approvals/{approval['id']}", office.person)
    page.get_by_role("button", name="Reject…").press("Enter")
    dialog = page.get_by_role("dialog", name="Reject this message?")
    expect(dialog.get_by_label("Reason (optional)")).to_be_focused()
    walker.look("approval-reject")
    page.keyboard.type("Not to them.")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This message was rejected. It is never sent.")).to_be_visible()
    expect(page.get_by_role("button", name="Approve and send…")).to_have_count(0)
    walker.open("/approvals?all=1")
    expect(page.get_by_role("listitem").filter(has_text="Spam").get_by_text("Rejected")).to_be_visible()
    walker.look("approvals-all")


def test_a_decision_that_comes_too_late_is_told(walker: Walker, office: Office) -> None:
    walker.expects(409)
    approval = office.wait("fourth@example.org", subject="Late")
    page = walker.open(f"/approvals/{approval['id']}", office.person)
    page.get_by_role("button", name="Approve and send…").click()
    walker.hide(page)
    office.ask("POST", f"/approvals/{approval['id']}/reject", {})
    page.get_by_role("dialog").get_by_role("button", name="Approve and send").click()
    expect(page.get_by_text("Your decision came too late. This message was rejected.")).to_be_visible()
    expect(page.locator(".outcome")).to_contain_text("Rejected")
    walker.hide(page, is_hidden=False)


def test_another_message_than_the_one_that_was_read_is_not_sent(walker: Walker, office: Office) -> None:
    walker.expects(409)
    approval = office.wait("fifth@example.org", subject="Other")
    page = walker.page
    shown = office.ask("GET", f"/approvals/{approval['id']}") | {"digest": "sha256:" + "0" * 64}
    path = f"**/api/v1/approvals/{approval['id']}"
    walker.context.route(path, lambda route: route.fulfill(json={"ok": True, "data": shown, "warnings": []}), times=1)
    walker.open(f"/approvals/{approval['id']}", office.person)
    walker.hide(page)
    _approve(page)
    expect(page.get_by_text("This is not the message that you read, so nothing was sent.")).to_be_visible()
    walker.hide(page, is_hidden=False)
    office.ask("POST", f"/approvals/{approval['id']}/reject", {})


def test_a_delivery_says_that_it_waits_and_leads_to_its_approval(walker: Walker, office: Office) -> None:
    page = walker.open("/compose", office.person)
    page.get_by_label("To", exact=True).fill("sixth@example.org")
    page.get_by_label("Subject").fill("Mine")
    page.get_by_label("Text", exact=True).fill("Hello")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("Waits for approval", exact=True)).to_be_visible()
    expect(page.get_by_text("Waits for approval, and expires")).to_be_visible()
    walker.look("delivery-approval")
    page.get_by_role("link", name="All deliveries").click()
    row = page.get_by_role("listitem").filter(has_text="Mine")
    expect(row.get_by_text("Waits for approval")).to_be_visible()
    walker.look("deliveries-approval")
    row.get_by_role("link", name="Review this message").click()
    expect(page.get_by_role("heading", name="Mine", level=1)).to_be_visible()
    _approve(page)
    expect(page.get_by_text("This message was approved.")).to_be_visible()


def _policy(page: Page) -> Any:
    return page.get_by_role("form", name="Sending policy")


def test_the_owner_edits_the_policy_of_a_mailbox(walker: Walker, office: Office, house: House) -> None:
    walker.expects(400)
    box = house.connect(office.person)
    page = walker.open(f"/mailboxes/{box.id}", office.person)
    form = _policy(page)
    form.get_by_label("Every message").check()
    form.get_by_label("Only these addresses and domains").check()
    form.get_by_label("Allowed addresses and domains").fill("example.org\nnot an address@@")
    form.get_by_label("Messages an hour, at most").fill("ten")
    form.get_by_role("button", name="Save sending policy").click()
    expect(form.get_by_label("Messages an hour, at most")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Messages an hour, at most").fill("10")
    form.get_by_role("button", name="Save sending policy").click()
    expect(form.get_by_label("Allowed addresses and domains")).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_text("address@@: This is neither an address nor a domain")).to_be_visible()
    walker.look("sending-policy-wrong")
    form.get_by_label("Allowed addresses and domains").fill("example.org, ann@example.net")
    form.get_by_label("Blocked addresses and domains").fill("eve@example.org")
    form.get_by_label("Only inside").check()
    form.get_by_role("button", name="Save sending policy").click()
    expect(page.get_by_text("Sending policy saved.")).to_be_visible()
    assert office.ask("GET", f"/accounts/{box.id}/sending-policy") == {
        "approval": "always",
        "allowedRecipients": ["example.org", "ann@example.net"],
        "blockedRecipients": ["eve@example.org"],
        "maxRecipients": None,
        "perHour": 10,
        "perDay": None,
        "internalOnly": True,
    }
    page.reload()
    expect(form.get_by_label("Every message")).to_be_checked()
    expect(form.get_by_label("Allowed addresses and domains")).to_have_value("example.org\nann@example.net")
    walker.look("sending-policy")
    access = {"sharedWithAll": False, "memberIds": [house.bob.id]}  # with all, the tests of other files had it too
    house.ask(office.person, "PUT", f"/accounts/{box.id}/access", access)
    walker.page = walker.new_page()
    other = walker.open(f"/mailboxes/{box.id}", house.bob)
    expect(other.get_by_text("only its owner can change it")).to_be_visible()
    expect(_policy(other)).to_have_count(0)


def test_the_policy_of_a_key_is_edited_by_its_member_and_tightened_by_administrators(
    walker: Walker, office: Office, house: House
) -> None:
    walker.expects(403)
    page = walker.open("/keys", office.person)
    page.get_by_role("button", name="Sending policy of Agent").click()
    form = _policy(page)
    form.get_by_label("Recipients of a message, at most").fill("5")
    form.get_by_role("button", name="Save sending policy").click()
    expect(page.get_by_text("Sending policy saved.")).to_be_visible()
    assert office.ask("GET", f"/me/api-keys/{office.key_id}/sending-policy")["maxRecipients"] == 5
    walker.page = walker.new_page()
    page, form = walker.page, _policy(walker.page)
    walker.open(f"/keys?policy={office.key_id}&all=1", house.ada)
    expect(page.get_by_text("You can only make these rules stricter")).to_be_visible()
    form.get_by_label("Recipients of a message, at most").fill("6")
    form.get_by_role("button", name="Save sending policy").click()
    expect(form.get_by_label("Recipients of a message, at most")).to_have_attribute("aria-invalid", "true")
    walker.look("sending-policy-key")
    form.get_by_label("Recipients of a message, at most").fill("4")
    form.get_by_role("button", name="Save sending policy").click()
    expect(page.get_by_text("Sending policy saved.")).to_be_visible()
    assert office.ask("GET", f"/me/api-keys/{office.key_id}/sending-policy")["maxRecipients"] == 4


def test_only_the_owner_gives_an_approval_that_their_policy_asks_for(walker: Walker, house: House) -> None:
    walker.expects(403)
    owner, friend = house.add_member("olga"), house.add_member("finn")
    box = house.connect(owner)
    house.ask(owner, "PUT", f"/accounts/{box.id}/access", {"sharedWithAll": False, "memberIds": [friend.id]})
    house.ask(owner, "PUT", f"/accounts/{box.id}/sending-policy", {"approval": "always"})
    made = house.ask(friend, "POST", "/me/api-keys", {"name": "Helper", "permissionProfile": "full"}).data
    message = {"to": [{"email": "x@example.org"}], "subject": "Shared", "body": {"text": "Hi."}}
    for token, subject in ((made["token"], "By key"), (friend.token, "By hand")):
        body = {**message, "subject": subject}
        house.running.ask("POST", f"/accounts/{box.id}/send", body, token=token, Idempotency_Key=a_key())
    page = walker.open("/deliveries", friend)
    hand = page.get_by_role("listitem").filter(has_text="By hand")
    expect(hand.get_by_text("Waits for approval")).to_be_visible()
    expect(hand.get_by_role("link", name="Review this message")).to_have_count(0)
    hand.get_by_role("link", name="By hand").click()
    expect(page.get_by_text("The owner of the mailbox can approve it.")).to_be_visible()
    walker.open("/approvals")
    page.get_by_role("link", name="By key").click()
    expect(page.get_by_text("only its owner can approve")).to_be_visible()
    _approve(page)
    expect(page.get_by_text("only the owner of the mailbox can do this")).to_be_visible()
    expect(page.locator(".outcome")).to_contain_text("Waiting")
    walker.look("approval-not-owner")
    walker.page = walker.new_page()
    page = walker.open("/approvals", owner)
    expect(page.get_by_role("listitem").filter(has_text="By hand")).to_contain_text("Finn, from")
    expect(page.get_by_role("link", name="Approvals 2 waiting")).to_be_visible()
