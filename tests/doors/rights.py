"""Who may ask for what: a row for every operation, written by hand from the specification and the contract.

Nothing in this file is taken from the code: a row says what these two pages say. An operation without a row fails the
suite (`test_matrix.py`). In front of each group stands where it is written; "S 4" is the specification, part 4 of
"Authentication"; "C 2" is the contract, section 2.

Who: everybody (no credential is looked at), the local computer, whoever has a credential, whoever has a session.
Capabilities: one of those named. Guards: what else is asked, see `Guard`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mailbox_appliance.web.console_files import files_digest

READ, DRAFTS, ORGANIZE = "mail.read", "mail.drafts", "mail.organize"
TRASH, DELETE, SEND = "mail.trash", "mail.delete", "mail.send"
MAIL = (READ, DRAFTS, ORGANIZE, TRASH, DELETE, SEND)
ACCOUNTS, MEMBERS, API_KEYS = "admin.accounts", "admin.members", "admin.api_keys"
LICENSE, AUDIT = "admin.license", "admin.audit"
ADMIN = (ACCOUNTS, MEMBERS, API_KEYS, LICENSE, AUDIT)


class Who(Enum):
    """What somebody must come with."""

    EVERYBODY = "everybody"
    LOCAL = "this computer"
    CREDENTIAL = "K"
    SESSION = "S"


class Guard(Enum):
    """What is asked beyond the credential and its capabilities."""

    #: From another computer only by HTTPS (S 6; C 4 "login, enroll and reset need HTTPS as administration does").
    HTTPS = "https"
    #: The same, where the body asks for rights of administration: told where capabilities are (S 6).
    HTTPS_FOR_THIS = "https for what the body asks"
    #: The member behind the session is an administrator now (C 3 "admin S").
    ADMIN = "role"
    #: The member owns the mailbox (C 3 "owner"): a granted member gets 403, whoever does not reach it 404.
    OWNER = "owner"
    #: S 3: a key's limit to mailboxes holds in each request; what is no mailbox, or not there yet, lies beyond it.
    UNLIMITED = "not limited to mailboxes"
    #: C 3 "sender or owner": whoever does not even see the operation gets 404.
    SENDER_OR_OWNER = "sender or owner"
    #: C 3 "owner S or A(admin.accounts)": with the capability every mailbox's settings are reached.
    OWNER_OR_ADMIN = "owner or admin.accounts"
    #: What the path names must be there, which is told before the request itself is looked at.
    MEMBER = "the member is there"
    KEY = "the key is there"
    PROVIDER = "google or outlook"
    #: C 2: an API key, whatever it holds, can neither change, invite, reset, suspend nor delete an admin.
    NO_ADMIN_BY_KEY = "an API key touches no admin"
    #: C 4: the local operator (the secret of `run.json`, on this computer) may as well, "and nothing in mail".
    OR_OPERATOR = "or the operator"


@dataclass(frozen=True)
class Right:
    """One row. `body`: the rights are those of a request with this body; `is_page`: no query is looked at."""

    #: Method and path, as the contract has them.
    call: str
    who: Who
    needs: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    body: Mapping[str, Any] | None = None
    is_page: bool = False

    @property
    def method(self) -> str:
        """Such as `GET`."""
        return self.call.partition(" ")[0]

    @property
    def path(self) -> str:
        """What stands behind `/api/v1`."""
        return self.call.partition(" ")[2]

    @property
    def action(self) -> str | None:
        """The bulk action that the body asks for."""
        return None if self.body is None or "action" not in self.body else str(self.body["action"])

    @property
    def name(self) -> str:
        """Method and path, and the action, or what else the body asks for."""
        asked = "" if self.body is None else self.action or " ".join(map(str, self.body))
        return f"{self.call} {asked}".rstrip()


def everybody(call: str, *guards: Guard, who: Who = Who.EVERYBODY, is_page: bool = False) -> Right:
    """No credential is asked for."""
    return Right(call, who, guards=guards, is_page=is_page)


def credential(call: str, *needs: str, body: Mapping[str, Any] | None = None, guard: Guard | None = None) -> Right:
    """K: a session or an API key, with one of these capabilities."""
    return Right(call, Who.CREDENTIAL, needs, () if guard is None else (guard,), body)


def session(call: str, *guards: Guard) -> Right:
    """S: a session; API keys are refused."""
    return Right(call, Who.SESSION, guards=guards)


def admin(call: str, capability: str, *guards: Guard) -> Right:
    """A(capability): an administrator's session, or a key with that capability; remotely by HTTPS (S 5, S 6)."""
    return Right(call, Who.CREDENTIAL, (capability,), (Guard.HTTPS, *guards))


