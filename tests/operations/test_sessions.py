"""Setting up, logging in and out, and how long a session lives."""

import os
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from mailbox_appliance import tokens
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.operations.caller import Origin
from mailbox_appliance.operations.sessions import address_bucket
from mailbox_appliance.tokens import hash_token, is_well_formed
from tests.checked_client import PASSWORD, Answer, CheckedClient
from tests.operations.filled import add_key, add_member, everything_stored
from tests.servers.fake_clock import FakeClock

DAY = 24 * 60 * 60
LOGIN = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "laptop"}
WRONG = LOGIN | {"password": "not the password"}
SET_UP = LOGIN | {"setupCode": "the-code", "name": "Ada Lovelace Long"}


@pytest.fixture
def timed(tmp_path: Path, clock: FakeClock) -> Iterator[Appliance]:
    """An appliance by a clock that the test moves; its workers rest."""
    made = Appliance(tmp_path / "timed", clock=clock)
    yield made
    made.stop()


@pytest.fixture
def ada(timed: Appliance) -> CheckedClient:
    return CheckedClient(timed).set_up()


@pytest.fixture
def fresh(timed: Appliance) -> CheckedClient:
    """Not set up yet; the code is there."""
    (timed.folder / SETUP_CODE).write_text("the-code\n")
    return CheckedClient(timed)


def log_in(client: CheckedClient, body: object = LOGIN, peer: str = "127.0.0.1") -> Answer:
    return client.ask("POST", "/auth/login", body, peer=peer, secure=peer != "127.0.0.1")


# --- set-up ---


def test_set_up_makes_the_first_administrator(fresh: CheckedClient, timed: Appliance) -> None:
    assert fresh.ask("GET", "/").data["setupRequired"] is True
    answer = fresh.ask("POST", "/setup", SET_UP)
    assert answer.status == 201
    assert answer.data.keys() == {"token", "session", "member"}
    member = answer.data["member"]
    assert (member["email"], member["role"], member["status"]) == ("ada@example.org", "admin", "active")
    assert (member["invitation"], answer.data["session"]["current"]) == (None, True)
    assert not (timed.folder / SETUP_CODE).exists()
    assert fresh.ask("GET", "/").data["setupRequired"] is False
    me = fresh.ask("GET", "/me", token=answer.data["token"]).data
    assert me["member"]["id"] == member["id"]
    assert fresh.ask("POST", "/setup", SET_UP).refusal == (409, "conflict")
    (timed.folder / SETUP_CODE).write_text("the-code\n")
    assert fresh.ask("POST", "/setup", SET_UP).refusal == (409, "conflict")


@pytest.mark.parametrize("code", ["the-cod", "the-code ", "THE-CODE", "x", "ü"])
def test_a_wrong_set_up_code_is_refused(fresh: CheckedClient, timed: Appliance, code: str) -> None:
    assert fresh.ask("POST", "/setup", SET_UP | {"setupCode": code}).refusal == (400, "invalid_token")
    assert not timed.store.members.any()


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
    ({"deviceName": ""}, "/deviceName"),
    ({"setupCode": ""}, "/setupCode"),
    ({"role": "admin"}, "/role"),
)


@pytest.mark.parametrize(("change", "place"), REFUSED)
def test_what_set_up_does_not_take(
    fresh: CheckedClient, timed: Appliance, change: dict[str, object], place: str
) -> None:
    answer = fresh.ask("POST", "/setup", SET_UP | change)
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place])
    assert not timed.store.members.any()
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


# --- logging in ---


def test_a_log_in_gives_a_session(ada: CheckedClient) -> None:
    answer = log_in(ada)
    assert answer.status == 200
    session = answer.data["session"]
    assert (session["deviceName"], session["current"]) == ("laptop", True)
    assert answer.data["member"]["lastLoginAt"] is not None
    assert log_in(ada, LOGIN | {"email": "ADA@Example.ORG"}).status == 200
    assert len({ada.token, answer.data["token"]}) == 2


def test_tokens_are_well_formed_and_only_their_hash_is_stored(ada: CheckedClient, timed: Appliance) -> None:
    _, key = add_key(timed, ada.member["id"], "mail.read")
    stored = everything_stored(timed)
    for token in (ada.token, log_in(ada).data["token"], key):
        assert is_well_formed(token)
        assert token not in stored
        assert token[5:48] not in stored
    assert hash_token(ada.token) in stored
    assert PASSWORD not in stored
    assert "$argon2id$v=19$m=19456,t=2,p=1$" in stored


