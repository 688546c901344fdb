"""Mailboxes: one's own, and with `--everybody` or `--owner` those of others, for administrators."""

import shlex
from typing import Any

import click

from mailbox_appliance.cli.commands import access, sign_ins
from mailbox_appliance.cli.commands.addresses import ADDRESSES
from mailbox_appliance.cli.commands.discover import DISCOVER
from mailbox_appliance.cli.inputs import INPUT_OPTION, needed, read_object, whole_body
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.members import resolve_member
from mailbox_appliance.cli.rows import ACCOUNT, MAILBOX, Call, Given, Row, execute
from mailbox_appliance.cli.tree import command, group
from mailbox_appliance.client.errors import wrong_usage

SECURITY = ("tls", "starttls", "none")
#: RFC 8314 3.2 and 3.3: implicit TLS; RFC 6409 and RFC 9051: upgraded or plain.
PORTS = {"imap": {"tls": 993, "starttls": 143, "none": 143}, "smtp": {"tls": 465, "starttls": 587, "none": 587}}


_NO_SERVERS = (
    "Missing option '--imap-host'. `mailbox-appliance accounts discover {email}` finds the servers; mailboxes of Google"
    " and Microsoft are connected with --provider google or --provider outlook."
)
_VARIABLE = "MAILBOX_APPLIANCE_MAILBOX_PASSWORD"


def _server_options(kind: str, port: str, security: str, username: str) -> tuple[click.Option, ...]:
    """The options of a server; the texts tell what holds where one is not given."""
    host = click.Option([f"--{kind}-host"], metavar="HOST", help=f"The {kind.upper()} server.")
    number = click.IntRange(1, 65535)
    return (
        host,
        click.Option([f"--{kind}-port"], type=number, metavar="PORT", help=f"Its port{port}."),
        click.Option([f"--{kind}-security"], type=click.Choice(SECURITY), help=f"How it is protected{security}."),
        click.Option([f"--{kind}-username"], metavar="NAME", help=f"The name to log in with{username}."),
    )


PASSWORDS = (
    click.Option(
        ["--password-stdin"], is_flag=True, help="Read the password, for IMAP and SMTP, from the first line of stdin."
    ),
    click.Option(["--smtp-password-stdin"], is_flag=True, help="Read another one for SMTP from the next line."),
)
ADD_OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(["--email"], metavar="ADDRESS", help="The address of the mailbox."),
    click.Option(["--display-name"], metavar="NAME", help="What the mailbox is called."),
    *sign_ins.ADD_OPTIONS,
    *_server_options("imap", " (usual for the security)", " (default tls)", " (default: the address)"),
    *_server_options("smtp", " (usual for the security)", " (default tls)", " (default: the IMAP name)"),
    *PASSWORDS,
    click.Option(["--owner"], metavar="ID|EMAIL", help="The member who is to own it; for administrators."),
    INPUT_OPTION,
)
RECONNECT_OPTIONS: tuple[click.Parameter, ...] = (
    ACCOUNT,
    MAILBOX,
    *_server_options("imap", "", "", ""),
    *_server_options("smtp", "", "", ""),
    click.Option(["--new-password"], is_flag=True, help="Ask for a new password, for IMAP and SMTP."),
    *PASSWORDS,
    *sign_ins.AGAIN_OPTIONS,
    INPUT_OPTION,
)


def connection(invocation: Invocation, given: Given) -> Any:
    """The body of POST /accounts: from the options, or as it was given."""
    if (whole := whole_body(invocation.terminal, given)) is not None:
        return whole
    sign_ins.refuse_ways(given)
    needed(given, "email")
    if given["imap_host"] is None and given["smtp_host"] is None:
        raise wrong_usage(_NO_SERVERS.format(email=shlex.quote(given["email"])), "option:--imap-host")
    needed(given, "imap_host", "smtp_host")
    terminal = invocation.terminal
    password = terminal.secret("Mailbox password", _VARIABLE, from_stdin=given["password_stdin"])
    smtp_password = terminal.secret_line() if given["smtp_password_stdin"] else password
    imap = _server(given, "imap", given["email"], password)
    body = {"email": given["email"], "imap": imap, "smtp": _server(given, "smtp", imap["username"], smtp_password)}
    return body if given["display_name"] is None else {**body, "displayName": given["display_name"]}


def connection_of_member(invocation: Invocation, given: Given) -> Any:
    """The body of POST /admin/accounts."""
    body = connection(invocation, {**given, "owner": None})
    if isinstance(body, bytes):
        body = read_object(body, given["input_"])
    return {**body, "ownerMemberId": resolve_member(invocation.client(), given["owner"])}


def reconnection(invocation: Invocation, given: Given) -> Any:
    """The body of POST /accounts/{accountId}/reconnect: what was given; the rest stays as it is."""
    if (whole := whole_body(invocation.terminal, given, "account", "mailbox")) is not None:
        return whole
    fields = ("host", "port", "security", "username")
    body: dict[str, dict[str, Any]] = {
        kind: {field: given[f"{kind}_{field}"] for field in fields if given[f"{kind}_{field}"] is not None}
        for kind in ("imap", "smtp")
    }
    terminal = invocation.terminal
    if given["new_password"] or given["password_stdin"]:
        password = terminal.secret("New mailbox password", _VARIABLE, from_stdin=given["password_stdin"])
        body["imap"]["password"] = body["smtp"]["password"] = password
    if given["smtp_password_stdin"]:
        body["smtp"]["password"] = terminal.secret_line()
    return {kind: change for kind, change in body.items() if change}


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
    INPUT_OPTION,
)


