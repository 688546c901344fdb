"""The WSGI application of the HTTP interface: maps routes to operations and contains no rules of its own.

The library Bottle finds the route of a request. A thin layer around it does the rest: it passes the current appliance
to each request (a restore replaces it), gives the request an ID, refuses unknown hosts, and turns every failure into an
error object. Bottle's own request and response objects are not used: they cost more time than an operation does.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

import bottle

from mailbox_appliance import logs
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Problem, ReadersBusy, Restarting, Stopping
from mailbox_appliance.model.decoding import prepare_types
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import DISK_FULL_MESSAGE, is_disk_full
from mailbox_appliance.web import console_files, http
from mailbox_appliance.web.events import CallReader, PageReader, begin_stream
from mailbox_appliance.web.http import (
    AllowedHosts,
    Response,
    StreamedBody,
    bearer_token,
    origin_of,
    path_of,
    read_request,
    refuse_query,
    trusted_proxies,
)
from mailbox_appliance.web.mcp import MCP_PATH, McpHandler, answer_post
from mailbox_appliance.web.metrics import UNKNOWN_ROUTE, Metrics, ServerFigures, require_observer
from mailbox_appliance.web.routes import API_PREFIX, ROUTES, Route
from mailbox_appliance.web.server.connection import HELD_VALUE, HOLD_REQUEST, KEEP_OPEN, STREAM_BODY, HeldRequest

# --- The appliance that serves requests now. A restore replaces it while connections stay open ---


#: Seconds after which clients may retry during a pause.
RESTART_RETRY_AFTER = 3


class ApplianceHandle:
    """Passes the current appliance to each request, and counts the requests that use it, so that a restore can wait for
    them and replace the appliance. May be used from any thread.
    """

    def __init__(self, appliance: Appliance) -> None:
        self._appliance: Appliance = appliance
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._borrowed, self._is_paused = 0, False

    @property
    def is_paused(self) -> bool:
        """Whether new requests are refused because a restore is replacing the appliance."""
        return self._is_paused

    @property
    def borrower_count(self) -> int:
        """The number of requests that use the appliance now."""
        return self._borrowed

    def borrow(self) -> "ApplianceHandle":
        """Context manager: the appliance for one request, which counts as using it until the block ends. Raises
        Restarting while paused.
        """
        return self

    def __enter__(self) -> Appliance:
        with self._lock:
            if self._is_paused:
                raise Restarting(retry_after=RESTART_RETRY_AFTER)
            self._borrowed += 1
            return self._appliance

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._borrowed -= 1
            if not self._borrowed and self._is_paused:
                self._changed.notify_all()

    def pause(self, timeout: float) -> bool:
        """Refuse new requests. Returns whether all requests that use the appliance ended within `timeout` seconds."""
        with self._changed:
            self._is_paused = True
            return self._changed.wait_for(lambda: self._borrowed == 0, timeout)

    def resume(self, appliance: Appliance) -> None:
        """Use this appliance for all requests from now on, and accept requests again."""
        with self._changed:
            self._appliance, self._is_paused = appliance, False


# --- The application ---


log = logging.getLogger(__name__)

StartResponse = Callable[..., Any]
Environ = dict[str, Any]
_STATUS_LINES = {status: f"{status} {reason}" for status, reason in bottle.HTTP_CODES.items()}

RequestHandler = Callable[[Appliance, Environ, str, Mapping[str, str]], Response]


class _Router(bottle.Router):
    """Bottle's router. It compiles the patterns when all routes were added, not again for each of them."""

    _is_complete = False

    def _compile(self, method: str) -> None:
        if self._is_complete:
            super()._compile(method)

    def compile_all(self) -> None:
        """Compile the patterns of all routes. Call it after the last one was added, and before the first request."""
        self._is_complete = True
        for method in self.dyna_routes:
            self._compile(method)


