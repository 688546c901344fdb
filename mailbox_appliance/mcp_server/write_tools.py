"""Tools that write: drafts, previews, sends, forwards and bulk actions; their status in words."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, UnsetType

from mailbox_appliance.mcp_server.arguments import LIST_OFFSET, Act, ToolInput, ToolRequest
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
from mailbox_appliance.mcp_server.render import Presentation, present
from mailbox_appliance.mcp_server.tool import CallContext, ToolResult
from mailbox_appliance.model.deliveries import Delivery, LegacySendResult, UndoableResult
from mailbox_appliance.operations import sending
from mailbox_appliance.operations.decoding import Parameter
from mailbox_appliance.store.delivery_queries import WAITS_FOR_APPROVAL

_FORWARDED = (
    Parameter(
        "messageId",
        "message_id",
        Annotated[str, Meta(min_length=1, max_length=1000, description="Message to forward, for forward_email.")],
        None,
    ),
    Parameter("comment", "comment", Annotated[str, Meta(description="Text above the forwarded message.")], None),
    Parameter(
        "includeAttachments",
        "include_attachments",
        Annotated[bool, Meta(description="Whether to forward the attachments.")],
        True,
    ),
)
PREVIEW_INPUT = ToolInput(
    sending.preview, "POST /accounts/{accountId}/send/preview", own_arguments=(*_FORWARDED, LIST_OFFSET)
)


def acted(tool: str, about: str) -> Act:
    """Return the function of a tool that acts, and shows what its operation returns."""

    def act(asked: CallContext, given: ToolRequest) -> ToolResult:
        answer = given.call(asked)
        return present(Presentation(to_json_data(answer.data), tool, about, warnings=answer.warnings))

    return act


def saved_draft(about: str) -> Act:
    """Return the function of a tool that saves a draft and shows it."""

    def act(asked: CallContext, given: ToolRequest) -> ToolResult:
        answer = given.call(asked)
        data = drop_headers(to_json_data(answer.data))
        # get_draft returns the rest of what is cut here.
        return present(Presentation(data, "get_draft", about, UNTRUSTED_MESSAGE, answer.warnings))

    return act


def preview_send(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return the message that a send or a forward would submit, and its recipients, without sending it."""
    tool = "send_email"
    if given.own_arguments["messageId"] is not None:
        given, tool = _forward_preview(given), "forward_email"
    answer = given.call(asked)
    about = (
        f"The message that {tool} would send with the same arguments. Nothing was sent or saved. To send exactly this"
        f" message, pass previewDigest to {tool}."
    )
    data, offset = to_json_data(answer.data), given.own_arguments["listOffset"]
    shown = Presentation(data, "preview_send", about, UNTRUSTED_PREVIEW, answer.warnings, list_offset=offset)
    return present(shown)


def _forward_preview(given: ToolRequest) -> ToolRequest:
    """Return the request that previews a forward. Fields that only a send has are reported as unknown."""
    own, values = given.own_arguments, dict(given.request.values)
    body = dict(given.request.body) if isinstance(given.request.body, Mapping) else {}
    body |= {name: own[name] for name in ("comment", "includeAttachments") if own[name] is not None}
    values["messageId"] = own["messageId"]
    places = dict(given.request.places) | {"messageId": "query"}
    request = msgspec.structs.replace(given.request, values=values, places=places, body=body)
    return ToolRequest(sending.preview_forward, request, own)


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
    "approval_rejected": "A person rejected it. Send it again only if the user asks for that.",
    "approval_expired": (
        "Nobody approved it in time. Ask the user before you send it again, with a new idempotencyKey."
    ),
    "policy_denied": (
        "A sending policy no longer allows it. Tell the user. Do not try other recipients, mailboxes or keys."
    ),
    "resolved_as_failed": (
        "A person resolved it as not delivered. If the user wants it sent, you may send it again with a new"
        " idempotencyKey."
    ),
}
_OTHER_FAILURE_ADVICE = "Ask the user before you send it again with a new idempotencyKey."


_WAITS_FOR_PERSON = (
    "Queued: a person must approve it first; then it is sent automatically. Tell the user that it waits for an"
    " approval. Do not send it again, also not with another idempotencyKey. list_approvals shows what became of it."
)


def delivery_status_text(data: Any, warnings: Sequence[str] = ()) -> str:
    """Return the status of a delivery in words, and the next step. `warnings`: those of the answer."""
    if WAITS_FOR_APPROVAL in warnings:
        return _WAITS_FOR_PERSON + _cancel_text(data)
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


def undo_status_text(data: Any) -> str:
    """Return the result of an undo in words."""
    told = action_status_text(data)
    return f"{told} The code `changed` means that somebody has changed the message since." if data["failed"] else told


def _queued_status_text(data: Any) -> str:
    return f"Queued: it is sent automatically at its time. Do not send it again.{_cancel_text(data)}"


def _cancel_text(data: Any) -> str:
    if "scheduleId" not in data:
        return ""
    return f" To cancel it, call cancel_scheduled_email with scheduleId {data['scheduleId']}."


# --- Acts that affect other people, or many messages: sending, forwarding, canceling, bulk actions ---


#: Maximum characters of IDs in a result, which contains them twice.
_ROOM_FOR_IDS = 7_000
_CHECK_ADVICE = "check the messages that you named with get_email before you repeat the action for the others."
_ADVICE_OF_LIST = {
    "failed": _CHECK_ADVICE,
    "uncertainIds": _CHECK_ADVICE,
    "succeededIds": "the action succeeded for the others too.",
}


def modify_emails(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Apply an action to many messages."""
    answer = given.call(asked)
    whole = to_json_data(answer.data)
    data, cuts = _keep_fitting_ids(whole)
    about = action_status_text(whole)  # of all messages, even if not all are shown
    offer = to_json_data(answer.undo) if isinstance(answer, UndoableResult) and answer.undo is not None else None
    if offer is not None:
        about += f" To undo it, call undo_action with token {offer['token']} before {offer['expiresAt']}."
    shown = Presentation(data, "modify_emails", about, warnings=answer.warnings, notes=cuts, undo=offer)
    return present(shown)


def undo_action(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Undo an action on many messages."""
    whole = to_json_data(given.call(asked).data)
    data, cuts = _keep_fitting_ids(whole)
    return present(Presentation(data, "undo_action", undo_status_text(whole), notes=cuts))


def _keep_fitting_ids(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the result with as many message IDs as fit, failed ones first, and notes about the others."""
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


def delivery(tool: str) -> Act:
    """Return the function of a tool that sends a message, or asks for one that was sent, and shows its status."""

    def act(asked: CallContext, given: ToolRequest) -> ToolResult:
        answer = given.call(asked)
        senders = UNTRUSTED_RESULT if split_warnings(_result_warnings(answer.data))[1] else NO_UNTRUSTED
        about = partial(delivery_status_text, warnings=answer.warnings)
        return present(Presentation(to_json_data(answer.data), tool, about, senders, answer.warnings))

    return act


def _result_warnings(data: Delivery | LegacySendResult) -> tuple[str, ...]:
    """Return the warnings in the result of a delivery, about the message that was sent."""
    holder = data if isinstance(data, LegacySendResult) else data.result
    return () if isinstance(holder, UnsetType) or isinstance(holder.warnings, UnsetType) else holder.warnings
