"""The key of the store: the file `encryption.key`, its location, and the ways to unlock the key in it.

    {"format": 5, "storeId": "...", "cipher": "aegis", "salt": "<first 16 bytes of mailbox.db, hex>",
     "slots": [{"type": "file", "key": "<32 bytes, base64>"}],
     "check": "<HMAC of id, cipher, salt; hex>", "checksum": "<SHA-256 of the rest as canonical JSON; hex>"}

The file contains the 32-byte master key, once in each slot. A slot is one way to unlock it: unencrypted, by a
passphrase, or by the keychain of the operating system. The keys of the database and of the audit log are derived from
the master key (HKDF, RFC 5869). The database never contains it.

- checksum: verified first. It shows whether the file is damaged, so that a passphrase that fails is certainly wrong.
- check: shows whether the key in a slot is the master key that the file was made with.
- salt: distinguishes a wrong key from a damaged store.

A file that is one line of base64, as release 0.10 wrote it, is read as well.
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
import threading
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mailbox_appliance.errors import (
    Invalid,
    KeychainLocked,
    KeychainUnusable,
    KeyDamaged,
    KeyUnusable,
    PassphraseNeeded,
    PassphraseWrong,
)
from mailbox_appliance.model.decoding import convert
from mailbox_appliance.store.files import KEY_FILE, half_written_path, write_private
from mailbox_appliance.system import files, keyring, ownership

# --- The slots of a key file: each holds the master key, protected in its own way ---
#
#     file        the unencrypted key                       anyone who has the file has the key
#     passphrase  encrypted with a passphrase               Argon2id (RFC 9106) derives the encrypting key
#     keyring     encrypted with a random key in the keychain of the operating system
#
# AES-256-GCM authenticates the store's ID, the kind of the slot and its parameters with the key, so that none of them
# can be exchanged. The memory and time that a key file may demand are limited before it is unlocked.


MIN_PASSPHRASE, MAX_PASSPHRASE = 12, 1024
#: iterations, memory in KiB, lanes: about 0.2 s and 64 MiB
_ARGON2_ITERATIONS, _ARGON2_KIB, _ARGON2_LANES = 3, 64 * 1024, 4
_RECOVERY_GROUPS, _RECOVERY_GROUP = 6, 5
_RECOVERY_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without characters that are easily confused
# One derivation needs up to 1 GiB.
_argon2_lock = threading.Lock()

_Master = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Wrapped = Annotated[bytes, Meta(min_length=48, max_length=48)]
_Nonce = Annotated[bytes, Meta(min_length=12, max_length=12)]
_Salt = Annotated[bytes, Meta(min_length=16, max_length=16)]


class FileSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="file"):
    """A way to unlock the master key in a key file: it is stored unencrypted."""

    key: _Master

    def __repr__(self) -> str:
        return "FileSlot()"


class PassphraseSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="passphrase"):
    """The master key encrypted with a passphrase (Argon2id). `t`: iterations, `m`: memory in KiB, `p`: lanes."""

    kdf: Annotated[str, Meta(pattern="^argon2id$")]
    t: Annotated[int, Meta(ge=1, le=10)]
    m: Annotated[int, Meta(ge=8, le=1024 * 1024)]
    p: Annotated[int, Meta(ge=1, le=16)]
    salt: _Salt
    nonce: _Nonce
    wrapped: _Wrapped

    def __post_init__(self) -> None:
        if self.m < 8 * self.p:
            raise ValueError("Argon2id requires at least 8 KiB per lane (RFC 9106, 3.1)")


class KeyringSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="keyring"):
    """A way to unlock the master key in a key file: it is encrypted with another key, which is in the system's
    keychain.

    `service` and `user`: the name of that key in the keychain.
    """

    service: Annotated[str, Meta(pattern=f"^{keyring.SERVICE}$")]
    user: Annotated[str, Meta(pattern="^store-[0-9A-Za-z_-]{1,64}$")]
    nonce: _Nonce
    wrapped: _Wrapped


Slot = FileSlot | PassphraseSlot | KeyringSlot


def require_distinct_kinds(slots: tuple[Slot, ...]) -> None:
    """Raise ValueError unless a key file has at least one way to unlock its key (slot), and each kind at most once."""
    if not slots or len({type(slot) for slot in slots}) < len(slots):
        raise ValueError("no key slot, or two of the same kind")


# --- Wrapping the key into slots ---


def wrap_with_passphrase(key: "StoreKey", passphrase: str) -> PassphraseSlot:
    """Return a key slot (a way to unlock the key) that contains the master key encrypted with a passphrase.

    Raises Invalid if the passphrase does not pass `require_passphrase`.
    """
    return wrap_with_kek(key, passphrase)[0]


def wrap_with_kek(key: "StoreKey", passphrase: str) -> tuple[PassphraseSlot, bytes]:
    """Return a key slot with the master key encrypted with a passphrase, and the 32-byte key derived from the
    passphrase.

    With the derived key, `unlock_slot` needs no second derivation, which is slow. Raises Invalid if the passphrase does
    not pass `require_passphrase`.
    """
    require_passphrase(passphrase)
    empty = PassphraseSlot(
        "argon2id", _ARGON2_ITERATIONS, _ARGON2_KIB, _ARGON2_LANES, secrets.token_bytes(16), bytes(12), bytes(48)
    )
    kek = derive_passphrase_kek(empty, passphrase)
    return _lock_with_kek(empty, key, kek), kek


def wrap_with_keyring(key: "StoreKey", kek: bytes) -> KeyringSlot:
    """Return a key slot with the master key encrypted with `kek`, the key in the keychain (`load_keyring_kek`)."""
    empty = KeyringSlot(keyring.SERVICE, f"store-{key.store_id}", secrets.token_bytes(12), bytes(48))
    return msgspec.structs.replace(empty, wrapped=_seal(kek, empty, key))


def rewrap_slots(
    slots: tuple[Slot, ...], old: "StoreKey", new: "StoreKey", passphrase: str | None, *, file: Path | str
) -> tuple[Slot, ...]:
    """Return the same ways to unlock a key (slots), but for another master key.

    `old`, `new`: the keys before and after. `passphrase`: required if there is a passphrase slot. `file`: name of the
    key file for errors. Raises PassphraseNeeded, PassphraseWrong, KeychainLocked.
    """
    made: list[Slot] = []
    for slot in slots:
        if isinstance(slot, FileSlot):
            made.append(FileSlot(new.master))
        elif isinstance(slot, PassphraseSlot):
            if passphrase is None:
                raise PassphraseNeeded(file=file)
            kek = derive_passphrase_kek(slot, passphrase)
            unlock_slot(slot, kek, old.store_id, file)
            made.append(_lock_with_kek(slot, new, kek))
        else:
            made.append(wrap_with_keyring(new, load_keyring_kek(new.store_id, file=file)))
    return tuple(made)


def slots_for_backup(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """Return the ways to unlock the key (slots) that a backup of the store should contain.

    The unencrypted key is left out if there is a passphrase. A slot of the keychain alone does not unlock a backup on
    another computer, so the unencrypted key is kept then.
    """
    sealed = any(isinstance(slot, PassphraseSlot) for slot in slots)
    return tuple(slot for slot in slots if not (sealed and isinstance(slot, FileSlot)))


def require_passphrase(passphrase: str) -> None:
    """Raise Invalid for a passphrase that is too short or too long, or contains control characters."""
    if not MIN_PASSPHRASE <= len(passphrase) <= MAX_PASSPHRASE:
        raise Invalid.at("/passphrase", f"The passphrase must have {MIN_PASSPHRASE} to {MAX_PASSPHRASE} characters.")
    if any(unicodedata.category(one) == "Cc" for one in passphrase):
        raise Invalid.at(
            "/passphrase", "The passphrase must not contain control characters, such as a line break or a tab."
        )


def new_recovery_passphrase() -> str:
    """Return a random passphrase to write down: 30 letters and digits, which cannot be guessed by brute force."""
    groups = (
        "".join(secrets.choice(_RECOVERY_LETTERS) for _ in range(_RECOVERY_GROUP)) for _ in range(_RECOVERY_GROUPS)
    )
    return "-".join(groups)


# --- Unlocking slots ---


def unlock_slots(
    slots: tuple[Slot, ...], store_id: str, passphrase: str | None = None, *, file: Path | str = "the key file"
) -> bytes:
    """Return the master key from a key file's slots, the ways to unlock it.

    They are tried in this order: the unencrypted key, the passphrase if one is given, the keychain. `file`: name of the
    key file for errors. Raises PassphraseWrong, KeychainLocked, and PassphraseNeeded if only a passphrase can unlock
    the key.
    """
    by_kind: dict[type, Slot] = {type(slot): slot for slot in slots}
    if isinstance(slot := by_kind.get(FileSlot), FileSlot):
        return slot.key
    if isinstance(slot := by_kind.get(PassphraseSlot), PassphraseSlot) and passphrase is not None:
        return unlock_slot(slot, derive_passphrase_kek(slot, passphrase), store_id, file)
    if isinstance(slot := by_kind.get(KeyringSlot), KeyringSlot):
        return _unlock_with_keychain(slot, store_id, file)
    raise PassphraseNeeded(file=file)


def derive_passphrase_kek(slot: PassphraseSlot, passphrase: str) -> bytes:
    """Derive a 32-byte key from a passphrase with the Argon2id parameters of a slot. It does not test the passphrase.

    The passphrase is normalized to Unicode's composed form (NFC), since keyboards differ. Raises KeyUnusable if there
    is not enough memory.
    """
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    text = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    with _argon2_lock:
        try:
            kdf = Argon2id(salt=slot.salt, length=32, iterations=slot.t, lanes=slot.p, memory_cost=slot.m)
            return kdf.derive(text)
        except MemoryError as error:
            reason = f"checking its passphrase needs {slot.m // 1024} MiB of free memory."
            raise KeyUnusable(reason=reason) from error


def load_keyring_kek(store_id: str, *, file: Path | str) -> bytes:
    """Return the key in the operating system's keychain that encrypts a store's master key; create it if there is none.

    An existing key is never replaced: a copy of the data directory or a backup may need it. `file`: name of the key
    file for errors. Raises KeychainUnusable.
    """
    name = f"store-{store_id}"
    try:
        if (found := keyring.find(name)) is not None:
            return _decode_kek(found, file)
        kek = secrets.token_bytes(32)
        keyring.put(name, base64.b64encode(kek).decode())
    except keyring.KeyringUnavailable as error:
        raise KeychainUnusable(file=file, reason=str(error)) from error
    return kek


def unlock_slot(slot: PassphraseSlot, kek: bytes, store_id: str, file: Path | str) -> bytes:
    """Return the master key in a passphrase slot. `kek`: from `derive_passphrase_kek`. Raises PassphraseWrong."""
    from cryptography.exceptions import InvalidTag

    try:
        return _unseal(kek, slot, store_id)
    except InvalidTag as error:
        raise PassphraseWrong(file=file) from error


def _unlock_with_keychain(slot: KeyringSlot, store_id: str, file: Path | str) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        found = keyring.find(slot.user)
    except keyring.KeyringUnavailable as error:
        raise KeychainLocked(file=file, reason=str(error)) from error
    if found is None:
        raise KeychainLocked(file=file, reason=f"it has no entry {slot.user} for {slot.service}")
    try:
        return _unseal(_decode_kek(found, file), slot, store_id)
    except InvalidTag as error:
        raise KeychainLocked(
            file=file, reason=f"its entry {slot.user} for {slot.service} belongs to another key file"
        ) from error


def _decode_kek(found: str, file: Path | str) -> bytes:
    try:
        kek = base64.b64decode(found, validate=True)
    except (binascii.Error, ValueError):
        kek = b""
    if len(kek) != 32:
        raise KeychainLocked(file=file, reason="its entry for this store is not a valid key")
    return kek


def _lock_with_kek(slot: PassphraseSlot, key: "StoreKey", kek: bytes) -> PassphraseSlot:
    slot = msgspec.structs.replace(slot, nonce=secrets.token_bytes(12))
    return msgspec.structs.replace(slot, wrapped=_seal(kek, slot, key))


def _seal(kek: bytes, slot: PassphraseSlot | KeyringSlot, key: "StoreKey") -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(kek).encrypt(slot.nonce, key.master, _associated_data(slot, key.store_id))


def _unseal(kek: bytes, slot: PassphraseSlot | KeyringSlot, store_id: str) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(kek).decrypt(slot.nonce, slot.wrapped, _associated_data(slot, store_id))


def _associated_data(slot: PassphraseSlot | KeyringSlot, store_id: str) -> bytes:
    """Return the store's ID and all fields of the slot except the nonce and the encrypted key."""
    facts = {name: value for name, value in msgspec.to_builtins(slot).items() if name not in ("nonce", "wrapped")}
    return json.dumps({"storeId": store_id, **facts}, sort_keys=True, separators=(",", ":")).encode()


