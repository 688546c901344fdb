"""Backup files: the content comes out as it was put in, and every change to the bytes has its error."""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mailbox_appliance.errors import (
    BackupAltered,
    BackupNewer,
    BackupTruncated,
    BackupUnusable,
    BackupWrongPassphrase,
    Invalid,
    NotABackup,
)
from mailbox_appliance.store.backup.container import (
    CHUNK_SIZE,
    MAGIC,
    TAG_SIZE,
    AuditEnd,
    BackupFacts,
    SectionName,
    SectionSource,
    open_container,
    read_manifest,
    write_container,
)
from mailbox_appliance.store.key import FileSlot, Slot, StoreKey, new_key, wrap_with_passphrase

FACTS = BackupFacts("manual", "2026-01-02T03:04:05.678Z", 5, AuditEnd(3, "head"))
PASSPHRASE, OTHER = "correct horse battery", "incorrect donkey"
CONTENT: dict[SectionName, bytes] = {"mailbox.db": b"d" * 300, "encryption.key": b"k" * 30, "config.toml": b""}
BEFORE = len(MAGIC) + 4 + 32


def written(
    file: Path,
    key: StoreKey | None = None,
    slots: Iterable[Slot] | None = None,
    *,
    content: dict[SectionName, bytes] = CONTENT,
    passphrase: str | None = None,
) -> Path:
    """Write a backup file."""
    key = key or new_key()
    sources = [SectionSource(name, value) for name, value in content.items()]
    slots = (FileSlot(key.master),) if slots is None else tuple(slots)
    write_container(file, FACTS, sources, key, slots, passphrase=passphrase)
    return file


def read(file: Path, passphrase: str | None = None, key: StoreKey | None = None) -> dict[str, bytes]:
    """Return all sections of a backup."""
    container = open_container(file, passphrase=passphrase, key=key)
    container.check()
    return {section.name: b"".join(container.pieces(section.name)) for section in container.manifest.sections}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "a.mbxbackup")


