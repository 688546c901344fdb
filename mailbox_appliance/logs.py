"""Log files of JSON lines: each has a time, a level, an event name and IDs, but never a secret, an address or mail
text.
"""

import json
import logging
import logging.handlers
import os
import sys
import time
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from io import FileIO
from pathlib import Path
from typing import TextIO

import msgspec

from mailbox_appliance.log_events import EVENTS, LIBRARY_EVENT
from mailbox_appliance.system import ownership

#: The id of the request being answered in this thread, set by the interface that received it.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

#: The file to which the tray leads the standard error of a service, and the bytes from which on it is emptied.
LAST_WORDS, LARGEST_LAST_WORDS = "tray-serve.log", 256 * 1024

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def _encode(value: object) -> str:
    """A string loses its mark (`OwnText`); anything else is as `repr` shows it."""
    return str(value) if isinstance(value, str) else repr(value)


_encoder = msgspec.json.Encoder(enc_hook=_encode)


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON object on a line. Each value of `extra` becomes a field.

    For an exception, the line has its type and the places in the code. Its text is left out, since it may quote a
    server or a message.
    """

    def format(self, record: logging.LogRecord) -> str:
        is_ours = record.msg in EVENTS
        line: dict[str, object] = {
            "at": _format_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.msg if is_ours else LIBRARY_EVENT,
            "message": EVENTS[record.msg] if is_ours else record.getMessage(),
        }
        if (current := request_id.get()) is not None:
            line["requestId"] = current
        line.update((name, value) for name, value in record.__dict__.items() if name not in _STANDARD)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["frames"] = _traceback_frames(record.exc_info)
        try:
            return _encoder.encode(line).decode()
        except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
            return json.dumps(line, default=repr)


def _format_time(seconds: float) -> str:
    """Return a timestamp as `clock.to_timestamp` does, in a third of the time."""
    global _last_second
    second, millis = divmod(int(seconds * 1000), 1000)
    if second != (last := _last_second)[0]:
        _last_second = last = second, time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
    return f"{last[1]}{millis:03}Z"


_last_second = 0, ""


def _traceback_frames(exc_info: "logging._SysExcInfoType") -> list[str]:
    frames, trace = [], exc_info[2]
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{Path(code.co_filename).name}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """Only its owner can read it. It is faster than its base class, which asks the disk before each line."""

    _size = 0
    stream: FileIO | None  # type: ignore[assignment]  # unbuffered

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line. If it would make the file too large, begin a new file first."""
        try:
            line = f"{self.format(record)}\n".encode()
            if self._size and self._size + len(line) > self.maxBytes:
                self.doRollover()
            if self.stream is None:  # a rotation that failed
                self.stream = self._open()
            self._size += len(line)
            while line:  # usually once: one line is one call of the system
                line = line[self.stream.write(line) :]
        except (OSError, ValueError):  # a log that cannot be written, or is closed, must not stop the work
            self.handleError(record)

    def reopen(self) -> None:
        """Open the file again by its name. This creates a new file, and folder, if the old one was renamed.

        Raises OSError; then the old file stays open.
        """
        with self.lock or nullcontext():
            ownership.make_folder(Path(self.baseFilename).parent)
            before, self.stream = self.stream, self._open()
        if before is not None:
            before.close()

    def _open(self) -> FileIO:  # type: ignore[override]
        file = FileIO(self.baseFilename, "a", opener=_open_private)
        self._size = os.fstat(file.fileno()).st_size
        return file


class _StandardError(logging.StreamHandler[TextIO]):
    """Warnings. If the tray redirects them to a file, its size is limited here, since the tray may have ended."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(sys.stderr)
        self._is_kept_small = folder is not None and self._is_file(folder / LAST_WORDS)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line. If the tray's file has grown too large, empty it."""
        super().emit(record)
        if self._is_kept_small:
            with suppress(OSError, ValueError):
                handle = self.stream.fileno()
                if os.fstat(handle).st_size > LARGEST_LAST_WORDS:
                    os.ftruncate(handle, 0)
                    os.lseek(handle, 0, os.SEEK_SET)  # Windows knows no handle that appends

    def _is_file(self, file: Path) -> bool:
        with suppress(OSError, ValueError):  # there is no such file, or no file behind standard error
            return os.path.samestat(os.fstat(self.stream.fileno()), file.stat())
        return False


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def set_level(level: str) -> None:
    """Set the lowest level that is logged, such as `info`. Takes effect immediately."""
    logging.getLogger().setLevel(level.upper())


def reopen() -> None:
    """Open the log files again, after logrotate or a person has renamed them. Failures are logged."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _PrivateFile):
            try:
                handler.reopen()
            except OSError:
                logging.getLogger(__name__).exception("log_reopen_failed")


def configure(
    folder: Path | None, level: str, *, max_bytes: int = 10_000_000, keep: int = 5, name: str = "appliance.log"
) -> None:
    """Write all log lines to the file `name` in `folder`, and warnings also to standard error.

    `folder`: None for no file. `level`: the lowest level to log. `max_bytes`: the size at which a new file begins.
    `keep`: the number of old files to keep.
    """
    # No line shows its caller, thread or process, so records need not have them.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    set_level(level)
    # Libraries: Waitress reports how long its queue is, imapclient could write what it sends, the SDK quotes messages.
    for noisy in ("waitress.queue", "imapclient", "mcp"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    if folder is not None:
        ownership.make_folder(folder)
        file = folder / name
        rotating = _PrivateFile(file, maxBytes=max_bytes, backupCount=keep, encoding="utf-8")
        rotating.setFormatter(JsonLines())
        root.addHandler(rotating)
    stderr = _StandardError(folder)
    stderr.setLevel(logging.WARNING)
    stderr.setFormatter(JsonLines())
    root.addHandler(stderr)
