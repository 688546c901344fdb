"""Sends events to webhooks, signed as Standard Webhooks define (github.com/standard-webhooks/standard-webhooks).

Each webhook gets its events one after the other, in their order, so that those of a mailbox are never mixed up. An
event is sent again until its target accepts it, with the same `webhook-id`: at least once, since the answer may get
lost. So a target that fails holds up its own events only. It is tried for three days, less and less often, and then
disabled.

Targets are looked up and checked at each connection (`remote/net/connect.py`); redirects are not followed.
"""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from standardwebhooks import Webhook as Signer

from mailbox_appliance.clock import Clock, retry_delay, to_millis, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.feed.events import BACKUP_TYPES, to_events, visible_changes
from mailbox_appliance.model.base import encode_own_text
from mailbox_appliance.model.changes import Event
from mailbox_appliance.model.messages import Message
from mailbox_appliance.model.webhooks import WebhookAttempt, WebhookFailure
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.net import https
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.webhooks import StoredWebhook

log = logging.getLogger(__name__)

_AT_ONCE = 8
_TIMEOUT = 10.0
_FIRST_WAIT, _LONGEST_WAIT = 5.0, 12 * 3600.0
_TRIED_FOR = timedelta(days=3)
_IN_A_TURN = 20  # events of one webhook, before others get their turn
_SEEN_AT_ONCE = 5000  # changes that it does not see, after which its position is stored
_IDLE = 60.0
_GONE = 410
_encoder = msgspec.json.Encoder(enc_hook=encode_own_text)


