"""A door in front of a server that a test can shut, or close behind one answer: the client never hears it."""

import socket
import threading


class HoldingProxy:
    """Passes bytes both ways between clients and a port of the loopback interface."""

    host = "127.0.0.1"

    def __init__(self, port: int) -> None:
        self._target = port
        self._changed = threading.Condition()
        self._withheld: bytes | None = None
        self._holds = self._is_shut = False
        self._heard: dict[bytes, int] = {}
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((self.host, 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._begin(self._accept)

    def withhold(self, answer: bytes) -> None:
        """From now on, what the server says is kept back once it holds this."""
        with self._changed:
            self._withheld = answer

    def wait_until_held(self, timeout: float = 60) -> None:
        """Return when an answer is kept back."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._holds, timeout), "no such answer came"

    def let_go(self) -> None:
        """Hold nothing back any more; those who wait lose their connection."""
        with self._changed:
            self._withheld, self._holds = None, False
            self._changed.notify_all()
        self._cut()

    def listen_for(self, command: bytes) -> None:
        """Count from now on how often clients say this."""
        with self._changed:
            self._heard[command] = 0

    def heard(self, command: bytes) -> int:
        """How often clients said it since `listen_for`."""
        with self._changed:
            return self._heard[command]

    def shut(self) -> None:
        """Cut every connection, and every new one at once."""
        with self._changed:
            self._is_shut = True
        self._cut()

    def open(self) -> None:
        """Let clients in again."""
        with self._changed:
            self._is_shut = False

    def stop(self) -> None:
        """End."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self.let_go()
        self.shut()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _begin(self, function: object, *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments, name="proxy", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_shut:
                client.close()
                continue
            server = socket.create_connection((self.host, self._target))
            with self._changed:
                self._open |= {client, server}
            self._begin(self._pass, client, server, False)
            self._begin(self._pass, server, client, True)

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_answer:
                    self._keep_back(data)
                else:
                    self._note(data)
                target.sendall(data)
        except OSError:
            pass
        finally:
            _shut(target)
            with self._changed:
                self._open.discard(source)
            source.close()

    def _keep_back(self, data: bytes) -> None:
        with self._changed:
            if self._withheld is not None and self._withheld in data:
                self._holds = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._holds)

    def _note(self, data: bytes) -> None:
        with self._changed:
            for command in self._heard:
                self._heard[command] += data.count(command)

    def _cut(self) -> None:
        with self._changed:
            connections = list(self._open)
        for connection in connections:
            _shut(connection)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