# --- The location of the key file, and the source of its passphrase ---
#
#     MAILBOX_APPLIANCE_KEY_FILE, otherwise the systemd credential `db-key`, otherwise DIR/encryption.key
#     MAILBOX_APPLIANCE_PASSPHRASE, otherwise the systemd credential `passphrase`
#     DIR/key-place                 the location of the key when the store was last opened, if not in DIR
#
# systemd passes credentials to a service as files in a folder that only the service can read and nobody can write
# (systemd.exec(5), LoadCredential=). CREDENTIALS_DIRECTORY names that folder.


KEY_NOTE_FILE = "key-place"
KEY_FILE_VARIABLE = "MAILBOX_APPLIANCE_KEY_FILE"
PASSPHRASE_VARIABLE = "MAILBOX_APPLIANCE_PASSPHRASE"  # noqa: S105 - a name
_CREDENTIALS_VARIABLE, _KEY_CREDENTIAL, _PASSPHRASE_CREDENTIAL = "CREDENTIALS_DIRECTORY", "db-key", "passphrase"
_LONGEST = 64 * 1024


def find_key_file(data_dir: Path, environment: Mapping[str, str]) -> Path:
    """Return the path of the key file of a data directory, whether or not the file exists.

    It is the path in the environment, else a systemd credential, else `encryption.key` in the directory. Raises
    StoreUnusable if the path in the environment is a file that belongs neither to the effective user nor to root; a
    systemd credential is allowed.
    """
    if named := environment.get(KEY_FILE_VARIABLE):
        file = Path(named).expanduser().absolute()
        if not is_credential(file, environment):
            ownership.require_own_key(file)
        return file
    return _find_credential(_KEY_CREDENTIAL, environment) or data_dir / KEY_FILE


