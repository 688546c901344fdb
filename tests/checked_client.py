"""A client of the HTTP interface, in process, that holds every answer against the contract before a test looks at it.

Checked each time: the request id, the envelope or the error object, that the status is one the endpoint lists, that
the code belongs to the status, the schema in the OpenAPI description, and the shape of everything that is a message.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from openapi_schema_validator import OAS31Validator
from webtest import TestApp, TestRequest

from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.web.app import App
from mailbox_appliance.web.openapi import describe
from tests.message_shape import check_messages

PASSWORD = "correct horse battery"
HOST = "127.0.0.1:8025"
JSON = "application/json; charset=utf-8"
ULID = r"[0-9a-hjkmnp-tv-z]{26}"
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

#: Every code there is, by status: section 1 of the contract.
CODES = {
    400: {
        "invalid_json",
        "invalid_request",
        "message_too_large",
        "invalid_token",
        "backup_wrong_passphrase",
        "backup_truncated",
        "backup_altered",
        "backup_newer_format",
        "not_a_backup",
    },
    401: {"unauthenticated", "invalid_credentials"},
    403: {
        "permission_denied",
        "session_required",
        "https_required",
        "member_suspended",
        "plan_denied",
        "policy_denied",
        "host_not_allowed",
    },
    404: {"not_found"},
    405: {"method_not_allowed"},
    409: {"idempotency_conflict", "conflict", "email_taken", "last_admin", "account_exists", "sync_required"},
    413: {"body_too_large"},
    415: {"unsupported_media_type"},
    422: {"unsupported_capability"},
    429: {"too_many_attempts", "provider_rate_limited"},
    500: {"internal_error"},
    502: {"license_unverified"},
    503: {"provider_unavailable"},
}


@dataclass(frozen=True)
class Answer:
    """What came back; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        """The JSON of the answer."""
        return json.loads(self.content)

    @property
    def data(self) -> Any:
        """The `data` of a success."""
        assert self.status < 300, self.body
        return self.body["data"]

    @property
    def warnings(self) -> list[str]:
        """The `warnings` of a success."""
        return list(self.body.get("warnings", ()))

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and code of an error."""
        assert self.status >= 400, self.body
        return self.status, self.body["error"]["code"]

    @property
    def message(self) -> str:
        """The sentence of an error."""
        return str(self.body["error"]["message"])

    @property
    def places(self) -> list[str]:
        """The paths of the details of an error."""
        return [detail["path"] for detail in self.body["error"].get("details", ())]


class CheckedClient:
    """Asks `/api/v1`, as a program on this computer would; `token` goes with every request that says nothing else."""

    def __init__(self, appliance: Appliance, *allowed_hosts: str) -> None:
        self.appliance, self.token, self.member = appliance, "", {}
        self._app = TestApp(App(appliance, allowed_hosts))

    token: str
    member: dict[str, Any]
    _already: ClassVar[WeakKeyDictionary[Appliance, tuple[str, dict[str, Any]]]] = WeakKeyDictionary()

    @classmethod
    def is_set_up(cls, appliance: Appliance, token: str, member: dict[str, Any]) -> None:
        """Say that an appliance began with a first administrator, who is logged in; see `set_up`."""
        cls._already[appliance] = token, member

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        peer: str = "127.0.0.1",
        host: str | None = HOST,
        root: str = "/api/v1",
        secure: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request. A `bytes` body goes as it is, others as JSON; `token=""`: without Authorization."""
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        fields = {"Content-Type": "application/json"} if sent else {}
        if bearer := self.token if token is None else token:
            fields["Authorization"] = f"Bearer {bearer}"
        environ = {"REMOTE_ADDR": peer, "HTTP_HOST": host or "", "SERVER_PROTOCOL": "HTTP/1.1"}
        environ["wsgi.url_scheme"] = "https" if secure else "http"
        request = TestRequest.blank(
            root + path, environ, headers=fields | dict(headers or {}), method=method, body=sent
        )
        if host is None:
            del request.environ["HTTP_HOST"]
        response = self._app.do_request(request, expect_errors=True)
        seen = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(response.status_int, seen, response.body)
        check(answer, method, (root + path).partition("?")[0])
        return answer

    def pages(self, path: str, limit: int) -> Iterator[dict[str, Any]]:
        """Yield the `data` of each page of a list or, by a path with `/threads/`, of a thread."""
        cursor, sign = "", "&" if "?" in path else "?"
        while True:
            page = self.ask("GET", f"{path}{sign}limit={limit}{cursor}").data
            yield page
            if (following := page.get("messages", page)["nextCursor"]) is None:
                return
            cursor = f"&cursor={following}"

    def set_up(self) -> "CheckedClient":
        """Make the first administrator and go on as her; once also where the appliance began with her."""
        if self.appliance in self._already:
            self.token, self.member = self._already.pop(self.appliance)
            return self
        (self.appliance.folder / SETUP_CODE).write_text("code\n")
        request = {"setupCode": "code", "name": "Ada", "email": "ada@example.org", "deviceName": "test"}
        return self._become(self.ask("POST", "/setup", request | {"password": PASSWORD}, token=""))

    def log_in(self, email: str = "ada@example.org", device: str = "test") -> "CheckedClient":
        """Another client with a session of its own."""
        other = CheckedClient(self.appliance)
        request = {"email": email, "password": PASSWORD, "deviceName": device}
        return other._become(other.ask("POST", "/auth/login", request))

    def _become(self, answer: Answer) -> "CheckedClient":
        self.token, self.member = answer.data["token"], answer.data["member"]
        return self


