"""Records how an attempt to send ended: one durable transaction, then the events.

The columns are kinds of operations; "shown" means that a client has seen the operation's ID. The rows are verdicts.

                immediate, not shown yet    immediate, shown           scheduled
accepted        succeeded                   succeeded                  succeeded
refused         failed                      failed                     failed
nobody          withdrawn                   failed                     queued again, for 24 hours; then failed
uncertain       uncertain                   uncertain                  uncertain
mailbox gone    failed: account_removed     failed: account_removed    failed: account_removed

"Nobody" is `TemporaryFailure`: nobody received the message. "Withdrawn" means that the operation is deleted and the
client gets an error, so that its idempotency key can be used again.
"""

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from mailbox_appliance import clock, permissions, policies
from mailbox_appliance.clock import Clock, from_timestamp, to_timestamp
from mailbox_appliance.errors import (
    Detail,
    JournalFailed,
    NotFound,
    PolicyDenied,
    Problem,
    ProviderThrottled,
    Unavailable,
    Unsupported,
)
from mailbox_appliance.events import DeliveryPhaseEntered, DeliverySettled
from mailbox_appliance.mail.address import same_mailbox
from mailbox_appliance.model.accounts import AccountError
from mailbox_appliance.model.approvals import StoredApproval
from mailbox_appliance.model.base import OwnText, own_text
from mailbox_appliance.model.deliveries import DeliveryWork, NewApproval, Phase, PhaseStep
from mailbox_appliance.remote.errors import Reply, ServerName, named_fault
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.sent_copies import UnshownCopies, find_sent_folder, make_copy
from mailbox_appliance.sending.verdict import Accepted, Cause, Refused, Removed, TemporaryFailure, Verdict
from mailbox_appliance.store.database import DATABASE_ERRORS
from mailbox_appliance.store.deliveries import SentCopy

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store

# --- Whether a scheduled message may be sent: permissions may have changed since it was accepted ---


#: For how long a scheduled message is tried, counted from the time at which it was due.
TRIED_FOR = timedelta(hours=24)


def why_blocked(store: "Store", clock: Clock, work: DeliveryWork, known: Collection[str] | None = None) -> str | None:
    """Return the error code that explains why a scheduled message may not be sent, or None if it may."""
    try:
        own = store.sender_addresses.list_of(store.accounts.get(work.account_id))
    except NotFound:
        return "account_removed"
    if not permissions.may_send_now(store, work.account_id, work.credential_id, work.member_id):
        return "permission_revoked"
    if not any(same_mailbox(work.envelope.sender, each.email) for each in own):
        return "sender_rejected"
    try:
        _check_policies(store, work, known)
    except PolicyDenied:
        return "policy_denied"
    return code_when_too_late(work.last_cause) if is_too_late(work, clock) else None


def _check_policies(store: "Store", work: DeliveryWork, known: Collection[str] | None) -> tuple[tuple[str, ...], bool]:
    found = policies.read_policies(store, work.account_id, work.credential_id)
    return policies.check(store, found, work.account_id, work.envelope.recipients, known=known)


def _find_known(store: "Store", work: DeliveryWork) -> Collection[str] | None:
    with suppress(PolicyDenied):
        found = policies.read_policies(store, work.account_id, work.credential_id)
        return policies.find_known(store, found, work.account_id, work.envelope.recipients)
    return None


def is_too_late(work: DeliveryWork, clock: Clock) -> bool:
    """Whether a scheduled message should have been sent at least 24 hours ago. Then it is not sent any more."""
    return work.send_at is not None and clock.now() - work.send_at >= TRIED_FOR


#: The error codes that only the passing of time causes.
TOO_LATE = ("expired", "authentication_failed")


def code_when_too_late(last_cause: str | None) -> str:
    """Return the error code of a scheduled message that was tried for 24 hours.

    `last_cause`: the cause of the last failure, or None.
    """
    return "authentication_failed" if last_cause == "login" else "expired"


# --- The record of an attempt ---


log = logging.getLogger(__name__)

