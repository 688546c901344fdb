"""Example requests and responses in the OpenAPI document. Loaded only with the document.

A response has the example of its type, and a deletion the ID of the path, unless the operation is in `RESPONSES`.
"""

import json
from typing import Any

_ID = "01kf8m2r4t6v8x0z2b4d6f8h0j"
_DIGEST = "5f1d0c3b2a49687786954a3b2c1d0e0f5f1d0c3b2a49687786954a3b2c1d0e0f"
_ACCOUNT, _MESSAGE, _THREAD, _DELIVERY = f"acc_{_ID}", f"msg_{_ID}", f"thr_{_ID}", f"dlv_{_ID}"
_UNDO_TOKEN = "mbxu_6Jw3F9sK1vR8tQ2xN7cB5dLm"  # noqa: S105 - an example
_ADA, _MEMBER, _SESSION, _KEY = "ada@example.org", f"mem_{_ID}", f"ses_{_ID}", f"key_{_ID}"
_EARLIER, _NOW, _LATER = "2026-03-01T08:00:00.000Z", "2026-03-04T05:06:07.000Z", "2026-03-11T05:06:07.000Z"
_PASSWORD = "correct horse battery staple"  # noqa: S105 - an example
_FINGERPRINT = "sha256:" + "3f7a" * 16


# --- Values that stand in several examples ---


