"""Passwords are hashed with Argon2id, compared in equal time, and rehashed when the parameters rise."""

import base64
import hashlib
import time

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from mailbox_appliance.security.passwords import hash_password, needs_rehash, verify_password, weakness

PASSWORD = "correct horse battery"
#: The test vector of the reference implementation (argon2 of 2019-07-02, `argon2id`, t=2 m=256 p=1).
KNOWN = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"


def weaker(*, memory: int = 19456, iterations: int = 2, lanes: int = 1) -> str:
    kdf = Argon2id(salt=b"0123456789abcdef", length=32, iterations=iterations, lanes=lanes, memory_cost=memory)
    return kdf.derive_phc_encoded(PASSWORD.encode())


@pytest.mark.parametrize("password", [PASSWORD, "pässwörter", "\0" * 12, "\ud800" * 12, "x" * 1024, "😀" * 12])
def test_a_password_is_known_again_and_no_other(password: str) -> None:
    stored = hash_password(password)
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert password not in stored
    assert verify_password(password, stored, hides_legacy=False)
    assert not verify_password(password + " ", stored, hides_legacy=False)
    assert not verify_password(password[:-1], stored, hides_legacy=False)
    assert not needs_rehash(stored)


def test_the_same_password_is_never_hashed_the_same() -> None:
    assert hash_password(PASSWORD) != hash_password(PASSWORD)


def test_a_hash_of_the_reference_implementation() -> None:
    assert verify_password("password", KNOWN, hides_legacy=False)
    assert not verify_password("Password", KNOWN, hides_legacy=False)


@pytest.mark.parametrize(
    "stored", ["", "x", "scrypt$16384$8$1$c2FsdA==$aGFzaA==", KNOWN[:-10], KNOWN.replace("256", "0")]
)
def test_a_hash_that_cannot_be_read_lets_nobody_in(stored: str) -> None:
    assert not verify_password("password", stored, hides_legacy=False)
    assert not verify_password("", stored, hides_legacy=False)
    assert needs_rehash(stored)


def legacy(password: str = PASSWORD, *, n: int = 16384, r: int = 8, p: int = 1, salt: int = 16, size: int = 32) -> str:
    """Return a hash as release 0.10 made it."""
    salted = b"s" * salt
    made = hashlib.scrypt(password.encode(), salt=salted, n=n, r=r, p=p, dklen=size, maxmem=1 << 28)
    return f"scrypt${n}${r}${p}$" + "$".join(base64.b64encode(part).decode() for part in (salted, made))


@pytest.mark.parametrize("hides", [False, True])
def test_a_hash_of_release_0_10(hides: bool) -> None:
    for stored in (legacy(), legacy(n=2048, p=2), legacy(size=64, salt=32), legacy(n=65536), legacy(n=32768, r=1)):
        assert verify_password(PASSWORD, stored, hides_legacy=hides)
        assert not verify_password(PASSWORD + " ", stored, hides_legacy=hides)
        assert needs_rehash(stored)
    modern = hash_password(PASSWORD)
    assert verify_password(PASSWORD, modern, hides_legacy=hides)
    assert not verify_password("wrong", modern, hides_legacy=hides)
    assert not verify_password(PASSWORD, None, hides_legacy=hides)


GOOD = legacy(n=1024)
ODD = [
    GOOD.replace("$1024$", "$1000$"),
    GOOD.replace("$1024$", "$1$"),
    GOOD.replace("$1024$", "$0$"),
    GOOD.replace("$1024$", "$-1024$"),
    GOOD.replace("$1024$8$", "$1024$0$"),
    # RFC 7914 2: N is below 2^(128 r / 8); the library refuses to work with others.
    GOOD.replace("$1024$8$", "$65536$1$"),
    GOOD.replace("$1024$8$", "$524288$1$"),
    GOOD.replace("$1024$8$", "$16384$32$"),
    GOOD.replace("$1024$8$", "$99999999$999$"),
    GOOD.replace("$8$1$", "$8$0$"),
    GOOD.replace("$8$1$", "$8$5$"),
    GOOD.replace("$1024$8$", "$1048576$8$"),
    GOOD.replace("$1024$8$", "$1024$999$"),
    GOOD[:-8] + "!!!!!!!=",
    GOOD + "$x",
    GOOD + "\n",
    GOOD.replace("$1024$", "$\u0661024$"),
    legacy(n=1024, size=8),
    legacy(n=1024, salt=4),
    # The hash for comparison with an unknown email matches no password.
    "scrypt$16384$8$1$" + base64.b64encode(b"nobody has this.").decode() + "$" + base64.b64encode(bytes(32)).decode(),
]


@pytest.mark.parametrize("stored", ODD)
def test_odd_parameters_let_nobody_in_and_cost_no_more(stored: str) -> None:
    began = time.process_time()
    assert not verify_password(PASSWORD, stored, hides_legacy=False)
    assert not verify_password("", stored, hides_legacy=False)
    assert time.process_time() - began < 2


def test_who_has_a_hash_of_release_0_10_is_not_told_by_the_time() -> None:
    def quickest(known: str | None, *, hides: bool) -> float:
        times = []
        for _ in range(3):
            began = time.thread_time()
            assert not verify_password("wrong password", known, hides_legacy=hides)
            times.append(time.thread_time() - began)
        return min(times)

    # One kind takes some 30 ms, the other some 45: each check takes the time of both.
    for stored in (legacy(), hash_password(PASSWORD), None):
        assert quickest(stored, hides=True) > 1.3 * quickest(stored, hides=False)


REHASH = {
    "as now": (hash_password(PASSWORD), False),
    "less memory": (weaker(memory=19455), True),
    "fewer iterations": (weaker(iterations=1), True),
    "stronger": (weaker(memory=20000, iterations=3, lanes=2), False),
    "of before": (KNOWN, True),
}


@pytest.mark.parametrize(("stored", "is_weak"), REHASH.values(), ids=list(REHASH))
def test_a_weaker_hash_is_made_anew(stored: str, is_weak: bool) -> None:
    assert needs_rehash(stored) == is_weak


def test_nobody_takes_as_long_as_somebody() -> None:
    stored = hash_password(PASSWORD)

    def quickest(known: str | None) -> float:
        times = []
        for _ in range(5):
            began = time.thread_time()
            assert not verify_password("wrong password", known, hides_legacy=False)
            times.append(time.thread_time() - began)
        return min(times)

    nobody, somebody = quickest(None), quickest(stored)
    assert 0.3 < nobody / somebody < 3


WEAK = [
    ("x" * 11, True),
    ("x" * 12, False),
    ("x" * 1024, False),
    ("x" * 1025, True),
    ("", True),
    ("ADA@Example.ORG", True),
    ("ada lovelace i", True),
    ("ada lovelace ii", False),
    ("é" * 12, False),
]


@pytest.mark.parametrize(("password", "is_weak"), WEAK)
def test_what_is_no_password(password: str, is_weak: bool) -> None:
    reason = weakness(password, name="Ada Lovelace I", email="ada@example.org")
    assert (reason is not None) == is_weak
    assert reason is None or password not in reason or not password
