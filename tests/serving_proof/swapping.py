"""Somebody who replaces the certificate's files while it serves: whole, half-written, one before the other."""

import os
import random
import threading
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from mailbox_appliance.tls.generate import generate_certificate

_NAMES = ("localhost", "127.0.0.1")


def fingerprint_of(certificate: bytes) -> str:
    """SHA-256 of a certificate in PEM."""
    return x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256()).hex()


class Swapper:
    """Replaces the pair in a thread of its own, every so many seconds, until it is told to stop."""

    def __init__(self, data_dir: Path, seed: int, every: float) -> None:
        self._folder, self._chance, self._every = data_dir / "tls", random.Random(seed), every
        self.swaps = self.halves = 0
        self._pairs = [generate_certificate(_NAMES, datetime.now(UTC)) for _ in range(6)]
        before = (self._folder / "cert.pem").read_bytes()
        #: Those that may be seen: the pairs that were whole at some time.
        self.fingerprints = {
            fingerprint_of(certificate) for certificate in (before, *(pair[0] for pair in self._pairs))
        }
        self.newest = fingerprint_of(before)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="swapper")

    def start(self) -> "Swapper":
        self._thread.start()
        return self

    def stop(self) -> None:
        """End, with a whole pair in place."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(self._every * self._chance.uniform(0.5, 1.5)):
            self.swap()

    def swap(self) -> None:
        """Put another pair there, in one of the ways in which people do."""
        certificate, key = self._chance.choice(self._pairs)
        self._chance.choice((self._at_once, self._slowly, self._halves))(certificate, key)
        self.newest = fingerprint_of(certificate)
        self.swaps += 1

    def _at_once(self, certificate: bytes, key: bytes) -> None:
        self._rename("cert.pem", certificate)
        self._rename("key.pem", key)

    def _slowly(self, certificate: bytes, key: bytes) -> None:
        """One long before the other: meanwhile they do not fit."""
        self._rename("key.pem", key)
        self._ending.wait(1.3)
        self._rename("cert.pem", certificate)

    def _halves(self, certificate: bytes, key: bytes) -> None:
        """Written over in place, with a pause in the middle of each file, as a program without care does."""
        self.halves += 1
        for name, content in (("cert.pem", certificate), ("key.pem", key)):
            with (self._folder / name).open("wb", buffering=0) as file:
                file.write(content[: len(content) // 2])
                self._ending.wait(self._chance.choice((0.05, 1.2)))
                file.write(content[len(content) // 2 :])

    def _rename(self, name: str, content: bytes) -> None:
        file = self._folder / f"{name}.coming"
        file.write_bytes(content)
        file.chmod(0o600)
        os.replace(file, self._folder / name)
