"""The audit log of format 4 as rows of format 5's: in their order, counted from 1, and sealed by whoever appends them.

A row's id is `aud_` and its old number. What was acted on was one text and is a kind and an id now; which member acted,
and whom a row concerns, is what the old store still knows of the credential, key, session or mailbox that it names.
"""

from collections.abc import Callable, Iterator

from mailbox_appliance.store.database import Database, Row

_BATCH = 5_000
#: What the ids of things begin with -> what they are called in the log.
_KINDS = {
    "mem": "member",
    "ses": "session",
    "key": "api_key",
    "acc": "account",
    "inv": "invitation",
    "sch": "schedule",
    "dlv": "delivery",
}
_KIND = " ".join(f"WHEN '{prefix}_' THEN '{kind}'" for prefix, kind in _KINDS.items())
_FACTS = f"""
SELECT o.id AS number, 'aud_' || o.id AS id, o.at, o.actor_kind, o.actor_id,
  CASE o.actor_kind WHEN 'session' THEN (SELECT member_id FROM older_sessions WHERE id = o.actor_id)
    WHEN 'api_key' THEN (SELECT member_id FROM older_api_keys WHERE id = o.actor_id) END AS actor_member_id,
  o.action, CASE WHEN o.target IS NOT NULL THEN CASE substr(o.target, 1, 4) {_KIND} ELSE 'other' END END AS target_kind,
  o.target AS target_id, o.outcome, o.client_address,
  CASE substr(o.target, 1, 4) WHEN 'mem_' THEN o.target
    WHEN 'ses_' THEN (SELECT member_id FROM older_sessions WHERE id = o.target)
    WHEN 'key_' THEN (SELECT member_id FROM older_api_keys WHERE id = o.target)
    WHEN 'acc_' THEN (SELECT owner_member_id FROM older_accounts WHERE id = o.target)
    WHEN 'inv_' THEN (SELECT member_id FROM older_invitations WHERE id = o.target) END AS about_member_id
FROM older_audit_events o"""
COUNT = "SELECT count(*) FROM older_audit_events"
#: The id of a row that is missing in the new log, or tells something else there.
DIFFERING = f"""
SELECT f.id FROM ({_FACTS}) f LEFT JOIN main.audit_events n ON n.id = f.id WHERE n.id IS NULL OR n.at IS NOT f.at
  OR n.actor_kind IS NOT f.actor_kind OR n.actor_id IS NOT f.actor_id OR n.actor_member_id IS NOT f.actor_member_id
  OR n.action IS NOT f.action OR n.target_kind IS NOT f.target_kind OR n.target_id IS NOT f.target_id
  OR n.outcome IS NOT f.outcome OR n.client_address IS NOT f.client_address
  OR n.about_member_id IS NOT f.about_member_id LIMIT 1"""


def rows(database: Database, tell: Callable[[int], None]) -> Iterator[Row]:
    """The rows, as `audit.FACTS` has them, the oldest first; `tell` hears how many have been read."""
    after, read = -(1 << 62), 0
    while batch := database.rows(f"{_FACTS} WHERE o.id > ? ORDER BY o.id LIMIT {_BATCH}", (after,)):
        tell(read)
        yield from (row[1:] for row in batch)
        after, read = batch[-1][0], read + len(batch)
