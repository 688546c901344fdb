"""Replacing several files of a data directory together: all of them or none, even if interrupted.

    .next.making/   the new files while they are written; removed by the next start, except the marker (pending.py)
    .next/          the complete new files: `commit` gives the folder this name, and `finish` moves its files into
                    place one by one; after a crash, the next start does so
    .next/plan      the target path of the key file, and the files to remove

Restoring, compacting and changing the key replace the database and its key file together. Before a key file with
another key is replaced, it is copied to a name that ends in `.old`.
"""

import errno
import json
import os
import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from mailbox_appliance.errors import KeyDamaged, StoreUnusable
from mailbox_appliance.store import files
from mailbox_appliance.store.files import (
    DATABASE_FILE,
    KEY_FILE,
    copy_private,
    half_written_path,
    open_private,
    write_private,
)
from mailbox_appliance.store.key import FileSlot, Slot, StoreKey, read_key, read_key_file
from mailbox_appliance.system.files import replace_file, sync_file, sync_folder

_MAKING, _READY = ".next.making", ".next"
_PLAN, _MARKER = "plan", "accepted"
_PIECE = 1 << 20
#: The files that may be replaced, in this order. The key file is copied, so that it is still here until the database
#: has moved too. The log of a database comes after it, since the previous database's log is removed first.
_REPLACEABLE = (KEY_FILE, "config.toml", *files.CERTIFICATE_FILES, DATABASE_FILE, DATABASE_FILE + "-wal")


def begin(folder: Path) -> Path:
    """Return a new, empty folder, into which the caller writes new files of the store.

    After `commit` and `finish`, each new file replaces the file of the same name in the data directory. The caller must
    hold the lock of the data directory.
    """
    discard(folder)
    making = folder / _MAKING
    making.mkdir(mode=0o700)
    return making


def discard(folder: Path) -> None:
    """Remove the new files that were not committed, if there are any."""
    if os.path.lexists(folder / _MAKING):
        shutil.rmtree(folder / _MAKING)


def marker_path(folder: Path) -> Path:
    """Return the path of the marker file of an accepted restore, which `pending.py` writes beside the new files."""
    return folder / _MAKING / _MARKER


def _discard_except_marker(folder: Path) -> None:
    if not marker_path(folder).is_file():
        discard(folder)
        return
    for path in (folder / _MAKING).iterdir():
        if path.name != _MARKER:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def commit(folder: Path, key_file: Path | None = None, absent: Sequence[str] = ()) -> None:
    """Commit the new files: from now on they are the store's, even after a crash. `finish` moves them into place.

    `key_file`: the path for the key file; `finish` refuses any other. `absent`: the names of files to remove. Nothing
    may have the database open.
    """
    making = folder / _MAKING
    plan = {"key": None if key_file is None else _recorded_place(folder, key_file), "absent": list(absent)}
    write_private(making / _PLAN, json.dumps(plan).encode())
    for path in sorted(making.rglob("*"), reverse=True):
        sync_folder(path) if path.is_dir() else sync_file(path)
    sync_folder(making)
    _require_room_elsewhere(folder, making / DATABASE_FILE)
    replace_file(making, folder / _READY)
    sync_folder(folder)


def is_committed(folder: Path) -> bool:
    """Whether there are committed files that are not in place yet."""
    return os.path.isdir(folder / _READY)  # noqa: PTH112 - never raises, whatever may not be looked at


def finish(folder: Path, key_file: Path) -> bool:
    """Move committed files into place and return whether there were any. New files that were not committed are removed.

    The caller must hold the lock of the data directory. `key_file`: the path of the key file, which may be outside the
    directory. Raises StoreUnusable if the new key was committed for another path, since the file at this path may be
    the key of another store.
    """
    _discard_except_marker(folder)
    ready = folder / _READY
    if not ready.is_dir():
        return False
    plan = _read_plan(ready)
    _require_place(folder, key_file, plan["key"])
    if any(os.path.lexists(ready / name) or name in plan["absent"] for name in files.CERTIFICATE_FILES):
        files.discard_next_certificate(folder)
    for name in _REPLACEABLE:
        if os.path.lexists(ready / name):
            _move_into_place(ready / name, target_path(folder, name, key_file))
    for name in plan["absent"]:
        target_path(folder, name, key_file).unlink(missing_ok=True)
    # First the file that would be copied again, whatever its target path is by then.
    (ready / KEY_FILE).unlink(missing_ok=True)
    sync_folder(ready)
    shutil.rmtree(ready)
    sync_folder(folder)
    return True


