"""How talking to another server can end badly: one exception, told apart by what it means for us, in our words."""

from dataclasses import dataclass, field
from typing import Literal

ServerName = Literal["imap", "smtp", "license", "oauth", "graph", "autoconfig", "dns"]
FaultKind = Literal[
    "unreachable",
    "tls",
    "timeout",
    "disconnected",
    "login_refused",
    "refused",
    "throttled",
    "forbidden_address",
    "malformed",
    "unsupported",
]


@dataclass(frozen=True)
class Reply:
    """An SMTP reply (RFC 5321 4.2): its code and its enhanced status code (RFC 3463). Its free text is not kept.

    `name`: what exactly is wrong, where the table of replies knows that text (`replies`).
    """

    code: int
    enhanced: str | None = None
    name: str | None = field(default=None, compare=False)

    @property
    def is_temporary(self) -> bool:
        """Whether the same may succeed later (4yz)."""
        return 400 <= self.code < 500


class RemoteFault(Exception):
    """A server did not play its part.

    `reason` is our own sentence for a person, with the fix where one is known; `reply` is what an SMTP server said.
    `name`: what exactly is wrong, where the table of replies knows it (`replies.py`), such as `app_password_required`.
    `in_doubt`: what an IMAP server was told to do may have been done, all of it or a part. `code`: its response code
    (RFC 5530), in upper case. `retry_after`: seconds that it wants us to wait, where it says so.
    `is_unproven`: the address is near, and nothing there has answered as a mail server does (`contact`).
    """

    def __init__(self, server: ServerName, kind: FaultKind, reason: str, reply: Reply | None = None) -> None:
        super().__init__(f"{server}: {kind}")  # What a log may show: no host, no address, no server text.
        self.server = server
        self.kind = kind
        self.reason = reason
        self.reply = reply
        self.in_doubt = False
        self.name: str | None = None
        self.code: str | None = None
        self.retry_after: float | None = None
        self.is_unproven = False

    def copy(self) -> "RemoteFault":
        """The same, for another who needs to be told."""
        made = RemoteFault(self.server, self.kind, self.reason, self.reply)
        made.__dict__.update(self.__dict__)
        return made


class Unmovable(RemoteFault):
    """No message can be taken out of the folder alone.

    The server offers neither MOVE (RFC 6851) nor UIDPLUS (RFC 4315), and others have marked messages there as deleted,
    which a plain EXPUNGE would remove as well.
    """

    def __init__(self) -> None:
        reason = (
            "The IMAP server cannot remove single messages, and other messages of the folder are marked as deleted."
            " Have the mail program that marked them remove them, and try again."
        )
        super().__init__("imap", "unsupported", reason)


SERVER_NAMES: dict[ServerName, str] = {
    "imap": "IMAP",
    "smtp": "SMTP",
    "license": "licence",
    "oauth": "sign-in",
    "graph": "Microsoft Graph",
    "autoconfig": "autoconfig",
    "dns": "DNS",
}


def timed_out(server: ServerName) -> RemoteFault:
    """The server was silent, or too slow, for longer than we wait."""
    return RemoteFault(server, "timeout", f"The {SERVER_NAMES[server]} server did not answer in time.")


def disconnected(server: ServerName) -> RemoteFault:
    """The connection ended before the answer did."""
    return RemoteFault(server, "disconnected", f"The {SERVER_NAMES[server]} server closed the connection.")


def stopping(server: ServerName) -> RemoteFault:
    """We have given up waiting for the server, since the appliance ends."""
    reason = f"The appliance is being stopped, so the {SERVER_NAMES[server]} server was not waited for. Repeat it soon."
    return RemoteFault(server, "disconnected", reason)


def malformed(server: ServerName) -> RemoteFault:
    """What the server said is not the protocol, or is longer than we accept."""
    if server in ("oauth", "graph"):  # nobody here has given a host
        return RemoteFault(server, "malformed", "The provider answered what cannot be read. Try again later.")
    name = SERVER_NAMES[server]
    return RemoteFault(server, "malformed", f"The answer does not follow {name}. Check that host and port are right.")
