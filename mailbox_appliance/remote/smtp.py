"""Submit messages over SMTP (RFC 6409, RFC 5321): connect, start TLS, sign in, and send each step of a message.

A reply that follows the protocol is returned, also one that refuses. A server that breaks the protocol raises
RemoteFault, and the connection cannot be used any more.

The body of a message and the final dot, which ends it, are sent separately: before `send_final_dot` the server does not
have the message. If the server offers PIPELINING, sender and recipients are sent without waiting for each reply.
"""

import base64
import re
import smtplib
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.model.content import Content
from mailbox_appliance.remote import errors
from mailbox_appliance.remote.errors import (
    Contact,
    RemoteFault,
    Reply,
    disconnected_fault,
    fault_name_of_reply,
    malformed_fault,
    marking_faults,
    named_fault,
    timeout_fault,
)
from mailbox_appliance.remote.net import connect
from mailbox_appliance.remote.net.channel import Channel, TooLong
from mailbox_appliance.remote.net.connect import context_or_fault, tls_fault
from mailbox_appliance.remote.sasl import TokenLogin

# --- Lines: smtplib's commands and EHLO parsing over the bounded channel, with replies parsed strictly ---


MAX_LINE = 4096  # RFC 5321 4.5.3.1.5 allows 512
MAX_LINES = 100

_ENHANCED = re.compile(rb"([245]\.\d{1,3}\.\d{1,3})(?:\s|$)")
_CODE = re.compile(rb"[2-5]\d\d")


class MalformedReply(Exception):
    """A reply breaks the protocol: it has no code, different codes in its lines, or too many lines."""


class SmtpDialogue(smtplib.SMTP):
    """The library smtplib on a connection that is already open, with limits of time and size."""

    def __init__(self, channel: Channel, host: str) -> None:
        # An address literal (RFC 5321 4.1.3): looking up this computer's full name may take seconds, and reveals it.
        super().__init__(local_hostname="[127.0.0.1]")
        self.channel = channel
        self._server_name = host

    def send(self, s: object) -> None:
        """Send a command. Overrides smtplib, which hides whether an error was a timeout."""
        self.channel.send(s.encode() if isinstance(s, str) else bytes(s))  # type: ignore[call-overload]  # as in smtplib

    def getreply(self, timeout: float | None = None) -> tuple[int, bytes]:
        """Return the code and the text of the next reply; a line feed separates the lines of the text.

        `timeout`: seconds for the whole reply; None for the connection's usual timeout. Raises MalformedReply,
        TimeoutError, TooLong, or OSError (also at the end of the connection).
        """
        self.channel.restart_timeout(timeout)
        return self.read_reply()

    def read_reply(self) -> tuple[int, bytes]:
        """Return the code and the text of the next reply, like `getreply`, but do not restart the time limit."""
        lines: list[bytes] = []
        while not lines or lines[-1][3:4] == b"-":
            if len(lines) == MAX_LINES:
                raise MalformedReply
            line = self.channel.read_line(MAX_LINE)
            if not line.endswith(b"\n"):
                raise ConnectionResetError
            lines.append(line.rstrip(b"\r\n"))
            _check_reply_lines(lines)
        return int(lines[0][:3]), b"\n".join(line[4:] for line in lines)

    def secure(self, context: ssl.SSLContext) -> None:
        """Start TLS. Bytes that arrived before are dropped (RFC 3207 4.2)."""
        self.channel.secure(context, self._server_name)
        self.esmtp_features = {}

    def close(self) -> None:
        """Close the connection; never raises."""
        self.channel.close()


def _check_reply_lines(lines: list[bytes]) -> None:
    last = lines[-1]
    if not _CODE.fullmatch(last[:3]) or last[3:4] not in (b"", b" ", b"-") or last[:3] != lines[0][:3]:
        raise MalformedReply


def reply_of(code: int, text: bytes) -> Reply:
    """Return a Reply for a code and a text; the text itself is not kept.

    An enhanced status code (RFC 3463) is dropped if its first digit differs from the code's.
    """
    found = _ENHANCED.match(text)
    enhanced = found[1].decode("ascii") if found else None
    name = fault_name_of_reply("smtp", f"{code} {text.decode('latin-1')}", later=True) if code >= 400 else None
    return Reply(code, enhanced if enhanced and enhanced[0] == str(code)[0] else None, name)


# --- Signing in: TLS, greeting, STARTTLS, authentication ---


# RFC 4954 4: a response that does not fit into a line of 512 bytes is sent after the server's challenge.
_LONGEST_COMMAND = 500