class App:
    """The WSGI application. It uses the appliance only through `handle`, a reference, since a restore replaces the
    appliance.
    """

    def __init__(
        self, appliance: Appliance, allowed_hosts: Iterable[str] = (), assistants: McpHandler | None = None
    ) -> None:
        """Build the routes. `allowed_hosts`: host names that are accepted in addition to loopback names. `assistants`:
        the handler for `/mcp`; without it that path does not exist.
        """
        prepare_types()  # of all operations, which are loaded by now
        self.handle = ApplianceHandle(appliance)
        self._hosts = AllowedHosts(allowed_hosts)
        #: The proxies whose header fields are trusted; a restore sets them again.
        self.proxies = trusted_proxies(appliance.settings)
        #: Figures of the server, such as `connections_https`; the server sets the function.
        self.server_figures: ServerFigures | None = None
        #: Seconds for which browsers must insist on HTTPS (RFC 6797); 0: no header field. The server sets it.
        self.strict_transport = 0
        self._metrics = Metrics()
        self._router = _Router()
        for route in ROUTES:
            path = (API_PREFIX + route.path).rstrip("/")
            self._add_route(route.method, path, self._operation_handler(route))
        self._add_route("GET", "/healthz", _serve_health)
        self._add_route("GET", "/metrics", self._serve_metrics)
        self._add_route("GET", "/", _serve_console)
        self._add_route("GET", console_files.CONSOLE_PREFIX + "/{digest}/{name:path}", _serve_console)
        self._add_route("GET", f"{API_PREFIX}/openapi.json", _serve_openapi)
        self._add_route("GET", f"{API_PREFIX}/docs", _serve_reference)
        self._add_route("GET", f"{API_PREFIX}/docs/{{name}}", _serve_reference)
        self._add_route("GET", f"{API_PREFIX}/oauth/callback", _serve_callback)
        if assistants is not None:
            self._add_route("POST", MCP_PATH, self._mcp_handler(assistants))
        self._router.compile_all()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request, as WSGI defines (PEP 3333)."""
        started = time.perf_counter()
        request_id = new_id("req")
        token = logs.request_id.set(request_id)
        template = UNKNOWN_ROUTE
        try:
            with self.handle.borrow() as appliance:
                template, response = self._answer_request(appliance, environ, request_id)
                try:
                    if self._hold(appliance, environ, template, response):
                        return ()
                except ReadersBusy as busy:
                    response = http.failure(busy, request_id, frozenset({429}))
                is_logged = _is_logged(appliance, response)
            if response.status == 500 and self.handle.is_paused:  # the store was closed while the request used it
                response = _restarting_response(request_id)
            if is_logged:
                _log_request(template, response, started)
        except Restarting:
            response = self._answer_while_restarting(environ, request_id)
        finally:
            logs.request_id.reset(token)
        self._metrics.count_request(template, environ["REQUEST_METHOD"], response.status, time.perf_counter() - started)
        start_response(_STATUS_LINES[response.status], self._headers_of(response, environ, request_id))
        if response.stream is not None:
            return _stream_body(environ, response.stream)
        if environ["REQUEST_METHOD"] == "HEAD":
            return (b"",)
        return () if response.events is not None else (response.body,)

    def _headers_of(self, response: Response, environ: Environ, request_id: str) -> list[tuple[str, str]]:
        headers = http.headers_of(response, request_id)
        # RFC 6797 7.2: never over HTTP. A proxy in front decides itself what it sends its clients.
        if self.strict_transport and environ["wsgi.url_scheme"] == "https":
            headers.append(("Strict-Transport-Security", f"max-age={self.strict_transport}"))
        return headers

    def _hold(self, appliance: Appliance, environ: Environ, template: str, response: Response) -> bool:
        """Let a request wait for events if its response requires it. Returns whether it was set aside.

        A response that is kept open is started all the same. Raises ReadersBusy if too many wait.
        """
        readers, wait, method = appliance.readers, response.waits_for, environ["REQUEST_METHOD"]
        if isinstance(wait, Future):
            environ[HOLD_REQUEST](partial(_keep_until_done, wait))
            return True
        if response.events is not None and method != "HEAD" and KEEP_OPEN in environ:
            readers.check_room(response.events.subscription)
            environ[KEEP_OPEN](partial(begin_stream, readers, response.events.subscription))
        if wait is None or HOLD_REQUEST not in environ or readers.is_stopped:
            return False

        def answer(held: HeldRequest, response: Response) -> None:
            started, request_id = time.perf_counter(), new_id("req")
            headers = self._headers_of(response, environ, request_id)
            body = b"" if method == "HEAD" else response.body

            def record() -> None:
                self._metrics.count_request(template, method, response.status, time.perf_counter() - started)
                if _is_logged(appliance, response):
                    token = logs.request_id.set(request_id)
                    _log_request(template, response, started)
                    logs.request_id.reset(token)

            held.answer(_STATUS_LINES[response.status], headers, body, record)

        readers.check_room(wait.subscription)
        if response.request_body:
            environ[HOLD_REQUEST](lambda held: readers.add(CallReader(wait, held, response.request_body)))
        else:
            environ[HOLD_REQUEST](lambda held: readers.add(PageReader(wait, held, answer)))
        return True

    def _answer_while_restarting(self, environ: Environ, request_id: str) -> Response:
        """Return the response for a request during a restore: a file of the console if one is requested, otherwise 503.

        Console files need no appliance, so a browser page that waits for the restart can be reloaded.
        """
        try:
            self._hosts.check(environ)
            (_, answering), path = self._find_route(environ)
            return (
                _serve_console_file(environ, path) if answering is _serve_console else _restarting_response(request_id)
            )
        except (Problem, bottle.HTTPError):
            return _restarting_response(request_id)

    def use_hosts(self, allowed: Iterable[str]) -> None:
        """Replace the configured host names that are accepted in addition to loopback names."""
        self._hosts = AllowedHosts(allowed)

    def _answer_request(self, appliance: Appliance, environ: Environ, request_id: str) -> tuple[str, Response]:
        """Return two values: the route for metrics (its method and path template, such as `GET
        /api/v1/accounts/{accountId}`), and the response.
        """
        template = UNKNOWN_ROUTE
        try:
            self._hosts.check(environ)
            found, path = self._find_route(environ)
            template, answering = found
            return template, answering(appliance, environ, request_id, path)
        except Problem as problem:
            return template, http.failure(problem, request_id, frozenset({400, 403}))
        except bottle.HTTPError as fault:
            return template, _routing_error(fault, environ, request_id)
        except Exception as error:  # an internal error: it becomes an error object, and the log has the details
            if is_disk_full(error, appliance.folder):
                log.error("request_disk_full", extra={"route": template})
                return template, http.internal_error(request_id, DISK_FULL_MESSAGE)
            log.exception("request_failed", extra={"route": template})
            return template, http.internal_error(request_id)

    def _find_route(self, environ: Environ) -> tuple[tuple[str, RequestHandler], Mapping[str, str]]:
        path = path_of(environ)
        if path is None:
            raise bottle.HTTPError(404)
        if path.endswith("/") and path.startswith((API_PREFIX, MCP_PATH)):
            path = path[:-1]
        environ["PATH_INFO"] = path
        found, arguments = self._router.match(environ)
        return found, arguments

    def _add_route(self, method: str, path: str, answering: RequestHandler) -> None:
        rule = path.replace("{", "<").replace("}", ">")
        self._router.add(rule, method, (f"{method} {path}", answering))

    def _operation_handler(self, route: Route) -> RequestHandler:
        allowed = route.errors | {500}

        def answer(appliance: Appliance, environ: Environ, request_id: str, path: Mapping[str, str]) -> Response:
            try:
                given = self._result_of(appliance, environ, path, route)
                return http.success(given.status or route.status_of(given.data), given)
            except Problem as problem:
                response = http.failure(problem, request_id, allowed)
                if response.status == 500:
                    log.exception("request_failed", extra={"code": problem.code})
                return response

        return answer

    def _result_of(
        self, appliance: Appliance, environ: Environ, path: Mapping[str, str], route: Route
    ) -> OperationResult[Any]:
        """Return the result of an operation. If the request was set aside for a future, that has the result."""
        held = environ.get(HELD_VALUE)
        if not isinstance(held, Future):
            request = read_request(environ, path, route)
            given = route.operation.call(appliance, origin_of(environ, self.proxies), bearer_token(environ), request)
            if not isinstance(given.waits_for, Future) or HOLD_REQUEST in environ:
                return given
            held = given.waits_for
        try:
            return OperationResult(held.result())
        except CancelledError as error:
            raise Stopping(retry_after=RESTART_RETRY_AFTER) from error

    def _serve_metrics(self, appliance: Appliance, environ: Environ, *_: object) -> Response:
        require_observer(appliance, environ, self.proxies)
        told = {} if self.server_figures is None else self.server_figures()
        return self._metrics.make_page(appliance, self.handle.borrower_count, told)

    def _mcp_handler(self, answering: McpHandler) -> RequestHandler:
        return lambda appliance, environ, request_id, _: answer_post(
            answering, appliance, origin_of(environ, self.proxies), environ, request_id
        )


def _stream_body(environ: Environ, body: StreamedBody) -> Iterable[bytes]:
    """Return the body of a streamed response as WSGI expects it.

    Some servers send a body piece by piece while the client reads. Such a server gets the body directly, and this
    returns an empty body.
    """
    if environ["REQUEST_METHOD"] == "HEAD":
        body.close()
        return (b"",)
    if STREAM_BODY in environ:
        environ[STREAM_BODY](body)
        return ()
    return body


def _keep_until_done(future: Future[Any], held: HeldRequest) -> None:
    held.keep(future)
    future.add_done_callback(lambda _: held.release())


def _is_logged(appliance: Appliance, response: Response) -> bool:
    return appliance.settings.flag("log.requests") or response.status >= 500


def _log_request(template: str, response: Response, started: float) -> None:
    """`started`: the time of `time.perf_counter` at which work on the response began."""
    millis = round((time.perf_counter() - started) * 1000, 2)
    log.info("request", extra={"route": template, "status": response.status, "ms": millis})


def _restarting_response(request_id: str) -> Response:
    return http.failure(Restarting(retry_after=RESTART_RETRY_AFTER), request_id, frozenset({503}))


def _routing_error(fault: bottle.HTTPError, environ: Environ, request_id: str) -> Response:
    """Return the response for a path that does not exist (404), or that does not support the method (405)."""
    if fault.status_code == 405:
        message = (
            f"This path does not support {environ['REQUEST_METHOD']}. The Allow header lists the supported methods."
        )
        headers = (("Allow", _add_head(fault.get_header("Allow", ""))),)
        return http.error(405, "method_not_allowed", message, request_id, headers=headers)
    return http.error(404, "not_found", "This path does not exist.", request_id)


def _add_head(allowed: str) -> str:
    """Return the value of an Allow header with HEAD added to GET (RFC 9110 9.1); Bottle does not list HEAD."""
    methods = {method.strip() for method in allowed.split(",")}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _serve_console(_: Appliance, environ: Environ, __: str, path: Mapping[str, str]) -> Response:
    return _serve_console_file(environ, path)


def _serve_console_file(environ: Environ, path: Mapping[str, str]) -> Response:
    return (
        console_files.serve_file(environ, path["digest"], path["name"]) if path else console_files.serve_page(environ)
    )


def _serve_health(*_: object) -> Response:
    return Response(200, b"ok\n", media_type="text/plain; charset=utf-8")


def _serve_callback(_: Appliance, environ: Environ, *__: object) -> Response:
    return console_files.callback_page(environ.get("QUERY_STRING", ""))


def _serve_reference(_: Appliance, environ: Environ, __: str, path: Mapping[str, str]) -> Response:
    return console_files.serve_reference(environ, **path)


def _serve_openapi(_: Appliance, environ: Environ, *__: object) -> Response:
    refuse_query(environ)
    from mailbox_appliance.web.openapi import describe  # deferred: few requests need it

    return Response(200, describe(), media_type="application/json; charset=utf-8")