@pytest.mark.parametrize(
    "size",
    [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 4 * CHUNK_SIZE, 4 * CHUNK_SIZE + 1, 9 * CHUNK_SIZE + 7],
    ids=lambda size: f"{size} bytes",
)
@pytest.mark.parametrize("cipher", ["aegis", "chacha20"])
def test_what_is_put_in_comes_out(tmp_path: Path, size: int, cipher: str) -> None:
    key, big = StoreKey(secrets.token_bytes(32), "store", cipher), secrets.token_bytes(size)
    content: dict[SectionName, bytes] = {"mailbox.db": big, "mailbox.db-wal": b"wal", "tls/key.pem": b""}
    file = written(tmp_path / "a", key, content=content)
    container = open_container(file)
    assert (container.key.master, container.key.store_id, container.key.cipher) == (key.master, "store", cipher)
    container.extract("mailbox.db", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == big
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {"a": 0o600, "out": 0o600}
    assert read(file) == content
    assert container.part("mailbox.db", max(0, size - 3), 10) == big[-3:]
    for start, length in ((0, 5), (CHUNK_SIZE - 2, 4), (3, 5 * CHUNK_SIZE), (4 * CHUNK_SIZE - 1, 2), (size, 1)):
        assert container.part("mailbox.db", start, length) == big[start : start + length]
    assert file.stat().st_size == read_manifest(file).size


def test_files_are_read_as_they_are(tmp_path: Path) -> None:
    source, told = tmp_path / "source", []
    source.write_bytes(secrets.token_bytes(6 * CHUNK_SIZE))
    key = new_key()
    sources = (SectionSource("mailbox.db", source), SectionSource("config.toml", b"[server]"))
    progress = lambda *what: told.append(what)  # noqa: E731
    write_container(tmp_path / "a", FACTS, sources, key, (FileSlot(key.master),), progress=progress)
    assert read(tmp_path / "a") == {"mailbox.db": source.read_bytes(), "config.toml": b"[server]"}
    assert [done for _, done, _ in told] == [4 * CHUNK_SIZE, 6 * CHUNK_SIZE + 8]


def test_nothing_but_the_manifest_can_be_read(tmp_path: Path) -> None:
    secret = secrets.token_bytes(64)
    file = written(tmp_path / "a", content={"mailbox.db": secret * 100, "config.toml": b"[server]\nhost = 1"})
    raw = file.read_bytes()
    assert secret[:16] not in raw
    assert b"host" not in raw
    length = int.from_bytes(raw[len(MAGIC) :][:4], "big")
    manifest = json.loads(raw[BEFORE : BEFORE + length])
    assert manifest["sections"][1] == {
        "name": "config.toml",
        "size": 17,
        "sha256": hashlib.sha256(b"[server]\nhost = 1").hexdigest(),
    }
    assert [manifest[name] for name in ("backup", "format", "reason", "ownPassphrase")] == [1, 5, "manual", False]


# --- keys and passphrases ---


def test_a_passphrase_of_its_own(tmp_path: Path) -> None:
    key = new_key()
    file = written(tmp_path / "a", key, passphrase=PASSPHRASE)
    manifest = read_manifest(file)
    assert (manifest.own_passphrase, manifest.passphrase_protected, len(manifest.slots)) == (True, True, 1)
    assert read(file, PASSPHRASE) == CONTENT
    # Not on this computer either, where the store's key is available.
    for passphrase, given in ((None, None), (None, key), (OTHER, None), (OTHER, key)):
        with pytest.raises(BackupWrongPassphrase):
            open_container(file, passphrase=passphrase, key=given)
    with pytest.raises(Invalid):
        written(tmp_path / "b", key, passphrase="short")


def test_the_passphrase_of_the_store(tmp_path: Path) -> None:
    key = new_key()
    file = written(tmp_path / "a", key, (FileSlot(key.master), wrap_with_passphrase(key, PASSPHRASE)))
    manifest = read_manifest(file)
    assert (manifest.own_passphrase, manifest.passphrase_protected, len(manifest.slots)) == (False, True, 1)
    assert key.master not in file.read_bytes()
    assert read(file, PASSPHRASE) == read(file, key=key) == CONTENT
    for passphrase, given in ((None, None), (OTHER, None), (None, new_key())):
        with pytest.raises(BackupWrongPassphrase):
            open_container(file, passphrase=passphrase, key=given)


def test_the_key_in_plain(tmp_path: Path) -> None:
    file = written(tmp_path / "a")
    assert not read_manifest(file).passphrase_protected
    assert read(file) == read(file, OTHER) == read(file, key=new_key()) == CONTENT


# --- damage ---

SEALED = (BackupAltered, BackupTruncated, BackupNewer, NotABackup)


def outcome(file: Path, passphrase: str | None = None) -> type[Exception] | None:
    """Return the error of reading a backup; None if all content is intact."""
    try:
        assert read(file, passphrase) == CONTENT
    except BackupUnusable as error:
        return type(error)
    return None


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE], ids=["plain key", "passphrase"])
def test_any_flipped_byte_has_a_name(tmp_path: Path, passphrase: str | None) -> None:
    file = written(tmp_path / "a", passphrase=passphrase)
    raw = file.read_bytes()
    start = len(raw) - sum(map(len, CONTENT.values())) - TAG_SIZE
    # With a passphrase, each byte that is not in the manifest costs a derivation.
    behind = range(start - 32, len(raw), 7 if passphrase is None else 150)
    for place in (*range(0, start - 32, 1 if passphrase is None else 3), *behind):
        file.write_bytes(raw[:place] + bytes((raw[place] ^ 0x20,)) + raw[place + 1 :])
        found = outcome(file, passphrase)
        assert found is (NotABackup if place < len(MAGIC) else found), place
        assert found in SEALED, place


