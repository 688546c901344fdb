"""Hashing of passwords with Argon2id (RFC 9106), written as PHC strings."""

import os
import re
import threading

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

MIN_LENGTH, MAX_LENGTH = 12, 1024
_ITERATIONS, _LANES, _MEMORY_KIB = 2, 1, 19456
_PARAMETERS = re.compile(r"\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$[A-Za-z0-9+/]{10,100}\$[A-Za-z0-9+/]{20,100}")

# Each hash takes 19 MiB and a core for some 30 ms: two at once are enough, so that log-ins cannot starve other work.
_at_once = threading.BoundedSemaphore(2)


def hash_password(password: str) -> str:
    """The PHC string to store for a password."""
    kdf = Argon2id(salt=os.urandom(16), length=32, iterations=_ITERATIONS, lanes=_LANES, memory_cost=_MEMORY_KIB)
    with _at_once:
        return kdf.derive_phc_encoded(_bytes(password))


def verify_password(password: str, stored: str | None) -> bool:
    """Whether the password is the one that was hashed. Without a stored hash it takes the same time and says no."""
    with _at_once:
        try:
            Argon2id.verify_phc_encoded(_bytes(password), stored or _NOBODYS)
        except (InvalidKey, ValueError):
            return False
    return stored is not None


def needs_rehash(stored: str) -> bool:
    """Whether a hash was made with weaker parameters than those of today."""
    match = _PARAMETERS.fullmatch(stored)
    if match is None:
        return True
    memory, iterations, lanes = map(int, match.groups())
    return memory < _MEMORY_KIB or iterations < _ITERATIONS or lanes < _LANES


def weakness(password: str, *, name: str, email: str) -> str | None:
    """Why a password cannot be taken, in a sentence, or None."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        return f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters."
    if password.casefold() in (name.casefold(), email.casefold()):
        return "A password must not be your name or your email."
    return None


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


# A hash that no password has: it makes an unknown email cost what a known one costs.
_NOBODYS = "$argon2id$v=19$m=19456,t=2,p=1$M0WC1gVYDuRS/w+hqPsSsw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
