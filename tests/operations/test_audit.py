"""The audit log: read, checked row by row, and what others did to a member told to that member."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mailbox_appliance
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.operations.audit import AuditLogVerification, verify_events
from mailbox_appliance.operations.operation import LOCAL, Request
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.database import Database
from tests.checked_client import CheckedClient
from tests.operations.filled import add_key, path_of
from tests.operations.log_ins import LOGIN, WRONG, log_in
from tests.servers.fake_clock import FakeClock

DAY = 24 * 60 * 60
FACTS = (
    *("id", "at", "actor_kind", "actor_id", "actor_member_id", "action", "target_kind", "target_id", "outcome"),
    *("client_address", "about_member_id", "mac"),
)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_the_log_is_read_newest_first_and_page_by_page(ada: CheckedClient, bob: CheckedClient) -> None:
    ada.ask("POST", path_of(bob, "/password-reset"))
    log_in(ada, WRONG | {"email": "bob@example.org"}, "192.0.2.7")
    events = ada.ask("GET", "/admin/audit-events").data
    assert events["nextCursor"] is None
    actions = [event["action"] for event in events["items"]]
    assert actions == ["session.create", "password_reset.create", "session.create", "session.create", "setup"]
    failed, reset = events["items"][:2]
    assert failed == {
        "id": failed["id"],
        "at": "2026-01-02T03:04:05.678Z",
        "actor": {"kind": "system", "id": None, "memberId": None},
        "action": "session.create",
        "target": {"kind": "member", "id": bob.member["id"]},
        "outcome": "failure",
        "clientAddress": "192.0.2.7",
    }
    session = ada.ask("GET", "/me").data["credential"]["id"]
    assert reset["actor"] == {"kind": "session", "id": session, "memberId": ada.member["id"]}
    page = ada.ask("GET", "/admin/audit-events?limit=3").data
    rest = ada.ask("GET", f"/admin/audit-events?limit=3&cursor={page['nextCursor']}").data
    assert (page["items"] + rest["items"], rest["nextCursor"]) == (events["items"], None)


def test_one_reads_what_concerns_oneself(ada: CheckedClient, bob: CheckedClient) -> None:
    ada.ask("PATCH", path_of(bob), {"name": "Robert"})
    ada.ask("PATCH", path_of(ada), {"name": "Ada L."})
    token = add_key(ada.appliance, ada.member["id"], "admin.members")[1]
    ada.ask("POST", path_of(bob, "/password-reset"), token=token)
    own = bob.ask("GET", "/me/audit-events").data["items"]
    assert [event["action"] for event in own] == ["password_reset.create", "member.update", "session.create"]
    # What a key of hers did, she did.
    hers = [event["action"] for event in ada.ask("GET", "/me/audit-events").data["items"]]
    assert hers == ["password_reset.create", "member.update", "member.update", "session.create", "setup"]


def test_a_cursor_belongs_to_its_list(ada: CheckedClient, bob: CheckedClient) -> None:
    ada.ask("PATCH", path_of(bob), {"name": "Robert"})
    lists = {"/admin/audit-events": ada, "/me/audit-events": ada, "/me/audit-events?": bob}
    cursors = {}
    for path, who in lists.items():
        cursors[path] = who.ask("GET", f"{path.rstrip('?')}?limit=1").data["nextCursor"]
    assert len(set(cursors.values())) == 3
    for path, who in lists.items():
        for of, cursor in cursors.items():
            answer = who.ask("GET", f"{path.rstrip('?')}?cursor={cursor}")
            assert answer.status == (200 if of == path else 400)
    assert ada.ask("GET", "/admin/audit-events?limit=0").refusal == (400, "invalid_request")


def test_it_is_asked_for_what_one_looks_for(ada: CheckedClient, bob: CheckedClient) -> None:
    log_in(ada, WRONG | {"email": "bob@example.org"}, "192.0.2.7")
    ada.ask("PATCH", path_of(bob), {"name": "Robert"})

    def found(query: str) -> list[str]:
        return [event["action"] for event in ada.ask("GET", f"/admin/audit-events?{query}").data["items"]]

    assert found("action=session") == ["session.create"] * 3
    assert found("action=session.create&outcome=failure") == ["session.create"]
    assert found("action=sess") == []
    assert found(f"memberId={bob.member['id']}") == ["member.update", "session.create", "session.create"]
    assert found(f"memberId={bob.member['id']}&action=member") == ["member.update"]
    assert found("memberId=mem_unknown") == []
    cursor = ada.ask("GET", "/admin/audit-events?action=session&limit=1").data["nextCursor"]
    assert found(f"action=session&limit=2&cursor={cursor}") == ["session.create"] * 2
    assert ada.ask("GET", f"/admin/audit-events?cursor={cursor}").places == ["query:cursor"]
    assert ada.ask("GET", "/admin/audit-events?outcome=perhaps").places == ["query:outcome"]


def test_the_documentation_names_every_action() -> None:
    root = Path(mailbox_appliance.__file__).parent
    sources = "".join(file.read_text() for floor in ("operations", "sending") for file in (root / floor).glob("*.py"))
    actions = set(re.findall(r'"((?:[a-z]+_)*[a-z]+\.(?:[a-z]+_?)+)"', sources))
    nouns = {"session", "member", "api_key", "account", "invitation", "password", "password_reset", "console_link"}
    nouns |= {"schedule", "delivery", "oauth_app", "license"}
    actions = {action for action in actions if action.split(".")[0] in nouns}
    assert len(actions) > 25
    page = (root.parent / "docs" / "reference" / "audit-actions.md").read_text()
    assert {action for action in actions if f"`{action}`" not in page} == {"api_key.use"}, "which is none of the log"


# --- checking ---------------------------------------------------------------------------------------------------------


def test_a_log_as_it_was_written_is_whole(ada: CheckedClient) -> None:
    before = ada.ask("GET", "/admin/audit-events").data
    assert ada.ask("GET", "/admin/audit-events/verify").data == {"ok": True, "count": 2, "firstBroken": None}
    assert ada.ask("GET", "/admin/audit-events").data == before, "looking is not recorded"


def test_a_log_is_checked_once_at_a_time(ada: CheckedClient) -> None:
    path = "/admin/audit-events/verify"
    with ada.appliance.store.audit.exclusive_check():
        refused = ada.ask("GET", path)
    assert (refused.refusal, refused.headers["retry-after"]) == ((429, "too_many_attempts"), "3")
    assert ada.ask("GET", path).data["ok"] is True


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedClient]:
    """An administrator who has done much: some sixty rows, of sessions, keys, the operator and nobody known."""
    folder: Path = tmp_path_factory.mktemp("logged")
    appliance = Appliance(folder / "data", clock=FakeClock())
    ada = CheckedClient(appliance).set_up()
    _, key = add_key(appliance, ada.member["id"], "admin.members")
    for number in range(7):
        body = {"name": f"M{number}", "email": f"m{number}@example.org", "role": "member"}
        member = ada.ask("POST", "/admin/members", body, token=(key, ada.token)[number % 2]).data["member"]["id"]
        path = f"/admin/members/{member}"
        ada.ask("POST", f"{path}/invitation")
        ada.ask("POST", f"{path}/password-reset", token=key)
        ada.ask("PATCH", path, {"name": "Other"})
        ada.ask("DELETE", f"{path}/sessions")
        log_in(ada, LOGIN | {"email": f"nobody{number}@example.org"}, f"192.0.2.{number}")
        appliance.store.audit.record(Actor("local"), "backup.restore")
        if number % 2:
            ada.ask("DELETE", path)
    yield ada
    appliance.stop()


Meddle = Callable[[Database], object]


class Untouched(Exception):
    """Everything is to be as it was before."""


def verdict_after(client: CheckedClient, meddle: Meddle) -> AuditLogVerification:
    """What the check finds after somebody changed the rows behind the triggers; then everything is as before."""
    database = client.appliance.store.database
    try:
        with database.transaction():
            for name in ("stay", "remain"):
                database.change(f"DROP TRIGGER audit_events_{name}")
            meddle(database)
            # In this thread and transaction: nobody else sees what was done.
            found = verify_events.call(client.appliance, LOCAL, client.token, Request()).data
            raise Untouched
    except Untouched:
        return found


def renumber(database: Database, one: int, other: int) -> None:
    for old, new in ((one, -1), (other, one), (-1, other)):
        database.change("UPDATE audit_events SET number = ? WHERE number = ?", (new, old))


def test_whatever_is_done_to_any_row_is_found_there(logged: CheckedClient) -> None:
    rows = logged.appliance.store.database.rows("SELECT number, id FROM audit_events ORDER BY number")
    last = len(rows)
    assert last > 50
    for number, row_id in rows:
        for fact in FACTS:
            verdict = verdict_after(logged, changed(number, fact))
            assert verdict.first_broken is not None, (number, fact)
            assert (verdict.ok, verdict.count, verdict.first_broken.number) == (False, last, number), fact
            assert verdict.first_broken.id == ("aud_x" if fact == "id" else row_id), fact
        for name, meddle in moved(number, last):
            verdict = verdict_after(logged, meddle)
            assert verdict.first_broken is not None, (number, name)
            assert (verdict.ok, verdict.first_broken.number) == (False, number), name
    assert logged.ask("GET", "/admin/audit-events/verify").data["ok"] is True


def changed(number: int, fact: str) -> Meddle:
    """One fact of a row is another; what was not there is, and what was is not."""
    value = "x'00'" if fact == "mac" else "'aud_x'" if fact == "id" else None
    nullable = fact in ("actor_id", "actor_member_id", "target_kind", "target_id", "client_address", "about_member_id")
    value = value or (f"CASE WHEN {fact} IS NULL THEN '' ELSE NULL END" if nullable else f"{fact} || ' '")
    return lambda database: database.change(f"UPDATE audit_events SET {fact} = {value} WHERE number = {number}")


def moved(number: int, last: int) -> Iterator[tuple[str, Meddle]]:
    """A row is dropped, changed about with the next, or the last of those that are left, as well as can be done."""

    def drop(database: Database) -> None:
        database.change(f"DELETE FROM audit_events WHERE number = {number}")

    def drop_and_close_up(database: Database) -> None:
        drop(database)
        database.change(f"UPDATE audit_events SET number = -number + 1 WHERE number > {number}")
        database.change("UPDATE audit_events SET number = -number WHERE number < 0")
        database.change(f"UPDATE meta SET value = '{last - 1}' WHERE name = 'audit_count'")

    def cut_off(database: Database) -> None:
        database.change(f"DELETE FROM audit_events WHERE number >= {number}")

    def cut_off_and_cover_up(database: Database) -> None:
        cut_off(database)
        database.change(f"UPDATE meta SET value = '{number - 1}' WHERE name = 'audit_count'")
        seal = f"(SELECT lower(hex(mac)) FROM audit_events WHERE number = {number - 1})"
        database.change(f"UPDATE meta SET value = coalesce({seal}, '') WHERE name = 'audit_head'")

    yield from (("drop", drop), ("close up", drop_and_close_up), ("cut off", cut_off))
    yield ("cover up", cut_off_and_cover_up)
    if number < last:
        yield ("swap", lambda database: renumber(database, number, number + 1))


# --- what others did --------------------------------------------------------------------------------------------------

SEE = "see `audit list --mine`, or GET /api/v1/me/audit-events."


def test_a_member_is_told_what_others_did_to_them(
    ada: CheckedClient, bob: CheckedClient, timed: Appliance, clock: FakeClock
) -> None:
    assert bob.ask("GET", "/me").warnings == []
    ada.ask("POST", path_of(bob, "/password-reset"))
    ada.ask("POST", path_of(bob, "/password-reset"))
    told = [f"An administrator issued a password reset for you on 2026-01-02 (UTC): {SEE}"]
    assert bob.ask("GET", "/me").warnings == told
    clock.advance(DAY)
    phone = ada.log_in("bob@example.org", "phone")
    ada.ask("PATCH", path_of(bob), {"role": "admin"})
    (session,) = (one["id"] for one in ada.ask("GET", path_of(bob, "/sessions")).data if one["deviceName"] == "phone")
    ada.ask("DELETE", path_of(bob, f"/sessions/{session}"))
    assert phone.ask("GET", "/me").status == 401
    timed.store.audit.record(Actor("local"), "backup.restore")
    told += [
        f"The operator restored a backup of the whole appliance on 2026-01-03 (UTC): {SEE}",
        f"An administrator made you an administrator on 2026-01-03 (UTC): {SEE}",
        f"An administrator revoked sessions of yours on 2026-01-03 (UTC): {SEE}",
    ]
    assert bob.ask("GET", "/me").warnings == told
    assert log_in(bob, LOGIN | {"email": "bob@example.org"}).warnings == told
    key = add_key(timed, bob.member["id"], "mail.read")[1]
    assert ada.ask("GET", "/me", token=key).warnings == []
    # What she did herself she knows; the restore concerns everybody.
    assert ada.ask("GET", "/me").warnings == told[1:2]
    clock.advance(6 * DAY + 3600)
    assert bob.ask("GET", "/me").warnings == told[1:]
    clock.advance(DAY)
    assert bob.ask("GET", "/me").warnings == []


# fmt: off
#: what an administrator did that concerns a member -> what the member is told
TOLD = [
    ("api_key.create",      "created an API key for you"),
    ("api_key.update",      "changed the permissions of an API key of yours"),
    ("api_key.revoke",      "revoked an API key of yours"),
    ("account.access",      "changed who has access to a mailbox of yours"),
    ("account.create",      "connected a mailbox for you"),
    ("member.update",       "changed your name or email"),
    ("member.promote",      "made you an administrator"),
    ("member.demote",       "removed your administrator role"),
    ("member.suspend",      "suspended you"),
    ("member.activate",     "reactivated you after a suspension"),
]
# fmt: on


def test_what_was_done_to_keys_and_mailboxes_is_told(ada: CheckedClient, bob: CheckedClient) -> None:
    audit, who = ada.appliance.store.audit, Actor("api_key", "key_1", ada.member["id"])
    for action, _ in TOLD:
        audit.record(who, action, ("thing", "id"), about=bob.member["id"])
        audit.record(who, action, ("thing", "id"))
        audit.record(who, action, ("thing", "id"), "denied", about=ada.member["id"])
    expected = [f"An administrator {text} on 2026-01-02 (UTC): {SEE}" for _, text in TOLD]
    assert sorted(bob.ask("GET", "/me").warnings) == sorted(expected)
    assert ada.ask("GET", "/me").warnings == []
