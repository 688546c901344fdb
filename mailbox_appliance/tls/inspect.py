"""Reads certificates: the facts to show, the warnings, and the certificate loaded for HTTPS."""

import hashlib
import logging
import ssl
from binascii import a2b_base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mailbox_appliance.tls.files import (
    CERTIFICATES,
    CertificateFiles,
    is_trusted,
    pem_blocks,
    served_certificate,
    server_context,
)

if TYPE_CHECKING:
    from cryptography import x509

_SOON = timedelta(days=14)


@dataclass(frozen=True)
class CertificateFacts:
    """The facts of the server's own certificate, the first of its file. `trusted`: this computer trusts its issuer."""

    fingerprint: str
    not_before: datetime
    not_after: datetime
    names: tuple[str, ...]
    self_signed: bool
    trusted: bool


def fingerprint(pem: bytes) -> str:
    """Return `sha256:` and 64 hex digits of the first certificate in a text, as clients pin it.

    Raises ValueError if there is none. Imports nothing beyond the standard library.
    """
    block = next((body for label, body in pem_blocks(pem) if label in CERTIFICATES), None)
    if block is None:
        raise ValueError("it contains no PEM certificate")
    return _facts_from_der(a2b_base64(b"".join(block.splitlines()[1:-1])))


def read_facts(files: "CertificateFiles") -> CertificateFacts:
    """Return the facts of the certificate for HTTPS. Raises CertificateUnusable, as `server_context`."""
    return load_with_facts(files)[1]


def load_with_facts(files: "CertificateFiles") -> tuple[ssl.SSLContext, CertificateFacts]:
    """Return the TLS context for HTTPS and the facts that a client sees. Raises only CertificateUnusable.

    The facts are those of the certificate that the listener serves: OpenSSL finds certificates in a file where others
    do not, and accepts some that cannot be read here.
    """
    context = server_context(files)
    try:
        return context, _facts_of(served_certificate(context), trusted=is_trusted(context))
    except ssl.SSLError as error:
        raise files.unusable_error(f"{files.certificate.name}: clients do not support its type of key.") from error
    except Exception as error:
        raise files.unusable_error(f"{files.certificate.name}: it cannot be read ({error}).") from error


def _facts_of(der: bytes, *, trusted: bool) -> CertificateFacts:
    from cryptography import x509

    certificate = x509.load_der_x509_certificate(der)
    return CertificateFacts(
        fingerprint=_facts_from_der(der),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        names=names_in(certificate),
        self_signed=is_issued_by(certificate, certificate),
        trusted=trusted,
    )


def _facts_from_der(der: bytes) -> str:
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def names_in(certificate: "x509.Certificate") -> tuple[str, ...]:
    """Return the host names and addresses of a certificate (RFC 6125)."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress))


def is_issued_by(certificate: "x509.Certificate", issuer: "x509.Certificate") -> bool:
    """Whether the key of `issuer` signed this certificate; for the same certificate twice: whether it is
    self-signed.
    """
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def certificate_warnings(found: CertificateFacts, now: datetime | None = None) -> tuple[str, ...]:
    """Return warnings for operators: the certificate has expired, expires soon, or is not valid yet."""
    now, until = now or datetime.now(UTC), f"{found.not_after:%Y-%m-%d}"
    renew = "`mailbox-appliance https rotate` creates a new one" if found.self_signed else "Renew it"
    if now < found.not_before:
        return (
            f"The HTTPS certificate is valid only from {found.not_before:%Y-%m-%d}. Check the clock of this computer.",
        )
    if now >= found.not_after:
        return (f"The HTTPS certificate expired on {until}. {renew}.",)
    if found.not_after - now < _SOON:
        return (f"The HTTPS certificate expires on {until}. {renew}.",)
    return ()


# --- The certificate loaded for HTTPS ---


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedCertificate:
    """A certificate loaded for HTTPS. `state`: of its files, to detect changes."""

    context: ssl.SSLContext
    facts: CertificateFacts
    state: tuple[object, ...]


def load_certificate(files: CertificateFiles, before: LoadedCertificate | None = None) -> LoadedCertificate:
    """Return the current certificate, or `before` if the files are unchanged. Raises CertificateUnusable."""
    state = files.state()
    if before is not None and before.state == state:
        return before
    context, facts = load_with_facts(files)
    log.info("certificate_loaded", extra={"fingerprint": facts.fingerprint})
    return LoadedCertificate(context, facts, state)
