"""Submitting messages, one after the other (RFC 6409, RFC 5321), each step apart, so that each can be journalled.

A reply that follows the protocol is a value, whatever it says; a server that stops following it is a RemoteFault. Once
a fault has been raised the connection is of no more use. Body and final dot go apart: until `dot` nobody has the mail.
Only the envelope is pipelined, where the server offers that; everything else waits for the reply to what was before.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from mailbox_appliance.model.content import Content
from mailbox_appliance.model.records import Endpoint
from mailbox_appliance.remote import addresses
from mailbox_appliance.remote.channel import Channel, TooLong
from mailbox_appliance.remote.contact import Contact, showing
from mailbox_appliance.remote.dialogue import Dialogue, Malformed, reply_of
from mailbox_appliance.remote.faults import RemoteFault, Reply, disconnected, malformed, timed_out
from mailbox_appliance.remote.smtp_session import log_in
from mailbox_appliance.remote.tls import context_for

__all__ = ["Reply", "Submission"]

_QUIT_TIMEOUT = 2.0
_LARGEST_GROUP = 50  # commands; their replies must fit into buffers while we are still sending (RFC 2920 3.1)
_BARE_LINE_END = re.compile(rb"\r(?!\n)|(?<!\r)\n")
_UNSAFE_IN_PATH = re.compile(r"[\x00-\x20\x7f<>]")


class Submission:
    """One connection, for one message at a time. `taken` counts those that the server has taken on it."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._is_broken = False
        self.accepted_count = 0
        self.extensions = frozenset(name.upper() for name in dialogue.esmtp_features)
        size = dialogue.esmtp_features.get("size", "").split(" ")[0]
        # RFC 1870 4: 0, or no number, stands for no known limit.
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
    ) -> "Submission":
        """Connect, secure as the endpoint says (never less), greet, and log in unless the user name is empty.

        Each reply must be complete within `timeout` seconds as `clock` counts them. `contact` tells, afterwards, how
        far it got. Raises RemoteFault.
        """
        context = context_for("smtp", ca_file) if endpoint.security != "none" else None
        with showing(contact or Contact()) as known:
            sock = addresses.connect(
                endpoint.host, endpoint.port, endpoint.security, timeout, server="smtp", contact=known
            )
            dialogue = Dialogue(Channel(sock, timeout, clock=clock, contact=known), endpoint.host)
            try:
                with _speaking():
                    log_in(dialogue, endpoint, context)
            except BaseException:
                dialogue.close()
                raise
            return cls(dialogue)

    def is_ready(self) -> bool:
        """Whether another message may be begun: all went well so far, and the server has been silent since."""
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
        """MAIL FROM and a RCPT TO for each recipient: their replies, in order, as they come.

        With PIPELINING (RFC 2920) the commands go out together, a group at a time; where a reply is not waited for
        any more, the connection is of no more use. DATA is never part of a group.

        MAIL FROM has the size where the server asks for it (RFC 1870). `smtputf8`: header fields or addresses are in
        UTF-8 (RFC 6531). `eight_bit`: the content is not 7-bit (RFC 6152). Raises RemoteFault (`refused`) where one of
        them is needed and not offered. `first_within`: seconds for the first reply, where that is less than for others.
        """
        for name, is_needed in (("SMTPUTF8", smtputf8), ("8BITMIME", eight_bit)):
            if is_needed and name not in self.extensions:
                raise RemoteFault("smtp", "refused", f"The SMTP server does not offer {name}, which the message needs.")
        options = [f"SIZE={size}"] if "SIZE" in self.extensions else []
        options += ["BODY=8BITMIME"] if eight_bit else []
        options += ["SMTPUTF8"] if smtputf8 else []
        commands = [" ".join([f"MAIL FROM:{_path(sender)}", *options])]
        commands += [f"RCPT TO:{_path(recipient)}" for recipient in recipients]
        step = _LARGEST_GROUP if "PIPELINING" in self.extensions else 1
        for start in range(0, len(commands), step):
            yield from self._send_commands(commands[start : start + step], None if start else first_within)

    def reset(self) -> Reply:
        """RSET: forget sender and recipients."""
        return self._send_command("RSET")

    def start_data(self) -> Reply:
        """DATA. 354 asks for the message; with anything else nothing may follow."""
        return self._send_command("DATA")

    def send_body(self, wire: bytes | Content) -> None:
        """All of the message but the final dot, handed to the network: CRLF ends, dots doubled (RFC 5321 4.5.2).

        It may take as long as its size does at the slowest rate, and no piece longer than the timeout.

        Raises RemoteFault (`refused`, with the reply) when the server ends the message early.
        """
        with self._mark_broken_on_fault():
            self._dialogue.channel.send_pieces(_stuffed(Content(wire).pieces()))
        self.require_silence()

    def require_silence(self) -> None:
        """Raises RemoteFault (`refused`, with the reply) where the server has spoken before the message had its dot.

        What it said is no answer to the dot, even if it looks like one.
        """
        with self._mark_broken_on_fault():
            if self._dialogue.channel.has_unsolicited_data():
                reply = reply_of(*self._dialogue.getreply())
                raise RemoteFault("smtp", "refused", "The SMTP server broke the message off.", reply)

    def send_final_dot(self, timeout: float, meanwhile: Callable[[], object] = lambda: None) -> Reply:
        """The final dot, and what the server makes of the message, waiting up to `timeout` seconds in all.

        `meanwhile` is done while the server is at work; it must not fail.
        From here on a RemoteFault leaves open whether the server has the message. A 3yz reply makes no sense here and
        is `malformed`.
        """
        with self._mark_broken_on_fault():
            self._dialogue.channel.restart_timeout(timeout)
            self._dialogue.channel.send(b".\r\n")
            meanwhile()
            reply = reply_of(*self._dialogue.read_reply())
        if 300 <= reply.code < 400:
            self._is_broken = True
            raise malformed("smtp")
        self.accepted_count += reply.code < 300
        return reply

    def quit(self, within: float = _QUIT_TIMEOUT) -> None:
        """Say goodbye, unless there was a fault, and close, within so many seconds. Never raises.

        Whatever comes of it, nothing that was said before is any different.
        """
        try:
            if self._is_broken:
                return
            self._dialogue.channel.sock.settimeout(within)
            self._dialogue.channel.sock.sendall(b"QUIT\r\n")
            self._dialogue.getreply(within)
        except (OSError, Malformed, TooLong):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Close without a goodbye. Never raises."""
        self._dialogue.close()

    @contextmanager
    def _mark_broken_on_fault(self) -> Iterator[None]:
        try:
            with _speaking():
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
            ):  # a reply to nothing: the next one would be taken for another's
                raise Malformed
            self._dialogue.channel.send(b"".join(line.encode() + b"\r\n" for line in lines))
        for number, _ in enumerate(lines):
            with self._mark_broken_on_fault():
                reply = reply_of(*self._dialogue.getreply(first_within if number == 0 else None))
            yield reply


@contextmanager
def _speaking() -> Iterator[None]:
    """Turns what goes wrong on the way into RemoteFault."""
    try:
        yield
    except TimeoutError as error:
        raise timed_out("smtp") from error
    except (Malformed, TooLong) as error:
        raise malformed("smtp") from error
    except OSError as error:
        raise disconnected("smtp") from error


def _path(address: str) -> str:
    """An address as MAIL and RCPT take it. Raises ValueError for one that could end the command or the path."""
    if _UNSAFE_IN_PATH.search(address):
        raise ValueError("an envelope address with a character that it cannot have")
    return f"<{address}>"


def _stuffed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held, end = b"", b"\r\n"  # a CR that may have its LF in the next piece; the last two bytes that were given
    for piece in pieces:
        raw = held + piece
        held = b"\r" if raw.endswith(b"\r") else b""
        if stuffed := _stuffed_piece(raw[: len(raw) - len(held)], end):
            end = stuffed[-2:] if len(stuffed) > 1 else end[-1:] + stuffed
            yield stuffed
    if held or end != b"\r\n":
        yield b"\r\n"


def _stuffed_piece(raw: bytes, before: bytes) -> bytes:
    # A bare CR or LF is a line end to some servers: with it, text could forge the final dot.
    # To count takes a twentieth of the time of a search, in which nobody else in the process would have a turn.
    if not raw.count(b"\r\n") == raw.count(b"\n") == raw.count(b"\r"):
        raw = _BARE_LINE_END.sub(b"\r\n", raw)
    stuffed = raw.replace(b"\r\n.", b"\r\n..")
    return b"." + stuffed if before == b"\r\n" and stuffed.startswith(b".") else stuffed
