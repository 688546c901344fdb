"""Key files: their content, the errors for damage and hostile content, and writing them."""

import base64
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mailbox_appliance.errors import KeyDamaged, PassphraseNeeded, PassphraseWrong
from mailbox_appliance.store import key as store_key
from mailbox_appliance.store.key import (
    FileSlot,
    KeyFile,
    PassphraseSlot,
    Slot,
    StoreKey,
    derive_key,
    new_key,
    read_key,
    read_key_file,
    render_key_file,
    wrap_with_keyring,
    write_key,
)
from tests.store.test_key_slots import quickly_sealed

PASSPHRASE = "twelve geese fly"


@pytest.fixture(scope="module")
def key() -> StoreKey:
    return new_key().with_salt("0f" * 16)


@pytest.fixture(scope="module")
def slots(key: StoreKey) -> tuple[Slot, ...]:
    """Return one slot of each kind."""
    return FileSlot(key.master), wrap_with_keyring(key, os.urandom(32)), quickly_sealed(key, PASSPHRASE)


def seen(file: Path) -> KeyFile | None:
    """Return a parsed key file, or None if it is damaged."""
    with suppress(KeyDamaged):
        return read_key_file(file)
    return None


def test_every_flipped_byte_is_told_or_changes_nothing(tmp_path: Path, key: StoreKey, slots: tuple[Slot, ...]) -> None:
    content, file = render_key_file(key, slots), tmp_path / "key"
    file.write_bytes(content)
    whole, told = read_key_file(file), 0
    for position in range(len(content)):
        spoilt = bytearray(content)
        spoilt[position] ^= 1 << position % 8
        file.write_bytes(spoilt)
        told += (found := seen(file)) is None
        assert found in (None, whole), position
    assert told > len(content) * 0.95  # white space may become other white space


def test_a_key_file_that_was_cut_is_told(tmp_path: Path, key: StoreKey, slots: tuple[Slot, ...]) -> None:
    content, file = render_key_file(key, slots), tmp_path / "key"
    for size in range(len(content) - 1):
        file.write_bytes(content[:size])
        assert seen(file) is None


# --- forged content, including the checksum ------------------------------------------------------------------------


