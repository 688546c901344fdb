"""What a tool is: a name for an operation, what a model is told about it, and how its answer is shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.operations.caller import Caller, Origin
from mailbox_appliance.operations.operation import Operation


@dataclass(frozen=True)
class Asked:
    """Who calls a tool, and of whom: checked by the operation, each time anew."""

    appliance: Appliance
    origin: Origin
    token: str | None


@dataclass(frozen=True)
class Link:
    """A file that can be fetched at an address; all of it is safe to show (`name` is no sender's word)."""

    url: str
    name: str
    media_type: str
    size: int | None


@dataclass(frozen=True)
class Shown:
    """An answer as it is shown: `structured` is `{data, untrusted, warnings?, nextCursor?}`; None for an error.

    `content`: a small file that was asked for inline, as base64.
    """

    text: str
    structured: dict[str, Any] | None = None
    links: tuple[Link, ...] = ()
    content: str | None = None
    is_error: bool = False


#: Calls operations and gives what is to be shown; raises Problem.
Act = Callable[[Asked, Mapping[str, Any]], Shown]


@dataclass(frozen=True)
class Tool:
    """One row. `stands_for` is the REST call, as the table of routes writes it; `operation` decides who may.

    `also`: operations that it calls as well. `input` and `output` are JSON schemas, made when they are first asked for.
    """

    name: str
    title: str
    operation: Operation[Any, Any]
    rest_call: str
    help: str
    handler: Act
    input: Callable[[], dict[str, Any]]
    output: Callable[[], dict[str, Any]]
    reads_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    #: Whether it reaches out to other people, beyond the mailbox.
    open_world: bool = False
    other_operations: Sequence[Operation[Any, Any]] = field(default=())

    def may_be_used_by(self, caller: Caller) -> bool:
        """Whether the caller holds what the operation needs; whether they reach a mailbox is not looked at."""
        needed = self.operation.rights.needs
        return not needed or any(capability in caller.capabilities for capability in needed)
