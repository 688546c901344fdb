"""The shared services of sync, and the session of one connection.

    SyncServices ... shared by all mailboxes, created once by the supervisor
    StopSignal ..... asks one mailbox to stop, and cuts its connection
    FetchBackoff ... batch size and retry pauses of one mailbox, kept across its connections
    SyncSession .... one connection: what it works with, and what is known while it lasts

Nothing here calls a higher layer. A higher layer reads the session afterwards, gets a return value, or subscribes to an
event.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from mailbox_appliance.clock import Clock
from mailbox_appliance.events import Events, MessageArrived
from mailbox_appliance.mail.folder_roles import is_valid_label_name
from mailbox_appliance.model.sync import FolderState
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.settings import Settings
from mailbox_appliance.sync.parsers import Parsers

if TYPE_CHECKING:
    from mailbox_appliance.oauth.logins import Logins
    from mailbox_appliance.store.store import Store


_MOST_TRIES = 5
# Seconds until a message that the server did not return is requested again, growing fourfold: about nine times a day.
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 6 * 3600.0

#: The part of a message that is requested.
FetchKind = Literal["headers", "bodies"]


def is_server_fault(fault: RemoteFault) -> bool:
    """Whether an error means that the server itself has a problem, whatever was requested (RFC 5530)."""
    return fault.code in ("UNAVAILABLE", "SERVERBUG")


class Stopped(Exception):
    """Raised when sync must stop. What was written stays; the remaining work is done by the next run."""


class StopSignal:
    """Asks the sync of one mailbox to stop, and cuts the connection it waits on. Any thread may use it."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._cut: Callable[[], None] | None = None
        self._is_connecting = False

    @property
    def is_set(self) -> bool:
        """Whether sync must stop."""
        return self._stopping.is_set()

    def set(self) -> None:
        """Ask sync to stop; it does so between two batches."""
        self._stopping.set()

    def check(self) -> None:
        """Raise Stopped if sync must stop."""
        if self._stopping.is_set():
            raise Stopped

    def cut(self) -> bool:
        """Cut the connection, so that no thread waits for a silent server. Returns False while it is still being
        opened.
        """
        if (cut := self._cut) is not None:
            cut()
        return not self._is_connecting

    @contextmanager
    def connecting(self) -> Iterator[None]:
        """Mark that a connection is being opened, which `cut` cannot reach until `attach`."""
        self._is_connecting = True
        try:
            yield
        finally:
            self._is_connecting = False

    def attach(self, cut: Callable[[], None]) -> None:
        """Set the function that cuts the connection from now on. Raises Stopped."""
        self._cut, self._is_connecting = cut, False
        self.check()

    def detach(self) -> None:
        """Forget the connection after it was closed."""
        self._cut = None


