"""Messages: reading them, sending them, and what became of a sending."""

import re
from typing import Any

import click

from mailbox_appliance.cli import outgoing, render
from mailbox_appliance.cli.commands import actions, reading, searching
from mailbox_appliance.cli.failures import NETWORK, UNCERTAIN, wrong_usage
from mailbox_appliance.cli.inputs import INPUT_OPTION
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import ACCOUNT, Call, Given, Row
from mailbox_appliance.cli.tree import group

#: RFC 9110 5.5 would allow more; the API takes 1 to 255 characters of printable ASCII without spaces.
_KEY = re.compile(r"[!-~]{1,255}")


def delivery_exit(answer: Any) -> int:
    """3 for an uncertain delivery, 5 for a failed one, 0 for one that succeeded or is on its way."""
    return {"uncertain": UNCERTAIN, "failed": NETWORK}.get(render.look_up(answer, "data.status"), 0)


def idempotency_header(given: Given) -> dict[str, str]:
    """The header that makes repeating the command safe."""
    key = given["idempotency_key"]
    if not _KEY.fullmatch(key):
        raise wrong_usage(
            "An idempotency key has 1 to 255 printable ASCII characters and no spaces.", "header:Idempotency-Key"
        )
    return {"Idempotency-Key": key}


def _send_body(invocation: Invocation, given: Given) -> Any:
    return outgoing.body(invocation.terminal, given)


IDEMPOTENCY_KEY = click.Option(
    ["--idempotency-key"],
    required=True,
    metavar="KEY",
    help="A name of your choice for this sending: the same key never sends twice.",
)
SEND_OPTIONS: tuple[click.Parameter, ...] = (
    ACCOUNT,
    IDEMPOTENCY_KEY,
    *outgoing.OPTIONS,
    # Hidden as long as the appliance answers both with `unsupported_capability`.
    click.Option(["--send-at"], metavar="TIME", help="Send later, e.g. 2030-01-31T09:00:00Z.", hidden=True),
    click.Option(["--draft"], metavar="ID", help="Send this saved draft.", hidden=True),
    INPUT_OPTION,
)
ROWS = (
    Row(
        "send",
        Call("POST", "/accounts/{accountId}/send"),
        "Send a message.\n\nThe answer is a delivery operation. Exit code 0: it succeeded or is "
        "on its way; 5: it failed; 3: it may have been delivered. Repeating it with the same key is safe.",
        SEND_OPTIONS,
        body=_send_body,
        headers=idempotency_header,
        exit_code=delivery_exit,
        # The server answers after 25 s at the latest, unless all who may wait are waiting already.
        timeout=90.0,
        waiting_for="Sending…",
    ),
    Row(
        "delivery-status",
        Call("GET", "/accounts/{accountId}/delivery-operations/{operationId}"),
        "Show what became of a sending.",
        (click.Argument(["operation_id"]), ACCOUNT),
        exit_code=delivery_exit,
    ),
)
_REST = (row.command() for row in (*ROWS, *actions.ROWS))
emails = group("emails", "Messages.", [*(row.command() for row in searching.ROWS), reading.GET, *_REST])
