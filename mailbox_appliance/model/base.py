"""The base of all that clients see and send: camelCase, optional fields left out while UNSET."""

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")
Count = Annotated[int, Meta(ge=0)]
Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Wire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A value as clients see it."""


class Input(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A body as clients send it."""


class Deletion(Wire, frozen=True, kw_only=True):
    """What was deleted."""

    id: str
    deleted: bool = True


class Page(Wire, Generic[T], frozen=True, kw_only=True):
    """Part of a list that can grow, and the cursor of what follows."""

    items: tuple[T, ...]
    next_cursor: str | None
