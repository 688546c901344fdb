"""Rights that were taken since a backup was made, so that none lives again: carried into the restored store.

    members ....... the password is that of now; of role and status the lesser counts; who was removed comes back
                    suspended, without a password
    credentials ... sessions, API keys and open invitations are those of now; keys that are no more are revoked
    mailboxes ..... servers and passwords are those of now; a share counts where it is there before and now

Where a restore is undone, what it did itself is not "since": the log tells of all that people did after it, and of what
it does not tell the backup's word counts. So members, keys, mailboxes and shares that this restore took come back.

Of stores that have forked see `forked_rights`.

Restored is `main`, the other is `present`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.kinship import Kinship

_KEPT = """
UPDATE main.members SET
  role = iif(p.role = 'admin' AND members.role = 'admin', 'admin', 'member'),
  status = iif(p.status = 'active' AND members.status = 'active', 'active', 'suspended'),
  password_hash = p.password_hash, last_login_at = p.last_login_at, updated_at = max(members.updated_at, p.updated_at)
FROM present.members p WHERE p.id = members.id"""
# Members whose role and status only the restore can have changed that is undone.
_UNTOUCHED = """
UPDATE main.members SET (role, status) = (SELECT j.value ->> 1, j.value ->> 2 FROM json_each(:were) j
  WHERE j.value ->> 0 = members.id) WHERE id IN (SELECT j.value ->> 0 FROM json_each(:were) j)"""
_REMOVED_SINCE = """
UPDATE main.members SET status = 'suspended', password_hash = NULL, updated_at = :now
WHERE id NOT IN (SELECT id FROM present.members) AND id NOT IN (SELECT value FROM json_each(:back))"""
_SESSIONS = (
    "DELETE FROM main.sessions",  # and with them the links into the console
    """INSERT INTO main.sessions SELECT * FROM present.sessions
         WHERE member_id IN (SELECT id FROM main.members WHERE status = 'active')""",
)
_INVITATIONS = (
    "DELETE FROM main.invitations WHERE member_id NOT IN (SELECT value FROM json_each(:back))",
    """INSERT INTO main.invitations SELECT * FROM present.invitations
         WHERE member_id IN (SELECT id FROM main.members)
         AND (session_id IS NULL OR session_id IN (SELECT id FROM main.sessions))""",
)
_REVOKED = """
UPDATE main.api_keys SET revoked_at = :now WHERE revoked_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM present.api_keys p WHERE p.id = api_keys.id)
  AND member_id NOT IN (SELECT value FROM json_each(:back))"""
_KEYS = """
INSERT OR REPLACE INTO main.api_keys SELECT * FROM present.api_keys
WHERE member_id IN (SELECT id FROM main.members)"""
# Keys that the restore revoked that is undone.
_REVOKED_BY_RESTORE = """
SELECT r.id FROM main.api_keys r JOIN present.api_keys p ON p.id = r.id
WHERE r.revoked_at IS NULL AND p.revoked_at BETWEEN :began AND :ended"""
_GOOD_AGAIN = "UPDATE main.api_keys SET revoked_at = NULL WHERE id IN (SELECT value FROM json_each(:unrevoked))"
_CONNECTIONS = """
UPDATE main.accounts SET connection = p.connection, secret = p.secret, status = 'connecting', error_code = NULL,
  error_message = NULL, error_fault = NULL FROM present.accounts p WHERE p.id = accounts.id
  AND (p.connection, p.secret) IS NOT (accounts.connection, accounts.secret)"""
_THERE = "id IN (SELECT id FROM present.accounts)"
_SHARES_OF_NOW = (
    """UPDATE main.accounts SET shared_with_all = 0 WHERE shared_with_all = 1
         AND id NOT IN (SELECT id FROM present.accounts WHERE shared_with_all = 1)
         AND id NOT IN (SELECT value FROM json_each(:shared))""",
    """DELETE FROM main.account_grants WHERE NOT EXISTS (SELECT 1 FROM present.account_grants p
         WHERE p.account_id = account_grants.account_id AND p.member_id = account_grants.member_id)
         AND (account_id NOT IN (SELECT value FROM json_each(:shared)) OR member_id NOT IN (
           SELECT id FROM present.members UNION ALL SELECT value FROM json_each(:back)))""",
)
#: Of mailboxes that both have: as in both.
SHARES = (
    f"""UPDATE main.accounts SET shared_with_all = 0 WHERE shared_with_all = 1 AND {_THERE}
         AND id NOT IN (SELECT id FROM present.accounts WHERE shared_with_all = 1)""",
    f"""DELETE FROM main.account_grants WHERE account_{_THERE} AND NOT EXISTS (SELECT 1 FROM present.account_grants p
         WHERE p.account_id = account_grants.account_id AND p.member_id = account_grants.member_id)""",
)
ATTEMPTS = ("DELETE FROM main.attempts", "INSERT INTO main.attempts SELECT * FROM present.attempts")
CAN_ADMINISTRATE = "role = 'admin' AND status = 'active' AND password_hash IS NOT NULL"
_ADMINISTRATORS = (
    # Somebody else who has the email of one of them comes back from before: they cannot both have it.
    f"""UPDATE main.members SET email = members.id || '@former.invalid', email_key = members.id || '@former.invalid'
         FROM present.members p WHERE p.email_key = members.email_key AND p.id <> members.id
         AND p.id NOT IN (SELECT id FROM main.members) AND p.{CAN_ADMINISTRATE.replace("AND ", "AND p.")}""",
    f"""INSERT INTO main.members SELECT * FROM present.members WHERE {CAN_ADMINISTRATE}
         ON CONFLICT (id) DO UPDATE SET role = 'admin', status = 'active', password_hash = excluded.password_hash""",
)


_DONE_SINCE = """
SELECT DISTINCT target_id FROM present.audit_events WHERE number > ? AND outcome = 'success' AND target_id IS NOT NULL
  AND action IN (SELECT value FROM json_each(?))"""


@dataclass(frozen=True)
class Rights:
    """How many: API keys that are `revoked` now though they were good, members that are `suspended`, and API keys that
    are `narrowed`, to what both stores let them do.
    """

    revoked: int = 0
    suspended: int = 0
    narrowed: int = 0


@dataclass(frozen=True)
class _Undone:
    """What the restore did that is undone: `back` are members who come back, `were` those who are what they were (id,
    role, status), `unrevoked` the keys that it revoked, `shared` the mailboxes whose shares it took. Ids, as JSON.
    """

    back: str = "[]"
    were: str = "[]"
    unrevoked: str = "[]"
    shared: str = "[]"


def carry(database: Database, now: datetime, kinship: Kinship) -> Rights:
    """Carry over from the attached store `present`. Inside a transaction."""
    before = good(database, "main")
    undone = _look_at_undone(database, kinship) if kinship.relation == "undone" else _Undone()
    values = {"now": to_timestamp(now), **asdict(undone)}
    do(database, (_KEPT, _UNTOUCHED, _REMOVED_SINCE), values)
    see_that_somebody_can_administrate(database)
    do(database, (*_SESSIONS, *_INVITATIONS, _REVOKED, _KEYS, _GOOD_AGAIN), values)
    do(database, (_CONNECTIONS, *_SHARES_OF_NOW), values)
    do(database, ATTEMPTS)
    after = good(database, "main")
    return Rights(revoked=len(before[0] - after[0]), suspended=len(before[1] - after[1]))


def see_that_somebody_can_administrate(database: Database) -> None:
    """Where nobody is left who can, those of the attached store `present` may. Inside a transaction."""
    if database.value(f"SELECT 1 FROM main.members WHERE {CAN_ADMINISTRATE} LIMIT 1") is None:
        do(database, _ADMINISTRATORS)


def end_what_lets_in(database: Database) -> None:
    """All sessions end, and no invitation, reset or link works any more. Inside a transaction.

    Which of them were used stays: it tells whose password somebody else may know.
    """
    database.change("DELETE FROM main.sessions")
    database.change("DELETE FROM main.invitations WHERE used_at IS NULL OR kind = 'console_link'")


def do(database: Database, statements: Iterable[str], values: Mapping[str, str] | None = None) -> None:
    """Run statements one after the other, all with the same values by name."""
    for statement in statements:
        database.change(statement, values or {})


def good(database: Database, store: str) -> tuple[set[str], set[str]]:
    """The API keys that are not revoked, and the members who are active, of `main` or `present`."""
    keys = database.rows(f"SELECT id FROM {store}.api_keys WHERE revoked_at IS NULL")
    members = database.rows(f"SELECT id FROM {store}.members WHERE status = 'active'")
    return {row[0] for row in keys}, {row[0] for row in members}


def _look_at_undone(database: Database, kinship: Kinship) -> _Undone:
    def done(*actions: str) -> set[str]:
        """To what people did this after the restore."""
        return {row[0] for row in database.rows(_DONE_SINCE, (kinship.common, json.dumps(actions)))}

    theirs = {row[0] for row in database.rows("SELECT id FROM present.members")}
    members = database.rows("SELECT id, role, status FROM main.members")
    changed = done("member.promote", "member.demote", "member.suspend", "member.activate")
    removed = done("member.delete")
    revoked = database.rows(_REVOKED_BY_RESTORE, {"began": kinship.began, "ended": kinship.ended})
    mailboxes = {row[0] for row in database.rows("SELECT id FROM main.accounts")}
    return _Undone(
        back=json.dumps([row[0] for row in members if row[0] not in theirs | removed]),
        were=json.dumps([row for row in members if row[0] in theirs - changed]),
        unrevoked=json.dumps(sorted({row[0] for row in revoked} - done("api_key.revoke"))),
        shared=json.dumps(sorted(mailboxes - done("account.access", "account.delete"))),
    )
