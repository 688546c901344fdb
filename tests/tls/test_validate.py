"""Everything that an operator may import as a certificate: what is accepted, and the message for the rest."""

import time
from collections.abc import Callable
from datetime import timedelta
from math import gcd

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.hazmat.primitives.serialization.pkcs7 import serialize_certificates
from cryptography.x509.oid import ExtendedKeyUsageOID

from mailbox_appliance.errors import Invalid
from mailbox_appliance.tls.validate import _require_strength, validate_certificate
from tests.tls.issued import NOW, Issued, authority, between, issued

Files = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def own() -> Issued:
    """Return a server's certificate, issued by the intermediate CA."""
    return issued(between())


def pair(**kind: object) -> Callable[[Issued], Files]:
    """Return a function that makes a self-signed pair with these properties."""

    def make(_own: Issued) -> Files:
        made = issued(**kind)  # type: ignore[arg-type]
        return made.pem, made.key

    return make


def request(own: Issued) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(own.certificate.subject)
    assert not isinstance(own.private, Ed25519PrivateKey)
    return builder.sign(own.private, SHA256()).public_bytes(Encoding.PEM)


def rsa_key(one: int, other: int, wrong: int = 0) -> bytes:
    """Return an RSA key of these primes; `wrong`: added to its private exponent."""
    n, totient = one * other, (one - 1) * (other - 1)
    e = next(e for e in range(65537, 1 << 20, 2) if gcd(e, totient) == 1)
    d = pow(e, -1, totient)
    parts = d % (one - 1) + wrong, d % (other - 1) + wrong, pow(other, -1, one)
    numbers = rsa.RSAPrivateNumbers(one, other, d + wrong, *parts, rsa.RSAPublicNumbers(e, n))
    key = numbers.private_key(unsafe_skip_rsa_key_validation=True)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def that_signs_wrongly(_own: Issued) -> Files:
    made = issued(key="2048")
    assert isinstance(made.private, rsa.RSAPrivateKey)
    numbers = made.private.private_numbers()
    return made.pem, rsa_key(numbers.p, numbers.q, 2)


def public(own: Issued) -> bytes:
    return own.certificate.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def bundle(own: Issued) -> bytes:
    return pkcs12.serialize_key_and_certificates(None, own.private, own.certificate, None, NoEncryption())  # type: ignore[arg-type]


# --- accepted ---------------------------------------------------------------------------------------------------------

