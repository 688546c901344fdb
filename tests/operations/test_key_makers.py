"""Keys whose token somebody else than their owner was shown: what they can become, and how long they are good."""

from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.permissions import may_send_now
from tests.checked_client import CheckedClient
from tests.operations.key_people import ALL, OWN, People

NO = (403, "permission_denied")
GONE = (401, "unauthenticated")
KEYS = ["admin.api_keys"]


def given_to(people: People, owner: CheckedClient, token: str | None = None, *capabilities: str) -> tuple[str, str]:
    """A key that Bea, or whoever has this token, makes for its owner; its id and token."""
    wanted = list(capabilities) or KEYS
    made = people.make_for(owner, people.bea, token, customCapabilities=wanted)
    assert made.status == 201, made.body
    return made.data["apiKey"]["id"], made.data["token"]


def test_who_saw_a_token_is_not_forgotten_by_the_keys_that_it_makes(people: People) -> None:
    key_id, token = given_to(people, people.ada)
    for _ in range(3):  # each makes the next one
        _, full = people.make(people.ada, permissionProfile="full", supplementalCapabilities=KEYS)
        assert people.change(key_id, full, permissionProfile="full").refusal == NO, "its owner's key asks"
        key_id, token = given_to(people, people.ada, token)
    people.update(people.bea, role="member")
    assert people.ada.ask("GET", ALL, token=token).refusal == GONE


def test_a_key_that_only_its_owner_saw_makes_such_keys(people: People) -> None:
    _, token = people.make(people.ada, customCapabilities=KEYS)
    mine, _ = given_to(people, people.ada, token)
    assert people.change(mine, permissionProfile="full").status == 200
    cids, _ = given_to(people, people.cid, token)
    made_by = people.appliance.store.api_keys.list_made_for_others
    assert [key.id for key in made_by(people.ada.member["id"])] == [cids]


def test_a_key_cannot_be_made_for_who_saw_the_token_of_the_asking_one(people: People) -> None:
    """Its owner may be the one who asks, and would be shown a token of theirs."""
    _, token = given_to(people, people.ada)
    assert people.make_for(people.bea, people.ada, token, customCapabilities=KEYS).refusal == NO


#: what becomes of the one who made a key -> whether the key is good then
BECOMES: tuple[tuple[dict[str, Any], bool], ...] = (
    ({"status": "suspended"}, False),
    ({"status": "active"}, True),
    ({"role": "member"}, False),
    ({"role": "admin"}, True),
)


def test_a_key_made_for_somebody_else_is_good_while_its_maker_is_an_active_administrator(people: People) -> None:
    _, token = given_to(people, people.ada)
    _, mine = people.make(people.ada, customCapabilities=KEYS)
    _, beas = people.make(people.bea, customCapabilities=["mail.send"])
    for change, is_good in BECOMES:
        people.update(people.bea, **change)
        answer = people.ada.ask("GET", ALL, token=token)
        assert answer.status == 200 if is_good else answer.refusal == GONE, change
        assert people.ada.ask("GET", ALL, token=mine).status == 200
        status = people.ada.ask("GET", "/me", token=beas).status
        assert status == (403 if change.get("status") == "suspended" else 200), "her own is hers"


def test_with_its_maker_a_key_is_revoked(people: People, timed: Appliance) -> None:
    kept, mine = people.make(people.ada, customCapabilities=KEYS)
    key_id, token = given_to(people, people.ada)
    cids, _ = given_to(people, people.cid, None, "admin.audit")
    revoked, _ = given_to(people, people.cid)
    people.ada.ask("DELETE", f"{ALL}/{revoked}")
    assert people.ada.ask("DELETE", f"/admin/members/{people.bea.member['id']}").status == 200
    assert people.ada.ask("GET", "/me", token=token).refusal == GONE
    assert people.ada.ask("GET", "/me", token=mine).status == 200
    assert [key["id"] for key in people.ada.ask("GET", ALL).data] == [kept]
    events = people.ada.ask("GET", "/admin/audit-events?limit=4").data["items"]
    acts = {(event["action"], event["target"]["id"]) for event in events}
    assert {("api_key.revoke", key_id), ("api_key.revoke", cids)} <= acts
    told = people.cid.ask("GET", "/me/audit-events?limit=1").data["items"][0]
    assert (told["action"], told["target"]["id"]) == ("api_key.revoke", cids)
    # Also where the member comes back under the old id, as a restored backup has it.
    assert timed.store.api_keys.list_made_for_others(people.bea.member["id"]) == ()


