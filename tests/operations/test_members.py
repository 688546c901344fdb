"""Members as administrators look after them."""

from collections.abc import Callable
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.security.tokens import hash_token, is_well_formed
from tests.checked_client import PASSWORD, CheckedClient
from tests.operations.filled import FilledMailbox, add_key, everything_stored, path_of
from tests.operations.log_ins import LOGIN, log_in
from tests.servers.fake_clock import FakeClock

BOB = {"name": "Bob", "email": "bob@example.org", "role": "member"}
DAY = 24 * 60 * 60


def suspend(ada: CheckedClient, who: CheckedClient, status: str = "suspended") -> None:
    assert ada.ask("PATCH", path_of(who), {"status": status}).data["status"] == status


def acts(ada: CheckedClient, count: int) -> list[str]:
    """What was done last, the newest first."""
    return [event["action"] for event in events(ada, count)]


def events(ada: CheckedClient, count: int = 50, path: str = "/admin/audit-events") -> list[Any]:
    """The last rows of the audit log, the newest first."""
    return list(ada.ask("GET", f"{path}?limit={count}").data["items"])


# --- create and invite ----------------------------------------------------------------------------------------------


def test_a_member_is_made_with_an_invitation(ada: CheckedClient, timed: Appliance) -> None:
    answer = ada.ask("POST", "/admin/members", BOB)
    assert answer.status == 201
    assert answer.data.keys() == {"member", "invitation"}
    member, invitation = answer.data["member"], answer.data["invitation"]
    assert member == BOB | {
        "id": member["id"],
        "status": "active",
        "createdAt": "2026-01-02T03:04:05.678Z",
        "updatedAt": "2026-01-02T03:04:05.678Z",
        "lastLoginAt": None,
        "invitation": {"expiresAt": "2026-01-09T03:04:05.678Z"},
    }
    token = invitation["token"]
    assert (token[:5], is_well_formed(token)) == ("mbxi_", True)
    url = f"http://127.0.0.1:8025/#enroll={token}"
    assert invitation == {"token": token, "url": url, "expiresAt": "2026-01-09T03:04:05.678Z"}
    assert (token in everything_stored(timed), hash_token(token) in everything_stored(timed)) == (False, True)
    assert ada.ask("GET", f"/admin/members/{member['id']}").data == member
    assert [one["email"] for one in ada.ask("GET", "/admin/members").data] == ["ada@example.org", "bob@example.org"]
    assert acts(ada, 2) == ["invitation.create", "member.create"]
    assert log_in(ada, LOGIN | {"email": BOB["email"]}).refusal == (401, "invalid_credentials")


def test_a_new_invitation_takes_the_place_of_the_old(ada: CheckedClient, timed: Appliance, clock: FakeClock) -> None:
    made = ada.ask("POST", "/admin/members", BOB).data
    clock.advance(DAY)
    answer = ada.ask("POST", f"/admin/members/{made['member']['id']}/invitation")
    assert (answer.status, answer.data["expiresAt"]) == (201, "2026-01-10T03:04:05.678Z")
    find = timed.store.one_time_tokens.find
    assert find("invitation", hash_token(made["invitation"]["token"])) is None
    assert find("invitation", hash_token(answer.data["token"])) == made["member"]["id"]
    assert ada.ask("GET", "/admin/members").data[1]["invitation"] == {"expiresAt": "2026-01-10T03:04:05.678Z"}
    clock.advance(7 * DAY)
    assert ada.ask("GET", "/admin/members").data[1]["invitation"] is None


def test_who_has_enrolled_is_not_invited_but_reset(ada: CheckedClient, bob: CheckedClient) -> None:
    refused = ada.ask("POST", path_of(bob, "/invitation"))
    assert refused.refusal == (409, "conflict")
    assert "password reset" in refused.message
    answer = ada.ask("POST", path_of(bob, "/password-reset"))
    token = answer.data["token"]
    assert (answer.status, token[:5], is_well_formed(token)) == (201, "mbxr_", True)
    assert answer.data["url"] == f"http://127.0.0.1:8025/#reset={token}"
    assert answer.data["expiresAt"] == "2026-01-03T03:04:05.678Z"
    # Until it is used everything stays.
    assert bob.ask("GET", "/me").status == 200
    assert acts(ada, 1) == ["password_reset.create"]


