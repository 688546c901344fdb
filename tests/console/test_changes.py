"""Changes that others make appear by the stream of events, without flicker, and polling takes over without it."""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from playwright.sync_api import Page, Request, Route, expect

from tests.console.house import a_mail
from tests.console.walker import Walker
from tests.servers.desk import a_key, a_message
from tests.servers.running import PASSWORD

_STREAM = "**/api/v1/events/stream"
#: Milliseconds until a change must be visible. The page has a second; the rest is for a busy machine.
_SOON = 3_000


class Watched:
    """A reader's page, and the requests it makes."""

    def __init__(self, walker: Walker, *sources: bytes, name: str = "reader") -> None:
        self.house = walker.house
        self.person = self.house.add_member(name)
        self.box = self.house.connect(self.person, *sources)
        self.page, self.walker = walker.page, walker
        self.streams: list[Request] = []
        self.asked: Counter[str] = Counter()
        self.page.on("request", self._saw)

    def _saw(self, request: Request) -> None:
        path = urlsplit(request.url).path.removeprefix("/api/v1")
        self.asked[path] += 1
        if path == "/events/stream":
            self.streams.append(request)

    def open(self, path: str) -> Page:
        """Open a page of the console, and wait for its stream."""
        self.walker.open(path, self.person)
        self.wait_for_stream()
        return self.page

    def wait_for_stream(self, count: int = 1) -> None:
        """Wait until the page has opened so many streams."""
        until = time.monotonic() + 20
        while len(self.streams) < count:
            assert time.monotonic() < until, "no stream"
            self.page.wait_for_timeout(50)
        self.streams[count - 1].response()

    def act(self, action: str, *ids: str) -> None:
        """Do something to messages, as another program."""
        body = {"action": action, "messageIds": list(ids)}
        answer = self.house.ask(self.person, "POST", f"/accounts/{self.box.id}/messages/actions", body)
        assert answer.status == 200, answer.body

    def count_events(self, position: str) -> int:
        """Return how many events there are after a position."""
        count = 0
        while True:
            page = self.house.ask(self.person, "GET", f"/events?after={position}&limit=100").data
            if not page["items"]:
                return count
            count, position = count + len(page["items"]), page["nextPosition"]

    def ids(self) -> dict[str, str]:
        """Return the IDs of the messages by subject."""
        return {one["subject"]: one["id"] for one in self.house.messages(self.box, limit="100")}


def test_lists_and_counts_follow_what_others_do_and_idle_pages_ask_nothing(walker: Walker) -> None:
    watched = Watched(walker, a_mail("One"), a_mail("Two"))
    page = watched.open("/mail")
    watched.act("star", watched.ids()["One"])
    row = page.get_by_role("button", name="Star “One”")
    expect(row).to_have_attribute("aria-pressed", "true", timeout=_SOON)
    expect(page.get_by_role("link", name="Inbox 2 unread")).to_be_visible()
    watched.act("markRead", watched.ids()["Two"])
    expect(page.get_by_role("link", name="Inbox 1 unread")).to_be_visible(timeout=_SOON)
    watched.house.server.deliver(watched.box.email, a_mail("Three"))
    expect(page.get_by_role("link", name="Three")).to_be_visible()
    page.wait_for_timeout(2_000)
    watched.asked.clear()
    page.wait_for_timeout(12_000)  # longer than the list was polled without the stream
    assert set(watched.asked) <= {"/status"}, watched.asked
    assert len(watched.streams) == 1


