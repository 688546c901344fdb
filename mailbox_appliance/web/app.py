"""The HTTP door as a WSGI application: routes to operations, nothing decided here.

Bottle finds the route. Around it lies a thin layer that gives every request an id, refuses foreign hosts, and sees to
it that whatever goes wrong leaves as an error object.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import bottle

from mailbox_appliance import logs
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import NotFound, Problem
from mailbox_appliance.ids import new_id
from mailbox_appliance.web import pages, responses
from mailbox_appliance.web.callers import AllowedHosts, bearer_token, origin_of
from mailbox_appliance.web.openapi import describe
from mailbox_appliance.web.requests import read_request
from mailbox_appliance.web.responses import Response
from mailbox_appliance.web.routes import PREFIX, ROUTES, Route

log = logging.getLogger(__name__)

StartResponse = Callable[..., Any]
Environ = dict[str, Any]

_ROUTE, _STATUS, _REQUEST_ID = "mailbox.route", "mailbox.status", "mailbox.request_id"


class App:
    """The application: call it as WSGI does."""

    def __init__(self, appliance: Appliance, allowed_hosts: Iterable[str] = ()) -> None:
        self._appliance = appliance
        self._hosts = AllowedHosts(allowed_hosts)
        self._logs_requests = appliance.settings.flag("log.requests")
        self._bottle = bottle.Bottle()
        self._bottle.config["json.enable"] = False
        self._bottle.default_error_handler = self._not_routed
        for route in ROUTES:
            rule = (PREFIX + route.path).rstrip("/").replace("{", "<").replace("}", ">")
            self._bottle.route(rule, route.method, self._handler(route))
        for path, page in (("/healthz", pages.healthz), ("/", pages.front)):
            self._bottle.route(path, "GET", self._page(path, page))
        self._bottle.route(f"{PREFIX}/openapi.json", "GET", self._page(f"{PREFIX}/openapi.json", _openapi))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        started = time.perf_counter()
        request_id = environ[_REQUEST_ID] = new_id("req")
        token = logs.request_id.set(request_id)
        try:
            path = environ["PATH_INFO"]
            if path.endswith("/") and path.startswith(PREFIX):
                environ["PATH_INFO"] = path.rstrip("/")
            try:
                self._hosts.check(environ)
            except Problem as problem:
                return self._refuse(problem, environ, start_response)
            answer: Iterable[bytes] = self._bottle.wsgi(environ, start_response)
            return answer
        finally:
            self._note(environ, started)
            logs.request_id.reset(token)

    def _handler(self, route: Route) -> Callable[..., bottle.HTTPResponse]:
        template = f"{route.method} {PREFIX}{route.path}"
        allowed = route.errors | {500}

        def handle(**path: str) -> bottle.HTTPResponse:
            environ = bottle.request.environ
            environ[_ROUTE] = template
            try:
                request = read_request(environ, path, route)
                answer = route.operation.call(self._appliance, origin_of(environ), bearer_token(environ), request)
                response = responses.success(route.status_of(answer.data), answer)
            except Problem as problem:
                response = responses.failure(problem, environ[_REQUEST_ID], allowed)
                if response.status == 500:
                    log.exception("request failed", extra={"route": template, "code": problem.code})
            except Exception:  # a fault of ours: it must leave as an error object, and be found in the log
                log.exception("request failed", extra={"route": template})
                response = responses.internal_error(environ[_REQUEST_ID])
            return _written(environ, response)

        return handle

    def _page(self, path: str, page: Callable[[Appliance], Response]) -> Callable[[], bottle.HTTPResponse]:
        def handle() -> bottle.HTTPResponse:
            environ = bottle.request.environ
            environ[_ROUTE] = f"GET {path}"
            return _written(environ, page(self._appliance))

        return handle

    def _not_routed(self, fault: bottle.HTTPError) -> bytes:
        """What Bottle itself says: there is no such path, or it has no such method."""
        environ = bottle.request.environ
        request_id = environ.get(_REQUEST_ID, "")
        if fault.status_code == 405:
            message = f"This path has no {environ['REQUEST_METHOD']}; see the Allow header."
            response = responses.error(405, "method_not_allowed", message, request_id)
            bottle.response.set_header("Allow", _with_head(fault.get_header("Allow", "")))
        elif fault.status_code == 404:
            problem = NotFound(what="endpoint")
            response = responses.error(404, problem.code, "There is no such path.", request_id)
        else:
            response = responses.internal_error(request_id)
        environ[_STATUS] = response.status
        bottle.response.status = response.status
        for name, value in responses.headers_of(response, request_id).items():
            bottle.response.set_header(name, value)
        return response.body

    def _refuse(self, problem: Problem, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        response = responses.failure(problem, environ[_REQUEST_ID], frozenset({403}))
        environ[_STATUS] = response.status
        headers = list(responses.headers_of(response, environ[_REQUEST_ID]).items())
        start_response(f"{response.status} {bottle.HTTP_CODES[response.status]}", headers)
        return (response.body,)

    def _note(self, environ: Environ, started: float) -> None:
        status = environ.get(_STATUS, 500)
        if self._logs_requests or status >= 500:
            millis = round((time.perf_counter() - started) * 1000, 2)
            route = environ.get(_ROUTE, "unknown")
            log.info("request", extra={"route": route, "status": status, "ms": millis})


def _with_head(allowed: str) -> str:
    """The methods of a path; where there is GET there is HEAD (RFC 9110 9.1), which Bottle does not list."""
    methods = {method.strip() for method in allowed.split(",")}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _written(environ: Environ, response: Response) -> bottle.HTTPResponse:
    environ[_STATUS] = response.status
    headers = responses.headers_of(response, environ[_REQUEST_ID])
    return bottle.HTTPResponse(response.body, response.status, headers)


def _openapi(appliance: Appliance) -> Response:  # noqa: ARG001 - every page gets it
    return Response(200, describe(), media_type="application/json; charset=utf-8")
