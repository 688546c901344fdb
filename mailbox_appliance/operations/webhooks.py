"""Operations on webhooks: create, list, change, delete, test and replay them, rotate secrets, and see attempts."""

import base64
import secrets
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.errors import Conflict, Invalid
from mailbox_appliance.feed.events import BACKUP_TYPES
from mailbox_appliance.feed.webhooks import is_private_target
from mailbox_appliance.model.base import Deletion, Input, Page, Timestamp, Wire
from mailbox_appliance.model.changes import EventType
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.webhooks import Webhook, WebhookAttempt, WebhookStatus
from mailbox_appliance.operations.decoding import decode_cursor, encode_cursor
from mailbox_appliance.operations.events import Position
from mailbox_appliance.operations.operation import Access, Caller, Cursor, Limit, operation, recheck_caller
from mailbox_appliance.permissions import require_account
from mailbox_appliance.store.webhooks import NewWebhook, StoredWebhook

#: Webhooks that a member can have.
MOST_WEBHOOKS = 20
_OVERLAP = timedelta(hours=24)
_ATTEMPT_LIST = "webhook attempts"

WebhookId = Annotated[str, Meta(min_length=1, max_length=200)]
_Url = Annotated[str, Meta(min_length=1, max_length=2000)]
_Types = Annotated[tuple[EventType, ...], Meta(min_length=1, max_length=20)]
_Accounts = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...], Meta(min_length=1, max_length=100)
]


class CreateWebhookRequest(Input, frozen=True, kw_only=True):
    """A new webhook.

    - url: Address to which events are posted, with https. Private addresses need the setting `webhooks.allow_private`.
    - types: Types of the events to send.
    - account_ids: IDs of the mailboxes whose events are sent; null for all that you may read.
    - include_body: Whether events of messages include their text; only over https.
    """

    url: _Url
    types: _Types
    account_ids: _Accounts | None = None
    include_body: bool = False


class UpdateWebhookRequest(Input, frozen=True, kw_only=True):
    """Changes to a webhook. Omitted fields stay unchanged.

    - url: Address to which events are posted.
    - types: Types of the events to send.
    - account_ids: IDs of the mailboxes whose events are sent; null for all that you may read.
    - include_body: Whether events of messages include their text.
    - status: `disabled` sends nothing; `active` continues where it stopped.
    """

    url: _Url | UnsetType = UNSET
    types: _Types | UnsetType = UNSET
    account_ids: _Accounts | UnsetType | None = UNSET
    include_body: bool | UnsetType = UNSET
    status: WebhookStatus | UnsetType = UNSET


class ReplayWebhookRequest(Input, frozen=True, kw_only=True):
    """From where to send again.

    - after: Position of an event; the later ones are sent, again if they were sent before.
    """

    after: Position


class CreatedWebhook(Wire, frozen=True, kw_only=True):
    """A new webhook. The secret is shown only once.

    - webhook: The webhook.
    - secret: The secret by which receivers verify the signature, such as `whsec_...`.
    """

    webhook: Webhook
    secret: str


class RotatedSecret(Wire, frozen=True, kw_only=True):
    """The new secret of a webhook. It is shown only once.

    - secret: The new secret.
    - previous_valid_until: Until then requests are signed with the previous secret as well.
    """

    secret: str
    previous_valid_until: Timestamp


@operation(access=Access.SESSION)
def list_webhooks(appliance: Appliance, caller: Caller) -> tuple[Webhook, ...]:
    """List your webhooks.

    The oldest comes first. Secrets are never shown again.
    """
    return tuple(one.shown for one in appliance.store.webhooks.list(caller.member.id))


@operation(access=Access.SESSION)
def create_webhook(appliance: Appliance, caller: Caller, request: CreateWebhookRequest) -> CreatedWebhook:
    """Create a webhook.

    Events from now on are posted to its address, signed as Standard Webhooks define. It sends what you may read at that
    time. Each event is sent at least once and in order, with the same `webhook-id` each time.

    Any 2xx within 10 seconds counts as accepted. Otherwise the event is sent again, after 5 seconds at first and up to
    12 hours later, for 3 days. Then the webhook is disabled. 410 disables it at once.

    409 `conflict`: you have 20 webhooks.
    """
    store, new = appliance.store, NewWebhook(request.url, request.types, request.account_ids, request.include_body)
    _check_address(appliance, new)
    _require_accounts(appliance, caller, frozenset(new.account_ids or ()))
    secret = _new_secret()
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        if len(store.webhooks.list(caller.member.id)) >= MOST_WEBHOOKS:
            raise Conflict(reason=f"You have {MOST_WEBHOOKS} webhooks already. Delete one first.")
        webhook_id = store.webhooks.add(caller.member.id, new, secret, store.changes.end())
        store.audit.record(caller.actor, "webhook.create", ("webhook", webhook_id))
    appliance.webhook_sender.wake()
    return CreatedWebhook(webhook=store.webhooks.get(webhook_id).shown, secret=secret)


@operation(access=Access.SESSION)
def get_webhook(appliance: Appliance, caller: Caller, webhook_id: WebhookId) -> Webhook:
    """Get a webhook.

    It must be yours.
    """
    return _find(appliance, caller, webhook_id).shown


