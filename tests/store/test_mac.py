"""The codes are those of the standard library's HMAC."""

import hmac
import os

import pytest

from mailbox_appliance.store.audit import Mac


@pytest.mark.parametrize("key", [b"", b"k", bytes(32), bytes(range(32)), bytes(range(100, 164))])
def test_it_is_hmac(key: bytes) -> None:
    mac = Mac(key)
    for text in (b"", b"x", os.urandom(63), os.urandom(64), os.urandom(1000)):
        assert mac.digest(text) == mac.digest(text) == hmac.digest(key, text, "sha256")


def test_a_long_key_is_refused() -> None:
    with pytest.raises(ValueError):
        Mac(bytes(65))
