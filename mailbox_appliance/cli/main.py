"""The command line: one table of commands, and one place where everything that goes wrong becomes an exit code."""

import os
from collections.abc import Mapping, Sequence

import click

from mailbox_appliance.cli import failures
from mailbox_appliance.cli.failures import Failure
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.cli.tree import FORMATS, Root
from mailbox_appliance.version import __version__

#: Command or group -> the file in `commands/` that knows it, and its help (empty: not listed).
ENTRIES: dict[str, tuple[str, str]] = {
    "demo": ("serve", "Try everything in one go, with a mail server and a mailbox of its own."),
    "serve": ("serve", "Run the appliance until it is told to stop."),
    "setup": ("setup", "Create the first administrator."),
    "login": ("login", "Log in to an appliance, here or at a URL."),
    "logout": ("login", "End the log-in."),
    "whoami": ("me", "Show who is logged in, and what they may do."),
    "status": ("me", "Show how the appliance and its mailboxes are."),
    "accounts": ("accounts", "Mailboxes: list, show, add, reconnect, access, remove, folders, map-folders."),
    "emails": (
        "emails",
        (
            "Messages: list, search, get, send, preview, forward, delivery-status, deliveries, resolve, "
            "read, unread, star, unstar, archive, trash, untrash, delete, move, label."
        ),
    ),
    "labels": ("labels", "Labels of messages: list."),
    "attachments": ("attachments", "Attachments: download."),
    "drafts": ("drafts", "Drafts: list, get, create, update, delete, send."),
    "scheduled": ("scheduled", "What is sent later: list, cancel, release."),
    "threads": ("threads", "Conversations: get."),
    "sessions": ("me", "Log-ins of yours: list, revoke."),
    "members": (
        "members",
        "Who may log in: list, show, add, update, suspend, activate, invite, reset-password, remove.",
    ),
    "audit": ("audit", "What was done, and whether the log of it is whole: list, verify."),
    "backup": ("backup", "Backups of everything: create, list, verify, restore."),
    "store": ("store", "The store as a whole: status, check, compact, migrate, rekey."),
    "https": ("https", "HTTPS for other computers: status, enable, disable, fingerprint, import, rotate."),
    "oauth-apps": ("oauth_apps", "OAuth applications for Google and Outlook: show, set, remove."),
    "api-keys": ("api_keys", "Credentials for programs: list, create, update, revoke."),
    "license": ("license", "The licence, where one is needed: show, set, remove."),
    "key": ("key", "What opens the store: show, add-passphrase, use-keyring, use-file."),
    "instances": ("instances", "Appliances that you logged in to: list, use, remove."),
    "openapi": ("me", "Print the description of the API."),
    "logs": ("logs", "Print the log of the appliance on this computer."),
    "ask-keychain": ("login", ""),
}

_HELP = "Your mailboxes in one encrypted file on your own machine, for people, scripts and assistants."
_EPILOG = """Output is the API's JSON on stdout; errors are JSON on stderr (plain text with --format table).
With --format ndjson, warnings and the nextCursor of a list that goes on are lines of JSON on stderr.

\b
Environment: MAILBOX_APPLIANCE_...
  INSTANCE, DATA_DIR  stand for the options
  TOKEN               a session or an API key, instead of a log-in
  PASSWORD            instead of the prompt of login and setup
  MAILBOX_PASSWORD    instead of the prompt of accounts add and reconnect
  CLIENT_SECRET       instead of the prompt of oauth-apps set
  LICENSE_TOKEN       instead of the prompt of license set
  PASSPHRASE          of a backup, and of the key of the store
  NEW_PASSPHRASE      instead of the prompt of key add-passphrase
  KEY_FILE            a key file that is kept elsewhere
  CONFIG_DIR          where log-ins are remembered
  KEYCHAIN=off        keeps tokens in a 0600 file there
  KEYCHAIN_SECONDS    how long to wait for the keychain (30)

\b
Exit codes:
  0  done, queued or sending     3  uncertain or partial
  2  wrong input                 4  access
  5  network or mail server, a failed delivery
  1  the rest
"""


def run(argv: Sequence[str], services: Mapping[str, str] | None = None, terminal: Terminal | None = None) -> int:
    """Run one command line and return its exit code. `services` names what floors above offer, as `module:function`."""
    invocation = Invocation(terminal or Terminal.of_process(), services or {}, format=_format_of(argv))
    try:
        return _invoke(list(argv), invocation)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        return _output_closed(terminal is None)
    except (KeyboardInterrupt, click.Abort):
        return _report(Failure("interrupted", "Interrupted.", failures.INTERRUPTED), invocation)
    except click.exceptions.NoArgsIsHelpError as shown:
        invocation.terminal.write(shown.format_message() + "\n")
        return _report(failures.wrong_usage("Name a command."), invocation)
    except click.ClickException as error:
        return _report(_of_usage(error), invocation)
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes an error object and an exit code
        return _report(_of_exception(error), invocation)


def _invoke(argv: list[str], invocation: Invocation) -> int:
    root = Root(ENTRIES, name="mailbox-appliance", help=_HELP, epilog=_EPILOG, no_args_is_help=True)
    root.params.append(_version_option())
    # Not root.main(): it would turn a closed pipe and an interrupt into exit codes of its own.
    with root.make_context("mailbox-appliance", argv, obj=invocation) as context:
        return int(root.invoke(context) or 0)


def _version_option() -> click.Option:
    def show(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(f"mailbox-appliance {__version__}")
            context.exit()

    return click.Option(
        ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help="Show the version."
    )


def _format_of(argv: Sequence[str]) -> str:
    """The format that seems to be asked for: what errors are written in that come before the options are read."""
    found = "json"
    for place, word in enumerate(argv):
        value = argv[place + 1] if word == "--format" and place + 1 < len(argv) else word.removeprefix("--format=")
        if word.startswith("--format") and value in FORMATS:
            found = value
    return found


def _of_usage(error: click.ClickException) -> Failure:
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
    return failures.wrong_usage(error.format_message(), path)


def _of_exception(error: Exception) -> Failure:
    if isinstance(error, Failure):
        return error
    if known := failures.of_problem(error):
        return known
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        return Failure("internal_error", f"{file}{error.strerror.removesuffix('.')}.", failures.INTERNAL)
    # Only the kind and the place: the text of an unforeseen error may quote a secret.
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" in {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""  # noqa: PTH119
    return Failure("internal_error", f"This is a fault of ours: {type(error).__name__}{place}.", failures.INTERNAL)


def _report(failure: Failure, invocation: Invocation) -> int:
    from mailbox_appliance.cli.render import error_text

    try:
        invocation.terminal.complain(error_text(failure.error, invocation.format))
    except BrokenPipeError:
        pass  # Nobody listens; the exit code still tells.
    return failure.exit_code


def _output_closed(of_process: bool) -> int:
    """End as quietly as a program that a closed pipe kills; Python would complain when it flushes at the end."""
    if of_process:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
    return failures.OUTPUT_CLOSED
