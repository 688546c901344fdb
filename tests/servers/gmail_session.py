"""One IMAP connection to Gmail's double: the login, one command after the other, IDLE."""

import base64
import json
import re
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.servers.gmail_commands import Commands, Refused, Unreadable, Word, text_of, words

if TYPE_CHECKING:
    from tests.servers.gmail import Gmail

#: What is told before and after the login: most only then (github.com/jstedfast/MailKit/issues/1396).
BEFORE = (
    "IMAP4rev1 UNSELECT IDLE NAMESPACE QUOTA ID XLIST CHILDREN X-GM-EXT-1 XYZZY SASL-IR AUTH=XOAUTH2 AUTH=PLAIN"
    " AUTH=PLAIN-CLIENTTOKEN AUTH=OAUTHBEARER"
)
AFTER = (
    "IMAP4rev1 UNSELECT IDLE NAMESPACE QUOTA ID XLIST CHILDREN X-GM-EXT-1 UIDPLUS ENABLE MOVE CONDSTORE ESEARCH"
    " LIST-EXTENDED LIST-STATUS LITERAL- SPECIAL-USE APPENDLIMIT=35651584"
)
_LITERAL = re.compile(rb"\{(\d{1,10})(\+?)\}$")
#: What a refused token is answered with (developers.google.com/workspace/gmail/imap/xoauth2-protocol).
NO_TOKEN = {"status": "400", "schemes": "Bearer", "scope": "https://mail.google.com/"}
WRONG = "NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)"


class _Gone(Exception):
    """The connection is over."""


