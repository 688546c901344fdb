"""Run a command as the system unit would, as far as possible without systemd: `confined.py FOLDER... -- COMMAND...`.

Everything except the folders is read-only (ProtectSystem=strict, ReadWritePaths=), and /tmp is closed, which is
stricter. The command has no capabilities (CapabilityBoundingSet=), cannot get any (NoNewPrivileges=), and cannot
execute writable memory (MemoryDenyWriteExecute=). Requires root and Linux 5.12 or newer.
"""

import ctypes
import os
import resource
import struct
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _BIND, _RECURSIVE, _PRIVATE = 0x20000, 0x1000, 0x4000, 1 << 18
_MOUNT_SETATTR, _HERE, _WITH_ALL_BELOW, _READ_ONLY = 442, -100, 0x8000, 1
_DROP_CAPABILITY, _NO_NEW_PRIVILEGES, _NO_WRITE_THEN_RUN = 24, 38, 65
_CAPABILITIES = 41


def main() -> None:
    """Confine this process, then execute the command."""
    place = sys.argv.index("--")
    folders, command = sys.argv[1:place], sys.argv[place + 1 :]
    _close_the_disk([os.fsencode(folder) for folder in folders])
    for number in range(_CAPABILITIES):
        _must(_LIBC.prctl(_DROP_CAPABILITY, number, 0, 0, 0), "a capability")
    _must(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")
    _LIBC.prctl(_NO_WRITE_THEN_RUN, 1, 0, 0, 0)  # from Linux 6.3 on
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    os.umask(0o077)
    os.execvp(command[0], command)


def _close_the_disk(folders: list[bytes]) -> None:
    _must(_LIBC.unshare(_NEW_MOUNTS), "mounts of its own")
    _must(_LIBC.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None), "mounts that nobody else sees")
    for folder in folders:
        _must(_LIBC.mount(folder, folder, None, _BIND, None), "a folder to write to")
    _set_attributes(b"/", _WITH_ALL_BELOW, to_set=_READ_ONLY)
    for folder in folders:
        _set_attributes(folder, 0, to_clear=_READ_ONLY)


def _set_attributes(path: bytes, flags: int, *, to_set: int = 0, to_clear: int = 0) -> None:
    attributes = struct.pack("=4Q", to_set, to_clear, 0, 0)  # struct mount_attr
    arguments = (_MOUNT_SETATTR, _HERE, path, flags, attributes, ctypes.c_size_t(len(attributes)))
    _must(_LIBC.syscall(*arguments), "a read-only disk")


def _must(outcome: int, what: str) -> None:
    if outcome != 0:
        sys.exit(f"cannot have {what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
