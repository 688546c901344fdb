"""Reading a message and a conversation, and the actions on them."""

from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default

from playwright.sync_api import Route, expect

from tests.console.house import Box, a_mail
from tests.console.walker import Walker
from tests.servers.mailboxes import wait_until

_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)
_LETTER = """<html><head><style>h1 { color: #14532d; font-size: 24px } td { padding: 6px }
@media (max-width: 600px) { table { width: 100% } }</style></head>
<body bgcolor="#f4f4f4"><table width="560" align="center" bgcolor="#ffffff"><tr><td>
<h1>Spring news</h1><p style="color: #333">Dear reader, the garden is <b>open</b> again.
<a href="https://news.example/online=1">Read more</a> or look at
<a href="https://tracker.example/go">https://garden.example/map</a>, see
<a href="cid:plan@example.net">the plan</a>,
<a href="mailto:garden%E0@example.net,b@example.net?Subject=1+1&body=Hi%0D%0Athere">write</a>.</p>
<p style="display: none">words nobody sees</p>
<img src="cid:flower@example.net" width="80" height="80" alt="A flower">
<img src="https://pictures.example/wide.png" alt="The garden from above">
</td></tr></table></body></html>"""


def _letter() -> bytes:
    mail = BytesParser(EmailMessage, policy=default).parsebytes(a_mail("Spring news", "The garden is open.", _LETTER))
    html = list(mail.iter_parts())[1]
    assert isinstance(html, EmailMessage)
    html.add_related(_PIXEL, "image", "png", cid="<flower@example.net>")
    mail.add_attachment(
        b"plan" * 400,
        maintype="application",
        subtype="pdf",
        filename="plan of the garden.pdf",
        cid="<plan@example.net>",
    )
    mail.add_attachment(b"MZ", maintype="application", subtype="octet-stream", filename="plan.exe")
    return mail.as_bytes()


def _open(walker: Walker, box: Box) -> str:
    """Open the newest message and return its ID."""
    listed = walker.house.messages(box)[0]
    walker.open(f"/mail/{box.id}/{listed['id']}", box.owner)
    return str(listed["id"])


def test_a_formatted_message_is_read(walker: Walker) -> None:
    box = walker.house.connect(walker.house.add_member("reader"), _letter())
    message = _open(walker, box)
    page = walker.page
    expect(page.get_by_role("heading", name="Spring news", level=1)).to_be_visible()
    frame = page.frame_locator("iframe.mail-frame")
    expect(frame.get_by_role("heading", name="Spring news")).to_have_css("color", "rgb(20, 83, 45)")
    expect(frame.get_by_text("The garden from above")).to_be_visible()
    expect(frame.get_by_role("table")).to_have_css("width", "560px")
    expect(frame.get_by_alt_text("A flower")).to_have_js_property("naturalWidth", 1)
    expect(page.get_by_text("1 picture was not loaded from other servers")).to_be_visible()
    expect(page.get_by_text("For AI agents:")).to_be_visible()
    expect(page.get_by_text("Monday, 1 June 2026 at 10:00:00 UTC")).to_be_visible()
    expect(page.get_by_role("heading", name="2 attachments")).to_be_visible()
    expect(page.get_by_role("button", name="Mark as unread")).to_be_visible()
    assert walker.house.ask(box.owner, "GET", f"/accounts/{box.id}/messages/{message}").data["flags"]["read"]
    walker.look("message")


def test_style_that_cannot_be_judged_is_said_beside_the_message(walker: Walker) -> None:
    letter = a_mail("Doubt", "Plain", "<p>Seen</p><p style='mask:url(x);color:oklch(1 0 0)'>Maybe</p>")
    box = walker.house.connect(walker.house.add_member("doubter"), letter)
    _open(walker, box)
    told = "Some text may be hidden: the appliance cannot judge color: oklch() (1), mask (1)."
    expect(walker.page.get_by_text(told)).to_be_visible()


def test_a_link_says_where_it_leads_before_it_is_opened(walker: Walker) -> None:
    box = walker.house.connect(walker.house.add_member("reader"), _letter())
    _open(walker, box)
    page = walker.page
    frame = page.frame_locator("iframe.mail-frame")
    frame.get_by_role("link", name="https://garden.example/map").click()
    dialog = page.get_by_role("dialog", name="Open this link?")
    expect(dialog.get_by_text("https://tracker.example/go")).to_be_visible()
    expect(dialog.get_by_text("The message shows garden.example, which is a different site.")).to_be_visible()
    walker.look("message-link")
    dialog.get_by_role("button", name="Cancel").click()
    frame.get_by_role("link", name="Read more").press("Enter")
    expect(dialog.get_by_text("https://news.example/online=1")).to_be_visible()
    walker.context.route("https://news.example/**", lambda route: route.fulfill(body="news"))
    with page.expect_popup() as opened:
        dialog.get_by_role("button", name="Open in a new tab").click()
    assert opened.value.evaluate("window.opener") is None
    assert opened.value.evaluate("document.referrer") == ""
    frame.get_by_role("link", name="write").click()
    page.get_by_role("button", name="Write a message").click()
    expect(page.get_by_label("Subject")).to_have_value("1+1")
    expect(page.get_by_label("Text", exact=True)).to_have_value("Hi\nthere")
    expect(page.get_by_text("b@example.net")).to_be_visible()


#: The text of a link, and the host that a reader sees in it.
_NAMES = (
    ("www\u2024bank\u2024example", "www.bank.example"),  # one dot leader
    ("www\u3002bank\u3002example", "www.bank.example"),  # ideographic full stop
    ("\uff57\uff57\uff57\uff0ebank\uff0eexample", "www.bank.example"),  # fullwidth letters and full stops
    ("bank\uff61example", "bank.example"),  # halfwidth ideographic full stop
    ("bank\u200b.\u2060example", "bank.example"),  # an invisible character in between
)


