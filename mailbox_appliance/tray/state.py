"""The state of the appliance as the tray knows it, texts about it, and the polling schedule."""

from dataclasses import dataclass
from enum import Enum

from mailbox_appliance.clock import Clock, from_timestamp
from mailbox_appliance.system.crashes import Crash


class ServiceState(Enum):
    """The state of the service that runs on the tray's data directory."""

    STOPPED = "stopped"
    STARTING = "starting"
    ANSWERS = "answers"
    #: It cannot serve now, as while a restore replaces its store.
    RESTS = "rests"
    #: It has answered, and is ending.
    STOPPING = "stopping"
    #: A process owns the data directory and does not answer.
    SILENT = "silent"


class AccessLevel(Enum):
    """The permissions of the tray's session: none, those of a member, or those of an administrator."""

    #: Nobody is signed in on this computer, or the session has ended.
    NOBODY = "nobody"
    #: The session's token is in a keychain that is locked, or does not answer.
    LOCKED = "locked"
    MEMBER = "member"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True)
class MailboxState:
    """A mailbox as the tray knows it.

    `status`, `error`: its status in the API and the code of its error. `is_fetching`: mail is being fetched. `count`:
    the number of messages fetched so far, and of all to fetch; None if not known.
    """

    email: str
    status: str
    error: str | None = None
    is_fetching: bool = False
    count: tuple[int, int] | None = None


@dataclass(frozen=True)
class HttpsState:
    """The state of remote access: whether it is on, its address, and the certificate's fingerprint (`sha256:HEX`)."""

    enabled: bool
    url: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class AuditOutcome:
    """The outcome of an action in the audit log: the ID of its entry, and whether the action succeeded."""

    id: str
    succeeded: bool


@dataclass(frozen=True)
class TrayState:
    """The state from which menus and notifications are derived.

    Values that the session may not read are None or empty.
    """

    service: ServiceState
    #: The address of the console; None while nothing answers.
    url: str | None = None
    #: The setup code, while there is no administrator yet.
    setup_code: str | None = None
    access: AccessLevel = AccessLevel.NOBODY
    mailboxes: tuple[MailboxState, ...] = ()
    uncertain: int = 0
    queued: int = 0
    warnings: tuple[str, ...] = ()
    #: Whether the last daily backup failed; one of the warnings gives the reason.
    has_failed_daily_backup: bool = False
    #: How many webhooks of this member were disabled because they failed; one of the warnings is about them.
    disabled_webhooks: int = 0
    #: How many messages wait for an approval that this member can give.
    pending_approvals: int = 0
    #: ID of the newest one that was pending at a poll; IDs sort in the order of their creation.
    newest_approval: str = ""
    #: Whether a backup is in progress, no matter who started it.
    is_backing_up: bool = False
    #: The time of the newest backup (RFC 3339, UTC); None if there is none, or this member may not see it.
    last_backup: str | None = None
    #: The outcomes of the newest backup and the newest restore, for administrators.
    backup: AuditOutcome | None = None
    restore: AuditOutcome | None = None
    https: HttpsState | None = None
    #: The last crash, until an administrator dismisses it.
    last_crash: Crash | None = None
    #: The reason why the last start failed.
    not_started: str | None = None
    #: Whether the tray starts when this user signs in to the computer; None if that is not available here.
    starts_at_login: bool | None = None
    #: Whether a service manager (systemd) keeps the appliance running, so that the tray must not stop it.
    is_kept: bool = False


# --- Texts that the menu and notifications share: what needs attention, mailboxes, times and numbers. Pure ---


_STATUS = {"connecting": "connecting…", "ready": "up to date", "reauth_required": "needs a new sign-in"}
_OFFLINE = "offline: its mail server cannot be reached"
#: The status of a mailbox in error, by error code.
_ERROR = {
    "provider_rate_limited": "paused by the provider's rate limit",
    "unsupported_capability": "offline: its mail server is not supported",
    "internal_error": "internal error, see the log folder",
}
_GROUPS_A_LINE = 8
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def attention_texts(state: TrayState) -> tuple[str, ...]:
    """Return a short text for each item that needs attention. Some items are only for administrators."""
    found = ["A mailbox needs a new sign-in"] * sum(has_lost_access(mailbox) for mailbox in state.mailboxes)
    found += ["A message may not have been sent"] * state.uncertain
    found += ["A message waits for approval"] * state.pending_approvals
    found += ["A webhook was disabled"] * state.disabled_webhooks
    if state.access is not AccessLevel.ADMINISTRATOR:
        return tuple(found)  # all members see the rest, but only administrators can act on it
    others = len(state.warnings) - bool(state.disabled_webhooks)
    if state.has_failed_daily_backup:
        found.append("The daily backup failed")
        others -= 1
    elif has_failed_backup(state):
        found.append("The last backup failed")
    return (*found, *["1 warning"] * others)


