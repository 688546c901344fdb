"""Converts the arguments of a tool to the request of an operation, and generates the JSON schemas of tools.

Arguments have the same names as in the REST call, whether it has them in its path, query, header or body. Invalid
arguments become part of the request, so that they are reported after the checks of the caller and the mailbox.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mailbox_appliance.errors import Detail, Invalid, Problem
from mailbox_appliance.mcp_server import tool
from mailbox_appliance.mcp_server.tool import CallContext, ToolResult
from mailbox_appliance.model.base import DESCRIBED_FIELD
from mailbox_appliance.model.decoding import convert
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.messages import BodyPart, Message
from mailbox_appliance.operations.decoding import (
    HEADERS,
    Parameter,
    body_types,
    convert_body,
    explain_type_error,
    is_whole_number,
)
from mailbox_appliance.operations.operation import JSON_LIMIT, Operation, Request

# --- Arguments: one flat object, read into the request of an operation ---


#: A value in the path of the REST call: never empty, and never longer than a request line.
PathValue = Annotated[str, Meta(min_length=1, max_length=1000)]
ACCOUNT_ARGUMENT = Parameter("accountId", "account_id", PathValue)
LIST_OFFSET = Parameter(
    "listOffset",
    "list_offset",
    Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="Number of recipients of each list, and of attachments, to skip."),
    ],
    0,
)
_IN_PATH = re.compile(r"{(\w+)}")
_REST_PLACE = re.compile(r"(?:query|header|path):(\w[\w-]*)")
_ARGUMENT_OF_HEADER = {header: wire for wire, header in HEADERS.items()}
_MAX_FAULTS, _MAX_QUOTE = 20, 200
_UNKNOWN_ARGUMENT = "Unknown argument."
_INVALID_TEXT = "This is not valid text: it contains half of a surrogate pair (RFC 8259 8.2)."


@dataclass(frozen=True)
class ToolInput:
    """The arguments that a tool accepts: the parameters and body fields of its operation, and arguments of its own.

    - rest_call: The REST call of the operation, such as `GET /accounts/{accountId}/folders`.
    - own_arguments: Arguments that the operation does not have.
    - omitted: Parameters of the operation that the tool does not offer.
    - defaults: Values, as text, for parameters that the caller omits.
    - all_accounts_operation: The operation to call instead if `accountId` is omitted.
    """

    operation: Operation[Any, Any]
    rest_call: str
    own_arguments: tuple[Parameter, ...] = ()
    omitted: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    all_accounts_operation: Operation[Any, Any] | None = None

    @cached_property
    def values(self) -> Mapping[str, Parameter]:
        """The parameters of the operation that the tool offers, those from the path first."""
        in_path = [name for name in _IN_PATH.findall(self.rest_call) if name != ACCOUNT_ARGUMENT.wire]
        offered = {name: self.operation.parameters[name] for name in in_path}
        offered = {name: replace(one, type=PathValue) for name, one in offered.items()}
        rest = {name: one for name, one in self.operation.parameters.items() if name not in self.omitted}
        account = {ACCOUNT_ARGUMENT.wire: ACCOUNT_ARGUMENT} if self.operation.account is not None else {}
        return account | offered | {name: one for name, one in rest.items() if name not in offered}

    @cached_property
    def body(self) -> frozenset[str]:
        """The names of the fields of the request body."""
        choices = () if self.operation.body is None else body_types(self.operation.body.type)
        return frozenset(one.encode_name for choice in choices for one in msgspec.structs.fields(choice))

    def read(self, arguments: Mapping[str, Any]) -> "ToolRequest":
        """Return the request for the operation, and the tool's own arguments.

        Invalid arguments are recorded in the request as errors. An own argument that is invalid gets its default.
        """
        operation, offered = self.operation, dict(self.values)
        if self.all_accounts_operation is not None and arguments.get(ACCOUNT_ARGUMENT.wire) is None:
            operation = self.all_accounts_operation
            del offered[ACCOUNT_ARGUMENT.wire]
        faults: list[Detail] = []
        values = dict(self.defaults)
        values.update((name, _to_text(value)) for name, value in _read_values(offered, arguments, faults))
        own = {one.wire: one.default for one in self.own_arguments}
        own.update(_read_values({one.wire: one for one in self.own_arguments}, arguments, faults))
        faults += self._find_unknown(arguments)
        body = {name: value for name, value in arguments.items() if name in self.body}
        faults += [
            Detail(_argument_pointer(name), _INVALID_TEXT) for name, value in body.items() if not _is_valid_text(value)
        ]
        if faults and operation.body is not None:
            faults += _find_body_faults(body, operation.body.type)
        request = Request(
            values=values,
            places=dict.fromkeys(values, "query"),
            body=None if operation.body is None else body,
            is_body_discarded=operation.body_limit <= JSON_LIMIT and _json_size(body) > operation.body_limit,
            faults=tuple(faults[:_MAX_FAULTS]),
        )
        return ToolRequest(operation, request, own)

    def _find_unknown(self, arguments: Mapping[str, Any]) -> Iterator[Detail]:
        known = self.values.keys() | self.body | {one.wire for one in self.own_arguments}
        yield from (Detail(_argument_pointer(name), _UNKNOWN_ARGUMENT) for name in arguments if name not in known)


@dataclass(frozen=True)
class ToolRequest:
    """One call of a tool: the operation to call, its request, and the values of the tool's own arguments."""

    operation: Operation[Any, Any]
    request: Request
    own_arguments: Mapping[str, Any]

    def call(self, asked: CallContext, **values: str) -> OperationResult[Any]:
        """Call the operation and return its result. `values`: parameters that replace those of the request. Raises
        Problem.
        """
        request = msgspec.structs.replace(self.request, values={**self.request.values, **values})
        if self.operation.account is not None and ACCOUNT_ARGUMENT.wire not in request.values:
            caller = self.operation.rights.identify(asked.appliance, asked.origin, asked.token)
            self.operation.rights.require_capability(caller, lambda: request.body)
            raise Invalid(details=request.faults, reason=request.faults[0].message)
        return self.operation.call(asked.appliance, asked.origin, asked.token, request)

    def call_other(
        self, asked: CallContext, operation: Operation[Any, Any], names: str, **values: str
    ) -> OperationResult[Any]:
        """Call another operation and return its result. Raises Problem.

        `names`: parameters of this request to pass on, separated by spaces. `values`: further parameters.
        """
        kept = {name: self.request.values[name] for name in names.split()}
        return operation.call(asked.appliance, asked.origin, asked.token, Request(values=kept | values))

    def with_faults(self, *faults: Detail) -> "ToolRequest":
        """Return a copy that also reports these errors."""
        return replace(self, request=msgspec.structs.replace(self.request, faults=(*self.request.faults, *faults)))


