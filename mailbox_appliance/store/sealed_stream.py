"""Encrypting what does not fit into memory: chunks of 1 MiB that can neither be changed, moved, dropped nor added.

    chunk 0 | tag | chunk 1 | tag | ... | last chunk | tag     nonce of each: 7 random bytes, its number, last or not

This is the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizar: Online Authenticated-Encryption, 2015). Every
chunk but the last is full; of nothing at all there is one empty chunk. A key is used for one stream only.
"""

import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

CHUNK, TAG = 1 << 20, 16
NONCE = 7
_MOST_CHUNKS = 1 << 32
# Chunks that are read, sealed and written together. While one is sealed no other thread of Python gets on, and each
# time that this one lets others, it waits for its next turn: few chunks for the one, many for the other.
_TOGETHER, _PAUSE = 4, 0.001


class BrokenStream(Exception):
    """A chunk is not the one that was written there; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"chunk {number} is not the one that was written")
        self.number = number


def new_nonce() -> bytes:
    """The random part of a stream's nonces."""
    return secrets.token_bytes(NONCE)


def chunks_of(size: int) -> int:
    """How many chunks so many bytes are cut into."""
    return max(1, -(-size // CHUNK))


def sealed_size(size: int) -> int:
    """How many bytes so many bytes become."""
    return size + chunks_of(size) * TAG


@dataclass(frozen=True)
class Stream:
    """A stream of `size` bytes in the clear, its key of 32 bytes, and what else its chunks are bound to."""

    key: bytes = field(repr=False)
    nonce: bytes
    about: bytes
    size: int
    cipher: str  # of the store: the same processors are fast with each

    def seal(self, read_into: Callable[[memoryview], int], target: BinaryIO) -> Iterator[int]:
        """Write the stream, and tell after some chunks how many bytes of it are written.

        `read_into` fills a buffer with what comes next, and answers how much it put there: less only at the end.
        """
        cipher = self._cipher()
        buffer = memoryview(bytearray(_TOGETHER * CHUNK))  # one for all: memory is slow to get and give back
        for numbers in _batches(0, chunks_of(self.size)):
            begins = numbers.start * CHUNK
            some = buffer[: min(self.size, numbers.stop * CHUNK) - begins]
            if read_into(some) != len(some):
                raise OSError(errno.EIO, "a file became shorter while it was read")
            parts = ((n, some[n * CHUNK - begins : (n + 1) * CHUNK - begins]) for n in numbers)
            target.write(b"".join([cipher.encrypt(self._nonce(n), part, self.about) for n, part in parts]))
            yield begins + len(some)
            time.sleep(_PAUSE)

    def open(self, source: BinaryIO, start: int, first: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `first` up to `end` of a stream that begins at `start` in a file, some at a time.

        Raises BrokenStream before anything of a chunk that is not right is given.
        """
        cipher, end = self._cipher(), self.size if end is None else end
        source.seek(start + first // CHUNK * (CHUNK + TAG), os.SEEK_SET)
        for numbers in _batches(first // CHUNK, chunks_of(end)):
            begins = numbers.start * CHUNK
            sealed = memoryview(source.read(len(numbers) * (CHUNK + TAG)))
            some = b"".join(
                [self._open_chunk(cipher, n, sealed[(n - numbers.start) * (CHUNK + TAG) :]) for n in numbers]
            )
            yield some if first <= begins and end >= begins + len(some) else some[max(0, first - begins) : end - begins]
            time.sleep(_PAUSE)

    def _open_chunk(self, cipher: AESGCM | ChaCha20Poly1305, number: int, sealed: memoryview) -> bytes:
        length = min(CHUNK, self.size - number * CHUNK) + TAG
        try:
            return cipher.decrypt(self._nonce(number), sealed[:length], self.about)
        except (InvalidTag, ValueError) as error:  # ValueError: shorter than a tag
            raise BrokenStream(number) from error

    def _cipher(self) -> AESGCM | ChaCha20Poly1305:
        return ChaCha20Poly1305(self.key) if self.cipher == "chacha20" else AESGCM(self.key)

    def _nonce(self, number: int) -> bytes:
        if not 0 <= number < _MOST_CHUNKS:
            raise ValueError("a stream is too long")
        is_last = number == chunks_of(self.size) - 1
        return self.nonce + number.to_bytes(4, "big") + bytes((is_last,))


def _batches(first: int, end: int) -> Iterator[range]:
    for number in range(first, end, _TOGETHER):
        yield range(number, min(number + _TOGETHER, end))
