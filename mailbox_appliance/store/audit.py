"""The audit log: append-only rows, each sealed by an HMAC over itself and the seal of the row before.

Head and count of the chain stand apart in `meta`, so that a row cut off at the end is missed as well.
"""

import hmac
from dataclasses import dataclass
from typing import Literal

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.ids import new_id
from mailbox_appliance.store.database import Database


@dataclass(frozen=True)
class Actor:
    """Who did something: `kind`, the credential's id, the member's id, and from where."""

    kind: Literal["session", "api_key", "local", "system"]
    id: str | None = None
    member_id: str | None = None
    client_address: str | None = None


SYSTEM = Actor("system")


class Audit:
    """Writes the log. Call `record` inside the transaction of what it tells of, so that both are there or neither."""

    def __init__(self, database: Database, key: bytes, clock: Clock) -> None:
        self._database, self._key, self._clock = database, key, clock

    def record(
        self,
        actor: Actor,
        action: str,
        target: tuple[str, str] | None = None,
        outcome: Literal["success", "failure", "denied"] = "success",
    ) -> None:
        """Append one row: an action such as `session.create`, the kind and id of what it was done to, how it ended."""
        kind, identity = target or (None, None)
        at = to_timestamp(self._clock.now())
        with self._database.transaction():
            head, count = self._head()
            row = (new_id("aud"), at, actor.kind, actor.id, actor.member_id, action, kind, identity, outcome)
            facts = (count + 1, *row, actor.client_address)
            mac = self._seal(head, facts)
            self._database.change(
                "INSERT INTO audit_events (number, id, at, actor_kind, actor_id, actor_member_id, action, target_kind,"
                " target_id, outcome, client_address, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*facts, mac),
            )
            self._database.change_many(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (("audit_head", mac.hex()), ("audit_count", str(count + 1))),
            )

    def first_broken(self) -> int | None:
        """The number of the first row that was changed, dropped or moved, or None where the chain is whole."""
        head, count, expected = b"", 0, self._head()
        for row in self._database.rows(
            "SELECT number, id, at, actor_kind, actor_id, actor_member_id, action, target_kind, target_id, outcome,"
            " client_address, mac FROM audit_events ORDER BY number"
        ):
            count += 1
            if row[0] != count or not hmac.compare_digest(bytes(row[-1]), self._seal(head, row[:-1])):
                return count
            head = bytes(row[-1])
        return None if (head, count) == expected else count + 1

    def _head(self) -> tuple[bytes, int]:
        found: dict[str, str] = dict(
            self._database.rows("SELECT name, value FROM meta WHERE name IN ('audit_head', 'audit_count')")
        )
        return bytes.fromhex(found.get("audit_head", "")), int(found.get("audit_count", "0"))

    def _seal(self, head: bytes, facts: tuple[object, ...]) -> bytes:
        return hmac.digest(self._key, head + b"".join(map(_framed, facts)), "sha256")


def _framed(fact: object) -> bytes:
    """A fact with its length, so that no two rows read the same; one that is not there has no length."""
    if fact is None:
        return b"\xff\xff\xff\xff"
    text = str(fact).encode()
    return len(text).to_bytes(4, "big") + text
