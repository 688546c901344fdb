"""HTTP requests to an appliance and their responses, with a deadline and size limits. Redirects are not followed.

A request is repeated once in two cases:

- The connection could not be made. Nothing was sent then, so this applies to every method; but not after a timeout.
- The connection was lost during a GET.

This module repeats no other request. If the response to a send is lost, only the caller can repeat it, with the same
idempotency key.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mailbox_appliance.client.address import API, ServerAddress, is_printable_ascii
from mailbox_appliance.client.errors import INTERNAL, Failure, failure_from_answer, unreachable, wrong_usage
from mailbox_appliance.version import __version__

if TYPE_CHECKING:
    # `http.client` and TLS load more slowly than all the rest, and help and completion send no request.
    from http.client import HTTPConnection

TellProgress = Callable[[str, int, int], None]
#: Bytes of a body that are sent between two progress reports.
_PIECE = 256 * 1024
#: The largest accepted response, in bytes.
LARGEST_ANSWER = 64 * 1024 * 1024
_PAUSE_BEFORE_SECOND_TRY = 0.2
#: Seconds for connecting, including the TLS handshake.
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class ApiRequest:
    """An HTTP request. The path is already URL-quoted. The body is a JSON value, or bytes that are sent unchanged."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    #: Seconds to wait each time the server is silent.
    timeout: float = 60.0
    #: Called with the progress of a large body: step, bytes sent, total bytes.
    telling: TellProgress | None = None
    #: The prefix of the path, before `path`.
    base: str = API
    #: The next step if the response is lost; empty for the usual advice.
    advice: str = ""


class ApiClient:
    """A client of one appliance, with one token or none."""

    def __init__(self, url: str, token: str | None = None, fingerprint: str | None = None) -> None:
        self.address, self._token, self._fingerprint = ServerAddress.parse(url), token, fingerprint

    def call(self, request: ApiRequest) -> Any:
        """Send a request and return the decoded response.

        Raises Failure for an error response, or if there is no response.
        """
        status, payload, retry_after = self._exchange(request, *self.encode_request(request))
        answer = decode_answer(status, payload)
        if not 200 <= status < 300:
            raise failure_from_answer(status, answer, retry_after)
        return answer

    def exchange(self, request: ApiRequest) -> tuple[int, bytes]:
        """Send a request and return the status and body of the response, also of an error.

        Raises Failure if there is no response.
        """
        status, payload, _ = self._exchange(request, *self.encode_request(request))
        return status, payload

    def encode_request(self, request: ApiRequest) -> tuple[str, bytes | None, dict[str, str]]:
        """Return a request as it is sent: the path with its query, the body, and the header fields."""
        headers = {"Accept": "application/json", "User-Agent": f"mailbox-appliance/{__version__}", **request.headers}
        body = request.body
        try:
            query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in request.query)
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise wrong_usage("The command line holds text that is not valid UTF-8.") from error
        if body is not None:
            headers.setdefault("Content-Type", "application/json; charset=utf-8")
        if self._token is not None:
            if not is_printable_ascii(self._token):
                raise wrong_usage("The token is not valid: it contains characters that tokens never have.")
            headers["Authorization"] = f"Bearer {self._token}"
        return self.address.prefix + request.base + request.path + (f"?{query}" if query else ""), body, headers

    def _exchange(
        self, request: ApiRequest, target: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, str | None]:
        from http.client import HTTPException

        repeats = 1 if request.method == "GET" else 0
        while True:
            connection = self.open_connection(request.timeout)
            try:
                return _send_and_read(connection, request, target, body, headers)
            except TimeoutError as error:
                raise unreachable(timeout_message(request)) from error
            except (HTTPException, OSError) as error:
                if repeats == 0:
                    raise unreachable(connection_lost_message(request)) from error
                repeats -= 1
            finally:
                connection.close()

    def open_connection(self, timeout: float) -> "HTTPConnection":
        """Open a connection to the appliance. `timeout`: in seconds.

        Raises Failure if the appliance does not respond, or its certificate is not the expected one.
        """
        try:
            return self._connect(timeout)
        except TimeoutError as error:
            raise self._unreachable_failure(error) from error
        except OSError:
            time.sleep(_PAUSE_BEFORE_SECOND_TRY)
        try:
            return self._connect(timeout)
        except OSError as error:
            raise self._unreachable_failure(error) from error

    def _unreachable_failure(self, error: OSError) -> Failure:
        failure = unreachable(f"No appliance responds at {self.address.url}: {_why_unreachable(error)}.")
        failure.is_unsent = True
        return failure

    def _connect(self, timeout: float) -> "HTTPConnection":
        from mailbox_appliance.client import tls

        connection = tls.open_connection(self.address, self._fingerprint, min(timeout, _CONNECT_SECONDS))
        connection.sock.settimeout(timeout)
        return connection


def _why_unreachable(error: OSError) -> str:
    from mailbox_appliance.client import tls

    if isinstance(error, tls.HandshakeFailed):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the connection timed out"
    return (error.strerror or type(error).__name__).removesuffix(".")


def _send_and_read(
    connection: "HTTPConnection", request: ApiRequest, target: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes, str | None]:
    """Send a request on an open connection; return status, body and Retry-After of the response.

    `target`: the path with its query.
    """
    from ssl import SSLEOFError

    try:
        if body is None or request.telling is None or len(body) <= _PIECE:
            connection.request(request.method, target, body, headers)
        else:
            sized = headers | {"Content-Length": str(len(body))}
            connection.request(request.method, target, _report_progress(body, request.telling), sized)
    except (BrokenPipeError, ConnectionResetError, SSLEOFError):
        # A server that rejects a large body responds before it has read all of it, so the response may already be here.
        if body is None:
            raise
    answer = connection.getresponse()
    payload = answer.read(LARGEST_ANSWER + 1)
    if len(payload) > LARGEST_ANSWER:
        raise Failure("unexpected_answer", "The response is too large.", INTERNAL)
    return answer.status, payload, answer.headers.get("Retry-After")


def _report_progress(body: bytes, tell: TellProgress) -> Iterator[bytes]:
    """Yield the body in pieces, and report the progress to `tell` after each."""
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]
        done = min(start + _PIECE, len(body))
        tell(f"{done / 1e6:.1f} of {len(body) / 1e6:.1f} MB", done, len(body))


def decode_answer(status: int, payload: bytes) -> Any:
    """Return the JSON value in a response; None for an error response without JSON.

    Raises Failure for a successful response without JSON.
    """
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        if status >= 300:
            return None
        raise Failure("unexpected_answer", "The server's response is not JSON.", INTERNAL) from error


def timeout_message(request: ApiRequest) -> str:
    """Return the error message for an appliance that does not respond in time.

    It names the next step for this request.
    """
    return f"The appliance did not respond within {request.timeout:.0f} seconds.{_advice(request)}"


def connection_lost_message(request: ApiRequest) -> str:
    """Return the error message for a connection lost during a request. It names the next step for this request."""
    return f"The connection to the appliance was lost before it responded.{_advice(request)}"


def _advice(request: ApiRequest) -> str:
    if request.advice:
        return f" {request.advice}"
    if "Idempotency-Key" in request.headers:
        return " The message may have been accepted. Repeat the command with the same --idempotency-key."
    return "" if request.method == "GET" else " The request may have taken effect: check before you repeat the command."
