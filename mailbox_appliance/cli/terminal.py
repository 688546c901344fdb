"""The standard streams and environment of a command, with functions for prompts, secrets and progress.

Other modules use them only through a `Terminal`, so that tests can replace them.
"""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, TextIO

from mailbox_appliance.client.errors import wrong_usage
from mailbox_appliance.system import stdio

#: The most bytes of a secret: enough for the API's limit of 16,384 characters in UTF-8.
_LONGEST_SECRET = 65536
#: Characters or bytes that are written at once.
_PIECE = 32 * 1024
#: Characters of a progress bar, and seconds between two redraws.
_BAR, _BETWEEN_LOOKS = 30, 0.1
#: Columns where there is no terminal.
_COLUMNS = 80


@dataclass(frozen=True)
class Terminal:
    """The standard streams and environment variables of a command, with functions for prompts, secrets and progress."""

    stdin: BinaryIO
    stdout: TextIO
    stderr: TextIO
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Whether this process was started with stdout closed, so that nothing can be printed.
    is_output_closed: bool = False

    @classmethod
    def of_process(cls) -> "Terminal":
        """Return the streams and the environment of this process; the null device replaces a closed stream."""
        closed = stdio.reopen_closed_streams()
        return cls(sys.stdin.buffer, sys.stdout, sys.stderr, os.environ, 1 in closed)

    def write(self, text: str) -> None:
        """Write text to stdout and flush, so that errors appear now and not at exit.

        Raises BrokenPipeError if the reader has gone, and OSError if the output cannot be written.
        """
        self._require_open_output()
        # Write in pieces: with one long text, Python would not notice a reader that left before the end.
        for begin in range(0, len(text), _PIECE):
            self.stdout.write(text[begin : begin + _PIECE])
            self.stdout.flush()

    def _require_open_output(self) -> None:
        if self.is_output_closed:
            raise OSError(errno.EBADF, "The standard output is closed")

    def write_bytes(self, data: bytes) -> None:
        """Write bytes to stdout unchanged."""
        output = getattr(self.stdout, "buffer", None)
        if output is None:
            raise wrong_usage("The standard output takes only text. Name a file with --output.", "option:--output")
        self._require_open_output()
        for begin in range(0, len(data), _PIECE):
            output.write(data[begin : begin + _PIECE])
            output.flush()

    def write_error(self, text: str) -> None:
        """Print one line on stderr. It is lost if stderr is a file on a full disk. Raises BrokenPipeError."""
        try:
            self.stderr.write(text + "\n")
            self.stderr.flush()
        except BrokenPipeError:
            raise
        except OSError:
            stdio.flush_quietly(self.stderr)

    @property
    def writes_unicode(self) -> bool:
        """Whether stdout can encode every character."""
        encoding = getattr(self.stdout, "encoding", None) or "utf-8"
        return encoding.lower().replace("-", "").startswith("utf")

    def width(self) -> int | None:
        """Return the number of columns of the terminal; None if stdout is not a terminal."""
        return _columns() if self.stdout.isatty() else None

    def help_width(self, most: int) -> int:
        """Return the number of columns for help: those of the terminal with a margin, within 50 and `most`."""
        return max(min(_columns(), most) - 2, 50)

    @contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[str, int, int], None]]:
        """Context manager: show a text on a terminal until the block ends. Yields a function (step, done, total).

        The function replaces the text by a progress bar for the step; the text returns when the step is done. `total`:
        0 if unknown.
        """
        if not self.stderr.isatty():
            yield lambda *_: None
            return
        self.progress(text)
        with self.progress_bar() as tell:
            yield lambda step, done, total: self.progress(text) if 0 < total <= done else tell(step, done, total)

    @contextmanager
    def progress_bar(self) -> Iterator[Callable[[str, int, int], None]]:
        """Context manager: yield a function (step, done, total) that draws a progress bar on a terminal.

        The bar is erased when the block ends.
        """
        shown, shown_at = "", 0.0

        def tell(step: str, done: int, total: int) -> None:
            nonlocal shown, shown_at
            now = time.monotonic()
            if step != shown or now - shown_at >= _BETWEEN_LOOKS:
                shown, shown_at = step, now
                self.progress(_draw_bar(step, done, total))

        try:
            yield tell
        finally:
            self.progress("")

    @contextmanager
    def progress_steps(self) -> Iterator[Callable[[str, int, int], None]]:
        """Context manager: yield a function (step, done, total) that draws a progress bar on a terminal.

        If stderr is not a terminal, the function prints one line for each new step instead, as suits a log.
        """
        if self.stderr.isatty():
            with self.progress_bar() as tell:
                yield tell
            return
        told = ""

        def tell_once(step: str, _done: int, _total: int) -> None:
            nonlocal told
            if step != told:
                told = step
                stdio.write_quietly(self.stderr, f"{step}...\n")

        yield tell_once

    def progress(self, text: str) -> None:
        """Replace the current line of the terminal by a text. Does nothing if stderr is not a terminal."""
        if self.stderr.isatty():
            stdio.write_quietly(self.stderr, f"\r\x1b[K{text}")

    def secret_line(self, what: str = "password") -> str:
        """Read one line of stdin as a secret. `what`: its name in error messages.

        Raises Failure if it is empty or too long.
        """
        line = self.stdin.readline(_LONGEST_SECRET + 3)
        secret = line.rstrip(b"\r\n")
        if len(secret) > _LONGEST_SECRET:
            raise wrong_usage(f"The {what} on the standard input is too long.")
        if not secret:
            raise wrong_usage(f"The standard input holds no {what}.")
        try:
            return secret.decode("utf-8")
        except UnicodeDecodeError as error:
            raise wrong_usage(f"The {what} on the standard input is not valid UTF-8.") from error

    def secret(
        self, prompt: str, variable: str, *, from_stdin: bool, twice: bool = False, what: str = "password"
    ) -> str:
        """Read a secret: from stdin if requested, else from the environment `variable`, else from a prompt.

        `twice`: the prompt asks a second time. `what` names the secret in messages and in the option that selects
        stdin, such as `--password-stdin`.
        """
        if from_stdin:
            return self.secret_line(what)
        if given := self.environment.get(variable):
            return require_utf8(given, variable)
        if not self.stdin.isatty():
            option = f"--{what.replace(' ', '-')}-stdin"
            raise wrong_usage(f"Missing {what}: use {option} or set {variable}.", f"option:{option}")
        typed = self._read_typed(f"{prompt}: ", what)
        if twice and self._read_typed(f"{prompt} again: ", what) != typed:
            raise wrong_usage(f"The two {what}s do not match.")
        return typed

    def line(self, prompt: str, what: str) -> str:
        """Prompt for a line and return it. `what`: its name in the error for an empty line."""
        self.stderr.write(f"{prompt}: ")
        self.stderr.flush()
        typed = self.stdin.readline(_LONGEST_SECRET).decode("utf-8", "replace").strip()
        if not typed:
            raise wrong_usage(f"Missing {what}.")
        return typed

    def confirm(self, question: str) -> bool:
        """Ask a question on the terminal and return whether the answer is `y` or `yes`."""
        self.stderr.write(f"{question} [y/N] ")
        self.stderr.flush()
        return self.stdin.readline(100).strip().lower() in (b"y", b"yes")

    @staticmethod
    def _read_typed(prompt: str, what: str) -> str:
        import getpass

        try:
            typed = getpass.getpass(prompt)
        except EOFError as error:
            raise wrong_usage(f"Missing {what}.") from error
        if not typed:
            raise wrong_usage(f"Missing {what}.")
        return typed


def _draw_bar(step: str, done: int, total: int) -> str:
    """Return a progress line such as `copying [#####-----]  50 %`. If the total is unknown (0), only the step."""
    if total <= 0:
        return f"{step}…"
    share = min(1.0, max(0.0, done / total))
    full = int(share * _BAR)
    return f"{step} [{'#' * full}{'-' * (_BAR - full)}] {int(share * 100):3} %"


def require_utf8(text: str, name: str) -> str:
    """Return `text`, the value of the environment variable `name`. Raises Failure if it is not valid UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise wrong_usage(f"{name} is not valid UTF-8.") from error
    return text


def _columns() -> int:
    """Return the columns of the terminal, or 80. `shutil` knows them too, but loads three libraries for compression."""
    with suppress(ValueError):
        if (given := int(os.environ.get("COLUMNS", ""))) > 0:
            return given
    with suppress(AttributeError, ValueError, OSError):  # closed, replaced, or not a terminal
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _COLUMNS  # type: ignore[union-attr]
    return _COLUMNS
