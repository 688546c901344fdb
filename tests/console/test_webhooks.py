"""Webhooks: created with a secret that is shown once, tested, edited, and shown when the appliance disables them."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.house import Box, House, Person, a_mail
from tests.console.walker import Walker
from tests.feed.receiver import Receiver
from tests.servers.dovecot import MailServer


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    """An appliance that may send to this computer."""
    settings = {"MAILBOX_APPLIANCE_BACKUP_DAILY": "no", "MAILBOX_APPLIANCE_WEBHOOKS_ALLOW_PRIVATE": "yes"}
    made = House(tmp_path_factory.mktemp("webhooks"), mail_server, environment=settings)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def owner(house: House) -> Person:
    return house.add_member("hanna")


@pytest.fixture(scope="module")
def box(house: House, owner: Person) -> Box:
    return house.connect(owner, a_mail("First"))


def _fill(page: Page, url: str) -> None:
    page.get_by_label("Address").fill(url)
    page.get_by_role("button", name="Create webhook").click()


def _secret(page: Page) -> str:
    dialog = page.get_by_role("dialog", name="Secret of the webhook")
    secret = dialog.get_by_label("Secret", exact=True).locator("code").text_content() or ""
    assert secret.startswith("whsec_")
    return secret


def _keep(page: Page) -> None:
    page.get_by_role("button", name="I have saved the secret").click()


def _attempts(page: Page) -> Locator:
    return page.get_by_role("list", name="Attempts").get_by_role("listitem")


def test_a_webhook_from_its_creation_to_its_end(walker: Walker, owner: Person, box: Box) -> None:
    with Receiver() as receiver:
        page = walker.open("/webhooks", owner)
        expect(page.get_by_text("No webhooks yet.")).to_be_visible()
        walker.look("webhooks-none")
        page.get_by_role("button", name="Create a webhook").click()
        page.get_by_label("Selected mailboxes").check()
        page.get_by_role("checkbox", name=box.email).check()
        walker.look("webhook-new")
        _fill(page, receiver.url)
        secret = _secret(page)
        walker.look("webhook-secret")
        _keep(page)
        expect(page.get_by_text("Nothing has been sent yet.")).to_be_visible()
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_text("The address accepted the test with 200")).to_be_visible()
        assert receiver.next(secret)[1]["type"] == "webhook.test"
        expect(_attempts(page)).to_have_count(1)
        walker.house.server.deliver(box.email, a_mail("Second"))
        assert receiver.next(secret)[1]["data"]["data"]["subject"] == "Second"
        page.get_by_role("button", name="Rotate secret…").click()
        page.get_by_role("button", name="Rotate secret", exact=True).click()
        expect(page.get_by_text("signed with the previous secret too")).to_be_visible()
        assert _secret(page) != secret
        _keep(page)
        page.get_by_role("main").get_by_role("button", name="Edit").click()
        page.get_by_label("Deleted messages").check()
        page.get_by_label("All mailboxes").check()
        page.get_by_role("button", name="Save webhook").click()
        expect(page.get_by_text("New messages and Deleted messages")).to_be_visible()
        walker.look("webhook")
        page.get_by_role("button", name="Disable").click()
        expect(page.get_by_text("This webhook is disabled: it gets no events. Once")).to_be_visible()
        page.get_by_role("button", name="Enable").click()
        expect(page.get_by_text("The webhook is enabled.")).to_be_visible()
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("button", name="Delete webhook").click()
        expect(page.get_by_text("No webhooks yet.")).to_be_visible()


def test_what_cannot_be_created_is_told_beside_its_field(walker: Walker, owner: Person) -> None:
    walker.expects(400)
    page = walker.open("/webhooks?new=1", owner)
    _fill(page, "ftp://example.org")
    expect(page.get_by_label("Address")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("New messages").uncheck()
    page.get_by_role("button", name="Create webhook").click()
    expect(page.get_by_text("Select at least one type of event.")).to_be_visible()


def test_a_webhook_that_the_appliance_disabled_is_shown_to_its_owner_and_to_administrators(walker: Walker) -> None:
    house = walker.house
    person = house.add_member("ivo")
    box = house.connect(person)
    with Receiver(answers=[(410, b"", {})]) as receiver:
        body = {"url": receiver.url, "types": ["message.created"]}
        webhook = house.ask(person, "POST", "/webhooks", body).data["webhook"]
        page = walker.open(f"/webhooks/{webhook['id']}", person)
        house.server.deliver(box.email, a_mail("Lost"))
        expect(page.get_by_text("This webhook is disabled: it gets no events. Its address failed")).to_be_visible()
        walker.look("webhook-disabled")
        page.reload()
        expect(page.get_by_role("link", name="Webhooks 1 disabled")).to_be_visible()
        page.get_by_role("link", name="Webhooks 1 disabled").click()
        # The paragraph of the list; until that is loaded, the page of the webhook shows the same reason twice.
        expect(
            page.get_by_role("main").get_by_role("paragraph").get_by_text("The answer had the status 410.")
        ).to_be_visible()
        walker.look("webhooks")
        walker.open("/system")
        expect(page.get_by_text("Webhooks of yours that were disabled: 1.")).to_be_visible()
        admin = house.ask(house.ada, "GET", "/status")
        [warning] = [one for one in admin.body["warnings"] if "ebhook" in one]
        assert warning.startswith("Webhooks of other members that were disabled: 1.")
        assert receiver.url not in warning
        assert "disabledWebhooks" not in admin.data
        assert house.ask(person, "GET", "/status").data["disabledWebhooks"] == 1
        walker.open(f"/webhooks/{webhook['id']}")
        page.get_by_role("button", name="Enable").click()
        expect(page.get_by_role("link", name="Webhooks", exact=True)).to_be_visible()
        assert house.ask(person, "GET", "/status").body.get("warnings", []) == []
