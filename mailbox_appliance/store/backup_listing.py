"""What lies in `backups/`, told by the readable beginning of each file; nothing is opened.

A backup is listed once: of copies the one whose name comes first, and a link only where there is nothing else. What is
not listed is told of: files that are no backups or not whole, copies, and names that nobody could be shown.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from mailbox_appliance.errors import BackupUnusable, NotFound
from mailbox_appliance.records import Backup
from mailbox_appliance.store.backup_files import FOLDER, HIDDEN, SUFFIX
from mailbox_appliance.store.container import id_of, read_manifest


@dataclass(frozen=True)
class Stray:
    """A file that is not listed, its name as it can be shown: no backup or not whole, a copy of another one, or with a
    name that is no UTF-8.
    """

    name: str
    why: Literal["unusable", "copy", "name"]
    copy_of: str = ""


@dataclass(frozen=True)
class Listing:
    """The backups of a data directory, by their names, and what lies beside them."""

    backups: tuple[tuple[Path, Backup], ...]
    strays: tuple[Stray, ...]


def look(folder: Path) -> Listing:
    """What lies in the folder `backups` of a data directory."""
    found: dict[str, tuple[Path, Backup]] = {}
    strays: list[Stray] = []
    for file in sorted(_files(folder), key=lambda one: (one.is_symlink(), one.name)):
        if not _is_utf_8(file.name):
            strays.append(Stray(_shown(file.name), "name"))
            continue
        try:
            manifest = read_manifest(file)
        except BackupUnusable:
            strays.append(Stray(_shown(file.name), "unusable"))
            continue
        if (listed := found.get(manifest.id)) is not None:
            strays.append(Stray(_shown(file.name), "copy", _shown(listed[0].name)))
            continue
        found[manifest.id] = file, manifest.as_backup(file.name, verified=True)
    return Listing(tuple(found.values()), tuple(sorted(strays, key=lambda one: one.name)))


def list_backups(folder: Path) -> tuple[Backup, ...]:
    """The backups of a data directory, the newest first."""
    return newest_first(backup for _, backup in look(folder).backups)


def strays(folder: Path) -> tuple[Stray, ...]:
    """What looks like backups there and is not listed, by name."""
    return look(folder).strays


def find_backup(folder: Path, backup_id: str) -> Path:
    """The file of one of them, or of one that is damaged so that its id can be told. Raises NotFound."""
    whole = (file for file, backup in look(folder).backups if backup.id == backup_id)
    damaged = (file for file in _files(folder) if _is_utf_8(file.name) and id_of(file) == backup_id)
    found = next(chain(whole, damaged), None)
    if found is None:
        raise NotFound(what="backup")
    return found


def newest_first(found: Iterator[Backup]) -> tuple[Backup, ...]:
    """Backups in the order in which they are shown."""
    return tuple(sorted(found, key=lambda one: (one.created_at, one.id), reverse=True))


def _files(folder: Path) -> list[Path]:
    try:
        found = list((folder / FOLDER).iterdir())
    except OSError:  # there is none yet, or we may not look into it; who makes a backup is told
        return []
    return sorted(file for file in found if file.name.endswith(SUFFIX) and not file.name.startswith(HIDDEN))


def _is_utf_8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes of another encoding, which Python keeps as lone surrogates (PEP 383)
        return False
    return True


def _shown(name: str) -> str:
    """A file name in which nothing can be mistaken or does anything to a terminal."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
