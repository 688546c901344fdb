"""The key that a backup is sealed with, and how it is found again: from its slots, or with its passphrase."""

from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mailbox_appliance.errors import (
    BackupUnusable,
    BackupWrongPassphrase,
    KeychainLocked,
    KeyUnusable,
    PassphraseNeeded,
    PassphraseWrong,
)
from mailbox_appliance.store.key_slots import PassphraseSlot, opened_by_kek, passphrase_kek, unlock
from mailbox_appliance.store.manifest import Manifest

_NONE_GIVEN = "it needs its passphrase (--passphrase-stdin), and none was given."
_WRONG = "the passphrase is wrong; it is the one of the time when the backup was made."
_ELSEWHERE = "its key lies in the keychain of the computer that it was made on."


def stream_key_of(salt: str, master: bytes, kek: bytes) -> bytes:
    """The key of the sections: from the store's master key, and what a passphrase of the backup's own gives."""
    return HKDF(algorithm=SHA256(), length=32, salt=bytes.fromhex(salt), info=b"mailbox-appliance backup").derive(
        master + kek
    )


def seal_key_of(stream_key: bytes) -> bytes:
    """The key of the manifest's HMAC."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"mailbox-appliance manifest").derive(stream_key)


def unlocked(file: Path, manifest: Manifest, passphrase: str | None) -> tuple[bytes, bytes]:
    """The master key in a backup, and what the passphrase gives where the sections' key depends on it as well.

    Raises BackupWrongPassphrase, also where one is missing, and BackupUnusable.
    """
    sealed = next((slot for slot in manifest.slots if isinstance(slot, PassphraseSlot)), None)
    try:
        if manifest.own_passphrase:
            if sealed is None or passphrase is None:
                raise PassphraseNeeded(file=file.name)
            kek = passphrase_kek(sealed, passphrase)
            return opened_by_kek(sealed, kek, manifest.store_id, file.name), kek
        return unlock(manifest.slots, manifest.store_id, passphrase), b""
    except PassphraseWrong as error:
        raise BackupWrongPassphrase(file=file.name, reason=_WRONG) from error
    except (PassphraseNeeded, KeychainLocked) as error:
        reason = _ELSEWHERE if sealed is None else _NONE_GIVEN
        raise BackupWrongPassphrase(file=file.name, reason=reason) from error
    except KeyUnusable as error:
        raise BackupUnusable(reason=error.message) from error
