"""The base of all that clients see and send: camelCase, optional fields left out while UNSET; marked warnings."""

import re
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")
#: A field in the docstring of a struct: its name and its description, with the lines that continue it.
DESCRIBED_FIELD = re.compile(r"^- (\w+): (.*(?:\n .*)*)", re.MULTILINE)
Count = Annotated[int, Meta(ge=0)]
Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Wire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A value as clients see it."""


class Input(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A body as clients send it."""


class Deletion(Wire, frozen=True, kw_only=True):
    """Confirmation of a deletion.

    - id: ID of what was deleted.
    - deleted: Always true.
    """

    id: str
    deleted: bool = True


class Page(Wire, Generic[T], frozen=True, kw_only=True):
    """One page of a list.

    - items: The items of this page, in the order of the list.
    - next_cursor: Cursor of the next page; null at the end of the list.
    """

    items: tuple[T, ...]
    next_cursor: str | None


# --- Warnings: which of them hold nothing but words of the appliance ---
#
# Interfaces show warnings to people and to AI agents, and an agent must not take a stranger's words for the
# appliance's. So a text is untrusted unless the place that makes it marks it, and whatever loses the mark is untrusted.


#: Starts a marked text in the store, which has plain strings only.
_STORED_MARK = "\x01"


class OwnText(str):
    """A text that holds only words and numbers of the appliance: nothing of a message, a person or a server."""

    __slots__ = ()


def own_text(template: str, /, **values: object) -> str:
    """Return a text marked as the appliance's own. `template`: a literal, with `{name}` for each value.

    A value must be a number, an enumerated name, or a text with the mark itself. With any other value, such as a plain
    string, which may come from a mail, the text has no mark.
    """
    is_own = all(isinstance(value, int | float | StrEnum | OwnText) for value in values.values())
    text = template.format(**values) if values else template
    return OwnText(text) if is_own else text


def to_stored_text(text: str) -> str:
    """Return a plain string that keeps the mark for `from_stored_text`."""
    return _STORED_MARK + text if isinstance(text, OwnText) else text.lstrip(_STORED_MARK)


def from_stored_text(stored: str) -> str:
    """Return a text that was stored by `to_stored_text` with its mark; any other string without one."""
    return OwnText(stored[1:]) if stored.startswith(_STORED_MARK) else stored


def encode_own_text(value: Any) -> str:
    """Encode a marked text as the string that it is: the `enc_hook` of an encoder of msgspec."""
    if isinstance(value, OwnText):
        return str(value)
    raise NotImplementedError(type(value).__name__)
