"""What the help and the manual page tell about the whole: environment variables and exit codes, each in one place."""

from mailbox_appliance.cli.invocation import ENVIRONMENT

DESCRIPTION = """
The appliance keeps the mail of a team's mailboxes in one encrypted file and lets people, scripts and assistants use
them. `serve` runs it; the other commands ask the one that runs, which they find through the data directory or, after
`login URL`, at its address.

Output is the API's JSON on stdout; errors are JSON on stderr (plain text with `--format table`). With
`--format ndjson`, warnings and the nextCursor of a list that goes on are lines of JSON on stderr. Secrets come from a
prompt, from the standard input or from the environment, never from an argument.
"""
#: Names without their prefix, with a value where only one counts -> what they are for.
VARIABLES: tuple[tuple[str, str], ...] = (
    ("INSTANCE, DATA_DIR", "stand for the options"),
    ("TOKEN", "a session or an API key, instead of a log-in"),
    ("PASSWORD", "instead of the prompt of login, setup, enroll, reset-password and password"),
    ("NEW_PASSWORD", "instead of the prompt of password for the new one"),
    ("LINK", "instead of the prompt of enroll and reset-password"),
    ("MAILBOX_PASSWORD", "instead of the prompt of accounts add and reconnect"),
    ("CLIENT_SECRET", "instead of the prompt of oauth-apps set"),
    ("LICENSE_TOKEN", "instead of the prompt of license set"),
    ("PASSPHRASE", "of a backup, and of the key of the store"),
    ("NEW_PASSPHRASE", "instead of the prompt of key add-passphrase"),
    ("KEY_FILE", "a key file that is kept elsewhere"),
    ("CONFIG_DIR", "where log-ins are remembered"),
    ("KEYCHAIN=off", "keeps tokens in a 0600 file there"),
    ("KEYCHAIN_SECONDS", "how long to wait for the keychain (30)"),
)
EXIT_CODES: tuple[tuple[int, str], ...] = (
    (0, "done, queued or sending"),
    (1, "the rest"),
    (2, "wrong input"),
    (3, "uncertain or partial"),
    (4, "access"),
    (5, "network or mail server, a failed delivery"),
)
#: File -> what it holds. DATA_DIR and CONFIG_DIR: those of the environment, or of the options.
FILES: tuple[tuple[str, str], ...] = (
    ("~/.local/share/mailbox-appliance", "DATA_DIR, where nothing else is said: everything the appliance keeps."),
    ("DATA_DIR/mailbox.db", "The store: one encrypted file."),
    ("DATA_DIR/encryption.key", "What opens the store. Keep a copy of it elsewhere: without it nobody can."),
    ("DATA_DIR/config.toml", "Settings of serve, where they differ from the defaults."),
    ("DATA_DIR/backups/", "Backups, made daily and by backup create."),
    ("DATA_DIR/logs/", "What serve does, without addresses and mail."),
    ("DATA_DIR/tls/", "The certificate of HTTPS and its key."),
    ("DATA_DIR/run.json", "Which process owns the directory, and where it answers."),
    ("DATA_DIR/setup-code", "The code for the first administrator, until setup has used it."),
    ("~/.config/mailbox-appliance", "CONFIG_DIR, where nothing else is said: what the commands remember of this user."),
    ("CONFIG_DIR/instances.json", "The appliances that were logged in to, and the fingerprints of their certificates."),
    ("CONFIG_DIR/tokens.json", "Tokens of log-ins, where there is no keychain."),
)
#: What somebody wants -> the command lines for it.
EXAMPLES: tuple[tuple[str, str], ...] = (
    ("Try everything, without a mailbox of your own:", "mailbox-appliance demo"),
    (
        "Run an appliance and become its administrator, in another terminal:",
        """mailbox-appliance serve
mailbox-appliance setup --name Ada --email ada@example.org""",
    ),
    (
        "Connect a mailbox:",
        """mailbox-appliance accounts add --email ada@example.org \\
    --imap-host imap.example.org --smtp-host smtp.example.org""",
    ),
    ("Find unread mail, as a table:", "mailbox-appliance emails search invoice is:unread --format table"),
    (
        "Send a file, at most once however often this is repeated:",
        """mailbox-appliance emails send --idempotency-key report-42 --to bob@example.net \\
    --subject Report --text-file - --attach report.pdf <letter.txt""",
    ),
    (
        "Speak to an appliance on another computer:",
        """mailbox-appliance login https://mail.example.org:8443 \\
    --email ada@example.org --fingerprint sha256:...""",
    ),
)


def epilog() -> str:
    """What stands below the help of the whole program; click keeps the lines after a backspace."""
    width = max(len(name) for name, _ in VARIABLES) + 2
    variables = "".join(f"  {name:{width}}{text}\n" for name, text in VARIABLES)
    codes = "".join(f"  {code}  {text}\n" for code, text in EXIT_CODES)
    return (
        "Output is the API's JSON on stdout; errors are JSON on stderr (plain text with --format table). "
        "With --format ndjson, warnings and the nextCursor of a list that goes on are lines of JSON on stderr.\n\n"
        f"\b\nEnvironment: {ENVIRONMENT}...\n{variables}\n\b\nExit codes:\n{codes}"
    )
