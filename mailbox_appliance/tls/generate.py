"""Create a self-signed certificate (ECDSA P-256) for the HTTPS listener.

It is valid for ten years, because clients pin it, and it is replaced only on request.
"""

import socket
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mailbox_appliance.settings import Settings

if TYPE_CHECKING:
    from cryptography import x509

DAYS = 3650
#: The clocks of this computer and of clients may differ.
_BEFORE = timedelta(days=1)
#: Uses that the key does not have; it only signs handshakes.
_NO_USES = (
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
_ALWAYS = ("localhost", "127.0.0.1", "::1")
#: The longest common name (RFC 5280 appendix A.1), label of a name (RFC 1035 2.3.4), and name.
_COMMON_NAME, _LABEL, _NAME = 64, 63, 253


def own_names(settings: Settings) -> tuple[str, ...]:
    """Return the names and addresses of this computer for its certificate: loopback, host name, and those in the
    settings.
    """
    try:
        public = urlsplit(settings.text("server.public_url")).hostname or ""
    except ValueError:
        public = ""
    asked = (*_ALWAYS, socket.gethostname(), public, settings.text("server.https_host"))
    return tuple(dict.fromkeys(_valid_names(asked)))


def generate_certificate(names: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    """Return a new self-signed certificate for these names and addresses, and its private key; both PEM."""
    # Deferred: cryptography.x509 needs some MiB, which processes that create no certificate can save.
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    own = next((name for name in names if name not in _ALWAYS), _ALWAYS[0])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, own[:_COMMON_NAME])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + timedelta(days=DAYS))
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName([_general_name(each) for each in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, **dict.fromkeys(_NO_USES, False)), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), private


def _general_name(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _valid_names(names: Iterable[str]) -> Iterable[str]:
    """Yield those names that a certificate can contain, in its form: addresses without a zone, host names in ASCII
    (A-labels).
    """
    for name in names:
        try:
            address = ip_address(name.partition("%")[0].strip("[]"))
        except ValueError:
            if (ascii_name := _to_a_label(name)) is not None:
                yield ascii_name
        else:
            if not address.is_unspecified:
                yield str(address)


def _to_a_label(name: str) -> str | None:
    try:
        found = name.rstrip(".").lower().encode("idna").decode("ascii")
    except UnicodeError:
        return None
    labels = found.split(".")
    fits = len(found) <= _NAME and all(0 < len(label) <= _LABEL for label in labels)
    return found if fits and all(char.isalnum() or char in "-_." for char in found) else None
