"""The key of the store and the file `encryption.key` that holds it in slots (store/key_slots).

    {"format": 5, "storeId": "...", "cipher": "aegis", "salt": "<first 16 bytes of mailbox.db, hex>",
     "slots": [{"type": "file", "key": "<32 bytes, base64>"}],
     "check": "<HMAC of id, cipher, salt; hex>", "checksum": "<SHA-256 of the rest as canonical JSON; hex>"}

The 32-byte master key never touches the database: what opens it, and what seals the audit chain, are derived from it
(HKDF, RFC 5869). `checksum` is looked at first and tells a damaged key file from an intact one, so that a passphrase
that does not fit is surely a wrong one; `check` tells whether the key in a slot is that of the file, `salt` a wrong key
from a damaged store. A file that is one line of base64 (release 0.10) is read as well.
"""

import base64
import binascii
import errno
import hashlib
import hmac
import json
import os
import platform
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mailbox_appliance.errors import KeyDamaged
from mailbox_appliance.model.decoding import convert
from mailbox_appliance.store.files import half_written, write_private
from mailbox_appliance.store.key_place import is_lent
from mailbox_appliance.store.key_slots import Slot, require_kinds, unlock, wrap_file
from mailbox_appliance.system import files

CIPHERS = ("aegis", "chacha20")
NUMBER = 5
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


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A key file as it stands, its checksum found right; nothing in it is unlocked."""

    format: int
    store_id: str
    cipher: str
    salt: str | None
    slots: tuple[Slot, ...]
    check: str
    checksum: str

    def __post_init__(self) -> None:
        require_kinds(self.slots)

    def find_key(self, master: bytes) -> StoreKey | None:
        """The key of the store, or None where this is not the master key that the file was made with."""
        key = StoreKey(master, self.store_id, self.cipher, self.salt)
        return key if hmac.compare_digest(self.check.encode("utf-8", "replace"), _check(key).encode()) else None


def new_key() -> StoreKey:
    """A new random key, for a new store."""
    return StoreKey(secrets.token_bytes(32), secrets.token_hex(8), _best_cipher())


def read_key(file: Path, passphrase: str | None = None) -> StoreKey:
    """The key in a key file, unlocked. A passphrase that is not needed is not looked at.

    Raises KeyDamaged, with what is wrong, PassphraseNeeded, PassphraseWrong, KeychainLocked, FileNotFoundError.
    """
    raw = _read(file)
    if not _is_json(raw):
        return StoreKey(_line(raw, file), "", _best_cipher())
    content = _decoded(raw, file)
    key = content.find_key(unlock(content.slots, content.store_id, passphrase, file=file))
    if key is None:
        raise KeyDamaged(file=file, reason="its check value does not agree with the key in it")
    return key


def read_file(file: Path) -> KeyFile | None:
    """A key file as it stands, or None for one that holds nothing but the key. Raises KeyDamaged, FileNotFoundError."""
    raw = _read(file)
    if _is_json(raw):
        return _decoded(raw, file)
    _line(raw, file)
    return None


def slots_in(file: Path, master: bytes) -> tuple[Slot, ...]:
    """The slots of a key file; one that holds nothing but the key is as good as a `file` slot.

    Raises KeyDamaged, FileNotFoundError.
    """
    there = read_file(file)
    return (wrap_file(master),) if there is None else there.slots


def render(key: StoreKey, slots: tuple[Slot, ...]) -> bytes:
    """The bytes of a key file with these slots."""
    content = {
        "format": NUMBER,
        "storeId": key.store_id,
        "cipher": key.cipher,
        "salt": key.salt,
        "slots": msgspec.to_builtins(slots),
        "check": _check(key),
    }
    return json.dumps({**content, "checksum": _checksum(content)}, indent=1).encode() + b"\n"


def write_key(file: Path, key: StoreKey) -> None:
    """Write the key file; a crash leaves the old file or the new one.

    The slots of a file that is there stay, where it holds this key of this store; else there is one `file` slot.
    """
    replace_file(file, render(key, _slots_there(file, key) or (wrap_file(key.master),)))


def keep_key(file: Path, key: StoreKey) -> None:
    """The same, but a file that is there and lies where we may not write stays as it is: it opens the store as well."""
    try:
        write_key(file, key)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM) or not file.exists():
            raise


def replace_file(file: Path, content: bytes) -> None:
    """Write a key file anew. One that is reached through a link is written where it lies, and the link stays.

    Raises OSError (EROFS) for one that came as a credential of systemd, whoever may write there.
    """
    if is_lent(file, os.environ):
        raise OSError(errno.EROFS, "it came as a credential", str(file))
    write_private(_real(file), content)


def drop_half_written(file: Path) -> None:
    """Throw away what was being written in place of a key file when we were stopped: a key may lie in it in plain."""
    with suppress(OSError):
        half_written(_real(file)).unlink(missing_ok=True)


def _real(file: Path) -> Path:
    return file.resolve() if file.is_symlink() else file


def _slots_there(file: Path, key: StoreKey) -> tuple[Slot, ...] | None:
    with suppress(KeyDamaged, OSError):
        there = read_file(file)
        if there is not None and there.store_id == key.store_id and there.find_key(key.master) is not None:
            return there.slots
    return None


def _read(file: Path) -> bytes:
    if is_lent(file, os.environ):  # whoever starts the service chose it, whatever user's it is
        raw = files.read_regular(file, _MAX_SIZE + 1)
    else:
        raw = files.read_own(file, _MAX_SIZE + 1, is_read_only=True)
    if len(raw) > _MAX_SIZE:
        raise KeyDamaged(file=file, reason="it is larger than any key file")
    return raw


def _is_json(raw: bytes) -> bool:
    return raw.lstrip().startswith(b"{")


def _decoded(raw: bytes, file: Path) -> KeyFile:
    try:
        content = json.loads(raw.decode("ascii"))
        agrees = hmac.compare_digest(content["checksum"].encode(), _checksum(content).encode())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KeyDamaged(file=file, reason="it cannot be read as a key file") from error
    if not agrees:
        raise KeyDamaged(file=file, reason="its checksum does not agree with the rest of it")
    if content.get("format") != NUMBER or content.get("cipher") not in CIPHERS:
        raise KeyDamaged(file=file, reason="it names a form or cipher that is unknown here")
    try:
        return convert(content, KeyFile)
    except ValueError as error:  # msgspec's ValidationError among them
        raise KeyDamaged(file=file, reason="what it says is not what a key file of this release says") from error


def _line(raw: bytes, file: Path) -> bytes:
    try:
        master = base64.b64decode(raw.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise KeyDamaged(file=file, reason="it holds no base64") from error
    if len(master) != 32:
        raise KeyDamaged(file=file, reason="the key in it is not 32 bytes long")
    return master


def _checksum(content: dict[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _check(key: StoreKey) -> str:
    facts = "\n".join(("mailbox-appliance check", key.store_id, key.cipher, key.salt or "-"))
    return hmac.digest(key.master, facts.encode("utf-8", "replace"), "sha256").hex()


def _best_cipher() -> str:
    return "aegis" if _has_aes() else "chacha20"


def _has_aes() -> bool:
    """Whether the processor computes AES itself; aegis is the faster cipher only then."""
    if os.path.exists("/proc/cpuinfo"):  # noqa: PTH110 - cheaper than a Path
        return " aes" in Path("/proc/cpuinfo").read_text(errors="replace")
    return platform.machine().lower() in ("arm64", "aarch64", "amd64", "x86_64")
