"""Backup files: writing one, looking at one, and taking out what is in it.

    MBXBACKUP\\n   magic                                                  -- what store/manifest reads, without a key --
    length        of the manifest, 4 bytes, big-endian
    SHA-256       of the manifest
    manifest      JSON: id, time, reason, format, slots of the key, salt, nonce, sections with sizes and digests
    HMAC-SHA256   of the manifest, by HKDF(key of the sections)
    sections      one after the other as one sealed stream (store/sealed_stream), bound to the id:
                  mailbox.db [mailbox.db-wal] encryption.key [config.toml] [tls/cert.pem] [tls/key.pem]

    key of the sections = HKDF(master key of the store [+ what the passphrase gives], salt)

With a passphrase of its own the sections' key depends on it as well, so that such a backup opens nowhere without it.
Digests have a fixed length: the header is written last, over a place that was left for it.
"""

import hashlib
import hmac
import io
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from mailbox_appliance.errors import BackupAltered, BackupUnusable, NotABackup
from mailbox_appliance.model.records import BackupReason, Progress
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.backup_key import seal_key_of, stream_key_of, unlocked
from mailbox_appliance.store.key_slots import FileSlot, Slot, slots_for_backup, wrap_with_kek
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.manifest import (
    SALT,
    AuditEnd,
    Cipher,
    Format,
    Manifest,
    Section,
    SectionName,
    content_start,
    header_of,
    read_header,
    read_id,
    seal_of,
    sized,
)
from mailbox_appliance.store.sealed_stream import BrokenStream, Stream, new_nonce
from mailbox_appliance.system.files import NO_WAIT
from mailbox_appliance.version import __version__

ENCRYPTING, VERIFYING, UNPACKING = "encrypting", "verifying", "unpacking"
_SMALL = 1 << 20


@dataclass(frozen=True)
class Source:
    """What becomes a section: a file, or the bytes themselves."""

    name: SectionName
    content: Path | bytes = field(repr=False)


@dataclass(frozen=True)
class Facts:
    """What a backup that is to be written says of itself. `created_at` is a timestamp."""

    reason: BackupReason
    created_at: str
    format: int
    audit: AuditEnd | None = None
    version: str = __version__
    id: str = field(default_factory=lambda: new_id("bak"))