#: The problem of a mailbox whose server demands a login in the middle of a message.
_LOGIN_REFUSED = AccountError(code="authentication_failed", message="The SMTP server refused the login.")
MAYBE_DELIVERED = own_text(
    "The mail server did not confirm this message, so it may have been delivered. It is never resent automatically."
    " For 24 hours the appliance looks for it in Sent, where it files no copy of its own, and in the inbox. If it finds"
    " nothing, ask a recipient, then run `mailbox-appliance emails resolve`."
)
_RETRY_AFTER = 30
_FIRST_WAIT, _LONGEST_WAIT = 60, 1800
_CAUSES: dict[Cause, str] = {  # `internal` is missing: JournalFailed has its own message
    "unavailable": "the SMTP server cannot be reached or refused the message for now. Nobody received it. Try again.",
    "throttled": "the SMTP server is limiting requests. Nobody received the message. Try again later.",
    "login": "the SMTP server refused the login. Nobody received the message. Sign in to the mailbox again.",
    "smtputf8": "its server does not support addresses with non-ASCII characters (RFC 6531).",
}
#: The warnings to store with a failure if neither its code nor a reply explains it.
_WARNINGS: dict[str | None, tuple[str, ...]] = {
    "internal": (own_text("The journal could not be written, so nobody received the message. Check free disk space."),),
    "smtputf8": (
        own_text(
            "The mail server does not support addresses with non-ASCII characters (RFC 6531). Nobody received the"
            " message."
        ),
    ),
}


#: The warning for a rejection that no known reply text explains.
_REJECTED: Mapping[str, str] = {
    "sender_rejected": own_text(
        "The mail server does not accept this sender address for this mailbox. Nobody received the message."
        " `mailbox-appliance accounts addresses` lists the addresses it may accept."
    ),
    "message_rejected": own_text("The mail server rejected the content of the message. Nobody received it."),
    "message_too_large": own_text("The message exceeds the size limit of the mail server. Nobody received it."),
}


@dataclass(frozen=True)
class Outcome:
    """Result of an attempt for the client. `problem`: the error to answer with if its operation was withdrawn (deleted,
    because nobody received the message); otherwise None.
    """

    problem: Problem | None = None


