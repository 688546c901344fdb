"""Events: values passed to listeners after the commit that made them true."""

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
    """Something that is already so; listeners cannot undo it."""


@dataclass(frozen=True)
class DeliveryPhaseEntered(Event):
    """A delivery operation entered a phase; the next act has not been taken yet."""

    operation_id: str
    phase: str


@dataclass(frozen=True)
class DeliveryScheduled(Event):
    """A scheduled send was accepted, and waits for its time."""

    operation_id: str
    account_id: str


@dataclass(frozen=True)
class DeliverySettled(Event):
    """A delivery operation was given a new status, or was withdrawn (status `withdrawn`)."""

    operation_id: str
    account_id: str
    status: str


@dataclass(frozen=True)
class AccountAdded(Event):
    """A mailbox was connected."""

    account_id: str


@dataclass(frozen=True)
class AccountReconnected(Event):
    """A mailbox's servers are reached in another way from now on, or a login that had failed is good again."""

    account_id: str


@dataclass(frozen=True)
class AccountRemoved(Event):
    """A mailbox was removed, with all that was mirrored of it."""

    account_id: str


@dataclass(frozen=True)
class FolderWritten(Event):
    """We wrote to a folder on the server, so its mirror should be caught up now."""

    account_id: str
    path: str


@dataclass(frozen=True)
class MessageArrived(Event):
    """A message was stored for the first time."""

    account_id: str
    message_id: str


@dataclass(frozen=True)
class BackupFinished(Event):
    """A backup was made, read back and found good."""

    backup_id: str


@dataclass(frozen=True)
class BackupFailed(Event):
    """A daily backup could not be made."""

    reason: str


@dataclass(frozen=True)
class LargeWorkEnded(Event):
    """Something that needed much memory is over: a large message or file went through."""


class Events:
    """A switchboard: listeners are called in the publisher's thread, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[type[Event], list[Callable[[Any], None]]] = defaultdict(list)

    def subscribe(self, kind: type[E], listener: Callable[[E], None]) -> None:
        """Call the listener with every event of exactly this kind from now on."""
        with self._lock:
            self._listeners[kind].append(listener)

    def publish(self, event: Event) -> None:
        """Tell every listener; one that fails is logged and keeps nobody else from hearing."""
        with self._lock:
            listeners = tuple(self._listeners[type(event)])
        for listener in listeners:
            try:
                listener(event)
            except Exception:  # a listener's fault must not become the publisher's
                log.exception("listener_failed", extra={"kind": type(event).__name__})
