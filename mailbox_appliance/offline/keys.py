"""Shows and changes the ways to unlock the store's key, while no appliance is running.

The key file has one or more slots. Each slot unlocks the same key in another way: with the keychain, with a passphrase,
or with the key file alone. Every change first opens the store with the key, so that the new key file always fits the
store, and tests each new slot before the file is replaced. The file and the audit log row are written together.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from mailbox_appliance.errors import KeyDamaged, KeyMissing, KeyUnusable
from mailbox_appliance.offline.store import open_store, require_store, to_envelope, upgrade_warnings
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.database import DATABASE_ERRORS, is_disk_full, to_unusable
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.key import (
    FileSlot,
    KeyFile,
    KeyringSlot,
    PassphraseSlot,
    Slot,
    StoreKey,
    find_key_file,
    load_keyring_kek,
    new_recovery_passphrase,
    read_key_file,
    render_key_file,
    replace_key_file,
    require_no_credential,
    require_passphrase,
    unlock_slots,
    wrap_with_keyring,
    wrap_with_passphrase,
)
from mailbox_appliance.store.open_file import DirectoryLock
from mailbox_appliance.store.store import Store

Slots = tuple[Slot, ...]
_SECRETS = ("key", "salt", "nonce", "wrapped")
_ORDER = (FileSlot, KeyringSlot, PassphraseSlot)


def show_key(data_dir: Path) -> dict[str, Any]:
    """Return the path of the key file and the kinds of its slots, without key material. The key is not unlocked.

    Raises StoreUnusable.
    """
    file = find_key_file(data_dir, os.environ)
    require_store(data_dir)
    lock = DirectoryLock(data_dir)
    try:
        return to_envelope(_describe_key(file, read_key_file(file)))
    except FileNotFoundError as error:
        raise KeyMissing(store=data_dir / DATABASE_FILE, file=file) from error
    except OSError as error:
        raise KeyUnusable(reason=f"{file} cannot be read ({error.strerror}).") from error
    finally:
        lock.release()


def add_passphrase(data_dir: Path, new: str, passphrase: str | None = None, *, only: bool = False) -> dict[str, Any]:
    """Let the passphrase `new` unlock the key, instead of an earlier passphrase. `passphrase`: unlocks the key now.

    `only`: remove all other ways to unlock the key. Raises StoreUnusable, and Invalid for an unsuitable passphrase.
    """
    require_passphrase(new)
    with _store_with_own_key(data_dir, passphrase) as store:

        def edit(key: StoreKey, slots: Slots) -> Slots:
            slot = wrap_with_passphrase(key, new)
            _require_opens(slot, key, new, store.key_file)
            return (slot,) if only else (*_without_kinds(slots, PassphraseSlot), slot)

        return _change_slots(store, edit)


def use_keyring(data_dir: Path, passphrase: str | None = None) -> dict[str, Any]:
    """Unlock the key with the keychain from now on, instead of with the key file alone. `passphrase`: unlocks the key
    now.

    A passphrase stays valid, in case the keychain fails. If there is none, a recovery passphrase is generated and
    returned once, as `recoveryPassphrase`. Raises KeychainLocked.
    """
    recovery: list[str] = []
    with _store_with_own_key(data_dir, passphrase) as store:

        def edit(key: StoreKey, slots: Slots) -> Slots:
            slot = wrap_with_keyring(key, load_keyring_kek(key.store_id, file=store.key_file))
            _require_opens(slot, key, None, store.key_file)  # tested by a process that did not store it
            kept = _without_kinds(slots, KeyringSlot, FileSlot)
            if kept:
                return (*kept, slot)
            recovery.append(new_recovery_passphrase())
            return (slot, wrap_with_passphrase(key, recovery[0]))

        answer = _change_slots(store, edit)
    answer["data"]["recoveryPassphrase"] = recovery[0] if recovery else None
    return answer


def use_file(data_dir: Path, passphrase: str | None = None) -> dict[str, Any]:
    """Unlock the key with the key file alone from now on, instead of with the keychain. A passphrase stays valid too.

    `passphrase`: unlocks the key now.
    """
    with _store_with_own_key(data_dir, passphrase) as store:
        return _change_slots(
            store, lambda key, slots: (FileSlot(key.master), *_without_kinds(slots, KeyringSlot, FileSlot))
        )


@contextmanager
def _store_with_own_key(data_dir: Path, passphrase: str | None) -> Iterator[Store]:
    """Keep the store open for a change of its key file. Raises KeyUnusable for a systemd credential."""
    require_store(data_dir)
    require_no_credential(find_key_file(data_dir, os.environ), os.environ)
    with open_store(data_dir, passphrase) as store:
        yield store


def _change_slots(store: Store, edit: Callable[[StoreKey, Slots], Slots]) -> dict[str, Any]:
    """Write the slots that `edit` returns for the key and its current slots, and return the new status of the key."""
    there = _read_key_file(store)
    key = there.find_key(store.key.master)
    if key is None:
        raise KeyDamaged(file=store.key_file, reason="its check value does not match the key in it")
    slots = sorted(edit(key, there.slots), key=lambda slot: _ORDER.index(type(slot)))
    content, before = render_key_file(key, tuple(slots)), store.key_file.read_bytes()
    try:
        with store.database.transaction(durable=True):
            store.audit.record(Actor("local"), "key.change", ("key", key.store_id))
            replace_key_file(store.key_file, content)
    except OSError as error:
        then = _put_back(store.key_file, before)
        if is_disk_full(error, store.key_file.parent):
            raise to_unusable(error, store.key_file.parent, then=then) from error
        raise KeyUnusable(reason=f"{store.key_file} cannot be written ({error.strerror}). {then}") from error
    except DATABASE_ERRORS as error:
        raise to_unusable(error, store.folder, then=_put_back(store.key_file, before)) from error
    return to_envelope(_describe_key(store.key_file, read_key_file(store.key_file)), upgrade_warnings(store.upgraded))


def _read_key_file(store: Store) -> KeyFile:
    there = read_key_file(store.key_file)
    if there is None:  # opening the store could not convert the file to the form with slots
        raise KeyUnusable(reason=f"{store.key_file} has no key slots yet and cannot be written.")
    return there


def _put_back(file: Path, before: bytes) -> str:
    """Write the previous content of the key file after a failed change. Return a sentence with the result."""
    with suppress(OSError):
        if file.read_bytes() != before:
            replace_key_file(file, before)
        return "Nothing was changed."
    return "The key file may have changed: check it with `mailbox-appliance key show`."


def _without_kinds(slots: Slots, *kinds: type[Slot]) -> Slots:
    return tuple(slot for slot in slots if not isinstance(slot, kinds))


def _require_opens(slot: Slot, key: StoreKey, passphrase: str | None, file: Path) -> None:
    if unlock_slots((slot,), key.store_id, passphrase, file=file) != key.master:
        raise KeyDamaged(file=file, reason="a new key slot returned a different key")


def _describe_key(file: Path, content: KeyFile | None) -> dict[str, Any]:
    if content is None:
        return {"file": str(file), "storeId": None, "cipher": None, "slots": [{"type": "file"}]}
    slots = [
        {name: value for name, value in msgspec.to_builtins(slot).items() if name not in _SECRETS}
        for slot in content.slots
    ]
    return {"file": str(file), "storeId": content.store_id, "cipher": content.cipher, "slots": slots}
