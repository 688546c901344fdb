"""JSON schemas (2020-12) of what tools take and give, made from the types of their operations.

Input is one flat object without references, so that every client understands it. Output is what `structuredContent`
holds; its `data` is the answer of the REST call, less what tools leave out.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from mailbox_appliance.mcp_server import words
from mailbox_appliance.mcp_server.arguments import ACCOUNT, Form
from mailbox_appliance.model.records import BodyPart, Message
from mailbox_appliance.operations.decoding import body_types
from mailbox_appliance.operations.parameter import HEADERS, Parameter

_REFERENCE = "#/$defs/"
_TEMPLATE = _REFERENCE + "{name}"
_TEXT = {"type": "string"}
_UNSAID = ("$ref", "title", "pattern")
_WORDY = ("title", "description")


def input_of(form: Form) -> dict[str, Any]:
    """What a tool takes."""
    values = {name: one for name, one in form.values.items() if name not in _last(form)}
    properties = {name: _parameter(one, form) for name, one in values.items()}
    properties |= {one.wire: _parameter(one, form) for one in form.own_arguments}
    needed = [name for name, one in form.values.items() if one.is_required and name not in form.defaults]
    if form.all_accounts_operation is not None:
        needed.remove(ACCOUNT.wire)
        properties[ACCOUNT.wire]["description"] = words.EVERYWHERE
    if form.operation.body is not None:
        fields, required = _body(form.operation.body.type)
        properties |= fields
        needed += required
    properties |= {name: _parameter(form.values[name], form) for name in _last(form)}
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def output_of(result: Any, *, more: Mapping[str, Any] | None = None, is_cut: bool = False) -> dict[str, Any]:
    """What the structured content of a tool is whose operation answers with `result`.

    `more`: schemas of fields that the tool adds to the data, an object. `is_cut`: the tool itself gives a whole list
    page by page.
    """
    choices = body_types(result) or (result,)
    found, components = msgspec.json.schema_components(choices, ref_template=_TEMPLATE)
    data: dict[str, Any] = found[0] if len(found) == 1 else {"anyOf": list(found)}
    components = {name: _terse(one) for name, one in components.items()}
    if Message.__name__ in components:
        _show_parts_of_bodies(components)
    if more:
        components[data["$ref"].removeprefix(_REFERENCE)]["properties"].update(more)
    texts = {"type": "array", "items": _TEXT}
    properties = {
        "data": data,
        "untrusted": texts,
        "warnings": texts,
    }
    if is_cut:
        properties["nextCursor"] = _TEXT | {"description": "Where the list goes on: for the argument `cursor`."}
    schema = {"type": "object", "properties": properties, "required": ["data", "untrusted"]}
    return schema | {"additionalProperties": False} | ({"$defs": components} if components else {})


def _last(form: Form) -> list[str]:
    """What stands in a header of the REST call."""
    return [name for name, one in form.values.items() if one.place == "header"]


def _parameter(one: Parameter, form: Form) -> dict[str, Any]:
    schema = _described(one.wire, _inlined(one.type))
    if one.wire in form.defaults:
        value = form.defaults[one.wire]
        return schema | {"default": int(value) if schema["type"] == "integer" else value}
    return schema if one.is_required or one.default is None else schema | {"default": one.default}


def _body(annotation: Any) -> tuple[dict[str, Any], list[str]]:
    """The fields of a body, those of every shape that it may have, and which of them every shape needs."""
    shapes = [_inlined(shape) for shape in body_types(annotation)]
    fields: dict[str, Any] = {}
    for shape in reversed(shapes):  # a message first, then what may stand in place of one
        fields = {name: _described(name, schema) for name, schema in shape["properties"].items()} | fields
    if len(shapes) > 1 and "draftId" in fields:
        fields["draftId"]["description"] = words.SAVED_DRAFT
    needed = [name for name in fields if all(name in shape.get("required", ()) for shape in shapes)]
    return fields, needed


def _described(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """What is said of it here where its type says nothing; of a key, what counts for whoever chooses one."""
    known = words.ARGUMENTS.get(name)
    is_silent = "description" not in schema or name in HEADERS
    return schema | {"description": known} if is_silent and known is not None else schema


def _inlined(annotation: Any) -> dict[str, Any]:
    """The schema of a type, without references and null (an argument is left out instead).

    Patterns stay out as well: they are checked here, and models that are held to a schema know few of them.
    """
    (schema,), components = msgspec.json.schema_components([annotation], ref_template=_TEMPLATE)
    plain: dict[str, Any] = _without_null(_resolved(schema, components))
    return plain


def _resolved(schema: Any, components: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_resolved(one, components) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = components[schema["$ref"].removeprefix(_REFERENCE)] if "$ref" in schema else {}
    found = {name: one for name, one in (named | schema).items() if name not in _UNSAID}
    if "enum" in found:
        found = {"type": "string"} | found  # some clients look for a type beside it
    return {
        name: _each(one, components) if name == "properties" else _resolved(one, components)
        for name, one in found.items()
    }


def _each(properties: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _resolved(one, components) for name, one in properties.items()}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    rest = {name: one for name, one in schema.items() if name != "anyOf"}
    return choices[0] | rest if len(choices) == 1 else schema


def _terse(schema: Any) -> Any:
    """What a client needs to check an answer, and no more: every assistant reads it before it does anything."""
    if isinstance(schema, list):
        return [_terse(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _terse(one) for name, one in schema.items() if name not in _WORDY or isinstance(one, dict)}


def _show_parts_of_bodies(components: dict[str, Any]) -> None:
    """A message as tools show it: a part of its body, or none, and no header fields."""
    (part,), parts = msgspec.json.schema_components([BodyPart], ref_template=_TEMPLATE)
    components.update({name: _terse(one) for name, one in parts.items()})
    components.pop("Body", None)
    fields = components[Message.__name__]["properties"]
    del fields["headers"]
    fields["body"] = part
    found = [components.pop(one["$ref"].removeprefix(_REFERENCE)) for one in fields["searchContext"]["anyOf"]]
    states = sorted(state for one in found for state in one["properties"]["status"]["enum"])
    fields["searchContext"] = {
        "type": "object",
        "properties": {"status": {"enum": states}, "excerpt": _TEXT},
        "required": ["status"],
        "additionalProperties": False,
    }
