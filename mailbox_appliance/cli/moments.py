"""A moment as a person writes it on a command line, and as the API takes it."""

import re

from mailbox_appliance.client.errors import Failure, wrong_usage

_DAY_AND_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"
#: RFC 3339 5.6; its 5.6 lets T and Z be lower case.
_WITH_OFFSET = re.compile(_DAY_AND_TIME + r":[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})", re.IGNORECASE)
_LOCAL = re.compile(_DAY_AND_TIME + r"(:[0-9]{2})?", re.IGNORECASE)
#: What is understood, for the help of an option.
FORMS = "RFC 3339, such as 2030-01-31T09:00:00Z or ...+01:00; without an offset: the time of this computer"


def rfc3339(text: str, option: str) -> str:
    """The date-time that is meant. One without an offset is of this computer's time zone, and gets its offset.

    Raises a Failure that names the option for what is no date-time, and for a local time that the clock shows twice or
    never, since nobody can know which moment that is.
    """
    written = text.strip()
    try:
        if _WITH_OFFSET.fullmatch(written):
            return _checked(written)
        if _LOCAL.fullmatch(written):
            return _with_local_offset(written, option)
    except (ValueError, OverflowError) as error:  # the 31st of February; a year that the clock does not know
        raise _no_moment(text, option) from error
    raise _no_moment(text, option)


def _checked(written: str) -> str:
    from datetime import datetime

    datetime.fromisoformat(written.upper())
    return written.replace(" ", "T")


def _with_local_offset(written: str, option: str) -> str:
    from datetime import datetime

    moment = datetime.fromisoformat(written.upper())
    # Where summer time begins or ends, both readings (PEP 495) differ.
    first, second = (moment.replace(fold=fold).astimezone() for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        message = f"The clock of this computer shows {written} twice or never: add the offset, such as +01:00."
        raise wrong_usage(message, f"option:{option}")
    return first.isoformat()


def _no_moment(text: str, option: str) -> Failure:
    return wrong_usage(f"{text!r} is no date-time. Give one in {FORMS}.", f"option:{option}")
