"""What a request asks for: path, query, the headers that are parameters, and the body, not yet checked for meaning."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from mailbox_appliance.errors import Invalid
from mailbox_appliance.operations.operation import HEADERS, Request
from mailbox_appliance.web.channel import BODY_DISCARDED
from mailbox_appliance.web.routes import Route

_MOST_QUERY_FIELDS = 100
_ENVIRON = {wire: "HTTP_" + header.upper().replace("-", "_") for wire, header in HEADERS.items()}


def read_request(environ: Mapping[str, Any], path: Mapping[str, str], route: Route) -> Request:
    """The request as an operation takes it; its body is read only where the method has one."""
    values, places = dict(path), dict.fromkeys(path, "path")
    for name, value in _query(environ.get("QUERY_STRING", "")):
        repeated = name in values
        # A name that is given twice, or is a part of the path, is told as unknown: it means nothing here.
        key = f"{name} (again)" if repeated else name
        values[key], places[key] = value, "query"
    for wire, variable in _ENVIRON.items():
        if wire in route.operation.parameters and variable in environ:
            # Header fields are bytes; WSGI gives them as Latin-1.
            values[wire], places[wire] = environ[variable], "header"
    return Request(
        values=values,
        places=places,
        body=_body(environ) if route.method in ("POST", "PUT", "PATCH") else None,
        media_type=environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower(),
        is_body_discarded=BODY_DISCARDED in environ,
    )


def _query(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_QUERY_FIELDS)
    except (ValueError, UnicodeDecodeError) as error:
        raise Invalid.at("query:", "The query is not UTF-8, or has too many parameters.") from error


def _body(environ: Mapping[str, Any]) -> bytes:
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length) if length else b""
    return body
