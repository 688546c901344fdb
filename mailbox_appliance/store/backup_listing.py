"""What lies in `backups/`, told by the readable beginning of each file; nothing is opened.

A backup is listed once: of copies the one that lies where it is known to, else the one with a name as it was given,
else the one whose name comes first; a link only where there is nothing else. What is not listed is told of: files that
are no backups or not whole, copies, and names that nobody could be shown.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from mailbox_appliance.errors import BackupUnusable, NotFound
from mailbox_appliance.model.records import Backup
from mailbox_appliance.store.backup_files import FOLDER, HIDDEN, SUFFIX
from mailbox_appliance.store.container import id_of, read_manifest
from mailbox_appliance.store.manifest import Manifest

#: Where backups are known to lie, by their ids.
Places = Mapping[str, Path]
NOTHING_KNOWN: Places = {}
_GIVEN = re.compile(rf"(\d{{8}}T\d{{6}}Z)-(.+){re.escape(SUFFIX)}")


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
    unlisted: tuple[Stray, ...]


def look(folder: Path, known: Places = NOTHING_KNOWN) -> Listing:
    """What lies in the folder `backups` of a data directory."""
    found: dict[str, list[tuple[Path, Manifest]]] = {}
    strays: list[Stray] = []
    for file in _files(folder):
        if not _is_utf_8(file.name):
            strays.append(Stray(_shown(file.name), "name"))
            continue
        try:
            manifest = read_manifest(file)
        except BackupUnusable:
            strays.append(Stray(_shown(file.name), "unusable"))
            continue
        found.setdefault(manifest.id, []).append((file, manifest))
    listed: list[tuple[Path, Backup]] = []
    for backup_id, copies in found.items():
        (file, manifest), *others = sorted(copies, key=partial(_rank, known.get(backup_id)))
        listed.append((file, manifest.to_backup(file.name, verified=True)))
        strays += (Stray(_shown(other.name), "copy", _shown(file.name)) for other, _ in others)
    return Listing(tuple(listed), tuple(sorted(strays, key=lambda one: one.name)))


def list_backups(folder: Path) -> tuple[Backup, ...]:
    """The backups of a data directory, the newest first."""
    return newest_first(backup for _, backup in look(folder).backups)


def strays(folder: Path) -> tuple[Stray, ...]:
    """What looks like backups there and is not listed, by name."""
    return look(folder).unlisted


def find_backup(folder: Path, backup_id: str, known: Places = NOTHING_KNOWN) -> Path:
    """The file of one of them, or of one that is damaged; its id is told by it, or known of its place.

    Raises NotFound.
    """
    whole = (file for file, backup in look(folder, known).backups if backup.id == backup_id)
    damaged = (file for file in _files(folder) if _is_utf_8(file.name) and id_of(file) == backup_id)
    found = next(chain(whole, damaged), known.get(backup_id))
    if found is None or not os.path.lexists(found) or _is_another(found, backup_id):
        raise NotFound(what="backup")
    return found


def newest_first(found: Iterator[Backup]) -> tuple[Backup, ...]:
    """Backups in the order in which they are shown."""
    return tuple(sorted(found, key=lambda one: (one.created_at, one.id), reverse=True))


def _rank(known: Path | None, copy: tuple[Path, Manifest]) -> tuple[bool, bool, bool, str]:
    """The one that is listed of copies has the least."""
    file, manifest = copy
    return file != known, file.is_symlink(), not _may_be_given(file.name, manifest), file.name


def _may_be_given(name: str, manifest: Manifest) -> bool:
    """Whether a backup may have got this name when it was made: that of its second, or of one soon after (`bundle`)."""
    given = _GIVEN.fullmatch(name)
    made = re.sub(r"[-:]|\.\d+", "", manifest.created_at)
    return given is not None and given[2] == manifest.reason and given[1] >= made


def _is_another(file: Path, backup_id: str) -> bool:
    """Whether it has become a backup, and a whole one, with another id."""
    with suppress(BackupUnusable):
        return read_manifest(file).id != backup_id
    return False


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
