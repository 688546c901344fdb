"""The tables of the store as peewee objects, for queries that need not be fast. A test compares them with the
schema.
"""

from typing import TYPE_CHECKING, Any

import peewee


class Table(peewee.Table):
    """A peewee table whose columns are attributes, as in `MEMBERS.email == email`."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


MEMBERS = Table(
    "members",
    (
        "id",
        "name",
        "email",
        "email_key",
        "role",
        "status",
        "password_hash",
        "created_at",
        "updated_at",
        "last_login_at",
    ),
)
SESSIONS = Table(
    "sessions", ("id", "member_id", "token_hash", "device_name", "created_at", "last_used_at", "logged_in_at")
)
INVITATIONS = Table(
    "invitations", ("id", "member_id", "kind", "token_hash", "expires_at", "used_at", "by_key", "session_id")
)
API_KEYS = Table(
    "api_keys",
    (
        "id",
        "name",
        "member_id",
        "token_hash",
        "permission_profile",
        "capabilities",
        "supplemental_capabilities",
        "account_ids",
        "made_by_member_id",
        "created_at",
        "last_used_at",
        "revoked_at",
    ),
)
OAUTH_APPS = Table("oauth_apps", ("provider", "client_id", "client_secret", "tenant_id", "public_client", "updated_at"))
SETTINGS = Table("settings", ("name", "value"))
ATTEMPTS = Table("attempts", ("bucket", "at"))
ACCOUNTS = Table(
    "accounts",
    (
        "number",
        "id",
        "owner_member_id",
        "email",
        "display_name",
        "provider",
        "connection",
        "secret",
        "sender_addresses",
        "mapped_folders",
        "shared_with_all",
        "status",
        "error_code",
        "error_message",
        "error_fault",
        "met_sending",
        "capabilities",
        "created_at",
        "last_sync_at",
    ),
)
META = Table("meta", ("name", "value"))
