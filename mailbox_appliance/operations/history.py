"""How much was sent and how much came, over the last hours: the numbers of a chart."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.model.records import Capability, Count, Timestamp, Wire
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation

Hours = Annotated[int, msgspec.Meta(ge=1, le=168, description="How many hours back: up to a week.")]
#: Up to so many hours -> the seconds of a step; beyond the last, six hours.
_STEPS = ((6, 300), (48, 3600))
_LONGEST_STEP = 21_600


class DeliveriesInStep(Wire, frozen=True, kw_only=True):
    """Deliveries accepted in a step, by what became of them until now; `other`: queued, or being sent."""

    at: Timestamp
    succeeded: Count
    failed: Count
    uncertain: Count
    other: Count


class ArrivalsInStep(Wire, frozen=True, kw_only=True):
    """Messages that the mail servers received in a step."""

    at: Timestamp
    messages: Count


class History(Wire, frozen=True, kw_only=True):
    """What happened from `from` to `to`, in steps of so many seconds; each step is named by its beginning."""

    from_: Timestamp = msgspec.field(name="from")
    to: Timestamp
    step_seconds: int
    deliveries: tuple[DeliveriesInStep, ...]
    arrived: tuple[ArrivalsInStep, ...]


@operation(needs=Capability.MAIL_READ, tag="history")
def get_history(appliance: Appliance, caller: Caller, hours: Hours = 24) -> History:
    """Deliveries and messages that came, over the last hours, in the mailboxes that you reach.

    Of deliveries those count that you see in lists of them. Messages count when the mail server received them, and
    as long as they are there; what was sent from here and drafts do not. Steps are 5 minutes long (up to 6 hours), an
    hour (up to 48), or 6 hours; the last one is not over yet.
    """
    step = next((seconds for most, seconds in _STEPS if hours <= most), _LONGEST_STEP)
    since, until = _span(appliance.clock.now(), hours * 3600, step)
    accounts = json.dumps([a.id for a in permissions.reachable_accounts(appliance.store, caller.required_credential)])
    sent = appliance.store.history.count_deliveries(accounts, caller.member.id, since, step)
    came = appliance.store.history.count_arrivals(accounts, since, until, step)
    times = [
        to_timestamp(since + timedelta(seconds=step * n)) for n in range(int((until - since).total_seconds()) // step)
    ]
    return History(
        from_=times[0],
        to=to_timestamp(until),
        step_seconds=step,
        deliveries=tuple(_of_step(at, sent.get(index, {})) for index, at in enumerate(times)),
        arrived=tuple(ArrivalsInStep(at=at, messages=came.get(index, 0)) for index, at in enumerate(times)),
    )


def _span(now: datetime, seconds: int, step: int) -> tuple[datetime, datetime]:
    """Whole steps, by the clock in UTC; now is in the last one."""
    end = int(now.timestamp()) // step * step + step
    length = -(-seconds // step) * step
    return datetime.fromtimestamp(end - length, UTC), datetime.fromtimestamp(end, UTC)


def _of_step(at: str, found: Mapping[str, int]) -> DeliveriesInStep:
    other = found.get("queued", 0) + found.get("sending", 0)
    return DeliveriesInStep(
        at=at,
        succeeded=found.get("succeeded", 0),
        failed=found.get("failed", 0),
        uncertain=found.get("uncertain", 0),
        other=other,
    )
