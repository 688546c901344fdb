"""When a message is to be sent: what is a time, and what it comes to."""

from datetime import UTC, datetime

import pytest
from msgspec import UNSET

from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.errors import Invalid
from mailbox_appliance.operations.message_input import read_send_at

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00.001Z", "2026-01-31T12:00:00.001Z"),
        ("2026-01-31T12:00:00.0019Z", "2026-01-31T12:00:00.001Z"),  # kept to the millisecond
        ("2026-01-31t13:01:00+01:00", "2026-01-31T12:01:00Z"),
        ("2027-02-01T12:00:00Z", "2027-02-01T12:00:00Z"),
        ("2026-02-01T00:00:00-23:59", "2026-02-01T23:59:00Z"),
    ],
)
def test_a_time_to_send_at(text: str, moment: str) -> None:
    assert read_send_at(text, NOW) == from_timestamp(moment)


def test_no_time_is_now() -> None:
    assert read_send_at(UNSET, NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "tomorrow", "2026-02-01", "20260201T120000Z", "2026-02-01T12:00:00", "2026-02-01 12:00:00Z"),
        *("2026-02-30T12:00:00Z", "2026-02-01T25:00:00Z", "2026-02-01T12:00Z", "2026-W06-1T12:00:00Z"),
        *("2026-02-01T12:00:00Z\n", "２026-02-01T12:00:00Z", "2026-02-01T12:00:00+24:00", "9" * 100_000),
        *("2026-01-31T12:00:00Z", "2026-01-31T12:59:59+01:00", "1970-01-01T00:00:00Z"),  # past
        *("2027-02-01T12:00:01Z", "9999-12-31T23:59:59-23:59"),  # too far ahead
    ],
)
def test_no_time_to_send_at(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_send_at(text, NOW)
    assert [detail.path for detail in caught.value.details] == ["/sendAt"]
