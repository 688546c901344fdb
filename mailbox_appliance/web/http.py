"""Reads HTTP requests (parameters, bodies, client address, host), and builds responses (JSON, files, errors).

It also decides which proxies to trust, and which host names to accept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from mailbox_appliance.errors import (
    Conflict,
    Denied,
    Detail,
    HostNotAllowed,
    Invalid,
    MessageTooLarge,
    NotFound,
    Problem,
    Throttled,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
    Unverified,
    WrongMedia,
)
from mailbox_appliance.feed.waiting import EventStream, EventWait
from mailbox_appliance.model.base import encode_own_text
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.deliveries import OperationResult, UndoableResult
from mailbox_appliance.model.messages import Download, UndoOffer
from mailbox_appliance.operations.decoding import HEADERS
from mailbox_appliance.operations.operation import Origin, Request
from mailbox_appliance.settings import Settings
from mailbox_appliance.web.server.connection import BODY_DISCARDED, BODY_POSTPONED

if TYPE_CHECKING:
    from mailbox_appliance.web.routes import Route

_MAX_QUERY_FIELDS = 100
_UNKNOWN_PARAMETER = "This parameter does not exist here."
_ENVIRON = {wire: "HTTP_" + header.upper().replace("-", "_") for wire, header in HEADERS.items()}

_AUTHORITY = re.compile(r"^[a-z][a-z0-9+.-]*://[^/?#]*", re.IGNORECASE)  # of a target in absolute form (RFC 9112 3.2.2)
_SLASHED = re.compile(r"//|\\|\0")
_HIDDEN = re.compile(r"//|%2f|%5c|%00", re.IGNORECASE)


def path_of(environ: Mapping[str, Any]) -> str | None:
    """Return the decoded path of a request; None if no route can match it because a slash in it is percent-encoded.

    Only a literal slash separates segments (RFC 3986 2.2), so that a proxy that checks paths sees the same segments.
    Decoding hides the difference. So the path as it was sent is checked, if the server provides it (`REQUEST_URI`); a
    WSGI server need not (PEP 3333).
    """
    path: str = environ["PATH_INFO"]
    written: str = environ.get("REQUEST_URI", "")
    if written != path:  # usually both are the same
        written = re.split("[?#]", _AUTHORITY.sub("", written, count=1))[0]
    if _SLASHED.search(path) or _HIDDEN.search(written):
        return None
    # WSGI passes bytes as Latin-1 (PEP 3333).
    return path if path.isascii() else path.encode("latin-1").decode("utf-8", "replace")


def read_request(environ: Mapping[str, Any], path: Mapping[str, str], route: "Route") -> Request:
    """Return the input for an operation. `path`: the values from the path of the route. The body is read only for POST,
    PUT and PATCH.
    """
    values, places = dict(path), dict.fromkeys(path, "path")
    faults = _read_query(environ.get("QUERY_STRING", ""), values, places)
    for wire, variable in _ENVIRON.items():
        if wire in route.operation.parameters and variable in environ:
            # Header fields are bytes; WSGI passes them as Latin-1.
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
    """Raise Invalid if the request has query parameters; for endpoints that take none."""
    values: dict[str, str] = {}
    faults = _read_query(environ.get("QUERY_STRING", ""), values, {})
    if faults := faults or tuple(Detail(f"query:{name}", _UNKNOWN_PARAMETER) for name in values):
        raise Invalid(details=faults, reason=faults[0].message)


def _read_query(text: str, values: dict[str, str], places: dict[str, str]) -> tuple[Detail, ...]:
    """Read the parameters of a query string. Add each to `values`, and add its name to `places` with the value `query`.

    Returns the errors: a name that is repeated, or that belongs in the path or in a header.
    """
    if not text:
        return ()
    try:
        # WSGI passes bytes as Latin-1. Clients should send %XX, but raw UTF-8 is accepted too.
        text = text.encode("latin-1").decode("utf-8")
        given = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_QUERY_FIELDS)
    except ValueError:
        return (Detail("query:", f"The query is not valid UTF-8, or it has more than {_MAX_QUERY_FIELDS} parameters."),)
    faults = []
    for name, value in given:
        if name in HEADERS or places.get(name) == "path":
            faults.append(Detail(f"query:{name}", _UNKNOWN_PARAMETER))
        elif name in values:
            faults.append(Detail(f"query:{name}", "This is given more than once."))
        else:
            values[name], places[name] = value, "query"
    return tuple(faults)


def read_body(environ: Mapping[str, Any], limit: int) -> bytes | Content:
    """Return the request body. A body that the server has written to disk is returned as `Content`, whatever its size.

    From a body in memory at most `limit` + 1 bytes are read: one byte more shows the caller that it is too large.
    """
    content: Content | None = getattr(environ["wsgi.input"], "content", None)
    if content is not None:
        return content
    length = min(int(environ.get("CONTENT_LENGTH") or 0), limit + 1)
    body: bytes = environ["wsgi.input"].read(length) if length else b""
    return body


# --- Responses: the envelope, the error object, the statuses of the error families ---


JSON = "application/json; charset=utf-8"
#: Bytes of a streamed body that are passed on at once: few compared with what a connection may hold.
PIECE = 128 * 1024
#: Marks the response of an earlier release that is repeated.
REPLAYED = "Idempotency-Replayed"
_MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
)  # RFC 6838 4.2
# no quote, backslash or percent sign, since clients read them differently
_NOT_IN_NAME = re.compile(r"[^ !#-$&-\[\]-~]")

_STATUS: tuple[tuple[type[Problem], int], ...] = (
    (Invalid, 400),
    (Unauthenticated, 401),
    (Denied, 403),
    (NotFound, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (WrongMedia, 415),
    (Unsupported, 422),
    (Throttled, 429),
    (Unverified, 502),
    (Unavailable, 503),
)


class ErrorDetail(msgspec.Struct, frozen=True):
    """One invalid part of a request, and the reason."""

    path: str
    message: str


class Error(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The error object in a response: a code for programs, a message for people, and the request ID to find in
    the log.
    """

    code: str
    message: str
    request_id: str
    details: tuple[ErrorDetail, ...] = ()


