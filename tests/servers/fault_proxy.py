"""A proxy before an IMAP server that does to a client what networks and servers do; all of it can be changed any time.

It works on connections without TLS: it reads commands, and it changes answers.
"""

import re
import socket
import threading
from collections.abc import Callable

from tests.servers.fault_rules import Faults, Passed
from tests.servers.imap_commands import CommandReader, Line
from tests.servers.listener import Listener, shut

#: Answers to these (and the greeting) may tell capabilities, and have no literals.
_BEFORE_LOGIN = ("CAPABILITY", "LOGIN", "AUTHENTICATE", "ID", "NOOP", "")


class _CutError(Exception):
    """The connection ends here."""


class FaultProxy(Faults):
    """Stands on `host`:`port`, after `start()`, before a server on the loopback interface."""

    host = "127.0.0.1"

    def __init__(self, target: int) -> None:
        super().__init__()
        self._target = target
        self._open: set[_Connection] = set()
        self._listener = Listener(self._serve, "fault-proxy")
        self.port = self._listener.port

    def start(self) -> "FaultProxy":
        """Listen on a free port."""
        self._listener.start()
        return self

    def stop(self) -> None:
        self.is_shut = True
        self.go_on()
        self.cut_all()
        self._listener.stop()

    def cut_all(self) -> int:
        """End every connection that is open; how many they were."""
        with self._changed:
            connections = list(self._open)
            self.cuts += len(connections)
        for each in connections:
            each.close()
        return len(connections)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        with self._changed:
            return len(self._open)

    def ended(self, connection: "_Connection", is_fault: bool) -> None:
        """A direction of a connection has ended, and with it the connection."""
        with self._changed:
            self._open.discard(connection)
            self.cuts += is_fault
            self._changed.notify_all()

    def _serve(self, client: socket.socket) -> None:
        self.accepted += 1
        if self.is_shut:
            return
        with socket.create_connection((self.host, self._target), timeout=10) as server:
            connection = _Connection(self, client, server)
            with self._changed:
                self._open.add(connection)
            answers = threading.Thread(target=connection.pass_answers, name="fault-proxy", daemon=True)
            answers.start()
            connection.pass_commands()
            answers.join()


class _Connection:
    """A client and its server; a thread for each direction."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        for each in (client, server):
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._passed = Passed()
        self._reader = CommandReader()
        self._command = ""
        self._last_tag: bytes | None = None  # of the command that is carried out and not answered
        self._is_refused = False  # the rest of a command, which nobody is to hear
        self._kept_back = b""  # an answer whose line has not ended

    def close(self) -> None:
        shut(self._client)
        shut(self._server)

    def pass_commands(self) -> None:
        self._pass(self._client, self._send_commands)

    def pass_answers(self) -> None:
        """The server's side. Until the login answers are read by lines, since they tell capabilities."""
        self._pass(self._server, self._send_answers)

    def _pass(self, source: socket.socket, send: Callable[[bytes], None]) -> None:
        is_fault = False
        try:
            while data := source.recv(65536):
                self._proxy.hold()
                send(data)
        except _CutError:
            is_fault = True
        except OSError:
            pass
        finally:
            self._proxy.ended(self, is_fault)  # first, so that whoever sees the end sees it counted
            self.close()

    def _send_commands(self, data: bytes) -> None:
        for piece in self._reader.feed(data):
            if isinstance(piece, Line):
                self._send_line(piece)
            elif not self._is_refused:
                self._forward(self._server, piece.data, of_client=True)

    def _send_line(self, line: Line) -> None:
        if self._is_refused:
            self._is_refused = not line.is_whole
            return
        self._command = line.command.split(" ")[0].upper()
        moment = self._proxy.cut_moment(line.command, line.is_whole)
        if line.command and (line.is_whole or moment):
            self._proxy.note(line.command)
        if moment == "before":
            raise _CutError
        if (answer := self._proxy.refusal(line.command)) is not None:
            self._refuse(line, answer)
            return
        if moment == "after":
            self._last_tag = line.tag.encode()
        self._forward(self._server, line.data, of_client=True)

    def _refuse(self, line: Line, answer: str) -> None:
        if not line.is_whole:
            self._proxy.note(line.command)
        self._is_refused = not line.is_whole and not line.awaits
        if line.awaits:
            self._reader.drop_command()
        self._client.sendall(f"{line.tag} {answer}\r\n".encode())

    def _send_answers(self, data: bytes) -> None:
        if self._last_tag is not None:
            self._kept_back = (self._kept_back + data)[-65536:]
            if re.search(rb"(^|\n)" + re.escape(self._last_tag) + rb" [^\r]*\r\n", self._kept_back):
                raise _CutError
            return
        by_lines = self._command in _BEFORE_LOGIN or bool(self._kept_back)
        if by_lines:
            lines, end, self._kept_back = (self._kept_back + data).rpartition(b"\r\n")
            data = lines + end
        self._forward(self._client, self._proxy.rewritten(data, by_lines), of_client=False)

    def _forward(self, target: socket.socket, data: bytes, of_client: bool) -> None:
        allowed = self._proxy.allowed(self._passed, data, of_client)
        target.sendall(allowed)
        if len(allowed) < len(data):
            raise _CutError
