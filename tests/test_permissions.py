"""Who may do what: what a key stores and its owner may, the mailboxes in its scope, and what only a session may."""

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied
from mailbox_appliance.permissions import effective_capabilities, require
from mailbox_appliance.records import ADMIN_CAPABILITIES, MAIL_CAPABILITIES, Capability, Member, Role
from mailbox_appliance.store.credentials import FoundCredential
from tests.checked_client import CheckedClient
from tests.operations.filled import FilledMailbox, add_key, add_member, letter

READ, SEND, AUDIT = Capability.MAIL_READ, Capability.MAIL_SEND, Capability.ADMIN_AUDIT
ALL = MAIL_CAPABILITIES | ADMIN_CAPABILITIES


def member(role: Role) -> Member:
    at = "2026-01-01T00:00:00.000Z"
    return Member(
        id="mem_1",
        name="n",
        email="e@example.org",
        role=role,
        status="active",
        created_at=at,
        updated_at=at,
        last_login_at=None,
        invitation=None,
    )


# What it is, whose it is, what it stores, what it may.
EFFECTIVE: tuple[tuple[FoundCredential, frozenset[Capability]], ...] = (
    (FoundCredential("session", "s", member("admin")), ALL),
    (FoundCredential("session", "s", member("member")), MAIL_CAPABILITIES),
    (FoundCredential("api_key", "k", member("admin"), frozenset({READ, AUDIT})), frozenset({READ, AUDIT})),
    (FoundCredential("api_key", "k", member("member"), frozenset({READ, AUDIT})), frozenset({READ})),
    (FoundCredential("api_key", "k", member("admin")), frozenset()),
)


@pytest.mark.parametrize(("found", "capabilities"), EFFECTIVE)
def test_what_a_credential_may(found: FoundCredential, capabilities: frozenset[Capability]) -> None:
    assert effective_capabilities(found) == capabilities


def test_one_of_the_needed_capabilities_is_enough() -> None:
    require(frozenset({READ}), ())
    require(frozenset({READ}), (READ,))
    require(frozenset({READ}), (SEND, READ))
    with pytest.raises(Denied) as caught:
        require(frozenset({READ}), (SEND, AUDIT))
    (detail,) = caught.value.details
    assert (detail.path, detail.message) == ("capability", "mail.send or admin.audit")


@pytest.fixture
def mailbox(checked_client: CheckedClient) -> FilledMailbox:
    return FilledMailbox(checked_client.appliance, checked_client.member["id"])


READING = ("", "/folders", "/messages", "/messages/{message}", "/threads/{thread}", "/delivery-operations/dlv_1")


def test_a_key_needs_the_capability(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    (message,) = mailbox.deliver(letter("Hello"))
    ada, appliance = checked_client.member["id"], checked_client.appliance
    _, sender = add_key(appliance, ada, "mail.send", "admin.accounts")
    _, reader = add_key(appliance, ada, "mail.read")
    thread = checked_client.ask("GET", f"/accounts/{mailbox.id}/messages/{message}").data["threadId"]
    for path in READING:
        path = f"/accounts/{mailbox.id}" + path.format(message=message, thread=thread)
        refused = checked_client.ask("GET", path, token=sender)
        assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["capability"])
        assert refused.body["error"]["details"][0]["message"] == "mail.read"
        assert checked_client.ask("GET", path, token=reader).status == (404 if "dlv_1" in path else 200)
    for path in ("/accounts", "/status"):
        assert checked_client.ask("GET", path, token=sender).refusal == (403, "permission_denied")
        assert checked_client.ask("GET", path, token=reader).status == 200
    refused = checked_client.ask("POST", f"/accounts/{mailbox.id}/send", {}, token=reader)
    assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["capability"])
    assert refused.body["error"]["details"][0]["message"] == "mail.send"
    assert checked_client.ask("POST", f"/accounts/{mailbox.id}/send", {}, token=sender).status == 400


def test_a_key_without_any_capability_still_knows_who_it_is(checked_client: CheckedClient) -> None:
    _, key = add_key(checked_client.appliance, checked_client.member["id"])
    assert checked_client.ask("GET", "/me", token=key).data["credential"]["capabilities"] == []
    assert checked_client.ask("GET", "/accounts", token=key).status == 403