def test_a_reset_is_for_anybody(ada: CheckedClient) -> None:
    made = ada.ask("POST", "/admin/members", BOB).data["member"]["id"]
    for member in (made, ada.member["id"]):
        assert ada.ask("POST", f"/admin/members/{member}/password-reset").status == 201


# fmt: off
#: bodies of POST that are refused, and the place that is named
WRONG: list[tuple[Any, str]] = [
    ({"name": ""},                       "/name"),
    ({"name": "B\r\nBcc: x"},            "/name"),
    ({"name": "=?utf-8?q?a=0Ab?="},      "/name"),
    ({"email": "bob"},                   "/email"),
    ({"email": "bob@example.org\n"},     "/email"),
    ({"role": "owner"},                  "/role"),
    ({"status": "active"},               "/status"),
    ({"name": None},                     "/name"),
]
#: the same for PATCH
WRONG_CHANGE = [
    *WRONG[:6],
    ({"status": "gone"},                 "/status"),
    ({"password": PASSWORD},             "/password"),
    *(({name: None}, f"/{name}") for name in ("name", "email", "role", "status")),
]
# fmt: on


def test_what_a_member_cannot_be(ada: CheckedClient, bob: CheckedClient) -> None:
    for fields, place in WRONG:
        answer = ada.ask("POST", "/admin/members", BOB | {"email": "eve@example.org"} | fields)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place]), fields
    for fields, place in WRONG_CHANGE:
        answer = ada.ask("PATCH", path_of(bob), fields)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place]), fields
    assert [one["name"] for one in ada.ask("GET", "/admin/members").data] == ["Ada", "bob"]


# --- change -----------------------------------------------------------------------------------------------------------


def test_a_member_is_changed(ada: CheckedClient, bob: CheckedClient, clock: FakeClock) -> None:
    clock.advance(5)
    change = {"name": "Robert", "email": "Robert@Example.org"}
    changed = ada.ask("PATCH", path_of(bob), change).data
    assert changed == bob.member | change | {"updatedAt": "2026-01-02T03:04:10.678Z"}
    assert bob.ask("GET", "/me").data["member"] == changed
    assert log_in(ada, LOGIN | {"email": "robert@example.org"}).status == 200
    assert log_in(ada, LOGIN | {"email": "bob@example.org"}).refusal == (401, "invalid_credentials")


def test_a_change_of_nothing_is_none(ada: CheckedClient, bob: CheckedClient, clock: FakeClock) -> None:
    before = acts(ada, 50)
    clock.advance(5)
    for change in ({}, {"role": "member"}, {"name": "bob", "status": "active"}):
        assert ada.ask("PATCH", path_of(bob), change).data == bob.member
    assert acts(ada, 50) == before


#: one change after another -> what the audit log calls it, in this order
CHANGES: list[tuple[dict[str, str], list[str]]] = [
    ({"name": "Robert"}, ["member.update"]),
    ({"email": "robert@example.org"}, ["member.update"]),
    ({"role": "admin"}, ["member.promote"]),
    ({"name": "Bob", "email": "bob@example.org", "role": "admin"}, ["member.update"]),
    ({"role": "member", "name": "Robert"}, ["member.demote", "member.update"]),
    ({"status": "suspended"}, ["member.suspend", "session.revoke", "session.revoke"]),
    ({"status": "active", "role": "admin"}, ["member.promote", "member.activate"]),
    ({"status": "suspended", "name": "Bob", "role": "member"}, ["member.demote", "member.suspend", "member.update"]),
]


def test_the_log_tells_what_changed(ada: CheckedClient, bob: CheckedClient) -> None:
    ada.log_in("bob@example.org", "phone")
    for change, actions in CHANGES:
        before = len(events(ada))
        assert ada.ask("PATCH", path_of(bob), change).status == 200
        new = events(ada)[: len(events(ada)) - before]
        assert [event["action"] for event in reversed(new)] == actions, change
        assert {event["target"]["id"] for event in new if event["target"]["kind"] == "member"} == {bob.member["id"]}
    assert ada.appliance.store.audit.verify().broken is None


