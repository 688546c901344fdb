"""Texts and examples of the OpenAPI document. Loaded only with the document, so that an idle appliance lacks them."""

#: The sections of the API reference, in order: name, description, and the names of their operations.
TAGS: tuple[tuple[str, str, str], ...] = (
    (
        "Server",
        "Version, status and history of the appliance.",
        "getServerInfo getStatus getHistory dismissCrash",
    ),
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
        ),
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
            "sendEmail previewSend forwardEmail listScheduledSends cancelScheduledSend listAllDeliveries listDeliveries"
            " getDelivery getDeliveryTimeline resolveDelivery"
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
    (
        "Store",
        "The encrypted database: its status and integrity.",
        "getStore checkStore",
    ),
    (
        "Settings",
        "Settings that can change while the appliance runs.",
        "getSettings updateSettings",
    ),
    (
        "HTTPS",
        "Remote access over HTTPS, and its certificate.",
        "getHttps updateHttps setHttpsCertificate rotateHttpsCertificate",
    ),
)
TAG_OF = {operation: name for name, _, operations in TAGS for operation in operations.split()}
