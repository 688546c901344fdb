"""The processes of the demo: in sessions of their own, listened to with a deadline, and always brought to an end."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class Stopped(Exception):
    """Somebody asked the demo to stop."""


class Failed(Exception):
    """The demo cannot go on; the text says why."""


class Child:
    """A process that says in its first line of output that it is ready, and writes complaints into a file."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._name, self._log = name, folder / f"{name.replace(' ', '-')}.log"
        self._ready = False
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal reaches the demo alone, which ends the others in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def require_running(self) -> None:
        """Raise Failed when the process has ended."""
        code = self._process.poll()
        if code is not None:
            # Once it is ready, its last words are about other things.
            words = [] if self._ready else self._log.read_text("utf-8", "replace").strip().splitlines()
            reason = f": {words[-1].rstrip('.')}." if words else "."
            raise Failed(f"The {self._name} ended unexpectedly (exit code {code}){reason}")

    def first_line(self, stopping: threading.Event, seconds: float) -> bytes:
        """What it says when it is ready; raises Failed when it ends first or takes longer, Stopped when asked to."""
        output, line = self._process.stdout, b""
        assert output is not None  # noqa: S101 - it is a pipe
        end = time.monotonic() + seconds
        while not line.endswith(b"\n"):
            if stopping.is_set():
                raise Stopped
            if time.monotonic() > end:
                raise Failed(f"The {self._name} did not start within {seconds:.0f} seconds.")
            if select.select([output], [], [], 0.1)[0]:
                part = os.read(output.fileno(), 4096)
                line += part
                if not part:
                    self._process.wait()
                    self.require_running()
        self._ready = True
        return line

    def write_line(self, line: str) -> None:
        """Write a line to its input."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended; check() says so.

    def end(self, *, by_signal: bool, seconds: float = 15.0) -> None:
        """Close its input, ask it to end if that is not enough, and end it by force when it does not."""
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass  # It has ended already.
        if by_signal:
            process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
