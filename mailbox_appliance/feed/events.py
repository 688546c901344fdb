"""What a credential sees of the journal of changes, and how each change is shown.

Rights are those of now, not of the time of the change, and so is what is shown of it. So an event shows nothing that
its reader could not read elsewhere at the same moment.
"""

from collections.abc import Collection, Mapping, Sequence

from mailbox_appliance import permissions
from mailbox_appliance.clock import from_millis, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.backups import Backup
from mailbox_appliance.model.base import Wire
from mailbox_appliance.model.changes import AccountState, Event, EventType, FailedBackup, Vanished
from mailbox_appliance.model.deliveries import Delivery
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import Message
from mailbox_appliance.store.changes import Change, ChangeFilter
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store

#: Events of mailboxes. They need `mail.read`, as lists of messages, deliveries and mailboxes do.
_MAIL: frozenset[EventType] = frozenset(
    {"message.created", "message.updated", "message.moved", "message.deleted", "delivery.updated", "account.updated"}
)
#: Events of no mailbox.
BACKUP_TYPES: frozenset[EventType] = frozenset({"backup.finished", "backup.failed"})
#: What `data` of an event can be.
EVENT_DATA: tuple[type[Wire], ...] = (Message, Delivery, AccountState, Backup, FailedBackup, Vanished)


def visible_changes(
    store: Store,
    found: FoundCredential,
    *,
    is_private: bool,
    types: Collection[EventType] = (),
    account_ids: Collection[str] | None = None,
) -> ChangeFilter:
    """Return the filter for the changes that a credential sees now.

    `is_private`: whether nobody else can read the connection, which lists of backups require. `types`: only these types
    of events; empty: all. `account_ids`: only events of these mailboxes; None: all. Raises NotFound if one of them is
    out of reach.
    """
    reached = frozenset(permissions.reachable_syncs(store, found))
    if account_ids is not None and not reached.issuperset(account_ids):
        raise NotFound(what="mailbox")
    seen = _MAIL if Capability.MAIL_READ in permissions.effective_capabilities(found) else frozenset[EventType]()
    if found.kind == "session" and found.member.role == "admin" and is_private and account_ids is None:
        seen |= BACKUP_TYPES
    return ChangeFilter(
        types=seen.intersection(types) if types else seen,
        account_ids=reached if account_ids is None else reached.intersection(account_ids),
        member_id=found.member.id,
    )


def to_events(store: Store, changes: Sequence[Change]) -> list[Event]:
    """Return changes as their readers get them, with the data of now, which is on the disk then."""
    messages = _messages(store, [c.subject for c in changes if c.type and c.type.startswith("message.")])
    events = [
        Event(
            position=store.changes.to_position(change.position),
            id=store.changes.event_id(change.position),
            type=change.type,
            at=to_timestamp(from_millis(change.at)),
            account_id=change.account_id,
            data=_data_of(store, change, messages),
        )
        for change in changes
        if change.type is not None
    ]
    store.database.wait_until_durable(all_commits=True)
    return events


def _messages(store: Store, ids: Sequence[str]) -> Mapping[str, Wire]:
    return {message.id: message for message in store.messages.list_by_ids(ids)} if ids else {}


def _data_of(store: Store, change: Change, messages: Mapping[str, Wire]) -> Wire:
    vanished = Vanished(id=change.subject)
    match change.type:
        case "message.deleted":
            return vanished
        case "delivery.updated":
            return store.delivery_lists.find(change.subject) or vanished
        case "account.updated":
            try:
                account = store.accounts.get(change.subject)
            except NotFound:
                return vanished
            return AccountState(id=account.id, status=account.status, error=account.error)
        case "backup.finished":
            return next((one for one in store.backups.list() if one.id == change.subject), None) or vanished
        case "backup.failed":
            return FailedBackup(reason=change.subject)
        case _:
            return messages.get(change.subject, vanished)
