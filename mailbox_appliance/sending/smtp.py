"""Sends one message over SMTP, and keeps connections open for further messages."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.model.deliveries import DeliveryWork, Phase
from mailbox_appliance.remote.errors import RemoteFault, Reply
from mailbox_appliance.remote.smtp import SmtpConnection
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.outcome import Progress, Recorder
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
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.deliveries import SentCopy

# --- The pool of connections: after a success, a connection is kept a few seconds for the next message ---
#
# A kept connection belongs to one mailbox with its credentials, and one thread uses it at a time. If it is unusable, a
# new one is opened: before the final dot nobody can have received the message.


log = logging.getLogger(__name__)

#: Messages per connection; many servers have such a limit and close the connection when it is exceeded.
MOST_MESSAGES = 50
#: Kept connections of all mailboxes together.
MOST_KEPT = 32
#: Removed mailboxes that are remembered, so that their messages in progress do not return a connection.
MOST_GONE = 1000
_SHORT_GOODBYE = 0.5  # seconds, if a caller waits for it
_SHORTEST_LOOK = 0.25  # seconds, even if no connection is kept any more
_LAST_GOODBYES = 1.0  # for all of them when the appliance stops


@dataclass(frozen=True)
class _Kept:
    """An unused connection, its server and login (`endpoint`), and since when it is unused (monotonic seconds)."""

    session: SmtpConnection
    endpoint: Endpoint
    since: float


class SmtpConnectionPool:
    """Opens connections, and keeps unused ones for the next message of the same mailbox. Thread-safe."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        """`clock`: returns monotonic seconds."""
        self._settings, self._clock = settings, clock
        self._changed = threading.Condition()
        self._kept: dict[str, list[_Kept]] = defaultdict(list)
        self._gone: dict[str, None] = {}  # in the order of their removal
        self._renewals: dict[str, int] = defaultdict(int)
        self._closer: threading.Thread | None = None
        self._is_stopped = False

    @property
    def _longest(self) -> int:
        """The seconds for which an unused connection is kept, by the current setting; 0 keeps none."""
        return self._settings.number("sending.keep_connection")

    def open(self, endpoint: Endpoint) -> SmtpConnection:
        """Open a connection to this server, and sign in if the endpoint has a user name. Raises RemoteFault."""
        return SmtpConnection.open(
            endpoint,
            ca_file=self._settings.text("remote.ca_file"),
            timeout=self._settings.number("remote.timeout"),
            clock=self._clock,
        )

    def take(self, account_id: str, endpoint: Endpoint) -> SmtpConnection | None:
        """Return a kept connection of this mailbox that still works, for exclusive use; None if there is none.

        `endpoint`: the current server and login; connections with another are closed.
        """
        while (kept := self._pop(account_id)) is not None:
            is_recent = self._clock() - kept.since < self._longest
            if kept.endpoint == endpoint and is_recent and kept.session.is_ready():
                return kept.session
            kept.session.close()  # without QUIT: the message to send must not wait for its reply
        return None

    def keep(self, account_id: str, endpoint: Endpoint, session: SmtpConnection) -> bool:
        """Keep a connection whose last message was accepted. Returns False if the caller must close it."""
        if session.accepted_count >= MOST_MESSAGES or not self._longest:
            return False
        with self._changed:
            count = sum(map(len, self._kept.values()))
            if self._is_stopped or account_id in self._gone or count >= MOST_KEPT or not self._has_closer():
                return False
            self._kept[account_id].append(_Kept(session, endpoint, self._clock()))
        return True

    def drop(self, account_id: str) -> None:
        """Close the unused connections of a removed mailbox, and keep none of it from now on."""
        with self._changed:
            self._gone[account_id] = None
            if len(self._gone) > MOST_GONE:
                del self._gone[next(iter(self._gone))]
            left = self._kept.pop(account_id, [])
        for kept in left:
            kept.session.quit(_SHORT_GOODBYE)

    def renew(self, account_id: str) -> None:
        """Close the unused connections of a mailbox, because its servers or credentials changed."""
        with self._changed:
            self._renewals[account_id] += 1
            left = self._kept.pop(account_id, [])
        for kept in left:
            kept.session.quit(_SHORT_GOODBYE)

    def count_renewals(self, account_id: str) -> int:
        """Return how often `renew` was called for a mailbox, to detect other servers or credentials."""
        with self._changed:
            return self._renewals.get(account_id, 0)

    def close_unused(self) -> None:
        """Close the connections that have been unused for longer than the setting `sending.keep_connection`."""
        oldest = self._clock() - self._longest
        for kept in self._remove(lambda kept: kept.since <= oldest):
            kept.session.quit()

    def stop(self) -> None:
        """Close all unused connections, and keep none from now on."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        left = self._remove(lambda _: True)
        for kept in left:
            kept.session.quit(_LAST_GOODBYES / len(left))

    def _pop(self, account_id: str) -> _Kept | None:
        """Remove and return the connection of a mailbox that was used last; None if there is none."""
        with self._changed:
            kept = self._kept.get(account_id)
            found = kept.pop() if kept else None
            if not kept:
                self._kept.pop(account_id, None)
            return found

    def _remove(self, is_meant: Callable[[_Kept], bool]) -> list[_Kept]:
        with self._changed:
            removed = [kept for each in self._kept.values() for kept in each if is_meant(kept)]
            for account_id, each in list(self._kept.items()):
                each[:] = [kept for kept in each if not is_meant(kept)]
                if not each:
                    del self._kept[account_id]
            return removed

    def _has_closer(self) -> bool:
        """Ensure that the thread runs that closes unused connections.

        Returns False if it cannot be started; then connections must not be kept.
        """
        if self._closer is None:
            closer = threading.Thread(target=self._run, name="kept smtp connections", daemon=True)
            try:
                closer.start()
            except RuntimeError:  # no more threads can be started
                log.warning("smtp_closer_thread_failed")
                return False
            self._closer = closer
        return True

    def _run(self) -> None:
        """Close connections that have been unused for too long. Runs in a thread of its own until none is left."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopped, max(self._longest / 4, _SHORTEST_LOOK))
                if self._is_stopped or not self._kept:
                    self._closer = None
                    return
            self.close_unused()


# --- One attempt ---


#: Seconds in which a kept connection must answer: a firewall or NAT may have dropped it silently.
_PATIENCE = 3.0


class SmtpDelivery:
    """One attempt to send a message over SMTP. Call `close` last.

    - refused: the recipients that the server rejected.
    - copy: the message for the local mirror of the folder Sent; None until the server has all of it.
    """

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
        self._session: SmtpConnection | None = None
        self.refused: list[str] = []
        self.copy: SentCopy | None = None

    def attempt(self) -> Verdict:
        """Try once to send the message. Returns a Verdict: accepted, refused, failed for now, or uncertain.

        Raises RemoteFault for a fault of the connection, which the caller judges, OperationClosed if the delivery
        operation ended in the meantime, and NotFound if the mailbox was removed.
        """
        account_id = self._work.account_id
        endpoint = self._logins.endpoint(account_id, "smtp")
        self._session = self._pool.take(account_id, endpoint)
        verdict = self._try_kept_connection() or self._use_new_connection()
        if isinstance(verdict, Accepted):
            self._keep(endpoint)
        return verdict

    def close(self, *, politely: bool) -> None:
        """Close the connection, unless it was returned to the pool.

        `politely`: send QUIT first. That is safe only after a complete message: else it would become part of the mail.
        """
        session, self._session = self._session, None
        if session is not None:
            session.quit() if politely else session.close()

    def _keep(self, endpoint: Endpoint) -> None:
        """Return the connection to the pool before the result is recorded, which the next message need not await."""
        try:
            if self._session is not None and self._pool.keep(self._work.account_id, endpoint, self._session):
                self._session = None
        except Exception:  # the message was accepted, so this failure must not count
            log.exception("smtp_connection_not_kept", extra={"operation": self._work.operation_id})

    def _try_kept_connection(self) -> Verdict | None:
        """Try to send over a connection kept from an earlier message, and return the verdict.

        Returns None if there is no such connection, or if it fails before the server asks for the message. Then nobody
        can have received the message, and the caller opens a new connection.
        """
        session = self._session
        if session is None:
            self._progress.begin(Phase.CONNECTING)
            return None
        self._progress.begin(Phase.CONNECTING)
        self._progress.begin(Phase.ENVELOPE)
        try:
            verdict = self._request_data(session)
        except RemoteFault as fault:
            log.info("smtp_connection_stale", extra={"operation": self._work.operation_id, "fault": fault.kind})
            session.close()
            self._session, self._progress.phase = None, Phase.CONNECTING
            return None
        return self._send_content() if isinstance(verdict, Continue) else verdict

    def _use_new_connection(self) -> Verdict:
        self._session = session = self._logins.open_smtp(self._work.account_id, self._pool.open)
        self._store.accounts.clear_refused_sending(self._work.account_id)
        verdict = self._request_data(session)
        return self._send_content() if isinstance(verdict, Continue) else verdict

    def _request_data(self, session: SmtpConnection) -> Verdict:
        """Send sender, recipients and DATA. Returns Continue if the server agrees, otherwise the verdict."""
        work = self._work
        eight_bit = not work.wire.isascii()
        if work.envelope.smtputf8 and not {"SMTPUTF8", "8BITMIME"} <= session.extensions:  # RFC 6531 3.1
            return TemporaryFailure("smtputf8")
        if eight_bit and "8BITMIME" not in session.extensions:  # RFC 6152 3; the appliance composes no such message
            return Refused("message_rejected", None)
        if session.max_size is not None and len(work.wire) > session.max_size:  # RFC 1870
            return Refused("message_too_large", None)
        verdict = self._send_envelope(session, eight_bit=eight_bit)
        if not isinstance(verdict, Continue):
            return verdict
        self._progress.begin(Phase.DATA)
        return _judge_on(session, "data", session.start_data())

    def _send_envelope(self, session: SmtpConnection, *, eight_bit: bool) -> Verdict:
        if self._progress.phase is not Phase.ENVELOPE:
            self._progress.begin(Phase.ENVELOPE)
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
        verdicts = [_judge_on(session, "rcpt", reply) for reply in replies]
        refused = [verdict for verdict in verdicts if not isinstance(verdict, Continue)]
        if not refused:
            return Continue()
        # If one recipient is refused, nothing is sent; a permanent refusal outweighs a temporary one.
        _reset(session)
        named = zip(envelope.recipients, verdicts, strict=True)
        self.refused = [recipient for recipient, verdict in named if isinstance(verdict, Refused)]
        return next((verdict for verdict in refused if isinstance(verdict, Refused)), refused[0])

    def _send_content(self) -> Verdict:
        """Send the message that the server has asked for and its final dot, and return the verdict."""
        session = self._session
        assert session is not None  # noqa: S101 - somebody has just invited it
        session.send_body(self._work.wire)
        # From here on the server may accept the message, so this must be on the disk before the dot is sent.
        self._progress.commit(Phase.DOT)
        self._progress.publish(Phase.DOT)
        session.require_silence()  # a reply that came before the dot is not its answer
        self._progress.phase = Phase.DOT
        timeout = self._settings.number("sending.dot_timeout")
        return judge_reply("dot", session.send_final_dot(timeout, self._make_copy))

    def _make_copy(self) -> None:
        self.copy = self._recorder.make_copy(self._work)


def _judge_on(session: SmtpConnection, step: Step, reply: Reply) -> Verdict:
    """Return the verdict for a reply to this step.

    Raises RemoteFault if the connection was kept from an earlier message and the reply is only about the connection.
    """
    if session.accepted_count and is_about_connection(step, reply):
        raise RemoteFault("smtp", "disconnected", "The SMTP server closed the connection that was kept open.", reply)
    return judge_reply(step, reply)


def _reset(session: SmtpConnection) -> None:
    try:
        session.reset()
    except RemoteFault:
        pass  # RSET is optional: the connection is closed next
