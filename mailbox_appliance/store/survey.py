"""What an upgrade would do to a store of format 3 or 4, and what stands in its way; nothing on the disk is changed.

It runs the upgrade in memory, but for the audit log, stored answers and messages, which may be too large. What it calls
ready can still be refused for these.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import KeyUnusable, StoreDamaged, StoreInUse, StoreUnusable
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store import room
from mailbox_appliance.store.database import Parameters, Row
from mailbox_appliance.store.files import DATABASE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.lock import holder
from mailbox_appliance.store.long_work import tell_nobody
from mailbox_appliance.store.older import Older, attached, require_released
from mailbox_appliance.store.opening import key_in, log_of, look, told_format
from mailbox_appliance.store.rebuilding import rehearse, telling_damage


@dataclass(frozen=True)
class Survey:
    """A store before its upgrade: its format and the one it gets, the rows of each table, the room that the upgrade
    needs and that there is, in bytes, what keeps it from being done, and what it would tell of itself, a sentence each.
    One that has today's format
    already has no rows told.
    """

    format: int
    upgrades_to: int
    rows: dict[str, int]
    bytes_needed: int
    bytes_free: int
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class _Looking:
    """A connection with nothing in it, to attach a store to."""

    def __init__(self) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        self._connection = apsw.Connection(":memory:", flags=flags)
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.pragma("foreign_keys", 1)

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return list(self._connection.execute(sql, parameters))

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        return next(iter(self.rows(sql, parameters)), None)

    def value(self, sql: str, parameters: Parameters = ()) -> Any:
        found = self.row(sql, parameters)
        return None if found is None else found[0]

    def change(self, sql: str, parameters: Parameters = ()) -> int:
        self._connection.execute(sql, parameters)
        return self._connection.changes()

    def change_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        self._connection.executemany(sql, rows)

    def disable_checkpoints(self) -> None:
        """It folds none in from the beginning."""

    def close_without_checkpoint(self) -> None:
        self._connection.close()


def survey(folder: Path, key_file: Path, passphrase: str | None = None, progress: Progress | None = None) -> Survey:
    """Look at the store of a data directory as its upgrade would. Raises a StoreUnusable for what is no such store."""
    if (pid := holder(folder)) is not None:
        raise StoreInUse(holder=f" (pid {pid})", folder=folder)
    file = (folder / DATABASE).resolve()
    number, needed, free = told_format(file, key_file), room.needed_for_backup(file), room.free_bytes(file.parent)
    if number == format_5.NUMBER:
        look(file, key_file, passphrase)
        return Survey(number, number, {}, 0, free, ())
    rows: dict[str, int] = {}
    warnings: list[str] = []
    problems = list(_problems(file, key_file, passphrase, progress or tell_nobody, rows, warnings))
    if free < needed:
        problems.append(f"It needs {room.written(needed)} of room, and {room.written(free)} are free.")
    if not os.access(file.parent, os.W_OK) or not os.access(folder, os.W_OK):
        problems.append(f"Nothing can be written to {folder}.")
    return Survey(number, format_5.NUMBER, rows, needed, free, tuple(problems), tuple(warnings))


def _problems(
    file: Path, key_file: Path, passphrase: str | None, tell: Progress, rows: dict[str, int], warnings: list[str]
) -> Iterator[str]:
    """What is wrong, and meanwhile how many rows there are, and what would be told."""
    master: bytes | None = None
    try:
        master = key_in(key_file, file, passphrase).master
    except KeyUnusable as problem:
        yield problem.message
    try:
        with _looked_at(file) as older:
            older.require_sound(tell)
            rows.update(older.count_rows())
            if master is not None:
                secrets = older.load_secrets(master, key_file)
                with telling_damage(file):
                    warnings += rehearse(older.database, older.number, secrets, SystemClock())
    except (StoreDamaged, KeyUnusable) as problem:
        yield problem.message
    except apsw.Error as error:
        raise StoreUnusable(reason=f"{file} cannot be read ({error}).") from error


@contextmanager
def _looked_at(file: Path) -> Iterator[Older]:
    with suppress(PermissionError):  # what we may not write cannot be held either
        require_released(file)
    log = log_of(file)
    has_log = log.exists() and log.stat().st_size > 0
    # Without a log nothing need be held: as an immutable file, nothing is made beside it.
    place = None if has_log else f"{file.as_uri()}?immutable=1"
    with attached(_Looking(), file, place) as older:
        yield older
