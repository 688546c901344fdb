"""What a certificate says."""

import hashlib
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mailbox_appliance.certificates.tls import is_trusted, server_context
from mailbox_appliance.errors import CertificateUnusable

if TYPE_CHECKING:
    from cryptography import x509

    from mailbox_appliance.certificates.files import CertificateFiles

#: The labels under which OpenSSL takes a certificate (RFC 7468 5.1; the other two are its own).
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_SOON = timedelta(days=14)


@dataclass(frozen=True)
class CertificateFacts:
    """The server's own certificate, the first of its file. `trusted`: this computer trusts who issued it."""

    fingerprint: str
    not_before: datetime
    not_after: datetime
    names: tuple[str, ...]
    self_signed: bool
    trusted: bool


def fingerprint(pem: bytes) -> str:
    """`sha256:` and 64 hex digits of the first certificate in a text, as clients pin it.

    Raises ValueError where there is none. Imports nothing beyond the standard library.
    """
    block = _BLOCK.search(pem)
    if block is None:
        raise ValueError("no certificate, as PEM, is in it")
    der = ssl.PEM_cert_to_DER_cert(block[0].decode("ascii", "replace"))
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def facts(files: "CertificateFiles") -> CertificateFacts:
    """What the certificate says that HTTPS would be offered with. Raises CertificateUnusable, as `server_context`."""
    context = server_context(files)
    pem, _ = files.load()
    try:
        return facts_of(pem, trusted=is_trusted(context))
    except ValueError as error:
        raise CertificateUnusable(folder=files.folder, reason=f"{files.certificate.name}: {error}.") from error


def facts_of(pem: bytes, *, trusted: bool) -> CertificateFacts:
    """What the first certificate in a text says. Raises ValueError where there is none."""
    from cryptography import x509

    block = _BLOCK.search(pem)
    own = fingerprint(pem)
    assert block is not None  # noqa: S101 - it has a fingerprint
    certificate = x509.load_pem_x509_certificate(block[0])
    return CertificateFacts(
        fingerprint=own,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        names=names_in(certificate),
        self_signed=is_issued_by(certificate, certificate),
        trusted=trusted,
    )


def names_in(certificate: "x509.Certificate") -> tuple[str, ...]:
    """The host names and addresses it is for (RFC 6125)."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress))


def is_issued_by(certificate: "x509.Certificate", issuer: "x509.Certificate") -> bool:
    """Whether the key of the other certificate signed this one; for one and the same: whether it is self-signed."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def remarks(found: CertificateFacts, now: datetime | None = None) -> tuple[str, ...]:
    """What an operator should see to: it has expired, or soon will, or is not valid yet."""
    now, until = now or datetime.now(UTC), f"{found.not_after:%Y-%m-%d}"
    renew = "`mailbox-appliance https rotate` makes another one" if found.self_signed else "Renew it"
    if now < found.not_before:
        return (f"The certificate of HTTPS is valid from {found.not_before:%Y-%m-%d} on only: is the clock right?",)
    if now >= found.not_after:
        return (f"The certificate of HTTPS has expired on {until}. {renew}.",)
    if found.not_after - now < _SOON:
        return (f"The certificate of HTTPS expires on {until}. {renew}.",)
    return ()
