"""HTTPS to appliances: pinned by fingerprint, or verified by system CAs.

Nothing of a request, and so no password and no token, is sent before the certificate has been checked.
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
    "Who has no password yet repeats `enroll` or `reset-password` with that --fingerprint. With an API key alone, save"
    " the certificate (`tls/cert.pem` there) and let SSL_CERT_FILE name the file."
)
_HTTP_PORT = "is it its HTTP port?"
#: OpenSSL's words, by release, for a response that is not a TLS record.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})

# fmt: off
#: OpenSSL's verdict on a certificate -> our code, and the reason in words
_VERDICTS: dict[int, tuple[str, str]] = {
    9:  ("certificate_not_yet_valid", "is not valid yet: is the clock of this computer right?"),
    10: ("certificate_expired",       "has expired, and should be renewed there"),
    18: (_UNKNOWN,                    "is not known: it vouches for itself"),
    19: (_UNKNOWN,                    "is not known: nobody whom this computer trusts vouches for it"),
    20: (_UNKNOWN,                    "is not known: its issuer is not trusted here, or part of the chain is not sent"),
    62: ("certificate_name_mismatch", "is for other names than this one"),
    64: ("certificate_name_mismatch", "is for other addresses than this one"),
}
# fmt: on
_VERDICTS[21] = _VERDICTS[20]


class HandshakeFailed(OSError):
    """Something listens there and does not shake hands; the text says how far it came."""


class HandshakeTimedOut(HandshakeFailed, TimeoutError):
    """A server accepts the connection and does not answer."""


def certificate_fingerprint(der: bytes) -> str:
    """The name of a certificate: `sha256:` and the hex digits of its DER form's hash."""
    return "sha256:" + hashlib.sha256(der).hexdigest()


def parse_fingerprint(text: str) -> str:
    """A fingerprint in its one form, `sha256:` and 64 lower-case hex digits.

    It may be written in upper case, with colons, and without `sha256:`.
    """
    found = _FINGERPRINT.fullmatch(text.strip().lower())
    if found is None:
        raise wrong_usage("A fingerprint is sha256: and 64 hex digits.", "option:--fingerprint")
    return "sha256:" + found[1].replace(":", "")


class PinnedConnection(http.client.HTTPSConnection):
    """HTTPS to a server that is known by the fingerprint of its certificate; no request goes to another one."""

    def __init__(self, address: ServerAddress, *, timeout: float, fingerprint: str | None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The pin replaces checks of the chain, the name and the dates.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(address.host, address.port, timeout=timeout, context=_harden(context))
        self._address, self._fingerprint = address, fingerprint
        self.seen = ""

    def connect(self) -> None:
        """Shake hands and compare the certificate before anything is sent."""
        super().connect()
        assert isinstance(self.sock, ssl.SSLSocket)  # noqa: S101 - what HTTPSConnection makes
        self.seen = certificate_fingerprint(self.sock.getpeercert(binary_form=True) or b"")
        if self._fingerprint is not None and not hmac.compare_digest(self.seen.encode(), self._fingerprint.encode()):
            self.close()
            raise _fingerprint_changed(self._address, self._fingerprint, self.seen)


def open_connection(address: ServerAddress, fingerprint: str | None, timeout: float) -> http.client.HTTPConnection:
    """A connection to an appliance over which a request may go. Raises OSError, or a Failure about the certificate."""
    connection = _make_connection(address, fingerprint, timeout)
    try:
        connection.connect()
    except ssl.SSLCertVerificationError as error:
        raise _certificate_refused(address, error, timeout) from error
    except ValueError as error:  # a host name that none can be
        raise wrong_usage(f"{address.host} is no name of a computer.") from error
    except OSError as error:
        if address.secure and connection.sock is not None:  # connected, and so not shaken hands
            raise _handshake_failed(error) from error
        raise
    return connection


def _handshake_failed(error: OSError) -> HandshakeFailed:
    if isinstance(error, TimeoutError):
        return HandshakeTimedOut(f"there is no answer to a handshake; {_HTTP_PORT}")
    reason = getattr(error, "reason", None)
    if reason in _NO_TLS:
        return HandshakeFailed(f"it speaks no TLS there; {_HTTP_PORT}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError):
        return HandshakeFailed(f"it ended the handshake; {_HTTP_PORT}")
    return HandshakeFailed(f"no TLS 1.2 or 1.3 with it ({reason or 'it ended'})")


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
        f"The certificate of {address.url} is {seen}, not the pinned {pinned}. Nothing was sent. If it was changed on "
        f"purpose: {_pinning_advice(address, seen)} Where this computer trusts it without a pin by now, forget the pin "
        "with `mailbox-appliance instances remove`, and log in without --fingerprint.",
        NETWORK,
    )


def _certificate_refused(address: ServerAddress, error: ssl.SSLCertVerificationError, timeout: float) -> Failure:
    """Say what is wrong with a certificate, and which it is. One more connection reads it; nothing is sent."""
    code, what = _VERDICTS.get(error.verify_code, ("certificate_invalid", f"is refused: {error.verify_message}"))
    probe = PinnedConnection(address, timeout=timeout, fingerprint=None)
    try:
        probe.connect()
    except OSError:
        return unreachable(f"No appliance answers at {address.url}.")
    finally:
        probe.close()
    if_so = "" if code == _UNKNOWN else "If it is to be trusted all the same: "
    message = f"{as_sentence(f'The certificate of {address.url} {what}')} Nothing was sent. It is {probe.seen}. {if_so}"
    advice = _pinning_advice(address, probe.seen)
    advice = advice if if_so else f"{advice[0].upper()}{advice[1:]} {_WITHOUT_LOGIN}"
    return Failure(code, message + advice, NETWORK)


def as_sentence(text: str) -> str:
    """A text with a mark at its end, and not with two."""
    return text if text.endswith("?") else f"{text}."


def _pinning_advice(address: ServerAddress, seen: str) -> str:
    return (
        "compare it with what `mailbox-appliance https fingerprint` prints there, then "
        f"`mailbox-appliance login {address.url} --email EMAIL --fingerprint {seen}`."
    )
