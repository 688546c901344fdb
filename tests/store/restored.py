"""Two related stores: one at the time of a backup, one at present; and the result of a restore."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mailbox_appliance.mail.compose import compose
from mailbox_appliance.model.deliveries import DeliveryKind, NewApproval, NewDelivery, Phase
from mailbox_appliance.model.members import KeyPermissions
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.store.audit import SYSTEM_ACTOR, Actor
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.restore.merge import MergeResult, merge_nothing, merge_present
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox

AT = "2026-01-02T03:04:05.678Z"

HOUR = LATER = 3600.0  # seconds from the backup to the restore
_HASH = "0" * 63


@dataclass
class People:
    """The members, mailboxes and credentials at the time of the backup."""

    ada: str = ""
    bob: str = ""
    box: str = ""
    others_box: str = ""
    key: str = ""
    more: dict[str, str] = field(default_factory=dict)


def closed_store(folder: Path, clock: FakeClock) -> None:
    """Make a data directory with a closed store in it, and nothing else."""
    store = Store.open(folder, clock)
    populate(store)
    store.close()


def populate(store: Store) -> People:
    """Add an administrator and a member with passwords, a mailbox of each, a session, a key and an invitation of
    Bob's.
    """
    people = People()
    with store.database.transaction():
        people.ada = store.members.add(name="Ada", email="ada@example.org", role="admin", password_hash="ada-1").id
        people.bob = store.members.add(name="Bob", email="bob@example.org", role="member", password_hash="bob-1").id
        store.audit.record(SYSTEM_ACTOR, "member.create", ("member", people.ada))
    people.box, people.others_box = Mailbox(store, people.ada).id, Mailbox(store, people.bob).id
    with store.database.transaction():
        store.accounts.set_access(people.box, shared_with_all=True, member_ids=[people.bob])
    people.key = add_key(store, people.bob, "1")
    people.more["session"] = add_session(store, people.bob, "2")
    return people


def add_session(store: Store, member_id: str, mark: str) -> str:
    """Add a session whose token hash ends with `mark`; return its ID."""
    with store.database.transaction():
        return store.credentials.add_session(member_id, _HASH[len(mark) - 1 :] + mark, "device").id


def add_key(store: Store, member_id: str, mark: str) -> str:
    """Add an API key in the same way."""
    permissions = KeyPermissions("read-only", (), (), None)
    with store.database.transaction():
        return store.api_keys.add(member_id, "key", _HASH[len(mark) - 1 :] + mark, permissions, made_by=member_id).id


def lets_in(store: Store, mark: str) -> str | None:
    """Return the member whose valid token has this mark."""
    found = store.credentials.find(_HASH[len(mark) - 1 :] + mark)
    return None if found is None else found.member.id


def told(store: Store, action: str, target: tuple[str, str]) -> None:
    """Record an action in the log."""
    store.audit.record(Actor("session"), action, target)


def accept(
    store: Store,
    people: People,
    key: str,
    *,
    send_at: datetime | None = None,
    box: str = "",
    draft_id: str | None = None,
    approval: NewApproval | None = None,
) -> str:
    """Accept an operation of Bob's key that is being sent, is scheduled for `send_at`, or waits for `approval`; return
    its ID.
    """
    sender, recipient = Address(email="ada@example.test"), Address(email="bob@example.test")
    message = compose(
        OutgoingMessage(sender, (recipient,), text="t"),
        message_id=f"<{key}@example.test>",
        date=datetime(2026, 1, 2, tzinfo=UTC),
    )
    kind: DeliveryKind = "send" if send_at is None else "scheduled"
    whose = (box or people.box, people.key, people.bob)
    new = NewDelivery(*whose, key, "hash", kind, message, None, send_at=send_at, draft_id=draft_id)
    return store.deliveries.accept(new, lambda: approval).delivery.operation_id


ASKED = NewApproval(("New recipient: bob@example.test",), True, timedelta(days=7))


def decide(store: Store, people: People, operation: str, decision: str) -> None:
    """Approve or reject the message of an operation as the owner of its mailbox; `nothing` leaves it."""
    found = store.approvals.find_of(operation)
    if decision != "nothing":
        assert found is not None
        with store.database.transaction():
            if decision == "rejected":
                store.approvals.reject(found, people.ada, None)
            else:
                store.approvals.approve(found, people.ada)
    if decision == "succeeded":
        become(store, operation, "succeeded")


def approval_of(store: Store, operation: str) -> str:
    """Return the status of an operation's approval; `none` without one."""
    found = store.approvals.find_of(operation)
    return "none" if found is None else found.shown.status


