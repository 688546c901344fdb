"""The commands that send messages: `emails send`, `preview`, `forward` and deliveries; `drafts`; `scheduled`."""

import re
from dataclasses import replace
from typing import Any

import click

from mailbox_appliance.cli import message_options, output
from mailbox_appliance.cli.command_table import ACCOUNT, ALL_PAGES, Call, Given, Row, execute
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import command, group
from mailbox_appliance.cli.inputs import INPUT_OPTION
from mailbox_appliance.client.errors import wrong_usage

#: The API accepts 1 to 255 printable ASCII characters without spaces; RFC 9110 5.5 would allow more.
_KEY = re.compile(r"[!-~]{1,255}")
_SEND = Call("POST", "/accounts/{accountId}/send")
_OPERATIONS_PATH = "/accounts/{accountId}/delivery-operations"
#: A response waits at most 25 s for the outcome; a draft, or a message to forward, may have to be fetched first.
_SENDING_SECONDS = 180.0
_EXIT_CODES_HELP = (
    "\n\nThe output is a delivery operation. Exit codes: 0 succeeded or in progress, 5 failed, 3 uncertain (it may have"
    " been delivered). Repeating the command with the same key is safe."
)


def idempotency_header(given: Given) -> dict[str, str]:
    """Return the header `Idempotency-Key`, with which a repeated command does not send twice.

    Raises Failure if the option is missing or invalid.
    """
    key = given["idempotency_key"]
    if key is None:
        message = "Missing option '--idempotency-key'. Only --dry-run works without one."
        raise wrong_usage(message, "option:--idempotency-key")
    if not _KEY.fullmatch(key):
        raise wrong_usage(
            "The idempotency key must be 1 to 255 printable ASCII characters without spaces.", "header:Idempotency-Key"
        )
    return {"Idempotency-Key": key}


def _sending_row(name: str, call: Call, text: str, body: Any, *parameters: click.Parameter) -> Row:
    return Row(
        name,
        call,
        text + _EXIT_CODES_HELP,
        parameters,
        body=body,
        headers=idempotency_header,
        exit_code=output.delivery_exit_code,
        remark=output.delivery_remark,
        timeout=_SENDING_SECONDS,
        waiting_for="Sending…",
    )


_KEY_HELP = "Name of your choice for this send; the same key never sends twice."
IDEMPOTENCY_KEY = click.Option(["--idempotency-key"], metavar="KEY", help=f"{_KEY_HELP} Required to send.")
DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Show what would be sent, without sending.")
OPERATION = click.Argument(["operation_id"])
DRAFT = click.Argument(["draft_id"])
SEND_OPTIONS: tuple[click.Parameter, ...] = (
    *message_options.MESSAGE_OPTIONS,
    click.Option(["--draft"], metavar="ID", help="Saved draft to send; only --send-at can be added."),
    message_options.SEND_AT,
    INPUT_OPTION,
)
SEND = _sending_row(
    "send",
    _SEND,
    "Send a message, now or later.",
    message_options.message_body,
    ACCOUNT,
    IDEMPOTENCY_KEY,
    DRY_RUN,
    *SEND_OPTIONS,
)
PREVIEW = Row(
    "preview",
    Call("POST", "/accounts/{accountId}/send/preview"),
    "Show the message and recipients that a send would use.\n\nNothing is sent. An invalid message fails as it would in"
    " a send; other obstacles appear as warnings.",
    (ACCOUNT, *SEND_OPTIONS),
    body=message_options.message_body,
    timeout=_SENDING_SECONDS,
    waiting_for="Preparing…",
)
FORWARD = _sending_row(
    "forward",
    Call("POST", "/accounts/{accountId}/messages/{messageId}/forward"),
    "Forward a message with its attachments.",
    message_options.forward_body,
    click.Argument(["message_id"]),
    ACCOUNT,
    click.Option(["--idempotency-key"], required=True, metavar="KEY", help=_KEY_HELP),
    *message_options.FORWARD_OPTIONS,
    INPUT_OPTION,
)
DELIVERY_ROWS = (
    Row(
        "delivery-status",
        Call("GET", f"{_OPERATIONS_PATH}/{{operationId}}"),
        "Show the status of a delivery.\n\nExit codes: 0 succeeded or in progress, 5 failed, 3 uncertain (it may have"
        " been delivered).",
        (OPERATION, ACCOUNT),
        exit_code=output.delivery_exit_code,
        remark=output.delivery_remark,
    ),
    Row(
        "timeline",
        Call("GET", f"{_OPERATIONS_PATH}/{{operationId}}/timeline"),
        "Show each step of a delivery and its time.",
        (OPERATION, ACCOUNT),
        remark=output.delivery_remark,
    ),
    Row(
        "deliveries",
        Call("GET", _OPERATIONS_PATH),
        "List deliveries and their status, newest first.",
        (
            click.Option(["--account"], metavar="ID|EMAIL", help="Mailbox (default: all you have access to)."),
            *ALL_PAGES,
        ),
        columns=output.DELIVERY_COLUMNS,
        remark=output.delivery_remark,
        everywhere=Call("GET", "/delivery-operations"),
    ),
    Row(
        "resolve",
        Call("POST", f"{_OPERATIONS_PATH}/{{operationId}}/resolve"),
        "Resolve an uncertain delivery.\n\nOnly its sender or the owner of the mailbox can do this, signed in. Ask the"
        " recipients first: the outcome is final.",
        (
            OPERATION,
            click.Option(
                ["--outcome"],
                type=click.Choice(("succeeded", "failed")),
                required=True,
                help="Outcome: succeeded if they received it, failed if nobody did.",
            ),
            ACCOUNT,
        ),
        body=lambda _, given: {"outcome": given["outcome"]},
    ),
)
SEND_DRAFT = _sending_row(
    "send",
    _SEND,
    "Send a draft, now or later.\n\nOnce it was sent, it is removed from the drafts.",
    message_options.draft_body,
    DRAFT,
    ACCOUNT,
    IDEMPOTENCY_KEY,
    DRY_RUN,
    message_options.SEND_AT,
)


