"""Reads and writes the mirrored folders of a mailbox: paths, roles and sync states (UIDVALIDITY, UIDNEXT,
HIGHESTMODSEQ).

A label folder is a folder of a server with labels, such as Gmail: its messages are stored in the folder of all mail,
and the label folder only shows them. A message is gone if its folder no longer contains it and it was not found in
another one yet.
"""

import json
from collections.abc import Mapping, Sequence

from msgspec import UNSET

from mailbox_appliance.errors import AllMailHidden, NotFound
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.model.accounts import FolderRole, RoleSource
from mailbox_appliance.model.messages import Folder
from mailbox_appliance.model.sync import FolderState, ListedFolder, MirroredFolder
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store import moves
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.messages import as_json

_SELECT = """
SELECT f.number, f.id, a.id, f.path, f.delimiter, f.role, f.role_source,
  f.uidvalidity, f.uidnext, f.exists_count, f.highestmodseq, f.label
FROM folders f JOIN accounts a ON a.number = f.account"""
_SHOWN = """
SELECT f.id, f.name, f.role, f.role_source, f.path,
  CASE WHEN f.label IS NULL THEN (SELECT count(*) FROM messages m WHERE m.folder = f.number AND m.flags & 1 = 0)
    ELSE (SELECT count(*) FROM message_labels l WHERE l.folder = f.number AND l.flags & 1 = 0) END,
  CASE WHEN f.label IS NULL THEN (SELECT count(*) FROM messages m WHERE m.folder = f.number)
    ELSE (SELECT count(*) FROM message_labels l WHERE l.folder = f.number) END
FROM folders f JOIN accounts a ON a.number = f.account WHERE a.id = ? ORDER BY f.role IS NULL, f.path"""

_IS_NAMED = "(f.id = :name OR f.role = lower(:name) OR f.path = :name OR f.name = :name)"
# `archive` is the role, while `Archive` may be the name of a folder without that role.
_BEST_NAMED = "f.id = :name DESC, f.role IS :name DESC, f.path = :name DESC, f.role IS lower(:name) DESC"

#: 0 is stored for a server that reports none.
_NO_UIDVALIDITY = -1

_LABELED = "SELECT 1 FROM folders WHERE account = ? AND label IS NOT NULL LIMIT 1"
_SET_LABEL = "UPDATE folders SET label = ?1 WHERE account = ?2 AND path = ?3 AND label IS NOT ?1"

# For mailboxes with labels: each folder is counted from an index alone.
_IS_ALL_TOLD = """
SELECT (SELECT count(*) FROM messages WHERE account = a.number)
  = (SELECT count(*) FROM messages WHERE account = a.number AND provider_id IS NOT NULL)
  FROM accounts a WHERE a.id = ?"""
_IS_ANY_TOLD = """
SELECT 1 FROM accounts a CROSS JOIN messages m INDEXED BY messages_provider
  ON m.account = a.number AND m.provider_id > '' WHERE a.id = ? LIMIT 1"""
_OLDER = "SELECT 1 FROM messages WHERE folder = ? AND provider_id IS NULL AND gone = 0 LIMIT 1"

_REFUGE = """
SELECT number FROM folders WHERE account = ? AND label IS NULL AND path IN (SELECT value FROM json_each(?))
  ORDER BY role IS 'trash' DESC, path = 'INBOX' LIMIT 1"""


