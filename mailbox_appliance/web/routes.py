"""The route table: which operation the API offers where, and with which statuses. One row a route, on one screen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mailbox_appliance.model.records import Delivery, LegacySend
from mailbox_appliance.operations import (
    accounts,
    actions,
    admin_accounts,
    api_keys,
    audit,
    backups,
    console_links,
    contents,
    deliveries,
    discovery,
    downloads,
    drafts,
    enrolment,
    folders,
    history,
    https,
    instance_settings,
    license,  # noqa: A004 - the contract's name
    member_sessions,
    members,
    messages,
    oauth_apps,
    oauth_flows,
    profile,
    restoring,
    scheduled,
    sender_addresses,
    sending,
    sessions,
    set_up,
    sharing,
    status,
    stores,
)
from mailbox_appliance.operations.operation import Operation

PREFIX = "/api/v1"
_MESSAGE = "/accounts/{accountId}/messages/{messageId}"
_ATTACHMENT = f"{_MESSAGE}/attachments/{{attachmentId}}"
_DELIVERIES = "/accounts/{accountId}/delivery-operations"
_MEMBER, _BACKUP = "/admin/members/{memberId}", "/admin/backups/{backupId}"

# The sets of the specification; what an endpoint has beyond them stands in its row.
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
    #: What a file is said to be that is streamed; JSON else.
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
    Route("GET", "/status/history", history.get_history, ADMIN),
    Route("POST", "/admin/crashes/{trace}/dismiss", status.dismiss_crash, ADMIN),
    Route("POST", "/setup", set_up.set_up, ADMIN | {415}, success=201),
    Route("POST", "/auth/login", sessions.log_in, AUTH),
    Route("POST", "/auth/enroll", enrolment.enroll, AUTH),
    Route("POST", "/auth/password-reset", enrolment.reset_password, AUTH),
    Route("POST", "/auth/console-links", console_links.create_console_link, AUTH | {415}, success=201),
    Route("POST", "/auth/console-links/redeem", console_links.redeem_console_link, AUTH | {415}),
    Route("POST", "/auth/logout", sessions.log_out, AUTH | {415}),
    Route("GET", "/me", sessions.who_am_i, AUTH),
    Route("PATCH", "/me", profile.update_me, AUTH | {415}),
    Route("POST", "/me/password", profile.change_password, AUTH | {415}),
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
    Route("GET", f"{_MEMBER}/sessions", member_sessions.list_sessions_of, ADMIN),
    Route("DELETE", f"{_MEMBER}/sessions", member_sessions.revoke_sessions_of, ADMIN),
    Route("GET", f"{_MEMBER}/sessions/{{sessionId}}", member_sessions.get_session_of, ADMIN),
    Route("DELETE", f"{_MEMBER}/sessions/{{sessionId}}", member_sessions.revoke_session_of, ADMIN),
    Route("GET", "/admin/audit-events", audit.list_events, ADMIN),
    Route("GET", "/admin/audit-events/verify", audit.verify_events, ADMIN),
    Route("GET", "/me/audit-events", audit.list_own_events, AUTH),
    Route("GET", "/accounts", accounts.list_accounts, MAIL),
    Route("POST", "/accounts", accounts.add_account, MAIL | {413}, success=201),
    Route("POST", "/accounts/discover", discovery.discover, MAIL | {413}),
    Route("GET", "/accounts/{accountId}", accounts.get_account, MAIL),
    Route("PATCH", "/accounts/{accountId}", accounts.update_account, MAIL | {413}),
    Route("DELETE", "/accounts/{accountId}", accounts.remove_account, MAIL),
    Route("PUT", "/accounts/{accountId}/access", sharing.set_access, MAIL | {413}),
    Route("POST", "/accounts/{accountId}/reconnect", accounts.reconnect_account, MAIL | {413}),
    Route("POST", "/accounts/oauth/{provider}", oauth_flows.begin_sign_in, MAIL | {413, 502}),
    Route("POST", "/accounts/oauth/{provider}/finish", oauth_flows.finish_sign_in, MAIL | {413, 502}, success=201),
    Route("GET", "/admin/accounts", admin_accounts.list_every_account, ADMIN),
    Route("POST", "/admin/accounts", admin_accounts.add_account_of_member, ADMIN | {415, 422, 503}, success=201),
    Route("GET", "/accounts/{accountId}/folders", messages.list_folders, MAIL),
    Route("PATCH", "/accounts/{accountId}/imap/folders", folders.map_folders, MAIL - {500} | {413}),
    Route("GET", "/accounts/{accountId}/labels", messages.list_labels, MAIL),
    Route("GET", "/accounts/{accountId}/sender-addresses", sender_addresses.list_sender_addresses, MAIL),
    Route("GET", "/messages", messages.list_all_messages, MAIL),
    Route("GET", "/accounts/{accountId}/messages", messages.list_messages, MAIL),
    Route("GET", "/accounts/{accountId}/messages/{messageId}", messages.get_message, MAIL),
    Route("GET", f"{_MESSAGE}/body", contents.get_body, MAIL),
    Route("GET", f"{_MESSAGE}/raw", contents.get_source, MAIL, media="message/rfc822"),
    Route("GET", _ATTACHMENT, contents.get_attachment, MAIL, media="*/*"),
    Route("POST", f"{_ATTACHMENT}/download-link", downloads.link_attachment, MAIL, success=201),
    Route("GET", "/downloads/{token}", downloads.download, MAIL - {401}, media="*/*"),
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
    Route("GET", "/accounts/{accountId}/scheduled", scheduled.list_scheduled, MAIL),
    Route("DELETE", "/accounts/{accountId}/scheduled/{scheduleId}", scheduled.cancel_scheduled, MAIL),
    Route("GET", "/delivery-operations", deliveries.list_all_deliveries, MAIL),
    Route("GET", _DELIVERIES, deliveries.list_deliveries, MAIL),
    Route("GET", f"{_DELIVERIES}/{{operationId}}", deliveries.get_delivery, MAIL),
    Route("GET", f"{_DELIVERIES}/{{operationId}}/timeline", deliveries.get_timeline, MAIL),
    Route("POST", f"{_DELIVERIES}/{{operationId}}/resolve", deliveries.resolve_delivery, MAIL | {413}),
    Route("GET", "/admin/oauth-apps", oauth_apps.get_oauth_apps, ADMIN | {502}),
    Route("PUT", "/admin/oauth-apps/{provider}", oauth_apps.set_oauth_app, OAUTH_APP),
    Route("DELETE", "/admin/oauth-apps/{provider}", oauth_apps.remove_oauth_app, ADMIN | {502}),
    Route("GET", "/admin/license", license.get_license, ADMIN | {502}),
    Route("PUT", "/admin/license", license.set_license, ADMIN | {415, 502}),
    Route("DELETE", "/admin/license", license.remove_license, ADMIN | {502}),
    Route("GET", "/admin/backups", backups.list_backups, ADMIN),
    Route("POST", "/admin/backups", backups.create_backup, ADMIN | {415}, success=201),
    Route("GET", _BACKUP, backups.download_backup, ADMIN, media="application/octet-stream"),
    Route("POST", f"{_BACKUP}/verify", backups.verify_backup, ADMIN | {415}),
    Route("POST", "/admin/restore", restoring.restore, ADMIN | {415}, also=202),
    Route("GET", "/admin/store", stores.get_store, ADMIN),
    Route("POST", "/admin/store/check", stores.check_store, ADMIN | {415}),
    Route("GET", "/admin/settings", instance_settings.get_settings, ADMIN),
    Route("PATCH", "/admin/settings", instance_settings.update_settings, ADMIN | {415}),
    Route("GET", "/admin/https", https.get_https, ADMIN),
    Route("PATCH", "/admin/https", https.update_https, ADMIN | {415}),
    Route("PUT", "/admin/https/certificate", https.put_certificate, ADMIN | {415}),
    Route("POST", "/admin/https/rotate", https.rotate, ADMIN | {415}),
)
