"""What a request asks for: path, query, the headers that are parameters, and the body, not yet checked for meaning."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from mailbox_appliance.errors import Detail, Invalid
from mailbox_appliance.model.content import Content
from mailbox_appliance.operations.operation import Request
from mailbox_appliance.operations.parameter import HEADERS
from mailbox_appliance.web.answers import BODY_DISCARDED, BODY_POSTPONED
from mailbox_appliance.web.routes import Route

_MOST_QUERY_FIELDS = 100
_UNKNOWN = "There is no such parameter here."
_ENVIRON = {wire: "HTTP_" + header.upper().replace("-", "_") for wire, header in HEADERS.items()}

_AUTHORITY = re.compile(r"^[a-z][a-z0-9+.-]*://[^/?#]*", re.IGNORECASE)  # of a target in absolute form (RFC 9112 3.2.2)
_SLASHED = re.compile(r"//|\\|\0")
_HIDDEN = re.compile(r"//|%2f|%5c|%00", re.IGNORECASE)


def path_of(environ: Mapping[str, Any]) -> str | None:
    """The decoded path that a request asks for; None where it names nothing, whatever the routes are.

    Only a slash that is written as one parts segments (RFC 3986 2.2), so that whoever stands in front of this service
    and looks at paths reads the same in them. Decoding hides that, so the target counts as it was written, where the
    server tells it (`REQUEST_URI`); a WSGI server need not (PEP 3333).
    """
    path: str = environ["PATH_INFO"]
    written = re.split("[?#]", _AUTHORITY.sub("", environ.get("REQUEST_URI", ""), count=1))[0]
    if _SLASHED.search(path) or _HIDDEN.search(written):
        return None
    # WSGI gives bytes as Latin-1 (PEP 3333).
    return path if path.isascii() else path.encode("latin-1").decode("utf-8", "replace")


def read_request(environ: Mapping[str, Any], path: Mapping[str, str], route: Route) -> Request:
    """The request as an operation takes it; its body is read only where the method has one."""
    values, places = dict(path), dict.fromkeys(path, "path")
    faults = _read_query(environ.get("QUERY_STRING", ""), values, places)
    for wire, variable in _ENVIRON.items():
        if wire in route.operation.parameters and variable in environ:
            # Header fields are bytes; WSGI gives them as Latin-1.
            values[wire], places[wire] = environ[variable], "header"
    has_body = route.method in ("POST", "PUT", "PATCH")
    return Request(
        values=values,
        places=places,
        body=read_body(environ, route.operation.body_limit) if has_body else None,
        media_type=environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower(),
        is_body_discarded=BODY_DISCARDED in environ,
        postponed_bytes=environ.get(BODY_POSTPONED, 0) if has_body else 0,
        faults=faults,
    )


def refuse_query(environ: Mapping[str, Any]) -> None:
    """Raises Invalid where a request gives parameters to what has none."""
    values: dict[str, str] = {}
    faults = _read_query(environ.get("QUERY_STRING", ""), values, {})
    if faults := faults or tuple(Detail(f"query:{name}", _UNKNOWN) for name in values):
        raise Invalid(details=faults, reason=faults[0].message)


def _read_query(text: str, values: dict[str, str], places: dict[str, str]) -> tuple[Detail, ...]:
    """Add what the query gives; answers its faults: a name given twice, or one that travels in the path or a header."""
    try:
        # WSGI gives bytes as Latin-1; a client should have written them as %XX, in UTF-8 both.
        text = text.encode("latin-1").decode("utf-8")
        given = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_QUERY_FIELDS)
    except ValueError:
        return (Detail("query:", "The query is not UTF-8, or has too many parameters."),)
    faults = []
    for name, value in given:
        if name in HEADERS or places.get(name) == "path":
            faults.append(Detail(f"query:{name}", _UNKNOWN))
        elif name in values:
            faults.append(Detail(f"query:{name}", "This is given more than once."))
        else:
            values[name], places[name] = value, "query"
    return tuple(faults)


def read_body(environ: Mapping[str, Any], limit: int) -> bytes | Content:
    """The body; of one in memory that is over the limit only so much that this can be seen."""
    content: Content | None = getattr(environ["wsgi.input"], "content", None)
    if content is not None:
        return content
    length = min(int(environ.get("CONTENT_LENGTH") or 0), limit + 1)
    body: bytes = environ["wsgi.input"].read(length) if length else b""
    return body
