"""The sender addresses of mailboxes: the provider is asked with a token of the mailbox, and its answer is enforced."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.events import AccountReconnected
from mailbox_appliance.jobs.sender_addresses import AGAIN, EVERY
from mailbox_appliance.remote import send_as as asked
from mailbox_appliance.remote.net import https
from mailbox_appliance.remote.providers import BUILT_IN
from tests.sending.outlook import ADA, Outlook, outlook
from tests.servers.desk import a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.graph_script import Says

ALIAS = "ada.lovelace@example.test"


@pytest.fixture
def box(tmp_path: Path, clock: FakeClock) -> Iterator[Outlook]:
    """Yield an Outlook mailbox with an alias that has not been fetched yet."""
    with outlook(tmp_path, clock) as made:
        made.graph.aliases = {ADA: (ALIAS,)}
        made.connect()
        yield made


def addresses(box: Outlook) -> list[str]:
    answer = box.desk.ask("GET", f"/accounts/{box.account}/sender-addresses")
    assert answer.status == 200, answer
    return [each["email"] for each in answer.data]


def look(box: Outlook) -> None:
    box.desk.appliance.sender_address_refresher.run_once()


def test_a_mailbox_has_its_own_address_whatever_anybody_tells(box: Outlook) -> None:
    answer = box.desk.ask("GET", f"/accounts/{box.account}/sender-addresses")
    assert answer.data == [{"email": ADA, "isDefault": True}]


def test_what_the_provider_tells_mail_may_be_from(box: Outlook) -> None:
    refused = box.send(a_message() | {"from": ALIAS})
    assert (refused.status, refused.body["error"]["details"][0]["path"]) == (400, "/from")
    look(box)
    assert addresses(box) == [ADA, ALIAS]
    assert box.send(a_message() | {"from": ALIAS.upper()}).data["status"] == "succeeded"
    (sent,) = box.graph.messages
    assert (sent.sender, sent.owner) == (ALIAS, ADA)
    assert box.send(a_message() | {"from": "eve@example.test"}).status == 400
    assert box.send().data["status"] == "succeeded"
    assert box.graph.messages[-1].sender == ADA


def test_who_signs_in_anew_while_a_provider_is_asked_has_it_asked_again(box: Outlook) -> None:
    events = box.desk.appliance.events
    box.graph.before = lambda _: events.publish(AccountReconnected(box.account))
    look(box)
    box.graph.before = lambda _: None
    look(box)
    # At each sign-in; the appliance's own thread asks too.
    assert (asked := box.graph.count("addresses")) >= 2
    look(box)
    assert box.graph.count("addresses") == asked


def test_what_is_told_no_more_is_not_sent_from_when_it_is_due(box: Outlook, clock: FakeClock) -> None:
    look(box)
    body = a_message() | {"from": ALIAS, "sendAt": "2026-01-02T04:04:05Z"}
    operation = box.send(body).data["operationId"]
    box.graph.aliases = {}
    clock.advance(EVERY + 1)
    look(box)
    assert addresses(box) == [ADA]
    box.desk.appliance.scheduler.wake()
    failed = box.desk.wait_for(box.account, operation, "failed")
    assert failed["error"]["code"] == "sender_rejected"
    assert not box.graph.messages


def test_a_provider_is_asked_every_day_and_sooner_where_it_did_not_tell(box: Outlook, clock: FakeClock) -> None:
    box.graph.at("addresses", [Says(503), None])
    look(box)
    look(box)
    assert (box.graph.count("addresses"), addresses(box)) == (1, [ADA])
    clock.advance(AGAIN + 1)
    look(box)
    look(box)
    assert (box.graph.count("addresses"), addresses(box)) == (2, [ADA, ALIAS])
    clock.advance(EVERY - 60)
    look(box)
    assert box.graph.count("addresses") == 2
    clock.advance(61)
    box.graph.at("addresses", Says(403, "Authorization_RequestDenied"))
    look(box)
    assert (box.graph.count("addresses"), addresses(box)) == (3, [ADA, ALIAS])  # the earlier addresses stay valid


def test_a_mailbox_that_is_removed_leaves_no_address(box: Outlook) -> None:
    look(box)
    store = box.desk.appliance.store
    account = store.accounts.get(box.account)
    assert box.desk.ask("DELETE", f"/accounts/{box.account}").status == 200
    with pytest.raises(NotFound):
        store.sender_addresses.list_of(account)
    assert ALIAS not in str(store.database.rows("SELECT sender_addresses FROM accounts"))


def test_of_a_shared_mailbox_nobody_is_asked(tmp_path: Path, clock: FakeClock) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect(email="team@example.test")
        look(box)
        assert (box.graph.count("addresses"), addresses(box)) == (0, ["team@example.test"])


# --- what is read ---

GMAIL: dict[str, Any] = {
    "sendAs": [
        {"sendAsEmail": "ada@gmail.test", "displayName": "Ada", "isPrimary": True, "isDefault": True},
        {"sendAsEmail": "a@work.test", "displayName": "", "verificationStatus": "accepted", "treatAsAlias": True},
        {"sendAsEmail": "later@work.test", "verificationStatus": "pending"},
        {"sendAsEmail": "A@WORK.test", "verificationStatus": "accepted"},
        {"sendAsEmail": "no address", "verificationStatus": "accepted"},
        {"sendAsEmail": "b@work.test", "displayName": "B\r\nBcc: x@y.test", "verificationStatus": "accepted"},
    ]
}
GRAPH: dict[str, Any] = {
    "mail": "ada@x.test",
    "proxyAddresses": ["SMTP:Ada@x.test", "smtp:a@x.test", "x500:/o=X/cn=ada", "SIP:ada@x.test", "smtp:no address"],
}
MANY = [(f"{n}@x.test", None) for n in range(asked.MOST_ADDRESSES)]


@pytest.mark.parametrize(
    ("provider", "said", "expected"),
    [
        ("google", GMAIL, [("ada@gmail.test", "Ada"), ("a@work.test", None), ("b@work.test", None)]),
        ("google", {}, []),
        ("outlook", GRAPH, [("ada@x.test", None), ("a@x.test", None)]),
        ("outlook", {"mail": None, "proxyAddresses": None}, []),
        ("outlook", {"proxyAddresses": [f"smtp:{n}@x.test" for n in range(300)]}, MANY),
    ],
)  # fmt: skip
def test_what_providers_say(
    provider: Any, said: object, expected: list[tuple[str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = https.HttpsResponse(200, {}, json.dumps(said).encode())
    monkeypatch.setattr(https, "get", lambda *_: answer)
    found = asked.fetch_sender_addresses(BUILT_IN[provider], "token", ca_file="", timeout=1)
    assert [(each.email, each.name or None) for each in found] == expected
