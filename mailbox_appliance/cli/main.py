"""The entry of the command line: the list of commands, and the one place that turns failures into exit codes."""

import os
import sys
from collections.abc import Mapping, Sequence

import click

from mailbox_appliance.cli.context import ENVIRONMENT_PREFIX, Invocation
from mailbox_appliance.cli.groups import FORMATS, MOST_COLUMNS, Entry, Root
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.client import errors
from mailbox_appliance.client.errors import Failure
from mailbox_appliance.version import __version__

#: Section of the command list -> command or group -> the file in `commands/` that defines it, and its summary.
SECTIONS: dict[str, dict[str, Entry]] = {
    "Mail": {
        "accounts": ("accounts", "Manage mailboxes: connect, share, reconnect, remove."),
        "emails": ("emails", "Manage messages: list, search, get, send, organize, delete."),
        "threads": ("emails", "Manage conversations: get."),
        "labels": ("accounts", "Manage labels: list."),
        "attachments": ("emails", "Manage attachments: download, link."),
        "uploads": ("emails", "Manage uploads: create."),
        "events": ("events", "Manage events: list or follow changes."),
        "webhooks": ("events", "Manage webhooks, to which events are sent."),
    },
    "Sending": {
        "drafts": ("sending", "Manage drafts: list, get, create, update, delete, send."),
        "scheduled": ("sending", "Manage scheduled messages: list, cancel, release."),
        "approvals": ("approvals", "Manage messages that wait for a person: list, show, approve, reject."),
        "policy": ("approvals", "Manage sending policies: show, set."),
    },
    "People and keys": {
        "login": ("session", "Sign in and store the token for later commands."),
        "logout": ("session", "Sign out and delete the stored token."),
        "enroll": ("session", "Accept an invitation: set a password and sign in."),
        "reset-password": ("session", "Set a new password with a reset link and sign in."),
        "password": ("members", "Change your password and end your other sessions."),
        "whoami": ("members", "Show the signed-in member and their permissions."),
        "profile": ("members", "Manage your profile: update."),
        "console": ("members", "Create a link that opens the console as you."),
        "sessions": ("members", "Manage sessions: list, show, revoke."),
        "api-keys": ("api_keys", "Manage API keys for programs and AI agents."),
        "members": ("members", "Manage members: add, invite, update, suspend, remove."),
        "audit": ("admin", "Manage the audit log: list, verify."),
        "instances": ("session", "Manage the appliances you signed in to: list, use, remove."),
    },
    "Appliance": {
        "demo": ("run", "Try the appliance with its own mail server and sample mail."),
        "serve": ("run", "Run the appliance until it is stopped."),
        "setup": ("session", "Create the first administrator and sign in."),
        "status": ("members", "Show the status of the appliance and its mailboxes."),
        "history": ("members", "Show how many messages were sent and received over time."),
        "about": ("members", "Show the server's name and version."),
        "backup": ("backup", "Manage backups: create, list, verify, download, restore."),
        "store": ("store", "Manage the store: status, check, compact, migrate, rekey."),
        "key": ("store", "Manage the encryption key of the store."),
        "settings": ("admin", "Manage settings of the running appliance: show, set, reset."),
        "https": ("https", "Manage HTTPS for remote access: enable, import, rotate."),
        "oauth-apps": ("admin", "Manage OAuth apps for Google and Microsoft mailboxes."),
        "license": ("admin", "Manage the license: show, set, remove."),
        "logs": ("admin", "Print the log of the appliance on this computer."),
        "mcp": ("run", "Serve MCP tools to an AI agent on standard input and output."),
        "tray": ("run", "Show a tray icon with a menu."),
        "autostart": ("run", "Manage starting the tray icon at login: enable, disable, status."),
        "openapi": ("members", "Print the OpenAPI document of the API."),
        "completion": ("run", "Print a completion script for bash, zsh or fish."),
    },
}
#: Commands that the program itself runs; help does not list them.
_INTERNAL: dict[str, Entry] = {"ask-keychain": ("session", ""), "demo-servers": ("run", "")}
ENTRIES = {name: entry for section in SECTIONS.values() for name, entry in section.items()} | _INTERNAL

#: Names without their prefix (with a value if only that value has an effect) -> purpose.
VARIABLES: tuple[tuple[str, str], ...] = (
    ("INSTANCE, DATA_DIR", "same as --instance, --data-dir"),
    ("TOKEN", "token of a session or API key to use"),
    ("PASSWORD", "password for login, setup, enroll, reset-password and password"),
    ("NEW_PASSWORD", "new password for password"),
    ("LINK", "link for enroll and reset-password"),
    ("MAILBOX_PASSWORD", "mailbox password for accounts add and accounts reconnect"),
    ("CLIENT_SECRET", "client secret for oauth-apps set"),
    ("LICENSE_TOKEN", "license token for license set"),
    ("PASSPHRASE", "passphrase of a backup or of the store's key"),
    ("NEW_PASSPHRASE", "new passphrase for key add-passphrase"),
    ("KEY_FILE", "path of a key file outside the data directory"),
    ("CONFIG_DIR", "directory for known appliances and tokens"),
    ("KEYCHAIN=off", "store tokens in a file (mode 0600) there, not in the keychain"),
    ("KEYCHAIN_SECONDS", "seconds to wait for the keychain (default 30)"),
)
EXIT_CODES: tuple[tuple[int, str], ...] = (
    (0, "success; the message was sent, queued or is being sent"),
    (1, "any other error"),
    (2, "invalid input"),
    (3, "uncertain or partial result"),
    (4, "authentication, permission or encryption key"),
    (5, "network or mail server error, or a failed delivery"),
)
_HELP = "Self-hosted email API for scripts, apps and AI agents."
#: The variable by which shells request completions; its value is SHELL_complete.
COMPLETE = "_MAILBOX_APPLIANCE_COMPLETE"


