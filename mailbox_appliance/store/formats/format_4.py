"""Formats 3 (release 0.10) and 4 (before 0.11.0) of the store: how to read them and convert them to format 5.

Both are SQLite files that are not encrypted as a whole, only single secrets in them. They are never written. The old
file is attached as `old`. Its tables are read through views `older_...`, which show a file of either format as format
4. These old tables change:

    scheduled_sends    each row becomes a delivery operation of kind `scheduled`; its ID stays as `schedule_id`
    rest_idempotency   becomes the table legacy_idempotency, whose rows expire after 24 hours
    api_keys           in format 3, supplemental_capabilities is computed: the admin capabilities of a named profile,
                       empty for a custom key
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mailbox_appliance.store import credentials
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.members import email_key, exact_key

NUMBER = 4

# Conditions in SQL that a value must fulfill; `{0}` is the column.
TEXT = "typeof({0}) = 'text'"
NUMBER_OF = "typeof({0}) = 'integer'"
FLAG = "{0} IN (0, 1)"
BYTES = "typeof({0}) = 'blob'"
# In exactly our own form, so that times can be compared as text; dates that do not exist (2026-02-31) are invalid.
TIME = "typeof({0}) = 'text' AND {0} = strftime('%Y-%m-%dT%H:%M:%fZ', {0})"
JSON = "typeof({0}) = 'text' AND json_valid({0})"
OBJECT = "CASE WHEN " + JSON + " THEN json_type({0}) = 'object' END"
TEXTS = (
    "CASE WHEN " + JSON + " THEN json_type({0}) = 'array'"  # A JSON value that is not an array has one element.
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
    """Return an SQL condition with the placeholder `{0}` for a column: it is one of these texts."""
    return f"{{0}} IN ({', '.join(repr(value) for value in values)})"


def or_null(condition: str) -> str:
    """Return an SQL condition with the placeholder `{0}` for a column: it is NULL or fulfills this condition."""
    return f"({{0}} IS NULL OR ({condition}))"


CAPABILITIES = (
    "CASE WHEN (" + TEXTS + ") THEN NOT EXISTS (SELECT 1 FROM json_each({0}) WHERE value NOT IN ('mail.read',"
    " 'mail.drafts', 'mail.organize', 'mail.trash', 'mail.delete', 'mail.send', 'admin.accounts', 'admin.members',"
    " 'admin.api_keys', 'admin.license', 'admin.audit')) END"
)
Columns = Mapping[str, str]


def _all_are(condition: str, *columns: str) -> Columns:
    return dict.fromkeys(columns, condition)


#: Table -> column -> condition on its values.
FORMAT_3: Mapping[str, Columns] = {
    "meta": {"name": TEXT, "value": TEXT},
    "settings": {"name": TEXT, "value": JSON},
    "members": {
        **_all_are(TEXT, "id", "name", "email"),
        "role": one_of("admin", "member"),
        "status": one_of("active", "suspended"),
        "password_hash": or_null(TEXT),
        **_all_are(TIME, "created_at", "updated_at"),
        "last_login_at": or_null(TIME),
    },
    "sessions": {
        **_all_are(TEXT, "id", "member_id", "token_hash", "device_name"),
        **_all_are(TIME, "created_at", "last_used_at"),
    },
    "invitations": {
        **_all_are(TEXT, "id", "member_id", "token_hash"),
        "kind": one_of("invitation", "password_reset"),
        "expires_at": TIME,
        "used_at": or_null(TIME),
    },
    "api_keys": {
        **_all_are(TEXT, "id", "name", "member_id", "token_hash"),
        "permission_profile": one_of("read-only", "read-write", "full", "custom"),
        "capabilities": CAPABILITIES,
        "account_ids": or_null(TEXTS),
        "created_at": TIME,
        **_all_are(or_null(TIME), "last_used_at", "revoked_at"),
    },
    "accounts": {
        **_all_are(TEXT, "id", "owner_member_id", "email"),
        "display_name": or_null(TEXT),
        "provider": one_of("imap", "google", "outlook"),
        "connection": OBJECT,
        "sealed_secret": BYTES,
        "folders": NAMED_TEXTS,
        "shared_with_all": FLAG,
        "created_at": TIME,
    },
    "account_grants": _all_are(TEXT, "account_id", "member_id"),
    "oauth_apps": {
        "provider": one_of("google", "outlook"),
        "client_id": TEXT,
        "tenant_id": or_null(TEXT),
        "public_client": FLAG,
        "sealed_client_secret": or_null(BYTES),
        "updated_at": TIME,
    },
    "rest_idempotency": {
        **_all_are(TEXT, "credential_id", "key", "method", "path", "request_hash"),
        "status": NUMBER_OF,
        "response_body": ANSWER,
        "created_at": TIME,
    },
    "scheduled_sends": {
        **_all_are(TEXT, "id", "account_id", "member_id"),
        "message": BYTES,
        "envelope": ENVELOPE,
        "status": one_of("pending", "sent", "failed", "canceled"),
        **_all_are(or_null(TEXT), "error_code", "sent_message_id"),
        **_all_are(TIME, "send_at", "created_at"),
    },
    "audit_events": {
        "id": NUMBER_OF,
        **_all_are(TEXT, "at", "actor_kind", "action", "outcome"),
        **_all_are(or_null(TEXT), "actor_id", "target", "client_address"),
    },
}
_SAME = {table: columns for table, columns in FORMAT_3.items() if table not in ("rest_idempotency", "scheduled_sends")}
FORMAT_4: Mapping[str, Columns] = {
    **_SAME,
    "api_keys": {**FORMAT_3["api_keys"], "supplemental_capabilities": CAPABILITIES},
    "legacy_idempotency": {**FORMAT_3["rest_idempotency"], "expires_at": TIME},
    "delivery_operations": {
        **_all_are(TEXT, "id", "account_id", "member_id"),
        **_all_are(or_null(TEXT), "credential_id", "idempotency_key", "request_hash", "message_id_header"),
        **_all_are(or_null(TEXT), "result_id", "result_thread_id", "error_code", "schedule_id"),
        "kind": one_of("send", "forward", "scheduled"),
        "status": one_of("queued", "sending", "succeeded", "failed", "uncertain"),
        "message": or_null(BYTES),
        "envelope": ENVELOPE,
        "result_warnings": or_null(JSON),
        "send_at": or_null(TIME),
        "attempts": NUMBER_OF,
        **_all_are(TIME, "created_at", "updated_at"),
    },
}
COLUMNS_BY_FORMAT: Mapping[int, Mapping[str, Columns]] = {3: FORMAT_3, 4: FORMAT_4}

#: IDs for the operations made from scheduled messages of format 3; filled before their view is read.
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


def format_4_views(number: int) -> Mapping[str, str]:
    """Return view name -> query for the views that show a file of format 3 or 4 (`number`) as format 4."""
    ladder = _FROM_3 if number == 3 else {}
    return {f"older_{table}": ladder.get(table, f"SELECT * FROM old.{table}") for table in FORMAT_4}


# --- From format 4 to format 5: the source of each column, and what must be equal afterwards ---
#
# A connection has the old store's tables as `older_...` (`format_4_views`) and the new store as `main`. Temporary
# tables hold the values that only Python can make: the keys of email addresses, and decrypted secrets. Deliveries are
# in format_4_deliveries.py.


TEMPORARY_TABLES = (
    "CREATE TEMP TABLE email_keys (id TEXT PRIMARY KEY, key TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TEMP TABLE secrets (place TEXT, row TEXT, secret TEXT, PRIMARY KEY (place, row)) WITHOUT ROWID",
)


@dataclass(frozen=True)
class TableCopy:
    """Describes how a table of the new store is filled from the table of the same name in the old store.

    - columns: new column -> SQL expression on the old row `o`; compared after the copy.
    - made: more columns, whose values do not come from the old row alone; not compared.
    - keys: the columns that identify a row in the new table.
    - where, where_new: SQL conditions that choose the rows of the old and the new table.
    - order: SQL expression for the order of copying.
    """

    table: str
    columns: Mapping[str, str]
    keys: Sequence[str] = ("id",)
    made: Mapping[str, str] = field(default_factory=dict)
    where: str = "true"
    where_new: str = "true"
    order: str = "1"

    @property
    def insert_sql(self) -> str:
        """The SQL statement that fills the new table."""
        columns = {**self.columns, **self.made}
        return (
            f"INSERT INTO main.{self.table} ({', '.join(columns)}) SELECT {', '.join(columns.values())}"
            f" FROM older_{self.table} o WHERE {self.where} ORDER BY {self.order}"
        )

    @property
    def count_old_sql(self) -> str:
        """The SQL query for the number of rows that the new table should have."""
        return f"SELECT count(*) FROM older_{self.table} o WHERE {self.where}"

    @property
    def count_new_sql(self) -> str:
        """The SQL query for the number of rows that the new table has."""
        return f"SELECT count(*) FROM main.{self.table} o WHERE {self.where_new}"

    @property
    def differing_sql(self) -> str:
        """The SQL query for the key of one row that is missing or differs in the new table; no result if none does."""
        joined = " AND ".join(f"n.{key} = {self.columns[key]}" for key in self.keys)
        differ = " OR ".join(f"n.{column} IS NOT {value}" for column, value in self.columns.items())
        return (
            f"SELECT {self.columns[self.keys[0]]} FROM older_{self.table} o LEFT JOIN main.{self.table} n ON {joined}"
            f" WHERE {self.where} AND (n.{self.keys[0]} IS NULL OR {differ}) LIMIT 1"
        )


def _same_columns(*names: str, **others: str) -> Mapping[str, str]:
    return {**{name: f"o.{name}" for name in names}, **others}


def _unsealed_secret(table: str, row: str) -> str:
    return f"(SELECT secret FROM temp.secrets WHERE place = '{table}' AND row = o.{row})"


# The end of the new log is computed by itself.
_NOT_OF_THE_LOG = "o.name NOT IN ('audit_count', 'audit_head')"
# Older formats do not record who was shown a link. A used one counts as created by a person: otherwise nobody who has
# enrolled would become an administrator without a reset of the password.
_SHOWN_TO_KEY = f"CASE WHEN o.used_at IS NULL THEN {credentials.SHOWN_TO_UNKNOWN} ELSE 0 END"
#: In this order: the owner of a row comes before the row.
TABLE_COPIES = (
    TableCopy("meta", _same_columns("name", "value"), ("name",), where=_NOT_OF_THE_LOG, where_new=_NOT_OF_THE_LOG),
    TableCopy("settings", _same_columns("name", "value"), ("name",)),
    TableCopy(
        "members",
        _same_columns(
            *("id", "name", "email", "role", "status", "password_hash", "created_at", "updated_at", "last_login_at")
        ),
        made={"email_key": "(SELECT key FROM temp.email_keys k WHERE k.id = o.id)"},
        order="o.created_at, o.id",
    ),
    TableCopy(
        "sessions",
        _same_columns(
            *("id", "member_id", "token_hash", "device_name", "created_at", "last_used_at"), logged_in_at="o.created_at"
        ),
        order="o.created_at, o.id",
    ),
    TableCopy(
        "invitations",
        _same_columns("id", "member_id", "kind", "token_hash", "expires_at", "used_at", by_key=_SHOWN_TO_KEY),
    ),
    TableCopy(
        "api_keys",
        _same_columns(
            *("id", "name", "member_id", "token_hash", "permission_profile", "capabilities"),
            *("supplemental_capabilities", "account_ids", "created_at", "last_used_at", "revoked_at"),
        ),
        order="o.created_at, o.id",
    ),
    TableCopy(
        "accounts",
        _same_columns(
            *("id", "owner_member_id", "email", "display_name", "provider", "connection"),
            mapped_folders="o.folders",
            shared_with_all="o.shared_with_all",
            created_at="o.created_at",
        ),
        made={"secret": _unsealed_secret("accounts", "id"), "status": "'connecting'"},
        order="o.created_at, o.id",
    ),
    TableCopy("account_grants", _same_columns("account_id", "member_id"), ("account_id", "member_id")),
    TableCopy(
        "oauth_apps",
        _same_columns("provider", "client_id", "tenant_id", "public_client", "updated_at"),
        ("provider",),
        made={"client_secret": _unsealed_secret("oauth_apps", "provider")},
    ),
    TableCopy(
        "legacy_idempotency",
        _same_columns(
            *("credential_id", "request_hash", "status", "response_body", "expires_at"), idempotency_key="o.key"
        ),
        ("credential_id", "idempotency_key"),
        where="o.expires_at > :now",
    ),
)
#: Where each secret is stored afterwards.
COMPARED_SECRETS = {
    "accounts": "SELECT secret FROM main.accounts WHERE id = ?",
    "oauth_apps": "SELECT client_secret FROM main.oauth_apps WHERE provider = ?",
}


def assign_email_keys(members: Iterable[tuple[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings: member ID -> key of the member's email address, and member ID -> ID of an older member with
    an equal address.

    `members`: pairs of ID and address, oldest first. Release 0.10 distinguished addresses that are equal now, such as
    two that differ in the case of letters beyond ASCII. The older member is found by every spelling; the younger only
    by the exact spelling.
    """
    keys: dict[str, str] = {}
    known: dict[str, str] = {}
    twins: dict[str, str] = {}
    for member, email in members:
        usual = email_key(email)
        if usual in known:
            twins[member] = known[usual]
        # No email address consists of a space and an ID.
        keys[member] = next(key for key in (usual, exact_key(email), f" {member}") if key not in known)
        known[keys[member]] = member
    return keys, twins


