"""Bearer tokens that are recognisable in leaks: a prefix, 43 characters of base62 entropy, and a checksum.

    mbxs_ session   mbxk_ API key   mbxi_ invitation   mbxr_ password reset   mbxc_ console link
    `mbxs_` + 43 characters of 0-9A-Za-z + CRC-32 of all that precedes as 6 base62 digits, zero-padded

Only the SHA-256 of a token is ever stored.
"""

import hashlib
import secrets
import zlib
from typing import Literal

Kind = Literal["mbxs", "mbxk", "mbxi", "mbxr", "mbxc"]
KINDS: tuple[Kind, ...] = ("mbxs", "mbxk", "mbxi", "mbxr", "mbxc")
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ENTROPY = 43
_CHECKSUM = 6
LENGTH = 5 + _ENTROPY + _CHECKSUM


def new_token(kind: Kind) -> str:
    """A new secret token of this kind (256 bits of entropy)."""
    body = f"{kind}_" + "".join(secrets.choice(_ALPHABET) for _ in range(_ENTROPY))
    return body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Whether a text has the form and the checksum of a token of this release; says nothing about its being valid."""
    return (
        len(token) == LENGTH
        and token[:4] in KINDS
        and token[4] == "_"
        and token.isascii()
        and token[5:].isalnum()
        and secrets.compare_digest(_checksum(token[:-_CHECKSUM]), token[-_CHECKSUM:])
    )


def hash_token(token: str) -> str:
    """What is stored of a token: the SHA-256 of the whole of it, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode("ascii", "replace")), ""
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits.rjust(_CHECKSUM, "0")
