"""The services that all mailboxes share during sync, and the data of one connection.

    SyncServices ... shared by all mailboxes, created once by the supervisor
    StopSignal ..... asks the sync of one mailbox to stop, and cuts its connection
    FetchBackoff ... batch sizes and retry pauses of one mailbox, kept across its connections
    SyncSession .... one connection: its mailbox, its services, and facts that are valid while it is open

Nothing in this module calls `folder`, `follower` or `mailbox`. They read the session, use return values, or subscribe
to events.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from mailbox_appliance.clock import Backoff, Clock
from mailbox_appliance.events import Events, MessageArrived
from mailbox_appliance.mail.folder_roles import is_valid_label_name
from mailbox_appliance.model.sync import FolderState
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.settings import Settings
from mailbox_appliance.sync.parsers import Parsers
from mailbox_appliance.sync.storing import StoringThread

if TYPE_CHECKING:
    from mailbox_appliance.oauth.logins import Logins
    from mailbox_appliance.store.store import Store


_MOST_TRIES = 5
# Seconds until a message that the server did not return is requested again, growing fourfold: about nine times a day.
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 6 * 3600.0
# Messages after which the speed of a server is known, and seconds for one message of a quick server.
_MEASURED, _QUICK = 20, 0.005
#: The part of a message that is requested.
FetchKind = Literal["headers", "bodies"]
#: Seconds until the same folder may cause another comparison of all labels.
LABEL_PAUSE = 6 * 3600.0


def is_server_fault(fault: RemoteFault) -> bool:
    """Whether the server reported a problem of its own (UNAVAILABLE or SERVERBUG, RFC 5530), not one of the request."""
    return fault.code in ("UNAVAILABLE", "SERVERBUG")


class Stopped(Exception):
    """Raised when the sync of a mailbox must stop. Stored work is kept; the next sync does the rest."""


class StopSignal:
    """Asks the sync of one mailbox to stop, and cuts its connection. Any thread may use it."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._cut: Callable[[], None] | None = None
        self._is_connecting = False

    @property
    def is_set(self) -> bool:
        """Whether sync was asked to stop."""
        return self._stopping.is_set()

    def set(self) -> None:
        """Ask sync to stop. It stops before its next batch."""
        self._stopping.set()

    def check(self) -> None:
        """Raise Stopped if sync was asked to stop."""
        if self._stopping.is_set():
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Wait so long. Raises Stopped if sync is asked to stop, also meanwhile."""
        if self._stopping.wait(seconds):
            raise Stopped

    def cut(self) -> bool:
        """Cut the connection, so that no thread waits for a silent server.

        Returns False if the connection is still being opened and could not be cut.
        """
        if (cut := self._cut) is not None:
            cut()
        return not self._is_connecting

    @contextmanager
    def connecting(self) -> Iterator[None]:
        """Context manager for opening a connection: until the block ends or `attach` is called, `cut` returns False."""
        self._is_connecting = True
        try:
            yield
        finally:
            self._is_connecting = False

    def attach(self, cut: Callable[[], None]) -> None:
        """Set the function that cuts the open connection. Raises Stopped if sync was asked to stop."""
        self._cut, self._is_connecting = cut, False
        self.check()

    def detach(self) -> None:
        """Forget the function that cuts the connection, because it is closed."""
        self._cut = None


class FetchBackoff:
    """Batch sizes and retry pauses for fetching one mailbox, kept across all its connections.

    If the connection breaks during a batch, or the server refuses the whole batch, the next batches are smaller. So
    each attempt makes some progress.

    A single message that repeatedly breaks the connection or is refused is postponed: some servers crash on a message
    that they cannot read. It is requested again after a pause, since the cause may have been temporary.
    """

    def __init__(self) -> None:
        self._halvings = 0
        self._requested: tuple[FetchKind, int, Sequence[int]] | None = None
        #: By part, folder and UID: how often a request for this message alone failed.
        self._failures = Counter[tuple[FetchKind, int, int]]()
        self._pauses = Backoff[tuple[int, int]](_FIRST_PAUSE, _LONGEST_PAUSE, factor=4)
        #: Whether a request failed. Then headers are fetched before bodies, so that one message delays no other.
        self.has_failed = False
        #: By path: folders that show a label and whose counts are not compared for now.
        self.label_pauses = Backoff[str](LABEL_PAUSE, LABEL_PAUSE)

    def batch_size(self, usual: int) -> int:
        """Return the number of messages to request at once: `usual`, or fewer after failures; at least 1."""
        return max(1, usual >> self._halvings)

    @contextmanager
    def attempt(self, what: FetchKind, folder_number: int, uids: Sequence[int]) -> Iterator[None]:
        """Context manager for one request to the server: remember which messages it asks for (`what` of them).

        A failure makes later batches smaller, a success larger. `folder_number`: the folder's key in the store.
        """
        self._requested = (what, folder_number, uids)
        try:
            yield
        except RemoteFault as fault:
            if fault.kind == "refused" and (is_server_fault(fault) or len(uids) > 1):
                self.record_failure()
            elif fault.kind in ("refused", "throttled"):  # which harms no connection
                self._requested = None
            raise
        self._requested, self._halvings = None, max(0, self._halvings - 1)

    def record_failure(self) -> None:
        """Record that the current request failed. Does nothing if there is none.

        Later batches are smaller. A message that was requested alone is postponed after its fifth failure.
        """
        if self._requested is None:
            return
        self.has_failed = True
        (what, number, uids), self._requested = self._requested, None
        self._halvings = min(self._halvings + 2, 16)
        if len(uids) == 1:
            self._failures[what, number, uids[0]] += 1
            if self._failures[what, number, uids[0]] >= _MOST_TRIES:
                self.postpone(number, uids)

    def has_given_up(self, what: FetchKind, folder_number: int, uid: int) -> bool:
        """Whether headers or bodies (`what`) of this message failed so often that they are not requested now."""
        failed = self._failures[what, folder_number, uid]
        return failed >= _MOST_TRIES and self._pauses.is_paused((folder_number, uid))

    def postpone(self, folder_number: int, uids: Iterable[int]) -> None:
        """Do not request these messages for a minute, four times longer after each failure, at most 6 hours."""
        for uid in uids:
            self._pauses.fail((folder_number, uid))

    def list_postponed(self, folder_number: int) -> frozenset[int]:
        """Return the UIDs of those messages of a folder that must not be requested now."""
        return frozenset(uid for number, uid in self._pauses.list_paused() if number == folder_number)

    def is_suspect(self, folder_number: int, uid: int) -> bool:
        """Whether to request this message alone, because an earlier request did not return it."""
        return (folder_number, uid) in self._pauses

    def record_success(self, folder_number: int, uids: Iterable[int]) -> None:
        """Record that the server returned these messages: they are no longer postponed or requested alone."""
        for uid in uids:
            self._pauses.succeed((folder_number, uid))
            self._failures.pop(("headers", folder_number, uid), None)
            self._failures.pop(("bodies", folder_number, uid), None)

    def reset(self) -> None:
        """End all pauses of messages, so that they are requested now. Used for a full sync that a user requested."""
        self._pauses.end_pauses()
        self.has_failed = False


@dataclass(frozen=True)
class SyncServices:
    """The services that the sync of every mailbox uses."""

    store: "Store"
    logins: "Logins"
    settings: Settings
    events: Events
    clock: Clock
    parsers: Parsers
    storing: StoringThread

    def connect(self, account_id: str, stop: StopSignal) -> ImapMailbox:
        """Connect to the IMAP server of a mailbox and sign in. `stop`: can cut the connection from another thread.

        Raises NotFound, RemoteFault and Stopped.
        """
        ca_file, timeout = self.settings.text("remote.ca_file"), float(self.settings.number("remote.timeout"))
        opening = partial(ImapMailbox.open, ca_file=ca_file, timeout=timeout, on_connected=stop.attach)
        with stop.connecting():
            return self.logins.open_imap(account_id, opening)


@dataclass
class SyncSession:
    """One connection to a mailbox, with the services and facts that its sync uses. One thread at a time may use it."""

    account_id: str
    services: SyncServices
    mailbox: ImapMailbox
    backoff: FetchBackoff
    stop: StopSignal
    #: The selected folder, as far as sync knows.
    selected: str | None = None
    #: Whether messages wait to be recognized in other folders.
    has_gone: bool = False
    #: Whether messages or bodies were stored.
    has_stored: bool = False
    #: The labels created by people that messages had.
    labels: set[str] = field(default_factory=set)
    _whole_seconds: float = 0.0
    _whole_count: int = 0

    @property
    def store(self) -> "Store":
        """The store, which holds all mailboxes."""
        return self.services.store

    @property
    def is_quick(self) -> bool | None:
        """Whether the server returns whole messages so quickly that fetching headers first gains nothing.

        None if too few messages were fetched to know.
        """
        if self._whole_count < _MEASURED:
            return None
        return self._whole_seconds <= self._whole_count * _QUICK

    def note_speed(self, seconds: float, count: int) -> None:
        """Record that the server took so many seconds to return a number of whole messages."""
        self._whole_seconds += seconds
        self._whole_count += count

    def announce(self, message_ids: Iterable[str]) -> None:
        """Publish an event for each of these new messages. Call it after the commit that stored them.

        Also call it, without IDs, after only bodies were stored: that records that this connection made progress.
        """
        self.has_stored = True
        for message_id in message_ids:
            self.services.events.publish(MessageArrived(self.account_id, message_id))

    def note_labels(self, seen: Iterable[frozenset[str]]) -> None:
        """Remember the labels among the flags of messages, to detect labels that no folder shows.

        `seen`: the flags of each message. Does nothing if the server has no labels.
        """
        if self.mailbox.has_labels:
            self.labels.update(filter(is_valid_label_name, frozenset[str]().union(*seen)))

    def select(self, path: str) -> FolderState:
        """Select a folder read-only, and return its state. Raises RemoteFault."""
        self.selected = None
        state = self.mailbox.examine(path)
        self.selected = path
        return state
