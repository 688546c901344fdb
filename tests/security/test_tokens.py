"""Tokens are recognizable, carry a checksum, and are stored as a hash."""

import hashlib
import os
import re
import threading
import time
import zlib
from typing import get_args

import pytest

from mailbox_appliance.security import tokens
from mailbox_appliance.security.tokens import KINDS, Kind, Prefix, hash_token, is_well_formed, new_id, new_token

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN = "mbxs_" + "0" * 43


def checked(body: str) -> str:
    """Return the body with its checksum, computed in another way than the appliance does."""
    number = zlib.crc32(body.encode())
    return body + "".join(BASE62[number // 62**place % 62] for place in (5, 4, 3, 2, 1, 0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_token(kind: Kind) -> None:
    tokens = {new_token(kind) for _ in range(200)}
    assert len(tokens) == 200
    for token in tokens:
        assert re.fullmatch(rf"{kind}_[0-9A-Za-z]{{49}}", token)
        assert checked(token[:-6]) == token
        assert is_well_formed(token)
    assert {character for token in tokens for character in token[5:-6]} == set(BASE62)


def test_the_checksum_is_padded() -> None:
    low = next(body for number in range(10**6) if zlib.crc32((body := f"mbxs_{number:043}").encode()) < 62**4)
    assert checked(low)[-6:].startswith("00")
    assert is_well_formed(checked(low))


ODD = [
    ("", False),
    (checked(TOKEN), True),
    (checked(TOKEN)[:-1], False),
    (checked(TOKEN) + "0", False),
    (checked(TOKEN)[:-1] + "!", False),
    (checked(TOKEN).swapcase(), False),
    (checked("mbxz_" + "0" * 43), False),
    (checked("mbxs-" + "0" * 43), False),
    (checked("mbxs_" + "0" * 42), False),
    (checked("mbxs_" + "0" * 42 + "-"), False),
    (checked("mbxs_" + "0" * 42 + "é"), False),
    (checked("mbxs_" + "0" * 42 + "²"), False),
    ("mbxs_" + "\ud800" * 49, False),
    (" " + checked(TOKEN)[:-1], False),
]


@pytest.mark.parametrize(("token", "is_one"), ODD)
def test_what_is_no_token(token: str, is_one: bool) -> None:
    assert is_well_formed(token) == is_one


def test_a_mistyped_character_is_noticed() -> None:
    token = new_token("mbxk")
    for place in range(5, len(token)):
        other = "0" if token[place] != "0" else "1"
        assert not is_well_formed(token[:place] + other + token[place + 1 :]), place


def test_only_the_hash_of_the_whole_token_is_kept() -> None:
    assert hash_token(checked(TOKEN)) == hashlib.sha256(checked(TOKEN).encode()).hexdigest()
    assert len({hash_token(text) for text in ("", "é", "\ud800", TOKEN)}) == 4


# --- IDs have the promised form, and never repeat ---


ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@pytest.mark.parametrize("prefix", get_args(Prefix))
def test_form(prefix: Prefix) -> None:
    # 26 characters hold 130 bits, a ULID has 128, so the first character is at most 7.
    assert re.fullmatch(rf"{prefix}_[0-7][{ALPHABET}]{{25}}", new_id(prefix))


def test_the_time_comes_first() -> None:
    before = time.time_ns() // 1_000_000
    made = new_id("msg").removeprefix("msg_")
    after = time.time_ns() // 1_000_000
    millis = 0
    for character in made[:10]:
        millis = millis * 32 + ALPHABET.index(character)
    # A burst of IDs within one millisecond may be a little ahead of the clock, never behind it.
    assert before <= millis <= after + 1


def test_random_bytes_are_read_once_in_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    now, read = time.time_ns(), list[int]()

    def random_bytes(count: int) -> bytes:
        read.append(count)
        return bytes(count)

    monkeypatch.setattr(tokens, "_last", 0)
    monkeypatch.setattr(time, "time_ns", lambda: now)
    monkeypatch.setattr(os, "urandom", random_bytes)
    ids = [new_id("req") for _ in range(5)]
    assert len(read) == 1
    assert ids == sorted(set(ids))
    now += 10**6
    new_id("req")
    assert len(read) == 2


def test_ids_of_all_threads_differ_and_rise() -> None:
    made: list[list[str]] = [[] for _ in range(4)]

    def make(ids: list[str]) -> None:
        ids.extend(new_id("msg") for _ in range(2000))

    threads = [threading.Thread(target=make, args=(ids,)) for ids in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len({each for ids in made for each in ids}) == 8000
    assert all(ids == sorted(ids) for ids in made)
