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
import threading

from tests.servers.smtp_dialogue import Dialogue
from tests.servers.smtp_script import CLOSE, DROP, STEPS, Accepted, Action, Delay, Handed, Keep, Lose, Stall, Step

__all__ = ["CLOSE", "DROP", "Accepted", "Action", "Delay", "Handed", "Keep", "Lose", "ScriptedSmtp", "Stall", "Step"]


class ScriptedSmtp:
    """The server; every connection has a thread of its own. Change the script whenever you like."""

    host = "127.0.0.1"
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
        self.user, self.password, self.extensions, self.tls = user, password, extensions, tls
        self.recipients: dict[str, Action] = {}
        self._script: dict[Step, list[Action] | Action] = {}
        self._messages: list[Accepted] = []
        self._handed: list[Handed] = []
        self._reached: dict[Step, int] = dict.fromkeys(STEPS, 0)
        self._released: dict[Step, int] = dict.fromkeys(STEPS, 0)
        self._held: dict[Step, int] = dict.fromkeys(STEPS, 0)
        self._changed = threading.Condition()
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._connections: set[socket.socket] = set()

    def start(self) -> "ScriptedSmtp":
        """Listen on a free port of the loopback interface."""
        self._listener = socket.socket()
        # Small, and handed on to every connection: who sends a large message soon waits for its being read.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self._listener.bind((self.host, 0))
        self._listener.listen(256)
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="scripted-smtp", daemon=True)
        self._acceptor.start()
        return self

    def stop(self) -> None:
        """Let go of every client and stop listening."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            connections = list(self._connections)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(10)
        self._listener.close()
        for connection in connections:
            _shut(connection)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a connection does not end"

    # --- what a test says and asks ---

    def at(self, step: Step, action: Action | list[Action]) -> None:
        """From now on do this at that step."""
        assert step in STEPS, f"no such step: {step}"
        with self._changed:
            self._script[step] = list(action) if isinstance(action, list) else action

    def forget(self) -> None:
        """From now on do as usual, let everybody go, and count from nothing."""
        self.release()
        with self._changed:
            self._script.clear()
            self.recipients.clear()
            self._messages.clear()
            self._handed.clear()
            self._reached = dict.fromkeys(STEPS, 0)

    def reached(self, step: Step, count: int = 1, timeout: float = 10) -> None:
        """Return once clients have come to that step `count` times since the start; AssertionError if they do not."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._reached[step] >= count, timeout)
            assert came, f"{step} was reached {self._reached[step]} times, not {count}, within {timeout} s"

    def count(self, step: Step) -> int:
        """How often a client has come to that step."""
        with self._changed:
            return self._reached[step]

    def held(self, step: Step) -> int:
        """How many clients are held at that step now."""
        with self._changed:
            return self._held[step]

    def release(self, *steps: Step) -> None:
        """Let those go on who are held now, at these steps or everywhere; later ones are held again."""
        with self._changed:
            for step in steps or STEPS:
                self._released[step] += 1
            self._changed.notify_all()

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
        with self._changed:
            return len(self._connections)

    # --- what a connection asks ---

    def takes(self, mechanism: str, given: bytes) -> tuple[str, str]:
        """Who logs in by that, and what it is refused with: nothing where it is right."""
        right = given.split(b"\0")[1:] == [self.user.encode(), self.password.encode()]
        return self.user, "" if right else "535 5.7.8 wrong"

    def enter(self, step: Step) -> Action:
        """Note that a client has come to a step, and say what to do there."""
        with self._changed:
            self._reached[step] += 1
            self._changed.notify_all()
            action = self._script.get(step)
            if isinstance(action, list):
                return action.pop(0) if action else None
            return action

    def hold(self, step: Step) -> None:
        """Return when the step is released, or the server stops."""
        with self._changed:
            before = self._released[step]
            self._held[step] += 1
            self._changed.wait_for(lambda: self._stopping or self._released[step] > before)
            self._held[step] -= 1

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
        """The message is delivered."""
        with self._changed:
            self._messages.append(message)

    def replaced(self, plain: socket.socket, encrypted: socket.socket) -> None:
        """A connection has become an encrypted one."""
        with self._changed:
            self._connections.discard(plain)
            self._connections.add(encrypted)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                if self._stopping:
                    connection.close()
                    return
                self._connections.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), name="scripted-smtp-client", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        dialogue = Dialogue(self, connection)
        try:
            dialogue.run()
        finally:
            with self._changed:
                self._connections.discard(dialogue.connection)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