def _dry_run_remark(_answer: Any) -> str:
    return "\nNothing was sent. Run the command without --dry-run to send it.\n"


def _with_dry_run(row: Row) -> click.Command:
    """Return the command of a row that sends. With --dry-run the command previews the same request body instead."""
    preview = replace(PREVIEW, body=row.body, remark=_dry_run_remark)

    def act(invocation: Invocation, dry_run: bool, **given: Any) -> int:
        if not dry_run:
            idempotency_header(given)  # before anything is read
        return execute(preview if dry_run else row, invocation, given)

    return command(row.name, act, row.help, row.parameters)


_REST = (row.command() for row in (PREVIEW, FORWARD, *DELIVERY_ROWS))
SENDING_COMMANDS: tuple[click.Command, ...] = (_with_dry_run(SEND), *_REST)
#: The command `drafts send`.
DRAFT_COMMAND = _with_dry_run(SEND_DRAFT)


# --- Drafts ---


_DRAFTS_PATH, _DRAFT_PATH = "/accounts/{accountId}/drafts", "/accounts/{accountId}/drafts/{draftId}"
DRAFT_OPTIONS: tuple[click.Parameter, ...] = (ACCOUNT, *message_options.MESSAGE_OPTIONS, INPUT_OPTION)


DRAFT_ROWS = (
    Row(
        "list",
        Call("GET", _DRAFTS_PATH),
        "List drafts, newest first.",
        (ACCOUNT, *ALL_PAGES),
        columns=("id", "date", "to", "subject"),
    ),
    Row("get", Call("GET", _DRAFT_PATH), "Show a draft.", (DRAFT, ACCOUNT), view=output.render_message),
    Row(
        "create",
        Call("POST", _DRAFTS_PATH),
        "Save a message as a draft.",
        DRAFT_OPTIONS,
        body=message_options.message_body,
        view=output.render_message,
        timeout=180.0,
        waiting_for="Saving…",
    ),
    Row(
        "update",
        Call("PUT", _DRAFT_PATH),
        "Replace a draft.\n\nIts ID stays. Options that are not given again are removed, including attachments.",
        (DRAFT, *DRAFT_OPTIONS),
        body=message_options.message_body,
        view=output.render_message,
        timeout=180.0,
        waiting_for="Saving…",
    ),
    Row("delete", Call("DELETE", _DRAFT_PATH), "Delete a draft permanently.", (DRAFT, ACCOUNT), timeout=180.0),
)
drafts = group(
    "drafts",
    "Manage drafts: list, get, create, update, delete, send.",
    [*(row.command() for row in DRAFT_ROWS), DRAFT_COMMAND],
)


# --- Scheduled messages: listed, canceled, released ---


_SCHEDULED_PATH = "/accounts/{accountId}/scheduled"
SCHEDULED_ROWS = (
    Row(
        "list",
        Call("GET", _SCHEDULED_PATH),
        "List scheduled messages, soonest first.\n\nThe list includes messages that are being sent now and uncertain"
        " ones, which may have been delivered.",
        (ACCOUNT, *ALL_PAGES),
        columns=("id", "sendAt", "status", "to", "subject"),
        remark=output.delivery_remark,
    ),
    Row(
        "cancel",
        Call("DELETE", f"{_SCHEDULED_PATH}/{{scheduleId}}"),
        "Cancel a scheduled message.\n\nThe message is kept as a draft.",
        (click.Argument(["schedule_id"]), ACCOUNT),
        # If the mail server is reachable, the message is saved as a draft before the response.
        timeout=180.0,
        waiting_for="Contacting the mail server…",
    ),
)
RELEASE_SCHEDULED = Row(
    "release",
    Call("PATCH", "/admin/settings"),
    "Release scheduled messages that were held after a restore.\n\nA restore holds them if it cannot know what was sent"
    " since the backup. Check `scheduled list` first, and cancel messages that were sent. Administrators only.",
    body=lambda _invocation, _given: {"sending.hold_scheduled": False},
    remark=lambda _answer: "Scheduled messages are sent at their time again.\n",
)
scheduled = group(
    "scheduled",
    "Manage scheduled messages: list, cancel, release.",
    [row.command() for row in (*SCHEDULED_ROWS, RELEASE_SCHEDULED)],
)
