"""How a worker that waits is woken: a socket that becomes readable, and what it is woken for."""

import selectors
import socket
import threading


class Waker:
    """Wakes one thread, which may wait for `socket` to become readable, or in `wait`. No wake is lost."""

    def __init__(self) -> None:
        self.socket, self._signal = socket.socketpair()
        self.socket.setblocking(False)
        self._signal.setblocking(False)
        self._lock = threading.Lock()
        self._paths: list[str | None] = []

    def wake(self, path: str | None) -> None:
        """Wake the thread for a folder, or for the mailbox as a whole (None). Harmless after `close`."""
        with self._lock:
            if path not in self._paths:
                self._paths.append(path)
            try:
                self._signal.send(b"!")
            except OSError:  # full: it will wake anyway; closed: there is nobody left to wake
                pass

    def take(self) -> tuple[str | None, ...]:
        """What it was woken for since the last time, each once, in order."""
        with self._lock:
            try:
                while self.socket.recv(4096):
                    pass
            except OSError:  # nothing more to read
                pass
            paths, self._paths = tuple(self._paths), []
            return paths

    def wait(self, timeout: float | None) -> None:
        """Return when woken, at once if that has been already, or after `timeout` seconds."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            selector.select(timeout)

    def close(self) -> None:
        """Give the sockets back."""
        with self._lock:
            self.socket.close()
            self._signal.close()
