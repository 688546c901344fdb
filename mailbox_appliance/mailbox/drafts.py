"""Drafts at the server: created, replaced as a whole, removed permanently.

The server gets a new version before the local mirror does, and the previous version is removed last. So at least one
version exists at every moment, and a client that got an answer can rely on it.

On a server with labels, drafts are uploaded to the drafts folder, and their messages are in All Mail.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.errors import Detail, NotFound, NotMarkedAsDraft, SyncRequired
from mailbox_appliance.events import Events, FolderWritten
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.mail.search import with_searched_words
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.mailbox import bulk
from mailbox_appliance.mailbox.bulk import match_on_server
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.mailbox.locks import KeyedLocks
from mailbox_appliance.model.base import own_text
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.deliveries import FoundCopy
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.model.sync import FetchedMessage, LocatedMessage, MirroredFolder
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import client
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.mailbox_writer import PendingCopy

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store

_FLAGS = frozenset({"\\Draft", "\\Seen"})
#: Flags that a new version does not inherit from the one that it replaces.
_NOT_KEPT = frozenset({"\\recent", "\\deleted"})
_LEFT_BEHIND = own_text(
    "The previous version could not be removed from the server. It may still be listed beside the new one."
)
_CHANGED = own_text(
    "The draft was changed after it was submitted. The current version was not sent and stays in the drafts folder."
)
_NOT_REMOVED = own_text(
    "The draft could not be deleted permanently on the server. Other mail programs may still show it."
)


@dataclass(frozen=True)
class DraftVersion:
    """A version of a draft to upload: its raw message with CRLF line ends, Message-ID, and date for the server."""

    source: Content = field(repr=False)
    message_id: str
    at: datetime


class Drafts:
    """Writes the drafts of mailboxes. Only one thread at a time works on a draft.

    All methods that write raise RemoteFault if the server fails. `may_delete`: whether the caller may delete messages.
    If not, only messages that are marked as drafts (`\\Draft`), in the local mirror and at the server, are replaced or
    removed, since any message can be moved to the drafts folder.
    """

    def __init__(self, connections: Connections, store: "Store", events: Events) -> None:
        self._connections, self._store, self._events = connections, store, events
        self._locks = KeyedLocks()
        #: By ID: while one request sends or changes a draft, others wait.
        self.decision_locks = KeyedLocks()

    def locate(self, account_id: str, draft_id: str, *, may_delete: bool) -> LocatedMessage:
        """Return a draft that the caller may replace or remove. Raises NotFound if there is no such draft.

        `may_delete`: whether the caller may delete messages. If not, a message in the drafts folder without the flag
        `\\Draft` raises NotMarkedAsDraft.
        """
        found = self._store.mailbox_writer.locate(account_id, [draft_id]).get(draft_id)
        if found is None or not (_is_marked_as_draft(found) or found.folder.role == "drafts"):
            raise NotFound(what="draft")
        if not (_is_marked_as_draft(found) or may_delete):
            raise NotMarkedAsDraft(details=(Detail("capability", "mail.delete"),))
        return found

    def create(
        self, account_id: str, version: DraftVersion, thread_id: str | None, *, record: Callable[[], None] | None = None
    ) -> str:
        """Upload a new draft to the drafts folder, which is created if necessary. Returns the draft's ID.

        `thread_id`: the thread of the draft; None for a new one. `record`: is called in the transaction that adds the
        draft to the local mirror.
        """
        with self._connections.borrow(account_id) as mailbox:
            folder = bulk.ensure_role_folder(self._store, mailbox, account_id, "drafts")
        home = self._store.folders.get_message_folder(folder)
        parsed, copy = _parse_version(version), PendingCopy(new_id("msg"), thread_id or new_id("thr"))
        try:
            landed = self._append(folder, version, _FLAGS)
            with self._store.database.transaction():
                self._store.mailbox_writer.add_pending(home, _to_fetched(version, _FLAGS), parsed, copy)
                self._store.mailbox_writer.record_server_copy(copy.message_id, landed)
                if record is not None:
                    record()
        finally:
            self._notify_sync(home)
        return copy.message_id

    def ensure_saved(self, account_id: str, version: DraftVersion, thread_id: str, record: Callable[[], None]) -> None:
        """Save this version as a draft, unless the mailbox has it already, so that an interrupted call can be repeated.

        If it is unknown whether an earlier call saved it, it is saved again: a second draft is better than none.
        `record`: is called in the transaction that adds the draft to the local mirror.
        """
        with self._connections.borrow(account_id) as mailbox:
            folder = self._store.folders.get_message_folder(
                bulk.ensure_role_folder(self._store, mailbox, account_id, "drafts")
            )
            found = client.find_by_message_id(mailbox, folder, version.message_id, _draft_flags_of(folder))
        if found is not None:
            self._notify_sync(folder)
        elif not self._is_mirrored(account_id, version):
            self.create(account_id, version, thread_id, record=record)

    def _is_mirrored(self, account_id: str, version: DraftVersion) -> bool:
        """Whether the mirror has a draft with this version's Message-ID, in any folder.

        If so, an earlier call has saved the version; a person may have moved it since.
        """
        message_id = canonical_message_id(version.message_id) or ""
        found = self._store.messages.find_by_message_id(account_id, message_id)
        located = self._store.mailbox_writer.locate(account_id, [found] if found is not None else [])
        return any(map(_is_marked_as_draft, located.values()))

    def is_on_server(self, account_id: str, draft_id: str, version: str | None) -> bool:
        """Whether the drafts folder at the server still has a draft in this version. Raises RemoteFault.

        `version`: a value of `version_of`, or None for any version.
        """
        with self._locks.lock(draft_id):
            draft = self._store.mailbox_writer.locate(account_id, [draft_id]).get(draft_id)
            if draft is None or version not in (None, version_of(draft)) or not _is_among_drafts(draft):
                return False
            with self._connections.borrow(account_id) as mailbox:
                found, _ = match_on_server(self._store, mailbox, draft.folder, [draft])
            if not found:
                self._notify_sync(draft.folder)
            return any("\\deleted" not in {flag.lower() for flag in each.flags} for each in found)

    def remove_sent(self, account_id: str, draft_id: str, version: str | None) -> str | None:
        """Remove a draft that was sent, if it has not been changed since. Returns a warning if it stays.

        `version`: the version that was sent, by `version_of`; None for any. Raises SyncRequired if the draft is no
        longer where it was: it may be in another folder.
        """
        with self._locks.lock(draft_id):
            draft = self._store.mailbox_writer.locate(account_id, [draft_id]).get(draft_id)
            if draft is None:
                return None
            if version is not None and version != version_of(draft):
                return _CHANGED
            try:
                self._remove(draft, may_delete=True)
            except RemoteFault as fault:
                if fault.kind != "unsupported":
                    raise
                self._remove_old(draft)  # without UIDPLUS
                self._notify_sync(draft.folder)
                return _NOT_REMOVED
        return None

    def replace(self, account_id: str, draft_id: str, version: DraftVersion, *, may_delete: bool) -> tuple[str, ...]:
        """Replace a draft by a new version under the same ID. Returns warnings for the client.

        `may_delete`: whether the caller may delete messages. If not, a message without the flag `\\Draft` raises
        NotMarkedAsDraft. Also raises NotFound, RemoteFault, and SyncRequired if the server no longer has the draft.
        """
        parsed = _parse_version(version)
        with self._locks.lock(draft_id):
            draft = self.locate(account_id, draft_id, may_delete=may_delete)
            with self._connections.borrow(account_id) as mailbox:
                old = self._match_on_server(mailbox, draft, may_delete)
            try:
                self._replace_on_server(old, version, parsed)
                return self._remove_old(old)
            finally:
                self._notify_sync(draft.folder)

    def remove(self, account_id: str, draft_id: str, *, may_delete: bool) -> None:
        """Delete a draft permanently.

        `may_delete`: whether the caller may delete messages. If not, a message without the flag `\\Draft` raises
        NotMarkedAsDraft. Also raises NotFound, RemoteFault, and SyncRequired if the server no longer has the draft.
        """
        with self._locks.lock(draft_id):
            self._remove(self.locate(account_id, draft_id, may_delete=may_delete), may_delete)

    def _replace_on_server(self, old: LocatedMessage, version: DraftVersion, parsed: ParsedMessage) -> None:
        flags = _FLAGS | {flag for flag in old.flags if flag.lower() not in _NOT_KEPT}
        landed = self._append(self._target_folder(old), version, flags)
        with self._store.database.transaction():
            self._store.mailbox_writer.replace_source(old.id, _to_fetched(version, flags), parsed, old.folder)
            self._store.mailbox_writer.record_server_copy(old.id, landed)

    def _target_folder(self, old: LocatedMessage) -> MirroredFolder:
        """Return the folder to which to upload the next version of the draft `old`.

        That is its own folder, or the drafts folder if the draft is in All Mail of a server with labels.
        """
        if not _draft_flags_of(old.folder):
            return old.folder
        with self._connections.borrow(old.folder.account_id) as mailbox:
            return bulk.ensure_role_folder(self._store, mailbox, old.folder.account_id, "drafts")

    def _remove(self, draft: LocatedMessage, may_delete: bool) -> None:
        folder = draft.folder
        try:
            with self._connections.borrow(folder.account_id) as mailbox:
                there = self._match_on_server(mailbox, draft, may_delete)
                bulk.permanent_delete(self._store, mailbox, folder, [there])
        except RemoteFault as fault:
            if fault.in_doubt:
                self._notify_sync(folder)
            raise
        self._store.mailbox_writer.delete_by_id(folder.account_id, [there.id])
        self._notify_sync(folder)

    def _append(self, folder: MirroredFolder, version: DraftVersion, flags: frozenset[str]) -> FoundCopy:
        """Upload a version. Returns its folder and UID, if known. Raises RemoteFault if it may not be saved."""
        doubt: RemoteFault | None = None
        uid: int | None = None
        known = folder.state.uidvalidity if folder.state is not None else None
        home = self._store.folders.get_message_folder(folder)
        try:
            with self._connections.borrow(folder.account_id) as mailbox:
                uid = mailbox.append(folder.path, version.source, flags=flags, at=version.at, uidvalidity=known)
        except RemoteFault as fault:
            if not fault.in_doubt:
                raise
            doubt = fault
        try:
            with self._connections.borrow(folder.account_id) as mailbox:
                landed = _find_on_server(mailbox, home, version, uid if home == folder else None)
                landed = landed and _with_labels(mailbox, landed, flags)
        except RemoteFault:
            landed = None  # it was saved; sync finds its UID
        if landed is None and doubt is not None:
            raise doubt
        return landed or FoundCopy(home, uid if home == folder else None)

    def _match_on_server(self, mailbox: ImapMailbox, draft: LocatedMessage, may_delete: bool) -> LocatedMessage:
        found, _ = match_on_server(self._store, mailbox, draft.folder, [draft])
        if not found or not (may_delete or _is_marked_as_draft(found[0])):
            self._notify_sync(draft.folder)
            raise SyncRequired
        return found[0]

    def _remove_old(self, old: LocatedMessage) -> tuple[str, ...]:
        folder = old.folder
        try:
            with self._connections.borrow(folder.account_id) as mailbox:
                if not match_on_server(self._store, mailbox, folder, [old])[0]:
                    return ()  # another client has removed it
                try:
                    bulk.permanent_delete(self._store, mailbox, folder, [old])
                except RemoteFault as fault:
                    if fault.kind != "unsupported":
                        raise
                    # Without UIDPLUS it is only marked: other programs show it as deleted, and remove it with their
                    # own.
                    mailbox.store_flags(folder.path, _uids(old), add=frozenset({"\\Deleted"}), remove=frozenset())
                    return (_LEFT_BEHIND,)
        except RemoteFault:
            return (_LEFT_BEHIND,)
        self._store.mailbox_writer.delete_by_uid(folder.number, _uids(old))
        return ()

    def _notify_sync(self, folder: MirroredFolder) -> None:
        self._events.publish(FolderWritten(folder.account_id, folder.path))


def version_of(draft: LocatedMessage) -> str:
    """Return a text by which to compare versions of a draft. It stays the same if the draft is moved."""
    return draft.message_id or f"{draft.size} bytes of {to_timestamp(draft.internal_date)}"


def _to_fetched(version: DraftVersion, flags: frozenset[str]) -> FetchedMessage:
    # the mirror uses the parsed form, not these bytes
    return FetchedMessage(0, flags, version.at, len(version.source), b"")


def _parse_version(version: DraftVersion) -> ParsedMessage:
    """Parse a version for the local mirror and its search index. This is slow, so call it outside of transactions."""
    return with_searched_words(parse_content(version.source))


def _is_marked_as_draft(message: LocatedMessage) -> bool:
    return "\\draft" in {flag.lower() for flag in message.flags}


def _find_on_server(
    mailbox: ImapMailbox, folder: MirroredFolder, version: DraftVersion, uid: int | None
) -> FoundCopy | None:
    """Find a version in this folder at the server, after its upload. Returns None if it is not found.

    `uid`: the UID that the server returned for the upload; None if it returned none, so that the Message-ID is
    searched. The size and date of the result are those that the server reports, which can differ from those of the
    upload.
    """
    if uid is not None:
        return client.find_by_uid(mailbox, folder, uid)
    return client.find_by_message_id(mailbox, folder, version.message_id, _draft_flags_of(folder))


def _draft_flags_of(folder: MirroredFolder) -> frozenset[str]:
    """Return the flags that distinguish drafts from other messages in this folder; empty unless it is All Mail."""
    return frozenset({"\\Draft"}) if folder.role == "all" else frozenset()


def _with_labels(mailbox: ImapMailbox, landed: FoundCopy, flags: frozenset[str]) -> FoundCopy:
    """Add missing flags and labels to an uploaded version, on a server where an upload cannot have labels.

    `landed`: the version as the server has it. `flags`: all that it should have. Returns it with these flags.
    """
    seen = landed.seen
    if seen is None or seen.provider_id is None or flags <= seen.flags:
        return landed
    mailbox.store_flags(landed.folder.path, [seen.uid], add=flags - seen.flags, remove=frozenset())
    return replace(landed, seen=replace(seen, flags=seen.flags | flags))


def _is_among_drafts(message: LocatedMessage) -> bool:
    """Whether a message is shown among the drafts of its mailbox. A draft in trash or spam is not."""
    role = message.folder.role
    return role == "drafts" or (_is_marked_as_draft(message) and role not in ("trash", "spam"))


def _uids(message: LocatedMessage) -> list[int]:
    return [] if message.uid is None else [message.uid]
