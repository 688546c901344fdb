"""Opaque ids: a type prefix, `_`, and a ULID in lower-case Crockford base32 (26 characters)."""

import os
import threading
import time
from typing import Literal

Prefix = Literal[
    "mem", "ses", "key", "acc", "fld", "msg", "thr", "att", "dlv", "sch", "inv", "aud", "bak", "whk", "req"
]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_lock = threading.Lock()
_last = 0


def new_id(prefix: Prefix) -> str:
    """A new id, e.g. `msg_01k...`. Ids of one process sort by the order in which they were made."""
    global _last
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    with _lock:
        # Within one millisecond, or after the clock went back, count on from the last one (ULID's monotonic rule).
        number = _last = max(number, _last + 1)
    return f"{prefix}_{_base32(number)}"


_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)


def _base32(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])
