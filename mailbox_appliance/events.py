"""Events: values that are passed to listeners after the commit that made them true."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

log = logging.getLogger(__name__)
E = TypeVar("E", bound="Event")


@dataclass(frozen=True)
class Event:
    """Something that has already happened; listeners cannot undo it."""


@dataclass(frozen=True)
class DeliveryPhaseEntered(Event):
    """A delivery operation entered a phase; the step that follows has not been taken yet."""

    operation_id: str
    phase: str


@dataclass(frozen=True)
class DeliveryScheduled(Event):
    """A scheduled message was accepted and waits for its time."""

    operation_id: str
    account_id: str


@dataclass(frozen=True)
class DeliverySettled(Event):
    """A delivery operation got a new status, or was withdrawn (status `withdrawn`)."""

    operation_id: str
    account_id: str
    status: str


@dataclass(frozen=True)
class AccountAdded(Event):
    """A mailbox was connected."""

    account_id: str


@dataclass(frozen=True)
class AccountReconnected(Event):
    """The servers or credentials of a mailbox changed, or a login that had failed works again."""

    account_id: str


@dataclass(frozen=True)
class AccountRemoved(Event):
    """A mailbox was removed, with everything that was mirrored of it."""

    account_id: str


@dataclass(frozen=True)
class FolderWritten(Event):
    """The appliance wrote to a folder on the server, so the folder should be synced now."""

    account_id: str
    path: str


@dataclass(frozen=True)
class MessageArrived(Event):
    """A message was stored for the first time."""

    account_id: str
    message_id: str


@dataclass(frozen=True)
class BackupFinished(Event):
    """A backup was made and verified by reading it back."""

    backup_id: str


@dataclass(frozen=True)
class BackupFailed(Event):
    """A daily backup failed."""

    reason: str


@dataclass(frozen=True)
class LargeWorkEnded(Event):
    """Work that needed much memory ended: a large message or file was processed."""


class Events:
    """Passes events to listeners, in the publisher's thread and in the order of subscription."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[type[Event], list[Callable[[Any], None]]] = defaultdict(list)

    def subscribe(self, kind: type[E], listener: Callable[[E], None]) -> None:
        """Call the listener with every later event of exactly this kind."""
        with self._lock:
            self._listeners[kind].append(listener)

    def publish(self, event: Event) -> None:
        """Call every listener. A listener that fails is logged, and the others are still called."""
        with self._lock:
            listeners = tuple(self._listeners[type(event)])
        for listener in listeners:
            try:
                listener(event)
            except Exception:  # a listener's failure must not become the publisher's
                log.exception("listener_failed", extra={"kind": type(event).__name__})
