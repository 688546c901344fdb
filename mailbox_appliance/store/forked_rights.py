"""Rights where the present store and the backup have forked: neither is the later one, so the narrower of both counts.

    members ....... of role and status the lesser; the password that was set last; who was removed from the present
                    store, as its log tells, comes back suspended, without a password
    API keys ...... revoked in either is revoked; what either allows; those of the present store alone are good where
                    they were made after the backup was: earlier ones are gone from it with their members
    sessions ...... those of both, and those of the present store that began after the backup was made
    mailboxes ..... servers and passwords of the backup; shared where they are in both

Restored is `main`, the other is `present`.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.model.records import ADMIN_CAPABILITIES
from mailbox_appliance.store.carried_rights import (
    ATTEMPTS,
    CAN_ADMINISTRATE,
    SHARES,
    Rights,
    do,
    good,
    see_that_somebody_can_administrate,
)
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.kinship import Made

_NEVER = "9999"  # later than any timestamp
_IN_LOG = (
    "SELECT target_id FROM present.audit_events WHERE action = '{}' AND outcome = 'success' AND target_id IS NOT NULL"
)
_PASSWORDS_SET = """
SELECT target_id, max(at) FROM {}.audit_events WHERE outcome = 'success' AND target_kind = 'member'
  AND action IN ('setup', 'member.enroll', 'password.change', 'password_reset.redeem') GROUP BY target_id"""
_UPDATED = "SELECT id, updated_at FROM {}.members"
_MEMBERS = (
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
_ADMINISTRATORS = (
    "UPDATE main.members SET role = 'admin', status = 'active' WHERE id IN (SELECT value FROM json_each(?))"
)
_ACTIVE = "(SELECT id FROM main.members WHERE status = 'active')"
_SESSIONS = (
    f"""DELETE FROM main.sessions WHERE id NOT IN (SELECT id FROM present.sessions)
         OR member_id NOT IN {_ACTIVE}""",
    """UPDATE main.sessions SET last_used_at = max(sessions.last_used_at, p.last_used_at)
         FROM present.sessions p WHERE p.id = sessions.id""",
    # Not where somebody came in with a password that is another one by now.
    f"""INSERT OR IGNORE INTO main.sessions SELECT s.* FROM present.sessions s
         WHERE s.logged_in_at > :made AND s.member_id IN {_ACTIVE}
         AND (SELECT password_hash FROM main.members WHERE id = s.member_id)
           IS (SELECT password_hash FROM present.members WHERE id = s.member_id)""",
)
# Used ones stay: they tell whose password somebody else may know. Only one of a kind waits for a member, so what was
# issued last is the one that waits.
_INVITATIONS = (
    """UPDATE main.invitations SET used_at = p.used_at FROM present.invitations p
         WHERE p.id = invitations.id AND invitations.used_at IS NULL AND p.used_at IS NOT NULL""",
    """DELETE FROM main.invitations WHERE (used_at IS NULL OR kind = 'console_link')
         AND id NOT IN (SELECT id FROM present.invitations)""",
    """INSERT OR IGNORE INTO main.invitations SELECT p.* FROM present.invitations p
         WHERE p.kind <> 'console_link' AND p.member_id IN (SELECT id FROM main.members)
         AND (p.used_at IS NOT NULL OR EXISTS (SELECT 1 FROM present.audit_events e WHERE e.target_id = p.member_id
           AND e.action = p.kind || '.create' AND e.outcome = 'success' AND e.at > :made))""",
)
_KEYS = (
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
_DIFFERING = """
SELECT r.id, r.capabilities, p.capabilities, r.account_ids, p.account_ids
FROM main.api_keys r JOIN present.api_keys p ON p.id = r.id WHERE r.revoked_at IS NULL
  AND (r.capabilities, r.account_ids) IS NOT (p.capabilities, p.account_ids)"""
_NARROW = """
UPDATE main.api_keys SET permission_profile = iif(?, 'custom', permission_profile), capabilities = ?,
  supplemental_capabilities = iif(?, ?, supplemental_capabilities), account_ids = ? WHERE id = ?"""
_NOT_SHARED = f"DELETE FROM main.account_grants WHERE account_id IN ({_IN_LOG.format('account.delete')})"
_NOT_SHARED_WITH_ALL = f"""
UPDATE main.accounts SET shared_with_all = 0 WHERE id IN ({_IN_LOG.format("account.delete")})"""


def carry(database: Database, now: datetime, made: Made | None) -> Rights:
    """Make of both what is safe. Inside a transaction. `made`: without it nothing is known to be later."""
    values = {"now": to_timestamp(now), "made": _NEVER if made is None else made.at}
    before, theirs = good(database, "main"), good(database, "present")
    _take_members(database, values)
    do(database, _SESSIONS, values)
    do(database, _INVITATIONS, values)
    do(database, _KEYS, values)
    narrowed = _narrow(database)
    do(database, (*SHARES, _NOT_SHARED, _NOT_SHARED_WITH_ALL))
    do(database, ATTEMPTS)
    after = good(database, "main")
    # A key that stayed in the present store alone was good there until now.
    keys = before[0] | theirs[0]
    return Rights(len(keys - after[0]), len(before[1] - after[1]), narrowed)


def _take_members(database: Database, values: Mapping[str, str]) -> None:
    could = database.rows(f"SELECT id FROM main.members WHERE {CAN_ADMINISTRATE}")
    do(database, _MEMBERS, {**values, "later": json.dumps(_set_later(database))})
    if database.value(f"SELECT 1 FROM main.members WHERE {CAN_ADMINISTRATE}") is None:
        database.change(_ADMINISTRATORS, (json.dumps([row[0] for row in could]),))
        see_that_somebody_can_administrate(database)


def _set_later(database: Database) -> list[str]:
    """The members whose password was set later in the present store than in the backup, as the logs tell; where both
    tell the same, it is the same password, perhaps hashed anew, or an older release set it.
    """
    ours, theirs = _when_set(database, "main"), _when_set(database, "present")
    return [member for member in ours.keys() & theirs.keys() if theirs[member] >= ours[member]]


def _when_set(database: Database, store: str) -> dict[str, tuple[str, str]]:
    """When the log tells that the password of each member was set, and when the member was last changed."""
    told: dict[str, str] = dict(database.rows(_PASSWORDS_SET.format(store)))
    return {member: (told.get(member, ""), at) for member, at in database.rows(_UPDATED.format(store))}


def _narrow(database: Database) -> int:
    """Let keys of both do what either allows; answers how many may do less now than in the backup."""
    narrowed = 0
    for key_id, ours, theirs, our_accounts, their_accounts in database.rows(_DIFFERING):
        held, accounts = _both(ours, theirs), _both(our_accounts, their_accounts)
        is_less = held != json.loads(ours)
        supplemental = json.dumps([one for one in held or () if one in ADMIN_CAPABILITIES])
        limit = None if accounts is None else json.dumps(accounts)
        database.change(_NARROW, (is_less, json.dumps(held), is_less, supplemental, limit, key_id))
        narrowed += is_less or limit != our_accounts
    return narrowed


def _both(ours: str | None, theirs: str | None) -> list[str] | None:
    """What is in both lists (JSON), in our order; None stands for everything."""
    if ours is None or theirs is None:
        found: list[str] | None = json.loads(ours or theirs or "null")
        return found
    also: Iterable[str] = frozenset(json.loads(theirs))
    return [one for one in json.loads(ours) if one in also]