def target_path(folder: Path, name: str, key_file: Path) -> Path:
    """Return the path at which a store's file of this name belongs.

    For the name of the key file, this is `key_file`. If the database is a symbolic link, it is the path that the link
    points to, and the write-ahead log is beside that.
    """
    if not name.startswith(DATABASE_FILE):
        return key_file if name == KEY_FILE else folder / name
    real = Path(os.path.realpath(folder / DATABASE_FILE))
    return real.with_name(real.name + name.removeprefix(DATABASE_FILE))


def _require_room_elsewhere(folder: Path, new: Path) -> None:
    """Moving files must not fail after the commit, also if the database is a link to another disk."""
    real = target_path(folder, DATABASE_FILE, new)
    if new.exists() and real.parent.stat().st_dev != folder.stat().st_dev:
        files.require_room(real.parent, new.stat().st_size)


def _recorded_place(folder: Path, key_file: Path) -> str:
    """A key file in the data directory is recorded as relative, since that may be moved."""
    return KEY_FILE if key_file == folder / KEY_FILE else str(key_file.absolute())


def _read_plan(ready: Path) -> dict[str, Any]:
    try:
        return {"key": None, "absent": [], **json.loads((ready / _PLAN).read_text("utf-8"))}
    except FileNotFoundError:
        return {"key": None, "absent": []}


def _require_place(folder: Path, key_file: Path, planned: str | None) -> None:
    if (
        planned is None
        or not os.path.lexists(folder / _READY / KEY_FILE)
        or planned == _recorded_place(folder, key_file)
    ):
        return
    if (folder / planned).resolve() != key_file.resolve():
        raise StoreUnusable(
            reason=f"the new files of an interrupted restore or key change are in {folder / _READY}. Their key belongs"
            f" at {folder / planned}, but the key file is now {key_file}. Set MAILBOX_APPLIANCE_KEY_FILE to the former"
            " path, or unset it if that path is in the data directory. Nothing was changed."
        )


def _move_into_place(new: Path, target: Path) -> None:
    if new.name == DATABASE_FILE:
        # SQLite would replay the log of the replaced database into the new one.
        for suffix in ("-wal", "-shm"):
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        # A power failure could undo only the removal, and leave the old log beside the new database.
        sync_folder(target.parent)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    # The key file may be a link, or on another disk: its target is written.
    if new.name == KEY_FILE:
        copy_private(new, target.resolve())
        return
    try:
        replace_file(new, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_over(new, target)
    sync_folder(target.parent)


def _copy_over(new: Path, target: Path) -> None:
    """Copy a file to its place on another disk. The source is kept, so that it can be copied again after a crash."""
    beside = half_written_path(target)
    with new.open("rb") as source, os.fdopen(open_private(beside), "wb") as copy:
        shutil.copyfileobj(source, copy, _PIECE)
    sync_file(beside)
    replace_file(beside, target)


# --- The key file that a restore replaces: slots of the same key stay, a file with another key is kept beside it ---
#
# Another key may open a store that was moved away, and be the only copy of that key.


def find_same_slots(place: Path, key: StoreKey) -> tuple[str, tuple[Slot, ...]] | None:
    """Return the store's ID and the slots (ways to unlock the key) of a key file that contains this master key.

    Returns None if the file contains another key, is damaged, or cannot be read.
    """
    try:
        there = read_key_file(place)
        if there is not None:
            return None if there.find_key(key.master) is None else (there.store_id, there.slots)
        return (key.store_id, (FileSlot(key.master),)) if read_key(place).master == key.master else None
    except (KeyDamaged, OSError):
        return None


def keep_old_key_file(place: Path, key: StoreKey, now: datetime) -> Path | None:
    """Copy a key file that will be replaced to `encryption.key.20260131T020000Z.old` beside it; return the path of the
    copy.

    Returns None if the file contains `key` or does not exist; then there is nothing to keep. Raises OSError.
    """
    file = place.resolve()
    if not file.is_file() or find_same_slots(file, key) is not None:
        return None
    while os.path.lexists(target := file.with_name(f"{file.name}.{now:%Y%m%dT%H%M%SZ}.old")):
        now += timedelta(seconds=1)
    copy_private(file, target)
    return target