def test_an_unknown_email_gets_the_same_answer(ada: CheckedClient) -> None:
    wrong, unknown = log_in(ada, WRONG), log_in(ada, LOGIN | {"email": "eve@example.org"})
    assert wrong.refusal == unknown.refusal == (401, "invalid_credentials")
    assert wrong.message == unknown.message
    assert wrong.headers.keys() == unknown.headers.keys()


def test_an_unknown_email_and_one_without_a_password_take_as_long(ada: CheckedClient, timed: Appliance) -> None:
    add_member(timed, "bob")
    with timed.store.database.transaction():
        timed.store.database.change("UPDATE members SET password_hash = NULL WHERE name = 'bob'")

    def seconds(email: str) -> float:
        def once() -> float:
            started = time.perf_counter()
            assert log_in(ada, WRONG | {"email": email}).refusal == (401, "invalid_credentials")
            return time.perf_counter() - started

        return statistics.median(once() for _ in range(3))

    known = seconds("ada@example.org")
    # Without the work of a hash it would be a hundredth.
    assert seconds("eve@example.org") > known / 4
    assert seconds("bob@example.org") > known / 4


def test_after_five_failures_the_right_password_waits_as_well(ada: CheckedClient, clock: FakeClock) -> None:
    for _ in range(5):
        assert log_in(ada, WRONG).refusal == (401, "invalid_credentials")
        clock.advance(60)
    for body in (LOGIN, WRONG, LOGIN | {"email": "Ada@Example.org"}):
        refused = log_in(ada, body)
        assert refused.refusal == (429, "too_many_attempts")
        assert refused.headers["retry-after"] == str(15 * 60 - 5 * 60)
    assert ada.ask("GET", "/me").status == 200
    clock.advance(int(refused.headers["retry-after"]) - 1)
    assert log_in(ada).headers["retry-after"] == "1"
    clock.advance(1)
    assert log_in(ada).status == 200


def test_a_success_clears_the_count_of_the_email(ada: CheckedClient) -> None:
    for _ in range(3):
        for _ in range(4):
            assert log_in(ada, WRONG).status == 401
        assert log_in(ada).status == 200


def test_the_failures_of_one_email_do_not_count_for_another(ada: CheckedClient, timed: Appliance) -> None:
    add_member(timed, "bob")
    for _ in range(6):
        log_in(ada, WRONG)
    assert log_in(ada).status == 429
    assert log_in(ada, LOGIN | {"email": "bob@example.org"}).status == 200


def test_a_burst_does_not_pass_the_limit(ada: CheckedClient, timed: Appliance) -> None:
    with ThreadPoolExecutor(8) as at_once:
        statuses = list(at_once.map(lambda _: log_in(CheckedClient(timed), WRONG).status, range(12)))
    assert sorted(statuses) == [401] * 5 + [429] * 7


def test_an_address_has_thirty_attempts(ada: CheckedClient, clock: FakeClock) -> None:
    for number in range(30):
        assert log_in(ada, WRONG | {"email": f"m{number}@example.org"}, "192.0.2.1").status == 401
    refused = log_in(ada, LOGIN, "192.0.2.1")
    assert (refused.refusal, refused.headers["retry-after"]) == ((429, "too_many_attempts"), "900")
    # Others are not held up by it, and this computer is counted apart.
    assert log_in(ada, LOGIN, "192.0.2.2").status == 200
    assert log_in(ada).status == 200
    clock.advance(900)
    assert log_in(ada, LOGIN, "192.0.2.1").status == 200


def test_good_log_ins_do_not_use_up_the_attempts_of_an_address(ada: CheckedClient, timed: Appliance) -> None:
    for _ in range(3):
        assert log_in(ada).status == 200
    assert timed.store.database.value("SELECT count(*) FROM attempts") == 0


# Addresses that share a count, or do not.
BUCKETS: tuple[tuple[str | None, str | None, bool], ...] = (
    ("192.0.2.1", "192.0.2.1", True),
    ("192.0.2.1", "192.0.2.2", False),
    ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
    ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
    ("::ffff:192.0.2.1", "192.0.2.1", True),
    ("fe80::1%eth0", "fe80::1", True),
    (None, None, True),
)


