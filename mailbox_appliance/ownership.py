"""Files for their owner alone: the modes with which they are made."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_UMASK, _FOLDER_MODE = 0o077, 0o700
_given_umask = -1


def restrict_umask() -> None:
    """Make every file of this process and its children private, also those that SQLite and libraries make."""
    global _given_umask
    _given_umask = os.umask(_UMASK)


def given_umask() -> int:
    """The umask for other people's programs: that of this process before `restrict_umask`; -1: leave it."""
    return _given_umask


def make_folder(folder: "Path") -> None:
    """Make a folder and those above it that are missing, each with mode 0700; one that is there stays as it is.

    So the XDG Base Directory Specification has `~/.config` and `~/.local/share` made. Raises OSError.
    """
    try:
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
