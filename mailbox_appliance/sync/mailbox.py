"""Keep the stored copy of one mailbox up to date: connect, follow changes, wait in IDLE, retry after errors.

    connecting -> syncing -> ready: after the first full check, changes are followed
    any fault ............. error; retried after 2 s, growing to 5 minutes, or at once when woken
    a refused sign-in ..... reauth_required; retried only when woken, since repeated failures lock mailboxes
    a refused token ....... reauth_required; retried from time to time, since servers in an outage refuse valid ones

The threads of `scheduler` call `MailboxSync.turn`, which works for about a second. "Woken" means that someone called
`MailboxSync.wake`, for example because a user requested a sync.
"""

import logging
import random
import threading
from collections import Counter

from mailbox_appliance.clock import retry_delay
from mailbox_appliance.errors import NotFound, Unsupported
from mailbox_appliance.model.accounts import AccountError, AccountStatus
from mailbox_appliance.model.sync import SyncProgress
from mailbox_appliance.remote.errors import RemoteFault, account_error_of
from mailbox_appliance.sync.context import FetchBackoff, Stopped, StopSignal, SyncServices, SyncSession
from mailbox_appliance.sync.follower import Follower, StepResult, describe_bodies_left
from mailbox_appliance.sync.plan import Notice, is_repeated
from mailbox_appliance.sync.scheduler import After, Next, Rest

log = logging.getLogger(__name__)

FIRST_RETRY, LONGEST_RETRY = 2.0, 300.0
#: Seconds after which a new token is worth a try: a token issued a moment ago is not replaced (`oauth.tokens`).
TOKEN_RETRY = 45.0
#: Seconds of a turn; then other mailboxes get theirs, and the home folder is checked.
TURN = 1.0
#: Seconds after which a lost connection is not reported: servers close connections, as when an access token expires.
LASTING = 60.0
LONGEST_IDLE = 540.0  # RFC 2177 asks to renew IDLE within 29 minutes; many networks drop a quiet connection after 10.


