"""The commands that send: `emails send`, `preview`, `forward` and deliveries; `drafts`; `scheduled`."""

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

#: RFC 9110 5.5 would allow more; the API takes 1 to 255 characters of printable ASCII without spaces.
_KEY = re.compile(r"[!-~]{1,255}")
_SEND = Call("POST", "/accounts/{accountId}/send")
_OPERATIONS_PATH = "/accounts/{accountId}/delivery-operations"
#: A response waits at most 25 s for the outcome; a draft, or a message to forward, may have to be fetched before.
_SENDING_SECONDS = 180.0
_EXIT_CODES_HELP = (
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


def _message_body(invocation: Invocation, given: Given) -> Any:
    return message_options.message_body(invocation.terminal, given)


def _forward_body(invocation: Invocation, given: Given) -> Any:
    return message_options.forward_body(invocation.terminal, given)


def _draft_body(_invocation: Invocation, given: Given) -> Any:
    return message_options.draft_body(given["draft_id"], given)


def _outcome_body(_invocation: Invocation, given: Given) -> Any:
    return {"outcome": given["outcome"]}


def _sending_row(name: str, call: Call, text: str, body: Any, *parameters: click.Parameter) -> Row:
    """A command that hands a message over, at most once for each key."""
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


_KEY_HELP = "A name of your choice for this sending: the same key never sends twice."
IDEMPOTENCY_KEY = click.Option(["--idempotency-key"], metavar="KEY", help=f"{_KEY_HELP} Always needed to send.")
DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Send nothing: show what would be sent, as a preview does.")
OPERATION = click.Argument(["operation_id"])
DRAFT = click.Argument(["draft_id"])
SEND_OPTIONS: tuple[click.Parameter, ...] = (
    *message_options.MESSAGE_OPTIONS,
    click.Option(["--draft"], metavar="ID", help="Send this saved draft; only --send-at goes with it."),
    message_options.SEND_AT,
    INPUT_OPTION,
)
SEND = _sending_row(
    "send", _SEND, "Send a message, now or later.", _message_body, ACCOUNT, IDEMPOTENCY_KEY, DRY_RUN, *SEND_OPTIONS
)
PREVIEW = Row(
    "preview",
    Call("POST", "/accounts/{accountId}/send/preview"),
    "Show what a send with these options would send, and to whom.\n\nNothing is sent. What is wrong with the "
    "message is refused in the words of a send; whatever else would stand in its way is told in the warnings.",
    (ACCOUNT, *SEND_OPTIONS),
    body=_message_body,
    timeout=_SENDING_SECONDS,
    waiting_for="Looking…",
)
FORWARD = _sending_row(
    "forward",
    Call("POST", "/accounts/{accountId}/messages/{messageId}/forward"),
    "Forward a message, with its attachments.",
    _forward_body,
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
        "Show what became of a sending.\n\nExit code 0: it succeeded or is on its way; 5: it failed; 3: it may have "
        "been delivered.",
        (OPERATION, ACCOUNT),
        exit_code=output.delivery_exit_code,
        remark=output.delivery_remark,
    ),
    Row(
        "timeline",
        Call("GET", f"{_OPERATIONS_PATH}/{{operationId}}/timeline"),
        "Show each step that a sending went, and when.",
        (OPERATION, ACCOUNT),
        remark=output.delivery_remark,
    ),
    Row(
        "deliveries",
        Call("GET", _OPERATIONS_PATH),
        "List what was sent and what became of it, newest first.",
        (
            click.Option(["--account"], metavar="ID|EMAIL", help="The mailbox; without it all that you reach."),
            *ALL_PAGES,
        ),
        columns=output.DELIVERY_COLUMNS,
        remark=output.delivery_remark,
        everywhere=Call("GET", "/delivery-operations"),
    ),
    Row(
        "resolve",
        Call("POST", f"{_OPERATIONS_PATH}/{{operationId}}/resolve"),
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
        body=_outcome_body,
    ),
)
SEND_DRAFT = _sending_row(
    "send",
    _SEND,
    "Send a draft, now or later; it is removed from the drafts once it was sent.",
    _draft_body,
    DRAFT,
    ACCOUNT,
    IDEMPOTENCY_KEY,
    DRY_RUN,
    message_options.SEND_AT,
)


