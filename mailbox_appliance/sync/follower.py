"""Follows one mailbox over one connection: all folders once, then what changes, until a fault or the word to stop."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mailbox_appliance.clock import Clock
from mailbox_appliance.events import Events, MessageArrived
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.records import MirroredFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.folder import FolderSync, Stopped
from mailbox_appliance.sync.waker import Waker

log = logging.getLogger(__name__)

INBOX = "INBOX"
LONGEST_IDLE = 540.0  # RFC 2177: again before 29 minutes; many networks forget a quiet connection after 10


@dataclass
class Following:
    """What a worker shares with its follower: how to wake and stop it, and how far it has come."""

    waker: Waker
    is_stopping: Callable[[], bool]
    progress: str | None = None


class Follower:
    """Follows a mailbox. Use it once."""

    def __init__(
        self,
        account_id: str,
        store: Store,
        mailbox: ImapMailbox,
        events: Events,
        clock: Clock,
        poll_interval: float,
        following: Following,
    ) -> None:
        self._account_id, self._store, self._mailbox = account_id, store, mailbox
        self._events, self._clock, self._poll_interval = events, clock, poll_interval
        self._following = following
        self._sync = FolderSync(store, mailbox, self._arrived, following.is_stopping)
        self._folders: dict[str, MirroredFolder] = {}

    def run(self, is_ready: Callable[[], None]) -> None:
        """Follow for ever; `is_ready` is called when everything has been looked at once.

        Ends with Stopped or RemoteFault, or NotFound when the mailbox is removed meanwhile.
        """
        looked = self._look_at_everything()
        is_ready()
        while True:
            self._look_at([INBOX])  # last of all: now it is the selected folder, and nothing in it is unknown
            self._wait(looked + self._poll_interval - self._clock.monotonic())
            if self._following.is_stopping():
                raise Stopped
            woken = self._following.waker.take()
            if None in woken or self._clock.monotonic() - looked >= self._poll_interval:
                looked = self._look_at_everything()
            else:
                self._look_at_named([path for path in woken if path is not None])

    def _look_at_everything(self) -> float:
        """List the folders and bring each up to date, the inbox first; answers when that began."""
        began = self._clock.monotonic()
        self._list_folders()
        self._look_at([INBOX, *(path for path in self._folders if path != INBOX)])
        self._following.progress = None
        self._store.accounts.mark_synced(self._account_id)
        return began

    def _look_at_named(self, paths: list[str]) -> None:
        if not self._folders.keys() >= set(paths):  # one that we have just made
            self._list_folders()
        self._look_at(paths)

    def _list_folders(self) -> None:
        listed = self._mailbox.list_folders()
        roles = folder_roles.assign(listed, self._store.folders.user_mapping(self._account_id))
        mirrored = self._store.folders.replace(self._account_id, listed, roles)
        self._folders = {folder.path: folder for folder in mirrored}

    def _look_at(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self._folders:
                continue
            if self._following.is_stopping():
                raise Stopped
            try:
                self._folders[path] = self._sync.run(self._folders[path])
            except RemoteFault as fault:
                # Without the inbox there is nothing to follow; another folder may be closed to us, or just deleted.
                if fault.kind != "refused" or path == INBOX:
                    raise
                folder_id = self._folders[path].id
                log.info("a folder was refused", extra={"accountId": self._account_id, "folderId": folder_id})

    def _wait(self, seconds: float) -> None:
        """Return when the inbox changed, when woken, or after so many seconds."""
        seconds = max(0.0, min(seconds, LONGEST_IDLE))
        if self._mailbox.capabilities.idle and INBOX in self._folders:
            self._mailbox.idle(seconds, self._following.waker.socket)
        else:
            self._following.waker.wait(seconds)

    def _arrived(self, message_ids: tuple[str, ...], left: int) -> None:
        self._following.progress = f"{left} messages of a folder left to fetch" if left else None
        for message_id in message_ids:
            self._events.publish(MessageArrived(self._account_id, message_id))
