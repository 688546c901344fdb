"""Keeps one mailbox mirrored, in turns: connects, follows, rests in IDLE.

connecting -> syncing -> ready: everything was looked at once; then what changes is followed
a fault ............... error, tried again after 2 s growing to 5 minutes, at once when told
a refused login ....... reauth_required, tried again only when told: repeated wrong logins lock mailboxes
a refused token ....... reauth_required, tried again from time to time: in an outage servers refuse good ones too
"""

import logging
import random
import threading
from collections.abc import Callable

from mailbox_appliance.errors import NotFound, Unsupported
from mailbox_appliance.events import MessageArrived
from mailbox_appliance.records import AccountError, AccountStatus
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.remote.trouble import trouble
from mailbox_appliance.retry import backoff
from mailbox_appliance.sync.follower import Follower, bodies_left
from mailbox_appliance.sync.house import House
from mailbox_appliance.sync.means import Caution, Means, Stopped
from mailbox_appliance.sync.plan import Told, is_old
from mailbox_appliance.sync.turns import After, Next, Rest

log = logging.getLogger(__name__)

FIRST_RETRY, LONGEST_RETRY = 2.0, 300.0
#: Seconds after which another token is worth a try: one given a moment ago is not replaced (`authorization.tokens`).
TOKEN_RETRY = 45.0
#: Seconds of a turn, after which others have theirs, and the home folder is glanced at.
TURN = 1.0
#: Seconds after which the end of a connection is nothing to tell of: servers end them, as when an access token is over.
LASTING = 60.0
LONGEST_IDLE = 540.0  # RFC 2177: again before 29 minutes; many networks forget a quiet connection after 10


