"""Every mailbox as administrators see it: listed, and connected for others; nothing in it is read by that."""

from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from tests.checked_client import CheckedClient
from tests.operations.filled import add_key, add_member, suspend
from tests.servers.mailboxes import wait_until


@pytest.mark.parametrize("by_key", [False, True])
def test_a_mailbox_is_connected_for_a_member(
    checked_client: CheckedClient, appliance: Appliance, request_for: dict[str, Any], by_key: bool
) -> None:
    ada, bob = checked_client.member["id"], add_member(appliance, "bob")
    key_id, token = add_key(appliance, ada, "admin.accounts")
    given = request_for | {"ownerMemberId": bob, "displayName": "Bob's"}
    answer = checked_client.ask("POST", "/admin/accounts", given, token=token if by_key else None)
    assert (answer.status, answer.data["ownerMemberId"], answer.data["displayName"]) == (201, bob, "Bob's")
    path = f"/accounts/{answer.data['id']}"
    assert checked_client.ask("GET", path).refusal == (404, "not_found")
    again = checked_client.ask("POST", "/admin/accounts", given)
    assert again.refusal == (409, "account_exists")
    client = checked_client.log_in("bob@example.org")
    wait_until(lambda: client.ask("GET", path).data["status"] == "ready", lambda: "it is not ready", 10)
    (event, *others), _ = appliance.store.audit.list(None, 50, about=bob)
    events = [each for each in (event, *others) if each.action == "account.create"]
    assert [(each.actor.member_id, each.actor.kind == "api_key") for each in events] == [(ada, by_key)]
    assert (events[0].actor.id == key_id) is by_key


def test_an_owner_that_cannot_be(
    checked_client: CheckedClient, appliance: Appliance, request_for: dict[str, Any]
) -> None:
    def ask(**more: Any) -> Any:
        return checked_client.ask("POST", "/admin/accounts", request_for | more)

    for given in ({}, {"ownerMemberId": ""}, {"ownerMemberId": "mem_unknown"}, {"ownerMemberId": None}):
        refused = ask(**given)
        assert (refused.refusal, refused.places) == ((400, "invalid_request"), ["/ownerMemberId"])
    bob = add_member(appliance, "bob")
    suspend(appliance, bob)
    assert ask(ownerMemberId=bob).refusal == (409, "conflict")
    wrong = ask(ownerMemberId=checked_client.member["id"], imap=request_for["imap"] | {"password": "wrong"})
    assert (wrong.refusal, wrong.places) == ((400, "invalid_request"), ["/imap/username"])
    unreachable = ask(ownerMemberId=checked_client.member["id"], smtp=request_for["smtp"] | {"port": 1})
    assert (unreachable.refusal, unreachable.places) == ((503, "provider_unavailable"), ["smtp"])
    # Members do not name an owner: the mailbox is their own.
    own = checked_client.ask("POST", "/accounts", request_for | {"ownerMemberId": bob})
    assert (own.refusal, own.places) == ((400, "invalid_request"), ["/ownerMemberId"])
    assert checked_client.ask("GET", "/admin/accounts").data == []
