"""TLS towards mail servers: the system's authorities plus a private one, TLS 1.2 or newer, names always checked."""

import functools
import ssl
from pathlib import Path

from mailbox_appliance import trust
from mailbox_appliance.remote.faults import SERVER_NAMES, RemoteFault, ServerName
from mailbox_appliance.settings import BadSetting

# X509_V_ERR_* of OpenSSL's x509_vfy.h
_NAME_MISMATCH = (62, 64)
_EXPIRED = 10
_NOT_YET_VALID = 9


def client_context(ca_file: str) -> ssl.SSLContext:
    """The context for connections to mail servers. `ca_file` adds the authorities in that file; empty adds none.

    Loading the system's authorities takes about 20 ms, so a context is kept until the file changes. Raises OSError when
    the file cannot be read or holds no certificate (ssl.SSLError is one).
    """
    return _context(ca_file, Path(ca_file).stat().st_mtime_ns if ca_file else 0)


@functools.lru_cache(maxsize=4)
def _context(ca_file: str, changed: int) -> ssl.SSLContext:  # noqa: ARG001 - `changed` is part of the cache's key
    context = trust.context()
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


def tls_fault(server: ServerName, error: ssl.SSLError) -> RemoteFault:
    """What a failed handshake means."""
    return RemoteFault(server, "tls", _reason(SERVER_NAMES[server], error))


def _reason(name: str, error: ssl.SSLError) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"No TLS with the {name} server. Check the port, and whether it wants `tls` or `starttls`."
    if error.verify_code in _NAME_MISMATCH:
        return f"The certificate of the {name} server is for another name. Use the host name that the certificate has."
    if error.verify_code == _EXPIRED:
        return f"The certificate of the {name} server has expired. Its operator must renew it."
    if error.verify_code == _NOT_YET_VALID:
        return f"The certificate of the {name} server is not valid yet. Check this computer's clock."
    return (
        f"The certificate of the {name} server is not from a trusted authority. If it is from your own, "
        "name its file in the setting remote.ca_file."
    )