@pytest.mark.parametrize(("one", "other", "together"), BUCKETS)
def test_addresses_are_counted_as_people_have_them(one: str | None, other: str | None, *, together: bool) -> None:
    def bucket(address: str | None) -> str:
        return address_bucket(Origin(address, is_local=False, is_secure=True))

    assert (bucket(one) == bucket(other)) is together
    assert address_bucket(Origin("127.0.0.1", is_local=True, is_secure=False)) != bucket("192.0.2.1")
    # A proxy on this computer is not the computer itself.
    assert address_bucket(Origin("127.0.0.1", is_local=True, is_secure=False)) != bucket("127.0.0.1")


def test_the_counts_survive_a_restart(tmp_path: Path, clock: FakeClock) -> None:
    first = Appliance(tmp_path / "data", clock=clock)
    client = CheckedClient(first).set_up()
    for _ in range(5):
        log_in(client, WRONG)
    first.stop()
    second = Appliance(tmp_path / "data", clock=clock)
    try:
        assert log_in(CheckedClient(second)).refusal == (429, "too_many_attempts")
        assert CheckedClient(second).ask("GET", "/me", token=client.token).status == 200
    finally:
        second.stop()


def test_a_hash_of_weaker_parameters_is_renewed(ada: CheckedClient, timed: Appliance) -> None:
    weak = Argon2id(salt=os.urandom(16), length=32, iterations=1, lanes=1, memory_cost=1024)
    text = weak.derive_phc_encoded(PASSWORD.encode())
    with timed.store.database.transaction():
        timed.store.database.change("UPDATE members SET password_hash = ?", (text,))
    assert log_in(ada, WRONG).status == 401
    assert text in everything_stored(timed)
    assert log_in(ada).status == 200
    assert text not in everything_stored(timed)
    assert log_in(ada).status == 200


# --- sessions ---


def test_sessions_are_listed_the_last_used_first(ada: CheckedClient, clock: FakeClock) -> None:
    clock.advance(120)
    laptop = ada.log_in(device="laptop")
    clock.advance(120)
    listed = laptop.ask("GET", "/me/sessions").data
    assert [(session["deviceName"], session["current"]) for session in listed] == [("laptop", True), ("test", False)]
    clock.advance(120)
    assert [session["current"] for session in ada.ask("GET", "/me/sessions").data] == [True, False]
    assert listed[0].keys() == {"id", "deviceName", "createdAt", "lastUsedAt", "expiresAt", "current"}


def test_a_session_is_ended_by_its_id(ada: CheckedClient) -> None:
    laptop, phone = ada.log_in(device="laptop"), ada.log_in(device="phone")
    by_name = {session["deviceName"]: session["id"] for session in ada.ask("GET", "/me/sessions").data}
    assert ada.ask("DELETE", f"/me/sessions/{by_name['laptop']}").data == {"id": by_name["laptop"], "deleted": True}
    assert laptop.ask("GET", "/me").refusal == (401, "unauthenticated")
    assert ada.ask("DELETE", f"/me/sessions/{by_name['laptop']}").refusal == (404, "not_found")
    # One's own: that is logging out.
    assert phone.ask("DELETE", f"/me/sessions/{by_name['phone']}").data["deleted"] is True
    assert phone.ask("GET", "/me").refusal == (401, "unauthenticated")
    assert [session["deviceName"] for session in ada.ask("GET", "/me/sessions").data] == ["test"]


def test_another_members_session_is_out_of_reach(ada: CheckedClient, timed: Appliance) -> None:
    add_member(timed, "bob")
    bob = ada.log_in("bob@example.org")
    (own,) = ada.ask("GET", "/me/sessions").data
    assert bob.ask("DELETE", f"/me/sessions/{own['id']}").refusal == (404, "not_found")
    assert ada.ask("GET", "/me").status == 200
    assert [session["current"] for session in bob.ask("GET", "/me/sessions").data] == [True]


@pytest.mark.parametrize("body", [None, {}])
def test_logging_out_ends_the_session(ada: CheckedClient, body: object) -> None:
    other = ada.log_in()
    answer = ada.ask("POST", "/auth/logout", body)
    assert (answer.status, answer.data) == (200, None)
    assert ada.ask("GET", "/me").refusal == (401, "unauthenticated")
    assert ada.ask("POST", "/auth/logout").refusal == (401, "unauthenticated")
    assert other.ask("GET", "/me").status == 200


def test_logging_out_takes_no_fields(ada: CheckedClient) -> None:
    for body in (b'{"all": true}', b"[]", b"null", b"0"):
        assert ada.ask("POST", "/auth/logout", body).refusal == (400, "invalid_request")
    assert ada.ask("GET", "/me").status == 200


