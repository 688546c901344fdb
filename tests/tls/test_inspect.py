"""The facts of a certificate, and the warnings for operators."""

import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.errors import CertificateUnusable
from mailbox_appliance.tls.files import CertificateFiles, served_certificate, server_context
from mailbox_appliance.tls.inspect import (
    Certificate,
    certificate_warnings,
    fingerprint,
    load_certificate,
    load_with_facts,
    read_facts,
)
from tests.tls.issued import NOW, Issued, authority, between, issued


def test_the_fingerprint_is_that_of_openssl(tmp_path: Path) -> None:
    own = issued(between())
    (tmp_path / "cert.pem").write_bytes(own.pem)
    argv = ("openssl", "x509", "-in", "cert.pem", "-noout", "-fingerprint", "-sha256")
    told = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    expected = "sha256:" + told.strip().partition("=")[2].replace(":", "").lower()
    for text in (
        own.pem,
        own.pem.replace(b"CERT", b"X509 CERT"),
        b"about \xe4\n" + own.pem.replace(b"\n", b"\r\n") + between().pem,
    ):
        assert fingerprint(text) == expected
    for text in (b"", own.key, own.pem[:-10]):
        with pytest.raises(ValueError, match="no PEM certificate"):
            fingerprint(text)


def test_a_fingerprint_needs_the_standard_library_only() -> None:
    code = "import sys; from mailbox_appliance.tls import files, inspect; print(*sys.modules)"
    loaded = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True).stdout.split()
    assert not {"cryptography", "apsw"} & set(loaded)


def test_what_it_says(tmp_path: Path) -> None:
    files, own = CertificateFiles(tmp_path), issued(between())
    files.replace(own.pem + between().pem, own.key)
    assert read_facts(files) == Certificate(
        fingerprint=fingerprint(own.pem),
        not_before=to_timestamp(NOW - timedelta(days=10)),
        not_after=to_timestamp(NOW + timedelta(days=90)),
        names=("localhost", "mail.example.org"),
        self_signed=False,
        trusted=False,
    )
    alone = issued(names=())
    files.replace(alone.pem, alone.key)
    assert (read_facts(files).names, read_facts(files).self_signed) == ((), True)


def test_a_pair_that_does_not_fit_says_nothing(tmp_path: Path) -> None:
    files, own = CertificateFiles(tmp_path), issued()
    files.replace(own.pem, own.key)
    files.key.write_bytes(authority().key)
    with pytest.raises(CertificateUnusable, match=r"key\.pem is not the key of the certificate in cert\.pem"):
        read_facts(files)


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (NOW - timedelta(days=11), "is valid only from 2026-06-05"),
        (NOW, ""),
        (NOW + timedelta(days=75), ""),
        (NOW + timedelta(days=77), "expires on 2026-09-13. `mailbox-appliance https rotate` creates"),
        (NOW + timedelta(days=90), "expired on 2026-09-13. `mailbox-appliance https rotate` creates"),
    ],
)
def test_what_an_operator_should_see_to(tmp_path: Path, at: object, told: str) -> None:
    files, own = CertificateFiles(tmp_path), issued()
    files.replace(own.pem, own.key)
    found = certificate_warnings(read_facts(files), at)  # type: ignore[arg-type]
    assert told in "".join(found)
    assert len(found) == bool(told)


def trusted_form(own: Issued) -> bytes:
    """Return OpenSSL's trusted format, with the trusted uses after the certificate."""
    argv = ("openssl", "x509", "-trustout", "-addtrust", "serverAuth")
    return subprocess.run(argv, input=own.pem, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    "write", [lambda own: own.pem.replace(b"CERTIFICATE", b"X509 CERTIFICATE"), trusted_form, lambda own: own.pem]
)
def test_what_is_served_is_what_is_read(tmp_path: Path, write: Callable[[Issued], bytes]) -> None:
    """Even for PEM labels that OpenSSL knows and others do not."""
    files, own = CertificateFiles(tmp_path), issued()
    files.replace(own.pem, own.key)
    files.certificate.write_bytes(write(own) + between().pem)
    context, found = load_with_facts(files)
    assert served_certificate(context) == own.der
    assert load_certificate(files).facts == found == read_facts(files)
    assert found.fingerprint == fingerprint(own.pem)


def of_another_version(own: Issued) -> bytes:
    """Return a certificate of an unknown version, which OpenSSL accepts."""
    version = bytes.fromhex("a003020102")
    assert own.der.count(version) == 1
    return ssl.DER_cert_to_PEM_cert(own.der.replace(version, bytes.fromhex("a003020107"))).encode()


@pytest.mark.parametrize(
    ("own", "write", "told"),
    [
        (issued(), of_another_version, r"cert\.pem: it cannot be read \(7 is not a valid X509 version\)"),
        (issued(key="k1"), lambda own: own.pem, r"cert\.pem: clients do not support its type of key"),
    ],
)
def test_what_openssl_takes_and_nobody_else_does_is_told(
    tmp_path: Path, own: Issued, write: Callable[[Issued], bytes], told: str
) -> None:
    files, first = CertificateFiles(tmp_path), issued()
    files.replace(first.pem, first.key)
    files.key.write_bytes(own.key)
    files.certificate.write_bytes(write(own))
    server_context(files)
    for read in (read_facts, load_certificate):
        with pytest.raises(CertificateUnusable, match=f"{told}.*https import.*https rotate"):
            read(files)
