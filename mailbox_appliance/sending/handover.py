"""Hands one operation over: the journal before every act, the network with no transaction open.

What the server's word came to is kept until it is recorded: where the record fails (a full disk), `run` is called again
and records, and never sends again.
"""

import logging
from dataclasses import dataclass

from mailbox_appliance.errors import (
    Detail,
    JournalFailed,
    NotFound,
    Problem,
    ProviderThrottled,
    Unavailable,
    Unsupported,
)
from mailbox_appliance.events import DeliveryMarked, DeliverySettled, Events
from mailbox_appliance.records import AccountError, Phase
from mailbox_appliance.remote.faults import RemoteFault, Reply
from mailbox_appliance.remote.smtp import Submission
from mailbox_appliance.sending.copies import Copy, copy_of
from mailbox_appliance.sending.verdict import (
    Accepted,
    Cause,
    GoOn,
    Nobody,
    Refused,
    Removed,
    Uncertain,
    Verdict,
    judge_fault,
    judge_reply,
)
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

_RETRY_AFTER = 30


_CAUSES: dict[Cause, str] = {  # of `internal` the problem itself tells
    "unavailable": "the SMTP server could not be reached or refused for now. Nobody got the message; try again.",
    "throttled": "the SMTP server limits how often it may be asked. Nobody got the message; try again later.",
    "login": "the SMTP server refused the login. Nobody got the message; correct the password of the mailbox.",
    "smtputf8": "its server takes no addresses with letters beyond ASCII (RFC 6531).",
}


_LOGIN_REFUSED = "The SMTP server refused the login."


class _Over(Exception):
    """The operation ended while it was being handed over: its mailbox is gone, or somebody withdrew it."""


@dataclass(frozen=True)
class Outcome:
    """How a hand-over ended. `problem` is what an immediate request is told where the operation was withdrawn."""

    problem: Problem | None = None
    needs_copy: bool = False


