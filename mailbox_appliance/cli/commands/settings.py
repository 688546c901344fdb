"""The settings that may change while the appliance runs; for administrators."""

from typing import Any

import click

from mailbox_appliance.cli.inputs import INPUT_OPTION, whole_body
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import Call, Given, Row
from mailbox_appliance.cli.tree import group
from mailbox_appliance.client.errors import Failure, wrong_usage

_CALL = Call("PATCH", "/admin/settings")


def _given(invocation: Invocation, given: Given) -> Any:
    """The body of PATCH /admin/settings: one setting, or as it was given."""
    if (whole := whole_body(invocation.terminal, given)) is not None:
        return whole
    if given["name"] is None or given["value"] is None:
        raise wrong_usage("Name a setting and its value; `settings show` lists them.", "argument:NAME VALUE")
    return {given["name"]: value_of(given["name"], given["value"])}


def value_of(name: str, text: str) -> bool | int | str | list[str]:
    """The value that a text means, by the setting's type. One that this release does not know is a text.

    Whether it fits is the appliance's to say. Raises Failure where it is of another type.
    """
    from mailbox_appliance.settings import BY_NAME, parse_flag

    default = BY_NAME[name].default if name in BY_NAME else ""
    if isinstance(default, bool):
        if (found := parse_flag(text)) is None:
            raise _no_value(name, "true or false", text)
        return found
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError as error:
            raise _no_value(name, "a whole number", text) from error
    return [part.strip() for part in text.split(",") if part.strip()] if isinstance(default, tuple) else text


def _no_value(name: str, kind: str, text: str) -> Failure:
    return wrong_usage(f"{name} is {kind}, not {text!r}.", "argument:VALUE")


def _taken_back(_invocation: Invocation, given: Given) -> Any:
    return dict.fromkeys(given["names"])


_ALSO = "The answer is all of them, as they are now. What the environment or the command line sets stays (409)."
ROWS = (
    Row(
        "show",
        Call("GET", "/admin/settings"),
        "Show the settings that may change while it runs.\n\nThe others are in config.toml.",
    ),
    Row(
        "set",
        _CALL,
        f"Change a setting; it counts at once, and after a start.\n\nLists have commas. {_ALSO}",
        (
            click.Argument(["name"], required=False),
            click.Argument(["value"], required=False),
            INPUT_OPTION,
        ),
        body=_given,
    ),
    Row(
        "reset",
        _CALL,
        f"Take changes back: what config.toml has counts again.\n\n{_ALSO}",
        (click.Argument(["names"], metavar="NAME...", nargs=-1, required=True),),
        body=_taken_back,
    ),
)
settings = group("settings", "Settings that may change while it runs.", [row.command() for row in ROWS])
