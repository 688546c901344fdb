"""Set-up: the first administrator, once, with the code."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from mailbox_appliance.appliance import SETUP_CODE, Appliance
from tests.checked_client import CheckedClient
from tests.operations.log_ins import LOGIN, log_in
from tests.servers.fake_clock import FakeClock

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


@pytest.mark.parametrize("code", ["the-cod", "the-code ", "THE-CODE", "x", "ü"])
def test_a_wrong_set_up_code_is_refused(fresh: CheckedClient, timed: Appliance, code: str) -> None:
    assert fresh.ask("POST", "/setup", SET_UP | {"setupCode": code}).refusal == (400, "invalid_token")
    assert not timed.store.members.has_any()


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


def test_of_two_set_ups_at_once_one_is_first(fresh: CheckedClient, timed: Appliance) -> None:
    with ThreadPoolExecutor(4) as at_once:
        answers = list(at_once.map(lambda _: CheckedClient(timed).ask("POST", "/setup", SET_UP), range(4)))
    assert sorted(answer.status for answer in answers)[0] == 201
    refusals = {answer.refusal for answer in answers if answer.status != 201}
    # Who comes while the first is at it finds the code, or finds it used up.
    assert refusals <= {(409, "conflict"), (400, "invalid_token")}
    assert len([answer for answer in answers if answer.status == 201]) == 1
