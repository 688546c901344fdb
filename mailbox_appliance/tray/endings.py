"""What ends the tray from outside, whatever its main thread is doing: a desktop's own loop may run no Python for long.

Python tells of a signal at once on a socket, and a thread that reads it does what is to be done.
"""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from mailbox_appliance.system import files

_NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
_OVER = b"\0"


class Endings:
    """While it is entered, each of these signals, and Windows' way to tell it, calls `end` in a thread."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._receiver, self._sender = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name="tray-signals", daemon=True)
        self._before: dict[int, Any] = {}
        self._interrupts = False

    def __enter__(self) -> Self:
        self._sender.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves SIGHUP
                self._before[number] = signal.signal(number, self._on_signal)
        self._thread.start()
        files.on_end_request(self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._sender.send(_OVER)
        self._thread.join()
        self._receiver.close()
        self._sender.close()

    @contextmanager
    def interrupt_main_thread(self) -> Iterator[None]:
        """What the main thread does in here a signal breaks off as well, by KeyboardInterrupt."""
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def _on_signal(self, number: int, _frame: object) -> None:
        """The same from Python, for loops such as PyGObject's, which have a socket of their own and let Python run."""
        with suppress(OSError):  # full: it was told often enough
            self._sender.send(bytes((number,)))
        if self._interrupts:
            raise KeyboardInterrupt

    def _listen(self) -> None:
        while True:
            numbers = self._receiver.recv(64)
            if any(number in self._before for number in numbers):
                self._end()
            if _OVER in numbers:
                return
