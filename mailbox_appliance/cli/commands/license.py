"""The licence. None is needed, but by those whom somebody else hosts or sold the appliance to."""

from typing import Any

import click

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import Call, Given, Row
from mailbox_appliance.cli.tree import group

TOKEN_VARIABLE = "MAILBOX_APPLIANCE_LICENSE_TOKEN"  # noqa: S105 - a name
TOKEN_STDIN = click.Option(["--token-stdin"], is_flag=True, help="Read the token from the first line of stdin.")


def token(invocation: Invocation, given: Given) -> Any:
    """The body of PUT /admin/license."""
    read = invocation.terminal.secret("Licence token", TOKEN_VARIABLE, from_stdin=given["token_stdin"], what="token")
    return {"token": read}


ROWS = (
    Row("show", Call("GET", "/admin/license"), "Show how the appliance is licensed."),
    Row(
        "set",
        Call("PUT", "/admin/license"),
        f"Install a licence.\n\nIts token is asked for, or read from stdin or {TOKEN_VARIABLE}.",
        (TOKEN_STDIN,),
        body=token,
        timeout=180.0,
        waiting_for="Asking the issuer…",
    ),
    Row("remove", Call("DELETE", "/admin/license"), "Remove the licence; there are no limits then."),
)
license = group("license", "The licence.", [row.command() for row in ROWS])  # noqa: A001 - the command's name
