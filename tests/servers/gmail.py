"""Gmail's double: an IMAP server that speaks X-GM-EXT-1 and an SMTP server, on sockets, with its mail in memory.

    with Gmail() as gmail:
        box = gmail.add("ada@gmail.test")               logs in with `secret`, or a token given by gmail.grant(...)
        number = box.deliver(source, "\\\\Inbox", "Work")    see gmail_mailbox for what the owner does elsewhere
        gmail.imap_port, gmail.smtp_port
        gmail.refuse("UID FETCH", OVERQUOTA)            commands that begin so, until forget(); or so many `times`
        gmail.revoke("ada@gmail.test")                  no password and no token is taken, and connections end

What it does is what Google's documents say, and where these are silent what was seen: each is named where it is played.
Not played: COMPRESS, UTF8=ACCEPT, QUOTA.
"""

import socket
import threading
from collections.abc import Callable

from tests.servers.gmail_mailbox import GmailMailbox
from tests.servers.gmail_session import Session
from tests.servers.gmail_smtp import GmailSmtp
from tests.servers.listener import Listener

PASSWORD = "secret"
#: Connections of one account at once (support.google.com/mail/answer/7126229).
MOST_CONNECTIONS = 15
TOO_MANY = "NO [ALERT] Too many simultaneous connections. (Failure)"
OVERQUOTA = "NO [OVERQUOTA] Account exceeded command or bandwidth limits. double (Failure)"
BYE = "* BYE [UNAVAILABLE] Temporary System Error"
IMAP_OFF = (
    "NO [ALERT] Your account is not enabled for IMAP use. Please visit your Gmail settings page and enable your"
    " account for IMAP access. (Failure)"
)
APP_PASSWORD = (
    "NO [ALERT] Application-specific password required: https://support.google.com/accounts/answer/185833 (Failure)"
)


class Gmail:
    """The server; every connection has a thread of its own."""

    host = "127.0.0.1"

    def __init__(self, *, accepts: Callable[[str, str], bool] | None = None) -> None:
        """`accepts`: whether a token is good; else `grant` says."""
        self._accepts = accepts
        self.boxes: dict[str, GmailMailbox] = {}
        self.passwords: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        #: Whether a change of labels alone is told to who has a folder selected that the message stays in.
        self.tells_labels = False
        #: Every command of clients that came, without its tag.
        self.commands: list[str] = []
        self._login_refusals: dict[str, str] = {}
        self._faults: list[tuple[str, str, int | None]] = []
        #: Where mail is handed over; a `ScriptedSmtp`.
        self.smtp = GmailSmtp(self)
        self._changed = threading.Condition()
        self._sessions: set[Session] = set()
        self._listener = Listener(self._serve, "gmail")
        self.imap_port = self._listener.port

    def __enter__(self) -> "Gmail":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> "Gmail":
        self._listener.start()
        self.smtp.start()
        return self

    def stop(self) -> None:
        self.smtp.stop()
        self._listener.stop()

    @property
    def smtp_port(self) -> int:
        """Where mail is handed over."""
        return self.smtp.port

    # --- accounts ---

    def add(
        self, address: str, password: str = PASSWORD, *, prefix: str = "[Gmail]", names: dict[str, str] | None = None
    ) -> GmailMailbox:
        """A new account. `names`: of Gmail's folders in another language, such as `GERMAN`."""
        self.boxes[address.lower()] = box = GmailMailbox(address, prefix=prefix, names=names)
        self.passwords[address.lower()] = password
        return box

    def grant(self, address: str, token: str) -> None:
        """From now on take this access token."""
        self.tokens[token] = address.lower()

    def revoke(self, address: str) -> None:
        """From now on take neither its password nor a token, and end its connections."""
        self.refuse_login(address, "NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)")
        self.tokens = {token: user for token, user in self.tokens.items() if user != address.lower()}
        self.cut_all(address)

    def refuse_login(self, address: str, reply: str | None) -> None:
        """Answer whoever gets the login of this account right with that, or log in again (None)."""
        if reply is None:
            self._login_refusals.pop(address.lower(), None)
        else:
            self._login_refusals[address.lower()] = reply

    # --- faults ---

    def refuse(self, command: str, reply: str = OVERQUOTA, *, times: int | None = None) -> None:
        """Answer commands that begin so with this; one that begins with `*` is said without a tag, and ends it."""
        with self._changed:
            self._faults.append((command.upper(), reply, times))

    def throttle(self) -> None:
        """Refuse all that costs, as with too many bytes in a day (support.google.com/a/answer/1071518)."""
        for command in ("UID", "SELECT", "EXAMINE", "LIST", "STATUS", "FETCH", "APPEND"):
            self.refuse(command)

    def forget(self) -> None:
        """No more faults, and no more refused logins."""
        with self._changed:
            self._faults.clear()
            self._login_refusals.clear()

    def cut_all(self, address: str | None = None) -> int:
        """End connections, of one account or of all; how many they were."""
        with self._changed:
            cut = [each for each in self._sessions if address is None or each.user == address.lower()]
        for session in cut:
            session.cut()
        return len(cut)

    def connections(self, address: str) -> int:
        """How many connections of an account are open."""
        with self._changed:
            return sum(each.user == address.lower() for each in self._sessions)

    # --- what a connection asks ---

    def heard(self, user: str, command: str) -> str | None:
        """Note a command; answers what it is refused with, if it is."""
        with self._changed:
            self.commands.append(command if not command.upper().startswith(("LOGIN", "AUTH")) else command.split()[0])
            self._changed.notify_all()
            for index, (begin, reply, times) in enumerate(self._faults):
                if command.upper().startswith(begin):
                    if times is not None:
                        self._faults[index : index + 1] = [(begin, reply, times - 1)] if times > 1 else []
                    return reply
        return None

    def takes_password(self, user: str, password: str) -> bool:
        """Whether a password is right."""
        return self.passwords.get(user.lower()) == password

    def takes_token(self, user: str, token: str) -> bool:
        """Whether an access token is good for a user."""
        if self._accepts is not None:
            return self._accepts(user, token)
        return bool(token) and self.tokens.get(token) == user.lower()

    def refusal_of(self, user: str) -> str | None:
        """What a login that is right is refused with, if it is."""
        if user.lower() in self._login_refusals:
            return self._login_refusals[user.lower()]
        return TOO_MANY if self.connections(user) >= MOST_CONNECTIONS else None

    def is_refused(self, user: str) -> bool:
        """Whether a login that is right is refused all the same."""
        return user.lower() in self._login_refusals

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session = Session(self, connection)
        with self._changed:
            self._sessions.add(session)
        try:
            session.run()
        finally:
            with self._changed:
                self._sessions.discard(session)
                self._changed.notify_all()