def test_with_the_role_of_its_maker_a_key_is_revoked(people: People, timed: Appliance) -> None:
    """So that no list shows a key that is answered with 401."""
    _, beas = people.make(people.bea, customCapabilities=["mail.read"])
    adas, token = given_to(people, people.ada)
    cids, _ = given_to(people, people.cid, None, "admin.audit")
    path = f"/admin/members/{people.bea.member['id']}"
    assert people.ada.ask("PATCH", path, {"status": "suspended"}).status == 200
    assert {adas, cids} <= {key["id"] for key in people.ada.ask("GET", ALL).data}, "she may come back"
    assert people.ada.ask("PATCH", path, {"status": "active", "role": "member"}).status == 200
    assert {adas, cids}.isdisjoint(key["id"] for key in people.ada.ask("GET", ALL).data)
    events = people.ada.ask("GET", "/admin/audit-events?limit=4").data["items"]
    acts = {(event["action"], event["target"]["id"]) for event in events}
    bea = people.bea.member["id"]
    assert acts == {
        ("member.demote", bea),
        ("member.activate", bea),
        ("api_key.revoke", adas),
        ("api_key.revoke", cids),
    }
    told = people.cid.ask("GET", "/me/audit-events?limit=1").data["items"][0]
    assert (told["action"], told["target"]["id"]) == ("api_key.revoke", cids)
    assert people.ada.ask("PATCH", path, {"role": "admin"}).status == 200
    assert people.ada.ask("GET", "/me", token=token).refusal == GONE, "for good"
    assert people.ada.ask("GET", "/me", token=beas).status == 200
    assert timed.store.audit.verify().broken is None


def test_what_such_a_key_asked_for_is_not_sent_without_its_maker(people: People) -> None:
    """A session gave it mail rights."""
    key_id, _ = given_to(people, people.ada)
    store = people.appliance.store
    assert people.change(key_id, customCapabilities=["mail.send"]).status == 200
    asked = (store, people.adas.id, key_id, people.ada.member["id"])
    assert may_send_now(*asked)
    people.update(people.bea, role="member")
    assert not may_send_now(*asked)


SEE = "see `audit list --mine`, or GET /api/v1/me/audit-events."


def test_what_is_done_with_such_a_key_is_told_its_owner(people: People, timed: Appliance) -> None:
    """It acts in the owner's name, and may be in somebody else's hands."""
    _, mine = people.make(people.ada, customCapabilities=["admin.members"])
    key_id, token = given_to(people, people.ada, None, "admin.members")
    made = f"An administrator created an API key for you on 2026-01-02 (UTC): {SEE}"
    assert people.ada.ask("GET", "/me").warnings == [made]
    path = f"/admin/members/{people.cid.member['id']}/password-reset"
    people.ada.ask("POST", path, token=mine)
    assert people.ada.ask("GET", "/me").warnings == [made]
    people.ada.ask("POST", path, token=token)
    used = f"An API key that an administrator created for you acted in your name on 2026-01-02 (UTC): {SEE}"
    assert people.ada.ask("GET", "/me").warnings == [used, made]
    people.ada.ask("DELETE", f"{OWN}/{key_id}")
    assert people.ada.ask("GET", "/me").warnings == [used, made], "what is revoked was there"
    assert people.bea.ask("GET", "/me").warnings == []
    assert len(people.cid.ask("GET", "/me").warnings) == 1
    assert timed.store.audit.verify().broken is None
