"""The changelog in Debian's format, made from CHANGELOG.md."""

import re
import textwrap
from datetime import UTC, datetime
from email.utils import format_datetime

_NAME, _MAINTAINER = "mailbox-appliance", "The authors of mailbox-appliance <maintainers@example.org>"
_HEADING = re.compile(r"^## (\S+)(?: \((\d{4}-\d\d-\d\d)\))?.*$", re.MULTILINE)
_ITEM = re.compile(r"^- (.+(?:\n  .+)*)", re.MULTILINE)


def written(changelog: str, version: str, released: int) -> str:
    """Return all releases, newest first. The newest is named `version` and dated `released`, in seconds since 1970."""
    # Tests may build an unreleased state under another name.
    _, *rest = _HEADING.split(changelog)
    blocks = list(zip(rest[::3], rest[1::3], rest[2::3], strict=True))
    names = [version, *(name for name, _, _ in blocks[1:])]
    return "\n".join(
        _entry(name, _moment(day, released), _ITEM.findall(text))
        for name, (_, day, text) in zip(names, blocks, strict=True)
    )


def _entry(version: str, moment: datetime, items: list[str]) -> str:
    lines = [
        textwrap.fill(
            " ".join(item.split()), 78, initial_indent="  * ", subsequent_indent="    ", break_long_words=False
        )
        for item in items
    ]
    body = "\n".join(lines)
    heading, end = f"{_NAME} ({debian_version(version)}) stable; urgency=medium", format_datetime(moment)
    return f"{heading}\n\n{body}\n\n -- {_MAINTAINER}  {end}\n"


def _moment(day: str, released: int) -> datetime:
    return datetime.fromisoformat(f"{day}T12:00:00+00:00") if day else datetime.fromtimestamp(released, UTC)


def debian_version(version: str) -> str:
    """Return a version that Debian sorts correctly: a pre-release is older than its release (1.0rc1 -> 1.0~rc1)."""
    return re.sub(r"(?<=\d)(a|b|rc|\.dev)(?=\d)", lambda found: "~" + found[0].lstrip("."), version)
