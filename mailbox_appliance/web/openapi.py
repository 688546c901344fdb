"""The OpenAPI 3.1 description, generated from the route table and the types of the operations."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from mailbox_appliance.model.deliveries import LegacySendResult
from mailbox_appliance.model.messages import Download
from mailbox_appliance.operations.decoding import HEADERS, body_types
from mailbox_appliance.operations.operation import Access, Operation
from mailbox_appliance.version import __version__
from mailbox_appliance.web.http import REPLAYED, ErrorResponse
from mailbox_appliance.web.reference import TAG_OF, TAGS
from mailbox_appliance.web.routes import API_PREFIX, ROUTES, Route

_REFERENCE = "#/components/schemas/{name}"
_IN_PATH = re.compile(r"{(\w+)}")
#: msgspec names `Page[Message]` so; clients get `MessagePage`.
_GENERIC_PAGE = re.compile(rb"\bPage_([A-Za-z]+)_")
_CALLBACK_NAME = "handleOAuthCallback"
_DESCRIPTION = """Safe access to mail. Successful answers are `{data, warnings?}`, errors are `{error}`.

A body that is far larger than anything this service takes is answered with 413 `body_too_large`, whatever the path, and
the connection is closed. GET and DELETE take no body; one that is sent with them is read and ignored.

While the service starts again on a restored store, for some seconds, every request is answered with 503 and
`Retry-After`.

