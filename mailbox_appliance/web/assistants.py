"""`POST /mcp`: who asks is found out here, as for every request; what answers is handed in by a floor above.

Nothing of it is loaded before somebody comes with a good credential. Any other method is 405, as the table of routes
has it: a GET would be a stream that holds a worker for ever.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, Invalid, Problem, TooBusy, TooLarge, WrongMedia
from mailbox_appliance.events import LargeWorkEnded
from mailbox_appliance.model.content import LARGE
from mailbox_appliance.operations.caller import Origin, identify
from mailbox_appliance.operations.operation import MAIL_LIMIT, MIB
from mailbox_appliance.web import responses
from mailbox_appliance.web.answers import BODY_DISCARDED, BODY_POSTPONED
from mailbox_appliance.web.callers import bearer_token
from mailbox_appliance.web.requests import read_body
from mailbox_appliance.web.responses import Response

Headers = Iterable[tuple[str, str]]

PATH = "/mcp"
#: What it refuses by itself, with an error object; anything wrong with a message is told as the protocol has it.
_REFUSED = frozenset({401, 403, 413, 415, 503})
_RETRY_AFTER = 5
_JSON = "application/json"
#: What is looked at here, as the protocol wants it: its SDK is strict about their case, and about what is left out.
_SETTLED = [("content-type", _JSON), ("accept", f"{_JSON}, text/event-stream")]
#: What may be asked for where JSON is what comes, the closest first (RFC 9110 12.5.1).
_RANGES = (_JSON, "application/*", "*/*")
_NOT_UTF_8 = "JSON is UTF-8 (RFC 8259 8.1): leave `charset` out."
_EXCLUDED = "Answers are `application/json`, which this leaves out."
_NOT_WANTED = re.compile(r"0(\.0{0,3})?")
_OWN = "HTTP_MCP_"


class Assistants(Protocol):
    """Answers messages of the Model Context Protocol, for whoever has been identified already."""

    def answer(
        self, appliance: Appliance, origin: Origin, token: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, header fields and body for one POST."""

    def close(self) -> None:
        """Let go of everything; calls that are under way end soon."""


def answer_post(
    assistants: Assistants, appliance: Appliance, origin: Origin, environ: Mapping[str, Any], request_id: str
) -> Response:
    """The response to one POST."""
    try:
        token = bearer_token(environ)
        identify(appliance.store, token, origin)
        _require_json(environ.get("CONTENT_TYPE", ""))
        if not _is_json_accepted(environ.get("HTTP_ACCEPT", "")):
            fault = Invalid.at("header:Accept", _EXCLUDED)
            return responses.error(406, fault.code, fault.message, request_id, fault.details)
        body = _body(environ)
        status, headers, content = assistants.answer(appliance, origin, token or "", _headers(environ), body)
        if len(body) > LARGE:
            appliance.events.publish(LargeWorkEnded())
    except Problem as problem:
        return responses.failure(problem, request_id, _REFUSED)
    media_type = next((value for name, value in headers if name.lower() == "content-type"), _JSON)
    return Response(status, content, media_type=media_type)


def _body(environ: Mapping[str, Any]) -> bytes:
    postponed = environ.get(BODY_POSTPONED, 0)
    body = read_body(environ, MAIL_LIMIT)
    if BODY_DISCARDED in environ or max(len(body), postponed) > MAIL_LIMIT:
        raise TooLarge(what="The message", limit=f"{MAIL_LIMIT // MIB} MiB")
    if postponed:
        raise TooBusy(retry_after=_RETRY_AFTER)
    return body if isinstance(body, bytes) else body.read()


def _headers(environ: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the protocol looks at. No session is kept, so none is named to it."""
    own = [(name[5:].replace("_", "-").lower(), value) for name, value in environ.items() if name.startswith(_OWN)]
    return _SETTLED + [(name, value) for name, value in own if name != "mcp-session-id"]


def _require_json(content_type: str) -> None:
    """Raises WrongMedia for a body of another type, or another encoding."""
    media_type, parameters = _parted(content_type)
    if media_type != _JSON:
        raise WrongMedia
    if parameters.get("charset", "utf-8") != "utf-8":
        raise WrongMedia(details=(Detail("header:Content-Type", _NOT_UTF_8),))


def _is_json_accepted(accept: str) -> bool:
    """Whether JSON may be the answer: who says nothing takes anything (RFC 9110 12.5.1)."""
    ranges = dict(_parted(one) for one in accept.split(",") if one.strip())
    closest = next((ranges[one] for one in _RANGES if one in ranges), None)
    return not ranges if closest is None else not _NOT_WANTED.fullmatch(closest.get("q", "1"))


def _parted(value: str) -> tuple[str, dict[str, str]]:
    """A media type and its parameters, which have no case where they matter here."""
    first, *rest = value.lower().split(";")
    pairs = (one.partition("=") for one in rest)
    return first.strip(), {name.strip(): text.strip().strip('"') for name, _, text in pairs}