_SESSION_VALUE = {
    "id": _SESSION,
    "deviceName": "Ada's laptop",
    "createdAt": _EARLIER,
    "lastUsedAt": _NOW,
    "expiresAt": "2026-04-03T05:06:07.000Z",
    "current": True,
}
_MEMBER_VALUE = {
    "id": _MEMBER,
    "name": "Ada Lovelace",
    "email": _ADA,
    "role": "admin",
    "status": "active",
    "createdAt": _EARLIER,
    "updatedAt": _EARLIER,
    "lastLoginAt": _NOW,
    "invitation": None,
}
_GRACE = {
    **_MEMBER_VALUE,
    "id": "mem_01kf8m2r4t6v8x0z2b4d6f8h1k",
    "name": "Grace Hopper",
    "email": "grace@example.org",
    "role": "member",
    "lastLoginAt": None,
    "invitation": {"expiresAt": _LATER},
}
_INVITATION = {
    "token": "mbxi_6Rw3J8pL1sQ5tV9zB2nC7kMd",
    "url": "https://mail.example.org/#enroll=mbxi_6Rw3J8pL1sQ5tV9zB2nC7kMd",
    "expiresAt": _LATER,
}
_KEY_VALUE = {
    "id": _KEY,
    "name": "Nightly report",
    "createdAt": _EARLIER,
    "lastUsedAt": None,
    "memberId": _MEMBER,
    "permissionProfile": "read-only",
    "capabilities": ["mail.read"],
    "supplementalCapabilities": [],
    "accountIds": [_ACCOUNT],
}
_ACCOUNT_VALUE = {
    "id": _ACCOUNT,
    "email": _ADA,
    "displayName": "Ada Lovelace",
    "provider": "imap",
    "ownerMemberId": _MEMBER,
    "sharedWithAll": False,
    "grantedMemberIds": [],
    "status": "ready",
    "error": None,
    "folders": {"sent": "Sent", "drafts": "Drafts", "trash": "Trash", "archive": "Archive", "spam": "Junk"},
    "capabilities": {"labels": True, "move": True, "idle": True, "condstore": True, "qresync": True, "uidplus": True},
    "createdAt": _EARLIER,
    "lastSyncAt": _NOW,
}
_CONNECTING = {**_ACCOUNT_VALUE, "status": "connecting", "lastSyncAt": None}
_IMAP = {"host": "imap.example.org", "port": 993, "security": "tls", "username": _ADA}
_SMTP = {"host": "smtp.example.org", "port": 465, "security": "tls", "username": _ADA}
_SERVERS = {"imap": {**_IMAP, "password": "app-password"}, "smtp": {**_SMTP, "password": "app-password"}}
_CHARLES = {"email": "charles@example.net", "name": "Charles Babbage"}
_LISTED = {
    "id": _MESSAGE,
    "threadId": _THREAD,
    "accountId": _ACCOUNT,
    "folder": {"id": f"fld_{_ID}", "name": "INBOX", "role": "inbox", "roleSource": "name", "unreadCount": 3},
    "labels": ["Work"],
    "from": _CHARLES,
    "to": [{"email": _ADA, "name": "Ada Lovelace"}],
    "subject": "The difference engine",
    "date": _NOW,
    "snippet": "Dear Ada, the drawings are complete ...",
    "flags": {"read": False, "starred": False, "draft": False},
}
_READ = {
    **_LISTED,
    "body": {"text": "Dear Ada,\n\nthe drawings are complete.\n\nCharles\n"},
    "headers": {"Message-ID": "<3f7a@example.net>"},
}
_DRAFT = {
    **_READ,
    "id": "msg_01kf8m2r4t6v8x0z2b4d6f8h1k",
    "draftId": "msg_01kf8m2r4t6v8x0z2b4d6f8h1k",
    "folder": {"id": f"fld_{_ID}", "name": "Drafts", "role": "drafts", "roleSource": "extension", "unreadCount": 0},
    "from": {"email": _ADA},
    "to": [_CHARLES],
    "subject": "Re: The difference engine",
    "body": {"text": "Dear Charles,\n\nthank you.\n\nAda\n"},
    "flags": {"read": True, "starred": False, "draft": True},
}
_ANSWER = {"replyToMessageId": _MESSAGE, "body": {"text": "Dear Charles,\n\nthank you.\n\nAda\n"}}
_OUTGOING = {
    "to": [_CHARLES],
    "subject": "Notes on the engine",
    "body": {"text": "Dear Charles,\n\nplease find my notes below.\n\nAda\n"},
}
_DELIVERY_VALUE = {
    "operationId": _DELIVERY,
    "accountId": _ACCOUNT,
    "kind": "send",
    "status": "succeeded",
    "result": {"id": _MESSAGE, "threadId": _THREAD},
}
_ENTRY = {
    **_DELIVERY_VALUE,
    "createdAt": _NOW,
    "updatedAt": "2026-03-04T05:06:09.000Z",
    "sendAt": None,
    "subject": "Notes on the engine",
    "recipients": ["charles@example.net"],
    "isOwn": True,
}
_SUMMARY = {
    "ok": True,
    "createdAt": _NOW,
    "format": 5,
    "version": "0.11.0",
    "members": 4,
    "accounts": 6,
    "messages": 48213,
}
_POSITION = "9c2f6a51d0b84e37-1048"
_EVENT = {
    "position": _POSITION,
    "id": "evt_4w5xmn3m5r9rvg0000000000gr",
    "type": "message.created",
    "at": _NOW,
    "accountId": _ACCOUNT,
    "data": _LISTED,
}
_WEBHOOK = {
    "id": f"whk_{_ID}",
    "url": "https://hooks.example.org/mail",
    "types": ["message.created", "delivery.updated"],
    "accountIds": [_ACCOUNT],
    "includeBody": False,
    "status": "active",
    "createdAt": _EARLIER,
    "lastSuccessAt": _NOW,
    "lastFailure": {"at": _EARLIER, "status": 502, "reason": "The answer had the status 502."},
}
_ATTEMPT = {
    "id": f"wat_{_ID}",
    "eventId": _EVENT["id"],
    "at": _NOW,
    "status": 204,
    "durationMs": 87,
    "error": None,
}
_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazk0fKt5ofM="  # noqa: S105 - an example
_POLICY = {
    "approval": "newRecipients",
    "allowedRecipients": ["example.org", "charles@example.net"],
    "blockedRecipients": ["press@example.org"],
    "maxRecipients": 5,
    "perHour": 20,
    "perDay": 100,
    "internalOnly": False,
}
_REQUESTED = {
    "id": f"apr_{_ID}",
    "operationId": _DELIVERY,
    "accountId": _ACCOUNT,
    "kind": "send",
    "status": "pending",
    "reasons": ["New recipient: charles@example.net"],
    "to": [_CHARLES],
    "cc": [],
    "bcc": [],
    "createdAt": _NOW,
    "expiresAt": _LATER,
    "decidedAt": None,
}
_APPROVAL = {
    **_REQUESTED,
    "requestedBy": {"kind": "api_key", "id": _KEY, "name": "Nightly report"},
    "from": {"email": _ADA, "name": "Ada Lovelace"},
    "subject": "Notes on the engine",
    "bodyText": "Dear Charles,\n\nplease find my notes below.\n\nAda\n",
    "attachments": [],
    "digest": _FINGERPRINT,
    "decidedBy": None,
}
_DECIDED = {**_APPROVAL, "decidedAt": _NOW, "decidedBy": _MEMBER}
_PEM = "-----BEGIN {0}-----\n...\n-----END {0}-----\n"


