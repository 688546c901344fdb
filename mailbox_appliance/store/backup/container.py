"""The backup file format: writing a backup, reading its manifest, and extracting its sections (the files in it).

    MBXBACKUP\\n   first bytes of the file                                -- the manifest is read without a key --
    length        of the manifest, 4 bytes, big-endian
    SHA-256       of the manifest
    manifest      JSON: id, time, reason, format, slots of the key, salt, nonce, sections with sizes and digests
    HMAC-SHA256   of the manifest, by HKDF(key of the sections)
    sections      consecutive, as one encrypted `Stream`, bound to the ID:
                  mailbox.db [mailbox.db-wal] encryption.key [config.toml] [tls/cert.pem] [tls/key.pem]

    key of the sections = HKDF(master key of the store [+ key derived from the passphrase], salt)

A slot is one way to unlock the master key, such as a passphrase. If a backup has a passphrase of its own, the sections'
key depends on it as well, so that the backup cannot be opened anywhere without it. The header is written last, into
space reserved for it, when the digests are known; their length is fixed.
"""

import errno
import hashlib
import hmac
import io
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, cast, get_args

import msgspec
from msgspec import Meta

from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.errors import (
    BackupAltered,
    BackupNewer,
    BackupTruncated,
    BackupUnusable,
    BackupWrongPassphrase,
    KeychainLocked,
    KeyUnusable,
    NotABackup,
    PassphraseNeeded,
    PassphraseWrong,
)
from mailbox_appliance.model.backups import Backup, BackupReason, Progress
from mailbox_appliance.model.base import Count, Timestamp
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.key import (
    FileSlot,
    PassphraseSlot,
    Slot,
    StoreKey,
    derive_key,
    derive_passphrase_kek,
    slots_for_backup,
    unlock_slot,
    unlock_slots,
    wrap_with_kek,
)
from mailbox_appliance.system.files import NO_WAIT
from mailbox_appliance.version import __version__

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

# --- The encrypted stream: chunks of 1 MiB that can neither be changed, moved, dropped nor added ---
#
#     chunk 0 | tag | chunk 1 | tag | ... | last chunk | tag     nonce of each: 7 random bytes, its number, last or not
#
# This is the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizar: Online Authenticated-Encryption, 2015). Every
# chunk but the last is full; an empty stream has one empty chunk. A key is used for one stream only.


CHUNK_SIZE, TAG_SIZE = 1 << 20, 16
NONCE_SIZE = 7
_MOST_CHUNKS = 1 << 32
# Chunks that are read, encrypted and written together. While a chunk is encrypted, no other Python thread runs, and
# after each pause this thread waits for its next turn. So few chunks favor the other threads, many favor this one.
_TOGETHER, _PAUSE = 4, 0.001


class BrokenStream(Exception):
    """Error: chunk `number` of an encrypted stream was changed or moved."""

    def __init__(self, number: int) -> None:
        super().__init__(f"chunk {number} was changed or moved")
        self.number = number