#: Calls operations and returns the result; raises Problem.
Act = Callable[[CallContext, ToolRequest], ToolResult]


def rename_places(problem: Problem) -> None:
    """Change the details of a problem to name arguments of the tool (`/limit`) instead of parts of the REST call
    (`query:limit`).
    """
    problem.details = tuple(Detail(_to_argument_place(one.path), one.message) for one in problem.details)


def _to_argument_place(place: str) -> str:
    found = _REST_PLACE.fullmatch(place)
    return place if found is None else _argument_pointer(_ARGUMENT_OF_HEADER.get(found[1], found[1]))


def _read_values(
    offered: Mapping[str, Parameter], arguments: Mapping[str, Any], faults: list[Detail]
) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each valid argument, and add errors to `faults`. Null counts as omitted."""
    for name, one in offered.items():
        value = arguments.get(name)
        if value is None and not one.is_required:
            continue
        fault = _find_fault(value, one.type) if name in arguments else "This is required."
        if fault is None:
            yield name, value
        else:
            faults.append(Detail(_argument_pointer(name), fault))


def _find_fault(value: Any, annotation: Any) -> str | None:
    """Return what is wrong with a value, if anything. Types are strict: 5 is not a text, `"5"` is not a number."""
    if is_whole_number(annotation) and type(value) is not int:
        return "This must be a whole number."
    if not _is_valid_text(value):
        return _INVALID_TEXT
    try:
        convert(value, annotation)
    except msgspec.ValidationError as error:
        return explain_type_error(str(error), annotation)
    return None


def _find_body_faults(body: Mapping[str, Any], annotation: Any) -> Sequence[Detail]:
    """Return the first error of a body, or nothing if it is valid."""
    try:
        convert_body(body, annotation)
    except Invalid as problem:
        return problem.details
    return ()


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_valid_text(value: Any) -> bool:
    """Whether all strings in a JSON value can be encoded in UTF-8. Half of a surrogate pair cannot."""
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


def _json_size(body: Mapping[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(body))
    except (TypeError, ValueError, RecursionError):  # the operation reports what is not JSON
        return 0


def _argument_pointer(name: str) -> str:
    cut = name if len(name) <= _MAX_QUOTE else f"{name[:_MAX_QUOTE]}..."
    return "/" + cut.encode("utf-8", "replace").decode().replace("~", "~0").replace("/", "~1")


# --- JSON schemas (2020-12) of what tools take and return, generated from the types of their operations ---
#
# Input is one flat object without references, so that every client understands it. Output is `structuredContent`; its
# `data` is the response of the REST call, without what tools leave out.


_REFERENCE = "#/$defs/"
_TEMPLATE = _REFERENCE + "{name}"
_STRING_SCHEMA = {"type": "string"}
_OMITTED_KEYS = ("$ref", "title", "pattern")
_OMITTED_OUTPUT_KEYS = ("title", "description")


def input_schema(form: ToolInput) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    values = {name: one for name, one in form.values.items() if name not in _header_names(form)}
    properties = {name: _parameter_schema(one, form) for name, one in values.items()}
    properties |= {one.wire: _parameter_schema(one, form) for one in form.own_arguments}
    needed = [name for name, one in form.values.items() if one.is_required and name not in form.defaults]
    if form.all_accounts_operation is not None:
        needed.remove(ACCOUNT_ARGUMENT.wire)
        properties[ACCOUNT_ARGUMENT.wire]["description"] = tool.EVERYWHERE_HELP
    if form.operation.body is not None:
        fields, required = _body_schema(form.operation.body.type)
        properties |= fields
        needed += required
    properties |= {name: _parameter_schema(form.values[name], form) for name in _header_names(form)}
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def output_schema(
    result: Any, *, more: Mapping[str, Any] | None = None, is_cut: bool = False, is_undoable: bool = False
) -> dict[str, Any]:
    """Return the JSON schema of a tool's structured content.

    - result: The type that the tool's operation returns.
    - more: Schemas of fields that the tool adds to this data, by name. The data must then be an object.
    - is_cut: The operation returns a whole list, but the tool returns one page of it, with a cursor for the next.
    - is_undoable: The result may come with a token that undoes it.
    """
    choices = body_types(result) or (result,)
    found, components = msgspec.json.schema_components(choices, ref_template=_TEMPLATE)
    data: dict[str, Any] = found[0] if len(found) == 1 else {"anyOf": list(found)}
    components = {name: _shorten_schema(one) for name, one in components.items()}
    if Message.__name__ in components:
        _show_parts_of_bodies(components)
    if more:
        components[data["$ref"].removeprefix(_REFERENCE)]["properties"].update(more)
    texts = {"type": "array", "items": _STRING_SCHEMA}
    properties = {
        "data": data,
        "untrusted": texts,
        "warnings": texts,
    }
    if is_cut:
        properties["nextCursor"] = _STRING_SCHEMA | {"description": "Cursor of the next page: pass it as `cursor`."}
    if is_undoable:
        offer = {"token": _STRING_SCHEMA, "expiresAt": _STRING_SCHEMA}
        properties["undo"] = {"type": "object", "properties": offer, "required": list(offer)}
    schema = {"type": "object", "properties": properties, "required": ["data", "untrusted"]}
    return schema | {"additionalProperties": False} | ({"$defs": components} if components else {})


def _header_names(form: ToolInput) -> list[str]:
    return [name for name, one in form.values.items() if one.place == "header"]


def _parameter_schema(one: Parameter, form: ToolInput) -> dict[str, Any]:
    schema = _add_description(one.wire, _inline_schema(one.type))
    if one.wire in form.defaults:
        value = form.defaults[one.wire]
        return schema | {"default": int(value) if schema["type"] == "integer" else value}
    return schema if one.is_required or one.default is None else schema | {"default": one.default}


def _body_schema(annotation: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the schemas of all fields of a request body, and the names of those that all of its structs require."""
    shapes = [_inline_schema(shape) for shape in body_types(annotation)]
    fields: dict[str, Any] = {}
    for shape in reversed(shapes):  # a message first, then the alternatives to one
        fields = {
            name: _add_description(name, schema, wins=True) for name, schema in shape["properties"].items()
        } | fields
    if len(shapes) > 1 and "draftId" in fields:
        fields["draftId"]["description"] = tool.SAVED_DRAFT_HELP
    needed = [name for name in fields if all(name in shape.get("required", ()) for shape in shapes)]
    return fields, needed