def test_an_email_belongs_to_one_member(ada: CheckedClient, bob: CheckedClient) -> None:
    taken = {"email": "BOB@example.org"}
    assert ada.ask("POST", "/admin/members", BOB | taken).refusal == (409, "email_taken")
    change = {"email": "Ada@Example.org", "status": "suspended"}
    assert ada.ask("PATCH", path_of(bob), change).refusal == (409, "email_taken")
    assert bob.ask("GET", "/me").data["member"] == bob.member
    assert ada.ask("PATCH", path_of(bob), taken).data["email"] == "BOB@example.org"


def test_suspending_ends_sessions_at_once_and_for_good(ada: CheckedClient, bob: CheckedClient) -> None:
    token = add_key(ada.appliance, bob.member["id"], "mail.read")[1]
    suspend(ada, bob)
    assert bob.ask("GET", "/me").refusal == (401, "unauthenticated")
    assert ada.ask("GET", "/me", token=token).refusal == (403, "member_suspended")
    assert log_in(ada, LOGIN | {"email": "bob@example.org"}).refusal == (403, "member_suspended")
    suspend(ada, bob, "active")
    assert bob.ask("GET", "/me").refusal == (401, "unauthenticated")
    assert ada.ask("GET", "/me", token=token).status == 200
    assert ada.ask("GET", path_of(bob, "/sessions")).data == []


def test_an_administrator_who_is_demoted_has_no_rights_with_the_next_request(
    ada: CheckedClient, bob: CheckedClient
) -> None:
    token = add_key(ada.appliance, bob.member["id"], "admin.members")[1]
    for role, status in (("admin", 200), ("member", 403), ("admin", 200)):
        assert ada.ask("PATCH", path_of(bob), {"role": role}).data["role"] == role
        assert bob.ask("GET", "/admin/members").status == status
        assert ada.ask("GET", "/admin/members", token=token).status == status


# --- the last administrator -------------------------------------------------------------------------------------------

ENDS: list[Callable[[CheckedClient, str], Any]] = [
    lambda client, path: client.ask("PATCH", path, {"role": "member"}),
    lambda client, path: client.ask("PATCH", path, {"status": "suspended"}),
    lambda client, path: client.ask("DELETE", path),
]


@pytest.mark.parametrize("end", ENDS)
def test_the_last_administrator_stays(
    ada: CheckedClient, bob: CheckedClient, clock: FakeClock, end: Callable[[CheckedClient, str], Any]
) -> None:
    assert ada.ask("POST", "/admin/members", BOB | {"email": "eve@example.org", "role": "admin"}).status == 201
    clock.advance(7 * DAY)
    assert end(ada, path_of(ada)).refusal == (409, "last_admin"), "whose invitation has expired cannot get in"
    ada.ask("PATCH", path_of(bob), {"role": "admin"})
    assert end(ada, path_of(ada)).status == 200
    assert end(bob, path_of(bob)).refusal == (409, "last_admin")
    assert bob.ask("GET", "/admin/members").status == 200
    assert ada.ask("GET", "/admin/members").status in (401, 403)


@pytest.mark.parametrize("end", ENDS[:2])
def test_who_is_invited_as_an_administrator_is_another_one(
    ada: CheckedClient, clock: FakeClock, end: Callable[[CheckedClient, str], Any]
) -> None:
    made = ada.ask("POST", "/admin/members", BOB | {"role": "admin"}).data
    eve = ada.ask("POST", "/admin/members", BOB | {"email": "eve@example.org", "role": "admin"}).data["member"]
    assert ada.ask("PATCH", f"/admin/members/{eve['id']}", {"status": "suspended"}).warnings == []
    assert ada.ask("DELETE", path_of(ada)).refusal == (409, "last_admin"), "nobody comes back from this"
    clock.advance(7 * DAY - 3600)
    answer = end(ada, path_of(ada))
    assert answer.status == 200
    (warning,) = answer.warnings
    assert warning.startswith(
        "No administrator can sign in until bob@example.org opens their link and sets a password."
    )
    assert "(2026-01-09T03:04:05.678Z)" in warning
    taken = {"token": made["invitation"]["token"], "password": "correct horse battery", "deviceName": "x"}
    answer = ada.ask("POST", "/auth/enroll", taken, token="")
    assert answer.status == 200
    assert ada.ask("GET", "/admin/members", token=answer.data["token"]).status == 200


