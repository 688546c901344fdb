"""The OpenAPI 3.1 document, generated from the route table, the operations and their types."""

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin

import msgspec

from mailbox_appliance.feed.events import EVENT_DATA
from mailbox_appliance.feed.waiting import EventStream
from mailbox_appliance.model.base import DESCRIBED_FIELD, Deletion, Input, Page, Wire
from mailbox_appliance.model.deliveries import LegacySendResult
from mailbox_appliance.model.messages import Download, SendPreview, UndoOffer
from mailbox_appliance.operations.decoding import HEADERS, body_types
from mailbox_appliance.operations.operation import MIB, Access, Operation
from mailbox_appliance.version import __version__
from mailbox_appliance.web import api_examples, reference
from mailbox_appliance.web.http import REPLAYED, ErrorResponse
from mailbox_appliance.web.routes import API_PREFIX, ROUTES, Route

_REFERENCE = "#/components/schemas/{name}"
_IN_PATH = re.compile(r"{(\w+)}")
#: msgspec names `Page[Message]` so; clients get `MessagePage`.
_GENERIC_PAGE = re.compile(r"Page_([A-Za-z]+)_")
_CALLBACK_NAME = "handleOAuthCallback"
_REQUEST_ID = {
    "X-Request-Id": {"schema": {"type": "string"}, "required": True, "description": "ID of the request, for support."}
}
#: Errors of every request. The server's own 413 is described once for the whole API instead: clients take
#: the statuses of an operation for the meaning of that operation.
_COMMON_STATUSES = frozenset({405, 408, 431, 500})


@cache
def describe() -> bytes:
    """Return the OpenAPI document, as JSON."""
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(types, schemas, strict=True))
    _describe_components(components)
    components["Event"]["properties"]["data"]["anyOf"] = [schema_of[kind] for kind in EVENT_DATA]
    paths: dict[str, Any] = {}
    for route in ROUTES:
        path = (API_PREFIX + route.path).rstrip("/")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schema_of)
    paths[f"{API_PREFIX}/oauth/callback"] = {"get": _callback_operation()}
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "mailbox-appliance",
            "version": __version__,
            "description": reference.INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The appliance that serves this document."}],
        "paths": paths,
        "tags": [{"name": name, "description": text} for name, text, _ in reference.TAGS],
        "components": {
            "schemas": components,
            "responses": {
                name: _error(status, schema_of[ErrorResponse])
                for status, (name, _) in reference.STATUSES.items()
                if status >= 400
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": reference.CREDENTIAL_TEXT}
            },
        },
    }
    return _GENERIC_PAGE.sub(r"\1Page", msgspec.json.encode(document).decode()).encode()


def _types() -> tuple[Any, ...]:
    found: dict[Any, None] = dict.fromkeys((ErrorResponse, UndoOffer, *EVENT_DATA))
    for route in ROUTES:
        operation = route.operation
        if operation.result not in (Download, EventStream):
            found.update(dict.fromkeys(_results(operation)))
        if operation.body is not None:
            found.update(dict.fromkeys(body_types(operation.body.type)))
        found.update(dict.fromkeys(parameter.type for parameter in operation.parameters.values()))
    return tuple(found)


# --- Schemas: each struct and each of its fields with a description, from the struct's docstring ---


def _describe_components(components: dict[str, Any]) -> None:
    known = {kind.__name__: kind for base in (Wire, Input) for kind in _subclasses(base)}
    for name, schema in components.items():
        schema["title"] = name  # msgspec writes `Page[Message]`, and generators of clients use titles
        kind = known.get("Page" if _GENERIC_PAGE.fullmatch(name) else name)
        if kind is None or name in reference.FIELDS:
            schema["description"], texts = reference.FIELDS.get(name, (_plain(schema.get("description", "")), {}))
        else:
            schema["description"], texts = _introduction(kind), _field_texts(kind)
        for field, described in schema.get("properties", {}).items():
            if field in texts:
                described.setdefault("description", texts[field])
    components[ErrorResponse.__name__]["examples"] = [api_examples.ERROR_EXAMPLE]