def check(answer: Answer, method: str, path: str) -> None:
    """Hold an answer against the contract. AssertionError tells what does not fit."""
    assert re.fullmatch(f"req_{ULID}", answer.headers["x-request-id"])
    assert answer.headers["x-content-type-options"] == "nosniff"
    path = path.rstrip("/")
    if answer.status < 400 and (
        not path.startswith("/api/v1") or path.endswith(("/openapi.json", "/callback", "/docs", "/events/stream"))
    ):
        return
    if answer.status < 400 and "application/json" not in _content(method, path, answer.status):
        _check_file(answer, method)
        return
    assert answer.headers["content-type"] == JSON
    if method == "HEAD":
        assert answer.content == b""
        return
    assert int(answer.headers["content-length"]) == len(answer.content)
    _check_envelope(answer)
    schema = _schema(method, path, answer.status)
    if schema is None:
        is_page = (
            path in ("/metrics", "/api/v1/openapi.json", "/api/v1/docs") or answer.refusal[1] == "host_not_allowed"
        )
        assert answer.status in (404, 405) or is_page, f"{method} {path} is unknown"
    else:
        _validator(json.dumps(schema)).validate(answer.body)
    _check_times(answer.body)
    _check_replayed(answer)
    check_messages(answer.body)


def _check_envelope(answer: Answer) -> None:
    body = answer.body
    if answer.status < 400:
        assert body.keys() == {"data"} | ({"warnings", "undo"} & body.keys())
        assert body.get("warnings", ["there"]), "empty warnings are left out"
        return
    error = body["error"]
    assert body.keys() == {"error"}
    assert error.keys() == {"code", "message", "requestId"} | ({"details"} & error.keys())
    assert error.get("details", ["there"]), "empty details are left out"
    assert error["code"] in CODES[answer.status]
    assert error["requestId"] == answer.headers["x-request-id"]
    assert error["message"][-1:] in (".", "?"), f"this is no sentence: {error['message']}"
    assert ("www-authenticate" in answer.headers) == (answer.status == 401)
    assert answer.headers.get("www-authenticate", "Bearer") == "Bearer"
    if answer.status == 429:
        assert int(answer.headers["retry-after"]) > 0


def _check_replayed(answer: Answer) -> None:
    """The header of an answer of an earlier release comes with such an answer, and with no other."""
    data = answer.body.get("data")
    is_old = isinstance(data, dict) and data.keys() - {"warnings"} == {"id", "threadId"}
    assert answer.headers.get("idempotency-replayed") == ("true" if is_old else None)


def _check_file(answer: Answer, method: str) -> None:
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.content == b"" if method == "HEAD" else int(answer.headers["content-length"]) == len(answer.content)


def _check_times(value: object, name: str = "") -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_times(inner, key)
    elif isinstance(value, list):
        for inner in value:
            _check_times(inner)
    elif isinstance(value, str) and (name == "date" or re.fullmatch(r"[a-z]\w*[a-z]At", name)):
        assert TIMESTAMP.fullmatch(value), f"{name}: {value}"


def _schema(method: str, path: str, status: int) -> Any:
    """The schema that the description has for this answer; None where there is no such endpoint."""
    return _content(method, path, status).get("application/json", {}).get("schema")


def _content(method: str, path: str, status: int) -> Any:
    """What the description says that this answer holds, by media type; nothing where there is no such endpoint."""
    method = "get" if method == "HEAD" else method
    for pattern, methods in _paths().items():
        if re.fullmatch(pattern, path) and method.lower() in methods:
            responses = methods[method.lower()]["responses"]
            assert str(status) in responses, f"{method} {path} does not list {status}"
            return resolve_response(responses[str(status)])["content"]
    return {}


@cache
def description() -> Any:
    return json.loads(describe())


def resolve_response(response: Any) -> Any:
    """The response that a reference leads to; others as they are."""
    if "$ref" not in response:
        return response
    return description()["components"]["responses"][response["$ref"].rpartition("/")[2]]


@cache
def _paths() -> dict[str, Any]:
    return {re.sub(r"{\w+}", "[^/]+", path): methods for path, methods in description()["paths"].items()}


@cache
def _validator(schema: str) -> Any:
    return OAS31Validator(json.loads(schema) | {"components": description()["components"]})
