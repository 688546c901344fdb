"""The sealed columns of formats 3 and 4: single secrets, each encrypted for the place where it stands.

0x01 || 12-byte nonce || AES-256-GCM ciphertext and tag           associated data: `table:id:column`
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION, _NONCE, _TAG = b"\x01", 12, 16


def unsealed(master: bytes, sealed: bytes, *, table: str, row: str, column: str) -> str | None:
    """The secret, or None where it was sealed with another key, for another place, or is not as it was written."""
    if not sealed.startswith(_VERSION) or len(sealed) < 1 + _NONCE + _TAG:
        return None
    nonce, ciphertext = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
    try:
        return AESGCM(master).decrypt(nonce, ciphertext, f"{table}:{row}:{column}".encode()).decode()
    except (InvalidTag, UnicodeDecodeError):
        return None
