"""Acts that other people, or whole lists of messages, get to feel: sending, forwarding, canceling, bulk actions."""

from collections.abc import Mapping
from typing import Any

from mailbox_appliance.mcp_server import presenting, states
from mailbox_appliance.mcp_server.answers import parted, plain
from mailbox_appliance.mcp_server.arguments import Form, Given
from mailbox_appliance.mcp_server.bounds import size
from mailbox_appliance.mcp_server.tool import Asked, Shown
from mailbox_appliance.operations import actions, deliveries, scheduled, sending

SEND = Form(sending.send, "POST /accounts/{accountId}/send")
FORWARD = Form(sending.forward, "POST /accounts/{accountId}/messages/{messageId}/forward")
DELIVERY = Form(deliveries.get_delivery, "GET /accounts/{accountId}/delivery-operations/{operationId}")
CANCEL = Form(scheduled.cancel_scheduled, "DELETE /accounts/{accountId}/scheduled/{scheduleId}")
MODIFY = Form(actions.perform, "POST /accounts/{accountId}/messages/actions")

#: Characters of ids in an answer, which has them twice.
_ROOM_FOR_IDS = 7_000
_LOOK = "look at the messages that you named (get_email) before you repeat the action for the others."
_SEE = {"failed": _LOOK, "uncertainIds": _LOOK, "succeededIds": "it was done for the others as well."}


def send_email(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """Send a message, at most once for each idempotency key."""
    return _delivery(asked, SEND.read(arguments), "send_email")


def forward_email(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """Forward a message, at most once for each idempotency key."""
    return _delivery(asked, FORWARD.read(arguments), "forward_email")


def get_delivery_operation(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """What became of a send."""
    return _delivery(asked, DELIVERY.read(arguments), "get_delivery_operation")


def cancel_scheduled_email(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """Take a scheduled send back."""
    answer = CANCEL.read(arguments).call(asked)
    return presenting.shown(
        plain(answer.data),
        tool="cancel_scheduled_email",
        about="It will not be sent; the message is kept as a draft.",
        warnings=answer.warnings,
    )


def modify_emails(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """Do one thing to many messages."""
    answer = MODIFY.read(arguments).call(asked)
    whole = plain(answer.data)
    data, cuts = _with_fewer_ids(whole)
    about = states.of_action(whole)  # of all, whatever is shown
    return presenting.shown(data, tool="modify_emails", about=about, warnings=[*cuts, *answer.warnings])


def _with_fewer_ids(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """As many ids as fit: those to which nothing was done come before those of which there is nothing to say."""
    room, cuts, data = _ROOM_FOR_IDS, [], dict(data)
    for name in ("failed", "uncertainIds", "succeededIds"):
        total, shown = data[name], []
        for entry in total:
            room -= size(entry) + 2
            if room < 0:
                break
            shown.append(entry)
        if len(shown) < len(total):
            cuts.append(f"{len(shown)} of {len(total)} entries of {name} are shown; {_SEE[name]}")
        data[name] = shown
    return data, cuts


def _delivery(asked: Asked, given: Given, tool: str) -> Shown:
    answer = given.call(asked)
    ours, quoting = parted(answer.warnings)
    return presenting.shown(plain(answer.data), tool=tool, about=states.of_delivery, warnings=ours, quoting=quoting)
