"""API keys: what each may do and reach. Their tokens are known by hash only; a revoked one is never found again."""

import json
from collections.abc import Sequence
from typing import Any

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.records import ADMIN_CAPABILITIES, ApiKey, Capability, KeyPermissions
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.tables import API_KEYS

_SELECT = """
SELECT id, name, created_at, last_used_at, member_id, permission_profile, capabilities, supplemental_capabilities,
  account_ids FROM api_keys WHERE revoked_at IS NULL"""


class ApiKeys:
    """Reads and writes API keys."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def add(self, member_id: str, name: str, token_hash: str, permissions: KeyPermissions, *, made_by: str) -> ApiKey:
        """A new key of a member; `made_by`: the member who is shown its token. Inside a transaction.

        One that somebody else made is good only while that member is an active administrator.
        """
        key_id = new_id("key")
        row = {"id": key_id, "name": name, "member_id": member_id, "token_hash": token_hash}
        at = to_timestamp(self._clock.now())
        query = API_KEYS.insert(**row, **_columns(permissions), made_by_member_id=made_by, created_at=at)
        self._database.run(query)
        return self.get(key_id)

    def list(self, member_id: str | None = None) -> tuple[ApiKey, ...]:
        """The keys of a member, or everybody's, the oldest first."""
        order = "ORDER BY created_at, id"
        if member_id is None:
            rows = self._database.rows(f"{_SELECT} {order}")
        else:
            rows = self._database.rows(f"{_SELECT} AND member_id = ? {order}", (member_id,))
        return tuple(map(_to_key, rows))

    def get(self, key_id: str, member_id: str | None = None) -> ApiKey:
        """The key with this id; of this member, where one is named. Raises NotFound."""
        row = self._database.row(f"{_SELECT} AND id = ?", (key_id,))
        if row is None or member_id not in (None, row[4]):
            raise NotFound(what="API key")
        return _to_key(row)

    def get_maker_id(self, key_id: str) -> str:
        """The member who was shown the token of a key: its owner, or somebody else. Raises NotFound."""
        maker = self._database.value(
            "SELECT coalesce(made_by_member_id, member_id) FROM api_keys WHERE id = ?", (key_id,)
        )
        if maker is None:
            raise NotFound(what="API key")
        return str(maker)

    def list_made_for_others(self, maker_id: str) -> tuple[ApiKey, ...]:
        """The keys that a member made for others, the oldest first."""
        sql = f"{_SELECT} AND made_by_member_id = ? AND member_id <> made_by_member_id ORDER BY created_at, id"
        return tuple(map(_to_key, self._database.rows(sql, (maker_id,))))

    def set_permissions(self, key_id: str, permissions: KeyPermissions) -> ApiKey:
        """What the key may do from now on. Inside a transaction. Raises NotFound."""
        self._database.run(API_KEYS.update(**_columns(permissions)).where(API_KEYS.id == key_id))
        return self.get(key_id)

    def revoke(self, key_id: str) -> None:
        """Let the key never be good again. Inside a transaction. Raises NotFound."""
        at = to_timestamp(self._clock.now())
        if not self._database.change(
            "UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (at, key_id)
        ):
            raise NotFound(what="API key")


def _columns(permissions: KeyPermissions) -> dict[str, str | None]:
    return {
        "permission_profile": permissions.profile,
        "capabilities": json.dumps(permissions.capabilities),
        "supplemental_capabilities": json.dumps(permissions.supplemental),
        "account_ids": None if permissions.account_ids is None else json.dumps(permissions.account_ids),
    }


def _to_key(row: Sequence[Any]) -> ApiKey:
    held = tuple(map(Capability, json.loads(row[6])))
    supplemental = tuple(map(Capability, json.loads(row[7])))
    if row[5] == "custom":  # a key of an older format has nothing in that column
        supplemental = tuple(one for one in held if one in ADMIN_CAPABILITIES)
    return ApiKey(
        id=row[0],
        name=row[1],
        created_at=row[2],
        last_used_at=row[3],
        member_id=row[4],
        permission_profile=row[5],
        capabilities=held,
        supplemental_capabilities=supplemental,
        account_ids=None if row[8] is None else tuple(json.loads(row[8])),
    )
