"""Where a bundle begins: the same as the console script, from an executable that is Python and program in one."""

import gc
import os
import sys
from contextlib import suppress

#: Instead of 700: a start makes many objects and drops few; looking for dropped ones took a fifth of it.
_OBJECTS_BETWEEN_LOOKS = 10_000


def keep_own_program() -> None:
    """Go on reading the modules of this very file when an upgrade puts another one in its place.

    Modules are read when they are first needed, which may be days later; those of the next release would not be found
    where they are looked for. Linux lets a file that is open be opened again, also when its name is another file's.
    """
    archive = getattr(sys.modules.get("pyimod02_importers"), "pyz_archive", None)
    if not sys.platform.startswith("linux") or archive is None:
        return
    try:
        # Not handed down to children: each is a program of its own.
        kept = os.open(sys.executable, os.O_RDONLY | os.O_CLOEXEC)
        own = os.stat(kept)
        if (own.st_dev, own.st_ino) == _identity(archive._filename):
            archive._filename = f"/proc/self/fd/{kept}"
    except OSError:
        pass  # without /proc it is as it is elsewhere


def keep_unpacked() -> None:
    """Have whoever tidies /tmp leave what the one file has unpacked there, also when it has not been read for days.

    systemd-tmpfiles passes by a folder that somebody has locked, and all below it. The lock ends with the process.
    """
    unpacked = getattr(sys, "_MEIPASS", None)
    if not sys.platform.startswith("linux") or unpacked is None or _is_beside_program(unpacked):
        return
    import fcntl

    with suppress(OSError):  # a file system without locks: as it was without this one
        fcntl.flock(os.open(unpacked, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)


def _is_beside_program(folder: str) -> bool:
    return os.path.dirname(os.path.realpath(folder)) == os.path.dirname(os.path.realpath(sys.executable))


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


if __name__ == "__main__":
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    keep_own_program()
    keep_unpacked()
    from mailbox_appliance.__main__ import main

    main()
