"""Formats 3 (release 0.10) and 4 (before 0.11.0), as they are read: what each promises, and format 3 told as format 4.

Both are plain SQLite files with single secrets sealed in their columns (store/sealed.py). They are never written. An
older file is attached as `old`; its tables are read through views `older_...` that look as format 4 does, whichever it
is:

    scheduled_sends    one delivery_operations each, of kind `scheduled`; its id stays as `schedule_id`
    rest_idempotency   legacy_idempotency, which expires after 24 hours
    api_keys           supplemental_capabilities: the admin part of a named profile, empty for a custom key
"""

from collections.abc import Mapping

NUMBER = 4

# What a value must be, as a condition in SQL on the column `{0}`.
TEXT = "typeof({0}) = 'text'"
NUMBER_OF = "typeof({0}) = 'integer'"
FLAG = "{0} IN (0, 1)"
BYTES = "typeof({0}) = 'blob'"
# Written as we write it, so that times compare as text does; a day that there is not is none (2026-02-31).
TIME = "typeof({0}) = 'text' AND {0} = strftime('%Y-%m-%dT%H:%M:%fZ', {0})"
JSON = "typeof({0}) = 'text' AND json_valid({0})"
OBJECT = "CASE WHEN " + JSON + " THEN json_type({0}) = 'object' END"
TEXTS = (
    "CASE WHEN " + JSON + " THEN json_type({0}) = 'array'"  # what is no array has one value
    " AND NOT EXISTS (SELECT 1 FROM json_each({0}) WHERE type <> 'text') END"
)
NAMED_TEXTS = "CASE WHEN (" + OBJECT + ") THEN NOT EXISTS (SELECT 1 FROM json_each({0}) WHERE type <> 'text') END"
ENVELOPE = (
    "CASE WHEN (" + OBJECT + ") THEN json_type({0}, '$.from') IS 'text' AND json_type({0}, '$.recipients') IS 'array'"
    " AND NOT EXISTS (SELECT 1 FROM json_each({0}, '$.recipients') WHERE type <> 'text') END"
)
ANSWER = (
    "CASE WHEN (" + OBJECT + ") THEN json_type({0}, '$.data.id') IS 'text'"
    " AND json_type({0}, '$.data.threadId') IS 'text'"
    " AND coalesce(json_type({0}, '$.data.warnings'), 'array') = 'array' END"
)


def one_of(*values: str) -> str:
    """One of these texts."""
    return f"{{0}} IN ({', '.join(repr(value) for value in values)})"


def or_null(condition: str) -> str:
    """Nothing, or what fits this."""
    return f"({{0}} IS NULL OR ({condition}))"


CAPABILITIES = (
    "CASE WHEN (" + TEXTS + ") THEN NOT EXISTS (SELECT 1 FROM json_each({0}) WHERE value NOT IN ('mail.read',"
    " 'mail.drafts', 'mail.organize', 'mail.trash', 'mail.delete', 'mail.send', 'admin.accounts', 'admin.members',"
    " 'admin.api_keys', 'admin.license', 'admin.audit')) END"
)
PROVIDER = one_of("imap", "google", "outlook")
Columns = Mapping[str, str]

