"""Drafts."""

from typing import Any

import click

from mailbox_appliance.cli import outgoing, render
from mailbox_appliance.cli.commands.sending import DRAFT, DRAFT_COMMAND
from mailbox_appliance.cli.inputs import INPUT_OPTION
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import ACCOUNT, ALL_PAGES, Call, Given, Row
from mailbox_appliance.cli.tree import group

_LIST, _ONE = "/accounts/{accountId}/drafts", "/accounts/{accountId}/drafts/{draftId}"
MESSAGE_OPTIONS: tuple[click.Parameter, ...] = (ACCOUNT, *outgoing.OPTIONS, INPUT_OPTION)


def _body(invocation: Invocation, given: Given) -> Any:
    return outgoing.body(invocation.terminal, given)


ROWS = (
    Row(
        "list",
        Call("GET", _LIST),
        "List drafts, newest first.",
        (ACCOUNT, *ALL_PAGES),
        columns=("id", "date", "to", "subject"),
    ),
    Row("get", Call("GET", _ONE), "Show a draft.", (DRAFT, ACCOUNT), view=render.message),
    Row(
        "create",
        Call("POST", _LIST),
        "Keep a message as a draft.",
        MESSAGE_OPTIONS,
        body=_body,
        view=render.message,
        timeout=180.0,
        waiting_for="Saving…",
    ),
    Row(
        "update",
        Call("PUT", _ONE),
        "Replace a draft as a whole; its id stays.\n\nWhat is not given again is gone, attachments too.",
        (DRAFT, *MESSAGE_OPTIONS),
        body=_body,
        view=render.message,
        timeout=180.0,
        waiting_for="Saving…",
    ),
    Row("delete", Call("DELETE", _ONE), "Delete a draft for good.", (DRAFT, ACCOUNT), timeout=180.0),
)
drafts = group("drafts", "Drafts.", [*(row.command() for row in ROWS), DRAFT_COMMAND])
