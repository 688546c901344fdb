"""Sending messages, forwarding them, and what became of it: commands of `emails`, and the one of `drafts`.

A dry run is the preview's request with the send's options: the appliance works out what would be sent, never the
client.
"""

import re
from dataclasses import replace
from typing import Any

import click

from mailbox_appliance.cli import deliveries, outgoing
from mailbox_appliance.cli.inputs import INPUT_OPTION
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import ACCOUNT, ALL_PAGES, Call, Given, Row, execute
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import wrong_usage

#: RFC 9110 5.5 would allow more; the API takes 1 to 255 characters of printable ASCII without spaces.
_KEY = re.compile(r"[!-~]{1,255}")
_SEND = Call("POST", "/accounts/{accountId}/send")
_OPERATIONS = "/accounts/{accountId}/delivery-operations"
#: The outcome is waited for for 25 s at the most; a draft, or what is forwarded, may have to be fetched before.
_PATIENCE = 180.0
_ENDS = (
    "\n\nThe answer is a delivery operation. Exit code 0: it succeeded or is on its way; 5: it failed; 3: it may have "
    "been delivered. Repeating it with the same key is safe."
)


def idempotency_header(given: Given) -> dict[str, str]:
    """The header that makes repeating the command safe."""
    key = given["idempotency_key"]
    if key is None:
        message = "Missing option '--idempotency-key'. Only --dry-run needs none."
        raise wrong_usage(message, "option:--idempotency-key")
    if not _KEY.fullmatch(key):
        raise wrong_usage(
            "An idempotency key has 1 to 255 printable ASCII characters and no spaces.", "header:Idempotency-Key"
        )
    return {"Idempotency-Key": key}


def _message(invocation: Invocation, given: Given) -> Any:
    return outgoing.body(invocation.terminal, given)


def _forward(invocation: Invocation, given: Given) -> Any:
    return outgoing.forward(invocation.terminal, given)


def _draft(_invocation: Invocation, given: Given) -> Any:
    return outgoing.saved_draft(given["draft_id"], given)


def _outcome(_invocation: Invocation, given: Given) -> Any:
    return {"outcome": given["outcome"]}


def _hand_over(name: str, call: Call, text: str, body: Any, *parameters: click.Parameter) -> Row:
    """A command that hands a message over, at most once for each key."""
    return Row(
        name,
        call,
        text + _ENDS,
        parameters,
        body=body,
        headers=idempotency_header,
        exit_code=deliveries.exit_code,
        remark=deliveries.remark,
        timeout=_PATIENCE,
        waiting_for="Sending…",
    )


_KEY_HELP = "A name of your choice for this sending: the same key never sends twice."
IDEMPOTENCY_KEY = click.Option(["--idempotency-key"], metavar="KEY", help=f"{_KEY_HELP} Always needed to send.")
DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Send nothing: show what would be sent, as a preview does.")
OPERATION = click.Argument(["operation_id"])
DRAFT = click.Argument(["draft_id"])
MESSAGE_OPTIONS: tuple[click.Parameter, ...] = (
    *outgoing.OPTIONS,
    click.Option(["--draft"], metavar="ID", help="Send this saved draft; only --send-at goes with it."),
    outgoing.SEND_AT,
    INPUT_OPTION,
)
SEND = _hand_over(
    "send", _SEND, "Send a message, now or later.", _message, ACCOUNT, IDEMPOTENCY_KEY, DRY_RUN, *MESSAGE_OPTIONS
)
PREVIEW = Row(
    "preview",
    Call("POST", "/accounts/{accountId}/send/preview"),
    "Show what a send with these options would send, and to whom.\n\nNothing is sent. What is wrong with the "
    "message is refused in the words of a send; whatever else would stand in its way is told in the warnings.",
    (ACCOUNT, *MESSAGE_OPTIONS),
    body=_message,
    timeout=_PATIENCE,
    waiting_for="Looking…",
)
FORWARD = _hand_over(
    "forward",
    Call("POST", "/accounts/{accountId}/messages/{messageId}/forward"),
    "Forward a message, with its attachments.",
    _forward,
    click.Argument(["message_id"]),
    ACCOUNT,
    click.Option(["--idempotency-key"], required=True, metavar="KEY", help=_KEY_HELP),
    *outgoing.FORWARD_OPTIONS,
    INPUT_OPTION,
)
AFTERWARDS = (
    Row(
        "delivery-status",
        Call("GET", f"{_OPERATIONS}/{{operationId}}"),
        "Show what became of a sending.\n\nExit code 0: it succeeded or is on its way; 5: it failed; 3: it may have "
        "been delivered.",
        (OPERATION, ACCOUNT),
        exit_code=deliveries.exit_code,
        remark=deliveries.remark,
    ),
    Row(
        "timeline",
        Call("GET", f"{_OPERATIONS}/{{operationId}}/timeline"),
        "Show each step that a sending went, and when.",
        (OPERATION, ACCOUNT),
        remark=deliveries.remark,
    ),
    Row(
        "deliveries",
        Call("GET", _OPERATIONS),
        "List what was sent and what became of it, newest first.",
        (
            click.Option(["--account"], metavar="ID|EMAIL", help="The mailbox; without it all that you reach."),
            *ALL_PAGES,
        ),
        columns=deliveries.COLUMNS,
        remark=deliveries.remark,
        everywhere=Call("GET", "/delivery-operations"),
    ),
    Row(
        "resolve",
        Call("POST", f"{_OPERATIONS}/{{operationId}}/resolve"),
        "Say what became of an uncertain delivery.\n\nFor its sender or the mailbox's owner, logged in. Ask the "
        "recipients first: the outcome is final.",
        (
            OPERATION,
            click.Option(
                ["--outcome"],
                type=click.Choice(("succeeded", "failed")),
                required=True,
                help="succeeded: they got it; failed: nobody got it.",
            ),
            ACCOUNT,
        ),
        body=_outcome,
    ),
)
SEND_DRAFT = _hand_over(
    "send",
    _SEND,
    "Send a draft, now or later; it is removed from the drafts once it was sent.",
    _draft,
    DRAFT,
    ACCOUNT,
    IDEMPOTENCY_KEY,
    DRY_RUN,
    outgoing.SEND_AT,
)


def _nothing_sent(_answer: Any) -> str:
    return "\nNothing was sent. Without --dry-run this would be.\n"


def _or_preview(row: Row) -> click.Command:
    """The command of a row that sends; with --dry-run it is a preview of the very same body."""
    preview = replace(PREVIEW, body=row.body, remark=_nothing_sent)

    def act(invocation: Invocation, dry_run: bool, **given: Any) -> int:
        if not dry_run:
            idempotency_header(given)  # before anything is read
        return execute(preview if dry_run else row, invocation, given)

    return command(row.name, act, row.help, row.parameters)


_REST = (row.command() for row in (PREVIEW, FORWARD, *AFTERWARDS))
COMMANDS: tuple[click.Command, ...] = (_or_preview(SEND), *_REST)
#: The command of `drafts` that sends one.
DRAFT_COMMAND = _or_preview(SEND_DRAFT)
