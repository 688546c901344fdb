"""Tools that write: drafts, previews, sends, forwards and bulk actions; their status in words."""

from collections.abc import Mapping
from typing import Any

from msgspec import UnsetType

from mailbox_appliance.mcp_server import render
from mailbox_appliance.mcp_server.arguments import LIST_OFFSET, ToolInput, ToolRequest
from mailbox_appliance.mcp_server.limits import (
    NO_UNTRUSTED,
    UNTRUSTED_MESSAGE,
    UNTRUSTED_PREVIEW,
    UNTRUSTED_RESULT,
    drop_headers,
    json_size,
    split_warnings,
    to_json_data,
)
from mailbox_appliance.mcp_server.tool import CallContext, ToolResult
from mailbox_appliance.model.deliveries import Delivery, LegacySendResult
from mailbox_appliance.operations import actions, deliveries, drafts, sending

CREATE_DRAFT_INPUT = ToolInput(drafts.create_draft, "POST /accounts/{accountId}/drafts")
UPDATE_DRAFT_INPUT = ToolInput(drafts.update_draft, "PUT /accounts/{accountId}/drafts/{draftId}")
DELETE_DRAFT_INPUT = ToolInput(drafts.delete_draft, "DELETE /accounts/{accountId}/drafts/{draftId}")
PREVIEW_INPUT = ToolInput(sending.preview, "POST /accounts/{accountId}/send/preview", own_arguments=(LIST_OFFSET,))


