"""Readers of events over HTTP: requests that wait for a page, and streams of server-sent events (WHATWG HTML 9.2)."""

import time
from collections.abc import Callable, Sequence

import msgspec

from mailbox_appliance.feed.waiting import Subscription, WaitingReaders
from mailbox_appliance.model.base import encode_own_text
from mailbox_appliance.model.changes import Event
from mailbox_appliance.web.server.connection import ResponseSink

#: Seconds between two comments, by which proxies and clients see that the stream is alive.
COMMENT_EVERY = 15.0
_COMMENT = b": still here\n\n"
_encoder = msgspec.json.Encoder(enc_hook=encode_own_text)


class PageReader:
    """A request that waits for its first event. Then it is answered like one that did not wait."""

    def __init__(self, subscription: Subscription, until: float, release: Callable[[], None]) -> None:
        """`until`: the monotonic time at which the request is answered in any case. `release`: continues it."""
        self.subscription, self.after = subscription, subscription.after
        self._until, self._release = until, release

    def is_ready(self) -> bool:
        """Always true."""
        return True

    def tell(self, events: Sequence[Event], after: int) -> bool:
        """Continue the request if there is an event."""
        self.after = after
        if events:
            self._release()
        return not events

    def tick(self, now: float) -> bool:
        """Continue the request when it has waited long enough."""
        if now >= self._until:
            self._release()
        return now < self._until

    def end(self) -> None:
        """Continue the request: it is answered by what its credential may see then."""
        self._release()


class StreamReader:
    """A stream of events. Each event is sent with its position, so that the client can go on from there."""

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

    def tell(self, events: Sequence[Event], after: int) -> bool:
        """Send the events. Returns False if the client has disconnected."""
        if events:
            if not self._sink.write(b"".join(map(format_event, events))):
                return self._close()
            self._comment_at = time.monotonic() + COMMENT_EVERY
        self.after = after
        return True

    def tick(self, now: float) -> bool:
        """Send a comment if nothing was sent for some time. Returns False if the client has disconnected."""
        if now >= self._comment_at and self._sink.is_ready():
            self._comment_at = now + COMMENT_EVERY
            return self._sink.write(_COMMENT) or self._close()
        return self._sink.is_open or self._close()

    def end(self) -> None:
        """End the stream."""
        self._sink.end()

    def _close(self) -> bool:
        self._sink.end()
        return False


def format_event(event: Event) -> bytes:
    """Return an event as a server-sent event."""
    return f"id: {event.position}\nevent: {event.type}\ndata: ".encode() + _encoder.encode(event) + b"\n\n"


def begin_stream(readers: WaitingReaders, subscription: Subscription, sink: ResponseSink) -> None:
    """Send events into an open response until its client disconnects or its access ends."""
    position = subscription.store.changes.to_position(subscription.after)
    readers.add(StreamReader(subscription, sink, position))
