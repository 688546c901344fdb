"""What a command reads from files and from the standard input, each with its bound."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli.failures import INPUT, Failure, wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.cli.terminal import Terminal

MIB = 1024 * 1024
#: The largest body that the API takes, and the attachments of one message, decoded, together; in bytes.
LARGEST_BODY, LARGEST_ATTACHMENTS = 36 * MIB, 25 * MIB

INPUT_OPTION = click.Option(["--input", "input_"], metavar="FILE|-", help="The whole JSON body, from a file or stdin.")


def given_options(given: dict[str, Any], *except_for: str) -> list[str]:
    """The options that were really given, as they are written."""
    names = [name for name, value in given.items() if value not in (None, False, ()) and name not in except_for]
    return [f"--{name.rstrip('_').replace('_', '-')}" for name in names]


def too_large(what: str, limit: int) -> Failure:
    """The failure that the API would answer with, told before anything is sent."""
    return Failure("message_too_large", f"{what} is larger than the limit of {limit // MIB} MiB.", INPUT)


def read_input(terminal: "Terminal", name: str, limit: int = LARGEST_BODY) -> bytes:
    """The bytes of a file, or of the standard input for `-`."""
    content = terminal.stdin.read(limit + 1) if name == "-" else read_file(Path(name), limit)
    if len(content) > limit:
        raise too_large("The input" if name == "-" else name, limit)
    return content


def read_file(file: Path, limit: int) -> bytes:
    """Up to one byte more than the limit of a file; one that cannot be read is wrong usage."""
    try:
        with file.open("rb") as stream:
            return stream.read(limit + 1)
    except OSError as error:
        raise wrong_usage(f"{file} cannot be read: {error.strerror}.") from error


def read_text(terminal: "Terminal", name: str) -> str:
    """The text of a file, or of the standard input for `-`; a byte order mark does not count."""
    try:
        return read_input(terminal, name).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise wrong_usage(f"{'The input' if name == '-' else name} is not valid UTF-8.") from error
