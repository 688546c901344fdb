"""One value that an operation takes: its names, its type, and where it stands in a REST call."""

from dataclasses import dataclass
from inspect import Parameter as PythonParameter
from typing import Any

import msgspec

#: Parameters that travel in a header of a REST call.
HEADERS = {"idempotencyKey": "Idempotency-Key"}


@dataclass(frozen=True)
class Parameter:
    """One value that an operation takes: its name on the wire and in Python, its type, and its default."""

    wire: str
    name: str
    type: Any
    default: Any = PythonParameter.empty

    @property
    def place(self) -> str:
        """Where it stands in a REST call, unless it is part of the path: in a header or in the query."""
        return "header" if self.wire in HEADERS else "query"

    @property
    def pointer(self) -> str:
        """How a fault names it: `header:Idempotency-Key`, `query:limit`."""
        return pointer(self.place, self.wire)

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is PythonParameter.empty


def wire_name(name: str) -> str:
    """`idempotency_key` -> `idempotencyKey`."""
    return msgspec.structs.fields(msgspec.defstruct("Name", [name], rename="camel"))[0].encode_name


def pointer(place: str, wire: str) -> str:
    """How a fault names a value: `header:Idempotency-Key`, `query:limit`."""
    return f"{place}:{HEADERS.get(wire, wire) if place == 'header' else wire}"