class MailboxSync:
    """A task for the pool. `wake`, `stop` and `interrupt` are for any thread, the rest for the one whose turn it is."""

    def __init__(self, account_id: str, house: House) -> None:
        self.account_id = account_id
        #: How far it has come, for a person; None when there is nothing to tell.
        self.progress: str | None = None
        self.server = ""
        self.ended = threading.Event()
        self._house, self._store = house, house.store
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._woken: list[str | None] = []
        self._caution = Caution()
        self._expect_much()
        self._retry_at: float | None = 0.0  # None: when told
        self._mailbox: ImapMailbox | None = None
        self._follower: Follower | None = None
        self._has_begun = self._is_idling = self._is_ready = self._is_connecting = False
        self._in_vain: Told | None = None
        self._poll_at = self._connected_at = 0.0
        self._cut: Callable[[], None] = _nothing

    # --- from any thread ---

    def wake(self, path: str | None) -> bool:
        """Look at this folder now; None: at all of them, also when a login was refused or a retry is far off.

        Whether that needs a turn.
        """
        with self._lock:
            if path not in self._woken:
                self._woken.append(path)
        return path is None or self._follower is not None

    def stop(self) -> None:
        """Tell it to end; it does so between two batches, and needs a turn for it."""
        self._stopping.set()

    def interrupt(self) -> bool:
        """Cut its connection, so that it does not wait for a server that is silent; False: it only just connects."""
        self._cut()
        return not self._is_connecting

    # --- a task ---

    @property
    def is_slow(self) -> bool:
        """Whether it has to connect first."""
        return self._follower is None and not self._stopping.is_set()

    def has_heard(self) -> bool:
        """Whether the server told of a change, or hung up."""
        try:
            return self._mailbox is None or self._mailbox.idle_news()
        except RemoteFault:
            return True

    def turn(self) -> Next:
        """Work for a second, or until nothing is left to do."""
        try:
            return self._work()
        except (Stopped, NotFound):  # NotFound: the mailbox was removed while we were at it
            return self._end()
        except RemoteFault as fault:
            return self._end() if self._stopping.is_set() else self._fail(fault)
        except Unsupported as problem:
            return self._rest_for_good(AccountError(code=problem.code, message=problem.message))
        except Exception:
            if self._stopping.is_set():
                return self._end()
            log.exception("sync met a fault of ours", extra={"accountId": self.account_id})
            return self._retry_later(AccountError(code="internal_error", message="A fault of ours; the log has more."))

    def _work(self) -> Next:
        self._go_on()
        if not self._has_begun:
            self._begin()
        if self._mailbox is None or self._follower is None:
            woken = self._take_woken()
            now = self._house.clock.monotonic()
            if None not in woken and (self._retry_at is None or now < self._retry_at):
                return Rest(None if self._retry_at is None else self._retry_at - now)
            self._follower = self._connect()
            return After.AGAIN
        if self._is_idling:
            self._is_idling = False
            if self._mailbox.end_idle():
                self._follower.want_home()
        return self._follow(self._mailbox, self._follower)

    def _follow(self, mailbox: ImapMailbox, follower: Follower) -> Next:
        clock = self._house.clock
        until = clock.monotonic() + TURN
        while True:
            self._listen(follower)
            if not follower.step() and follower.is_at_home():
                self.progress = follower.progress
                if (rest := self._rest(mailbox, follower)) is not None:
                    return rest
            elif clock.monotonic() >= until:
                follower.pause()
                follower.glance()
                self.progress = follower.progress
                return After.AGAIN

    def _listen(self, follower: Follower) -> None:
        """Heed what we were told, and the time."""
        self._go_on()
        for path in self._take_woken():
            follower.want(path)
            if path is None:  # the time to the next round is counted anew, as it may have been set to another
                self._poll_at = self._house.clock.monotonic()
        if self._house.clock.monotonic() >= self._poll_at:
            self._poll_at = self._house.clock.monotonic() + self._poll_interval()
            follower.want_round()

    def _rest(self, mailbox: ImapMailbox, follower: Follower) -> Rest | None:
        """Rest until something happens; None when it has already."""
        has_heard = self._begin_idle(mailbox, follower) or mailbox.idle_news()
        # Seen in practice: servers that tell in each IDLE, at once, what they have told before.
        told = (follower.at_home, mailbox.told_exists) if has_heard else None
        has_heard, self._in_vain = has_heard and not is_old(self._in_vain, told), told
        if has_heard or self._woken:
            if self._is_idling:
                self._is_idling = False
                has_heard = mailbox.end_idle() or has_heard
            if has_heard:
                follower.want_home()
            return None
        left = self._poll_at - self._house.clock.monotonic()
        return Rest(max(0.0, min(left, LONGEST_IDLE)), mailbox.socket)

    def _begin_idle(self, mailbox: ImapMailbox, follower: Follower) -> bool:
        """Begin IDLE where that is offered, and not refused all the same; whether there is news already."""
        if not follower.can_idle:
            return False
        try:
            self._is_idling = True
            return mailbox.begin_idle()
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            self._is_idling = follower.can_idle = False
            return False

    # --- connecting, and what goes wrong ---

    def _begin(self) -> None:
        self._has_begun = True
        self._tell("connecting")
        left = self._store.mirror.backlog(self.account_id)
        self.progress = bodies_left(left) if left else None

    def _connect(self) -> Follower:
        self._is_ready = False
        endpoint = self._house.logins.endpoint(self.account_id, "imap")
        self.server = f"{endpoint.host}:{endpoint.port}"
        self._is_connecting = True
        try:
            mailbox = self._house.connect(self.account_id, self._connected)
        finally:
            self._is_connecting = False
        self._mailbox, self._in_vain = mailbox, None
        self._connected_at = self._house.clock.monotonic()
        self._store.accounts.set_capabilities(self.account_id, mailbox.capabilities)
        self._store.accounts.set_status(self.account_id, "syncing")
        self._poll_at = self._house.clock.monotonic() + self._poll_interval()
        house, caution = self._house, self._caution
        means = Means(
            self.account_id, self._store, mailbox, house.parsers, house.clock, caution, self._arrived, self._go_on
        )
        return Follower(means, self._has_synced)

    def _connected(self, cut: Callable[[], None]) -> None:
        self._cut, self._is_connecting = cut, False
        self._go_on()

    def _has_synced(self) -> None:
        self.progress = self._follower.progress if self._follower else None
        if not self._is_ready:
            self._is_ready = True
            self._expect_much()
            self._store.accounts.set_status(self.account_id, "ready")

    def _arrived(self, message_ids: tuple[str, ...]) -> None:
        # Something was brought in: a connection that breaks again and again still gets us there, so try again soon.
        self._expect_much()
        for message_id in message_ids:
            self._house.events.publish(MessageArrived(self.account_id, message_id))

    def _fail(self, fault: RemoteFault) -> Next:
        extra = {"accountId": self.account_id, "server": fault.server, "kind": fault.kind}
        log.warning("sync met a fault", extra=extra)
        if fault.kind == "login_refused" and (fault.server == "oauth" or fault.name != "token_refused"):
            return self._rest_for_good(trouble(fault), "reauth_required")
        if fault.kind == "login_refused":
            return self._retry_later(trouble(fault), "reauth_required", next(self._token_waits))
        has_served = self._is_ready and self._house.clock.monotonic() - self._connected_at >= LASTING
        return self._retry_later(None if fault.kind == "disconnected" and has_served else trouble(fault))

    def _expect_much(self) -> None:
        """Try soon again, should anything go wrong."""
        self._waits = backoff(FIRST_RETRY, LONGEST_RETRY)
        self._token_waits = backoff(TOKEN_RETRY, LONGEST_RETRY)

    def _rest_for_good(self, error: AccountError, status: AccountStatus = "error") -> Next:
        """Try no more until somebody says so."""
        self._disconnect()
        self._tell(status, error)
        self._retry_at = None
        return Rest(None)

    def _retry_later(
        self, error: AccountError | None, status: AccountStatus = "error", wait: float | None = None
    ) -> Next:
        """Connect again; `error`: what to tell meanwhile, if anything."""
        self._caution.broke()
        self._disconnect()
        if error is not None:
            self._tell(status, error)
        wait = next(self._waits) if wait is None else wait
        self._retry_at = self._house.clock.monotonic() + wait
        return Rest(wait)

    def _tell(self, status: AccountStatus, error: AccountError | None = None) -> None:
        """Note a status; that it cannot be noted (a full disk) is no reason to end, it is all tried again later."""
        try:
            self._store.accounts.set_status(self.account_id, status, error)
        except Exception:
            log.exception("the status of a mailbox was not noted", extra={"accountId": self.account_id})

    def _end(self) -> Next:
        self._disconnect()
        self.ended.set()
        return After.ENDED

    def _disconnect(self) -> None:
        mailbox, self._mailbox, self._follower = self._mailbox, None, None
        self._is_idling, self._cut = False, _nothing
        if mailbox is not None:
            mailbox.close()

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise Stopped

    def _take_woken(self) -> list[str | None]:
        with self._lock:
            woken, self._woken = self._woken, []
        return woken

    def _poll_interval(self) -> float:
        """Varied, so that many mailboxes of one server do not ask at the same moment."""
        return self._house.settings.number("sync.poll_interval") * random.uniform(0.9, 1.0)  # noqa: S311 - no secret


def _nothing() -> None:
    """There is no connection to cut."""