def has_lost_access(mailbox: MailboxState) -> bool:
    """Whether the appliance can no longer sign in to a mailbox, so that the user must do so again."""
    return mailbox.status == "reauth_required"


def is_busy(mailbox: MailboxState) -> bool:
    """Whether a mailbox is still fetching mail."""
    return mailbox.status in ("connecting", "syncing") or (mailbox.status == "ready" and mailbox.is_fetching)


def has_failed_backup(state: TrayState) -> bool:
    """Whether the newest attempt to make a backup failed."""
    return state.has_failed_daily_backup or (state.backup is not None and not state.backup.succeeded)


def mailbox_status_text(mailbox: MailboxState) -> str:
    """Return the status of a mailbox in a few words, for its menu row."""
    if mailbox.status == "error":
        return _ERROR.get(mailbox.error or "", _OFFLINE)
    if mailbox.status != "connecting" and is_busy(mailbox):
        percent = percent_done(mailbox)
        return "fetching…" if percent is None else f"fetching {percent}%"
    return _STATUS.get(mailbox.status, mailbox.status)


def percent_done(mailbox: MailboxState) -> int | None:
    """Return the percentage of messages fetched; None if it is unknown.

    At most 99: after the last message, the mailbox gets another status text without a percentage.
    """
    done, total = mailbox.count or (0, 0)
    return min(99, done * 100 // total) if total else None


def fingerprint_lines(fingerprint: str) -> tuple[str, ...]:
    """Return the hex digits of a fingerprint for comparison by eye: in groups of four, on two lines."""
    digits = fingerprint.removeprefix("sha256:")
    groups = [digits[at : at + 4] for at in range(0, len(digits), 4)]
    lines = [" ".join(groups[at : at + _GROUPS_A_LINE]) for at in range(0, len(groups), _GROUPS_A_LINE)]
    return (f"Fingerprint: {lines[0]}", *lines[1:]) if lines else ()


def backup_time_text(timestamp: str) -> str:
    """Return a UTC timestamp (RFC 3339) as local time, such as `22 Nov 2026, 06:46`; an invalid one unchanged."""
    try:
        at = from_timestamp(timestamp).astimezone()
    except (ValueError, OverflowError, OSError):
        return timestamp
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}, {at:%H:%M}"


def count_text(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a number with its noun: `1 message`, `2 messages`. `nouns`: the plural, by default the noun with an s."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def shorten(text: str, longest: int) -> str:
    """Return a text on one line of at most `longest` characters, ending with an ellipsis if it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


# --- When the tray polls: often while something changes or the user is present, otherwise rarely ---
#
# Each poll is a few requests, which keep a disk awake and write lines in the log of the appliance.


#: Seconds between two polls while nothing changes.
QUIET_EVERY = 30.0
#: Seconds for which the user counts as present after the menu was opened.
LIVELY_FOR = 60.0
#: Minimum seconds between two polls of everything because the menu opens.
_HURRIES_EVERY = 2.0


class PollSchedule:
    """Decides when the tray polls: more often while the user is present or a change is expected. Any thread may use it.

    At the start, the user counts as present.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._touched_at = clock.monotonic()
        self._looked_at = self._hurried_at = float("-inf")

    def note_use(self) -> None:
        """Record that the user is present, since they use the tray."""
        self._touched_at = self._clock.monotonic()

    def try_poll_all(self) -> bool:
        """Return whether all values may be polled now because the menu has been opened.

        After True, the result is False for some time, so that a menu that is opened often does not cause many requests.
        """
        now = self._clock.monotonic()
        if now < self._hurried_at + _HURRIES_EVERY:
            return False
        self._hurried_at = now
        return True

    def note_poll(self) -> None:
        """Record that a poll begins now."""
        self._looked_at = self._clock.monotonic()

    def is_due(self, state: TrayState) -> bool:
        """Whether it is time for the next poll. `state`: the result of the last poll.

        The tray also polls, without regard to this, when files of the data directory show a change.
        """
        now = self._clock.monotonic()
        return now < self._touched_at + LIVELY_FOR or now >= self._looked_at + QUIET_EVERY or _is_changing(state)


def _is_changing(state: TrayState) -> bool:
    """Whether the state is expected to change soon, as during a start, a backup or a first sync.

    False for a stopped service: its files show when it starts again, so frequent polls are not necessary.
    """
    if state.service not in (ServiceState.ANSWERS, ServiceState.STOPPED):
        return True
    return state.service is ServiceState.ANSWERS and (state.is_backing_up or any(map(is_busy, state.mailboxes)))
