"""Cache of content that was fetched from the mail server on demand: decoded attachments and raw messages.

A cached item is called a part, since most are MIME parts; a raw message has the part number ''. If the cache exceeds
its limit, the least recently used parts are evicted, but none while it is read. A part is stored in chunks of at most
CHUNK bytes, each written in a transaction of its own. Until all are written, its `size` is -1 and it cannot be read.
Reading holds no transaction open, however slow the reader is.
"""

import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator

from mailbox_appliance.clock import Clock, to_millis
from mailbox_appliance.errors import NotFound
from mailbox_appliance.store.database import Database

CHUNK = 128 << 10
_UNFINISHED = -1
_USE_NOTED_AFTER = 60_000  # Milliseconds: not every read needs to update the time of use.


class PartCache:
    """Cache of attachments and raw messages, by message (row number) and MIME part number. Any thread may use it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._lock = threading.Lock()
        self._read: Counter[int] = Counter()  # number of readers of each part that is being read
        self._written: set[int] = set()

    def open(self, message: int, part: str) -> "CachedPartReader | None":
        """Return a reader of a cached part; None if the part is not cached. The caller must close the reader.

        `message`: row number of the message. `part`: MIME part number, '' for the raw message.
        """
        with self._lock:
            row = self._database.row(
                "SELECT number, size, used_at FROM cached_parts WHERE message = ? AND part = ? AND size >= 0",
                (message, part),
            )
            if row is None:
                return None
            number, size, used_at = row
            self._read[number] += 1
        reading = CachedPartReader(self, number, size)
        now = to_millis(self._clock.now())
        if now - used_at > _USE_NOTED_AFTER:
            with self._database.transaction():
                self._database.change("UPDATE cached_parts SET used_at = ? WHERE number = ?", (now, number))
        return reading

    def put(self, message: int, part: str, chunks: Iterable[bytes], *, limit: int) -> "CachedPartReader":
        """Store an attachment or raw message, replacing an earlier version, and return a reader of it. The caller must
        close that.

        `message`: row number of the message. `part`: MIME part number, '' for the raw message. `chunks`: the content,
        in pieces of any size; if it raises, nothing is stored. `limit`: size of the whole cache in bytes; other items
        are evicted to keep it. Only one thread at a time may write the same part. Raises NotFound if the message is
        gone.
        """
        number = self._insert_unfinished(message, part)
        reading = CachedPartReader(self, number, self._write(number, chunks))
        while self.evict_one(limit):
            pass
        return reading

    def _write(self, number: int, chunks: Iterable[bytes]) -> int:
        """Write the content of a cached part of a message, and return its size in bytes. `number`: row number of the
        part.

        On success the part counts as being read, so that it is not evicted before the caller has made a reader. On an
        error the part is deleted.
        """
        try:
            size = 0
            for position, chunk in enumerate(in_chunks(chunks)):
                with self._database.transaction():
                    if self._database.value("SELECT 1 FROM cached_parts WHERE number = ?", (number,)) is None:
                        raise NotFound(what="message")
                    self._database.change("INSERT INTO cached_chunks VALUES (?, ?, ?)", (number, position, chunk))
                self._database.release_memory()
                size += len(chunk)
            with self._lock:
                self._read[number] += 1  # Before another thread can see the part and evict it.
            with self._database.transaction():
                if not self._database.change("UPDATE cached_parts SET size = ? WHERE number = ?", (size, number)):
                    raise NotFound(what="message")
        except BaseException:
            with self._lock:
                del self._read[number]
            with self._database.transaction():
                self._database.change("DELETE FROM cached_parts WHERE number = ?", (number,))
            raise
        finally:
            with self._lock:
                self._written.discard(number)
        return size

    def read_chunk(self, number: int, position: int) -> bytes | None:
        """Return the chunk at `position` (from 0) of a part (row number); None if it was deleted."""
        sql = "SELECT content FROM cached_chunks WHERE part = ? AND position = ?"
        found: bytes | None = self._database.value(sql, (number, position))
        self._database.release_memory()  # Otherwise each connection keeps pages that are not read again.
        return found

    def release(self, number: int) -> None:
        """Record that one reader of a cached message part was closed. `number`: row number of the part."""
        with self._lock:
            self._read[number] -= 1
            if not self._read[number]:
                del self._read[number]

    def _insert_unfinished(self, message: int, part: str) -> int:
        with self._database.transaction(), self._lock:
            if self._database.value("SELECT 1 FROM messages WHERE number = ?", (message,)) is None:
                raise NotFound(what="message")
            # This includes parts left incomplete when the process was killed, which nothing else would find.
            left = self._database.rows("SELECT number FROM cached_parts WHERE size = ?", (_UNFINISHED,))
            for (number,) in left:
                if number not in self._written:
                    self._database.change("DELETE FROM cached_parts WHERE number = ?", (number,))
            self._database.change("DELETE FROM cached_parts WHERE message = ? AND part = ?", (message, part))
            # A number is never reused: a reader of an evicted part must not get another part's chunks.
            number = secrets.randbits(62)
            self._database.change(
                "INSERT INTO cached_parts (number, message, part, size, used_at) VALUES (?, ?, ?, ?, ?)",
                (number, message, part, _UNFINISHED, to_millis(self._clock.now())),
            )
            self._written.add(number)
        return number

    def evict_one(self, limit: int) -> bool:
        """Delete the least recently used item that nobody reads if the cache exceeds `limit` bytes, or return False."""
        with self._database.transaction(), self._lock:
            if self._database.value("SELECT total(size) FROM cached_parts WHERE size > 0") <= limit:
                return False
            rows = self._database.rows("SELECT number FROM cached_parts WHERE size >= 0 ORDER BY used_at, number")
            oldest = next((number for (number,) in rows if number not in self._read), None)
            return bool(self._database.change("DELETE FROM cached_parts WHERE number = ?", (oldest,)))


class CachedPartReader:
    """Iterator over the chunks of a cached attachment or raw message, which stays in the cache until it is closed."""

    def __init__(self, cache: PartCache, number: int, size: int) -> None:
        self._cache, self._number, self.size = cache, number, size
        self._position = self._given = 0
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        """Return the reader itself, so the content can be iterated only once."""
        return self

    def __next__(self) -> bytes:
        """Return the next chunk. Raises NotFound if the message was removed since the reader was opened."""
        if self._is_closed or self._given >= self.size:
            self.close()
            raise StopIteration
        chunk = self._cache.read_chunk(self._number, self._position)
        if chunk is None:
            raise NotFound(what="message")
        self._position += 1
        self._given += len(chunk)
        return chunk

    def close(self) -> None:
        """Allow the cache to evict the content again. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._cache.release(self._number)


def in_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in chunks of CHUNK bytes; the last may be shorter."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= CHUNK:
            yield bytes(held[:CHUNK])
            del held[:CHUNK]
    if held:
        yield bytes(held)