def write_key_note(data_dir: Path, key_file: Path, environment: Mapping[str, str]) -> None:
    """Record in a data directory where the key file is, if it is elsewhere; otherwise remove that note. Errors are
    ignored.

    A command in a shell lacks the environment that the service has, and does not find the key file. From the note it
    learns that the key exists, and does not report it as lost.
    """
    note, place = data_dir / KEY_NOTE_FILE, str(key_file)
    if is_credential(key_file, environment):
        place = f"the systemd credential {key_file.name}"
    with suppress(OSError, UnicodeEncodeError):
        if key_file.absolute() == (data_dir / KEY_FILE).absolute():
            note.unlink(missing_ok=True)
        elif read_key_note(data_dir) != place:
            write_private(note, place.encode() + b"\n")


def read_key_note(data_dir: Path) -> str | None:
    """Return the note about the key's location that `write_key_note` left; None if there is none."""
    try:
        return files.read_regular(data_dir / KEY_NOTE_FILE, _LONGEST).decode("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def is_credential(key_file: Path, environment: Mapping[str, str]) -> bool:
    """Whether a key file is a systemd credential, which must never be written.

    Such a file disappears when the service stops, and the next start creates it again from its source.
    """
    folder = environment.get(_CREDENTIALS_VARIABLE)
    return bool(folder) and key_file.resolve().is_relative_to(Path(str(folder)).resolve())


def require_no_credential(key_file: Path, environment: Mapping[str, str]) -> None:
    """Raise KeyUnusable if a key file is a systemd credential. Call it before the key file is changed."""
    if is_credential(key_file, environment):
        reason = (
            f"{key_file} is a systemd credential, so changes to it are lost at the next start. Copy the key to a"
            " permanent file, set MAILBOX_APPLIANCE_KEY_FILE to its path and repeat the command. Then create the"
            " credential from that file again. Nothing was changed."
        )
        raise KeyUnusable(reason=reason)


def load_passphrase(environment: Mapping[str, str]) -> str | None:
    """Return the passphrase of the store from the environment or a systemd credential; None if neither has one.

    A line end at the end of a credential is removed. Raises KeyUnusable if the credential cannot be read or is not
    UTF-8.
    """
    if given := environment.get(PASSPHRASE_VARIABLE):
        return given
    file = _find_credential(_PASSPHRASE_CREDENTIAL, environment)
    if file is None:
        return None
    try:
        return files.read_regular(file, _LONGEST).rstrip(b"\r\n").decode("utf-8") or None
    except OSError as error:
        raise KeyUnusable(reason=f"{file} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise KeyUnusable(reason=f"{file} is not valid UTF-8.") from error


def _find_credential(name: str, environment: Mapping[str, str]) -> Path | None:
    folder = environment.get(_CREDENTIALS_VARIABLE)
    file = Path(folder) / name if folder else None
    return file if file is not None and file.exists() else None


# --- The key, and the key file ---


CIPHERS = ("aegis", "chacha20")
KEY_FILE_FORMAT = 5
_MAX_KEY_FILE_SIZE = 64 * 1024


def derive_key(material: bytes, *, salt: bytes = b"", info: bytes) -> bytes:
    """Derive a 32-byte key by HKDF with SHA-256 (RFC 5869).

    Every start needs one. It is computed here because the library for cryptography takes 7 MiB of memory.
    """
    extracted = hmac.digest(salt or bytes(32), material, "sha256")  # 2.2
    return hmac.digest(extracted, info + b"\x01", "sha256")  # 2.3: one block is all the key


@dataclass(frozen=True)
class StoreKey:
    """The unlocked master key of a store. `salt`: the first 16 bytes of the database in hex; None if unknown."""

    master: bytes = field(repr=False)
    store_id: str
    cipher: str
    salt: str | None = None

    @property
    def is_bare(self) -> bool:
        """Whether the key is from a file of one line (release 0.10): ID and salt are unknown, the cipher is a guess."""
        return not self.store_id

    def derive(self, purpose: str) -> bytes:
        """Derive a 32-byte key for a purpose, such as `database`. It does not reveal the master key or another key."""
        info = f"mailbox-appliance {purpose}".encode()
        return derive_key(self.master, info=info)

    def with_salt(self, salt: str) -> "StoreKey":
        """Return the same key with this salt."""
        return replace(self, salt=salt)


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A parsed key file whose checksum is valid. The master key in its slots is still locked."""

    format: int
    store_id: str
    cipher: str
    salt: str | None
    slots: tuple[Slot, ...]
    check: str
    checksum: str

    def __post_init__(self) -> None:
        require_distinct_kinds(self.slots)

    def find_key(self, master: bytes) -> StoreKey | None:
        """Return the StoreKey for this master key; None if the file was made with another master key."""
        key = StoreKey(master, self.store_id, self.cipher, self.salt)
        return key if hmac.compare_digest(self.check.encode("utf-8", "replace"), _key_check(key).encode()) else None


def read_salt(database: Path) -> str:
    """Return the salt of a database: the first 16 bytes of its file in hex."""
    with database.open("rb") as handle:
        return handle.read(16).hex()


def new_key() -> StoreKey:
    """Return a random key for a new store."""
    return StoreKey(secrets.token_bytes(32), secrets.token_hex(8), _best_cipher())


def read_key(file: Path, passphrase: str | None = None) -> StoreKey:
    """Read a key file and return its key, unlocked. A passphrase that is not needed is ignored.

    Raises FileNotFoundError, KeyDamaged, PassphraseNeeded, PassphraseWrong and KeychainLocked.
    """
    raw = _read_bytes(file)
    if not _is_json(raw):
        return StoreKey(_decode_bare_key(raw, file), "", _best_cipher())
    content = _decode_key_file(raw, file)
    key = content.find_key(unlock_slots(content.slots, content.store_id, passphrase, file=file))
    if key is None:
        raise KeyDamaged(file=file, reason="its check value does not match its key")
    return key


def read_key_file(file: Path) -> KeyFile | None:
    """Return a parsed key file; None for one of one line (release 0.10). Raises KeyDamaged, FileNotFoundError."""
    raw = _read_bytes(file)
    if _is_json(raw):
        return _decode_key_file(raw, file)
    _decode_bare_key(raw, file)
    return None


def read_slots(file: Path, master: bytes) -> tuple[Slot, ...]:
    """Return the ways to unlock the key (slots) in a key file.

    A file of one line (release 0.10) counts as a slot with the unencrypted key `master`. Raises KeyDamaged,
    FileNotFoundError.
    """
    there = read_key_file(file)
    return (FileSlot(master),) if there is None else there.slots


def render_key_file(key: StoreKey, slots: tuple[Slot, ...]) -> bytes:
    """Return the bytes of a key file for this key. `slots`: the ways to unlock it."""
    content = {
        "format": KEY_FILE_FORMAT,
        "storeId": key.store_id,
        "cipher": key.cipher,
        "salt": key.salt,
        "slots": msgspec.to_builtins(slots),
        "check": _key_check(key),
    }
    return json.dumps({**content, "checksum": _checksum(content)}, indent=1).encode() + b"\n"


def write_key(file: Path, key: StoreKey) -> None:
    """Write the key file; a crash leaves either the old file or the new one.

    If the file exists and contains the same key of the same store, the ways to unlock it (slots) are kept. Otherwise
    the new file contains the key unencrypted.
    """
    replace_key_file(file, render_key_file(key, _existing_slots(file, key) or (FileSlot(key.master),)))


def write_key_if_allowed(file: Path, key: StoreKey) -> None:
    """Write the key file, but keep one that cannot be written, since it opens the store as well."""
    try:
        write_key(file, key)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM) or not file.exists():
            raise


def replace_key_file(file: Path, content: bytes) -> None:
    """Replace the content of a key file. If the path is a symbolic link, its target is replaced and the link stays.

    Raises OSError; for a systemd credential always, with EROFS.
    """
    if is_credential(file, os.environ):
        raise OSError(errno.EROFS, "it is a systemd credential", str(file))
    write_private(_real_path(file), content)


def remove_half_written_key(file: Path) -> None:
    """Remove the file that an interrupted write of the key file left, since it may contain the unencrypted key."""
    with suppress(OSError):
        half_written_path(_real_path(file)).unlink(missing_ok=True)


def _real_path(file: Path) -> Path:
    return file.resolve() if file.is_symlink() else file


def _existing_slots(file: Path, key: StoreKey) -> tuple[Slot, ...] | None:
    with suppress(KeyDamaged, OSError):
        there = read_key_file(file)
        if there is not None and there.store_id == key.store_id and there.find_key(key.master) is not None:
            return there.slots
    return None


def _read_bytes(file: Path) -> bytes:
    if is_credential(file, os.environ):  # The administrator of the service chose it, so its owner does not matter.
        raw = files.read_regular(file, _MAX_KEY_FILE_SIZE + 1)
    else:
        raw = files.read_own(file, _MAX_KEY_FILE_SIZE + 1, is_read_only=True)
    if len(raw) > _MAX_KEY_FILE_SIZE:
        raise KeyDamaged(file=file, reason="it is too large for a key file")
    return raw


def _is_json(raw: bytes) -> bool:
    return raw.lstrip().startswith(b"{")


def _decode_key_file(raw: bytes, file: Path) -> KeyFile:
    try:
        content = json.loads(raw.decode("ascii"))
        agrees = hmac.compare_digest(content["checksum"].encode(), _checksum(content).encode())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KeyDamaged(file=file, reason="it is not a valid key file") from error
    if not agrees:
        raise KeyDamaged(file=file, reason="its checksum does not match its content")
    if content.get("format") != KEY_FILE_FORMAT or content.get("cipher") not in CIPHERS:
        raise KeyDamaged(file=file, reason="its format or cipher is not supported by this release")
    try:
        return convert(content, KeyFile)
    except ValueError as error:  # includes msgspec's ValidationError
        raise KeyDamaged(file=file, reason="its fields are not those of a key file of this release") from error


def _decode_bare_key(raw: bytes, file: Path) -> bytes:
    try:
        master = base64.b64decode(raw.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise KeyDamaged(file=file, reason="it is not valid base64") from error
    if len(master) != 32:
        raise KeyDamaged(file=file, reason="the key in it is not 32 bytes long")
    return master


def _checksum(content: dict[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _key_check(key: StoreKey) -> str:
    facts = "\n".join(("mailbox-appliance check", key.store_id, key.cipher, key.salt or "-"))
    return hmac.digest(key.master, facts.encode("utf-8", "replace"), "sha256").hex()


def _best_cipher() -> str:
    return "aegis" if _has_aes() else "chacha20"


def _has_aes() -> bool:
    """Whether the processor has AES instructions. If so, the cipher aegis is faster than chacha20."""
    if os.path.exists("/proc/cpuinfo"):  # noqa: PTH110 - cheaper than a Path
        return " aes" in Path("/proc/cpuinfo").read_text(errors="replace")
    return platform.machine().lower() in ("arm64", "aarch64", "amd64", "x86_64")