def write_container(
    target: Path,
    facts: Facts,
    sources: Sequence[Source],
    key: StoreKey,
    slots: Sequence[Slot],
    *,
    passphrase: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Write a backup file, readable by its owner only, that was not there before; on the disk when this returns.

    `slots`: those of the store; the ones that travel are chosen here. Whatever fails leaves a part of the file.
    """
    kek, slots = b"", slots_for_backup(tuple(slots))
    if passphrase is not None:
        slot, kek = wrap_with_kek(key, passphrase)
        slots = (slot,)
    with ExitStack() as opened:
        streams = [_Reading(source.name, *_opened(source, opened)) for source in sources]
        manifest = sized(_manifest(facts, streams, key, slots, own_passphrase=passphrase is not None))
        out = opened.enter_context(os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b"))
        out.seek(content_start(manifest))
        stream_key = stream_key_of(manifest.salt, key.master, kek)
        for done in _stream(manifest, stream_key).seal(lambda buffer: _filled(buffer, streams), out):
            if progress is not None:
                progress(ENCRYPTING, done, manifest.content_size)
        manifest = msgspec.structs.replace(manifest, sections=tuple(stream.section for stream in streams))
        out.seek(0)
        out.write(header_of(manifest, seal_key_of(stream_key)))
        out.flush()
        os.fsync(out.fileno())
    return manifest


def read_manifest(file: Path) -> Manifest:
    """What a backup says of itself, as far as that can be believed without its key.

    Raises NotABackup, BackupNewer, BackupTruncated, BackupAltered.
    """
    with _reading(file) as stream:
        return read_header(file, stream)[0]


def id_of(file: Path) -> str | None:
    """The id that a file gives itself, also where it is damaged elsewhere; None where that cannot be told."""
    with suppress(BackupUnusable), _reading(file) as stream:
        return read_id(stream)
    return None


def open_container(file: Path, *, passphrase: str | None = None, key: StoreKey | None = None) -> "Container":
    """A backup whose key was found: in its own slots, or `key`, that of the store it may be of.

    Raises a BackupUnusable.
    """
    with _reading(file) as stream:
        manifest, text, seal = read_header(file, stream)

    def fits(master: bytes, kek: bytes = b"") -> bool:
        stream_key = stream_key_of(manifest.salt, master, kek)
        return hmac.compare_digest(seal_of(text, seal_key_of(stream_key)), seal)

    if not manifest.own_passphrase and key is not None and fits(key.master):
        return Container(file, manifest, key.master)
    master, kek = unlocked(file, manifest, passphrase)
    if not fits(master, kek):
        raise BackupAltered(file=file.name, reason="its manifest is not the one that was written with its key")
    return Container(file, manifest, master, kek)


class Container:
    """A backup whose key is known. What is taken out of it is what was put in, or BackupAltered is raised."""

    def __init__(self, file: Path, manifest: Manifest, master: bytes, kek: bytes = b"") -> None:
        self.file, self.manifest = file, manifest
        #: The key of the store in it, which does not know how its file begins.
        self.key = StoreKey(master, manifest.store_id, manifest.cipher)
        self._stream = _stream(manifest, stream_key_of(manifest.salt, master, kek))

    def check(self, progress: Progress | None = None) -> None:
        """Read all of it."""
        done = 0
        for section in self.manifest.sections:
            for piece in self.pieces(section.name):
                done += len(piece)
                if progress is not None:
                    progress(VERIFYING, done, self.manifest.content_size)

    def extract(self, name: SectionName, target: Path, progress: Progress | None = None) -> None:
        """Write a section to a file that is not there yet, readable by its owner only; on the disk when this returns.

        Raises KeyError where there is no such section. What fails leaves no file.
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
        """A small section (a key file, a configuration) as a whole. Raises KeyError where there is none."""
        if self._section(name)[1].size > _SMALL:
            raise BackupAltered(file=self.file.name, reason=f"its {name} is larger than such a file can be")
        return b"".join(self.pieces(name))

    def pieces(self, name: SectionName) -> Iterator[bytes]:
        """A section, some of it at a time; each piece is authentic, the whole is after the last."""
        begins, section = self._section(name)
        digest = hashlib.sha256()
        for piece in self._open(name, begins, begins + section.size):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != section.sha256:
            raise _changed(self.file, name)

    def part(self, name: SectionName, start: int, length: int) -> bytes:
        """So much of a section as there is."""
        begins, section = self._section(name)
        return b"".join(self._open(name, begins + start, begins + min(start + length, section.size)))

    def _open(self, name: SectionName, first: int, end: int) -> Iterator[bytes]:
        with _reading(self.file) as stream:
            try:
                yield from self._stream.open(stream, content_start(self.manifest), first, end)
            except BrokenStream as error:
                raise _changed(self.file, name) from error

    def _section(self, name: SectionName) -> tuple[int, Section]:
        found = self.manifest.find_section(name)
        if found is None:
            raise KeyError(name)
        return found


class _Reading:
    """A section while it is read, for its digest."""

    def __init__(self, name: SectionName, stream: BinaryIO, size: int) -> None:
        self._name, self._stream, self._size = name, stream, size
        self._left, self._digest = size, hashlib.sha256()

    @property
    def section(self) -> Section:
        return Section(self._name, self._size, self._digest.hexdigest())

    def read_into(self, buffer: memoryview) -> int:
        """Some of what comes next, no more than it had when it was opened; 0 at its end."""
        part = buffer[: self._left]
        with part[: self._stream.readinto(part)] as found:  # type: ignore[attr-defined]
            self._digest.update(found)
            self._left -= len(found)
            return len(found)


def _changed(file: Path, name: SectionName) -> BackupAltered:
    return BackupAltered(file=file.name, reason=f"{name} in it has changed")


def _opened(source: Source, opened: ExitStack) -> tuple[BinaryIO, int]:
    if isinstance(source.content, bytes):
        return io.BytesIO(source.content), len(source.content)
    stream = opened.enter_context(source.content.open("rb"))
    return stream, os.fstat(stream.fileno()).st_size


def _filled(buffer: memoryview, streams: Sequence[_Reading]) -> int:
    """Fill a buffer from the sections, one after the other; answers how much there was."""
    filled = 0
    for stream in streams:
        while filled < len(buffer) and (length := stream.read_into(buffer[filled:])):
            filled += length
    return filled


def _manifest(
    facts: Facts, streams: Sequence[_Reading], key: StoreKey, slots: tuple[Slot, ...], *, own_passphrase: bool
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
        salt=secrets.token_hex(SALT),
        nonce=new_nonce().hex(),
        sections=tuple(stream.section for stream in streams),
        audit=facts.audit,
        size=0,
    )


def _stream(manifest: Manifest, stream_key: bytes) -> Stream:
    nonce, about = bytes.fromhex(manifest.nonce), manifest.id.encode()
    return Stream(stream_key, nonce, about, manifest.content_size, manifest.cipher)


@contextmanager
def _reading(file: Path) -> Iterator[BinaryIO]:
    """The file, opened; what the disk refuses is told as a backup that cannot be used."""
    try:
        handle = os.open(file, os.O_RDONLY | NO_WAIT)  # a pipe would be waited for
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise NotABackup(file=file.name)
        with os.fdopen(handle, "rb") as stream:
            yield stream
    except OSError as error:
        raise BackupUnusable(reason=f"{file.name} cannot be read ({error.strerror}).") from error
