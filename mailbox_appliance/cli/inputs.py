"""Reads the input of commands and checks its form and size: files, stdin, JSON, times, lists of messages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mailbox_appliance.cli.groups import option
from mailbox_appliance.client.errors import INPUT, Failure, wrong_usage

if TYPE_CHECKING:
    from pathlib import Path

    from mailbox_appliance.cli.terminal import Terminal

MIB = 1024 * 1024
#: Bytes: the largest body that the API accepts, and the total of a message's decoded attachments.
LARGEST_BODY, LARGEST_ATTACHMENTS = 36 * MIB, 25 * MIB

_INPUT = "option:--input"
#: White space of JSON (RFC 8259 2).
_SPACES = " \t\n\r"
_NO_SPACE = re.compile(rf"[^{_SPACES}]|$")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
INPUT_OPTION = option("--input", "FILE|-", "JSON request body from a file or stdin, instead of options.", name="input_")


def given_options(given: dict[str, Any], *except_for: str) -> list[str]:
    """Return the options that have a value, as written on the command line (`--name`), except those in `except_for`."""
    names = [name for name, value in given.items() if value not in (None, False, ()) and name not in except_for]
    return [f"--{name.rstrip('_').replace('_', '-')}" for name in names]


def require_options(given: dict[str, Any], *names: str) -> None:
    """Raise Failure if one of the named options is missing or empty.

    Call it only if --input was not given, since that replaces these options.
    """
    for name in names:
        option = f"--{name.replace('_', '-')}"
        if given[name] == "":
            raise wrong_usage(f"{option} must not be empty.", f"option:{option}")
        if not given[name]:
            raise wrong_usage(f"Missing option '{option}'.", f"option:{option}")


def too_large_failure(what: str, limit: int) -> Failure:
    """Return the error for input that is too large to send. It has the API's error code, `message_too_large`.

    `what`: the name of the input. `limit`: in bytes.
    """
    return Failure("message_too_large", f"{what} is larger than the limit of {limit // MIB} MiB.", INPUT)


def read_input(terminal: "Terminal", name: str, limit: int = LARGEST_BODY) -> bytes:
    """Return the content of a file, or of stdin if `name` is `-`. Raises Failure if it has more than `limit` bytes."""
    from pathlib import Path

    content = terminal.stdin.read(limit + 1) if name == "-" else read_file(Path(name), limit)
    if len(content) > limit:
        raise too_large_failure(_source_name(name), limit)
    return content


def read_file(file: "Path", limit: int) -> bytes:
    """Return the first `limit` + 1 bytes of a file, so that the caller can notice a larger one.

    Raises Failure if the file cannot be read.
    """
    try:
        with file.open("rb") as stream:
            return stream.read(limit + 1)
    except OSError as error:
        raise wrong_usage(f"{file} cannot be read: {error.strerror}.") from error


def read_text(terminal: "Terminal", name: str) -> str:
    """Return UTF-8 text from a file, or from stdin if `name` is `-`, without a byte order mark."""
    try:
        return read_input(terminal, name).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise wrong_usage(f"{_source_name(name)} is not valid UTF-8.") from error


# --- JSON ---


def read_whole_body(terminal: "Terminal", given: dict[str, Any], *beside: str) -> bytes:
    """Return the request body given with --input.

    `beside`: options that may be combined with --input. Raises Failure if any other option is given.
    """
    if others := given_options(given, "input_", *beside):
        raise wrong_usage(f"--input is the whole body and cannot be combined with {', '.join(others)}.", _INPUT)
    content = read_input(terminal, given["input_"]).removeprefix(_BYTE_ORDER_MARK)
    read_object(content, given["input_"])
    return content


def read_object(content: bytes, name: str) -> dict[str, Any]:
    """Decode a request body (RFC 8259). `name`: its file, for messages. Raises Failure if it is not a JSON object."""
    if not (found := decode_json_sequence(content, name, most=1)):
        raise _invalid_json(f"{_source_name(name)} is empty.")
    if not isinstance(found[0], dict):
        raise wrong_usage(f"{_source_name(name)} must be a JSON object, {{...}}.", _INPUT)
    return found[0]


def decode_json_sequence(content: bytes, name: str, most: int | None = None) -> list[Any]:
    """Decode consecutive JSON values, on one line or several. `most`: the largest number of values allowed.

    Raises Failure with the error and its line and column in the file `name`.
    """
    import json

    found: list[Any] = []
    with _explain_decode_errors(name):
        decoder = json.JSONDecoder(
            object_pairs_hook=_unique_object, parse_int=_parse_integer, parse_constant=_refuse_constant
        )
        text = content.decode().rstrip(_SPACES)
        end = _begin_of_value(text, 0)
        while end < len(text):
            if len(found) == most:
                raise json.JSONDecodeError("Extra data", text, end)
            value, end = decoder.raw_decode(text, end)
            found.append(value)
            end = _begin_of_value(text, end)
    return found


def _begin_of_value(text: str, place: int) -> int:
    found = _NO_SPACE.search(text, place)
    return found.start() if found else len(text)


@contextmanager
def _explain_decode_errors(name: str) -> Iterator[None]:
    import json

    try:
        yield
    except UnicodeDecodeError as error:
        raise _invalid_json(f"{_source_name(name)} is not valid UTF-8.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _invalid_json(f"{_source_name(name)} is not valid JSON: {error.msg}, {where}.") from error
    except RecursionError as error:
        raise _invalid_json(f"{_source_name(name)} is nested too deeply.") from error
    except ValueError as error:
        raise _invalid_json(f"{_source_name(name)} is not valid JSON: {error}.") from error


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a decoded JSON object.

    Raises ValueError if a name occurs twice, since it is unclear which value counts.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} occurs twice in an object")
        found[name] = value
    return found


def _parse_integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:  # more digits than Python converts
        raise ValueError("a number has too many digits") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


def _invalid_json(message: str) -> Failure:
    return Failure("invalid_json", message, INPUT, details=((_INPUT, message),))


def _source_name(name: str) -> str:
    return "The input" if name == "-" else name


# --- Date-times: typed by people, and as the API expects them ---


_DAY_AND_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"
#: RFC 3339 5.6; its 5.6 lets T and Z be lower case.
_WITH_OFFSET = re.compile(_DAY_AND_TIME + r":[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})", re.IGNORECASE)
_LOCAL = re.compile(_DAY_AND_TIME + r"(:[0-9]{2})?", re.IGNORECASE)
#: The accepted forms, for the help of an option.
MOMENT_FORMS = "RFC 3339, such as 2030-01-31T09:00:00Z or ...+01:00; without an offset, the local time of this computer"


def parse_moment(text: str, option: str) -> str:
    """Return a date-time with its UTC offset. If `text` has no offset, it is in this computer's local time.

    `option`: the option that error messages name. Raises Failure if the date-time is invalid, or if it is a local time
    that occurs twice or never because the clock was changed.
    """
    from datetime import datetime

    written = text.strip()
    has_offset = _WITH_OFFSET.fullmatch(written)
    try:
        if not has_offset and not _LOCAL.fullmatch(written):
            raise ValueError(written)
        moment = datetime.fromisoformat(written.upper())
        if has_offset:
            return written.replace(" ", "T")
        # When summer time starts or ends, the two readings (PEP 495) differ.
        first, second = (moment.replace(fold=fold).astimezone() for fold in (0, 1))
    # an impossible date such as 31 February, or a year outside the supported range
    except (ValueError, OverflowError) as error:
        message = f"{text!r} is not a valid date-time. Use {MOMENT_FORMS}."
        raise wrong_usage(message, f"option:{option}") from error
    if first.utcoffset() != second.utcoffset():
        message = f"Local clocks show {written} twice or never. Add an offset, such as +01:00."
        raise wrong_usage(message, f"option:{option}")
    return first.isoformat()


# --- The messages of a command: named on the command line, or read from another command's list ---


#: The largest list of messages, in bytes; ten thousand messages take less.
_LARGEST_LIST = 64 * MIB
#: The most messages that one command accepts.
MAX_MESSAGES = 10_000
_MESSAGE_ID = re.compile(rb"(?!(?:null|true|false)$)[\w.~-]{1,200}", re.ASCII)


@dataclass(frozen=True)
class ListedMessage:
    """The ID of a message to act on, and that of its mailbox if the list of messages gives it."""

    message_id: str
    account_id: str | None = None


def read_messages(terminal: "Terminal", named: tuple[str, ...], file: str | None) -> list[ListedMessage]:
    """Return the messages to act on, without duplicates: those in `named`, or those listed in `file` (`-` for stdin).

    A list may be empty. Raises Failure for too many messages, and if both `named` and `file` are given, or neither.
    """
    if file is None and not named:
        raise wrong_usage("Missing message IDs. Name them, or pass a list with --input.", "argument:MESSAGE-ID...")
    if file is not None and named:
        raise wrong_usage("Name the messages or pass a list with --input, not both.", _INPUT)
    found = (
        [ListedMessage(one) for one in named]
        if file is None
        else messages_in_list(read_input(terminal, file, _LARGEST_LIST), file)
    )
    distinct = list({one.message_id: one for one in found}.values())
    if len(distinct) > MAX_MESSAGES:
        raise wrong_usage(f"Too many messages: one command takes at most {MAX_MESSAGES:,}.", _INPUT)
    return distinct


def messages_in_list(content: bytes, name: str) -> list[ListedMessage]:
    """Return the messages in a list: one ID per line, or JSON as commands print it (any number of responses or
    messages).

    `name`: the file with the list, for error messages.
    """
    content = content.removeprefix(b"\xef\xbb\xbf").strip()
    if not content.startswith((b"{", b"[", b'"')):
        return [_id_on_line(line.strip()) for line in content.splitlines() if line.strip()]
    try:
        return [one for value in decode_json_sequence(content, name) for one in _messages_in(value, None)]
    except RecursionError as error:
        raise wrong_usage("The list is nested too deeply.", _INPUT) from error


def _id_on_line(line: bytes) -> ListedMessage:
    if not _MESSAGE_ID.fullmatch(line):
        raise _no_message_failure()
    return ListedMessage(line.decode("ascii"))


def _messages_in(value: Any, account_id: str | None) -> list[ListedMessage]:
    """Return the messages in a JSON value. `account_id`: the mailbox of messages that do not name one."""
    if isinstance(value, str):
        return [ListedMessage(value, account_id)]
    if isinstance(value, list):
        return [one for item in value for one in _messages_in(item, account_id)]
    if isinstance(value, dict):
        own = value.get("accountId")
        account_id = own if isinstance(own, str) else account_id
        for field in ("messages", "id", "data", "items"):
            if field in value:
                return _messages_in(value[field], account_id)
    raise _no_message_failure()


def _no_message_failure() -> Failure:
    return wrong_usage("The list must hold message IDs, or objects that have one.", _INPUT)
