"""The mirrored messages as sync and operations write them: in batches, each of which is one transaction.

Added at first by their header or whole (arrivals); flags change; they leave, are found again, or go (moving, removal).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.clock import to_millis
from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.searched import with_words
from mailbox_appliance.model.records import (
    FetchedMessage,
    FlagChange,
    FoundCopy,
    LocatedMessage,
    MessageIdentity,
    MirroredFolder,
    ParsedMessage,
)
from mailbox_appliance.store import arrivals, landing, moving, removal
from mailbox_appliance.store.arrivals import HEADER, LARGE, WHOLE, Arriving, Place
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.folders import Folders
from mailbox_appliance.store.message_rows import (
    LOCATED,
    as_json,
    flag_bits,
    keywords,
    resized,
    to_located,
    unpack_flags,
)

_CHANGE_FLAGS = "UPDATE messages SET flags = (flags & 64) | ?, keywords = ? WHERE folder = ? AND uid = ?"
_FLAGS = "SELECT uid, flags, keywords FROM messages WHERE folder = ?"
_OF_UIDS = "SELECT number FROM messages WHERE folder = ? AND uid IN (SELECT value FROM json_each(?))"
_OF_IDS = """
SELECT m.number FROM json_each(?) j CROSS JOIN messages m ON m.id = j.value JOIN accounts a ON a.number = m.account
  WHERE a.id = ?"""
_LOCATED = f"""
SELECT {LOCATED} FROM json_each(?) j CROSS JOIN messages m ON m.id = j.value JOIN accounts a ON a.number = m.account
WHERE a.id = ?"""
_FOR_REPLACING = """
SELECT m.number, m.account, m.folder, m.thread, t.id FROM messages m JOIN threads t ON t.number = m.thread
WHERE m.id = ?"""
_LABELED = "SELECT 1 FROM folders WHERE account = ? AND label IS NOT NULL LIMIT 1"


@dataclass(frozen=True)
class PendingCopy:
    """A message of ours that stands in a folder here and not on the server yet: its ids are fixed, it has no UID."""

    message_id: str
    thread_id: str


class Mirror:
    """Writes messages. Each method that writes is one transaction of its own, unless it says otherwise."""

    def __init__(self, database: Database, folders: Folders) -> None:
        self._database, self._folders = database, folders

    # --- what is there --------------------------------------------------------------------------------------------

    def load_flags(self, folder_number: int, uids: Collection[int] | None = None) -> dict[int, frozenset[str]]:
        """UID -> flags of the messages that are mirrored in a folder; of those with these UIDs where they are given."""
        if uids is None:
            sql, values = f"{_FLAGS} AND uid IS NOT NULL", (folder_number,)
            rows = self._database.rows(sql, values)
        else:
            sql = f"{_FLAGS} AND uid IN (SELECT value FROM json_each(?))"
            rows = self._database.rows(sql, (folder_number, as_json(uids)))
        return {uid: unpack_flags(bits, words) for uid, bits, words in rows}

    def count_in_folder(self, folder_number: int) -> int:
        """How many messages with a UID are mirrored in a folder."""
        sql = "SELECT count(*) FROM messages WHERE folder = ? AND uid IS NOT NULL"
        return int(self._database.value(sql, (folder_number,)))

    def list_without_body(self, folder_number: int, limit: int) -> tuple[tuple[int, int], ...]:
        """UID and size of messages of which only the header is here, the newest first."""
        sql = "SELECT uid, size FROM messages WHERE folder = ? AND body = 0 AND uid IS NOT NULL ORDER BY number DESC"
        return tuple((uid, size) for uid, size in self._database.rows(f"{sql} LIMIT ?", (folder_number, limit)))

    def count_without_body(self, account_id: str) -> int:
        """Of how many messages of a mailbox only the header is here."""
        sql = (
            "SELECT count(*) FROM accounts a JOIN folders f ON f.account = a.number JOIN messages m"
            " ON m.folder = f.number WHERE a.id = ? AND m.body = 0"
        )
        return int(self._database.value(sql, (account_id,)))

    def locate(self, account_id: str, message_ids: Iterable[str]) -> dict[str, LocatedMessage]:
        """Where messages lie, by id; those that are not there are left out."""
        rows = self._database.rows(_LOCATED, (as_json(message_ids), account_id))
        folders = {folder.number: folder for folder in self._folders.list(account_id)} if rows else {}
        return {row[0]: to_located(row, folders[row[2]]) for row in rows if row[2] in folders}

    # --- what comes -----------------------------------------------------------------------------------------------

    def add_headers(self, folder: MirroredFolder, batch: Sequence[Arriving]) -> tuple[str, ...]:
        """Add messages of a folder of which only the header is known; answers the ids of the new ones. As `add`."""
        return self._add(folder, batch, HEADER)

    def add(self, folder: MirroredFolder, batch: Sequence[Arriving], *, large: bool = False) -> tuple[str, ...]:
        """Add whole messages of a folder, or large ones without their attachments; answers the ids of the new ones.

        A UID that is there without its body gets it, one that is there whole is passed over. A copy of ours that waits
        in this folder, with the same Message-ID, gets the UID instead of a second row. A folder that is gone takes
        nothing.
        """
        return self._add(folder, batch, LARGE if large else WHOLE)

    def add_bodies(self, folder: MirroredFolder, batch: Sequence[Arriving], *, large: bool = False) -> None:
        """Give those of these messages their body that are listed in this folder without one; pass the others over."""
        ready = _ready(batch)
        with self._database.transaction():
            account = self._find_account(folder.number)
            if account is not None:
                arrivals.fill(self._database, Place(account, folder.number, LARGE if large else WHOLE), ready)

    def add_pending(
        self, folder: MirroredFolder, message: FetchedMessage, parsed: ParsedMessage, copy: PendingCopy
    ) -> None:
        """Add our copy of a message before the server has it, under promised ids. Inside a transaction.

        `parsed` is best `with_words`, since making them takes long.
        """
        account = self._find_account(folder.number)
        if account is not None:
            arrivals.insert(
                self._database,
                Place(account, folder.number, WHOLE),
                [(message, parsed)],
                (copy.message_id, copy.thread_id),
            )
            if self._database.value(_LABELED, (account,)) is not None:  # a provider files at once what is sent
                self.set_uid(copy.message_id, None)

    def drop_pending(self, message_id: str) -> None:
        """Let a copy of ours go that is not on the server: another message stands for it. Inside a transaction."""
        number = self._database.value("SELECT number FROM messages WHERE id = ? AND uid IS NULL", (message_id,))
        if number is not None:
            removal.delete(self._database, [number])

    def replace_source(
        self,
        message_id: str,
        message: FetchedMessage,
        parsed: ParsedMessage,
        into: MirroredFolder | None = None,
    ) -> None:
        """Give a message (a draft) another content under its id; it has no UID until `set_uid`. Raises NotFound.

        `into`: where the new version lies, if the earlier one may lie elsewhere by now.
        """
        parsed = with_words(parsed)
        with self._database.transaction():
            row = self._database.row(_FOR_REPLACING, (message_id,))
            if row is None:
                raise NotFound(what="message")
            number, account, folder, thread, thread_id = row
            self._database.change("DELETE FROM messages WHERE number = ?", (number,))
            place = Place(account, into.number if into is not None else folder, WHOLE)
            arrivals.insert(self._database, place, [(message, parsed)], (message_id, thread_id))
            removal.delete_empty_threads(self._database, [thread])

    def set_uid(
        self, message_id: str, uid: int | None, size: int | None = None, internal_date: datetime | None = None
    ) -> None:
        """Note where the server put a message of ours, with the size and date that it has there; None: not told.

        Where sync has seen it there meanwhile, that row goes, and the promised id stays with all that the row knew.
        Another message keeps its UID.
        """
        millis = None if internal_date is None else to_millis(internal_date)
        with self._database.transaction():
            account = self._database.value("SELECT account FROM messages WHERE id = ?", (message_id,))
            if account is not None:
                landing.set_uid(self._database, account, message_id, uid, size, millis)

    def record_server_copy(self, message_id: str, found: FoundCopy) -> None:
        """Note where a message of ours was found at the server, and as what. As `set_uid`."""
        seen = found.seen
        if found.uid is None or seen is None or seen.provider_id is None:
            self.set_uid(message_id, found.uid, found.size, found.internal_date)
            return
        with self._database.transaction():
            account = self._find_account(found.folder.number)
            if account is not None:
                landing.settle(self._database, account, found.folder.number, message_id, seen)

    def change_flags(self, folder_number: int, changes: Sequence[FlagChange]) -> None:
        """Set the flags of messages of a folder."""
        rows = [(flag_bits(c.flags), keywords(c.flags), folder_number, c.uid) for c in changes]
        with self._database.transaction():
            self._database.change_many(_CHANGE_FLAGS, rows)

    # --- what goes ------------------------------------------------------------------------------------------------

    def delete_by_uid(self, folder_number: int, uids: Sequence[int]) -> None:
        """Delete messages of a folder that the server no longer has, in batches."""
        for start in range(0, len(uids), removal.BATCH):
            with self._database.transaction():
                rows = self._database.rows(_OF_UIDS, (folder_number, as_json(uids[start : start + removal.BATCH])))
                removal.delete(self._database, [row[0] for row in rows])

    def delete_by_id(self, account_id: str, message_ids: Collection[str]) -> None:
        """Delete messages that we removed from the server, wherever sync has them by now."""
        with self._database.transaction():
            rows = self._database.rows(_OF_IDS, (as_json(message_ids), account_id))
            removal.delete(self._database, [row[0] for row in rows])

    def detach(self, folder_number: int, uids: Collection[int] | None) -> int:
        """Let messages of a folder be gone, None: all of them; answers how many. In batches, each a transaction.

        They stay readable until they are found in another place, or purged.
        """
        return moving.detach(self._database, folder_number, uids)

    def reattach(self, folder: MirroredFolder, sightings: Sequence[MessageIdentity]) -> frozenset[int]:
        """Let messages that are gone be those that were seen in this folder; answers the UIDs that are settled so."""
        with self._database.transaction():
            account = self._find_account(folder.number)
            if account is None:
                return frozenset()
            return moving.reattach(self._database, account, folder.number, sightings)

    def find_other_folders(self, folder: MirroredFolder, sightings: Sequence[MessageIdentity]) -> frozenset[int]:
        """The numbers of other folders of the mailbox in which one of these messages lies as far as we know."""
        account = self._find_account(folder.number)
        return (
            moving.elsewhere(self._database, account, folder.number, sightings) if account is not None else frozenset()
        )

    def record_moves(self, account_id: str, moves: Sequence[tuple[str, int, int | None]]) -> None:
        """Note what we moved: message id, number of the folder it is in now, its UID there (None: not known)."""
        with self._database.transaction():
            moving.move(self._database, self._account_number(account_id), moves)

    def correct_sizes(self, number: int, sizes: Mapping[tuple[str, str], int]) -> None:
        """Note how large attachments of a message are, by part and type, now that they were seen."""
        sql = "SELECT attachments FROM messages WHERE number = ?"
        if (packed := self._database.value(sql, (number,))) is None or resized(packed, sizes) is None:
            return
        with self._database.transaction():
            packed = self._database.value(sql, (number,))
            if packed is not None and (changed := resized(packed, sizes)) is not None:
                self._database.change("UPDATE messages SET attachments = ? WHERE number = ?", (changed, number))

    def has_gone(self, account_id: str) -> bool:
        """Whether any message of a mailbox is gone."""
        sql = "SELECT 1 FROM messages WHERE account = ? AND gone = 1 LIMIT 1"
        return self._database.value(sql, (self._account_number(account_id),)) is not None

    def list_gone(self, account_id: str) -> frozenset[int]:
        """The numbers of the messages of a mailbox that are gone."""
        return moving.list_gone(self._database, self._account_number(account_id))

    def purge_gone(self, account_id: str, before: frozenset[int] | None = None) -> int:
        """Delete the messages that are gone, or those of `before` that still are; answers how many. In batches."""
        return moving.purge(self._database, self._account_number(account_id), before)

    def _add(self, folder: MirroredFolder, batch: Sequence[Arriving], body: int) -> tuple[str, ...]:
        ready = _ready(batch)
        with self._database.transaction():
            account = self._find_account(folder.number)
            return () if account is None else arrivals.add(self._database, Place(account, folder.number, body), ready)

    def _find_account(self, folder_number: int) -> int | None:
        number: int | None = self._database.value("SELECT account FROM folders WHERE number = ?", (folder_number,))
        return number

    def _account_number(self, account_id: str) -> int:
        """The number of a mailbox; 0, which none has, where it is gone."""
        return int(self._database.value("SELECT number FROM accounts WHERE id = ?", (account_id,)) or 0)


def _ready(batch: Sequence[Arriving]) -> list[Arriving]:
    """A batch with all that takes long and needs no transaction."""
    return [(message, with_words(parsed)) for message, parsed in batch]
