"""What TLS is offered with: versions, ciphers, and the certificate of two files."""

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from mailbox_appliance.errors import CertificateUnusable
from mailbox_appliance.system import ca_certificates

if TYPE_CHECKING:
    from mailbox_appliance.certificates.files import CertificateFiles

#: For TLS 1.2; those of 1.3 are all of this kind. Forward secrecy, and encryption that also authenticates.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_MISMATCH, _LOCKED = "KEY_VALUES_MISMATCH", b"ENCRYPTED"
#: Flights of a handshake in memory, with room to spare.
_FLIGHTS = 10


def server_context(files: "CertificateFiles") -> ssl.SSLContext:
    """What the HTTPS listener uses: TLS 1.2 and 1.3, `http/1.1`, no compression, no renegotiation, the pair as it is.

    Each call makes a new one, since a certificate loaded into one that is in use may be seen by half. Raises
    CertificateUnusable where the pair is missing or does not fit; one that has expired is taken.
    """
    files.load()  # regular files of a fair size, before OpenSSL opens them
    return files.read_consistently(lambda certificate, key: context_of(certificate, key, files.folder))


def context_of(certificate: Path, key: Path, folder: Path) -> ssl.SSLContext:
    """The same for two files; `folder` is named where they do not fit. Raises CertificateUnusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Without a passphrase given, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise CertificateUnusable(folder=folder, reason=_why(error, certificate, key)) from error
    return context


def is_trusted(context: ssl.SSLContext) -> bool:
    """Whether this computer trusts who issued the certificate of a listener's context; names are not compared."""
    asking = ca_certificates.client_context()
    asking.check_hostname = False
    try:
        _meet(context, asking)
    except ssl.SSLError:
        return False
    return True


def shown_by(context: ssl.SSLContext) -> bytes:
    """The certificate that clients see of a listener's context, as DER. Raises SSLError where it serves none."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    return _meet(context, asking).getpeercert(binary_form=True) or b""


def _meet(context: ssl.SSLContext, asking: ssl.SSLContext) -> ssl.SSLObject:
    """The client's side after a handshake in memory. Raises SSLError of either side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = asking.wrap_bio(to_client, to_server)
    for _ in range(_FLIGHTS):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            if side is client:  # it is the one who looks at the certificate
                return client
    raise ssl.SSLError("the handshake does not end")


def _why(error: Exception, certificate: Path, key: Path) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == _MISMATCH:
        return f"{key.name} is not the key of the certificate in {certificate.name}. {_WHAT_TO_DO}"
    if isinstance(error, ssl.SSLError) and _is_locked(key):
        return f"{key.name} is locked by a passphrase; `openssl pkey` takes it off. {_WHAT_TO_DO}"
    told = getattr(error, "strerror", None) or "not PEM"
    if isinstance(error, ssl.SSLError):  # with a reason in capitals, or none where the text could not be read at all
        told = (error.reason or "not PEM, or damaged").lower().replace("_", " ").replace("pem", "PEM")
    return f"{certificate.name} and {key.name} are no certificate and its key, as PEM, for TLS ({told}). {_WHAT_TO_DO}"


_WHAT_TO_DO = (
    "Put both files there as they belong together, with `mailbox-appliance https import`, or make others with"
    " `mailbox-appliance https rotate`."
)


def _is_locked(key: Path) -> bool:
    try:
        return _LOCKED in key.read_bytes()
    except OSError:
        return False