class Handover:
    """One operation on its way. `run` may be called again after it failed: it sends at most once. Then `hang_up`."""

    def __init__(self, store: Store, settings: Settings, events: Events, operation_id: str) -> None:
        self._store, self._settings, self._events = store, settings, events
        self._operation_id = operation_id
        self._phase = Phase.ACCEPTED
        self._session: Submission | None = None
        self._refused: list[str] = []
        self._verdict: Verdict | None = None

    def run(self) -> Outcome:
        """Take the operation as far as it goes, and record how it ended. Raises what the store raises."""
        try:
            self._work = self._store.deliveries.work(self._operation_id)
        except NotFound:  # withdrawn while a second request with its key was about to wait for it
            return Outcome(_unavailable("unavailable"))
        if self._work.status != "sending":
            return Outcome()
        if self._verdict is None:
            self._verdict = self._judged()
        return self._record(self._verdict)

    def hang_up(self) -> None:
        """Leave the server, politely where all is said; anywhere else a goodbye could be taken for mail."""
        session, self._session = self._session, None
        if session is not None:
            session.quit() if isinstance(self._verdict, Accepted) else session.close()

    def _judged(self) -> Verdict:
        if self._work.phase is Phase.DOT:  # stopped between the dot and the record of its reply
            return Uncertain()
        try:
            return self._attempt()
        except RemoteFault as fault:
            return judge_fault(self._phase, fault)
        except Exception:  # a fault of ours, a full disk: what the server may have got decides all the same
            log.exception("handing over failed", extra={"operation": self._operation_id, "phase": self._phase})
            return Uncertain() if self._phase is Phase.DOT else Nobody("internal")

    def _attempt(self) -> Verdict:
        try:
            connection = self._store.accounts.connection(self._work.account_id)
            self._enter(Phase.CONNECTING)
            self._session = session = Submission.open(
                connection.smtp,
                ca_file=self._settings.text("remote.ca_file"),
                timeout=self._settings.number("remote.timeout"),
            )
            return self._hand_over(session)
        except (_Over, NotFound):
            return Removed()

    def _hand_over(self, session: Submission) -> Verdict:
        work = self._work
        if work.envelope.smtputf8 and "SMTPUTF8" not in session.extensions:
            return Nobody("smtputf8")
        if session.max_size is not None and len(work.wire) > session.max_size:  # RFC 1870
            return Refused("message_too_large", None)
        verdict = self._envelope(session)
        return self._data(session) if isinstance(verdict, GoOn) else verdict

    def _envelope(self, session: Submission) -> Verdict:
        self._enter(Phase.ENVELOPE)
        self._store.accounts.clear_error(self._work.account_id, _LOGIN_REFUSED)
        envelope = self._work.envelope
        reply = session.mail(envelope.sender, size=len(self._work.wire), smtputf8=envelope.smtputf8)
        verdict = judge_reply("mail", reply)
        if not isinstance(verdict, GoOn):
            return verdict
        verdicts = [(recipient, self._recipient(session, recipient)) for recipient in envelope.recipients]
        refused = [verdict for _, verdict in verdicts if not isinstance(verdict, GoOn)]
        if not refused:
            return GoOn()
        # Nobody is sent to where one is refused; a refusal for good outweighs one for now.
        _reset(session)
        self._refused = [recipient for recipient, verdict in verdicts if isinstance(verdict, Refused)]
        return next((verdict for verdict in refused if isinstance(verdict, Refused)), refused[0])

    def _recipient(self, session: Submission, recipient: str) -> Verdict:
        return judge_reply("rcpt", session.rcpt(recipient))

    def _data(self, session: Submission) -> Verdict:
        self._enter(Phase.DATA)
        verdict = judge_reply("data", session.data())
        if not isinstance(verdict, GoOn):
            return verdict
        session.body(self._work.wire)
        # From here on the server may take the message: this must be on the disk before the dot is on the wire.
        self._enter(Phase.DOT)
        return judge_reply("dot", session.dot(self._settings.number("sending.dot_timeout")))

    def _enter(self, phase: Phase) -> None:
        if not self._store.deliveries.mark(self._operation_id, phase):
            raise _Over
        self._phase = phase
        self._events.publish(DeliveryMarked(self._operation_id, phase))

    def _record(self, verdict: Verdict) -> Outcome:
        match verdict:
            case Accepted(reply):
                self._succeed(reply.code)
                return Outcome(needs_copy=True)
            case Refused(code, None):
                self._settle_failed(code)
            case Refused(code, Reply(reply_code, enhanced)):
                self._settle_failed(code, reply_code=reply_code, reply_enhanced=enhanced)
            case Nobody(cause):
                return self._nobody(cause)
            case Removed():
                self._settle_failed("account_removed")
            case _:
                self._settle_uncertain()
        return Outcome()

    def _nobody(self, cause: Cause) -> Outcome:
        if cause == "login":
            self._note_refused_login()
        if cause == "smtputf8":
            return self._withdraw(Unsupported(reason=_CAUSES[cause]), "recipient_rejected")
        return self._withdraw(_unavailable(cause), "provider_unavailable")

    def _withdraw(self, problem: Problem, code_when_shown: str) -> Outcome:
        """Free the key, since nobody got the message; an operation that a client was shown ends as failed instead."""
        if self._store.deliveries.withdraw(self._operation_id):
            self._tell("withdrawn")
            return Outcome(problem)
        self._settle_failed(code_when_shown)
        return Outcome()

    def _succeed(self, reply_code: int) -> None:
        try:
            self._store.deliveries.succeed(self._operation_id, self._copy(), reply_code=reply_code)
        except Exception:
            # It was sent: that our copy cannot be shown at once must not keep anybody from knowing.
            log.exception("the sent copy cannot be shown yet", extra={"operation": self._operation_id})
            self._store.deliveries.succeed(self._operation_id, None, reply_code=reply_code)
        self._tell("succeeded")

    def _copy(self) -> Copy | None:
        sent = self._store.folders.find_by_role(self._work.account_id, "sent")
        return None if sent is None else copy_of(self._work, sent)

    def _settle_failed(self, code: str, *, reply_code: int | None = None, reply_enhanced: str | None = None) -> None:
        refused = self._refused if code != "sender_rejected" else ()
        warnings = [f"The server refused the recipient {recipient}; nobody was sent to." for recipient in refused]
        self._store.deliveries.settle(
            self._operation_id,
            "failed",
            code,
            warnings,
            reply_code=reply_code,
            reply_enhanced=reply_enhanced,
        )
        self._tell("failed", code=code, reply=reply_code, enhanced=reply_enhanced)

    def _settle_uncertain(self) -> None:
        self._store.deliveries.settle(self._operation_id, "uncertain")
        self._tell("uncertain")

    def _note_refused_login(self) -> None:
        error = AccountError(code="authentication_failed", message=_LOGIN_REFUSED)
        self._store.accounts.set_status(self._work.account_id, "reauth_required", error)

    def _tell(self, status: str, **facts: object) -> None:
        operation, account = self._operation_id, self._work.account_id
        log.info("delivery", extra={"operation": operation, "account": account, "status": status, **facts})
        self._events.publish(DeliverySettled(operation, account, status))


def _unavailable(cause: Cause) -> Problem:
    if cause == "internal":
        return JournalFailed(retry_after=_RETRY_AFTER)
    detail = (Detail("smtp", _CAUSES[cause]),)
    if cause == "throttled":
        return ProviderThrottled(details=detail, retry_after=_RETRY_AFTER)
    return Unavailable(reason=_CAUSES[cause], details=detail, retry_after=_RETRY_AFTER)


def _reset(session: Submission) -> None:
    try:
        session.rset()
    except RemoteFault:
        pass  # it is said out of courtesy: the connection is closed next
