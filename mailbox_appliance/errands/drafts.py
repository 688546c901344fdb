"""Drafts at the server: put there, replaced as a whole, removed for good.

What a client was told stays true: the server has a new version before the mirror does, and the earlier one is removed
last of all, so that whenever we stop there is at least one of them.
"""

from dataclasses import dataclass, field
from datetime import datetime

from mailbox_appliance.errands import role_folders
from mailbox_appliance.errands.connections import Connections
from mailbox_appliance.errands.identity import identified
from mailbox_appliance.errors import SyncRequired
from mailbox_appliance.events import Events, FolderTouched
from mailbox_appliance.ids import new_id
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.records import FetchedMessage, LocatedMessage, MirroredFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.mirror import PendingCopy
from mailbox_appliance.store.store import Store

_FLAGS = frozenset({"\\Draft", "\\Seen"})
#: Flags that a new version does not take over from the one it replaces.
_NOT_KEPT = frozenset({"\\recent", "\\deleted"})
_LEFT_BEHIND = "The version before could not be removed from the server; it may still be listed beside the new one."


@dataclass(frozen=True)
class Version:
    """A draft as it is to lie at the server: its source with CRLF, its Message-ID, and when it was written."""

    source: bytes = field(repr=False)
    message_id: str
    at: datetime


class Drafts:
    """Writes the drafts of mailboxes. All methods raise RemoteFault where the server does not play its part."""

    def __init__(self, connections: Connections, store: Store, events: Events) -> None:
        self._connections, self._store, self._events = connections, store, events

    def create(self, account_id: str, version: Version, thread_id: str | None) -> str:
        """Put a new draft into the drafts folder, which is made where there is none; answers the draft's id."""
        with self._connections.borrow(account_id) as mailbox:
            folder = role_folders.of_role(self._store, mailbox, account_id, "drafts")
        uid = self._put(folder, version, _FLAGS)
        copy = PendingCopy(new_id("msg"), thread_id or new_id("thr"))
        with self._store.database.transaction():
            self._store.mirror.add_pending(folder, _fetched(version, _FLAGS), parse(version.source), copy)
            self._note_uid(copy.message_id, folder, uid)
        self._touch(folder)
        return copy.message_id

    def replace(self, draft: LocatedMessage, version: Version) -> tuple[str, ...]:
        """Put a new version in the place of a draft, under the same id; answers what one should be told.

        Raises SyncRequired where the server no longer has the draft that is to be replaced.
        """
        folder = draft.folder
        with self._connections.borrow(folder.account_id) as mailbox:
            old = self._identified(mailbox, draft)
        flags = _FLAGS | {flag for flag in old.flags if flag.lower() not in _NOT_KEPT}
        uid = self._put(folder, version, flags)
        with self._store.database.transaction():
            self._store.mirror.replace_source(draft.id, _fetched(version, flags), parse(version.source))
            self._note_uid(draft.id, folder, uid)
        try:
            return self._remove_old(old)
        finally:
            self._touch(folder)

    def remove(self, draft: LocatedMessage) -> None:
        """Remove a draft for good. Raises SyncRequired as `replace` does."""
        folder = draft.folder
        try:
            with self._connections.borrow(folder.account_id) as mailbox:
                there = self._identified(mailbox, draft)
                mailbox.expunge(folder.path, _uids(there))
        except RemoteFault as fault:
            if fault.in_doubt:
                self._touch(folder)
            raise
        self._store.mirror.remove(folder.number, _uids(there))
        self._touch(folder)

    def _put(self, folder: MirroredFolder, version: Version, flags: frozenset[str]) -> int | None:
        """APPEND, and the new UID as far as it can be learned."""
        try:
            with self._connections.borrow(folder.account_id) as mailbox:
                uid = mailbox.append(folder.path, version.source, flags=flags, at=version.at)
                return uid if uid is not None else _newest(mailbox.find(folder.path, version.message_id))
        except RemoteFault as fault:
            if not fault.in_doubt:
                raise
            with self._connections.borrow(folder.account_id) as mailbox:  # it may be there all the same
                uid = _newest(mailbox.find(folder.path, version.message_id))
            if uid is None:
                raise
            return uid

    def _note_uid(self, message_id: str, folder: MirroredFolder, uid: int | None) -> None:
        # Sync may have seen the new UID already; then its row gives way to ours, whose id the client knows.
        if uid is not None:
            self._store.mirror.moved(folder.account_id, [(message_id, folder.number, uid)])

    def _identified(self, mailbox: ImapMailbox, draft: LocatedMessage) -> LocatedMessage:
        found, _ = identified(self._store, mailbox, draft.folder, [draft])
        if not found:
            self._touch(draft.folder)
            raise SyncRequired
        return found[0]

    def _remove_old(self, old: LocatedMessage) -> tuple[str, ...]:
        folder = old.folder
        try:
            with self._connections.borrow(folder.account_id) as mailbox:
                if not identified(self._store, mailbox, folder, [old])[0]:
                    return ()  # somebody else has removed it
                try:
                    mailbox.expunge(folder.path, _uids(old))
                except RemoteFault as fault:
                    if fault.kind != "unsupported":
                        raise
                    # Without UIDPLUS: other programs show it as deleted and remove it with theirs.
                    mailbox.store_flags(folder.path, _uids(old), add=frozenset({"\\Deleted"}), remove=frozenset())
                    return (_LEFT_BEHIND,)
        except RemoteFault:
            return (_LEFT_BEHIND,)
        self._store.mirror.remove(folder.number, _uids(old))
        return ()

    def _touch(self, folder: MirroredFolder) -> None:
        self._events.publish(FolderTouched(folder.account_id, folder.path))


def _fetched(version: Version, flags: frozenset[str]) -> FetchedMessage:
    return FetchedMessage(0, flags, version.at, len(version.source), version.source)


def _newest(uids: tuple[int, ...]) -> int | None:
    return max(uids, default=None)


def _uids(message: LocatedMessage) -> list[int]:
    return [] if message.uid is None else [message.uid]
