"""Texts of the OpenAPI document apart from docstrings: introduction, statuses, path parameters, tags, some fields.
Loaded only with the document, to save memory.
"""

INTRODUCTION = """\
Read, search and organize mail, and send it safely, over plain HTTP and JSON.

**Responses.** A success is `{"data": ..., "warnings": [...]}`; `warnings` is absent if there are none. An error is
`{"error": {"code", "message", "requestId", "details"}}`. Programs should check `code`; texts may change.

**Credentials.** Send a session token or an API key as `Authorization: Bearer TOKEN`.

**Limits.** A JSON body can have 1 MiB, one that carries a message 36 MiB. A page of a list has at most 100 items. A
body that is far larger than any limit gets 413 `body_too_large` on every path, and the connection is closed. GET and
DELETE take no body; one that is sent is ignored.

**Retries.** 429 and 503 carry `Retry-After`, in seconds. A send with an `Idempotency-Key` can be repeated safely. While
the appliance restarts on a restored store, for some seconds, every request gets 503.

**Paths.** A path may end with one slash. A slash within a path parameter, even encoded, is never found (404)."""
CREDENTIAL_TEXT = "A session token (`mbxs_...`, from `POST /auth/login`) or an API key (`mbxk_...`)."
#: Statuses: name of the component, and description.
STATUSES = {
    200: ("Success", "Success."),
    201: ("Created", "Created."),
    202: ("Accepted", "Accepted; processed later."),
    400: ("InvalidRequest", "Invalid request; `details` names the place."),
    401: ("Unauthenticated", "Authentication required."),
    403: ("Forbidden", "Not permitted; `details` names what is missing."),
    404: ("NotFound", "Not found, or no access."),
    405: ("MethodNotAllowed", "Method not allowed for this path."),
    408: ("RequestTimeout", "The request did not arrive in time."),
    409: ("Conflict", "Conflicts with the current state."),
    413: ("BodyTooLarge", "The body is too large."),
    415: ("UnsupportedMediaType", "The body must be `application/json`."),
    422: ("Unsupported", "The mailbox or its server does not support this."),
    429: ("TooManyRequests", "Too many requests; try again after `Retry-After` seconds."),
    431: ("HeadersTooLarge", "The header fields are too large."),
    500: ("InternalError", "Internal error; the log contains it with the request ID."),
    502: ("LicenseUnverified", "The license could not be verified."),
    503: ("Unavailable", "An upstream server is unavailable, or the appliance is busy; see `Retry-After`."),
}
#: Parameters in paths: description and example.
PATH_PARAMETERS = {
    "trace": ("The `file` of `lastCrash` in `GET /status`.", "crash-2026-03-04T05-06-07Z.txt"),
    "sessionId": ("ID of the session.", "ses_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "keyId": ("ID of the API key.", "key_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "memberId": ("ID of the member.", "mem_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "accountId": ("ID of the mailbox.", "acc_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "provider": ("The provider: `google` or `outlook`.", "google"),
    "messageId": ("ID of the message.", "msg_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "attachmentId": ("ID of the attachment.", "att_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "token": ("The token from the link.", "q1Zt0vY8m3c"),
    "threadId": ("ID of the thread.", "thr_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "draftId": ("ID of the draft.", "msg_01kf8m2r4t6v8x0z2b4d6f8h1k"),
    "scheduleId": ("ID of the scheduled message.", "sch_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "operationId": ("ID of the delivery.", "dlv_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "backupId": ("ID of the backup.", "bak_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "webhookId": ("ID of the webhook.", "whk_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "uploadId": ("ID of the upload.", "upl_01kf8m2r4t6v8x0z2b4d6f8h0j"),
    "approvalId": ("ID of the approval.", "apr_01kf8m2r4t6v8x0z2b4d6f8h0j"),
}
CALLBACK_PARAMETERS = {
    "state": "Identifies the sign-in.",
    "code": "The authorization code, after success.",
    "error": "Error code of the provider, after failure.",
    "error_description": "Error text of the provider. It is never shown.",
}
#: Schemas of other layers: description, and descriptions of their fields.
FIELDS: dict[str, tuple[str, dict[str, str]]] = {
    "ErrorResponse": ("The body of every error.", {"error": "The error."}),
    "Error": (
        "What went wrong.",
        {
            "code": "Error code for programs.",
            "message": "Explanation for people, with the next step.",
            "requestId": "ID of the request, with which the log contains it.",
            "details": "The places in the request, or the missing permissions; absent if there are none.",
        },
    ),
    "ErrorDetail": (
        "A place in the request, and what is wrong with it.",
        {
            "path": "JSON pointer into the body, `query:NAME`, `header:NAME` or `path:NAME`, or a plain name,"
            " such as `capability`, `role`, `imap` or `operation`.",
            "message": "What is wrong with it; with the path `operation`, the ID of the delivery operation.",
        },
    ),
    "Capability": ("A permission of a credential.", {}),
    "Crash": (
        "A crash of the appliance.",
        {
            "at": "When it crashed.",
            "signal": "The signal that ended the process, such as `SIGSEGV`.",
            "file": "Name of the trace in the log folder.",
        },
    ),
}
#: The sections of the API reference, in order: name, description, and the names of their operations.
TAGS: tuple[tuple[str, str, str], ...] = (
    ("Server", "Version, status and history of the appliance.", "getServerInfo getStatus getHistory dismissCrash"),
    (
        "Sign-in",
        "First setup, sessions, invitations, password resets and sign-in links to the console.",
        "createFirstAdmin signIn acceptInvitation completePasswordReset createConsoleLink redeemConsoleLink signOut",
    ),
    (
        "Profile",
        "The current member: name, password, sessions and audit events.",
        "getCurrentMember updateProfile changePassword listSessions revokeSession listOwnAuditEvents",
    ),
    (
        "API keys",
        "Credentials for programs and AI agents, with a limited set of capabilities and mailboxes.",
        "listApiKeys createApiKey revokeApiKey listAllApiKeys createMemberApiKey updateApiKey revokeMemberApiKey",
    ),
    (
        "Members",
        "The people who can sign in, and their sessions. Administrators only.",
        (
            "listMembers createMember getMember updateMember deleteMember inviteMember resetMemberPassword"
            " listMemberSessions revokeMemberSessions getMemberSession revokeMemberSession"
        ),
    ),
    (
        "Audit log",
        "Security events: sign-ins, and every change of access or configuration.",
        "listAuditEvents verifyAuditLog",
    ),
    (
        "Mailboxes",
        "Connected mailboxes (`accounts` in paths and fields): their servers, sign-ins and sharing.",
        (
            "listAccounts addAccount discoverServers getAccount updateAccount removeAccount setAccountAccess"
            " reconnectAccount startOAuthSignIn completeOAuthSignIn handleOAuthCallback listAllAccounts"
            " addMemberAccount"
        ),
    ),
    (
        "Folders",
        "Folders, labels and sender addresses of a mailbox.",
        "listFolders mapFolders listLabels listSenderAddresses",
    ),
    (
        "Messages",
        "Read, search and organize mail, and download attachments.",
        (
            "listAllMessages listMessages getMessage getMessageBody downloadRawMessage downloadAttachment"
            " createDownloadLink downloadLinkedFile getThread applyMessageAction"
            " undoMessageAction"
        ),
    ),
    (
        "Uploads",
        "Files that attachments name by ID, so that they need not be part of a JSON body.",
        "createUpload getUpload deleteUpload createUploadLink uploadLinkedFile",
    ),
    (
        "Drafts",
        "Drafts, stored in the mailbox's own drafts folder, where every mail client shows them.",
        "listDrafts createDraft getDraft updateDraft deleteDraft",
    ),
    (
        "Sending",
        "Send, forward and schedule messages, and follow their delivery. An idempotency key sends at most one message.",
        (
            "sendEmail previewSend forwardEmail previewForward listScheduledSends cancelScheduledSend listAllDeliveries"
            " listDeliveries getDelivery getDeliveryTimeline resolveDelivery"
        ),
    ),
    (
        "Approvals",
        "Messages that wait for a person. Each approval is for exactly the bytes that were shown.",
        (
            "listApprovals getApproval downloadApproval downloadApprovalAttachment approveMessage rejectMessage"
            " listRequestedApprovals"
        ),
    ),
    (
        "Sending policies",
        "Rules for a mailbox or an API key: allowed recipients, limits, and messages that a person must approve.",
        ("getSendingPolicy setSendingPolicy getApiKeyPolicy setApiKeyPolicy getMemberApiKeyPolicy tightenApiKeyPolicy"),
    ),
    (
        "Events",
        "Changes as they happen: pages that can be awaited, and a stream of server-sent events.",
        "listEvents streamEvents",
    ),
    (
        "Webhooks",
        "Addresses to which events are posted, signed as Standard Webhooks define.",
        (
            "listWebhooks createWebhook getWebhook updateWebhook deleteWebhook rotateWebhookSecret testWebhook"
            " replayWebhook listWebhookAttempts"
        ),
    ),
    (
        "OAuth apps",
        "The applications registered with Google and Microsoft, by which members connect mailboxes.",
        "getOAuthApps setOAuthApp removeOAuthApp",
    ),
    (
        "License",
        "The license of a hosted or resold appliance. None is required.",
        "getLicense setLicense removeLicense",
    ),
    (
        "Backups",
        "Create, download, verify and restore backups.",
        "listBackups createBackup downloadBackup verifyBackup restoreBackup",
    ),
    ("Store", "The encrypted database: its status and integrity.", "getStore checkStore"),
    ("Settings", "Settings that can change while the appliance runs.", "getSettings updateSettings"),
    (
        "HTTPS",
        "Remote access over HTTPS, and its certificate.",
        "getHttps updateHttps setHttpsCertificate rotateHttpsCertificate",
    ),
)
TAG_OF = {operation: name for name, _, operations in TAGS for operation in operations.split()}
