"""TLS towards mail servers: the system's authorities plus a private one, TLS 1.2 or newer, names always checked."""

import functools
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from mailbox_appliance.remote.faults import RemoteFault, ServerName
from mailbox_appliance.remote.named_faults import fault
from mailbox_appliance.settings import BadSetting
from mailbox_appliance.system import ca_certificates

# X509_V_ERR_* of OpenSSL's x509_vfy.h
_NAME_MISMATCH = (62, 64)
_EXPIRED = 10
_NOT_YET_VALID = 9
#: A clock that stands before this was written is wrong: that of a computer whose battery is empty, say.
_WRITTEN = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
#: The server, or we, take none of the other's versions (RFC 8446 6.2, protocol_version).
_OLD = frozenset({"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "UNSUPPORTED_SSL_PROTOCOL_VERSION"})


def client_context(ca_file: str) -> ssl.SSLContext:
    """The context for connections to mail servers. `ca_file` adds the authorities in that file; empty adds none.

    Loading the system's authorities takes about 20 ms, so a context is kept until the file changes. Raises OSError when
    the file cannot be read or holds no certificate (ssl.SSLError is one).
    """
    return _context(ca_file, Path(ca_file).stat().st_mtime_ns if ca_file else 0)


@functools.lru_cache(maxsize=4)
def _context(ca_file: str, changed: int) -> ssl.SSLContext:  # noqa: ARG001 - `changed` is part of the cache's key
    context = ca_certificates.client_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def context_for(server: ServerName, ca_file: str) -> ssl.SSLContext:
    """As client_context; raises RemoteFault when the file with the private authority is of no use.

    As `unreachable`: whoever typed how to reach a server cannot mend it, and it may be there again the next time.
    """
    try:
        return client_context(ca_file)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        raise RemoteFault(server, "unreachable", _of_no_use(ca_file, error)) from error


def require_ca_file(ca_file: str) -> None:
    """Raises BadSetting, naming the file, where it is set and of no use: better at the start than at each mailbox."""
    if not ca_file:
        return  # no start waits for the authorities of the system
    try:
        client_context(ca_file)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        raise BadSetting(_of_no_use(ca_file, error)) from error


def _of_no_use(ca_file: str, error: Exception) -> str:
    why = "holds no certificate (PEM)" if isinstance(error, ssl.SSLError) else "cannot be read"
    return f"{Path(ca_file).absolute()}, the file of the setting remote.ca_file, {why}."


def tls_fault(server: ServerName, error: ssl.SSLError, now: Callable[[], float] = time.time) -> RemoteFault:
    """What a failed handshake means."""
    return fault(_name(error, now), server)


def _name(error: ssl.SSLError, now: Callable[[], float]) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "tls_too_old" if error.reason in _OLD else "wrong_port"
    if error.verify_code in _NAME_MISMATCH:
        return "certificate_name"
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID) and now() < _WRITTEN:
        return "clock_skew"
    return {_EXPIRED: "certificate_expired", _NOT_YET_VALID: "certificate_not_yet_valid"}.get(
        error.verify_code, "certificate_untrusted"
    )
