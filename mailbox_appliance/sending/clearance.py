"""Whether a scheduled send may go when its turn has come: the world may have changed since it was accepted.

Nothing ends for good because it is too late by a wall clock that has only just jumped ahead, and may be put right soon.
"""

import threading
from datetime import datetime, timedelta

from mailbox_appliance import permissions
from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.address import same_mailbox
from mailbox_appliance.model.records import DeliveryWork
from mailbox_appliance.store.store import Store

#: How long a scheduled message is tried, from the time at which it was to go.
TRIED_FOR = timedelta(hours=24)
#: A jump ahead of more than this is believed after so many seconds; any jump back, and a smaller one, is at once.
_JUMP = timedelta(minutes=5)
_BELIEVED_AFTER = 120.0


class ClockGuard:
    """Whether the wall clock has been where it is for a while. At the start it is believed. For any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._believed = self._started_at()
        self._doubted: datetime | None = None
        self._since = 0.0

    def is_trusted(self) -> bool:
        """Asked now; who asks more often learns sooner of a jump."""
        with self._lock:
            seen, passed = self._started_at(), self._clock.monotonic()
            if seen - self._believed > _JUMP:
                if self._doubted is None or abs(seen - self._doubted) > _JUMP:
                    self._doubted, self._since = seen, passed
                if passed - self._since < _BELIEVED_AFTER:
                    return False
            self._believed, self._doubted = seen, None
            return True

    def _started_at(self) -> datetime:
        """When `monotonic` was 0 by the wall clock, which changes where that jumps, and the other one does not."""
        return self._clock.now() - timedelta(seconds=self._clock.monotonic())


def why_blocked(store: Store, clock: Clock, work: DeliveryWork) -> str | None:
    """The code with which it fails, or None where it may go."""
    try:
        own = store.sender_addresses.list_of(store.accounts.get(work.account_id))
    except NotFound:
        return "account_removed"
    if not permissions.may_send_now(store, work.account_id, work.credential_id, work.member_id):
        return "permission_revoked"
    if not any(same_mailbox(work.envelope.sender, each.email) for each in own):
        return "sender_rejected"
    return code_when_too_late(work.last_cause) if is_too_late(work, clock) else None


def is_too_late(work: DeliveryWork, clock: Clock) -> bool:
    """Whether a scheduled message has been tried, or was missed, for so long that it is not to go any more."""
    return work.send_at is not None and clock.now() - work.send_at >= TRIED_FOR


#: The codes that only time brings.
TOO_LATE = ("expired", "authentication_failed")


def code_when_too_late(last_cause: str | None) -> str:
    """What a scheduled message failed of in the end."""
    return "authentication_failed" if last_cause == "login" else "expired"
