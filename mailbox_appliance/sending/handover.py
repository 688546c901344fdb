"""Hands one operation over: the journal before every act, the network with no transaction open.

What the server's word came to is kept until it is recorded: where the record fails (a full disk), `run` is called again
and records, and never sends again.
"""

import logging

from mailbox_appliance.authorization.logins import Logins
from mailbox_appliance.errors import NotFound, Unsupported
from mailbox_appliance.events import DeliveryMarked, Events
from mailbox_appliance.records import Endpoint, Phase
from mailbox_appliance.remote.faults import RemoteFault, Reply
from mailbox_appliance.remote.smtp import Submission
from mailbox_appliance.sending.outcome import LOGIN_REFUSED, Outcome, Recorder, unavailable
from mailbox_appliance.sending.submissions import Submissions
from mailbox_appliance.sending.verdict import (
    Accepted,
    GoOn,
    Nobody,
    Refused,
    Removed,
    Step,
    Uncertain,
    Verdict,
    judge_fault,
    judge_reply,
    tells_of_connection,
)
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.deliveries import Copy
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

#: Seconds in which a connection that was kept has to answer: the way to the server may have been forgotten meanwhile.
_PATIENCE = 3.0


class _Over(Exception):
    """The operation ended while it was being handed over: its mailbox is gone, or somebody withdrew it."""


