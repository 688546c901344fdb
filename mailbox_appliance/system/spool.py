"""A temporary file for data too large for memory, encrypted with a key that only this process has.

On POSIX the file has no name from the moment it is opened. On Windows it is deleted when it is closed, even by a crash.
The data left on the disk is AES-256-CTR under a key that was never written.
"""

import errno
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mailbox_appliance.model.content import PIECE, Content

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CTR

_BLOCK = 16
#: Bytes that stay free on the disk, since the store and its journal may be on it too.
RESERVE = 64 << 20
_LOOK_EVERY = 1 << 20


class Spool:
    """An encrypted temporary file. Bytes are appended once, in order, and read any number of times, by any thread."""

    def __init__(self, folder: Path | None = None) -> None:
        """Open the file in `folder`; None means the system's folder for temporary files. Raises OSError."""
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - `close` closes it
        self._key = secrets.token_bytes(32)
        self._encryptor = self._cipher(0).encryptor()
        self._lock = threading.Lock()  # the file has only one position
        self._size = self._next_look = 0
        self._folder = folder or Path(tempfile.gettempdir())

    def __len__(self) -> int:
        """Return the number of bytes written."""
        return self._size

    def append(self, data: bytes) -> None:
        """Append bytes. Raises OSError, also if the disk would become nearly full; afterwards the spool is unusable."""
        if self._size >= self._next_look:
            self._next_look = self._size + _LOOK_EVERY
            if shutil.disk_usage(self._folder).free < RESERVE + _LOOK_EVERY:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        encrypted = memoryview(self._encryptor.update(data))
        with self._lock:
            self._file.seek(self._size)
            while encrypted:
                encrypted = encrypted[self._file.write(encrypted) or 0 :]
        self._size += len(data)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to but not including `end`. Raises OSError, and ValueError after `close`."""
        skip = start % _BLOCK
        with self._lock:
            self._file.seek(start - skip)
            encrypted = self._file.read(end - start + skip)
        return self._cipher(start // _BLOCK).decryptor().update(encrypted)[skip:]

    def _cipher(self, block: int) -> "Cipher[CTR]":
        """Return the cipher of the file from this block of 16 bytes on."""
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        return Cipher(AES256(self._key), CTR(block.to_bytes(_BLOCK, "big")))

    def content(self, start: int = 0, end: int | None = None) -> Content:
        """Return the bytes from `start` up to but not including `end` as Content, which is readable until `close`."""
        return _SpoolRange(self, start, self._size if end is None else end)

    def close(self) -> None:
        """Close and thereby delete the file."""
        self._file.close()


class _SpoolRange(Content):
    def __init__(self, spool: Spool, start: int, end: int) -> None:
        super().__init__()
        self._spool, self._start, self._end = spool, start, end
        self._size = end - start

    def part(self, start: int, end: int) -> Content:
        return _SpoolRange(self._spool, self._start + start, self._start + end)

    def pieces(self) -> Iterator[bytes]:
        for place in range(self._start, self._end, PIECE):
            yield self._spool.read(place, min(place + PIECE, self._end))