class Folders:
    """Reads and writes the mirrored folders. Methods that write run in transactions of their own, unless stated."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, account_id: str) -> tuple[MirroredFolder, ...]:
        """Return the folders of a mailbox, ordered by path."""
        rows = self._database.rows(f"{_SELECT} WHERE a.id = ? ORDER BY f.path", (account_id,))
        return tuple(map(_to_mirrored, rows))

    def list_with_counts(self, account_id: str) -> tuple[Folder, ...]:
        """Return the folders of a mailbox as clients see them, with total and unread counts.

        Folders with a role come first; within both groups they are ordered by path.
        """
        return tuple(map(_to_folder, self._database.rows(_SHOWN, (account_id,))))

    def count_labeled(self, number: int) -> int:
        """Return the number of messages that have a label. `number`: row number of the label's folder."""
        return int(self._database.value("SELECT count(*) FROM message_labels WHERE folder = ?", (number,)))

    def find_by_role(self, account_id: str, role: FolderRole) -> MirroredFolder | None:
        """Return the folder with this role, or None."""
        row = self._database.row(f"{_SELECT} WHERE a.id = ? AND f.role = ?", (account_id, role))
        return None if row is None else _to_mirrored(row)

    def find(self, account_id: str, name: str) -> MirroredFolder | None:
        """Return the folder whose ID, role, path or name is `name` (input by people), tried in this order, or None."""
        row = self._database.row(
            f"{_SELECT} WHERE a.id = :account AND {_IS_NAMED} ORDER BY {_BEST_NAMED} LIMIT 1",
            {"account": account_id, "name": name},
        )
        return None if row is None else _to_mirrored(row)

    def find_numbers(self, account_ids: Sequence[str], name: str) -> tuple[int, ...]:
        """Return the row numbers of the folders that `find` returns for these mailboxes."""
        rows = self._database.rows(
            "SELECT f.account, f.number FROM json_each(:accounts) j CROSS JOIN accounts a ON a.id = j.value"
            f" CROSS JOIN folders f ON f.account = a.number WHERE {_IS_NAMED} ORDER BY {_BEST_NAMED}",
            {"accounts": as_json(account_ids), "name": name},
        )
        best: dict[int, int] = {}
        for account, number in rows:
            best.setdefault(account, number)
        return tuple(best.values())

    def get_message_folder(self, folder: MirroredFolder) -> MirroredFolder:
        """Return the folder in which the messages of a folder are stored.

        Usually that is the folder itself. For a folder that stands for a label, as on Gmail, it is the folder of all
        mail. Raises AllMailHidden if the server does not show the folder of all mail.
        """
        return folder if folder.label is None else self.find_all_mail(folder.account_id) or folder

    def list_numbers(self, account_id: str) -> frozenset[int]:
        """Return the numbers of a mailbox's folders."""
        sql = "SELECT number FROM folders WHERE account = (SELECT number FROM accounts WHERE id = ?)"
        return frozenset(number for (number,) in self._database.rows(sql, (account_id,)))

    def find_all_mail(self, account_id: str) -> MirroredFolder | None:
        """Return the folder of all mail, in which a server with labels keeps all messages; None for a server without
        labels.

        Raises AllMailHidden if the server has labels but does not show that folder.
        """
        sql = "SELECT 1 FROM accounts a JOIN folders f ON f.account = a.number AND f.label IS NOT NULL WHERE a.id = ?"
        if self._database.value(f"{sql} LIMIT 1", (account_id,)) is None:
            return None
        row = self._database.row(f"{_SELECT} WHERE a.id = ? AND f.role = 'all' AND f.label IS NULL", (account_id,))
        if row is None:
            raise AllMailHidden
        return _to_mirrored(row)

    def replace(
        self,
        account_id: str,
        listed: Sequence[ListedFolder],
        roles: Mapping[str, tuple[FolderRole, RoleSource]] | None = None,
    ) -> tuple[MirroredFolder, ...]:
        """Replace the mirrored folders by those that the server lists, and return the new ones, ordered by path.

        `roles`: path -> role and its source; by default they are computed from the listing and the member's mapping. A
        folder whose path stays keeps its ID. The messages of a removed folder are marked `gone` and kept for now, since
        they may have moved or the folder may have been renamed. Raises NotFound if the mailbox is gone.
        """
        with self._database.transaction():
            account = self._database.value("SELECT number FROM accounts WHERE id = ?", (account_id,))
            if account is None:
                raise NotFound(what="mailbox")
            if roles is None:  # In the transaction, since a person may be changing the mapping at this moment.
                roles = folder_roles.assign_roles(listed, self.get_user_mapping(account_id))
            self._database.change_many(
                "INSERT INTO folders (id, account, path, name, delimiter, role, role_source)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account, path) DO UPDATE SET name = excluded.name,"
                " delimiter = excluded.delimiter, role = excluded.role, role_source = excluded.role_source",
                [
                    (new_id("fld"), account, folder.path, _name(folder), folder.delimiter)
                    + (roles.get(folder.path) or (None, None))
                    for folder in listed
                ],
            )
            if self._set_labels(account, listed):
                self.forget_positions(account_id)
        kept = {folder.path for folder in listed}
        for folder in self.list(account_id):
            if folder.path not in kept:
                self._remove_folder(account, folder.number, kept)
        return self.list(account_id)

    def detach_unlabeled(self, account_id: str, home: str) -> bool:
        """Mark the messages as `gone` that an older release, without support for labels, has mirrored.

        Such a release may have stored a message once for each of its labels. The next sync recognizes one of these
        rows, and the others are deleted. `home`: path of the folder of all mail.

        Returns whether the next sync must compare the folders again. If this call is interrupted, call it again. Do not
        call it during a sync of the mailbox.
        """
        folders = self.list(account_id)
        refuge = next((folder.number for folder in folders if folder.path == home), None)
        has_labels = any(folder.label is not None for folder in folders)
        if refuge is None or not has_labels or self._database.value(_IS_ALL_TOLD, (account_id,)):
            return False
        found = [folder for folder in folders if self._database.value(_OLDER, (folder.number,)) is not None]
        if not found and self._database.value(_IS_ANY_TOLD, (account_id,)) is not None:
            return False
        with self._database.transaction():
            self.forget_positions(account_id)
        for folder in found:
            if folder.label is None:
                moves.detach_without_provider_id(self._database, folder.number)
            else:
                moves.evacuate_folder(self._database, folder.number, refuge)
        return True

    def add_listed(self, account_id: str, listed: Sequence[ListedFolder]) -> None:
        """Add the listed folders that are new, and assign the roles of all folders again. Raises NotFound if the
        mailbox is gone.

        Folders that are not listed stay: the next sync finds out whether their messages have moved.
        """
        paths = {folder.path for folder in listed}
        with self._database.transaction():  # The mapping must be the one in effect when the roles are written.
            roles = folder_roles.assign_roles(listed, self.get_user_mapping(account_id))
            left = [folder for folder in self.list(account_id) if folder.path not in paths]
            kept = (ListedFolder(folder.path, folder.delimiter, frozenset(), folder.label) for folder in left)
            self.replace(account_id, (*listed, *kept), roles)

    def set_state(self, number: int, state: FolderState) -> None:
        """Store the UIDVALIDITY, UIDNEXT, number of messages and HIGHESTMODSEQ of a folder (row number)."""
        with self._database.transaction():
            sql = (
                "UPDATE folders SET uidvalidity = ?, uidnext = ?, exists_count = ?, highestmodseq = ? WHERE number = ?"
            )
            self._database.change(sql, (state.uidvalidity, state.uidnext, state.exists, state.highestmodseq, number))

    def forget_positions(self, account_id: str) -> None:
        """Make the next sync compare all folders of a mailbox with the server again. Call it inside a transaction.

        Use it when known UIDs may belong to other messages now. It stores a UIDVALIDITY that no server has (RFC 9051
        2.3.1.1). So sync ignores the old UIDs and recognizes messages by Message-ID, size and date.
        """
        self._database.change(
            f"UPDATE folders SET uidvalidity = {_NO_UIDVALIDITY}, uidnext = 1, exists_count = 0, highestmodseq = NULL"
            " WHERE uidvalidity IS NOT NULL AND account = (SELECT number FROM accounts WHERE id = ?)",
            (account_id,),
        )

    def get_user_mapping(self, account_id: str) -> dict[FolderRole, str]:
        """Return role -> path of the folders to which a member gave a role."""
        sql = "SELECT j.key, j.value FROM accounts a, json_each(a.mapped_folders) j WHERE a.id = ?"
        return dict(self._database.rows(sql, (account_id,)))

    def set_user_mapping(self, account_id: str, mapping: Mapping[FolderRole, str | None]) -> None:
        """Change the folders to which a member gave roles. `mapping`: role -> path, or None to remove the role's
        mapping.

        Roles that `mapping` does not contain are not changed.
        """
        with self._database.transaction():
            # json_patch follows RFC 7396: null removes a member.
            sql = "UPDATE accounts SET mapped_folders = json_patch(mapped_folders, ?) WHERE id = ?"
            self._database.change(sql, (json.dumps(mapping), account_id))

    def _remove_folder(self, account: int, number: int, kept: set[str]) -> None:
        """The messages are kept for now in another folder, marked `gone`. `kept`: paths of the folders that stay."""
        refuge = self._database.value(_REFUGE, (account, as_json(kept)))
        if refuge is None:
            moves.delete_folder_messages(self._database, number)
        else:
            moves.evacuate_folder(self._database, number, refuge)
        with self._database.transaction():
            self._database.change("DELETE FROM folders WHERE number = ?", (number,))

    def _set_labels(self, account: int, listed: Sequence[ListedFolder]) -> bool:
        """Returns True if the mailbox had no folders for labels before."""
        has_labels = self._database.value(_LABELED, (account,)) is not None
        if has_labels or any(folder.label is not None for folder in listed):
            rows = [(folder.label, account, folder.path) for folder in listed]
            self._database.change_many(_SET_LABEL, rows)
        return not has_labels and any(folder.label is not None for folder in listed)


def _name(folder: ListedFolder) -> str:
    return folder.path.rsplit(folder.delimiter, 1)[-1] if folder.delimiter else folder.path


def _to_mirrored(row: Row) -> MirroredFolder:
    number, identity, account_id, path, delimiter, role, source, *position, label = row
    state = None if position[0] is None else FolderState(*position)
    return MirroredFolder(number, identity, account_id, path, delimiter, role, source, state, label)


def _to_folder(row: Row) -> Folder:
    return Folder(
        id=row[0],
        name=row[1],
        role=row[2] or UNSET,
        role_source=row[3] or UNSET,
        path=row[4],
        unread_count=row[5],
        total_count=row[6],
    )
