"""Merging members, keys, sessions and shares into a restored store: nothing revoked since the backup is valid again.

    members ....... the present password; of both roles and statuses, those with fewer rights; removed members are
                    restored as suspended, without a password
    credentials ... the present sessions, API keys and pending invitations; keys that no longer exist are revoked
    mailboxes ..... the present servers and passwords; a share counts if it is in the backup and in the present store

A restore can undo an earlier restore, with the backup made before it. Then the changes of that earlier restore are
reverted: members, keys, mailboxes and shares that it removed are restored. Changes that people made after it are kept;
the audit log shows them.

If the stores have forked (neither is later than the other), `merge_forked_rights` keeps the narrower right of both. In
SQL, the restored store is `main` and the present one is `present`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.model.members import ADMIN_CAPABILITIES
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.restore.kinship import BackupOrigin, Kinship

_MERGE_MEMBERS = """
UPDATE main.members SET
  role = iif(p.role = 'admin' AND members.role = 'admin', 'admin', 'member'),
  status = iif(p.status = 'active' AND members.status = 'active', 'active', 'suspended'),
  password_hash = p.password_hash, last_login_at = p.last_login_at, updated_at = max(members.updated_at, p.updated_at)
FROM present.members p WHERE p.id = members.id"""
# Members whose role and status can have been changed only by the restore that is undone.
_RESET_MEMBERS = """
UPDATE main.members SET (role, status) = (SELECT j.value ->> 1, j.value ->> 2 FROM json_each(:were) j
  WHERE j.value ->> 0 = members.id) WHERE id IN (SELECT j.value ->> 0 FROM json_each(:were) j)"""
_SUSPEND_REMOVED = """
UPDATE main.members SET status = 'suspended', password_hash = NULL, updated_at = :now
WHERE id NOT IN (SELECT id FROM present.members) AND id NOT IN (SELECT value FROM json_each(:back))"""
_SESSIONS_OF_PRESENT = (
    "DELETE FROM main.sessions",  # deletes the console links as well
    """INSERT INTO main.sessions SELECT * FROM present.sessions
         WHERE member_id IN (SELECT id FROM main.members WHERE status = 'active')""",
)
_TOKENS_OF_PRESENT = (
    "DELETE FROM main.invitations WHERE member_id NOT IN (SELECT value FROM json_each(:back))",
    """INSERT INTO main.invitations SELECT * FROM present.invitations
         WHERE member_id IN (SELECT id FROM main.members)
         AND (session_id IS NULL OR session_id IN (SELECT id FROM main.sessions))""",
)
_REVOKE_MISSING_KEYS = """
UPDATE main.api_keys SET revoked_at = :now WHERE revoked_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM present.api_keys p WHERE p.id = api_keys.id)
  AND member_id NOT IN (SELECT value FROM json_each(:back))"""
_KEYS_OF_PRESENT = """
INSERT OR REPLACE INTO main.api_keys SELECT * FROM present.api_keys
WHERE member_id IN (SELECT id FROM main.members)"""
# Keys that were revoked by the restore that is undone.
_REVOKED_BY_RESTORE = """
SELECT r.id FROM main.api_keys r JOIN present.api_keys p ON p.id = r.id
WHERE r.revoked_at IS NULL AND p.revoked_at BETWEEN :began AND :ended"""
_UNREVOKE_KEYS = "UPDATE main.api_keys SET revoked_at = NULL WHERE id IN (SELECT value FROM json_each(:unrevoked))"
_CONNECTIONS = """
UPDATE main.accounts SET connection = p.connection, secret = p.secret, status = 'connecting', error_code = NULL,
  error_message = NULL, error_fault = NULL FROM present.accounts p WHERE p.id = accounts.id
  AND (p.connection, p.secret) IS NOT (accounts.connection, accounts.secret)"""
_IN_PRESENT = "id IN (SELECT id FROM present.accounts)"
_SHARES_OF_PRESENT = (
    """UPDATE main.accounts SET shared_with_all = 0 WHERE shared_with_all = 1
         AND id NOT IN (SELECT id FROM present.accounts WHERE shared_with_all = 1)
         AND id NOT IN (SELECT value FROM json_each(:shared))""",
    """DELETE FROM main.account_grants WHERE NOT EXISTS (SELECT 1 FROM present.account_grants p
         WHERE p.account_id = account_grants.account_id AND p.member_id = account_grants.member_id)
         AND (account_id NOT IN (SELECT value FROM json_each(:shared)) OR member_id NOT IN (
           SELECT id FROM present.members UNION ALL SELECT value FROM json_each(:back)))""",
)
#: For mailboxes in both stores: the shares that are in both.
COMMON_SHARES = (
    f"""UPDATE main.accounts SET shared_with_all = 0 WHERE shared_with_all = 1 AND {_IN_PRESENT}
         AND id NOT IN (SELECT id FROM present.accounts WHERE shared_with_all = 1)""",
    f"""DELETE FROM main.account_grants WHERE account_{_IN_PRESENT} AND NOT EXISTS (
         SELECT 1 FROM present.account_grants p
         WHERE p.account_id = account_grants.account_id AND p.member_id = account_grants.member_id)""",
)
ATTEMPTS_OF_PRESENT = ("DELETE FROM main.attempts", "INSERT INTO main.attempts SELECT * FROM present.attempts")
CAN_ADMINISTRATE = "role = 'admin' AND status = 'active' AND password_hash IS NOT NULL"
_ADMINISTRATORS_OF_PRESENT = (
    # Another member with the same email address is restored from the backup: they cannot both have it.
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
class MergedRights:
    """Counts of rights that a merge reduced: API keys `revoked`, members `suspended`, and API keys `narrowed` to what
    both stores allow.
    """

    revoked: int = 0
    suspended: int = 0
    narrowed: int = 0


@dataclass(frozen=True)
class _Undone:
    """The changes that an earlier restore made and that the present restore undoes, as JSON lists.

    `back`: IDs of members that it removed and that return. `were`: members that get back their role and status (ID,
    role, status). `unrevoked`: IDs of API keys that it revoked and that become valid again. `shared`: IDs of mailboxes
    whose shares are taken from the backup that is restored now.
    """

    back: str = "[]"
    were: str = "[]"
    unrevoked: str = "[]"
    shared: str = "[]"


def merge_later_rights(database: Database, now: datetime, kinship: Kinship) -> MergedRights:
    """Merge the rights of the store attached as `present`, which is later than the backup. The caller must be in a
    transaction.
    """
    before = active_ids(database, "main")
    undone = _find_undone(database, kinship) if kinship.relation == "undone" else _Undone()
    values = {"now": to_timestamp(now), **asdict(undone)}
    run_statements(database, (_MERGE_MEMBERS, _RESET_MEMBERS, _SUSPEND_REMOVED), values)
    ensure_administrator(database)
    run_statements(
        database,
        (*_SESSIONS_OF_PRESENT, *_TOKENS_OF_PRESENT, _REVOKE_MISSING_KEYS, _KEYS_OF_PRESENT, _UNREVOKE_KEYS),
        values,
    )
    run_statements(database, (_CONNECTIONS, *_SHARES_OF_PRESENT), values)
    run_statements(database, ATTEMPTS_OF_PRESENT)
    after = active_ids(database, "main")
    return MergedRights(revoked=len(before[0] - after[0]), suspended=len(before[1] - after[1]))


def ensure_administrator(database: Database) -> None:
    """If the restored store has no administrator who can sign in, copy those of the store attached as `present`. The
    caller must be in a transaction.
    """
    if database.value(f"SELECT 1 FROM main.members WHERE {CAN_ADMINISTRATE} LIMIT 1") is None:
        run_statements(database, _ADMINISTRATORS_OF_PRESENT)


def end_all_access(database: Database) -> None:
    """End all sessions and revoke all pending invitations, password resets and console links. The caller must be in a
    transaction.

    Used invitations and resets are kept: they show which passwords another person may know.
    """
    database.change("DELETE FROM main.sessions")
    database.change("DELETE FROM main.invitations WHERE used_at IS NULL OR kind = 'console_link'")


def run_statements(database: Database, statements: Iterable[str], values: Mapping[str, str] | None = None) -> None:
    """Execute SQL statements in order, all with the same named parameters."""
    for statement in statements:
        database.change(statement, values or {})


def active_ids(database: Database, store: str) -> tuple[set[str], set[str]]:
    """Return the IDs of the API keys that are not revoked, and those of the active members.

    `store`: `main` for the restored store, `present` for the present one.
    """
    keys = database.rows(f"SELECT id FROM {store}.api_keys WHERE revoked_at IS NULL")
    members = database.rows(f"SELECT id FROM {store}.members WHERE status = 'active'")
    return {row[0] for row in keys}, {row[0] for row in members}


def _find_undone(database: Database, kinship: Kinship) -> _Undone:
    def done(*actions: str) -> set[str]:
        """Return the IDs of the objects on which one of these actions succeeded after the backup, by the audit log."""
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


# --- Stores that have forked: the narrower right of both counts ---
#
#     members ....... The lesser role and status, and the password that was set last. Members whose removal is in the
#                     log of the present store are restored as suspended, without a password.
#     API keys ...... A key revoked in either store is revoked; a key in both may do only what both allow. A key in the
#                     present store only is valid if created after the backup: earlier ones left it with their members.
#     sessions ...... Those in both stores, and those of the present store that began after the backup was made.
#     mailboxes ..... Servers and passwords of the backup; shares that are in both.


_NEVER = "9999"  # later than any timestamp
_IN_LOG = (
    "SELECT target_id FROM present.audit_events WHERE action = '{}' AND outcome = 'success' AND target_id IS NOT NULL"
)
_PASSWORDS_SET = """
SELECT target_id, max(at) FROM {}.audit_events WHERE outcome = 'success' AND target_kind = 'member'
  AND action IN ('setup', 'member.enroll', 'password.change', 'password_reset.redeem') GROUP BY target_id"""
_MEMBER_UPDATES = "SELECT id, updated_at FROM {}.members"
_FORKED_MEMBERS = (
    """UPDATE main.members SET
         role = iif(p.role = 'admin' AND members.role = 'admin', 'admin', 'member'),
         status = iif(p.status = 'active' AND members.status = 'active', 'active', 'suspended'),
         password_hash = iif(members.id IN (SELECT value FROM json_each(:later)), p.password_hash,
           members.password_hash),
         last_login_at = nullif(max(coalesce(members.last_login_at, ''), coalesce(p.last_login_at, '')), ''),
         updated_at = max(members.updated_at, p.updated_at)
       FROM present.members p WHERE p.id = members.id""",
    f"""UPDATE main.members SET status = 'suspended', password_hash = NULL, updated_at = :now
         WHERE id NOT IN (SELECT id FROM present.members) AND id IN ({_IN_LOG.format("member.delete")})""",
)
_KEEP_ADMINISTRATORS = (
    "UPDATE main.members SET role = 'admin', status = 'active' WHERE id IN (SELECT value FROM json_each(?))"
)
_ACTIVE_MEMBERS = "(SELECT id FROM main.members WHERE status = 'active')"
_FORKED_SESSIONS = (
    f"""DELETE FROM main.sessions WHERE id NOT IN (SELECT id FROM present.sessions)
         OR member_id NOT IN {_ACTIVE_MEMBERS}""",
    """UPDATE main.sessions SET last_used_at = max(sessions.last_used_at, p.last_used_at)
         FROM present.sessions p WHERE p.id = sessions.id""",
    # Not if the password with which somebody signed in has been replaced.
    f"""INSERT OR IGNORE INTO main.sessions SELECT s.* FROM present.sessions s
         WHERE s.logged_in_at > :made AND s.member_id IN {_ACTIVE_MEMBERS}
         AND (SELECT password_hash FROM main.members WHERE id = s.member_id)
           IS (SELECT password_hash FROM present.members WHERE id = s.member_id)""",
)
# Used tokens stay: they tell whose password somebody else may know. A member has only one pending token of a kind, so
# the one issued last is kept.
_FORKED_TOKENS = (
    """UPDATE main.invitations SET used_at = p.used_at FROM present.invitations p
         WHERE p.id = invitations.id AND invitations.used_at IS NULL AND p.used_at IS NOT NULL""",
    """DELETE FROM main.invitations WHERE (used_at IS NULL OR kind = 'console_link')
         AND id NOT IN (SELECT id FROM present.invitations)""",
    """INSERT OR IGNORE INTO main.invitations SELECT p.* FROM present.invitations p
         WHERE p.kind <> 'console_link' AND p.member_id IN (SELECT id FROM main.members)
         AND (p.used_at IS NOT NULL OR EXISTS (SELECT 1 FROM present.audit_events e WHERE e.target_id = p.member_id
           AND e.action = p.kind || '.create' AND e.outcome = 'success' AND e.at > :made))""",
)
_FORKED_KEYS = (
    """UPDATE main.api_keys SET revoked_at = p.revoked_at FROM present.api_keys p
         WHERE p.id = api_keys.id AND api_keys.revoked_at IS NULL AND p.revoked_at IS NOT NULL""",
    f"""UPDATE main.api_keys SET revoked_at = :now WHERE revoked_at IS NULL
         AND member_id NOT IN (SELECT id FROM present.members)
         AND member_id IN ({_IN_LOG.format("member.delete")})""",
    """INSERT OR IGNORE INTO main.api_keys SELECT id, name, member_id, token_hash, permission_profile, capabilities,
         supplemental_capabilities, account_ids, made_by_member_id, created_at, last_used_at,
         coalesce(revoked_at, iif(created_at > :made, NULL, :now))
         FROM present.api_keys WHERE member_id IN (SELECT id FROM main.members)""",
)
_DIFFERING_KEYS = """
SELECT r.id, r.capabilities, p.capabilities, r.account_ids, p.account_ids
FROM main.api_keys r JOIN present.api_keys p ON p.id = r.id WHERE r.revoked_at IS NULL
  AND (r.capabilities, r.account_ids) IS NOT (p.capabilities, p.account_ids)"""
_NARROW_KEY = """
UPDATE main.api_keys SET permission_profile = iif(?, 'custom', permission_profile), capabilities = ?,
  supplemental_capabilities = iif(?, ?, supplemental_capabilities), account_ids = ? WHERE id = ?"""
_NOT_SHARED = f"DELETE FROM main.account_grants WHERE account_id IN ({_IN_LOG.format('account.delete')})"
_NOT_SHARED_WITH_ALL = f"""
UPDATE main.accounts SET shared_with_all = 0 WHERE id IN ({_IN_LOG.format("account.delete")})"""


def merge_forked_rights(database: Database, now: datetime, made: BackupOrigin | None) -> MergedRights:
    """Merge the rights of two stores of which neither is later: keep the narrower of both. The caller must be in a
    transaction.

    `made`: when the backup was made; without it, no session, key or token counts as newer than the backup.
    """
    values = {"now": to_timestamp(now), "made": _NEVER if made is None else made.at}
    before, theirs = active_ids(database, "main"), active_ids(database, "present")
    _merge_members(database, values)
    run_statements(database, _FORKED_SESSIONS, values)
    run_statements(database, _FORKED_TOKENS, values)
    run_statements(database, _FORKED_KEYS, values)
    narrowed = _narrow_keys(database)
    run_statements(database, (*COMMON_SHARES, _NOT_SHARED, _NOT_SHARED_WITH_ALL))
    run_statements(database, ATTEMPTS_OF_PRESENT)
    after = active_ids(database, "main")
    # A key that is only in the present store was valid there until now.
    keys = before[0] | theirs[0]
    return MergedRights(len(keys - after[0]), len(before[1] - after[1]), narrowed)


def _merge_members(database: Database, values: Mapping[str, str]) -> None:
    could = database.rows(f"SELECT id FROM main.members WHERE {CAN_ADMINISTRATE}")
    run_statements(database, _FORKED_MEMBERS, {**values, "later": json.dumps(_passwords_set_later(database))})
    if database.value(f"SELECT 1 FROM main.members WHERE {CAN_ADMINISTRATE}") is None:
        database.change(_KEEP_ADMINISTRATORS, (json.dumps([row[0] for row in could]),))
        ensure_administrator(database)


def _passwords_set_later(database: Database) -> list[str]:
    """Return the IDs of the members whose password is taken from the present store.

    In that store it was set later than in the backup, or at the same time. In the second case the password is the same,
    but the present store may have a newer hash of it.
    """
    ours, theirs = _password_times(database, "main"), _password_times(database, "present")
    return [member for member in ours.keys() & theirs.keys() if theirs[member] >= ours[member]]


def _password_times(database: Database, store: str) -> dict[str, tuple[str, str]]:
    """Return two timestamps by member ID: when the audit log recorded the last new password (empty if never), and when
    the member was last changed.
    """
    told: dict[str, str] = dict(database.rows(_PASSWORDS_SET.format(store)))
    return {member: (told.get(member, ""), at) for member, at in database.rows(_MEMBER_UPDATES.format(store))}


def _narrow_keys(database: Database) -> int:
    """Limit API keys that are in both stores to what both allow; return how many lost a permission or mailbox that they
    had in the backup.
    """
    narrowed = 0
    for key_id, ours, theirs, our_accounts, their_accounts in database.rows(_DIFFERING_KEYS):
        held, accounts = _intersect_json(ours, theirs), _intersect_json(our_accounts, their_accounts)
        is_less = held != json.loads(ours)
        supplemental = json.dumps([one for one in held or () if one in ADMIN_CAPABILITIES])
        limit = None if accounts is None else json.dumps(accounts)
        database.change(_NARROW_KEY, (is_less, json.dumps(held), is_less, supplemental, limit, key_id))
        narrowed += is_less or limit != our_accounts
    return narrowed


def _intersect_json(ours: str | None, theirs: str | None) -> list[str] | None:
    """Return the elements that are in both JSON lists, in the order of the first. None instead of a list stands for
    everything.
    """
    if ours is None or theirs is None:
        found: list[str] | None = json.loads(ours or theirs or "null")
        return found
    also: Iterable[str] = frozenset(json.loads(theirs))
    return [one for one in json.loads(ours) if one in also]