class ErrorResponse(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: Error


class StreamedBody:
    """A response body that is produced while it is sent. `size`: its bytes; None if not known in advance.

    Close it after use, even if it was not sent.
    """

    def __init__(self, pieces: Iterator[bytes], size: int | None) -> None:
        self._pieces, self.size = pieces, size

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body in pieces of at most PIECE bytes."""
        for chunk in self._pieces:
            view = memoryview(chunk)
            for start in range(0, len(chunk), PIECE):
                yield bytes(view[start : start + PIECE])

    def close(self) -> None:
        """Close the source of the body, such as an open file."""
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


class Response(msgspec.Struct, frozen=True):
    """A response, encoded as bytes.

    `stream`: a body that is produced while it is sent, used instead of `body`. `events`: events to send as they happen,
    instead of a body. `waits_for`: an event to wait for before the request is answered, or the future of its result.
    `request_body`: the body of a request that waits for an event, since it can be read only once.
    """

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = JSON
    stream: StreamedBody | None = None
    events: EventStream | None = None
    waits_for: EventWait | Future[Any] | None = None
    request_body: bytes = b""


class _SuccessEnvelope(msgspec.Struct, frozen=True, omit_defaults=True):
    data: Any
    warnings: tuple[str, ...] = ()
    undo: UndoOffer | None = None


EVENT_STREAM = "text/event-stream"
#: Makes nginx pass events on at once instead of buffering them.
_UNBUFFERED = (("X-Accel-Buffering", "no"),)
_NOSNIFF, _NO_STORE = ("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store")
_encoder = msgspec.json.Encoder(enc_hook=encode_own_text)


def success(status: int, answer: OperationResult[Any]) -> Response:
    """Return the response for the result of an operation: `{"data": ..., "warnings"?: [...], "undo"?: {...}}`, or a
    file for a Download.
    """
    if isinstance(answer.data, Download):
        return _download(status, answer.data)
    if isinstance(answer.data, EventStream):
        return Response(status, b"", _UNBUFFERED, EVENT_STREAM, events=answer.data)
    headers: tuple[tuple[str, str], ...] = ((REPLAYED, "true"),) if answer.is_replayed else ()
    if answer.etag is not None:
        headers += (("ETag", f'"{answer.etag}"'),)
    offer = answer.undo if isinstance(answer, UndoableResult) else None
    body = _encoder.encode(_SuccessEnvelope(answer.data, answer.warnings, offer))
    waits_for = answer.waits_for if isinstance(answer.waits_for, EventWait | Future) else None
    return Response(status, body, headers, waits_for=waits_for)


def _download(status: int, file: Download) -> Response:
    """Return the response for a file. Its headers make browsers save it and never show it, since a sender of mail
    created it.
    """
    media_type = file.media_type if _MEDIA_TYPE.fullmatch(file.media_type) else "application/octet-stream"
    headers = (("Content-Disposition", disposition(file.filename)), ("Content-Security-Policy", "sandbox"))
    return Response(status, b"", headers, media_type, StreamedBody(file.chunks, file.size))


def disposition(filename: str) -> str:
    """Return a Content-Disposition header that names a download, such as `attachment; filename="a.pdf"` (RFC 6266 4).

    If the name is not plain ASCII, it is added in UTF-8 (RFC 8187).
    """
    plain = _NOT_IN_NAME.sub("_", filename)
    extended = "" if plain == filename else f"; filename*=UTF-8''{quote(filename, safe='', errors='replace')}"
    return f'attachment; filename="{plain}"{extended}'


def failure(problem: Problem, request_id: str, allowed: frozenset[int]) -> Response:
    """Return the error response for a problem. `allowed`: the error statuses that the endpoint documents.

    A problem with another status, or one that the request did not cause, becomes an internal error without details.
    """
    status = next((number for family, number in _STATUS if isinstance(problem, family)), 500)
    if status not in allowed:
        status, problem = _listed_status(status, problem)
    if status == 500 or status not in allowed:
        return internal_error(request_id)
    headers = []
    if status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    if problem.retry_after is not None:
        headers.append(("Retry-After", str(problem.retry_after)))
    return error(status, problem.code, problem.message, request_id, problem.details, tuple(headers))


def error(
    status: int,
    code: str,
    message: str,
    request_id: str,
    details: tuple[Detail, ...] = (),
    headers: tuple[tuple[str, str], ...] = (),
) -> Response:
    """Return an error response with this status, code and message."""
    shown = tuple(ErrorDetail(detail.path, detail.message) for detail in details)
    body = _encoder.encode(ErrorResponse(Error(code, message, request_id, shown)))
    return Response(status, body, headers)


def internal_error(
    request_id: str, message: str = "Internal error. The log of the appliance has details under this request ID."
) -> Response:
    """Return the response to an internal error. The log has the exception under the request ID."""
    return error(500, "internal_error", message, request_id)


def _listed_status(status: int, problem: Problem) -> tuple[int, Problem]:
    """Return the status and problem to respond with. They differ from the given ones if most endpoints do not document
    this status.

    413 and 415 become 400. 503 becomes 429 if the client should retry. Other statuses are returned unchanged.
    """
    if isinstance(problem, TooLarge):
        return 400, MessageTooLarge(what=problem.what, limit=problem.limit)
    if status == 415:
        return 400, Invalid.at("header:Content-Type", "The body must be `application/json`.")
    if status == 503 and problem.retry_after is not None:
        return 429, Throttled(retry_after=problem.retry_after)
    return status, problem


def headers_of(response: Response, request_id: str) -> list[tuple[str, str]]:
    """Return the header fields of a response, including length, request ID and caching."""
    size: int | None = len(response.body)
    if response.events is not None:
        size = None
    elif response.stream is not None:
        size = response.stream.size
    return [
        ("Content-Type", response.media_type),
        *((("Content-Length", str(size)),) if size is not None else ()),
        ("X-Request-Id", request_id),
        _NOSNIFF,
        *(() if any(name == _NO_STORE[0] for name, _ in response.headers) else (_NO_STORE,)),
        *response.headers,
    ]


# --- Trusted proxies, and what they report about the origin of a request ---
#
#     X-Forwarded-For: 198.51.100.7, 10.0.0.5      each proxy appends the address of its own client
#     X-Forwarded-Proto: https                     and the scheme of that client's request
#     Forwarded: for=198.51.100.7;proto=https      the same in one field (RFC 7239)
#
# Only the end of a field comes from a trusted proxy, so it is read from the end, up to the first address that is not a
# trusted proxy. A client may have invented everything before that.


# No real chain is that long; earlier entries are not read.
_MAX_HOPS = 32
_PORT = r"(?::(?:[0-9]{1,5}|_[0-9A-Za-z._-]+))?"
# RFC 7239 section 6; the last form, an IPv6 address without brackets, occurs in X-Forwarded-For.
_NODE = re.compile(rf"\[([^]]+)\]{_PORT}|([0-9.]+){_PORT}|([0-9A-Fa-f:.]+(?:%[^]]*)?)")
# Applied backwards, so that a quote that a client left open does not hide what a proxy appended.
_ELEMENT = re.compile(r'(?:[^",]+|"[^"]*")*')
# No character may match two of its parts: backtracking would block all other requests.
_PAIR = re.compile(r"""[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=("[^"\\]*"|[^ \t",;\\]+)[ \t]*)?(?:;|\Z)""")


@dataclass(frozen=True)
class ForwardedInfo:
    """The client's address, and whether it used HTTPS, as trusted proxies reported them. A value is None if it was not
    reported, or cannot be read.
    """

    address: str | None
    is_secure: bool | None


@dataclass(frozen=True)
class _Hop:
    address: str | None
    scheme: str | None


class TrustedProxies:
    """The addresses and networks of trusted proxies. `headers`: the header fields that they write, `x-forwarded` or
    `forwarded`.
    """

    def __init__(self, networks: Iterable[str] = (), headers: str = "x-forwarded") -> None:
        parsed = [ip_network(_unmap_network(text.partition("%")[0])) for text in networks]
        self._networks = tuple(parsed)
        self._read_headers = self._read_forwarded_field if headers == "forwarded" else self._read_x_forwarded

    def trusts(self, address: str | None) -> bool:
        """Whether a peer with this address is a trusted proxy."""
        if not self._networks or address is None or (parsed := _parse_address(address)) is None:
            return False
        return any(parsed in network for network in self._networks)

    def read_forwarded(self, environ: Mapping[str, Any]) -> ForwardedInfo:
        """Return what a trusted proxy reports about a request. Only the configured kind of header fields is read."""
        return self._read_headers(environ)

    def _read_x_forwarded(self, environ: Mapping[str, Any]) -> ForwardedInfo:
        elements = environ.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", _MAX_HOPS)[-_MAX_HOPS:]
        nodes = (_parse_node(element) for element in reversed(elements) if element.strip())
        schemes = (scheme.strip() for scheme in environ.get("HTTP_X_FORWARDED_PROTO", "").split(","))
        return ForwardedInfo(self._find_client(nodes), _all_https(filter(None, schemes)))

    def _read_forwarded_field(self, environ: Mapping[str, Any]) -> ForwardedInfo:
        schemes: list[str] = []

        def nodes() -> Iterator[str | None]:
            for hop in _parse_hops(environ.get("HTTP_FORWARDED", "")):
                if hop.scheme is not None:
                    schemes.append(hop.scheme)
                yield hop.address

        return ForwardedInfo(self._find_client(nodes()), _all_https(schemes))

    def _find_client(self, nodes: Iterable[str | None]) -> str | None:
        """Return the client's address; None if even the first given address cannot be read.

        `nodes`: the addresses that proxies added to the request, the last one first; None for one that cannot be read.
        The client has the first address that is not one of a trusted proxy. If every address up to the end, or up to an
        unreadable one, belongs to trusted proxies, the last of them is returned.
        """
        client = None
        for node in nodes:
            if node is None:
                break
            client = node
            if not self.trusts(node):
                break
        return client


def trusted_proxies(settings: Settings) -> TrustedProxies:
    """Return the trusted proxies that the settings name."""
    return TrustedProxies(settings.names("server.trusted_proxies"), settings.text("server.proxy_headers"))


def _all_https(schemes: Iterable[str]) -> bool | None:
    said = [scheme.lower() == "https" for scheme in schemes]
    return all(said) if said else None


def _parse_hops(field: str) -> Iterator[_Hop]:
    """Yield the entries of a Forwarded header (RFC 7239 section 4), the last one first.

    An entry that cannot be read yields a hop without address.
    """
    backwards, place = field[::-1], 0
    for _ in range(_MAX_HOPS):
        found = _ELEMENT.match(backwards, place)
        assert found is not None  # noqa: S101 - it matches nothing as well
        place = found.end() + 1
        is_whole = place > len(backwards) or backwards[found.end()] == ","
        if not is_whole or found.group().strip():
            hop = _parse_hop(found.group()[::-1]) if is_whole else None
            # An unreadable element makes the scheme unknown.
            yield hop or _Hop(None, "unreadable")
        if place > len(backwards):
            return


def _parse_hop(element: str) -> _Hop | None:
    """Return one entry of a Forwarded header, or None if it is not valid, for example because a parameter is
    repeated.
    """
    pairs: dict[str, str] = {}
    place = 0
    while place < len(element):
        found = _PAIR.match(element, place)
        if found is None or (found.group(1) or "").lower() in pairs:
            return None
        place = found.end()
        if found.group(1):
            pairs[found.group(1).lower()] = found.group(2).strip('"')
    return _Hop(_parse_node(pairs.get("for", "")), pairs.get("proto"))


def _parse_node(node: str) -> str | None:
    """Return the IP address in an entry of a proxy header, or None. Port, quotes, brackets and zone are removed."""
    text = node.strip()
    text = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    found = _NODE.fullmatch(text)
    parsed = None if found is None else _parse_address(found.group(1) or found.group(2) or found.group(3))
    return None if parsed is None else str(parsed)


@lru_cache(maxsize=256)
def _is_loopback(address: str) -> bool:
    """Whether the address of a connection is one of this computer."""
    parsed = _parse_address(address)
    return parsed is not None and parsed.is_loopback


def _parse_address(address: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in a text, without its zone; None if the text is anything else. An IPv4 address mapped into
    IPv6 becomes IPv4.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


def _unmap_network(network: str) -> str:
    """Return a network of IPv4-mapped IPv6 addresses, such as `::ffff:10.0.0.0/104`, as an IPv4 network; others
    unchanged.
    """
    parsed = ip_network(network)
    mapped = getattr(parsed.network_address, "ipv4_mapped", None)
    return network if mapped is None or parsed.prefixlen < 96 else f"{mapped}/{parsed.prefixlen - 96}"


# --- The origin of a request, and whether this listener serves it ---


# The starts of the WSGI names of header fields that only proxies write. Any of them, even an empty one, shows that the
# request did not start on this computer; only configured proxies are trusted about the client (`proxies`).
_PROXY_HEADERS = (
    "FORWARDED",
    "VIA",
    "X_FORWARDED_",
    "X_REAL_IP",  # nginx, Traefik
    "X_CLIENT_IP",
    "X_ORIGINAL_FORWARDED_FOR",
    "X_ENVOY_EXTERNAL_ADDRESS",
    "CF_CONNECTING_IP",
    "TRUE_CLIENT_IP",
)
_PROXY_HEADER = re.compile("\nHTTP_(?:" + "|".join(_PROXY_HEADERS) + ")")
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.", "127.0.0.1", "[::1]"})


def origin_of(environ: Mapping[str, Any], proxies: TrustedProxies) -> Origin:
    """Return the origin of a request: the client's address, whether it is this computer, and whether HTTPS was used.

    A request that passed a proxy never counts as local, even if the proxy runs on this computer. Only trusted proxies
    can report the client's address, and whether HTTPS was used all the way.
    """
    address = environ.get("REMOTE_ADDR") or None
    is_secure = environ.get("wsgi.url_scheme") == "https"
    if not _is_forwarded(environ):
        return Origin(address, is_local=_is_loopback(address or ""), is_secure=is_secure)
    if not proxies.trusts(address):
        return Origin(address, is_local=False, is_secure=is_secure)
    said = proxies.read_forwarded(environ)
    # If the client used plain HTTP, others could listen, however safe the proxy's own connection is.
    return Origin(
        said.address or address, is_local=False, is_secure=is_secure if said.is_secure is None else said.is_secure
    )


def find_client_address(environ: Mapping[str, Any], proxies: TrustedProxies) -> str | None:
    """Return the client's address. None if the request passed a proxy and no trusted proxy reports the address."""
    address = environ.get("REMOTE_ADDR") or None
    if not _is_forwarded(environ):
        return address
    return proxies.read_forwarded(environ).address if proxies.trusts(address) else None


