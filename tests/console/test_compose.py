"""Writing messages: typed text is kept, and a message is sent only once."""

import os
import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, Route, expect

from tests.console.house import Box, House, Person, a_mail
from tests.console.walker import Walker
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import DROP, Keep, Stall


@pytest.fixture(scope="module")
def dora(house: House) -> Person:
    """A member for these tests."""
    return house.add_member("dora")


@pytest.fixture(scope="module")
def box(house: House, dora: Person) -> Box:
    """A mailbox with two messages."""
    picnic = a_mail(
        "Picnic", "Shall we?\nOn Sunday?", To="dora@example.org, eve@example.net", Cc="Frank <frank@example.net>"
    )
    return house.connect(dora, picnic, a_mail("Other"))


@pytest.fixture
def smtp() -> Iterator[ScriptedSmtp]:
    """An SMTP server that follows a script."""
    server = ScriptedSmtp(user="").start()
    yield server
    server.stop()


@pytest.fixture
def scripted(house: House, smtp: ScriptedSmtp) -> Box:
    """A mailbox that sends through `smtp`, with its member."""
    made = house.connect(house.add_member("fay"), smtp=smtp)
    smtp.forget()
    return made


def write(page: Page, to: str = "gail@example.net", subject: str = "Lunch", text: str = "At noon?") -> None:
    page.get_by_label("To", exact=True).fill(to)
    page.get_by_label("Subject").fill(subject)
    page.get_by_label("Text", exact=True).fill(text)


def button(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def is_sent(page: Page) -> None:
    """Wait until the page of the delivery shows that the message was sent."""
    expect(page.get_by_text("The mail server accepted the message.")).to_be_visible()


@pytest.mark.slow
def test_a_message_is_written_looked_at_and_sent(walker: Walker, box: Box, tmp_path: Path) -> None:
    receiver = walker.house.connect(box.owner)
    page = walker.open(f"/compose?account={box.id}", box.owner)
    write(page, f"{receiver.email}, half an address", "Lunch", "At noon?\n\nNaïve 雨")
    button(page, "Send")
    expect(page.get_by_text("half an address: not a complete email address")).to_be_visible()
    button(page, "Save")
    expect(page.get_by_text("Draft saved without half an address.")).to_be_visible()
    expect(page.get_by_text("Saved in Drafts without half an address")).to_be_visible()
    button(page, "Remove half an address")
    (tmp_path / "menu.txt").write_text("soup")
    page.get_by_label("Attachments", exact=True).set_input_files(tmp_path / "menu.txt")
    expect(page.get_by_text("Saved in Drafts")).to_be_visible()
    button(page, "Preview")
    dialog = page.get_by_role("dialog", name="Send this message?")
    expect(dialog).to_contain_text("1 recipient")
    expect(dialog).to_contain_text("menu.txt (4 bytes)")
    walker.look("compose-preview")
    with page.expect_request("**/send") as sent:
        dialog.get_by_role("button", name="Send", exact=True).click()
    assert sent.value.headers["if-match"].strip('"').isalnum()
    is_sent(page)
    page.reload()
    is_sent(page)
    wait_until(lambda: bool(walker.house.messages(receiver)), lambda: "nothing came", 10)
    [came] = walker.house.messages(receiver)
    whole = walker.house.ask(box.owner, "GET", f"/accounts/{receiver.id}/messages/{came['id']}").data
    assert (whole["subject"], whole["body"]["text"].strip()) == ("Lunch", "At noon?\n\nNaïve 雨")
    assert [each["filename"] for each in whole["attachments"]] == ["menu.txt"]
    assert walker.house.ask(box.owner, "GET", f"/accounts/{box.id}/drafts").data["items"] == []


def test_the_same_message_is_sent_once_however_often_one_presses(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp
) -> None:
    smtp.at("data", Stall())
    page = walker.open("/compose", scripted.owner)
    write(page)
    page.get_by_role("button", name="Send", exact=True).dblclick()
    smtp.reached("data")
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Send", exact=True)).to_have_count(0)
    expect(page.get_by_label("Text", exact=True)).to_be_disabled()
    smtp.release()
    is_sent(page)
    assert len(smtp.handed) == 1


@pytest.mark.slow
def test_two_tabs_of_one_draft_send_it_once(walker: Walker, scripted: Box, smtp: ScriptedSmtp) -> None:
    walker.expects(400, 404, 409)
    first = walker.open("/compose", scripted.owner)
    write(first)
    expect(first.get_by_text("Saved in Drafts")).to_be_visible()
    smtp.at("data", Stall())
    second, third = (walker.new_page() for _ in range(2))
    for tab in (second, third):
        tab.goto(first.url)
        expect(tab.get_by_label("Text", exact=True)).to_have_value("At noon?")
    third.get_by_label("Subject").fill("Lunch, changed")
    button(first, "Send")
    smtp.reached("data")
    button(second, "Send")
    expect(second.get_by_text("It will not be sent a second time.")).to_be_visible()
    expect(third.get_by_text("This draft is being sent")).to_be_visible()
    smtp.release()
    is_sent(first)
    button(second, "Send")
    expect(second.get_by_text("This mailbox has no such draft.")).to_be_visible()
    expect(second.get_by_role("button", name="Save as a new draft")).to_be_visible()
    button(third, "Send")
    expect(third.get_by_role("button", name="Save as a new draft")).to_be_visible()
    expect(third.get_by_label("Subject")).to_have_value("Lunch, changed")
    assert len(smtp.handed) == 1


def test_a_connection_lost_after_the_final_dot_is_told_plainly_and_nothing_is_sent_again(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp
) -> None:
    smtp.at("reply", Keep(DROP))
    page = walker.open("/compose", scripted.owner)
    write(page)
    button(page, "Send")
    for _ in range(2):
        expect(page.get_by_text("It may have been delivered")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("send|again|finish", re.IGNORECASE))).to_have_count(0)
        page.reload()
    expect(page).to_have_url(re.compile(rf"#/deliveries/{scripted.id}/dlv_\w+$"))
    assert len(smtp.handed) == 1


