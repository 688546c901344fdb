"""What a service said on its standard error, for whoever asks why it has ended: a small private file."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance.logs import LARGEST_LAST_WORDS
from mailbox_appliance.system import files

#: Bytes that are looked at, and lines that are told where none is an error of ours.
_TOLD, _LINES = 16 * 1024, 3


@dataclass(frozen=True)
class Words:
    """Why it ended: the code of its error, where it is one of ours, and the sentence."""

    code: str | None
    text: str


class LastWords:
    """The file, and where the words of the newest start begin in it."""

    def __init__(self, file: Path) -> None:
        self._file, self._begin = file, 0

    @contextmanager
    def open_for_start(self) -> Iterator[int]:
        """A handle for the standard error of a start. It appends, as the service empties the file where it grows."""
        self._file.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(handle).st_size > LARGEST_LAST_WORDS:
                os.ftruncate(handle, 0)
            self._begin = os.fstat(handle).st_size
            yield handle
        finally:
            os.close(handle)

    def read_last_error(self) -> Words:
        """The last words since `listening`."""
        try:
            said = files.read_regular(self._file, LARGEST_LAST_WORDS + _TOLD)
        except OSError:
            said = b""
        begin = self._begin if self._begin <= len(said) else 0  # it was emptied
        lines = said[begin:][-_TOLD:].decode("utf-8", "replace").splitlines()
        return _words([line for line in lines if line.strip()])


def _words(lines: list[str]) -> Words:
    """The error that the last line is, or the last lines as they are."""
    if not lines:
        return Words(None, "")
    values = _parsed(lines[-1])
    error = values.get("error")
    if isinstance(error, dict) and "message" in error:
        return Words(str(error.get("code")), str(error["message"]))
    return Words(None, " ".join(_plain(line) for line in lines[-_LINES:]))


def _plain(line: str) -> str:
    """A line of a log as its event, any other as it is."""
    return str(_parsed(line).get("event", line.strip()))


def _parsed(line: str) -> dict[str, object]:
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