def become(store: Store, operation: str, outcome: str) -> None:
    """Give an operation this outcome, which may be the code of a failure; `nothing` leaves it."""
    if outcome == "withdrawn":
        store.deliveries.withdraw(operation)
    elif outcome == "canceled":
        found = store.deliveries.find(operation)
        assert found is not None
        store.deliveries.cancel(found[0].account_id, str(found[0].schedule_id))
    elif outcome != "nothing":
        store.deliveries.begin_sending(operation)
        store.deliveries.enter_phases(operation, [(Phase.CONNECTING, AT), (Phase.DOT, AT)])
        if outcome == "succeeded":
            store.deliveries.succeed(operation, None, reply_code=250)
        elif outcome == "uncertain":
            store.deliveries.set_outcome(operation, "uncertain")
        elif outcome != "sending":
            store.deliveries.set_outcome(operation, "failed", outcome)


def ended(store: Store, operation: str) -> str:
    """Return the status, or the code of a failure; `none` if there is no such operation."""
    found = store.deliveries.find(operation)
    if found is None:
        return "none"
    delivery = found[0]
    return delivery.error.code if delivery.status == "failed" and delivery.error else delivery.status


Act = Callable[[Store, People, FakeClock], None]


class Restoring:
    """One store at the time of its backup, and its restore. Use it once."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.folder, self.present = folder / "restored", folder / "present"
        self.carried = MergeResult(is_known=False)
        self._restored: Store | None = None

    def run(self, before: Act, since: Act, *, with_present: bool = True) -> tuple[Store, People]:
        """Fill a store, back it up, let time pass and events happen, and restore; return the store, open."""
        store = Store.open(self.folder, self.clock)
        people = populate(store)
        before(store, people, self.clock)
        store.close()
        shutil.copytree(self.folder, self.present)
        store = Store.open(self.present, self.clock)
        since(store, people, self.clock)
        self.clock.advance(LATER)
        store.close()
        return self.restore(with_present=with_present), people

    def run_forked(self, together: Act, ours: Act, theirs: Act) -> tuple[Store, People]:
        """Fill a store that continues twice: run `ours` where it is backed up, `theirs` in the present store; restore.

        Each of the two has a row of its own in its log, and an hour passes after each.
        """
        store = Store.open(self.folder, self.clock)
        people = populate(store)
        together(store, people, self.clock)
        store.close()
        shutil.copytree(self.folder, self.present)
        for folder, act in ((self.folder, ours), (self.present, theirs)):
            self.clock.advance(HOUR)
            store = Store.open(folder, self.clock)
            store.audit.record(SYSTEM_ACTOR, "settings.update", ("setting", folder.name))
            act(store, people, self.clock)
            store.close()
        self.clock.advance(HOUR)
        return self.restore(), people

    def restore(self, *, with_present: bool = True) -> Store:
        """Restore and merge the present store, or none."""
        store = Store.open(self.folder, self.clock)
        now, key = self.clock.now(), store.key
        if with_present:
            self.carried = merge_present(store.database, self.present / DATABASE_FILE, key, now)
        else:
            self.carried = merge_nothing(store.database, now)
        self._restored = store
        return store

    def close(self) -> None:
        """Close the restored store."""
        if self._restored is not None:
            self._restored.close()


def nothing(store: Store, people: People, clock: FakeClock) -> None:
    """Do nothing."""
