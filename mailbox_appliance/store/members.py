"""Reads and writes members and their password hashes."""

import unicodedata
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import peewee

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import Conflict, EmailTaken, LastAdmin, NotFound
from mailbox_appliance.mail.address import comparable_domain
from mailbox_appliance.model.members import Member, MemberStatus, PendingInvitation, Role
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import UNIQUE_VIOLATIONS, Database

MEMBERS = peewee.Table("members")

# A member, with the expiry of a pending invitation.
_SELECT = """
SELECT m.id, m.name, m.email, m.role, m.status, m.created_at, m.updated_at, m.last_login_at,
  CASE WHEN m.password_hash IS NULL THEN (SELECT max(i.expires_at) FROM invitations i
    WHERE i.member_id = m.id AND i.kind = 'invitation' AND i.used_at IS NULL AND i.expires_at > :now) END,
  m.password_hash
FROM members m"""
# At least one administrator must be able to sign in. One without a password can do so with a pending link. A link that
# an API key was shown may be in other hands, and one that soon expires may not be used in time: these do not count.
_OTHER_ADMINS = "FROM members m WHERE m.id <> :id AND m.role = 'admin' AND m.status = 'active'"
_HAS_PASSWORD = f"SELECT 1 {_OTHER_ADMINS} AND m.password_hash IS NOT NULL LIMIT 1"
_HAS_LINK = f"""
SELECT email, until FROM (SELECT m.email, (SELECT max(i.expires_at) FROM invitations i WHERE i.member_id = m.id
    AND i.kind IN ('invitation', 'password_reset') AND i.used_at IS NULL AND i.by_key = 0) AS until {_OTHER_ADMINS})
WHERE until >= :later ORDER BY until DESC LIMIT 1"""
_LINK_LEFT = timedelta(hours=1)
# The same spelling first: two addresses that were different to release 0.10 may be equal now.
_BY_EMAIL = """
WHERE (m.email_key = :exact AND m.email = :email) OR m.email_key = :key ORDER BY m.email_key <> :exact LIMIT 1"""
_BY_SPELLING = "SELECT id, email FROM members WHERE email_key >= '= ' AND email_key < '=!'"

# Written exactly as in the index, so that SQLite uses it.
_LEGACY = "SELECT 1 FROM members WHERE substr(password_hash, 1, 7) = 'scrypt$' LIMIT 1"


