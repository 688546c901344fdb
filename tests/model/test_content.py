"""Bytes that are read piece by piece."""

import base64
import binascii
import os
import random
from pathlib import Path

import pytest

from mailbox_appliance.model.content import LARGE, PIECE, Base64Lines, Base64Text, Content
from mailbox_appliance.system.spool import Spool


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_parts_are_read_in_order_and_again() -> None:
    content = Content(b"one ", Content(b"two ", b"three"), b"")
    assert len(content) == 13
    assert content.read() == content.read() == b"one two three"


def test_no_piece_is_longer_than_the_bound() -> None:
    content = Content(noise(3 * PIECE + 5), b"end")
    assert max(map(len, content.pieces())) <= PIECE
    assert b"".join(content.pieces()) == noise(3 * PIECE + 5) + b"end"


def test_a_large_part_is_not_copied_into_another() -> None:
    large = noise(2 * LARGE)
    content = Content(b"head", large, b"tail")
    assert any(part is large for part in content._parts)


@pytest.mark.parametrize("spooled", [False, True])
@pytest.mark.parametrize(
    ("start", "end"), [(0, 0), (0, 1), (5, 5), (PIECE - 1, PIECE + 1), (17, 2 * PIECE + 17), (0, 3 * PIECE)]
)
def test_a_part_of_it(start: int, end: int, spooled: bool) -> None:
    whole = noise(3 * PIECE)
    spool = Spool()
    spool.append(whole)
    content = spool.content() if spooled else Content(whole)
    assert content.part(start, end).read() == whole[start:end]
    assert len(content.part(start, end)) == end - start
    assert content.part(start, end).part(0, (end - start) // 2).read() == whole[start : (start + end) // 2]
    spool.close()


@pytest.mark.parametrize(
    ("message", "header", "rest"),
    [
        (b"A: b\r\n\r\nbody", b"A: b\r\n", b"\r\nbody"),
        (b"A: b\r\n\r\n", b"A: b\r\n", b"\r\n"),
        (b"A: b\r\n", b"A: b\r\n", b""),
        (b"A: " + b"x" * (PIECE - 5) + b"\r\n\r\nbody", b"A: " + b"x" * (PIECE - 5) + b"\r\n", b"\r\nbody"),
        (b"A: " + b"x" * 2 * PIECE + b"\r\n\r\nbody", b"A: " + b"x" * 2 * PIECE + b"\r\n", b"\r\nbody"),
    ],
)
def test_the_header_is_told_from_the_rest(message: bytes, header: bytes, rest: bytes) -> None:
    found = Content(message).split_header()
    assert (found[0], found[1].read()) == (header, rest)


@pytest.mark.parametrize(
    "size", [0, 1, 2, 3, 56, 57, 58, 57 * 2048 - 1, 57 * 2048, 57 * 2048 + 1, PIECE, 3 * PIECE + 2]
)
def test_base64_both_ways(size: int) -> None:
    raw = noise(size)
    lines = Base64Lines(Content(raw))
    assert lines.read() == base64.encodebytes(raw).replace(b"\n", b"\r\n")
    assert len(lines) == len(lines.read())
    if size:
        text = Base64Text(Content(base64.b64encode(raw)))
        assert (text.read(), len(text)) == (raw, size)


@pytest.mark.parametrize(
    "text", [b"", b"AAA", b"A===", b"AA=A", b"AAAA=", b"A A=", b"====", b"AAA=" * (PIECE // 4) + b"AAAA"]
)
def test_what_is_not_base64_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"base64|padding"):
        Base64Text(Content(text))


def test_a_text_is_base64_whatever_its_pieces() -> None:
    text = base64.b64encode(noise(4000))
    for cut in range(1, 12):
        content = Content(*(text[start : start + cut] for start in range(0, len(text), cut)))
        assert Base64Text(content).read() == binascii.a2b_base64(text)


def test_a_spool_keeps_nothing_readable_on_the_disk() -> None:
    spool = Spool()
    secret = b"a secret of a mail " * 10_000
    for start in range(0, len(secret), 1000):
        spool.append(secret[start : start + 1000])
    handle = spool._file.fileno()
    on_disk = os.pread(handle, len(secret) + 1, 0)
    assert len(on_disk) == len(secret)
    assert b"secret" not in on_disk
    assert len(set(on_disk)) == 256
    assert spool.content().read() == secret
    spool.close()


def test_a_spool_has_no_name(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b"x")
    assert not list(tmp_path.iterdir())
    assert os.fstat(spool._file.fileno()).st_mode & 0o777 == 0o600
    spool.close()
    with pytest.raises(ValueError, match="closed"):
        spool.content().read()


def test_a_spool_leaves_room_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool()
    spool.append(b"x" * LARGE)
    monkeypatch.setattr("mailbox_appliance.system.spool.RESERVE", 1 << 60)
    with pytest.raises(OSError, match="No space left"):
        spool.append(b"x")
    spool.close()
