"""Operations on events: a page of them, which can be waited for, and a stream."""

from typing import Annotated

from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Invalid
from mailbox_appliance.feed.events import to_events, visible_changes
from mailbox_appliance.feed.waiting import EventStream, EventWait, Subscription
from mailbox_appliance.model.changes import EventPage, EventType, list_event_types
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.operations.operation import Caller, Limit, operation
from mailbox_appliance.store.changes import ChangesLost
from mailbox_appliance.store.store import Store

Position = Annotated[str, Meta(min_length=1, max_length=60)]
After = Annotated[
    Position,
    Meta(
        description="Position: `nextPosition`, or the `position` of the last event that you have handled. Without it,"
        " only events from now on.",
    ),
]
Types = Annotated[
    str, Meta(max_length=500, description="Only these types of events, separated by commas. Without it, all types.")
]
OnlyMailbox = Annotated[str, Meta(max_length=200, description="Only events of this mailbox.")]
Wait = Annotated[
    int, Meta(ge=0, le=30, description="Seconds to wait for an event if there is none yet. The answer comes with it.")
]
LastEventId = Annotated[str, Meta(max_length=60, description="As `after`; browsers send it when they connect again.")]


@operation(needs=Capability.MAIL_READ)
def list_events(
    appliance: Appliance,
    caller: Caller,
    after: After | None = None,
    types: Types | None = None,
    account_id: OnlyMailbox | None = None,
    limit: Limit = 50,
    wait: Wait = 0,
) -> OperationResult[EventPage]:
    """List events.

    Returns the changes after a position, in order, without gaps or duplicates: messages and deliveries in mailboxes
    that you may read, and the state of your mailboxes. Sessions also get approvals as in their list, and those of
    administrators backups. Each event shows its data as it is now.

    A message that was moved or flagged is never reported as `message.created` again. Positions only grow, and stay
    valid across restarts. Events are kept for 30 days (setting `events.keep_days`).

    If `reset` is true, events before `nextPosition` are lost to you. Read the lists again, and continue from
    `nextPosition`. This happens after a restore, and when your position is older than the oldest event.
    """
    read = _subscribe(appliance, caller, after, types, account_id)
    store = appliance.store
    if read.is_reset:
        return OperationResult(_reset_page(store))
    try:
        changes, end = store.changes.read(read.after, read.seen, limit)
    except ChangesLost:
        return OperationResult(_reset_page(store))
    page = EventPage(items=tuple(to_events(store, changes)), next_position=store.changes.to_position(end), reset=False)
    waits_for = EventWait(read.starting_at(end), wait, limit) if wait and not changes else None
    return OperationResult(page, waits_for=waits_for)


@operation(needs=Capability.MAIL_READ)
def list_latest_events(
    appliance: Appliance, caller: Caller, account_id: OnlyMailbox | None = None, limit: Limit = 20
) -> EventPage:
    """List the latest events.

    The oldest of them comes first; `nextPosition` is that of now.
    """
    read, changes = _subscribe(appliance, caller, None, None, account_id), appliance.store.changes
    found, end = changes.read(max(changes.start_of_last(read.seen, limit), changes.floor()), read.seen, limit)
    return EventPage(
        items=tuple(to_events(appliance.store, found)), next_position=changes.to_position(end), reset=False
    )


@operation(needs=Capability.MAIL_READ)
def stream_events(
    appliance: Appliance,
    caller: Caller,
    after: After | None = None,
    last_event_id: LastEventId | None = None,
    types: Types | None = None,
    account_id: OnlyMailbox | None = None,
) -> EventStream:
    """Stream events.

    Sends events as they happen, as server-sent events (WHATWG HTML 9.2): `id` is the position, `event` the type, `data`
    the event as in `GET /events`. A comment is sent every 15 seconds.

    An event `reset` means that earlier events are lost to you: its `data` has `nextPosition`. The stream ends when your
    access ends. After a lost connection, send `Last-Event-ID` to continue.
    """
    place = "header:Last-Event-ID" if last_event_id else "after"
    return EventStream(_subscribe(appliance, caller, last_event_id or after, types, account_id, place))


def _reset_page(store: Store) -> EventPage:
    return EventPage(items=(), next_position=store.changes.to_position(store.changes.end()), reset=True)


def _subscribe(
    appliance: Appliance,
    caller: Caller,
    after: str | None,
    types: str | None,
    account_id: str | None,
    place: str = "after",
) -> Subscription:
    """`place`: the place in the request of the position, for errors."""
    changes = appliance.store.changes
    end = changes.end()
    start = end if after is None else changes.from_position(after, place)
    found = caller.required_credential
    wanted, accounts = _read_types(types), None if account_id is None else frozenset({account_id})
    is_private = caller.origin.is_private
    seen = visible_changes(appliance.store, found, is_private=is_private, types=wanted, account_ids=accounts)
    return Subscription(
        appliance.store,
        found,
        is_private=is_private,
        types=wanted,
        account_ids=accounts,
        after=end if start is None else start,
        is_reset=start is None,
        seen=seen,
        seen_at=end,
    )


def _read_types(given: str | None) -> frozenset[EventType]:
    known = {str(one): one for one in list_event_types()}
    names = [] if given is None else [name.strip() for name in given.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise Invalid.at("types", f"`{unknown[0][:60]}` is not a type of event. Use: {', '.join(known)}.")
    return frozenset(known[name] for name in names)
