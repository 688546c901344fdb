"""Readers of events over HTTP: requests that wait for a page, and streams of server-sent events (WHATWG HTML 9.2)."""

import time
from collections.abc import Callable

import msgspec

from mailbox_appliance.feed.waiting import EventBatch, EventWait, Subscription, WaitingReaders
from mailbox_appliance.model.base import encode_own_text
from mailbox_appliance.model.changes import Event, EventPage
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.web.http import Response, success
from mailbox_appliance.web.server.connection import HeldRequest
from mailbox_appliance.web.server.framing import ResponseSink

#: Seconds between two comments, by which proxies and clients see that the stream is alive.
COMMENT_EVERY = 15.0
_COMMENT = b": still here\n\n"
_encoder = msgspec.json.Encoder(enc_hook=encode_own_text)


class PageReader:
    """A request that waits for its first event."""

    def __init__(self, wait: EventWait, held: HeldRequest, answer: Callable[[HeldRequest, Response], None]) -> None:
        """`answer`: sends the response."""
        self.subscription, self.after = wait.subscription, wait.subscription.after
        self._held, self._answer, self._limit = held, answer, wait.limit
        self._until = time.monotonic() + wait.seconds

    def is_ready(self) -> bool:
        """Always true."""
        return True

    def tell(self, batch: EventBatch) -> bool:
        """Answer the request if there is an event."""
        self.after = batch.after
        if batch.events:
            self._send(batch)
        return not batch.events

    def tick(self, now: float) -> bool:
        """Answer the request when it has waited long enough. Returns False if the client has disconnected, too."""
        if self._held.is_open and now < self._until:
            return True
        self._send(EventBatch((), self.after))
        return False

    def end(self) -> None:
        """Continue the request. If it was not answered, that is done by what its credential may see then."""
        self._held.release()

    def _send(self, batch: EventBatch) -> None:
        body = batch.made.get(self._limit)
        if body is None:
            items, after = tuple(batch.events[: self._limit]), self.subscription.store.changes.to_position(batch.after)
            if len(batch.events) > self._limit:
                after = items[-1].position
            body = success(200, OperationResult(EventPage(items=items, next_position=after, reset=False))).body
            batch.made[self._limit] = body
        self._answer(self._held, Response(200, body))


class CallReader:
    """A request with a body that is repeated when there is an event, such as a tool call."""

    def __init__(self, wait: EventWait, held: HeldRequest, body: bytes) -> None:
        self.subscription, self.after = wait.subscription, wait.subscription.after
        self._held = held
        self._held.body = body
        self._until = time.monotonic() + wait.seconds

    def is_ready(self) -> bool:
        """Always true."""
        return True

    def tell(self, batch: EventBatch) -> bool:
        """Repeat the request if there is an event."""
        self.after = batch.after
        if batch.events:
            self._held.release()
        return not batch.events

    def tick(self, now: float) -> bool:
        """Repeat the request when it has waited long enough. Returns False if the client has disconnected, too."""
        if self._held.is_open and now < self._until:
            return True
        self._held.release()
        return False

    def end(self) -> None:
        """Repeat the request. It is answered by what its credential may see then."""
        self._held.release()


class StreamReader:
    """A stream of events. Each event is sent with its position, so that the client can continue from there."""

    def __init__(self, subscription: Subscription, sink: ResponseSink, position: str) -> None:
        """`position`: that of the subscription's beginning."""
        self.subscription, self.after = subscription, subscription.after
        self._sink = sink
        self._comment_at = time.monotonic() + COMMENT_EVERY
        if subscription.is_reset:
            data = _encoder.encode({"nextPosition": position}).decode()
            sink.write(f"id: {position}\nevent: reset\ndata: {data}\n\n".encode())
        else:
            sink.write(_COMMENT)

    def is_ready(self) -> bool:
        """Whether the client has read enough of the earlier events."""
        return self._sink.is_ready()

    def tell(self, batch: EventBatch) -> bool:
        """Send the events. Returns False if the client has disconnected."""
        if batch.events:
            data = batch.made.get(StreamReader)
            if data is None:
                data = batch.made[StreamReader] = b"".join(map(format_event, batch.events))
            if not self._sink.write(data):
                return False
            self._comment_at = time.monotonic() + COMMENT_EVERY
        self.after = batch.after
        return True

    def tick(self, now: float) -> bool:
        """Send a comment if nothing was sent for some time. Returns False if the client has disconnected."""
        if now >= self._comment_at and self._sink.is_ready():
            self._comment_at = now + COMMENT_EVERY
            return self._sink.write(_COMMENT)
        return self._sink.is_open

    def end(self) -> None:
        """End the stream."""
        self._sink.end()


def format_event(event: Event) -> bytes:
    """Return an event as a server-sent event."""
    return f"id: {event.position}\nevent: {event.type}\ndata: ".encode() + _encoder.encode(event) + b"\n\n"


def begin_stream(readers: WaitingReaders, subscription: Subscription, sink: ResponseSink) -> None:
    """Send events into an open response until its client disconnects or its access ends."""
    position = subscription.store.changes.to_position(subscription.after)
    readers.add(StreamReader(subscription, sink, position))
