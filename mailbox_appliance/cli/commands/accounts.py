"""The commands `accounts` and `labels`: connect, share and change mailboxes."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli import oauth_sign_in, output
from mailbox_appliance.cli.command_table import (
    ACCOUNT,
    MAILBOX,
    Call,
    Given,
    Row,
    either,
    execute,
    resolve_account,
    resolve_member,
    wanted_mailbox,
)
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.cli.inputs import INPUT_OPTION, given_options, read_whole_body, require_options
from mailbox_appliance.cli.oauth_sign_in import SignInWay
from mailbox_appliance.client.errors import Failure, wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient

# --- `accounts access`: who can use a mailbox in addition to its owner. Options that are left out change nothing ---


ACCESS = Row(
    "access",
    Call("PUT", "/accounts/{accountId}/access"),
    "Share a mailbox or change who has access.\n\n"
    "Members who are not named keep or lack access as before. Administrators can remove access to any mailbox, but"
    " cannot grant it.",
    (
        ACCOUNT,
        MAILBOX,
        click.Option(
            ["--share-with-all/--not-with-all"],
            default=None,
            help="Share with all members, including future ones, or stop.",
        ),
        option("--grant", "ID|EMAIL", "Member to give access to (repeatable).", multiple=True),
        option("--revoke", "ID|EMAIL", "Member to remove access from (repeatable).", multiple=True),
        INPUT_OPTION,
    ),
)
GET_OWN_ACCOUNT = Call("GET", "/accounts/{accountId}")
LIST_ALL_ACCOUNTS = Call("GET", "/admin/accounts")
GET_CALLER = Call("GET", "/me")


def _change_access(invocation: Invocation, **given: Any) -> int:
    if given["input_"] is not None and given["share_with_all"] is not None:
        raise wrong_usage("--input is the whole body and cannot be combined with --share-with-all.", "option:--input")
    if given["share_with_all"] is None and not given_options(given, "account", "mailbox", "share_with_all"):
        raise wrong_usage("Nothing to change: add an option such as --grant ID.", "option:--grant")
    if twice := set(given["grant"]) & set(given["revoke"]):
        raise wrong_usage(f"{min(twice)} is in both --grant and --revoke.", "option:--revoke")
    # A list given with --input replaces the present one; it is read before any request.
    body: Any = None
    if given["input_"] is not None:
        body = read_whole_body(invocation.terminal, given, "account", "mailbox", "share_with_all")
    client = invocation.client()
    account_id = resolve_account(client, wanted_mailbox(given))
    if body is None:
        body = _changed_access_body(client, _find_account(client, account_id), given)
    return execute(replace(ACCESS, body=lambda *_: body), invocation, {"account": account_id})


def _changed_access_body(client: "ApiClient", account: dict[str, Any], given: Given) -> dict[str, Any]:
    """Return the complete list of members, since PUT replaces it."""
    granted, revoked = ([resolve_member(client, one) for one in given[name]] for name in ("grant", "revoke"))
    kept = [one for one in account["grantedMemberIds"] if one not in revoked]
    with_all = given["share_with_all"]
    return {
        "sharedWithAll": account["sharedWithAll"] if with_all is None else with_all,
        "memberIds": kept + [one for one in granted if one not in kept],
    }


def _find_account(client: "ApiClient", account_id: str) -> dict[str, Any]:
    """Return a mailbox that the caller may use or, as an administrator, may only manage."""
    try:
        found: dict[str, Any] = GET_OWN_ACCOUNT.ask(client, accountId=account_id)["data"]
        return found
    except Failure as failure:
        credential = GET_CALLER.ask(client)["data"]["credential"]
        scope = credential["accountIds"]
        if "admin.accounts" not in credential["capabilities"] or (scope is not None and account_id not in scope):
            raise
        for one in output.items_of(LIST_ALL_ACCOUNTS.ask(client)) or []:
            if one["id"] == account_id:
                return dict(one)
        raise failure from None


# --- `accounts addresses`: the addresses that a mailbox may send as ---


ADDRESSES = Row(
    "addresses",
    Call("GET", "/accounts/{accountId}/sender-addresses"),
    "List the sender addresses of a mailbox.\n\nWithout `--from`, mail is sent from the mailbox's own address.",
    (ACCOUNT, MAILBOX),
    columns=("email", "name", "isDefault"),
)


# --- `accounts discover`: the servers of a mailbox, and the command that connects it ---


_ADD_COMMAND = ("mailbox-appliance", "accounts", "add")


def _discovery_text(found: Any) -> str:
    ways = [
        line
        for number, way in enumerate(found["candidates"], 1)
        for line in _candidate_lines(number, way, found["email"])
    ]
    said = [f"  {one['source']}: {one['outcome']}" for one in found["sources"]]
    nothing = "No servers were found. Look for “IMAP” in the provider's help pages."
    lines = [*(ways or [nothing, ""]), "Result of each source:", *said]
    return "".join(f"{output.plain_text(line)}\n" for line in lines)


def _candidate_lines(number: int, way: Any, email: str) -> Iterator[str]:
    yield f"{number}. {way['name'] or way['imap']['host']} ({', '.join(way['foundBy'])})"
    for kind in ("imap", "smtp"):
        server = way[kind]
        yield f"   {kind.upper()}: {server['host']}:{server['port']}, {server['security']}, as {server['username']}"
    if way["note"]:
        yield f"   {way['note']}"
    yield f"   {shlex.join(_connect_command(way, email))}"
    if way["provider"] == "google":
        yield f"   {shlex.join(_connect_command({**way, 'provider': None}, email))}   # with an app password"
    yield ""


def _connect_command(way: Any, email: str) -> Iterator[str]:
    yield from (*_ADD_COMMAND, "--email", email)
    if way["provider"]:
        yield from ("--provider", way["provider"])
        return
    for kind, ports in PORTS.items():
        server = way[kind]
        yield from (f"--{kind}-host", server["host"])
        if server["security"] != "tls":
            yield from (f"--{kind}-security", server["security"])
        if server["port"] != ports[server["security"]]:
            yield from (f"--{kind}-port", str(server["port"]))
    if way["imap"]["username"] != email:
        yield from ("--imap-username", way["imap"]["username"])
    if way["smtp"]["username"] != way["imap"]["username"]:
        yield from ("--smtp-username", way["smtp"]["username"])


DISCOVER = Row(
    "discover",
    Call("POST", "/accounts/discover"),
    "Find the mail servers for an email address.\n\n"
    "The appliance checks its list of large providers first, then DNS, the domain's web server and a provider"
    " directory. It connects to no mail server and stores nothing. The most likely servers come first.",
    (click.Argument(["email"], metavar="ADDRESS"),),
    view=_discovery_text,
    body=lambda _, given: {"email": given["email"]},
    waiting_for="Searching for mail servers…",
)


# --- Provider sign-in: options of `accounts add` and `accounts reconnect` ---


PROVIDERS = ("google", "outlook")
_SIGN_IN_WAYS = (
    flag("--paste", "Sign in with a browser on any computer, then paste the address where it ended."),
    flag("--device", "Sign in by typing a code on any device (outlook only)."),
)
SIGN_IN_OPTIONS: tuple[click.Parameter, ...] = (
    option("--provider", "|".join(PROVIDERS), "Sign in at Google or Microsoft, without server options and password."),
    *_SIGN_IN_WAYS,
    flag("--begin", "Start the sign-in and print the address to open; for scripts."),
    flag("--finish", "Finish the sign-in with the address where the browser ended, from stdin."),
)
SIGN_IN_AGAIN_OPTIONS: tuple[click.Parameter, ...] = (
    flag("--sign-in", "Sign in again even if the connection works (Google and Microsoft only)."),
    *_SIGN_IN_WAYS,
)
#: The calls of a sign-in.
SIGN_IN_CALLS = (oauth_sign_in.BEGIN_SIGN_IN, oauth_sign_in.FINISH_SIGN_IN)
_SIGN_IN_NAMES = ("provider", "paste", "device", "begin", "finish", "email", "display_name")
_SIGN_IN_AGAIN_NAMES = ("sign_in", "paste", "device", "account", "mailbox")


def connect_by_sign_in(invocation: Invocation, given: Given) -> int:
    """Connect a mailbox by signing in at the provider that `--provider` names; return the exit code."""
    _refuse_beside(given, "--provider", _SIGN_IN_NAMES)
    provider, body = given["provider"], {"email": given["email"], "displayName": given["display_name"]}
    wanted = {name: value for name, value in body.items() if value is not None}
    if given["finish"]:
        _refuse_beside(given, "--finish", ("provider", "finish"))
        answer = oauth_sign_in.finish_sign_in(invocation, provider)
    elif given["begin"]:
        _refuse_beside(given, "--begin", ("provider", "begin", "device", "email", "display_name"))
        answer = oauth_sign_in.begin_sign_in(
            invocation, provider, {**wanted, "device": True} if given["device"] else wanted
        )
    else:
        answer = oauth_sign_in.sign_in(invocation, provider, _sign_in_way(given, provider), wanted)
    return output.show_answer(invocation, answer)


def find_account_to_sign_in(invocation: Invocation, given: Given) -> Any:
    """Return the mailbox to reconnect if the user must sign in at its provider. Return None if the mailbox is to be
    reconnected with servers and passwords.

    A sign-in is necessary if an option asks for it, or if the mailbox has the status `reauth_required` and no other
    option, such as a new password, is given. Raises Failure if an option asks for it but the mailbox uses a password.
    """
    is_asked = any(given[name] for name in ("sign_in", "paste", "device"))
    if not is_asked and given_options(given, *_SIGN_IN_AGAIN_NAMES):
        return None
    _refuse_beside(given, "--sign-in", _SIGN_IN_AGAIN_NAMES)
    client = invocation.client()
    account_id = resolve_account(client, wanted_mailbox(given))
    account = GET_OWN_ACCOUNT.ask(client, accountId=account_id)["data"]
    given["account"], given["mailbox"] = account_id, None
    if account["provider"] in PROVIDERS and (is_asked or account["status"] == "reauth_required"):
        return account
    if is_asked:
        raise wrong_usage("This mailbox uses a password: change it with --new-password.", "option:--sign-in")
    return None


def sign_in_again(invocation: Invocation, given: Given, account: Any) -> int:
    """Reconnect the mailbox `account` by signing in at its provider; return the exit code."""
    way = _sign_in_way(given, account["provider"])
    return output.show_answer(
        invocation, oauth_sign_in.sign_in(invocation, account["provider"], way, {"accountId": account["id"]})
    )


def _sign_in_way(given: Given, provider: str) -> SignInWay:
    if provider not in PROVIDERS:
        raise wrong_usage(f"--provider must be google or outlook (got {provider}).", "option:--provider")
    if given["paste"] and given["device"]:
        raise wrong_usage("--paste and --device cannot be combined.", "option:--device")
    if given["device"] and provider != "outlook":
        raise wrong_usage("Google does not support --device for mail. Use --paste.", "option:--device")
    return "paste" if given["paste"] else "code" if given["device"] else "browser"


def _refuse_beside(given: Given, option: str, fitting: tuple[str, ...]) -> None:
    if others := given_options(given, *fitting):
        raise wrong_usage(f"{option} and {others[0]} cannot be combined.", f"option:{others[0]}")


# --- The other commands of `accounts` ---


SECURITY = ("tls", "starttls", "none")
#: RFC 8314 3.2 and 3.3: implicit TLS; RFC 6409 and RFC 9051: upgraded or plain.
PORTS = {"imap": {"tls": 993, "starttls": 143, "none": 143}, "smtp": {"tls": 465, "starttls": 587, "none": 587}}


_NO_SERVERS = (
    "Missing option '--imap-host'. Find the servers with `mailbox-appliance accounts discover {email}`. For Google and"
    " Microsoft use --provider google or --provider outlook."
)
_VARIABLE = "MAILBOX_APPLIANCE_MAILBOX_PASSWORD"


def _server_options(kind: str, port: str, security: str, username: str) -> tuple[click.Option, ...]:
    name, number = kind.upper(), click.IntRange(1, 65535)
    return (
        option(f"--{kind}-host", "HOST", f"Host name of the {name} server."),
        option(f"--{kind}-port", "PORT", f"Port of the {name} server{port}.", type=number),
        click.Option([f"--{kind}-security"], type=click.Choice(SECURITY), help=f"Security of {name}{security}."),
        option(f"--{kind}-username", "NAME", f"User name for {name}{username}."),
    )


PASSWORD_OPTIONS = (
    flag("--password-stdin", "Read the password for IMAP and SMTP from the first line of stdin."),
    flag("--smtp-password-stdin", "Read a separate SMTP password from the next line of stdin."),
)
ADD_OPTIONS: tuple[click.Parameter, ...] = (
    option("--email", "ADDRESS", "Email address of the mailbox."),
    option("--display-name", "NAME", "Display name of the mailbox."),
    *SIGN_IN_OPTIONS,
    *_server_options("imap", " (default: 993, or 143 without tls)", " (default tls)", " (default: the address)"),
    *_server_options("smtp", " (default: 465, or 587 without tls)", " (default tls)", " (default: the IMAP name)"),
    *PASSWORD_OPTIONS,
    option("--owner", "ID|EMAIL", "Member who will own the mailbox. Administrators only."),
    INPUT_OPTION,
)
RECONNECT_OPTIONS: tuple[click.Parameter, ...] = (
    ACCOUNT,
    MAILBOX,
    *_server_options("imap", "", "", ""),
    *_server_options("smtp", "", "", ""),
    flag("--new-password", "Prompt for a new password for IMAP and SMTP."),
    *PASSWORD_OPTIONS,
    *SIGN_IN_AGAIN_OPTIONS,
    INPUT_OPTION,
)


def connection_body(invocation: Invocation, given: Given) -> Any:
    """Return the request body that connects a mailbox (POST /accounts), from the options or from --input."""
    for name in ("paste", "device", "begin", "finish"):
        if given.get(name):
            raise wrong_usage(f"--{name} requires --provider.", f"option:--{name}")
    require_options(given, "email")
    if given["imap_host"] is None and given["smtp_host"] is None:
        raise wrong_usage(_NO_SERVERS.format(email=shlex.quote(given["email"])), "option:--imap-host")
    require_options(given, "imap_host", "smtp_host")
    terminal = invocation.terminal
    password = terminal.secret("Mailbox password", _VARIABLE, from_stdin=given["password_stdin"])
    smtp_password = terminal.secret_line() if given["smtp_password_stdin"] else password
    imap = _server_body(given, "imap", given["email"], password)
    body = {"email": given["email"], "imap": imap, "smtp": _server_body(given, "smtp", imap["username"], smtp_password)}
    return body if given["display_name"] is None else {**body, "displayName": given["display_name"]}


def _owner_field(invocation: Invocation, given: Given) -> dict[str, Any]:
    return {"ownerMemberId": resolve_member(invocation.client(), given["owner"])}


def reconnection_body(invocation: Invocation, given: Given) -> Any:
    """Return the request body of POST /accounts/{accountId}/reconnect, with only the fields to change."""
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


def _server_body(given: Given, kind: str, username: str, password: str) -> dict[str, Any]:
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
    *(option(f"--{role}", "PATH|ID", f"Folder for {role}.") for role in ROLES),
    click.Option(
        ["--clear"], multiple=True, type=click.Choice(ROLES), help="Role to leave to the server again (repeatable)."
    ),
    INPUT_OPTION,
)


def folder_mapping_body(_invocation: Invocation, given: Given) -> Any:
    """Return the request body that assigns folders to roles such as Sent (PATCH /accounts/{accountId}/imap/folders).

    It has only the roles to change: the folder for each, or null to clear the role.
    """
    named = {role: given[role] for role in ROLES if given[role] is not None}
    if twice := named.keys() & set(given["clear"]):
        raise wrong_usage(f"--{min(twice)} and --clear {min(twice)} cannot be combined.", "option:--clear")
    if not named and not given["clear"]:
        raise wrong_usage("Nothing to change: name a folder, such as --sent PATH, or --clear a role.")
    return {**named, **dict.fromkeys(given["clear"])}


_COLUMNS = ("id", "email", "displayName", "provider", "status", "lastSyncAt")
_EVERYBODY = flag("--everybody", "Mailboxes of all members. Administrators only.")
LIST = Row("list", Call("GET", "/accounts"), "List the mailboxes you have access to.", (_EVERYBODY,), _COLUMNS)
LIST_ALL = Row("list", Call("GET", "/admin/accounts"), "", columns=("id", "ownerMemberId", *_COLUMNS[1:]))
SHOW = Row("show", Call("GET", "/accounts/{accountId}"), "Show a mailbox.", (ACCOUNT, MAILBOX))
ADD = Row(
    "add",
    Call("POST", "/accounts"),
    "Connect a mailbox by IMAP and SMTP, or with --provider.\n\n"
    "The appliance signs in to both servers before it stores anything. `accounts discover` finds the servers.\n\n"
    "With --provider you sign in at Google or Microsoft in a browser on this computer. With --paste, or without a"
    " desktop, open the page on any computer and paste the address where it ended.",
    ADD_OPTIONS,
    body=connection_body,
    timeout=180.0,
    waiting_for="Signing in to both servers…",
)
ADD_FOR = replace(ADD, call=Call("POST", "/admin/accounts"), more_body=_owner_field)
RECONNECT = Row(
    "reconnect",
    Call("POST", "/accounts/{accountId}/reconnect"),
    "Change a mailbox's connection, or try the current one again.\n\n"
    "Settings that are not given stay as they are. The appliance signs in to both servers before it stores anything,"
    " then syncs again at once and sends messages that waited for the sign-in. A Google or Microsoft mailbox that needs"
    " a new sign-in gets one as with `accounts add --provider`.",
    RECONNECT_OPTIONS,
    body=reconnection_body,
    timeout=180.0,
    waiting_for=ADD.waiting_for,
)
RENAME = Row(
    "rename",
    Call("PATCH", "/accounts/{accountId}"),
    "Change the display name of a mailbox.",
    (
        ACCOUNT,
        MAILBOX,
        option("--display-name", "NAME", "New display name; '' removes it.", required=True),
    ),
    body=lambda _, given: {"displayName": given["display_name"] or None},
)
REMOVE = Row(
    "remove",
    Call("DELETE", "/accounts/{accountId}"),
    "Disconnect a mailbox and delete its stored data.\n\n"
    "The mail stays on its server. Name the mailbox, even if you have access to only one.",
    (option("--account", "ID|EMAIL", "Mailbox; always required here."), MAILBOX),
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
    "Map folders to sent, drafts, trash, archive and spam.\n\nRoles that are not named stay as they are.",
    MAP_OPTIONS,
    body=folder_mapping_body,
    waiting_for="Contacting the mail server…",
)


def _add_account(invocation: Invocation, **given: Any) -> int:
    if given["provider"] is not None:
        return connect_by_sign_in(invocation, given)
    return execute(ADD if given["owner"] is None else ADD_FOR, invocation, given)


def _reconnect_account(invocation: Invocation, **given: Any) -> int:
    account = find_account_to_sign_in(invocation, given)
    return execute(RECONNECT, invocation, given) if account is None else sign_in_again(invocation, given, account)


accounts = group(
    "accounts",
    "Manage mailboxes: connect, share, reconnect, remove.",
    [
        either(LIST, LIST_ALL, "everybody"),
        SHOW.command(),
        command("add", _add_account, ADD.help, ADD.parameters),
        DISCOVER.command(),
        RENAME.command(),
        command("reconnect", _reconnect_account, RECONNECT.help, RECONNECT.parameters),
        command("access", _change_access, ACCESS.help, ACCESS.parameters),
        REMOVE.command(),
        FOLDERS.command(),
        MAP_FOLDERS.command(),
        ADDRESSES.command(),
    ],
)


# --- Labels ---


LABEL_ROWS = (
    Row(
        "list",
        Call("GET", "/accounts/{accountId}/labels"),
        "List the labels of a mailbox's messages.",
        (ACCOUNT,),
        columns=("id", "name"),
    ),
)
labels = group("labels", "Manage labels: list.", [row.command() for row in LABEL_ROWS])
