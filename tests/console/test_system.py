"""The system page: warnings, mailboxes, the queue, and charts with their numbers."""

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from playwright.sync_api import Page, expect

from tests.console.house import Box, House, Person, a_mail
from tests.console.walker import Walker
from tests.servers.desk import a_key, a_message
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import DROP, Keep


@pytest.fixture(scope="module")
def busy(house: House) -> Iterator[Person]:
    """A member with received mail and with deliveries of every outcome."""
    person, user = house.add_member("karl"), house.server.fresh_user()
    now = format_datetime(datetime.now(UTC))
    house.server.deliver(user, *[a_mail(f"Mail {number}", Date=now) for number in range(5)])
    smtp = ScriptedSmtp(user=user).start()
    servers = house.servers(user)
    servers["smtp"]["port"] = smtp.port
    box = Box(house.ask(person, "POST", "/accounts", {"email": user, **servers}).data["id"], user, person)
    house.wait_until_ready(box)

    def send(to: str, **fields: str) -> None:
        body, key = a_message(to, **fields), {"Idempotency-Key": a_key()}
        assert house.ask(person, "POST", f"/accounts/{box.id}/send", body, **key).status < 300

    smtp.recipients["nobody@example.test"] = "550 5.1.1 no such user"
    for _ in range(4):
        send("bob@example.test")
    send("nobody@example.test")
    send("bob@example.test", sendAt=(datetime.now(UTC) + timedelta(days=2)).isoformat())
    smtp.at("reply", Keep(DROP))
    send("bob@example.test")
    yield person
    smtp.stop()


def card(page: Page, name: str) -> str:
    """Return the text of a card."""
    return page.get_by_role("region", name=name, exact=True).inner_text()


def test_a_member_sees_their_part(walker: Walker, busy: Person) -> None:
    page = walker.open("/system", busy)
    mailboxes = page.get_by_role("region", name="Mailboxes")
    expect(mailboxes.get_by_role("listitem")).to_have_count(1)
    expect(mailboxes).to_contain_text("Up to date")
    assert "1 waiting" in card(page, "In progress")
    assert "1 uncertain" in card(page, "In progress")
    assert "free on its disk" in card(page, "Store")
    expect(page.get_by_text("1 message may not have been delivered.")).to_be_visible()
    expect(page.get_by_role("region", name="Newest backup")).to_be_hidden()
    expect(page.get_by_role("region", name="HTTPS")).to_be_hidden()
    bars = page.get_by_role("img", name="Deliveries. Sent: 4, In progress: 1, Uncertain: 1, Not sent: 1.")
    expect(bars).to_be_visible()
    expect(page.get_by_role("img", name="Received. Messages: 5.")).to_be_visible()
    walker.look("system-member")


def test_the_numbers_are_there_without_the_bars(walker: Walker, busy: Person) -> None:
    page = walker.open("/system", busy)
    page.get_by_text("Deliveries in numbers").click()
    table = page.get_by_role("region", name="Deliveries in numbers").get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(25)
    cells = [row.split("\t")[1:] for row in table.inner_text().splitlines()[1:]]
    assert [sum(int(row[column]) for row in cells) for column in range(4)] == [4, 1, 1, 1]
    page.get_by_label("Time range").select_option("7 days")
    expect(table.get_by_role("row")).to_have_count(29)


def test_nothing_has_happened_yet(walker: Walker) -> None:
    walker.expects(503)
    page, told = walker.page, walker.page.get_by_text("No problems.")
    page.route("**/status/history?hours=24", lambda _: None)
    walker.open("/system", walker.house.add_member("lena"))
    page.get_by_label("Time range").select_option("7 days")
    page.get_by_text("Deliveries in numbers").click()
    rows = page.get_by_role("region", name="Deliveries in numbers").get_by_role("row")
    expect(rows, "what was asked for first is not waited for").to_have_count(29)
    expect(page.get_by_text("No mailbox is connected.")).to_be_visible()
    expect(page.get_by_role("img", name="Deliveries. No messages sent.")).to_be_visible()
    expect(page.get_by_role("img", name="Received. No mail received.")).to_be_visible()
    expect(told).to_be_visible()
    page.route("**/api/v1/**", lambda route: route.fulfill(status=503, body="away"))
    page.get_by_role("link", name="Profile").click()
    page.get_by_role("link", name="System").click()
    expect(page.get_by_role("main").get_by_role("alert")).to_have_count(1)
    expect(page.get_by_text("The information below is from")).to_be_visible()
    expect(told).to_be_hidden()
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(told).to_be_visible()
    expect(page.get_by_text("No mailbox is connected.")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("alert")).to_have_count(0)


def test_an_administrator_sees_all_and_what_to_see_to(walker: Walker, busy: Person) -> None:
    house = walker.house
    admin = house.add_member("mona", role="admin")
    page = walker.open("/system", admin)
    expect(page.get_by_role("region", name="Mailboxes")).to_contain_text("user")
    assert "on this computer" in card(page, "HTTPS")
    expect(page.get_by_role("region", name="Newest backup").get_by_role("link", name="Backups")).to_be_visible()
    walker.look("system-admin")


def test_warnings_come_first(own_walker: Walker) -> None:
    house = own_walker.house
    assert house.ask(house.ada, "PATCH", "/admin/settings", {"store.low_space_mib": 1 << 30}).status == 200
    assert house.ask(house.ada, "POST", "/admin/backups", {}).status == 201
    page = own_walker.open("/system", house.ada)
    expect(page.get_by_text("The disk of the store is almost full")).to_be_visible()
    expect(page.get_by_role("region", name="Newest backup")).to_contain_text("verified")


@pytest.mark.slow
def test_a_crash_is_shown_on_every_page_until_an_administrator_dismisses_it_for_all(own_walker: Walker) -> None:
    house = own_walker.house
    bob = house.add_member("bob")
    assert house.running.process is not None
    house.running.process.send_signal(signal.SIGSEGV)
    assert house.running.process.wait(60) == -signal.SIGSEGV
    house.running.stop()
    house.running.start()
    mona = house.add_member("mona", role="admin")

    page = own_walker.open("/profile", house.ada)
    notice = page.get_by_role("status").filter(has_text="The appliance crashed on")
    expect(notice).to_be_visible()
    notice.get_by_role("link", name="Show details").click()
    warning = page.get_by_text("The appliance crashed (SIGSEGV) at")
    expect(warning).to_contain_text("logs/crash-")
    expect(notice).to_be_visible()
    own_walker.look("system-crash")
    page.close()

    page = own_walker.open("/system", bob, own_walker.new_page())
    expect(page.get_by_text("No problems.")).to_be_visible()
    expect(page.get_by_text("crashed")).to_have_count(0)
    page.close()

    page = own_walker.open("/system", mona, own_walker.new_page())
    page.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("crashed")).to_have_count(0)
    page.close()
    page = own_walker.open("/system", house.ada, own_walker.new_page())
    expect(page.get_by_text("No problems.")).to_be_visible()
    expect(page.get_by_text("crashed")).to_have_count(0)
