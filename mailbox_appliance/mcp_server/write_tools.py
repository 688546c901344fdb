"""Tools that write: drafts, previews, sends, forwards, bulk actions; and their status in words."""

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
    """Keep a message as a draft."""
    return _present_draft(asked, CREATE_DRAFT_INPUT.read(arguments), "The draft is kept. Nothing was sent.")


def update_draft(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Replace a draft as a whole."""
    about = "The draft is replaced as a whole; what was not given is gone. Nothing was sent."
    return _present_draft(asked, UPDATE_DRAFT_INPUT.read(arguments), about)


def delete_draft(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Remove a draft for good."""
    answer = DELETE_DRAFT_INPUT.read(arguments).call(asked)
    return render.present(
        to_json_data(answer.data), tool="delete_draft", about="The draft is gone.", warnings=answer.warnings
    )


def preview_send(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """The message that a send would submit, and its recipients."""
    given = PREVIEW_INPUT.read(arguments)
    answer = given.call(asked)
    return render.present(
        to_json_data(answer.data),
        tool="preview_send",
        about="This is what a send of the same arguments would hand over. Nothing was sent or kept.",
        senders=UNTRUSTED_PREVIEW,
        warnings=answer.warnings,
        list_offset=given.own_arguments["listOffset"],
    )


def _present_draft(asked: CallContext, given: ToolRequest, about: str) -> ToolResult:
    answer = given.call(asked)
    data = drop_headers(to_json_data(answer.data))
    # get_draft reads what is cut here.
    return render.present(data, tool="get_draft", about=about, senders=UNTRUSTED_MESSAGE, warnings=answer.warnings)


# --- Status: the state of a send or a bulk action and the next step, in one line ---


#: Of a delivery that failed for good: why, and whether to try it again.
_FAILURE_ADVICE = {
    "sender_rejected": "The mail server does not take mail from this sender. Repeating does not help.",
    "recipient_rejected": (
        "The mail server refused a recipient (see the warnings), and so nobody was sent to. Correct the recipients, and"
        " send it as a new message with a new idempotencyKey."
    ),
    "message_rejected": (
        "The mail server refused the message. Change what it may object to (contents, attachments), and send it as a"
        " new message with a new idempotencyKey; repeating it as it is does not help."
    ),
    "message_too_large": (
        "The message is too large for the mail server. Send it with fewer or smaller attachments and a new"
        " idempotencyKey."
    ),
    "provider_unavailable": (
        "The mail server could not be reached or was busy. It may be sent again later, with a new idempotencyKey."
    ),
    "canceled": "It was canceled before its time; its message is kept as a draft.",
    "expired": (
        "It could not be handed over within 24 hours of its time. It may be sent again with a new idempotencyKey."
    ),
    "authentication_failed": (
        "The mail server refuses the login of this mailbox. Its owner has to correct the password first; then it may be"
        " sent again with a new idempotencyKey."
    ),
    "account_removed": "The mailbox is not connected any more. Repeating does not help.",
    "permission_revoked": "Who asked for it may not send from this mailbox any more. Repeating does not help.",
    "resolved_as_failed": (
        "A person found out that nobody got it. It may be sent again with a new idempotencyKey, if they want that."
    ),
}
_OTHER_FAILURE_ADVICE = "Ask the person before you send it again, with a new idempotencyKey."


def delivery_status_text(data: Any) -> str:
    """The state of a delivery, and the next step."""
    status = data.get("status")
    if status is None:  # an answer of an earlier release, given again
        return "Sent: this idempotencyKey was used before, and its message went out then. Nothing was sent now."
    if status == "failed":
        code = data.get("error", {}).get("code", "unknown")
        return f"Failed ({code}): nobody got the message. {_FAILURE_ADVICE.get(code, _OTHER_FAILURE_ADVICE)}"
    return {
        "succeeded": "Sent: the mail server has taken the message. There is nothing left to do.",
        "queued": _queued_status_text(data),
        "sending": (
            "Sending: the hand-over is under way and goes on by itself. Look again in some seconds with"
            " get_delivery_operation, and do not send the message anew meanwhile."
        ),
        "uncertain": (
            "Uncertain: the message may or may not have been delivered, and nobody can tell yet. Tell the person so."
            " Never send it again, with another idempotencyKey least of all: it could arrive twice. It is looked for,"
            " for 24 hours; get_delivery_operation shows what was found."
        ),
    }.get(status, f"Status: {status}.")


def action_status_text(data: Any) -> str:
    """The result of a bulk action for its messages."""
    done, failed, open_ = (len(data[name]) for name in ("succeededIds", "failed", "uncertainIds"))
    told = [f"Action {data['action']}: done for {done}, failed for {failed}, uncertain for {open_}."]
    if failed:
        told.append("`failed` says why; nothing was done to these.")
    if open_:
        told.append(
            "Of those in `uncertainIds` the server did not say whether it was done: look at them before you repeat it."
        )
    return " ".join(told)


def _queued_status_text(data: Any) -> str:
    cancel = (
        f" cancel_scheduled_email with scheduleId {data['scheduleId']} takes it back." if "scheduleId" in data else ""
    )
    return f"Queued: it waits for its time and goes out by itself; do not send it anew.{cancel}"


# --- Acts that affect other people, or many messages: sending, forwarding, canceling, bulk actions ---


SEND_INPUT = ToolInput(sending.send, "POST /accounts/{accountId}/send")
FORWARD_INPUT = ToolInput(sending.forward, "POST /accounts/{accountId}/messages/{messageId}/forward")
DELIVERY_INPUT = ToolInput(deliveries.get_delivery, "GET /accounts/{accountId}/delivery-operations/{operationId}")
CANCEL_INPUT = ToolInput(deliveries.cancel_scheduled, "DELETE /accounts/{accountId}/scheduled/{scheduleId}")
MODIFY_INPUT = ToolInput(actions.perform, "POST /accounts/{accountId}/messages/actions")

#: Characters of ids in an answer, which has them twice.
_ROOM_FOR_IDS = 7_000
_CHECK_ADVICE = "look at the messages that you named (get_email) before you repeat the action for the others."
_ADVICE_OF_LIST = {
    "failed": _CHECK_ADVICE,
    "uncertainIds": _CHECK_ADVICE,
    "succeededIds": "it was done for the others as well.",
}


def send_email(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Send a message, at most once for each idempotency key."""
    return _present_delivery(asked, SEND_INPUT.read(arguments), "send_email")


def forward_email(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Forward a message, at most once for each idempotency key."""
    return _present_delivery(asked, FORWARD_INPUT.read(arguments), "forward_email")


def get_delivery_operation(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Return the state of a delivery."""
    return _present_delivery(asked, DELIVERY_INPUT.read(arguments), "get_delivery_operation")


def cancel_scheduled_email(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Take a scheduled send back."""
    answer = CANCEL_INPUT.read(arguments).call(asked)
    return render.present(
        to_json_data(answer.data),
        tool="cancel_scheduled_email",
        about="It will not be sent; the message is kept as a draft.",
        warnings=answer.warnings,
    )


def modify_emails(asked: CallContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Do one thing to many messages."""
    answer = MODIFY_INPUT.read(arguments).call(asked)
    whole = to_json_data(answer.data)
    data, cuts = _keep_fitting_ids(whole)
    about = action_status_text(whole)  # of all, whatever is shown
    return render.present(data, tool="modify_emails", about=about, warnings=answer.warnings, notes=cuts)


def _keep_fitting_ids(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """As many ids as fit: those to which nothing was done come before those of which there is nothing to say."""
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
    """The warnings about a message that was sent."""
    holder = data if isinstance(data, LegacySendResult) else data.result
    return () if isinstance(holder, UnsetType) or isinstance(holder.warnings, UnsetType) else holder.warnings