class FetchBackoff:
    """Batch sizes and retry pauses of one mailbox, kept across all its connections.

    After a connection breaks in a batch, or the server refuses the whole batch, batches get smaller, so that each
    attempt makes some progress.

    A single message that breaks connection after connection, or is refused, is postponed: some servers crash on a
    message that they cannot read. It is requested again after a pause, since the cause may have been temporary.
    """

    def __init__(self) -> None:
        self._halvings = 0
        self._attempt: tuple[FetchKind, int, Sequence[int]] | None = None
        self._failures: dict[tuple[FetchKind, int, int], int] = {}
        #: By folder and UID: the number of failures, and until when the message is postponed.
        self._pauses: dict[tuple[int, int], tuple[int, float]] = {}
        #: By path: until when the counts of a folder that shows a label are not checked.
        self.label_pauses: dict[str, float] = {}

    def batch_size(self, usual: int) -> int:
        """Return how many messages to request at once, given the usual number."""
        return max(1, usual >> self._halvings)

    @contextmanager
    def attempt(self, what: FetchKind, folder_number: int, uids: Sequence[int]) -> Iterator[None]:
        """Record what is requested inside this context, and how it ends."""
        self._attempt = (what, folder_number, uids)
        try:
            yield
        except RemoteFault as fault:
            if fault.kind == "refused" and (is_server_fault(fault) or len(uids) > 1):
                self.record_failure()
            elif fault.kind in ("refused", "throttled"):  # which harms no connection
                self._attempt = None
            raise
        self._attempt, self._halvings = None, max(0, self._halvings - 1)

    def record_failure(self) -> None:
        """Record that the current attempt failed: the connection was lost, or everything was refused."""
        if self._attempt is None:
            return
        (what, number, uids), self._attempt = self._attempt, None
        self._halvings = min(self._halvings + 2, 16)
        if len(uids) == 1:
            key = (what, number, uids[0])
            self._failures[key] = self._failures.get(key, 0) + 1
            if self._failures[key] >= _MOST_TRIES:
                self.postpone(number, uids)

    def has_given_up(self, what: FetchKind, folder_number: int, uid: int) -> bool:
        """Whether this part of the message failed so often that it is not requested for now."""
        failed = self._failures.get((what, folder_number, uid), 0)
        return failed >= _MOST_TRIES and self._pauses[folder_number, uid][1] > time.monotonic()

    def postpone(self, folder_number: int, uids: Iterable[int]) -> None:
        """Postpone messages that the server did not return."""
        for uid in uids:
            times, _ = self._pauses.get((folder_number, uid), (0, 0.0))
            wait = min(_FIRST_PAUSE * 4 ** min(times, 9), _LONGEST_PAUSE)
            self._pauses[folder_number, uid] = (times + 1, time.monotonic() + wait)

    def list_postponed(self, folder_number: int) -> frozenset[int]:
        """Return the UIDs of a folder's messages that are postponed now."""
        now = time.monotonic()
        return frozenset(
            uid for (number, uid), (_, until) in self._pauses.items() if number == folder_number and until > now
        )

    def is_suspect(self, folder_number: int, uid: int) -> bool:
        """Whether to request a message alone, because an earlier attempt did not return it."""
        return (folder_number, uid) in self._pauses

    def record_success(self, folder_number: int, uids: Iterable[int]) -> None:
        """Record that the server returned these messages."""
        for uid in uids if self._pauses else ():
            self._pauses.pop((folder_number, uid), None)
            self._failures.pop(("headers", folder_number, uid), None)
            self._failures.pop(("bodies", folder_number, uid), None)

    def reset(self) -> None:
        """Allow postponed messages to be requested now, for a full sync that a user asked for."""
        self._pauses = {key: (times, 0.0) for key, (times, _) in self._pauses.items()}


@dataclass(frozen=True)
class SyncServices:
    """The services that all mailboxes share."""

    store: "Store"
    logins: "Logins"
    settings: Settings
    events: Events
    clock: Clock
    parsers: Parsers

    def connect(self, account_id: str, stop: StopSignal) -> ImapMailbox:
        """Connect and sign in to the server of a mailbox; `stop` can cut it. Raises NotFound, RemoteFault and
        Stopped.
        """
        ca_file, timeout = self.settings.text("remote.ca_file"), float(self.settings.number("remote.timeout"))
        opening = partial(ImapMailbox.open, ca_file=ca_file, timeout=timeout, on_connected=stop.attach)
        with stop.connecting():
            return self.logins.open_imap(account_id, opening)


@dataclass
class SyncSession:
    """The state of one connection: what sync works with, and what it knows. One thread at a time may use it."""

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

    @property
    def store(self) -> "Store":
        """The store of all mailboxes."""
        return self.services.store

    def announce(self, message_ids: Iterable[str]) -> None:
        """Publish new messages after the commit that stored them. An empty list means that only bodies were stored."""
        self.has_stored = True
        for message_id in message_ids:
            self.services.events.publish(MessageArrived(self.account_id, message_id))

    def note_labels(self, seen: Iterable[frozenset[str]]) -> None:
        """Record the flags that messages have. On a server with labels, these include the labels."""
        if self.mailbox.has_labels:
            self.labels.update(filter(is_valid_label_name, frozenset[str]().union(*seen)))

    def select(self, path: str) -> FolderState:
        """Select a folder. Raises RemoteFault."""
        self.selected = None
        state = self.mailbox.examine(path)
        self.selected = path
        return state
