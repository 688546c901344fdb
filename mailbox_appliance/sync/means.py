"""What the sync of one mailbox works with: the store, one connection, the parsers, and caution after trouble."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from mailbox_appliance.clock import Clock
from mailbox_appliance.records import FolderState
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.parser import Parsers

_MOST_TRIES = 5

#: What is asked for of messages.
Asked = Literal["headers", "bodies"]


class Stopped(Exception):
    """Sync was told to stop; what is written stays, the rest is for the next time."""


class Caution:
    """Smaller batches after a connection broke in one, so that each connection brings in something; lives as long as
    the mailbox is followed.

    A message that breaks connection after connection, alone, is given up: servers die of one that they cannot read.
    """

    def __init__(self) -> None:
        self._halvings = 0
        self._trying: tuple[Asked, int, Sequence[int]] | None = None
        self._failures: dict[tuple[Asked, int, int], int] = {}

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
            if fault.kind == "refused":  # which harms no connection
                self._trying = None
            raise
        self._trying, self._halvings = None, max(0, self._halvings - 1)

    def broke(self) -> None:
        """The connection is lost."""
        if self._trying is None:
            return
        (what, number, uids), self._trying = self._trying, None
        self._halvings = min(self._halvings + 2, 16)
        if len(uids) == 1:
            key = (what, number, uids[0])
            self._failures[key] = self._failures.get(key, 0) + 1

    def is_hopeless(self, what: Asked, folder_number: int, uid: int) -> bool:
        """Whether this of the message has broken so many connections that it is not asked for again."""
        return self._failures.get((what, folder_number, uid), 0) >= _MOST_TRIES


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

    def select(self, path: str) -> FolderState:
        """Select a folder. Raises RemoteFault."""
        self.selected = None
        state = self.mailbox.select(path)
        self.selected = path
        return state
