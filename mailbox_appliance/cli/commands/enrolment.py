"""A link that an administrator gave out is taken up: a first password, or a new one, and one is logged in.

The link is a secret: it comes from a prompt, the input or the environment, and never stands in an argument.
"""

from collections.abc import Callable
from typing import Any

import click

from mailbox_appliance.cli.commands.login import (
    DEVICE_NAME,
    FINGERPRINT,
    PASSWORD_VARIABLE,
    device,
    let_in,
    meant,
)
from mailbox_appliance.cli.invocation import ENVIRONMENT, Invocation
from mailbox_appliance.cli.rows import Call
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import wrong_usage
from mailbox_appliance.client.tls import ServerAddress

ENROLL, RESET = Call("POST", "/auth/enroll"), Call("POST", "/auth/password-reset")
_VARIABLE = ENVIRONMENT + "LINK"
#: What stands in a link before its token, and what the token begins with -> the command that takes it.
_COMMANDS = {"enroll": "enroll", "reset": "reset-password", "mbxi": "enroll", "mbxr": "reset-password"}
OPTIONS: tuple[click.Parameter, ...] = (
    click.Argument(["url"], required=False),
    click.Option(["--link-stdin"], is_flag=True, help="Read the link from the first line of stdin."),
    click.Option(["--password-stdin"], is_flag=True, help="Read the new password from the next line of stdin."),
    DEVICE_NAME,
    FINGERPRINT,
)


def _take_up(
    invocation: Invocation,
    name: str,
    call: Call,
    url: str | None,
    link_stdin: bool,
    password_stdin: bool,
    device_name: str | None,
    fingerprint: str | None,
) -> int:
    if url is not None and "#" in url:
        raise wrong_usage("A link is a secret, and others see the arguments: leave it out, it is asked for.")
    named = url or invocation.instance
    instance = meant(invocation, url, fingerprint) if named else None  # what is wrong there is told first
    link = invocation.terminal.secret("Link", _VARIABLE, from_stdin=link_stdin, what="link")
    base, token = taken_apart(link, name)
    if instance is None:
        instance = meant(invocation, base, fingerprint)
    password = invocation.terminal.secret("New password", PASSWORD_VARIABLE, from_stdin=password_stdin, twice=True)
    return let_in(invocation, instance, call, {"token": token, "password": password, "deviceName": device(device_name)})


def taken_apart(link: str, name: str) -> tuple[str | None, str]:
    """Where a link leads (None of a bare token), and its token. Raises Failure where it is for another command."""
    address, is_link, fragment = link.strip().partition("#")
    kind, _, token = fragment.partition("=") if is_link else ("", "", address)
    takes_it = _COMMANDS.get(kind) or _COMMANDS.get(token[:4]) or name
    if takes_it != name:
        raise wrong_usage(f"That link is for `mailbox-appliance {takes_it}`.", "option:--link-stdin")
    return (ServerAddress.parse(address).url if is_link else None), token


def _taking(name: str, call: Call) -> Callable[..., int]:
    def act(invocation: Invocation, **given: Any) -> int:
        return _take_up(invocation, name, call, **given)

    return act


_MORE = (
    "\n\nThe link, or its token alone, is asked for, or read from stdin or MAILBOX_APPLIANCE_LINK. It leads to the"
    " appliance; URL names another address of it. A password that is refused does not use the link up."
)
enroll = command(
    "enroll",
    _taking("enroll", ENROLL),
    f"Take up an invitation: choose a password, and log in.{_MORE}",
    OPTIONS,
)
reset_password = command(
    "reset-password",
    _taking("reset-password", RESET),
    f"Choose a new password with the link of a password reset, and log in.\n\nAll your other log-ins end.{_MORE}",
    OPTIONS,
)
