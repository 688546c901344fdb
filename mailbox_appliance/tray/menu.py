"""State -> what is seen: the rows of the menu, the look of the icon, and what pointing at it tells. Pure.

First how the appliance is and what somebody should see to, then mailboxes, backups, access, and the program itself. A
row that cannot be clicked now says why, where its label has room for that and the first row does not tell already.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mailbox_appliance.tray.host import Look
from mailbox_appliance.tray.rows import SEPARATOR, Action, Row
from mailbox_appliance.tray.state import Access, Mailbox, Service, State
from mailbox_appliance.tray.words import (
    backup_of,
    counted,
    fingerprint_lines,
    has_failed_backup,
    is_busy,
    needs,
    percent_of,
    shortened,
    status_of,
)

#: So many mailboxes and warnings have a row each; of more there is one that tells how many.
MOST_MAILBOXES, MOST_WARNINGS = 12, 3
_LONGEST_EMAIL, _LONGEST_WARNING = 44, 72
#: First those that somebody should see to, so that they are not among the rest.
_ORDER = {"reauth_required": 0, "error": 1, "connecting": 2, "syncing": 2, "ready": 3}
_WITHOUT_ANSWERS = {
    Service.STOPPED: "The appliance is stopped",
    Service.STARTING: "The appliance is starting…",
    Service.RESTS: "The appliance is restarting…",
    Service.STOPPING: "The appliance is stopping…",
    Service.SILENT: "The appliance does not answer",
}
#: What can be told to end: it has said which process it is.
_STOPPABLE = (Service.ANSWERS, Service.RESTS, Service.SILENT)


def rows(state: State) -> tuple[Row, ...]:
    """The menu, from top to bottom."""
    groups = (_top(state), _mail(state), _backups(state), _access(state), _program(state))
    joined: list[Row] = []
    for group in groups:
        found = list(group)
        if joined and found:
            joined.append(SEPARATOR)
        joined += found
    return tuple(joined)


def look(state: State) -> Look:
    """How the icon looks: grey while nobody is served, with a dot where somebody should see to something."""
    if state.service is Service.SILENT:
        return Look.ATTENTION
    if state.service is not Service.ANSWERS:
        return Look.STOPPED
    if state.access is Access.LOCKED:
        return Look.ATTENTION
    return Look.ATTENTION if state.setup_code or needs(state) else Look.WELL


def title(state: State) -> str:
    """How it all is, in a few words; the first row, and what pointing at the icon tells."""
    if (words := _WITHOUT_ANSWERS.get(state.service)) is not None:
        return words
    if state.setup_code:
        return "Ready to be set up"
    if state.access is Access.LOCKED:
        return "The keychain is locked"
    if state.access is Access.NOBODY:
        return "Nobody is logged in"
    needing = needs(state)
    if len(needing) > 1:
        return f"{len(needing)} things need you"
    return needing[0] if needing else _undisturbed(state)


def _undisturbed(state: State) -> str:
    away = sum(mailbox.status == "error" for mailbox in state.mailboxes)
    if away:
        return f"{counted(away, 'mailbox', 'mailboxes')} {'is' if away == 1 else 'are'} offline"
    if state.is_backing_up:
        return "A backup is being made…"
    if not state.mailboxes:
        return "No mailbox is connected yet"
    busy = [mailbox for mailbox in state.mailboxes if is_busy(mailbox)]
    return _fetching(busy) if busy else "Everything is up to date"


def _fetching(busy: list[Mailbox]) -> str:
    percent = percent_of(busy[0].progress) if len(busy) == 1 else None
    return "Mail is being fetched…" if percent is None else f"Mail is being fetched: {percent} %"


# --- the groups ---


def _top(state: State) -> Iterator[Row]:
    yield Row(title(state), enabled=False)
    if state.service is Service.STOPPED:
        if state.not_started is not None:  # a notice is gone by the time somebody looks
            yield Row(shortened(f"It did not start: {state.not_started}", _LONGEST_WARNING), Action.OPEN_LOGS)
        yield Row("Start the appliance", Action.START)
    if state.service is not Service.ANSWERS:
        return
    if state.setup_code:
        yield Row("Set up…", Action.SET_UP)
        yield Row(f"Set-up code: {state.setup_code}", Action.COPY_SETUP_CODE)
    elif state.access is Access.LOCKED:
        yield Row("Ask the keychain again", Action.UNLOCK)
    elif state.access is Access.NOBODY:
        yield Row("Log in…", Action.LOG_IN)
    elif state.uncertain:
        verb = "is" if state.uncertain == 1 else "are"
        yield Row(f"{counted(state.uncertain, 'send')} {verb} uncertain: decide…", Action.SHOW_UNCERTAIN)
    yield from _warnings(state)


def _warnings(state: State) -> Iterator[Row]:
    for warning in state.warnings[:MOST_WARNINGS]:
        yield Row(shortened(warning, _LONGEST_WARNING), Action.OPEN_CONSOLE)
    if (more := len(state.warnings) - MOST_WARNINGS) > 0:
        yield Row(f"and {counted(more, 'more warning')}…", Action.OPEN_CONSOLE)


def _mail(state: State) -> Iterator[Row]:
    yield Row("Open console", Action.OPEN_CONSOLE, enabled=state.url is not None and state.service is Service.ANSWERS)
    if not _is_in(state):
        return
    ordered = sorted(state.mailboxes, key=lambda mailbox: (_ORDER.get(mailbox.status, 1), mailbox.email))
    for mailbox in ordered[:MOST_MAILBOXES]:
        yield Row(f"{shortened(mailbox.email, _LONGEST_EMAIL)}: {status_of(mailbox)}", Action.SHOW_MAILBOXES)
    if (more := len(ordered) - MOST_MAILBOXES) > 0:
        yield Row(f"and {more} more…", Action.SHOW_MAILBOXES)
    if not ordered:
        yield Row("Connect a mailbox…", Action.SHOW_MAILBOXES)
    if state.queued:
        verb = "waits" if state.queued == 1 else "wait"
        yield Row(f"{counted(state.queued, 'message')} {verb} to be sent", enabled=False)


def _backups(state: State) -> Iterator[Row]:
    why = _why_not(state)
    if why is None and state.is_backing_up:
        yield Row("Back up now: one is being made", Action.BACK_UP, enabled=False)
    else:
        yield _guarded("Back up now", Action.BACK_UP, why)
    yield _guarded("Restore…", Action.RESTORE, why)
    if why is None:
        yield Row(_last_backup(state), enabled=False)


def _last_backup(state: State) -> str:
    if has_failed_backup(state):
        return "The last backup failed"
    return "No backup yet" if state.last_backup is None else f"Last backup: {backup_of(state.last_backup)}"


def _access(state: State) -> Iterator[Row]:
    why, https = _why_not(state), state.https
    is_on = https is not None and https.enabled
    label = "Allow remote access (HTTPS)"
    yield _guarded(label, Action.SWITCH_HTTPS, why, is_known=https is not None, checked=is_on)
    if why is None and https is not None and https.enabled and https.fingerprint is not None:
        for line in fingerprint_lines(https.fingerprint):
            yield Row(line, Action.COPY_FINGERPRINT)


def _program(state: State) -> Iterator[Row]:
    if state.starts_at_login is not None:
        yield Row("Start at login", Action.SWITCH_START_AT_LOGIN, checked=state.starts_at_login)
    yield Row("Open the log folder", Action.OPEN_LOGS)
    if state.service is not Service.STOPPED and not state.is_kept:
        yield Row("Stop the appliance", Action.STOP, enabled=state.service in _STOPPABLE)
    yield Row("Quit (the appliance goes on)" if state.is_kept else "Quit", Action.QUIT)


# --- what may be clicked ---


@dataclass(frozen=True)
class _Refusal:
    """Why something cannot be asked for; told only where the first row does not tell."""

    reason: str | None = None


def _why_not(state: State) -> _Refusal | None:
    """Why what administrators do cannot be done now; None: it can."""
    if state.service is not Service.ANSWERS or state.setup_code or state.access in (Access.NOBODY, Access.LOCKED):
        return _Refusal()
    return None if state.access is Access.ADMINISTRATOR else _Refusal("for administrators")


def _guarded(
    label: str, action: Action, why: _Refusal | None, *, is_known: bool = True, checked: bool | None = None
) -> Row:
    suffix = f": {why.reason}" if why is not None and why.reason else ""
    return Row(label + suffix, action, enabled=why is None and is_known, checked=checked)


def _is_in(state: State) -> bool:
    return state.service is Service.ANSWERS and state.access in (Access.MEMBER, Access.ADMINISTRATOR)
