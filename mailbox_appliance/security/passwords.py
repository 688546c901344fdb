"""Hashing of passwords with Argon2id (RFC 9106), written as PHC strings; release 0.10 used scrypt (RFC 7914).

While any member has a hash of release 0.10, each sign-in computes both kinds; otherwise its duration would reveal which
emails are known. This ends when the last such member signs in.
"""

import base64
import hashlib
import hmac
import os
import re
import threading

from mailbox_appliance.system.files import usable_processors

MIN_LENGTH, MAX_LENGTH = 12, 1024
_ITERATIONS, _LANES, _MEMORY_KIB = 2, 1, 19456
_PARAMETERS = re.compile(r"\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$[A-Za-z0-9+/]{10,100}\$[A-Za-z0-9+/]{20,100}")

#: The start of a hash of release 0.10.
LEGACY = "scrypt$"
_SCRYPT = re.compile(
    r"scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([A-Za-z0-9+/=]{1,100})\$([A-Za-z0-9+/=]{1,100})", re.ASCII
)
# Release 0.10 used 16 MiB.
_LEGACY_MEMORY, _LEGACY_MOST_LANES = 64 * 1024 * 1024, 4
# A hash needs 19 MiB and a core for some 30 ms. One core is left for other work, and two hashes at once are enough.
_at_once = threading.BoundedSemaphore(max(1, min(2, usable_processors() - 1)))


def hash_password(password: str) -> str:
    """Return the PHC string to store for a password."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    kdf = Argon2id(salt=os.urandom(16), length=32, iterations=_ITERATIONS, lanes=_LANES, memory_cost=_MEMORY_KIB)
    with _at_once:
        return kdf.derive_phc_encoded(_bytes(password))


def verify_password(password: str, stored: str | None, *, hides_legacy: bool) -> bool:
    """Whether the password matches the stored hash. Without a stored hash it takes the same time and returns False.

    `hides_legacy`: compute a hash of the other kind (Argon2id or scrypt) too, so that the duration does not reveal who
    has a hash of release 0.10. Set this if any member in the store has such a hash.
    """
    is_legacy = stored is not None and stored.startswith(LEGACY)
    with _at_once:
        checks = (_is_of_scrypt, _is_of_argon2) if is_legacy else (_is_of_argon2, _is_of_scrypt)
        is_right = checks[0](password, stored)
        if hides_legacy:
            checks[1](password, None)
    return is_right and stored is not None


def needs_rehash(stored: str) -> bool:
    """Whether a stored hash is of release 0.10, or was made with weaker parameters than the current ones."""
    match = _PARAMETERS.fullmatch(stored)
    if match is None:
        return True
    memory, iterations, lanes = map(int, match.groups())
    return memory < _MEMORY_KIB or iterations < _ITERATIONS or lanes < _LANES


def weakness(password: str, *, name: str, email: str) -> str | None:
    """Return a sentence that explains why a new password is not acceptable, or None if it is.

    `name`, `email`: those of the member, which the password must not equal.
    """
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        return f"The password must have {MIN_LENGTH} to {MAX_LENGTH} characters."
    if password.casefold() in (name.casefold(), email.casefold()):
        return "The password must not be your name or your email."
    return None


def _is_of_argon2(password: str, stored: str | None) -> bool:
    from cryptography.exceptions import InvalidKey
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    try:
        Argon2id.verify_phc_encoded(_bytes(password), stored or _NOBODYS)
    except (InvalidKey, ValueError):
        return False
    return True


def _is_of_scrypt(password: str, stored: str | None) -> bool:
    """Whether the password matches a hash of release 0.10: `scrypt$N$r$p$salt$hash`, the last two in base64.

    Parameters outside the limits of this release never match. Without a stored hash it takes the same time.
    """
    n, r, p, salt, known = _read_scrypt(stored or "") or _NOBODYS_LEGACY
    try:
        made = hashlib.scrypt(_bytes(password), salt=salt, n=n, r=r, p=p, maxmem=2 * _LEGACY_MEMORY, dklen=len(known))
    except (ValueError, MemoryError):  # a text that the library rejects is not a hash that it made
        return False
    return hmac.compare_digest(made, known) and known != _NOBODYS_LEGACY[4]


def _read_scrypt(stored: str) -> tuple[int, int, int, bytes, bytes] | None:
    match = _SCRYPT.fullmatch(stored)
    if match is None:
        return None
    n, r, p = map(int, match.groups()[:3])
    try:
        salt, known = (base64.b64decode(text, validate=True) for text in match.groups()[3:])
    except ValueError:
        return None
    # RFC 7914 2: N is a power of two below 2^(16 r). The other limits bound the cost of a hash.
    is_sound = n > 1 and n & (n - 1) == 0 and n < 1 << 16 * r
    is_sound = is_sound and 128 * n * r <= _LEGACY_MEMORY and 0 < p <= _LEGACY_MOST_LANES
    return (n, r, p, salt, known) if is_sound and 8 <= len(salt) <= 64 and 16 <= len(known) <= 64 else None


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


# A hash that no password matches: it makes an unknown email cost as much as a known one.
_NOBODYS = "$argon2id$v=19$m=19456,t=2,p=1$M0WC1gVYDuRS/w+hqPsSsw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
_NOBODYS_LEGACY = (16384, 8, 1, b"nobody has this.", bytes(32))
