"""Deliveries: the list, the steps of each, and resolving an uncertain one."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.console.house import House, Person
from tests.console.walker import Walker
from tests.servers.desk import a_key, a_message
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import DROP, Keep, Stall


class Sender:
    """A member with a mailbox that sends through a scripted SMTP server."""

    def __init__(self, house: House) -> None:
        self.house, self.person = house, house.add_member("grace")
        self.smtp = ScriptedSmtp(user="").start()
        self.box = house.connect(self.person, smtp=self.smtp)

    def send(self, to: str = "bob@example.test", **fields: Any) -> Any:
        """Send a message; return the delivery operation."""
        body, key = a_message(to, **fields), {"Idempotency-Key": a_key()}
        return self.house.ask(self.person, "POST", f"/accounts/{self.box.id}/send", body, **key).data

    def uncertain(self, subject: str) -> Any:
        """Send a message and lose the connection after the final dot."""
        self.smtp.at("reply", Keep(DROP))
        operation = self.send(subject=subject)
        self.smtp.at("reply", None)
        assert operation["status"] == "uncertain"
        return operation

    def path(self, operation: Any) -> str:
        """Return the path of a delivery's page."""
        return f"/deliveries/{self.box.id}/{operation['operationId']}"


@pytest.fixture(scope="module")
def sender(house: House) -> Iterator[Sender]:
    """The sender of all tests in this file."""
    made = Sender(house)
    yield made
    made.smtp.stop()


def test_nobody_has_sent_anything(walker: Walker) -> None:
    page = walker.open("/deliveries", walker.house.add_member("heidi"))
    expect(page.get_by_text("Nothing has been sent yet.")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("button", name="Write a message")).to_be_visible()


def test_what_was_sent_is_listed_and_told_step_by_step(walker: Walker, sender: Sender) -> None:
    sender.send(
        "guest0@example.test", subject="A walk on Sunday", cc=[{"email": f"guest{n}@example.test"} for n in range(1, 6)]
    )
    sender.smtp.recipients["nobody@example.test"] = "550 5.1.1 no such user"
    sender.send("nobody@example.test", subject="To nobody")
    sender.send(subject="In a week", sendAt=(datetime.now(UTC) + timedelta(days=7)).isoformat())
    sender.uncertain("The contract")
    page = walker.open("/deliveries", sender.person)
    rows = page.get_by_role("list", name="Deliveries").get_by_role("listitem")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("Uncertain")
    expect(rows.nth(1)).to_contain_text("Waiting")
    expect(rows.nth(2)).to_contain_text("The mail server rejected a recipient")
    expect(rows.nth(3)).to_contain_text("To guest0@example.test, guest1@example.test, and 4 others")
    walker.look("deliveries")
    page.get_by_label("Status").select_option("Sent")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="A walk on Sunday").click()
    expect(page.get_by_role("heading", name="A walk on Sunday")).to_be_focused()
    steps = page.get_by_role("region", name="What happened").get_by_role("listitem")
    expect(steps.last).to_have_text("A copy is in Sent")
    expect(steps.first).to_contain_text("Accepted")
    expect(page.get_by_role("link", name="Open the sent message")).to_be_visible()
    page.get_by_role("link", name="All deliveries").click()
    page.get_by_role("link", name="Message to nobody@example.test").click()
    expect(page.get_by_role("region", name="What happened").get_by_role("listitem").last).to_contain_text("550 5.1.1")
    expect(page.get_by_text("nobody@example.test").first).to_be_visible()
    walker.look("delivery-failed")


def test_a_filter_that_nothing_fits_says_so(walker: Walker, sender: Sender) -> None:
    page = walker.open(f"/deliveries/{sender.box.id}?status=sending", sender.person)
    expect(page.get_by_text("No deliveries match.")).to_be_visible()
    expect(page.get_by_label("Mailbox")).to_have_value(sender.box.id)
    expect(page.get_by_label("Status")).to_have_value("sending")
    page.get_by_role("button", name="Show all deliveries").click()
    expect(page.get_by_role("list", name="Deliveries")).to_be_visible()


