"""The response to a request for whose body no memory is left, after the checks of caller and access."""

import pytest
from webtest import TestApp

from mailbox_appliance.operations.operation import JSON_LIMIT
from mailbox_appliance.web.app import App
from mailbox_appliance.web.routes import ROUTES
from tests.checked_client import HOST, CheckedClient
from tests.operations.filled import FilledMailbox

MIB = 1 << 20


@pytest.mark.parametrize(
    ("method", "path", "has_token", "size", "refusal"),
    [
        ("POST", "/accounts/{id}/send", True, 2 * MIB, (503, "provider_unavailable")),
        ("POST", "/accounts/{id}/send", True, 36 * MIB, (503, "provider_unavailable")),
        ("POST", "/accounts/{id}/send", True, 36 * MIB + 1, (400, "message_too_large")),
        ("POST", "/accounts/{id}/send", False, 2 * MIB, (401, "unauthenticated")),
        ("POST", "/accounts/acc_none/send", True, 2 * MIB, (404, "not_found")),
        ("POST", "/accounts/{id}/send?unknown=1", True, 2 * MIB, (400, "invalid_request")),
        ("POST", "/accounts/{id}/drafts", True, 2 * MIB, (503, "provider_unavailable")),
        ("POST", "/accounts/{id}/drafts", True, 36 * MIB + 1, (413, "body_too_large")),
        ("POST", "/accounts/{id}/messages/actions", True, MIB + 1, (400, "message_too_large")),
        ("POST", "/accounts", True, 2 * MIB, (413, "body_too_large")),
        ("POST", "/auth/logout", True, 2 * MIB, (413, "body_too_large")),
        ("GET", "/me", True, 2 * MIB, None),
    ],
)
def test_a_request_without_memory_for_its_body_is_put_off(
    checked_client: CheckedClient, method: str, path: str, has_token: bool, size: int, refusal: tuple[int, str] | None
) -> None:
    mailbox = FilledMailbox(checked_client.appliance, checked_client.member["id"])
    environ = {"HTTP_HOST": HOST, "REMOTE_ADDR": "127.0.0.1", "mailbox.body_postponed": size}
    door = TestApp(App(checked_client.appliance), extra_environ=environ)
    headers = {"Authorization": f"Bearer {checked_client.token}"} if has_token else {}
    headers |= {"Idempotency-Key": "key", "Content-Type": "application/json"}
    answer = door.request("/api/v1" + path.format(id=mailbox.id), method=method, headers=headers, expect_errors=True)
    if refusal is None:
        assert answer.status_int == 200
    else:
        assert (answer.status_int, answer.json["error"]["code"]) == refusal
    assert ("Retry-After" in answer.headers) == (answer.status_int == 503)


def test_every_endpoint_that_takes_large_bodies_may_put_them_off() -> None:
    large = [route for route in ROUTES if route.operation.body_limit > JSON_LIMIT]
    assert large
    assert all(503 in route.errors for route in large)


@pytest.mark.parametrize("body", [b"{", b"{}", b'{"a": 1}', b"\xff"])
def test_a_body_is_ignored_where_the_method_gives_it_no_meaning(checked_client: CheckedClient, body: bytes) -> None:
    assert checked_client.ask("GET", "/me", body, headers={"Content-Type": "text/plain"}).status == 200
    assert checked_client.ask("DELETE", "/me/sessions/ses_none", body).refusal == (404, "not_found")
