"""Drafts at the server: created, replaced as a whole, removed permanently.

What a client was answered stays true: the server has a new version before the mirror does, and the earlier one is
removed last, so that whenever we stop there is at least one of them.

On a server with labels they are put into the folder for drafts, which shows them, and lie among all mail.
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
#: Flags that a new version does not take over from the one it replaces.
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
    """A draft as it is to lie at the server: its source with CRLF, its Message-ID, and when it was written."""

    source: Content = field(repr=False)
    message_id: str
    at: datetime


class Drafts:
    """Writes the drafts of mailboxes; each draft is worked on by one at a time, whatever the thread.

    All methods that write raise RemoteFault where the server does not play its part. Without `may_delete` only what is
    marked as a draft (`\\Draft`), here and at the server, is replaced or removed: any message can be moved among them.
    """

    def __init__(self, connections: Connections, store: "Store", events: Events) -> None:
        self._connections, self._store, self._events = connections, store, events
        self._locks = KeyedLocks()
        #: By id: while one request decides to send a draft, or to change it, others wait.
        self.decision_locks = KeyedLocks()

    def locate(self, account_id: str, draft_id: str, *, may_delete: bool) -> LocatedMessage:
        """A draft that one may replace or remove. Raises NotFound, NotMarkedAsDraft."""
        found = self._store.mailbox_writer.locate(account_id, [draft_id]).get(draft_id)
        if found is None or not (_is_marked_as_draft(found) or found.folder.role == "drafts"):
            raise NotFound(what="draft")
        if not (_is_marked_as_draft(found) or may_delete):
            raise NotMarkedAsDraft(details=(Detail("capability", "mail.delete"),))
        return found

    def create(
        self, account_id: str, version: DraftVersion, thread_id: str | None, *, record: Callable[[], None] | None = None
    ) -> str:
        """Put a new draft into the drafts folder, which is made where there is none; answers the draft's id.

        `record` is called in the very transaction in which the mirror learns of it.
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
        """Have this version among the drafts, however often this is called and whenever it was broken off.

        Where it cannot be known whether an earlier call has put it there, it is put there again: better two drafts, or
        one that somebody has removed meanwhile, than none. `record` as in `create`.
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
        """Whether it is known as a draft somewhere: then it was put there, and moved by somebody since."""
        message_id = canonical_message_id(version.message_id) or ""
        found = self._store.messages.find_by_message_id(account_id, message_id)
        located = self._store.mailbox_writer.locate(account_id, [found] if found is not None else [])
        return any(map(_is_marked_as_draft, located.values()))

    def is_on_server(self, account_id: str, draft_id: str, version: str | None) -> bool:
        """Whether a draft lies among the drafts of the server in this version. Raises RemoteFault."""
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
        """Remove a draft that has been sent, if it is still in this version (`version_of`); answers a warning if not.

        Raises SyncRequired where it is not where it was: it may be in another place.
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
        """Put a new version in the place of a draft, under the same id; return the warnings for the caller.

        Raises as `locate` does, and SyncRequired where the server no longer has the draft that is to be replaced.
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
        """Remove a draft permanently. Raises as `replace` does."""
        with self._locks.lock(draft_id):
            self._remove(self.locate(account_id, draft_id, may_delete=may_delete), may_delete)

    def _replace_on_server(self, old: LocatedMessage, version: DraftVersion, parsed: ParsedMessage) -> None:
        flags = _FLAGS | {flag for flag in old.flags if flag.lower() not in _NOT_KEPT}
        landed = self._append(self._target_folder(old), version, flags)
        with self._store.database.transaction():
            self._store.mailbox_writer.replace_source(old.id, _to_fetched(version, flags), parsed, old.folder)
            self._store.mailbox_writer.record_server_copy(old.id, landed)

    def _target_folder(self, old: LocatedMessage) -> MirroredFolder:
        """Where the next version is put: where the one before lies, or what shows it there."""
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
        """APPEND, and what can be learned of what is there then. Raises RemoteFault where it may not be there."""
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
            landed = None  # what is done is done: sync finds the rest out
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
                    return ()  # somebody else has removed it
                try:
                    bulk.permanent_delete(self._store, mailbox, folder, [old])
                except RemoteFault as fault:
                    if fault.kind != "unsupported":
                        raise
                    # Without UIDPLUS: other programs show it as deleted and remove it with theirs.
                    mailbox.store_flags(folder.path, _uids(old), add=frozenset({"\\Deleted"}), remove=frozenset())
                    return (_LEFT_BEHIND,)
        except RemoteFault:
            return (_LEFT_BEHIND,)
        self._store.mailbox_writer.delete_by_uid(folder.number, _uids(old))
        return ()

    def _notify_sync(self, folder: MirroredFolder) -> None:
        self._events.publish(FolderWritten(folder.account_id, folder.path))


def version_of(draft: LocatedMessage) -> str:
    """What distinguishes one version of a draft from the next, wherever it lies: its id stays the same."""
    return draft.message_id or f"{draft.size} bytes of {to_timestamp(draft.internal_date)}"


def _to_fetched(version: DraftVersion, flags: frozenset[str]) -> FetchedMessage:
    return FetchedMessage(0, flags, version.at, len(version.source), b"")  # the mirror takes what is parsed


def _parse_version(version: DraftVersion) -> ParsedMessage:
    """The version as the mirror takes it. It takes long, so it is not for a transaction."""
    return with_searched_words(parse_content(version.source))


def _is_marked_as_draft(message: LocatedMessage) -> bool:
    return "\\draft" in {flag.lower() for flag in message.flags}


def _find_on_server(
    mailbox: ImapMailbox, folder: MirroredFolder, version: DraftVersion, uid: int | None
) -> FoundCopy | None:
    """What the server has of a version, by the UID that it gave or else by the Message-ID; None where it has none.

    Its size there need not be that of the source, and its date not the one that was asked for.
    """
    if uid is not None:
        return client.find_by_uid(mailbox, folder, uid)
    return client.find_by_message_id(mailbox, folder, version.message_id, _draft_flags_of(folder))


def _draft_flags_of(folder: MirroredFolder) -> frozenset[str]:
    """What drafts have there that other messages lack; nothing where they lie in a folder of their own."""
    return frozenset({"\\Draft"}) if folder.role == "all" else frozenset()


def _with_labels(mailbox: ImapMailbox, landed: FoundCopy, flags: frozenset[str]) -> FoundCopy:
    """A new version with the labels of the one before, which cannot be given as it is put there."""
    seen = landed.seen
    if seen is None or seen.provider_id is None or flags <= seen.flags:
        return landed
    mailbox.store_flags(landed.folder.path, [seen.uid], add=flags - seen.flags, remove=frozenset())
    return replace(landed, seen=replace(seen, flags=seen.flags | flags))


def _is_among_drafts(message: LocatedMessage) -> bool:
    """Whether people find it there: what was thrown away is still marked as a draft."""
    role = message.folder.role
    return role == "drafts" or (_is_marked_as_draft(message) and role not in ("trash", "spam"))


def _uids(message: LocatedMessage) -> list[int]:
    return [] if message.uid is None else [message.uid]
