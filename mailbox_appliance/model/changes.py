"""Events as readers get them: what has changed in the mailboxes and the appliance, in order."""

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from mailbox_appliance.model.accounts import AccountError, AccountStatus
from mailbox_appliance.model.base import Timestamp, Wire

#: In the order of their numbers in the store.
EventType = Literal[
    "message.created",
    "message.updated",
    "message.moved",
    "message.deleted",
    "delivery.updated",
    "account.updated",
    "approval.created",
    "approval.decided",
    "backup.finished",
    "backup.failed",
]


def list_event_types() -> tuple[EventType, ...]:
    """Return all types of events, in the order of their numbers in the store."""
    return get_args(EventType)


class Event(Wire, frozen=True, kw_only=True):
    """A change, as it is shown to readers of events.

    - position: Position of the event. Pass it as `after` to continue with the next one.
    - id: Event ID, such as `evt_01j9z3x7v2m4q8s6t5w0y1r3n4`. Every reader gets the same one.
    - type: What kind of change it is.
    - at: When it was committed.
    - account_id: ID of the mailbox; null for events of no mailbox.
    - data: What has changed, as it is now: a message as in lists, a delivery operation, a mailbox (`id`, `status`,
      `error`) or a backup. Only `id` is left of what does not exist any more. A failed backup has `reason`.
    """

    position: str
    id: str
    type: EventType
    at: Timestamp
    account_id: str | None
    data: Annotated[Any, Meta(extra_json_schema={"type": "object"})]


class EventPage(Wire, frozen=True, kw_only=True):
    """A page of events.

    - items: The events in order; empty if there is none yet.
    - next_position: The position to read on from. It can be later than the last event that is shown.
    - reset: Whether events before `nextPosition` are lost to this reader, which must read the lists again.
    """

    items: tuple[Event, ...]
    next_position: str
    reset: bool


class AccountState(Wire, frozen=True, kw_only=True):
    """The state of a mailbox.

    - id: Mailbox ID.
    - status: State of its sync.
    - error: Its problem; null if there is none.
    """

    id: str
    status: AccountStatus
    error: AccountError | None


class Vanished(Wire, frozen=True, kw_only=True):
    """Something that no longer exists.

    - id: Its ID.
    """

    id: str


class FailedBackup(Wire, frozen=True, kw_only=True):
    """A daily backup that failed.

    - reason: Why it failed.
    """

    reason: str
