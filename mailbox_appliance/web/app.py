"""The HTTP door as a WSGI application: routes to operations, nothing decided here.

Bottle holds the routes and finds the one that a request means. Around it lies a thin layer that gives every request an
id, refuses foreign hosts, and sees to it that whatever goes wrong leaves as an error object. Bottle's own request and
response objects are passed by: everything here is written out in one way, and they cost more than an operation does.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import bottle

from mailbox_appliance import logs
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Problem, Restarting
from mailbox_appliance.model.decoding import prepare_types
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.files import is_disk_full
from mailbox_appliance.web import console_files, oauth_callback, pages, responses
from mailbox_appliance.web.answers import HAND_OVER
from mailbox_appliance.web.assistants import PATH, Assistants, answer_post
from mailbox_appliance.web.callers import AllowedHosts, bearer_token, origin_of
from mailbox_appliance.web.measured import Figures, Measured
from mailbox_appliance.web.openapi import describe
from mailbox_appliance.web.present import RETRY_AFTER, Present
from mailbox_appliance.web.proxies import proxies_of
from mailbox_appliance.web.requests import path_of, read_request, refuse_query
from mailbox_appliance.web.responses import Response, Streamed
from mailbox_appliance.web.routes import PREFIX, ROUTES, Route
from mailbox_appliance.web.tally import UNKNOWN, Tally

log = logging.getLogger(__name__)

StartResponse = Callable[..., Any]
Environ = dict[str, Any]
_STATUS_LINES = {status: f"{status} {reason}" for status, reason in bottle.HTTP_CODES.items()}

Answering = Callable[[Appliance, Environ, str, Mapping[str, str]], Response]


class App:
    """The application: call it as WSGI does. `present` is the appliance behind it, which a restore replaces."""

    def __init__(
        self, appliance: Appliance, allowed_hosts: Iterable[str] = (), assistants: Assistants | None = None
    ) -> None:
        """`assistants` answers at `/mcp`; without one there is no such path."""
        prepare_types()  # of all operations, which are loaded by now
        self.handle = Present(appliance)
        self._hosts = AllowedHosts(allowed_hosts)
        #: Whose word counts on where a request comes from; who puts another appliance behind it sets it anew.
        self.proxies = proxies_of(appliance.settings)
        #: What whoever listens measures, such as `connections_https`; it says so.
        self.server_figures: Figures | None = None
        #: Seconds for which browsers are to keep to HTTPS (RFC 6797); 0: nothing is said. Who listens sets it.
        self.strict_transport = 0
        self._request_counter = Tally()
        self._metrics_source = Measured(self._request_counter)
        self._bottle = bottle.Bottle()
        for route in ROUTES:
            path = (PREFIX + route.path).rstrip("/")
            self._add_route(route.method, path, self._operation_handler(route))
        self._add_route("GET", "/healthz", self._page_handler(pages.healthz))
        self._add_route("GET", "/metrics", self._serve_metrics)
        self._add_route("GET", "/", _console)
        self._add_route("GET", console_files.PREFIX + "/{digest}/{name:path}", _console)
        self._add_route("GET", f"{PREFIX}/openapi.json", _openapi)
        self._add_route("GET", f"{PREFIX}/oauth/callback", _callback)
        if assistants is not None:
            self._add_route("POST", PATH, self._mcp_handler(assistants))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        started = time.perf_counter()
        request_id = new_id("req")
        token = logs.request_id.set(request_id)
        template = UNKNOWN
        try:
            with self.handle.borrow() as appliance:
                template, response = self._answer_request(appliance, environ, request_id)
                is_logged = appliance.settings.flag("log.requests") or response.status >= 500
            if response.status == 500 and self.handle.is_paused:  # the store was closed under its hands
                response = _restarting(request_id)
            if is_logged:
                millis = round((time.perf_counter() - started) * 1000, 2)
                log.info("request", extra={"route": template, "status": response.status, "ms": millis})
        except Restarting:
            response = self._answer_while_restarting(environ, request_id)
        finally:
            logs.request_id.reset(token)
        self._request_counter.count(template, environ["REQUEST_METHOD"], response.status, time.perf_counter() - started)
        headers = responses.headers_of(response, request_id)
        # RFC 6797 7.2: never by HTTP. What a proxy in front of us says to its clients is its own.
        if self.strict_transport and environ["wsgi.url_scheme"] == "https":
            headers.append(("Strict-Transport-Security", f"max-age={self.strict_transport}"))
        start_response(_STATUS_LINES[response.status], headers)
        if response.stream is not None:
            return _streamed(environ, response.stream)
        return (b"",) if environ["REQUEST_METHOD"] == "HEAD" else (response.body,)

    def _answer_while_restarting(self, environ: Environ, request_id: str) -> Response:
        """The console's own files need no appliance: who waits in it may load the page anew."""
        try:
            self._hosts.check(environ)
            (_, answering), path = self._find_route(environ)
            return _console_file(environ, path) if answering is _console else _restarting(request_id)
        except (Problem, bottle.HTTPError):
            return _restarting(request_id)

    def use_hosts(self, allowed: Iterable[str]) -> None:
        """Answer to these names from now on."""
        self._hosts = AllowedHosts(allowed)

    def _answer_request(self, appliance: Appliance, environ: Environ, request_id: str) -> tuple[str, Response]:
        """The template of the route that a request means, and the response."""
        template = UNKNOWN
        try:
            self._hosts.check(environ)
            found, path = self._find_route(environ)
            template, answering = found
            return template, answering(appliance, environ, request_id, path)
        except Problem as problem:
            return template, responses.failure(problem, request_id, frozenset({400, 403}))
        except bottle.HTTPError as fault:
            return template, _not_routed(fault, environ, request_id)
        except Exception as error:  # a fault of ours: it must leave as an error object, and be found in the log
            if is_disk_full(error, appliance.folder):
                log.error("the disk of the store is full, so a request failed", extra={"route": template})
                return template, responses.disk_full(request_id)
            log.exception("request failed", extra={"route": template})
            return template, responses.internal_error(request_id)

    def _find_route(self, environ: Environ) -> tuple[tuple[str, Answering], Mapping[str, str]]:
        path = path_of(environ)
        if path is None:
            raise bottle.HTTPError(404)
        if path.endswith("/") and path.startswith((PREFIX, PATH)):
            path = path[:-1]
        environ["PATH_INFO"] = path
        route, arguments = self._bottle.match(environ)
        return route.callback, arguments or {}

    def _add_route(self, method: str, path: str, answering: Answering) -> None:
        rule = path.replace("{", "<").replace("}", ">")
        self._bottle.route(rule, method, (f"{method} {path}", answering))

    def _operation_handler(self, route: Route) -> Answering:
        allowed = route.errors | {500}

        def answer(appliance: Appliance, environ: Environ, request_id: str, path: Mapping[str, str]) -> Response:
            try:
                request = read_request(environ, path, route)
                given = route.operation.call(
                    appliance, origin_of(environ, self.proxies), bearer_token(environ), request
                )
                return responses.success(given.status or route.status_of(given.data), given)
            except Problem as problem:
                response = responses.failure(problem, request_id, allowed)
                if response.status == 500:
                    log.exception("request failed", extra={"code": problem.code})
                return response

        return answer

    def _serve_metrics(self, appliance: Appliance, environ: Environ, *_: object) -> Response:
        pages.require_observer(appliance, environ, self.proxies)
        told = {} if self.server_figures is None else self.server_figures()
        return pages.metrics(self._metrics_source.collect_values(appliance, self.handle.borrower_count, told))

    def _mcp_handler(self, answering: Assistants) -> Answering:
        return lambda appliance, environ, request_id, _: answer_post(
            answering, appliance, origin_of(environ, self.proxies), environ, request_id
        )

    def _page_handler(self, page: Callable[[Appliance], Response]) -> Answering:
        return lambda appliance, *_: page(appliance)