def _subclasses(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _subclasses(kind)


def _introduction(kind: type[msgspec.Struct]) -> str:
    """Return the docstring of a struct without the lines that describe its fields."""
    return _plain(DESCRIBED_FIELD.sub("", inspect.cleandoc(kind.__doc__ or "")))


def _field_texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the descriptions of a struct's fields from its docstring and those of its base classes, by JSON field
    name.
    """
    texts = {
        name: _plain(text)
        for each in reversed(kind.__mro__)
        for name, text in DESCRIBED_FIELD.findall(inspect.cleandoc(each.__doc__ or ""))
    }
    named = {one.encode_name: texts[one.name] for one in msgspec.structs.fields(kind) if one.name in texts}
    tag = kind.__struct_config__.tag_field
    return named if tag is None else named | {tag: "The kind of this value."}


def _plain(text: str) -> str:
    return " ".join(text.split())


# --- Operations ---


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    operation = route.operation
    summary, _, rest = operation.help.partition("\n\n")
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": _plain(summary).removesuffix("."),
        "description": "\n\n".join(filter(None, (rest, *_describe_access(operation)))),
        "parameters": _parameters(route, operation, schema_of, api_examples.PARAMETERS.get(route.name, {})),
        "responses": _responses(route, schema_of),
        "security": [{"bearer": []}] if operation.rights.access in (Access.CREDENTIAL, Access.SESSION) else [],
        "tags": [reference.TAG_OF[route.name]],
    }
    if operation.body is not None:
        schema = _one_of([schema_of[choice] for choice in body_types(operation.body.type)])
        content = {"schema": schema, "example": api_examples.REQUESTS[route.name]}
        described["requestBody"] = {
            "description": f"At most {operation.body_limit // MIB} MiB.",
            "required": operation.body.is_required,
            "content": {"application/json": content},
        }
    if operation.file is not None:
        described["requestBody"] = {
            "description": f"The file, at most {operation.body_limit // MIB} MiB.",
            "required": False,  # without one, the file is empty
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    return described


def _callback_operation() -> dict[str, Any]:
    """Return the OpenAPI entry of the page that a provider redirects browsers to. No operation of the appliance runs
    there.
    """
    page = {
        "description": "The page.",
        "headers": _REQUEST_ID,
        "content": {"text/html": {"schema": {"type": "string"}, "example": "<!doctype html> ..."}},
    }
    return {
        "operationId": _CALLBACK_NAME,
        "summary": "Handle the redirect of a provider",
        "description": (
            "The page that a provider redirects the browser to after an OAuth sign-in. It leads to the console, and"
            " stores nothing."
        ),
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string"}, "description": text}
            for name, text in reference.CALLBACK_PARAMETERS.items()
        ],
        "responses": {"200": page, **_errors(frozenset({403}))},
        "security": [],
        "tags": [reference.TAG_OF[_CALLBACK_NAME]],
    }


def _describe_access(operation: Operation[Any, Any]) -> Iterator[str]:
    """Yield sentences about who can call an operation."""
    rights = operation.rights
    if rights.access is Access.LOCAL:
        yield "Available only on the appliance's own computer."
    if rights.access is Access.SESSION:
        whose = {"admin": " of an administrator"}.get(rights.role or "", "")
        yield f"Requires a session{whose}; API keys get 403 `session_required`."
    if rights.owner:
        yield "Only the owner of the mailbox can do this."
    if rights.needs:
        yield f"Requires {' or '.join(f'`{need}`' for need in rights.needs)}."
    if rights.https:
        yield "Requires HTTPS, except on the appliance's own computer (403 `https_required`)."
    if rights.operator:
        yield "The operator can also call it on the appliance's own computer, with the `secret` in `run.json`."


def _parameters(
    route: Route, operation: Operation[Any, Any], schema_of: dict[Any, Any], shown: Mapping[str, Any]
) -> list[dict[str, Any]]:
    in_path = _IN_PATH.findall(route.path)
    given = operation.parameters
    described = []
    for name in in_path:
        schema = {"type": "string", "minLength": 1} | (schema_of[given[name].type] if name in given else {})
        text, example = reference.PATH_PARAMETERS[name]
        one = {"name": name, "in": "path", "required": True, "schema": schema, "description": text, "example": example}
        schema.pop("description", None)
        described.append(one)
    for wire, parameter in operation.parameters.items():
        if wire in in_path:
            continue
        name, place = (HEADERS[wire], "header") if wire in HEADERS else (wire, "query")
        schema = {**_without_null(schema_of[parameter.type])}
        text = schema.pop("description", "")
        if not parameter.is_required and parameter.default is not None:
            schema["default"] = parameter.default
        one = {"name": name, "in": place, "required": parameter.is_required, "schema": schema, "description": text}
        if wire in shown:
            one["example"] = shown[wire]
        described.append(one)
    return described


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional parameter without the choice of null, which a request cannot express."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _responses(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    if route.operation.result is Download:
        described = {route.success: _file(route)}
    elif route.operation.result is EventStream:
        content = {route.media: {"schema": {"type": "string"}, "example": api_examples.STREAM_EXAMPLE}}
        described = {route.success: {"headers": _REQUEST_ID, "content": content}}
    else:
        example = api_examples.RESPONSES.get(route.name) or _example(route, _results(route.operation)[0])
        described = {route.success: _success(route, schema_of, example)}
        if route.also is not None:
            described[route.also] = _success(route, schema_of, api_examples.LATER[route.name])
    texts = reference.STATUSES
    found = {str(status): {"description": texts[status][1], **one} for status, one in described.items()}
    return found | _errors(route.errors)


def _example(route: Route, kind: Any) -> Any:
    """Return an example of a type that an operation returns."""
    if kind is Deletion:
        return {"id": reference.PATH_PARAMETERS[_IN_PATH.findall(route.path)[-1]][1], "deleted": True}
    if get_origin(kind) is Page:
        return {"items": [_example(route, get_args(kind)[0])], "nextCursor": "MTc3MjU5OTk2NzAwMC4zYjFm"}
    if get_origin(kind) is tuple:
        return [_example(route, get_args(kind)[0])]
    return api_examples.TYPES[(get_origin(kind) or kind).__name__]


def _results(operation: Operation[Any, Any]) -> tuple[Any, ...]:
    """Return the types that an operation can return."""
    return body_types(operation.result) or (operation.result,)


def _one_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return choices[0] if len(choices) == 1 else {"oneOf": choices}


def _success(route: Route, schema_of: dict[Any, Any], example: Any) -> dict[str, Any]:
    results = _results(route.operation)
    shown = {"data": example}
    more = {}
    if route.operation.is_undoable:
        shown["undo"] = api_examples.TYPES[UndoOffer.__name__]
        more["undo"] = schema_of[UndoOffer]
    described: dict[str, Any] = {
        "headers": {**_REQUEST_ID},
        "content": {
            "application/json": {
                "schema": _envelope(_one_of([schema_of[result] for result in results]), more),
                "example": shown,
            }
        },
    }
    if SendPreview in results:
        meaning = "Identifies the message shown. Send it with this value in `If-Match`."
        described["headers"]["ETag"] = {"schema": {"type": "string"}, "description": meaning}
    if LegacySendResult in results:
        meaning = "Present if this is the repeated response of an earlier release: the sent message, not a delivery."
        described["headers"][REPLAYED] = {"schema": {"type": "string", "const": "true"}, "description": meaning}
    return described


def _envelope(data: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`more`: schemas of further fields, which may be absent."""
    if data.get("type") in ("array", "object", "null"):
        data = data | {"description": "The result."}
    warnings = {"type": "array", "items": {"type": "string"}, "description": "Warnings for people; absent if none."}
    return {
        "type": "object",
        "properties": {"data": data, "warnings": warnings, **more},
        "required": ["data"],
        "additionalProperties": False,
    }


def _file(route: Route) -> dict[str, Any]:
    """Return the OpenAPI description of a file as a response.

    The schema `binary` and the type `application/octet-stream` are there for client generators, which recognize bytes
    by them.
    """
    disposition = {"schema": {"type": "string"}, "required": True, "description": "Name of the file (RFC 6266)."}
    schema = {"schema": {"type": "string", "format": "binary"}}
    media = (route.media, "application/octet-stream") if route.media == "*/*" else (route.media,)
    return {"headers": {**_REQUEST_ID, "Content-Disposition": disposition}, "content": dict.fromkeys(media, schema)}


def _errors(statuses: frozenset[int]) -> dict[str, Any]:
    return {
        str(status): {"$ref": f"#/components/responses/{reference.STATUSES[status][0]}"}
        for status in sorted(statuses | _COMMON_STATUSES)
    }


def _error(status: int, schema: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"description": reference.STATUSES[status][1], "headers": {**_REQUEST_ID}, "content": content}
