"""What can be done to many messages at once. They are commands of `emails`."""

from collections.abc import Callable
from typing import Any

import click

from mailbox_appliance.cli import render
from mailbox_appliance.cli.failures import UNCERTAIN, wrong_usage
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import ACCOUNT, Call, Given, Row

MESSAGES = click.Argument(["message_ids"], metavar="MESSAGE-ID...", nargs=-1, required=True)
_MORE = "\n\nThe answer says of each message what became of it. Exit code 3: something failed or is uncertain."
_Body = Callable[[Invocation, Given], Any]


def actions_exit(answer: Any) -> int:
    """3 where anything failed or is uncertain."""
    parts = (render.look_up(answer, f"data.{name}") for name in ("failed", "uncertainIds"))
    return UNCERTAIN if any(parts) else 0


def _simple(action: str) -> _Body:
    return lambda _invocation, given: {"action": action, "messageIds": list(given["message_ids"])}


def _move(_invocation: Invocation, given: Given) -> Any:
    return {"action": "move", "messageIds": list(given["message_ids"]), "folder": given["folder"]}


def _label(_invocation: Invocation, given: Given) -> Any:
    if bool(given["add"]) == bool(given["remove"]):
        raise wrong_usage("Give either --add or --remove, each as often as needed.", "option:--add")
    action, labels = ("addLabels", given["add"]) if given["add"] else ("removeLabels", given["remove"])
    return {"action": action, "messageIds": list(given["message_ids"]), "labels": list(labels)}


def _row(name: str, text: str, body: _Body, *options: click.Parameter) -> Row:
    return Row(
        name,
        Call("POST", "/accounts/{accountId}/messages/actions"),
        text + _MORE,
        (MESSAGES, *options, ACCOUNT),
        body=body,
        exit_code=actions_exit,
        timeout=180.0,
        waiting_for="Asking the mail server…",
    )


ROWS = (
    _row("read", "Mark messages as read.", _simple("markRead")),
    _row("unread", "Mark messages as unread.", _simple("markUnread")),
    _row("star", "Star messages.", _simple("star")),
    _row("unstar", "Take the star from messages.", _simple("unstar")),
    _row("archive", "Move messages to the archive.", _simple("archive")),
    _row("trash", "Move messages to the trash.", _simple("trash")),
    _row("untrash", "Take messages out of the trash again.", _simple("untrash")),
    _row("delete", "Delete messages for good.", _simple("delete")),
    _row(
        "move",
        "Move messages to another folder.",
        _move,
        click.Option(["--folder"], required=True, metavar="ID|ROLE|NAME", help="Where they go."),
    ),
    _row(
        "label",
        "Add labels to messages, or remove some.",
        _label,
        click.Option(["--add"], multiple=True, metavar="LABEL", help="A label to add (repeatable)."),
        click.Option(["--remove"], multiple=True, metavar="LABEL", help="A label to remove (repeatable)."),
    ),
)
