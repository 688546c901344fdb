"""One connection to a scripted SMTP server, from the greeting to its end."""

import base64
import binascii
import socket
import ssl
import time
from typing import TYPE_CHECKING

from tests.servers.listener import HungUp
from tests.servers.smtp_script import USUAL, Accepted, Action, Delay, Handed, HangUp, Keep, Lose, Stall, Step, keeps

if TYPE_CHECKING:
    from tests.servers.scripted_smtp import ScriptedSmtp


class _Gone(Exception):
    """The dialogue is over."""


class Dialogue:
    """One connection, from the greeting to its end."""

    def __init__(self, server: "ScriptedSmtp", connection: socket.socket) -> None:
        self.server, self.connection = server, connection
        self.buffer = b""
        self.step: Step = "connect"
        self.logged_in = not server.user
        self.account = ""
        self.sender: str | None = None
        self.parameters: tuple[str, ...] = ()
        self.recipients: list[str] = []

    def run(self) -> None:
        try:
            self.act("connect")
            while True:
                verb, _, rest = self.read_line().partition(" ")
                self.command(verb.upper(), rest)
        except _Gone:
            pass
        finally:
            self.connection.close()

    def command(self, verb: str, rest: str) -> None:
        match verb:
            case "EHLO" | "HELO":
                self.act("ehlo", self.greeting())
            case "STARTTLS" if self.server.tls:
                self.act("starttls")
                self.start_tls(self.server.tls)
            case "AUTH":
                self.log_in(rest)
            case "MAIL" if self.logged_in:
                self.sender, *parameters = _path(rest)
                self.parameters, self.recipients = tuple(parameters), []
                self.act("mail")
            case "MAIL":
                self.send("530 5.7.0 log in first")
            case "RCPT" if self.sender is not None:
                self.recipient(_path(rest)[0])
            case "DATA" if self.recipients:
                self.data()
            case "RSET":
                self.sender = None
                self.send("250 2.0.0 forgotten")
            case "NOOP":
                self.send("250 2.0.0 ok")
            case "QUIT":
                self.act("quit")
                raise _Gone
            case "RCPT" | "DATA":
                self.send("503 5.5.1 not yet")
            case _:
                self.send("502 5.5.2 no such command")

    def greeting(self) -> str:
        lines = ["scripted.test", *self.server.extensions]
        if self.server.user:
            lines.append(f"AUTH {' '.join(self.server.mechanisms)}")
        if self.server.tls and not isinstance(self.connection, ssl.SSLSocket):
            lines.append("STARTTLS")
        return "\r\n".join([f"250-{line}" for line in lines[:-1]] + [f"250 {lines[-1]}"])

    def start_tls(self, context: ssl.SSLContext) -> None:
        self.connection, self.buffer = context.wrap_socket(self.connection, server_side=True), b""

    def log_in(self, rest: str) -> None:
        mechanism, _, initial = rest.partition(" ")
        if mechanism.upper() not in self.server.mechanisms:
            self.send(f"504 5.5.4 only {' '.join(self.server.mechanisms)}")
            return
        if not initial:
            self.send("334 ")
            initial = self.read_line()
        try:
            given = base64.b64decode(initial, validate=True)
        except binascii.Error:
            given = b""
        self.account, refusal = self.server.takes(mechanism.upper(), given)
        if refusal.startswith("334"):  # of a token: why, which the client answers with an empty line
            self.send(refusal)
            self.read_line()
            refusal = "535 5.7.8 wrong"
        self.logged_in = self.act("auth", refusal or USUAL["auth"]).startswith("2")

    def recipient(self, address: str) -> None:
        special = self.server.recipients.get(address)
        if self.act("rcpt", special).startswith("2"):
            self.recipients.append(address)

    def data(self) -> None:
        if not self.act("data").startswith("3"):
            return
        source = self.read_message()
        handed = self.server.hand(Handed(source, time.monotonic()))
        if said := self.act("dot", b""):
            handed.answered(said)
            return
        action = self.server.enter("reply")
        if keeps(action):
            sender = self.sender or ""
            recipients = tuple(self.recipients)
            self.server.keep(Accepted(sender, recipients, source, self.parameters, time.time(), self.account))
        self.sender = None
        handed.answered(self.perform("reply", action, None))

    def read_message(self) -> bytes:
        """The message after DATA, without the dots that were added for the way (RFC 5321 4.5.2)."""
        received = bytearray(b"\r\n")
        received += self.buffer or self.receive()
        self.act("body", b"")
        looked_through = 0
        while (end := received.find(b"\r\n.\r\n", looked_through)) < 0:
            looked_through = max(0, len(received) - 4)
            received += self.receive()
        self.buffer = bytes(received[end + 5 :])
        return bytes(received[: end + 2]).replace(b"\r\n.", b"\r\n")[2:]

    # --- steps ---

    def act(self, step: Step, usual: Action = None) -> str:
        """Do what the script says at this step, else what `usual` says; returns the reply that was sent."""
        return self.perform(step, self.server.enter(step), usual)

    def perform(self, step: Step, action: Action, usual: Action) -> str:
        match action:
            case None if usual is None:
                return self.send(USUAL[step])
            case None:
                return self.perform(step, usual, None)
            case Stall(then):
                self.server.hold(step)
                return self.perform(step, then, usual)
            case Delay(seconds, then):
                self.server.pause(seconds)
                return self.perform(step, then, usual)
            case Keep(then) | Lose(then):
                return self.perform(step, then, usual)
            case HangUp(reset):
                raise HungUp(reset)
        return self.send(action)

    def send(self, reply: str | bytes) -> str:
        if reply:
            self.connection.sendall(reply if isinstance(reply, bytes) else reply.encode() + b"\r\n")
        text = reply if isinstance(reply, str) else reply.decode("latin-1")
        if text.startswith("421"):  # RFC 5321 3.8: the server closes after it
            raise _Gone
        return text

    def receive(self) -> bytes:
        received = self.connection.recv(65536)
        if not received:
            raise _Gone
        return received

    def read_line(self) -> str:
        while b"\n" not in self.buffer:
            self.buffer += self.receive()
            if len(self.buffer) > 65536:
                raise _Gone
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.rstrip(b"\r").decode("utf-8", "replace")


def _path(rest: str) -> list[str]:
    """Address and parameters of `FROM:<a@b> SIZE=1`."""
    address, _, parameters = rest.partition("<")[2].partition(">")
    return [address, *parameters.split()]
