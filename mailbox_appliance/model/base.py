"""The base classes of all JSON that clients send and get, and texts that are marked as the appliance's own."""

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
    """Base class of values in responses. Field names become camelCase; UNSET fields are left out."""


class Input(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base class of request bodies. Field names are camelCase; unknown fields are refused."""


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
    """A text that contains only words and numbers of the appliance, nothing from a message, a person or a server.

    So AI agents can trust it; other warnings may quote strangers.
    """

    __slots__ = ()


def own_text(template: str, /, **values: object) -> str:
    """Return `template` with its `{name}` placeholders filled in, marked as the appliance's own text (`OwnText`).

    `template` must be a literal. If any value is a plain string, which may come from a mail, the result is not marked.
    Numbers, enumeration members and marked texts keep the mark.
    """
    is_own = all(isinstance(value, int | float | StrEnum | OwnText) for value in values.values())
    text = template.format(**values) if values else template
    return OwnText(text) if is_own else text


def to_stored_text(text: str) -> str:
    """Return a text as it is stored: a plain string that records whether the text is marked as the appliance's own."""
    return _STORED_MARK + text if isinstance(text, OwnText) else text.lstrip(_STORED_MARK)


def from_stored_text(stored: str) -> str:
    """Return the original of a stored text, the reverse of `to_stored_text`: marked ones become `OwnText`."""
    return OwnText(stored[1:]) if stored.startswith(_STORED_MARK) else stored


def encode_own_text(value: Any) -> str:
    """Return a marked text as a plain string: the `enc_hook` of msgspec encoders, which cannot encode `OwnText`."""
    if isinstance(value, OwnText):
        return str(value)
    raise NotImplementedError(type(value).__name__)
