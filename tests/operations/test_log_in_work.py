"""How much is hashed for a log-in does not depend on whose email it is, nor on what hash is stored.

Times cannot be compared honestly on a busy computer: the calls that hash are counted, as the interpreter sees them.
"""

import base64
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from tests.checked_client import PASSWORD, CheckedClient
from tests.operations.filled import add_member, suspend
from tests.operations.log_ins import LOGIN, log_in

_SALT = b"0123456789abcdef"
_HASHES = {"scrypt": "scrypt", "verify_phc_encoded": "Argon2", "derive_phc_encoded": "Argon2 to keep"}
ARGON2 = {"Argon2": 1}
BOTH = {"Argon2": 1, "scrypt": 1}


def legacy(password: str = PASSWORD, n: int = 16384, r: int = 8) -> str:
    """A hash as release 0.10 kept it."""
    made = hashlib.scrypt(password.encode(), salt=_SALT, n=16384, r=8, p=1, dklen=32)
    return f"scrypt${n}${r}$1$" + "$".join(base64.b64encode(part).decode() for part in (_SALT, made))


@contextmanager
def hashed() -> Iterator[Counter[str]]:
    """Counts what this thread hashes of passwords, by kind."""
    counts: Counter[str] = Counter()

    def note(_: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__name__", "") in _HASHES:
            counts[_HASHES[function.__name__]] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield counts
    finally:
        sys.setprofile(before)


def work(ada: CheckedClient, email: str, password: str, status: int = 401) -> dict[str, int]:
    """What a log-in has hashed."""
    with hashed() as counts:
        assert log_in(ada, LOGIN | {"email": f"{email}@example.org", "password": password}).status == status
    return dict(counts)


@pytest.fixture
def ada(timed: Appliance) -> CheckedClient:
    """She and Bob have modern hashes, Kim has no password, Gus is suspended."""
    client = CheckedClient(timed).set_up()
    members = {name: add_member(timed, name) for name in ("bob", "kim", "gus")}
    keep(timed, "kim", None)
    suspend(timed, members["gus"])
    return client


def keep(timed: Appliance, name: str, stored: str | None) -> None:
    """Put a hash into the store."""
    with timed.store.database.transaction():
        timed.store.database.change("UPDATE members SET password_hash = ? WHERE name = ?", (stored, name))


def test_everybody_costs_one_hash(ada: CheckedClient) -> None:
    for email in ("ada", "bob", "kim", "gus", "eve"):
        assert work(ada, email, "not the password") == ARGON2
    assert work(ada, "ada", PASSWORD, 200) == ARGON2
    assert work(ada, "gus", PASSWORD, 403) == ARGON2


def test_with_a_hash_of_release_0_10_everybody_costs_one_of_each(ada: CheckedClient, timed: Appliance) -> None:
    keep(timed, "bob", legacy())
    for email in ("ada", "bob", "kim", "gus", "eve"):
        assert work(ada, email, "not the password") == BOTH
    assert work(ada, "ada", PASSWORD, 200) == BOTH
    # The last such hash is made anew, and nobody pays for it any more.
    assert work(ada, "bob", PASSWORD, 200) == BOTH | {"Argon2 to keep": 1}
    assert work(ada, "bob", PASSWORD, 200) == work(ada, "eve", PASSWORD) == ARGON2


@pytest.mark.parametrize(("n", "r"), [(65536, 1), (16384, 0), (1000, 8), (16384, 999)])
def test_an_odd_hash_lets_nobody_in_and_costs_as_much(ada: CheckedClient, timed: Appliance, n: int, r: int) -> None:
    keep(timed, "bob", legacy(n=n, r=r))
    for email in ("bob", "ada", "eve"):
        assert work(ada, email, PASSWORD, 200 if email == "ada" else 401) == BOTH
    wrong, unknown = (log_in(ada, LOGIN | {"email": f"{name}@example.org"}) for name in ("bob", "eve"))
    assert wrong.refusal == unknown.refusal == (401, "invalid_credentials")
    assert wrong.message == unknown.message
