"""Sessions: listed, ended, and how long they live."""

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.security import tokens
from mailbox_appliance.store import credentials
from tests.checked_client import CheckedClient
from tests.operations.filled import add_key, add_member
from tests.operations.log_ins import LOGIN, WRONG, log_in
from tests.servers.fake_clock import FakeClock

DAY = 24 * 60 * 60


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


def test_the_use_of_a_credential_is_noted_once_a_minute(ada: CheckedClient, timed: Appliance, clock: FakeClock) -> None:
    key_id, key = add_key(timed, ada.member["id"], "mail.read")
    database = timed.store.database

    def noted(token: str, after: float) -> tuple[str, str, int]:
        clock.advance(after)
        before = database.value("SELECT total_changes()")
        for _ in range(3):
            assert ada.ask("GET", "/me", token=token).status == 200
        (session,) = database.rows("SELECT last_used_at FROM sessions")
        used = database.value("SELECT last_used_at FROM api_keys WHERE id = ?", (key_id,))
        return session[0][14:19], used[14:19], database.value("SELECT total_changes()") - before

    assert noted(key, 0) == ("04:05", "04:05", 1)
    assert noted(key, 59.999) == ("04:05", "04:05", 0)
    assert noted(key, 0.001) == ("04:05", "05:05", 1)
    assert noted(ada.token, 30) == ("05:35", "05:05", 1)
    assert noted(ada.token, 59) == ("05:35", "05:05", 0)


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
        "capabilities": ["mail.send", "mail.read"],
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
    assert timed.store.audit.verify().broken is None


def test_the_checksum_tells_a_cut_token_without_asking_the_store(ada: CheckedClient, timed: Appliance) -> None:
    assert not tokens.is_well_formed(ada.token[:-1])
    timed.store.database.close()
    # With a store that is gone, only what needs no store can be answered.
    assert ada.ask("GET", "/me", token=ada.token[:-1]).refusal == (401, "unauthenticated")
    assert ada.ask("GET", "/me").refusal == (500, "internal_error")


def test_with_a_session_too_many_the_one_longest_unused_ends(
    ada: CheckedClient, timed: Appliance, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "MOST_SESSIONS", 10)
    (own,) = ada.ask("GET", "/me/sessions").data
    with timed.store.database.transaction():
        for number in range(9):
            timed.store.credentials.add_session(ada.member["id"], f"{number:064}", "made")
    clock.advance(120)
    assert ada.ask("GET", "/me").status == 200
    assert log_in(ada).status == 200
    listed = [row["id"] for row in ada.ask("GET", "/me/sessions").data]
    assert len(listed) == 10
    assert own["id"] in listed
    ended = timed.store.database.row(
        "SELECT action, target_id, about_member_id FROM audit_events ORDER BY number DESC LIMIT 1"
    )
    assert ended is not None
    assert ended[0] == "session.revoke"
    assert ended[1] not in listed
    assert ended[2] is None


def test_a_session_in_use_outlives_many_log_ins_of_its_member(ada: CheckedClient, timed: Appliance) -> None:
    """Within one minute, when its use is not noted again."""
    database = timed.store.database
    with database.transaction():
        for number in range(credentials.MOST_SESSIONS - 2):
            row = (f"ses_{number}", ada.member["id"], f"{number:064}", *("2026-01-02T03:04:05.678Z",) * 3)
            database.change(
                "INSERT INTO sessions (id, member_id, token_hash, device_name, created_at, last_used_at, logged_in_at)"
                " VALUES (?, ?, ?, 'x', ?, ?, ?)",
                row,
            )
    assert credentials.MOST_SESSIONS == 5000
    assert ada.ask("GET", "/me").status == 200
    assert log_in(ada).status == 200
    assert ada.ask("GET", "/me").status == 200
    assert database.value("SELECT count(*) FROM sessions") == credentials.MOST_SESSIONS
