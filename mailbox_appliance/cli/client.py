"""One HTTP request to an appliance and its answer, with a deadline, bounds, and certificate pinning.

What is tried again: a connection that could not be made (nothing was sent yet), once, for every method; and a GET whose
connection dropped, once. Nothing else: a send whose answer is lost is repeated by whoever holds its idempotency key.
"""

import hashlib
import hmac
import http.client
import ipaddress
import json
import ssl
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from mailbox_appliance.cli.failures import INTERNAL, NETWORK, Failure, of_answer, unreachable, wrong_usage
from mailbox_appliance.version import __version__

API = "/api/v1"
#: Answers larger than this are refused, in bytes.
LARGEST_ANSWER = 64 * 1024 * 1024
_PAUSE_BEFORE_SECOND_TRY = 0.2


@dataclass(frozen=True)
class Address:
    """A server's address, taken apart."""

    secure: bool
    host: str
    port: int
    prefix: str

    @classmethod
    def parse(cls, url: str) -> "Address":
        """The parts of `http://HOST[:PORT][/PREFIX]` or `https://...`; anything else is wrong usage."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError as error:
            raise _bad_url() from error
        spare = parts.username or parts.password or parts.query or parts.fragment
        if parts.scheme not in ("http", "https") or not host or spare or not _is_plain(url):
            raise _bad_url()
        return cls(
            parts.scheme == "https", host, port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/")
        )

    @property
    def url(self) -> str:
        """The address in one form, for comparing and for display."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == (443 if self.secure else 80) else f":{self.port}"
        return f"{'https' if self.secure else 'http'}://{host}{port}{self.prefix}"

    @property
    def is_loopback(self) -> bool:
        """Whether this names the local computer."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def _bad_url() -> Failure:
    return wrong_usage("An address looks like https://mail.example.org:8443, without a user, query or fragment.")


def _is_plain(text: str) -> bool:
    return all("!" <= character <= "~" for character in text)


def certificate_fingerprint(der: bytes) -> str:
    """The name of a certificate: `sha256:` and the hex digits of its DER form's hash."""
    return "sha256:" + hashlib.sha256(der).hexdigest()


