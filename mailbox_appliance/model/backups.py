"""Backups and checks of the store."""

from collections.abc import Callable
from typing import Literal

from mailbox_appliance.model.base import Timestamp, Wire

#: Told while long work goes on: what is being done, how much of it, out of how much.
Progress = Callable[[str, int, int], None]
BackupReason = Literal["manual", "daily", "migration", "pre-restore"]
#: What is wrong with daily backups: the last attempt failed, or the newest is older than two days.
BackupTrouble = Literal["failed", "overdue"]


class Backup(Wire, frozen=True, kw_only=True):
    """A backup in `backups/`. `format`: of the store in it; `version`: the release that made it; `verified`: it was
    read back and checked after it was written. `passphraseProtected`: whoever has the file alone cannot open it.
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
    """What a backup holds, after all of it was read and checked: how many members, mailboxes and messages."""

    ok: bool
    created_at: Timestamp
    format: int
    version: str
    members: int
    accounts: int
    messages: int


class StoreFault(Wire, frozen=True, kw_only=True):
    """Something in a store that is not as it should be; `code` names its kind."""

    code: str
    message: str


class StoreCheck(Wire, frozen=True, kw_only=True):
    """What looking through a store found. `checked`: what was looked at; `full`: all there is to look at."""

    ok: bool
    full: bool
    format: int
    checked: tuple[str, ...]
    problems: tuple[StoreFault, ...]
