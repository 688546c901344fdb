"""The slots of a key file: each holds the 32-byte master key of a store, locked in a way of its own.

    file        the key itself                            whoever has the file has the key
    passphrase  locked by a passphrase                    Argon2id (RFC 9106) makes the key that locks it
    keyring     locked by a random key that the keychain of the operating system holds

What is locked is sealed by AES-256-GCM together with the store's id, the kind of the slot and its parameters, so that
none of these can be exchanged. What a file may ask of the machine is bounded before any of it is done.
"""

import base64
import binascii
import json
import secrets
import threading
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from msgspec import Meta

from mailbox_appliance.errors import (
    Invalid,
    KeychainLocked,
    KeychainUnusable,
    KeyUnusable,
    PassphraseNeeded,
    PassphraseWrong,
)
from mailbox_appliance.system import keyring

if TYPE_CHECKING:
    from mailbox_appliance.store.keyfile import StoreKey

MIN_PASSPHRASE, MAX_PASSPHRASE = 12, 1024
#: Iterations, memory in KiB, lanes: some 0.2 s and 64 MiB.
_T, _M, _P = 3, 64 * 1024, 4
_RECOVERY_GROUPS, _RECOVERY_GROUP = 6, 5
_RECOVERY_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without those that are mistaken for another
# One takes up to a gibibyte.
_at_once = threading.Lock()

_Master = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Wrapped = Annotated[bytes, Meta(min_length=48, max_length=48)]
_Nonce = Annotated[bytes, Meta(min_length=12, max_length=12)]
_Salt = Annotated[bytes, Meta(min_length=16, max_length=16)]


class FileSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="file"):
    """The master key as it is."""

    key: _Master

    def __repr__(self) -> str:
        return "FileSlot()"


class PassphraseSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="passphrase"):
    """The master key locked by a passphrase. `t`: iterations, `m`: KiB of memory, `p`: lanes."""

    kdf: Annotated[str, Meta(pattern="^argon2id$")]
    t: Annotated[int, Meta(ge=1, le=10)]
    m: Annotated[int, Meta(ge=8, le=1024 * 1024)]
    p: Annotated[int, Meta(ge=1, le=16)]
    salt: _Salt
    nonce: _Nonce
    wrapped: _Wrapped

    def __post_init__(self) -> None:
        if self.m < 8 * self.p:
            raise ValueError("Argon2id takes at least 8 KiB a lane (RFC 9106, 3.1)")


class KeyringSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="keyring"):
    """The master key locked by a key that the keychain holds under this name."""

    service: Annotated[str, Meta(pattern=f"^{keyring.SERVICE}$")]
    user: Annotated[str, Meta(pattern="^store-[0-9A-Za-z_-]{1,64}$")]
    nonce: _Nonce
    wrapped: _Wrapped


Slot = FileSlot | PassphraseSlot | KeyringSlot


def require_kinds(slots: tuple[Slot, ...]) -> None:
    """Raise ValueError unless there are slots, and of each kind one at most."""
    if not slots or len({type(slot) for slot in slots}) < len(slots):
        raise ValueError("no slot, or two of a kind")


# --- locking ---


def wrap_file(master: bytes) -> FileSlot:
    """A slot from which anybody reads the key."""
    return FileSlot(master)


def wrap_passphrase(key: "StoreKey", passphrase: str) -> PassphraseSlot:
    """A slot that a passphrase opens. Raises Invalid for one that is too short, or too long to be one."""
    return wrap_with_kek(key, passphrase)[0]


def wrap_with_kek(key: "StoreKey", passphrase: str) -> tuple[PassphraseSlot, bytes]:
    """The same, and what the passphrase made for it, which takes long to make."""
    require_passphrase(passphrase)
    empty = PassphraseSlot("argon2id", _T, _M, _P, secrets.token_bytes(16), bytes(12), bytes(48))
    kek = passphrase_kek(empty, passphrase)
    return _locked_by_passphrase(empty, key, kek), kek


def wrap_keyring(key: "StoreKey", kek: bytes) -> KeyringSlot:
    """A slot that the key in the keychain opens; see `keyring_kek`."""
    empty = KeyringSlot(keyring.SERVICE, _name_in_keychain(key.store_id), secrets.token_bytes(12), bytes(48))
    return msgspec.structs.replace(empty, wrapped=_seal(kek, empty, key))


def rewrap(
    slots: tuple[Slot, ...], old: "StoreKey", new: "StoreKey", passphrase: str | None, *, file: Path | str
) -> tuple[Slot, ...]:
    """The same slots around another master key, each opened in the way it was.

    Raises PassphraseNeeded, PassphraseWrong, KeychainLocked.
    """
    made: list[Slot] = []
    for slot in slots:
        if isinstance(slot, FileSlot):
            made.append(wrap_file(new.master))
        elif isinstance(slot, PassphraseSlot):
            if passphrase is None:
                raise PassphraseNeeded(file=file)
            kek = passphrase_kek(slot, passphrase)
            opened_by_kek(slot, kek, old.store_id, file)
            made.append(_locked_by_passphrase(slot, new, kek))
        else:
            made.append(wrap_keyring(new, keyring_kek(new.store_id, file=file)))
    return tuple(made)


