"""From format 4 to format 5: which column comes of what, in SQL, and what is the same afterwards.

A connection has the old store's tables as `older_...` (format_4.views) and the new store as `main`. What only Python
can make stands in temporary tables meanwhile: the keys of emails, and unsealed secrets. Deliveries and the audit log
have files of their own (sends_from_4, audit_from_4).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mailbox_appliance.store import invitations
from mailbox_appliance.store.members import email_key, exact_key

TEMPORARY = (
    "CREATE TEMP TABLE email_keys (id TEXT PRIMARY KEY, key TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TEMP TABLE secrets (place TEXT, row TEXT, secret TEXT, PRIMARY KEY (place, row)) WITHOUT ROWID",
)


@dataclass(frozen=True)
class Copied:
    """A table whose rows come from one of the old store's, each column from an expression on the old row `o`.

    `keys` are the columns by which a row of the new table is found again. `made`: columns that stand for nothing in
    the old row, or need more than it.
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
        """The statement that fills the new table."""
        columns = {**self.columns, **self.made}
        return (
            f"INSERT INTO main.{self.table} ({', '.join(columns)}) SELECT {', '.join(columns.values())}"
            f" FROM older_{self.table} o WHERE {self.where} ORDER BY {self.order}"
        )

    @property
    def count_old_sql(self) -> str:
        """How many rows there should be."""
        return f"SELECT count(*) FROM older_{self.table} o WHERE {self.where}"

    @property
    def count_new_sql(self) -> str:
        """How many rows there are."""
        return f"SELECT count(*) FROM main.{self.table} o WHERE {self.where_new}"

    @property
    def differing_sql(self) -> str:
        """An old row whose new one is missing or differs: the new row's key."""
        joined = " AND ".join(f"n.{key} = {self.columns[key]}" for key in self.keys)
        differ = " OR ".join(f"n.{column} IS NOT {value}" for column, value in self.columns.items())
        return (
            f"SELECT {self.columns[self.keys[0]]} FROM older_{self.table} o LEFT JOIN main.{self.table} n ON {joined}"
            f" WHERE {self.where} AND (n.{self.keys[0]} IS NULL OR {differ}) LIMIT 1"
        )


def _same(*names: str, **others: str) -> Mapping[str, str]:
    return {**{name: f"o.{name}" for name in names}, **others}


def _secret(table: str, row: str) -> str:
    return f"(SELECT secret FROM temp.secrets WHERE place = '{table}' AND row = o.{row})"


# Where the new log ends is known by itself.
_NOT_OF_THE_LOG = "o.name NOT IN ('audit_count', 'audit_head')"
# Older formats do not tell whom a link was shown. One that was used is taken for a person's: else nobody who has
# enrolled would become an administrator without a reset of the password.
_BY_KEY = f"CASE WHEN o.used_at IS NULL THEN {invitations.NOT_KNOWN} ELSE 0 END"
#: In this order: whom a row belongs to comes before it.
COPIED = (
    Copied(
        "meta",
        _same("name", "value"),
        ("name",),
        where=_NOT_OF_THE_LOG,
        where_new=_NOT_OF_THE_LOG,
    ),
    Copied("settings", _same("name", "value"), ("name",)),
    Copied(
        "members",
        _same(*("id", "name", "email", "role", "status", "password_hash", "created_at", "updated_at", "last_login_at")),
        made={"email_key": "(SELECT key FROM temp.email_keys k WHERE k.id = o.id)"},
        order="o.created_at, o.id",
    ),
    Copied(
        "sessions",
        _same(
            *("id", "member_id", "token_hash", "device_name", "created_at", "last_used_at"),
            logged_in_at="o.created_at",
        ),
        order="o.created_at, o.id",
    ),
    Copied("invitations", _same("id", "member_id", "kind", "token_hash", "expires_at", "used_at", by_key=_BY_KEY)),
    Copied(
        "api_keys",
        _same(
            *("id", "name", "member_id", "token_hash", "permission_profile", "capabilities"),
            *("supplemental_capabilities", "account_ids", "created_at", "last_used_at", "revoked_at"),
        ),
        order="o.created_at, o.id",
    ),
    Copied(
        "accounts",
        _same(
            *("id", "owner_member_id", "email", "display_name", "provider", "connection"),
            mapped_folders="o.folders",
            shared_with_all="o.shared_with_all",
            created_at="o.created_at",
        ),
        made={"secret": _secret("accounts", "id"), "status": "'connecting'"},
        order="o.created_at, o.id",
    ),
    Copied("account_grants", _same("account_id", "member_id"), ("account_id", "member_id")),
    Copied(
        "oauth_apps",
        _same("provider", "client_id", "tenant_id", "public_client", "updated_at"),
        ("provider",),
        made={"client_secret": _secret("oauth_apps", "provider")},
    ),
    Copied(
        "legacy_idempotency",
        _same(
            *("credential_id", "request_hash", "status", "response_body", "expires_at"),
            idempotency_key="o.key",
        ),
        ("credential_id", "idempotency_key"),
        where="o.expires_at > :now",
    ),
)
#: Where a secret stands afterwards.
SECRETS = {
    "accounts": "SELECT secret FROM main.accounts WHERE id = ?",
    "oauth_apps": "SELECT client_secret FROM main.oauth_apps WHERE provider = ?",
}


def email_keys(members: Iterable[tuple[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """The key of each member's email, by id, and who has another one's, by id of both; `members`: the oldest first.

    Release 0.10 told apart what is the same to us: the case of letters beyond ASCII, and spellings of one domain. The
    older is found by every spelling; the younger only by their own, which is theirs alone.
    """
    keys: dict[str, str] = {}
    known: dict[str, str] = {}
    twins: dict[str, str] = {}
    for member, email in members:
        usual = email_key(email)
        if usual in known:
            twins[member] = known[usual]
        # Nobody's email is a space and an id.
        keys[member] = next(key for key in (usual, exact_key(email), f" {member}") if key not in known)
        known[keys[member]] = member
    return keys, twins
