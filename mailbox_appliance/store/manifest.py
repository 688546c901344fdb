"""The readable beginning of a backup file: what is in it, when it was made, and in what slots its key lies.

    MBXBACKUP\\n | length, 4 bytes | SHA-256 of the manifest | manifest, JSON | HMAC of the manifest | sealed sections

The SHA-256 tells, without any key, damage from a wrong passphrase; the HMAC, by the key of the sections, tells that
nobody has written another manifest. Nothing in it is believed that the size of the file does not bear out, and no name
in it is one of a fixed few.
"""

import hashlib
import hmac
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, get_args

import msgspec
from msgspec import Meta

from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.errors import BackupAltered, BackupNewer, BackupTruncated, NotABackup
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.records import Backup, BackupReason, Count, Timestamp
from mailbox_appliance.store.key_slots import Slot
from mailbox_appliance.store.sealed_stream import NONCE, sealed_size

MAGIC = b"MBXBACKUP\n"
VERSION, NEWEST_FORMAT = 1, 5
DIGEST, SALT = 32, 32
_BEFORE = len(MAGIC) + 4 + DIGEST
_LONGEST = 1 << 20

SectionName = Literal["mailbox.db", "mailbox.db-wal", "encryption.key", "config.toml", "tls/cert.pem", "tls/key.pem"]
Format = Literal[3, 4, 5]
Cipher = Literal["aegis", "chacha20"]
SECTION_NAMES: tuple[SectionName, ...] = get_args(SectionName)


def _hex(size: int) -> Meta:
    return Meta(pattern=f"^[0-9a-f]{{{2 * size}}}\\Z")


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file in the backup."""

    name: SectionName
    size: Count
    sha256: Annotated[str, _hex(DIGEST)]


class AuditEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many rows the audit log in the backup has, and the head that the last one left."""

    count: Count
    head: Annotated[str, Meta(max_length=200)]