def _streamed(environ: Environ, body: Streamed) -> Iterable[bytes]:
    """The body for the server to write: piece by piece as the client reads, where it can do that."""
    if environ["REQUEST_METHOD"] == "HEAD":
        body.close()
        return (b"",)
    if HAND_OVER in environ:
        environ[HAND_OVER](body)
        return ()
    return body


def _restarting(request_id: str) -> Response:
    return responses.failure(Restarting(retry_after=RETRY_AFTER), request_id, frozenset({503}))


def _not_routed(fault: bottle.HTTPError, environ: Environ, request_id: str) -> Response:
    """What Bottle itself says: there is no such path, or it has no such method."""
    if fault.status_code == 405:
        message = f"This path has no {environ['REQUEST_METHOD']}; see the Allow header."
        headers = (("Allow", _with_head(fault.get_header("Allow", ""))),)
        return responses.error(405, "method_not_allowed", message, request_id, headers=headers)
    return responses.error(404, "not_found", "There is no such path.", request_id)


def _with_head(allowed: str) -> str:
    """The methods of a path; where there is GET there is HEAD (RFC 9110 9.1), which Bottle does not list."""
    methods = {method.strip() for method in allowed.split(",")}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _console(_: Appliance, environ: Environ, __: str, path: Mapping[str, str]) -> Response:
    return _console_file(environ, path)


def _console_file(environ: Environ, path: Mapping[str, str]) -> Response:
    return console_files.served(environ, path["digest"], path["name"]) if path else console_files.page(environ)


def _callback(_: Appliance, environ: Environ, *__: object) -> Response:
    return oauth_callback.page(environ.get("QUERY_STRING", ""))


def _openapi(_: Appliance, environ: Environ, *__: object) -> Response:
    refuse_query(environ)
    return Response(200, describe(), media_type="application/json; charset=utf-8")
