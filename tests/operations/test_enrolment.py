"""Enrolling and resetting a password: a token that is good once, and what it leaves of what was before."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Literal

import pytest

from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.security.tokens import new_token
from tests.checked_client import PASSWORD, Answer, CheckedClient
from tests.operations.filled import add_key, add_member, everything_stored, suspend
from tests.operations.log_ins import LOGIN, WRONG, insist, invite, issue, log_in, recorded
from tests.servers.fake_clock import FakeClock

Use = Literal["invitation", "password_reset"]
PATHS: dict[Use, str] = {"invitation": "/auth/enroll", "password_reset": "/auth/password-reset"}
ACTIONS: dict[Use, str] = {"invitation": "member.enroll", "password_reset": "password_reset.redeem"}
USES = tuple(PATHS)
NEW = "a password never used before"
both = pytest.mark.parametrize("use", USES)


def redeem(
    client: CheckedClient, use: Use, token: str, password: str = NEW, peer: str = "127.0.0.1", device: str = "phone"
) -> Answer:
    body = {"token": token, "password": password, "deviceName": device}
    return client.ask("POST", PATHS[use], body, token="", peer=peer, secure=peer != "127.0.0.1")


def given(timed: Appliance, use: Use) -> tuple[str, str]:
    """A member and a token for them: one who was invited, or one who forgot the password."""
    if use == "invitation":
        return invite(timed)
    member = add_member(timed, "bob")
    return member, issue(timed, use, member)


def last_row(timed: Appliance) -> int:
    return int(timed.store.database.value("SELECT max(number) FROM audit_events"))


@both
def test_a_token_gives_a_password_and_a_session(ada: CheckedClient, timed: Appliance, use: Use) -> None:
    member, token = given(timed, use)
    before = last_row(timed)
    answer = redeem(ada, use, token)
    assert answer.status == 200
    assert answer.data.keys() == {"token", "session", "member"}
    assert (answer.data["session"]["deviceName"], answer.data["session"]["current"]) == ("phone", True)
    assert answer.data["member"]["id"] == member
    assert answer.data["member"]["lastLoginAt"] == answer.data["session"]["createdAt"]
    assert answer.data["member"]["invitation"] is None
    assert ada.ask("GET", "/me", token=answer.data["token"]).data["member"]["id"] == member
    assert log_in(ada, LOGIN | {"email": "bob@example.org", "password": NEW}).status == 200
    assert log_in(ada, LOGIN | {"email": "bob@example.org"}).status == 401
    assert recorded(timed, before)[:2] == [(ACTIONS[use], "success"), ("session.create", "success")]
    stored = everything_stored(timed)
    assert token not in stored
    assert NEW not in stored


@both
def test_a_token_is_good_once(ada: CheckedClient, timed: Appliance, use: Use) -> None:
    _, token = given(timed, use)
    assert redeem(ada, use, token).status == 200
    assert redeem(ada, use, token, "another password here").refusal == (400, "invalid_token")
    assert log_in(ada, LOGIN | {"email": "bob@example.org", "password": NEW}).status == 200


@both
def test_of_many_at_once_one_is_first(ada: CheckedClient, timed: Appliance, use: Use) -> None:
    _, token = given(timed, use)

    def once(number: int) -> Answer:
        return insist(lambda: redeem(CheckedClient(timed), use, token, f"{NEW} {number}"))

    with ThreadPoolExecutor(6) as at_once:
        answers = list(at_once.map(once, range(6)))
    assert sorted(answer.status for answer in answers) == [200, 400, 400, 400, 400, 400]
    assert {answer.refusal for answer in answers if answer.status != 200} == {(400, "invalid_token")}


@both
def test_what_is_no_token(ada: CheckedClient, timed: Appliance, clock: FakeClock, use: Use) -> None:
    member, token = given(timed, use)
    other: Use = "password_reset" if use == "invitation" else "invitation"
    table = (token[:-1], token + "x", token.swapcase(), new_token("mbxi"), new_token("mbxs"), ada.token, "x", "ü\x00")
    for text in (*table, issue(timed, other, member), issue(timed, "console_link", member)):
        answer = redeem(ada, use, text)
        assert (answer.refusal, answer.places) == ((400, "invalid_token"), [])
    for text, place in (("", "/token"), ("x" * 5000, "/token")):
        answer = redeem(ada, use, text)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place])
    clock.advance(24 * 60 * 60 - 0.001)
    late = issue(timed, use, member, timedelta(milliseconds=1))
    clock.advance(0.001)
    for expired in (token, late):
        assert redeem(ada, use, expired).refusal == (400, "invalid_token")


@both
def test_a_weak_password_does_not_use_the_token_up(ada: CheckedClient, timed: Appliance, use: Use) -> None:
    _, token = given(timed, use)
    before = last_row(timed)
    # More of them than failures are allowed.
    for password in ("", "x" * 11, "x" * 1025, "BOB@example.org") * 8:
        answer = redeem(ada, use, token, password)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/password"])
    assert recorded(timed, before) == []
    assert redeem(ada, use, token).status == 200


@both
def test_a_password_that_is_refused_does_not_tell_whether_a_token_is_good(
    ada: CheckedClient, timed: Appliance, use: Use
) -> None:
    _, token = given(timed, use)
    good, unknown = redeem(ada, use, token, "short"), redeem(ada, use, new_token("mbxi"), "short")
    assert (good.refusal, good.places, good.message) == (unknown.refusal, unknown.places, unknown.message)


@both
def test_a_device_name_that_is_refused_does_not_use_it_up(ada: CheckedClient, timed: Appliance, use: Use) -> None:
    _, token = given(timed, use)
    for device in ("", "x" * 201, "lap\ntop", "\x1b[2J"):
        answer = redeem(ada, use, token, device=device)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/deviceName"])
    assert redeem(ada, use, token).status == 200


@both
def test_a_suspended_member_is_told_so_with_a_right_token_only(ada: CheckedClient, timed: Appliance, use: Use) -> None:
    member, token = given(timed, use)
    suspend(timed, member)
    before = last_row(timed)
    assert redeem(ada, use, token).refusal == (403, "member_suspended")
    assert redeem(ada, use, token[:-1]).refusal == (400, "invalid_token")
    assert recorded(timed, before) == [(ACTIONS[use], "denied"), (ACTIONS[use], "failure")]
    with timed.store.database.transaction(durable=True):
        timed.store.members.update(member, status="active")
    assert redeem(ada, use, token).status == 200


@both
def test_every_other_open_token_is_withdrawn(ada: CheckedClient, timed: Appliance, use: Use) -> None:
    member, token = given(timed, use)
    other: Use = "password_reset" if use == "invitation" else "invitation"
    open_ones: tuple[tuple[Use, str], ...] = ((other, issue(timed, other, member)),)
    link = issue(timed, "console_link", member)
    assert redeem(ada, use, token).status == 200
    for kind, left in open_ones:
        assert redeem(ada, kind, left).refusal == (400, "invalid_token")
    assert ada.ask("POST", "/auth/console-links/redeem", {"token": link}).refusal == (400, "invalid_token")


def test_a_reset_ends_the_other_sessions_of_the_member_and_nobody_elses(ada: CheckedClient, timed: Appliance) -> None:
    member, token = given(timed, "password_reset")
    old = [ada.log_in("bob@example.org") for _ in range(2)]
    _, key = add_key(timed, member, "mail.read")
    before = last_row(timed)
    answer = redeem(ada, "password_reset", token)
    for session in old:
        assert session.ask("GET", "/me").refusal == (401, "unauthenticated")
    for alive in (answer.data["token"], ada.token, key):
        assert ada.ask("GET", "/me", token=alive).status == 200
    assert recorded(timed, before)[2:] == [("session.revoke", "success")] * 2


@both
def test_a_success_clears_the_count_of_the_email(ada: CheckedClient, timed: Appliance, use: Use) -> None:
    _, token = given(timed, use)
    for _ in range(5):
        assert log_in(ada, WRONG | {"email": "bob@example.org"}).status == 401
    assert log_in(ada, LOGIN | {"email": "bob@example.org", "password": NEW}).status == 429
    assert redeem(ada, use, token).status == 200
    assert log_in(ada, LOGIN | {"email": "bob@example.org", "password": NEW}).status == 200


def test_all_ways_in_count_together_for_an_address(ada: CheckedClient, timed: Appliance, clock: FakeClock) -> None:
    peer = "192.0.2.1"
    _, token = given(timed, "invitation")
    for number in range(10):
        assert log_in(ada, WRONG | {"email": f"m{number}@example.org"}, peer).status == 401
        assert redeem(ada, USES[number % 2], new_token("mbxi"), peer=peer).status == 400
        link = {"token": new_token("mbxc")}
        assert ada.ask("POST", "/auth/console-links/redeem", link, peer=peer, secure=True).status == 400
        clock.advance(6)
    for refused in (
        redeem(ada, "invitation", token, peer=peer),
        redeem(ada, "password_reset", "x", peer=peer),
        log_in(ada, LOGIN, peer),
        ada.ask("POST", "/auth/console-links/redeem", {"token": "x"}, peer=peer, secure=True),
    ):
        assert (refused.refusal, refused.headers["retry-after"]) == ((429, "too_many_attempts"), "840")
    # From elsewhere it goes on, and here it goes on when it was said to.
    assert redeem(ada, "invitation", "x", peer="192.0.2.2").status == 400
    clock.advance(840)
    assert redeem(ada, "invitation", token, peer=peer).status == 200


def test_an_invited_member_cannot_log_in_before(ada: CheckedClient, timed: Appliance) -> None:
    invite(timed)
    for password in (PASSWORD, "", "None"):
        assert log_in(ada, LOGIN | {"email": "bob@example.org", "password": password}).status == 401


# --- Set-up: the first administrator, once, with the code ---


SET_UP = LOGIN | {"setupCode": "the-code", "name": "Ada Lovelace Long"}


@pytest.fixture
def fresh(timed: Appliance) -> CheckedClient:
    """Not set up yet; the code is there."""
    (timed.folder / SETUP_CODE).write_text("the-code\n")
    return CheckedClient(timed)


def test_set_up_makes_the_first_administrator(fresh: CheckedClient, timed: Appliance) -> None:
    assert fresh.ask("GET", "/").data["setupRequired"] is True
    answer = fresh.ask("POST", "/setup", SET_UP)
    assert answer.status == 201
    assert answer.data.keys() == {"token", "session", "member"}
    member = answer.data["member"]
    assert (member["email"], member["role"], member["status"]) == ("ada@example.org", "admin", "active")
    assert member["lastLoginAt"] == answer.data["session"]["createdAt"]
    assert (member["invitation"], answer.data["session"]["current"]) == (None, True)
    assert not (timed.folder / SETUP_CODE).exists()
    assert fresh.ask("GET", "/").data["setupRequired"] is False
    me = fresh.ask("GET", "/me", token=answer.data["token"]).data
    assert me["member"] == member
    assert fresh.ask("POST", "/setup", SET_UP).refusal == (409, "conflict")
    (timed.folder / SETUP_CODE).write_text("the-code\n")
    assert fresh.ask("POST", "/setup", SET_UP).refusal == (409, "conflict")


def test_wrong_codes_are_limited_and_keep_nobody_out(fresh: CheckedClient, clock: FakeClock) -> None:
    for _ in range(30):
        assert fresh.ask("POST", "/setup", SET_UP | {"setupCode": "x"}).status == 400
    clock.advance(60)
    refused = fresh.ask("POST", "/setup", SET_UP | {"setupCode": "x"})
    assert (refused.refusal, refused.headers["retry-after"]) == ((429, "too_many_attempts"), "840")
    # It is a count of its own.
    assert log_in(fresh).status == 401
    assert fresh.ask("POST", "/setup", SET_UP).status == 201


def test_without_a_code_there_is_no_set_up(timed: Appliance) -> None:
    client = CheckedClient(timed)
    for left in (None, "", "\n"):
        if left is not None:
            (timed.folder / SETUP_CODE).write_text(left)
        for given in ("-", "None"):
            answer = client.ask("POST", "/setup", SET_UP | {"setupCode": given})
            assert answer.refusal == (400, "invalid_token")


# A change to the request, and the place of what is told.
REFUSED: tuple[tuple[dict[str, object], str], ...] = (
    ({"password": "x" * 11}, "/password"),
    ({"password": "x" * 1025}, "/password"),
    ({"password": ""}, "/password"),
    ({"password": "ADA@example.org"}, "/password"),
    ({"password": "ada lovelace long"}, "/password"),
    ({"email": "ada"}, "/email"),
    ({"email": "ada@"}, "/email"),
    ({"email": "Ada <ada@example.org>"}, "/email"),
    ({"name": ""}, "/name"),
    ({"name": "x" * 201}, "/name"),
    ({"name": "Ada\r\nBcc: eve@example.org"}, "/name"),
    ({"name": "Ada\x00"}, "/name"),
    ({"deviceName": ""}, "/deviceName"),
    ({"deviceName": "lap\ntop"}, "/deviceName"),
    ({"deviceName": "\x1b[2J"}, "/deviceName"),
    ({"setupCode": ""}, "/setupCode"),
    ({"role": "admin"}, "/role"),
)


@pytest.mark.parametrize(("change", "place"), REFUSED)
def test_what_set_up_does_not_take(
    fresh: CheckedClient, timed: Appliance, change: dict[str, object], place: str
) -> None:
    answer = fresh.ask("POST", "/setup", SET_UP | change)
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place])
    assert not timed.store.members.has_any()
    assert (timed.folder / SETUP_CODE).exists()


@pytest.mark.parametrize("password", ["x" * 12, "x" * 1024, "ü" * 12, "pass word \u2603 with\ttab"])
def test_a_password_may_be_anything_of_the_right_length(fresh: CheckedClient, password: str) -> None:
    assert fresh.ask("POST", "/setup", SET_UP | {"password": password}).status == 201
    assert log_in(fresh, LOGIN | {"password": password}).status == 200