def folder_mapping(invocation: Invocation, given: Given) -> Any:
    """The body of PATCH /accounts/{accountId}/imap/folders: what was given, and null for what is cleared."""
    if (whole := whole_body(invocation.terminal, given, "account", "mailbox")) is not None:
        return whole
    named = {role: given[role] for role in ROLES if given[role] is not None}
    if twice := named.keys() & set(given["clear"]):
        raise wrong_usage(f"{min(twice)} is both given and cleared.", "option:--clear")
    if not named and not given["clear"]:
        raise wrong_usage("Name a folder, such as --sent PATH, or --clear a role.")
    return {**named, **dict.fromkeys(given["clear"])}


def _name(_invocation: Invocation, given: Given) -> Any:
    """The body of PATCH /accounts/{accountId}; no name at all is null."""
    return {"displayName": given["display_name"] or None}


_COLUMNS = ("id", "email", "displayName", "provider", "status", "lastSyncAt")
_EVERYBODY = click.Option(["--everybody"], is_flag=True, help="Whoever owns them; for administrators.")
LIST = Row("list", Call("GET", "/accounts"), "List the mailboxes that you reach.", (_EVERYBODY,), _COLUMNS)
LIST_ALL = Row("list", Call("GET", "/admin/accounts"), "", columns=("id", "ownerMemberId", *_COLUMNS[1:]))
SHOW = Row("show", Call("GET", "/accounts/{accountId}"), "Show a mailbox.", (ACCOUNT, MAILBOX))
ADD = Row(
    "add",
    Call("POST", "/accounts"),
    "Connect a mailbox: by the provider's own sign-in with --provider, or by its IMAP and SMTP servers.\n\n"
    "Both servers are logged in to before anything is stored. With --provider a browser opens on this computer; without"
    " a desktop, and with --paste, you open the page elsewhere and paste the address where it ended.",
    ADD_OPTIONS,
    body=connection,
    timeout=180.0,
    waiting_for="Logging in to both servers…",
)
ADD_FOR = Row(
    "add", Call("POST", "/admin/accounts"), "", body=connection_of_member, timeout=180.0, waiting_for=ADD.waiting_for
)
RECONNECT = Row(
    "reconnect",
    Call("POST", "/accounts/{accountId}/reconnect"),
    "Change how a mailbox's servers are reached, or try the present logins again.\n\n"
    "What is not given stays. Both servers are logged in to before anything is stored; the mailbox is followed anew"
    " at once, and what waited for the login is sent. A mailbox of Google or Microsoft that needs a new sign-in gets it"
    " as with `accounts add --provider`.",
    RECONNECT_OPTIONS,
    body=reconnection,
    timeout=180.0,
    waiting_for=ADD.waiting_for,
)
RENAME = Row(
    "rename",
    Call("PATCH", "/accounts/{accountId}"),
    "Change what a mailbox is called.",
    (
        ACCOUNT,
        MAILBOX,
        click.Option(
            ["--display-name"], required=True, metavar="NAME", help="What it is called from now on; '' takes that away."
        ),
    ),
    body=_name,
)
REMOVE = Row(
    "remove",
    Call("DELETE", "/accounts/{accountId}"),
    "Disconnect a mailbox and forget what was stored of it.\n\n"
    "It must be named, by --account or as argument, even where you reach only one.",
    (click.Option(["--account"], metavar="ID|EMAIL", help="The mailbox; always needed here."), MAILBOX),
    names_mailbox=True,
)
FOLDERS = Row(
    "folders",
    Call("GET", "/accounts/{accountId}/folders"),
    "List the folders of a mailbox.",
    (ACCOUNT, MAILBOX),
    columns=("id", "path", "role", "roleSource", "unreadCount", "totalCount"),
)
MAP_FOLDERS = Row(
    "map-folders",
    Call("PATCH", "/accounts/{accountId}/imap/folders"),
    "Say which folders are for sent mail, drafts, trash, archive and spam.\n\nThose that are not named stay.",
    MAP_OPTIONS,
    body=folder_mapping,
    waiting_for="Asking the mail server…",
)


def _list(invocation: Invocation, everybody: bool) -> int:
    return execute(LIST_ALL if everybody else LIST, invocation, {})


def _add(invocation: Invocation, **given: Any) -> int:
    if given["provider"] is not None:
        return sign_ins.connect(invocation, given)
    return execute(ADD if given["owner"] is None else ADD_FOR, invocation, given)


def _reconnect(invocation: Invocation, **given: Any) -> int:
    account = sign_ins.to_sign_in_again(invocation, given)
    return execute(RECONNECT, invocation, given) if account is None else sign_ins.again(invocation, given, account)


accounts = group(
    "accounts",
    "Mailboxes.",
    [
        command("list", _list, LIST.help, LIST.parameters),
        SHOW.command(),
        command("add", _add, ADD.help, ADD.parameters),
        DISCOVER.command(),
        RENAME.command(),
        command("reconnect", _reconnect, RECONNECT.help, RECONNECT.parameters),
        access.command_of(),
        REMOVE.command(),
        FOLDERS.command(),
        MAP_FOLDERS.command(),
        ADDRESSES.command(),
    ],
)
