"""Rights that were taken since a backup was made, so that none lives again: carried into the restored store.

    members ....... the password is that of now; of role and status the lesser counts; who was removed comes back
                    suspended, without a password
    credentials ... sessions, API keys and open invitations are those of now; keys that are no more are revoked
    mailboxes ..... servers and passwords are those of now; a share counts where it is there before and now

Restored is `main`, the other is `present`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.store.database import Database

_KEPT = """
UPDATE main.members SET
  role = iif(p.role = 'admin' AND members.role = 'admin', 'admin', 'member'),
  status = iif(p.status = 'active' AND members.status = 'active', 'active', 'suspended'),
  password_hash = p.password_hash, last_login_at = p.last_login_at, updated_at = max(members.updated_at, p.updated_at)
FROM present.members p WHERE p.id = members.id"""
_REMOVED_SINCE = """
UPDATE main.members SET status = 'suspended', password_hash = NULL, updated_at = ?
WHERE id NOT IN (SELECT id FROM present.members)"""
_SESSIONS = (
    "DELETE FROM main.sessions",  # and with them the links into the console
    """INSERT INTO main.sessions SELECT * FROM present.sessions
         WHERE member_id IN (SELECT id FROM main.members WHERE status = 'active')""",
)
_INVITATIONS = (
    "DELETE FROM main.invitations",
    """INSERT INTO main.invitations SELECT * FROM present.invitations
         WHERE member_id IN (SELECT id FROM main.members)
         AND (session_id IS NULL OR session_id IN (SELECT id FROM main.sessions))""",
)
_REVOKED = """
UPDATE main.api_keys SET revoked_at = ? WHERE revoked_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM present.api_keys p WHERE p.id = api_keys.id)"""
_KEYS = """
INSERT OR REPLACE INTO main.api_keys SELECT * FROM present.api_keys
WHERE member_id IN (SELECT id FROM main.members)"""
_MAILBOXES = (
    """UPDATE main.accounts SET connection = p.connection, secret = p.secret, status = 'connecting', error_code = NULL,
         error_message = NULL FROM present.accounts p WHERE p.id = accounts.id
         AND (p.connection, p.secret) IS NOT (accounts.connection, accounts.secret)""",
    """UPDATE main.accounts SET shared_with_all = 0 WHERE shared_with_all = 1
         AND id NOT IN (SELECT id FROM present.accounts WHERE shared_with_all = 1)""",
    """DELETE FROM main.account_grants WHERE NOT EXISTS (SELECT 1 FROM present.account_grants p
         WHERE p.account_id = account_grants.account_id AND p.member_id = account_grants.member_id)""",
)
_ATTEMPTS = ("DELETE FROM main.attempts", "INSERT INTO main.attempts SELECT * FROM present.attempts")
_CAN_ADMINISTRATE = "role = 'admin' AND status = 'active' AND password_hash IS NOT NULL"
_ADMINISTRATORS = (
    # Somebody else who has the email of one of them comes back from before: they cannot both have it.
    f"""UPDATE main.members SET email = members.id || '@former.invalid', email_key = members.id || '@former.invalid'
         FROM present.members p WHERE p.email_key = members.email_key AND p.id <> members.id
         AND p.id NOT IN (SELECT id FROM main.members) AND p.{_CAN_ADMINISTRATE.replace("AND ", "AND p.")}""",
    f"""INSERT INTO main.members SELECT * FROM present.members WHERE {_CAN_ADMINISTRATE}
         ON CONFLICT (id) DO UPDATE SET role = 'admin', status = 'active', password_hash = excluded.password_hash""",
)


@dataclass(frozen=True)
class Rights:
    """How many: API keys that are `revoked` now though the backup holds them as good, members that are `suspended`."""

    revoked: int = 0
    suspended: int = 0


def carry(database: Database, now: datetime) -> Rights:
    """Carry over from the attached store `present`. Inside a transaction."""
    at, before = (to_timestamp(now),), _good(database)
    database.change(_KEPT)
    database.change(_REMOVED_SINCE, at)
    see_that_somebody_can_administrate(database)
    _do(database, _SESSIONS)
    _do(database, _INVITATIONS)
    database.change(_REVOKED, at)
    database.change(_KEYS)
    _do(database, _MAILBOXES)
    _do(database, _ATTEMPTS)
    after = _good(database)
    return Rights(revoked=len(before[0] - after[0]), suspended=len(before[1] - after[1]))


def see_that_somebody_can_administrate(database: Database) -> None:
    """Where nobody is left who can, those of the attached store `present` may. Inside a transaction."""
    if database.value(f"SELECT 1 FROM main.members WHERE {_CAN_ADMINISTRATE} LIMIT 1") is None:
        _do(database, _ADMINISTRATORS)


def end_what_lets_in(database: Database) -> None:
    """All sessions end, and no invitation, reset or link works any more. Inside a transaction.

    Which of them were used stays: it tells whose password somebody else may know.
    """
    database.change("DELETE FROM main.sessions")
    database.change("DELETE FROM main.invitations WHERE used_at IS NULL OR kind = 'console_link'")


def _do(database: Database, statements: Sequence[str]) -> None:
    for statement in statements:
        database.change(statement)


def _good(database: Database) -> tuple[set[str], set[str]]:
    """The API keys that are not revoked, and the members who are active."""
    keys = database.rows("SELECT id FROM main.api_keys WHERE revoked_at IS NULL")
    members = database.rows("SELECT id FROM main.members WHERE status = 'active'")
    return {row[0] for row in keys}, {row[0] for row in members}