def _dry_run_remark(_answer: Any) -> str:
    return "\nNothing was sent. Without --dry-run this would be.\n"


def _with_dry_run(row: Row) -> click.Command:
    """The command of a row that sends; with --dry-run it is a preview of the very same body."""
    preview = replace(PREVIEW, body=row.body, remark=_dry_run_remark)

    def act(invocation: Invocation, dry_run: bool, **given: Any) -> int:
        if not dry_run:
            idempotency_header(given)  # before anything is read
        return execute(preview if dry_run else row, invocation, given)

    return command(row.name, act, row.help, row.parameters)


_REST = (row.command() for row in (PREVIEW, FORWARD, *DELIVERY_ROWS))
SENDING_COMMANDS: tuple[click.Command, ...] = (_with_dry_run(SEND), *_REST)
#: The command of `drafts` that sends one.
DRAFT_COMMAND = _with_dry_run(SEND_DRAFT)


# --- Drafts ---


_DRAFTS_PATH, _DRAFT_PATH = "/accounts/{accountId}/drafts", "/accounts/{accountId}/drafts/{draftId}"
DRAFT_OPTIONS: tuple[click.Parameter, ...] = (ACCOUNT, *message_options.MESSAGE_OPTIONS, INPUT_OPTION)


def _saved_draft_body(invocation: Invocation, given: Given) -> Any:
    return message_options.message_body(invocation.terminal, given)


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
        "Keep a message as a draft.",
        DRAFT_OPTIONS,
        body=_saved_draft_body,
        view=output.render_message,
        timeout=180.0,
        waiting_for="Saving…",
    ),
    Row(
        "update",
        Call("PUT", _DRAFT_PATH),
        "Replace a draft as a whole; its id stays.\n\nWhat is not given again is gone, attachments too.",
        (DRAFT, *DRAFT_OPTIONS),
        body=_saved_draft_body,
        view=output.render_message,
        timeout=180.0,
        waiting_for="Saving…",
    ),
    Row("delete", Call("DELETE", _DRAFT_PATH), "Delete a draft for good.", (DRAFT, ACCOUNT), timeout=180.0),
)
drafts = group("drafts", "Drafts.", [*(row.command() for row in DRAFT_ROWS), DRAFT_COMMAND])


# --- Scheduled messages: listed, canceled, released ---


_SCHEDULED_PATH = "/accounts/{accountId}/scheduled"
SCHEDULED_ROWS = (
    Row(
        "list",
        Call("GET", _SCHEDULED_PATH),
        "List what is to be sent later, the soonest first.\n\nAlso what is being sent just now, and what may have been "
        "delivered (uncertain).",
        (ACCOUNT, *ALL_PAGES),
        columns=("id", "sendAt", "status", "to", "subject"),
        remark=output.delivery_remark,
    ),
    Row(
        "cancel",
        Call("DELETE", f"{_SCHEDULED_PATH}/{{scheduleId}}"),
        "Call a scheduled send back. The message is kept as a draft.",
        (click.Argument(["schedule_id"]), ACCOUNT),
        # The message is put among the drafts before the answer, if the mail server can be asked.
        timeout=180.0,
        waiting_for="Asking the mail server…",
    ),
)
RELEASE_SCHEDULED = Row(
    "release",
    Call("PATCH", "/admin/settings"),
    "Let scheduled sends go that a restore has held.\n\nThey wait where nobody knew what has been sent since the"
    " backup: look through `scheduled list` first, and cancel what has gone out. For administrators.",
    body=lambda _invocation, _given: {"sending.hold_scheduled": False},
    remark=lambda _answer: "Scheduled sends go out when their time comes.\n",
)
scheduled = group("scheduled", "Scheduled sends.", [row.command() for row in (*SCHEDULED_ROWS, RELEASE_SCHEDULED)])
