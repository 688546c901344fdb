"""One attempt to send a message over SMTP or Microsoft Graph: the journal has the phase of the dot before it is sent.

Most messages are sent over SMTP. Graph is used only for Outlook mailboxes. A mailbox is marked for Graph once its
server reports at a login that SMTP is disabled; from then on, Graph sends its messages.

No transaction is open while the network is used. If recording the result fails (a full disk), calling `run` again
records the same result, and never sends again.
"""

import logging
from dataclasses import replace

from mailbox_appliance.errors import NotFound, Unsupported
from mailbox_appliance.model.content import LARGE
from mailbox_appliance.model.deliveries import Phase, PhaseStep
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.graph import GraphDelivery
from mailbox_appliance.sending.outcome import OperationClosed, Outcome, Progress, Recorder, to_problem
from mailbox_appliance.sending.smtp import SmtpConnectionPool, SmtpDelivery
from mailbox_appliance.sending.verdict import Accepted, Removed, TemporaryFailure, Uncertain, Verdict, judge_fault

log = logging.getLogger(__name__)

_SMTP_IS_OFF = "smtp_auth_disabled"
_LATE = TemporaryFailure("unavailable")


class DeliveryAttempt:
    """One attempt to send an operation. Call `close` last.

    If `run` fails, it may be called again; the message is sent at most once. `row`: the parsed message for the list of
    messages, if the caller has it already; otherwise the message is parsed.
    """

    def __init__(
        self,
        context: SendingContext,
        pool: SmtpConnectionPool,
        recorder: Recorder,
        operation_id: str,
        row: ParsedMessage | None,
    ) -> None:
        self._context, self._store = context, context.store
        self._pool, self._recorder = pool, recorder
        self._operation_id, self._row = operation_id, row
        self._progress = Progress(context, operation_id)
        self._way: SmtpDelivery | GraphDelivery | None = None
        self._verdict: Verdict | None = None
        self._is_recorded = False
        self._size = 0

    def run(self) -> Outcome:
        """Send the message as far as possible, and record how that ended. Raises errors of the store only."""
        try:
            self._work = replace(self._store.deliveries.get_work(self._operation_id), row=self._row)
            self._size = len(self._work.wire)
        except NotFound:  # withdrawn before a second request with its key began to wait for it
            verdict = self._verdict
            return Outcome(to_problem(verdict.cause if isinstance(verdict, TemporaryFailure) else "unavailable"))
        is_open = self._recorder.begin(self._work) if self._work.status == "queued" else self._work.status == "sending"
        if not is_open:
            return Outcome()
        if self._verdict is None:
            self._renewals = self._pool.count_renewals(self._work.account_id)
            self._verdict = self._judge()
        refused, copy = (self._way.refused, self._way.copy) if self._way is not None else ([], None)
        self._progress.write()
        is_late = self._was_login_replaced()
        outcome = self._recorder.record(self._work, _LATE if is_late else self._verdict, refused, copy)
        self._is_recorded = True
        if self._was_login_replaced():  # `retry_soon` was called while this operation was not queued yet
            self._recorder.retry_soon(self._work.account_id)
        return outcome

    @property
    def unwritten_steps(self) -> tuple[PhaseStep, ...]:
        """The phases of this attempt that the journal does not have yet."""
        return self._progress.unwritten

    @property
    def is_large(self) -> bool:
        """Whether the message was so large that memory should be freed afterwards."""
        return self._size > LARGE

    def close(self) -> None:
        """Close the SMTP connection, or delete an unsent draft at Graph, unless the result is not recorded yet."""
        way, verdict = self._way, self._verdict
        if isinstance(way, SmtpDelivery):
            way.close(politely=isinstance(verdict, Accepted))
        elif way is not None and verdict is not None and self._is_recorded:
            way.remove_draft(verdict)

    def _was_login_replaced(self) -> bool:
        """Whether the server refused the login, and the mailbox has been given new credentials since then."""
        is_refused = isinstance(self._verdict, TemporaryFailure) and self._verdict.cause == "login"
        return is_refused and self._renewals != self._pool.count_renewals(self._work.account_id)

    def _judge(self) -> Verdict:
        if self._work.phase is Phase.DOT:  # stopped between the dot and the record of its reply
            return Uncertain()
        try:
            return self._attempt()
        except (OperationClosed, NotFound):
            return Removed()
        except RemoteFault as fault:
            return judge_fault(self._progress.phase, fault)
        except Unsupported:  # a mailbox of a provider that only a later release supports
            return TemporaryFailure("unavailable")
        except Exception:  # a bug or a full disk: the phase still decides
            phase = self._progress.phase
            log.exception("submission_failed", extra={"operation": self._operation_id, "phase": phase})
            return Uncertain() if phase is Phase.DOT else TemporaryFailure("internal")

    def _attempt(self) -> Verdict:
        login = self._store.oauth_logins.find(self._work.account_id)
        if login is not None and login.sends_via == "graph":
            return self._deliver_by_graph()
        try:
            return self._deliver_by_smtp()
        except RemoteFault as fault:
            if login is None or login.provider != "outlook" or fault.name != _SMTP_IS_OFF:
                raise
        # The login was refused, so no part of the message has been sent.
        log.info("graph_sending_enabled", extra={"account": self._work.account_id})
        self._store.oauth_logins.set_sends_via(self._work.account_id, "graph")
        return self._deliver_by_graph()

    def _deliver_by_smtp(self) -> Verdict:
        self._way = way = SmtpDelivery(self._context, self._pool, self._recorder, self._progress, self._work)
        return way.attempt()

    def _deliver_by_graph(self) -> Verdict:
        self._way = way = GraphDelivery(self._context, self._recorder, self._progress, self._work)
        return way.attempt()
