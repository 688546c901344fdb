"""`POST /mcp`: identifies the caller as every request does, then calls the handler of the MCP server.

The handler is loaded with the first request that has a valid credential. Other methods get 405 from the route table: a
GET would open a stream that occupies a worker permanently.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, Invalid, Problem, TooBusy, TooLarge, WrongMedia
from mailbox_appliance.events import LargeWorkEnded
from mailbox_appliance.feed.waiting import EventWait
from mailbox_appliance.model.content import LARGE
from mailbox_appliance.operations.operation import MAIL_LIMIT, MIB, Origin, identify
from mailbox_appliance.web import http
from mailbox_appliance.web.http import Response, bearer_token, read_body
from mailbox_appliance.web.server.connection import BODY_DISCARDED, BODY_POSTPONED

Headers = Iterable[tuple[str, str]]

MCP_PATH = "/mcp"
#: The statuses with an error object; an error in the message itself is reported as the protocol defines.
_ERROR_STATUSES = frozenset({401, 403, 413, 415, 503})
_RETRY_AFTER = 5
#: Bytes of a message that is kept while it waits; a longer one is answered at once.
_MOST_HELD = 16 * 1024
_JSON = "application/json"
#: Fixed values for the SDK, which is strict about case and absence. The appliance checks the real fields itself.
_FIXED_HEADERS = [("content-type", _JSON), ("accept", f"{_JSON}, text/event-stream")]
#: Media ranges that include JSON, the most specific first (RFC 9110 12.5.1).
_ACCEPTED_RANGES = (_JSON, "application/*", "*/*")
_NOT_UTF_8 = "JSON must be UTF-8 (RFC 8259 8.1). Omit `charset`."
_NOT_ACCEPTABLE = "Responses are `application/json`, which this header field does not accept."
_ZERO_WEIGHT = re.compile(r"0(\.0{0,3})?")
_MCP_HEADER_PREFIX = "HTTP_MCP_"


class McpHandler(Protocol):
    """The interface of the MCP server: answers messages of the Model Context Protocol for an identified caller."""

    def answer(
        self, appliance: Appliance, origin: Origin, token: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes, EventWait | None]:
        """Return HTTP status, header fields and body for the message in one POST, and what it could wait for."""

    def close(self) -> None:
        """Release all resources. Calls in progress end soon afterwards."""


def answer_post(
    assistants: McpHandler, appliance: Appliance, origin: Origin, environ: Mapping[str, Any], request_id: str
) -> Response:
    """Check caller and headers of one POST to `/mcp`, then return the handler's response or an error.

    `assistants`: the handler.
    """
    try:
        token = bearer_token(environ)
        identify(appliance.store, token, origin)
        _require_json(environ.get("CONTENT_TYPE", ""))
        if not _is_json_accepted(environ.get("HTTP_ACCEPT", "")):
            fault = Invalid.at("header:Accept", _NOT_ACCEPTABLE)
            return http.error(406, fault.code, fault.message, request_id, fault.details)
        body = _read_mcp_body(environ)
        status, headers, content, waits_for = assistants.answer(
            appliance, origin, token or "", _protocol_headers(environ), body
        )
        if len(body) > LARGE:
            appliance.events.publish(LargeWorkEnded())
    except Problem as problem:
        return http.failure(problem, request_id, _ERROR_STATUSES)
    media_type = next((value for name, value in headers if name.lower() == "content-type"), _JSON)
    is_held = waits_for is not None and len(body) <= _MOST_HELD
    return Response(status, content, media_type=media_type, waits_for=waits_for if is_held else None, request_body=body)


def _read_mcp_body(environ: Mapping[str, Any]) -> bytes:
    postponed = environ.get(BODY_POSTPONED, 0)
    body = read_body(environ, MAIL_LIMIT)
    if BODY_DISCARDED in environ or max(len(body), postponed) > MAIL_LIMIT:
        raise TooLarge(what="The message", limit=f"{MAIL_LIMIT // MIB} MiB")
    if postponed:
        raise TooBusy(retry_after=_RETRY_AFTER)
    return body if isinstance(body, bytes) else body.read()


def _protocol_headers(environ: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the header fields for the MCP SDK, without a session ID, since no sessions are kept."""
    own = [
        (name[5:].replace("_", "-").lower(), value)
        for name, value in environ.items()
        if name.startswith(_MCP_HEADER_PREFIX)
    ]
    return _FIXED_HEADERS + [(name, value) for name, value in own if name != "mcp-session-id"]


def _require_json(content_type: str) -> None:
    """Raise WrongMedia unless the Content-Type header is JSON in UTF-8."""
    media_type, parameters = _parse_media_type(content_type)
    if media_type != _JSON:
        raise WrongMedia
    if parameters.get("charset", "utf-8") != "utf-8":
        raise WrongMedia(details=(Detail("header:Content-Type", _NOT_UTF_8),))


def _is_json_accepted(accept: str) -> bool:
    """Whether the Accept header includes JSON. An empty header accepts everything (RFC 9110 12.5.1)."""
    ranges = dict(_parse_media_type(one) for one in accept.split(",") if one.strip())
    closest = next((ranges[one] for one in _ACCEPTED_RANGES if one in ranges), None)
    return not ranges if closest is None else not _ZERO_WEIGHT.fullmatch(closest.get("q", "1"))


def _parse_media_type(value: str) -> tuple[str, dict[str, str]]:
    """Return a media type and its parameters from a header field, in lower case."""
    first, *rest = value.lower().split(";")
    pairs = (one.partition("=") for one in rest)
    return first.strip(), {name.strip(): text.strip().strip('"') for name, _, text in pairs}