class WebhookSender:
    """Sends events to all webhooks, at most eight at once."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._lock = threading.Lock()
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._busy: set[str] = set()
        # Position and replays in the store, and how far nothing is to be sent after that position.
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._has_any = True
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that looks for events to send."""
        self._store.database.commit_listeners.append(self._look)
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Begin no further attempt, and wait up to `timeout` seconds for the thread."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def wake(self) -> None:
        """Look for events to send at once, such as for a new webhook."""
        self._has_any = True
        self._woken.set()

    def send_test(self, webhook_id: str) -> WebhookAttempt:
        """Send an event `webhook.test`, once, and return the attempt. Raises NotFound."""
        webhook = self._store.webhooks.get(webhook_id)
        at = to_timestamp(self._clock.now())
        event_id, kind = new_id("evt"), "webhook.test"
        position = self._store.changes.to_position(self._store.changes.end())
        event = {"position": position, "id": event_id, "type": kind, "at": at, "accountId": None}
        body = _encoder.encode({"type": kind, "timestamp": at, "data": event | {"data": {"webhookId": webhook_id}}})
        return self._attempt(webhook, event_id, body)

    def _look(self) -> None:
        if self._has_any:
            self._woken.set()

    def _run(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="webhook") as pool:
            while not self._stopping.is_set():
                try:
                    wait = self._begin_due(pool)
                except Exception:
                    log.exception("webhooks_failed")
                    wait = _IDLE
                self._woken.wait(wait)
                self._woken.clear()
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin_due(self, pool: ThreadPoolExecutor) -> float:
        """Give the webhooks that have something to send to the threads. Returns the seconds until the next look."""
        end = self._store.changes.end()
        self._has_any = bool(self._store.webhooks.list())
        for webhook_id, position, replays in self._store.webhooks.list_due(end):
            with self._lock:
                if webhook_id in self._busy or self._read_up_to(webhook_id, position, replays) >= end:
                    continue
                self._busy.add(webhook_id)
            pool.submit(self._take_turn, webhook_id)
        wait = self._store.webhooks.next_due(end)
        return _IDLE if wait is None else min(_IDLE, wait + 0.01)

    def _read_up_to(self, webhook_id: str, position: int, replays: int) -> int:
        *known, read = self._seen.get(webhook_id, (position, replays, position))
        return read if known == [position, replays] else position

    def _take_turn(self, webhook_id: str) -> None:
        try:
            for _ in range(_IN_A_TURN):
                if self._stopping.is_set() or not self._send_next(webhook_id):
                    break
        except NotFound:
            pass  # it was deleted
        except Exception:
            log.exception("webhook_failed", extra={"webhook": webhook_id})
        finally:
            with self._lock:
                self._busy.discard(webhook_id)
            self._woken.set()

    def _send_next(self, webhook_id: str) -> bool:
        """Send the next event. Returns whether there may be another one to send now."""
        webhook = self._store.webhooks.get(webhook_id)
        if webhook.shown.status != "active":
            return False
        after = self._start(webhook)
        found = self._find_next(webhook, after)
        if found is None:
            return False
        event, position = found
        attempt = self._attempt(webhook, event.id, self._body(webhook, event))
        if attempt.error is None:
            self._seen.pop(webhook_id, None)
            self._store.webhooks.succeed(webhook, position, attempt.at)
            return True
        self._fail(webhook, attempt)
        return False

    def _start(self, webhook: StoredWebhook) -> int:
        """Return the number after which to read. Changes that were deleted are lost, and this is told."""
        after = self._read_up_to(webhook.shown.id, webhook.position, webhook.replays)
        floor = self._store.changes.floor()
        if after >= floor:
            return after
        failure = WebhookFailure(
            at=to_timestamp(self._clock.now()),
            status=None,
            reason="Events were deleted before they could be sent, because they were too old. Read the lists anew.",
        )
        self._store.webhooks.fail(webhook.shown.id, failure, wait=0, disable=False)
        self._store.webhooks.set_position(webhook.shown.id, floor)
        return floor

    def _find_next(self, webhook: StoredWebhook, after: int) -> tuple[Event, int] | None:
        """Return the next event that its member may read, and its number."""
        member = self._store.members.get(webhook.member_id)
        if member.status != "active":
            return None
        found = FoundCredential("session", "", member)
        accounts = webhook.shown.account_ids
        seen = visible_changes(self._store, found, is_private=True, types=webhook.shown.types)
        if accounts is not None:
            seen = replace(seen, account_ids=seen.account_ids.intersection(accounts), types=seen.types - BACKUP_TYPES)
        changes, read = self._store.changes.read(after, seen, 1)
        if changes:
            return to_events(self._store, changes)[0], read
        with self._lock:
            self._seen[webhook.shown.id] = webhook.position, webhook.replays, read
        if read - webhook.position > _SEEN_AT_ONCE:
            self._store.webhooks.skip(webhook, read)
        return None

    def _body(self, webhook: StoredWebhook, event: Event) -> bytes:
        shown: Any = msgspec.to_builtins(event, enc_hook=encode_own_text)
        if webhook.shown.include_body and isinstance(event.data, Message):
            stored = self._store.messages.get_body(event.data.account_id, event.data.id)
            shown["data"]["body"] = {"text": stored.text or ""}
        return _encoder.encode({"type": event.type, "timestamp": event.at, "data": shown})

    def _attempt(self, webhook: StoredWebhook, event_id: str, body: bytes) -> WebhookAttempt:
        """Post an event once, and record that."""
        now, began = self._clock.now(), time.monotonic()
        signatures = [Signer(secret).sign(event_id, now, body.decode()) for secret in webhook.secrets]
        headers = {
            "Content-Type": "application/json",
            "webhook-id": event_id,
            "webhook-timestamp": str(to_millis(now) // 1000),
            "webhook-signature": " ".join(signatures),
        }
        options = https.HttpsOptions(
            "webhook",
            self._settings.text("remote.ca_file"),
            _TIMEOUT,
            only_public=not self._settings.flag("webhooks.allow_private"),
            cuts=True,
        )
        status, error = None, None
        try:
            status = https.request("POST", webhook.shown.url, options, headers, body).status
            error = None if 200 <= status < 300 else f"The answer had the status {status}."
        except RemoteFault as fault:
            error = fault.reason
        attempt = WebhookAttempt(
            id=new_id("wat"),
            event_id=event_id,
            at=to_timestamp(now),
            status=status,
            duration_ms=int((time.monotonic() - began) * 1000),
            error=error,
        )
        self._store.webhooks.note(webhook.shown.id, attempt)
        return attempt

    def _fail(self, webhook: StoredWebhook, attempt: WebhookAttempt) -> None:
        since = webhook.failing_since
        now = to_millis(self._clock.now())
        is_over = since is not None and now - since >= _TRIED_FOR / timedelta(milliseconds=1)
        disable = is_over or attempt.status == _GONE
        failure = WebhookFailure(at=attempt.at, status=attempt.status, reason=attempt.error or "")
        wait = retry_delay(webhook.failures + 1, _FIRST_WAIT, _LONGEST_WAIT)
        with self._store.database.transaction():
            self._store.webhooks.fail(webhook.shown.id, failure, wait=wait, disable=disable)
            if disable:
                target = ("webhook", webhook.shown.id)
                self._store.audit.record(SYSTEM_ACTOR, "webhook.disable", target, about=webhook.member_id)
        if disable:
            log.warning("webhook_disabled", extra={"webhook": webhook.shown.id, "status": attempt.status})
