"""Certificates for test servers: self-signed, CA-issued, with a chain, and valid at any time."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mailbox_appliance.client.tls import certificate_fingerprint

_PEM = serialization.Encoding.PEM
#: Names by which a test reaches its own server.
HERE = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def fingerprint(self) -> str:
        """The fingerprint as `https fingerprint` prints it."""
        return certificate_fingerprint(self.certificate.public_bytes(serialization.Encoding.DER))

    @property
    def pem(self) -> bytes:
        """The certificate in PEM, without its chain."""
        return self.certificate.public_bytes(_PEM)

    @property
    def private(self) -> bytes:
        """The private key."""
        return self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    def context(self, folder: Path, *between: "Certificate") -> ssl.SSLContext:
        """Return a server context that shows this certificate and the intermediate ones."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.renew(context, folder, *between)
        return context

    def renew(self, context: ssl.SSLContext, folder: Path, *between: "Certificate") -> None:
        """Show this certificate to clients that connect from now on."""
        file = folder / f"{self.fingerprint[7:23]}.pem"
        file.write_bytes(b"".join([self.private, self.pem, *(each.pem for each in between)]))
        context.load_cert_chain(file)


def issue(
    issuer: Certificate | None = None,
    *,
    names: tuple[str, ...] = HERE,
    days: tuple[int, int] = (-60, 30),
    authority: bool = False,
) -> Certificate:
    """Issue a certificate that is valid between two days from now, signed by `issuer` or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"test {x509.random_serial_number() % 10**6}")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.issuer_name(issuer.certificate.subject if issuer else subject)
    builder = builder.serial_number(x509.random_serial_number())
    begin, end = (now + datetime.timedelta(days=each) for each in days)
    builder = builder.not_valid_before(begin).not_valid_after(end)
    builder = builder.add_extension(x509.SubjectAlternativeName([_name(each) for each in names]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    return Certificate(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
