"""`emails get`: a message, its body page by page, or its source."""

from typing import Any

import click

from mailbox_appliance.cli import render
from mailbox_appliance.cli.commands.attachments import SAVE_OPTIONS, save
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import ACCOUNT, Call, Row, execute
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import wrong_usage

MESSAGE = Row("get", Call("GET", "/accounts/{accountId}/messages/{messageId}"), "Show a message.", view=render.message)
BODY = Row("get", Call("GET", "/accounts/{accountId}/messages/{messageId}/body"), "Show a body.", view=render.body_page)
SOURCE = Call("GET", "/accounts/{accountId}/messages/{messageId}/raw")

_PARAMETERS: tuple[click.Parameter, ...] = (
    click.Argument(["message_id"]),
    ACCOUNT,
    click.Option(
        ["--body-format", "format_"],
        type=click.Choice(("text", "html", "markdown")),
        help="Only the body, in this form, page by page.",
    ),
    click.Option(["--offset"], type=click.IntRange(0), help="With --body-format: the character to begin at."),
    click.Option(["--limit"], type=click.IntRange(1, 1_000_000), help="With --body-format: characters on a page."),
    click.Option(["--raw"], is_flag=True, help="Save the message as it came; --output and --force go with this."),
    *SAVE_OPTIONS,
)


def _get(invocation: Invocation, **given: Any) -> int:
    output, force, is_raw = given.pop("output"), given.pop("force"), given.pop("raw")
    is_body = given["format_"] is not None
    if is_raw and is_body:
        raise wrong_usage("Choose between --raw and --body-format.", "option:--raw")
    for option in ("offset", "limit"):
        if given[option] is not None and not is_body:
            raise wrong_usage(f"--{option} goes with --body-format.", f"option:--{option}")
    if (output is not None or force) and not is_raw:
        raise wrong_usage("--output and --force go with --raw.", "option:--output" if output else "option:--force")
    if is_raw:
        return save(invocation, SOURCE, given["account"], {"messageId": given["message_id"]}, output, force)
    return execute(BODY if is_body else MESSAGE, invocation, given)


GET = command("get", _get, "Show a message: all of it, its body page by page, or its source.", _PARAMETERS)
