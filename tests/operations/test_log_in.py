"""Logging in: the same answer and work for everybody, and counts of what failed."""

import base64
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import LogInsBusy
from mailbox_appliance.operations.operation import Origin
from mailbox_appliance.operations.sessions import address_bucket
from mailbox_appliance.security.tokens import hash_token, is_well_formed
from tests.checked_client import PASSWORD, CheckedClient
from tests.operations.filled import add_key, add_member, everything_stored
from tests.operations.log_ins import LOGIN, WRONG, insist, log_in, recorded
from tests.servers.fake_clock import FakeClock


def test_a_log_in_gives_a_session(ada: CheckedClient) -> None:
    answer = log_in(ada)
    assert answer.status == 200
    session = answer.data["session"]
    assert (session["deviceName"], session["current"]) == ("laptop", True)
    assert answer.data["member"]["lastLoginAt"] is not None
    assert log_in(ada, LOGIN | {"email": "ADA@Example.ORG"}).status == 200
    assert len({ada.token, answer.data["token"]}) == 2


@pytest.mark.parametrize("name", ["lap\rtop", "lap\ntop", "laptop\x00", "\x7f", "=?utf-8?q?a=0Ab?="])
def test_the_name_of_a_session_has_no_controls(ada: CheckedClient, name: str) -> None:
    answer = log_in(ada, LOGIN | {"deviceName": name})
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/deviceName"])
    assert len(ada.ask("GET", "/me/sessions").data) == 1


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


def test_a_hash_of_release_0_10_lets_in_and_is_renewed(ada: CheckedClient, timed: Appliance) -> None:
    salt = os.urandom(16)
    made = hashlib.scrypt(PASSWORD.encode(), salt=salt, n=16384, r=8, p=1, dklen=32)
    text = "scrypt$16384$8$1$" + "$".join(base64.b64encode(part).decode() for part in (salt, made))
    with timed.store.database.transaction():
        timed.store.database.change("UPDATE members SET password_hash = ?", (text,))
    assert timed.store.members.has_legacy_passwords()
    assert log_in(ada, WRONG).status == 401
    assert text in everything_stored(timed)
    assert log_in(ada).status == 200
    assert not timed.store.members.has_legacy_passwords()
    assert timed.store.members.get_password_hash(ada.member["id"]).startswith("$argon2id$")  # type: ignore[union-attr]
    assert log_in(ada).status == 200


def test_an_email_counts_as_members_are_found_by_it(ada: CheckedClient, timed: Appliance) -> None:
    with timed.store.database.transaction():
        timed.store.members.update(ada.member["id"], email="ada@b\u00fccher.example")
    for email in ("ada@b\u00fccher.example", "ADA@bu\u0308cher.example", "ada@BU\u0308CHER.example") * 2:
        answer = log_in(ada, WRONG | {"email": email})
    assert answer.status == 429


def test_a_busy_appliance_refuses_cheaply_and_counts_nothing(ada: CheckedClient, timed: Appliance) -> None:
    before = timed.store.database.value("SELECT total_changes()")
    timed.worker_limits.patience = 0
    with ExitStack() as taken:
        for _ in range(8 - 4 - 2):
            taken.enter_context(timed.hashing_slot(is_local=False))
        refused = log_in(ada, WRONG, "192.0.2.1")
        assert (refused.refusal, refused.headers["retry-after"]) == ((429, "too_many_attempts"), "1")
        assert "simultaneous" in refused.message
        assert timed.store.database.value("SELECT total_changes()") == before
        # Who sits at this computer is not kept out by those who do not.
        assert log_in(ada).status == 200
    assert log_in(ada, LOGIN, "192.0.2.1").status == 200


def test_log_ins_of_this_computer_wait_instead_of_being_refused(ada: CheckedClient, timed: Appliance) -> None:
    with ThreadPoolExecutor(4) as pool, ExitStack() as taken:
        for _ in range(8 - 4 - 1):
            taken.enter_context(timed.hashing_slot(is_local=True))
        waiting = [pool.submit(log_in, ada) for _ in range(4)]
        refused = log_in(ada, LOGIN, "192.0.2.1")
        assert (refused.refusal, refused.headers["retry-after"]) == ((429, "too_many_attempts"), "1")
        assert timed.store.database.value("SELECT count(*) FROM attempts") == 0
        assert not any(one.done() for one in waiting)
    assert [one.result(20).status for one in waiting] == [200] * 4
    assert log_in(ada).status == 200
    assert log_in(ada, LOGIN, "192.0.2.1").status == 200


def test_some_members_log_in_from_elsewhere_at_once(ada: CheckedClient, timed: Appliance) -> None:
    """Six, though two are hashed at a time; nobody is told to come back."""
    with ThreadPoolExecutor(6) as pool, timed.hashing_slot(is_local=False), ExitStack() as taken:
        taken.enter_context(timed.hashing_slot(is_local=False))
        waiting = [pool.submit(log_in, ada, LOGIN, f"192.0.2.{number}") for number in range(4)]
        assert not any(one.done() for one in waiting)
        taken.close()
        assert [one.result(20).status for one in waiting] == [200] * 4
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda number: log_in(ada, LOGIN, f"192.0.2.{number}"), range(6)))
    assert [answer.status for answer in answers] == [200] * 6


@pytest.mark.parametrize(("workers", "waiting"), [(2, 1), (2, 63), (3, 1), (8, 7)])
def test_with_few_workers_one_log_in_has_a_place(tmp_path: Path, workers: int, waiting: int) -> None:
    given = settings.load(None, {}, {"server.workers": workers, "server.waiting_workers": waiting})
    appliance = Appliance(tmp_path / "data", given)
    appliance.worker_limits.patience = 0
    try:
        with appliance.hashing_slot(is_local=True), pytest.raises(LogInsBusy):
            appliance.hashing_slot(is_local=False).__enter__()
        with appliance.hashing_slot(is_local=False), pytest.raises(LogInsBusy):
            appliance.hashing_slot(is_local=False).__enter__()
    finally:
        appliance.stop()


def test_a_refusal_writes_nothing(ada: CheckedClient, timed: Appliance) -> None:
    for _ in range(5):
        log_in(ada, WRONG)
    rows = recorded(timed)
    before = timed.store.database.value("SELECT total_changes()")
    for _ in range(5):
        assert log_in(ada).status == 429
    assert (recorded(timed), timed.store.database.value("SELECT total_changes()")) == (rows, before)


def test_many_right_log_ins_at_once_all_succeed(checked_client: CheckedClient) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: insist(lambda: log_in(checked_client)).status, range(12)))
    assert answers == [200] * 12


def test_many_wrong_log_ins_at_once_do_not_pass_the_limit(checked_client: CheckedClient) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: insist(lambda: log_in(checked_client, WRONG)).status, range(12)))
    assert sorted(answers) == [401] * 5 + [429] * 7
