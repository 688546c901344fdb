"""API keys over HTTP: made, listed, changed, revoked, and what they are then good for."""

from collections.abc import Iterator
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.security import tokens
from tests.checked_client import CheckedClient, description
from tests.operations.filled import everything_stored
from tests.operations.key_people import ALL, MAIL, OWN, People
from tests.servers.fake_clock import FakeClock

FIELDS = {"id", "name", "createdAt", "lastUsedAt", "memberId", "accountIds"} | {
    "permissionProfile",
    "capabilities",
    "supplementalCapabilities",
}


# --- making -----------------------------------------------------------------------------------------------------------


def test_a_key_is_made_and_its_token_is_shown_this_once(people: People, timed: Appliance) -> None:
    answer = people.cid.ask("POST", OWN, {"name": "Backup", "permissionProfile": "read-write"})
    assert answer.status == 201
    assert answer.data.keys() == {"apiKey", "token"}
    key, token = answer.data["apiKey"], answer.data["token"]
    assert key.keys() == FIELDS
    assert key == {
        "id": key["id"],
        "name": "Backup",
        "createdAt": "2026-01-02T03:04:05.678Z",
        "lastUsedAt": None,
        "memberId": people.cid.member["id"],
        "permissionProfile": "read-write",
        "capabilities": ["mail.read", "mail.drafts", "mail.organize", "mail.trash"],
        "supplementalCapabilities": [],
        "accountIds": None,
    }
    assert token.startswith("mbxk_")
    assert tokens.is_well_formed(token)
    assert people.cid.ask("GET", OWN).data == [key]
    assert people.ada.ask("GET", ALL).data == [key]
    assert token not in everything_stored(timed)


def test_what_admin_members_amounts_to_is_warned_of(people: People) -> None:
    told = "can issue a password reset for any member who is not an administrator"
    for given, is_told in (
        ({"permissionProfile": "read-only", "supplementalCapabilities": ["admin.members"]}, True),
        ({"customCapabilities": ["mail.read", "admin.members"]}, True),
        ({"permissionProfile": "full", "supplementalCapabilities": ["admin.audit"]}, False),
    ):
        answer = people.ada.ask("POST", OWN, {"name": "k", **given})
        assert [told in warning for warning in answer.warnings] == [True] * is_told
    # The last of them has it added, once.
    change = {"supplementalCapabilities": ["admin.audit", "admin.members"]}
    path = f"{ALL}/{answer.data['apiKey']['id']}"
    assert [told in warning for warning in people.ada.ask("PATCH", path, change).warnings] == [True]
    assert people.ada.ask("PATCH", path, change).warnings == []
    assert people.ada.ask("PATCH", path, {"supplementalCapabilities": ["admin.members"]}).warnings == []


# fmt: off
#: What is wrong with the body of a new key -> what the error names.
WRONG: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({"name": None},                                         ["/name"]),
    ({"name": ""},                                           ["/name"]),
    ({"name": "x" * 201},                                    ["/name"]),
    ({"name": "a\nb"},                                       ["/name"]),
    ({"name": "a\x00"},                                      ["/name"]),
    ({"permissionProfile": None},                            ["/permissionProfile"]),
    ({"permissionProfile": "custom"},                        ["/permissionProfile"]),
    ({"customCapabilities": ["mail.read"]},                  ["/permissionProfile"]),
    ({"supplementalCapabilities": None},                     ["/supplementalCapabilities"]),
    ({"supplementalCapabilities": ["mail.send"]},            ["/supplementalCapabilities/0"]),
    ({"accounts": ["acc_unknown"]},                          ["/accounts/0"]),
    ({"accounts": [""]},                                     ["/accounts/0"]),
    ({"accounts": ["x" * 201]},                              ["/accounts/0"]),
    ({"accounts": ["x"] * 101},                              ["/accounts"]),
    ({"memberId": "mem_1"},                                  ["/memberId"]),
    ({"expiresAt": "2030-01-01T00:00:00Z"},                  ["/expiresAt"]),
)
# fmt: on


@pytest.mark.parametrize(("given", "places"), WRONG, ids=lambda one: str(one)[:40])
def test_a_wrong_request_is_told_its_place(wrong_for: CheckedClient, given: dict[str, Any], places: list[str]) -> None:
    answer = wrong_for.ask("POST", OWN, {"name": "k", "permissionProfile": "read-only", **given})
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), places)
    assert wrong_for.ask("GET", OWN).data == []


