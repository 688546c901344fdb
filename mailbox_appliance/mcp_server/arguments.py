"""From a tool's arguments, one flat object, to the request that its operation takes.

The names are those of the REST call, whether they stand there in the path, the query, a header or the body. What is
found wrong here goes into the request as its faults, so that it is told after who asks and what may be reached.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mailbox_appliance.errors import Detail, Invalid, Problem
from mailbox_appliance.mcp_server.tool import Asked
from mailbox_appliance.model.decoding import convert
from mailbox_appliance.model.records import OperationResult
from mailbox_appliance.operations.decoding import body_types, convert_body
from mailbox_appliance.operations.expectations import in_words, is_whole_number
from mailbox_appliance.operations.operation import JSON_LIMIT, Operation, Request
from mailbox_appliance.operations.parameter import HEADERS, Parameter

#: What stands in the path of the REST call: never empty there, and never longer than a request line.
PathValue = Annotated[str, Meta(min_length=1, max_length=1000)]
ACCOUNT = Parameter("accountId", "account_id", PathValue)
_IN_PATH = re.compile(r"{(\w+)}")
_PLACED = re.compile(r"(?:query|header|path):(\w[\w-]*)")
_ARGUMENT = {header: wire for wire, header in HEADERS.items()}
_MOST_FAULTS, _LONGEST_QUOTE = 20, 200
_STRANGE = "There is no such argument here."
_NO_TEXT = "This is no text: half of a surrogate pair stands in it alone (RFC 8259 8.2)."


@dataclass(frozen=True)
class Form:
    """What a tool takes: the values and body fields of its operation, and arguments of its own.

    `everywhere`: the operation that is meant where `accountId` is left out. `without`: values of the operation that are
    not offered. `defaults`: as text, for values of the operation that are left out.
    """

    operation: Operation[Any, Any]
    rest_call: str
    own_arguments: tuple[Parameter, ...] = ()
    omitted: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    all_accounts_operation: Operation[Any, Any] | None = None

    @cached_property
    def values(self) -> Mapping[str, Parameter]:
        """The single values of the operation that are offered, those of the path first."""
        in_path = [name for name in _IN_PATH.findall(self.rest_call) if name != ACCOUNT.wire]
        offered = {name: self.operation.parameters[name] for name in in_path}
        offered = {name: replace(one, type=PathValue) for name, one in offered.items()}
        rest = {name: one for name, one in self.operation.parameters.items() if name not in self.omitted}
        account = {ACCOUNT.wire: ACCOUNT} if self.operation.account is not None else {}
        return account | offered | {name: one for name, one in rest.items() if name not in offered}

    @cached_property
    def body(self) -> frozenset[str]:
        """The names of the body's fields."""
        choices = () if self.operation.body is None else body_types(self.operation.body.type)
        return frozenset(one.encode_name for choice in choices for one in msgspec.structs.fields(choice))

    def read(self, arguments: Mapping[str, Any]) -> "Given":
        """The request, and the arguments that are the tool's own; of those at fault the default."""
        operation, offered = self.operation, dict(self.values)
        if self.all_accounts_operation is not None and arguments.get(ACCOUNT.wire) is None:
            operation = self.all_accounts_operation
            del offered[ACCOUNT.wire]
        faults: list[Detail] = []
        values = dict(self.defaults)
        values.update((name, _text(value)) for name, value in _taken(offered, arguments, faults))
        own = {one.wire: one.default for one in self.own_arguments}
        own.update(_taken({one.wire: one for one in self.own_arguments}, arguments, faults))
        faults += self._find_unknown(arguments)
        body = {name: value for name, value in arguments.items() if name in self.body}
        faults += [Detail(_pointer(name), _NO_TEXT) for name, value in body.items() if not _is_text(value)]
        if faults and operation.body is not None:
            faults += _faults_of(body, operation.body.type)
        request = Request(
            values=values,
            places=dict.fromkeys(values, "query"),
            body=None if operation.body is None else body,
            is_body_discarded=operation.body_limit <= JSON_LIMIT and _size(body) > operation.body_limit,
            faults=tuple(faults[:_MOST_FAULTS]),
        )
        return Given(operation, request, own)

    def _find_unknown(self, arguments: Mapping[str, Any]) -> Iterator[Detail]:
        known = self.values.keys() | self.body | {one.wire for one in self.own_arguments}
        yield from (Detail(_pointer(name), _STRANGE) for name in arguments if name not in known)


