"""A lock for each key: work on the same key runs one at a time, on different keys concurrently."""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class _KeyLock:
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: int = 0  # including the holder


class KeyedLocks:
    """A lock for each key. Locks exist only while a thread holds or awaits them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, _KeyLock] = {}

    @contextmanager
    def lock(self, key: Hashable) -> Iterator[None]:
        """Context manager: hold the lock of this key until the block ends. Waits while another thread holds it."""
        with self._queue_for(key) as turn, turn.lock:
            yield

    @contextmanager
    def try_lock(self, key: Hashable, seconds: float) -> Iterator[bool]:
        """Try to get the lock of this key, and yield whether that succeeded. If so, it is held until the block ends.

        Waits up to `seconds` if another thread holds the lock, and not at all if a third thread waits already.
        """
        with self._queue_for(key) as turn:
            is_mine = turn.lock.acquire(timeout=seconds if turn.waiting <= 2 else 0)
            try:
                yield is_mine
            finally:
                if is_mine:
                    turn.lock.release()

    @contextmanager
    def _queue_for(self, key: Hashable) -> Iterator[_KeyLock]:
        with self._lock:
            turn = self._locks.setdefault(key, _KeyLock())
            turn.waiting += 1
        try:
            yield turn
        finally:
            with self._lock:
                turn.waiting -= 1
                if not turn.waiting:
                    del self._locks[key]
