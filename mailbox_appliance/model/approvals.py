"""Approvals: messages that wait until a person has read and approved exactly their bytes."""

from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET, UnsetType

from mailbox_appliance.model.base import Timestamp, Wire
from mailbox_appliance.model.deliveries import DeliveryKind
from mailbox_appliance.model.messages import Address, MessageSummary

ApprovalRule = Literal["never", "always", "newRecipients"]


class SendingPolicy(Wire, frozen=True, kw_only=True):
    """Rules for the messages of a mailbox or an API key. Of both, the stricter one holds in each field.

    - approval: Which messages a person must approve: none, all, or those with new recipients.
    - allowed_recipients: Addresses and domains that messages may go to; null for all, [] for nobody.
    - blocked_recipients: Addresses and domains that no message may go to.
    - max_recipients: Most recipients of a message; null for no rule.
    - per_hour: Most messages in an hour; null for no rule.
    - per_day: Most messages in a day; null for no rule.
    - internal_only: Whether messages may only go to the domains of the appliance's own mailboxes.
    """

    approval: ApprovalRule = "never"
    allowed_recipients: tuple[str, ...] | None = None
    blocked_recipients: tuple[str, ...] = ()
    max_recipients: int | None = None
    per_hour: int | None = None
    per_day: int | None = None
    internal_only: bool = False


ApprovalStatus = Literal["pending", "approved", "rejected", "expired"]


class Requester(Wire, frozen=True, kw_only=True):
    """The credential that asked for a send.

    - kind: Whether it is a session or an API key.
    - id: Its ID.
    - name: Name of the API key, or of the session's member.
    """

    kind: Literal["session", "api_key"]
    id: str
    name: str


class Approval(MessageSummary, frozen=True, kw_only=True):
    """A message that a person must approve before it is sent. Its bytes are fixed.

    - id: Approval ID.
    - operation_id: ID of the delivery operation that waits.
    - account_id: ID of the mailbox that sends it.
    - kind: Kind of the delivery operation.
    - send_at: When a scheduled message is sent; absent for others.
    - status: `expired`: nobody decided in time, or the delivery ended otherwise.
    - requested_by: The credential that asked for the send.
    - reasons: Why it needs an approval.
    - body_text: Text of the message as recipients see it, without hidden text. Absent in lists, and once the message
      was sent or rejected.
    - body_html: HTML of the message, as the sender wrote it: do not show it without removing scripts and hidden text.
      Absent as `bodyText` is, and if there is none.
    - parent_message_id: ID of the message that it replies to or forwards. Absent in lists, and if there is none.
    - digest: SHA-256 of the message as it is sent: `sha256:` and hex digits. Pass it to approve.
    - created_at: When it was asked for.
    - expires_at: When it expires.
    - decided_at: When it was decided; null while it is pending.
    - decided_by: ID of the member who decided; null if nobody did.
    """

    id: str
    operation_id: str
    account_id: str
    kind: DeliveryKind
    send_at: Timestamp | UnsetType = UNSET
    status: ApprovalStatus
    requested_by: Requester
    reasons: tuple[str, ...]
    body_text: str | UnsetType = UNSET
    body_html: str | UnsetType = UNSET
    parent_message_id: str | UnsetType = UNSET
    digest: str
    created_at: Timestamp
    expires_at: Timestamp
    decided_at: Timestamp | None
    decided_by: str | None


class RequestedApproval(Wire, frozen=True, kw_only=True):
    """The state of an approval, for the credential that asked for it: without subject, text and files.

    - id: Approval ID.
    - operation_id: ID of the delivery operation that waits.
    - account_id: ID of the mailbox that sends it.
    - kind: Kind of the delivery operation.
    - status: `expired`: nobody decided in time, or the delivery ended otherwise.
    - reasons: Why it needs an approval.
    - to: Recipients in To.
    - cc: Recipients in Cc.
    - bcc: Recipients that neither To nor Cc names.
    - created_at: When it was asked for.
    - expires_at: When it expires.
    - decided_at: When it was decided; null while it is pending.
    """

    id: str
    operation_id: str
    account_id: str
    kind: DeliveryKind
    status: ApprovalStatus
    reasons: tuple[str, ...]
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    created_at: Timestamp
    expires_at: Timestamp
    decided_at: Timestamp | None


@dataclass(frozen=True)
class StoredApproval:
    """An approval as it is stored.

    - shown: As lists show it, without the text of the message.
    - member_id: The member whose session or API key asked for it.
    - by_owner: Whether only the owner of the mailbox may approve it.
    """

    shown: Approval
    member_id: str
    by_owner: bool