class PinnedConnection(http.client.HTTPSConnection):
    """HTTPS to a server that is known by the fingerprint of its certificate; nothing is sent to another one."""

    def __init__(self, host: str, port: int, *, timeout: float, fingerprint: str | None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The pin takes the place of the chain and the name.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(host, port, timeout=timeout, context=context)
        self._fingerprint = fingerprint
        self.seen = ""

    def connect(self) -> None:
        """Shake hands and compare the certificate before anything is sent."""
        super().connect()
        assert isinstance(self.sock, ssl.SSLSocket)  # noqa: S101 - what HTTPSConnection makes
        self.seen = certificate_fingerprint(self.sock.getpeercert(binary_form=True) or b"")
        if self._fingerprint is not None and not hmac.compare_digest(self.seen, self._fingerprint):
            self.close()
            raise Failure(
                "certificate_changed",
                f"The server shows the certificate {self.seen}, not the pinned {self._fingerprint}. Nothing was sent.",
                NETWORK,
            )


@dataclass(frozen=True)
class Request:
    """What to ask. The path is already quoted; a body is a JSON value, or bytes that go as they are."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    #: Seconds to wait for the server, each time it is silent.
    timeout: float = 60.0


class Client:
    """Asks one appliance on behalf of one credential."""

    def __init__(self, url: str, token: str | None = None, fingerprint: str | None = None) -> None:
        self.address, self._token, self._fingerprint = Address.parse(url), token, fingerprint

    def call(self, request: Request) -> Any:
        """The answer to a request, decoded. An error answer, and no answer, raise a Failure."""
        target, body, headers = self.prepared(request)
        status, payload = self._exchange(request, target, body, headers)
        answer = decoded(status, payload)
        if not 200 <= status < 300:
            raise of_answer(status, answer)
        return answer

    def prepared(self, request: Request) -> tuple[str, bytes | None, dict[str, str]]:
        """What goes over the wire: the target, the body, the header fields."""
        headers = {"Accept": "application/json", "User-Agent": f"mailbox-appliance/{__version__}", **request.headers}
        body = request.body
        try:
            query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in request.query)
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise wrong_usage("The command line holds text that is not valid UTF-8.") from error
        if body is not None:
            headers["Content-Type"] = "application/json; charset=utf-8"
        if self._token is not None:
            if not _is_plain(self._token):
                raise wrong_usage("The token holds characters that no token has.")
            headers["Authorization"] = f"Bearer {self._token}"
        return self.address.prefix + API + request.path + (f"?{query}" if query else ""), body, headers

    def _exchange(
        self, request: Request, target: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        repeats = 1 if request.method == "GET" else 0
        while True:
            connection = self.connected(request.timeout)
            try:
                return _talk(connection, request.method, target, body, headers)
            except TimeoutError as error:
                raise unreachable(silence(request)) from error
            except (http.client.HTTPException, OSError) as error:
                if repeats == 0:
                    raise unreachable(lost(request)) from error
                repeats -= 1
            finally:
                connection.close()

    def connected(self, timeout: float) -> http.client.HTTPConnection:
        """A connection to the appliance. Raises a Failure where there is none."""
        try:
            return self._connect(timeout)
        except ssl.SSLCertVerificationError as error:
            raise self._unknown_certificate(timeout) from error
        except OSError:
            time.sleep(_PAUSE_BEFORE_SECOND_TRY)
        try:
            return self._connect(timeout)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).removesuffix(".")
            raise unreachable(f"No appliance answers at {self.address.url}: {reason}.") from error

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        connection = self._connection(timeout=min(timeout, 10.0))
        connection.connect()
        connection.sock.settimeout(timeout)
        return connection

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        address = self.address
        if not address.secure:
            return http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        if self._fingerprint is not None:
            return PinnedConnection(address.host, address.port, timeout=timeout, fingerprint=self._fingerprint)
        return http.client.HTTPSConnection(address.host, address.port, timeout=timeout)

    def _unknown_certificate(self, timeout: float) -> Failure:
        """Say which certificate the server shows; nothing is sent to it."""
        probe = PinnedConnection(self.address.host, self.address.port, timeout=min(timeout, 10.0), fingerprint=None)
        try:
            probe.connect()
        except OSError:
            return unreachable(f"No appliance answers at {self.address.url}.")
        finally:
            probe.close()
        return Failure(
            "certificate_unknown",
            f"The certificate of {self.address.url} is not known: {probe.seen}. Compare it with what "
            f"`mailbox-appliance https fingerprint` prints there, then log in with --fingerprint {probe.seen}.",
            NETWORK,
        )


def _talk(
    connection: http.client.HTTPConnection, method: str, target: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes]:
    try:
        connection.request(method, target, body, headers)
    except (BrokenPipeError, ConnectionResetError):
        # A server that refuses a large body answers before it has read it all: the answer is already there.
        if body is None:
            raise
    answer = connection.getresponse()
    payload = answer.read(LARGEST_ANSWER + 1)
    if len(payload) > LARGEST_ANSWER:
        raise Failure("unexpected_answer", "The answer is too large.", INTERNAL)
    return answer.status, payload


def decoded(status: int, payload: bytes) -> Any:
    """The JSON of an answer; None for an error that has none."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        if status >= 400:
            return None
        raise Failure("unexpected_answer", "The server answered something that is not JSON.", INTERNAL) from error


def silence(request: Request) -> str:
    """That the server is silent, and what to do about it."""
    return f"The appliance did not answer within {request.timeout:.0f} seconds.{_advice(request)}"


def lost(request: Request) -> str:
    """That the connection was lost, and what to do about it."""
    return f"The connection to the appliance was lost before it answered.{_advice(request)}"


def _advice(request: Request) -> str:
    if "Idempotency-Key" in request.headers:
        return " The message may have been accepted: repeat the command with the same --idempotency-key."
    return "" if request.method == "GET" else " It may have been done: look before you repeat the command."
