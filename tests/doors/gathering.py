"""Makes the world of the matrix: members, mailboxes, deliveries, and credentials of every kind."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.model.deliveries import NewDelivery
from mailbox_appliance.model.members import Capability, KeyPermissions, Role
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.security.tokens import Kind, hash_token, new_token
from mailbox_appliance.store.store import Store
from tests.doors.people import Aim, Credential, Mailbox, World
from tests.doors.rights import ADMIN, MAIL
from tests.operations.filled import FilledMailbox

#: Ada and Bea are admins, Cid owns the mailboxes, Dan and Fay are granted one, Eve has nothing; Ivo was an admin once.
MEMBERS: dict[str, Role] = {
    "ada": "admin",
    "bea": "admin",
    "cid": "member",
    "dan": "member",
    "eve": "member",
    "fay": "member",
    "gus": "member",
    "ivo": "member",
    "joe": "member",
}
READ_ONLY, FULL = ("mail.read",), MAIL
READ_WRITE = ("mail.read", "mail.drafts", "mail.organize", "mail.trash")


def make_key(store: Store, member: str, *capabilities: str, accounts: list[str] | None = None) -> tuple[str, str]:
    """A custom key that its owner made; answers its id and its token."""
    token, held = new_token("mbxk"), tuple(map(Capability, capabilities))
    supplemental = tuple(one for one in held if one in ADMIN)
    permissions = KeyPermissions("custom", held, supplemental, None if accounts is None else tuple(accounts))
    with store.database.transaction():
        key = store.api_keys.add(member, "a key", hash_token(token), permissions, made_by=member)
    return key.id, token


class Gathering:
    """An appliance with everybody in it."""

    def __init__(self, appliance: Appliance) -> None:
        self.appliance, self.store = appliance, appliance.store
        self.ids = {name: self._member(name, role) for name, role in MEMBERS.items()}
        self.boxes = {box.name: box for box in self._mailboxes()}

    def world(self) -> World:
        """Everybody, and everything one may aim at."""
        keys = tuple(self._keys())  # before the sessions that have died: their members' keys are asked with, too
        credentials = (*self._no_credentials(), *self._sessions(), *keys, *self._of_members_without_rights())
        credentials += (self._operator(),)
        boxes = [Aim(box.name, {"accountId": box.id}, is_in_a_mailbox=True, mailbox=box) for box in self.boxes.values()]
        unknown = Aim("no mailbox", {"accountId": "acc_unknown"}, is_in_a_mailbox=True)
        return World(credentials, (*boxes, unknown), self._others())

    # --- what may be aimed at ---------------------------------------------------------------------------------------

    def _member(self, name: str, role: Role) -> str:
        with self.store.database.transaction():
            email = f"{name}@example.org"
            # Nobody logs in: what matters is that there is a password.
            return self.store.members.add(name=name, email=email, role=role, password_hash="hash").id

    def _mailboxes(self) -> Iterator[Mailbox]:
        cids = FilledMailbox(self.appliance, self.ids["cid"], "granted@example.org")
        for name in ("dan", "fay"):
            cids.grant(self.ids[name])
        yield Mailbox("granted", cids.id, "cid", ("dan", "fay"))
        for_all = FilledMailbox(self.appliance, self.ids["cid"], "shared@example.org")
        with self.store.database.transaction():
            self.store.database.change("UPDATE accounts SET shared_with_all = 1 WHERE id = ?", (for_all.id,))
        yield Mailbox("shared", for_all.id, "cid", is_shared=True)
        yield Mailbox("an admin's", FilledMailbox(self.appliance, self.ids["ada"], "ada@example.org").id, "ada")

    def _others(self) -> dict[str, tuple[Aim, ...]]:
        granted = self.boxes["granted"]
        now, later = self._delivery("dan", None), self._delivery("dan", datetime.now(UTC) + timedelta(days=9))
        sent: dict[str, Any] = {"mailbox": granted, "sender": "dan"}
        return {
            "operationId": (
                Aim("sent", {"operationId": now}, **sent),
                Aim("scheduled", {"operationId": later}, is_scheduled=True, **sent),
                Aim("unknown", {"operationId": "dlv_unknown"}),
            ),
            "memberId": (
                Aim("an admin", {"memberId": self.ids["bea"]}, is_admin=True),
                Aim("a member", {"memberId": self.ids["eve"]}),
                Aim("a suspended member", {"memberId": self.ids["gus"]}),
                Aim("no member", {"memberId": "mem_unknown"}, is_there=False),
            ),
            "keyId": (
                Aim("an admin's key", {"keyId": make_key(self.store, self.ids["bea"], *ADMIN)[0]}),
                Aim("a member's key", {"keyId": make_key(self.store, self.ids["eve"], *MAIL)[0]}),
                Aim("no key", {"keyId": "key_unknown"}, is_there=False),
            ),
            "backupId": (Aim("no backup", {"backupId": f"bak_{'0' * 26}"}),),
            "provider": (
                Aim("google", {"provider": "google"}),
                Aim("outlook", {"provider": "outlook"}),
                Aim("no provider", {"provider": "aol"}, is_there=False),
            ),
        }

    def _delivery(self, member: str, send_at: datetime | None) -> str:
        """The id of an operation that a member began in the granted mailbox; a client was shown it."""
        outgoing = OutgoingMessage(
            Address(email="granted@example.org"), (Address(email="x@example.test"),), (), (), "s", "t", None
        )
        message = compose(outgoing, message_id="<a@example.org>", date=datetime(2026, 1, 2, tzinfo=UTC))
        new = NewDelivery(
            self.boxes["granted"].id,
            "ses_1",
            self.ids[member],
            f"key {send_at}",
            "hash",
            "send" if send_at is None else "scheduled",
            message,
            None,
            send_at=send_at,
        )
        operation = self.store.deliveries.accept(new).delivery.operation_id
        self.store.deliveries.mark_shown(operation)
        return operation

    # --- credentials ------------------------------------------------------------------------------------------------

    def _no_credentials(self) -> Iterator[Credential]:
        yield Credential("nothing", "none", "")
        yield Credential("nonsense", "none", "nonsense")
        kinds: tuple[Kind, ...] = ("mbxs", "mbxk", "mbxi", "mbxr", "mbxc")
        yield from (Credential(f"an unknown {kind}_ token", "none", new_token(kind)) for kind in kinds)
        for kind, use in (("mbxi", "invitation"), ("mbxr", "password_reset"), ("mbxc", "console_link")):
            token = new_token(kind)  # type: ignore[arg-type]
            with self.store.database.transaction():
                self.store.one_time_tokens.issue(use, self.ids["ada"], hash_token(token), timedelta(days=1))  # type: ignore[arg-type]
            yield Credential(f"an admin's {use}", "none", token)
        yield Credential("a revoked session", "none", self._ended("ada", "DELETE FROM sessions WHERE id = ?"))
        unused = "UPDATE sessions SET last_used_at = '2026-01-01T00:00:00.000Z' WHERE id = ?"
        yield Credential("a session that was not used for long", "none", self._ended("ada", unused))
        old = "UPDATE sessions SET logged_in_at = '2025-01-01T00:00:00.000Z' WHERE id = ?"
        yield Credential("a session that is old", "none", self._ended("ada", old))
        key_id, token = make_key(self.store, self.ids["ada"], *MAIL, *ADMIN)
        self._change("UPDATE api_keys SET revoked_at = '2026-01-01T00:00:00.000Z' WHERE id = ?", key_id)
        yield Credential("a revoked key", "none", token)
        yield Credential("the secret of an earlier run", "none", secrets.token_urlsafe(32))

    def _operator(self) -> Credential:
        """Who may read `run.json`."""
        self.appliance.operator_secret = secrets.token_urlsafe(32)
        return Credential("the secret of this run", "operator", self.appliance.operator_secret)

    def _sessions(self) -> Iterator[Credential]:
        for name in ("ada", "bea", "cid", "dan", "eve", "fay", "ivo"):
            yield Credential(f"{name}'s session", "session", self._session(name)[1], name, MEMBERS[name] == "admin")

    def _keys(self) -> Iterator[Credential]:
        for one in (*MAIL, *ADMIN):
            yield self._key(f"ada's key for {one}", "ada", one)
            yield self._key(f"cid's key for {one}", "cid", one)
        for name in ("ada", "cid"):
            yield self._key(f"{name}'s empty key", name)
            yield self._key(f"{name}'s key with everything", name, *MAIL, *ADMIN)
            for box in self.boxes:
                yield self._key(f"{name}'s key for the {box} mailbox", name, *MAIL, *ADMIN, scope=[box])
            yield self._key(f"{name}'s key for no mailbox", name, *MAIL, *ADMIN, scope=[])
        for profile, held in (("read-only", READ_ONLY), ("read-write", READ_WRITE), ("full", FULL)):
            yield self._key(f"cid's {profile} key", "cid", *held)
        yield self._key("bea's read-only key with all that is administrative", "bea", *READ_ONLY, *ADMIN)
        yield self._key("dan's full key", "dan", *FULL)
        yield self._key("eve's full key", "eve", *FULL)
        yield self._key("the key of an admin of earlier", "ivo", *MAIL, *ADMIN)

    def _of_members_without_rights(self) -> Iterator[Credential]:
        """Of a suspended member, whose sessions end with that, and of one who was deleted."""
        key, session = self._key("a suspended member's key", "gus", *FULL), self._session("gus")[1]
        with self.store.database.transaction():
            self.store.members.update(self.ids["gus"], status="suspended")
            self.store.credentials.remove_sessions(self.ids["gus"])
        yield Credential(key.name, "api_key", key.token, "gus", is_suspended=True, stored=key.stored)
        yield Credential("a suspended member's session", "none", session)
        key, session = self._key("", "joe", *FULL), self._session("joe")[1]
        with self.store.database.transaction():
            self.store.members.remove(self.ids["joe"])
        yield Credential("a deleted member's key", "none", key.token)
        yield Credential("a deleted member's session", "none", session)

    def _key(self, name: str, member: str, *capabilities: str, scope: list[str] | None = None) -> Credential:
        ids = None if scope is None else [self.boxes[box].id for box in scope]
        token = make_key(self.store, self.ids[member], *capabilities, accounts=ids)[1]
        stored, reached = frozenset(capabilities), None if scope is None else frozenset(scope)
        is_admin = MEMBERS[member] == "admin"
        return Credential(name, "api_key", token, member, is_admin, stored=stored, scope=reached)

    def _session(self, member: str) -> tuple[str, str]:
        token = new_token("mbxs")
        with self.store.database.transaction():
            session = self.store.credentials.add_session(self.ids[member], hash_token(token), "device")
        return session.id, token

    def _ended(self, member: str, how: str) -> str:
        session, token = self._session(member)
        self._change(how, session)
        return token

    def _change(self, sql: str, one: str) -> None:
        with self.store.database.transaction():
            self.store.database.change(sql, (one,))
