"""Merging members, keys, sessions and shares into a restored store: nothing revoked since the backup is valid again.

    members ....... the present password; of both roles and statuses, those with fewer rights; removed members are
                    restored as suspended, without a password
    credentials ... the present sessions, API keys and pending invitations; keys that no longer exist are revoked
    webhooks ...... those of the present store, which send what changes from now on
    mailboxes ..... the present servers, passwords and sending policies; a share counts if it is in the backup and in
                    the present store

This holds if the present store is later than the backup. Otherwise all sessions end, only revoked API keys are merged,
webhooks are disabled, mailboxes and keys without a sending policy get the present one, and everything else is as in the
backup. In SQL, the restored store is `main` and the present one is `present`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.store.database import Database

_MERGE_MEMBERS = """
UPDATE main.members SET
  role = iif(p.role = 'admin' AND members.role = 'admin', 'admin', 'member'),
  status = iif(p.status = 'active' AND members.status = 'active', 'active', 'suspended'),
  password_hash = p.password_hash, last_login_at = p.last_login_at, updated_at = max(members.updated_at, p.updated_at)
FROM present.members p WHERE p.id = members.id"""
_SUSPEND_REMOVED = """
UPDATE main.members SET status = 'suspended', password_hash = NULL, updated_at = :now
WHERE id NOT IN (SELECT id FROM present.members)"""
_CREDENTIALS_OF_PRESENT = (
    "DELETE FROM main.sessions",  # deletes the console links as well
    """INSERT INTO main.sessions SELECT * FROM present.sessions
         WHERE member_id IN (SELECT id FROM main.members WHERE status = 'active')""",
    "DELETE FROM main.invitations",
    """INSERT INTO main.invitations SELECT * FROM present.invitations
         WHERE member_id IN (SELECT id FROM main.members)
         AND (session_id IS NULL OR session_id IN (SELECT id FROM main.sessions))""",
    """INSERT OR REPLACE INTO main.api_keys SELECT * FROM present.api_keys
         WHERE member_id IN (SELECT id FROM main.members)""",
    "DELETE FROM main.webhooks",  # deletes their attempts as well
    """INSERT INTO main.webhooks SELECT * FROM present.webhooks WHERE member_id IN (SELECT id FROM main.members)""",
    "DELETE FROM main.attempts",
    "INSERT INTO main.attempts SELECT * FROM present.attempts",
)
_REVOKE_MISSING_KEYS = """
UPDATE main.api_keys SET revoked_at = :now WHERE revoked_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM present.api_keys p WHERE p.id = api_keys.id)"""
_REVOKED_IN_PRESENT = """
UPDATE main.api_keys SET revoked_at = p.revoked_at FROM present.api_keys p
WHERE p.id = api_keys.id AND api_keys.revoked_at IS NULL AND p.revoked_at IS NOT NULL"""
_MAILBOXES_OF_PRESENT = (
    """UPDATE main.accounts SET connection = p.connection, secret = p.secret, status = 'connecting', error_code = NULL,
         error_message = NULL, error_fault = NULL FROM present.accounts p WHERE p.id = accounts.id
         AND (p.connection, p.secret) IS NOT (accounts.connection, accounts.secret)""",
    "UPDATE main.accounts SET sending_policy = p.sending_policy FROM present.accounts p WHERE p.id = accounts.id",
    """UPDATE main.accounts SET shared_with_all = 0 WHERE shared_with_all = 1
         AND id NOT IN (SELECT id FROM present.accounts WHERE shared_with_all = 1)""",
    """DELETE FROM main.account_grants WHERE NOT EXISTS (SELECT 1 FROM present.account_grants p
         WHERE p.account_id = account_grants.account_id AND p.member_id = account_grants.member_id)""",
)
_MISSING_POLICIES = tuple(
    f"UPDATE main.{table} SET sending_policy = p.sending_policy FROM present.{table} p"
    f" WHERE p.id = {table}.id AND {table}.sending_policy IS NULL"
    for table in ("accounts", "api_keys")
)
_CAN_ADMINISTRATE = "role = 'admin' AND status = 'active' AND password_hash IS NOT NULL"
_ADMINISTRATORS_OF_PRESENT = (
    # Another member with the same email address is restored from the backup: they cannot both have it.
    f"""UPDATE main.members SET email = members.id || '@former.invalid', email_key = members.id || '@former.invalid'
         FROM present.members p WHERE p.email_key = members.email_key AND p.id <> members.id
         AND p.id NOT IN (SELECT id FROM main.members) AND p.{_CAN_ADMINISTRATE.replace("AND ", "AND p.")}""",
    f"""INSERT INTO main.members SELECT * FROM present.members WHERE {_CAN_ADMINISTRATE}
         ON CONFLICT (id) DO UPDATE SET role = 'admin', status = 'active', password_hash = excluded.password_hash""",
)


# It counts as a failure, so that its member is warned.
_DISABLE_WEBHOOKS = """
UPDATE main.webhooks SET status = 'disabled', failures = max(failures, 1),
  last_failure_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), last_failure_status = NULL,
  last_failure_reason = 'A restore of a backup disabled this webhook. Enable it again if it is still wanted.'
