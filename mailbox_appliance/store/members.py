"""Members: who they are and the hash of their password."""

from typing import Any

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.ids import new_id
from mailbox_appliance.records import Member, Role
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.tables import MEMBERS


class Members:
    """Reads and writes members. Emails are compared without case."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def any(self) -> bool:
        """Whether there is a member at all: without one the appliance waits to be set up."""
        return self._database.value("SELECT 1 FROM members LIMIT 1") is not None

    def get(self, member_id: str) -> Member:
        """The member with this id. Raises NotFound."""
        rows = self._database.run(MEMBERS.select().where(MEMBERS.id == member_id))
        for row in rows:
            return to_member(row)
        raise NotFound(what="member")

    def find_with_password(self, email: str) -> tuple[Member, str | None] | None:
        """The member with this email and the hash of the password, or None."""
        for row in self._database.run(MEMBERS.select().where(MEMBERS.email == email)):
            return to_member(row), row["password_hash"]
        return None

    def add(self, *, name: str, email: str, role: Role, password_hash: str | None) -> Member:
        """A new, active member. Inside a transaction."""
        at = to_timestamp(self._clock.now())
        row = {
            "id": new_id("mem"),
            "name": name,
            "email": email,
            "role": role,
            "status": "active",
            "password_hash": password_hash,
            "created_at": at,
            "updated_at": at,
            "last_login_at": None,
        }
        self._database.run(MEMBERS.insert(**row))
        return to_member(row)

    def mark_logged_in(self, member_id: str, *, rehashed: str | None = None) -> None:
        """Note the login of this moment, and the password's new hash where it was hashed anew. Inside a transaction."""
        change = {"last_login_at": to_timestamp(self._clock.now())}
        if rehashed is not None:
            change["password_hash"] = rehashed
        self._database.run(MEMBERS.update(**change).where(MEMBERS.id == member_id))


def to_member(row: dict[str, Any]) -> Member:
    """A row of the members table as the record."""
    return Member(
        id=row["id"],
        name=row["name"],
        email=row["email"],
        role=row["role"],
        status=row["status"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        last_login_at=row["last_login_at"],
        invitation=None,
    )
