"""What sync works with: the services that all mailboxes share, and the session of one connection.

    SyncServices ... shared by all mailboxes, made once by the supervisor
    StopSignal ..... tells one mailbox to end, and cuts its connection
    FetchBackoff ... batch size and retry pauses of one mailbox, kept over its connections
    SyncSession .... one connection: what it works with, and what is known while it lasts

Nothing here calls upward. A layer that must know of something reads it from the session afterwards, gets it as a return
value, or subscribes to the event.
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
# Seconds until a message that was not given is asked for again, four times as long each time: about nine times a day.
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 6 * 3600.0

#: What is asked for of messages.
FetchKind = Literal["headers", "bodies"]


def is_server_fault(fault: RemoteFault) -> bool:
    """Whether a refusal says that the server is at fault, whatever it is asked for (RFC 5530)."""
    return fault.code in ("UNAVAILABLE", "SERVERBUG")


class Stopped(Exception):
    """Sync is to stop; what is written stays, the remaining work is for the next time."""


class StopSignal:
    """Tells the sync of one mailbox to end, and cuts the connection on which it waits. May be used from any thread."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._cut: Callable[[], None] | None = None
        self._is_connecting = False

    @property
    def is_set(self) -> bool:
        """Whether sync is to end."""
        return self._stopping.is_set()

    def set(self) -> None:
        """Tell sync to end; it does so between two batches."""
        self._stopping.set()

    def check(self) -> None:
        """Raise Stopped when sync is to end."""
        if self._stopping.is_set():
            raise Stopped

    def cut(self) -> bool:
        """Cut the connection, so that nobody waits for a silent server; False: it is still being opened."""
        if (cut := self._cut) is not None:
            cut()
        return not self._is_connecting

    @contextmanager
    def connecting(self) -> Iterator[None]:
        """Note that a connection is being opened, which nothing can cut until `attach`."""
        self._is_connecting = True
        try:
            yield
        finally:
            self._is_connecting = False

    def attach(self, cut: Callable[[], None]) -> None:
        """Keep what cuts the connection from now on. Raises Stopped."""
        self._cut, self._is_connecting = cut, False
        self.check()

    def detach(self) -> None:
        """Forget the connection: it is closed."""
        self._cut = None


class FetchBackoff:
    """Smaller batches after a connection broke in one, or all of it was refused, so that each attempt brings in
    something. It is kept for as long as the mailbox is followed, over all its connections.

    A message that breaks connection after connection, alone, is left alone: servers die of one that they cannot read.
    So is one that is refused. After a rest it is asked for again: it may have been the server's bad hour.
    """

    def __init__(self) -> None:
        self._halvings = 0
        self._attempt: tuple[FetchKind, int, Sequence[int]] | None = None
        self._failures: dict[tuple[FetchKind, int, int], int] = {}
        #: By folder and UID: how often it was not given, and until when it is left alone.
        self._pauses: dict[tuple[int, int], tuple[int, float]] = {}
        #: Until when the counts of folders that show a label are left alone, by path.
        self.label_pauses: dict[str, float] = {}

    def batch_size(self, usual: int) -> int:
        """How many messages to ask for at once, given the usual number."""
        return max(1, usual >> self._halvings)

    @contextmanager
    def attempt(self, what: FetchKind, folder_number: int, uids: Sequence[int]) -> Iterator[None]:
        """Note what is asked for meanwhile, and how that ends."""
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
        """Record that the current attempt failed: the connection is lost, or all was refused."""
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
        """Whether this part of the message has failed so often that it is not asked for now."""
        failed = self._failures.get((what, folder_number, uid), 0)
        return failed >= _MOST_TRIES and self._pauses[folder_number, uid][1] > time.monotonic()

    def postpone(self, folder_number: int, uids: Iterable[int]) -> None:
        """Leave these messages alone for a while, as the server did not give them."""
        for uid in uids:
            times, _ = self._pauses.get((folder_number, uid), (0, 0.0))
            wait = min(_FIRST_PAUSE * 4 ** min(times, 9), _LONGEST_PAUSE)
            self._pauses[folder_number, uid] = (times + 1, time.monotonic() + wait)

    def list_postponed(self, folder_number: int) -> frozenset[int]:
        """Return the UIDs of a folder's messages that are left alone now."""
        now = time.monotonic()
        return frozenset(
            uid for (number, uid), (_, until) in self._pauses.items() if number == folder_number and until > now
        )

    def is_suspect(self, folder_number: int, uid: int) -> bool:
        """Whether a message is best asked for alone, since it was not given before."""
        return (folder_number, uid) in self._pauses

    def record_success(self, folder_number: int, uids: Iterable[int]) -> None:
        """Record that the server gave these messages."""
        for uid in uids if self._pauses else ():
            self._pauses.pop((folder_number, uid), None)
            self._failures.pop(("headers", folder_number, uid), None)
            self._failures.pop(("bodies", folder_number, uid), None)

    def reset(self) -> None:
        """Allow what is left alone to be asked for again now: somebody asked for a full sync."""
        self._pauses = {key: (times, 0.0) for key, (times, _) in self._pauses.items()}


@dataclass(frozen=True)
class SyncServices:
    """What all mailboxes have in common."""

    store: "Store"
    logins: "Logins"
    settings: Settings
    events: Events
    clock: Clock
    parsers: Parsers

    def connect(self, account_id: str, stop: StopSignal) -> ImapMailbox:
        """Log in to the server of a mailbox; `stop` can cut it. Raises NotFound, RemoteFault and Stopped."""
        ca_file, timeout = self.settings.text("remote.ca_file"), float(self.settings.number("remote.timeout"))
        opening = partial(ImapMailbox.open, ca_file=ca_file, timeout=timeout, on_connected=stop.attach)
        with stop.connecting():
            return self.logins.open_imap(account_id, opening)


@dataclass
class SyncSession:
    """What sync works with and knows, for as long as a connection lasts. For one thread at a time."""

    account_id: str
    services: SyncServices
    mailbox: ImapMailbox
    backoff: FetchBackoff
    stop: StopSignal
    #: The selected folder, as far as sync knows.
    selected: str | None = None
    #: Whether messages wait to be recognised elsewhere.
    has_gone: bool = False
    #: Whether messages or bodies were stored.
    has_stored: bool = False
    #: The labels of people that messages were seen to have.
    labels: set[str] = field(default_factory=set)

    @property
    def store(self) -> "Store":
        """The store of all mailboxes."""
        return self.services.store

    def announce(self, message_ids: Iterable[str]) -> None:
        """Publish new messages, after the commit that stored them; without any when only bodies were stored."""
        self.has_stored = True
        for message_id in message_ids:
            self.services.events.publish(MessageArrived(self.account_id, message_id))

    def note_labels(self, seen: Iterable[frozenset[str]]) -> None:
        """Note flags that were seen; on a server with labels these are among them."""
        if self.mailbox.has_labels:
            self.labels.update(filter(is_valid_label_name, frozenset[str]().union(*seen)))

    def select(self, path: str) -> FolderState:
        """Select a folder. Raises RemoteFault."""
        self.selected = None
        state = self.mailbox.examine(path)
        self.selected = path
        return state
