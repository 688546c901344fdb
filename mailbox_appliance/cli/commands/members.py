"""Commands about people: `members`, `sessions`, `profile`, `password`, `console`, `whoami`, `status`."""

from contextlib import suppress
from typing import Any

import click

from mailbox_appliance.cli import output
from mailbox_appliance.cli.command_table import Call, Given, Row, either, execute
from mailbox_appliance.cli.context import ENVIRONMENT_PREFIX, PASSWORD_VARIABLE, Invocation
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.cli.inputs import INPUT_OPTION, given_options, require_options
from mailbox_appliance.client.errors import Failure, wrong_usage

MEMBER = click.Argument(["member_id"], metavar="ID|EMAIL")
_ROLES = click.Choice(("admin", "member"))
_MEMBER_PATH = "/admin/members/{memberId}"
_LINK_HELP = "Send them the link yourself; the appliance does not. They open it, or pass it to `mailbox-appliance {}`."
_LOCAL_LINK_WARNING = (
    "The link works on this computer only. To create links for other computers, set `server.public_url`.\n"
)


def _new_member_body(_invocation: Invocation, given: Given) -> Any:
    require_options(given, "name", "email")
    return {"name": given["name"], "email": given["email"], "role": given["role"] or "member"}


def _change_member_body(_invocation: Invocation, given: Given) -> Any:
    if not given_options(given, "member_id"):
        raise wrong_usage("Nothing to change: add --name, --email or --role.", "option:--name")
    return {name: given[name] for name in ("name", "email", "role") if given[name] is not None}


def _link_remark(answer: Any) -> str:
    """Return the text below an invitation or password reset: the instructions for the member who gets its link."""
    data = answer["data"]
    url = str(data.get("invitation", data)["url"])
    base, _, fragment = url.partition("/#")
    verb = "reset-password" if fragment.startswith("reset=") else "enroll"
    told = (
        "Send the member this link. It is single-use and shown only now.\n"
        "They set a password on the page that it opens, or with this command on their computer:\n"
        f"  mailbox-appliance {verb}\n"
    )
    return output.plain_text(told + (_LOCAL_LINK_WARNING if _is_loopback(base) else ""))


def _is_loopback(base: str) -> bool:
    from urllib.parse import urlsplit

    host = urlsplit(base).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


LIST_MEMBERS = Row(
    "list",
    Call("GET", "/admin/members"),
    "List members and pending invitations.",
    columns=("id", "name", "email", "role", "status", "lastLoginAt", "invitation.expiresAt"),
)
ADD_MEMBER = Row(
    "add",
    Call("POST", "/admin/members"),
    f"Create a member and an invitation link.\n\nThe link expires after 7 days. {_LINK_HELP.format('enroll')}",
    (
        option("--name", "NAME", "Name of the member."),
        option("--email", "ADDRESS", "Email address to sign in with."),
        click.Option(["--role"], type=_ROLES, help="Role (default member)."),
        INPUT_OPTION,
    ),
    remark=_link_remark,
    body=_new_member_body,
)
MEMBER_ROWS = (
    Row("show", Call("GET", _MEMBER_PATH), "Show a member.", (MEMBER,)),
    Row(
        "update",
        Call("PATCH", _MEMBER_PATH),
        "Change a member's name, email or role.\n\n"
        "Options that are not given change nothing. If the member becomes an administrator, pending links that an API"
        " key created stop working.",
        (
            MEMBER,
            option("--name", "NAME", "New name."),
            option("--email", "ADDRESS", "New email address to sign in with."),
            click.Option(["--role"], type=_ROLES, help="New role."),
            INPUT_OPTION,
        ),
        body=_change_member_body,
    ),
    Row(
        "suspend",
        Call("PATCH", _MEMBER_PATH),
        "Suspend a member.\n\nTheir sessions end at once. Their API keys do not work until they are active again.",
        (MEMBER,),
        body=lambda *_: {"status": "suspended"},
    ),
    Row(
        "activate",
        Call("PATCH", _MEMBER_PATH),
        "Reactivate a suspended member.\n\nThey must sign in again.",
        (MEMBER,),
        body=lambda *_: {"status": "active"},
    ),
    Row(
        "invite",
        Call("POST", f"{_MEMBER_PATH}/invitation"),
        "Create a new invitation link for a member.\n\n"
        f"It expires after 7 days and replaces an earlier one. {_LINK_HELP.format('enroll')}",
        (MEMBER,),
        remark=_link_remark,
    ),
    Row(
        "reset-password",
        Call("POST", f"{_MEMBER_PATH}/password-reset"),
        "Create a password reset link for a member.\n\n"
        f"It expires after 24 hours. The member sees that you created it. {_LINK_HELP.format('reset-password')}",
        (MEMBER,),
        remark=_link_remark,
    ),
    Row(
        "remove",
        Call("DELETE", _MEMBER_PATH),
        "Remove a member.\n\nThis also removes their sessions, API keys and access to shared mailboxes. Messages they"
        " scheduled are not sent. A member who owns mailboxes cannot be removed.",
        (MEMBER,),
    ),
)
members = group(
    "members",
    "Manage members: add, invite, update, suspend, remove.\n\nAdministrators only.",
    [row.command() for row in (LIST_MEMBERS, MEMBER_ROWS[0], ADD_MEMBER, *MEMBER_ROWS[1:])],
)


