"""Sends events to webhooks, signed as Standard Webhooks define (github.com/standard-webhooks/standard-webhooks).

Each webhook gets its events one after the other, in their order, so that those of a mailbox are never mixed up. An
event is sent again until its target accepts it, with the same `webhook-id`: at least once, since the answer may get
lost. So a target that fails holds up its own events only. It is tried for three days, less and less often, and then
disabled.

At most eight requests run at once. No number of targets that hang may hold up the others:

    slow ...... failed, or took more than half a second, the last time; at most 4 at once, each with its 10 seconds
    unknown ... has never accepted an event; together with the slow ones at most 6 at once
    prompt .... all others; any place

A request to a target that is not slow is ended after half a second if others wait for its place. Then the target is
slow, and gets the same event again.

Targets are looked up and checked at each connection (`remote/net/connect.py`); redirects are not followed.
"""

import logging
import socket
import threading
import time
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec
from standardwebhooks import Webhook as Signer

from mailbox_appliance.clock import Clock, retry_delay, to_millis, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.feed.events import BACKUP_TYPES, to_events, visible_changes
from mailbox_appliance.model.base import encode_own_text
from mailbox_appliance.model.changes import Event
from mailbox_appliance.model.messages import Message
from mailbox_appliance.model.webhooks import WebhookAttempt, WebhookFailure
from mailbox_appliance.remote.errors import RemoteFault, timeout_fault
from mailbox_appliance.remote.net import https
from mailbox_appliance.remote.net.calls import RemoteCalls
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.changes import ChangesLost
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.webhooks import LONGEST_WAIT, DueWebhook, StoredWebhook

log = logging.getLogger(__name__)

_AT_ONCE = 8
_SLOW_AT_ONCE = 4
_NOT_PROMPT_AT_ONCE = 6
_PATIENCE = 0.5  # seconds after which a target is slow
_TIMEOUT = 10.0
_FIRST_WAIT = 5.0
_TRIED_FOR = timedelta(days=3)
_IN_A_TURN = 20  # events of one webhook, before others get their turn
_SEEN_AT_ONCE = 5000  # changes that it does not see, after which its position is stored
_IDLE = 60.0
_FEWEST_FAILURES = 14  # before it is disabled; so many take 22 hours
_GONE = 410
_encoder = msgspec.json.Encoder(enc_hook=encode_own_text)

# Sentences for faults whose usual ones are about mail servers.
_LATE = "The target did not answer within 10 seconds."
_REASONS = {
    "wrong_port": "TLS with the target failed. Check that its port is one for HTTPS.",
    "connection_refused": "The target does not accept connections on this port.",
}
_MADE_ROOM = "The target took longer than half a second while others waited. It gets the event again, with more time."
_CHANGED = "Somebody changed the webhook during the attempt."
_INSECURE = "The address has no https. The setting `webhooks.allow_private` allows that in private networks only."
_LOST = "Events were deleted before they could be sent, because they were too old. Read the lists again."
_INTERNAL = "The event could not be sent because of an internal error. The log has the details."


class _Request:
    """A request to a target, which another thread can end. Its time limit includes the lookup of the name.

    `stopped`: why it was ended early, if it was.
    """

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.stopped: str | None = None
        self._is_ended = False
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._call: Future[int] | None = None

    def send(
        self, calls: RemoteCalls, url: str, options: https.HttpsOptions, headers: dict[str, str], body: bytes
    ) -> int:
        """Post a body and return the status of the answer. Raises RemoteFault."""
        watched = replace(options, on_connected=self._keep)
        with self._lock:
            if self._is_ended:
                raise timeout_fault("webhook")
            call = self._call = calls.start("webhook", partial(https.post_for_status, url, watched, headers, body))
        try:
            return call.result(options.timeout + _PATIENCE)
        except TimeoutError:  # a lookup can take longer
            self._end()
            raise timeout_fault("webhook") from None

    def stop(self, why: str) -> None:
        """End the request early. Never raises, and does not wait."""
        self.stopped = why
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._is_ended = True
            connection, call = self._connection, self._call
        if connection is not None:
            _abort(connection)
        if call is not None:
            try:
                call.set_exception(timeout_fault("webhook"))
            except InvalidStateError:  # its result has just arrived
                pass

    def _keep(self, connection: socket.socket) -> None:
        with self._lock:
            self._connection = connection
            is_ended = self._is_ended
        if is_ended:
            _abort(connection)


def _abort(connection: socket.socket) -> None:
    try:
        # Below the TLS layer, whose own shutdown is not safe from two threads.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        pass