def count_chunks(size: int) -> int:
    """Return the number of chunks in an encrypted stream of `size` unencrypted bytes."""
    return max(1, -(-size // CHUNK_SIZE))


def sealed_size(size: int) -> int:
    """Return the encrypted size of a stream of `size` unencrypted bytes."""
    return size + count_chunks(size) * TAG_SIZE


@dataclass(frozen=True)
class Stream:
    """An encrypted stream of bytes in authenticated chunks: none of them can be changed, moved, dropped or added
    unnoticed.

    `key`: 32 bytes. `nonce`: the bytes with which each chunk's nonce begins. `about`: bytes that every chunk is
    authenticated with, the ID of the backup. `size`: of the unencrypted data, in bytes.
    """

    key: bytes = field(repr=False)
    nonce: bytes
    about: bytes
    size: int
    cipher: str  # the cipher of the store: the same processors are fast with each

    def seal(self, read_into: Callable[[memoryview], int], target: BinaryIO) -> Iterator[int]:
        """Encrypt the stream into `target`, and yield the number of bytes encrypted so far after every few chunks.

        `read_into` fills a buffer with the next bytes and returns how many it wrote, fewer only at the end.
        """
        cipher = self._cipher()
        # One buffer for all chunks: allocating and freeing memory is slow.
        buffer = memoryview(bytearray(_TOGETHER * CHUNK_SIZE))
        for numbers in _batches(0, count_chunks(self.size)):
            begins = numbers.start * CHUNK_SIZE
            some = buffer[: min(self.size, numbers.stop * CHUNK_SIZE) - begins]
            if read_into(some) != len(some):
                raise OSError(errno.EIO, "a file was truncated while it was read")
            parts = ((n, some[n * CHUNK_SIZE - begins : (n + 1) * CHUNK_SIZE - begins]) for n in numbers)
            target.write(b"".join([cipher.encrypt(self._nonce(n), part, self.about) for n, part in parts]))
            yield begins + len(some)
            time.sleep(_PAUSE)

    def open(self, source: BinaryIO, start: int, first: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Decrypt the bytes from `first` up to `end` of the stream, and yield them in pieces.

        `start`: the offset of the stream in the file. `first`, `end`: offsets in the unencrypted data. Raises
        BrokenStream for an altered chunk, before any of its bytes are returned.
        """
        cipher, end = self._cipher(), self.size if end is None else end
        source.seek(start + first // CHUNK_SIZE * (CHUNK_SIZE + TAG_SIZE), os.SEEK_SET)
        for numbers in _batches(first // CHUNK_SIZE, count_chunks(end)):
            begins = numbers.start * CHUNK_SIZE
            sealed = memoryview(source.read(len(numbers) * (CHUNK_SIZE + TAG_SIZE)))
            some = b"".join(
                [self._open_chunk(cipher, n, sealed[(n - numbers.start) * (CHUNK_SIZE + TAG_SIZE) :]) for n in numbers]
            )
            yield some if first <= begins and end >= begins + len(some) else some[max(0, first - begins) : end - begins]
            time.sleep(_PAUSE)

    def _open_chunk(self, cipher: "AESGCM | ChaCha20Poly1305", number: int, sealed: memoryview) -> bytes:
        from cryptography.exceptions import InvalidTag

        length = min(CHUNK_SIZE, self.size - number * CHUNK_SIZE) + TAG_SIZE
        try:
            return cipher.decrypt(self._nonce(number), sealed[:length], self.about)
        except (InvalidTag, ValueError) as error:  # ValueError: shorter than a tag
            raise BrokenStream(number) from error

    def _cipher(self) -> "AESGCM | ChaCha20Poly1305":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

        return ChaCha20Poly1305(self.key) if self.cipher == "chacha20" else AESGCM(self.key)

    def _nonce(self, number: int) -> bytes:
        if not 0 <= number < _MOST_CHUNKS:
            raise ValueError("a stream is too long")
        is_last = number == count_chunks(self.size) - 1
        return self.nonce + number.to_bytes(4, "big") + bytes((is_last,))


def _batches(first: int, end: int) -> Iterator[range]:
    for number in range(first, end, _TOGETHER):
        yield range(number, min(number + _TOGETHER, end))


# --- The manifest, which is read without a key ---
#
# The SHA-256 distinguishes damage from a wrong passphrase. The HMAC, by the key of the sections, shows that nobody has
# written another manifest. Sizes in it must agree with the size of the file, and the names of sections are a fixed few.


MAGIC = b"MBXBACKUP\n"
MANIFEST_VERSION, NEWEST_FORMAT = 1, 5
DIGEST_SIZE, SALT_SIZE = 32, 32
_PREFIX_SIZE = len(MAGIC) + 4 + DIGEST_SIZE
_MAX_MANIFEST_SIZE = 1 << 20

SectionName = Literal["mailbox.db", "mailbox.db-wal", "encryption.key", "config.toml", "tls/cert.pem", "tls/key.pem"]
Format = Literal[3, 4, 5]
Cipher = Literal["aegis", "chacha20"]
SECTION_NAMES: tuple[SectionName, ...] = get_args(SectionName)


def _hex_of_size(size: int) -> Meta:
    return Meta(pattern=f"^[0-9a-f]{{{2 * size}}}\\Z")


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name, size in bytes and SHA-256 of one file in a backup."""

    name: SectionName
    size: Count
    sha256: Annotated[str, _hex_of_size(DIGEST_SIZE)]


class AuditEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of an audit log: its number of rows, and the HMAC of the last one, which covers all earlier ones."""

    count: Count
    head: Annotated[str, Meta(max_length=200)]


class Manifest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Description of a backup, stored unencrypted at its beginning.

    - format: format of the store in the backup.
    - version: the release that made the backup.
    - slots: the ways to unlock its key.
    - own_passphrase: whether the backup was made with a passphrase, without which the store's key does not open it.
    - audit: the end of the audit log, for a store of format 5.
    - size: size of the whole file in bytes.
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
    salt: Annotated[str, _hex_of_size(SALT_SIZE)]
    nonce: Annotated[str, _hex_of_size(NONCE_SIZE)]
    sections: Annotated[tuple[Section, ...], Meta(min_length=1, max_length=len(SECTION_NAMES))]
    audit: AuditEnd | None
    size: Count

    def __post_init__(self) -> None:
        from_timestamp(self.created_at)  # raises ValueError for a date that does not exist

    @property
    def content_size(self) -> int:
        """The total unencrypted size of the sections in bytes."""
        return sum(section.size for section in self.sections)

    def find_section(self, name: SectionName) -> tuple[int, Section] | None:
        """Return a section and its offset in the unencrypted content; None if there is no section of this name."""
        begins = 0
        for section in self.sections:
            if section.name == name:
                return begins, section
            begins += section.size
        return None

    def to_backup(self, file_name: str, *, verified: bool) -> Backup:
        """Return the backup in the form in which the API and the commands show it."""
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


class _ManifestVersion(msgspec.Struct):
    backup: int
    format: int


class _ManifestId(msgspec.Struct):
    id: str


def with_file_size(manifest: Manifest) -> Manifest:
    """Return the manifest with `size` set to the size of the whole file, which the manifest is itself a part of."""
    while (size := content_start(manifest) + sealed_size(manifest.content_size)) != manifest.size:
        manifest = msgspec.structs.replace(manifest, size=size)
    return manifest


def content_start(manifest: Manifest) -> int:
    """Return the offset of the encrypted sections in the file."""
    return _PREFIX_SIZE + len(msgspec.json.encode(manifest)) + DIGEST_SIZE


def render_header(manifest: Manifest, key: bytes) -> bytes:
    """Return everything that precedes the encrypted sections in the file. `key`: for the HMAC of the manifest."""
    text = msgspec.json.encode(manifest)
    return (
        MAGIC + len(text).to_bytes(4, "big") + hashlib.sha256(text).digest() + text + hmac.digest(key, text, "sha256")
    )


def read_header(file: Path, stream: BinaryIO) -> tuple[Manifest, bytes, bytes]:
    """Read everything that precedes the encrypted sections, and leave `stream` at their beginning.

    Returns the manifest, its text (JSON) and its HMAC, which is not checked. Raises NotABackup, BackupNewer,
    BackupTruncated, BackupAltered.
    """
    size = os.fstat(stream.fileno()).st_size
    start = stream.read(_PREFIX_SIZE)
    if not start or start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise NotABackup(file=file.name)
    length = int.from_bytes(start[len(MAGIC) :][:4], "big")
    if len(start) == _PREFIX_SIZE and length > _MAX_MANIFEST_SIZE:
        raise BackupAltered(file=file.name, reason="its manifest has an impossible length")
    if size < _PREFIX_SIZE + length + DIGEST_SIZE:
        raise BackupTruncated(file=file.name, size=size, expected=f"more than {_PREFIX_SIZE + length + DIGEST_SIZE}")
    text, seal = stream.read(length), stream.read(DIGEST_SIZE)
    if hashlib.sha256(text).digest() != start[-DIGEST_SIZE:]:
        with suppress(ValueError, RecursionError):
            _require_known(file, text)  # A later release may use another digest.
        raise BackupAltered(file=file.name, reason="its manifest was changed")
    manifest = _decode_manifest(file, text)
    _check_sizes(file, manifest, len(text), size)
    return manifest, text, seal


def _require_known(file: Path, text: bytes) -> None:
    """Raise BackupNewer if a newer release wrote the manifest `text`, and ValueError if the text cannot be read."""
    version = decode_json(text, _ManifestVersion)
    if version.backup > MANIFEST_VERSION:
        raise BackupNewer(file=file.name, what=f"backup version {version.backup}")
    if version.format > NEWEST_FORMAT:
        raise BackupNewer(file=file.name, what=f"store format {version.format}")


def _decode_manifest(file: Path, text: bytes) -> Manifest:
    try:
        _require_known(file, text)
        return decode_json(text, Manifest)
    except (ValueError, RecursionError) as error:  # msgspec's errors, and Python's if the text is not valid UTF-8
        raise BackupAltered(file=file.name, reason="its manifest cannot be read") from error


def _check_sizes(file: Path, manifest: Manifest, length: int, size: int) -> None:
    names = [section.name for section in manifest.sections]
    should_be = _PREFIX_SIZE + length + DIGEST_SIZE + sealed_size(manifest.content_size)
    if len(set(names)) < len(names) or "mailbox.db" not in names or manifest.size != should_be:
        raise BackupAltered(file=file.name, reason="its manifest contradicts itself")
    if size < should_be:
        raise BackupTruncated(file=file.name, size=size, expected=should_be)
    if size > should_be:
        raise BackupAltered(file=file.name, reason="data was appended to it")


# --- The key of the sections, found from the slots in the backup or with its passphrase ---


_NOTHING_GIVEN = "it needs its passphrase. Provide it with --passphrase-stdin."
_WRONG_ONE = "the passphrase is wrong. Use the passphrase that was set when the backup was made."
_KEY_IN_OTHER_KEYCHAIN = "its key is in the keychain of the computer that made it."


def derive_stream_key(salt: str, master: bytes, kek: bytes) -> bytes:
    """Derive the key of the encrypted sections. `kek`: from the backup's own passphrase; empty if it has none."""
    return derive_key(master + kek, salt=bytes.fromhex(salt), info=b"mailbox-appliance backup")


def derive_seal_key(stream_key: bytes) -> bytes:
    """Derive the key of the manifest's HMAC from that of the encrypted sections."""
    return derive_key(stream_key, info=b"mailbox-appliance manifest")


def unlock_backup(file: Path, manifest: Manifest, passphrase: str | None) -> tuple[bytes, bytes]:
    """Return the master key of the store in a backup, and the key derived from the backup's own passphrase.

    The second is empty unless the backup was made with a passphrase. Raises BackupWrongPassphrase for a wrong or
    missing passphrase, or if the key is in another computer's keychain. Raises BackupUnusable for any other reason.
    """
    sealed = next((slot for slot in manifest.slots if isinstance(slot, PassphraseSlot)), None)
    try:
        if manifest.own_passphrase:
            if sealed is None or passphrase is None:
                raise PassphraseNeeded(file=file.name)
            kek = derive_passphrase_kek(sealed, passphrase)
            return unlock_slot(sealed, kek, manifest.store_id, file.name), kek
        return unlock_slots(manifest.slots, manifest.store_id, passphrase), b""
    except PassphraseWrong as error:
        raise BackupWrongPassphrase(file=file.name, reason=_WRONG_ONE) from error
    except (PassphraseNeeded, KeychainLocked) as error:
        reason = _KEY_IN_OTHER_KEYCHAIN if sealed is None else _NOTHING_GIVEN
        raise BackupWrongPassphrase(file=file.name, reason=reason) from error
    except KeyUnusable as error:
        raise BackupUnusable(reason=error.message) from error


# --- Writing and reading a backup file ---


ENCRYPTING, VERIFYING, UNPACKING = "encrypting", "verifying", "unpacking"
_MAX_SMALL_SECTION = 1 << 20


@dataclass(frozen=True)
class SectionSource:
    """One file to write into a backup: its name there, and its content as bytes or as a file to read."""

    name: SectionName
    content: Path | bytes = field(repr=False)


@dataclass(frozen=True)
class BackupFacts:
    """Values for the manifest of a new backup.

    `created_at`: a timestamp. `format`: of the store. `audit`: the end of its audit log. `version`: this release.
    """

    reason: BackupReason
    created_at: str
    format: int
    audit: AuditEnd | None = None
    version: str = __version__
    id: str = field(default_factory=lambda: new_id("bak"))


def write_container(
    target: Path,
    facts: BackupFacts,
    sources: Sequence[SectionSource],
    key: StoreKey,
    slots: Sequence[Slot],
    *,
    passphrase: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Write a new backup file, readable by its owner only, sync it to the disk, and return its manifest.

    `key`: the key of the store. `slots`: the ways to unlock it; `slots_for_backup` selects those that are written.
    `passphrase`: if given, the backup can be opened only with it. On an error, an incomplete file is left.
    """
    kek, slots = b"", slots_for_backup(tuple(slots))
    if passphrase is not None:
        slot, kek = wrap_with_kek(key, passphrase)
        slots = (slot,)
    with ExitStack() as opened:
        streams = [_SectionReader(source.name, *_open_source(source, opened)) for source in sources]
        manifest = with_file_size(_make_manifest(facts, streams, key, slots, own_passphrase=passphrase is not None))
        out = opened.enter_context(os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b"))
        out.seek(content_start(manifest))
        stream_key = derive_stream_key(manifest.salt, key.master, kek)
        for done in _make_stream(manifest, stream_key).seal(lambda buffer: _fill_buffer(buffer, streams), out):
            if progress is not None:
                progress(ENCRYPTING, done, manifest.content_size)
        manifest = msgspec.structs.replace(manifest, sections=tuple(stream.section for stream in streams))
        out.seek(0)
        out.write(render_header(manifest, derive_seal_key(stream_key)))
        out.flush()
        os.fsync(out.fileno())
    return manifest


def read_manifest(file: Path) -> Manifest:
    """Return the manifest of a backup, unchecked. Raises NotABackup, BackupNewer, BackupTruncated, BackupAltered."""
    with _open_backup(file) as stream:
        return read_header(file, stream)[0]


def find_backup_id(file: Path) -> str | None:
    """Return the backup ID in a file, even if the file is damaged elsewhere; None if it cannot be read."""
    with suppress(BackupUnusable, ValueError, RecursionError), _open_backup(file) as stream:
        start = stream.read(_PREFIX_SIZE)
        length = int.from_bytes(start[len(MAGIC) :][:4], "big")
        if start[: len(MAGIC)] == MAGIC and length <= _MAX_MANIFEST_SIZE:
            return decode_json(stream.read(length), _ManifestId).id
    return None


def open_container(file: Path, *, passphrase: str | None = None, key: StoreKey | None = None) -> "Container":
    """Open a backup, and check that its manifest is authentic.

    `key`: the key of a store, tried first. If it does not fit, the backup's own key is unlocked, with `passphrase` if
    it needs one. Raises BackupUnusable or one of its subclasses.
    """
    with _open_backup(file) as stream:
        manifest, text, seal = read_header(file, stream)

    def fits(master: bytes, kek: bytes = b"") -> bool:
        stream_key = derive_stream_key(manifest.salt, master, kek)
        return hmac.compare_digest(hmac.digest(derive_seal_key(stream_key), text, "sha256"), seal)

    if not manifest.own_passphrase and key is not None and fits(key.master):
        return Container(file, manifest, key.master)
    master, kek = unlock_backup(file, manifest, passphrase)
    if not fits(master, kek):
        raise BackupAltered(file=file.name, reason="its manifest does not match its key")
    return Container(file, manifest, master, kek)


class Container:
    """An opened backup, for reading its sections. Reading returns authentic content or raises BackupAltered."""

    def __init__(self, file: Path, manifest: Manifest, master: bytes, kek: bytes = b"") -> None:
        self.file, self.manifest = file, manifest
        #: The key of the store in it, without the salt of its file.
        self.key = StoreKey(master, manifest.store_id, manifest.cipher)
        self._stream = _make_stream(manifest, derive_stream_key(manifest.salt, master, kek))

    def check(self, progress: Progress | None = None) -> None:
        """Read and authenticate the whole backup. Raises BackupAltered."""
        done = 0
        for section in self.manifest.sections:
            for piece in self.pieces(section.name):
                done += len(piece)
                if progress is not None:
                    progress(VERIFYING, done, self.manifest.content_size)

    def extract(self, name: SectionName, target: Path, progress: Progress | None = None) -> None:
        """Write a section to a new file, readable by its owner only, and sync it to the disk.

        Raises KeyError if there is no such section. On an error, no file is left.
        """
        size = self._section(name)[1].size
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            try:
                for piece in self.pieces(name):
                    out.write(piece)
                    if progress is not None:
                        progress(UNPACKING, out.tell(), size)
                out.flush()
                os.fsync(out.fileno())
            except BaseException:
                target.unlink()
                raise

    def read(self, name: SectionName) -> bytes:
        """Return the content of a small section (up to 1 MiB), such as a key file. Raises KeyError if there is none."""
        if self._section(name)[1].size > _MAX_SMALL_SECTION:
            raise BackupAltered(file=self.file.name, reason=f"its {name} is too large")
        return b"".join(self.pieces(name))

    def pieces(self, name: SectionName) -> Iterator[bytes]:
        """Yield the authentic pieces of a section. Raises BackupAltered at its end if its digest is wrong."""
        begins, section = self._section(name)
        digest = hashlib.sha256()
        for piece in self._open(name, begins, begins + section.size):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != section.sha256:
            raise _section_changed(self.file, name)

    def part(self, name: SectionName, start: int, length: int) -> bytes:
        """Return up to `length` bytes of a section from offset `start`, fewer at its end."""
        begins, section = self._section(name)
        return b"".join(self._open(name, begins + start, begins + min(start + length, section.size)))

    def _open(self, name: SectionName, first: int, end: int) -> Iterator[bytes]:
        with _open_backup(self.file) as stream:
            try:
                yield from self._stream.open(stream, content_start(self.manifest), first, end)
            except BrokenStream as error:
                raise _section_changed(self.file, name) from error

    def _section(self, name: SectionName) -> tuple[int, Section]:
        found = self.manifest.find_section(name)
        if found is None:
            raise KeyError(name)
        return found


class _SectionReader:
    def __init__(self, name: SectionName, stream: BinaryIO, size: int) -> None:
        self._name, self._stream, self._size = name, stream, size
        self._left, self._digest = size, hashlib.sha256()

    @property
    def section(self) -> Section:
        return Section(self._name, self._size, self._digest.hexdigest())

    def read_into(self, buffer: memoryview) -> int:
        """Read the next bytes, and return how many; 0 at the end. Bytes that are appended later are not read."""
        part = buffer[: self._left]
        with part[: self._stream.readinto(part)] as found:  # type: ignore[attr-defined]
            self._digest.update(found)
            self._left -= len(found)
            return len(found)


def _section_changed(file: Path, name: SectionName) -> BackupAltered:
    return BackupAltered(file=file.name, reason=f"its {name} was changed")


def _open_source(source: SectionSource, opened: ExitStack) -> tuple[BinaryIO, int]:
    if isinstance(source.content, bytes):
        return io.BytesIO(source.content), len(source.content)
    stream = opened.enter_context(source.content.open("rb"))
    return stream, os.fstat(stream.fileno()).st_size


def _fill_buffer(buffer: memoryview, streams: Sequence[_SectionReader]) -> int:
    """Returns fewer bytes than the buffer has only after the last file."""
    filled = 0
    for stream in streams:
        while filled < len(buffer) and (length := stream.read_into(buffer[filled:])):
            filled += length
    return filled


def _make_manifest(
    facts: BackupFacts,
    streams: Sequence[_SectionReader],
    key: StoreKey,
    slots: tuple[Slot, ...],
    *,
    own_passphrase: bool,
) -> Manifest:
    return Manifest(
        id=facts.id,
        created_at=facts.created_at,
        reason=facts.reason,
        format=cast("Format", facts.format),
        version=facts.version,
        store_id=key.store_id,
        cipher=cast("Cipher", key.cipher),
        slots=slots,
        own_passphrase=own_passphrase,
        passphrase_protected=not any(isinstance(slot, FileSlot) for slot in slots),
        salt=secrets.token_hex(SALT_SIZE),
        nonce=secrets.token_hex(NONCE_SIZE),
        sections=tuple(stream.section for stream in streams),
        audit=facts.audit,
        size=0,
    )


def _make_stream(manifest: Manifest, stream_key: bytes) -> Stream:
    nonce, about = bytes.fromhex(manifest.nonce), manifest.id.encode()
    return Stream(stream_key, nonce, about, manifest.content_size, manifest.cipher)


@contextmanager
def _open_backup(file: Path) -> Iterator[BinaryIO]:
    """Raises NotABackup for anything but a regular file."""
    try:
        handle = os.open(file, os.O_RDONLY | NO_WAIT)  # Opening a pipe would block.
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise NotABackup(file=file.name)
        with os.fdopen(handle, "rb") as stream:
            yield stream
    except OSError as error:
        raise BackupUnusable(reason=f"{file.name} cannot be read ({error.strerror}).") from error
