"""The key of the store and the file `encryption.key` that holds it in slots.

    {"format": 5, "storeId": "...", "cipher": "aegis", "salt": "<first 16 bytes of mailbox.db, hex>",
     "check": "<HMAC of id, cipher, salt; hex>", "slots": [{"type": "file", "key": "<32 bytes, base64>"}]}

The 32-byte master key never touches the database: what opens it, and what seals the audit chain, are derived from it
(HKDF, RFC 5869). `check` tells a damaged key file from an intact one, `salt` tells a wrong key from a damaged store.
A file that is one line of base64 (release 0.10) is read as well.
"""

import base64
import binascii
import hmac
import json
import os
import platform
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mailbox_appliance.errors import KeyDamaged
from mailbox_appliance.store.files import write_private

CIPHERS = ("aegis", "chacha20")
_MAX_SIZE = 64 * 1024


@dataclass(frozen=True)
class StoreKey:
    """The master key of a store and what is known of the store it belongs to. `salt` is None where that is unknown."""

    master: bytes = field(repr=False)
    store_id: str
    cipher: str
    salt: str | None = None

    @property
    def is_bare(self) -> bool:
        """Whether it comes from a file that holds nothing but the key, so that the cipher is a guess."""
        return not self.store_id

    def derive(self, purpose: str) -> bytes:
        """32 bytes for one purpose, from which neither the master key nor another purpose's can be told."""
        info = f"mailbox-appliance {purpose}".encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self.master)

    def with_salt(self, salt: str) -> "StoreKey":
        """The same key, knowing how its store begins."""
        return replace(self, salt=salt)


def new_key() -> StoreKey:
    """A new random key, for a new store."""
    return StoreKey(secrets.token_bytes(32), secrets.token_hex(8), _best_cipher())


def write_key(file: Path, key: StoreKey) -> None:
    """Write the key file with a `file` slot; a crash leaves the old file or the new one."""
    content = {
        "format": 5,
        "storeId": key.store_id,
        "cipher": key.cipher,
        "salt": key.salt,
        "check": _check(key),
        "slots": [{"type": "file", "key": base64.b64encode(key.master).decode()}],
    }
    write_private(file, json.dumps(content, indent=1).encode() + b"\n")


def read_key(file: Path, passphrase: str | None = None) -> StoreKey:  # noqa: ARG001 - of the slots to come
    """The key in a key file. Raises KeyDamaged, with what is wrong, and FileNotFoundError."""
    with file.open("rb") as handle:
        raw = handle.read(_MAX_SIZE + 1)
    if not raw.lstrip().startswith(b"{"):
        return StoreKey(_master(raw.strip(), file), "", _best_cipher())
    try:
        content = json.loads(raw)
        slot = next(slot for slot in content["slots"] if slot["type"] == "file")
        master = _master(slot["key"].encode(), file)
        key = StoreKey(master, content["storeId"], content["cipher"], content["salt"])
        is_known = content["format"] == 5 and key.cipher in CIPHERS
        agrees = hmac.compare_digest(content["check"].encode(), _check(key).encode())
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise KeyDamaged(file=file, reason="it cannot be read as a key file") from error
    if not is_known:
        raise KeyDamaged(file=file, reason="it names a form or cipher that is unknown here")
    if not agrees:
        raise KeyDamaged(file=file, reason="its check value does not agree with the rest of it")
    return key


def _master(text: bytes, file: Path) -> bytes:
    try:
        master = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise KeyDamaged(file=file, reason="it holds no base64") from error
    if len(master) != 32:
        raise KeyDamaged(file=file, reason="the key in it is not 32 bytes long")
    return master


def _check(key: StoreKey) -> str:
    facts = "\n".join(("mailbox-appliance check", key.store_id, key.cipher, key.salt or "-"))
    return hmac.digest(key.master, facts.encode(), "sha256").hex()


def _best_cipher() -> str:
    return "aegis" if _has_aes() else "chacha20"


def _has_aes() -> bool:
    """Whether the processor computes AES itself; aegis is the faster cipher only then."""
    if os.path.exists("/proc/cpuinfo"):  # noqa: PTH110 - cheaper than a Path
        return " aes" in Path("/proc/cpuinfo").read_text(errors="replace")
    return platform.machine().lower() in ("arm64", "aarch64", "amd64", "x86_64")