# --- The audit log of format 4 as rows of format 5, in order; `Audit.append` numbers and seals them ---
#
# A row's ID is `aud_` and its old number. The target was one text and is a kind and an ID now. The acting member, and
# the member concerned, come from what the old store still has of the credential, key, session or mailbox that the row
# names.


_AUDIT_ROWS_AT_ONCE = 5_000
#: Prefix of an ID -> its kind in the log.
_TARGET_KINDS = {
    "mem": "member",
    "ses": "session",
    "key": "api_key",
    "acc": "account",
    "inv": "invitation",
    "sch": "schedule",
    "dlv": "delivery",
}
_TARGET_KIND = " ".join(f"WHEN '{prefix}_' THEN '{kind}'" for prefix, kind in _TARGET_KINDS.items())
_AUDIT_FACTS = f"""
SELECT o.id AS number, 'aud_' || o.id AS id, o.at, o.actor_kind, o.actor_id,
  CASE o.actor_kind WHEN 'session' THEN (SELECT member_id FROM older_sessions WHERE id = o.actor_id)
    WHEN 'api_key' THEN (SELECT member_id FROM older_api_keys WHERE id = o.actor_id) END AS actor_member_id,
  o.action,
  CASE WHEN o.target IS NOT NULL THEN CASE substr(o.target, 1, 4) {_TARGET_KIND} ELSE 'other' END END AS target_kind,
  o.target AS target_id, o.outcome, o.client_address,
  CASE substr(o.target, 1, 4) WHEN 'mem_' THEN o.target
    WHEN 'ses_' THEN (SELECT member_id FROM older_sessions WHERE id = o.target)
    WHEN 'key_' THEN (SELECT member_id FROM older_api_keys WHERE id = o.target)
    WHEN 'acc_' THEN (SELECT owner_member_id FROM older_accounts WHERE id = o.target)
    WHEN 'inv_' THEN (SELECT member_id FROM older_invitations WHERE id = o.target) END AS about_member_id
FROM older_audit_events o"""
AUDIT_COUNT = "SELECT count(*) FROM older_audit_events"
#: The ID of a row that is missing or different in the new log.
AUDIT_DIFFERING = f"""
SELECT f.id FROM ({_AUDIT_FACTS}) f LEFT JOIN main.audit_events n ON n.id = f.id WHERE n.id IS NULL OR n.at IS NOT f.at
  OR n.actor_kind IS NOT f.actor_kind OR n.actor_id IS NOT f.actor_id OR n.actor_member_id IS NOT f.actor_member_id
  OR n.action IS NOT f.action OR n.target_kind IS NOT f.target_kind OR n.target_id IS NOT f.target_id
  OR n.outcome IS NOT f.outcome OR n.client_address IS NOT f.client_address
  OR n.about_member_id IS NOT f.about_member_id LIMIT 1"""


def read_audit_rows(database: Database, tell: Callable[[int], None]) -> Iterator[Row]:
    """Yield the rows of the old audit log, oldest first, with the columns of `audit.FACT_COLUMNS` in that order.

    `tell`: called with the number of rows read so far.
    """
    after, read = -(1 << 62), 0
    while batch := database.rows(f"{_AUDIT_FACTS} WHERE o.id > ? ORDER BY o.id LIMIT {_AUDIT_ROWS_AT_ONCE}", (after,)):
        tell(read)
        yield from (row[1:] for row in batch)
        after, read = batch[-1][0], read + len(batch)