def log_in(dialogue: SmtpDialogue, endpoint: Endpoint, context: ssl.SSLContext | None) -> None:
    """Read the greeting, start TLS as the endpoint requires, and sign in unless the user name is empty.

    `context`: the TLS context; None for security `none`. Raises RemoteFault, and the errors of `SmtpDialogue.getreply`.
    """
    if endpoint.security == "tls" and context is not None:
        _shake_hands(lambda: dialogue.secure(context))
    _expect_code(dialogue.getreply(), 220, "refuses connections")
    _expect_code(dialogue.ehlo(), 250, "does not answer EHLO")
    dialogue.channel.contact.has_greeted = True
    if endpoint.security == "starttls" and context is not None:
        # RFC 8314: no fallback, since an attacker may have removed the capability
        if not dialogue.has_extn("starttls"):
            raise RemoteFault(
                "smtp", "tls", ("The SMTP server does not offer STARTTLS on this port. Try security `tls`.")
            )
        _expect_code(dialogue.docmd("STARTTLS"), 220, "cannot start TLS now")
        _shake_hands(lambda: dialogue.secure(context))
        _expect_code(dialogue.ehlo(), 250, "does not answer EHLO")
    if endpoint.username:
        _log_in(dialogue, endpoint)


def _shake_hands(handshake: Callable[[], Any]) -> None:
    try:
        handshake()
    except ssl.SSLError as error:
        raise tls_fault("smtp", error) from error


def _expect_code(answer: tuple[int, bytes], code: int, what: str) -> None:
    reply = reply_of(*answer)
    if reply.code == code:
        return
    # The code 421 alone only means that the server is closing the connection (RFC 5321 3.8).
    known = named_fault(reply.name, "smtp", reply) if reply.is_temporary and reply.name else None
    if known is not None and known.kind == "throttled":
        raise known
    when = "now. Try again later." if reply.is_temporary else "from here. Ask its operator."
    raise RemoteFault("smtp", "refused", f"The SMTP server {what} {when}", reply)


def _log_in(dialogue: SmtpDialogue, endpoint: Endpoint) -> None:
    """Authenticate (RFC 4954) with an access token, or a password: PLAIN (RFC 4616) if offered, else LOGIN."""
    offered = dialogue.esmtp_features.get("auth", "").upper().split()
    if endpoint.token is not None:
        _log_in_by_token(dialogue, endpoint, offered)
        return
    if "PLAIN" in offered:
        secret = f"\0{endpoint.username}\0{endpoint.password}"
        answer = dialogue.docmd("AUTH", f"PLAIN {_encode_base64(secret.encode())}")
    elif "LOGIN" in offered:
        answer = dialogue.docmd("AUTH", "LOGIN")
        for secret in (endpoint.username, endpoint.password):
            if answer[0] == 334:
                answer = dialogue.docmd(_encode_base64(secret.encode()))
    else:
        reason = (
            "The SMTP server accepts no password sign-in on this connection (AUTH PLAIN or LOGIN). Check"
            " port and security."
        )
        raise RemoteFault("smtp", "login_refused", reason)
    if answer[0] != 235:
        raise _login_fault(answer, endpoint.host)


def _log_in_by_token(dialogue: SmtpDialogue, endpoint: Endpoint, offered: list[str]) -> None:
    """Authenticate with an access token. A password is never sent, even if the server accepts passwords."""
    bearer = TokenLogin(endpoint, offered, "smtp")
    token = _encode_base64(bearer.next_response() or b"")
    command = f"{bearer.mechanism} {token}"
    if len(command) <= _LONGEST_COMMAND:
        answer = dialogue.docmd("AUTH", command)
    else:
        answer = dialogue.docmd("AUTH", bearer.mechanism)
        if answer[0] == 334:
            answer = dialogue.docmd(token)
    while answer[0] == 334:
        said = bearer.next_response(_decode_base64(answer[1]))
        answer = dialogue.docmd("*" if said is None else _encode_base64(said))
    if answer[0] != 235:
        is_final = answer[0] >= 500
        raise (
            bearer.fault_of_refusal(_answer_text(answer), reply_of(*answer))
            if is_final
            else _login_fault(answer, endpoint.host)
        )


def _login_fault(answer: tuple[int, bytes], host: str) -> RemoteFault:
    reply = reply_of(*answer)
    if reply.code < 400:
        return malformed_fault("smtp")
    known = errors.fault_of_reply("smtp", _answer_text(answer), host=host, reply=reply)
    is_for_now = reply.is_temporary and reply.code != 432  # RFC 4954 4.7.12: it only requires another password
    if known is not None and not (is_for_now and known.kind == "login_refused"):
        return known
    if (
        reply.is_temporary
    ):  # 454 4.7.0 means no more than that (RFC 4954 6); after too many sign-ins the server adds a text
        return RemoteFault("smtp", "refused", "The SMTP server cannot check sign-ins now. Try again later.", reply)
    return named_fault("wrong_password", "smtp", reply)


