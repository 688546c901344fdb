"""The log of the appliance on this computer, read from its file: it helps also when the appliance does not run."""

import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from mailbox_appliance.cli import render
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import INPUT, Failure

#: The most that is read of the end of the file, in bytes.
LARGEST_TAIL = 8 * 1024 * 1024
_EVERY = 0.3


def last_lines(stream: BinaryIO, count: int) -> list[bytes]:
    """The last complete lines of a file; the position is left behind them. A line that is being written is left out."""
    end = stream.seek(0, os.SEEK_END)
    start = stream.seek(max(0, end - LARGEST_TAIL))
    content = stream.read(end - start)
    complete = content[: content.rfind(b"\n") + 1]
    stream.seek(start + len(complete))
    lines = complete.splitlines()
    # Cut in the middle of a line: that one is not whole.
    return (lines if start == 0 else lines[1:])[-count:]


def new_lines(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Lines as they are added, for ever; after a rotation those of the new file. The stream is closed at the end."""
    try:
        while True:
            where = stream.tell()
            line = stream.readline(LARGEST_TAIL)
            if line.endswith(b"\n"):
                yield line.rstrip(b"\n")
                continue
            stream.seek(where)
            if not _is_other(file, stream):
                time.sleep(_EVERY)
                continue
            stream.close()
            stream = file.open("rb")
    finally:
        stream.close()


def _is_other(file: Path, stream: BinaryIO) -> bool:
    try:
        return not os.path.samestat(file.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False  # Between the two steps of a rotation.


def readable(line: bytes) -> str:
    """A log line for a person: time, level, event, then the rest by name. What is no JSON is shown as it is."""
    text = line.decode("utf-8", "replace")
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        return render.one_line(text)
    at, level, event = (render.one_line(str(values.pop(name, ""))) for name in ("at", "level", "event"))
    rest = " ".join(f"{render.one_line(name)}={render.cell(value)}" for name, value in values.items())
    return f"{at} {level:<7} {event} {rest}".rstrip()


def _logs(invocation: Invocation, lines: int, follow: bool) -> int:
    file = invocation.data_directory() / "logs" / "appliance.log"
    try:
        stream = file.open("rb")
    except FileNotFoundError as error:
        raise Failure("not_found", f"There is no log yet: {file}.", INPUT) from error
    with stream:
        newest = last_lines(stream, lines)
        older = [] if _is_cut(stream) else _rotated_lines(file, lines - len(newest))
        for line in [*older, *newest]:
            _write(invocation, line)
        if follow:
            for line in new_lines(file, stream):
                _write(invocation, line)
    return 0


def _rotated_lines(file: Path, count: int) -> list[bytes]:
    """The last lines of `appliance.log.1` and, where they do not suffice, of the older files, in their order."""
    found: list[bytes] = []
    for number in itertools.count(1):
        if len(found) >= count:
            break
        try:
            stream = file.with_name(f"{file.name}.{number}").open("rb")
        except FileNotFoundError:
            break
        with stream:
            found = last_lines(stream, count - len(found)) + found
            if _is_cut(stream):
                break
    return found


def _is_cut(stream: BinaryIO) -> bool:
    """Whether only the end of a file was read, so that between it and the older files there is a gap."""
    return os.fstat(stream.fileno()).st_size > LARGEST_TAIL


def _write(invocation: Invocation, line: bytes) -> None:
    text = readable(line) if invocation.format == "table" else line.decode("utf-8", "replace")
    invocation.terminal.write(text + "\n")


logs = command(
    "logs",
    _logs,
    "Print the end of the log of the appliance on this computer: lines of JSON, or readable with --format table.",
    [
        click.Option(["--lines"], type=click.IntRange(1, 10_000), default=100, help="How many lines (default 100)."),
        click.Option(["--follow"], is_flag=True, help="Go on with what is added, until interrupted."),
    ],
)