def test_truncation_at_every_length(file: Path) -> None:
    with file.open("ab") as handle:
        handle.write(b"\0")
    assert outcome(file) is BackupAltered
    for length in reversed(range(file.stat().st_size - 1)):
        os.truncate(file, length)
        assert outcome(file) is (BackupTruncated if length else NotABackup), length


def test_chunks_that_change_places(tmp_path: Path) -> None:
    content: dict[SectionName, bytes] = {"mailbox.db": secrets.token_bytes(3 * CHUNK_SIZE)}
    file = written(tmp_path / "a", content=content)
    raw = file.read_bytes()
    start, size = len(raw) - 3 * (CHUNK_SIZE + TAG_SIZE), CHUNK_SIZE + TAG_SIZE
    places = [start + number * size for number in range(3)]
    for one, other in (*pairwise(places), (places[0], places[2])):
        swapped = bytearray(raw)
        swapped[one : one + size], swapped[other : other + size] = raw[other : other + size], raw[one : one + size]
        file.write_bytes(swapped)
        with pytest.raises(BackupAltered):
            read(file)


def test_the_sections_of_another_backup_with_the_same_key(tmp_path: Path) -> None:
    key = new_key()
    one, other = (written(tmp_path / name, key).read_bytes() for name in "ab")
    start = len(one) - sum(map(len, CONTENT.values())) - TAG_SIZE
    (tmp_path / "a").write_bytes(one[:start] + other[start:])
    assert outcome(tmp_path / "a") is BackupAltered