@pytest.mark.parametrize(
    ("button", "answer", "outcome"),
    [("Mark as delivered…", "Mark as delivered", "Sent"), ("Mark as not sent…", "Mark as not sent", "Not sent")],
)
def test_an_uncertain_one_is_decided(walker: Walker, sender: Sender, button: str, answer: str, outcome: str) -> None:
    operation = sender.uncertain(f"Doubtful, then: {outcome}")
    page = walker.open(sender.path(operation), sender.person)
    expect(page.get_by_text("Do not send it again until you know.")).to_be_visible()
    expect(page.get_by_role("region", name="Resolve this delivery")).to_contain_text("@")
    expect(page.locator("p.warning"), "the page explains more than the API's warning").to_have_count(0)
    if outcome == "Sent":
        walker.look("delivery-uncertain")
    page.get_by_role("button", name=button).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name=button)).to_be_focused()
    page.get_by_role("button", name=button).click()
    dialog.get_by_role("button", name=answer).click()
    told = page.get_by_role("main").get_by_role("status").filter(has_text=outcome)
    expect(told).to_be_focused()
    expect(page.get_by_role("region", name="Resolve this delivery")).to_be_hidden()


def test_a_decision_that_came_too_late_is_told(walker: Walker, sender: Sender) -> None:
    walker.expects(409)
    operation = sender.uncertain("Decided twice")
    page = walker.open(sender.path(operation), sender.person)
    page.get_by_role("button", name="Mark as not sent…").click()
    path = f"/accounts/{sender.box.id}/delivery-operations/{operation['operationId']}/resolve"
    assert sender.house.ask(sender.person, "POST", path, {"outcome": "succeeded"}).status == 200
    page.get_by_role("dialog").get_by_role("button", name="Mark as not sent").click()
    # By then the page may show the other decision already.
    expect(page.locator(".notice.warning")).to_contain_text("succeeded")


def test_who_may_not_decide_is_told_who_may(walker: Walker, sender: Sender) -> None:
    house = sender.house
    guest = house.add_member("ivan")
    access = {"sharedWithAll": False, "memberIds": [guest.id]}
    assert house.ask(sender.person, "PUT", f"/accounts/{sender.box.id}/access", access).status == 200
    sender.smtp.at("reply", Keep(DROP))
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    operation = sender.send(subject="Scheduled and lost", sendAt=soon)
    asked = f"/accounts/{sender.box.id}/delivery-operations/{operation['operationId']}"
    wait_until(
        lambda: house.ask(sender.person, "GET", asked).data["status"] == "uncertain", lambda: "not uncertain", 20
    )
    sender.smtp.at("reply", None)
    page = walker.open(sender.path(operation), guest)
    expect(page.get_by_text("Only the sender or the owner of the mailbox")).to_be_visible()
    expect(page.get_by_role("button", name="Mark as not sent…")).to_be_hidden()
    expect(page.get_by_text("Another member")).to_be_visible()


def test_the_warning_of_an_uncertain_outcome_is_left_out_whatever_it_says(walker: Walker, sender: Sender) -> None:
    operation = sender.uncertain("Reworded")

    def reword(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["data"]["outcomeWarnings"] = ["Reworded."]
        body["warnings"] = ["About the message.", "Reworded."]
        route.fulfill(response=answer, json=body)

    walker.page.route("**/timeline", reword)
    page = walker.open(sender.path(operation), sender.person)
    expect(page.locator("p.warning")).to_have_text(["About the message."])


def test_what_is_being_sent_is_followed(walker: Walker, sender: Sender) -> None:
    sender.smtp.at("dot", Stall())
    try:
        soon = (datetime.now(UTC) + timedelta(milliseconds=300)).isoformat()
        operation = sender.send(subject="On its way", sendAt=soon)
        sender.smtp.reached("dot", sender.smtp.count("dot") + 1)
        page = walker.open(sender.path(operation), sender.person)
        expect(page.get_by_text("Waiting for the mail server")).to_be_visible()
    finally:
        sender.smtp.at("dot", None)
        sender.smtp.release()
    expect(page.get_by_role("main").get_by_role("status").first).to_contain_text("Sent")


def test_one_that_is_not_there(walker: Walker, sender: Sender) -> None:
    walker.expects(404)
    page = walker.open(sender.path({"operationId": "dlv_unknown"}), sender.person)
    expect(page.get_by_role("alert")).to_be_visible()
    walker.open("/deliveries/acc_unknown")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Mailbox")).to_have_value("acc_unknown")


def test_pages_follow_each_other(walker: Walker) -> None:
    house = walker.house
    person: Person = house.add_member("judy")
    box = house.connect(person)
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for number in range(22):
        body, key = a_message(subject=f"Number {number}", sendAt=later), {"Idempotency-Key": a_key()}
        assert house.ask(person, "POST", f"/accounts/{box.id}/send", body, **key).status == 202
    page = walker.open("/deliveries", person)
    rows = page.get_by_role("list", name="Deliveries").get_by_role("listitem")
    expect(rows).to_have_count(20)
    page.get_by_role("button", name="Next").click()
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("Number 0")