class MailboxSync:
    """The sync of one mailbox, as a task for the scheduler.

    Any thread may call `wake`, `stop` and `interrupt`. The other methods are for the thread that runs `turn`.
    """

    def __init__(self, account_id: str, services: SyncServices) -> None:
        self.account_id = account_id
        #: None when there is nothing to report.
        self.progress: SyncProgress | None = None
        self.server = ""
        self.ended = threading.Event()
        self._services, self._store = services, services.store
        self._stop = StopSignal()
        self._lock = threading.Lock()
        self._requests: list[str | None] = []
        self._backoff = FetchBackoff()
        self._failures = Counter[float]()  # by the first delay of their kind
        self._retry_at: float | None = 0.0  # None: when woken
        self._session: SyncSession | None = None
        self._follower: Follower | None = None
        self._has_begun = self._is_idling = self._is_ready = False
        self._last_notice: Notice | None = None
        self._poll_at = self._connected_at = 0.0

    # --- from any thread ---

    def wake(self, path: str | None) -> bool:
        """Check this folder at the next turn. None: check all, and reconnect at once even after a refused sign-in.

        Returns whether the scheduler must run `turn` now.
        """
        with self._lock:
            if path not in self._requests:
                self._requests.append(path)
        return path is None or self._follower is not None

    def stop(self) -> None:
        """Ask the sync to stop before its next batch. It stops in `turn`, so the scheduler must run that once more."""
        self._stop.set()

    def interrupt(self) -> bool:
        """Cut the connection, so that the sync does not wait for a silent server.

        Returns False if the connection is still being opened and could not be cut.
        """
        return self._stop.cut()

    # --- a task ---

    @property
    def is_slow(self) -> bool:
        """Whether the next `turn` opens a connection first, which may take long."""
        return self._follower is None and not self._stop.is_set

    def has_heard(self) -> bool:
        """Whether the server reported a change or closed the connection. True if there is no connection."""
        try:
            return self._session is None or self._session.mailbox.poll_idle()
        except RemoteFault:
            return True

    def turn(self) -> Next:
        """Work for about a second, or until nothing is left to do. Returns when to continue."""
        try:
            return self._work()
        except (Stopped, NotFound):  # NotFound: the mailbox was removed during the turn.
            return self._end()
        except RemoteFault as fault:
            return self._end() if self._stop.is_set else self._handle_fault(fault)
        except Unsupported as problem:
            return self._give_up(AccountError(code=problem.code, message=problem.message))
        except Exception:
            if self._stop.is_set:
                return self._end()
            log.exception("sync_internal_error", extra={"accountId": self.account_id})
            return self._retry_later(AccountError(code="internal_error", message="Internal error; see the log."))

    def _work(self) -> Next:
        self._stop.check()
        if not self._has_begun:
            self._report_start()
        if self._session is None or self._follower is None:
            woken = self._take_requests()
            now = self._services.clock.monotonic()
            if None not in woken and (self._retry_at is None or now < self._retry_at):
                return Rest(None if self._retry_at is None else self._retry_at - now)
            self._follower = self._connect()
            return After.AGAIN
        if self._is_idling:
            self._is_idling = False
            if self._session.mailbox.end_idle():
                self._follower.request_home()
        return self._follow(self._session, self._follower)

    def _follow(self, session: SyncSession, follower: Follower) -> Next:
        clock = self._services.clock
        until = clock.monotonic() + TURN
        while True:
            self._apply_requests(follower)
            result = follower.step()
            if result is StepResult.ROUND_ENDED:
                self._note_round(follower)
            if result is StepResult.NOTHING and follower.return_home():
                self.progress = follower.progress
                if (rest := self._begin_rest(session, follower)) is not None:
                    return rest
            elif clock.monotonic() >= until:
                follower.check_inbox()
                self.progress = follower.progress
                return After.AGAIN

    def _apply_requests(self, follower: Follower) -> None:
        """Pass the folders that `wake` requested to the follower, and request a full check if it is time.

        Raises Stopped.
        """
        self._stop.check()
        for path in self._take_requests():
            follower.request(path)
            if path is None:  # The time to the next round is computed again, as the setting may have changed.
                self._poll_at = self._services.clock.monotonic()
        if self._services.clock.monotonic() >= self._poll_at:
            self._poll_at = self._services.clock.monotonic() + self._poll_interval()
            follower.request_round()

    def _begin_rest(self, session: SyncSession, follower: Follower) -> Rest | None:
        """Start to wait in IDLE. Returns how long and for which socket; None if there is something to do already."""
        mailbox = session.mailbox
        has_heard = self._begin_idle(session, follower) or mailbox.poll_idle()
        # Seen in practice: servers that repeat old reports at the start of each IDLE.
        told = (follower.home_position, mailbox.highest_exists) if has_heard else None
        has_heard, self._last_notice = has_heard and not is_repeated(self._last_notice, told), told
        if has_heard or self._requests:
            if self._is_idling:
                self._is_idling = False
                has_heard = mailbox.end_idle() or has_heard
            if has_heard:
                follower.request_home()
            return None
        left = self._poll_at - self._services.clock.monotonic()
        return Rest(max(0.0, min(left, LONGEST_IDLE)), mailbox.socket)

    def _begin_idle(self, session: SyncSession, follower: Follower) -> bool:
        """Start IDLE if the server supports it. Returns whether the home folder may have changed already."""
        if not follower.can_idle:
            return False
        try:
            self._is_idling = True
            return session.mailbox.begin_idle()
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            self._is_idling = follower.can_idle = False
            return True  # Until now, the home folder was not checked, because IDLE would have reported its changes.

    # --- Connecting, and faults ---

    def _report_start(self) -> None:
        self._has_begun = True
        self._set_status("connecting")
        left = self._store.mailbox_writer.count_without_body(self.account_id)
        self.progress = describe_bodies_left(left) if left else None

    def _connect(self) -> Follower:
        self._is_ready = False
        endpoint = self._services.logins.endpoint(self.account_id, "imap")
        self.server = f"{endpoint.host}:{endpoint.port}"
        mailbox = self._services.connect(self.account_id, self._stop)
        session = SyncSession(self.account_id, self._services, mailbox, self._backoff, self._stop)
        self._session, self._last_notice = session, None
        self._connected_at = self._services.clock.monotonic()
        self._store.accounts.set_capabilities(self.account_id, mailbox.capabilities)
        self._store.accounts.set_status(self.account_id, "syncing")
        self._poll_at = self._services.clock.monotonic() + self._poll_interval()
        return Follower(session)

    def _note_round(self, follower: Follower) -> None:
        self.progress = follower.progress
        if not self._is_ready:
            self._is_ready = True
            self._failures.clear()
            self._store.accounts.set_status(self.account_id, "ready")

    def _handle_fault(self, fault: RemoteFault) -> Next:
        extra = {"accountId": self.account_id, "server": fault.server, "kind": fault.kind}
        log.warning("sync_failed", extra=extra)
        if fault.kind == "login_refused" and (fault.server == "oauth" or fault.name != "token_refused"):
            return self._give_up(account_error_of(fault), "reauth_required")
        if fault.kind == "login_refused":
            return self._retry_later(account_error_of(fault), "reauth_required", is_token=True)
        has_served = self._is_ready and self._services.clock.monotonic() - self._connected_at >= LASTING
        return self._retry_later(None if fault.kind == "disconnected" and has_served else account_error_of(fault))

    def _give_up(self, error: AccountError, status: AccountStatus = "error") -> Next:
        """Disconnect, store the error, and do not retry until `wake` is called for all folders."""
        self._disconnect()
        self._set_status(status, error)
        self._retry_at = None
        return Rest(None)

    def _retry_later(
        self, error: AccountError | None, status: AccountStatus = "error", *, is_token: bool = False
    ) -> Next:
        """Disconnect, and schedule a new connection.

        - error, status: stored for the mailbox until it is connected again. If `error` is None, nothing is stored.
        - is_token: whether an access token was refused. Such failures have retry delays of their own.
        """
        self._backoff.record_failure()
        self._disconnect()
        if error is not None:
            self._set_status(status, error)
        first = TOKEN_RETRY if is_token else FIRST_RETRY
        self._failures[first] += 1
        wait = retry_delay(self._failures[first], first, LONGEST_RETRY, jitter=0.2)
        self._retry_at = self._services.clock.monotonic() + wait
        return Rest(wait)

    def _set_status(self, status: AccountStatus, error: AccountError | None = None) -> None:
        """Store the status of the mailbox. If that fails (disk full), sync continues, and a later status is stored."""
        try:
            self._store.accounts.set_status(self.account_id, status, error)
        except Exception:
            log.exception("account_status_not_recorded", extra={"accountId": self.account_id})

    def _end(self) -> Next:
        self._disconnect()
        self.ended.set()
        return After.ENDED

    def _disconnect(self) -> None:
        session, follower = self._session, self._follower
        self._session = self._follower = None
        self._is_idling = False
        self._stop.detach()
        if follower is not None:
            follower.close()
        if session is not None:
            if session.has_stored:  # A connection that breaks again and again still makes progress.
                self._failures.clear()
            session.mailbox.close()

    def _take_requests(self) -> list[str | None]:
        with self._lock:
            woken, self._requests = self._requests, []
        return woken

    def _poll_interval(self) -> float:
        """The seconds between two full checks: the setting, shortened by up to 10 % at random.

        So mailboxes of one server do not all check it at the same moment.
        """
        return self._services.settings.number("sync.poll_interval") * random.uniform(0.9, 1.0)  # noqa: S311 - no secret
