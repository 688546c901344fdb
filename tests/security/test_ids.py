"""Ids have the form that clients are promised, and never repeat."""

import re
import threading
import time
from typing import get_args

import pytest

from mailbox_appliance.security.tokens import Prefix, new_id

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@pytest.mark.parametrize("prefix", get_args(Prefix))
def test_form(prefix: Prefix) -> None:
    # 26 characters hold 130 bits, an ULID has 128: the first one is 7 at most.
    assert re.fullmatch(rf"{prefix}_[0-7][{ALPHABET}]{{25}}", new_id(prefix))


def test_the_time_comes_first() -> None:
    before = time.time_ns() // 1_000_000
    made = new_id("msg").removeprefix("msg_")
    after = time.time_ns() // 1_000_000
    millis = 0
    for character in made[:10]:
        millis = millis * 32 + ALPHABET.index(character)
    # A burst of ids within one millisecond may run a little ahead of the clock, never behind it.
    assert before <= millis <= after + 1


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