def bearer_token(environ: Mapping[str, Any]) -> str | None:
    """Return the token of `Authorization: Bearer TOKEN` (RFC 6750 2.1), or None if there is none."""
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


class AllowedHosts:
    """The host names that requests over plain HTTP may be sent to: loopback names and configured ones.

    This stops DNS rebinding, in which the name of an attacker's web site resolves to this computer, so that its pages
    can send requests to the appliance.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = _LOOPBACK_NAMES | {_without_port(name.lower()) for name in names if name}

    def check(self, environ: Mapping[str, Any]) -> None:
        """Raise HostNotAllowed if the Host or Origin header of a plain HTTP request is not allowed. HTTPS is not
        checked.
        """
        if environ.get("wsgi.url_scheme") == "https":
            return
        host = environ.get("HTTP_HOST", "")
        # HTTP/1.0 has no Host, and browsers do not use it. Health checks may; such a request is never local.
        if (host or environ.get("SERVER_PROTOCOL") != "HTTP/1.0") and not self._is_allowed(host):
            raise HostNotAllowed(header="Host")
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and not self._is_same_origin(origin, host):
            raise HostNotAllowed(header="Origin")

    def _is_allowed(self, host: str) -> bool:
        name = _without_port(host.lower())
        return name in self._names or _is_loopback_name(name)

    def _is_same_origin(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
            port = parts.port
        except ValueError:
            return False
        # A page of another program on this computer has a loopback name too, but another port.
        return (
            parts.scheme in ("http", "https")
            and self._is_allowed(parts.netloc)
            and (port == _port(host) or not _is_loopback_name(_without_port(parts.netloc.lower())))
        )


def _is_loopback_name(name: str) -> bool:
    """Whether a host name or address always means the local computer. DNS cannot change what it refers to."""
    if name in _LOOPBACK_NAMES:
        return True
    try:
        return IPv4Address(name).is_loopback
    except ValueError:
        return False


def _is_forwarded(environ: Mapping[str, Any]) -> bool:
    """Whether a request passed a proxy: it has a header that only proxies write, or is HTTP/1.0, which nginx uses by
    default.
    """
    if environ.get("SERVER_PROTOCOL") == "HTTP/1.0":
        return True
    # One search in a joined text is several times faster than one per name, and every request needs it.
    return _PROXY_HEADER.search("\n".join(("", *environ))) is not None


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return (
        name
        if separator and (port.isdigit() or not port) and not (host.startswith("[") and host.endswith("]"))
        else host
    )


def _port(host: str) -> int | None:
    port = host.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else None