def granting(**lists: object) -> Right:
    """A key of one's own with rights of administration."""
    return Right("POST /me/api-keys", Who.SESSION, guards=(Guard.HTTPS_FOR_THIS,), body=lists)


def action(name: str, capability: str) -> Right:
    """One of the bulk actions, each with the capability of its own (C 2)."""
    body = {"action": name, "messageIds": ["msg_unknown"]}
    body |= {"folder": "inbox"} if name == "move" else {"labels": ["a"]} if name.endswith("Labels") else {}
    return credential(ACTIONS, capability, body=body)


BOX = "/accounts/{accountId}"
MESSAGE = f"{BOX}/messages/{{messageId}}"
OPERATION = f"{BOX}/delivery-operations/{{operationId}}"
MEMBER, KEY = "/admin/members/{memberId}", "/admin/api-keys/{keyId}"
WEBHOOK, APPROVAL = "/webhooks/{webhookId}", "/approvals/{approvalId}"
POLICY, KEY_POLICY = f"{BOX}/sending-policy", "/me/api-keys/{keyId}/sending-policy"
ACTIONS = f"POST {BOX}/messages/actions"
UNDO = f"POST {BOX}/messages/actions/undo"
HTTPS, THERE, NO_ADMIN = Guard.HTTPS, Guard.MEMBER, Guard.NO_ADMIN_BY_KEY
#: C 3 "admin S", C 4 "go through the running instance ... as the local operator".
OPERATED = (Guard.HTTPS, Guard.ADMIN, Guard.OR_OPERATOR)

