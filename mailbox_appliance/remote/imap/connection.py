"""Sign in to an IMAP server on a connected socket: TLS, greeting, STARTTLS, sign-in.

The libraries imaplib and imapclient read and write through `net.channel`, which limits the length and the time of each
response.
"""

import imaplib
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError, ProtocolError

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.remote.errors import (
    FaultKind,
    RemoteFault,
    disconnected_fault,
    fault_of_reply,
    malformed_fault,
    timeout_fault,
)
from mailbox_appliance.remote.net.channel import Channel, TooLong
from mailbox_appliance.remote.net.connect import context_or_fault, tls_fault
from mailbox_appliance.remote.sasl import TokenLogin

MAX_LINE = 1 << 20
MAX_LITERAL = 80 << 20

_RESPONSE_CODE = re.compile(r"\[([A-Z][A-Z-]{2,31})[\] ]", re.I)
#: The forms in which imaplib and imapclient quote a server in their errors.
_PYTHON_BYTES = re.compile(r"^b(['\"])(.*)\1$", re.S)
_ABOUT_FOLDERS = frozenset({"NONEXISTENT", "TRYCREATE", "NOPERM", "ALREADYEXISTS", "CANNOT"})
# Response codes (RFC 5530, RFC 9051 7.1), their meaning here, and what a person can do.
_CODES: dict[str, tuple[FaultKind, str]] = {
    "LIMIT": ("throttled", "The IMAP server's limit is reached. Try again later."),
    "INUSE": ("throttled", "Too many other clients use this mailbox. Try again later."),
    "THROTTLED": ("throttled", "The IMAP server limits the number of requests. Try again later."),
    "UNAVAILABLE": ("refused", "A system behind the IMAP server is down. Try again later."),
    "SERVERBUG": ("refused", "The IMAP server reported an internal error. Ask its operator."),
    "OVERQUOTA": ("refused", "The mailbox is full."),
    "NONEXISTENT": ("refused", "The IMAP server does not have this folder."),
    "TRYCREATE": ("refused", "The IMAP server does not have this folder."),
    "NOPERM": ("refused", "The IMAP server does not permit this."),
    "PRIVACYREQUIRED": ("login_refused", "The IMAP server requires TLS. Use security `tls` or `starttls`."),
}


class LoginProtocol(imaplib.IMAP4):
    """The connection object of imaplib, which reads and writes through a channel with limits."""

    def __init__(self, channel: Channel, host: str) -> None:
        self.channel = channel
        super().__init__(host)

    def open(self, host: str = "", port: int = 0, timeout: float | None = None) -> None:  # noqa: ARG002
        """Do not connect, because the channel is connected already."""
        self.host, self.port, self.sock = host, port, self.channel.sock

    def read(self, size: int) -> bytes:
        """Read exactly `size` bytes: a literal (RFC 9051 4.3)."""
        if size > MAX_LITERAL:
            raise TooLong
        data = self.channel.read_exactly(size)
        if len(data) < size:
            raise ConnectionResetError
        return data

    def readline(self) -> bytes:
        """Read a line, including its line end. Returns empty bytes if the connection has ended."""
        line = self.channel.read_line(MAX_LINE)
        if line and not line.endswith(b"\n"):
            raise ConnectionResetError
        return line

    def send(self, data: Any) -> None:
        """Send data, and restart the time limit for the response."""
        self.channel.send(data)
        self.channel.restart_timeout()

    def shutdown(self) -> None:
        """Close the connection; never raises."""
        self.channel.close()

    def secure(self, context: ssl.SSLContext) -> None:
        """Start TLS (STARTTLS, RFC 9051 6.2.1). Earlier responses are dropped, capabilities requested again."""
        typ, _ = self._simple_command("STARTTLS")
        if typ != "OK":
            raise RemoteFault("imap", "tls", "The IMAP server cannot start TLS now.")
        self.channel.secure(context, self.host)
        self.sock, self._tls_established, self.untagged_responses = self.channel.sock, True, {}
        self._get_capabilities()


class LoginClient(IMAPClient):
    """The client object of imapclient, which uses `LoginProtocol`. Only the sign-in uses it."""

    def __init__(self, channel: Channel, host: str) -> None:
        self._channel = channel
        super().__init__(host, 0, ssl=False)
        self.normalise_times = False
        self._imap.debug = 0  # imapclient would format every line for a log that drops it.

    def _create_IMAP4(self) -> LoginProtocol:  # noqa: N802 - imapclient's name for how it gets its connection
        return LoginProtocol(self._channel, self.host)

    def _set_read_timeout(self) -> None:
        """Do nothing, because the channel enforces timeouts. Overrides imapclient."""

    @property
    def protocol(self) -> LoginProtocol:
        """The imaplib object under this client, for commands that imapclient does not offer."""
        protocol: LoginProtocol = self._imap
        return protocol

    def socket(self) -> socket.socket:
        """The socket of the connection. Use it only to wait for data."""
        return self._channel.sock


