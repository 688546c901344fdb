"""The copy in Sent: there exactly once, whatever fails here or at the IMAP server, and never a cause of a failed
delivery.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mailbox_appliance.clock import to_millis
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.deliveries import AcceptedDelivery, NewApproval, NewDelivery
from mailbox_appliance.model.messages import Address, OutgoingMessage, ParsedMessage
from mailbox_appliance.sending import sent_copies
from mailbox_appliance.sending.sent_copies import files_sent_mail
from mailbox_appliance.store.store import Store
from tests.sending.test_worker import Fault
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.fault_proxy import FaultProxy
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp


@pytest.fixture
def proxy(mail_server: MailServer) -> Iterator[FaultProxy]:
    made = FaultProxy(mail_server.imap_port).start()
    yield made
    made.stop()


@pytest.fixture
def desk(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(sent_copies, "_GLANCE", 0.01)
    made = Desk(tmp_path / "data", clock)
    yield made
    made.close()


def test_killed_between_the_copy_and_its_record(tmp_path: Path, mail_server: MailServer, proxy: FaultProxy) -> None:
    user, bob = mail_server.fresh_user(), mail_server.fresh_user()
    appliance = RunningAppliance(tmp_path / "data").start()
    try:
        appliance.set_up()
        account = appliance.connect(user, imap_port=proxy.port, smtp_port=mail_server.submission_port)
        proxy.withhold(b"APPENDUID")
        answer = appliance.ask("POST", f"/accounts/{account}/send", a_message(bob), Idempotency_Key=a_key())
        assert answer.data["status"] == "succeeded"
        proxy.wait_until_withheld()
        appliance.kill()
        proxy.go_on()
        proxy.commands.clear()
        assert len(mail_server.wait_for_messages(user, 1, "Sent")) == 1
        appliance.start()
        wait_until(lambda: proxy.count("SEARCH HEADER") == 1, lambda: "nobody looked for the copy", 10)
        wait_until(lambda: mirrored(appliance, account) == 1, lambda: "Sent is not mirrored", 10)
        items = appliance.ask("GET", f"/accounts/{account}/messages?folder=sent").data["items"]
        assert [item["id"] for item in items] == [answer.data["result"]["id"]]
    finally:
        assert appliance.stop() == 0
    store = Store.open(tmp_path / "data")
    assert pending(store) == []
    store.close()
    assert len(mail_server.messages(user, "Sent")) == 1
    assert len(mail_server.messages(bob)) == 1


def file_due(desk: Desk) -> None:
    """File every due copy now, in this thread."""
    for account_id in desk.appliance.sent_mail.due_accounts(desk.appliance.clock.now()):
        desk.appliance.sent_mail.work(account_id, threading.Event())


def pending(store: Store) -> list[int]:
    """Return when each copy that is not in Sent yet is due, in milliseconds; the oldest operation first."""
    sql = "SELECT copy_next_at FROM delivery_operations WHERE copy = 'pending' ORDER BY number"
    return [int(row[0]) for row in store.database.rows(sql)]


def mirrored(appliance: RunningAppliance, account: str) -> int:
    """Return how many messages the mirror has in Sent."""
    folders = appliance.ask("GET", f"/accounts/{account}/folders").data
    return sum(folder["totalCount"] for folder in folders if folder.get("role") == "sent")


def test_the_copy_of_what_was_composed_is_shown_without_parsing_it(
    desk: Desk, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = list[Content]()

    def parse_noted(source: Content) -> ParsedMessage:
        parsed.append(source)
        return parse_content(source)

    monkeypatch.setattr(sent_copies, "parse_content", parse_noted)
    user, bob = mail_server.fresh_user(), mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    answer = desk.send(account, a_message(bob, subject="Grüße", body={"text": "Schöne Grüße"}))
    shown = desk.message(account, answer.data["result"]["id"]).data
    assert (shown["subject"], shown["snippet"]) == ("Grüße", "Schöne Grüße")
    assert parsed == []


def test_of_two_requests_with_one_key_the_copy_is_of_the_message_that_went(
    desk: Desk, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, bob = mail_server.fresh_user(), mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    deliveries = desk.appliance.store.deliveries
    accept = deliveries.accept

    def accept_second(new: NewDelivery, find_approval: Callable[[], NewApproval | None]) -> AcceptedDelivery:
        message = OutgoingMessage(Address(email=user), (Address(email=bob),), subject="Hello", text="t")
        accept(replace(new, message=compose(message, message_id="<first@x.test>", date=desk.appliance.clock.now())))
        return accept(new, find_approval)

    monkeypatch.setattr(deliveries, "accept", accept_second)
    answer = desk.send(account, a_message(bob))
    shown = desk.message(account, answer.data["result"]["id"]).data
    assert shown["headers"]["Message-ID"] == "<first@x.test>"


def test_a_copy_that_cannot_be_filed_is_a_warning_and_is_filed_later(
    desk: Desk, clock: FakeClock, mail_server: MailServer, proxy: FaultProxy
) -> None:
    user, bob = mail_server.fresh_user(), mail_server.fresh_user()
    account = desk.connect(user, imap_port=proxy.port, smtp_port=mail_server.submission_port)
    proxy.is_shut = True
    proxy.cut_all()
    key = a_key()
    answer = desk.send(account, a_message(bob), key)
    assert (answer.status, answer.data["status"]) == (200, "succeeded")
    operation = answer.data["operationId"]
    wait_until(lambda: "warnings" in result(desk, account, operation), lambda: "no warning", 10)
    assert "Sent folder" in result(desk, account, operation)["warnings"][0]
    assert desk.send(account, a_message(bob), key).data["result"] == result(desk, account, operation)
    assert desk.message(account, answer.data["result"]["id"]).status == 200

    proxy.is_shut = False
    clock.advance(59)
    file_due(desk)
    assert mail_server.messages(user, "Sent") == []
    clock.advance(1)
    file_due(desk)
    assert len(mail_server.messages(user, "Sent")) == 1
    assert "warnings" not in result(desk, account, operation)
    clock.advance(3600)
    file_due(desk)
    assert len(mail_server.messages(user, "Sent")) == 1
    assert len(mail_server.messages(bob)) == 1


@pytest.mark.parametrize("fault", ["refused", "ours"])
def test_a_copy_that_cannot_be_filed_holds_up_no_other(
    desk: Desk, clock: FakeClock, mail_server: MailServer, proxy: FaultProxy, fault: str
) -> None:
    user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=proxy.port, smtp_port=mail_server.submission_port)
    store = desk.appliance.store
    if fault == "refused":
        proxy.refuse("APPEND", answer="NO Too large", times=1)
    else:
        Fault(desk, "BEFORE UPDATE ON delivery_operations WHEN NEW.copy = 'filed' AND NEW.number = 1")
    for subject in ("first", "second"):
        desk.send(account, {**a_message(mail_server.fresh_user()), "subject": subject})
    wait_until(lambda: len(pending(store)) == 1, lambda: str(pending(store)), 10)
    wait_until(lambda: pending(store)[0] > to_millis(clock.now()), lambda: "not postponed", 10)
    copies = mail_server.messages(user, "Sent")
    assert [b"Subject: second" in copy for copy in copies] == ([True] if fault == "refused" else [False, True])


def result(desk: Desk, account: str, operation: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = desk.delivery(account, operation).data["result"]
    return found


def test_waits_between_tries_grow_to_half_an_hour(
    desk: Desk, clock: FakeClock, mail_server: MailServer, proxy: FaultProxy
) -> None:
    user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=proxy.port, smtp_port=mail_server.submission_port)
    proxy.is_shut = True
    proxy.cut_all()
    desk.send(account, a_message(mail_server.fresh_user()))
    waits = [wait_of(desk, clock)]
    for _ in range(6):
        clock.advance(waits[-1])
        file_due(desk)
        waits.append(wait_of(desk, clock))
    assert waits == [60, 120, 240, 480, 960, 1800, 1800]


def wait_of(desk: Desk, clock: FakeClock) -> int:
    """Return the seconds until the next attempt, as soon as there was one."""
    store, now = desk.appliance.store, to_millis(clock.now())
    wait_until(lambda: pending(store)[0] > now, lambda: "not tried", 10)
    return (pending(store)[0] - now) // 1000


def test_where_there_is_no_sent_folder_one_is_made(desk: Desk, mail_server: MailServer) -> None:
    user, bob = mail_server.fresh_user(), mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    database = desk.appliance.store.database
    with database.transaction():  # the Dovecot of these tests creates the folder itself; pretend that it does not
        database.change("DELETE FROM folders WHERE role = 'sent'")
    answer = desk.send(account, a_message(bob))
    assert answer.data["status"] == "succeeded"
    [_] = mail_server.wait_for_messages(user, 1, "Sent")
    wait_until(lambda: pending(desk.appliance.store) == [], lambda: "not recorded", 10)
    message = desk.message(account, answer.data["result"]["id"])
    assert (message.status, message.data["folder"]["role"]) == (200, "sent")
    assert message.data["threadId"] == answer.data["result"]["threadId"]


# --- a provider that files copies itself ---


@pytest.fixture
def provider(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> FaultProxy:
    """Return the IMAP server as one that files sent mail in Sent itself."""
    monkeypatch.setattr(sent_copies, "_SMTP_HOSTS", {"127.0.0.1"})
    return proxy


def sent_by(desk: Desk, account: str, smtp: ScriptedSmtp) -> tuple[str, str, bytes]:
    """Send a message; return its operation, the ID of our copy, and its bytes, after the first check for the copy."""
    answer = desk.send(account, a_message())
    assert answer.data["status"] == "succeeded", answer
    accepted_at = to_millis(desk.appliance.clock.now())
    wait_until(lambda: pending(desk.appliance.store)[0] > accepted_at, lambda: "nobody looked", 10)
    return answer.data["operationId"], answer.data["result"]["id"], smtp.messages[-1].source


def test_the_copy_of_a_provider_is_waited_for_and_becomes_the_message_of_the_result(
    desk: Desk, clock: FakeClock, mail_server: MailServer, scripted_smtp: ScriptedSmtp, provider: FaultProxy
) -> None:
    user = scripted_smtp.user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=provider.port, smtp_port=scripted_smtp.port)
    operation, message_id, source = sent_by(desk, account, scripted_smtp)
    assert "warnings" not in result(desk, account, operation)
    mail_server.deliver(user, b"X-Provider: Example\r\n" + source, folder="Sent", flags="\\Seen")
    clock.advance(5)
    file_due(desk)
    assert pending(desk.appliance.store) == []
    assert len(mail_server.messages(user, "Sent")) == 1
    assert provider.count("APPEND") == 0
    assert result(desk, account, operation).keys() == {"id", "threadId"}
    flagged = desk.ask("POST", f"/accounts/{account}/messages/actions", {"messageIds": [message_id], "action": "star"})
    assert flagged.data["succeededIds"] == [message_id]


def test_a_copy_that_the_provider_does_not_file_is_given_up_after_a_day(
    desk: Desk, clock: FakeClock, mail_server: MailServer, scripted_smtp: ScriptedSmtp, provider: FaultProxy
) -> None:
    user = scripted_smtp.user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=provider.port, smtp_port=scripted_smtp.port)
    operation, message_id, _ = sent_by(desk, account, scripted_smtp)
    waits = [wait_of(desk, clock)]
    while len(waits) < 11:
        clock.advance(waits[-1])
        file_due(desk)
        waits.append(wait_of(desk, clock))
    assert waits == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800]
    assert "warnings" not in result(desk, account, operation)
    clock.advance(24 * 3600)
    file_due(desk)
    assert pending(desk.appliance.store) == []
    assert "its copy was not found" in result(desk, account, operation)["warnings"][0]
    assert desk.message(account, message_id).status == 404
    assert mail_server.messages(user, "Sent") == []


# --- whether the provider files copies, or the appliance ---


@pytest.mark.parametrize(
    ("provider", "smtp_host", "features", "expected"),
    [
        ("imap", "mail.example.org", {"IMAP4REV1", "IDLE"}, False),
        ("google", "mail.example.org", set(), True),
        ("outlook", "mail.example.org", set(), True),
        ("imap", "smtp.gmail.com", set(), True),
        ("imap", "SMTP.GoogleMail.com.", set(), True),
        ("imap", "smtp.office365.com", set(), True),
        ("imap", "smtp-mail.outlook.com", set(), True),
        ("imap", "smtp.gmail.com.example.org", set(), False),
        ("imap", "notsmtp.gmail.com", set(), False),
        ("imap", "relay.example.org", {"IMAP4REV1", "X-GM-EXT-1"}, True),
    ],
)
def test_who_files_by_itself(provider: str, smtp_host: str, features: set[str], expected: bool) -> None:
    assert files_sent_mail(provider, smtp_host, features) is expected