#: The content of the two files.
TAKEN: dict[str, Callable[[Issued], Files]] = {
    "alone": lambda own: (own.pem, own.key),
    "with its chain": lambda own: (own.pem + between().pem, own.key),
    "CRLF line ends": lambda own: ((own.pem + between().pem).replace(b"\n", b"\r\n"), own.key.replace(b"\n", b"\r\n")),
    "text around": lambda own: (b"Bag Attributes: \xe4\n" + own.pem + b"\n\nbye", b"\xef\xbb\xbfmine\n" + own.key),
    "a byte order mark": lambda own: (b"\xef\xbb\xbf" + own.pem, b"\xef\xbb\xbf" + own.key),
    "one file": lambda own: (own.key + own.pem + between().pem,) * 2,
    "two keys": lambda own: (own.pem, authority().key + own.key),
    "an older name": lambda own: (own.pem.replace(b"CERTIFICATE", b"X509 CERTIFICATE"), own.key),
    "the older form of a key": lambda own: (own.pem, own.key_as(PrivateFormat.TraditionalOpenSSL)),
    "a key of ssh": lambda own: (own.pem, own.key_as(PrivateFormat.OpenSSH)),
    "P-384": pair(key="p384"),
    "P-521": pair(key="p521"),
    "RSA 2048": pair(key="2048"),
    "no uses": pair(uses=()),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(own: Issued, name: str) -> None:
    certificate, key = TAKEN[name](own)
    found = validate_certificate(certificate, key, NOW)
    assert found.warnings == ()
    chain = x509.load_pem_x509_certificates(found.certificate)
    assert load_pem_private_key(found.key, None).public_key() == chain[0].public_key()
    assert b"PRIVATE" not in found.certificate
    assert (found.certificate + found.key).startswith(b"-----BEGIN CERTIFICATE-----\n")
    assert len(chain) == certificate.count(b"-----BEGIN CERT") + certificate.count(b"-----BEGIN X509")


#: Accepted with a warning.
WARNED: dict[str, tuple[Callable[[Issued], Files], str]] = {
    "no names": (pair(names=()), "contains no host name"),
    "an authority of its own": (pair(ca=True), "is a CA certificate"),
    "an unrelated second": (
        lambda own: (own.pem + authority().pem, own.key),
        "Certificate 2 in the file did not issue",
    ),
    "third before second": (
        lambda own: (own.pem + authority().pem + between().pem, own.key),
        "Certificate 2 in the file did not issue certificate 1",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_is_taken_with_a_word(own: Issued, name: str) -> None:
    make, word = WARNED[name]
    assert word in validate_certificate(*make(own), NOW).warnings[0]


# --- rejected ---------------------------------------------------------------------------------------------------------

CERTIFICATE, KEY = "/certificate", "/privateKey"
#: The content of the two files, the place of the fault, and words of the message.
REFUSED: dict[str, tuple[Callable[[Issued], Files], str, str]] = {
    "nothing": (lambda own: (b"", own.key), CERTIFICATE, "The file is empty"),
    "nothing for the key": (lambda own: (own.pem, b" \n"), KEY, "The file is empty"),
    "a poem": (lambda own: (b"Roses are red", own.key), CERTIFICATE, "`-----BEGIN CERTIFICATE-----`"),
    "a poem for the key": (lambda own: (own.pem, b"Roses are red"), KEY, "`-----BEGIN PRIVATE KEY-----`"),
    "DER": (
        lambda own: (own.der, own.key),
        CERTIFICATE,
        "This is DER. Convert it to PEM with `openssl x509 -inform der",
    ),
    "a key as DER": (
        lambda own: (own.pem, own.key_as(PrivateFormat.PKCS8, Encoding.DER)),
        KEY,
        "This is DER. Convert it to PEM with `openssl pkey",
    ),
    "PKCS#12": (lambda own: (bundle(own), own.key), CERTIFICATE, "`openssl pkcs12 -in FILE -nokeys"),
    "PKCS#12 for the key": (lambda own: (own.pem, bundle(own)), KEY, "`openssl pkcs12 -in FILE -nokeys"),
    "PKCS#7": (
        lambda own: (serialize_certificates([own.certificate], Encoding.PEM), own.key),
        CERTIFICATE,
        "`openssl pkcs7 -print_certs",
    ),
    "OpenSSL's own": (
        lambda own: (own.pem.replace(b"CERTIFICATE", b"TRUSTED CERTIFICATE"), own.key),
        CERTIFICATE,
        "`openssl x509 -in FILE",
    ),
    "a request": (lambda own: (request(own), own.key), CERTIFICATE, "a certificate signing request"),
    "swapped": (lambda own: (own.key, own.pem), CERTIFICATE, "The two files are swapped"),
    "two keys and no certificate": (lambda own: (own.key, own.key), CERTIFICATE, "This is a private key"),
    "two certificates and no key": (lambda own: (own.pem, own.pem), KEY, "This is a certificate"),
    "a public key": (lambda own: (own.pem, public(own)), KEY, "This is a public key"),
    "cut off": (lambda own: (own.pem[:-30], own.key), CERTIFICATE, "incomplete or damaged"),
    "a key cut off": (lambda own: (own.pem, own.key[:-30]), KEY, "incomplete or damaged"),
    "damaged": (lambda own: (own.pem.replace(own.pem[60:90], b"A" * 30), own.key), CERTIFICATE, "1 in the file is dam"),
    "a damaged second": (
        lambda own: (own.pem + own.pem.replace(own.pem[60:90], b"A" * 30), own.key),
        CERTIFICATE,
        "Certificate 2 in the file is damaged",
    ),
    "a second cut off": (
        lambda own: (own.pem + between().pem[:-30], own.key),
        CERTIFICATE,
        "Certificate 2 in the file is incomplete",
    ),
    "one cut off before another": (
        lambda own: (own.pem + between().pem[:-30] + authority().pem, own.key),
        CERTIFICATE,
        "Certificate 2 in the file is damaged",
    ),
    "a damaged key": (lambda own: (own.pem, own.key.replace(own.key[40:70], b"A" * 30)), KEY, "is damaged"),
    "a locked key": (lambda own: (own.pem, own.locked_key()), KEY, "Remove the passphrase with `openssl pkey -in"),
    "an older locked key": (
        lambda own: (own.pem, own.locked_key(PrivateFormat.TraditionalOpenSSL)),
        KEY,
        "protected by a passphrase",
    ),
    "another's key": (lambda own: (own.pem, authority().key), KEY, "belongs to another certificate"),
    "the wrong order": (lambda own: (between().pem + own.pem, own.key), CERTIFICATE, "is number 2 in the file"),
    "expired": (pair(until=NOW - timedelta(days=1)), CERTIFICATE, "expired on 2026-06-14"),
    "expired this moment": (pair(until=NOW), CERTIFICATE, "expired on 2026-06-15"),
    "not valid yet": (pair(since=NOW + timedelta(days=1)), CERTIFICATE, "valid only from 2026-06-16 12:00 UTC"),
    "an authority's": (lambda own: (between().pem, between().key), CERTIFICATE, "the certificate of a CA"),
    "for mail": (pair(uses=(ExtendedKeyUsageOID.EMAIL_PROTECTION,)), CERTIFICATE, "not for servers"),
    "that signs nothing": (pair(signs=False), CERTIFICATE, "digitalSignature"),
    "RSA 1024": (pair(key="1024"), KEY, "RSA key has 1024 bits"),
    "RSA that signs wrongly": (that_signs_wrongly, KEY, "is damaged"),
    "another curve": (pair(key="k1"), KEY, "the curve secp256k1"),
    "Ed25519": (pair(key="ed25519"), KEY, "Ed25519, which browsers do not accept"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(own: Issued, name: str) -> None:
    make, path, words = REFUSED[name]
    with pytest.raises(Invalid) as refused:
        validate_certificate(*make(own), NOW)
    (detail,) = refused.value.details
    assert detail.path == path
    assert words in detail.message
    assert detail.message.endswith(".")
    assert not set(detail.message) & set("\n\t")


def test_what_keys_and_certificates_of_others_are_not_written(own: Issued) -> None:
    found = validate_certificate(own.pem + authority().key, authority().key + own.key + authority().pem, NOW)
    assert found.key.count(b"BEGIN") == found.certificate.count(b"BEGIN") == 1


def test_a_key_of_any_size_is_looked_at_in_no_time(own: Issued) -> None:
    """A check for primes would take fifteen seconds, during which no request is served."""
    huge = rsa_key(2**4253 - 1, 2**4423 - 1)
    began = time.process_time()
    with pytest.raises(Invalid, match="belongs to another certificate"):
        validate_certificate(own.pem, huge, NOW)
    with pytest.raises(Invalid, match="RSA key has 8676 bits, which is more than browsers accept"):
        _require_strength(load_pem_private_key(huge, None, unsafe_skip_rsa_key_validation=True))
    assert time.process_time() - began < 1