A path may end with one slash; slashes within a value that is part of a path, also encoded ones, name nothing (404)."""
_STATUS_MEANING = {
    200: "Done.",
    201: "Made.",
    202: "Taken; it is done later.",
    400: "The request is not valid; `details` names the place.",
    401: "Authentication is required.",
    403: "Not allowed; `details` names what is missing.",
    404: "Not there, or not within reach.",
    405: "The path has no such method.",
    408: "The request did not arrive in time.",
    409: "At odds with what is stored.",
    413: "The body is too large.",
    415: "The body must be `application/json`.",
    422: "The mailbox or its server cannot do this.",
    429: "Too many attempts; `Retry-After` tells when.",
    431: "The header fields are too large.",
    500: "A fault of the appliance; the log has it under the request id.",
    502: "The licence could not be verified.",
    503: "Another server did not play its part; `Retry-After` tells when to try again.",
}
_REQUEST_ID = {"X-Request-Id": {"schema": {"type": "string"}, "required": True}}
#: Errors of every request. The server's own 413 is described once for the whole API instead: clients take
#: the statuses of an operation for the meaning of that operation.
_COMMON_STATUSES = frozenset({405, 408, 431, 500})


@cache
def describe() -> bytes:
    """The description, as JSON."""
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in ROUTES:
        path = (API_PREFIX + route.path).rstrip("/")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schema_of)
    paths[f"{API_PREFIX}/oauth/callback"] = {"get": _callback_operation(schema_of[ErrorResponse])}
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "mailbox-appliance",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "tags": [{"name": name, "description": text} for name, text, _ in TAGS],
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }
    return _GENERIC_PAGE.sub(rb"\1Page", msgspec.json.encode(document))


def _types() -> tuple[Any, ...]:
    found: dict[Any, None] = {ErrorResponse: None}
    for route in ROUTES:
        operation = route.operation
        if operation.result is not Download:
            found.update(dict.fromkeys(_results(operation)))
        if operation.body is not None:
            found.update(dict.fromkeys(body_types(operation.body.type)))
        found.update(dict.fromkeys(parameter.type for parameter in operation.parameters.values()))
    return tuple(found)


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    operation = route.operation
    summary, _, rest = operation.help.partition("\n\n")
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": " ".join(summary.split()),
        "parameters": _parameters(route, operation, schema_of),
        "responses": _responses(route, schema_of),
        "security": [{"bearer": []}] if operation.rights.access in (Access.CREDENTIAL, Access.SESSION) else [],
        "tags": [TAG_OF[route.name]],
    }
    if text := "\n\n".join(filter(None, (rest, *_describe_access(operation)))):
        described["description"] = text
    if operation.body is not None:
        schema = _one_of([schema_of[choice] for choice in body_types(operation.body.type)])
        described["requestBody"] = {
            "required": operation.body.is_required,
            "content": {"application/json": {"schema": schema}},
        }
    return described


def _callback_operation(problem: dict[str, Any]) -> dict[str, Any]:
    """The page that a provider leads a browser to: no operation, as it does nothing."""
    names = ("state", "code", "error", "error_description")
    page = {
        "description": "The page.",
        "headers": _REQUEST_ID,
        "content": {"text/html": {"schema": {"type": "string"}}},
    }
    return {
        "operationId": _CALLBACK_NAME,
        "summary": "Where a provider's sign-in ends: a page that leads to the console, and keeps nothing.",
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string"}} for name in names
        ],
        "responses": {
            "200": page,
            **{str(status): _response(status, problem) for status in sorted(_COMMON_STATUSES | {403})},
        },
        "security": [],
        "tags": [TAG_OF[_CALLBACK_NAME]],
    }


def _describe_access(operation: Operation[Any, Any]) -> Iterator[str]:
    """Who may call it, beyond what its `security` says."""
    if operation.rights.needs:
        yield f"Needs {' or '.join(f'`{need}`' for need in operation.rights.needs)}."
    if operation.rights.operator:
        yield "The operator may as well: on this computer, with the `secret` in `run.json` of the data directory."


def _parameters(route: Route, operation: Operation[Any, Any], schema_of: dict[Any, Any]) -> list[dict[str, Any]]:
    in_path = _IN_PATH.findall(route.path)
    given = operation.parameters
    described = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1} | (schema_of[given[name].type] if name in given else {}),
        }
        for name in in_path
    ]
    for wire, parameter in operation.parameters.items():
        if wire in in_path:
            continue
        name, place = (HEADERS[wire], "header") if wire in HEADERS else (wire, "query")
        schema = _without_null(schema_of[parameter.type])
        if not parameter.is_required and parameter.default is not None:
            schema = schema | {"default": parameter.default}
        described.append({"name": name, "in": place, "required": parameter.is_required, "schema": schema})
    return described


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that may be left out: on the wire there is no null."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _responses(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    success = _file(route) if route.operation.result is Download else _success(route, schema_of)
    described = {
        str(status): success | {"description": _STATUS_MEANING[status]}
        for status in (route.success, route.also)
        if status is not None
    }
    problem = schema_of[ErrorResponse]
    described.update((str(status), _response(status, problem)) for status in sorted(route.errors | _COMMON_STATUSES))
    return described


def _results(operation: Operation[Any, Any]) -> tuple[Any, ...]:
    """The success responses of an operation."""
    return body_types(operation.result) or (operation.result,)


def _one_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return choices[0] if len(choices) == 1 else {"oneOf": choices}


def _success(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    results = _results(route.operation)
    described = _response(route.success, _envelope(_one_of([schema_of[result] for result in results])))
    if LegacySendResult in results:
        meaning = "The answer of an earlier release, given again: the sent message, not a delivery operation."
        described["headers"][REPLAYED] = {"schema": {"type": "string", "const": "true"}, "description": meaning}
    return described


def _envelope(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"data": data, "warnings": {"type": "array", "items": {"type": "string"}}},
        "required": ["data"],
        "additionalProperties": False,
    }


def _file(route: Route) -> dict[str, Any]:
    """A file: any bytes (OpenAPI 3.1 has no schema for them), with its name."""
    names = ("X-Request-Id", "Content-Disposition")
    headers = {name: {"schema": {"type": "string"}, "required": True} for name in names}
    return {"headers": headers, "content": {route.media: {}}}


def _response(status: int, schema: dict[str, Any]) -> dict[str, Any]:
    headers = {**_REQUEST_ID}
    content = {"application/json": {"schema": schema}}
    return {"description": _STATUS_MEANING[status], "headers": headers, "content": content}
