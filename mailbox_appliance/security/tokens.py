"""Bearer tokens (with a prefix and a checksum, so that leaks can be detected) and opaque IDs.

    mbxs_ session   mbxk_ API key   mbxi_ invitation   mbxr_ password reset   mbxc_ console link
    mbxu_ undo of a bulk action
    `mbxs_` + 43 characters of 0-9A-Za-z + CRC-32 of all that precedes as 6 base62 digits, zero-padded

Only the SHA-256 of a token is ever stored.
"""

import hashlib
import os
import secrets
import threading
import time
import zlib
from typing import Literal

Kind = Literal["mbxs", "mbxk", "mbxi", "mbxr", "mbxc", "mbxu"]
KINDS: tuple[Kind, ...] = ("mbxs", "mbxk", "mbxi", "mbxr", "mbxc", "mbxu")
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ENTROPY = 43
_CHECKSUM = 6
LENGTH = 5 + _ENTROPY + _CHECKSUM


def new_token(kind: Kind) -> str:
    """Return a new secret token of this kind (256 bits of entropy)."""
    body = f"{kind}_" + "".join(secrets.choice(_BASE62) for _ in range(_ENTROPY))
    return body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Whether a text has the form and the checksum of a token of this release; it need not be a valid token."""
    return (
        len(token) == LENGTH
        and token[:4] in KINDS
        and token[4] == "_"
        and token.isascii()
        and token[5:].isalnum()
        and secrets.compare_digest(_checksum(token[:-_CHECKSUM]), token[-_CHECKSUM:])
    )


def hash_token(token: str) -> str:
    """Return the stored form of a token: the SHA-256 of all of it, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode("ascii", "replace")), ""
    while number:
        number, digit = divmod(number, len(_BASE62))
        digits = _BASE62[digit] + digits
    return digits.rjust(_CHECKSUM, "0")


# --- Opaque ids: a type prefix, `_`, and a ULID in lower-case Crockford base32 (26 characters) ---


Prefix = Literal[
    "mem",
    "ses",
    "key",
    "acc",
    "fld",
    "msg",
    "thr",
    "att",
    "dlv",
    "sch",
    "inv",
    "aud",
    "bak",
    "whk",
    "wat",
    "evt",
    "apr",
    "upl",
    "req",
]

_CROCKFORD_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_lock = threading.Lock()
_last = 0


def new_id(prefix: Prefix) -> str:
    """Return a new ID with this prefix, such as `msg_01k...`. IDs that one process makes sort in the order of
    creation.
    """
    global _last
    millis = time.time_ns() // 1_000_000
    chance = os.urandom(10) if millis > _last >> 80 else b""
    with _lock:
        # Within one millisecond, or after the clock went back, count on from the last one (ULID's monotonic rule).
        number = _last = max(millis << 80 | int.from_bytes(chance, "big"), _last + 1)
    return f"{prefix}_{_base32(number)}"


def id_of(prefix: Prefix, number: int) -> str:
    """Return the ID that stands for a number below 2**128, always the same one."""
    return f"{prefix}_{_base32(number)}"


_PAIRS = tuple(high + low for high in _CROCKFORD_BASE32 for low in _CROCKFORD_BASE32)


def _base32(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])