def test_a_link_that_imitates_a_host_in_other_characters_is_told(walker: Walker) -> None:
    links = [f'<p><a href="https://thief.example/{at}">{words}</a></p>' for at, (words, _) in enumerate(_NAMES)]
    honest = '<p><a href="https://bank.example/own">www\uff0ebank\uff0eexample</a></p>'
    letter = a_mail("Your bank", "Your bank.", f"<html><body>{''.join(links)}{honest}</body></html>")
    _open(walker, walker.house.connect(walker.house.add_member("customer"), letter))
    frame = walker.page.frame_locator("iframe.mail-frame")
    dialog = walker.page.get_by_role("dialog", name="Open this link?")
    for at, (_, named) in enumerate(_NAMES):
        frame.get_by_role("link").nth(at).click()
        expect(dialog.get_by_text(f"https://thief.example/{at}")).to_be_visible()
        expect(dialog.get_by_text(f"The message shows {named}, which is a different site.")).to_be_visible()
        dialog.get_by_role("button", name="Cancel").click()
    frame.get_by_role("link").nth(len(_NAMES)).click()
    expect(dialog.get_by_text("https://bank.example/own")).to_be_visible()
    expect(dialog.get_by_text("which is a different site")).to_have_count(0)


def test_text_source_and_attachments(walker: Walker) -> None:
    box = walker.house.connect(walker.house.add_member("reader"), _letter())
    _open(walker, box)
    page = walker.page
    page.get_by_role("button", name="Plain text").click()
    expect(page.locator(".mail-text")).to_have_text("The garden is open.\n")
    expect(page.get_by_role("heading", name="3 attachments")).to_be_visible()
    page.get_by_role("button", name="Raw message").click()
    expect(page.get_by_label("Raw message")).to_contain_text("Content-ID: <flower@example.net>")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Download plan of the garden.pdf").click()
    assert saving.value.suggested_filename == "plan of the garden.pdf"
    assert saving.value.path().read_bytes() == b"plan" * 400
    expect(page.get_by_text("Files of this type can run programs")).to_have_count(1)


def test_what_is_done_to_a_message_can_be_taken_back(walker: Walker) -> None:
    box = walker.house.connect(walker.house.add_member("tidy"), a_mail("To be moved"))
    message = _open(walker, box)
    page = walker.page
    page.get_by_role("button", name="Star").click()
    expect(page.get_by_role("button", name="Remove star")).to_be_visible()
    page.get_by_role("button", name="Move to trash").click()
    with page.expect_response("**/messages/actions/undo"):
        page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    wait_until(lambda: bool(walker.house.messages(box, folder="inbox")), lambda: "it is not back", 10)
    page.goto(f"{walker.house.url}/#/mail/{box.id}/{message}")
    expect(page.get_by_role("button", name="Mark as unread")).to_be_visible()  # opening has marked it as read
    page.keyboard.press("u")
    expect(page.get_by_role("button", name="Mark as read")).to_be_visible()
    page.keyboard.press("l")
    expect(page.get_by_label("Label", exact=True)).to_be_focused()
    page.keyboard.type("urgent\n")
    expect(page.locator(".mail-labels")).to_have_text("urgent")
    page.keyboard.press("r")
    expect(page).to_have_url(f"{walker.house.url}/#/compose?reply={message}&account={box.id}")


def test_what_is_answered_late_is_of_the_message_that_it_was_asked_for(walker: Walker) -> None:
    box = walker.house.connect(walker.house.add_member("quick"), a_mail("One"), a_mail("Two"), a_mail("Three"))
    held: list[Route] = []
    page = walker.open("/mail", box.owner)
    page.route("**/messages/actions", lambda route: held.append(route))
    page.get_by_role("list", name="Messages").get_by_role("link").first.click()
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("Three")
    with page.expect_request(lambda one: "archive" in (one.post_data or "")):  # after it was marked as read
        page.get_by_role("button", name="Archive").click()
    page.keyboard.press("j")
    expect(title).to_have_text("Two")
    for route in held[:2]:
        with page.expect_response(route.request.url):
            route.continue_()
    expect(page.get_by_text("1 message archived.")).to_be_visible()
    expect(title).to_have_text("Two")
    expect(page.get_by_role("button", name="Archive")).to_be_visible()


def test_a_conversation_is_read_as_one(walker: Walker) -> None:
    first = a_mail("Lunch", "Shall we have lunch?", Message_ID="<lunch@example.net>")
    again = a_mail(
        "Re: Lunch", "With pleasure, at one.", In_Reply_To="<lunch@example.net>", References="<lunch@example.net>"
    )
    box = walker.house.connect(walker.house.add_member("reader"), first, again)
    _open(walker, box)
    page = walker.page
    page.get_by_role("link", name="Show conversation").click()
    expect(page.get_by_role("heading", name="Lunch", level=1)).to_be_visible()
    expect(page.get_by_text("With pleasure, at one.")).to_be_visible()
    page.locator("summary", has_text="Shall we have lunch?").click()
    expect(page.locator(".mail-text", has_text="Shall we have lunch?")).to_be_visible()
    walker.look("thread")


def test_a_message_that_is_gone_is_told(walker: Walker) -> None:
    walker.expects(404)
    box = walker.house.connect(walker.house.add_member("reader"))
    walker.open(f"/mail/{box.id}/msg_00000000000000000000000000", box.owner)
    expect(walker.page.get_by_role("alert")).to_be_visible()
