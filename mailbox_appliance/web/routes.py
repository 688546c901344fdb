"""The route table of the REST API: for each method and path, the operation and the possible statuses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mailbox_appliance.model.deliveries import Delivery, LegacySendResult
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
    events,
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
    webhooks,
)
from mailbox_appliance.operations.operation import Operation
from mailbox_appliance.operations.oversight import approvals, policies

API_PREFIX = "/api/v1"
_MESSAGE = "/accounts/{accountId}/messages/{messageId}"
_ATTACHMENT = f"{_MESSAGE}/attachments/{{attachmentId}}"
_DELIVERIES = "/accounts/{accountId}/delivery-operations"
_SCHEDULED, _OAUTH = "/accounts/{accountId}/scheduled", "/accounts/oauth/{provider}"
_WEBHOOK, _APPROVAL = "/webhooks/{webhookId}", "/approvals/{approvalId}"
_POLICY, _KEY_POLICY = "/accounts/{accountId}/sending-policy", "/me/api-keys/{keyId}/sending-policy"
_ADMIN_KEY_POLICY = "/admin/api-keys/{keyId}/sending-policy"
_MEMBER, _BACKUP = "/admin/members/{memberId}", "/admin/backups/{backupId}"

# The statuses that most endpoints share; others are in the endpoint's row.
MAIL = frozenset({400, 401, 403, 404, 409, 422, 429, 500, 503})
AUTH = frozenset({400, 401, 403, 404, 409, 413, 429})
ADMIN = AUTH
_LINKED = (AUTH - {401}) | {503}
OPEN = frozenset({400, 403, 429})
STORED = frozenset({400, 401, 403, 404, 409, 413, 415, 500, 502})


@dataclass(frozen=True)
class Route:
    """One row of the table of routes. `errors`: the error statuses that it may return, in addition to 405 and 500.

    `name`: the `operationId` in the OpenAPI document. Client generators derive method names from it, so it never
    changes, even if the function is renamed.
    """

    method: str
    path: str
    name: str
    operation: Operation[Any, Any]
    errors: frozenset[int]
    success: int = 200
    #: The media type of a streamed file; otherwise JSON.
    media: str = "application/json"
    also: int | None = None
    chooses_also: Callable[[Any], bool] | None = None

    def status_of(self, data: object) -> int:
        """Return the HTTP status for this successful result."""
        return self.also if self.also is not None and self.chooses_also and self.chooses_also(data) else self.success


def _is_scheduled(delivery: Delivery | LegacySendResult) -> bool:
    return isinstance(delivery, Delivery) and delivery.kind == "scheduled"


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", "getServerInfo", status.get_about, OPEN),
    Route("GET", "/status", "getStatus", status.get_status, ADMIN),
    Route("GET", "/status/history", "getHistory", status.get_history, ADMIN),
    Route("POST", "/admin/crashes/{trace}/dismiss", "dismissCrash", status.dismiss_crash, ADMIN),
    Route("POST", "/setup", "createFirstAdmin", enrolment.set_up, ADMIN | {415}, success=201),
    Route("POST", "/auth/login", "signIn", sessions.log_in, AUTH),
    Route("POST", "/auth/enroll", "acceptInvitation", enrolment.enroll, AUTH),
    Route("POST", "/auth/password-reset", "completePasswordReset", enrolment.reset_password, AUTH),
    Route("POST", "/auth/console-links", "createConsoleLink", enrolment.create_console_link, AUTH | {415}, success=201),
    Route("POST", "/auth/console-links/redeem", "redeemConsoleLink", enrolment.redeem_console_link, AUTH | {415}),
    Route("POST", "/auth/logout", "signOut", sessions.log_out, AUTH | {415}),
    Route("GET", "/me", "getCurrentMember", sessions.who_am_i, AUTH),
    Route("PATCH", "/me", "updateProfile", sessions.update_me, AUTH | {415}),
    Route("POST", "/me/password", "changePassword", sessions.change_password, AUTH | {415}),
    Route("GET", "/me/sessions", "listSessions", sessions.list_sessions, AUTH),
    Route("DELETE", "/me/sessions/{sessionId}", "revokeSession", sessions.revoke_session, AUTH),
    Route("GET", "/me/api-keys", "listApiKeys", api_keys.list_keys, AUTH),
    Route("POST", "/me/api-keys", "createApiKey", api_keys.create_key, ADMIN | {415}, success=201),
    Route("DELETE", "/me/api-keys/{keyId}", "revokeApiKey", api_keys.revoke_key, ADMIN),
    Route("GET", "/admin/api-keys", "listAllApiKeys", api_keys.list_all_keys, ADMIN),
    Route("POST", "/admin/api-keys", "createMemberApiKey", api_keys.create_key_of, ADMIN | {415}, success=201),
    Route("PATCH", "/admin/api-keys/{keyId}", "updateApiKey", api_keys.update_key, STORED),
    Route("DELETE", "/admin/api-keys/{keyId}", "revokeMemberApiKey", api_keys.revoke_any_key, ADMIN),
    Route("GET", "/admin/members", "listMembers", members.list_members, ADMIN),
    Route("POST", "/admin/members", "createMember", members.create_member, ADMIN, success=201),
    Route("GET", _MEMBER, "getMember", members.get_member, ADMIN),
    Route("PATCH", _MEMBER, "updateMember", members.update_member, ADMIN),
    Route("DELETE", _MEMBER, "deleteMember", members.delete_member, ADMIN),
    Route("POST", f"{_MEMBER}/invitation", "inviteMember", members.invite_member, ADMIN, success=201),
    Route("POST", f"{_MEMBER}/password-reset", "resetMemberPassword", members.reset_password, ADMIN, success=201),
    Route("GET", f"{_MEMBER}/sessions", "listMemberSessions", members.list_sessions_of, ADMIN),
    Route("DELETE", f"{_MEMBER}/sessions", "revokeMemberSessions", members.revoke_sessions_of, ADMIN),
    Route("GET", f"{_MEMBER}/sessions/{{sessionId}}", "getMemberSession", members.get_session_of, ADMIN),
    Route("DELETE", f"{_MEMBER}/sessions/{{sessionId}}", "revokeMemberSession", members.revoke_session_of, ADMIN),
    Route("GET", "/admin/audit-events", "listAuditEvents", audit.list_events, ADMIN),
    Route("GET", "/admin/audit-events/verify", "verifyAuditLog", audit.verify_events, ADMIN),
    Route("GET", "/me/audit-events", "listOwnAuditEvents", audit.list_own_events, AUTH),
    Route("GET", "/events", "listEvents", events.list_events, MAIL),
    Route("GET", "/events/stream", "streamEvents", events.stream_events, MAIL, media="text/event-stream"),
    Route("GET", "/webhooks", "listWebhooks", webhooks.list_webhooks, AUTH),
    Route("POST", "/webhooks", "createWebhook", webhooks.create_webhook, AUTH, success=201),
    Route("GET", _WEBHOOK, "getWebhook", webhooks.get_webhook, AUTH),
    Route("PATCH", _WEBHOOK, "updateWebhook", webhooks.update_webhook, AUTH),
    Route("DELETE", _WEBHOOK, "deleteWebhook", webhooks.delete_webhook, AUTH),
    Route("POST", f"{_WEBHOOK}/rotate-secret", "rotateWebhookSecret", webhooks.rotate_secret, AUTH),
    Route("POST", f"{_WEBHOOK}/test", "testWebhook", webhooks.test_webhook, AUTH | {503}),
    Route("POST", f"{_WEBHOOK}/replay", "replayWebhook", webhooks.replay_webhook, AUTH, success=202),
    Route("GET", f"{_WEBHOOK}/attempts", "listWebhookAttempts", webhooks.list_attempts, AUTH),
    Route("GET", "/approvals", "listApprovals", approvals.list_approvals, AUTH),
    Route("GET", _APPROVAL, "getApproval", approvals.get_approval, AUTH),
    Route("GET", f"{_APPROVAL}/raw", "downloadApproval", approvals.get_approval_source, AUTH, media="message/rfc822"),
    Route(
        "GET",
        f"{_APPROVAL}/attachments/{{attachmentId}}",
        "downloadApprovalAttachment",
        approvals.get_approval_attachment,
        AUTH,
        media="*/*",
    ),
    Route("POST", f"{_APPROVAL}/approve", "approveMessage", approvals.approve, AUTH),
    Route("POST", f"{_APPROVAL}/reject", "rejectMessage", approvals.reject, AUTH),
    Route("GET", "/me/approvals", "listRequestedApprovals", approvals.list_requested, AUTH),
    Route("GET", _POLICY, "getSendingPolicy", policies.get_account_policy, MAIL),
    Route("PUT", _POLICY, "setSendingPolicy", policies.set_account_policy, MAIL | {413}),
    Route("GET", _KEY_POLICY, "getApiKeyPolicy", policies.get_own_key_policy, AUTH),
    Route("PUT", _KEY_POLICY, "setApiKeyPolicy", policies.set_own_key_policy, AUTH),
    Route("GET", _ADMIN_KEY_POLICY, "getMemberApiKeyPolicy", policies.get_key_policy, ADMIN),
    Route("PUT", _ADMIN_KEY_POLICY, "tightenApiKeyPolicy", policies.set_key_policy, ADMIN),
    Route("GET", "/accounts", "listAccounts", accounts.list_accounts, MAIL),
    Route("POST", "/accounts", "addAccount", accounts.add_account, MAIL | {413}, success=201),
    Route("POST", "/accounts/discover", "discoverServers", accounts.discover, MAIL | {413}),
    Route("GET", "/accounts/{accountId}", "getAccount", accounts.get_account, MAIL),
    Route("PATCH", "/accounts/{accountId}", "updateAccount", accounts.update_account, MAIL | {413}),
    Route("DELETE", "/accounts/{accountId}", "removeAccount", accounts.remove_account, MAIL),
    Route("PUT", "/accounts/{accountId}/access", "setAccountAccess", accounts.set_access, MAIL | {413}),
    Route("POST", "/accounts/{accountId}/reconnect", "reconnectAccount", accounts.reconnect_account, MAIL | {413}),
    Route("POST", _OAUTH, "startOAuthSignIn", oauth.begin_sign_in, MAIL | {413, 502}),
    Route("POST", f"{_OAUTH}/finish", "completeOAuthSignIn", oauth.finish_sign_in, MAIL | {413, 502}, success=201),
    Route("GET", "/admin/accounts", "listAllAccounts", accounts.list_every_account, ADMIN),
    Route(
        "POST",
        "/admin/accounts",
        "addMemberAccount",
        accounts.add_account_of_member,
        ADMIN | {415, 422, 503},
        success=201,
    ),
    Route("GET", "/accounts/{accountId}/folders", "listFolders", messages.list_folders, MAIL),
    Route("PATCH", "/accounts/{accountId}/imap/folders", "mapFolders", folders.map_folders, MAIL - {500} | {413}),
    Route("GET", "/accounts/{accountId}/labels", "listLabels", messages.list_labels, MAIL),
    Route("GET", "/accounts/{accountId}/sender-addresses", "listSenderAddresses", folders.list_sender_addresses, MAIL),
    Route("GET", "/messages", "listAllMessages", messages.list_all_messages, MAIL),
    Route("GET", "/accounts/{accountId}/messages", "listMessages", messages.list_messages, MAIL),
    Route("GET", "/accounts/{accountId}/messages/{messageId}", "getMessage", messages.get_message, MAIL),
    Route("GET", f"{_MESSAGE}/body", "getMessageBody", contents.get_body, MAIL),
    Route("GET", f"{_MESSAGE}/raw", "downloadRawMessage", contents.get_source, MAIL, media="message/rfc822"),
    Route("GET", _ATTACHMENT, "downloadAttachment", contents.get_attachment, MAIL, media="*/*"),
    Route("POST", f"{_ATTACHMENT}/download-link", "createDownloadLink", contents.link_attachment, MAIL, success=201),
    Route("GET", "/downloads/{token}", "downloadLinkedFile", contents.download, MAIL - {401}, media="*/*"),
    Route("POST", "/uploads", "createUpload", contents.create_upload, AUTH | {503}, success=201),
    Route("POST", "/uploads/links", "createUploadLink", contents.create_upload_link, AUTH | {415}, success=201),
    Route(
        "PUT", "/uploads/links/{token}", "uploadLinkedFile", contents.upload_linked, (AUTH - {401}) | {503}, success=201
    ),
    Route("GET", "/uploads/{uploadId}", "getUpload", contents.get_upload, AUTH - {413}),
    Route("DELETE", "/uploads/{uploadId}", "deleteUpload", contents.delete_upload, AUTH - {413}),
    Route("GET", "/accounts/{accountId}/threads/{threadId}", "getThread", messages.get_thread, MAIL),
    Route("POST", "/accounts/{accountId}/messages/actions", "applyMessageAction", actions.perform, MAIL),
    Route("POST", "/accounts/{accountId}/messages/actions/undo", "undoMessageAction", actions.undo_action, MAIL),
    Route("GET", "/accounts/{accountId}/drafts", "listDrafts", drafts.list_drafts, MAIL),
    Route("POST", "/accounts/{accountId}/drafts", "createDraft", drafts.create_draft, MAIL | {413}, success=201),
    Route("GET", "/accounts/{accountId}/drafts/{draftId}", "getDraft", drafts.get_draft, MAIL),
    Route("PUT", "/accounts/{accountId}/drafts/{draftId}", "updateDraft", drafts.update_draft, MAIL | {413}),
    Route("DELETE", "/accounts/{accountId}/drafts/{draftId}", "deleteDraft", drafts.delete_draft, MAIL),
    Route("POST", "/accounts/{accountId}/send", "sendEmail", sending.send, MAIL, also=202, chooses_also=_is_scheduled),
    Route("POST", "/accounts/{accountId}/send/preview", "previewSend", sending.preview, MAIL),
    Route("POST", f"{_MESSAGE}/forward", "forwardEmail", sending.forward, MAIL),
    Route("POST", f"{_MESSAGE}/forward/preview", "previewForward", sending.preview_forward, MAIL),
    Route("GET", _SCHEDULED, "listScheduledSends", deliveries.list_scheduled, MAIL),
    Route("DELETE", f"{_SCHEDULED}/{{scheduleId}}", "cancelScheduledSend", deliveries.cancel_scheduled, MAIL),
    Route("GET", "/delivery-operations", "listAllDeliveries", deliveries.list_all_deliveries, MAIL),
    Route("GET", _DELIVERIES, "listDeliveries", deliveries.list_deliveries, MAIL),
    Route("GET", f"{_DELIVERIES}/{{operationId}}", "getDelivery", deliveries.get_delivery, MAIL),
    Route("GET", f"{_DELIVERIES}/{{operationId}}/timeline", "getDeliveryTimeline", deliveries.get_timeline, MAIL),
    Route(
        "POST", f"{_DELIVERIES}/{{operationId}}/resolve", "resolveDelivery", deliveries.resolve_delivery, MAIL | {413}
    ),
    Route("GET", "/admin/oauth-apps", "getOAuthApps", oauth.get_oauth_apps, ADMIN | {502}),
    Route("PUT", "/admin/oauth-apps/{provider}", "setOAuthApp", oauth.set_oauth_app, STORED),
    Route("DELETE", "/admin/oauth-apps/{provider}", "removeOAuthApp", oauth.remove_oauth_app, ADMIN | {502}),
    Route("GET", "/admin/license", "getLicense", licence.get_license, ADMIN | {502}),
    Route("PUT", "/admin/license", "setLicense", licence.set_license, ADMIN | {415, 502}),
    Route("DELETE", "/admin/license", "removeLicense", licence.remove_license, ADMIN | {502}),
    Route("GET", "/admin/backups", "listBackups", backups.list_backups, ADMIN),
    Route("POST", "/admin/backups", "createBackup", backups.create_backup, ADMIN | {415}, success=201),
    Route("GET", _BACKUP, "downloadBackup", backups.download_backup, ADMIN, media="application/octet-stream"),
    Route("POST", f"{_BACKUP}/verify", "verifyBackup", backups.verify_backup, ADMIN | {415}),
    Route("POST", "/admin/restore", "restoreBackup", backups.restore, ADMIN | {415}, also=202),
    Route("GET", "/admin/store", "getStore", store.get_store, ADMIN),
    Route("POST", "/admin/store/check", "checkStore", store.check_store, ADMIN | {415}),
    Route("GET", "/admin/settings", "getSettings", settings.get_settings, ADMIN),
    Route("PATCH", "/admin/settings", "updateSettings", settings.update_settings, ADMIN | {415}),
    Route("GET", "/admin/https", "getHttps", https.get_https, ADMIN),
    Route("PATCH", "/admin/https", "updateHttps", https.update_https, ADMIN | {415}),
    Route("PUT", "/admin/https/certificate", "setHttpsCertificate", https.put_certificate, ADMIN | {415}),
    Route("POST", "/admin/https/rotate", "rotateHttpsCertificate", https.rotate, ADMIN | {415}),
)