# --- Responses ---


#: By the name of the type.
TYPES: dict[str, Any] = {
    "Session": _SESSION_VALUE,
    "Member": _MEMBER_VALUE,
    "IssuedSession": {"token": "mbxs_4Zq8T1vK7nW2cX5bY9mD3fGh", "session": _SESSION_VALUE, "member": _MEMBER_VALUE},
    "IssuedInvitation": _INVITATION,
    "InvitedMember": {"member": _GRACE, "invitation": _INVITATION},
    "ApiKey": _KEY_VALUE,
    "IssuedApiKey": {"apiKey": _KEY_VALUE, "token": "mbxk_8Yt2H5rD9xN4wS7vF1gB6jPc"},
    "ConsoleLink": {
        "url": "http://127.0.0.1:8025/#console=mbxc_5Bn8M2kQ7vX1rT4wY9zD3fHj",
        "expiresAt": "2026-03-04T05:07:07.000Z",
    },
    "CurrentMember": {
        "member": _MEMBER_VALUE,
        "credential": {"kind": "api_key", "id": _KEY, "capabilities": ["mail.read"], "accountIds": [_ACCOUNT]},
    },
    "AuditEvent": {
        "id": f"aud_{_ID}",
        "at": _NOW,
        "actor": {"kind": "session", "id": _SESSION, "memberId": _MEMBER},
        "action": "session.create",
        "target": {"kind": "session", "id": _SESSION},
        "outcome": "success",
        "clientAddress": "192.0.2.7",
    },
    "AuditLogVerification": {"ok": True, "count": 1204, "firstBroken": None},
    "Account": _ACCOUNT_VALUE,
    "DiscoveryResult": {
        "email": _ADA,
        "candidates": [
            {
                "source": "srv",
                "foundBy": ["srv"],
                "provider": None,
                "name": None,
                "note": None,
                "imap": _IMAP,
                "smtp": _SMTP,
            }
        ],
        "sources": [{"source": "srv", "found": True, "outcome": "The DNS of example.org names its mail servers."}],
    },
    "OAuthSignIn": {
        "authorizationUrl": "https://accounts.google.com/o/oauth2/v2/auth?client_id=123&state=Xk2v9T",
        "state": "Xk2v9T",
        "expiresAt": "2026-03-04T05:16:07.000Z",
    },
    "Folder": {
        "id": f"fld_{_ID}",
        "name": "INBOX",
        "role": "inbox",
        "roleSource": "name",
        "unreadCount": 3,
        "totalCount": 128,
        "path": "INBOX",
    },
    "FolderRoles": {"sent": "Sent", "archive": "Archive/2026"},
    "Label": {"id": "Work", "name": "Work"},
    "SenderAddress": {"email": _ADA, "name": "Ada Lovelace", "isDefault": True},
    "OAuthSettings": {
        "google": {
            "clientId": "123456789.apps.googleusercontent.com",
            "clientSecretConfigured": True,
            "source": "stored",
            "mutable": True,
        },
        "outlook": {
            "clientId": None,
            "tenantId": None,
            "clientSecretConfigured": False,
            "source": None,
            "mutable": True,
        },
    },
    "Message": _LISTED,
    "BodyPart": {
        "format": "markdown",
        "content": "Dear Ada,\n\nthe drawings are complete.\n\nCharles\n",
        "offset": 0,
        "nextOffset": None,
        "totalChars": 47,
    },
    "DownloadLink": {
        "url": "http://127.0.0.1:8025/api/v1/downloads/q1Zt0vY8m3c",
        "expiresAt": "2026-03-04T05:11:07.000Z",
        "filename": "drawing.pdf",
        "mimeType": "application/pdf",
        "sizeBytes": 48213,
    },
    "Upload": {
        "uploadId": f"upl_{_ID}",
        "filename": "drawing.pdf",
        "mimeType": "application/pdf",
        "sizeBytes": 24117248,
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "expiresAt": "2026-03-04T06:06:07.000Z",
    },
    "UploadLink": {
        "url": "http://127.0.0.1:8025/api/v1/uploads/links/q1Zt0vY8m3c",
        "uploadId": f"upl_{_ID}",
        "expiresAt": "2026-03-04T05:16:07.000Z",
    },
    "Thread": {"id": _THREAD, "subject": "The difference engine", "messages": {"items": [_LISTED], "nextCursor": None}},
    "MessageActionResult": {"action": "markRead", "succeededIds": [_MESSAGE], "failed": [], "uncertainIds": []},
    "UndoOffer": {"token": _UNDO_TOKEN, "expiresAt": "2026-03-05T10:00:00.000Z"},
    "Delivery": _DELIVERY_VALUE,
    "SendPreview": {
        "accountId": _ACCOUNT,
        "from": _ADA,
        "to": [_CHARLES],
        "cc": [],
        "bcc": [],
        "subject": "Notes on the engine",
        "attachments": [],
        "bodyTextChars": 47,
        "bodyHtmlChars": 0,
        "previewDigest": _DIGEST,
    },
    "ScheduledSend": {
        "id": f"sch_{_ID}",
        "accountId": _ACCOUNT,
        "operationId": _DELIVERY,
        "sendAt": _LATER,
        "status": "queued",
        "to": [_CHARLES],
        "subject": "Notes on the engine",
        "createdAt": _NOW,
    },
    "DeliveryEntry": _ENTRY,
    "DeliveryTimeline": {
        **_ENTRY,
        "messageIdHeader": "<3f7a@example.org>",
        "attempts": 1,
        "nextAttemptAt": None,
        "sentCopy": "filed",
        "looks": 0,
        "nextLookAt": None,
        "replyCode": 250,
        "replyEnhanced": "2.0.0",
        "steps": [
            {"at": _NOW, "attempt": 0, "step": "accepted"},
            {"at": "2026-03-04T05:06:09.000Z", "attempt": 1, "step": "succeeded"},
        ],
    },
    "License": {
        "plan": "team",
        "status": "valid",
        "issuedTo": "Example Ltd.",
        "expiresAt": "2027-03-01T00:00:00.000Z",
        "maxMembers": 10,
        "maxAccounts": 25,
    },
    "Backup": {
        "id": f"bak_{_ID}",
        "fileName": "2026-03-04T05-06-07Z-manual.mbxbackup",
        "createdAt": _NOW,
        "reason": "manual",
        "format": 5,
        "version": "0.11.0",
        "sizeBytes": 73400320,
        "passphraseProtected": True,
        "verified": True,
    },
    "BackupSummary": _SUMMARY,
    "StoreOverview": {
        "path": "/var/lib/mailbox-appliance",
        "format": 5,
        "problem": None,
        "sizeBytes": 734003200,
        "freeBytes": 52428800000,
        "lowSpace": False,
        "key": {"file": "/var/lib/mailbox-appliance/key", "slots": ["file"], "problem": None},
        "lastBackup": {"id": f"bak_{_ID}", "at": _NOW, "reason": "manual"},
        "pid": 4711,
        "migration": None,
    },
    "StoreCheck": {"ok": True, "full": True, "format": 5, "checked": ["pages", "rows"], "problems": []},
    "HttpsStatus": {
        "enabled": True,
        "host": "",
        "port": 8443,
        "url": "https://127.0.0.1:8443",
        "certificate": {
            "fingerprint": _FINGERPRINT,
            "notBefore": _EARLIER,
            "notAfter": "2027-03-01T08:00:00.000Z",
            "names": ["mail.example.org"],
            "selfSigned": True,
            "trusted": False,
        },
    },
    "ServerInfo": {"name": "mailbox-appliance", "version": "0.11.0", "apiVersion": "v1", "setupRequired": False},
    "Status": {
        "version": "0.11.0",
        "uptimeSeconds": 86400,
        "store": {"format": 5, "sizeBytes": 734003200, "freeBytes": 52428800000},
        "accounts": [{"id": _ACCOUNT, "status": "ready", "lastSyncAt": _NOW, "progress": None}],
        "deliveries": {"queued": 0, "sending": 0, "uncertain": 0},
    },
    "History": {
        "from": _EARLIER,
        "to": "2026-03-01T09:00:00.000Z",
        "stepSeconds": 3600,
        "deliveries": [{"at": _EARLIER, "succeeded": 4, "failed": 0, "uncertain": 0, "other": 1}],
        "arrived": [{"at": _EARLIER, "messages": 17}],
    },
    "dict": {"sending.hold_scheduled": False, "backup.daily": True, "log.level": "info"},
    "EventPage": {"items": [_EVENT], "nextPosition": _POSITION, "reset": False},
    "Webhook": _WEBHOOK,
    "CreatedWebhook": {"webhook": {**_WEBHOOK, "lastSuccessAt": None, "lastFailure": None}, "secret": _SECRET},
    "RotatedSecret": {"secret": _SECRET, "previousValidUntil": "2026-03-05T05:06:07.000Z"},
    "WebhookAttempt": _ATTEMPT,
    "SendingPolicy": _POLICY,
    "Approval": _APPROVAL,
    "RequestedApproval": _REQUESTED,
    "NoneType": None,
}
#: Events as `text/event-stream`.
STREAM_EXAMPLE = f"id: {_POSITION}\nevent: message.created\ndata: {json.dumps(_EVENT)}\n\n"
#: By the name of the operation, whose response differs from the example of its type.
RESPONSES: dict[str, Any] = {
    "undoMessageAction": {"action": "undo", "succeededIds": [_MESSAGE], "failed": [], "uncertainIds": []},
    "createMemberApiKey": {
        "apiKey": {
            **_KEY_VALUE,
            "name": "Member import",
            "permissionProfile": "custom",
            "capabilities": ["admin.members"],
            "supplementalCapabilities": ["admin.members"],
            "accountIds": None,
        },
        "token": "mbxk_8Yt2H5rD9xN4wS7vF1gB6jPc",
    },
    "setAccountAccess": {**_ACCOUNT_VALUE, "grantedMemberIds": [_GRACE["id"]]},
    "resetMemberPassword": {
        "token": "mbxr_2Kd7V1mX8qT5bN3wZ6cR9hJs",
        "url": "https://mail.example.org/#reset=mbxr_2Kd7V1mX8qT5bN3wZ6cR9hJs",
        "expiresAt": "2026-03-05T05:06:07.000Z",
    },
    "addAccount": _CONNECTING,
    "addMemberAccount": _CONNECTING,
    "completeOAuthSignIn": {**_CONNECTING, "email": "ada@gmail.com", "provider": "google"},
    "getMessage": _READ,
    "listDrafts": {"items": [_DRAFT], "nextCursor": None},
    "createDraft": _DRAFT,
    "getDraft": _DRAFT,
    "updateDraft": _DRAFT,
    "forwardEmail": {**_DELIVERY_VALUE, "kind": "forward"},
    "removeLicense": {"id": "license", "deleted": True},
    "approveMessage": {**_DECIDED, "status": "approved"},
    "rejectMessage": {**_DECIDED, "status": "rejected"},
    "testWebhook": {**_ATTEMPT, "eventId": "evt_4w5xmn3m5r9rvg0000000000gs"},
}
#: By the name of the operation: the response with its other status, 202.
LATER: dict[str, Any] = {
    "sendEmail": {
        "operationId": _DELIVERY,
        "accountId": _ACCOUNT,
        "kind": "scheduled",
        "status": "queued",
        "scheduleId": f"sch_{_ID}",
    },
    "restoreBackup": _SUMMARY,
}
ERROR_EXAMPLE = {
    "error": {
        "code": "invalid_request",
        "message": "The request is not valid: /to: Expected `array`, got `str`.",
        "requestId": f"req_{_ID}",
        "details": [{"path": "/to", "message": "Expected `array`, got `str`."}],
    }
}