WHERE status = 'active'"""


@dataclass(frozen=True)
class MergedRights:
    """Counts of rights of the backup that a merge reduced: API keys `revoked` and members `suspended`."""

    revoked: int = 0
    suspended: int = 0


def merge_later_rights(database: Database, now: datetime) -> MergedRights:
    """Merge the rights of `present`, a store that is later than the backup. Call it inside a transaction."""
    keys, members = _active_ids(database)
    database.change(_MERGE_MEMBERS)
    database.change(_SUSPEND_REMOVED, {"now": to_timestamp(now)})
    ensure_administrator(database)
    database.change(_REVOKE_MISSING_KEYS, {"now": to_timestamp(now)})
    _run_statements(database, _CREDENTIALS_OF_PRESENT)
    _run_statements(database, _MAILBOXES_OF_PRESENT)
    valid, active = _active_ids(database)
    return MergedRights(revoked=len(keys - valid), suspended=len(members - active))


def merge_revoked_keys(database: Database) -> MergedRights:
    """Revoke the API keys that are revoked in the store attached as `present`. The caller must be in a transaction."""
    return MergedRights(revoked=database.change(_REVOKED_IN_PRESENT))


def add_missing_policies(database: Database) -> None:
    """Give mailboxes and API keys without a sending policy the one they have in `present`. Call it inside a
    transaction.
    """
    _run_statements(database, _MISSING_POLICIES)


def ensure_administrator(database: Database) -> None:
    """If nobody in the restored store can administrate, copy those of `present`. Call it inside a transaction."""
    if database.value(f"SELECT 1 FROM main.members WHERE {_CAN_ADMINISTRATE} LIMIT 1") is None:
        _run_statements(database, _ADMINISTRATORS_OF_PRESENT)


def end_all_access(database: Database) -> None:
    """End all sessions, revoke all pending invitations, password resets and console links, and disable all webhooks.
    The caller must be in a transaction.

    Used invitations and resets are kept: they show which passwords another person may know.
    """
    database.change("DELETE FROM main.sessions")
    database.change("DELETE FROM main.invitations WHERE used_at IS NULL OR kind = 'console_link'")
    # Somebody may have deleted them since.
    database.change(_DISABLE_WEBHOOKS)


def _run_statements(database: Database, statements: Iterable[str]) -> None:
    for statement in statements:
        database.change(statement)


def _active_ids(database: Database) -> tuple[set[str], set[str]]:
    keys = database.rows("SELECT id FROM main.api_keys WHERE revoked_at IS NULL")
    members = database.rows("SELECT id FROM main.members WHERE status = 'active'")
    return {row[0] for row in keys}, {row[0] for row in members}
