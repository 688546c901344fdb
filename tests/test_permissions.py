"""Permissions: what a key and its owner allow, the mailboxes in its scope, and what requires a session."""

from itertools import combinations, product

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied
from mailbox_appliance.model.members import ADMIN_CAPABILITIES, MAIL_CAPABILITIES, Capability, Member, Role
from mailbox_appliance.permissions import KeyRights, effective_capabilities, require_capability, require_grantable
from mailbox_appliance.store.credentials import FoundCredential
from tests.checked_client import CheckedClient
from tests.operations.filled import FilledMailbox, add_key, add_member, letter
from tests.operations.key_people import ALL as KEYS
from tests.operations.key_people import People

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


# The kind of credential, its owner's role, its stored capabilities, its effective ones.
EFFECTIVE: tuple[tuple[FoundCredential, frozenset[Capability]], ...] = (
    (FoundCredential("session", "s", member("admin")), ALL),
    (FoundCredential("session", "s", member("member")), MAIL_CAPABILITIES),
    (FoundCredential("api_key", "k", member("admin"), (AUDIT, READ)), frozenset({READ, AUDIT})),
    (FoundCredential("api_key", "k", member("member"), (AUDIT, READ)), frozenset({READ})),
    (FoundCredential("api_key", "k", member("admin")), frozenset()),
)


@pytest.mark.parametrize(("found", "capabilities"), EFFECTIVE)
def test_what_a_credential_may(found: FoundCredential, capabilities: frozenset[Capability]) -> None:
    assert effective_capabilities(found) == capabilities


def test_one_of_the_needed_capabilities_is_enough() -> None:
    require_capability(frozenset({READ}), ())
    require_capability(frozenset({READ}), (READ,))
    require_capability(frozenset({READ}), (SEND, READ))
    with pytest.raises(Denied) as caught:
        require_capability(frozenset({READ}), (SEND, AUDIT))
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


# --- what a key may be granted ----------------------------------------------------------------------------------------

SCOPES: tuple[frozenset[str] | None, ...] = (None, frozenset(), frozenset({"A"}), frozenset({"A", "B"}))
_SOME = (READ, Capability.ADMIN_ACCOUNTS, AUDIT)
SETS = tuple(frozenset(some) for size in range(4) for some in combinations(_SOME, size))
KINDS = ("a session", "a session of another member", "a key", "a key of another member")


def pairs(rights: KeyRights) -> set[tuple[str, str]]:
    """Return what is allowed where: mail and settings in mailboxes (a later one stands for all of these)."""
    everywhere = {"A", "B", "later"} if rights.account_ids is None else rights.account_ids
    bounded = rights.capabilities - {AUDIT}
    return {(one, "") for one in rights.capabilities} | set(product(bounded, everywhere))


def is_granted(kind: str, own: KeyRights, before: KeyRights | None, after: KeyRights) -> bool:
    is_session = kind.startswith("a session")
    scope = None if is_session else own.account_ids
    found = FoundCredential("session" if is_session else "api_key", "c", member("admin"), account_ids=scope)
    owner = "mem_2" if kind.endswith("another member") else "mem_1"
    try:
        require_grantable(found, own.capabilities, owner_id=owner, before=before, after=after)
    except Denied:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_made_by_owner", [True, False])
def test_a_key_is_given_no_more_than_the_one_who_asks_holds(kind: str, is_made_by_owner: bool) -> None:
    every = [KeyRights(some, scope, is_made_by_owner) for scope in SCOPES for some in SETS]
    granted, is_session = 0, kind.startswith("a session")
    # A session has no limit to mailboxes; for the rights before, a few kinds of limits are enough.
    for own, before, after in product(every[:8] if is_session else every, [None, *every[::3]], every):
        had, holds = set() if before is None else pairs(before), pairs(own)
        gained = pairs(after) - had
        mail = {one for one, _ in gained} & {READ}
        is_known = is_session and before is not None
        may_give_mail = is_known or (is_made_by_owner and not kind.endswith("another member"))
        if is_granted(kind, own, before, after):
            granted += 1
            assert {one for one, _ in gained if not _} <= own.capabilities
            assert not mail or may_give_mail
            assert is_session or gained <= holds
        elif is_session:
            assert (mail and not may_give_mail) or not after.capabilities <= own.capabilities
        else:
            # Nothing is refused that requires no more than the caller holds.
            assert not gained or not pairs(after) <= holds or (mail and not may_give_mail)
    assert granted > 500


# --- what takes effect with the next request -------------------------------------------------------------------------


@pytest.fixture
def people(timed: Appliance) -> People:
    return People(timed)


def test_a_demoted_owner_takes_the_administration_of_a_key_along(people: People) -> None:
    everything = [str(one) for one in Capability]
    key_id, token = people.make(people.bea, customCapabilities=everything)
    for role, status in (("admin", 200), ("member", 403), ("admin", 200)):
        people.update(people.bea, role=role)
        for asks_with in (token, people.bea.token):
            answer = people.bea.ask("GET", KEYS, token=asks_with)
            assert answer.status == status
            assert status == 200 or answer.places == ["capability"]
        shown = people.bea.ask("GET", "/me", token=token).data["credential"]["capabilities"]
        assert shown == [one for one in everything if role == "admin" or one.startswith("mail.")]
        (listed,) = people.ada.ask("GET", KEYS).data
        assert (listed["id"], listed["capabilities"]) == (key_id, everything)


def test_a_grant_that_is_taken_back_is_gone_for_the_key(people: People) -> None:
    cid, box, store = people.cid.member["id"], people.adas.id, people.appliance.store
    people.adas.grant(cid)
    _, limited = people.make(people.cid, permissionProfile="full", accounts=[box])
    _, unlimited = people.make(people.cid, permissionProfile="full")
    ways: tuple[tuple[bool, tuple[str, ...], int], ...] = (
        (False, (cid,), 200),
        (False, (), 404),
        (True, (), 200),
        (False, (people.bea.member["id"],), 404),
        (False, (cid,), 200),
    )
    for shared_with_all, members, status in ways:
        with store.database.transaction(durable=True):
            store.accounts.set_access(box, shared_with_all=shared_with_all, member_ids=members)
        for token in (limited, unlimited, people.cid.token):
            assert people.cid.ask("GET", f"/accounts/{box}", token=token).status == status


def test_a_suspended_owner_suspends_the_key(people: People) -> None:
    _, token = people.make(people.cid, permissionProfile="full")
    for status, verdict in (("active", 200), ("suspended", 403), ("active", 200)):
        people.update(people.cid, status=status)
        answer = people.cid.ask("GET", "/me", token=token)
        assert answer.status == verdict
        assert verdict == 200 or answer.refusal[1] == "member_suspended"


def test_a_key_that_is_made_less_is_less_with_the_next_request(people: People) -> None:
    key_id, token = people.make(people.cid, permissionProfile="full", accounts=[people.cids.id])
    path = f"/accounts/{people.cids.id}"
    assert people.cid.ask("GET", path, token=token).status == 200
    people.change(key_id, customCapabilities=["mail.send"])
    assert people.cid.ask("GET", path, token=token).refusal == (403, "permission_denied")
    people.change(key_id, accounts=[])
    assert people.cid.ask("GET", path, token=token).refusal == (404, "not_found")
    people.ada.ask("DELETE", f"{KEYS}/{key_id}")
    assert people.cid.ask("GET", path, token=token).refusal == (401, "unauthenticated")
