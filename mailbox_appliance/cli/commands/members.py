"""Members, for administrators."""

from dataclasses import replace
from typing import Any

import click

from mailbox_appliance.cli import render
from mailbox_appliance.cli.inputs import INPUT_OPTION, given_options, needed, whole_body
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.members import resolve_member
from mailbox_appliance.cli.rows import Call, Given, Row, execute
from mailbox_appliance.cli.tree import command, group
from mailbox_appliance.client.errors import wrong_usage

MEMBER = click.Argument(["member"], metavar="ID|EMAIL")
_ROLES = click.Choice(("admin", "member"))
_PATH = "/admin/members/{memberId}"
_TAKEN_UP = "Send them the link: the appliance sends none. On their computer `mailbox-appliance {}` asks for it."
_ONLY_HERE = "The link leads to this computer only: `server.public_url` says where others reach the appliance.\n"


def _new(invocation: Invocation, given: Given) -> Any:
    if (whole := whole_body(invocation.terminal, given)) is not None:
        return whole
    needed(given, "name", "email")
    return {"name": given["name"], "email": given["email"], "role": given["role"] or "member"}


def _change(invocation: Invocation, given: Given) -> Any:
    if (whole := whole_body(invocation.terminal, given)) is not None:
        return whole
    if not given_options(given):
        raise wrong_usage("Say what is to change: --name, --email or --role.", "option:--name")
    return {name: given[name] for name in ("name", "email", "role") if given[name] is not None}


def _suspended(_invocation: Invocation, _given: Given) -> Any:
    return {"status": "suspended"}


def _active(_invocation: Invocation, _given: Given) -> Any:
    return {"status": "active"}


def _link(answer: Any) -> str:
    """What is said below a link: what the member does with it."""
    data = answer["data"]
    url = str(data.get("invitation", data)["url"])
    base, _, fragment = url.partition("/#")
    verb = "reset-password" if fragment.startswith("reset=") else "enroll"
    told = (
        "Send the member this link. It is good once, and shown only now.\n"
        "The page that it opens asks for a password. On their computer this does, too:\n"
        f"  mailbox-appliance {verb}\n"
    )
    return render.plain(told + (_ONLY_HERE if _is_loopback(base) else ""))


def _is_loopback(base: str) -> bool:
    from urllib.parse import urlsplit

    host = urlsplit(base).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def about_member(row: Row) -> click.Command:
    """The command of a row whose path has `{memberId}`: the member may be named by email."""

    def act(invocation: Invocation, member: str, **given: Any) -> int:
        # What is wrong with the options is told before anybody is asked.
        body = row.body(invocation, given) if row.body is not None else None
        asked = row if body is None else replace(row, body=lambda *_: body)
        return execute(asked, invocation, {**given, "member_id": resolve_member(invocation.client(), member)})

    return command(row.name, act, row.help, row.parameters)


LIST = Row(
    "list",
    Call("GET", "/admin/members"),
    "List the members; of those who have not enrolled, until when their invitation is good.",
    columns=("id", "name", "email", "role", "status", "lastLoginAt", "invitation.expiresAt"),
)
ADD = Row(
    "add",
    Call("POST", "/admin/members"),
    f"Make a member, and a link with which they enroll.\n\n{_TAKEN_UP.format('enroll')}",
    (
        click.Option(["--name"], metavar="NAME", help="What they are called."),
        click.Option(["--email"], metavar="ADDRESS", help="The address to log in with."),
        click.Option(["--role"], type=_ROLES, help="What they are (default member)."),
        INPUT_OPTION,
    ),
    remark=_link,
    body=_new,
)
SINGLE = (
    Row("show", Call("GET", _PATH), "Show a member.", (MEMBER,)),
    Row(
        "update",
        Call("PATCH", _PATH),
        "Change a member's name, email or role; what is not given stays.\n\n"
        "Open links that an API key was shown stop working where the member becomes an administrator.",
        (
            MEMBER,
            click.Option(["--name"], metavar="NAME", help="What they are called."),
            click.Option(["--email"], metavar="ADDRESS", help="The address to log in with."),
            click.Option(["--role"], type=_ROLES, help="What they are."),
            INPUT_OPTION,
        ),
        body=_change,
    ),
    Row(
        "suspend",
        Call("PATCH", _PATH),
        "Lock a member out.\n\nTheir sessions end at once; their API keys do nothing until they are active again.",
        (MEMBER,),
        body=_suspended,
    ),
    Row(
        "activate", Call("PATCH", _PATH), "Let a suspended member in again; they log in anew.", (MEMBER,), body=_active
    ),
    Row(
        "invite",
        Call("POST", f"{_PATH}/invitation"),
        "Make a new link with which a member enrolls, good for 7 days.\n\n"
        f"An earlier one stops working. {_TAKEN_UP.format('enroll')}",
        (MEMBER,),
        remark=_link,
    ),
    Row(
        "reset-password",
        Call("POST", f"{_PATH}/password-reset"),
        "Make a link with which a member sets a new password, good for 24 hours.\n\n"
        f"The member is told that you did. {_TAKEN_UP.format('reset-password')}",
        (MEMBER,),
        remark=_link,
    ),
    Row(
        "remove",
        Call("DELETE", _PATH),
        "Remove a member with their sessions, API keys and grants.\n\nWhat they scheduled is not sent. "
        "Who owns mailboxes cannot be removed.",
        (MEMBER,),
    ),
)
_SHOW, *_REST = map(about_member, SINGLE)
members = group("members", "Members.", [LIST.command(), _SHOW, ADD.command(), *_REST])