class Recorder:
    """Records the outcomes of attempts. Every method can raise errors of the store, and can then be called again."""

    def __init__(self, context: SendingContext, unshown: UnshownCopies) -> None:
        self._store, self._events, self._clock = context.store, context.events, context.clock
        self._settings = context.settings
        self._unshown = unshown

    def begin(self, work: DeliveryWork) -> bool:
        """Record that sending a queued operation begins. Returns False if it must not be sent now:

        - It is no longer queued, or its time has not come.
        - Its permissions, its sender or a sending policy forbid it, nobody has approved it in time, or it is 24 hours
          late. Then it is recorded as failed.
        - A sending policy asks for an approval by now. Then it waits for that.
        """
        approval = self._store.approvals.find_of(work.operation_id)
        if approval is not None and approval.shown.status == "pending":
            if from_timestamp(approval.shown.expires_at) <= self._clock.now():
                self._end_queued(work, "approval_expired")
            return False
        if work.send_at is not None and work.send_at > self._clock.now():
            return False
        known = _find_known(self._store, work)
        # One transaction: a change by a person counts, or comes after the beginning.
        with self._store.database.transaction(durable=True):
            code = why_blocked(self._store, self._clock, work, known)
            is_begun = (
                code is None
                and not self._ask_for_approval(work, self._store.approvals.find_of(work.operation_id), known)
                and self._store.deliveries.begin_sending(work.operation_id)
            )
        if code is not None:
            self._end_queued(work, code, _WARNINGS.get(work.last_cause, ()) if code in TOO_LATE else ())
        if not is_begun:
            return False
        self._events.publish(DeliveryPhaseEntered(work.operation_id, Phase.ACCEPTED))
        return True

    def _end_queued(self, work: DeliveryWork, code: str, warnings: Sequence[str] = ()) -> None:
        if self._store.deliveries.fail_queued(work.operation_id, code, warnings):
            self._announce(work, "failed", code=code)

    def _ask_for_approval(
        self, work: DeliveryWork, given: StoredApproval | None, known: Collection[str] | None
    ) -> bool:
        """Let a message wait if a policy asks by now for an approval that nobody has given: any, or the owner's."""
        reasons, by_owner = _check_policies(self._store, work, known)
        if not reasons or (given is not None and (not by_owner or self._is_by_owner(given))):
            return False
        lifetime = timedelta(days=self._settings.number("approvals.expire_days"))
        self._store.approvals.add(work, NewApproval(reasons, by_owner, lifetime))
        return True

    def _is_by_owner(self, given: StoredApproval) -> bool:
        owner = self._store.accounts.get(given.shown.account_id).owner_member_id
        return given.by_owner or given.shown.decided_by == owner

    def make_copy(self, work: DeliveryWork) -> SentCopy | None:
        """Return the message as the local mirror of Sent will show it, before it is sent.

        Returns None if there is no folder for sent mail, or the message cannot be prepared for it.
        """
        try:
            sent = find_sent_folder(self._store, work.account_id)
            return None if sent is None else make_copy(work, sent)
        except Exception:  # the outcome of the message must not depend on its copy
            log.exception("sent_copy_not_shown", extra={"operation": work.operation_id})
            return None

    def record(
        self, work: DeliveryWork, verdict: Verdict, refused: Sequence[str] = (), copy: SentCopy | None = None
    ) -> Outcome:
        """Record the outcome of an attempt with this verdict.

        `refused`: the recipients that the server rejected. `copy`: the message as the mirror of Sent will show it.
        """
        match verdict:
            case Accepted(reply):
                self._succeed(work, reply.code, copy)
            case Refused(code, reply, why):
                named = refused if code != "sender_rejected" else ()
                warnings = [
                    f"The mail server rejected {each}, so the message was not sent to anyone." for each in named
                ]
                if reply is not None and reply.name is not None:
                    warnings.append(OwnText(named_fault(reply.name, "smtp").reason))
                if why is not None:
                    warnings.append(why)
                if not warnings and code in _REJECTED:
                    warnings.append(_REJECTED[code])
                self._fail(work, code, warnings, reply)
            case TemporaryFailure():
                return self._record_temporary_failure(work, verdict)
            case Removed():
                self._fail(work, "account_removed")
            case _:
                self._store.deliveries.set_outcome(work.operation_id, "uncertain", None, [MAYBE_DELIVERED])
                self._announce(work, "uncertain")
        return Outcome()

    def requeue(self, work: DeliveryWork, cause: str, wait: float = 0) -> bool:
        """Queue a scheduled message again that nobody received. Returns False if the operation has ended.

        `cause`: the reason of the failure. `wait`: the seconds until the next attempt.
        """
        now = self._clock.now()
        next_at = min(now + timedelta(seconds=wait), (work.send_at or now) + TRIED_FOR)
        if not self._store.deliveries.requeue(work.operation_id, next_at, cause):
            return False
        self._announce(work, "queued", cause=cause)
        return True

    def retry_soon(self, account_id: str) -> None:
        """Start the queued retries of a mailbox now. If that fails, they start later as planned. Never raises."""
        try:
            self._store.schedule.pull_forward_mailbox(account_id, self._clock.now())
        except Exception:
            log.exception("scheduled_wakeup_failed", extra={"account": account_id})

    def _record_temporary_failure(self, work: DeliveryWork, verdict: TemporaryFailure) -> Outcome:
        cause, error = verdict.cause, verdict.error
        if cause == "login":
            self._store.accounts.note_refused_sending(work.account_id, error or _LOGIN_REFUSED)
        if cause == "smtputf8":
            return self._withdraw(work, Unsupported(reason=_CAUSES[cause]), "recipient_rejected", cause)
        if work.send_at is not None:
            return self._try_later(work, verdict)
        problem = to_problem(cause, error, verdict.server, verdict.wait)
        return self._withdraw(work, problem, "provider_unavailable", cause)

    def _try_later(self, work: DeliveryWork, verdict: TemporaryFailure) -> Outcome:
        cause = verdict.cause
        if is_too_late(work, self._clock):
            self._fail(work, code_when_too_late(cause), _WARNINGS.get(cause, ()))
        else:
            attempts = self._store.deliveries.get_work(work.operation_id).attempts
            wait = max(clock.retry_delay(attempts, _FIRST_WAIT, _LONGEST_WAIT), verdict.wait or 0)
            # A retry that is planned for later is moved forward when the mailbox is reconnected (`retry_soon`).
            self.requeue(work, cause, min(wait, _LONGEST_WAIT))
        return Outcome()

    def _withdraw(self, work: DeliveryWork, problem: Problem, code_when_shown: str, cause: Cause) -> Outcome:
        """Withdraw an immediate operation that nobody received, so that its idempotency key can be used again.

        If a client has seen the operation, it fails with `code_when_shown` instead. `problem`: the client's answer.
        """
        if self._store.deliveries.withdraw(work.operation_id):
            self._announce(work, "withdrawn")
            return Outcome(problem)
        self._fail(work, code_when_shown, _WARNINGS.get(cause, ()))
        return Outcome()

    def _succeed(self, work: DeliveryWork, reply_code: int, copy: SentCopy | None) -> None:
        database, mirror = self._store.database, self._store.mailbox_writer
        try:
            with database.block_writers():  # sync may have the server's copy
                if copy is not None and self._unshown.left and not mirror.begins_thread(*copy):
                    self._unshown.show()  # it may answer one of them
                with database.transaction(durable=True, awaited=False):
                    is_left = self._store.deliveries.succeed(
                        work.operation_id, copy, reply_code=reply_code, is_shown_later=True
                    )
                if is_left and copy is not None:
                    self._unshown.add(work.operation_id, copy)
        except Exception:
            if copy is None:
                raise
            # The message was sent, so it counts as succeeded even if its copy cannot be shown at once.
            log.exception("sent_copy_not_shown", extra={"operation": work.operation_id})
            self._store.deliveries.succeed(work.operation_id, None, reply_code=reply_code)
        database.wait_until_durable()
        self._announce(work, "succeeded")

    def _fail(self, work: DeliveryWork, code: str, warnings: Sequence[str] = (), reply: Reply | None = None) -> None:
        number, enhanced = (None, None) if reply is None else (reply.code, reply.enhanced)
        self._store.deliveries.set_outcome(
            work.operation_id, "failed", code, warnings, reply_code=number, reply_enhanced=enhanced
        )
        self._announce(work, "failed", code=code, reply=number, enhanced=enhanced)

    def _announce(self, work: DeliveryWork, status: str, **facts: object) -> None:
        operation, account = work.operation_id, work.account_id
        log.info("delivery", extra={"operation": operation, "account": account, "status": status, **facts})
        self._events.publish(DeliverySettled(operation, account, status))