@dataclass(frozen=True)
class Given:
    """What a tool was given: the request to its operation, and the arguments that are its own."""

    operation: Operation[Any, Any]
    request: Request
    own_arguments: Mapping[str, Any]

    def call(self, asked: Asked, **values: str) -> OperationResult[Any]:
        """The operation's answer; `values` in place of those that were given. Raises Problem."""
        request = replace(self.request, values={**self.request.values, **values})
        if self.operation.account is not None and ACCOUNT.wire not in request.values:
            caller = self.operation.rights.identify(asked.appliance, asked.origin, asked.token)
            self.operation.rights.require_capability(caller, lambda: request.body)
            raise Invalid(details=request.faults, reason=request.faults[0].message)
        return self.operation.call(asked.appliance, asked.origin, asked.token, request)

    def call_other(
        self, asked: Asked, operation: Operation[Any, Any], names: str, **values: str
    ) -> OperationResult[Any]:
        """The answer of another operation about what was named: of the values given those in `names`, and `values`."""
        kept = {name: self.request.values[name] for name in names.split()}
        return operation.call(asked.appliance, asked.origin, asked.token, Request(values=kept | values))

    def with_faults(self, *faults: Detail) -> "Given":
        """The same with more found wrong with it."""
        return replace(self, request=replace(self.request, faults=(*self.request.faults, *faults)))


def name_places(problem: Problem) -> None:
    """Say where a fault lies as tools have it: in the one object of arguments, whatever the place in the REST call."""
    problem.details = tuple(Detail(_argument(one.path), one.message) for one in problem.details)


def _argument(place: str) -> str:
    found = _PLACED.fullmatch(place)
    return place if found is None else _pointer(_ARGUMENT.get(found[1], found[1]))


def _taken(
    offered: Mapping[str, Parameter], arguments: Mapping[str, Any], faults: list[Detail]
) -> Iterator[tuple[str, Any]]:
    """The values that were given and are as they should be; what is wrong with the others is added to `faults`.

    Null for a value that may be left out is one that is left out, as many clients write it.
    """
    for name, one in offered.items():
        value = arguments.get(name)
        if value is None and not one.is_required:
            continue
        fault = _fault(value, one.type) if name in arguments else "This is required."
        if fault is None:
            yield name, value
        else:
            faults.append(Detail(_pointer(name), fault))


def _fault(value: Any, annotation: Any) -> str | None:
    """What is wrong with a single value. JSON has types, so that 5 is no text and `"5"` no number."""
    if is_whole_number(annotation) and type(value) is not int:
        return "This must be a whole number."
    if not _is_text(value):
        return _NO_TEXT
    try:
        convert(value, annotation)
    except msgspec.ValidationError as error:
        return in_words(str(error), annotation)
    return None


def _faults_of(body: Mapping[str, Any], annotation: Any) -> Sequence[Detail]:
    """What is first found wrong with a body, which is told with what else is wrong."""
    try:
        convert_body(body, annotation)
    except Invalid as problem:
        return problem.details
    return ()


def _text(value: Any) -> str:
    """A single value as it stands in a query."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_text(value: Any) -> bool:
    """Whether every text in a JSON value is one: a lone surrogate is none in UTF-8."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str) and not one.isascii():
            try:
                one.encode()
            except UnicodeEncodeError:
                return False
    return True


def _size(body: Mapping[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(body))
    except (TypeError, ValueError, RecursionError):  # what is no JSON is refused for what it is
        return 0


def _pointer(name: str) -> str:
    cut = name if len(name) <= _LONGEST_QUOTE else f"{name[:_LONGEST_QUOTE]}..."
    return "/" + cut.encode("utf-8", "replace").decode().replace("~", "~0").replace("/", "~1")