class Handover:
    """One operation on its way. `run` may be called again after it failed: it sends at most once. Then `hang_up`."""

    def __init__(
        self,
        store: Store,
        logins: Logins,
        settings: Settings,
        events: Events,
        submissions: Submissions,
        recorder: Recorder,
        operation_id: str,
    ) -> None:
        self._store, self._logins, self._settings, self._events = store, logins, settings, events
        self._submissions, self._recorder = submissions, recorder
        self._operation_id = operation_id
        self._phase = Phase.ACCEPTED
        self._session: Submission | None = None
        self._refused: list[str] = []
        self._verdict: Verdict | None = None
        self._copy: Copy | None = None

    def run(self) -> Outcome:
        """Take the operation as far as it goes, and record how it ended. Raises what the store raises."""
        try:
            self._work = self._store.deliveries.work(self._operation_id)
        except NotFound:  # withdrawn while a second request with its key was about to wait for it
            return Outcome(unavailable("unavailable"))
        is_open = self._recorder.begin(self._work) if self._work.status == "queued" else self._work.status == "sending"
        if not is_open:
            return Outcome()
        if self._verdict is None:
            self._verdict = self._judged()
        return self._recorder.record(self._work, self._verdict, self._refused, self._copy)

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
        except Unsupported:  # of a provider that a later release may reach
            return Nobody("unavailable")
        except Exception:  # a fault of ours, a full disk: what the server may have got decides all the same
            log.exception("handing over failed", extra={"operation": self._operation_id, "phase": self._phase})
            return Uncertain() if self._phase is Phase.DOT else Nobody("internal")

    def _attempt(self) -> Verdict:
        account_id = self._work.account_id
        try:
            endpoint = self._logins.endpoint(account_id, "smtp")
            self._session = self._submissions.take(account_id, endpoint)
            verdict = self._on_a_kept_one() or self._on_a_new_one()
        except (_Over, NotFound):
            return Removed()
        if isinstance(verdict, Accepted):
            self._keep(endpoint)
        return verdict

    def _keep(self, endpoint: Endpoint) -> None:
        """Leave the connection to the next message, which need not wait until this one is recorded."""
        try:
            if self._session is not None and self._submissions.keep(self._work.account_id, endpoint, self._session):
                self._session = None
        except Exception:  # the message was taken, whatever happens now
            log.exception("a connection could not be kept", extra={"operation": self._operation_id})

    def _on_a_kept_one(self) -> Verdict | None:
        """What comes of a connection that was kept; None where there is none, or none any more.

        Where it is lost, or says what only a broken one says, it is closed, and nothing has happened: nobody can have
        got anything, and nothing was said about the message.
        """
        session = self._session
        if session is None:
            self._enter(Phase.CONNECTING)
            return None
        self._enter(Phase.CONNECTING, Phase.ENVELOPE)  # nothing is done between them
        try:
            verdict = self._invitation(session)
        except RemoteFault as fault:
            log.info("a kept connection is of no use", extra={"operation": self._operation_id, "fault": fault.kind})
            session.close()
            self._session, self._phase = None, Phase.CONNECTING
            return None
        return self._content() if isinstance(verdict, GoOn) else verdict

    def _on_a_new_one(self) -> Verdict:
        self._session = session = self._logins.smtp(self._work.account_id, self._submissions.open)
        self._store.accounts.clear_error(self._work.account_id, LOGIN_REFUSED)
        verdict = self._invitation(session)
        return self._content() if isinstance(verdict, GoOn) else verdict

    def _invitation(self, session: Submission) -> Verdict:
        """Everything up to DATA; GoOn where the server asks for the message."""
        work = self._work
        eight_bit = not work.wire.isascii()
        if work.envelope.smtputf8 and not {"SMTPUTF8", "8BITMIME"} <= session.extensions:  # RFC 6531 3.1
            return Nobody("smtputf8")
        if eight_bit and "8BITMIME" not in session.extensions:  # RFC 6152 3: nothing that we compose
            return Refused("message_rejected", None)
        if session.max_size is not None and len(work.wire) > session.max_size:  # RFC 1870
            return Refused("message_too_large", None)
        verdict = self._envelope(session, eight_bit=eight_bit)
        if not isinstance(verdict, GoOn):
            return verdict
        self._tell(Phase.DATA)
        return _judged_on(session, "data", session.data())

    def _envelope(self, session: Submission, *, eight_bit: bool) -> Verdict:
        if self._phase is not Phase.ENVELOPE:
            self._enter(Phase.ENVELOPE)
        envelope, size = self._work.envelope, len(self._work.wire)
        replies = session.envelope(
            envelope.sender,
            envelope.recipients,
            size=size,
            smtputf8=envelope.smtputf8,
            eight_bit=eight_bit,
            first_within=min(_PATIENCE, self._settings.number("remote.timeout")) if session.taken else None,
        )
        verdict = _judged_on(session, "mail", next(replies))
        if not isinstance(verdict, GoOn):
            return verdict
        # On the disk while the server looks at the recipients: before the act, and nobody waits for it.
        self._commit(Phase.DATA)
        verdicts = [_judged_on(session, "rcpt", reply) for reply in replies]
        refused = [verdict for verdict in verdicts if not isinstance(verdict, GoOn)]
        if not refused:
            return GoOn()
        # Nobody is sent to where one is refused; a refusal for good outweighs one for now.
        _reset(session)
        named = zip(envelope.recipients, verdicts, strict=True)
        self._refused = [recipient for recipient, verdict in named if isinstance(verdict, Refused)]
        return next((verdict for verdict in refused if isinstance(verdict, Refused)), refused[0])

    def _content(self) -> Verdict:
        """The message, which the server has asked for."""
        session = self._session
        assert session is not None  # noqa: S101 - somebody has just invited it
        session.body(self._work.wire)
        # From here on the server may take the message: this must be on the disk before the dot is on the wire.
        self._commit(Phase.DOT)
        self._publish(Phase.DOT)
        session.listen()  # what was said meanwhile is no answer to the dot
        self._phase = Phase.DOT
        timeout = self._settings.number("sending.dot_timeout")
        return judge_reply("dot", session.dot(timeout, self._make_copy))

    def _make_copy(self) -> None:
        self._copy = self._recorder.copy_of(self._work)

    def _enter(self, *phases: Phase) -> None:
        self._commit(*phases)
        for phase in phases:
            self._tell(phase)

    def _commit(self, *phases: Phase) -> None:
        """Write phases down, on the disk. Raises _Over where the operation ended meanwhile."""
        if not self._store.deliveries.mark(self._operation_id, *phases):
            raise _Over

    def _tell(self, phase: Phase) -> None:
        """The act of a phase that is written down begins now."""
        self._phase = phase
        self._publish(phase)

    def _publish(self, phase: Phase) -> None:
        self._events.publish(DeliveryMarked(self._operation_id, phase))


def _judged_on(session: Submission, step: Step, reply: Reply) -> Verdict:
    """As `judge_reply`; raises RemoteFault where a connection that was kept tells of itself only."""
    if session.taken and tells_of_connection(step, reply):
        raise RemoteFault("smtp", "disconnected", "The SMTP server has ended the connection that was kept.", reply)
    return judge_reply(step, reply)


def _reset(session: Submission) -> None:
    try:
        session.rset()
    except RemoteFault:
        pass  # it is said out of courtesy: the connection is closed next
