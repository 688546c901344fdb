"""An SMTP server that does what a test tells it, step by step: refuses, stalls, hangs up, keeps or loses the message.

    server = ScriptedSmtp().start()
    server.at("rcpt", "550 5.1.1 no such user")     a literal reply, well-formed or not
    server.at("data", DROP)                         a reset; CLOSE hangs up politely
    server.at("dot", Stall())                       hold every client there until release()
    server.at("reply", Keep(DROP))                  the message is kept, and the client never learns it
    server.at("mail", ["451 4.3.0 later"])          a list: one action an occurrence, then as usual
    server.recipients["b@example.test"] = "550 5.1.1 no"

The steps, in order: connect, ehlo, starttls, auth, mail, rcpt, data (the DATA command), body (its first bytes are
here), dot (the final dot is here, the message not yet kept; a literal reply here means that it is lost), reply (the
message is kept or lost, then comes the reply; a literal that begins with 2 keeps it), quit.
"""

import socket
import ssl

from tests.servers.listener import Listener, Script
from tests.servers.smtp_dialogue import Dialogue
from tests.servers.smtp_script import CLOSE, DROP, STEPS, Accepted, Action, Delay, Handed, Keep, Lose, Stall, Step

__all__ = ["CLOSE", "DROP", "Accepted", "Action", "Delay", "Handed", "Keep", "Lose", "ScriptedSmtp", "Stall", "Step"]


class ScriptedSmtp(Script[Step, Action]):
    """The server; every connection has a thread of its own. Change the script whenever you like."""

    host = "127.0.0.1"
    port: int
    #: The ways to log in.
    mechanisms: tuple[str, ...] = ("PLAIN",)

    def __init__(
        self,
        *,
        user: str = "alice@example.test",
        password: str = "secret",
        extensions: tuple[str, ...] = ("SIZE 52428800", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES"),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`user` and `password` are what AUTH PLAIN takes (no user: no login is asked for); `tls` offers STARTTLS."""
        super().__init__(STEPS)
        self.user, self.password, self.extensions, self.tls = user, password, extensions, tls
        self.recipients: dict[str, Action] = {}
        self._messages: list[Accepted] = []
        self._handed: list[Handed] = []

    def start(self) -> "ScriptedSmtp":
        """Listen on a free port of the loopback interface."""
        self._listener = Listener(lambda connection: Dialogue(self, connection).run(), "scripted-smtp")
        # Small, and handed on to every connection: who sends a large message soon waits for its being read.
        self._listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.port = self._listener.port
        self._listener.start()
        return self

    def stop(self) -> None:
        """Let go of every client and stop listening."""
        self.let_all_go()
        self._listener.stop()

    # --- what a test says and asks ---

    def forget(self) -> None:
        """From now on do as usual, let everybody go, and count from nothing; nothing is kept."""
        super().forget()
        with self._changed:
            self.recipients.clear()
            self._messages.clear()
            self._handed.clear()

    def accepted(self, message_id: str) -> int:
        """How many messages with this Message-ID have been kept."""
        return sum(message.message_id == message_id.strip("<>") for message in self.messages)

    @property
    def messages(self) -> tuple[Accepted, ...]:
        """All that has been kept, oldest first."""
        with self._changed:
            return tuple(self._messages)

    @property
    def handed(self) -> tuple[Handed, ...]:
        """All whose final dot has come, kept or not, oldest first."""
        with self._changed:
            return tuple(self._handed)

    @property
    def connected(self) -> int:
        """How many connections are open now, held ones included."""
        return self._listener.connected

    # --- what a connection asks ---

    def takes(self, mechanism: str, given: bytes) -> tuple[str, str]:
        """Who logs in by that, and what it is refused with: nothing where it is right."""
        right = given.split(b"\0")[1:] == [self.user.encode(), self.password.encode()]
        return self.user, "" if right else "535 5.7.8 wrong"

    def pause(self, seconds: float) -> None:
        """Return after so many seconds, or when the server stops."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)

    def hand(self, handed: Handed) -> Handed:
        """The final dot of a message is here."""
        with self._changed:
            self._handed.append(handed)
        return handed

    def keep(self, message: Accepted) -> None:
        with self._changed:
            self._messages.append(message)