@pytest.fixture(scope="module")
def wrong_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedClient]:
    """An administrator for whom nothing is ever made."""
    appliance = Appliance(tmp_path_factory.mktemp("keys") / "data")
    yield People(appliance).ada
    appliance.stop()


def test_a_scope_holds_what_the_owner_reaches(people: People) -> None:
    given = {"name": "k", "permissionProfile": "read-only"}
    answer = people.cid.ask("POST", OWN, {**given, "accounts": [people.cids.id, people.adas.id, "acc_x"]})
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/accounts/1", "/accounts/2"])
    people.adas.grant(people.cid.member["id"])
    twice = [people.cids.id, people.adas.id, people.cids.id]
    key = people.cid.ask("POST", OWN, {**given, "accounts": twice}).data["apiKey"]
    assert key["accountIds"] == [people.cids.id, people.adas.id]
    # A place is that in the request, whatever stands there twice.
    answer = people.cid.ask("POST", OWN, {**given, "accounts": [*twice, "acc_x"]})
    assert answer.places == ["/accounts/3"]
    assert people.cid.ask("POST", OWN, {**given, "accounts": []}).data["apiKey"]["accountIds"] == []
    assert people.cid.ask("POST", OWN, {**given, "accounts": None}).data["apiKey"]["accountIds"] is None


def test_an_admin_makes_a_key_for_a_member(people: People) -> None:
    owner = people.cid.member["id"]
    given = {"name": "k", "memberId": owner, "customCapabilities": ["admin.audit"]}
    made = people.ada.ask("POST", ALL, {**given, "accounts": [people.cids.id]})
    assert made.status == 201
    assert (made.data["apiKey"]["memberId"], made.data["apiKey"]["accountIds"]) == (owner, [people.cids.id])
    assert people.cid.ask("GET", OWN).data == [made.data["apiKey"]]
    # What counts is what the owner reaches, not what the one who asks does.
    assert people.ada.ask("POST", ALL, {**given, "accounts": [people.adas.id]}).places == ["/accounts/0"]
    for unknown in ("mem_unknown", "x" * 200):
        answer = people.ada.ask("POST", ALL, {**given, "memberId": unknown})
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/memberId"])
    for member in ("", "x" * 201, None):
        assert people.ada.ask("POST", ALL, {**given, "memberId": member}).places == ["/memberId"]
    del given["memberId"]
    assert people.ada.ask("POST", ALL, given).places == ["/memberId"]
    # For herself an admin may make any there.
    own = {"name": "k", "memberId": people.ada.member["id"], "permissionProfile": "full"}
    assert people.ada.ask("POST", ALL, own).data["apiKey"]["capabilities"] == MAIL


# --- the ids of keys --------------------------------------------------------------------------------------------------


def test_ids_of_keys(people: People) -> None:
    of_cid, _ = people.make(people.cid, permissionProfile="read-only")
    for path, wrong in ((f"{ALL}/{'x' * 201}", {}), (f"{ALL}/{'%C3%A9' * 201}", {"nonsense": 1})):
        for method in ("PATCH", "DELETE"):
            answer = people.ada.ask(method, path, wrong if method == "PATCH" else None)
            assert (answer.refusal, answer.places[:1]) == ((400, "invalid_request"), ["path:keyId"])
    assert people.ada.ask("DELETE", f"{OWN}/{'x' * 201}").places == ["path:keyId"]
    for unknown in ("x" * 200, "key_unknown", people.ada.member["id"]):
        # What is not there is told before what is wrong with the body.
        assert people.ada.ask("PATCH", f"{ALL}/{unknown}", b"{").refusal == (404, "not_found")
        assert people.ada.ask("DELETE", f"{ALL}/{unknown}").refusal == (404, "not_found")
        assert people.ada.ask("DELETE", f"{OWN}/{unknown}").refusal == (404, "not_found")
    # Somebody else's is none of one's own, also for an administrator.
    assert people.ada.ask("DELETE", f"{OWN}/{of_cid}").refusal == (404, "not_found")
    assert people.bea.ask("GET", OWN).data == []
    assert [key["id"] for key in people.cid.ask("GET", OWN).data] == [of_cid]


def test_the_description_tells_how_long_an_id_may_be() -> None:
    for path in (OWN, ALL):
        (parameter,) = description()["paths"][f"/api/v1{path}/{{keyId}}"]["delete"]["parameters"]
        assert (parameter["name"], parameter["schema"]["minLength"], parameter["schema"]["maxLength"]) == (
            "keyId",
            1,
            200,
        )


