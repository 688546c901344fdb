"""Which command line stands for which REST call: written by hand, one line a command. A command without a line fails.

Words in braces are values of the path. Whatever else is asked for is there so that the command line makes sense.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.doors.rights import ACTIONS, APPROVAL, BOX, KEY, KEY_POLICY, MEMBER, MESSAGE, OPERATION, POLICY, UNDO


@dataclass(frozen=True)
class Line:
    """A command line and its call; `action`: of a bulk action."""

    words: tuple[str, ...]
    call: str
    action: str | None = None

    @property
    def name(self) -> str:
        """The whole line."""
        return " ".join(self.words)

    @property
    def command(self) -> str:
        """The command without what is given to it: the words before the first that is no name."""
        names = [word for word in self.words[:2] if word.replace("-", "").isalpha() and not word.startswith("-")]
        return " ".join(names)


def _line(words: str, call: str, action: str | None = None) -> Line:
    return Line(tuple(words.split()), call, action)


def _action(words: str, action: str) -> Line:
    return _line(f"emails {words} --account {{accountId}}", ACTIONS, action)


IN = "--account {accountId}"
SERVERS = "--email a@b.example --imap-host h --smtp-host h --password-stdin"
TO = "--to a@b.example"
#: Any JSON object: with a body, a command need not read the present policy first.
OBJECT = Path(__file__).parents[1] / "console" / "package.json"
# fmt: off
LINES: tuple[Line, ...] = (
    _line("login --email a@b.example --password-stdin",               "POST /auth/login"),
    _line("logout",                                                   "POST /auth/logout"),
    _line("enroll --link-stdin --password-stdin",                     "POST /auth/enroll"),
    _line("reset-password --link-stdin --password-stdin",             "POST /auth/password-reset"),
    _line("password --password-stdin --new-password-stdin",           "POST /me/password"),
    _line("profile update --name n",                                  "PATCH /me"),
    _line("console",                                                  "POST /auth/console-links"),
    _line("about",                                                    "GET /"),
    _line("whoami",                                                   "GET /me"),
    _line("status",                                                   "GET /status"),
    _line("history",                                                  "GET /status/history"),
    _line("openapi",                                                  "GET /openapi.json"),
    _line("sessions list",                                            "GET /me/sessions"),
    _line("sessions revoke {sessionId}",                              "DELETE /me/sessions/{sessionId}"),
    _line("sessions list --member {memberId}",                        "GET /admin/members/{memberId}/sessions"),
    _line("sessions revoke --member {memberId}",                      "DELETE /admin/members/{memberId}/sessions"),
    _line("sessions revoke {sessionId} --member {memberId}",
          "DELETE /admin/members/{memberId}/sessions/{sessionId}"),
    _line("sessions show {sessionId} --member {memberId}",
          "GET /admin/members/{memberId}/sessions/{sessionId}"),
    _line("api-keys list",                                            "GET /me/api-keys"),
    _line("api-keys list --all-members",                              "GET /admin/api-keys"),
    _line("api-keys create --name n --profile full",                  "POST /me/api-keys"),
    _line("api-keys create --name n --profile full --member mem_1",   "POST /admin/api-keys"),
    _line("api-keys update {keyId} --no-accounts",                    f"PATCH {KEY}"),
    _line("api-keys revoke {keyId}",                                  "DELETE /me/api-keys/{keyId}"),
    _line("api-keys revoke {keyId} --all-members",                    f"DELETE {KEY}"),
    _line("members list",                                             "GET /admin/members"),
    _line("members show {memberId}",                                  f"GET {MEMBER}"),
    _line("members add --name n --email e@b.example",                 "POST /admin/members"),
    _line("members update {memberId} --name n",                       f"PATCH {MEMBER}"),
    _line("members suspend {memberId}",                               f"PATCH {MEMBER}"),
    _line("members activate {memberId}",                              f"PATCH {MEMBER}"),
    _line("members invite {memberId}",                                f"POST {MEMBER}/invitation"),
    _line("members reset-password {memberId}",                        f"POST {MEMBER}/password-reset"),
    _line("members remove {memberId}",                                f"DELETE {MEMBER}"),
    _line("audit list",                                               "GET /admin/audit-events"),
    _line("audit list --mine",                                        "GET /me/audit-events"),
    _line("audit verify",                                             "GET /admin/audit-events/verify"),
    _line("accounts list",                                            "GET /accounts"),
    _line(f"accounts add {SERVERS}",                                  "POST /accounts"),
    _line("accounts add --provider {provider} --begin",               "POST /accounts/oauth/{provider}"),
    _line("accounts add --provider {provider} --finish",              "POST /accounts/oauth/{provider}/finish"),
    _line("accounts discover ada@gmail.com",                          "POST /accounts/discover"),
    _line("accounts list --everybody",                                "GET /admin/accounts"),
    _line(f"accounts add {SERVERS} --owner mem_1",                    "POST /admin/accounts"),
    _line("accounts show {accountId}",                                f"GET {BOX}"),
    _line("accounts rename {accountId} --display-name n",             f"PATCH {BOX}"),
    _line("accounts reconnect {accountId} --imap-port 993",           f"POST {BOX}/reconnect"),
    _line("accounts access {accountId} --not-with-all",               f"PUT {BOX}/access"),
    _line("accounts remove {accountId}",                              f"DELETE {BOX}"),
    _line("accounts folders {accountId}",                             f"GET {BOX}/folders"),
    _line("accounts map-folders {accountId} --sent Sent",             f"PATCH {BOX}/imap/folders"),
    _line(f"labels list {IN}",                                        f"GET {BOX}/labels"),
    _line("accounts addresses {accountId}",                           f"GET {BOX}/sender-addresses"),
    _line(f"emails list {IN}",                                        f"GET {BOX}/messages"),
    _line(f"emails list {IN} --all",                                  f"GET {BOX}/messages"),
    _line("emails search invoice",                                    "GET /messages"),
    _line(f"emails search invoice {IN}",                              f"GET {BOX}/messages"),
    _line(f"emails get {{messageId}} {IN}",                           f"GET {MESSAGE}"),
    _line(f"emails get {{messageId}} {IN} --body-format text",        f"GET {MESSAGE}/body"),
    _line(f"emails get {{messageId}} {IN} --raw --output -",          f"GET {MESSAGE}/raw"),
    _line(f"emails send {IN} {TO} --idempotency-key k",               f"POST {BOX}/send"),
    _line(f"emails preview {IN} {TO}",                                f"POST {BOX}/send/preview"),
    _line(f"emails send {IN} {TO} --dry-run",                         f"POST {BOX}/send/preview"),
    _line(f"emails forward {{messageId}} {IN} {TO} --idempotency-key k", f"POST {MESSAGE}/forward"),
    _line(f"emails forward {{messageId}} {IN} {TO} --dry-run",        f"POST {MESSAGE}/forward/preview"),
    _line(f"emails delivery-status {{operationId}} {IN}",             f"GET {OPERATION}"),
    _line(f"emails timeline {{operationId}} {IN}",                    f"GET {OPERATION}/timeline"),
    _line("emails deliveries",                                        "GET /delivery-operations"),
    _line(f"emails deliveries {IN}",                                  f"GET {BOX}/delivery-operations"),
    _line(f"emails resolve {{operationId}} {IN} --outcome failed",    f"POST {OPERATION}/resolve"),
    _action("read m",             "markRead"),
    _action("unread m",           "markUnread"),
    _action("star m",             "star"),
    _action("unstar m",           "unstar"),
    _action("archive m",          "archive"),
    _action("trash m",            "trash"),
    _action("untrash m",          "untrash"),
    _action("delete m",           "delete"),
    _action("move m --folder f",  "move"),
    _action("label m --add l",    "addLabels"),
    _action("label m --remove l", "removeLabels"),
    _line(f"emails undo t {IN}",                                      UNDO),
    _line(f"attachments download {{messageId}} {{attachmentId}} {IN}", f"GET {MESSAGE}/attachments/{{attachmentId}}"),
    _line(f"attachments link {{messageId}} {{attachmentId}} {IN}",
          f"POST {MESSAGE}/attachments/{{attachmentId}}/download-link"),
    _line("uploads create - --filename a",                            "POST /uploads"),
    _line(f"threads get {{threadId}} {IN}",                           f"GET {BOX}/threads/{{threadId}}"),
    _line(f"drafts list {IN}",                                        f"GET {BOX}/drafts"),
    _line(f"drafts get {{draftId}} {IN}",                             f"GET {BOX}/drafts/{{draftId}}"),
    _line(f"drafts create {IN} {TO}",                                 f"POST {BOX}/drafts"),
    _line(f"drafts update {{draftId}} {IN} {TO}",                     f"PUT {BOX}/drafts/{{draftId}}"),
    _line(f"drafts delete {{draftId}} {IN}",                          f"DELETE {BOX}/drafts/{{draftId}}"),
    _line(f"drafts send {{draftId}} {IN} --idempotency-key k",        f"POST {BOX}/send"),
    _line(f"drafts send {{draftId}} {IN} --dry-run",                  f"POST {BOX}/send/preview"),
    _line(f"scheduled list {IN}",                                     f"GET {BOX}/scheduled"),
    _line(f"scheduled cancel {{scheduleId}} {IN}",                    f"DELETE {BOX}/scheduled/{{scheduleId}}"),
    _line("scheduled release",                                        "PATCH /admin/settings"),
    _line("approvals list",                                           "GET /approvals"),
    _line("approvals list --mine",                                    "GET /me/approvals"),
    _line("approvals show {approvalId}",                              f"GET {APPROVAL}"),
    _line("approvals show {approvalId} --raw --output -",             f"GET {APPROVAL}/raw"),
    _line("approvals show {approvalId} --attachment 2 --output -",    f"GET {APPROVAL}/attachments/{{attachmentId}}"),
    _line("approvals approve {approvalId} --digest d",                f"POST {APPROVAL}/approve"),
    _line("approvals reject {approvalId}",                            f"POST {APPROVAL}/reject"),
    _line(f"policy show {IN}",                                        f"GET {POLICY}"),
    _line(f"policy set {IN} --approval always",                       f"PUT {POLICY}"),
    _line("policy show --key {keyId}",                                f"GET {KEY_POLICY}"),
    _line(f"policy set --key {{keyId}} --input {OBJECT}",             f"PUT {KEY_POLICY}"),
    _line("policy show --key {keyId} --all-members",                  f"GET {KEY}/sending-policy"),
    _line("policy set --key {keyId} --approval always --all-members", f"PUT {KEY}/sending-policy"),
    _line("events list",                                              "GET /events"),
    _line("events follow",                                            "GET /events"),
    _line("webhooks list",                                            "GET /webhooks"),
    _line("webhooks show {webhookId}",                                "GET /webhooks/{webhookId}"),
    _line("webhooks create --url https://a.example --type message.created", "POST /webhooks"),
    _line("webhooks update {webhookId} --disable",                    "PATCH /webhooks/{webhookId}"),
    _line("webhooks delete {webhookId}",                              "DELETE /webhooks/{webhookId}"),
    _line("webhooks rotate-secret {webhookId}",                       "POST /webhooks/{webhookId}/rotate-secret"),
    _line("webhooks test {webhookId}",                                "POST /webhooks/{webhookId}/test"),
    _line("webhooks replay {webhookId} --after a-1",                  "POST /webhooks/{webhookId}/replay"),
    _line("webhooks attempts {webhookId}",                            "GET /webhooks/{webhookId}/attempts"),
    _line("backup create",                                            "POST /admin/backups"),
    _line("backup list",                                              "GET /admin/backups"),
    _line("backup verify {backupId}",                                 "POST /admin/backups/{backupId}/verify"),
    _line("backup download {backupId} --output -",                    "GET /admin/backups/{backupId}"),
    _line("backup restore bak_1 --online --dry-run",                  "POST /admin/restore"),
    _line("settings show",                                            "GET /admin/settings"),
    _line("settings set log.level debug",                             "PATCH /admin/settings"),
    _line("settings reset log.level",                                 "PATCH /admin/settings"),
    _line("store status",                                             "GET /admin/store"),
    _line("store check",                                              "POST /admin/store/check"),
    _line("https status",                                             "GET /admin/https"),
    _line("https fingerprint",                                        "GET /admin/https"),
    _line("https enable",                                             "PATCH /admin/https"),
    _line("https disable",                                            "PATCH /admin/https"),
    _line(f"https import {__file__} {__file__}",                      "PUT /admin/https/certificate"),
    _line("https rotate",                                             "POST /admin/https/rotate"),
    _line("license show",                                             "GET /admin/license"),
    _line("license set --token-stdin",                                "PUT /admin/license"),
    _line("license remove",                                           "DELETE /admin/license"),
    _line("oauth-apps show",                                          "GET /admin/oauth-apps"),
    _line("oauth-apps set {provider} --client-id c --public-client",  "PUT /admin/oauth-apps/{provider}"),
    _line("oauth-apps remove {provider}",                             "DELETE /admin/oauth-apps/{provider}"),
)
# fmt: on

#: Commands that ask no appliance for anything a member has, and why.
ASK_NOBODY = {
    "demo": "starts an appliance of its own",
    "serve": "is the appliance",
    "setup": "works with the data directory and its set-up code; see test_set_up.py",
    "instances list": "reads a file of this user's",
    "instances use": "writes a file of this user's",
    "instances remove": "writes a file of this user's",
    "store migrate": "upgrades the store of an older release while nothing runs",
    "store compact": "writes the store anew while nothing runs",
    "store rekey": "writes the store anew while nothing runs",
    "key show": "reads the key file while nothing runs",
    "key add-passphrase": "writes the key file while nothing runs",
    "key use-keyring": "writes the key file while nothing runs",
    "key use-file": "writes the key file while nothing runs",
    "mcp": "asks POST /mcp, outside the API, for the assistant that it serves; the tools are a door of their own",
    "tray": "is a client by its member's log-in, and asks when its menu is clicked: POST /admin/backups, say",
    "autostart enable": "writes what the system starts for this user",
    "autostart disable": "writes what the system starts for this user",
    "autostart status": "reads what the system starts for this user",
    "logs": "reads the log file in the data directory",
    "completion": "prints a script",
    "demo-servers": "is how the demo starts its mail servers",
    "ask-keychain": "is how this program asks the keychain of this computer",
}