def test_an_invitation_outlives_a_promotion(ada: CheckedClient) -> None:
    made = ada.ask("POST", "/admin/members", BOB).data
    promoted = ada.ask("PATCH", f"/admin/members/{made['member']['id']}", {"role": "admin"})
    assert promoted.data["invitation"] == made["member"]["invitation"]
    taken = {"token": made["invitation"]["token"], "password": "correct horse battery", "deviceName": "x"}
    assert ada.ask("POST", "/auth/enroll", taken, token="").data["member"]["role"] == "admin"


# --- delete -----------------------------------------------------------------------------------------------------------


def test_a_member_is_removed_with_all_they_had(ada: CheckedClient, bob: CheckedClient) -> None:
    token = add_key(ada.appliance, bob.member["id"], "mail.read")[1]
    FilledMailbox(ada.appliance, ada.member["id"]).grant(bob.member["id"])
    assert ada.ask("DELETE", path_of(bob)).data == {"id": bob.member["id"], "deleted": True}
    for one in (bob.token, token):
        assert ada.ask("GET", "/me", token=one).refusal == (401, "unauthenticated")
    assert ada.ask("GET", path_of(bob)).refusal == (404, "not_found")
    assert ada.ask("DELETE", path_of(bob)).refusal == (404, "not_found")
    assert ada.ask("POST", "/admin/members", BOB).status == 201, "the email is free again"
    assert acts(ada, 4)[2:] == ["member.delete", "session.revoke"]


def test_who_owns_mailboxes_is_not_removed(ada: CheckedClient, bob: CheckedClient) -> None:
    for number, words in enumerate(("a mailbox", "2 mailboxes")):
        FilledMailbox(ada.appliance, bob.member["id"], f"box{number}@example.org")
        refused = ada.ask("DELETE", path_of(bob))
        assert (refused.refusal, words in refused.message) == ((409, "conflict"), True)
    assert bob.ask("GET", "/me").status == 200


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_sessions_of_a_member_are_seen_and_ended(ada: CheckedClient, bob: CheckedClient) -> None:
    phone = ada.log_in("bob@example.org", "phone")
    listed = ada.ask("GET", path_of(bob, "/sessions")).data
    assert sorted((one["deviceName"], one["current"]) for one in listed) == [("phone", False), ("test", False)]
    by_name = {one["deviceName"]: one for one in listed}
    path = path_of(bob, f"/sessions/{by_name['phone']['id']}")
    assert ada.ask("GET", path).data == by_name["phone"]
    assert ada.ask("DELETE", path).data == {"id": by_name["phone"]["id"], "deleted": True}
    assert phone.ask("GET", "/me").status == 401
    for method in ("GET", "DELETE"):
        assert ada.ask(method, path).refusal == (404, "not_found")
    tablet = ada.log_in("bob@example.org", "tablet")
    assert ada.ask("DELETE", path_of(bob, "/sessions")).data == {"id": bob.member["id"], "deleted": True}
    assert (bob.ask("GET", "/me").status, tablet.ask("GET", "/me").status) == (401, 401)
    assert acts(ada, 4) == ["session.revoke", "session.revoke", "session.create", "session.revoke"]
    own = [one["action"] for one in events(ada, path="/me/audit-events")]
    assert own.count("session.revoke") == 3
    assert ada.ask("DELETE", path_of(bob, "/sessions")).status == 200
    assert acts(ada, 2) == ["session.revoke", "session.revoke"], "there was none"


def test_a_session_belongs_to_its_member(ada: CheckedClient, bob: CheckedClient) -> None:
    (own,) = ada.ask("GET", path_of(ada, "/sessions")).data
    assert own["current"] is True
    for method in ("GET", "DELETE"):
        assert ada.ask(method, path_of(bob, f"/sessions/{own['id']}")).refusal == (404, "not_found")
    assert ada.ask("GET", "/me").status == 200