class _Turn:
    """A webhook that sends some of its events, and its request. `is_slow`: nobody ends the request early."""

    def __init__(self, *, is_slow: bool, is_prompt: bool) -> None:
        self.is_slow, self.is_prompt = is_slow, is_prompt
        self.outcome: Future[None] | None = None
        self.began = time.monotonic()
        self.request = _Request()


def is_private_target(url: str) -> bool:
    """Whether nobody else can read what is sent to this URL: it uses HTTPS, or stays on this computer."""
    parts = urlsplit(url)
    try:
        return parts.scheme == "https" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"


class WebhookSender:
    """Sends events to all webhooks, at most eight at once."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        # The same threads all the time, since each has a connection to the store.
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="webhook")
        self._calls = RemoteCalls()
        self._lock = threading.Lock()
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._turns: dict[str, _Turn] = {}
        self._turned: dict[str, float] = {}  # when the last turn ended, of webhooks that had one
        self._slow: set[str] = set()
        # Position and replays in the store, and how far nothing is to be sent after that position.
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that looks for events to send."""
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Abandon all attempts, which are made again after the next start. Wait up to `timeout` seconds for the
        threads.
        """
        self._stopping.set()
        self._woken.set()
        self._calls.abandon_all()
        until = time.monotonic() + timeout
        with self._lock:  # nobody can begin a turn now
            self._pool.shutdown(wait=False, cancel_futures=True)
            turns = [turn.outcome for turn in self._turns.values() if turn.outcome is not None]
        if self._thread is not None:
            self._thread.join(timeout)
        wait(turns, max(0.0, until - time.monotonic()))

    def wake(self) -> None:
        """Look for events to send at once, such as for a new webhook."""
        self._woken.set()

    def begin_anew(self, webhook_id: str) -> None:
        """End what a webhook sends now, and look what it is to send after it was changed or deleted."""
        with self._lock:
            self._slow.discard(webhook_id)
            turn = self._turns.get(webhook_id)
        if turn is not None:
            turn.request.stop(_CHANGED)
        self.wake()

    def settle(self, webhook: StoredWebhook) -> None:
        """Store how far a webhook has read, before its filter changes. Call it inside a transaction."""
        if (read := self._read_up_to(webhook)) > webhook.position:
            self._store.webhooks.skip(webhook, read)

    def send_test(self, webhook_id: str) -> WebhookAttempt:
        """Send an event `webhook.test`, once, and return the attempt. Raises NotFound."""
        webhook = self._store.webhooks.get(webhook_id)
        at = to_timestamp(self._clock.now())
        event_id, kind = new_id("evt"), "webhook.test"
        position = self._store.changes.to_position(self._store.changes.end())
        event = {"position": position, "id": event_id, "type": kind, "at": at, "accountId": None}
        body = _encoder.encode({"type": kind, "timestamp": at, "data": event | {"data": {"webhookId": webhook_id}}})
        attempt = self._attempt(webhook, event_id, body, _Request())
        self._store.webhooks.note(webhook_id, attempt)
        return attempt

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                seconds = self._begin_due()
            except Exception:
                log.exception("webhooks_failed")
                seconds = _IDLE
            self._woken.wait(seconds)
            self._woken.clear()

    def _begin_due(self) -> float:
        """Give their turns to webhooks that have something to send. Returns the seconds until the next look."""
        # Before the end is read: a later commit wakes the thread.
        commits = self._store.database.commit_events
        commits.add(self._woken) if self._store.webhooks.has_any() else commits.discard(self._woken)
        end = self._store.changes.end()
        with self._lock:
            due = self._store.webhooks.list_due(end)  # in the lock: a turn that ends now may have failed
            waiting = [one for one in due if one.id not in self._turns and self._read_up_to(one) < end]
            held_up = sum(not self._begin(one) for one in sorted(waiting, key=self._rank))
            patience = self._make_room(held_up)
        due_in = self._store.webhooks.next_due(end)
        return min(_IDLE, patience, _IDLE if due_in is None else due_in + 0.01)

    def _is_slow(self, webhook: DueWebhook) -> bool:
        return webhook.failures > 0 or webhook.id in self._slow

    def _rank(self, webhook: DueWebhook) -> tuple[bool, bool, int, float]:
        """The order in which webhooks get places; of equals, the one that has waited longest is first."""
        last = self._turned.get(webhook.id, 0.0)
        return self._is_slow(webhook), not webhook.has_succeeded, webhook.failures, last

    def _begin(self, webhook: DueWebhook) -> bool:
        """Begin a turn if there is a place. Returns False if a target that is not slow finds none."""
        is_slow = self._is_slow(webhook)
        is_prompt = webhook.has_succeeded and not is_slow
        turns = self._turns.values()
        if (
            self._stopping.is_set()
            or len(turns) >= _AT_ONCE
            or (not is_prompt and sum(not turn.is_prompt for turn in turns) >= _NOT_PROMPT_AT_ONCE)
            or (is_slow and sum(turn.is_slow for turn in turns) >= _SLOW_AT_ONCE)
        ):
            return is_slow
        turn = _Turn(is_slow=is_slow, is_prompt=is_prompt)
        turn.outcome = self._pool.submit(self._take_turn, webhook.id, turn)
        self._turns[webhook.id] = turn
        return True

    def _make_room(self, count: int) -> float:
        """End up to `count` requests that last too long. Returns the seconds until there may be more to end."""
        now = time.monotonic()
        ending = sum(turn.request.stopped is not None for turn in self._turns.values())
        others = [turn.request for turn in self._turns.values() if not (turn.is_slow or turn.request.stopped)]
        others.sort(key=lambda request: request.began)
        for request in others[: max(0, count - ending)]:
            left = request.began + _PATIENCE - now
            if left > 0:
                return left
            request.stop(_MADE_ROOM)
        return _IDLE

    def _read_up_to(self, webhook: DueWebhook | StoredWebhook) -> int:
        webhook_id = webhook.id if isinstance(webhook, DueWebhook) else webhook.shown.id
        *known, read = self._seen.get(webhook_id, (0, 0, 0))
        return read if known == [webhook.position, webhook.replays] else webhook.position

    def _take_turn(self, webhook_id: str, turn: _Turn) -> None:
        try:
            for _ in range(_IN_A_TURN):
                is_over = self._stopping.is_set() or time.monotonic() - turn.began > _PATIENCE
                if is_over or not self._send_next(webhook_id, turn):
                    break
        except Exception:
            if not self._stopping.is_set():
                log.exception("webhook_failed", extra={"webhook": webhook_id})
                self._record_error(webhook_id)
        finally:
            with self._lock:
                del self._turns[webhook_id]
                self._turned[webhook_id] = time.monotonic()
            self._woken.set()

    def _record_error(self, webhook_id: str) -> None:
        """Let an event that we cannot send wait like one that was refused."""
        failure = WebhookFailure(at=to_timestamp(self._clock.now()), status=None, reason=_INTERNAL)
        try:
            self._fail(self._store.webhooks.get(webhook_id), failure)
        except Exception:
            log.exception("webhook_failed", extra={"webhook": webhook_id})
            self._stopping.wait(_FIRST_WAIT)

    def _send_next(self, webhook_id: str, turn: _Turn) -> bool:
        """Send the next event. Returns whether there may be another one to send now."""
        turn.request = request = _Request()  # from here on a change of the webhook ends it
        try:
            webhook = self._catch_up(self._store.webhooks.get(webhook_id))
        except NotFound:  # it was deleted
            with self._lock:
                self._seen.pop(webhook_id, None)
            return False
        if webhook.shown.status != "active":
            return False
        try:
            found = self._find_next(webhook)
        except ChangesLost:  # `_catch_up` records it
            return True
        if found is None:
            return False
        event, position, body = found
        request.began = time.monotonic()
        if request.stopped is not None:
            return False
        attempt = self._attempt(webhook, event.id, body, request)
        if attempt.error is not None and self._stopping.is_set():
            return False
        took_long = attempt.duration_ms > _PATIENCE * 1000
        with self._lock:
            (self._slow.add if took_long else self._slow.discard)(webhook_id)
        with self._store.database.transaction():
            self._store.webhooks.note(webhook_id, attempt)
            if attempt.error is None:
                self._store.webhooks.succeed(webhook, position, attempt.at)
            elif attempt.error != _MADE_ROOM:  # not `stopped`, which can be set after the attempt
                failure = WebhookFailure(at=attempt.at, status=attempt.status, reason=attempt.error)
                self._fail(webhook, failure)
        return attempt.error is None and not took_long and position < self._store.changes.end()

    def _catch_up(self, webhook: StoredWebhook) -> StoredWebhook:
        """Return the webhook as it is now. Changes that were deleted are lost to it, which is recorded."""
        floor = self._store.changes.floor()
        if webhook.position >= floor:
            return webhook
        if (read := self._read_up_to(webhook)) >= floor:  # it was to get none of them
            self._store.webhooks.skip(webhook, read)
        else:
            failure = WebhookFailure(at=to_timestamp(self._clock.now()), status=None, reason=_LOST)
            self._store.webhooks.lose(webhook, floor, failure)
        return self._store.webhooks.get(webhook.shown.id)

    def _find_next(self, webhook: StoredWebhook) -> tuple[Event, int, bytes] | None:
        """Return the next event that its member may read, its number, and the body to send."""
        # Rights are read after the end: no change that is read here is later than they are.
        end = self._store.changes.end()
        try:
            member = self._store.members.get(webhook.member_id)
        except NotFound:  # removed a moment ago, with the webhooks
            return None
        if member.status != "active":
            return None
        found = FoundCredential("session", "", member)
        accounts = webhook.shown.account_ids
        is_private = is_private_target(webhook.shown.url)
        seen = visible_changes(self._store, found, is_private=is_private, types=webhook.shown.types)
        if accounts is not None:
            seen = replace(seen, account_ids=seen.account_ids.intersection(accounts), types=seen.types - BACKUP_TYPES)
        changes, read = self._store.changes.read(self._read_up_to(webhook), seen, 1, end)
        if changes:
            event = to_events(self._store, changes)[0]
            return event, read, self._body(webhook, event)
        with self._lock:
            self._seen[webhook.shown.id] = webhook.position, webhook.replays, read
        if read - webhook.position > _SEEN_AT_ONCE:
            self._store.webhooks.skip(webhook, read)
        return None

    def _body(self, webhook: StoredWebhook, event: Event) -> bytes:
        shown: Any = msgspec.to_builtins(event, enc_hook=encode_own_text)
        if webhook.shown.include_body and isinstance(event.data, Message):
            try:
                text = self._store.messages.get_body(event.data.account_id, event.data.id).text
            except NotFound:  # it was deleted a moment ago
                text = None
            shown["data"]["body"] = {"text": text or ""}
        return _encoder.encode({"type": event.type, "timestamp": event.at, "data": shown})

    def _attempt(self, webhook: StoredWebhook, event_id: str, body: bytes, request: _Request) -> WebhookAttempt:
        """Post an event once."""
        now = self._clock.now()
        signatures = [Signer(secret).sign(event_id, now, body.decode()) for secret in webhook.secrets]
        headers = {
            "Content-Type": "application/json",
            "webhook-id": event_id,
            "webhook-timestamp": str(to_millis(now) // 1000),
            "webhook-signature": " ".join(signatures),
        }
        status, error = None, None
        try:
            status = self._post(webhook, headers, body, request)
            error = None if 200 <= status < 300 else f"The answer had the status {status}."
        except RemoteFault as fault:
            reason = _LATE if fault.kind == "timeout" else _REASONS.get(fault.name or "", fault.reason)
            error = request.stopped or reason
        return WebhookAttempt(
            id=new_id("wat"),
            event_id=event_id,
            at=to_timestamp(now),
            status=status,
            duration_ms=int((time.monotonic() - request.began) * 1000),
            error=error,
        )

    def _post(self, webhook: StoredWebhook, headers: dict[str, str], body: bytes, request: _Request) -> int:
        """Return the status of the answer. Raises RemoteFault."""
        allows_private = self._settings.flag("webhooks.allow_private")
        is_secure = webhook.shown.url.lower().startswith("https:")
        if not is_secure and (webhook.shown.include_body or not allows_private):
            raise RemoteFault("webhook", "forbidden_address", _INSECURE)
        ca_file = self._settings.text("remote.ca_file")
        options = https.HttpsOptions("webhook", ca_file, _TIMEOUT, only_public=not allows_private)
        return request.send(self._calls, webhook.shown.url, options, headers, body)

    def _fail(self, webhook: StoredWebhook, failure: WebhookFailure) -> None:
        """Let the next event wait, or disable the webhook if its target has failed for too long or is gone."""
        now = to_millis(self._clock.now())
        since = now if webhook.failing_since is None else min(now, webhook.failing_since)
        left = (since - now) / 1000 + _TRIED_FOR.total_seconds()
        # Time counts only if attempts were made: the computer may have been off, or its clock wrong.
        is_tired = webhook.failures + 1 >= _FEWEST_FAILURES
        pause = retry_delay(webhook.failures + 1, _FIRST_WAIT, LONGEST_WAIT)
        pause = min(left, pause) if is_tired else pause
        disable = (left <= 0 and is_tired) or failure.status == _GONE
        with self._store.database.transaction():
            if not self._store.webhooks.fail(webhook, failure, wait=pause, disable=disable) or not disable:
                return
            target = ("webhook", webhook.shown.id)
            self._store.audit.record(SYSTEM_ACTOR, "webhook.disable", target, about=webhook.member_id)
        log.warning("webhook_disabled", extra={"webhook": webhook.shown.id, "status": failure.status})
