"""imaplib and imapclient over our bounded channel, for the login: a connection that is already there and checked.

imaplib reads through its overridable methods, which go to the channel: lines, literals, whole answers and the time they
take are all bounded.
"""

import imaplib
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from imapclient import IMAPClient
from imapclient.exceptions import ProtocolError

from mailbox_appliance.remote.channel import Channel, TooLong
from mailbox_appliance.remote.faults import FaultKind, RemoteFault, disconnected, malformed, timed_out
from mailbox_appliance.remote.replies import fault_of

MAX_LINE = 1 << 20
MAX_LITERAL = 80 << 20

_RESPONSE_CODE = re.compile(r"\[([A-Z][A-Z-]{2,31})[\] ]", re.I)
#: How imaplib and imapclient put what a server said into their errors.
_PYTHON_BYTES = re.compile(r"^b(['\"])(.*)\1$", re.S)
_ABOUT_FOLDERS = frozenset({"NONEXISTENT", "TRYCREATE", "NOPERM", "ALREADYEXISTS", "CANNOT"})
# RFC 5530 and RFC 9051 7.1. What they mean for us, and what a person may do.
_CODES: dict[str, tuple[FaultKind, str]] = {
    "LIMIT": ("throttled", "The IMAP server's limit is reached. Try again later."),
    "INUSE": ("throttled", "The mailbox is in use by too many others. Try again later."),
    "THROTTLED": ("throttled", "The IMAP server limits how often it may be asked. Try again later."),
    "UNAVAILABLE": ("refused", "Something behind the IMAP server is down. Try again later."),
    "SERVERBUG": ("refused", "The IMAP server has a fault. Ask its operator."),
    "OVERQUOTA": ("refused", "The mailbox is full."),
    "NONEXISTENT": ("refused", "The IMAP server does not have this folder."),
    "TRYCREATE": ("refused", "The IMAP server does not have this folder."),
    "NOPERM": ("refused", "The IMAP server does not permit this."),
    "PRIVACYREQUIRED": ("login_refused", "The IMAP server wants TLS for this. Use security `tls` or `starttls`."),
}


class Protocol(imaplib.IMAP4):
    """imaplib on a channel. After `secure` its commands go through TLS."""

    def __init__(self, channel: Channel, host: str) -> None:
        self.channel = channel
        super().__init__(host)

    def open(self, host: str = "", port: int = 0, timeout: float | None = None) -> None:  # noqa: ARG002
        """Nothing to connect: the channel is."""
        self.host, self.port, self.sock = host, port, self.channel.sock

    def read(self, size: int) -> bytes:
        """A literal."""
        if size > MAX_LITERAL:
            raise TooLong
        data = self.channel.read_exactly(size)
        if len(data) < size:
            raise ConnectionResetError
        return data

    def readline(self) -> bytes:
        """A line with its end, or nothing at the end of the connection."""
        line = self.channel.read_line(MAX_LINE)
        if line and not line.endswith(b"\n"):
            raise ConnectionResetError
        return line

    def send(self, data: Any) -> None:
        """Send, and begin to wait for the answer."""
        self.channel.send(data)
        self.channel.restart_timeout()

    def shutdown(self) -> None:
        """Close the connection; never raises."""
        self.channel.close()

    def secure(self, context: ssl.SSLContext) -> None:
        """STARTTLS (RFC 9051 6.2.1): what the server said before is forgotten, its capabilities are asked anew."""
        typ, _ = self._simple_command("STARTTLS")
        if typ != "OK":
            raise RemoteFault("imap", "tls", "The IMAP server cannot start TLS now.")
        self.channel.secure(context, self.host)
        self.sock, self._tls_established, self.untagged_responses = self.channel.sock, True, {}
        self._get_capabilities()


class Client(IMAPClient):
    """imapclient on our protocol. Times are aware."""

    def __init__(self, channel: Channel, host: str) -> None:
        self._channel = channel
        super().__init__(host, 0, ssl=False)
        self.normalise_times = False
        self._imap.debug = 0  # imapclient would have every line written out, only to throw it away

    def _create_IMAP4(self) -> Protocol:  # noqa: N802 - imapclient's name for how it gets its connection
        return Protocol(self._channel, self.host)

    def _set_read_timeout(self) -> None:
        """The channel's business."""

    @property
    def protocol(self) -> Protocol:
        """The imaplib object below, for what imapclient has no way to say."""
        protocol: Protocol = self._imap
        return protocol

    def socket(self) -> socket.socket:
        """For polling only."""
        return self._channel.sock


@contextmanager
def speaking() -> Iterator[None]:
    """Turns what goes wrong on the way into RemoteFault."""
    try:
        yield
    except TimeoutError as error:
        raise timed_out("imap") from error
    except OSError as error:
        raise disconnected("imap") from error
    except imaplib.IMAP4.abort as error:
        raise (malformed("imap") if "unexpected" in str(error) else disconnected("imap")) from error
    except (ProtocolError, TooLong, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        # Parsers of other people's bytes: what they trip over is not IMAP.
        raise malformed("imap") from error
    except imaplib.IMAP4.error as error:
        raise refusal(error) from error


def refusal(
    error: Exception, otherwise: FaultKind = "refused", reason: str = "", *, host: str = "", by_token: bool = False
) -> RemoteFault:
    """What a NO or BAD means: by its text (`replies`), by its response code (RFC 5530), else `otherwise` and `reason`.

    `host`, `by_token`: of the login, where it is one that was refused.
    """
    said = _PYTHON_BYTES.sub(r"\2", str(error))
    found = _RESPONSE_CODE.search(said)
    code = found[1].upper() if found else None
    fault = None
    if code not in _ABOUT_FOLDERS:  # their text names a folder, which may be called anything
        fault = fault_of("imap", said, host=host, later=otherwise != "login_refused", by_token=by_token)
    if fault is None:
        kind, sentence = _CODES.get(code or "", (otherwise, reason or "The IMAP server refused a command."))
        fault = RemoteFault("imap", kind, sentence)
    fault.code = code
    return fault
