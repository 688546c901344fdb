"""The moment that a Date field names: RFC 5322 3.3, the obsolete forms of 4.3, and what programs write instead."""

import re
from datetime import UTC, datetime, timedelta, timezone

from mailbox_appliance.mail import comments

_LONGEST = 200  # characters that are looked at
_USUAL = re.compile(
    r"\s*(?:[A-Za-z]{3},)?\s*(\d{1,2})\s+([A-Za-z]{3})\s+(\d{4})\s+(\d\d):(\d\d)(?::(\d\d))?\s+([+-]\d\d[0-5]\d)\s*(?:\([^)]*\))?\s*"
)
_TIME = re.compile(r"(\d{1,2})\s*[:.]\s*(\d{1,2})(?:\s*[:.]\s*(\d{1,2})(?:[.,]\d{1,9})?)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_OFFSET = re.compile(r"([+-])(\d\d):?([0-5]\d)(?!\d)")
_YEAR_BEHIND = re.compile(r"(?<![+\-:\d])(\d{4})(?!\d)")
# RFC 5322 4.3 knows the American ones, and takes all others for UTC unless their meaning is known.
# fmt: off
_ZONES = {
    "EDT": -4, "EST": -5, "CDT": -5, "CST": -6, "MDT": -6, "MST": -7, "PDT": -7, "PST": -8,
    "WEST": 1, "CET": 1, "MET": 1, "CEST": 2, "MEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9,
}
# fmt: on


def read(value: str) -> datetime | None:
    """The moment, in UTC; None where the field names none within the years 1 to 9999."""
    value = value[:_LONGEST]
    if match := _USUAL.fullmatch(value):
        day, month, year, hour, minute, second, offset = match.groups()
        return _moment(day, month, int(year), (hour, minute, second), offset)
    value = comments.remove(value).strip()
    return _from_iso(value) or _from_words(value)


def read_local(value: str) -> datetime | None:
    """As `read`, in the offset from UTC that the field names, where it names one."""
    moment = read(value)
    time = _TIME.search(value[:_LONGEST])
    offset = _offset(value[time.end() : _LONGEST]) if time else None
    if moment is None or not offset:
        return moment
    try:
        return moment.astimezone(timezone(timedelta(minutes=offset)))
    except (ValueError, OverflowError):
        return moment


def _from_words(value: str) -> datetime | None:
    """A date whose parts stand in another order, or are written otherwise: around the time all else is looked for."""
    time = _TIME.search(value)
    if time is None:
        return None
    before, behind = value[: time.start()], value[time.end() :]
    numbers = re.findall(r"\d+", before)
    month = next((word for word in re.findall(r"[A-Za-z]{3,9}", before) if word[:3].lower() in _MONTHS), "")
    if len(numbers) == 1 and (year := _YEAR_BEHIND.search(behind)):  # Sun Mar  1 12:30:05 2026
        numbers.append(year[1])
    if len(numbers) != 2 or len(numbers[1]) > 4:
        return None
    return _moment(numbers[0], month, _full_year(numbers[1]), time.groups(), behind)


def _full_year(digits: str) -> int:
    """RFC 5322 4.3: years of two and three digits."""
    year = int(digits)
    if len(digits) > 3:
        return year
    return year + (2000 if len(digits) < 3 and year < 50 else 1900)


def _from_iso(value: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(re.sub(r"\s+(?=[+-]\d\d:?\d\d$)", "", value))
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _moment(day: str, month: str, year: int, time: tuple[str | None, ...], zone: str) -> datetime | None:
    hour, minute, second = (int(part or 0) for part in time)
    offset = _offset(zone)
    if month[:3].lower() not in _MONTHS or offset is None:
        return None
    try:
        # A leap second is the last of its minute.
        local = datetime(
            year, _MONTHS.index(month[:3].lower()) + 1, int(day), hour, minute, min(second, 59), tzinfo=UTC
        )
        return local - timedelta(minutes=offset)
    except (ValueError, OverflowError):
        return None


def _offset(zone: str) -> int | None:
    """Minutes east of Greenwich; None for an offset that cannot be one."""
    if match := _OFFSET.search(zone):
        minutes = int(match[2]) * 60 + int(match[3])
        return -minutes if match[1] == "-" else minutes
    if re.search(r"[+-]\s*\d{5}", zone):
        return None
    return next((60 * _ZONES[word.upper()] for word in re.findall(r"[A-Za-z]+", zone) if word.upper() in _ZONES), 0)
