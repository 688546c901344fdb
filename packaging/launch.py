"""The entry point of a bundle. It does the same as the console script."""

import os
import sys
from contextlib import suppress


def keep_own_program() -> None:
    """Keep reading modules from this file after an upgrade has replaced it.

    Modules are read when they are first needed, which may be days later, and the file of another release has them at
    other positions. Linux can reopen an open file through /proc, even if its name belongs to another file by then.
    """
    archive = getattr(sys.modules.get("pyimod02_importers"), "pyz_archive", None)
    if not sys.platform.startswith("linux") or archive is None:
        return
    try:
        # Not inherited by children, which are programs of their own.
        kept = os.open(sys.executable, os.O_RDONLY | os.O_CLOEXEC)
        own = os.stat(kept)
        if (own.st_dev, own.st_ino) == _identity(archive._filename):
            archive._filename = f"/proc/self/fd/{kept}"
    except OSError:
        pass  # without /proc there is no such protection, as on other systems


def keep_unpacked() -> None:
    """Keep the cleanup of /tmp from deleting the unpacked files, even if they were not read for days.

    systemd-tmpfiles skips a locked folder and everything in it. The lock ends with the process.
    """
    unpacked = getattr(sys, "_MEIPASS", None)
    if not sys.platform.startswith("linux") or unpacked is None or _is_beside_program(unpacked):
        return
    import fcntl

    with suppress(OSError):  # a file system without locks
        fcntl.flock(os.open(unpacked, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)


def _is_beside_program(folder: str) -> bool:
    return os.path.dirname(os.path.realpath(folder)) == os.path.dirname(os.path.realpath(sys.executable))


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


if __name__ == "__main__":
    keep_own_program()
    keep_unpacked()
    from mailbox_appliance.__main__ import main

    main()