def create_draft(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Save a message as a draft."""
    return _present_draft(asked, CREATE_DRAFT_INPUT.read(arguments), "The draft was saved. Nothing was sent.")


def update_draft(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Replace the whole draft."""
    about = "The whole draft was replaced; omitted fields were removed. Nothing was sent."
    return _present_draft(asked, UPDATE_DRAFT_INPUT.read(arguments), about)


def delete_draft(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Delete a draft permanently."""
    answer = DELETE_DRAFT_INPUT.read(arguments).call(asked)
    return render.present(
        to_json_data(answer.data), tool="delete_draft", about="The draft was deleted.", warnings=answer.warnings
    )


def preview_send(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Return the message that a send would submit, and its recipients, without sending it."""
    given = PREVIEW_INPUT.read(arguments)
    answer = given.call(asked)
    return render.present(
        to_json_data(answer.data),
        tool="preview_send",
        about="The message that send_email would send with the same arguments. Nothing was sent or saved.",
        senders=UNTRUSTED_PREVIEW,
        warnings=answer.warnings,
        list_offset=given.own_arguments["listOffset"],
    )


def _present_draft(asked: CallContext, given: ToolRequest, about: str) -> ToolResult:
    answer = given.call(asked)
    data = drop_headers(to_json_data(answer.data))
    # get_draft returns the rest of what is cut here.
    return render.present(data, tool="get_draft", about=about, senders=UNTRUSTED_MESSAGE, warnings=answer.warnings)


# --- Status: the state of a send or a bulk action and the next step, in one line ---


#: For a delivery that failed permanently: the reason, and whether to send again.
_FAILURE_ADVICE = {
    "sender_rejected": "The mail server does not accept mail from this sender. Repeating the call does not help.",
    "recipient_rejected": (
        "The mail server rejected a recipient (see the warnings), so the message was sent to nobody. Correct the"
        " recipients, then send it as a new message with a new idempotencyKey."
    ),
    "message_rejected": (
        "The mail server rejected the message. Change its contents or attachments, then send it as a new message with a"
        " new idempotencyKey. Sending it again unchanged does not help."
    ),
    "message_too_large": (
        "The message is too large for the mail server. Send it with fewer or smaller attachments and a new"
        " idempotencyKey."
    ),
    "provider_unavailable": (
        "The mail server could not be reached or was busy. You may send it again later, with a new idempotencyKey."
    ),
    "canceled": "It was canceled before it was sent. Its message is kept as a draft.",
    "expired": (
        "It could not be submitted within 24 hours of its scheduled time. You may send it again with a new"
        " idempotencyKey."
    ),
    "authentication_failed": (
        "The mail server rejected the sign-in of this mailbox. Its owner must correct the password first. After that,"
        " you may send it again with a new idempotencyKey."
    ),
    "account_removed": "The mailbox is no longer connected. Repeating the call does not help.",
    "permission_revoked": (
        "The credential that requested it may no longer send from this mailbox. Repeating the call does not help."
    ),
    "resolved_as_failed": (
        "A person resolved it as not delivered. If the user wants it sent, you may send it again with a new"
        " idempotencyKey."
    ),
}
_OTHER_FAILURE_ADVICE = "Ask the user before you send it again with a new idempotencyKey."


def delivery_status_text(data: Any) -> str:
    """Return the status of a delivery in words, and the next step."""
    status = data.get("status")
    if status is None:  # a stored response of an earlier release
        return "Sent: this idempotencyKey was used before, and its message was sent then. Nothing was sent now."
    if status == "failed":
        code = data.get("error", {}).get("code", "unknown")
        return f"Failed ({code}): nobody received the message. {_FAILURE_ADVICE.get(code, _OTHER_FAILURE_ADVICE)}"
    return {
        "succeeded": "Sent: the mail server accepted the message. Nothing is left to do.",
        "queued": _queued_status_text(data),
        "sending": (
            "Sending: it is in progress and continues automatically. Check again in a few seconds with"
            " get_delivery_operation; do not send the message again."
        ),
        "uncertain": (
            "Uncertain: the message may or may not have been delivered, and the outcome is unknown. Tell the user."
            " Never send it again, above all not with another idempotencyKey: it could arrive twice. The appliance"
            " searches for it for 24 hours; get_delivery_operation shows the result."
        ),
    }.get(status, f"Status: {status}.")


def action_status_text(data: Any) -> str:
    """Return the result of a bulk action in words."""
    done, failed, open_ = (len(data[name]) for name in ("succeededIds", "failed", "uncertainIds"))
    told = [f"Action {data['action']}: done for {done}, failed for {failed}, uncertain for {open_}."]
    if failed:
        told.append("`failed` gives the reasons; these messages are unchanged.")
    if open_:
        told.append(
            "The server did not confirm the action for those in `uncertainIds`: check them before you repeat it."
        )
    return " ".join(told)


def _queued_status_text(data: Any) -> str:
    cancel = (
        f" To cancel it, call cancel_scheduled_email with scheduleId {data['scheduleId']}."
        if "scheduleId" in data
        else ""
    )
    return f"Queued: it is sent automatically at its time. Do not send it again.{cancel}"


# --- Acts that affect other people, or many messages: sending, forwarding, canceling, bulk actions ---


SEND_INPUT = ToolInput(sending.send, "POST /accounts/{accountId}/send")
FORWARD_INPUT = ToolInput(sending.forward, "POST /accounts/{accountId}/messages/{messageId}/forward")
DELIVERY_INPUT = ToolInput(deliveries.get_delivery, "GET /accounts/{accountId}/delivery-operations/{operationId}")
CANCEL_INPUT = ToolInput(deliveries.cancel_scheduled, "DELETE /accounts/{accountId}/scheduled/{scheduleId}")
MODIFY_INPUT = ToolInput(actions.perform, "POST /accounts/{accountId}/messages/actions")

#: Maximum characters of IDs in a result, which contains them twice.
_ROOM_FOR_IDS = 7_000
_CHECK_ADVICE = "check the messages that you named with get_email before you repeat the action for the others."
_ADVICE_OF_LIST = {
    "failed": _CHECK_ADVICE,
    "uncertainIds": _CHECK_ADVICE,
    "succeededIds": "the action succeeded for the others too.",
}


def send_email(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Send a message, at most once for each idempotency key."""
    return _present_delivery(asked, SEND_INPUT.read(arguments), "send_email")


def forward_email(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Forward a message, at most once for each idempotency key."""
    return _present_delivery(asked, FORWARD_INPUT.read(arguments), "forward_email")


def get_delivery_operation(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Return the status of a delivery."""
    return _present_delivery(asked, DELIVERY_INPUT.read(arguments), "get_delivery_operation")


def cancel_scheduled_email(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Cancel a scheduled message."""
    answer = CANCEL_INPUT.read(arguments).call(asked)
    return render.present(
        to_json_data(answer.data),
        tool="cancel_scheduled_email",
        about="The message will not be sent. It is kept as a draft.",
        warnings=answer.warnings,
    )


def modify_emails(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Apply an action to many messages."""
    answer = MODIFY_INPUT.read(arguments).call(asked)
    whole = to_json_data(answer.data)
    data, cuts = _keep_fitting_ids(whole)
    about = action_status_text(whole)  # of all messages, even if not all are shown
    return render.present(data, tool="modify_emails", about=about, warnings=answer.warnings, notes=cuts)


def _keep_fitting_ids(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the result of a bulk action with as many message IDs as fit, failed ones first, and notes about the
    others.
    """
    room, cuts, data = _ROOM_FOR_IDS, [], dict(data)
    for name in ("failed", "uncertainIds", "succeededIds"):
        total, shown = data[name], []
        for entry in total:
            room -= json_size(entry) + 2
            if room < 0:
                break
            shown.append(entry)
        if len(shown) < len(total):
            cuts.append(f"{len(shown)} of {len(total)} entries of {name} are shown; {_ADVICE_OF_LIST[name]}")
        data[name] = shown
    return data, cuts


def _present_delivery(asked: CallContext, given: ToolRequest, tool: str) -> ToolResult:
    answer = given.call(asked)
    return render.present(
        to_json_data(answer.data),
        tool=tool,
        about=delivery_status_text,
        senders=UNTRUSTED_RESULT if split_warnings(_result_warnings(answer.data))[1] else NO_UNTRUSTED,
        warnings=answer.warnings,
    )


def _result_warnings(data: Delivery | LegacySendResult) -> tuple[str, ...]:
    """Return the warnings in the result of a delivery, about the message that was sent."""
    holder = data if isinstance(data, LegacySendResult) else data.result
    return () if isinstance(holder, UnsetType) or isinstance(holder.warnings, UnsetType) else holder.warnings
