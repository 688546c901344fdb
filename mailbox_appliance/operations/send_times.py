"""When a message is to be sent: RFC 3339, in the future, not too far ahead."""

import re
from datetime import datetime, timedelta

from msgspec import UNSET, UnsetType

from mailbox_appliance.clock import from_millis, from_timestamp, to_millis
from mailbox_appliance.errors import Invalid

FARTHEST_AHEAD = timedelta(days=366)
_DATE_TIME = re.compile(  # RFC 3339 5.6
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})", re.IGNORECASE
)


def read_send_at(text: str | UnsetType, now: datetime) -> datetime | None:
    """The time to send at, cut to milliseconds; None where none was given.

    Raises Invalid where it is no RFC 3339 date-time, is past, or is more than 366 days ahead.
    """
    if text is UNSET:
        return None
    try:
        if not _DATE_TIME.fullmatch(text):
            raise ValueError("not as RFC 3339 writes it")
        moment = from_millis(to_millis(from_timestamp(text)))
    except ValueError as error:
        raise Invalid.at("/sendAt", "This is no date-time, such as 2030-01-31T09:00:00Z.") from error
    if not now < moment <= now + FARTHEST_AHEAD:
        raise Invalid.at("/sendAt", f"This must be in the future, at most {FARTHEST_AHEAD.days} days ahead.")
    return moment