# --- The caller, the status of the appliance, and sessions: the caller's own or, with `--member`, another member's ---


ABOUT = Row("about", Call("GET", "/"), "Show the server's name and version.\n\nNo sign-in needed.")
WHOAMI = Row("whoami", Call("GET", "/me"), "Show the signed-in member and their permissions.")
STATUS = Row(
    "status",
    Call("GET", "/status"),
    "Show the status of the appliance and its mailboxes.\n\nAdministrators see a crash of the appliance once: on a"
    " terminal this command also dismisses it.",
)
DISMISS = Call("POST", "/admin/crashes/{trace}/dismiss")
HISTORY = Row(
    "history",
    Call("GET", "/status/history"),
    "Show how many messages were sent and received over time.\n\nCounts the mailboxes you have access to, in steps of 5"
    " minutes (up to 6 hours), 1 hour (up to 48 hours) or 6 hours.",
    (click.Option(["--hours"], type=click.IntRange(1, 168), help="Hours to show, up to 168 (default 24)."),),
)
OPENAPI = Row("openapi", Call("GET", "/openapi.json"), "Print the OpenAPI document of the API.\n\nVersion 3.1.")

_MEMBER_OPTION = option(
    "--member", "ID|EMAIL", "Member whose sessions are meant (default: you). Administrators only.", name="member_id"
)
_SESSION = click.Argument(["session_id"], required=False)
_SESSION_COLUMNS = ("id", "deviceName", "createdAt", "lastUsedAt", "expiresAt", "current")
_MEMBER_SESSIONS_PATH = "/admin/members/{memberId}/sessions"
LIST_SESSIONS = Row("list", Call("GET", "/me/sessions"), "List your sessions.", (_MEMBER_OPTION,), _SESSION_COLUMNS)
LIST_SESSIONS_OF = Row("list", Call("GET", _MEMBER_SESSIONS_PATH), "", columns=_SESSION_COLUMNS)
SHOW_SESSION_OF = Row(
    "show",
    Call("GET", f"{_MEMBER_SESSIONS_PATH}/{{sessionId}}"),
    "Show a session of a member.\n\n`sessions list` shows your own. Administrators only.",
    (
        click.Argument(["session_id"]),
        option("--member", "ID|EMAIL", "Member whose session it is.", required=True, name="member_id"),
    ),
)
REVOKE_SESSION = Row(
    "revoke",
    Call("DELETE", "/me/sessions/{sessionId}"),
    "Revoke a session.\n\nRevoking the current session signs you out. With --member and without SESSION-ID, all"
    " sessions of the member are revoked.",
    (_SESSION, _MEMBER_OPTION),
)
REVOKE_SESSION_OF = Row("revoke", Call("DELETE", f"{_MEMBER_SESSIONS_PATH}/{{sessionId}}"), "")


