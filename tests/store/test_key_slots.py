"""Slots: passphrases, the slots of a backup, the same slots around another key. The keychain: tests/cli/test_key."""

import os
import unicodedata
from pathlib import Path

import msgspec
import pytest

from mailbox_appliance.errors import Invalid, KeychainLocked, KeyUnusable, PassphraseNeeded, PassphraseWrong
from mailbox_appliance.store import key as store_key
from mailbox_appliance.store.key import (
    MAX_PASSPHRASE,
    FileSlot,
    KeyringSlot,
    PassphraseSlot,
    Slot,
    StoreKey,
    derive_passphrase_kek,
    new_key,
    new_recovery_passphrase,
    require_distinct_kinds,
    rewrap_slots,
    slots_for_backup,
    unlock_slots,
    wrap_with_keyring,
    wrap_with_passphrase,
)

PASSPHRASE = "größere Gänse"


def quickly_sealed(key: StoreKey, passphrase: str = PASSPHRASE) -> PassphraseSlot:
    """Return a passphrase slot that opens quickly, with the lowest Argon2id parameters."""
    empty = PassphraseSlot("argon2id", 1, 8, 1, os.urandom(16), bytes(12), bytes(48))
    return store_key._lock_with_kek(empty, key, derive_passphrase_kek(empty, passphrase))


@pytest.fixture(scope="module")
def key() -> StoreKey:
    return new_key()


@pytest.fixture(scope="module")
def sealed(key: StoreKey) -> PassphraseSlot:
    return wrap_with_passphrase(key, PASSPHRASE)


@pytest.mark.parametrize("length", [0, 1, 11, MAX_PASSPHRASE + 1])
def test_a_passphrase_has_a_length(key: StoreKey, length: int) -> None:
    with pytest.raises(Invalid, match="12 to 1024 characters"):
        wrap_with_passphrase(key, "ä" * length)


def test_how_the_keyboard_composes_a_letter_does_not_matter(key: StoreKey, sealed: PassphraseSlot) -> None:
    decomposed = unicodedata.normalize("NFD", PASSPHRASE)
    assert decomposed != PASSPHRASE
    assert unlock_slots((sealed,), key.store_id, decomposed) == key.master
    with pytest.raises(PassphraseWrong):
        unlock_slots((sealed,), key.store_id, PASSPHRASE.upper())


def test_two_slots_of_one_passphrase_have_nothing_in_common(key: StoreKey, sealed: PassphraseSlot) -> None:
    other = wrap_with_passphrase(key, PASSPHRASE)
    assert not {sealed.salt, sealed.nonce, sealed.wrapped} & {other.salt, other.nonce, other.wrapped}
    assert (sealed.t, sealed.m, sealed.p) == (3, 64 * 1024, 4)


def test_memory_that_is_not_to_be_had_is_said_so(sealed: PassphraseSlot) -> None:
    # More than any machine has; a file that asks for it is refused earlier.
    asking = msgspec.structs.replace(sealed, m=(1 << 32) - 1, p=1)
    with pytest.raises(KeyUnusable, match="MiB of free memory"):
        derive_passphrase_kek(asking, PASSPHRASE)


def test_a_recovery_passphrase_can_be_copied_by_hand() -> None:
    made = {new_recovery_passphrase() for _ in range(50)}
    assert len(made) == 50
    assert all(len(one) == 35 and one == one.lower() and not set("01ilo") & set(one) for one in made)


def test_what_travels_in_a_backup(key: StoreKey, sealed: PassphraseSlot) -> None:
    file, keyring = FileSlot(key.master), wrap_with_keyring(key, os.urandom(32))
    assert slots_for_backup((file,)) == (file,)
    assert slots_for_backup((file, sealed)) == (sealed,)
    assert slots_for_backup((keyring, sealed)) == (keyring, sealed)
    assert slots_for_backup((file, keyring)) == (file, keyring)


def test_slots_go_through_json(key: StoreKey, sealed: PassphraseSlot) -> None:
    slots: tuple[Slot, ...] = (FileSlot(key.master), wrap_with_keyring(key, os.urandom(32)), sealed)
    read = msgspec.convert(msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(slots))), tuple[Slot, ...])
    assert read == slots
    nothing: tuple[object, ...] = ([], {}, None, [{"type": "file"}], [{"type": "file", "key": "AA=="}], [{}], "file")
    for bad in nothing:
        with pytest.raises(ValueError):
            require_distinct_kinds(msgspec.convert(bad, tuple[Slot, ...]))


def test_a_keychain_slot_is_named_after_its_store(key: StoreKey) -> None:
    slot = wrap_with_keyring(key, os.urandom(32))
    assert (slot.service, slot.user) == ("mailbox-appliance", f"store-{key.store_id}")


def test_without_a_keychain_its_slot_says_so(
    key: StoreKey, sealed: PassphraseSlot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    slot = wrap_with_keyring(key, os.urandom(32))
    for slots in ((slot,), (slot, sealed)):
        with pytest.raises(KeychainLocked, match="of a file: there is none"):
            unlock_slots(slots, key.store_id, file="a file")
    assert unlock_slots((slot, sealed), key.store_id, PASSPHRASE) == key.master


def test_slots_are_made_again_round_another_key(key: StoreKey, sealed: PassphraseSlot) -> None:
    new, slots = StoreKey(os.urandom(32), key.store_id, key.cipher), (FileSlot(key.master), sealed)
    made = rewrap_slots(slots, key, new, PASSPHRASE, file=Path("key"))
    assert [type(slot) for slot in made] == [FileSlot, PassphraseSlot]
    assert unlock_slots(made[:1], key.store_id) == unlock_slots(made[1:], key.store_id, PASSPHRASE) == new.master
    assert isinstance(made[1], PassphraseSlot)
    assert made[1].nonce != sealed.nonce
    for passphrase, error in ((None, PassphraseNeeded), ("another of twelve", PassphraseWrong)):
        with pytest.raises(error):
            rewrap_slots(slots, key, new, passphrase, file=Path("key"))


def test_only_what_is_bound_to_a_slot_opens_it(key: StoreKey) -> None:
    kek = os.urandom(32)
    slot, moved = wrap_with_keyring(key, kek), wrap_with_keyring(StoreKey(key.master, "another", "aegis"), kek)
    assert isinstance(slot, KeyringSlot)
    assert slot.user != moved.user