class Session:
    """One connection. It is served by a thread of its own; others only wake or cut it."""

    def __init__(self, server: "Gmail", connection: socket.socket) -> None:
        self.server, self.connection = server, connection
        self.user = ""
        self._buffer = b""
        self._commands: Commands | None = None
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)

    def run(self) -> None:
        """Serve until the client or the server hangs up."""
        try:
            self.say("* OK Gimap ready for requests from 127.0.0.1 double")
            while True:
                self._serve_one()
        except (_Gone, OSError):
            pass
        finally:
            if self._commands is not None:
                self._commands.box.ignore(self.wake)
            self.close()

    def wake(self) -> None:
        """Something changed in the mailbox."""
        try:
            self._waker.send(b".")
        except OSError:
            pass

    def cut(self) -> None:
        """End the connection, from any thread."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        for each in (self.connection, self._woken, self._waker):
            each.close()

    def say(self, *lines: str | bytes) -> None:
        """Send lines; bytes go as they are."""
        self.connection.sendall(
            b"".join(each if isinstance(each, bytes) else each.encode() + b"\r\n" for each in lines)
        )

    # --- commands ---

    def _serve_one(self) -> None:
        line = self._line()
        tag, _, rest = line.partition(b" ")
        name = rest.split(b" ")[0].decode("latin-1").upper()
        answer = self.server.heard(self.user, rest.decode("latin-1"))
        if answer is not None and answer.startswith("*"):
            self.say(answer)
            raise _Gone
        try:
            pieces = self._pieces(rest)
            self._answer(tag.decode("latin-1"), name, pieces, answer)
        except (Unreadable, ValueError, IndexError, TypeError):
            self.say(f"{tag.decode('latin-1')} BAD Could not parse command")

    def _answer(self, tag: str, name: str, pieces: list[bytes], refusal: str | None) -> None:
        if refusal is not None:
            self.say(f"{tag} {refusal}")
            return
        arguments = words(pieces)[1:]
        act = getattr(self, f"_do_{name.lower()}", None)
        if act is not None:
            act(tag, arguments)
        elif self._commands is None:
            self.say(f"{tag} BAD Unknown command")
        elif name == "IDLE":
            self._idle(tag, self._commands)
        else:
            self._command(tag, name, arguments, self._commands)

    def _command(self, tag: str, name: str, arguments: list[Word], commands: Commands) -> None:
        by_uid = name == "UID"
        verb = text_of(arguments.pop(0)).upper() if by_uid else name
        try:
            told = commands.carry_out(tag, verb, arguments, by_uid=by_uid)
        except Refused as refused:
            self.say(f"{tag} {refused}")
            return
        self.say(*commands.news(), f"{tag} OK {told}")

    def _idle(self, tag: str, commands: Commands) -> None:
        self.say("+ idling")
        while True:
            self._drain()
            self.say(*commands.news())
            if b"\n" in self._buffer:
                break
            ready, _, _ = select.select([self.connection, self._woken], [], [])
            if self.connection in ready or self._pending():
                self._receive()
        self._line()
        self.say(f"{tag} OK IDLE terminated (Success)")

    def _drain(self) -> None:
        while select.select([self._woken], [], [], 0)[0]:
            self._woken.recv(4096)

    def _pending(self) -> bool:
        pending: Callable[[], int] | None = getattr(self.connection, "pending", None)
        return bool(pending and pending())

    # --- before the login, and at any time ---

    def _do_capability(self, tag: str, _: list[Word]) -> None:
        self.say(f"* CAPABILITY {BEFORE if self._commands is None else AFTER}", f"{tag} OK Thats all she wrote!")

    def _do_noop(self, tag: str, _: list[Word]) -> None:
        self.say(*(self._commands.news() if self._commands else ()), f"{tag} OK Success")

    def _do_logout(self, tag: str, _: list[Word]) -> None:
        self.say("* BYE LOGOUT Requested", f"{tag} OK 73 good day (Success)")
        raise _Gone

    def _do_login(self, tag: str, arguments: list[Word]) -> None:
        user, password = map(text_of, arguments)
        self._enter(tag, user, is_right=self.server.takes_password(user, password))

    def _do_authenticate(self, tag: str, arguments: list[Word]) -> None:
        mechanism, *initial = map(text_of, arguments)
        if not initial:
            self.say("+ ")
            initial = [self._line().decode("latin-1")]
        given = base64.b64decode(initial[0], validate=True).decode()
        if mechanism.upper() == "PLAIN":
            _, user, password = given.split("\0")
            self._enter(tag, user, is_right=self.server.takes_password(user, password))
        elif mechanism.upper() in ("XOAUTH2", "OAUTHBEARER"):
            self._enter_by_token(tag, given)
        else:
            raise Unreadable

    def _enter_by_token(self, tag: str, given: str) -> None:
        """XOAUTH2 is `user=...^Aauth=Bearer ...^A^A`, OAUTHBEARER `n,a=...,^A...^Aauth=Bearer ...^A^A` (RFC 7628)."""
        user, token = token_in(given)
        if not self.server.takes_token(user, token):
            self.say("+ " + base64.b64encode(json.dumps(NO_TOKEN).encode()).decode())
            self._line()  # the client answers that with an empty line
            self.say(f"{tag} {WRONG}")
        else:
            self._enter(tag, user, is_right=True)

    def _enter(self, tag: str, user: str, *, is_right: bool) -> None:
        refusal = self.server.refusal_of(user) if is_right else WRONG
        box = self.server.boxes.get(user.lower())
        if refusal is not None or box is None:
            self.say(f"{tag} {refusal or WRONG}")
            return
        self.user = user.lower()
        self._commands = Commands(box, self.server, self.say)
        box.listen(self.wake)
        self.say(f"* CAPABILITY {AFTER}", f"{tag} OK {user} authenticated (Success)")

    # --- bytes ---

    def _pieces(self, rest: bytes) -> list[bytes]:
        """A command: text, literal, text, ..."""
        pieces = [rest]
        while found := _LITERAL.search(pieces[-1]):
            size = int(found[1])
            if not found[2]:
                self.say("+ go ahead")
            while len(self._buffer) < size:
                self._receive()
            pieces.append(self._buffer[:size])
            self._buffer = self._buffer[size:]
            pieces.append(self._line())
        return pieces

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            self._receive()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.rstrip(b"\r")

    def _receive(self) -> None:
        if hasattr(socket, "TCP_QUICKACK"):  # imapclient sends a command in pieces, and waits for the last one's ACK
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        data = self.connection.recv(262_144)
        if not data:
            raise _Gone
        self._buffer += data


def token_in(given: str) -> tuple[str, str]:
    """User and access token of an XOAUTH2 or OAUTHBEARER message; empty where there are none."""
    user = re.search(r"(?:^user=|\ba=)([^\x01,]*)", given)
    token = re.search(r"\x01auth=Bearer ([^\x01]*)", given)
    return (user[1] if user else ""), (token[1] if token else "")
