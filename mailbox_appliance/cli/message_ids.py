"""Which messages a command is about: named on the command line, or read from a list that another command wrote."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mailbox_appliance.cli.inputs import decoded_all, read_input
from mailbox_appliance.client.errors import Failure, wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.cli.terminal import Terminal

_MIB = 1024 * 1024
#: What a list of messages may take, in bytes; ten thousand of them take less.
_LARGEST = 64 * _MIB
#: The most messages that one command is about.
MOST = 10_000
_INPUT = "option:--input"
_ID = re.compile(rb"(?!(?:null|true|false)$)[\w.~-]{1,200}", re.ASCII)


@dataclass(frozen=True)
class Chosen:
    """A message, and the mailbox that the list says it is in; None where it says nothing."""

    message_id: str
    account_id: str | None = None


def chosen(terminal: "Terminal", named: tuple[str, ...], file: str | None) -> list[Chosen]:
    """The messages, each once: those that are named, or those of the file (`-`: the standard input).

    A list may be empty: then nothing was found that is to be changed. Raises Failure where there are too many, neither
    names nor a list, or both.
    """
    if file is None and not named:
        raise wrong_usage("Name a message, or give a list with --input.", "argument:MESSAGE-ID...")
    if file is not None and named:
        raise wrong_usage("Name the messages, or give a list with --input, and not both.", _INPUT)
    found = [Chosen(one) for one in named] if file is None else in_list(read_input(terminal, file, _LARGEST), file)
    distinct = list({one.message_id: one for one in found}.values())
    if len(distinct) > MOST:
        raise wrong_usage(f"One command is about at most {MOST:,} messages.", _INPUT)
    return distinct


def in_list(content: bytes, name: str) -> list[Chosen]:
    """The messages in a list: an id a line, or JSON as commands write it, one answer or message after the other."""
    content = content.removeprefix(b"\xef\xbb\xbf").strip()
    if not content.startswith((b"{", b"[", b'"')):
        return [_plain(line.strip()) for line in content.splitlines() if line.strip()]
    try:
        return [one for value in decoded_all(content, name) for one in _in(value, None)]
    except RecursionError as error:
        raise wrong_usage("The list is nested too deeply.", _INPUT) from error


def _plain(line: bytes) -> Chosen:
    if not _ID.fullmatch(line):
        raise _no_message()
    return Chosen(line.decode("ascii"))


def _in(value: Any, account_id: str | None) -> list[Chosen]:
    """The messages that a JSON value names: a text, a message, a list of these, a conversation, an answer."""
    if isinstance(value, str):
        return [Chosen(value, account_id)]
    if isinstance(value, list):
        return [one for item in value for one in _in(item, account_id)]
    if isinstance(value, dict):
        own = value.get("accountId")
        account_id = own if isinstance(own, str) else account_id
        for field in ("messages", "id", "data", "items"):
            if field in value:
                return _in(value[field], account_id)
    raise _no_message()


def _no_message() -> Failure:
    return wrong_usage("The list has something in it that is no message: an id, or an object with one.", _INPUT)
