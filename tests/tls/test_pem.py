"""The blocks of a text with PEM: which there are, and that a long text of nonsense takes no time."""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from mailbox_appliance.errors import CertificateUnusable, Invalid
from mailbox_appliance.tls.files import CertificateFiles, pem_blocks
from mailbox_appliance.tls.inspect import fingerprint, load_certificate
from mailbox_appliance.tls.validate import validate_certificate
from tests.tls.issued import NOW, issued

A, B = b"-----BEGIN A-----\nx\n-----END A-----", b"-----BEGIN B C-----\r\ny\r\n-----END B C-----"
FOUND: dict[str, tuple[bytes, list[tuple[bytes, bytes]]]] = {
    "nothing": (b"", []),
    "one": (A, [(b"A", A)]),
    "two, and text around": (b"1" + A + b"2\n" + B + b"3", [(b"A", A), (b"B C", B)]),
    "no end": (A[:-1], []),
    "another's end": (b"-----BEGIN C-----\n" + B + A, [(b"A", A)]),
    "a begin that is none": (b"-----BEGIN a-----\n-----BEGIN -----\n-----BEGIN A B\n" + A, [(b"A", A)]),
    "no line of its own": (b"-----BEGIN A-----x-----END A-----" + B, [(b"B C", B)]),
    "a label of 40": (A.replace(b"A", b"A" * 40), [(b"A" * 40, A.replace(b"A", b"A" * 40))]),
    "a longer one": (A.replace(b"A", b"A" * 41), []),
    "cut off before another": (b"-----BEGIN A-----\n" + A, [(b"A", b"-----BEGIN A-----\n" + A)]),
}


@pytest.mark.parametrize("name", FOUND)
def test_which_there_are(name: str) -> None:
    text, found = FOUND[name]
    assert list(pem_blocks(text)) == found


#: A MiB each of what a search would begin again and again.
LONG = {
    "begin": b"-----BEGIN A-----\n",
    "begin of a certificate": b"-----BEGIN CERTIFICATE-----\n",
    "begin and another's end": b"-----BEGIN A-----\n-----END B-----\n",
    "begin without a label": b"-----BEGIN ",
    "end": b"-----END A-----\n",
    "a block": A + b"\n",
    "dashes": b"-----",
    "BEGIN": b"BEGIN ",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_text_of_nonsense_takes_no_time(tmp_path: Path, name: str) -> None:
    """Nobody else is served meanwhile."""
    own, text = issued(), LONG[name] * ((1 << 20) // len(LONG[name]) - 200)
    files = CertificateFiles(tmp_path)
    files.replace(own.pem, own.key)
    files.certificate.write_bytes(text)
    began = time.process_time()
    for certificate, key in ((text, own.key), (own.pem, text)):
        with pytest.raises(Invalid):
            validate_certificate(certificate, key, NOW)
    with pytest.raises(ValueError, match="no certificate"):
        fingerprint(text)
    with pytest.raises(CertificateUnusable):
        load_certificate(files)
    files.certificate.write_bytes(own.pem + text)
    with suppress(CertificateUnusable):  # what stands behind a certificate is OpenSSL's to judge
        assert load_certificate(files).facts.fingerprint == fingerprint(own.pem)
    assert time.process_time() - began < 1
