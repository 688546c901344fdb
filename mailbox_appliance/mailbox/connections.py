"""IMAP connections for requests: one for each mailbox, lent to one request at a time.

Also turns faults of mail servers into the errors that clients get.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from mailbox_appliance.errors import Detail, Problem, ProviderThrottled, Unavailable, Unsupported
from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.remote.errors import RemoteFault, stopping_fault
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.remote.net.calls import RemoteCalls
from mailbox_appliance.settings import Settings

if TYPE_CHECKING:
    from mailbox_appliance.oauth.logins import Logins

log = logging.getLogger(__name__)

#: Seconds for which an unused connection stays open.
KEEP_OPEN_SECONDS = 60.0
#: Seconds that a request waits for its turn if another one waits already. Few requests may wait at all, and a silent
#: server must not take all of their slots from the other mailboxes.
QUEUED_WAIT_SECONDS = 3.0
#: After these faults the server waits for the next command; after any other the connection is unusable.
_HARMLESS = frozenset({"refused", "unsupported"})


@dataclass
class _Slot:
    """The connection of one mailbox.

    `turn`: only the thread that holds this lock may use the connection. `cut`: any thread may call this to break off
    the connection. `waiting`: the number of requests that wait for their turn. `used_at`: monotonic seconds.
    """

    turn: threading.Lock = field(default_factory=threading.Lock)
    mailbox: ImapMailbox | None = None
    endpoint: Endpoint | None = None
    used_at: float = 0.0
    waiting: int = 0
    cut: Callable[[], None] | None = None


class Connections:
    """Lends the IMAP connections of mailboxes to requests. May be used from any thread."""

    def __init__(
        self,
        logins: "Logins",
        settings: Settings,
        calls: RemoteCalls | None = None,
        *,
        kept: float = KEEP_OPEN_SECONDS,
        short_wait: float = QUEUED_WAIT_SECONDS,
    ) -> None:
        """`kept`: the seconds that a connection stays open after its last use. `short_wait`: the seconds that a request
        waits for the connection if another one waits already. `calls`: the calls to servers, which `abort_all`
        abandons.
        """
        self._logins, self._settings, self._kept, self._short_wait = logins, settings, kept, short_wait
        self._calls = calls or RemoteCalls()
        self._changed = threading.Condition()
        self._slots: dict[str, _Slot] = {}
        self._closer: threading.Thread | None = None
        self._is_stopped = False

    @property
    def _timeout(self) -> float:
        """The seconds to wait for a server, by the current setting."""
        return float(self._settings.number("remote.timeout"))

    @contextmanager
    def borrow(self, account_id: str, *, in_background: bool = False) -> Iterator[ImapMailbox]:
        """Yield the IMAP connection of this mailbox, opened if necessary. Nobody else has it until the block ends.

        `in_background`: the caller is background work, not an API request. Its wait does not shorten the time that
        requests wait. Raises RemoteFault, also if others use the connection for too long. Raises NotFound if the
        mailbox was removed.
        """
        place = self._slot_of(account_id)
        if not self._acquire(place, in_background):
            raise RemoteFault("imap", "timeout", "Other requests are using this mailbox's connection. Try again later.")
        is_sound = False
        try:
            mailbox = self._open_mailbox(account_id, place)
            try:
                yield mailbox
                is_sound = True
            except RemoteFault as fault:
                is_sound = fault.kind in _HARMLESS
                if self._is_stopped and not is_sound:  # the appliance itself closed the connection
                    fault.reason = stopping_fault("imap").reason
                raise
        finally:
            if not is_sound or self._is_stopped:
                _close_now(place)
            place.used_at = time.monotonic()
            place.turn.release()
            self._start_closer()

    def drop(self, account_id: str) -> None:
        """Close the connection of a removed mailbox. A request that is using it gets a RemoteFault."""
        with self._changed:
            place = self._slots.get(account_id)
        if place is not None:
            _close_within(place, self._timeout)

    def abort_all(self) -> None:
        """Break off all use of servers, for a stop: every request that uses or wants one gets a RemoteFault."""
        with self._changed:
            self._is_stopped = True
            places = list(self._slots.values())
            self._changed.notify_all()
        for place in places:
            if (cut := place.cut) is not None and place.turn.locked():
                cut()
        self._calls.abandon_all()

    def stop(self, timeout: float = 5.0) -> None:
        """Close all connections within `timeout` seconds. From now on, `borrow` raises RemoteFault."""
        self.abort_all()
        until = time.monotonic() + timeout
        with self._changed:
            places, closer = list(self._slots.values()), self._closer
        for place in places:
            _close_within(place, max(0.0, min(2.0, until - time.monotonic())))
        if closer is not None:
            closer.join(max(0.0, until - time.monotonic()))

    def _acquire(self, place: _Slot, in_background: bool) -> bool:
        if in_background:
            return place.turn.acquire(timeout=self._timeout)
        with self._changed:
            place.waiting += 1
            timeout = self._timeout if place.waiting == 1 else min(self._short_wait, self._timeout)
        try:
            return place.turn.acquire(timeout=timeout)
        finally:
            with self._changed:
                place.waiting -= 1

    def _slot_of(self, account_id: str) -> _Slot:
        with self._changed:
            return self._slots.setdefault(account_id, _Slot())

    def _open_mailbox(self, account_id: str, place: _Slot) -> ImapMailbox:
        endpoint = self._logins.endpoint(account_id, "imap")
        if place.mailbox is not None and (place.endpoint != endpoint or _has_ended(place.mailbox)):
            _close_now(place)
        if self._is_stopped:
            raise stopping_fault("imap")
        if place.mailbox is None:

            def connected(cut: Callable[[], None]) -> None:
                place.cut = cut
                if self._is_stopped:
                    cut()

            ca_file = self._settings.text("remote.ca_file")
            opening = partial(ImapMailbox.open, ca_file=ca_file, timeout=self._timeout, on_connected=connected)
            reach = partial(self._logins.open_imap, account_id, opening)
            place.mailbox = self._calls.start("imap", reach, discard=ImapMailbox.close).result()
            place.endpoint = endpoint
        return place.mailbox

    def _start_closer(self) -> None:
        """Start the thread that closes unused connections, unless it runs. It ends when no connection is open."""
        with self._changed:
            if self._closer is None and not self._is_stopped:
                self._closer = threading.Thread(target=self._close_unused, name="unused connections", daemon=True)
                self._closer.start()

    def _close_unused(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopped, self._kept / 2)
                places = [place for place in self._slots.values() if place.mailbox is not None]
                if self._is_stopped or not places:
                    self._closer = None
                    return
            for place in places:
                self._close_if_unused(place)

    def _close_if_unused(self, place: _Slot) -> None:
        if place.used_at <= time.monotonic() - self._kept and place.turn.acquire(blocking=False):
            try:
                _close_now(place)
            finally:
                place.turn.release()


def _has_ended(mailbox: ImapMailbox) -> bool:
    """Whether the server closed the connection while it was unused."""
    try:
        mailbox.poll_idle()
    except RemoteFault:
        return True
    return False


def _close_within(place: _Slot, within: float) -> None:
    """Close the connection of a mailbox. If in use, break it off, and wait up to `within` seconds for its user."""
    if not place.turn.acquire(blocking=False):
        if place.cut is not None:
            place.cut()
        if not place.turn.acquire(timeout=within):
            log.warning("mail_connection_in_use")
            return
    try:
        _close_now(place)
    finally:
        place.turn.release()


def _close_now(place: _Slot) -> None:
    if place.mailbox is not None:
        place.mailbox.close()
    place.mailbox = place.endpoint = place.cut = None


# --- Faults: the problem for a request whose mail server failed ---


#: Seconds after which another attempt may succeed.
_RETRY_AFTER, _THROTTLED_RETRY_AFTER = 30, 60


def problem_of(fault: RemoteFault) -> Problem:
    """Return the error to answer with if a request cannot be completed because a mail server failed in this way."""
    details = (Detail(fault.server, fault.reason),)
    if fault.kind == "unsupported":
        return Unsupported(details=details, reason=fault.reason)
    if fault.kind == "throttled":
        return ProviderThrottled(details=details, retry_after=retry_seconds(fault, _THROTTLED_RETRY_AFTER))
    return Unavailable(details=details, reason=fault.reason, retry_after=retry_seconds(fault, _RETRY_AFTER))


def retry_seconds(fault: RemoteFault, usual: int) -> int:
    """Return the seconds after which to try again: those that the server asked for, otherwise `usual`."""
    return usual if fault.retry_after is None else max(1, ceil(fault.retry_after))
