"""Read certificates: the facts and warnings to show to people, and the certificate that the HTTPS listener uses."""

import hashlib
import logging
import ssl
from binascii import a2b_base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from mailbox_appliance.clock import from_timestamp, to_timestamp
from mailbox_appliance.model.base import Timestamp, Wire
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


class Certificate(Wire, frozen=True, kw_only=True):
    """The HTTPS certificate.

    - not_before: When it becomes valid.
    - not_after: When it expires.
    - names: Host names and addresses that it is valid for.
    - self_signed: Whether it is self-signed; clients then pin its fingerprint.
    - trusted: Whether this computer trusts its issuer.
    """

    fingerprint: Annotated[
        str, Meta(description="SHA-256 fingerprint of the certificate in DER: `sha256:` and 64 hex digits.")
    ]
    not_before: Timestamp
    not_after: Timestamp
    names: tuple[str, ...]
    self_signed: bool
    trusted: bool


def fingerprint(pem: bytes) -> str:
    """Return the fingerprint of the first certificate in a PEM text: `sha256:` and 64 hex digits, as clients pin it.

    Raises ValueError if there is none.
    """
    block = next((body for label, body in pem_blocks(pem) if label in CERTIFICATES), None)
    if block is None:
        raise ValueError("it contains no PEM certificate")
    return _fingerprint_of(a2b_base64(b"".join(block.splitlines()[1:-1])))


def read_facts(files: "CertificateFiles") -> Certificate:
    """Return the facts about the certificate of the HTTPS listener. Raises CertificateUnusable."""
    return load_with_facts(files)[1]


def load_with_facts(files: "CertificateFiles") -> tuple[ssl.SSLContext, Certificate]:
    """Return the TLS context for the HTTPS listener, and the facts about its certificate. Raises only
    CertificateUnusable.

    The facts come from a handshake with that context. Reading the file could find another certificate, since OpenSSL
    parses PEM files in its own way.
    """
    context = server_context(files)
    try:
        return context, _facts_of(served_certificate(context), trusted=is_trusted(context))
    except ssl.SSLError as error:
        raise files.unusable_error(f"{files.certificate.name}: clients do not support its type of key.") from error
    except Exception as error:
        raise files.unusable_error(f"{files.certificate.name}: it cannot be read ({error}).") from error


def _facts_of(der: bytes, *, trusted: bool) -> Certificate:
    from cryptography import x509

    certificate = x509.load_der_x509_certificate(der)
    return Certificate(
        fingerprint=_fingerprint_of(der),
        not_before=to_timestamp(certificate.not_valid_before_utc),
        not_after=to_timestamp(certificate.not_valid_after_utc),
        names=names_in(certificate),
        self_signed=is_issued_by(certificate, certificate),
        trusted=trusted,
    )


def _fingerprint_of(der: bytes) -> str:
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def names_in(certificate: "x509.Certificate") -> tuple[str, ...]:
    """Return the host names and IP addresses of a certificate (subject alternative names, RFC 6125); empty if it has
    none.
    """
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress))


def is_issued_by(certificate: "x509.Certificate", issuer: "x509.Certificate") -> bool:
    """Whether the key of `issuer` signed this certificate. With the same certificate twice: whether it is
    self-signed.
    """
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def certificate_warnings(found: Certificate, now: datetime | None = None) -> tuple[str, ...]:
    """Return warnings for operators if the certificate is not valid yet, has expired, or expires within 14 days.

    Empty if none applies. `now`: the time to compare with; None for the current time.
    """
    now, not_after = now or datetime.now(UTC), from_timestamp(found.not_after)
    begin, end = found.not_before[:10], found.not_after[:10]
    renew = "`mailbox-appliance https rotate` creates a new one" if found.self_signed else "Renew it"
    if now < from_timestamp(found.not_before):
        return (f"The HTTPS certificate is valid only from {begin}. Check the clock of this computer.",)
    if now >= not_after:
        return (f"The HTTPS certificate expired on {end}. {renew}.",)
    if not_after - now < _SOON:
        return (f"The HTTPS certificate expires on {end}. {renew}.",)
    return ()


# --- The certificate loaded for HTTPS ---


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedCertificate:
    """The certificate that the HTTPS listener uses: its TLS context and its facts.

    `state`: the state of its files when it was loaded, to detect changes.
    """

    context: ssl.SSLContext
    facts: Certificate
    state: tuple[object, ...]


def load_certificate(files: CertificateFiles, before: LoadedCertificate | None = None) -> LoadedCertificate:
    """Load the certificate for the HTTPS listener. Raises CertificateUnusable.

    `before`: the certificate that was loaded last. It is returned if the files have not changed since.
    """
    state = files.state()
    if before is not None and before.state == state:
        return before
    context, facts = load_with_facts(files)
    log.info("certificate_loaded", extra={"fingerprint": facts.fingerprint})
    return LoadedCertificate(context, facts, state)
