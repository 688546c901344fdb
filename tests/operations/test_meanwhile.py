"""What others change while a request waits to save counts: nothing is saved by what was true when it came."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from mailbox_appliance.appliance import Appliance
from tests.checked_client import PASSWORD, Answer, CheckedClient
from tests.operations.filled import FilledMailbox
from tests.operations.log_ins import invite, issue, log_in, recorded
from tests.servers.mailboxes import wait_until

NEW = "a password never used before"
SUSPEND = "UPDATE members SET status = 'suspended'"
Held = Callable[[Callable[[], Answer], str], Answer]


def _waits_to_write() -> bool:
    """Whether a thread stands where a transaction begins: it knows who asks, and what it looked up."""
    return any(frame.f_code.co_name == "_taking_turn" for frame in sys._current_frames().values())


@pytest.fixture
def held(timed: Appliance) -> Iterator[Held]:
    """Make a request, and change the store by SQL when it waits to save; answers what it was told."""
    with ThreadPoolExecutor(1) as beside:

        def ask_and_change(ask: Callable[[], Answer], sql: str) -> Answer:
            with timed.store.database.transaction():
                answer = beside.submit(ask)
                wait_until(_waits_to_write, lambda: "nobody waits to save", 10)
                timed.store.database.change(sql)
            return answer.result()

        yield ask_and_change


@contextmanager
def nothing_done(timed: Appliance) -> Iterator[None]:
    """No member, session or token differs after it, and the audit log tells of nothing that succeeded."""

    def state() -> list[object]:
        members = timed.store.database.rows("SELECT id, name, password_hash, last_login_at FROM members")
        tokens = timed.store.database.rows("SELECT id, used_at FROM invitations")
        return [members, tokens, [row for row in recorded(timed) if row[1] == "success"]]

    before = state()
    yield
    assert state() == before


OWN: dict[str, tuple[str, str, object]] = {
    "a console link": ("POST", "/auth/console-links", None),
    "one's name": ("PATCH", "/me", {"name": "Eve"}),
    "one's password": ("POST", "/me/password", {"currentPassword": PASSWORD, "newPassword": NEW}),
}
ENDED: dict[str, tuple[str, tuple[int, str]]] = {
    "ended": ("DELETE FROM sessions", (401, "unauthenticated")),
    "too old": ("UPDATE sessions SET logged_in_at = '2025-01-01T00:00:00.000Z'", (401, "unauthenticated")),
    "of a suspended member": (SUSPEND, (403, "member_suspended")),
}


@pytest.mark.parametrize("what", OWN)
@pytest.mark.parametrize("ended", ENDED)
def test_a_session_that_ends_saves_nothing(
    ada: CheckedClient, timed: Appliance, held: Held, what: str, ended: str
) -> None:
    sql, refusal = ENDED[ended]
    with nothing_done(timed):
        assert held(lambda: ada.ask(*OWN[what]), sql).refusal == refusal


@pytest.mark.parametrize("ended", ENDED)
def test_a_session_that_ends_removes_no_mailbox(ada: CheckedClient, timed: Appliance, held: Held, ended: str) -> None:
    mailbox, (sql, refusal) = FilledMailbox(timed, ada.member["id"]), ENDED[ended]
    with nothing_done(timed):
        assert held(lambda: ada.ask("DELETE", f"/accounts/{mailbox.id}"), sql).refusal == refusal
    assert timed.store.accounts.list_ids() == (mailbox.id,)


def test_a_password_that_is_another_one_by_now_is_not_replaced(
    ada: CheckedClient, timed: Appliance, held: Held
) -> None:
    """Of two who know the old one, the second does not undo what the first did."""
    sql = "UPDATE members SET password_hash = 'of another'"
    assert held(lambda: ada.ask(*OWN["one's password"]), sql).refusal == (401, "invalid_credentials")
    assert timed.store.members.get_password_hash(ada.member["id"]) == "of another"
    assert ("password.change", "success") not in recorded(timed)


LOG_IN: dict[str, tuple[str, tuple[int, str]]] = {
    "suspended": (SUSPEND, (403, "member_suspended")),
    "another password": ("UPDATE members SET password_hash = 'x'", (401, "invalid_credentials")),
    "removed": ("DELETE FROM members", (401, "invalid_credentials")),
}


@pytest.mark.parametrize(("sql", "refusal"), LOG_IN.values(), ids=list(LOG_IN))
def test_who_may_not_log_in_any_more_does_not(
    ada: CheckedClient, timed: Appliance, held: Held, sql: str, refusal: tuple[int, str]
) -> None:
    assert held(lambda: log_in(ada), sql).refusal == refusal
    assert recorded(timed)[2:] == []


USED_UP: dict[str, tuple[str, tuple[int, str]]] = {
    "suspended": (SUSPEND, (403, "member_suspended")),
    "withdrawn": ("DELETE FROM invitations", (400, "invalid_token")),
    "used": ("UPDATE invitations SET used_at = expires_at", (400, "invalid_token")),
    "removed": ("DELETE FROM members", (400, "invalid_token")),
}


def _redeem(client: CheckedClient, timed: Appliance, use: str) -> Callable[[], Answer]:
    """A request with a token that is good."""
    if use == "console_link":
        token = client.ask("POST", "/auth/console-links").data["url"].partition("#console=")[2]
        return lambda: client.ask("POST", "/auth/console-links/redeem", {"token": token}, token="")
    path = "/auth/enroll" if use == "invitation" else "/auth/password-reset"
    token = invite(timed)[1] if use == "invitation" else issue(timed, "password_reset", client.member["id"])
    body = {"token": token, "password": NEW, "deviceName": "phone"}
    return lambda: client.ask("POST", path, body, token="")


@pytest.mark.parametrize("use", ["invitation", "password_reset", "console_link"])
@pytest.mark.parametrize(("sql", "refusal"), USED_UP.values(), ids=list(USED_UP))
def test_a_token_that_is_no_longer_good_lets_nobody_in(
    ada: CheckedClient, timed: Appliance, held: Held, use: str, sql: str, refusal: tuple[int, str]
) -> None:
    redeem = _redeem(ada, timed, use)
    rows = recorded(timed)
    assert held(redeem, sql).refusal == refusal
    assert recorded(timed) == rows
    if sql == SUSPEND:  # the token stays good for when they are back
        with timed.store.database.transaction():
            timed.store.database.change("UPDATE members SET status = 'active'")
        assert redeem().status == 200


def test_a_link_whose_session_ends_lets_nobody_in(ada: CheckedClient, timed: Appliance, held: Held) -> None:
    rows = len(recorded(timed))
    assert held(_redeem(ada, timed, "console_link"), "DELETE FROM sessions").refusal == (400, "invalid_token")
    old = ada.log_in()
    too_old = ENDED["too old"][0]
    assert held(_redeem(old, timed, "console_link"), too_old).refusal == (400, "invalid_token")
    assert [row for row in recorded(timed)[rows:] if row[0] == "console_link.redeem"] == []
