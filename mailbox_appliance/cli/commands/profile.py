"""What members change about themselves, and how they get from here into the console."""

from typing import Any

import click

from mailbox_appliance.cli.commands.login import PASSWORD_VARIABLE
from mailbox_appliance.cli.inputs import INPUT_OPTION, needed, whole_body
from mailbox_appliance.cli.invocation import ENVIRONMENT, Invocation
from mailbox_appliance.cli.rows import Call, Given, Row
from mailbox_appliance.cli.tree import group

_NEW = ENVIRONMENT + "NEW_PASSWORD"


def _changed(invocation: Invocation, given: Given) -> Any:
    """The body of PATCH /me."""
    if (whole := whole_body(invocation.terminal, given)) is not None:
        return whole
    needed(given, "name")
    return {"name": given["name"]}


def _passwords(invocation: Invocation, given: Given) -> Any:
    """The body of POST /me/password."""
    terminal = invocation.terminal
    current = terminal.secret("Present password", PASSWORD_VARIABLE, from_stdin=given["password_stdin"])
    new = terminal.secret("New password", _NEW, from_stdin=given["new_password_stdin"], twice=True, what="new password")
    return {"currentPassword": current, "newPassword": new}


def _open(answer: Any) -> str:
    return f"Open it in a browser before {answer['data']['expiresAt']}: it is good once, and lets in whoever has it.\n"


UPDATE = Row(
    "update",
    Call("PATCH", "/me"),
    "Change your name.",
    (click.Option(["--name"], metavar="NAME", help="What you are called from now on."), INPUT_OPTION),
    body=_changed,
)
PASSWORD = Row(
    "password",
    Call("POST", "/me/password"),
    f"Change your password; your other log-ins end.\n\nBoth are asked for, or read from stdin or the environment: the"
    f" present one is {PASSWORD_VARIABLE}, the new one {_NEW}.",
    (
        click.Option(["--password-stdin"], is_flag=True, help="Read the present one from the first line of stdin."),
        click.Option(["--new-password-stdin"], is_flag=True, help="Read the new one from the next line of stdin."),
    ),
    body=_passwords,
)
CONSOLE = Row(
    "console",
    Call("POST", "/auth/console-links"),
    "Make a link that opens the console in a browser as you: once, and within a minute.",
    remark=_open,
)
profile = group("profile", "What others are told of you.", [UPDATE.command()])
password, console = PASSWORD.command(), CONSOLE.command()
