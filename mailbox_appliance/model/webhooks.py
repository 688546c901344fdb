"""Webhooks: addresses to which events are sent, and the attempts to send them."""

from typing import Annotated, Literal

from msgspec import Meta

from mailbox_appliance.model.base import Count, Timestamp, Wire
from mailbox_appliance.model.changes import EventType

WebhookStatus = Literal["active", "disabled"]


class WebhookFailure(Wire, frozen=True, kw_only=True):
    """The last failed attempt of a webhook.

    - at: When it failed.
    - status: HTTP status of the answer; null if there was none.
    - reason: Why it failed.
    """

    at: Timestamp
    status: int | None
    reason: str


class Webhook(Wire, frozen=True, kw_only=True):
    """An address to which events are sent, signed as Standard Webhooks define.

    - id: Webhook ID.
    - url: Address to which events are posted.
    - types: Types of the events.
    - account_ids: IDs of the mailboxes whose events are sent; null for all that the member may read.
    - include_body: Whether events of messages include their text.
    - status: `disabled` webhooks get no events: their address failed for three days or asked for it, or somebody
      disabled them.
    - created_at: When it was created.
    - last_success_at: When an event was last accepted; null if never.
    - last_failure: The last failure; null if there was none.
    """

    id: str
    url: str
    types: tuple[EventType, ...]
    account_ids: tuple[str, ...] | None
    include_body: bool
    status: WebhookStatus
    created_at: Timestamp
    last_success_at: Timestamp | None
    last_failure: WebhookFailure | None


class WebhookAttempt(Wire, frozen=True, kw_only=True):
    """An attempt to send an event.

    - id: Attempt ID.
    - event_id: ID of the event, the same in each attempt: the header `webhook-id`.
    - at: When it began.
    - status: HTTP status of the answer; null if there was none.
    - duration_ms: How long it took, in milliseconds.
    - error: Why it failed; null if it succeeded.
    """

    id: str
    event_id: str
    at: Timestamp
    status: int | None
    duration_ms: Annotated[Count, Meta(description="How long it took, in milliseconds.")]
    error: str | None
