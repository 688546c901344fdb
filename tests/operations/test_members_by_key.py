"""What an API key cannot do to an administrator, whatever it holds."""

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from tests.checked_client import Answer, CheckedClient
from tests.operations.filled import add_key, add_member, path_of
from tests.servers.mailboxes import wait_until

BOB = {"name": "Bob", "email": "bob@example.org", "role": "member"}


@pytest.fixture
def key(timed: Appliance, ada: CheckedClient) -> CheckedClient:
    """Ada's API key for members, and for everything else."""
    client = CheckedClient(timed)
    every = ("mail.read", "admin.members", "admin.api_keys", "admin.accounts", "admin.audit", "admin.license")
    client.token = add_key(timed, ada.member["id"], *every)[1]
    return client


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("POST /password-reset", "reset_password"),
        ("PATCH ", "update_member"),
        ("DELETE ", "delete_member"),
        ("POST /invitation", "invite_member"),
        ("DELETE /sessions", "revoke_sessions_of"),
        ("DELETE /sessions/{session}", "revoke_session_of"),
    ],
)
def test_who_is_raised_while_a_key_asks_is_an_administrator(
    ada: CheckedClient, bob: CheckedClient, key: CheckedClient, call: str, function: str
) -> None:
    method, _, rest = call.partition(" ")
    body = {"email": "x@example.org"} if method == "PATCH" else None
    path = path_of(bob, rest.format(session=bob.ask("GET", "/me").data["credential"]["id"]))
    raise_bob = partial(ada.appliance.store.members.update, bob.member["id"], role="admin")
    answer = answer_after(key, method, path, body, function, raise_bob)
    assert (answer.refusal, answer.places) == ((403, "permission_denied"), ["role"])
    assert bob.ask("GET", "/me").data["member"]["email"] == "bob@example.org"


#: what is asked with an API key, and where it then waits
WAITING: list[tuple[str, str, Any, str]] = [
    ("POST", "/admin/members", BOB | {"email": "eve@example.org"}, "create_member"),
    ("PATCH", "/admin/members/{bob}", {"name": "Robert"}, "update_member"),
    ("POST", "/admin/members/{bob}/password-reset", None, "reset_password"),
    ("DELETE", "/admin/members/{bob}/sessions", None, "revoke_sessions_of"),
    ("POST", "/admin/api-keys", {"name": "k", "memberId": "{bob}", "customCapabilities": ["admin.audit"]}, "_create"),
    ("PATCH", "/admin/api-keys/{key}", {"accounts": []}, "update_key"),
    ("DELETE", "/admin/api-keys/{key}", None, "_revoke"),
]


@pytest.mark.parametrize(("method", "path", "body", "function"), WAITING)
def test_a_key_that_ends_while_it_asks_does_nothing(
    ada: CheckedClient, bob: CheckedClient, key: CheckedClient, method: str, path: str, body: Any, function: str
) -> None:
    appliance, names = ada.appliance, {"bob": bob.member["id"], "key": add_key(ada.appliance, bob.member["id"])[0]}
    mine = key.ask("GET", "/me").data["credential"]["id"]
    everything = ("/admin/members", "/admin/audit-events", f"/admin/members/{names['bob']}/sessions")
    before = [ada.ask("GET", one).data for one in everything]
    if body and "memberId" in body:
        body = body | {"memberId": names["bob"]}
    revoke = partial(appliance.store.api_keys.revoke, mine)
    answer = answer_after(key, method, path.format(**names), body, function, revoke)
    assert answer.refusal == (401, "unauthenticated")
    assert [ada.ask("GET", one).data for one in everything] == before
    assert [one.id for one in appliance.store.api_keys.list()] == [names["key"]]


def answer_after(
    who: CheckedClient, method: str, path: str, body: Any, function: str, change: Callable[[], object]
) -> Answer:
    """What is answered to a request that was let through, and waits for its turn to write while something changes."""
    who.ask("GET", "/me")  # its use is noted now, and needs no transaction later
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(who.ask(method, path, body)), name="asking")
    with who.appliance.store.database.transaction(durable=True):
        asking.start()
        wait_until(lambda: {function, "transaction"} <= stack_of(asking), lambda: str(stack_of(asking)), 10)
        change()
    asking.join()
    return answers[0]


def stack_of(thread: threading.Thread) -> set[str]:
    """The names of the functions that a thread is in."""
    frame = sys._current_frames().get(thread.ident or 0)
    names = set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_a_key_looks_after_members(bob: CheckedClient, key: CheckedClient) -> None:
    assert key.ask("PATCH", path_of(bob), {"name": "Robert", "role": "member"}).data["name"] == "Robert"
    assert key.ask("POST", path_of(bob, "/password-reset")).status == 201
    assert [one["current"] for one in key.ask("GET", path_of(bob, "/sessions")).data] == [False]
    assert key.ask("DELETE", path_of(bob, "/sessions")).status == 200
    assert key.ask("DELETE", path_of(bob)).status == 200
    assert key.ask("POST", "/admin/members", BOB).status == 201


def chosen(client: CheckedClient, path: str, token: str) -> CheckedClient:
    """Who has taken a link up."""
    taken = {"token": token, "password": "correct horse battery", "deviceName": "x"}
    answer = client.ask("POST", path, taken, token="")
    assert answer.status == 200, answer.body
    there = CheckedClient(client.appliance)
    there.token, there.member = answer.data["token"], answer.data["member"]
    return there


def test_whom_a_key_let_in_is_no_administrator_until_a_person_did(ada: CheckedClient, key: CheckedClient) -> None:
    """The one who holds the key may have chosen the password, and have a session."""
    invited = key.ask("POST", "/admin/members", BOB).data["invitation"]["token"]
    bob = chosen(key, "/auth/enroll", invited)
    for changed in (False, True):
        refused = ada.ask("PATCH", path_of(bob), {"role": "admin"})
        assert refused.refusal == (409, "conflict")
        assert "password reset" in refused.message
        if not changed:  # nor does it help that they choose another one
            change = {"currentPassword": "correct horse battery", "newPassword": "another horse battery"}
            assert bob.ask("POST", "/me/password", change).status == 200
    reset = ada.ask("POST", path_of(bob, "/password-reset")).data["token"]
    assert ada.ask("PATCH", path_of(bob), {"role": "admin"}).refusal == (409, "conflict"), "not taken up yet"
    after = chosen(ada, "/auth/password-reset", reset)
    assert ada.ask("PATCH", path_of(bob), {"role": "admin"}).data["role"] == "admin"
    assert bob.ask("GET", "/me").refusal == (401, "unauthenticated")
    assert after.ask("GET", "/admin/settings").status == 200


def test_a_reset_by_a_key_counts_as_well(ada: CheckedClient, bob: CheckedClient, key: CheckedClient) -> None:
    chosen(key, "/auth/password-reset", key.ask("POST", path_of(bob, "/password-reset")).data["token"])
    assert ada.ask("PATCH", path_of(bob), {"role": "admin"}).refusal == (409, "conflict")


def test_a_key_makes_no_key_in_the_name_of_another_administrator(ada: CheckedClient, key: CheckedClient) -> None:
    add_member(ada.appliance, "dan", "admin")
    dan = ada.log_in("dan@example.org").member["id"]
    given = {"name": "planted", "memberId": dan, "customCapabilities": ["admin.audit"]}
    refused = key.ask("POST", "/admin/api-keys", given)
    assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["role"])
    assert key.ask("POST", "/admin/api-keys", given | {"memberId": ada.member["id"]}).status == 201
    assert ada.ask("POST", "/admin/api-keys", given).status == 201