REVOKE_ALL_SESSIONS_OF = Row(
    "revoke",
    Call("DELETE", _MEMBER_SESSIONS_PATH),
    "",
    view=lambda data: f"All sessions of member {output.one_line(str(data['id']))} are revoked.\n",
)


def _show_about(invocation: Invocation) -> int:
    from mailbox_appliance.client.http import ApiClient

    instance = invocation.resolve_instance()
    return execute(ABOUT, invocation, {}, ApiClient(instance.url, fingerprint=instance.fingerprint))


def _show_status(invocation: Invocation) -> int:
    client = invocation.client()
    answer = STATUS.call.ask(client)
    output.show_answer(invocation, answer)
    trace = output.look_up(answer, "data.lastCrash.file")
    # Output that a script polls may not have been read by anyone.
    if trace is not None and invocation.terminal.stdout.isatty():
        with suppress(Failure):  # it is shown again next time
            DISMISS.ask(client, {}, trace=str(trace))
    return 0


def _revoke_sessions(invocation: Invocation, **given: Any) -> int:
    if given["session_id"] is None and given["member_id"] is None:
        raise wrong_usage("Missing session ID. `sessions list` shows yours.", "argument:SESSION-ID")
    others = REVOKE_SESSION_OF if given["session_id"] is not None else REVOKE_ALL_SESSIONS_OF
    return execute(REVOKE_SESSION if given["member_id"] is None else others, invocation, given)


about = command(ABOUT.name, _show_about, ABOUT.help)
whoami, openapi = WHOAMI.command(), OPENAPI.command()
status = command(STATUS.name, _show_status, STATUS.help)
history = HISTORY.command()
sessions = group(
    "sessions",
    "Manage sessions: list, show, revoke.",
    [
        either(LIST_SESSIONS, LIST_SESSIONS_OF, "member_id"),
        SHOW_SESSION_OF.command(),
        command("revoke", _revoke_sessions, REVOKE_SESSION.help, REVOKE_SESSION.parameters),
    ],
)


# --- The caller's name and password, and the link into the console ---


_NEW_PASSWORD_VARIABLE = ENVIRONMENT_PREFIX + "NEW_PASSWORD"


def _profile_body(_invocation: Invocation, given: Given) -> Any:
    require_options(given, "name")
    return {"name": given["name"]}


def _password_body(invocation: Invocation, given: Given) -> Any:
    terminal = invocation.terminal
    current = terminal.secret("Current password", PASSWORD_VARIABLE, from_stdin=given["password_stdin"])
    new = terminal.secret(
        "New password", _NEW_PASSWORD_VARIABLE, from_stdin=given["new_password_stdin"], twice=True, what="new password"
    )
    return {"currentPassword": current, "newPassword": new}


UPDATE_PROFILE = Row(
    "update",
    Call("PATCH", "/me"),
    "Change your name.",
    (option("--name", "NAME", "New name."), INPUT_OPTION),
    body=_profile_body,
)
CHANGE_PASSWORD = Row(
    "password",
    Call("POST", "/me/password"),
    "Change your password and end your other sessions.\n\nBoth passwords come from a prompt, stdin or the environment:"
    f" {PASSWORD_VARIABLE} is the current one, {_NEW_PASSWORD_VARIABLE} the new one.",
    (
        flag("--password-stdin", "Read the current password from the first line of stdin."),
        flag("--new-password-stdin", "Read the new password from the next line of stdin."),
    ),
    body=_password_body,
)
CREATE_CONSOLE_LINK = Row(
    "console",
    Call("POST", "/auth/console-links"),
    "Create a link that opens the console as you.\n\nThe link is single-use and expires after a minute.",
    remark=lambda answer: (
        f"Open this link before {answer['data']['expiresAt']}. It is single-use and signs in anyone who has it.\n"
    ),
)
profile = group("profile", "Manage your profile: update.", [UPDATE_PROFILE.command()])
password, console = CHANGE_PASSWORD.command(), CREATE_CONSOLE_LINK.command()