def _answer_text(answer: tuple[int, bytes]) -> str:
    return f"{answer[0]} {answer[1].decode('utf-8', 'replace')}"


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode_base64(text: bytes) -> bytes:
    """Decode base64; return empty bytes if it is not valid."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


# --- The steps of a message ---


_QUIT_TIMEOUT = 2.0
# commands in a group; their replies must fit into buffers while commands are still being sent (RFC 2920 3.1)
_LARGEST_GROUP = 50
_BARE_LINE_END = re.compile(rb"\r(?!\n)|(?<!\r)\n")
_UNSAFE_IN_PATH = re.compile(r"[\x00-\x20\x7f<>]")


class SmtpConnection:
    """A connection to an SMTP server, for one message at a time. Create it with `open`.

    - accepted_count: how many messages the server has accepted on this connection.
    - extensions: the extensions that the server offers, in upper case.
    - max_size: the largest message in bytes that the server accepts; None if unknown.
    """

    def __init__(self, dialogue: SmtpDialogue) -> None:
        self._dialogue = dialogue
        self._is_broken = False
        self.accepted_count = 0
        self.extensions = frozenset(name.upper() for name in dialogue.esmtp_features)
        size = dialogue.esmtp_features.get("size", "").split(" ")[0]
        # RFC 1870 4: 0 or a missing number means no known limit.
        self.max_size = (int(size) or None) if re.fullmatch(r"[0-9]{1,20}", size) else None

    @classmethod
    def open(
        cls,
        endpoint: Endpoint,
        *,
        ca_file: str,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        contact: Contact | None = None,
    ) -> "SmtpConnection":
        """Connect with the endpoint's security, and sign in unless the user name is empty. Raises RemoteFault.

        - ca_file: file with additional CAs; may be empty.
        - timeout: seconds for each reply, measured with `clock`.
        - contact: records how far the attempt got.
        """
        context = context_or_fault("smtp", ca_file) if endpoint.security != "none" else None
        with marking_faults(contact or Contact()) as known:
            sock = connect.open_connection(
                endpoint.host, endpoint.port, endpoint.security, timeout, server="smtp", contact=known
            )
            dialogue = SmtpDialogue(Channel(sock, timeout, clock=clock, contact=known), endpoint.host)
            try:
                with _errors_as_faults():
                    log_in(dialogue, endpoint, context)
            except BaseException:
                dialogue.close()
                raise
            return cls(dialogue)

    def is_ready(self) -> bool:
        """Whether another message can be sent: open, no fault so far, and no unread data of the server."""
        try:
            return not self._is_broken and not self._dialogue.channel.has_unsolicited_data()
        except OSError:
            return False

    def send_envelope(
        self,
        sender: str,
        recipients: Sequence[str],
        *,
        size: int,
        smtputf8: bool = False,
        eight_bit: bool = False,
        first_within: float | None = None,
    ) -> Iterator[Reply]:
        """Send MAIL FROM, and RCPT TO for each recipient. Yields their replies, in this order, as they arrive.

        - size: bytes of the message, which MAIL FROM includes if the server offers SIZE (RFC 1870).
        - smtputf8: header fields or addresses are in UTF-8 (RFC 6531).
        - eight_bit: the content is not 7-bit (RFC 6152).
        - first_within: seconds for the first reply; None for the usual timeout.

        With PIPELINING (RFC 2920) the commands are sent in groups; DATA is never part of one. If the caller stops
        before the last reply, the connection cannot be used any more. Raises RemoteFault (`refused`) if the server does
        not offer a needed extension.
        """
        for name, is_needed in (("SMTPUTF8", smtputf8), ("8BITMIME", eight_bit)):
            if is_needed and name not in self.extensions:
                raise RemoteFault("smtp", "refused", f"The SMTP server does not offer {name}, which the message needs.")
        options = [f"SIZE={size}"] if "SIZE" in self.extensions else []
        options += ["BODY=8BITMIME"] if eight_bit else []
        options += ["SMTPUTF8"] if smtputf8 else []
        commands = [" ".join([f"MAIL FROM:{_to_path(sender)}", *options])]
        commands += [f"RCPT TO:{_to_path(recipient)}" for recipient in recipients]
        step = _LARGEST_GROUP if "PIPELINING" in self.extensions else 1
        for start in range(0, len(commands), step):
            yield from self._send_commands(commands[start : start + step], None if start else first_within)

    def reset(self) -> Reply:
        """Send RSET, so that the server forgets sender and recipients."""
        return self._send_command("RSET")

    def start_data(self) -> Reply:
        """Send DATA. Call `send_body` next if the reply's code is 354, and only then."""
        return self._send_command("DATA")

    def send_body(self, wire: bytes | Content) -> None:
        """Send the message except the final dot. Line ends become CRLF, dots at line starts double (RFC 5321 4.5.2).

        `wire`: the raw message. The time allowed grows with its size, and no piece may take longer than the timeout.
        Raises RemoteFault (`refused`, with the reply) if the server replies before the end.
        """
        with self._mark_broken_on_fault():
            self._dialogue.channel.send_pieces(_dot_stuff(Content(wire).pieces()))
        self.require_silence()

    def require_silence(self) -> None:
        """Raise RemoteFault (`refused`, with the reply) if the server has replied before the final dot.

        Such a reply does not mean that the message is accepted, whatever its code.
        """
        with self._mark_broken_on_fault():
            if self._dialogue.channel.has_unsolicited_data():
                reply = reply_of(*self._dialogue.getreply())
                raise RemoteFault("smtp", "refused", "The SMTP server ended the message early.", reply)

    def send_final_dot(self, timeout: float, meanwhile: Callable[[], object] = lambda: None) -> Reply:
        """Send the final dot, which completes the message, and return the server's reply.

        `timeout`: seconds in total. `meanwhile`: called while the server works; it must not raise.

        Raises RemoteFault without a valid reply, or for codes 300 to 399. Then the server may have the message.
        """
        with self._mark_broken_on_fault():
            self._dialogue.channel.restart_timeout(timeout)
            self._dialogue.channel.send(b".\r\n")
            meanwhile()
            reply = reply_of(*self._dialogue.read_reply())
        if 300 <= reply.code < 400:
            self._is_broken = True
            raise malformed_fault("smtp")
        self.accepted_count += reply.code < 300
        return reply

    def quit(self, within: float = _QUIT_TIMEOUT) -> None:
        """Send QUIT, unless there was a fault, and close. `within`: seconds for both. Never raises.

        A failure does not affect messages that were accepted before.
        """
        try:
            if self._is_broken:
                return
            self._dialogue.channel.sock.settimeout(within)
            self._dialogue.channel.sock.sendall(b"QUIT\r\n")
            self._dialogue.getreply(within)
        except (OSError, MalformedReply, TooLong):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Close without QUIT. Never raises."""
        self._dialogue.close()

    @contextmanager
    def _mark_broken_on_fault(self) -> Iterator[None]:
        try:
            with _errors_as_faults():
                yield
        except RemoteFault:
            self._is_broken = True
            raise

    def _send_command(self, line: str) -> Reply:
        return next(self._send_commands([line]))

    def _send_commands(self, lines: Sequence[str], first_within: float | None = None) -> Iterator[Reply]:
        with self._mark_broken_on_fault():
            if (
                self._dialogue.channel.has_buffered_data()
            ):  # A reply without a command: it would be mistaken for the next command's reply.
                raise MalformedReply
            self._dialogue.channel.send(b"".join(line.encode() + b"\r\n" for line in lines))
        for number, _ in enumerate(lines):
            with self._mark_broken_on_fault():
                reply = reply_of(*self._dialogue.getreply(first_within if number == 0 else None))
            yield reply


@contextmanager
def _errors_as_faults() -> Iterator[None]:
    """Context manager: convert errors of the connection that are raised in the block to RemoteFault."""
    try:
        yield
    except TimeoutError as error:
        raise timeout_fault("smtp") from error
    except (MalformedReply, TooLong) as error:
        raise malformed_fault("smtp") from error
    except OSError as error:
        raise disconnected_fault("smtp") from error


def _to_path(address: str) -> str:
    """Return an address in angle brackets, for MAIL FROM and RCPT TO.

    Raises ValueError for a character that could end the command or the brackets.
    """
    if _UNSAFE_IN_PATH.search(address):
        raise ValueError("an envelope address with a character that it cannot have")
    return f"<{address}>"


def _dot_stuff(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held, end = b"", b"\r\n"  # a CR whose LF may be in the next piece; the last two bytes seen
    for piece in pieces:
        raw = held + piece
        held = b"\r" if raw.endswith(b"\r") else b""
        if stuffed := _dot_stuff_piece(raw[: len(raw) - len(held)], end):
            end = stuffed[-2:] if len(stuffed) > 1 else end[-1:] + stuffed
            yield stuffed
    if held or end != b"\r\n":
        yield b"\r\n"


def _dot_stuff_piece(raw: bytes, before: bytes) -> bytes:
    # Some servers accept a bare CR or LF as a line end: with it, text could forge the final dot. Counting takes a
    # twentieth of the time of a search, which would block all other threads.
    if not raw.count(b"\r\n") == raw.count(b"\n") == raw.count(b"\r"):
        raw = _BARE_LINE_END.sub(b"\r\n", raw)
    stuffed = raw.replace(b"\r\n.", b"\r\n..")
    return b"." + stuffed if before == b"\r\n" and stuffed.startswith(b".") else stuffed
