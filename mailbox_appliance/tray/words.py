"""What the menu and the notices say alike: what needs somebody, how a mailbox is, times and numbers. Pure."""

import re

from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.tray.state import Access, Mailbox, State

#: How the warning of the API begins that a daily backup has failed.
_FAILED_BACKUP = "The daily backup could not be made"
_STATUS = {"connecting": "connecting…", "ready": "up to date", "reauth_required": "needs you to sign in again"}
#: Why a mailbox is in error, by the code of it.
_ERROR = {
    "provider_unavailable": "its mail server cannot be reached",
    "provider_rate_limited": "its mail server asks us to wait",
    "unsupported_capability": "its mail server is not supported",
    "internal_error": "a fault of ours, see the log folder",
}
_GROUPS_A_LINE = 8
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def needs(state: State) -> tuple[str, ...]:
    """What somebody should see to, each in a few words."""
    found = ["A mailbox needs you to sign in again"] * sum(is_lost(mailbox) for mailbox in state.mailboxes)
    found += ["A send is uncertain"] * state.uncertain
    if state.access is not Access.ADMINISTRATOR:
        return tuple(found)  # the rest is told to all, and is for others to see to
    found += [_warning(warning) for warning in state.warnings]
    if has_failed_backup(state) and not any(_is_of_backup(warning) for warning in state.warnings):
        found.append("The last backup failed")
    return tuple(found)


def is_lost(mailbox: Mailbox) -> bool:
    """Whether its provider or server ended the access."""
    return mailbox.status == "reauth_required"


def is_busy(mailbox: Mailbox) -> bool:
    """Whether not all of its mail is here yet, and that is being seen to."""
    return mailbox.status in ("connecting", "syncing") or (mailbox.status == "ready" and mailbox.progress is not None)


def has_failed_backup(state: State) -> bool:
    """Whether the newest backup was to be made, and was not."""
    return any(map(_is_of_backup, state.warnings)) or (state.backup is not None and not state.backup.succeeded)


def status_of(mailbox: Mailbox) -> str:
    """How a mailbox is."""
    if mailbox.status == "error":
        return f"offline: {_ERROR.get(mailbox.error or '', 'its mail server cannot be reached')}"
    if mailbox.status != "connecting" and is_busy(mailbox):
        percent = percent_of(mailbox.progress)
        return "fetching…" if percent is None else f"fetching {percent} %"
    return _STATUS.get(mailbox.status, mailbox.status)


def percent_of(progress: str | None) -> int | None:
    """How much of `1,200 of 5,000 messages` is done; never all of it, since then nothing would be told."""
    match = re.match(r"([0-9,]+) of ([0-9,]+) ", progress or "")
    if match is None:
        return None
    done, total = (int(digits.replace(",", "")) for digits in match.groups())
    return min(99, done * 100 // total) if total else None


def fingerprint_lines(fingerprint: str) -> tuple[str, ...]:
    """A fingerprint to be compared by eye: its digits in groups of four, on two lines."""
    digits = fingerprint.removeprefix("sha256:")
    groups = [digits[at : at + 4] for at in range(0, len(digits), 4)]
    lines = [" ".join(groups[at : at + _GROUPS_A_LINE]) for at in range(0, len(groups), _GROUPS_A_LINE)]
    return (f"Fingerprint: {lines[0]}", *lines[1:]) if lines else ()


def backup_of(timestamp: str) -> str:
    """When a backup was made, by the clock on the wall here: `22 Nov 2026, 06:46`."""
    try:
        at = from_timestamp(timestamp).astimezone()
    except (ValueError, OverflowError, OSError):
        return timestamp
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}, {at:%H:%M}"


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """`1 send`, `2 sends`."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def shortened(text: str, longest: int) -> str:
    """A text in one row of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _warning(warning: str) -> str:
    return "The daily backup failed" if _is_of_backup(warning) else "A warning needs you"


def _is_of_backup(warning: str) -> bool:
    return warning.startswith(_FAILED_BACKUP)