@pytest.mark.parametrize("path", [OWN, ALL])
def test_a_revoked_key_is_gone_at_once(people: People, path: str) -> None:
    key_id, token = people.make(people.ada, permissionProfile="read-only")
    kept, _ = people.make(people.ada, permissionProfile="full")
    assert people.ada.ask("GET", "/me", token=token).status == 200
    assert people.ada.ask("DELETE", f"{path}/{key_id}").data == {"id": key_id, "deleted": True}
    assert people.ada.ask("GET", "/me", token=token).refusal == (401, "unauthenticated")
    assert [key["id"] for key in people.ada.ask("GET", OWN).data] == [kept]
    assert [key["id"] for key in people.ada.ask("GET", ALL).data] == [kept]
    for again in (OWN, ALL):
        assert people.ada.ask("DELETE", f"{again}/{key_id}").refusal == (404, "not_found")
    assert people.ada.ask("PATCH", f"{ALL}/{key_id}", {}).refusal == (404, "not_found")


def test_a_key_may_revoke_itself(people: People) -> None:
    key_id, token = people.make(people.ada, customCapabilities=["admin.api_keys"])
    assert people.ada.ask("DELETE", f"{ALL}/{key_id}", token=token).data["deleted"] is True
    assert people.ada.ask("GET", "/me", token=token).refusal == (401, "unauthenticated")


def test_when_a_key_was_used(people: People, clock: FakeClock) -> None:
    _, token = people.make(people.cid, permissionProfile="read-only")
    clock.advance(100)
    assert [key["lastUsedAt"] for key in people.cid.ask("GET", OWN).data] == [None]
    people.cid.ask("GET", "/me", token=token)
    assert [key["lastUsedAt"] for key in people.cid.ask("GET", OWN).data] == ["2026-01-02T03:05:45.678Z"]
    clock.advance(59)  # not every request writes
    people.cid.ask("GET", "/me", token=token)
    assert [key["lastUsedAt"] for key in people.cid.ask("GET", OWN).data] == ["2026-01-02T03:05:45.678Z"]
    clock.advance(1)
    people.cid.ask("GET", "/me", token=token)
    assert [key["lastUsedAt"] for key in people.cid.ask("GET", OWN).data] == ["2026-01-02T03:06:45.678Z"]


# --- who may ----------------------------------------------------------------------------------------------------------


# --- what is written down ---------------------------------------------------------------------------------------------


def audited(appliance: Appliance) -> list[tuple[str, ...]]:
    rows = appliance.store.database.rows(
        "SELECT action, actor_member_id, target_kind, target_id, about_member_id, outcome FROM audit_events"
        " WHERE action LIKE 'api_key.%' ORDER BY number"
    )
    return [tuple(row) for row in rows]


def test_what_happens_to_keys_is_audited_and_no_token_is(people: People, timed: Appliance) -> None:
    ada, cid = people.ada.member["id"], people.cid.member["id"]
    key_id, token = people.make(people.cid, permissionProfile="read-only")
    people.ada.ask("PATCH", f"{ALL}/{key_id}", {"accounts": []})
    people.ada.ask("PATCH", f"{ALL}/{key_id}", {"permissionProfile": "full"})
    people.ada.ask("PATCH", f"{ALL}/{key_id}", {"accounts": ["acc_x"]})
    people.ada.ask("DELETE", f"{ALL}/{key_id}")
    own, _ = people.make(people.cid, permissionProfile="read-only")
    people.cid.ask("DELETE", f"{OWN}/{own}")
    made = people.ada.ask("POST", ALL, {"name": "k", "memberId": cid, "customCapabilities": ["admin.audit"]}).data
    assert audited(timed) == [
        ("api_key.create", cid, "api_key", key_id, cid, "success"),
        ("api_key.update", ada, "api_key", key_id, cid, "success"),
        ("api_key.update", ada, "api_key", key_id, cid, "success"),
        ("api_key.revoke", ada, "api_key", key_id, cid, "success"),
        ("api_key.create", cid, "api_key", own, cid, "success"),
        ("api_key.revoke", cid, "api_key", own, cid, "success"),
        ("api_key.create", ada, "api_key", made["apiKey"]["id"], cid, "success"),
    ]
    assert timed.store.audit.verify().broken is None
    assert token not in everything_stored(timed)