def test_a_key_reaches_the_mailboxes_in_its_scope_only(checked_client: CheckedClient) -> None:
    ada, appliance = checked_client.member["id"], checked_client.appliance
    inside, outside = (FilledMailbox(appliance, ada, f"box{number}@example.org") for number in (1, 2))
    _, scoped = add_key(appliance, ada, "mail.read", "mail.send", accounts=[inside.id, "acc_gone"])
    _, nowhere = add_key(appliance, ada, "mail.read", accounts=[])
    _, everywhere = add_key(appliance, ada, "mail.read")
    for token, ids in ((scoped, [inside.id]), (nowhere, []), (everywhere, [inside.id, outside.id])):
        assert [account["id"] for account in checked_client.ask("GET", "/accounts", token=token).data] == ids
        assert [account["id"] for account in checked_client.ask("GET", "/status", token=token).data["accounts"]] == ids
    for path in READING:
        path = f"/accounts/{outside.id}" + path.format(message="msg_1", thread="thr_1")
        assert checked_client.ask("GET", path, token=scoped).refusal == (404, "not_found")
    assert checked_client.ask("POST", f"/accounts/{outside.id}/send", {}, token=scoped).refusal == (404, "not_found")
    assert checked_client.ask("GET", f"/accounts/{inside.id}", token=scoped).status == 200


def test_a_mailbox_of_somebody_else_is_not_there(
    checked_client: CheckedClient, appliance: Appliance, mailbox: FilledMailbox
) -> None:
    bob_id = add_member(appliance, "bob", "admin")
    bob = checked_client.log_in("bob@example.org")
    unknown = checked_client.ask("GET", "/accounts/acc_unknown")
    for path in READING:
        path = f"/accounts/{mailbox.id}" + path.format(message="msg_1", thread="thr_1")
        answer = bob.ask("GET", path)
        assert (answer.refusal, answer.message) == ((404, "not_found"), unknown.message)
    assert bob.ask("DELETE", f"/accounts/{mailbox.id}").refusal == (404, "not_found")
    assert bob.ask("POST", f"/accounts/{mailbox.id}/send", {}).refusal == (404, "not_found")
    assert bob.ask("GET", "/accounts").data == []
    mailbox.grant(bob_id)
    assert [account["grantedMemberIds"] for account in bob.ask("GET", "/accounts").data] == [[bob_id]]
    assert bob.ask("GET", f"/accounts/{mailbox.id}").status == 200


def test_a_mailbox_may_be_shared_with_all(
    checked_client: CheckedClient, appliance: Appliance, mailbox: FilledMailbox
) -> None:
    add_member(appliance, "bob")
    bob = checked_client.log_in("bob@example.org")
    with appliance.store.database.transaction():
        appliance.store.database.change("UPDATE accounts SET shared_with_all = 1")
    account = bob.ask("GET", f"/accounts/{mailbox.id}").data
    assert (account["sharedWithAll"], account["ownerMemberId"]) == (True, checked_client.member["id"])
    refused = bob.ask("DELETE", f"/accounts/{mailbox.id}")
    assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["owner"])


def test_a_key_is_refused_where_a_session_is_needed(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    _, key = add_key(checked_client.appliance, checked_client.member["id"], *Capability)
    for method, path in (("POST", "/accounts"), ("DELETE", f"/accounts/{mailbox.id}"), ("DELETE", "/accounts/acc_x")):
        assert checked_client.ask(method, path, b"{", token=key).refusal == (403, "session_required")


def test_a_revoked_key_is_none(checked_client: CheckedClient, appliance: Appliance) -> None:
    key_id, key = add_key(appliance, checked_client.member["id"], "mail.read")
    assert checked_client.ask("GET", "/me", token=key).status == 200
    with appliance.store.database.transaction():
        appliance.store.database.change("UPDATE api_keys SET revoked_at = '2026' WHERE id = ?", (key_id,))
    assert checked_client.ask("GET", "/me", token=key).refusal == (401, "unauthenticated")
