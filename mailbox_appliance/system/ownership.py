"""Checks and sets the owners, hard links and modes of the files in a data directory, so that they are private.

A file that another user owns, or that has a second name in a folder of another user, stays accessible to that user
whatever its mode. The appliance refuses such files, as OpenSSH does (sshd_config(5), StrictModes). Windows has no
owners of this kind, so nothing is refused there.

    folders, the database and its log, written files                belong to the effective user
    files only read (key, config.toml, certificates), logs          to that user, or to root if no one else can write
    links                                                           to that user or root; they are followed to the
                                                                    database, the key, config.toml, tls/* and folders
"""

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from mailbox_appliance.errors import StoreUnusable

_ROOT = 0
_UMASK, _OTHERS, _OTHERS_WRITE = 0o077, 0o077, 0o022
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_DATABASE, _BACKUPS = "mailbox.db", "backups"
# Tools that rotate or ship logs create their own files there, which the appliance does not read.
_LOGS, _OWN_LOG = "logs", r"appliance\.log(\.\d+)?|crash[^/]*\.txt|last-crash\.json"
_given_umask = -1


class _Kind(Enum):
    FOLDER = "a folder"
    DATABASE = "the database"
    KEY = "the key"
    WRITTEN = "a file that the appliance writes, never through a link"
    READ = "a file that the appliance reads"


_FILES = {
    **dict.fromkeys(("lock", "tray.lock", "run.json", "setup-code", "key-place"), _Kind.WRITTEN),
    "config.toml": _Kind.READ,
    "encryption.key": _Kind.KEY,
}
#: Folders, and the kind of the files in them. Backups are not checked: anyone may own them, since they are encrypted.
_FOLDERS = {"tls": _Kind.READ, "logs": _Kind.READ, ".next": _Kind.WRITTEN, ".next.making": _Kind.WRITTEN}


def restrict_umask() -> None:
    """Set the umask so that all new files of this process and its children are private, also those that libraries
    create.
    """
    global _given_umask
    _given_umask = os.umask(_UMASK)


def original_umask() -> int:
    """Return the umask from before `restrict_umask`, for starting foreign programs; -1 if it was not changed."""
    return _given_umask


def make_folder(folder: "Path") -> None:
    """Create a folder and its missing parents, each with mode 0700; an existing folder stays unchanged. Raises OSError.

    The XDG Base Directory Specification requires this mode for `~/.config` and `~/.local/share`.
    """
    try:
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def require_own(folder: "Path") -> None:
    """Raise StoreUnusable if another user owns a data directory or a file in it, or could change one by a hard link.

    Nothing is changed. Missing and unreadable files are ignored: opening them reports the error.
    """
    if _HAS_OWNERS:
        for path, kind in _known_files(folder):
            _require_own_path(path, kind)


def require_own_key(file: "Path") -> None:
    """Raise StoreUnusable if a key file outside the data directory belongs neither to this process's user nor to
    root.
    """
    if _HAS_OWNERS:
        _require_own_path(file, _Kind.KEY)


def require_own_handle(handle: int, file: "Path", *, is_read_only: bool = False) -> None:
    """Raise StoreUnusable if another user owns an open file, or if it has several hard links.

    Unlike a check by path, the file cannot be exchanged between check and use. `file`: its path for the message.
    `is_read_only`: the appliance only reads this file, so root may own it too.
    """
    if _HAS_OWNERS:
        _require_own_file(file, os.fstat(handle), _Kind.READ if is_read_only else _Kind.WRITTEN)


def close_to_other_writers(folder: "Path") -> None:
    """Remove other users' write access to a data directory, then check its files again. Raises StoreUnusable.

    From then on the mode 0700 keeps others away from every path in it, so that one check is enough.
    """
    found = (_stat_path(path, is_followed=True) for path, _ in _known_files(folder))
    if not _HAS_OWNERS or not any(each and each.st_mode & _OTHERS_WRITE for each in found):
        return
    with suppress(OSError):  # some file systems do not support modes
        folder.chmod(_FOLDER_MODE)
    require_own(folder)


def restrict_modes(folder: "Path", key_file: "Path") -> None:
    """Remove all permissions of other users from a data directory and its files, for example after files were copied
    in.

    Links are followed only to the database and the key. Files whose mode cannot be changed stay as they are.
    """
    if not _HAS_OWNERS:
        return
    backups = ((path, _Kind.READ) for path in (folder / _BACKUPS).rglob("*"))
    for path, kind in ((key_file, _Kind.KEY), *_known_files(folder), *backups):
        with suppress(OSError):
            found = path.stat(follow_symlinks=kind in (_Kind.DATABASE, _Kind.KEY))
            is_folder = stat.S_ISDIR(found.st_mode)
            is_wide = found.st_mode & _OTHERS and (is_folder or stat.S_ISREG(found.st_mode))
            if is_wide and found.st_uid == _own_uid():
                path.chmod(_FOLDER_MODE if is_folder else _FILE_MODE)


