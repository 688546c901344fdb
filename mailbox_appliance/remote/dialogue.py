"""SMTP lines: smtplib's commands and its reading of EHLO, over our bounded channel, with replies read strictly."""

import re
import smtplib
import ssl

from mailbox_appliance.remote.channel import Channel
from mailbox_appliance.remote.faults import Reply
from mailbox_appliance.remote.replies import name_of

MAX_LINE = 4096  # RFC 5321 4.5.3.1.5 says 512; generous, yet bounded
MAX_LINES = 100

_ENHANCED = re.compile(rb"([245]\.\d{1,3}\.\d{1,3})(?:\s|$)")
_CODE = re.compile(rb"[2-5]\d\d")


class Malformed(Exception):
    """A reply is none: no code, lines that disagree, or too many."""


class Dialogue(smtplib.SMTP):
    """smtplib on a connection that is already there."""

    def __init__(self, channel: Channel, host: str) -> None:
        # An address literal (RFC 5321 4.1.3): asking for this computer's full name may take seconds, and gives it away.
        super().__init__(local_hostname="[127.0.0.1]")
        self.channel = channel
        self._server_name = host

    def send(self, s: object) -> None:
        """Send a command; smtplib's way would hide whether it was a timeout."""
        self.channel.send(s.encode() if isinstance(s, str) else bytes(s))  # type: ignore[call-overload]  # as in smtplib

    def getreply(self, timeout: float | None = None) -> tuple[int, bytes]:
        """The next reply, complete within the timeout: its code, and its text with a line feed between lines.

        Raises Malformed, TimeoutError, TooLong, or OSError (also at the end of the connection).
        """
        self.channel.restart_timeout(timeout)
        return self.read_reply()

    def read_reply(self) -> tuple[int, bytes]:
        """As `getreply`, in the time that has begun already."""
        lines: list[bytes] = []
        while not lines or lines[-1][3:4] == b"-":
            if len(lines) == MAX_LINES:
                raise Malformed
            line = self.channel.read_line(MAX_LINE)
            if not line.endswith(b"\n"):
                raise ConnectionResetError
            lines.append(line.rstrip(b"\r\n"))
            _check(lines)
        return int(lines[0][:3]), b"\n".join(line[4:] for line in lines)

    def secure(self, context: ssl.SSLContext) -> None:
        """TLS from here on. What the server said before is forgotten (RFC 3207 4.2)."""
        self.channel.secure(context, self._server_name)
        self.esmtp_features = {}

    def close(self) -> None:
        """Close the connection; never raises."""
        self.channel.close()


def _check(lines: list[bytes]) -> None:
    last = lines[-1]
    if not _CODE.fullmatch(last[:3]) or last[3:4] not in (b"", b" ", b"-") or last[:3] != lines[0][:3]:
        raise Malformed


def reply_of(code: int, text: bytes) -> Reply:
    """The reply without its text. An enhanced code (RFC 3463) of another class than the code is none."""
    found = _ENHANCED.match(text)
    enhanced = found[1].decode("ascii") if found else None
    name = name_of("smtp", f"{code} {text.decode('latin-1')}", later=True) if code >= 400 else None
    return Reply(code, enhanced if enhanced and enhanced[0] == str(code)[0] else None, name)