def test_a_storm_of_changes_is_shown_once_a_second_and_disturbs_nobody(walker: Walker) -> None:
    count, rounds = 150, 21
    watched = Watched(walker, *(a_mail(f"Number {number:03}") for number in range(count)))
    page = watched.open("/mail")
    rows = page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(rows).to_have_count(50)
    chosen = rows.nth(30)
    chosen.scroll_into_view_if_needed()
    chosen.get_by_role("checkbox").check()
    chosen.get_by_role("link").focus()
    id_, before = chosen.get_attribute("data-id"), page.evaluate("scrollY")
    page.evaluate(
        "() => { globalThis.lost = 0; new MutationObserver((all) => { for (const one of all) lost +="
        " [...one.removedNodes].filter((node) => node.nodeName === 'LI' || node.nodeName === 'UL').length })"
        ".observe(document.querySelector('main'), {childList: true, subtree: true}) }"
    )
    events = watched.house.ask(watched.person, "GET", "/events").data["nextPosition"]
    watched.asked.clear()
    began = page.evaluate("performance.now()")
    ids = [one["id"] for one in watched.house.messages(watched.box, limit="100")]
    for number in range(rounds):
        watched.act("unstar" if number % 2 else "star", *ids)
        page.wait_for_timeout(50)
    expect(page.locator('.messages .star[aria-pressed="true"]')).to_have_count(50)
    page.wait_for_timeout(2_000)
    seconds = (page.evaluate("performance.now()") - began) / 1000
    assert watched.count_events(events) >= 100 * rounds
    lists = watched.asked[f"/accounts/{watched.box.id}/messages"]
    assert 1 <= lists <= seconds + 2, (lists, seconds)
    assert watched.asked[f"/accounts/{watched.box.id}/folders"] <= seconds + 2
    assert page.evaluate("scrollY") == before
    assert page.evaluate("lost") == 0
    expect(page.locator(f'[data-id="{id_}"] > a')).to_be_focused()
    expect(page.locator(f'[data-id="{id_}"] > input')).to_be_checked()


def test_a_question_about_the_focused_message_outlives_a_refresh(walker: Walker) -> None:
    watched = Watched(walker, a_mail("One"), a_mail("Two"))
    page = watched.open("/mail")
    page.get_by_role("link", name="One").focus()
    page.keyboard.press("l")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    watched.act("star", watched.ids()["Two"])
    starred = page.locator(".messages .star[aria-pressed='true']")
    expect(starred).to_have_count(1, timeout=_SOON)
    dialog.get_by_label("Label", exact=True).fill("work")
    page.keyboard.press("Enter")
    expect(page.get_by_role("listitem").filter(has_text="One").get_by_text("work")).to_be_visible()


def test_an_open_message_follows_and_keeps_its_frame(walker: Walker) -> None:
    watched = Watched(walker, a_mail("Letter", html="<p>Dear reader</p>"))
    id_ = watched.ids()["Letter"]
    page = watched.open(f"/mail/{watched.box.id}/{id_}")
    text = page.frame_locator("iframe").get_by_text("Dear reader")
    expect(text).to_be_visible()
    text.evaluate("(node) => { node.textContent += ', still here' }")
    watched.act("star", id_)
    expect(page.get_by_role("button", name="Remove star")).to_be_visible(timeout=_SOON)
    expect(page.frame_locator("iframe").get_by_text("still here")).to_be_visible()


def test_a_conversation_grows_and_what_arrives_stays_unread(walker: Walker) -> None:
    watched = Watched(walker, a_mail("Plan", "First.", Message_ID="<plan-1@example.net>"))
    [first] = watched.house.messages(watched.box)
    page = watched.open(f"/threads/{watched.box.id}/{first['threadId']}")
    expect(page.locator(".mail-part")).to_have_count(1)
    reply = a_mail("Re: Plan", "Second.", In_Reply_To="<plan-1@example.net>", References="<plan-1@example.net>")
    watched.house.server.deliver(watched.box.email, reply)
    expect(page.locator(".mail-part")).to_have_count(2)
    page.wait_for_timeout(1_000)
    newest = next(one for one in watched.house.messages(watched.box) if one["subject"] == "Re: Plan")
    assert not newest["flags"]["read"]


def test_deliveries_and_scheduled_messages_follow(walker: Walker) -> None:
    watched = Watched(walker)
    page = watched.open("/scheduled")
    expect(page.get_by_text("No scheduled messages.")).to_be_visible()
    in_a_week = (datetime.now(UTC) + timedelta(days=7)).isoformat()
    body = a_message("bob@example.test", subject="In a week", sendAt=in_a_week)
    path = f"/accounts/{watched.box.id}"
    watched.house.ask(watched.person, "POST", f"{path}/send", body, **{"Idempotency-Key": a_key()})
    expect(page.get_by_role("link", name="In a week")).to_be_visible(timeout=_SOON)
    walker.open("/deliveries")
    expect(page.get_by_text("Scheduled: ")).to_be_visible()
    [one] = watched.house.ask(watched.person, "GET", f"{path}/scheduled").data["items"]
    assert watched.house.ask(watched.person, "DELETE", f"{path}/scheduled/{one['id']}").status == 200
    expect(page.get_by_text("Scheduled: ")).to_have_count(0, timeout=_SOON)