@contextmanager
def errors_as_faults() -> Iterator[None]:
    """Context manager: convert errors of the connection and of imaplib that are raised in the block to RemoteFault."""
    try:
        yield
    except TimeoutError as error:
        raise timeout_fault("imap") from error
    except OSError as error:
        raise disconnected_fault("imap") from error
    except imaplib.IMAP4.abort as error:
        raise (malformed_fault("imap") if "unexpected" in str(error) else disconnected_fault("imap")) from error
    except (ProtocolError, TooLong, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        # These parse foreign bytes: any of their errors means that the bytes are not IMAP.
        raise malformed_fault("imap") from error
    except imaplib.IMAP4.error as error:
        raise fault_of_refusal(error) from error


def fault_of_refusal(
    error: Exception, otherwise: FaultKind = "refused", reason: str = "", *, host: str = "", by_token: bool = False
) -> RemoteFault:
    """Return the fault for a NO or BAD response. `error`: the exception that holds the response's text.

    The fault is determined by the first of these that is known:

    1. The text of the response (`errors.fault_name_of_reply`).
    2. The response code (RFC 5530).
    3. The parameters: `otherwise` is the kind of the fault, `reason` its sentence.

    For a refused sign-in, also pass `host` and `by_token` (an access token was used).
    """
    said = _PYTHON_BYTES.sub(r"\2", str(error))
    found = _RESPONSE_CODE.search(said)
    code = found[1].upper() if found else None
    fault = None
    if code not in _ABOUT_FOLDERS:  # Their text names a folder, which may contain anything.
        fault = fault_of_reply("imap", said, host=host, later=otherwise != "login_refused", by_token=by_token)
    if fault is None:
        kind, sentence = _CODES.get(code or "", (otherwise, reason or "The IMAP server refused a command."))
        fault = RemoteFault("imap", kind, sentence)
    fault.code = code
    return fault


# --- Signing in ---


def log_in(channel: Channel, endpoint: Endpoint, ca_file: str) -> frozenset[str]:
    """Sign in on a connected channel, with TLS or STARTTLS as the endpoint requires. Raises RemoteFault.

    Returns the server's capabilities after the sign-in, in upper case.
    """
    context = context_or_fault("imap", ca_file) if endpoint.security != "none" else None
    with errors_as_faults():
        if endpoint.security == "tls" and context is not None:
            _handshake(channel, endpoint.host, context)
        client = _read_greeting(channel, endpoint.host)
        if endpoint.security == "starttls" and context is not None:
            _start_tls(client, context)
        _log_in(client, endpoint)
        return frozenset(word.decode("ascii", "replace").upper() for word in client.capabilities())


def _handshake(channel: Channel, host: str, context: ssl.SSLContext) -> None:
    try:
        channel.secure(context, host)
    except ssl.SSLError as error:
        raise tls_fault("imap", error) from error


def _read_greeting(channel: Channel, host: str) -> LoginClient:
    try:
        client = LoginClient(channel, host)
        channel.contact.has_greeted = True
        return client
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error as error:
        channel.contact.has_greeted = True  # with BYE
        raise fault_of_refusal(
            error, reason=("The IMAP server refuses connections for now. Try again later.")
        ) from error


def _start_tls(client: LoginClient, context: ssl.SSLContext) -> None:
    # RFC 8314: no fallback. A missing capability, or a greeting that skips the sign-in (PREAUTH), may be an attack.
    if client.protocol.state != "NONAUTH" or "STARTTLS" not in client.protocol.capabilities:
        raise RemoteFault("imap", "tls", "The IMAP server does not offer STARTTLS on this port. Try security `tls`.")
    try:
        client.protocol.secure(context)
    except ssl.SSLError as error:
        raise tls_fault("imap", error) from error


def _log_in(client: LoginClient, endpoint: Endpoint) -> None:
    """Sign in with the endpoint's access token if it has one, otherwise with its password.

    With a password, AUTHENTICATE PLAIN (RFC 4616) comes before LOGIN, because it allows any character.
    """
    words = client.protocol.capabilities
    if endpoint.token is not None:
        return _log_in_by_token(client, endpoint)
    try:
        if "AUTH=PLAIN" in words:
            client.plain_login(endpoint.username, endpoint.password)
        elif "LOGINDISABLED" in words:
            reason = "The IMAP server accepts no passwords on this connection. Use security `tls` or `starttls`."
            raise RemoteFault("imap", "login_refused", reason)
        else:
            client.login(_quote_user_name(endpoint.username), endpoint.password)
    except imaplib.IMAP4.abort:
        raise
    except (IMAPClientError, UnicodeEncodeError) as error:
        # imapclient also reports a refused login when the connection ends during the wait for the response.
        if isinstance(error.__context__, imaplib.IMAP4.abort):
            raise error.__context__ from None
        reason = "The IMAP server refused the user name or password. Some providers require an app password."
        raise fault_of_refusal(error, "login_refused", reason, host=endpoint.host) from error


def _log_in_by_token(client: LoginClient, endpoint: Endpoint) -> None:
    """Sign in with an access token. A password is never sent, even if the server accepts passwords."""
    offered = [word.removeprefix("AUTH=") for word in client.protocol.capabilities if word.startswith("AUTH=")]
    bearer = TokenLogin(endpoint, offered, "imap")
    try:
        client.sasl_login(bearer.mechanism, bearer.next_response)
    except imaplib.IMAP4.abort:
        raise
    except IMAPClientError as error:
        if isinstance(error.__context__, imaplib.IMAP4.abort):
            raise error.__context__ from None
        known = fault_of_refusal(error, "login_refused", host=endpoint.host, by_token=True)
        raise (bearer.fault_of_refusal(str(error)) if known.kind == "login_refused" else known) from error


def _quote_user_name(text: str) -> str:
    """Return a user name as an IMAP quoted string, because imaplib quotes only the password."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
