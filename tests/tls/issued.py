"""Certificates and keys of every kind that an operator may have. Unspecified properties are valid."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
NAMES = ("localhost", "mail.example.org")
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    private: CertificateIssuerPrivateKeyTypes

    @property
    def pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        """The certificate as DER."""
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def key(self) -> bytes:
        """The key as PEM."""
        return self.key_as(PrivateFormat.PKCS8)

    def key_as(self, form: PrivateFormat, encoding: Encoding = Encoding.PEM) -> bytes:
        """Return the key in another format."""
        return self.private.private_bytes(encoding, form, NoEncryption())

    def locked_key(self, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
        """Return the key as PEM, protected by a passphrase."""
        return self.private.private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"sesame"))


@cache
def key_of(kind: str) -> CertificateIssuerPrivateKeyTypes:
    """Return a key: `p256`, `p384`, `p521`, `k1`, `ed25519`, or RSA by its bits. The same kind and `/` number is the
    same key.
    """
    name = kind.partition("/")[0]
    curves = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1(), "k1": ec.SECP256K1()}
    if name in curves:
        return ec.generate_private_key(curves[name])
    if name == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, int(name))


def issued(
    by: Issued | None = None,
    *,
    key: str = "p256",
    names: Sequence[str] = NAMES,
    since: datetime = NOW - timedelta(days=10),
    until: datetime = NOW + timedelta(days=90),
    ca: bool = False,
    uses: Sequence[x509.ObjectIdentifier] = SERVER,
    signs: bool = True,
) -> Issued:
    """Return a certificate, issued by another one or self-signed. `signs`: its key usage allows signing handshakes."""
    private = key_of(key)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{key} {ca}")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(_usage(signs, ca), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), False)
    if uses and not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), False)
    signing = by.private if by else private
    hashed = None if isinstance(signing, ed25519.Ed25519PrivateKey) else SHA256()
    return Issued(builder.sign(signing, hashed), private)


def _usage(signs: bool, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(signs, False, True, False, False, ca, ca, False, False)


@cache
def authority() -> Issued:
    """Return a CA, valid by the clock of `NOW` and by that of this computer."""
    return issued(key="p256/authority", ca=True, names=(), since=datetime(2020, 1, 1, tzinfo=UTC), until=FAR)


@cache
def between() -> Issued:
    """Return an intermediate CA."""
    return issued(authority(), key="p256/between", ca=True, names=(), since=datetime(2020, 1, 1, tzinfo=UTC), until=FAR)


FAR = datetime(2070, 1, 1, tzinfo=UTC)
