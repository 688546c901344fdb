"""The examples at the end of the help of each command and group. The module is loaded only when help is shown.

An example is one command line that works unchanged, apart from IDs and addresses. A backslash may continue it on a
second line.
"""

_PROGRAM = "mailbox-appliance"
_MESSAGE = "msg_01jb2c3d4e5f6g7h8j9k0m1n2p"
_DELIVERY = "dlv_01jb2c3d4e5f6g7h8j9k0m1n2p"
_APPROVAL = "apr_01jb2c3d4e5f6g7h8j9k0m1n2p"
_WEBHOOK = "whk_01jb2c3d4e5f6g7h8j9k0m1n2p"
_BACKUP = "bak_01jb2c3d4e5f6g7h8j9k0m1n2p"

#: The words that name a command -> its example, without the name of the program.
_EXAMPLES: dict[str, str] = {
    "": "demo",
    # Mail
    "accounts list": "accounts list --format table",
    "accounts show": "accounts show ada@example.org",
    "accounts add": (
        "accounts add --email ada@example.org \\\n    --imap-host imap.example.org --smtp-host smtp.example.org"
    ),
    "accounts discover": "accounts discover ada@example.org --format table",
    "accounts rename": "accounts rename ada@example.org --display-name Work",
    "accounts reconnect": "accounts reconnect ada@example.org --new-password",
    "accounts access": "accounts access support@example.org --grant bob@example.org",
    "accounts remove": "accounts remove ada@example.org",
    "accounts folders": "accounts folders ada@example.org --format table",
    "accounts map-folders": "accounts map-folders ada@example.org --archive INBOX/Archive",
    "accounts addresses": "accounts addresses ada@example.org",
    "emails": "emails list --unread --format table",
    "emails list": "emails list --folder inbox --unread --limit 20 --format table",
    "emails search": "emails search invoice from:bob after:2026-01-31 has:attachment",
    "emails get": f"emails get {_MESSAGE} --body-format markdown",
    "emails send": (
        "emails send --to bob@example.net --subject Report --text 'See the attached file.' \\\n"
        "    --attach report.pdf --idempotency-key report-42"
    ),
    "emails preview": "emails preview --to bob@example.net --subject Report --text-file letter.txt",
    "emails forward": (
        f"emails forward {_MESSAGE} --to bob@example.net \\\n"
        "    --comment 'For your records.' --idempotency-key forward-42"
    ),
    "emails delivery-status": f"emails delivery-status {_DELIVERY}",
    "emails timeline": f"emails timeline {_DELIVERY} --format table",
    "emails deliveries": "emails deliveries --account ada@example.org --format table",
    "emails resolve": f"emails resolve {_DELIVERY} --outcome succeeded",
    "emails read": f"emails read {_MESSAGE}",
    "emails unread": f"emails unread {_MESSAGE}",
    "emails star": f"emails star {_MESSAGE}",
    "emails unstar": f"emails unstar {_MESSAGE}",
    "emails archive": "emails search from:newsletter --all | mailbox-appliance emails archive --input -",
    "emails trash": f"emails trash {_MESSAGE}",
    "emails untrash": f"emails untrash {_MESSAGE}",
    "emails delete": f"emails delete {_MESSAGE}",
    "emails move": f"emails move {_MESSAGE} --folder Invoices",
    "emails label": f"emails label {_MESSAGE} --add work",
    "emails undo": "emails undo mbxu_6Jw3F9sK1vR8tQ2xN7cB5dLm",
    "threads get": "threads get thr_01jb2c3d4e5f6g7h8j9k0m1n2p --format table",
    "labels list": "labels list --account ada@example.org",
    "uploads": "uploads create report.pdf",
    "uploads create": "uploads create report.pdf",
    "attachments": f"attachments download {_MESSAGE} att_01jb2c3d4e5f6g7h8j9k0m1n2p",
    "attachments download": f"attachments download {_MESSAGE} att_01jb2c3d4e5f6g7h8j9k0m1n2p --output report.pdf",
    "attachments link": f"attachments link {_MESSAGE} att_01jb2c3d4e5f6g7h8j9k0m1n2p",
    "events": "events follow --types message.created --state seen.txt",
    "events list": "events list --after 5f0c1d2e3a4b5c6d-1042 --format table",
    "events follow": "events follow --types message.created --state seen.txt",
    "approvals": "approvals list --status pending --format table",
    "approvals list": "approvals list --status pending --format table",
    "approvals show": f"approvals show {_APPROVAL} --format table",
    "approvals approve": f"approvals approve {_APPROVAL}",
    "approvals reject": f"approvals reject {_APPROVAL} --reason 'Not to him.'",
    "policy": "policy set --account ada@example.org --approval newRecipients",
    "policy show": "policy show --account ada@example.org --format table",
    "policy set": "policy set --key key_01jb2c3d4e5f6g7h8j9k0m1n2p --approval always --per-day 20",
    "webhooks": "webhooks list --format table",
    "webhooks list": "webhooks list --format table",
    "webhooks show": f"webhooks show {_WEBHOOK}",
    "webhooks create": "webhooks create --url https://example.org/hook --type message.created",
    "webhooks update": f"webhooks update {_WEBHOOK} --enable",
    "webhooks delete": f"webhooks delete {_WEBHOOK}",
    "webhooks rotate-secret": f"webhooks rotate-secret {_WEBHOOK}",
    "webhooks test": f"webhooks test {_WEBHOOK}",
    "webhooks replay": f"webhooks replay {_WEBHOOK} --after 5f0c1d2e3a4b5c6d-1042",
    "webhooks attempts": f"webhooks attempts {_WEBHOOK} --format table",
    # Sending
    "drafts": "drafts list --format table",
    "drafts list": "drafts list --account ada@example.org --format table",
    "drafts get": f"drafts get {_MESSAGE}",
    "drafts create": "drafts create --to bob@example.net --subject Report --text-file letter.txt",
    "drafts update": (
        f"drafts update {_MESSAGE} --to bob@example.net --subject 'Report, corrected' \\\n    --text-file letter.txt"
    ),
    "drafts delete": f"drafts delete {_MESSAGE}",
    "drafts send": f"drafts send {_MESSAGE} --idempotency-key report-42 --send-at 2030-01-31T09:00:00Z",
    "scheduled": "scheduled list --format table",
    "scheduled list": "scheduled list --account ada@example.org --format table",
    "scheduled cancel": "scheduled cancel sch_01jb2c3d4e5f6g7h8j9k0m1n2p",
    "scheduled release": "scheduled release",
    # People and keys
    "login": "login https://mail.example.org:8443 --email ada@example.org",
    "logout": "logout",
    "enroll": "enroll --device-name laptop",
    "reset-password": "reset-password --device-name laptop",
    "password": "password",
    "whoami": "whoami --format table",
    "profile update": "profile update --name 'Ada Example'",
    "console": "console",
    "sessions list": "sessions list --format table",
    "sessions show": "sessions show ses_01jb2c3d4e5f6g7h8j9k0m1n2p --member bob@example.org",
    "sessions revoke": "sessions revoke ses_01jb2c3d4e5f6g7h8j9k0m1n2p",
    "api-keys": "api-keys create --name agent --profile read-only",
    "api-keys list": "api-keys list --format table",
    "api-keys create": "api-keys create --name agent --profile read-only --account ada@example.org",
    "api-keys update": "api-keys update key_01jb2c3d4e5f6g7h8j9k0m1n2p --profile read-write",
    "api-keys revoke": "api-keys revoke key_01jb2c3d4e5f6g7h8j9k0m1n2p",
    "members list": "members list --format table",
    "members show": "members show bob@example.org",
    "members add": "members add --name 'Bob Example' --email bob@example.org",
    "members update": "members update bob@example.org --role admin",
    "members suspend": "members suspend bob@example.org",
    "members activate": "members activate bob@example.org",
    "members invite": "members invite bob@example.org",
    "members reset-password": "members reset-password bob@example.org",
    "members remove": "members remove bob@example.org",
    "audit": "audit list --format table",
    "audit list": "audit list --member bob@example.org --action session --format table",
    "audit verify": "audit verify",
    "instances": "instances use mail.example.org:8443",
    "instances list": "instances list --format table",
    "instances use": "instances use mail.example.org:8443",
    "instances remove": "instances remove mail.example.org:8443",
    # Appliance
    "demo": "demo --port 8025",
    "serve": "serve --port 8025",
    "setup": "setup --name Ada --email ada@example.org",
    "status": "status --format table",
    "history": "history --hours 48 --format table",
    "about": "about --instance https://mail.example.org:8443",
    "backup create": "backup create --with-passphrase",
    "backup list": "backup list --format table",
    "backup verify": f"backup verify {_BACKUP}",
    "backup download": f"backup download {_BACKUP} --output /media/usb",
    "backup restore": f"backup restore {_BACKUP} --dry-run",
    "store": "store check --full",
    "store status": "store status --format table",
    "store check": "store check --full",
    "store compact": "store compact",
    "store migrate": "store migrate --dry-run",
    "store rekey": "store rekey",
    "key show": "key show --format table",
    "key add-passphrase": "key add-passphrase",
    "key use-keyring": "key use-keyring",
    "key use-file": "key use-file",
    "settings": "settings set sync.poll_interval 90",
    "settings show": "settings show --format table",
    "settings set": "settings set sync.poll_interval 90",
    "settings reset": "settings reset sync.poll_interval",
    "https": "https enable",
    "https status": "https status --format table",
    "https enable": "https enable --port 8443",
    "https disable": "https disable",
    "https fingerprint": "https fingerprint --format table",
    "https import": "https import fullchain.pem privkey.pem",
    "https rotate": "https rotate",
    "oauth-apps show": "oauth-apps show",
    "oauth-apps set": "oauth-apps set google --client-id 1234.apps.googleusercontent.com",
    "oauth-apps remove": "oauth-apps remove google",
    "license show": "license show",
    "license set": "license set --token-stdin <license.txt",
    "license remove": "license remove",
    "logs": "logs --lines 20 --follow --format table",
    "mcp": "mcp --instance https://mail.example.org:8443",
    "tray": "tray --open",
    "autostart": "autostart status",
    "autostart enable": "autostart enable",
    "autostart disable": "autostart disable",
    "autostart status": "autostart status",
    "openapi": "openapi >openapi.json",
    "completion": "completion bash >~/.local/share/bash-completion/completions/mailbox-appliance",
}


def example_of(words: tuple[str, ...]) -> str | None:
    """Return the example for a command, beginning with the program's name; None if there is none.

    `words`: the name of the command, such as `("emails", "send")`. A group has that of its first command.
    """
    name = " ".join(words)
    example = _EXAMPLES.get(name) or next((one for key, one in _EXAMPLES.items() if key.startswith(f"{name} ")), None)
    return None if example is None else f"{_PROGRAM} {example}"