#: Table -> column -> what stands in it.
FORMAT_3: Mapping[str, Columns] = {
    "meta": {"name": TEXT, "value": TEXT},
    "settings": {"name": TEXT, "value": JSON},
    "members": {
        "id": TEXT,
        "name": TEXT,
        "email": TEXT,
        "role": one_of("admin", "member"),
        "status": one_of("active", "suspended"),
        "password_hash": or_null(TEXT),
        "created_at": TIME,
        "updated_at": TIME,
        "last_login_at": or_null(TIME),
    },
    "sessions": {
        "id": TEXT,
        "member_id": TEXT,
        "token_hash": TEXT,
        "device_name": TEXT,
        "created_at": TIME,
        "last_used_at": TIME,
    },
    "invitations": {
        "id": TEXT,
        "member_id": TEXT,
        "kind": one_of("invitation", "password_reset"),
        "token_hash": TEXT,
        "expires_at": TIME,
        "used_at": or_null(TIME),
    },
    "api_keys": {
        "id": TEXT,
        "name": TEXT,
        "member_id": TEXT,
        "token_hash": TEXT,
        "permission_profile": one_of("read-only", "read-write", "full", "custom"),
        "capabilities": CAPABILITIES,
        "account_ids": or_null(TEXTS),
        "created_at": TIME,
        "last_used_at": or_null(TIME),
        "revoked_at": or_null(TIME),
    },
    "accounts": {
        "id": TEXT,
        "owner_member_id": TEXT,
        "email": TEXT,
        "display_name": or_null(TEXT),
        "provider": PROVIDER,
        "connection": OBJECT,
        "sealed_secret": BYTES,
        "folders": NAMED_TEXTS,
        "shared_with_all": FLAG,
        "created_at": TIME,
    },
    "account_grants": {"account_id": TEXT, "member_id": TEXT},
    "oauth_apps": {
        "provider": one_of("google", "outlook"),
        "client_id": TEXT,
        "tenant_id": or_null(TEXT),
        "public_client": FLAG,
        "sealed_client_secret": or_null(BYTES),
        "updated_at": TIME,
    },
    "rest_idempotency": {
        "credential_id": TEXT,
        "key": TEXT,
        "method": TEXT,
        "path": TEXT,
        "request_hash": TEXT,
        "status": NUMBER_OF,
        "response_body": ANSWER,
        "created_at": TIME,
    },
    "scheduled_sends": {
        "id": TEXT,
        "account_id": TEXT,
        "member_id": TEXT,
        "message": BYTES,
        "envelope": ENVELOPE,
        "send_at": TIME,
        "status": one_of("pending", "sent", "failed", "canceled"),
        "error_code": or_null(TEXT),
        "sent_message_id": or_null(TEXT),
        "created_at": TIME,
    },
    "audit_events": {
        "id": NUMBER_OF,
        "at": TEXT,
        "actor_kind": TEXT,
        "actor_id": or_null(TEXT),
        "action": TEXT,
        "target": or_null(TEXT),
        "outcome": TEXT,
        "client_address": or_null(TEXT),
    },
}
_SAME = {table: columns for table, columns in FORMAT_3.items() if table not in ("rest_idempotency", "scheduled_sends")}
FORMAT_4: Mapping[str, Columns] = {
    **_SAME,
    "api_keys": {**FORMAT_3["api_keys"], "supplemental_capabilities": CAPABILITIES},
    "legacy_idempotency": {**FORMAT_3["rest_idempotency"], "expires_at": TIME},
    "delivery_operations": {
        "id": TEXT,
        "account_id": TEXT,
        "credential_id": or_null(TEXT),
        "member_id": TEXT,
        "idempotency_key": or_null(TEXT),
        "request_hash": or_null(TEXT),
        "kind": one_of("send", "forward", "scheduled"),
        "status": one_of("queued", "sending", "succeeded", "failed", "uncertain"),
        "message": or_null(BYTES),
        "envelope": ENVELOPE,
        "message_id_header": or_null(TEXT),
        "result_id": or_null(TEXT),
        "result_thread_id": or_null(TEXT),
        "result_warnings": or_null(JSON),
        "error_code": or_null(TEXT),
        "schedule_id": or_null(TEXT),
        "send_at": or_null(TIME),
        "attempts": NUMBER_OF,
        "created_at": TIME,
        "updated_at": TIME,
    },
}
PROMISED: Mapping[int, Mapping[str, Columns]] = {3: FORMAT_3, 4: FORMAT_4}

#: Ids for the operations that scheduled sends of format 3 become; filled before their view is read.
OPERATION_IDS = "CREATE TEMP TABLE operation_ids (schedule_id TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE) WITHOUT ROWID"
_FROM_3 = {
    "api_keys": """
SELECT *, CASE permission_profile WHEN 'custom' THEN '[]' ELSE (SELECT json_group_array(value)
  FROM json_each(capabilities) WHERE substr(value, 1, 6) = 'admin.') END AS supplemental_capabilities
FROM old.api_keys""",
    "legacy_idempotency": """
SELECT *, strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+24 hours') AS expires_at FROM old.rest_idempotency""",
    "delivery_operations": """
SELECT i.id, s.account_id, NULL AS credential_id, s.member_id, NULL AS idempotency_key, NULL AS request_hash,
  'scheduled' AS kind,
  CASE s.status WHEN 'pending' THEN 'queued' WHEN 'sent' THEN 'succeeded' ELSE 'failed' END AS status,
  s.message, s.envelope, NULL AS message_id_header, s.sent_message_id AS result_id, NULL AS result_thread_id,
  NULL AS result_warnings, CASE s.status WHEN 'canceled' THEN 'canceled' ELSE s.error_code END AS error_code,
  s.id AS schedule_id, s.send_at, 0 AS attempts, s.created_at, s.created_at AS updated_at
FROM old.scheduled_sends s JOIN temp.operation_ids i ON i.schedule_id = s.id""",
}


def views(number: int) -> Mapping[str, str]:
    """How a file of this format is read as format 4: the name of each view, and its query."""
    ladder = _FROM_3 if number == 3 else {}
    return {f"older_{table}": ladder.get(table, f"SELECT * FROM old.{table}") for table in FORMAT_4}