def test_a_session_dies_after_thirty_days_without_use(ada: CheckedClient, clock: FakeClock) -> None:
    clock.advance(30 * DAY - 1)
    assert ada.ask("GET", "/me").status == 200
    clock.advance(30 * DAY - 1)
    (session,) = ada.ask("GET", "/me/sessions").data
    assert session["expiresAt"] == "2026-04-02T03:04:03.678Z"
    clock.advance(DAY)
    other = ada.log_in()
    clock.advance(30 * DAY)
    assert ada.ask("GET", "/me").refusal == (401, "unauthenticated")
    assert other.ask("GET", "/me/sessions").refusal == (401, "unauthenticated")


def test_a_session_dies_ninety_days_after_the_log_in(ada: CheckedClient, clock: FakeClock) -> None:
    (session,) = ada.ask("GET", "/me/sessions").data
    assert (session["createdAt"], session["expiresAt"]) == ("2026-01-02T03:04:05.678Z", "2026-02-01T03:04:05.678Z")
    for _ in range(89):
        clock.advance(DAY)
        assert ada.ask("GET", "/me").status == 200
    clock.advance(DAY - 1)
    assert ada.ask("GET", "/me").status == 200
    clock.advance(1)
    assert ada.ask("GET", "/me").refusal == (401, "unauthenticated")


def test_a_dead_session_is_neither_listed_nor_ended(ada: CheckedClient, clock: FakeClock) -> None:
    (old,) = ada.ask("GET", "/me/sessions").data
    clock.advance(31 * DAY)
    new = ada.log_in()
    assert old["id"] not in [session["id"] for session in new.ask("GET", "/me/sessions").data]


def test_a_key_manages_no_sessions(ada: CheckedClient, timed: Appliance) -> None:
    _, key = add_key(timed, ada.member["id"], "mail.read", "admin.members")
    table = (("GET", "/me/sessions"), ("DELETE", "/me/sessions/ses_1"), ("POST", "/auth/logout"))
    for method, path in table:
        assert ada.ask(method, path, token=key).refusal == (403, "session_required")


MAIL = ["mail.read", "mail.drafts", "mail.organize", "mail.trash", "mail.delete", "mail.send"]
ADMIN = ["admin.accounts", "admin.members", "admin.api_keys", "admin.license", "admin.audit"]


def test_who_am_i(ada: CheckedClient, timed: Appliance) -> None:
    bob = add_member(timed, "bob")
    me = ada.ask("GET", "/me").data
    assert me.keys() == {"member", "credential"}
    credential = me["credential"]
    assert (credential["kind"], credential["capabilities"], credential["accountIds"]) == ("session", MAIL + ADMIN, None)
    assert ada.log_in("bob@example.org").ask("GET", "/me").data["credential"]["capabilities"] == MAIL
    key_id, key = add_key(timed, bob, "mail.send", "mail.read", "admin.audit", accounts=["acc_2", "acc_1"])
    me = ada.ask("GET", "/me", token=key).data
    assert me["member"]["id"] == bob
    # What is stored for an administrator counts only while the owner is one.
    assert me["credential"] == {
        "kind": "api_key",
        "id": key_id,
        "capabilities": ["mail.read", "mail.send"],
        "accountIds": ["acc_1", "acc_2"],
    }


def test_what_happens_to_sessions_is_audited(ada: CheckedClient, timed: Appliance) -> None:
    log_in(ada, WRONG)
    log_in(ada, LOGIN | {"email": "eve@example.org"}, "192.0.2.1")
    ada.ask("POST", "/auth/logout")
    rows = timed.store.database.rows(
        "SELECT action, outcome, actor_kind, client_address FROM audit_events ORDER BY number"
    )
    assert [tuple(row) for row in rows] == [
        ("setup", "success", "local", "127.0.0.1"),
        ("session.create", "success", "session", "127.0.0.1"),
        ("session.create", "failure", "local", "127.0.0.1"),
        ("session.create", "failure", "system", "192.0.2.1"),
        ("session.revoke", "success", "session", "127.0.0.1"),
    ]
    assert timed.store.audit.first_broken() is None


def test_the_checksum_tells_a_cut_token_without_asking_the_store(ada: CheckedClient, timed: Appliance) -> None:
    assert not tokens.is_well_formed(ada.token[:-1])
    timed.store.database.close()
    # With a store that is gone, only what needs no store can be answered.
    assert ada.ask("GET", "/me", token=ada.token[:-1]).refusal == (401, "unauthenticated")
    assert ada.ask("GET", "/me").refusal == (500, "internal_error")