def forged(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Replace the manifest of a backup, with a digest and a size that fit."""
    raw = file.read_bytes()
    length = int.from_bytes(raw[len(MAGIC) :][:4], "big")
    manifest = json.loads(raw[BEFORE : BEFORE + length])
    rest = raw[BEFORE + length :]
    change(manifest)
    while "size" in manifest and manifest["size"] != (size := BEFORE + len(msgspec.json.encode(manifest)) + len(rest)):
        manifest["size"] = size
    text = msgspec.json.encode(manifest)
    file.write_bytes(MAGIC + len(text).to_bytes(4, "big") + hashlib.sha256(text).digest() + text + rest)


FORGED: list[tuple[str, Callable[[dict[str, Any]], object], type[Exception]]] = [
    ("another reason", lambda m: m.update(reason="daily"), BackupAltered),
    ("a newer form", lambda m: m.update(backup=2), BackupNewer),
    ("a newer form with other fields", lambda m: m.update(backup=2, format=9, id=[], sections=None), BackupNewer),
    ("a newer format", lambda m: m.update(format=6), BackupNewer),
    ("an older format", lambda m: m.update(format=2), BackupAltered),
    ("an unknown field", lambda m: m.update(more=1), BackupAltered),
    ("a name that leads away", lambda m: m["sections"][0].update(name="../../etc/passwd"), BackupAltered),
    ("a name twice", lambda m: m["sections"][1].update(name="mailbox.db"), BackupAltered),
    ("no database", lambda m: m["sections"][0].update(name="tls/key.pem"), BackupAltered),
    ("no section", lambda m: m.update(sections=[]), BackupAltered),
    ("a size below zero", lambda m: m["sections"][0].update(size=-1), BackupAltered),
    ("a size that is too large", lambda m: m["sections"][0].update(size=1 << 62), BackupAltered),
    ("a size that no machine has", lambda m: m["sections"][0].update(size=1 << 80), BackupAltered),
    (
        "sizes that are shifted",
        lambda m: (m["sections"][0].update(size=299), m["sections"][1].update(size=31)),
        BackupAltered,
    ),
    ("another digest", lambda m: m["sections"][0].update(sha256="0" * 64), BackupAltered),
    ("no digest", lambda m: m["sections"][0].update(sha256=""), BackupAltered),
    ("a day that there is not", lambda m: m.update(createdAt="2026-02-31T00:00:00.000Z"), BackupAltered),
    ("an id that is a path", lambda m: m.update(id="../a"), BackupAltered),
    ("another id", lambda m: m.update(id="bak_" + "0" * 26), BackupAltered),
    ("no slot", lambda m: m.update(slots=[]), BackupAltered),
    ("another key", lambda m: m["slots"][0].update(key="A" * 43 + "="), BackupAltered),
    ("a passphrase that it has none for", lambda m: m.update(ownPassphrase=True), BackupWrongPassphrase),
    ("a salt that is short", lambda m: m.update(salt="00"), BackupAltered),
    ("another salt", lambda m: m.update(salt="0" * 64), BackupAltered),
    ("another nonce", lambda m: m.update(nonce="0" * 14), BackupAltered),
    ("not a manifest", lambda m: m.clear(), BackupAltered),
]


@pytest.mark.parametrize("change", [(b'"backup":1', b'"backup":2'), (b'"format":5', b'"format":6')])
def test_one_that_says_it_is_newer_is_believed_whatever_its_sum(tmp_path: Path, change: tuple[bytes, bytes]) -> None:
    """Nothing of it is read. Reporting damage would make people look for another copy, with the same result."""
    file = written(tmp_path / "a")
    file.write_bytes(file.read_bytes().replace(*change, 1))
    assert outcome(file) is BackupNewer
    file.write_bytes(file.read_bytes()[:-1])
    assert outcome(file) is BackupNewer


@pytest.mark.parametrize(("change", "error"), [row[1:] for row in FORGED], ids=[row[0] for row in FORGED])
def test_a_forged_manifest(file: Path, change: Callable[[dict[str, Any]], object], error: type[Exception]) -> None:
    forged(file, change)
    assert outcome(file, OTHER) is error


def test_one_without_a_database_is_none(tmp_path: Path) -> None:
    file = written(tmp_path / "a.mbxbackup", content={"config.toml": b"text"})
    with pytest.raises(BackupAltered, match="contradicts itself"):
        read_manifest(file)


def test_a_passphrase_that_would_take_the_machine(tmp_path: Path) -> None:
    file = written(tmp_path / "a", passphrase=PASSPHRASE)
    forged(file, lambda manifest: manifest["slots"][0].update(m=1 << 30))
    assert outcome(file, PASSPHRASE) is BackupAltered


def test_a_manifest_without_end(file: Path) -> None:
    raw = file.read_bytes()
    for length in (len(raw), 1 << 20, (1 << 20) + 1, (1 << 32) - 1):
        file.write_bytes(raw[: len(MAGIC)] + length.to_bytes(4, "big") + raw[len(MAGIC) + 4 :])
        assert outcome(file) in (BackupTruncated, BackupAltered)
    nested = b"[" * 100_000
    header = MAGIC + len(nested).to_bytes(4, "big") + hashlib.sha256(nested).digest()
    file.write_bytes(header + nested + bytes(32))
    assert outcome(file) is BackupAltered


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"SQLite format 3\0", b"mbxbackup\n", b"PK\x03\x04"])
def test_what_is_no_backup(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert outcome(tmp_path / "a") is NotABackup


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, error in ((tmp_path, NotABackup), (tmp_path / "pipe", NotABackup), (tmp_path / "none", BackupUnusable)):
        assert outcome(path) is error


def test_what_fails_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    content: dict[SectionName, bytes] = {"mailbox.db": secrets.token_bytes(2 * CHUNK_SIZE)}
    file = written(tmp_path / "a", content=content)
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(BackupAltered):
        open_container(file).extract("mailbox.db", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(KeyError):
        open_container(file).read("tls/cert.pem")


def test_a_file_that_is_there_is_not_written_over(file: Path) -> None:
    with pytest.raises(FileExistsError):
        written(file)
    with pytest.raises(FileExistsError):
        open_container(file).extract("mailbox.db", file)
    assert outcome(file) is None