# fmt: off
RIGHTS: tuple[Right, ...] = (
    # C 3, the first lines; S 2; C 4 for set-up, which stays local, and for HTTPS.
    everybody("GET /"),
    everybody("GET /openapi.json"),
    everybody("POST /setup", who=Who.LOCAL),
    everybody("POST /auth/login", HTTPS),
    everybody("POST /auth/enroll", HTTPS),
    everybody("POST /auth/password-reset", HTTPS),
    everybody("POST /auth/console-links/redeem", HTTPS),
    credential("GET /status", READ),                      # C 2: accounts, status: mail.read
    credential("GET /status/history", READ),
    session("POST /admin/crashes/{trace}/dismiss", HTTPS, Guard.ADMIN),

    # S 3 and S 4; C 3.
    credential("GET /me"),
    session("PATCH /me"),
    session("POST /me/password", HTTPS),
    session("POST /auth/logout"),
    session("POST /auth/console-links", HTTPS),           # S 6: its answer lets in who reads it, as an admin, too
    session("GET /me/sessions"),
    session("DELETE /me/sessions/{sessionId}"),
    session("GET /me/api-keys"),
    session("POST /me/api-keys"),
    # S 6: the token of such a key is administration, and is shown in the answer. Other keys are as before.
    granting(supplementalCapabilities=[MEMBERS], permissionProfile="full"),
    granting(customCapabilities=[READ, AUDIT]),
    session("DELETE /me/api-keys/{keyId}"),
    session("GET /me/audit-events"),                      # C 2: what they do is audited and shown to the member

    # C 2: Members endpoints: admin.members. An API key touches no admin.
    admin("GET /admin/members", MEMBERS),
    admin("POST /admin/members", MEMBERS),
    admin(f"GET {MEMBER}", MEMBERS, THERE),
    admin(f"PATCH {MEMBER}", MEMBERS, THERE, NO_ADMIN),
    admin(f"DELETE {MEMBER}", MEMBERS, THERE, NO_ADMIN),
    admin(f"POST {MEMBER}/invitation", MEMBERS, THERE, NO_ADMIN),
    admin(f"POST {MEMBER}/password-reset", MEMBERS, THERE, NO_ADMIN),
    admin(f"GET {MEMBER}/sessions", MEMBERS, THERE),
    admin(f"DELETE {MEMBER}/sessions", MEMBERS, THERE, NO_ADMIN),
    admin(f"GET {MEMBER}/sessions/{{sessionId}}", MEMBERS, THERE),
    admin(f"DELETE {MEMBER}/sessions/{{sessionId}}", MEMBERS, THERE, NO_ADMIN),

    # S "PATCH /api/v1/admin/api-keys/{keyId}"; C 3.
    admin("GET /admin/api-keys", API_KEYS),
    admin("POST /admin/api-keys", API_KEYS),
    admin(f"PATCH {KEY}", API_KEYS, Guard.KEY),
    admin(f"DELETE {KEY}", API_KEYS, Guard.KEY),

    # S "PUT /api/v1/admin/oauth-apps/{provider}"; C 2 "an unknown {provider} 404"; C 3.
    admin("GET /admin/oauth-apps", ACCOUNTS, Guard.UNLIMITED),
    admin("PUT /admin/oauth-apps/{provider}", ACCOUNTS, Guard.UNLIMITED, Guard.PROVIDER),
    admin("DELETE /admin/oauth-apps/{provider}", ACCOUNTS, Guard.UNLIMITED, Guard.PROVIDER),
    admin("GET /admin/accounts", ACCOUNTS),
    admin("POST /admin/accounts", ACCOUNTS, Guard.UNLIMITED),
    admin("GET /admin/audit-events", AUDIT),
    admin("GET /admin/audit-events/verify", AUDIT),
    admin("GET /admin/license", LICENSE),
    admin("PUT /admin/license", LICENSE),
    admin("DELETE /admin/license", LICENSE),
    session("GET /admin/settings", HTTPS, Guard.ADMIN),
    session("PATCH /admin/settings", HTTPS, Guard.ADMIN),

    # C 3: "K / owner S", "S (reconnect: owner)", "owner S or A(admin.accounts)"; S "owned IMAP mailbox".
    credential("GET /accounts", READ),
    session("POST /accounts"),
    session("POST /accounts/discover"),
    credential(f"GET {BOX}", READ),
    session(f"PATCH {BOX}", Guard.OWNER),
    session(f"DELETE {BOX}", Guard.OWNER),
    session(f"POST {BOX}/reconnect", Guard.OWNER),
    credential(f"PUT {BOX}/access", guard=Guard.OWNER_OR_ADMIN),
    session(f"PATCH {BOX}/imap/folders", Guard.OWNER),

    # C 2, "A mail capability each operation needs"; C 3: K.
    credential(f"GET {BOX}/folders", READ),
    credential(f"GET {BOX}/labels", READ),
    credential(f"GET {BOX}/sender-addresses", READ),
    credential("GET /messages", READ),
    credential(f"GET {BOX}/messages", READ),
    credential(f"GET {MESSAGE}", READ),
    credential(f"GET {MESSAGE}/body", READ),
    credential(f"GET {MESSAGE}/raw", READ),
    credential(f"GET {MESSAGE}/attachments/{{attachmentId}}", READ),
    credential(f"POST {MESSAGE}/attachments/{{attachmentId}}/download-link", READ),
    everybody("GET /downloads/{token}"),                  # C 3: the token
    credential("POST /uploads", DRAFTS, SEND),            # C 7: K (mail.drafts or mail.send)
    credential("POST /uploads/links", DRAFTS, SEND),
    everybody("PUT /uploads/links/{token}"),              # C 7: the link
    credential("GET /uploads/{uploadId}", DRAFTS, SEND),
    credential("DELETE /uploads/{uploadId}", DRAFTS, SEND),
    credential(f"GET {BOX}/threads/{{threadId}}", READ),
    credential(f"GET {BOX}/drafts", READ),
    credential(f"GET {BOX}/drafts/{{draftId}}", READ),
    credential(f"POST {BOX}/drafts", DRAFTS),
    credential(f"PUT {BOX}/drafts/{{draftId}}", DRAFTS),
    credential(f"DELETE {BOX}/drafts/{{draftId}}", DRAFTS),
    credential(f"POST {BOX}/send/preview", DRAFTS, SEND),
    credential(f"POST {BOX}/messages/{{messageId}}/forward/preview", DRAFTS, SEND),
    credential(f"POST {BOX}/send", SEND),
    credential(f"POST {MESSAGE}/forward", SEND),
    credential(f"GET {BOX}/scheduled", READ),
    credential(f"DELETE {BOX}/scheduled/{{scheduleId}}", SEND),
    credential("GET /delivery-operations", READ),
    credential("GET /events", READ),                      # C 7: what may be read now; each kind as in its list
    credential("GET /events/stream", READ),
    credential(f"GET {BOX}/delivery-operations", READ),
    credential(f"GET {OPERATION}", READ),
    credential(f"GET {OPERATION}/timeline", READ),
    session(f"POST {OPERATION}/resolve", Guard.SENDER_OR_OWNER),

    # C 2: which action needs what. Where the body does not say which, one of the three is needed all the same.
    credential(ACTIONS, ORGANIZE, TRASH, DELETE),
    action("markRead", ORGANIZE), action("markUnread", ORGANIZE), action("star", ORGANIZE), action("unstar", ORGANIZE),
    action("archive", ORGANIZE), action("move", ORGANIZE),
    action("addLabels", ORGANIZE), action("removeLabels", ORGANIZE),
    action("trash", TRASH), action("untrash", TRASH), action("delete", DELETE),
    # C 7: "what the action needs"; which action that is, the token tells.
    credential(UNDO, ORGANIZE, TRASH),

    # C 3: "admin S"; C 4: `backup create|list|verify` go through the running instance as the local operator. What a
    # backup holds leaves the computer with an administrator only.
    session("GET /admin/backups", *OPERATED),
    session("POST /admin/backups", *OPERATED),
    session("GET /admin/backups/{backupId}", HTTPS, Guard.ADMIN),
    session("POST /admin/backups/{backupId}/verify", *OPERATED),
    session("GET /admin/store", *OPERATED),
    session("POST /admin/store/check", *OPERATED),
    session("GET /admin/https", *OPERATED),
    session("PATCH /admin/https", *OPERATED),
    session("PUT /admin/https/certificate", *OPERATED),
    session("POST /admin/https/rotate", *OPERATED),

    # C 7: webhooks are a member's own, whatever mailboxes they name; another member's is 404.
    session("GET /webhooks"),
    session("POST /webhooks"),
    session(f"GET {WEBHOOK}"),
    session(f"PATCH {WEBHOOK}"),
    session(f"DELETE {WEBHOOK}"),
    session(f"POST {WEBHOOK}/rotate-secret"),
    session(f"POST {WEBHOOK}/test"),
    session(f"POST {WEBHOOK}/replay"),
    session(f"GET {WEBHOOK}/attempts"),

    # C 7: approvals by a member's session, "never by the key that asked, nor by any key". What became of its own
    # messages is told to whoever may send them; a policy is its owner's, and a key's policy its member's.
    session("GET /approvals"),
    session(f"GET {APPROVAL}"),
    session(f"GET {APPROVAL}/raw"),
    session(f"GET {APPROVAL}/attachments/{{attachmentId}}"),
    session(f"POST {APPROVAL}/approve"),
    session(f"POST {APPROVAL}/reject"),
    credential("GET /me/approvals", SEND),
    session(f"GET {POLICY}", Guard.OWNER),
    session(f"PUT {POLICY}", Guard.OWNER),
    session(f"GET {KEY_POLICY}"),
    session(f"PUT {KEY_POLICY}"),
    admin(f"GET {KEY}/sending-policy", API_KEYS, Guard.KEY),
    admin(f"PUT {KEY}/sending-policy", API_KEYS, Guard.KEY),

    # Of later issues: C 3, and S 5 for what is administration.
    session("POST /accounts/oauth/{provider}", Guard.PROVIDER),
    everybody("GET /oauth/callback", is_page=True),
    everybody("GET /docs", is_page=True),
    session("POST /accounts/oauth/{provider}/finish", Guard.PROVIDER),
    session("POST /admin/restore", HTTPS, Guard.ADMIN),
)
# fmt: on

#: Outside `/api/v1`: pages for everybody that show nothing of anybody's (C 3: "no auth; 200 once serving").
PAGES = frozenset({"GET /", "GET /healthz"})
#: Templates of files that are the same for everybody, and one of each.
FILES = {
    "GET /console/{digest}/{name}": f"/console/{files_digest()}/app.js",
    "GET /api/v1/docs/{name}": "/api/v1/docs/docs.js",
}
#: C 3: "local only unless allowed", whatever one comes with.
LOCAL_PAGES = frozenset({"GET /metrics"})

#: Rows whose operation is not offered yet; none of those that are there may stand here.
NOT_YET: frozenset[str] = frozenset()
