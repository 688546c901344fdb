"""Events by which one part of the appliance informs others, after the change is committed to the store."""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

log = logging.getLogger(__name__)
E = TypeVar("E", bound="Event")


@dataclass(frozen=True)
class Event:
    """Base class of events. An event reports something that has already happened; listeners cannot prevent it."""

    @property
    def label(self) -> str:
        """One of a few words by which events of this class are counted separately."""
        return ""


@dataclass(frozen=True)
class DeliveryPhaseEntered(Event):
    """A delivery operation recorded its next phase, such as `connecting`. The action of that phase follows."""

    operation_id: str
    phase: str


@dataclass(frozen=True)
class DeliveryScheduled(Event):
    """A scheduled message was accepted and waits for its time."""

    operation_id: str
    account_id: str


@dataclass(frozen=True)
class DeliverySettled(Event):
    """A delivery operation got a new status.

    The status `withdrawn` means that it was deleted before its ID was returned to any client.
    """

    operation_id: str
    account_id: str
    status: str

    @property
    def label(self) -> str:
        """The status."""
        return self.status


@dataclass(frozen=True)
class SignInRejected(Event):
    """A sign-in attempt was rejected, because of one of `wrong` (password, code or link), `suspended`, `throttled` or
    `busy`.
    """

    reason: str

    @property
    def label(self) -> str:
        """The reason."""
        return self.reason


@dataclass(frozen=True)
class AccountAdded(Event):
    """A mailbox was connected."""

    account_id: str


@dataclass(frozen=True)
class AccountReconnected(Event):
    """The servers or credentials of a mailbox changed, or a sign-in to its servers that had failed works again."""

    account_id: str


@dataclass(frozen=True)
class AccountRemoved(Event):
    """A mailbox was removed from the appliance, with the local copy of its mail."""

    account_id: str


@dataclass(frozen=True)
class FolderWritten(Event):
    """The appliance changed a folder on the mail server, so the folder should be synced now."""

    account_id: str
    path: str


@dataclass(frozen=True)
class MessageArrived(Event):
    """A message was stored by sync for the first time."""

    account_id: str
    message_id: str


@dataclass(frozen=True)
class BackupFinished(Event):
    """A backup was created and verified by reading it back."""

    backup_id: str


@dataclass(frozen=True)
class BackupFailed(Event):
    """A daily backup failed."""

    reason: str


@dataclass(frozen=True)
class LargeWorkEnded(Event):
    """Work that needed much memory ended, such as processing a large message or file. Listeners can release memory."""


class Events:
    """Passes each published event to the listeners of its class, in the publisher's thread and in order of
    subscription. It also counts the events, for `/metrics`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[type[Event], list[Callable[[Any], None]]] = defaultdict(list)
        self._counts: Counter[tuple[type[Event], str]] = Counter()

    def subscribe(self, kind: type[E], listener: Callable[[E], None]) -> None:
        """Call `listener` with every later event of exactly this class; subclasses do not count."""
        with self._lock:
            self._listeners[kind].append(listener)

    def count(self, kind: type[Event], label: str = "") -> int:
        """Return how many events of exactly this class were published with this label."""
        with self._lock:
            return self._counts[kind, label]

    def publish(self, event: Event) -> None:
        """Call every listener of this event. An exception in a listener is logged, and the others are still called."""
        with self._lock:
            self._counts[type(event), event.label] += 1
            listeners = tuple(self._listeners[type(event)])
        for listener in listeners:
            try:
                listener(event)
            except Exception:  # a listener's failure must not become the publisher's
                log.exception("listener_failed", extra={"kind": type(event).__name__})
