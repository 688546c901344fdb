"""What members change about themselves: their name, and their password, which ends what was before."""

import itertools
from concurrent.futures import ThreadPoolExecutor

from mailbox_appliance.appliance import Appliance
from tests.checked_client import PASSWORD, Answer, CheckedClient
from tests.operations.filled import add_key, add_member, everything_stored
from tests.operations.log_ins import LOGIN, WRONG, insist, issue, log_in, recorded
from tests.servers.fake_clock import FakeClock

NEW = "a password never used before"


def change(client: CheckedClient, current: str = PASSWORD, new: str = NEW) -> Answer:
    return client.ask("POST", "/me/password", {"currentPassword": current, "newPassword": new})


def test_a_name_is_changed(ada: CheckedClient, timed: Appliance, clock: FakeClock) -> None:
    clock.advance(5)
    answer = ada.ask("PATCH", "/me", {"name": "Ada Lovelace"})
    assert answer.data == ada.member | {"name": "Ada Lovelace", "updatedAt": "2026-01-02T03:04:10.678Z"}
    assert ada.ask("GET", "/me").data["member"] == answer.data
    assert recorded(timed)[-1] == ("member.update", "success")


def test_nothing_to_change_changes_nothing(ada: CheckedClient, timed: Appliance, clock: FakeClock) -> None:
    clock.advance(5)
    before = timed.store.database.value("SELECT total_changes()")
    for body in ({}, {"name": ada.member["name"]}):
        assert ada.ask("PATCH", "/me", body).data == ada.member
    assert timed.store.database.value("SELECT total_changes()") == before
    assert ("member.update", "success") not in recorded(timed)


REFUSED: tuple[dict[str, object], ...] = (
    {"name": ""},
    {"name": None},
    {"name": "x" * 201},
    {"name": 1},
    {"name": "Ada\r\nBcc: eve@example.org"},
    {"name": "Ada\x00"},
    {"name": "=?utf-8?q?a=0Ab?="},
    {"email": "eve@example.org"},
    {"role": "admin"},
    {"status": "active"},
    {"name": "Ada", "role": "member"},
)


def test_what_is_not_changed(ada: CheckedClient) -> None:
    for body in REFUSED:
        answer = ada.ask("PATCH", "/me", body)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [f"/{list(body)[-1]}"])
    assert ada.ask("GET", "/me").data["member"] == ada.member


def test_a_password_is_changed(ada: CheckedClient, timed: Appliance) -> None:
    others = [ada.log_in() for _ in range(2)]
    _, key = add_key(timed, ada.member["id"], "mail.read")
    token = issue(timed, "password_reset", ada.member["id"])
    answer = change(ada)
    assert (answer.status, answer.data) == (200, None)
    assert log_in(ada).refusal == (401, "invalid_credentials")
    assert log_in(ada, LOGIN | {"password": NEW}).status == 200
    for other in others:
        assert other.ask("GET", "/me").refusal == (401, "unauthenticated")
    for alive in (ada.token, key):
        assert ada.ask("GET", "/me", token=alive).status == 200
    # A reset that was open would bring back whoever had it.
    reset = {"token": token, "password": NEW, "deviceName": "x"}
    assert ada.ask("POST", "/auth/password-reset", reset).refusal == (400, "invalid_token")
    assert [row for row in recorded(timed) if row[0] != "session.create"] == [
        ("setup", "success"),
        ("password.change", "success"),
        *[("session.revoke", "success")] * 2,
        ("password_reset.redeem", "failure"),
    ]
    assert NEW not in everything_stored(timed)


def test_a_wrong_current_password(ada: CheckedClient, timed: Appliance, clock: FakeClock) -> None:
    for _ in range(5):
        assert change(ada, "not the password").refusal == (401, "invalid_credentials")
        clock.advance(60)
    for current in (PASSWORD, "not the password"):
        refused = change(ada, current)
        assert (refused.refusal, refused.headers["retry-after"]) == ((429, "too_many_attempts"), "600")
    # It is a count of its own: one who has a session keeps nobody from logging in, and nobody keeps others from this.
    assert log_in(ada).status == 200
    assert recorded(timed)[2:7] == [("password.change", "failure")] * 5
    clock.advance(600)
    assert change(ada).status == 200


def test_failed_log_ins_do_not_keep_from_changing(ada: CheckedClient) -> None:
    for _ in range(6):
        log_in(ada, WRONG)
    assert change(ada).status == 200


def test_a_success_clears_the_count(ada: CheckedClient) -> None:
    passwords = (PASSWORD, NEW, PASSWORD)
    for current, new in itertools.pairwise(passwords):
        for _ in range(4):
            assert change(ada, "not the password").status == 401
        assert change(ada, current, new).status == 200


def test_a_weak_password_is_refused(ada: CheckedClient) -> None:
    weak = ("", "x" * 11, "x" * 1025, "ADA@example.org")
    for current, new in itertools.product((PASSWORD, "not the password"), weak):
        answer = change(ada, current, new)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/newPassword"])
    assert log_in(ada).status == 200


def test_ones_own_name_is_no_password(ada: CheckedClient) -> None:
    assert ada.ask("PATCH", "/me", {"name": "Ada Augusta King"}).status == 200
    answer = change(ada, new="ada augusta KING")
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/newPassword"])
    assert log_in(ada).status == 200


def test_of_many_changes_at_once_one_is_first(ada: CheckedClient, timed: Appliance) -> None:
    def once(number: int) -> int:
        client = CheckedClient(timed)
        client.token = ada.token
        return insist(lambda: change(client, new=f"{NEW} {number}")).status

    with ThreadPoolExecutor(4) as at_once:
        assert sorted(at_once.map(once, range(4))) == [200, 401, 401, 401]


def test_one_member_does_not_change_anothers(ada: CheckedClient, timed: Appliance) -> None:
    add_member(timed, "bob")
    assert change(ada.log_in("bob@example.org")).status == 200
    assert log_in(ada).status == 200
    assert ada.ask("GET", "/me").status == 200