def to_problem(
    cause: Cause, error: AccountError | None = None, server: ServerName = "smtp", wait: float | None = None
) -> Problem:
    """Return the error with which to answer a client whose operation was withdrawn.

    `error`: the problem of the mailbox, if any. `server`: the server that reported it. `wait`: the seconds that the
    server asked to wait, if any.
    """
    retry_after = max(_RETRY_AFTER, math.ceil(wait or 0))
    if cause == "internal":
        return JournalFailed(retry_after=_RETRY_AFTER)
    reason = _CAUSES[cause] if error is None else f"{error.message} Nobody received the message."
    detail = (Detail("oauth" if server == "oauth" else "smtp", reason),)  # the detail of Graph is `smtp` too
    if cause == "throttled":
        return ProviderThrottled(details=detail, retry_after=retry_after)
    return Unavailable(reason=reason, details=detail, retry_after=retry_after)


# --- Progress: the phase of the final dot is on the disk before the dot is sent ---


class OperationClosed(Exception):
    """Raised if an operation ended while it was being sent: its mailbox was removed, or it was withdrawn."""


class Progress:
    """Records and publishes how far a delivery has come. `phase`: the last phase that has begun.

    Phases before the dot all mean that nobody has received the message, so they are kept in memory and recorded
    together with the next durable step. `unwritten`: these phases with their timestamps.
    """

    def __init__(self, context: SendingContext, operation_id: str) -> None:
        self._store, self._events, self.operation_id = context.store, context.events, operation_id
        self._clock = context.clock
        self.phase = Phase.ACCEPTED
        self.unwritten: tuple[PhaseStep, ...] = ()

    def begin(self, phase: Phase) -> None:
        """Begin a phase before the dot, and publish that. It is recorded later."""
        self.unwritten += (self._step(phase),)
        self.phase = phase
        self.publish(phase)

    def enter(self, phase: Phase, *, provider_draft_id: str | None = None) -> None:
        """Record a phase on the disk, then begin it. Raises OperationClosed if the operation has ended.

        `provider_draft_id`: the ID of the draft that a provider's API is about to send, if any.
        """
        self.commit(phase, provider_draft_id=provider_draft_id)
        self.phase = phase
        self.publish(phase)

    def commit(self, phase: Phase, *, provider_draft_id: str | None = None) -> None:
        """Record a phase on the disk, after those not recorded yet, without beginning it. Raises OperationClosed if
        the operation has ended.
        """
        steps = (*self.unwritten, self._step(phase))
        if not self._store.deliveries.enter_phases(self.operation_id, steps, provider_draft_id=provider_draft_id):
            raise OperationClosed
        self.unwritten = ()

    def write(self) -> None:
        """Record the phases that are not recorded yet, if that is possible: the attempt ended before the dot."""
        if self.unwritten:
            with suppress(*DATABASE_ERRORS):  # the outcome must not depend on its timeline
                self._store.deliveries.note_phases(self.operation_id, self.unwritten)
            self.unwritten = ()

    def publish(self, phase: Phase) -> None:
        """Publish the event that a delivery has entered a phase."""
        self._events.publish(DeliveryPhaseEntered(self.operation_id, phase))

    def _step(self, phase: Phase) -> PhaseStep:
        return phase, to_timestamp(self._clock.now())
