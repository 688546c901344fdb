"""Attempts to get in: how often they may fail, and how many are looked at at once, whichever way they come.

    limits (two reads, 429)  ->  a place (429)  ->  its turn  ->  room for a failure  ->  hashing  ->  the outcome

A refusal writes nothing. A failure is in the store, with its row in the audit log, before anybody is told.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Literal

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import LogInsBusy, Throttled
from mailbox_appliance.metrics import Counters
from mailbox_appliance.operations.caller import Caller, Origin
from mailbox_appliance.store.members import email_key

PER_EMAIL = 5
PER_ADDRESS = 30
#: Of the current password, by those who have a session already.
PER_MEMBER = 5
FOR_SET_UP = 30
#: Counted under this name, by reason.
REFUSED = "login_failures"

# Attempts at one thing are looked at one after another: each outcome is known before the next one is counted. Only who
# has a place waits here, so few workers ever do.
_TURNS = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True)
class Attempt:
    """One attempt that is being looked at."""

    appliance: Appliance
    caller: Caller
    limits: Mapping[str, int]

    def record_failure(
        self,
        action: str,
        target: tuple[str, str] | None = None,
        outcome: Literal["failure", "denied"] = "failure",
    ) -> None:
        """Count it, and say so in the audit log. Call it before the answer that tells."""
        store = self.appliance.store
        with store.database.transaction():
            store.login_attempts.record_failure(self.limits.keys())
            store.audit.record(self.caller.actor, action, target, outcome)
        self.appliance.counters.increment(REFUSED, reason="suspended" if outcome == "denied" else "wrong")


@contextmanager
def attempted(appliance: Appliance, caller: Caller, limits: Mapping[str, int]) -> Iterator[Attempt]:
    """An attempt that counts in these buckets if it fails; its turn is that of the first. Raises Throttled."""
    attempts = appliance.store.login_attempts
    turn = _TURNS[hash(next(iter(limits))) % len(_TURNS)]
    with ExitStack() as held:
        with _refusals_counted(appliance.counters):
            attempts.require_room(limits)
            held.enter_context(appliance.hashing_slot(is_local=caller.origin.is_local))
            held.enter_context(turn)
            held.enter_context(attempts.reserve(limits))
        yield Attempt(appliance, caller, limits)


@contextmanager
def _refusals_counted(meters: Counters) -> Iterator[None]:
    try:
        yield
    except Throttled as refusal:
        meters.increment(REFUSED, reason="busy" if isinstance(refusal, LogInsBusy) else "throttled")
        raise


def by_email(email: str) -> str:
    """What attempts at a member are counted under: the email as members are found by it."""
    return f"email:{email_key(email)}"


def by_address(origin: Origin) -> str:
    """What attempts from an address are counted under: this computer apart, IPv6 by /64, which one has."""
    if origin.is_local or origin.client_address is None:
        return "address:local"
    address = ip_address(origin.client_address.split("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return f"address:{IPv6Address(int(address) >> 64 << 64)}/64"
    return f"address:{getattr(address, 'ipv4_mapped', None) or address}"
