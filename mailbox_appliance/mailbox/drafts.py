"""Drafts at the server: created, replaced as a whole, removed permanently.

An answer to a client stays true: the server gets a new version before the mirror does, and the previous version is
removed last. So at least one version exists at every moment.

On a server with labels drafts are uploaded to the drafts folder, which shows them, and are in All Mail.
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
    """A version of a draft for the server: its raw message with CRLF, its Message-ID, and its time."""

    source: Content = field(repr=False)
    message_id: str
    at: datetime


class Drafts:
    """Writes the drafts of mailboxes; one thread at a time works on a draft.

    All methods that write raise RemoteFault if the server fails. Without `may_delete` they replace or remove only
    messages that are marked as drafts (`\\Draft`) in the mirror and at the server, since any message can be moved to
    the folder.
    """

    def __init__(self, connections: Connections, store: "Store", events: Events) -> None:
        self._connections, self._store, self._events = connections, store, events
        self._locks = KeyedLocks()
        #: By ID: while one request sends or changes a draft, others wait.
        self.decision_locks = KeyedLocks()

    def locate(self, account_id: str, draft_id: str, *, may_delete: bool) -> LocatedMessage:
        """Return a draft that the caller may replace or remove. Raises NotFound, NotMarkedAsDraft."""
        found = self._store.mailbox_writer.locate(account_id, [draft_id]).get(draft_id)
        if found is None or not (_is_marked_as_draft(found) or found.folder.role == "drafts"):
            raise NotFound(what="draft")
        if not (_is_marked_as_draft(found) or may_delete):
            raise NotMarkedAsDraft(details=(Detail("capability", "mail.delete"),))
        return found

    def create(
        self, account_id: str, version: DraftVersion, thread_id: str | None, *, record: Callable[[], None] | None = None
    ) -> str:
        """Upload a new draft to the drafts folder, created if necessary; return the draft's ID.

        `record` is called in the same transaction that adds the draft to the mirror.
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
        """Save this version as a draft. Idempotent, even after an interrupted call.

        If it is unknown whether an earlier call saved it, it is saved again: a second draft, or one that a person has
        deleted, is better than none. `record` as in `create`.
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
        """Whether a draft with this Message-ID exists in any folder: an earlier call saved it, and a person moved
        it.
        """
        message_id = canonical_message_id(version.message_id) or ""
        found = self._store.messages.find_by_message_id(account_id, message_id)
        located = self._store.mailbox_writer.locate(account_id, [found] if found is not None else [])
        return any(map(_is_marked_as_draft, located.values()))

    def is_on_server(self, account_id: str, draft_id: str, version: str | None) -> bool:
        """Whether the drafts folder at the server has a draft in this version. Raises RemoteFault."""
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
        """Remove a draft that was sent, if it still has this version (`version_of`); otherwise return a warning.

        Raises SyncRequired if it is no longer where it was: it may be in another folder.
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
        """Replace a draft by a new version under the same ID; return warnings for the caller.

        Raises as `locate` does, and SyncRequired if the server no longer has the draft.
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
        """Delete a draft permanently. Raises as `replace` does."""
        with self._locks.lock(draft_id):
            self._remove(self.locate(account_id, draft_id, may_delete=may_delete), may_delete)

    def _replace_on_server(self, old: LocatedMessage, version: DraftVersion, parsed: ParsedMessage) -> None:
        flags = _FLAGS | {flag for flag in old.flags if flag.lower() not in _NOT_KEPT}
        landed = self._append(self._target_folder(old), version, flags)
        with self._store.database.transaction():
            self._store.mailbox_writer.replace_source(old.id, _to_fetched(version, flags), parsed, old.folder)
            self._store.mailbox_writer.record_server_copy(old.id, landed)

    def _target_folder(self, old: LocatedMessage) -> MirroredFolder:
        """Return the folder for the next version: that of the previous one, or on a server with labels the drafts
        folder.
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
        """Upload a version and return its place, as far as it is known. Raises RemoteFault if it may not have been
        saved.
        """
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
    """Return a text that differs between the versions of a draft, whose ID stays the same, and not between folders."""
    return draft.message_id or f"{draft.size} bytes of {to_timestamp(draft.internal_date)}"


def _to_fetched(version: DraftVersion, flags: frozenset[str]) -> FetchedMessage:
    # the mirror uses the parsed form, not these bytes
    return FetchedMessage(0, flags, version.at, len(version.source), b"")


def _parse_version(version: DraftVersion) -> ParsedMessage:
    """Parse a version for the mirror. Slow, so call it outside of transactions."""
    return with_searched_words(parse_content(version.source))


def _is_marked_as_draft(message: LocatedMessage) -> bool:
    return "\\draft" in {flag.lower() for flag in message.flags}


def _find_on_server(
    mailbox: ImapMailbox, folder: MirroredFolder, version: DraftVersion, uid: int | None
) -> FoundCopy | None:
    """Return the server's copy of a version, by the UID that it returned or else by Message-ID; None if it has none.

    The size and date there can differ from those of the upload.
    """
    if uid is not None:
        return client.find_by_uid(mailbox, folder, uid)
    return client.find_by_message_id(mailbox, folder, version.message_id, _draft_flags_of(folder))


def _draft_flags_of(folder: MirroredFolder) -> frozenset[str]:
    """Return the flags that only drafts have in this folder; none if drafts have a folder of their own."""
    return frozenset({"\\Draft"}) if folder.role == "all" else frozenset()


def _with_labels(mailbox: ImapMailbox, landed: FoundCopy, flags: frozenset[str]) -> FoundCopy:
    """Set the labels of the previous version on a new one, since an upload cannot include them."""
    seen = landed.seen
    if seen is None or seen.provider_id is None or flags <= seen.flags:
        return landed
    mailbox.store_flags(landed.folder.path, [seen.uid], add=flags - seen.flags, remove=frozenset())
    return replace(landed, seen=replace(seen, flags=seen.flags | flags))


def _is_among_drafts(message: LocatedMessage) -> bool:
    """Whether people find it in the drafts folder: a message in trash is still marked as a draft."""
    role = message.folder.role
    return role == "drafts" or (_is_marked_as_draft(message) and role not in ("trash", "spam"))


def _uids(message: LocatedMessage) -> list[int]:
    return [] if message.uid is None else [message.uid]
