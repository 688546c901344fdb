"""Mailboxes."""

from typing import Any

import click

from mailbox_appliance.cli.failures import wrong_usage
from mailbox_appliance.cli.inputs import INPUT_OPTION, given_options, read_input
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import ACCOUNT, MAILBOX, Call, Given, Row
from mailbox_appliance.cli.tree import group

SECURITY = ("tls", "starttls", "none")
#: RFC 8314 3.2 and 3.3: implicit TLS; RFC 6409 and RFC 9051: upgraded or plain.
PORTS = {"imap": {"tls": 993, "starttls": 143, "none": 143}, "smtp": {"tls": 465, "starttls": 587, "none": 587}}


def _server_options(kind: str, default_username: str) -> tuple[click.Option, ...]:
    name = kind.upper()
    return (
        click.Option([f"--{kind}-host"], metavar="HOST", help=f"The {name} server."),
        click.Option(
            [f"--{kind}-port"], type=click.IntRange(1, 65535), metavar="PORT", help="Its port (usual for the security)."
        ),
        click.Option([f"--{kind}-security"], type=click.Choice(SECURITY), help="How it is protected (default tls)."),
        click.Option(
            [f"--{kind}-username"], metavar="NAME", help=f"The name to log in with (default: {default_username})."
        ),
    )


ADD_OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(["--email"], metavar="ADDRESS", help="The address of the mailbox."),
    click.Option(["--display-name"], metavar="NAME", help="What the mailbox is called."),
    *_server_options("imap", "the address"),
    *_server_options("smtp", "the IMAP name"),
    click.Option(
        ["--password-stdin"], is_flag=True, help="Read the password, for IMAP and SMTP, from the first line of stdin."
    ),
    click.Option(["--smtp-password-stdin"], is_flag=True, help="Read another one for SMTP from the next line."),
    INPUT_OPTION,
)


def connection(invocation: Invocation, given: Given) -> Any:
    """The body of POST /accounts: from the options, or as it was given."""
    if given["input_"] is not None:
        if given_options(given, "input_"):
            raise wrong_usage("--input holds the whole body; it goes with no other option.", "option:--input")
        return read_input(invocation.terminal, given["input_"])
    for name in ("email", "imap_host", "smtp_host"):
        if not given[name]:
            option = f"--{name.replace('_', '-')}"
            raise wrong_usage(f"Missing option {option}.", f"option:{option}")
    terminal = invocation.terminal
    password = terminal.secret(
        "Mailbox password", "MAILBOX_APPLIANCE_MAILBOX_PASSWORD", from_stdin=given["password_stdin"]
    )
    smtp_password = terminal.secret_line() if given["smtp_password_stdin"] else password
    imap = _server(given, "imap", given["email"], password)
    body = {"email": given["email"], "imap": imap, "smtp": _server(given, "smtp", imap["username"], smtp_password)}
    return body if given["display_name"] is None else {**body, "displayName": given["display_name"]}


def _server(given: Given, kind: str, username: str, password: str) -> dict[str, Any]:
    security = given[f"{kind}_security"] or "tls"
    return {
        "host": given[f"{kind}_host"],
        "port": given[f"{kind}_port"] or PORTS[kind][security],
        "security": security,
        "username": given[f"{kind}_username"] or username,
        "password": password,
    }


ROLES = ("sent", "drafts", "trash", "archive", "spam")
MAP_OPTIONS: tuple[click.Parameter, ...] = (
    ACCOUNT,
    MAILBOX,
    *(click.Option([f"--{role}"], metavar="PATH|ID", help=f"Its {role} folder.") for role in ROLES),
    click.Option(
        ["--clear"], multiple=True, type=click.Choice(ROLES), help="Leave this one to the server again (repeatable)."
    ),
)


def folder_mapping(_invocation: Invocation, given: Given) -> Any:
    """The body of PATCH /accounts/{accountId}/imap/folders: what was given, and null for what is cleared."""
    named = {role: given[role] for role in ROLES if given[role] is not None}
    if twice := named.keys() & set(given["clear"]):
        raise wrong_usage(f"{min(twice)} is both given and cleared.", "option:--clear")
    if not named and not given["clear"]:
        raise wrong_usage("Name a folder, such as --sent PATH, or --clear a role.")
    return {**named, **dict.fromkeys(given["clear"])}


_COLUMNS = ("id", "email", "displayName", "provider", "status", "lastSyncAt")
ROWS = (
    Row("list", Call("GET", "/accounts"), "List the mailboxes that you reach.", columns=_COLUMNS),
    Row("show", Call("GET", "/accounts/{accountId}"), "Show a mailbox.", (ACCOUNT, MAILBOX)),
    Row(
        "add",
        Call("POST", "/accounts"),
        "Connect an IMAP mailbox.\n\nBoth servers are logged in to before anything is stored.",
        ADD_OPTIONS,
        body=connection,
        timeout=180.0,
        waiting_for="Logging in to both servers…",
    ),
    Row(
        "remove",
        Call("DELETE", "/accounts/{accountId}"),
        "Disconnect a mailbox and forget what was stored of it.\n\n"
        "It must be named, by --account or as argument, even where you reach only one.",
        (click.Option(["--account"], metavar="ID|EMAIL", help="The mailbox; always needed here."), MAILBOX),
        names_mailbox=True,
    ),
    Row(
        "folders",
        Call("GET", "/accounts/{accountId}/folders"),
        "List the folders of a mailbox.",
        (ACCOUNT, MAILBOX),
        columns=("id", "path", "role", "roleSource", "unreadCount", "totalCount"),
    ),
    Row(
        "map-folders",
        Call("PATCH", "/accounts/{accountId}/imap/folders"),
        "Say which folders are for sent mail, drafts, trash, archive and spam.\n\nThose that are not named stay.",
        MAP_OPTIONS,
        body=folder_mapping,
        waiting_for="Asking the mail server…",
    ),
)
accounts = group("accounts", "Mailboxes.", [row.command() for row in ROWS])