class Manifest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What a backup says of itself. `format`: of the store in it; `version`: the release that made it.

    `own_passphrase`: it opens with the passphrase that it was made with, and not without, here neither.
    `audit`: of a store of format 5. `size`: of the whole file.
    """

    backup: Literal[1] = 1
    id: Annotated[str, Meta(pattern=r"^bak_[0-9a-z]{26}\Z")]
    created_at: Annotated[Timestamp, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")]
    reason: BackupReason
    format: Format
    version: Annotated[str, Meta(max_length=100)]
    store_id: Annotated[str, Meta(max_length=100)]
    cipher: Cipher
    slots: Annotated[tuple[Slot, ...], Meta(min_length=1, max_length=8)]
    own_passphrase: bool
    passphrase_protected: bool
    salt: Annotated[str, _hex(SALT)]
    nonce: Annotated[str, _hex(NONCE)]
    sections: Annotated[tuple[Section, ...], Meta(min_length=1, max_length=len(SECTION_NAMES))]
    audit: AuditEnd | None
    size: Count

    def __post_init__(self) -> None:
        from_timestamp(self.created_at)  # raises ValueError for a day that there is not

    @property
    def content_size(self) -> int:
        """How many bytes its sections have together."""
        return sum(section.size for section in self.sections)

    def find_section(self, name: SectionName) -> tuple[int, Section] | None:
        """Where a section begins among all of them, and what is known of it; None where there is none."""
        begins = 0
        for section in self.sections:
            if section.name == name:
                return begins, section
            begins += section.size
        return None

    def to_backup(self, file_name: str, *, verified: bool) -> Backup:
        """The same as clients see it."""
        return Backup(
            id=self.id,
            file_name=file_name,
            created_at=self.created_at,
            reason=self.reason,
            format=self.format,
            version=self.version,
            size_bytes=self.size,
            passphrase_protected=self.passphrase_protected,
            verified=verified,
        )


class _Version(msgspec.Struct):
    backup: int
    format: int


class _Named(msgspec.Struct):
    id: str


def sized(manifest: Manifest) -> Manifest:
    """The same with the size that its file will have, which has a part of its own in it."""
    while (size := content_start(manifest) + sealed_size(manifest.content_size)) != manifest.size:
        manifest = msgspec.structs.replace(manifest, size=size)
    return manifest


def content_start(manifest: Manifest) -> int:
    """Where the sealed sections begin in its file."""
    return _BEFORE + len(msgspec.json.encode(manifest)) + DIGEST


def header_of(manifest: Manifest, key: bytes) -> bytes:
    """All that stands before the sealed sections; `key` is for the HMAC."""
    text = msgspec.json.encode(manifest)
    return MAGIC + len(text).to_bytes(4, "big") + hashlib.sha256(text).digest() + text + seal_of(text, key)


def seal_of(text: bytes, key: bytes) -> bytes:
    """The HMAC of a manifest as it stands in the file."""
    return hmac.digest(key, text, "sha256")


def read_header(file: Path, stream: BinaryIO) -> tuple[Manifest, bytes, bytes]:
    """The manifest of a backup, its text and its HMAC; `stream` is left where the sealed sections begin.

    Raises NotABackup, BackupNewer, BackupTruncated, BackupAltered.
    """
    size = os.fstat(stream.fileno()).st_size
    start = stream.read(_BEFORE)
    if not start or start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise NotABackup(file=file.name)
    length = int.from_bytes(start[len(MAGIC) :][:4], "big")
    if len(start) == _BEFORE and length > _LONGEST:
        raise BackupAltered(file=file.name, reason="its manifest cannot be that long")
    if size < _BEFORE + length + DIGEST:
        raise BackupTruncated(file=file.name, size=size, expected=f"more than {_BEFORE + length + DIGEST}")
    text, seal = stream.read(length), stream.read(DIGEST)
    if hashlib.sha256(text).digest() != start[-DIGEST:]:
        with suppress(ValueError, RecursionError):
            _require_known(file, text)  # a release to come may sum up another way
        raise BackupAltered(file=file.name, reason="its manifest has changed")
    manifest = _decoded(file, text)
    _check_sizes(file, manifest, len(text), size)
    return manifest, text, seal


def read_id(stream: BinaryIO) -> str | None:
    """The id in what may be a manifest, damaged or of a newer release; None where there is none."""
    start = stream.read(_BEFORE)
    length = int.from_bytes(start[len(MAGIC) :][:4], "big")
    if start[: len(MAGIC)] != MAGIC or length > _LONGEST:
        return None
    with suppress(ValueError, RecursionError):
        return decode_json(stream.read(length), _Named).id
    return None


def _require_known(file: Path, text: bytes) -> None:
    """Raise BackupNewer for a manifest that says so; what msgspec raises where that cannot be read."""
    version = decode_json(text, _Version)
    if version.backup > VERSION:
        raise BackupNewer(file=file.name, what=f"form {version.backup} of backups")
    if version.format > NEWEST_FORMAT:
        raise BackupNewer(file=file.name, what=f"format {version.format} of stores")


def _decoded(file: Path, text: bytes) -> Manifest:
    try:
        _require_known(file, text)
        return decode_json(text, Manifest)
    except (ValueError, RecursionError) as error:  # msgspec's and, where text is no UTF-8, Python's
        raise BackupAltered(file=file.name, reason="its manifest cannot be read") from error


def _check_sizes(file: Path, manifest: Manifest, length: int, size: int) -> None:
    names = [section.name for section in manifest.sections]
    should_be = _BEFORE + length + DIGEST + sealed_size(manifest.content_size)
    if len(set(names)) < len(names) or "mailbox.db" not in names or manifest.size != should_be:
        raise BackupAltered(file=file.name, reason="its manifest contradicts itself")
    if size < should_be:
        raise BackupTruncated(file=file.name, size=size, expected=should_be)
    if size > should_be:
        raise BackupAltered(file=file.name, reason="something was added at its end")
