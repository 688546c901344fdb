"""cryptography, as the appliance uses it: one cipher object for many threads, signatures, Argon2id, certificates."""

import io
import random
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from mailbox_appliance.security.passwords import hash_password, verify_password
from mailbox_appliance.store.backup.container import NONCE_SIZE, Stream
from mailbox_appliance.tls import generate
from tests.threads_proof.together import run_together

_TURNS = 20


def stress(chance: random.Random) -> None:
    """One round."""
    ciphers = (AESGCM(chance.randbytes(32)), ChaCha20Poly1305(chance.randbytes(32)))
    signer = Ed25519PrivateKey.generate()
    seeds = [random.Random(chance.random()) for _ in range(10)]
    actions: list[Callable[[], None]] = [
        *(partial(_seal, ciphers, own) for own in seeds[:4]),
        *(partial(_stream, own) for own in seeds[4:6]),
        *(partial(_sign, signer, own) for own in seeds[6:8]),
        partial(_hash, seeds[8]),
        _certify,
    ]
    run_together(*actions)


def _seal(ciphers: tuple[AESGCM, ChaCha20Poly1305], chance: random.Random) -> None:
    for _ in range(_TURNS):
        cipher, nonce, about = chance.choice(ciphers), secrets.token_bytes(12), chance.randbytes(20)
        content = chance.randbytes(int((1 << 20) ** chance.random()))
        sealed = cipher.encrypt(nonce, memoryview(content), about)
        assert cipher.decrypt(nonce, memoryview(sealed), about) == content
        with pytest.raises(InvalidTag):
            cipher.decrypt(nonce, sealed, about + b"x")


def _stream(chance: random.Random) -> None:
    content = chance.randbytes(chance.randrange(3 << 20))
    stream = Stream(
        chance.randbytes(32), chance.randbytes(NONCE_SIZE), b"proof", len(content), chance.choice(("aegis", "chacha20"))
    )
    target = io.BytesIO()
    for _ in stream.seal(io.BytesIO(content).readinto, target):
        pass
    assert b"".join(stream.open(target, 0)) == content


def _sign(signer: Ed25519PrivateKey, chance: random.Random) -> None:
    public = signer.public_key()
    for _ in range(_TURNS):
        content = chance.randbytes(200)
        signature = signer.sign(content)
        public.verify(signature, content)
        with pytest.raises(InvalidSignature):
            public.verify(signature, content + b"x")


def _hash(chance: random.Random) -> None:
    password = chance.randbytes(12).hex()
    stored = hash_password(password)
    assert verify_password(password, stored, hides_legacy=False)
    assert not verify_password(password + "x", stored, hides_legacy=True)


def _certify() -> None:
    certificate, key = generate.generate_certificate(("localhost", "127.0.0.1"), datetime.now(UTC))
    assert certificate.startswith(b"-----BEGIN")
    assert key.startswith(b"-----BEGIN")