@operation(access=Access.SESSION)
def update_webhook(
    appliance: Appliance, caller: Caller, webhook_id: WebhookId, request: UpdateWebhookRequest
) -> Webhook:
    """Change a webhook.

    It must be yours. What failed before is tried again at once.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        stored = _find(appliance, caller, webhook_id)
        before = stored.shown
        new = NewWebhook(
            before.url if request.url is UNSET else request.url,
            before.types if request.types is UNSET else request.types,
            before.account_ids if request.account_ids is UNSET else request.account_ids,
            before.include_body if request.include_body is UNSET else request.include_body,
        )
        # Access to what it names, or the permission for its address, may have ended. It can still be disabled.
        if (new.url, new.include_body, new.types) != (before.url, before.include_body, before.types):
            _check_address(appliance, new)
        _require_accounts(appliance, caller, frozenset(new.account_ids or ()).difference(before.account_ids or ()))
        appliance.webhook_sender.settle(stored)
        store.webhooks.change(webhook_id, new, before.status if request.status is UNSET else request.status)
        store.audit.record(caller.actor, "webhook.update", ("webhook", webhook_id))
    appliance.webhook_sender.begin_anew(webhook_id)
    return store.webhooks.get(webhook_id).shown


@operation(access=Access.SESSION)
def delete_webhook(appliance: Appliance, caller: Caller, webhook_id: WebhookId) -> Deletion:
    """Delete a webhook.

    It must be yours. Nothing more is sent.
    """
    store = appliance.store
    _find(appliance, caller, webhook_id)
    with store.database.transaction(durable=True):
        store.webhooks.delete(webhook_id)
        store.audit.record(caller.actor, "webhook.delete", ("webhook", webhook_id))
    appliance.webhook_sender.begin_anew(webhook_id)
    return Deletion(id=webhook_id)


@operation(access=Access.SESSION)
def rotate_secret(appliance: Appliance, caller: Caller, webhook_id: WebhookId) -> RotatedSecret:
    """Rotate a webhook's secret.

    For 24 hours, requests are signed with both secrets, so that receivers can change theirs during that time.
    Another rotation in that time ends the older secret at once.
    """
    store = appliance.store
    _find(appliance, caller, webhook_id)
    secret, until = _new_secret(), appliance.clock.now() + _OVERLAP
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        store.webhooks.rotate(webhook_id, secret, until)
        store.audit.record(caller.actor, "webhook.rotate_secret", ("webhook", webhook_id))
    return RotatedSecret(secret=secret, previous_valid_until=to_timestamp(until))


@operation(access=Access.SESSION, asks_servers=True)
def test_webhook(appliance: Appliance, caller: Caller, webhook_id: WebhookId) -> WebhookAttempt:
    """Test a webhook.

    Sends one event `webhook.test` now, whatever the webhook's types and status, and returns how that went. It is not
    tried again.
    """
    _find(appliance, caller, webhook_id)
    return appliance.webhook_sender.send_test(webhook_id)


@operation(access=Access.SESSION)
def replay_webhook(
    appliance: Appliance, caller: Caller, webhook_id: WebhookId, request: ReplayWebhookRequest
) -> OperationResult[Webhook]:
    """Replay events to a webhook.

    Sends all events after a position, in order. Those that were sent before have the same `webhook-id` again.

    409 `conflict`: events after that position are no longer kept.
    """
    store = appliance.store
    _find(appliance, caller, webhook_id)
    number = store.changes.from_position(request.after, "/after")
    if number is None:
        raise Conflict(reason="Events after that position are no longer kept. Read the lists again.")
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        store.webhooks.set_position(webhook_id, number)
        store.audit.record(caller.actor, "webhook.replay", ("webhook", webhook_id))
    appliance.webhook_sender.begin_anew(webhook_id)
    return OperationResult(store.webhooks.get(webhook_id).shown, status=202)


@operation(access=Access.SESSION)
def list_attempts(
    appliance: Appliance, caller: Caller, webhook_id: WebhookId, limit: Limit = 50, cursor: Cursor | None = None
) -> Page[WebhookAttempt]:
    """List a webhook's attempts.

    Newest first. The last thousand are kept.
    """
    _find(appliance, caller, webhook_id)
    before = decode_cursor(cursor, _ATTEMPT_LIST, webhook_id)
    items, more = appliance.store.webhooks.list_attempts(webhook_id, before=before, limit=limit)
    return Page(items=items, next_cursor=encode_cursor(more, _ATTEMPT_LIST, webhook_id))


def _find(appliance: Appliance, caller: Caller, webhook_id: str) -> StoredWebhook:
    return appliance.store.webhooks.get(webhook_id, caller.member.id)


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _check_address(appliance: Appliance, new: NewWebhook) -> None:
    """Raise Invalid for an address that is never used, or not for what is to be sent."""
    try:
        parts = urlsplit(new.url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
        parts = urlsplit("")
    if not is_valid or "@" in parts.netloc or not new.url.isprintable() or " " in new.url:
        raise Invalid.at("/url", "This must be an address such as https://example.org/hook, without a user name.")
    if parts.scheme == "http" and not appliance.settings.flag("webhooks.allow_private"):
        raise Invalid.at("/url", "Use https. The setting `webhooks.allow_private` allows http in private networks.")
    if parts.scheme == "http" and new.include_body:
        raise Invalid.at("/includeBody", "The text of messages is sent over https only.")
    if BACKUP_TYPES.intersection(new.types) and not is_private_target(new.url):
        raise Invalid.at("/types", "Events of backups are sent over https, or to this computer.")


def _require_accounts(appliance: Appliance, caller: Caller, account_ids: frozenset[str]) -> None:
    """Raise NotFound for a mailbox that the caller has no access to."""
    for account_id in account_ids:
        require_account(appliance.store, caller.required_credential, account_id)
