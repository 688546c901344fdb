"""Times on a command line, and the times that the API gets."""

import os
import time
from collections.abc import Iterator

import pytest

from mailbox_appliance.cli.inputs import parse_moment
from mailbox_appliance.client.errors import Failure

# fmt: off
#: what is written, in Berlin -> what is sent
UNDERSTOOD: list[tuple[str, str]] = [
    ("2030-01-31T09:00:00Z",              "2030-01-31T09:00:00Z"),
    ("2030-01-31t09:00:00.25z",           "2030-01-31t09:00:00.25z"),
    ("2030-01-31T09:00:00-03:30",         "2030-01-31T09:00:00-03:30"),
    (" 2030-01-31 09:00:00+01:00 ",       "2030-01-31T09:00:00+01:00"),
    ("2030-01-31T09:00:00",               "2030-01-31T09:00:00+01:00"),
    ("2030-01-31T09:00",                  "2030-01-31T09:00:00+01:00"),
    ("2030-07-31 09:00",                  "2030-07-31T09:00:00+02:00"),
]
NOT_UNDERSTOOD: list[str] = [
    "", "tomorrow", "09:00", "2030-01-31", "2030-01-31T09:00Z", "2030-01-31T09:00:00+0100", "2030-02-30T09:00:00Z",
    "2030-02-30 09:00", "2030-01-31T24:00", "2030-01-31T09:00:00+25:00", "1893456000", "31.01.2030 09:00",
    "0001-01-01T00:00", "2030-01-31T09:00:00Z\n-",
    # Summer time: 2030-03-31 02:00 does not exist, 2030-10-27 02:30 comes twice.
    "2030-03-31T02:30", "2030-10-27T02:30",
]
# fmt: on


@pytest.fixture(autouse=True)
def in_berlin() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"  # POSIX: needs no files
    time.tzset()
    yield
    del os.environ["TZ"]
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(("written", "sent"), UNDERSTOOD)
def test_what_is_understood(written: str, sent: str) -> None:
    assert parse_moment(written, "--send-at") == sent


@pytest.mark.parametrize("written", NOT_UNDERSTOOD)
def test_what_is_not_is_told_with_an_example(written: str) -> None:
    with pytest.raises(Failure) as caught:
        parse_moment(written, "--send-at")
    assert (caught.value.exit_code, caught.value.details[0][0]) == (2, "option:--send-at")
    assert "+01:00" in caught.value.message
