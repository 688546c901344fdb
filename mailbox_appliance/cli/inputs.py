"""What a command reads from files and from the standard input, each with its bound."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.client.errors import INPUT, Failure, wrong_usage

if TYPE_CHECKING:
    from pathlib import Path

    from mailbox_appliance.cli.terminal import Terminal

MIB = 1024 * 1024
#: The largest body that the API takes, and the attachments of one message, decoded, together; in bytes.
LARGEST_BODY, LARGEST_ATTACHMENTS = 36 * MIB, 25 * MIB

_INPUT = "option:--input"
#: White space of JSON (RFC 8259 2).
_SPACES = " \t\n\r"
_ONE_SPACE = tuple(_SPACES)
_LONGEST_NUMBER = 1_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
INPUT_OPTION = click.Option(["--input", "input_"], metavar="FILE|-", help="The whole JSON body, from a file or stdin.")


def given_options(given: dict[str, Any], *except_for: str) -> list[str]:
    """The options that were really given, as they are written."""
    names = [name for name, value in given.items() if value not in (None, False, ()) and name not in except_for]
    return [f"--{name.rstrip('_').replace('_', '-')}" for name in names]


def needed(given: dict[str, Any], *names: str) -> None:
    """Raises Failure where an option is missing that is needed as long as --input does not hold it."""
    for name in names:
        option = f"--{name.replace('_', '-')}"
        if given[name] == "":
            raise wrong_usage(f"{option} must not be empty.", f"option:{option}")
        if not given[name]:
            raise wrong_usage(f"Missing option '{option}'.", f"option:{option}")


def too_large(what: str, limit: int) -> Failure:
    """The failure that the API would answer with, told before anything is sent."""
    return Failure("message_too_large", f"{what} is larger than the limit of {limit // MIB} MiB.", INPUT)


def read_input(terminal: "Terminal", name: str, limit: int = LARGEST_BODY) -> bytes:
    """The bytes of a file, or of the standard input for `-`."""
    from pathlib import Path

    content = terminal.stdin.read(limit + 1) if name == "-" else read_file(Path(name), limit)
    if len(content) > limit:
        raise too_large(_called(name), limit)
    return content


def read_file(file: "Path", limit: int) -> bytes:
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
        raise wrong_usage(f"{_called(name)} is not valid UTF-8.") from error


# --- JSON -------------------------------------------------------------------------------------------------------------


def whole_body(terminal: "Terminal", given: dict[str, Any], *beside: str) -> bytes | None:
    """The body as it was given with --input; None where it is in the options. `beside`: options that go with it."""
    if given["input_"] is None:
        return None
    if others := given_options(given, "input_", *beside):
        raise wrong_usage(f"--input holds the whole body; it does not go with {', '.join(others)}.", _INPUT)
    return read_body(terminal, given["input_"])


def read_body(terminal: "Terminal", name: str) -> bytes:
    """The bytes of a JSON object, as they stand; what is none is told before anything is sent."""
    content = read_input(terminal, name).removeprefix(_BYTE_ORDER_MARK)
    read_object(content, name)
    return content


def read_object(content: bytes, name: str) -> dict[str, Any]:
    """The JSON object that was given as a body. A Failure says what is wrong, and where."""
    value = decoded(content, name)
    if not isinstance(value, dict):
        raise wrong_usage(f"{_called(name)} is not a JSON object, {{...}}, as the API takes it.", _INPUT)
    return value


def decoded(content: bytes, name: str) -> Any:
    """The JSON value (RFC 8259) that was given. A Failure says what is wrong, and where."""
    if not (found := decoded_all(content, name, most=1)):
        raise _no_json(f"{_called(name)} is empty.")
    return found[0]


def decoded_all(content: bytes, name: str, most: int | None = None) -> list[Any]:
    """The JSON values that stand there one after the other, on lines of their own or not. Fails as `decoded`."""
    import json

    found: list[Any] = []
    with _told_why(name):
        decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_number)
        text = content.decode().rstrip(_SPACES)
        end = _after_spaces(text, 0)
        while end < len(text):
            if len(found) == most:
                raise json.JSONDecodeError("Extra data", text, end)
            value, end = decoder.raw_decode(text, end)
            found.append(value)
            end = _after_spaces(text, end)
    return found


def _after_spaces(text: str, place: int) -> int:
    while text[place : place + 1] in _ONE_SPACE:
        place += 1
    return place


@contextmanager
def _told_why(name: str) -> Iterator[None]:
    """A Failure for what the decoder complains of."""
    import json

    try:
        yield
    except UnicodeDecodeError as error:
        raise _no_json(f"{_called(name)} is not valid UTF-8.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _no_json(f"{_called(name)} is no JSON: {error.msg}, {where}.") from error
    except RecursionError as error:
        raise _no_json(f"{_called(name)} is nested too deeply.") from error
    except ValueError as error:
        raise _no_json(f"{_called(name)} is no JSON: {error}.") from error


def _number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number in it has more than {_LONGEST_NUMBER} digits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; nobody can say which of two fields of one name was meant."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} stands twice in an object")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"it has no {name}")


def _no_json(message: str) -> Failure:
    return Failure("invalid_json", message, INPUT, details=((_INPUT, message),))


def _called(name: str) -> str:
    return "The input" if name == "-" else name
