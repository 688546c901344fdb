"""Records of backups and of store checks, as the API returns them."""

from collections.abc import Callable
from typing import Literal

from mailbox_appliance.model.base import Timestamp, Wire

#: Called during long work with the current step, the units done, and their total.
Progress = Callable[[str, int, int], None]
BackupReason = Literal["manual", "daily", "migration", "pre-restore"]
#: A problem with daily backups: the last attempt failed, or the newest is older than two days.
BackupTrouble = Literal["failed", "overdue"]


class Backup(Wire, frozen=True, kw_only=True):
    """A backup in the data directory.

    - id: Backup ID.
    - file_name: Name of the file in the folder `backups`.
    - created_at: When it was created.
    - reason: `manual`, `daily`, `migration` (before an upgrade) or `pre-restore` (the store that a restore replaced).
    - format: Format of the store in it.
    - version: Release that created it.
    - size_bytes: Size of the file, in bytes.
    - passphrase_protected: Whether it opens only with a passphrase; otherwise anyone who has the file can open it.
    - verified: Whether it was verified after it was created, and no damage was found since.
    """

    id: str
    file_name: str
    created_at: Timestamp
    reason: BackupReason
    format: int
    version: str
    size_bytes: int
    passphrase_protected: bool
    verified: bool


class BackupSummary(Wire, frozen=True, kw_only=True):
    """The contents of a verified backup.

    - ok: Always true; a damaged backup is an error.
    - created_at: When it was created.
    - format: Format of the store in it.
    - version: Release that created it.
    - members: Number of members.
    - accounts: Number of mailboxes.
    - messages: Number of messages.
    """

    ok: bool
    created_at: Timestamp
    format: int
    version: str
    members: int
    accounts: int
    messages: int


class StoreFault(Wire, frozen=True, kw_only=True):
    """A problem found in the store.

    - code: Kind of problem.
    - message: Explanation for people.
    """

    code: str
    message: str


class StoreCheck(Wire, frozen=True, kw_only=True):
    """The result of an integrity check of the store.

    - ok: Whether no problem was found.
    - full: Whether it was a full check.
    - format: Format of the store.
    - checked: What was checked.
    - problems: The problems that were found.
    """

    ok: bool
    full: bool
    format: int
    checked: tuple[str, ...]
    problems: tuple[StoreFault, ...]