def run(argv: Sequence[str], services: Mapping[str, str] | None = None, terminal: Terminal | None = None) -> int:
    """Run one command line and return its exit code.

    `services`: the functions outside this package that commands may call, as in `Invocation`. `terminal`: by default
    that of the process.
    """
    invocation = Invocation(terminal or Terminal.of_process(), services or {}, format=_requested_format(argv))
    if instruction := invocation.terminal.environment.get(COMPLETE):
        from mailbox_appliance.cli.groups import answer_completion

        return answer_completion(instruction, root(), invocation)
    try:
        top = root()
        # Not top.main(): it would map a closed pipe and an interrupt to its own exit codes.
        width = invocation.terminal.help_width(MOST_COLUMNS)
        with top.make_context("mailbox-appliance", list(argv), obj=invocation, terminal_width=width) as context:
            return int(top.invoke(context) or 0)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        if terminal is None:
            # Python would otherwise print an error when it flushes stdout at exit.
            _redirect_to_null(1, 2)
        return errors.OUTPUT_CLOSED
    except (KeyboardInterrupt, click.Abort):
        told = "Interrupted. The command may have taken effect anyway: check before you repeat it."
        return _report(Failure("interrupted", told, errors.INTERRUPTED), invocation)
    except click.exceptions.NoArgsIsHelpError as shown:
        return _report(errors.wrong_usage("Missing command."), invocation, shown.format_message() + "\n\n")
    except click.ClickException as error:
        return _report(_failure_from_usage(error), invocation)
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes an error object and an exit code
        if terminal is None:
            _discard_unwritable_output()
        return _report(_failure_from_exception(error), invocation)


def root() -> Root:
    """Return the command `mailbox-appliance` with all commands and groups."""
    top = Root(ENTRIES, SECTIONS, name="mailbox-appliance", help=_HELP, epilog=_help_epilog(), no_args_is_help=True)
    top.params.append(_version_option())
    return top


def _help_epilog() -> str:
    """Return the text at the end of `mailbox-appliance --help`: output formats, environment variables and exit codes.

    Lists in it start with a backspace character, so that click keeps their line breaks.
    """
    width = max(len(name) for name, _ in VARIABLES) + 2
    variables = "".join(f"  {name:{width}}{text}\n" for name, text in VARIABLES)
    codes = "".join(f"  {code}  {text}\n" for code, text in EXIT_CODES)
    return (
        "Output is the API's JSON on stdout; errors are JSON on stderr (plain text with --format table). "
        "With --format ndjson, warnings and the nextCursor of a list with more pages are JSON lines on stderr.\n\n"
        f"\b\nEnvironment variables ({ENVIRONMENT_PREFIX}...):\n{variables}\n\b\nExit codes:\n{codes}"
    )


def _version_option() -> click.Option:
    def show(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            click.echo(f"mailbox-appliance {__version__}")
            context.exit()

    return click.Option(
        ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help="Show the version."
    )


def _requested_format(argv: Sequence[str]) -> str:
    """Return the output format that the arguments probably request, for errors that occur before they are parsed."""
    found = "json"
    for place, word in enumerate(argv):
        value = argv[place + 1] if word == "--format" and place + 1 < len(argv) else word.removeprefix("--format=")
        if word.startswith("--format") and value in FORMATS:
            found = value
    return found


def _failure_from_usage(error: click.ClickException) -> Failure:
    parameter = error.param if isinstance(error, click.BadParameter) else None
    if isinstance(parameter, click.Option):
        path: str | None = f"option:{parameter.opts[-1]}"
    elif isinstance(parameter, click.Argument):
        path = (
            f"argument:{parameter.make_metavar(error.ctx)}"
            if isinstance(error, click.UsageError) and error.ctx
            else None
        )
    else:
        path = f"option:{error.option_name}" if isinstance(error, click.NoSuchOption) else None
    command = error.ctx.command if isinstance(error, click.UsageError) and error.ctx else None
    takes_secret = command is not None and any(str(one.name).endswith("_stdin") for one in command.params)
    if takes_secret and "unexpected extra argument" in error.message:
        # The argument may be the secret, and the message could end up in logs.
        told = "Too many arguments. Secrets come from a prompt, stdin or the environment, never from an argument."
        return errors.wrong_usage(told, path)
    return errors.wrong_usage(error.format_message(), path)


def _failure_from_exception(error: Exception) -> Failure:
    if isinstance(error, Failure):
        return error
    if known := errors.failure_from_problem(error):
        return known
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        return Failure("internal_error", f"{file}{error.strerror.removesuffix('.')}.", errors.INTERNAL)
    # Only the type and the place: the text of an unexpected error may quote a secret.
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" in {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""  # noqa: PTH119
    return Failure("internal_error", f"Internal error: {type(error).__name__}{place}.", errors.INTERNAL)


def _report(failure: Failure, invocation: Invocation, help_text: str = "") -> int:
    """Print an error on stderr and return its exit code. `help_text`: printed above the error."""
    from mailbox_appliance.cli.output import error_text

    try:
        invocation.terminal.write_error(help_text + error_text(failure.error, invocation.format))
    except BrokenPipeError:
        pass  # Nobody reads the output any more; the exit code still counts.
    return failure.exit_code


def _discard_unwritable_output() -> None:
    """Discard buffered output that cannot be written; otherwise Python would retry at exit and print a second error."""
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except OSError:
        _redirect_to_null(1)


def _redirect_to_null(*streams: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream)