# A file from a slow disk is dropped: its content arrives when `comes` is called.
DROP_SLOW = """() => {
    const bytes = new Promise((resolve) => { globalThis.comes = resolve; });
    const file = { name: "slow.txt", size: 3, type: "text/plain", arrayBuffer: () => bytes };
    const dataTransfer = { types: ["Files"], files: [file] };
    const drop = Object.assign(new Event("drop", { bubbles: true }), { dataTransfer });
    document.querySelector(".compose").dispatchEvent(drop);
}"""


def test_a_refused_recipient_is_told_and_everything_stays_to_be_corrected(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp, tmp_path: Path
) -> None:
    smtp.recipients["nobody@example.net"] = "550 5.1.1 no such user"
    page = walker.open("/compose", scripted.owner)
    write(page, "gail@example.net, nobody@example.net")
    for name in ("menu.txt", "wine.txt"):
        (tmp_path / name).write_text("soup")
    page.get_by_label("Attachments", exact=True).set_input_files(tmp_path / "wine.txt")
    expect(page.get_by_role("button", name="Remove wine.txt")).to_be_visible()
    page.evaluate(DROP_SLOW)
    page.get_by_label("Attachments", exact=True).set_input_files(tmp_path / "menu.txt")
    button(page, "Remove wine.txt")
    button(page, "Send")
    expect(page.get_by_text("Sending…")).to_be_visible()
    page.evaluate("globalThis.comes(new ArrayBuffer(3))")
    expect(page.get_by_role("alert")).to_contain_text("Nobody received it")
    expect(page.get_by_label("Text", exact=True)).to_have_value("At noon?")
    button(page, "Remove nobody@example.net")
    button(page, "Send")
    is_sent(page)
    [sent] = smtp.messages
    assert sent.recipients == ("gail@example.net",)
    assert [name in sent.source for name in (b"slow.txt", b"menu.txt", b"wine.txt")] == [True, True, False]


def test_a_large_file_is_uploaded_with_progress_and_can_be_canceled(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp, tmp_path: Path
) -> None:
    file, content = tmp_path / "plans.bin", os.urandom(3 << 20)
    file.write_bytes(content)
    page = walker.open("/compose", scripted.owner)
    write(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 200_000}
    network = page.context.new_cdp_session(page)
    network.send("Network.emulateNetworkConditions", slow)
    page.get_by_label("Attachments", exact=True).set_input_files(file)
    button(page, "Save")
    expect(page.get_by_role("progressbar", name="Upload of plans.bin")).to_be_visible()
    expect(page.get_by_text(re.compile("[1-9].* of 3 MB uploaded|[1-9].* of 3.1 MB uploaded"))).to_be_visible()
    if picture := os.environ.get("PICTURE"):
        page.screenshot(path=picture, full_page=True)
    button(page, "Cancel plans.bin")
    expect(page.get_by_text("Saved in Drafts")).to_be_visible()
    expect(page.get_by_text("plans.bin")).to_have_count(0)
    network.send("Network.emulateNetworkConditions", slow | {"uploadThroughput": -1})
    bodies: list[int] = []
    page.on("request", lambda request: bodies.append(len(request.post_data_buffer or b"")))
    page.get_by_label("Attachments", exact=True).set_input_files(file)
    button(page, "Send")
    is_sent(page)
    [sent] = smtp.messages
    parsed = message_from_bytes(sent.source, policy=policy.default)
    assert [part.get_content() for part in parsed.iter_attachments()] == [content]
    assert sorted(size for size in bodies if size > 1 << 20) in ([], [len(content)])  # never in base64


