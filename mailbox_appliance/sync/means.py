"""What the sync of one mailbox works with: the store, one connection, the parsers, and caution after trouble."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from mailbox_appliance.clock import Clock
from mailbox_appliance.mail.labels import is_nameable
from mailbox_appliance.records import FolderState
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.parser import Parsers

_MOST_TRIES = 5
# Seconds until a message that was not given is asked for again, four times as long each time: about nine times a day.
_FIRST_REST, _LONGEST_REST = 60.0, 6 * 3600.0

#: What is asked for of messages.
Asked = Literal["headers", "bodies"]


def is_of_server(fault: RemoteFault) -> bool:
    """Whether a refusal says that the server is at fault, whatever it is asked for (RFC 5530)."""
    return fault.code in ("UNAVAILABLE", "SERVERBUG")


class Stopped(Exception):
    """Sync was told to stop; what is written stays, the rest is for the next time."""


class Caution:
    """Smaller batches after a connection broke in one, or all of it was refused, so that each attempt brings in
    something; lives as long as the mailbox is followed.

    A message that breaks connection after connection, alone, is left alone: servers die of one that they cannot read.
    So is one that is refused. After a rest it is asked for again: it may have been the server's bad hour.
    """

    def __init__(self) -> None:
        self._halvings = 0
        self._trying: tuple[Asked, int, Sequence[int]] | None = None
        self._failures: dict[tuple[Asked, int, int], int] = {}
        #: By folder and UID: how often it was not given, and until when it is left alone.
        self._rests: dict[tuple[int, int], tuple[int, float]] = {}
        #: Until when the counts of folders that show a label are left alone, by path.
        self.label_rests: dict[str, float] = {}

    def most(self, usual: int) -> int:
        """How many to ask for at once where usually it is so many."""
        return max(1, usual >> self._halvings)

    @contextmanager
    def trying(self, what: Asked, folder_number: int, uids: Sequence[int]) -> Iterator[None]:
        """While these messages are asked for."""
        self._trying = (what, folder_number, uids)
        try:
            yield
        except RemoteFault as fault:
            if fault.kind == "refused" and (is_of_server(fault) or len(uids) > 1):
                self.broke()
            elif fault.kind in ("refused", "throttled"):  # which harms no connection
                self._trying = None
            raise
        self._trying, self._halvings = None, max(0, self._halvings - 1)

    def broke(self) -> None:
        """What was tried has failed: the connection is lost, or all was refused."""
        if self._trying is None:
            return
        (what, number, uids), self._trying = self._trying, None
        self._halvings = min(self._halvings + 2, 16)
        if len(uids) == 1:
            key = (what, number, uids[0])
            self._failures[key] = self._failures.get(key, 0) + 1
            if self._failures[key] >= _MOST_TRIES:
                self.rest(number, uids)

    def is_hopeless(self, what: Asked, folder_number: int, uid: int) -> bool:
        """Whether this of the message has failed so often that it is not asked for now."""
        failed = self._failures.get((what, folder_number, uid), 0)
        return failed >= _MOST_TRIES and self._rests[folder_number, uid][1] > time.monotonic()

    def rest(self, folder_number: int, uids: Iterable[int]) -> None:
        """Leave these messages alone for a while: the server did not give them."""
        for uid in uids:
            times, _ = self._rests.get((folder_number, uid), (0, 0.0))
            wait = min(_FIRST_REST * 4 ** min(times, 9), _LONGEST_REST)
            self._rests[folder_number, uid] = (times + 1, time.monotonic() + wait)

    def resting(self, folder_number: int) -> frozenset[int]:
        """The UIDs of messages of a folder that are left alone now."""
        now = time.monotonic()
        return frozenset(
            uid for (number, uid), (_, until) in self._rests.items() if number == folder_number and until > now
        )

    def is_suspect(self, folder_number: int, uid: int) -> bool:
        """Whether a message is best asked for alone."""
        return (folder_number, uid) in self._rests

    def given(self, folder_number: int, uids: Iterable[int]) -> None:
        """These messages were given."""
        for uid in uids if self._rests else ():
            self._rests.pop((folder_number, uid), None)
            self._failures.pop(("headers", folder_number, uid), None)
            self._failures.pop(("bodies", folder_number, uid), None)

    def relent(self) -> None:
        """Somebody wants everything to be looked at: what is left alone may be asked for again now."""
        self._rests = {key: (times, 0.0) for key, (times, _) in self._rests.items()}


@dataclass
class Means:
    """The means, for as long as a connection lasts."""

    account_id: str
    store: Store
    mailbox: ImapMailbox
    parsers: Parsers
    clock: Clock
    caution: Caution
    #: Told of new messages, after the commit.
    arrived: Callable[[tuple[str, ...]], None]
    #: Raises Stopped when it is time.
    go_on: Callable[[], None]
    #: Has these folders (by number) looked at, since a message may have moved out of them; whether any did.
    look_at: Callable[[frozenset[int]], bool] = field(default=lambda _: False)
    #: The selected folder, as far as sync knows.
    selected: str | None = None
    #: Whether messages wait to be recognised elsewhere.
    has_gone: bool = False
    #: The labels of people that messages were seen to have.
    labels: set[str] = field(default_factory=set)

    def note_labels(self, seen: Iterable[frozenset[str]]) -> None:
        """Flags that were seen; on a server with labels these are among them."""
        if self.mailbox.has_labels:
            self.labels.update(filter(is_nameable, frozenset[str]().union(*seen)))

    def select(self, path: str) -> FolderState:
        """Select a folder. Raises RemoteFault."""
        self.selected = None
        state = self.mailbox.select(path)
        self.selected = path
        return state