def _add_description(name: str, schema: dict[str, Any], *, wins: bool = False) -> dict[str, Any]:
    """Return the schema with its text for AI agents, if it has no other, `wins` is set or the argument is a header."""
    known = tool.ARGUMENT_HELP.get(name)
    is_used = wins or "description" not in schema or name in HEADERS
    return schema | {"description": known} if is_used and known is not None else schema


def _inline_schema(annotation: Any) -> dict[str, Any]:
    """Return the schema of a type without references, and without null and patterns, which few AI models support."""
    (schema,), components = msgspec.json.schema_components([annotation], ref_template=_TEMPLATE)
    plain: dict[str, Any] = _without_null(_resolve_references(schema, components))
    return plain


def _resolve_references(schema: Any, components: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_resolve_references(one, components) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = _describe_fields(components[schema["$ref"].removeprefix(_REFERENCE)]) if "$ref" in schema else {}
    found = {name: one for name, one in (named | schema).items() if name not in _OMITTED_KEYS}
    if "enum" in found:
        found = {"type": "string"} | found  # some clients look for a type beside it
    return {
        name: _resolve_properties(one, components) if name == "properties" else _resolve_references(one, components)
        for name, one in found.items()
    }


def _describe_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a struct with the texts of its fields, which are lines `- name: text` of its docstring."""
    if "properties" not in schema:
        return schema
    whole = inspect.cleandoc(schema.get("description", ""))
    texts = {
        re.sub("_([a-z])", lambda one: one[1].upper(), name): text for name, text in DESCRIBED_FIELD.findall(whole)
    }
    fields = {
        name: {"description": " ".join(text.split())} | field
        if (text := texts.get(name, tool.FIELD_HELP.get(name))) is not None
        else field
        for name, field in schema["properties"].items()
    }
    return schema | {"description": " ".join(DESCRIBED_FIELD.sub("", whole).split()), "properties": fields}


def _resolve_properties(properties: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _resolve_references(one, components) for name, one in properties.items()}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    rest = {name: one for name, one in schema.items() if name != "anyOf"}
    return choices[0] | rest if len(choices) == 1 else schema


def _shorten_schema(schema: Any) -> Any:
    """Return a schema without titles and descriptions, since every AI agent reads it before the first call."""
    if isinstance(schema, list):
        return [_shorten_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _shorten_schema(one)
        for name, one in schema.items()
        if name not in _OMITTED_OUTPUT_KEYS or isinstance(one, dict)
    }


def _show_parts_of_bodies(components: dict[str, Any]) -> None:
    """Change the schema of a message to what tools return: at most a part of its body, and no header fields."""
    (part,), parts = msgspec.json.schema_components([BodyPart], ref_template=_TEMPLATE)
    components.update({name: _shorten_schema(one) for name, one in parts.items()})
    components.pop("Body", None)
    fields = components[Message.__name__]["properties"]
    del fields["headers"]
    fields["body"] = part
    found = [components.pop(one["$ref"].removeprefix(_REFERENCE)) for one in fields["searchContext"]["anyOf"]]
    states = sorted(state for one in found for state in one["properties"]["status"]["enum"])
    fields["searchContext"] = {
        "type": "object",
        "properties": {"status": {"enum": states}, "excerpt": _STRING_SCHEMA},
        "required": ["status"],
        "additionalProperties": False,
    }