def test_an_upload_that_is_refused_is_told_and_tried_again(walker: Walker, scripted: Box, tmp_path: Path) -> None:
    walker.expects(409)
    file = tmp_path / "plans.bin"
    file.write_bytes(bytes(2 << 20))
    page = walker.open("/compose", scripted.owner)
    write(page)
    told = {"code": "conflict", "message": "Your uploads would exceed their limit of 200 MiB.", "requestId": "req_1"}
    page.route("**/uploads?*", lambda route: route.fulfill(status=409, json={"error": told}))
    page.get_by_label("Attachments", exact=True).set_input_files(file)
    button(page, "Save")
    expect(page.get_by_text("Your uploads would exceed their limit of 200 MiB.")).to_be_visible()
    page.unroute("**/uploads?*")
    button(page, "Save")
    expect(page.get_by_text("Saved in Drafts")).to_be_visible()


def test_a_server_that_is_busy_leaves_everything_and_the_next_try_sends_it(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp
) -> None:
    walker.expects(503)
    smtp.at("mail", ["451 4.3.0 later"])
    page = walker.open("/compose", scripted.owner)
    write(page)
    page.route("**/drafts", lambda route: route.abort())
    button(page, "Send")
    expect(page.get_by_text("so the message was not sent")).to_be_visible()
    page.unroute("**/drafts")
    button(page, "Save")
    expect(page.get_by_text("Saved in Drafts")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    with page.expect_request("**/send") as first:
        button(page, "Send")
    expect(page.get_by_text("This attempt sent nothing")).to_be_visible()
    with page.expect_request("**/send") as second:
        button(page, "Send")
    is_sent(page)
    assert first.value.headers["idempotency-key"] == second.value.headers["idempotency-key"]
    assert len(smtp.handed) == 1
    unheard(walker)


def lose_answers(page: Page, address: str) -> None:
    """From now on, pass these requests to the appliance and lose its responses."""

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route(address, lose)


def unheard(walker: Walker) -> None:
    """Ignore the browser's errors about responses that a test lost on purpose."""
    walker.complaints[:] = [each for each in walker.complaints if "ERR_FAILED" not in each]


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_lost_answer_is_asked_for_again_under_the_same_key(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp, is_reloaded: bool
) -> None:
    page = walker.open("/compose", scripted.owner)
    write(page)
    lose_answers(page, "**/send")
    with page.expect_request("**/send") as first:
        button(page, "Send")
    expect(page.get_by_text("It is unknown whether this message was sent")).to_be_visible()
    expect(page.get_by_label("Text", exact=True)).to_be_disabled()
    if not is_reloaded:
        walker.look("compose-unknown")
    page.unroute("**/send")
    if is_reloaded:
        page.once("dialog", lambda dialog: dialog.accept())
        page.reload()
        expect(page.get_by_role("heading", name="Was it sent?")).to_be_visible()
    with page.expect_request("**/send") as second:
        button(page, "Retry")
    is_sent(page)
    assert first.value.headers["idempotency-key"] == second.value.headers["idempotency-key"]
    assert len(smtp.handed) == 1
    assert page.evaluate("Object.keys(sessionStorage).length") == 1
    unheard(walker)


def sign_in_again(page: Page) -> None:
    dialog = page.get_by_role("dialog", name="Sign in again")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()


def test_a_session_that_ends_in_the_middle_loses_nothing(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp, tmp_path: Path
) -> None:
    walker.expects(401)
    person = walker.house.sign_in(scripted.owner.email)
    page = walker.open("/compose", person)
    write(page)
    (tmp_path / "menu.txt").write_text("soup")
    page.get_by_label("Attachments", exact=True).set_input_files(tmp_path / "menu.txt")
    walker.house.ask(person, "DELETE", f"/me/sessions/{person.logged_in['session']['id']}")
    button(page, "Send")
    sign_in_again(page)
    is_sent(page)
    [sent] = smtp.handed
    assert b"menu.txt" in sent.source


def test_a_forward_in_doubt_is_not_made_again_in_another_session(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp
) -> None:
    walker.expects(401)
    house = walker.house
    house.server.deliver(scripted.email, a_mail("Picnic"))
    wait_until(lambda: bool(house.messages(scripted)), lambda: "nothing came", 10)
    [original] = house.messages(scripted)
    person = house.sign_in(scripted.owner.email)
    page = walker.open(f"/compose?account={scripted.id}&forward={original['id']}", person)
    page.get_by_label("To", exact=True).fill("gail@example.net")
    page.get_by_label("Your message").fill("See below")
    lose_answers(page, "**/forward")
    button(page, "Forward")
    expect(page.get_by_text("It is unknown whether this message was sent")).to_be_visible()
    page.unroute("**/forward")
    house.ask(person, "DELETE", f"/me/sessions/{person.logged_in['session']['id']}")
    button(page, "Retry")
    sign_in_again(page)
    expect(page.get_by_text("your session ended")).to_be_visible()
    expect(page.get_by_role("button", name="Keep editing…")).to_be_disabled()
    expect(page.get_by_label("Your message")).to_have_value("See below")
    assert "See below" not in page.evaluate("JSON.stringify(sessionStorage)")
    assert len(smtp.handed) == 1
    unheard(walker)


def test_an_answer_to_all_quotes_its_parent_and_belongs_to_it(walker: Walker, box: Box) -> None:
    house = walker.house
    [parent] = house.messages(box, q="picnic")
    page = walker.open(f"/compose?account={box.id}&reply={parent['id']}&replyAll=1", box.owner)
    expect(page.get_by_role("heading", name="Reply to all")).to_be_visible()
    expect(page.get_by_label("Subject")).to_have_value("Re: Picnic")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    page.keyboard.type("Yes!")
    expect(page.get_by_label("Text", exact=True)).to_have_value(
        re.compile(r"^Yes!\n\nOn .*, Carol wrote:\n> Shall we\?\n> On Sunday\?\n$")
    )
    for email in ("carol@example.net", "dora@example.org", "eve@example.net", "frank@example.net"):
        expect(page.get_by_role("button", name=f"Remove {email}")).to_be_visible()
    walker.look("compose-reply")
    expect(page.get_by_text("Saved in Drafts")).to_be_visible()
    page.reload()
    page.get_by_label("Subject").fill("Re: Picnic, on Sunday")
    with page.expect_response("**/drafts/*") as saved:
        button(page, "Save")
    draft = house.ask(box.owner, "GET", f"/accounts/{box.id}/drafts/{saved.value.json()['data']['id']}").data
    assert draft["threadId"] == parent["threadId"]
    assert "In-Reply-To" in draft["headers"]
    assert [each["email"] for each in draft["cc"]] == ["frank@example.net"]


def test_a_message_is_forwarded_with_its_files(walker: Walker, scripted: Box, smtp: ScriptedSmtp) -> None:
    house = walker.house
    house.server.deliver(scripted.email, a_mail("Picnic"))
    wait_until(lambda: bool(house.messages(scripted)), lambda: "nothing came", 10)
    [original] = house.messages(scripted)
    page = walker.open(f"/compose?account={scripted.id}&forward={original['id']}", scripted.owner)
    page.get_by_label("To", exact=True).fill("gail@example.net")
    page.get_by_label("Your message").fill("See below")
    button(page, "Preview")
    dialog = page.get_by_role("dialog", name="Send this message?")
    expect(dialog).to_contain_text("Fwd: Picnic")
    expect(dialog).to_contain_text("1 recipient")
    dialog.get_by_role("button", name="Keep editing").click()
    walker.look("forward")
    smtp.at("data", Stall())
    button(page, "Forward")
    smtp.reached("data")
    page.once("dialog", lambda dialog: dialog.accept())
    page.goto(f"{house.url}/#/compose?forward={original['id']}")
    page.reload()
    expect(page.get_by_role("heading", name="Was it sent?")).to_be_visible()
    with page.expect_request("**/forward"):
        button(page, "Retry")
    smtp.release()
    is_sent(page)
    assert page.evaluate("Object.keys(sessionStorage).length") == 1
    [sent] = smtp.handed
    assert b"See below" in sent.source
    page.goto(f"{house.url}/#/compose?account={scripted.id}&forward={original['id']}&as=message")
    expect(page.get_by_label("Text", exact=True)).to_have_value(re.compile("Forwarded message"))


def test_who_leaves_by_accident_is_asked_and_keeps_what_was_typed(walker: Walker, box: Box) -> None:
    page = walker.open("/compose", box.owner)
    page.get_by_label("Subject").fill("Not yet")
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", stay)
    page.get_by_role("link", name="Profile").click()
    expect(page.get_by_label("Subject")).to_have_value("Not yet")
    assert asked == ["Your latest changes are not saved yet. Leave this page anyway?"]
    expect(page.get_by_text("Saved in Drafts")).to_be_visible()
    page.get_by_role("link", name="Profile").click()
    expect(page.get_by_role("heading", name="Profile")).to_be_visible()


def test_who_leaves_while_it_is_saved_is_not_fetched_back(walker: Walker, box: Box) -> None:
    page = walker.open("/compose", box.owner)
    held: list[Route] = []
    page.route("**/drafts", lambda route: held.append(route))
    with page.expect_request("**/drafts"):
        page.get_by_label("Subject").fill("Not yet")
        button(page, "Save")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("link", name="Profile").click()
    expect(page.get_by_role("heading", name="Profile", level=1)).to_be_visible()
    with page.expect_response("**/drafts") as saved:
        held[0].continue_()
    saved.value.finished()
    page.get_by_label("Your name").fill("Dora")
    expect(page.get_by_role("heading", name="Profile", level=1)).to_be_visible()


@pytest.mark.parametrize("names_operation", [False, True])
def test_a_conflict_is_final_only_if_it_names_the_operation(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp, names_operation: bool
) -> None:
    walker.expects(409)
    page = walker.open("/compose", scripted.owner)
    write(page)
    details = [{"path": "operation", "message": "dlv_1"}] if names_operation else []
    error = {"code": "conflict", "message": "Reworded.", "requestId": "req_1", "details": details}
    page.route("**/send", lambda route: route.fulfill(status=409, json={"error": error}))
    button(page, "Send")
    told = "It will not be sent a second time" if names_operation else "It is unknown whether this message was sent"
    expect(page.get_by_text(told)).to_be_visible()
    expect(page.locator('a[href$="/dlv_1"]')).to_have_count(int(names_operation))
    assert not smtp.handed
    page.once("dialog", lambda dialog: dialog.accept())


PEOPLE = [
    ("a@x.org", [{"email": "a@x.org"}]),
    (
        "Ann <a@x.org>, b@x.org; c@x.org",
        [{"email": "a@x.org", "name": "Ann"}, {"email": "b@x.org"}, {"email": "c@x.org"}],
    ),
    ('"Lee, Ann" <a@x.org>', [{"email": "a@x.org", "name": "Lee, Ann"}]),
    ("a@x.org b@x.org\nc@x.org", [{"email": "a@x.org"}, {"email": "b@x.org"}, {"email": "c@x.org"}]),
    ("<a@x.org>", [{"email": "a@x.org"}]),
    ("Ann, b@", [{"email": "Ann", "isWrong": True}, {"email": "b@", "isWrong": True}]),
    ('"open <a@x.org', [{"email": '"open <a@x.org', "isWrong": True}]),
    (" , ;\n", []),
]


def test_recipients_are_read_as_people_type_them(walker: Walker) -> None:
    page = walker.open("/sign-in")
    read = """async (texts) => {
        const app = document.querySelector('script[type="module"]').src;
        const { parse } = await import(new URL("pages/compose/recipients.js", app).href);
        return texts.map(parse);
    }"""
    assert page.evaluate(read, [text for text, _ in PEOPLE]) == [found for _, found in PEOPLE]


def test_who_writes_on_after_a_lost_answer_sends_it_once_all_the_same(
    walker: Walker, scripted: Box, smtp: ScriptedSmtp
) -> None:
    walker.expects(400, 404)
    page = walker.open("/compose", scripted.owner)
    write(page)
    lose_answers(page, "**/send")
    button(page, "Send")
    expect(page.get_by_text("It is unknown whether this message was sent")).to_be_visible()
    page.unroute("**/send")
    button(page, "Keep editing")
    page.get_by_label("Subject").fill("Lunch, changed")
    button(page, "Send")
    expect(page.get_by_role("button", name="Save as a new draft")).to_be_visible()
    expect(page.get_by_label("Subject")).to_have_value("Lunch, changed")
    assert len(smtp.handed) == 1
    unheard(walker)
