"""Set-up cannot be taken over: not without its code, not from elsewhere, not after it was done."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.security import tokens
from tests.checked_client import PASSWORD, CheckedClient
from tests.doors.people import ELSEWHERE

CODE = "a-code-that-is-written-down-here"
MALLORY = {"name": "Mallory", "email": "mallory@example.org", "password": PASSWORD, "deviceName": "x"}
#: How a request says that somebody else's made it: a proxy here that marks its requests, and pages of other sites.
MARKS: tuple[dict[str, str], ...] = (
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-For": ""},
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-Host": "localhost"},
    {"Forwarded": "for=127.0.0.1;host=localhost"},
    {"Via": "1.1 proxy"},
)
PAGES: tuple[dict[str, Any], ...] = (
    {"host": "evil.example"},
    {"host": None},
    {"headers": {"Origin": "http://evil.example"}},
    {"headers": {"Origin": "null"}},
)
#: Instead of the code.
GUESSES: tuple[object, ...] = (
    "", "-", "\n", " ", "\x00", "null", "None", "*", "%", CODE[:-1], CODE + "x", CODE.upper(), f" {CODE}", f"{CODE}\n",
    None, True, 0, [], [CODE], {}, {"$ne": ""}, "ü" * 32, "x" * 200, "x" * 201,
)  # fmt: skip


@pytest.fixture
def waiting(appliance: Appliance) -> CheckedClient:
    """An appliance that waits to be set up."""
    (appliance.folder / SETUP_CODE).write_text(f"{CODE}\n")
    return CheckedClient(appliance)


def try_it(client: CheckedClient, code: object = CODE, **how: Any) -> tuple[int, str]:
    return client.ask("POST", "/setup", MALLORY | {"setupCode": code}, **how).refusal


def nobody_is_there(client: CheckedClient) -> bool:
    """Nothing was set up, and the one who has the code still can."""
    return not client.appliance.store.members.has_any() and (client.appliance.folder / SETUP_CODE).exists()


def test_the_code_alone_does_not_do_from_elsewhere(waiting: CheckedClient) -> None:
    for origin in ELSEWHERE:
        how = {"peer": origin.peer, "secure": origin.is_secure, "headers": origin.headers}
        assert try_it(waiting, **how) == (403, "permission_denied"), origin.name
    for mark in MARKS:
        for secure in (False, True):
            assert try_it(waiting, headers=mark, secure=secure) == (403, "permission_denied"), mark
    for page in PAGES:
        assert try_it(waiting, **page) == (403, "host_not_allowed"), page
    assert nobody_is_there(waiting)


def test_being_here_alone_does_not_do(waiting: CheckedClient) -> None:
    for guess in GUESSES:
        assert try_it(waiting, guess) in ((400, "invalid_token"), (400, "invalid_request")), guess
    assert waiting.ask("POST", "/setup", MALLORY).refusal == (400, "invalid_request")
    assert nobody_is_there(waiting)


def test_no_credential_stands_for_the_code(waiting: CheckedClient) -> None:
    for token in ("", CODE, tokens.new_token("mbxs"), tokens.new_token("mbxk"), tokens.new_token("mbxi")):
        assert try_it(waiting, "x", token=token) == (400, "invalid_token")
        for call in ("GET /me", "GET /admin/members", "POST /admin/members", "GET /accounts"):
            assert waiting.ask(*call.split(" "), token=token).status in (401, 404)
    for path in ("/auth/login", "/auth/enroll", "/auth/password-reset", "/auth/console-links/redeem"):
        assert waiting.ask("POST", path, MALLORY | {"token": CODE}).status >= 400
    assert nobody_is_there(waiting)


def test_afterwards_there_is_no_set_up(waiting: CheckedClient) -> None:
    first = waiting.ask("POST", "/setup", MALLORY | {"setupCode": CODE, "name": "Ada", "email": "ada@example.org"})
    assert first.data["member"]["role"] == "admin"
    assert not (waiting.appliance.folder / SETUP_CODE).exists()
    for left in (None, CODE, ""):  # even where somebody puts a code there again
        if left is not None:
            (waiting.appliance.folder / SETUP_CODE).write_text(left)
        for code in (CODE, "x"):
            assert try_it(waiting, code) == (409, "conflict")
    assert [member.email for member in waiting.appliance.store.members.list()] == ["ada@example.org"]


def test_of_two_at_once_one_is_first(waiting: CheckedClient) -> None:
    bodies = [MALLORY | {"setupCode": CODE, "email": f"m{number}@example.org"} for number in range(4)]
    with ThreadPoolExecutor(4) as at_once:
        answers = list(at_once.map(lambda body: waiting.ask("POST", "/setup", body), bodies))
    assert [answer.status for answer in answers].count(201) == 1
    assert {answer.status for answer in answers} <= {201, 400, 409}
    assert len(waiting.appliance.store.members.list()) == 1
