"""Lets SQLite read a database where it lies in a backup, so that a plain one of an older format never touches the disk.

SQLite asks for pages; each is taken out of the sealed chunk that holds it, the last few of which are kept open. Nothing
can be written, and no file has another name than the sections of the one backup.
"""

# ruff: noqa: N802, ARG002 - the names and arguments are SQLite's (sqlite.org/c3ref/io_methods.html)

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from mailbox_appliance.store.container import Container
from mailbox_appliance.store.manifest import SectionName
from mailbox_appliance.store.sealed_stream import CHUNK

_KEPT = 32  # chunks of a MiB
_FILES: dict[str, SectionName] = {"/mailbox.db": "mailbox.db", "/mailbox.db-wal": "mailbox.db-wal"}


@contextmanager
def opened_in(container: Container) -> Iterator[apsw.Connection]:
    """The plain database in a backup, together with its log. Raises apsw.Error, and BackupAltered while reading it."""
    vfs = _Vfs(f"backup-{secrets.token_hex(8)}", container)
    connection = None
    try:
        connection = apsw.Connection("/mailbox.db", flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs.name)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        # Else SQLite wants memory that it shares with other processes, which there is none of here.
        connection.pragma("locking_mode", "exclusive")
        yield connection
    finally:
        if connection is not None:
            connection.close(True)
        vfs.unregister()


class _Vfs(apsw.VFS):
    """The sections of a backup as files."""

    def __init__(self, name: str, container: Container) -> None:
        super().__init__(name, base="unix")
        self.name = name
        self._container = container
        self._chunks: OrderedDict[tuple[SectionName, int], bytes] = OrderedDict()

    def xOpen(self, name: object, flags: list[int]) -> "_File":  # type: ignore[override]
        section = _FILES.get(name.filename() if isinstance(name, apsw.URIFilename) else str(name))
        if section is None:
            raise apsw.CantOpenError("there is no such file in a backup")
        flags[1] = apsw.SQLITE_OPEN_READONLY
        place = self._container.manifest.find_section(section)
        return _File(self, section, 0 if place is None else place[1].size)  # a log that is not there is empty

    def xAccess(self, pathname: str, flags: int) -> bool:
        section = _FILES.get(pathname)
        return section is not None and self._container.manifest.find_section(section) is not None

    def xFullPathname(self, name: str) -> str:
        return name

    def xDelete(self, filename: str, syncdir: bool) -> None:
        raise apsw.ReadOnlyError("a backup is not written to")

    def read_chunk(self, section: SectionName, number: int) -> bytes:
        """So much of a section, from the chunks that are kept or the file."""
        key = (section, number)
        if key not in self._chunks:
            self._chunks[key] = self._container.part(section, number * CHUNK, CHUNK)
            if len(self._chunks) > _KEPT:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(key)
        return self._chunks[key]


class _File:
    """One of them, open. SQLite fills up with zeros what is asked for beyond its end."""

    def __init__(self, vfs: _Vfs, section: SectionName, size: int) -> None:
        self._vfs, self._section, self._size = vfs, section, size

    def xRead(self, amount: int, offset: int) -> bytes:
        end, found = min(offset + amount, self._size), bytearray()
        while offset < end:
            inside = offset % CHUNK
            found += self._vfs.read_chunk(self._section, offset // CHUNK)[inside : inside + end - offset]
            offset += min(CHUNK - inside, end - offset)
        return bytes(found)

    def xFileSize(self) -> int:
        return self._size

    def xLock(self, level: int) -> None: ...

    def xUnlock(self, level: int) -> None: ...

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xSync(self, flags: int) -> None: ...

    def xClose(self) -> None: ...

    def xWrite(self, data: bytes, offset: int) -> None:
        raise apsw.ReadOnlyError("a backup is not written to")

    def xTruncate(self, size: int) -> None:
        raise apsw.ReadOnlyError("a backup is not written to")
