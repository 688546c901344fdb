"""The route table: which operation the API offers where, and with which statuses. One row a route, on one screen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mailbox_appliance.model.deliveries import Delivery, LegacySend
from mailbox_appliance.operations import (
    accounts,
    actions,
    api_keys,
    audit,
    backups,
    contents,
    deliveries,
    drafts,
    enrolment,
    folders,
    https,
    licence,
    members,
    messages,
    oauth,
    sending,
    sessions,
    settings,
    status,
    store,
)
from mailbox_appliance.operations.operation import Operation

API_PREFIX = "/api/v1"
_MESSAGE = "/accounts/{accountId}/messages/{messageId}"
_ATTACHMENT = f"{_MESSAGE}/attachments/{{attachmentId}}"
_DELIVERIES = "/accounts/{accountId}/delivery-operations"
_MEMBER, _BACKUP = "/admin/members/{memberId}", "/admin/backups/{backupId}"

# The statuses that most endpoints share; others are in the endpoint's row.
MAIL = frozenset({400, 401, 403, 404, 409, 422, 429, 500, 503})
AUTH = frozenset({400, 401, 403, 404, 409, 413, 429})
ADMIN = AUTH
OPEN = frozenset({400, 403, 429})
OAUTH_APP = frozenset({400, 401, 403, 404, 409, 413, 415, 500, 502})
KEY_UPDATE = frozenset({400, 401, 403, 404, 409, 413, 415, 500, 502})


@dataclass(frozen=True)
class Route:
    """One row: `errors` are the only error statuses it may answer, besides 405 and 500."""

    method: str
    path: str
    operation: Operation[Any, Any]
    errors: frozenset[int]
    success: int = 200
    #: The media type of a streamed file; otherwise JSON.
    media: str = "application/json"
    also: int | None = None
    chooses_also: Callable[[Any], bool] | None = None

    def status_of(self, data: object) -> int:
        """The success status of an answer."""
        return self.also if self.also is not None and self.chooses_also and self.chooses_also(data) else self.success


def _is_scheduled(delivery: Delivery | LegacySend) -> bool:
    return isinstance(delivery, Delivery) and delivery.kind == "scheduled"


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", status.get_about, OPEN),
    Route("GET", "/status", status.get_status, ADMIN),
    Route("GET", "/status/history", status.get_history, ADMIN),
    Route("POST", "/admin/crashes/{trace}/dismiss", status.dismiss_crash, ADMIN),
    Route("POST", "/setup", enrolment.set_up, ADMIN | {415}, success=201),
    Route("POST", "/auth/login", sessions.log_in, AUTH),
    Route("POST", "/auth/enroll", enrolment.enroll, AUTH),
    Route("POST", "/auth/password-reset", enrolment.reset_password, AUTH),
    Route("POST", "/auth/console-links", enrolment.create_console_link, AUTH | {415}, success=201),
    Route("POST", "/auth/console-links/redeem", enrolment.redeem_console_link, AUTH | {415}),
    Route("POST", "/auth/logout", sessions.log_out, AUTH | {415}),
    Route("GET", "/me", sessions.who_am_i, AUTH),
    Route("PATCH", "/me", sessions.update_me, AUTH | {415}),
    Route("POST", "/me/password", sessions.change_password, AUTH | {415}),
    Route("GET", "/me/sessions", sessions.list_sessions, AUTH),
    Route("DELETE", "/me/sessions/{sessionId}", sessions.revoke_session, AUTH),
    Route("GET", "/me/api-keys", api_keys.list_keys, AUTH),
    Route("POST", "/me/api-keys", api_keys.create_key, ADMIN | {415}, success=201),
    Route("DELETE", "/me/api-keys/{keyId}", api_keys.revoke_key, ADMIN),
    Route("GET", "/admin/api-keys", api_keys.list_all_keys, ADMIN),
    Route("POST", "/admin/api-keys", api_keys.create_key_of, ADMIN | {415}, success=201),
    Route("PATCH", "/admin/api-keys/{keyId}", api_keys.update_key, KEY_UPDATE),
    Route("DELETE", "/admin/api-keys/{keyId}", api_keys.revoke_any_key, ADMIN),
    Route("GET", "/admin/members", members.list_members, ADMIN),
    Route("POST", "/admin/members", members.create_member, ADMIN, success=201),
    Route("GET", _MEMBER, members.get_member, ADMIN),
    Route("PATCH", _MEMBER, members.update_member, ADMIN),
    Route("DELETE", _MEMBER, members.delete_member, ADMIN),
    Route("POST", f"{_MEMBER}/invitation", members.invite_member, ADMIN, success=201),
    Route("POST", f"{_MEMBER}/password-reset", members.reset_password, ADMIN, success=201),
    Route("GET", f"{_MEMBER}/sessions", members.list_sessions_of, ADMIN),
    Route("DELETE", f"{_MEMBER}/sessions", members.revoke_sessions_of, ADMIN),
    Route("GET", f"{_MEMBER}/sessions/{{sessionId}}", members.get_session_of, ADMIN),
    Route("DELETE", f"{_MEMBER}/sessions/{{sessionId}}", members.revoke_session_of, ADMIN),
    Route("GET", "/admin/audit-events", audit.list_events, ADMIN),
    Route("GET", "/admin/audit-events/verify", audit.verify_events, ADMIN),
    Route("GET", "/me/audit-events", audit.list_own_events, AUTH),
    Route("GET", "/accounts", accounts.list_accounts, MAIL),
    Route("POST", "/accounts", accounts.add_account, MAIL | {413}, success=201),
    Route("POST", "/accounts/discover", accounts.discover, MAIL | {413}),
    Route("GET", "/accounts/{accountId}", accounts.get_account, MAIL),
    Route("PATCH", "/accounts/{accountId}", accounts.update_account, MAIL | {413}),
    Route("DELETE", "/accounts/{accountId}", accounts.remove_account, MAIL),
    Route("PUT", "/accounts/{accountId}/access", accounts.set_access, MAIL | {413}),
    Route("POST", "/accounts/{accountId}/reconnect", accounts.reconnect_account, MAIL | {413}),
    Route("POST", "/accounts/oauth/{provider}", oauth.begin_sign_in, MAIL | {413, 502}),
    Route("POST", "/accounts/oauth/{provider}/finish", oauth.finish_sign_in, MAIL | {413, 502}, success=201),
    Route("GET", "/admin/accounts", accounts.list_every_account, ADMIN),
    Route("POST", "/admin/accounts", accounts.add_account_of_member, ADMIN | {415, 422, 503}, success=201),
    Route("GET", "/accounts/{accountId}/folders", messages.list_folders, MAIL),
    Route("PATCH", "/accounts/{accountId}/imap/folders", folders.map_folders, MAIL - {500} | {413}),
    Route("GET", "/accounts/{accountId}/labels", messages.list_labels, MAIL),
    Route("GET", "/accounts/{accountId}/sender-addresses", folders.list_sender_addresses, MAIL),
    Route("GET", "/messages", messages.list_all_messages, MAIL),
    Route("GET", "/accounts/{accountId}/messages", messages.list_messages, MAIL),
    Route("GET", "/accounts/{accountId}/messages/{messageId}", messages.get_message, MAIL),
    Route("GET", f"{_MESSAGE}/body", contents.get_body, MAIL),
    Route("GET", f"{_MESSAGE}/raw", contents.get_source, MAIL, media="message/rfc822"),
    Route("GET", _ATTACHMENT, contents.get_attachment, MAIL, media="*/*"),
    Route("POST", f"{_ATTACHMENT}/download-link", contents.link_attachment, MAIL, success=201),
    Route("GET", "/downloads/{token}", contents.download, MAIL - {401}, media="*/*"),
    Route("GET", "/accounts/{accountId}/threads/{threadId}", messages.get_thread, MAIL),
    Route("POST", "/accounts/{accountId}/messages/actions", actions.perform, MAIL),
    Route("GET", "/accounts/{accountId}/drafts", drafts.list_drafts, MAIL),
    Route("POST", "/accounts/{accountId}/drafts", drafts.create_draft, MAIL | {413}, success=201),
    Route("GET", "/accounts/{accountId}/drafts/{draftId}", drafts.get_draft, MAIL),
    Route("PUT", "/accounts/{accountId}/drafts/{draftId}", drafts.update_draft, MAIL | {413}),
    Route("DELETE", "/accounts/{accountId}/drafts/{draftId}", drafts.delete_draft, MAIL),
    Route("POST", "/accounts/{accountId}/send", sending.send, MAIL, also=202, chooses_also=_is_scheduled),
    Route("POST", "/accounts/{accountId}/send/preview", sending.preview, MAIL),
    Route("POST", f"{_MESSAGE}/forward", sending.forward, MAIL),
    Route("GET", "/accounts/{accountId}/scheduled", deliveries.list_scheduled, MAIL),
    Route("DELETE", "/accounts/{accountId}/scheduled/{scheduleId}", deliveries.cancel_scheduled, MAIL),
    Route("GET", "/delivery-operations", deliveries.list_all_deliveries, MAIL),
    Route("GET", _DELIVERIES, deliveries.list_deliveries, MAIL),
    Route("GET", f"{_DELIVERIES}/{{operationId}}", deliveries.get_delivery, MAIL),
    Route("GET", f"{_DELIVERIES}/{{operationId}}/timeline", deliveries.get_timeline, MAIL),
    Route("POST", f"{_DELIVERIES}/{{operationId}}/resolve", deliveries.resolve_delivery, MAIL | {413}),
    Route("GET", "/admin/oauth-apps", oauth.get_oauth_apps, ADMIN | {502}),
    Route("PUT", "/admin/oauth-apps/{provider}", oauth.set_oauth_app, OAUTH_APP),
    Route("DELETE", "/admin/oauth-apps/{provider}", oauth.remove_oauth_app, ADMIN | {502}),
    Route("GET", "/admin/license", licence.get_license, ADMIN | {502}),
    Route("PUT", "/admin/license", licence.set_license, ADMIN | {415, 502}),
    Route("DELETE", "/admin/license", licence.remove_license, ADMIN | {502}),
    Route("GET", "/admin/backups", backups.list_backups, ADMIN),
    Route("POST", "/admin/backups", backups.create_backup, ADMIN | {415}, success=201),
    Route("GET", _BACKUP, backups.download_backup, ADMIN, media="application/octet-stream"),
    Route("POST", f"{_BACKUP}/verify", backups.verify_backup, ADMIN | {415}),
    Route("POST", "/admin/restore", backups.restore, ADMIN | {415}, also=202),
    Route("GET", "/admin/store", store.get_store, ADMIN),
    Route("POST", "/admin/store/check", store.check_store, ADMIN | {415}),
    Route("GET", "/admin/settings", settings.get_settings, ADMIN),
    Route("PATCH", "/admin/settings", settings.update_settings, ADMIN | {415}),
    Route("GET", "/admin/https", https.get_https, ADMIN),
    Route("PATCH", "/admin/https", https.update_https, ADMIN | {415}),
    Route("PUT", "/admin/https/certificate", https.put_certificate, ADMIN | {415}),
    Route("POST", "/admin/https/rotate", https.rotate, ADMIN | {415}),
)
