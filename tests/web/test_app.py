"""The application as a whole: paths and methods, request IDs, pages, and the log."""

import json
import re
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from tests.checked_client import HOST, CheckedClient
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD, RunningAppliance

MIB = 1024 * 1024


@pytest.fixture
def anybody(appliance: Appliance) -> CheckedClient:
    """Return a client without a credential, for an appliance that is not set up."""
    return CheckedClient(appliance)


UNKNOWN = (
    "/nothing",
    "/me/nothing",
    "/accounts//messages",
    "/accounts/a/b/c",
    "/ME",
    "/me.json",
    "/me/%2e%2e/status",
    "/%ff%fe",
    "/openapi.json/x",
)


@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_path_is_told(anybody: CheckedClient, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT"):
        answer = anybody.ask(method, path)
        assert answer.status == 404
        if method != "HEAD":
            assert answer.refusal == (404, "not_found")


def test_outside_the_api_an_unknown_path_is_told_in_the_same_shape(anybody: CheckedClient) -> None:
    for path in ("/favicon.ico", "/api", "/api/v2/me", "/api/v1x", "//api/v1/me", "/healthz/x"):
        assert anybody.ask("GET", path, root="").refusal == (404, "not_found")


# Path, method, allowed methods.
METHODS: tuple[tuple[str, str, str], ...] = (
    ("/me", "POST", "GET,HEAD,PATCH"),
    ("/me", "OPTIONS", "GET,HEAD,PATCH"),
    ("/me", "TRACE", "GET,HEAD,PATCH"),
    ("/status", "PATCH", "GET,HEAD"),
    ("/auth/login", "GET", "POST"),
    ("/auth/login", "OPTIONS", "POST"),
    ("/auth/login", "HEAD", "POST"),
    ("/accounts", "DELETE", "GET,HEAD,POST"),
    ("/accounts/acc_1", "PUT", "DELETE,GET,HEAD,PATCH"),
    ("/me/sessions/ses_1", "GET", "DELETE"),
    ("/accounts/acc_1/send/", "GET", "POST"),
    ("/openapi.json", "POST", "GET,HEAD"),
)


@pytest.mark.parametrize(("path", "method", "allowed"), METHODS)
def test_a_path_without_the_method_tells_what_it_has(
    anybody: CheckedClient, path: str, method: str, allowed: str
) -> None:
    answer = anybody.ask(method, path)
    assert answer.status == 405
    assert ",".join(sorted(re.split(r",\s*", answer.headers["allow"]))) == allowed
    if method != "HEAD":
        assert answer.refusal == (405, "method_not_allowed")


def test_head_is_get_without_a_body(checked_client: CheckedClient) -> None:
    for path in ("/me", "", "/accounts/acc_unknown"):
        got, head = checked_client.ask("GET", path), checked_client.ask("HEAD", path)
        assert head.status == got.status
        assert head.headers["content-length"] == str(len(got.content))


def test_every_request_has_an_id_of_its_own(anybody: CheckedClient) -> None:
    answers = [anybody.ask(method, path) for method in ("GET", "POST") for path in ("", "/me", "/x", "/auth/login")]
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)
    forged = anybody.ask("GET", "", headers={"X-Request-Id": "mine"})
    assert forged.headers["x-request-id"] != "mine"