def test_mailboxes_and_their_status_follow(walker: Walker) -> None:
    watched = Watched(walker)
    page = watched.open("/mailboxes")
    expect(page.get_by_role("article")).to_have_count(1)
    box = watched.house.connect(watched.person, a_mail("One"))  # returns when the mailbox is up to date
    expect(page.get_by_role("article", name=box.email)).to_contain_text("Up to date", timeout=_SOON)
    watched.open("/mail")
    expect(page.get_by_label("Mailbox", exact=True)).to_contain_text(box.email)


def test_a_hidden_tab_has_no_stream_and_goes_on_where_it_stopped(walker: Walker) -> None:
    watched = Watched(walker, a_mail("One"), a_mail("Two"))
    page = watched.open("/mail")
    assert "last-event-id" not in watched.streams[0].headers
    watched.act("star", watched.ids()["One"])
    expect(page.get_by_role("button", name="Star “One”")).to_have_attribute("aria-pressed", "true", timeout=_SOON)
    with page.expect_event("requestfailed", lambda one: one == watched.streams[0]):
        walker.hide(page)
    watched.act("star", watched.ids()["Two"])
    walker.hide(page, is_hidden=False)
    expect(page.get_by_role("button", name="Star “Two”")).to_have_attribute("aria-pressed", "true", timeout=_SOON)
    assert len(watched.streams) == 2
    assert watched.streams[1].headers["last-event-id"]


def test_a_reset_reads_the_lists_anew(walker: Walker) -> None:
    watched = Watched(walker, a_mail("One"), a_mail("Two"))
    page = watched.open("/mail")
    watched.act("star", watched.ids()["One"])
    expect(page.get_by_role("button", name="Star “One”")).to_have_attribute("aria-pressed", "true", timeout=_SOON)
    walker.hide(page)
    watched.act("star", watched.ids()["Two"])

    def lose_position(route: Route) -> None:
        route.continue_(headers={**route.request.headers, "last-event-id": "0123456789abcdef-7"})

    page.route(_STREAM, lose_position)
    walker.hide(page, is_hidden=False)
    expect(page.get_by_role("button", name="Star “Two”")).to_have_attribute("aria-pressed", "true", timeout=_SOON)


def test_without_the_stream_lists_are_polled_until_it_is_back(walker: Walker) -> None:
    walker.expects(503)
    watched = Watched(walker, a_mail("One"), a_mail("Two"))
    page = walker.page
    page.route(_STREAM, lambda route: route.fulfill(status=503, body="busy"))
    walker.open("/mail", watched.person)
    expect(page.get_by_role("button", name="Star “One”")).to_be_visible()
    watched.act("star", watched.ids()["One"])
    expect(page.get_by_role("button", name="Star “One”")).to_have_attribute("aria-pressed", "true")
    page.unroute(_STREAM)
    watched.wait_for_stream(len(watched.streams) + 1)
    watched.act("star", watched.ids()["Two"])
    expect(page.get_by_role("button", name="Star “Two”")).to_have_attribute("aria-pressed", "true", timeout=_SOON)


def test_signing_out_closes_the_stream_and_an_ended_session_is_seen_at_once(walker: Walker) -> None:
    walker.expects(401)
    watched = Watched(walker, a_mail("One"))
    page = watched.open("/mail")
    house, person = watched.house, watched.person
    [session] = [one for one in house.ask(person, "GET", "/me/sessions").data if one["current"]]
    assert house.ask(person, "DELETE", f"/me/sessions/{session['id']}").status == 200
    dialog = page.get_by_role("dialog", name="Sign in again")
    expect(dialog).to_be_visible(timeout=5_000)
    known = len(watched.streams)
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()
    watched.wait_for_stream(known + 1)
    with page.expect_event("requestfailed", lambda one: one == watched.streams[-1]):
        page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
