"""What has become of a send or a bulk action, and what to do next: one line of ours, for whoever asked."""

from typing import Any

#: Of a delivery that failed for good: why, and whether to try it again.
_FAILURES = {
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
_OTHERWISE = "Ask the person before you send it again, with a new idempotencyKey."


def of_delivery(data: Any) -> str:
    """What became of a request to send."""
    status = data.get("status")
    if status is None:  # an answer of an earlier release, given again
        return "Sent: this idempotencyKey was used before, and its message went out then. Nothing was sent now."
    if status == "failed":
        code = data.get("error", {}).get("code", "unknown")
        return f"Failed ({code}): nobody got the message. {_FAILURES.get(code, _OTHERWISE)}"
    return {
        "succeeded": "Sent: the mail server has taken the message. There is nothing left to do.",
        "queued": _queued(data),
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


def of_action(data: Any) -> str:
    """What became of the messages of a bulk action."""
    done, failed, open_ = (len(data[name]) for name in ("succeededIds", "failed", "uncertainIds"))
    told = [f"Action {data['action']}: done for {done}, failed for {failed}, uncertain for {open_}."]
    if failed:
        told.append("`failed` says why; nothing was done to these.")
    if open_:
        told.append(
            "Of those in `uncertainIds` the server did not say whether it was done: look at them before you repeat it."
        )
    return " ".join(told)


def _queued(data: Any) -> str:
    cancel = (
        f" cancel_scheduled_email with scheduleId {data['scheduleId']} takes it back." if "scheduleId" in data else ""
    )
    return f"Queued: it waits for its time and goes out by itself; do not send it anew.{cancel}"