def test_the_pages_beside_the_api(anybody: CheckedClient) -> None:
    health = anybody.ask("GET", "/healthz", root="")
    assert (health.status, health.content) == (200, b"ok\n")
    assert health.headers["content-type"] == "text/plain; charset=utf-8"
    front = anybody.ask("GET", "/", root="")
    assert (front.status, front.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in front.headers["content-security-policy"]
    assert front.headers["referrer-policy"] == "no-referrer"
    described = anybody.ask("GET", "/openapi.json")
    assert (described.status, described.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert described.body["openapi"] == "3.1.0"
    for page in (health, described):
        assert page.headers["cache-control"] == "no-store"
    assert front.headers["cache-control"] == "no-cache"


def test_the_description_has_no_parameters(anybody: CheckedClient) -> None:
    for query, place in (("x=1", "query:x"), ("token=", "query:token"), ("x=1&x=2", "query:x"), ("%ff=1", "query:")):
        refused = anybody.ask("GET", f"/openapi.json?{query}")
        assert (refused.refusal, refused.places) == ((400, "invalid_request"), [place]), query
    assert anybody.ask("GET", "/openapi.json?").status == 200


def test_the_pages_answer_to_no_foreign_host_either(anybody: CheckedClient) -> None:
    for path in ("/", "/healthz", "/api/v1/openapi.json"):
        assert anybody.ask("GET", path, root="", host="evil.example").refusal == (403, "host_not_allowed")
        assert anybody.ask("GET", path, root="", host=HOST).status == 200


def test_over_the_wire_large_bodies_are_refused_and_the_next_request_is_served(
    running: RunningAppliance, mail_server: MailServer
) -> None:
    user = mail_server.fresh_user()
    account = running.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    table = (
        ("/auth/login", 2, (413, "body_too_large")),
        ("/auth/login", 37, (413, "body_too_large")),
        ("/accounts/acc_unknown/send", 37, (404, "not_found")),
        ("/accounts/{id}/send", 37, (400, "message_too_large")),
        ("/accounts/{id}/drafts", 37, (413, "body_too_large")),
    )
    for path, size, refusal in table:
        answer = running.ask("POST", path.format(id=account), "x" * (size * MIB), Idempotency_Key="k")
        assert (answer.status, answer.code) == refusal
        assert answer.headers["X-Request-Id"] == answer.body["error"]["requestId"]
    assert running.ask("BREW", "/me").status == 405
    assert running.ask("GET", "/me").status == 200


def test_the_log_has_ids_routes_and_statuses_and_nothing_private(
    running: RunningAppliance, mail_server: MailServer
) -> None:
    user, other = mail_server.fresh_user(), mail_server.fresh_user()
    mail_server.deliver(user, b"From: eve@private.test\r\nSubject: Private-Matter\r\n\r\nPrivate-Words\r\n")
    account = running.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    wait_until(lambda: running.ask("GET", f"/accounts/{account}").data["status"] == "ready", lambda: "is not ready", 10)
    message = running.ask("GET", f"/accounts/{account}/messages").data["items"][0]
    body = {"to": [{"email": other, "name": "Private-Name"}], "subject": "Private-Subject", "body": {"text": "Hi"}}
    server = {"host": "127.0.0.1", "port": mail_server.imap_port, "security": "none", "username": user}
    refused = {"email": user.replace("user", "Private-User"), "imap": server | {"password": "Private-Password"}}
    requests = (
        ("GET", f"/accounts/{account}/messages/{message['id']}", None, 200),
        ("GET", f"/accounts/{account}/messages?folder=Private-Folder", None, 404),
        ("GET", "/me?Private-Query=1", None, 400),
        ("GET", "/Private-Path", None, 404),
        ("PUT", "/Private-Path", None, 404),
        ("POST", "/me", {"Private-Field": 1}, 405),
        ("GET", "/accounts/Private-Id", None, 404),
        ("POST", f"/accounts/{account}/send", body, 200),
        ("POST", f"/accounts/{account}/send", body | {"subject": "Private-Other"}, 409),
        ("POST", "/accounts", refused | {"smtp": server | {"password": "Private-Password"}}, 400),
        ("POST", "/auth/login", {"email": "Private@x.org", "password": "Private-Word", "deviceName": "Private-D"}, 401),
        ("GET", "/me", None, 403),
    )
    seen = {}
    for method, path, sent, status in requests:
        fields: dict[str, Any] = {"Host": "Private-Host"} if status == 403 else {}
        answer = running.ask(method, path, sent, Idempotency_Key="Private-Key", **fields)
        assert answer.status == status, answer
        seen[answer.headers["X-Request-Id"]] = status
    assert running.ask("GET", "/me", token="mbxs_Private-Token").status == 401
    assert running.stop() == 0
    text = (running.folder / "logs" / "appliance.log").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    logged = {line["requestId"]: line for line in lines if line["event"] == "request"}
    assert {request_id: logged[request_id]["status"] for request_id in seen} == seen
    routes = {line["route"] for line in logged.values()}
    assert {"GET /api/v1/accounts/{accountId}/messages/{messageId}", "POST /api/v1/auth/login", "unknown"} <= routes
    token = str(running.token)
    for private in (
        "private",
        PASSWORD,
        user,
        other,
        user.partition("@")[0],
        token,
        token[5:30],
        "ada@",
        "secret",
        "?",
    ):
        assert private.lower() not in text.lower(), private
    assert (running.folder / "logs" / "appliance.log").stat().st_mode & 0o077 == 0