def rewritten(content: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    made = json.loads(content)
    change(made)
    made.pop("checksum", None)
    return json.dumps({**made, "checksum": store_key._checksum(made)}).encode()


def of_passphrase(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(slot for slot in made["slots"] if slot["type"] == "passphrase")
    return found


def in_passphrase(**values: object) -> Callable[[dict[str, Any]], object]:
    return lambda made: of_passphrase(made).update(values)


def in_keyring(**values: object) -> Callable[[dict[str, Any]], object]:
    return lambda made: made["slots"][1].update(values)


SHORT = base64.b64encode(bytes(8)).decode()
# fmt: off
HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "64 GiB":             in_passphrase(m=64 << 20),
    "a KiB over a GiB":   in_passphrase(m=(1 << 20) + 1),
    "too little memory":  in_passphrase(m=8, p=4),
    "no memory":          in_passphrase(m=0),
    "11 iterations":      in_passphrase(t=11),
    "no iterations":      in_passphrase(t=0),
    "odd iterations":     in_passphrase(t="3"),
    "a broken iteration": in_passphrase(t=2.5),
    "17 lanes":           in_passphrase(p=17),
    "a huge number":      in_passphrase(m=10**30),
    "another function":   in_passphrase(kdf="scrypt"),
    "short salt":         in_passphrase(salt=SHORT),
    "short nonce":        in_passphrase(nonce=SHORT),
    "short key":          in_passphrase(wrapped=SHORT),
    "no base64":          in_passphrase(wrapped="*" * 64),
    "unknown field":      in_passphrase(hint="geese"),
    "other service":      in_keyring(service="login"),
    "other user":         in_keyring(user="store-x\nmail"),
    "unknown slot":       lambda made: made["slots"].append({"type": "token"}),
    "two of a kind":      lambda made: made["slots"].append(made["slots"][0]),
    "no slots":           lambda made: made.update(slots=[]),
    "unknown field outside": lambda made: made.update(path="/etc/passwd"),
    "a newer form":       lambda made: made.update(format=6),
    "another cipher":     lambda made: made.update(cipher="rot13"),
    "an odd id":          lambda made: made.update(storeId=7),
    "half a character":   lambda made: made.update(check="\ud800"),
    "other check":        lambda made: made.update(check="0" * 64),
    "other id":           lambda made: made.update(storeId="0" * 16),
    "other salt":         lambda made: made.update(salt="1" * 32),
    "other key":          lambda made: made["slots"][0].update(key=base64.b64encode(bytes(32)).decode()),
}
# fmt: on


@pytest.mark.parametrize("what", HOSTILE)
def test_what_no_key_file_says_is_refused(what: str, tmp_path: Path, key: StoreKey, slots: tuple[Slot, ...]) -> None:
    (tmp_path / "key").write_bytes(rewritten(render_key_file(key, slots), HOSTILE[what]))
    with pytest.raises(KeyDamaged):
        read_key(tmp_path / "key", PASSPHRASE)


def test_a_slot_belongs_to_its_file_and_its_parameters(tmp_path: Path, key: StoreKey) -> None:
    file, slot = tmp_path / "key", quickly_sealed(key, PASSPHRASE)
    other = quickly_sealed(StoreKey(key.master, "another", key.cipher), PASSPHRASE)
    exchanged = (other, msgspec.structs.replace(slot, t=2), msgspec.structs.replace(slot, salt=bytes(16)))
    for one in exchanged:
        file.write_bytes(render_key_file(key, (one,)))
        with pytest.raises(PassphraseWrong):
            read_key(file, PASSPHRASE)
    file.write_bytes(render_key_file(key, (slot,)))
    assert read_key(file, PASSPHRASE) == key


def test_more_than_a_key_file_is_not_read(tmp_path: Path, key: StoreKey, slots: tuple[Slot, ...]) -> None:
    (tmp_path / "key").write_bytes(render_key_file(key, slots) + b" " * 70_000)
    assert seen(tmp_path / "key") is None


def test_secrets_are_in_no_representation(tmp_path: Path, key: StoreKey, slots: tuple[Slot, ...]) -> None:
    (tmp_path / "key").write_bytes(render_key_file(key, slots))
    shown = repr((key, slots, read_key_file(tmp_path / "key")))
    assert repr(key.master)[2:-1] not in shown
    assert base64.b64encode(key.master).decode() not in shown


# --- writing -------------------------------------------------------------------------------------------------------


def test_writing_keeps_the_slots_of_the_same_key(tmp_path: Path, key: StoreKey, slots: tuple[Slot, ...]) -> None:
    file = tmp_path / "key"
    for kept in (slots[2:], slots[1:], slots[:1], slots):
        file.write_bytes(render_key_file(key, kept))
        write_key(file, key.with_salt("1f" * 16))
        there = read_key_file(file)
        assert there is not None
        assert (there.slots, there.salt, file.stat().st_mode & 0o777) == (kept, "1f" * 16, 0o600)


@pytest.mark.parametrize("before", ["nothing", "other key", "other store", "one line", "damaged"])
def test_else_there_is_a_slot_with_the_key_itself(tmp_path: Path, key: StoreKey, before: str) -> None:
    file, other = tmp_path / "key", new_key()
    if before in ("other key", "other store"):
        owner = other if before == "other key" else StoreKey(key.master, "another", key.cipher)
        file.write_bytes(render_key_file(owner, (quickly_sealed(owner, PASSPHRASE),)))
    elif before != "nothing":
        file.write_bytes(base64.b64encode(key.master) if before == "one line" else b"{}")
    write_key(file, key)
    assert read_key(file) == key
    there = read_key_file(file)
    assert there is not None
    assert there.slots == (FileSlot(key.master),)


def test_a_link_to_a_key_file_stays_one(tmp_path: Path, key: StoreKey) -> None:
    (tmp_path / "stick").mkdir()
    real, link, second = tmp_path / "stick" / "real", tmp_path / "link", tmp_path / "second"
    real.write_bytes(base64.b64encode(key.master))
    link.symlink_to("stick/real")
    second.symlink_to(link)
    write_key(second, key)
    assert (second.is_symlink(), link.is_symlink(), real.is_symlink()) == (True, True, False)
    assert read_key(real) == read_key(second) == key
    assert [path.name for path in (tmp_path / "stick").iterdir()] == ["real"]


def test_the_file_slot_comes_first_then_a_passphrase_that_is_given(tmp_path: Path, key: StoreKey) -> None:
    file, slot = tmp_path / "key", quickly_sealed(key, PASSPHRASE)
    assert isinstance(slot, PassphraseSlot)
    file.write_bytes(render_key_file(key, (FileSlot(key.master), slot)))
    assert read_key(file, "not looked at at all") == key
    file.write_bytes(render_key_file(key, (slot,)))
    with pytest.raises(PassphraseNeeded, match=str(file)):
        read_key(file)
    with pytest.raises(PassphraseWrong, match=str(file)):
        read_key(file, PASSPHRASE + " ")
    assert read_key(file, PASSPHRASE) == key


def test_derive_key_is_the_hkdf_of_rfc_5869() -> None:
    # A.1 and A.3, of which a key has the first 32 bytes.
    material, info = b"\x0b" * 22, bytes(range(0xF0, 0xFA))
    with_salt = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    without = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    assert derive_key(material, salt=bytes(range(13)), info=info).hex() == with_salt
    assert derive_key(material, info=b"").hex() == without