def slots_for_backup(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """Those that travel in a backup: the key lies in it in plain only where nothing else would open it elsewhere."""
    sealed = any(isinstance(slot, PassphraseSlot) for slot in slots)
    return tuple(slot for slot in slots if not (sealed and isinstance(slot, FileSlot)))


def require_passphrase(passphrase: str) -> None:
    """Raise Invalid for what is too short, or too long, to be a passphrase, or could not be given as a line."""
    if not MIN_PASSPHRASE <= len(passphrase) <= MAX_PASSPHRASE:
        raise Invalid.at("/passphrase", f"A passphrase has {MIN_PASSPHRASE} to {MAX_PASSPHRASE} characters.")
    if any(unicodedata.category(one) == "Cc" for one in passphrase):
        raise Invalid.at("/passphrase", "A passphrase has no control characters, such as a line break or a tab.")


def recovery_passphrase() -> str:
    """A random passphrase to write down: 30 letters and digits, which is more than any machine tries."""
    groups = (
        "".join(secrets.choice(_RECOVERY_LETTERS) for _ in range(_RECOVERY_GROUP)) for _ in range(_RECOVERY_GROUPS)
    )
    return "-".join(groups)


# --- unlocking ---


def unlock(
    slots: tuple[Slot, ...], store_id: str, passphrase: str | None = None, *, file: Path | str = "the key file"
) -> bytes:
    """The master key: from the `file` slot, else by the passphrase where one is given, else by the keychain.

    `file`: whose slots they are. Raises PassphraseWrong, KeychainLocked, PassphraseNeeded where there is no other way.
    """
    by_kind: dict[type, Slot] = {type(slot): slot for slot in slots}
    if isinstance(slot := by_kind.get(FileSlot), FileSlot):
        return slot.key
    if isinstance(slot := by_kind.get(PassphraseSlot), PassphraseSlot) and passphrase is not None:
        return opened_by_kek(slot, passphrase_kek(slot, passphrase), store_id, file)
    if isinstance(slot := by_kind.get(KeyringSlot), KeyringSlot):
        return _opened_by_keychain(slot, store_id, file)
    raise PassphraseNeeded(file=file)


def passphrase_kek(slot: PassphraseSlot, passphrase: str) -> bytes:
    """The 32 bytes that a passphrase makes with the parameters of a slot, whether it is the right one or not.

    The passphrase counts in Unicode's composed form (NFC), since keyboards differ. Raises KeyUnusable where the memory
    is not to be had.
    """
    text = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    with _at_once:
        try:
            kdf = Argon2id(salt=slot.salt, length=32, iterations=slot.t, lanes=slot.p, memory_cost=slot.m)
            return kdf.derive(text)
        except MemoryError as error:
            reason = f"its passphrase takes {slot.m // 1024} MiB of memory, which are not free."
            raise KeyUnusable(reason=reason) from error


def keyring_kek(store_id: str, *, file: Path | str) -> bytes:
    """The key in the keychain that locks a store's: the one that is there, else a new one, stored and read back.

    One that is there is never replaced: a copy of the directory or a backup may be locked by it.
    Raises KeychainUnusable.
    """
    name = _name_in_keychain(store_id)
    try:
        if (found := keyring.find(name)) is not None:
            return _decoded(found, file)
        kek = secrets.token_bytes(32)
        keyring.put(name, base64.b64encode(kek).decode())
    except keyring.KeyringUnavailable as error:
        raise KeychainUnusable(file=file, reason=str(error)) from error
    return kek


def opened_by_kek(slot: PassphraseSlot, kek: bytes, store_id: str, file: Path | str) -> bytes:
    """The master key in a slot, by what `passphrase_kek` made for it. Raises PassphraseWrong."""
    try:
        return _unseal(kek, slot, store_id)
    except InvalidTag as error:
        raise PassphraseWrong(file=file) from error


def _opened_by_keychain(slot: KeyringSlot, store_id: str, file: Path | str) -> bytes:
    try:
        found = keyring.find(slot.user)
    except keyring.KeyringUnavailable as error:
        raise KeychainLocked(file=file, reason=str(error)) from error
    if found is None:
        raise KeychainLocked(file=file, reason=f"it holds no {slot.user} of {slot.service}")
    try:
        return _unseal(_decoded(found, file), slot, store_id)
    except InvalidTag as error:
        raise KeychainLocked(
            file=file, reason=f"its {slot.user} of {slot.service} belongs to another key file"
        ) from error


def _decoded(found: str, file: Path | str) -> bytes:
    try:
        kek = base64.b64decode(found, validate=True)
    except (binascii.Error, ValueError):
        kek = b""
    if len(kek) != 32:
        raise KeychainLocked(file=file, reason="what it holds under the name of this store is no key")
    return kek


def _name_in_keychain(store_id: str) -> str:
    return f"store-{store_id}"


def _locked_by_passphrase(slot: PassphraseSlot, key: "StoreKey", kek: bytes) -> PassphraseSlot:
    slot = msgspec.structs.replace(slot, nonce=secrets.token_bytes(12))
    return msgspec.structs.replace(slot, wrapped=_seal(kek, slot, key))


def _seal(kek: bytes, slot: PassphraseSlot | KeyringSlot, key: "StoreKey") -> bytes:
    return AESGCM(kek).encrypt(slot.nonce, key.master, _bound(slot, key.store_id))


def _unseal(kek: bytes, slot: PassphraseSlot | KeyringSlot, store_id: str) -> bytes:
    return AESGCM(kek).decrypt(slot.nonce, slot.wrapped, _bound(slot, store_id))


def _bound(slot: PassphraseSlot | KeyringSlot, store_id: str) -> bytes:
    """What is sealed with the key: everything in the slot but its nonce and the key, and whose slot it is."""
    facts = {name: value for name, value in msgspec.to_builtins(slot).items() if name not in ("nonce", "wrapped")}
    return json.dumps({"storeId": store_id, **facts}, sort_keys=True, separators=(",", ":")).encode()
