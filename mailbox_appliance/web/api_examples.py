"""Example requests and responses in the OpenAPI document, by the names of operations. Loaded only with the document."""

from typing import Any

_ID = "01kf8m2r4t6v8x0z2b4d6f8h0j"
_ACCOUNT, _MESSAGE, _THREAD, _DELIVERY = f"acc_{_ID}", f"msg_{_ID}", f"thr_{_ID}", f"dlv_{_ID}"
_ADA, _MEMBER, _SESSION, _KEY = "ada@example.org", f"mem_{_ID}", f"ses_{_ID}", f"key_{_ID}"
_EARLIER, _NOW, _LATER = "2026-03-01T08:00:00.000Z", "2026-03-04T05:06:07.000Z", "2026-03-11T05:06:07.000Z"
_PASSWORD = "correct horse battery staple"  # noqa: S105 - an example
_FINGERPRINT = "sha256:" + "3f7a" * 16


def _deletion(deleted: Any) -> dict[str, Any]:
    return {"id": deleted, "deleted": True}


def _page(item: Any) -> dict[str, Any]:
    return {"items": [item], "nextCursor": "MTc3MjU5OTk2NzAwMC4zYjFm"}


# --- People and their credentials ---


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
_ISSUED_SESSION = {"token": "mbxs_4Zq8T1vK7nW2cX5bY9mD3fGh", "session": _SESSION_VALUE, "member": _MEMBER_VALUE}
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
_ISSUED_KEY = {"apiKey": _KEY_VALUE, "token": "mbxk_8Yt2H5rD9xN4wS7vF1gB6jPc"}
_AUDIT_EVENT = {
    "id": f"aud_{_ID}",
    "at": _NOW,
    "actor": {"kind": "session", "id": _SESSION, "memberId": _MEMBER},
    "action": "session.create",
    "target": {"kind": "session", "id": _SESSION},
    "outcome": "success",
    "clientAddress": "192.0.2.7",
}
_PEOPLE: dict[str, dict[str, Any]] = {
    "createFirstAdmin": {
        "request": {
            "setupCode": "K7QF-2M9X-TB4R",
            "name": "Ada Lovelace",
            "email": _ADA,
            "password": _PASSWORD,
            "deviceName": "Ada's laptop",
        },
        "response": _ISSUED_SESSION,
    },
    "signIn": {
        "request": {"email": _ADA, "password": _PASSWORD, "deviceName": "Ada's laptop"},
        "response": _ISSUED_SESSION,
    },
    "acceptInvitation": {
        "request": {"token": _INVITATION["token"], "password": _PASSWORD, "deviceName": "Ada's laptop"},
        "response": _ISSUED_SESSION,
    },
    "completePasswordReset": {
        "request": {"token": "mbxr_2Kd7V1mX8qT5bN3wZ6cR9hJs", "password": _PASSWORD, "deviceName": "Ada's laptop"},
        "response": _ISSUED_SESSION,
    },
    "createConsoleLink": {
        "response": {
            "url": "http://127.0.0.1:8025/#console=mbxc_5Bn8M2kQ7vX1rT4wY9zD3fHj",
            "expiresAt": "2026-03-04T05:07:07.000Z",
        }
    },
    "redeemConsoleLink": {"request": {"token": "mbxc_5Bn8M2kQ7vX1rT4wY9zD3fHj"}, "response": _ISSUED_SESSION},
    "signOut": {"response": None},
    "getCurrentMember": {
        "response": {
            "member": _MEMBER_VALUE,
            "credential": {"kind": "api_key", "id": _KEY, "capabilities": ["mail.read"], "accountIds": [_ACCOUNT]},
        }
    },
    "updateProfile": {"request": {"name": "Ada Lovelace"}, "response": _MEMBER_VALUE},
    "changePassword": {
        "request": {"currentPassword": _PASSWORD, "newPassword": "seven quiet owls at noon"},
        "response": None,
    },
    "listSessions": {"response": [_SESSION_VALUE]},
    "revokeSession": {"response": _deletion(_SESSION)},
    "listApiKeys": {"response": [_KEY_VALUE]},
    "createApiKey": {
        "request": {"name": "Nightly report", "permissionProfile": "read-only", "accounts": [_ACCOUNT]},
        "response": _ISSUED_KEY,
    },
    "revokeApiKey": {"response": _deletion(_KEY)},
    "listAllApiKeys": {"response": [_KEY_VALUE]},
    "createMemberApiKey": {
        "request": {"name": "Member import", "memberId": _MEMBER, "customCapabilities": ["admin.members"]},
        "response": {
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
    },
    "updateApiKey": {
        "request": {"permissionProfile": "read-write"},
        "response": {
            **_KEY_VALUE,
            "permissionProfile": "read-write",
            "capabilities": ["mail.read", "mail.drafts", "mail.organize", "mail.trash"],
        },
    },
    "revokeMemberApiKey": {"response": _deletion(_KEY)},
    "listMembers": {"response": [_MEMBER_VALUE, _GRACE]},
    "createMember": {
        "request": {"name": "Grace Hopper", "email": "grace@example.org", "role": "member"},
        "response": {"member": _GRACE, "invitation": _INVITATION},
    },
    "getMember": {"response": _GRACE},
    "updateMember": {"request": {"status": "suspended"}, "response": {**_GRACE, "status": "suspended"}},
    "deleteMember": {"response": _deletion(_GRACE["id"])},
    "inviteMember": {"response": _INVITATION},
    "resetMemberPassword": {
        "response": {
            "token": "mbxr_2Kd7V1mX8qT5bN3wZ6cR9hJs",
            "url": "https://mail.example.org/#reset=mbxr_2Kd7V1mX8qT5bN3wZ6cR9hJs",
            "expiresAt": "2026-03-05T05:06:07.000Z",
        }
    },
    "listMemberSessions": {"response": [{**_SESSION_VALUE, "current": False}]},
    "revokeMemberSessions": {"response": _deletion(_MEMBER)},
    "getMemberSession": {"response": {**_SESSION_VALUE, "current": False}},
    "revokeMemberSession": {"response": _deletion(_SESSION)},
    "listAuditEvents": {"parameters": {"action": "session"}, "response": _page(_AUDIT_EVENT)},
    "verifyAuditLog": {"response": {"ok": True, "count": 1204, "firstBroken": None}},
    "listOwnAuditEvents": {"response": _page(_AUDIT_EVENT)},
}


# --- Mailboxes ---


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
    "capabilities": {
        "labels": True,
        "move": True,
        "idle": True,
        "condstore": True,
        "qresync": True,
        "uidplus": True,
    },
    "createdAt": _EARLIER,
    "lastSyncAt": _NOW,
}
_IMAP = {"host": "imap.example.org", "port": 993, "security": "tls", "username": _ADA}
_SMTP = {"host": "smtp.example.org", "port": 465, "security": "tls", "username": _ADA}
_SERVERS = {"imap": {**_IMAP, "password": "app-password"}, "smtp": {**_SMTP, "password": "app-password"}}
_MAILBOXES: dict[str, dict[str, Any]] = {
    "listAccounts": {"response": [_ACCOUNT_VALUE]},
    "addAccount": {
        "request": {"email": _ADA, "displayName": "Ada Lovelace", **_SERVERS},
        "response": {**_ACCOUNT_VALUE, "status": "connecting", "lastSyncAt": None},
    },
    "discoverServers": {
        "request": {"email": _ADA},
        "response": {
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
    },
    "getAccount": {"response": _ACCOUNT_VALUE},
    "updateAccount": {
        "request": {"displayName": "Ada (Engines)"},
        "response": {**_ACCOUNT_VALUE, "displayName": "Ada (Engines)"},
    },
    "removeAccount": {"response": _deletion(_ACCOUNT)},
    "setAccountAccess": {
        "request": {"sharedWithAll": False, "memberIds": [_GRACE["id"]]},
        "response": {**_ACCOUNT_VALUE, "grantedMemberIds": [_GRACE["id"]]},
    },
    "reconnectAccount": {
        "request": {"imap": {"password": "new-password"}, "smtp": {"password": "new-password"}},
        "response": _ACCOUNT_VALUE,
    },
    "startOAuthSignIn": {
        "request": {"email": "ada@gmail.com"},
        "response": {
            "authorizationUrl": "https://accounts.google.com/o/oauth2/v2/auth?client_id=123&state=Xk2v9T",
            "state": "Xk2v9T",
            "expiresAt": "2026-03-04T05:16:07.000Z",
        },
    },
    "completeOAuthSignIn": {
        "request": {"state": "Xk2v9T", "code": "4/0AX4XfWh"},
        "response": {**_ACCOUNT_VALUE, "email": "ada@gmail.com", "provider": "google", "status": "connecting"},
    },
    "listAllAccounts": {"response": [_ACCOUNT_VALUE]},
    "addMemberAccount": {
        "request": {"email": _ADA, "ownerMemberId": _MEMBER, **_SERVERS},
        "response": {**_ACCOUNT_VALUE, "status": "connecting", "lastSyncAt": None},
    },
    "listFolders": {
        "response": [
            {
                "id": f"fld_{_ID}",
                "name": "INBOX",
                "role": "inbox",
                "roleSource": "name",
                "unreadCount": 3,
                "totalCount": 128,
                "path": "INBOX",
            }
        ]
    },
    "mapFolders": {"request": {"archive": "Archive/2026"}, "response": {"sent": "Sent", "archive": "Archive/2026"}},
    "listLabels": {"response": [{"id": "Work", "name": "Work"}]},
    "listSenderAddresses": {"response": [{"email": _ADA, "name": "Ada Lovelace", "isDefault": True}]},
    "getOAuthApps": {
        "response": {
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
        }
    },
    "removeOAuthApp": {"response": _deletion("google")},
}
_MAILBOXES["setOAuthApp"] = {
    "request": {"clientId": "123456789.apps.googleusercontent.com", "clientSecret": "GOCSPX-example"},
    "response": _MAILBOXES["getOAuthApps"]["response"],
}


# --- Messages, drafts and sending ---


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
_QUEUED = {
    "operationId": _DELIVERY,
    "accountId": _ACCOUNT,
    "kind": "scheduled",
    "status": "queued",
    "scheduleId": f"sch_{_ID}",
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
_IDEMPOTENCY_KEY = {"idempotencyKey": "report-2026-03-04"}
_MAIL: dict[str, dict[str, Any]] = {
    "listAllMessages": {"parameters": {"folder": "inbox", "unread": True}, "response": _page(_LISTED)},
    "listMessages": {"parameters": {"q": "from:charles has:attachment"}, "response": _page(_LISTED)},
    "getMessage": {"response": _READ},
    "getMessageBody": {
        "parameters": {"format": "markdown"},
        "response": {
            "format": "markdown",
            "content": "Dear Ada,\n\nthe drawings are complete.\n\nCharles\n",
            "offset": 0,
            "nextOffset": None,
            "totalChars": 47,
        },
    },
    "createDownloadLink": {
        "response": {
            "url": "http://127.0.0.1:8025/api/v1/downloads/q1Zt0vY8m3c",
            "expiresAt": "2026-03-04T05:11:07.000Z",
            "filename": "drawing.pdf",
            "mimeType": "application/pdf",
            "sizeBytes": 48213,
        }
    },
    "getThread": {
        "response": {
            "id": _THREAD,
            "subject": "The difference engine",
            "messages": {"items": [_LISTED], "nextCursor": None},
        }
    },
    "applyMessageAction": {
        "request": {"messageIds": [_MESSAGE], "action": "markRead"},
        "response": {"action": "markRead", "succeededIds": [_MESSAGE], "failed": [], "uncertainIds": []},
    },
    "listDrafts": {"response": _page(_DRAFT)},
    "createDraft": {
        "request": {"replyToMessageId": _MESSAGE, "body": {"text": "Dear Charles,\n\nthank you.\n\nAda\n"}},
        "response": _DRAFT,
    },
    "getDraft": {"response": _DRAFT},
    "updateDraft": {
        "request": {"replyToMessageId": _MESSAGE, "body": {"text": "Dear Charles,\n\nthank you.\n\nAda\n"}},
        "response": _DRAFT,
    },
    "deleteDraft": {"response": _deletion(_DRAFT["id"])},
    "sendEmail": {"parameters": _IDEMPOTENCY_KEY, "request": _OUTGOING, "response": _DELIVERY_VALUE, "later": _QUEUED},
    "previewSend": {
        "request": _OUTGOING,
        "response": {
            "accountId": _ACCOUNT,
            "from": _ADA,
            "to": [_CHARLES],
            "cc": [],
            "bcc": [],
            "subject": "Notes on the engine",
            "attachments": [],
            "bodyTextChars": 47,
            "bodyHtmlChars": 0,
        },
    },
    "forwardEmail": {
        "parameters": {"idempotencyKey": "forward-2026-03-04"},
        "request": {"to": [_CHARLES], "comment": "For your files."},
        "response": {**_DELIVERY_VALUE, "kind": "forward"},
    },
    "listScheduledSends": {
        "response": _page(
            {
                "id": f"sch_{_ID}",
                "accountId": _ACCOUNT,
                "operationId": _DELIVERY,
                "sendAt": _LATER,
                "status": "queued",
                "to": [_CHARLES],
                "subject": "Notes on the engine",
                "createdAt": _NOW,
            }
        )
    },
    "cancelScheduledSend": {"response": _deletion(f"sch_{_ID}")},
    "listAllDeliveries": {"parameters": {"status": "uncertain"}, "response": _page(_ENTRY)},
    "listDeliveries": {"response": _page(_DELIVERY_VALUE)},
    "getDelivery": {"response": _DELIVERY_VALUE},
    "getDeliveryTimeline": {
        "response": {
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
        }
    },
    "resolveDelivery": {"request": {"outcome": "succeeded"}, "response": _DELIVERY_VALUE},
}


# --- The appliance ---


_LICENSE = {
    "plan": "team",
    "status": "valid",
    "issuedTo": "Example Ltd.",
    "expiresAt": "2027-03-01T00:00:00.000Z",
    "maxMembers": 10,
    "maxAccounts": 25,
}
_BACKUP = {
    "id": f"bak_{_ID}",
    "fileName": "2026-03-04T05-06-07Z-manual.mbxbackup",
    "createdAt": _NOW,
    "reason": "manual",
    "format": 5,
    "version": "0.11.0",
    "sizeBytes": 73400320,
    "passphraseProtected": True,
    "verified": True,
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
_SETTINGS = {"sending.hold_scheduled": False, "backup.daily": True, "log.level": "info"}
_HTTPS = {
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
}
_PEM = "-----BEGIN {0}-----\n...\n-----END {0}-----\n"
_APPLIANCE: dict[str, dict[str, Any]] = {
    "getServerInfo": {
        "response": {"name": "mailbox-appliance", "version": "0.11.0", "apiVersion": "v1", "setupRequired": False}
    },
    "getStatus": {
        "response": {
            "version": "0.11.0",
            "uptimeSeconds": 86400,
            "store": {"format": 5, "sizeBytes": 734003200, "freeBytes": 52428800000},
            "accounts": [{"id": _ACCOUNT, "status": "ready", "lastSyncAt": _NOW, "progress": None}],
            "deliveries": {"queued": 0, "sending": 0, "uncertain": 0},
        }
    },
    "getHistory": {
        "parameters": {"hours": 24},
        "response": {
            "from": _EARLIER,
            "to": "2026-03-01T09:00:00.000Z",
            "stepSeconds": 3600,
            "deliveries": [{"at": _EARLIER, "succeeded": 4, "failed": 0, "uncertain": 0, "other": 1}],
            "arrived": [{"at": _EARLIER, "messages": 17}],
        },
    },
    "dismissCrash": {"response": None},
    "getLicense": {"response": _LICENSE},
    "setLicense": {"request": {"token": "eyJhbGciOiJFZERTQSJ9.eyJwbGFuIjoidGVhbSJ9.c2ln"}, "response": _LICENSE},
    "removeLicense": {"response": _deletion("license")},
    "listBackups": {"response": _page(_BACKUP)},
    "createBackup": {"request": {"passphrase": _PASSWORD}, "response": _BACKUP},
    "verifyBackup": {"request": {"passphrase": _PASSWORD}, "response": _SUMMARY},
    "restoreBackup": {
        "request": {"backupId": _BACKUP["id"], "passphrase": _PASSWORD, "dryRun": True},
        "response": _SUMMARY,
        "later": _SUMMARY,
    },
    "getStore": {
        "response": {
            "path": "/var/lib/mailbox-appliance",
            "format": 5,
            "problem": None,
            "sizeBytes": 734003200,
            "freeBytes": 52428800000,
            "lowSpace": False,
            "key": {"file": "/var/lib/mailbox-appliance/key", "slots": ["file"], "problem": None},
            "lastBackup": {"id": _BACKUP["id"], "at": _NOW, "reason": "manual"},
            "pid": 4711,
            "migration": None,
        }
    },
    "checkStore": {
        "request": {"full": True},
        "response": {"ok": True, "full": True, "format": 5, "checked": ["pages", "rows"], "problems": []},
    },
    "getSettings": {"response": _SETTINGS},
    "updateSettings": {
        "request": {"log.level": "debug", "backup.daily": None},
        "response": {**_SETTINGS, "log.level": "debug"},
    },
    "getHttps": {"response": _HTTPS},
    "updateHttps": {"request": {"enabled": True, "port": 8443}, "response": _HTTPS},
    "setHttpsCertificate": {
        "request": {"certificate": _PEM.format("CERTIFICATE"), "privateKey": _PEM.format("PRIVATE KEY")},
        "response": _HTTPS,
    },
    "rotateHttpsCertificate": {"response": _HTTPS},
}

EXAMPLES = _APPLIANCE | _PEOPLE | _MAILBOXES | _MAIL
ERROR_EXAMPLE = {
    "error": {
        "code": "invalid_request",
        "message": "The request is not valid: /to: Expected `array`, got `str`.",
        "requestId": f"req_{_ID}",
        "details": [{"path": "/to", "message": "Expected `array`, got `str`."}],
    }
}
