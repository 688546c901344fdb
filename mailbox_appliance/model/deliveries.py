"""Records of deliveries: accepted requests, their progress and their results."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, Literal

from msgspec import UNSET, Struct, UnsetType

from mailbox_appliance.model.base import Count, T, Timestamp, Wire
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.messages import Address, ComposedMessage, Envelope, ParsedMessage, UndoOffer
from mailbox_appliance.model.sync import MessageIdentity, MirroredFolder

DeliveryKind = Literal["send", "forward", "scheduled"]
DeliveryStatus = Literal["queued", "sending", "succeeded", "failed", "uncertain"]


class DeliveryResult(Wire, frozen=True, kw_only=True):
    """The sent message, after success.

    - id: ID of the sent message.
    - thread_id: ID of its thread.
    - warnings: Warnings about work after the send, such as a draft that could not be removed.
    """

    id: str
    thread_id: str
    warnings: tuple[str, ...] | UnsetType = UNSET


class DeliveryError(Wire, frozen=True, kw_only=True):
    """The reason why a delivery failed.

    - code: Error code, such as `recipient_rejected`, `canceled`, `expired` or `resolved_as_failed`.
    """

    code: str


class Delivery(Wire, frozen=True, kw_only=True):
    """A delivery operation: the outcome of one accepted request to send.

    - operation_id: Delivery ID, such as `dlv_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    - account_id: ID of the sending mailbox.
    - kind: `send`, `forward`, or `scheduled` for a send with `sendAt`.
    - status: `queued`, `sending`, `succeeded` (the mail server accepted it), `failed` (nobody received it) or
      `uncertain`.
    - result: The sent message; present after success.
    - error: Why the delivery failed; present after failure.
    - schedule_id: ID by which a scheduled message can be canceled, such as `sch_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    """

    operation_id: str
    account_id: str
    kind: DeliveryKind
    status: DeliveryStatus
    result: DeliveryResult | UnsetType = UNSET
    error: DeliveryError | UnsetType = UNSET
    schedule_id: str | UnsetType = UNSET


class DeliveryEntry(Delivery, frozen=True, kw_only=True):
    """A delivery operation with subject, recipients and times.

    - created_at: When the request was accepted.
    - updated_at: When its last step happened.
    - send_at: Scheduled time; null for other messages.
    - subject: Subject line; null if it is no longer known.
    - recipients: Addresses of all recipients, including Bcc, for the member who sent it; for others, only those in To.
    - is_own: Whether you sent it.
    - approval_id: ID of the approval that it waits for; null if only others see that approval. Left out if it waits for
      none.
    """

    created_at: Timestamp
    updated_at: Timestamp
    send_at: Timestamp | None
    subject: str | None
    recipients: tuple[str, ...]
    is_own: bool
    approval_id: str | UnsetType | None = UNSET


DeliveryStepName = Literal[
    "accepted", "connecting", "envelope", "data", "dot", "replied", "uncertain", "succeeded", "failed"
]
SentCopy = Literal["none", "pending", "filed"]


class DeliveryStep(Wire, frozen=True, kw_only=True):
    """A step of a delivery, recorded before it was taken.

    - at: When the step was recorded.
    - attempt: Number of the attempt, starting at 1; 0 for steps before the first attempt.
    - step: `accepted`, `connecting` to the server, `envelope` (sender and recipients), `data` (the message), `dot` (its
      end; from here on the server may have accepted it), `replied` (the server's reply to that), or the outcome.
    """

    at: Timestamp
    attempt: Count
    step: DeliveryStepName


class DeliveryTimeline(DeliveryEntry, frozen=True, kw_only=True):
    """A delivery operation with each of its steps.

    - message_id_header: Message-ID header of the message, to search for it elsewhere.
    - attempts: Number of attempts.
    - next_attempt_at: When the next attempt is due; null if none is.
    - sent_copy: State of the copy in Sent: `none` (none to file, or not yet), `pending` (to be filed) or `filed`.
    - looks: How often an uncertain message was searched for in the mailbox.
    - next_look_at: When it is searched for again; null if it is not.
    - reply_code: Last SMTP reply code; null if there was none.
    - reply_enhanced: Last enhanced SMTP status code (RFC 3463); null if there was none.
    - steps: The steps in order.
    - outcome_warnings: The warnings of the response that explain the current status.
    """

    message_id_header: str
    attempts: Count
    next_attempt_at: Timestamp | None
    sent_copy: SentCopy
    outcome_warnings: tuple[str, ...] = ()
    looks: Count
    next_look_at: Timestamp | None
    reply_code: int | None
    reply_enhanced: str | None
    steps: tuple[DeliveryStep, ...]


class OperationResult(Struct, Generic[T], frozen=True):
    """The data that an operation returns, with warnings. `status`: HTTP status; None for the usual one of the route."""

    data: T
    warnings: tuple[str, ...] = ()
    #: Whether it is a repeated response of an earlier release (`Idempotency-Replayed: true`), with its status.
    is_replayed: bool = False
    status: int | None = None
    #: Identifies the data, for the header `ETag` (RFC 9110 8.8.3); None if it has none.
    etag: str | None = None
    #: What the interface may wait for before it asks again: an `EventWait`; or the `Future` of the data, which it must
    #: wait for. None: the result is final.
    waits_for: object | None = None


class UndoableResult(OperationResult[T], Generic[T], frozen=True):
    """The result of an operation that can be undone. `undo`: beside the data; None if nothing can be undone."""

    undo: UndoOffer | None = None


class ScheduledSend(Wire, frozen=True, kw_only=True):
    """A scheduled message that is not finished.

    - id: Schedule ID, by which it can be canceled.
    - account_id: ID of the sending mailbox.
    - operation_id: ID of its delivery.
    - send_at: Scheduled time.
    - status: Status of its delivery.
    - to: The To recipients.
    - subject: Subject line.
    - created_at: When it was scheduled.
    """

    id: str
    account_id: str
    operation_id: str
    send_at: Timestamp
    status: DeliveryStatus
    to: tuple[Address, ...]
    subject: str
    created_at: Timestamp


class LegacySendResult(Wire, frozen=True, kw_only=True):
    """The response to a send by a release without deliveries: the sent message.

    - id: ID of the sent message.
    - thread_id: ID of its thread.
    - warnings: Warnings that came with the send.
    """

    id: str
    thread_id: str
    warnings: tuple[str, ...] | UnsetType = UNSET


@dataclass(frozen=True)
class LegacyResponse:
    """A stored response of an earlier release, with its HTTP status, which is returned again to a retry."""

    status: int
    data: LegacySendResult
    warnings: tuple[str, ...] = ()


class Phase(StrEnum):
    """The progress of a delivery.

    `dot`: the end of the message is sent, so the server may have accepted it. This phase is stored before it begins, so
    that after a restart the appliance knows whether it did.
    """

    ACCEPTED = "accepted"
    CONNECTING = "connecting"
    ENVELOPE = "envelope"
    DATA = "data"
    DOT = "dot"
    REPLIED = "replied"


#: A phase and the timestamp at which it began.
PhaseStep = tuple[Phase, str]


@dataclass(frozen=True)
class NewDelivery:
    """A complete request to send, ready to be accepted.

    - send_at: The time of a scheduled message.
    - draft_id, draft_version: The saved draft that is sent, and its version.
    - parent_id: The message that it replies to or forwards, which gets a flag after success.
    - to, subject: Values for the list of scheduled messages.
    - warnings: Warnings for the client, whatever the outcome.
    - upload_ids: The uploads that it contains, which are used up.
    """

    account_id: str
    credential_id: str
    member_id: str
    idempotency_key: str
    request_hash: str
    kind: DeliveryKind
    message: ComposedMessage
    thread_id: str | None
    send_at: datetime | None = None
    draft_id: str | None = None
    parent_id: str | None = None
    to: tuple[Address, ...] = ()
    subject: str = ""
    quotas: "tuple[Quota, ...]" = ()
    draft_version: str | None = None
    warnings: tuple[str, ...] = ()
    upload_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class NewApproval:
    """The approval that an accepted message needs before it is sent.

    - reasons: Why it needs one, for people.
    - by_owner: Whether only the owner of the mailbox may give it, because the mailbox's policy asks for it.
    - lifetime: How long it can be given.
    """

    reasons: tuple[str, ...]
    by_owner: bool
    lifetime: timedelta


@dataclass(frozen=True)
class Quota:
    """A sending limit: at most `most` messages in a period (`window`), for one credential or for one mailbox.

    `setting`: the place where it is set, for errors; '' for the settings `sending.*`.
    """

    of: Literal["credential", "account"]
    most: int
    window: timedelta
    setting: str = ""


@dataclass(frozen=True)
class AcceptedDelivery:
    """The result of accepting a request to send: a new delivery, or the existing one with the same idempotency key.

    `is_shown`: whether a response has already returned the delivery's ID to a client. Then it can no longer be undone.
    """

    delivery: Delivery
    warnings: tuple[str, ...]
    is_new: bool
    is_shown: bool


@dataclass(frozen=True)
class OpenDelivery:
    """A delivery that is being sent or waits for its scheduled time, without its message.

    `is_shown`: whether a response has already returned its ID to a client.
    """

    operation_id: str
    account_id: str
    phase: Phase
    is_shown: bool
    kind: DeliveryKind = "send"


@dataclass(frozen=True)
class UncertainDelivery:
    """A delivery with unknown outcome. The mailbox is searched for its Message-ID; `looks` counts that."""

    operation_id: str
    account_id: str
    message_id: str
    recipients: tuple[str, ...]
    since: datetime
    looks: int
    provider_draft_id: str | None = None


@dataclass(frozen=True)
class FoundCopy:
    """A copy of a sent message that was found in a folder by its Message-ID.

    `uid`: its number in the folder; None if the folder must be synced first, because its UIDVALIDITY has changed.
    `seen`: everything that the server reported about the copy.
    """

    folder: MirroredFolder
    uid: int | None
    size: int | None = None
    internal_date: datetime | None = None
    seen: MessageIdentity | None = None


PostSendTaskKind = Literal["remove_draft", "flag_parent", "keep_draft"]


@dataclass(frozen=True)
class PostSendTask:
    """A task at the mail server that remains after a delivery has ended, such as removing the sent draft.

    - kind: `remove_draft`, `keep_draft` (save a canceled message as a draft) or `flag_parent`.
    - message_id: The draft, or the message to flag; None if there is none.
    - draft_version: The version of the draft.
    - flag: The flag to set.
    """

    operation_id: str
    account_id: str
    kind: PostSendTaskKind
    message_id: str | None
    draft_version: str | None
    flag: str | None
    attempts: int


@dataclass(frozen=True)
class DeliveryWork:
    """Everything that the sending worker needs to submit a message, or to save its copy in Sent."""

    operation_id: str
    account_id: str
    kind: DeliveryKind
    status: DeliveryStatus
    phase: Phase
    is_shown: bool
    wire: Content = field(repr=False)
    bcc_header: bytes = field(repr=False)
    envelope: Envelope
    message_id: str
    result_id: str
    result_thread_id: str
    created_at: datetime
    copy_attempts: int
    attempts: int
    send_at: datetime | None
    last_cause: str | None
    credential_id: str
    member_id: str
    draft_id: str | None
    parent_id: str | None
    updated_at: datetime
    #: The ID of the provider's draft that is sent by ID (Microsoft Graph); None before it is created.
    provider_draft_id: str | None = None
    #: The parsed message, for readers of our copy; None if only the bytes are left.
    row: ParsedMessage | None = field(default=None, repr=False, compare=False)

    @property
    def message_date(self) -> datetime:
        """The time for the Date header: the scheduled time, else the time at which it was accepted."""
        return self.send_at or self.created_at