class Members:
    """Reads and writes the members. Email addresses are compared without regard to case."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def has_any(self) -> bool:
        """Whether any member exists. If none does, the appliance has not been set up yet."""
        return self._database.value("SELECT 1 FROM members LIMIT 1") is not None

    def count(self) -> int:
        """Return the number of members."""
        return int(self._database.value("SELECT count(*) FROM members"))

    def get(self, member_id: str) -> Member:
        """Return the member with this ID. Raises NotFound."""
        for row in self._select("WHERE m.id = :id", id=member_id):
            return _to_member(row)
        raise NotFound(what="member")

    def list(self) -> tuple[Member, ...]:
        """Return all members, oldest first."""
        return tuple(map(_to_member, self._select("ORDER BY m.created_at, m.id")))

    def find_with_password(self, email: str) -> tuple[Member, str | None] | None:
        """Return the member with this email address, and the hash of the password; None if no member has this address.

        The hash is None if the member has not set a password yet.
        """
        for row in self._select(_BY_EMAIL, email=email, exact=exact_key(email), key=email_key(email)):
            return _to_member(row), row[9]
        return None

    def get_password_hash(self, member_id: str) -> str | None:
        """Return the hash of a member's password; None if there is none yet. Raises NotFound."""
        row = self._database.row("SELECT password_hash FROM members WHERE id = ?", (member_id,))
        if row is None:
            raise NotFound(what="member")
        found: str | None = row[0]
        return found

    def has_legacy_passwords(self) -> bool:
        """Whether any member still has a password hash of release 0.10, which takes another time to verify."""
        return self._database.value(_LEGACY) is not None

    def add(self, *, name: str, email: str, role: Role, password_hash: str | None) -> Member:
        """Add an active member. Call it inside a transaction. Raises EmailTaken."""
        self._require_free_email(email)
        at, member_id = to_timestamp(self._clock.now()), new_id("mem")
        row = {"id": member_id, "name": name, "email": email, "email_key": email_key(email), "role": role}
        row |= {"status": "active", "created_at": at, "updated_at": at}
        try:
            self._database.run(MEMBERS.insert(**row, password_hash=password_hash))
        except UNIQUE_VIOLATIONS as error:
            raise EmailTaken from error
        return self.get(member_id)

    def update(
        self,
        member_id: str,
        *,
        name: str | None = None,
        email: str | None = None,
        role: Role | None = None,
        status: MemberStatus | None = None,
    ) -> Member:
        """Change the fields that are not None, and return the member. Call it inside a transaction.

        Raises NotFound, EmailTaken, and LastAdmin if no administrator would be left who can sign in.
        """
        before = self.get(member_id)
        if before.role == "admin" and (role == "member" or status == "suspended"):
            self._require_other_admin(before, may_be_awaited=True)
        change: dict[str, Any] = {"name": name, "email": email, "role": role, "status": status}
        change = {column: value for column, value in change.items() if value is not None}
        if email is not None and email != before.email:
            self._require_free_email(email, member_id)
            change["email_key"] = email_key(email)
        change["updated_at"] = to_timestamp(self._clock.now())
        try:
            self._database.run(MEMBERS.update(**change).where(MEMBERS.c.id == member_id))
        except UNIQUE_VIOLATIONS as error:
            raise EmailTaken from error
        return self.get(member_id)

    def set_password(self, member_id: str, password_hash: str) -> None:
        """Store the hash of a new password. Call it inside a transaction."""
        at = to_timestamp(self._clock.now())
        self._database.run(MEMBERS.update(password_hash=password_hash, updated_at=at).where(MEMBERS.c.id == member_id))

    def remove(self, member_id: str) -> None:
        """Delete a member with their sessions, keys, invitations and grants. Call it inside a transaction.

        Raises NotFound, Conflict if the member owns mailboxes, and LastAdmin if no other administrator has a password.
        """
        member = self.get(member_id)
        if member.role == "admin":
            self._require_other_admin(member, may_be_awaited=False)
        owned = self._database.value("SELECT count(*) FROM accounts WHERE owner_member_id = ?", (member_id,))
        if owned:
            what = "a mailbox" if owned == 1 else f"{owned} mailboxes"
            raise Conflict(
                reason=f"This member owns {what}. Ask the owner to remove them first, or suspend the member."
            )
        self._database.run(MEMBERS.delete().where(MEMBERS.c.id == member_id))

    def find_awaited_admin(self, but_for: str = "") -> tuple[str, str] | None:
        """Return the administrator who still has to set the first password: email address, and expiry of the link for
        it.

        Returns None if an active administrator already has a password, or if no administrator has a usable link. A link
        is usable if it lasts at least another hour and no API key may have seen it. Of several links, the one that
        expires last is returned. `but_for`: ID of a member to ignore.
        """
        if self._database.row(_HAS_PASSWORD, {"id": but_for}) is not None:
            return None
        later = to_timestamp(self._clock.now() + _LINK_LEFT)
        row = self._database.row(_HAS_LINK, {"id": but_for, "later": later})
        return None if row is None else (row[0], row[1])

    def mark_logged_in(self, member_id: str, *, rehashed: str | None = None) -> None:
        """Record a sign-in. `rehashed`: a new hash of the password to store. Call it inside a transaction."""
        change = {"last_login_at": to_timestamp(self._clock.now())}
        if rehashed is not None:
            change["password_hash"] = rehashed
        self._database.run(MEMBERS.update(**change).where(MEMBERS.c.id == member_id))

    def _require_free_email(self, email: str, member_id: str | None = None) -> None:
        """Raise EmailTaken if a member whose key is an `exact_key` already has an address that counts as equal to
        `email`.

        The unique index of the table cannot notice that. `member_id`: a member to ignore.
        """
        key = email_key(email)
        if any(found != member_id and email_key(one) == key for found, one in self._database.rows(_BY_SPELLING)):
            raise EmailTaken

    def _require_other_admin(self, member: Member, *, may_be_awaited: bool) -> None:
        # A member who is suspended or has no password is not the last one able to sign in, so any change is allowed.
        if member.status == "suspended" or self.get_password_hash(member.id) is None:
            return
        if self._database.row(_HAS_PASSWORD, {"id": member.id}) is not None:
            return
        if not may_be_awaited or self.find_awaited_admin(but_for=member.id) is None:
            raise LastAdmin

    def _select(self, where: str, **values: str) -> Sequence[Sequence[Any]]:
        return self._database.rows(f"{_SELECT} {where}", {"now": to_timestamp(self._clock.now()), **values})


def email_key(email: str) -> str:
    """Return an email address as it is compared: without case, in Unicode NFC, and with the domain in ASCII."""
    local, at, domain = email.rpartition("@")
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", local).casefold())
    return f"{folded}{at}{comparable_domain(domain)}"


def exact_key(email: str) -> str:
    """Return the key for a member whose `email_key` an older member already has, as release 0.10 allowed.

    The member is then found only by the exact spelling of the address.
    """
    return f"= {email}"


def _to_member(row: Sequence[Any]) -> Member:
    return Member(
        id=row[0],
        name=row[1],
        email=row[2],
        role=row[3],
        status=row[4],
        created_at=row[5],
        updated_at=row[6],
        last_login_at=row[7],
        invitation=None if row[8] is None else PendingInvitation(expires_at=row[8]),
    )
