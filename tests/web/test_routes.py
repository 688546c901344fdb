"""The route table against the contract: the operations, their statuses, and who may call them."""

from mailbox_appliance.operations.operation import Access
from mailbox_appliance.web.routes import ROUTES, Route

MAIL = {400, 401, 403, 404, 409, 422, 429, 500, 503}
ADMIN = {400, 401, 403, 404, 409, 413, 429}

# The contract and the specification: method and path, access, success, errors.
PROMISED: tuple[tuple[str, Access, set[int], set[int]], ...] = (
    ("GET /", Access.ANYBODY, {200}, {400, 403, 429}),
    ("GET /status", Access.CREDENTIAL, {200}, ADMIN),
    ("POST /setup", Access.LOCAL, {201}, ADMIN | {415}),
    ("POST /auth/login", Access.ANYBODY, {200}, ADMIN),
    ("POST /auth/enroll", Access.ANYBODY, {200}, ADMIN),
    ("POST /auth/password-reset", Access.ANYBODY, {200}, ADMIN),
    ("POST /auth/console-links", Access.SESSION, {201}, ADMIN | {415}),
    ("POST /auth/console-links/redeem", Access.ANYBODY, {200}, ADMIN | {415}),
    ("POST /auth/logout", Access.SESSION, {200}, ADMIN | {415}),
    ("GET /me", Access.CREDENTIAL, {200}, ADMIN),
    ("PATCH /me", Access.SESSION, {200}, ADMIN | {415}),
    ("POST /me/password", Access.SESSION, {200}, ADMIN | {415}),
    ("GET /me/sessions", Access.SESSION, {200}, ADMIN),
    ("DELETE /me/sessions/{sessionId}", Access.SESSION, {200}, ADMIN),
    ("GET /me/api-keys", Access.SESSION, {200}, ADMIN),
    ("POST /me/api-keys", Access.SESSION, {201}, ADMIN | {415}),
    ("DELETE /me/api-keys/{keyId}", Access.SESSION, {200}, ADMIN),
    ("GET /admin/api-keys", Access.CREDENTIAL, {200}, ADMIN),
    ("POST /admin/api-keys", Access.CREDENTIAL, {201}, ADMIN | {415}),
    ("PATCH /admin/api-keys/{keyId}", Access.CREDENTIAL, {200}, {400, 401, 403, 404, 409, 413, 415, 500, 502}),
    ("DELETE /admin/api-keys/{keyId}", Access.CREDENTIAL, {200}, ADMIN),
    ("GET /admin/members", Access.CREDENTIAL, {200}, ADMIN),
    ("POST /admin/members", Access.CREDENTIAL, {201}, ADMIN),
    ("GET /admin/members/{memberId}", Access.CREDENTIAL, {200}, ADMIN),
    ("PATCH /admin/members/{memberId}", Access.CREDENTIAL, {200}, ADMIN),
    ("DELETE /admin/members/{memberId}", Access.CREDENTIAL, {200}, ADMIN),
    ("POST /admin/members/{memberId}/invitation", Access.CREDENTIAL, {201}, ADMIN),
    ("POST /admin/members/{memberId}/password-reset", Access.CREDENTIAL, {201}, ADMIN),
    ("GET /admin/members/{memberId}/sessions", Access.CREDENTIAL, {200}, ADMIN),
    ("DELETE /admin/members/{memberId}/sessions", Access.CREDENTIAL, {200}, ADMIN),
    ("GET /admin/members/{memberId}/sessions/{sessionId}", Access.CREDENTIAL, {200}, ADMIN),
    ("DELETE /admin/members/{memberId}/sessions/{sessionId}", Access.CREDENTIAL, {200}, ADMIN),
    ("GET /admin/audit-events", Access.CREDENTIAL, {200}, ADMIN),
    ("GET /admin/audit-events/verify", Access.CREDENTIAL, {200}, ADMIN),
    ("GET /me/audit-events", Access.SESSION, {200}, ADMIN),
    ("GET /accounts", Access.CREDENTIAL, {200}, MAIL),
    ("POST /accounts", Access.SESSION, {201}, MAIL | {413}),
    ("GET /accounts/{accountId}", Access.CREDENTIAL, {200}, MAIL),
    ("PATCH /accounts/{accountId}", Access.SESSION, {200}, MAIL | {413}),
    ("DELETE /accounts/{accountId}", Access.SESSION, {200}, MAIL),
    ("PUT /accounts/{accountId}/access", Access.CREDENTIAL, {200}, MAIL | {413}),
    ("POST /accounts/{accountId}/reconnect", Access.SESSION, {200}, MAIL | {413}),
    ("POST /accounts/oauth/{provider}", Access.SESSION, {200}, MAIL | {413, 502}),
    ("POST /accounts/oauth/{provider}/finish", Access.SESSION, {201}, MAIL | {413, 502}),
    ("GET /admin/accounts", Access.CREDENTIAL, {200}, ADMIN),
    ("POST /admin/accounts", Access.CREDENTIAL, {201}, ADMIN | {415, 422, 503}),
    ("GET /accounts/{accountId}/folders", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/messages", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/messages/{messageId}", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/messages/{messageId}/body", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/messages/{messageId}/raw", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/messages/{messageId}/attachments/{attachmentId}", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/threads/{threadId}", Access.CREDENTIAL, {200}, MAIL),
    ("PATCH /accounts/{accountId}/imap/folders", Access.SESSION, {200}, MAIL - {500} | {413}),
    ("POST /accounts/{accountId}/messages/actions", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/drafts", Access.CREDENTIAL, {200}, MAIL),
    ("POST /accounts/{accountId}/drafts", Access.CREDENTIAL, {201}, MAIL | {413}),
    ("GET /accounts/{accountId}/drafts/{draftId}", Access.CREDENTIAL, {200}, MAIL),
    ("PUT /accounts/{accountId}/drafts/{draftId}", Access.CREDENTIAL, {200}, MAIL | {413}),
    ("DELETE /accounts/{accountId}/drafts/{draftId}", Access.CREDENTIAL, {200}, MAIL),
    ("POST /accounts/{accountId}/send", Access.CREDENTIAL, {200, 202}, MAIL),
    ("POST /accounts/{accountId}/send/preview", Access.CREDENTIAL, {200}, MAIL),
    ("POST /accounts/{accountId}/messages/{messageId}/forward", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/scheduled", Access.CREDENTIAL, {200}, MAIL),
    ("DELETE /accounts/{accountId}/scheduled/{scheduleId}", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/delivery-operations", Access.CREDENTIAL, {200}, MAIL),
    ("GET /accounts/{accountId}/delivery-operations/{operationId}", Access.CREDENTIAL, {200}, MAIL),
    ("POST /accounts/{accountId}/delivery-operations/{operationId}/resolve", Access.SESSION, {200}, MAIL | {413}),
    ("GET /admin/oauth-apps", Access.CREDENTIAL, {200}, ADMIN | {502}),
    ("PUT /admin/oauth-apps/{provider}", Access.CREDENTIAL, {200}, {400, 401, 403, 404, 409, 413, 415, 500, 502}),
    ("DELETE /admin/oauth-apps/{provider}", Access.CREDENTIAL, {200}, ADMIN | {502}),
    ("GET /admin/license", Access.CREDENTIAL, {200}, ADMIN | {502}),
    ("PUT /admin/license", Access.CREDENTIAL, {200}, ADMIN | {415, 502}),
    ("DELETE /admin/license", Access.CREDENTIAL, {200}, ADMIN | {502}),
    ("GET /admin/backups", Access.SESSION, {200}, ADMIN),
    ("POST /admin/backups", Access.SESSION, {201}, ADMIN | {415}),
    ("GET /admin/backups/{backupId}", Access.SESSION, {200}, ADMIN),
    ("POST /admin/backups/{backupId}/verify", Access.SESSION, {200}, ADMIN | {415}),
    ("POST /admin/restore", Access.SESSION, {200, 202}, ADMIN | {415}),
    ("GET /admin/settings", Access.SESSION, {200}, ADMIN),
    ("PATCH /admin/settings", Access.SESSION, {200}, ADMIN | {415}),
)


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_everything_promised_is_offered_as_promised() -> None:
    offered = {name(route): route for route in ROUTES}
    for promised, access, success, errors in PROMISED:
        route = offered[promised]
        assert route.operation.rights.access is access, promised
        assert {route.success, route.also} - {None} == success, promised
        assert route.errors == errors, promised


def test_no_route_stands_twice() -> None:
    assert len({name(route) for route in ROUTES}) == len(ROUTES)


def test_a_route_gives_its_operation_all_that_it_takes() -> None:
    for route in ROUTES:
        operation = route.operation
        in_path = {part[1:-1] for part in route.path.split("/") if part.startswith("{")}
        assert ("accountId" in in_path) == (operation.account is not None), name(route)
        assert in_path - {"accountId"} <= operation.parameters.keys(), name(route)
        assert operation.body is None or route.method in ("POST", "PUT", "PATCH"), name(route)
        # A status that an operation cannot avoid must be listed.
        assert operation.rights.access is Access.ANYBODY or {401, 403} <= route.errors, name(route)
        assert not operation.asks_servers or 503 in route.errors, name(route)
        assert operation.body is None or {400} <= route.errors, name(route)
        assert 404 in route.errors or not in_path, name(route)


def test_what_a_retry_is_told_by_is_the_route_itself() -> None:
    for route in ROUTES:
        if route.operation.request_hash is not None:
            assert route.operation.fingerprint_route == f"{route.method} /api/v1{route.path}"
