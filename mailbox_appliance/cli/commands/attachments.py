"""Attachments of messages."""

from typing import Any

import click

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import ACCOUNT, Call, Row, filled, resolve_account
from mailbox_appliance.cli.tree import command, group

DOWNLOAD = Call("GET", "/accounts/{accountId}/messages/{messageId}/attachments/{attachmentId}")
SAVE_OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(
        ["--output"],
        metavar="FILE|DIR|-",
        help="Where to save it: a file, or a folder for it under its own name; - is stdout (default: here).",
    ),
    click.Option(["--force"], is_flag=True, help="Replace a file that is there already."),
)
_HELP = """Save an attachment.

The ids are those that `emails get` shows. Nothing that is there already is replaced, unless you say so.
"""


def save(
    invocation: Invocation, call: Call, account: str | None, ids: dict[str, str], output: str | None, force: bool
) -> int:
    """Fetch what a call answers with, and save it; the exit code."""
    from mailbox_appliance.cli import downloads

    client = invocation.client()
    path = filled(call.path, {"accountId": resolve_account(client, account), **ids})
    return downloads.save(invocation, client, path, output, force=force, otherwise=[*ids.values()][-1])


def _download(
    invocation: Invocation, message_id: str, attachment_id: str, account: str | None, output: str | None, force: bool
) -> int:
    return save(invocation, DOWNLOAD, account, {"messageId": message_id, "attachmentId": attachment_id}, output, force)


def _whoever(answer: Any) -> str:
    return f"Until {answer['data']['expiresAt']} it gives the file to whoever has it, without a log-in.\n"


_ARGUMENTS = (click.Argument(["message_id"]), click.Argument(["attachment_id"]))
LINK = Row(
    "link",
    Call("POST", "/accounts/{accountId}/messages/{messageId}/attachments/{attachmentId}/download-link"),
    "Make a link that fetches an attachment without a log-in, for five minutes.\n\nIt is for a program that shall fetch"
    " the file and shall not have your log-in. It ends earlier with the log-in or key that made it.",
    (*_ARGUMENTS, ACCOUNT),
    remark=_whoever,
)
attachments = group(
    "attachments",
    "Attachments.",
    [command("download", _download, _HELP, (*_ARGUMENTS, ACCOUNT, *SAVE_OPTIONS)), LINK.command()],
)
