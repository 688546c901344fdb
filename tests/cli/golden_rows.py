"""One row for each command: a command line that succeeds, one that fails, and the preparation for the first.

Words in braces are values of the stage. The rows run in this order: each succeeding line as json, table and ndjson, and
each failing one as json and table. `before` runs before each succeeding line.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.cli import golden_makers as make
from tests.cli.golden_stage import Stage
from tests.servers.running import PASSWORD

Before = Callable[[Stage], None]
P = PASSWORD
HERE = "--account {account}"
KEY_PHRASE = "twelve geese fly"
FILES = "--data-dir {files}"
NO_SUCH = "--data-dir {folder}/nothing"


@dataclass(frozen=True)
class Row:
    """A command; `says`: the lines of its input."""

    command: str
    good: str
    bad: str
    before: Before | None = None
    says: tuple[str, ...] = ()
    bad_says: tuple[str, ...] = ()
    #: Whether the command uses the token in the environment instead of a stored session.
    by_token: bool = True


def _action(name: str, heap: str, more: str = "") -> Row:
    return Row(f"emails {name}", f"{{{heap}}} {HERE}{more}", f"{{{heap}}} --account acc_unknown{more}")


# fmt: off
SERVERS = (
    "--imap-host 127.0.0.1 --imap-port {imap} --imap-security none "
    "--smtp-host 127.0.0.1 --smtp-port {smtp} --smtp-security none"
)
ADD = f"--email {{reader}} {SERVERS} --password-stdin"
FORWARD = "--to bob@example.test --idempotency-key"
BOTH = "--password-stdin --new-password-stdin"
LINKED = "--link-stdin --password-stdin"
AS_ADA = "--email ada@example.org --password-stdin"
DESK = "--device-name desk"
SEND = "--to bob@example.test --subject Hello --text Hi."
WITHOUT = "--account acc_unknown"
LOST = "0000000000000000-1"
HOOK = "--url https://localhost/hook --type backup.failed"

READING = (
    Row("about",                  "",                                    "--instance http://127.0.0.1:1"),
    Row("whoami",                 "",                                    "--instance http://127.0.0.1:1"),
    Row("status",                 "",                                    "--instance nowhere"),
    Row("history",                "--hours 1",                           "--hours 0"),
    Row("openapi",                "",                                    "--instance nowhere"),
    Row("mcp",                    "",                                    "--instance nowhere"),
    Row("completion",             "bash",                                "csh"),
    Row("accounts list",          "",                                    "--everybody=1"),
    Row("accounts show",          "{account}",                           "acc_unknown"),
    Row("accounts discover",      "ada@gmail.com",                       "nobody"),
    Row("accounts folders",       "{user}",                              "acc_unknown"),
    Row("accounts addresses",     "{account}",                           "acc_unknown"),
    Row("emails list",            "--folder inbox",                      "--account nobody@example.test"),
    Row("emails search",          "invoice",                             "after:yesterday"),
    Row("emails get",             "{message}",                           "msg_unknown"),
    Row("labels list",            "",                                    WITHOUT),
    Row("threads get",            "{thread}",                            "thr_unknown"),
    Row("attachments download",   "{message} {attachment} --output {folder}/plan.pdf --force", "{message} att_unknown"),
    Row("attachments link",       "{message} {attachment}",              "{message} att_unknown"),
    Row("drafts list",            "",                                    WITHOUT),
    Row("drafts get",             "{draft}",                             "msg_unknown"),
    Row("scheduled list",         "",                                    "--limit 0"),
    Row("emails deliveries",      "",                                    "--cursor nonsense"),
    Row("emails delivery-status", "{operation}",                         "dlv_unknown"),
    Row("emails timeline",        "{operation}",                         "dlv_unknown"),
    Row("emails preview",         SEND,                                  "--to nobody"),
    Row("events list",            f"--after {LOST}",                     "--after now"),
    Row("sessions list",          "",                                    "--member mem_unknown"),
    Row("sessions show",          "{session} --member {me}",             "ses_unknown --member {me}"),
    Row("members list",           "",                                    "--limit"),
    Row("members show",           "bob@example.org",                     "mem_unknown"),
    Row("api-keys list",          "",                                    "--member"),
    Row("audit list",             "--limit 2",                           "--cursor nonsense"),
    Row("audit verify",           "",                                    "--instance nowhere"),
    Row("settings show",          "",                                    "--instance nowhere"),
    Row("license show",           "",                                    "--instance nowhere"),
    Row("oauth-apps show",        "",                                    "--instance nowhere"),
    Row("https status",           "",                                    "--instance nowhere"),
    Row("backup list",            "--limit 1",                           "--cursor nonsense"),
    Row("backup verify",          "{backup}",                            "bak_unknown"),
    Row("store status",           "",                                    NO_SUCH),
    Row("store check",            "",                                    NO_SUCH),
    Row("instances list",         "",                                    "all"),
)
CHANGING = (
    Row("emails send",            f"{SEND} --idempotency-key hello",     SEND),
    Row("emails forward",         f"{{message}} {FORWARD} on",           f"msg_unknown {FORWARD} off"),
    _action("read",               "heap5"),
    _action("unread",             "heap5"),
    _action("star",               "heap6"),
    _action("unstar",             "heap6"),
    _action("archive",            "heap7"),
    _action("trash",              "heap8"),
    _action("untrash",            "heap8"),
    _action("move",               "heap9", " --folder spam"),
    _action("label",              "heap10", " --add work"),
    Row("emails undo",            f"{{undo}} {HERE}",                    f"mbxu_unknown {HERE}", make.undo),
    Row("emails delete",          f"{{any}} {HERE}",                     f"msg_unknown {HERE}", make.message_to_lose),
    Row("uploads create",         "- --filename a.txt",                  "-"),
    Row("drafts create",          SEND,                                  "--to nobody"),
    Row("drafts update",          f"{{draft}} {SEND}",                   f"msg_unknown {SEND}"),
    Row("drafts send",            "{new} --idempotency-key {token}",     "msg_unknown --idempotency-key off",
        make.draft),
    Row("drafts delete",          "{new}",                               "msg_unknown", make.draft),
    Row("scheduled cancel",       "{new}",                               "sch_unknown", make.scheduled),
    Row("emails resolve",
        "{doubt} --account {doubting} --outcome failed",
        "{operation} --account {account} --outcome failed",
        make.doubt),
    Row("scheduled release",      "",                                    "--instance nowhere"),
    Row("approvals list",         "--status pending",                    "--status lost", make.approval),
    Row("approvals show",         "{approval}",                          "apr_unknown", make.approval),
    Row("approvals reject",       "{approval} --reason No.",             "apr_unknown", make.approval),
    Row("approvals approve",      "{approval} --yes",                    "{approval}", make.approval),
    Row("policy set",             f"{HERE} --allow example.test --per-day 20", HERE, make.no_policy),
    Row("policy show",            HERE,                                  "--key key_unknown", make.no_policy),
    Row("webhooks create",        HOOK,                                  "--url ftp://localhost --type message.created",
        make.no_webhooks),
    Row("webhooks list",          "",                                    "--instance nowhere", make.webhook),
    Row("webhooks show",          "{hook}",                              "whk_unknown", make.webhook),
    Row("webhooks update",        "{hook} --disable",                    "{hook}", make.webhook),
    Row("webhooks test",          "{hook}",                              "whk_unknown", make.webhook),
    Row("webhooks attempts",      "{hook} --limit 1",                    "whk_unknown", make.webhook),
    Row("webhooks rotate-secret", "{hook}",                              "whk_unknown", make.webhook),
    Row("webhooks replay",        "{hook} --after {position}",           f"{{hook}} --after {LOST}", make.webhook),
    Row("webhooks delete",        "{hook}",                              "whk_unknown", make.webhook),
    Row("accounts rename",        "{account} --display-name Work",       "acc_unknown --display-name Work"),
    Row("accounts access",        "{account} --share-with-all",          "{account} --grant mem_unknown"),
    Row("accounts map-folders",   "{account} --archive Heap",            "{account} --archive Nowhere"),
    Row("accounts reconnect",     "{account} --imap-port {imap}",        "{account} --imap-port 1"),
    Row("accounts add",           ADD, ADD, make.room_for_reader, ("secret",), ("wrong",)),
    Row("accounts remove",        "{reader}",                            "", make.account_of_reader),
    Row("members add",            "--name Eve --email eve@example.org",  "--name Eve --email bob@example.org",
        make.nobody),
    Row("members update",         "bob@example.org --name Robert",       "bob@example.org"),
    Row("members suspend",        "bob@example.org",                     "mem_unknown"),
    Row("members activate",       "bob@example.org",                     "mem_unknown"),
    Row("members invite",         "{new}",                               "mem_unknown", make.member),
    Row("members reset-password", "{new}",                               "mem_unknown", make.enrolled),
    Row("members remove",         "{new}",                               "mem_unknown", make.member),
    Row("api-keys create",        "--name Reports --profile read-only",  "--name Reports --profile everything"),
    Row("api-keys update",        "{key} --no-accounts",                 "{key}"),
    Row("api-keys revoke",        "{new}",                               "key_unknown", make.api_key),
    Row("settings set",           "sync.poll_interval 90",               "sync.poll_interval often"),
    Row("settings reset",         "sync.poll_interval",                  "server.port"),
    Row("license set",            "--token-stdin",                       "--token-stdin",
        None, ("{license}",), ("a.b.c",)),
    Row("license remove",         "",                                    "", make.licensed),
    Row("oauth-apps set",         "google --client-id 1 --client-secret-stdin", "google --client-id 1", None, ("s",)),
    Row("oauth-apps remove",      "google",                              "google", make.oauth_app),
    Row("https enable",           "--port 0 --host 127.0.0.1",           "--host nowhere"),
    Row("https rotate",           "",                                    "--instance nowhere"),
    Row("https import",           "{folder}/own.pem {folder}/own.key",   "{folder}/own.key {folder}/own.pem",
        make.certificate),
    Row("https fingerprint",      "",                                    "--instance nowhere"),
    Row("https disable",          "",                                    "--instance nowhere"),
    Row("backup create",          "",                                    "--passphrase-stdin", None, (), ("short",)),
    Row("backup download",        "{sealed} --output {folder}/copy --force", "{backup} --output {folder}/copy",
        make.sealed_backup),
    Row("profile update",         "--name Ada",                          ""),
    Row("password",               BOTH, BOTH, None, (P, P), ("wrong password", P)),
    Row("console",                "",                                    "--instance nowhere"),
    Row("sessions revoke",        "{new}",                               "ses_unknown", make.session),
    Row("enroll",                 f"{LINKED} {DESK}", LINKED, make.member, ("{link}", P), ("mbxi_unknown", P)),
    Row("reset-password",         f"{LINKED} {DESK}", LINKED, make.forgetful, ("{link}", P), ("mbxr_unknown", P)),
    Row("login",                  f"{AS_ADA} {DESK}", AS_ADA, None, (P,), ("wrong password",)),
    Row("logout",                 "",                                    "--instance http://127.0.0.1:1",
        make.log_in, by_token=False),
    Row("instances use",          "other.example --data-dir {folder}",   "nowhere"),
    Row("instances remove",       "mail.example.org",                    "nowhere", make.instances),
)
STOPPED = (
    Row("setup",                  f"{FILES} --name Ada {AS_ADA} {DESK}", f"--name Ada {AS_ADA}",
        make.empty_directory, (P,), (P,)),
    Row("tray",                   "",                                    "--open --quit"),
    Row("autostart enable",       FILES,                                 "--at-login"),
    Row("autostart status",       FILES,                                 "now"),
    Row("autostart disable",      "",                                    "mailbox-appliance"),
    Row("logs",                   f"{FILES} --lines 2",                  NO_SUCH, make.log),
    Row("key show",               FILES,                                 NO_SUCH, make.store),
    Row("key add-passphrase",     f"{FILES} --passphrase-stdin",         NO_SUCH + " --passphrase-stdin",
        make.store, (KEY_PHRASE,), (KEY_PHRASE,)),
    Row("key use-keyring",        FILES,                                 NO_SUCH, make.store_beside_a_keychain),
    Row("key use-file",           FILES,                                 NO_SUCH, make.store),
    Row("backup restore",         f"{FILES} {{backup}}",                 f"{FILES} bak_unknown", make.backup_of_store),
    Row("store compact",          FILES,                                 "", make.store),
    Row("store rekey",            FILES,                                 "", make.store),
    Row("store migrate",          FILES,                                 NO_SUCH, make.older_store),
    Row("events follow",          "",                                  "--account nobody@example.test"),
    Row("serve",                  "",                                  "--port 65536", None),
    Row("demo",                   "",                                  "--port 65536", None),
)
# fmt: on
#: Commands that run as a process: the command line, its input, and a mark in its output.
SERVING = {
    "serve": ("serve --port 0 --ready-json", "", "ready"),
    "demo": ("demo", "", "Ctrl-C"),
    "events follow": (f"events follow --types backup.failed --after {LOST}", "", "reset"),
    "mcp": ("mcp", '{"jsonrpc": "2.0", "id": 1, "method": "ping"}', "result"),
}
ROWS = (*READING, *CHANGING, *STOPPED)