def _known_files(folder: "Path") -> "Iterator[tuple[Path, _Kind]]":
    """Yield the path of a data directory and of each file that the appliance may have in it, with its kind.

    Other files in the directory belong to the user and are not checked.
    """
    yield folder, _Kind.FOLDER
    database = folder / _DATABASE
    yield database, _Kind.DATABASE
    real = type(folder)(os.path.realpath(database))  # SQLite creates its log next to the real file
    yield from ((real.with_name(f"{real.name}{suffix}"), _Kind.WRITTEN) for suffix in ("-wal", "-shm", "-journal"))
    yield from ((folder / name, kind) for name, kind in _FILES.items())
    yield folder / _BACKUPS, _Kind.FOLDER
    for name, kind in _FOLDERS.items():
        yield folder / name, _Kind.FOLDER
        yield from (
            (path, kind) for path in (folder / name).rglob("*") if name != _LOGS or re.fullmatch(_OWN_LOG, path.name)
        )


def _require_own_path(path: "Path", kind: _Kind) -> None:
    found = _stat_path(path, is_followed=False)
    if found is not None and stat.S_ISLNK(found.st_mode):
        if kind is _Kind.WRITTEN:
            raise _refusal(f"{path} is a link. Replace it with the file itself, or remove the link.")
        _require_owner(path, found, may_be_roots=True)
        found = _stat_path(path, is_followed=True)
    if found is not None:
        _require_own_file(path, found, kind)


def _require_own_file(path: "Path", found: os.stat_result, kind: _Kind) -> None:
    may_be_roots = kind in (_Kind.READ, _Kind.KEY)
    if stat.S_ISDIR(found.st_mode):
        _require_owner(path, found)
    elif stat.S_ISREG(found.st_mode):
        _require_owner(path, found, may_be_roots=may_be_roots)
        _require_nobody_else(path, found)
    elif kind is _Kind.WRITTEN:  # reading the other kinds reports the error, for the key with its own exit code
        raise _refusal(f"{path} is not a regular file. Move it away.")


def _require_owner(path: "Path", found: os.stat_result, *, may_be_roots: bool = False) -> None:
    own = _own_uid()
    if found.st_uid == own or (may_be_roots and found.st_uid == _ROOT):
        return
    option = "-R " if stat.S_ISDIR(found.st_mode) else "-h " if stat.S_ISLNK(found.st_mode) else ""
    raise _refusal(
        f"{path} belongs to {_user(found.st_uid)}, but this process runs as {_user(own)}. Run the command as the owner."
        f" Or, if you trust the content, change the owner first: `chown {option}{own} {_quoted(path)}`."
    )


def _require_nobody_else(path: "Path", found: os.stat_result) -> None:
    """Raise StoreUnusable if another user can change a file. `found`: its owner, mode and links.

    A file of root must not be writable for others. A file of this user must have one hard link; its mode is not
    checked, since `restrict_modes` changes it.
    """
    if found.st_uid != _own_uid():
        if found.st_mode & _OTHERS_WRITE:
            raise _refusal(f"Other users can write to {path}, which belongs to root: run `chmod go-w {_quoted(path)}`.")
    elif found.st_nlink > 1:
        copy = _quoted(path.with_name(f"{path.name}.copy"))
        raise _refusal(
            f"{path} has {found.st_nlink} hard links, so it can be read and changed under another name. Stop the"
            f" appliance, then remove the other links: `cp -p {_quoted(path)} {copy} && mv -f {copy} {_quoted(path)}`."
        )


def _stat_path(path: "Path", *, is_followed: bool) -> os.stat_result | None:
    try:
        return path.stat(follow_symlinks=is_followed)
    except OSError:
        return None


if sys.platform == "win32":
    _HAS_OWNERS = False

    def _own_uid() -> int:
        return _ROOT

    def _user(uid: int) -> str:
        return f"uid {uid}"

else:
    _HAS_OWNERS = True

    def _own_uid() -> int:
        return os.geteuid()

    def _user(uid: int) -> str:
        import pwd  # only needed for an error message

        try:
            return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
        except KeyError:
            return f"uid {uid}"


def _quoted(path: "Path") -> str:
    import shlex

    return shlex.quote(str(path))


def _refusal(reason: str) -> "StoreUnusable":
    from mailbox_appliance.errors import StoreUnusable

    return StoreUnusable(reason=f"{reason} Nothing was changed.")
