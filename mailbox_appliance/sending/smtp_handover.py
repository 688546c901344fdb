"""Hands one message over by SMTP: a connection that was kept or a new one, the envelope, the message, the dot."""

import logging

from mailbox_appliance.model.records import DeliveryWork, Endpoint, Phase
from mailbox_appliance.remote.faults import RemoteFault, Reply
from mailbox_appliance.remote.smtp import Submission
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.outcome import Recorder
from mailbox_appliance.sending.progress import Progress
from mailbox_appliance.sending.submissions import SmtpConnectionPool
from mailbox_appliance.sending.verdict import (
    Accepted,
    Continue,
    Refused,
    Step,
    TemporaryFailure,
    Verdict,
    is_about_connection,
    judge_reply,
)
from mailbox_appliance.store.deliveries import SentCopy

log = logging.getLogger(__name__)

#: Seconds in which a connection that was kept has to answer: the way to the server may have been forgotten meanwhile.
_PATIENCE = 3.0


class SmtpDelivery:
    """One attempt, then `close`. `refused`: the recipients that were. `copy`: as it will lie in Sent."""

    def __init__(
        self,
        context: SendingContext,
        pool: SmtpConnectionPool,
        recorder: Recorder,
        progress: Progress,
        work: DeliveryWork,
    ) -> None:
        self._store, self._logins, self._settings = context.store, context.logins, context.settings
        self._pool, self._recorder, self._progress = pool, recorder, progress
        self._work = work
        self._session: Submission | None = None
        self.refused: list[str] = []
        self.copy: SentCopy | None = None

    def attempt(self) -> Verdict:
        """Try to deliver the message. Raises RemoteFault, OperationClosed, and NotFound where the mailbox is gone."""
        account_id = self._work.account_id
        endpoint = self._logins.endpoint(account_id, "smtp")
        self._session = self._pool.take(account_id, endpoint)
        verdict = self._try_kept_connection() or self._use_new_connection()
        if isinstance(verdict, Accepted):
            self._keep(endpoint)
        return verdict

    def close(self, *, politely: bool) -> None:
        """Leave the server; politely where all is said, since anywhere else a goodbye could be taken for mail."""
        session, self._session = self._session, None
        if session is not None:
            session.quit() if politely else session.close()

    def _keep(self, endpoint: Endpoint) -> None:
        """Leave the connection to the next message, which need not wait until this one is recorded."""
        try:
            if self._session is not None and self._pool.keep(self._work.account_id, endpoint, self._session):
                self._session = None
        except Exception:  # the message was taken, whatever happens now
            log.exception("a connection could not be kept", extra={"operation": self._work.operation_id})

    def _try_kept_connection(self) -> Verdict | None:
        """What comes of a connection that was kept; None where there is none, or none any more.

        Where it is lost, or says what only a broken one says, it is closed, and nothing has happened: nobody can have
        got anything, and nothing was said about the message.
        """
        session = self._session
        if session is None:
            self._progress.enter(Phase.CONNECTING)
            return None
        self._progress.enter(Phase.CONNECTING, Phase.ENVELOPE)  # nothing is done between them
        try:
            verdict = self._request_data(session)
        except RemoteFault as fault:
            log.info(
                "a kept connection is of no use", extra={"operation": self._work.operation_id, "fault": fault.kind}
            )
            session.close()
            self._session, self._progress.phase = None, Phase.CONNECTING
            return None
        return self._send_content() if isinstance(verdict, Continue) else verdict

    def _use_new_connection(self) -> Verdict:
        self._session = session = self._logins.open_smtp(self._work.account_id, self._pool.open)
        self._store.accounts.clear_refused_sending(self._work.account_id)
        verdict = self._request_data(session)
        return self._send_content() if isinstance(verdict, Continue) else verdict

    def _request_data(self, session: Submission) -> Verdict:
        """Everything up to DATA; Continue where the server asks for the message."""
        work = self._work
        eight_bit = not work.wire.isascii()
        if work.envelope.smtputf8 and not {"SMTPUTF8", "8BITMIME"} <= session.extensions:  # RFC 6531 3.1
            return TemporaryFailure("smtputf8")
        if eight_bit and "8BITMIME" not in session.extensions:  # RFC 6152 3: nothing that we compose
            return Refused("message_rejected", None)
        if session.max_size is not None and len(work.wire) > session.max_size:  # RFC 1870
            return Refused("message_too_large", None)
        verdict = self._send_envelope(session, eight_bit=eight_bit)
        if not isinstance(verdict, Continue):
            return verdict
        self._progress.begin(Phase.DATA)
        return _judge_on(session, "data", session.start_data())

    def _send_envelope(self, session: Submission, *, eight_bit: bool) -> Verdict:
        if self._progress.phase is not Phase.ENVELOPE:
            self._progress.enter(Phase.ENVELOPE)
        envelope, size = self._work.envelope, len(self._work.wire)
        replies = session.send_envelope(
            envelope.sender,
            envelope.recipients,
            size=size,
            smtputf8=envelope.smtputf8,
            eight_bit=eight_bit,
            first_within=min(_PATIENCE, self._settings.number("remote.timeout")) if session.accepted_count else None,
        )
        verdict = _judge_on(session, "mail", next(replies))
        if not isinstance(verdict, Continue):
            return verdict
        # On the disk while the server looks at the recipients: before the act, and nobody waits for it.
        self._progress.commit(Phase.DATA)
        verdicts = [_judge_on(session, "rcpt", reply) for reply in replies]
        refused = [verdict for verdict in verdicts if not isinstance(verdict, Continue)]
        if not refused:
            return Continue()
        # Nobody is sent to where one is refused; a refusal for good outweighs one for now.
        _reset(session)
        named = zip(envelope.recipients, verdicts, strict=True)
        self.refused = [recipient for recipient, verdict in named if isinstance(verdict, Refused)]
        return next((verdict for verdict in refused if isinstance(verdict, Refused)), refused[0])

    def _send_content(self) -> Verdict:
        """The message, which the server has asked for."""
        session = self._session
        assert session is not None  # noqa: S101 - somebody has just invited it
        session.send_body(self._work.wire)
        # From here on the server may take the message: this must be on the disk before the dot is on the wire.
        self._progress.commit(Phase.DOT)
        self._progress.publish(Phase.DOT)
        session.require_silence()  # what was said meanwhile is no answer to the dot
        self._progress.phase = Phase.DOT
        timeout = self._settings.number("sending.dot_timeout")
        return judge_reply("dot", session.send_final_dot(timeout, self._make_copy))

    def _make_copy(self) -> None:
        self.copy = self._recorder.make_copy(self._work)


def _judge_on(session: Submission, step: Step, reply: Reply) -> Verdict:
    """As `judge_reply`; raises RemoteFault where a connection that was kept tells of itself only."""
    if session.accepted_count and is_about_connection(step, reply):
        raise RemoteFault("smtp", "disconnected", "The SMTP server has ended the connection that was kept.", reply)
    return judge_reply(step, reply)


def _reset(session: Submission) -> None:
    try:
        session.reset()
    except RemoteFault:
        pass  # it is said out of courtesy: the connection is closed next