# --- Requests ---


#: Parameters other than those in the path, by the name of the operation.
PARAMETERS: dict[str, dict[str, Any]] = {
    "listAuditEvents": {"action": "session"},
    "listAllMessages": {"folder": "inbox", "unread": True},
    "listMessages": {"q": "from:charles has:attachment"},
    "getMessageBody": {"format": "markdown"},
    "createUpload": {"filename": "drawing.pdf", "mimeType": "application/pdf"},
    "sendEmail": {"idempotencyKey": "report-2026-03-04", "previewDigest": f'"{_DIGEST}"'},
    "forwardEmail": {"idempotencyKey": "forward-2026-03-04"},
    "listAllDeliveries": {"status": "uncertain"},
    "getHistory": {"hours": 24},
    "listApprovals": {"status": "pending"},
    "listRequestedApprovals": {"status": "pending"},
    "listEvents": {"after": _POSITION, "types": "message.created,message.deleted", "wait": 30},
    "streamEvents": {"lastEventId": _POSITION, "types": "message.created"},
}
#: Bodies, by the name of the operation.
REQUESTS: dict[str, dict[str, Any]] = {
    "createFirstAdmin": {
        "setupCode": "K7QF-2M9X-TB4R",
        "name": "Ada Lovelace",
        "email": _ADA,
        "password": _PASSWORD,
        "deviceName": "Ada's laptop",
    },
    "signIn": {"email": _ADA, "password": _PASSWORD, "deviceName": "Ada's laptop"},
    "acceptInvitation": {"token": _INVITATION["token"], "password": _PASSWORD, "deviceName": "Ada's laptop"},
    "completePasswordReset": {
        "token": "mbxr_2Kd7V1mX8qT5bN3wZ6cR9hJs",
        "password": _PASSWORD,
        "deviceName": "Ada's laptop",
    },
    "redeemConsoleLink": {"token": "mbxc_5Bn8M2kQ7vX1rT4wY9zD3fHj"},
    "updateProfile": {"name": "Ada Lovelace"},
    "changePassword": {"currentPassword": _PASSWORD, "newPassword": "seven quiet owls at noon"},
    "createApiKey": {"name": "Nightly report", "permissionProfile": "read-only", "accounts": [_ACCOUNT]},
    "createMemberApiKey": {"name": "Member import", "memberId": _MEMBER, "customCapabilities": ["admin.members"]},
    "updateApiKey": {"permissionProfile": "read-only"},
    "createMember": {"name": "Grace Hopper", "email": "grace@example.org", "role": "member"},
    "updateMember": {"role": "admin"},
    "addAccount": {"email": _ADA, "displayName": "Ada Lovelace", **_SERVERS},
    "discoverServers": {"email": _ADA},
    "updateAccount": {"displayName": "Ada Lovelace"},
    "setAccountAccess": {"sharedWithAll": False, "memberIds": [_GRACE["id"]]},
    "reconnectAccount": {"imap": {"password": "new-password"}, "smtp": {"password": "new-password"}},
    "startOAuthSignIn": {"email": "ada@gmail.com"},
    "completeOAuthSignIn": {"state": "Xk2v9T", "code": "4/0AX4XfWh"},
    "addMemberAccount": {"email": _ADA, "ownerMemberId": _MEMBER, **_SERVERS},
    "mapFolders": {"archive": "Archive/2026"},
    "setOAuthApp": {"clientId": "123456789.apps.googleusercontent.com", "clientSecret": "GOCSPX-example"},
    "applyMessageAction": {"messageIds": [_MESSAGE], "action": "markRead"},
    "undoMessageAction": {"token": _UNDO_TOKEN},
    "createDraft": _ANSWER,
    "updateDraft": _ANSWER,
    "sendEmail": _OUTGOING,
    "previewSend": _OUTGOING,
    "forwardEmail": {"to": [_CHARLES], "comment": "For your files."},
    "previewForward": {"to": [_CHARLES], "comment": "For your files."},
    "resolveDelivery": {"outcome": "succeeded"},
    "setLicense": {"token": "eyJhbGciOiJFZERTQSJ9.eyJwbGFuIjoidGVhbSJ9.c2ln"},
    "createBackup": {"passphrase": _PASSWORD},
    "verifyBackup": {"passphrase": _PASSWORD},
    "restoreBackup": {"backupId": f"bak_{_ID}", "passphrase": _PASSWORD, "dryRun": True},
    "checkStore": {"full": True},
    "updateSettings": {"log.level": "info", "backup.daily": None},
    "createWebhook": {"url": _WEBHOOK["url"], "types": _WEBHOOK["types"], "accountIds": [_ACCOUNT]},
    "updateWebhook": {"status": "active"},
    "replayWebhook": {"after": _POSITION},
    "createUploadLink": {"filename": "drawing.pdf"},
    "approveMessage": {"digest": _APPROVAL["digest"]},
    "rejectMessage": {"reason": "He has left the company."},
    "setSendingPolicy": _POLICY,
    "setApiKeyPolicy": {"approval": "always", "internalOnly": True},
    "tightenApiKeyPolicy": {**_POLICY, "approval": "always"},
    "updateHttps": {"enabled": True, "port": 8443},
    "setHttpsCertificate": {"certificate": _PEM.format("CERTIFICATE"), "privateKey": _PEM.format("PRIVATE KEY")},
}
