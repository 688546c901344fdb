"""Conversations."""

from typing import Any

import click

from mailbox_appliance.cli import render
from mailbox_appliance.cli.rows import ACCOUNT, PAGES, Call, Row
from mailbox_appliance.cli.tree import group


def conversation(value: Any) -> str:
    """A thread as one reads it: its messages, oldest first, with a line between them."""
    messages = render.look_up(value, "messages.items") or []
    return ("-" * 60 + "\n").join(render.message(one) for one in messages)


ROWS = (
    Row(
        "get",
        Call("GET", "/accounts/{accountId}/threads/{threadId}"),
        "Show a conversation, oldest message first.",
        (click.Argument(["thread_id"]), ACCOUNT, *PAGES),
        view=conversation,
    ),
)
threads = group("threads", "Conversations.", [row.command() for row in ROWS])
