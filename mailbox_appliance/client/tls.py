"""Opens HTTPS connections to appliances. Checks their certificate against a pinned fingerprint, or verifies it by the
system's CAs.

No part of a request, and so no password or token, is sent before the certificate was checked.
"""

import hashlib
import hmac
import http.client
import re
import ssl

from mailbox_appliance.client.address import ServerAddress
from mailbox_appliance.client.errors import NETWORK, Failure, unreachable, wrong_usage
from mailbox_appliance.system import ca_certificates

_FINGERPRINT = re.compile(r"(?:sha256:)?([0-9a-f]{2}(?::?[0-9a-f]{2}){31})")
_UNKNOWN = "certificate_unknown"
_WITHOUT_LOGIN = (
    "If you have no password yet, repeat `enroll` or `reset-password` with that --fingerprint. If you have only an API"
    " key, copy the server's `tls/cert.pem` and set SSL_CERT_FILE to the copy."
)
_HTTP_PORT = "check that this is its HTTPS port, not its HTTP port"
#: OpenSSL's reasons, by release, for a response that is not a TLS record.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})

# fmt: off
#: OpenSSL's verification error -> our code, and the reason in words
_VERDICTS: dict[int, tuple[str, str]] = {
    9:  ("certificate_not_yet_valid", "is not valid yet: check the clock of this computer"),
    10: ("certificate_expired",       "has expired and must be renewed on the server"),
    18: (_UNKNOWN,                    "is not trusted: it is self-signed"),
    19: (_UNKNOWN,                    "is not trusted: its chain ends at a root that this computer does not trust"),
    20: (_UNKNOWN,                    "is not trusted: its issuer is unknown, or the server sends an incomplete chain"),
    62: ("certificate_name_mismatch", "is not valid for this host name"),
    64: ("certificate_name_mismatch", "is not valid for this IP address"),
}
# fmt: on
_VERDICTS[21] = _VERDICTS[20]


class HandshakeFailed(OSError):
    """A server accepted the connection, but the TLS handshake failed. The text is the reason."""


class HandshakeTimedOut(HandshakeFailed, TimeoutError):
    """A server accepted the connection, but did not respond to the TLS handshake in time."""


def certificate_fingerprint(der: bytes) -> str:
    """Return `sha256:` and the hex digits of the SHA-256 hash of a certificate in DER form."""
    return "sha256:" + hashlib.sha256(der).hexdigest()


def parse_fingerprint(text: str) -> str:
    """Return a normalized fingerprint: `sha256:` and 64 lower-case hex digits. Raises Failure if it is invalid.

    Upper case, colons, and a missing `sha256:` are accepted.
    """
    found = _FINGERPRINT.fullmatch(text.strip().lower())
    if found is None:
        raise wrong_usage("--fingerprint must be sha256: and 64 hex digits.", "option:--fingerprint")
    return "sha256:" + found[1].replace(":", "")


class PinnedConnection(http.client.HTTPSConnection):
    """An HTTPS connection that sends requests only to the server whose certificate has the pinned fingerprint."""

    def __init__(self, address: ServerAddress, *, timeout: float, fingerprint: str | None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The pin replaces checks of the chain, the name and the dates.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(address.host, address.port, timeout=timeout, context=_harden(context))
        self._address, self._fingerprint = address, fingerprint
        self.seen = ""

    def connect(self) -> None:
        """Connect, and compare the certificate with the pinned fingerprint before anything else is sent."""
        super().connect()
        assert isinstance(self.sock, ssl.SSLSocket)  # noqa: S101 - what HTTPSConnection makes
        self.seen = certificate_fingerprint(self.sock.getpeercert(binary_form=True) or b"")
        if self._fingerprint is not None and not hmac.compare_digest(self.seen.encode(), self._fingerprint.encode()):
            self.close()
            raise _fingerprint_changed(self._address, self._fingerprint, self.seen)


def open_connection(address: ServerAddress, fingerprint: str | None, timeout: float) -> http.client.HTTPConnection:
    """Open an HTTP or HTTPS connection to an appliance. `fingerprint`: that of its pinned certificate, if any.

    Raises OSError, or Failure if the certificate is not trusted.
    """
    connection = _make_connection(address, fingerprint, timeout)
    try:
        connection.connect()
    except ssl.SSLCertVerificationError as error:
        raise _certificate_refused(address, error, timeout) from error
    except ValueError as error:  # an impossible host name
        raise wrong_usage(f"{address.host} is not a valid host name.") from error
    except OSError as error:
        if address.secure and connection.sock is not None:  # connected, so the handshake failed
            raise _handshake_failed(error) from error
        raise
    return connection


def _handshake_failed(error: OSError) -> HandshakeFailed:
    if isinstance(error, TimeoutError):
        return HandshakeTimedOut(f"the TLS handshake timed out; {_HTTP_PORT}")
    reason = getattr(error, "reason", None)
    if reason in _NO_TLS:
        return HandshakeFailed(f"the port does not use TLS; {_HTTP_PORT}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError):
        return HandshakeFailed(f"the server ended the TLS handshake; {_HTTP_PORT}")
    return HandshakeFailed(f"TLS 1.2 or 1.3 could not be negotiated ({reason or 'connection closed'})")


def _make_connection(address: ServerAddress, fingerprint: str | None, timeout: float) -> http.client.HTTPConnection:
    if not address.secure:
        return http.client.HTTPConnection(address.host, address.port, timeout=timeout)
    if fingerprint is not None:
        return PinnedConnection(address, timeout=timeout, fingerprint=fingerprint)
    context = _harden(ca_certificates.client_context())
    return http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=context)


def _harden(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _fingerprint_changed(address: ServerAddress, pinned: str, seen: str) -> Failure:
    return Failure(
        "certificate_changed",
        f"The certificate of {address.url} has changed: it is {seen}, not the pinned {pinned}. Nothing was sent. If "
        f"the change was intended, {_pinning_advice(address, seen)} If this computer trusts the new certificate, you "
        "can remove the pin instead: run `mailbox-appliance instances remove`, then sign in without --fingerprint.",
        NETWORK,
    )


def _certificate_refused(address: ServerAddress, error: ssl.SSLCertVerificationError, timeout: float) -> Failure:
    """Return the failure for a certificate that the system's CAs do not verify. It includes the fingerprint.

    To read the certificate, this opens one more connection, on which nothing is sent.
    """
    invalid = ("certificate_invalid", f"is not valid: {error.verify_message}")
    code, what = _VERDICTS.get(ca_certificates.verification_error(error), invalid)
    probe = PinnedConnection(address, timeout=timeout, fingerprint=None)
    try:
        probe.connect()
    except OSError:
        return unreachable(f"No appliance responds at {address.url}.")
    finally:
        probe.close()
    if_so = "" if code == _UNKNOWN else "To trust it anyway, "
    message = f"The certificate of {address.url} {what}. Nothing was sent. Its fingerprint is {probe.seen}. {if_so}"
    advice = _pinning_advice(address, probe.seen)
    advice = advice if if_so else f"{advice[0].upper()}{advice[1:]} {_WITHOUT_LOGIN}"
    return Failure(code, message + advice, NETWORK)


def _pinning_advice(address: ServerAddress, seen: str) -> str:
    return (
        "compare it with the output of `mailbox-appliance https fingerprint` on the server, then run "
        f"`mailbox-appliance login {address.url} --email EMAIL --fingerprint {seen}`."
    )
