"""Derives the menu, the look of the icon and its tooltip from the known state. Pure functions.

The first rows show the status of the appliance and items that need attention. Mailboxes, backups, access and the
program follow. A disabled row gives the reason, if its label is short enough and the first row does not give it
already.
"""

from collections.abc import Iterator

from mailbox_appliance.tray.state import (
    AccessLevel,
    MailboxState,
    ServiceState,
    TrayState,
    attention_texts,
    backup_time_text,
    count_text,
    fingerprint_lines,
    has_failed_backup,
    is_busy,
    mailbox_status_text,
    percent_done,
    shorten,
)
from mailbox_appliance.tray.view import SEPARATOR, Action, IconLook, MenuRow

#: Maximum mailboxes and warnings with a row each; one more row counts the rest.
MOST_MAILBOXES, MOST_WARNINGS = 12, 3
_LONGEST_EMAIL, _LONGEST_WARNING = 44, 72
#: Mailboxes that need attention come first, so that they get a row.
_ORDER = {"reauth_required": 0, "error": 1, "connecting": 2, "syncing": 2, "ready": 3}
_WITHOUT_ANSWERS = {
    ServiceState.STOPPED: "The appliance is stopped",
    ServiceState.STARTING: "The appliance is starting…",
    ServiceState.RESTS: "The appliance is restarting…",
    ServiceState.STOPPING: "The appliance is stopping…",
    ServiceState.SILENT: "The appliance does not answer",
}
#: States in which the owner can be stopped: its process ID is known.
_STOPPABLE = (ServiceState.ANSWERS, ServiceState.RESTS, ServiceState.SILENT)


def menu_rows(state: TrayState) -> tuple[MenuRow, ...]:
    """Return the rows of the menu for this state, from top to bottom."""
    groups = (_service_rows(state), _mail_rows(state), _backup_rows(state), _access_rows(state), _program_rows(state))
    joined: list[MenuRow] = []
    for group in groups:
        found = list(group)
        if joined and found:
            joined.append(SEPARATOR)
        joined += found
    return tuple(joined)


def icon_look(state: TrayState) -> IconLook:
    """Return the look of the icon: gray while the service is not running, with a dot if something needs attention."""
    if state.service is ServiceState.SILENT:
        return IconLook.ATTENTION
    if state.service is not ServiceState.ANSWERS:
        return IconLook.STOPPED
    if state.access is AccessLevel.LOCKED:
        return IconLook.ATTENTION
    return IconLook.ATTENTION if state.setup_code or attention_texts(state) else IconLook.WELL


def title_text(state: TrayState) -> str:
    """Return the overall status in a few words, for the first row of the menu and the tooltip of the icon."""
    if (words := _WITHOUT_ANSWERS.get(state.service)) is not None:
        return words
    if state.setup_code:
        return "Setup required"
    if state.access is AccessLevel.LOCKED:
        return "The keychain is locked"
    if state.access is AccessLevel.NOBODY:
        return "Not signed in"
    needing = attention_texts(state)
    if len(needing) > 1:
        return f"{len(needing)} items need attention"
    return needing[0] if needing else _title_when_well(state)


def _title_when_well(state: TrayState) -> str:
    away = sum(mailbox.status == "error" for mailbox in state.mailboxes)
    if away:
        return f"{count_text(away, 'mailbox', 'mailboxes')} {'is' if away == 1 else 'are'} offline"
    if state.is_backing_up:
        return "Backup in progress…"
    if not state.mailboxes:
        return "No mailbox connected"
    busy = [mailbox for mailbox in state.mailboxes if is_busy(mailbox)]
    return _fetching(busy) if busy else "Everything is up to date"


def _fetching(busy: list[MailboxState]) -> str:
    percent = percent_done(busy[0]) if len(busy) == 1 else None
    return "Fetching mail…" if percent is None else f"Fetching mail: {percent}%"


# --- The groups ---


def _service_rows(state: TrayState) -> Iterator[MenuRow]:
    yield MenuRow(title_text(state), enabled=False)
    if state.service is ServiceState.STOPPED:
        if state.not_started is not None:  # a notification is gone by the time the user looks
            yield MenuRow(shorten(f"It did not start: {state.not_started}", _LONGEST_WARNING), Action.OPEN_LOGS)
        yield MenuRow("Start the appliance", Action.START)
    if state.service is not ServiceState.ANSWERS:
        return
    if state.setup_code:
        yield MenuRow("Set up…", Action.SET_UP)
        yield MenuRow(f"Setup code: {state.setup_code}", Action.COPY_SETUP_CODE)
    elif state.access is AccessLevel.LOCKED:
        yield MenuRow("Try the keychain again", Action.UNLOCK)
    elif state.access is AccessLevel.NOBODY:
        yield MenuRow("Sign in…", Action.LOG_IN)
    else:
        yield from _message_rows(state)
    yield from _warning_rows(state)


def _message_rows(state: TrayState) -> Iterator[MenuRow]:
    if state.pending_approvals:
        verb = "waits" if state.pending_approvals == 1 else "wait"
        label = f"{count_text(state.pending_approvals, 'message')} {verb} for approval: review…"
        yield MenuRow(label, Action.SHOW_APPROVALS)
    if state.uncertain:
        label = f"{count_text(state.uncertain, 'message')} may not have been sent: review…"
        yield MenuRow(label, Action.SHOW_UNCERTAIN)


def _warning_rows(state: TrayState) -> Iterator[MenuRow]:
    for warning in state.warnings[:MOST_WARNINGS]:
        yield MenuRow(shorten(warning, _LONGEST_WARNING), Action.OPEN_CONSOLE)
    if (more := len(state.warnings) - MOST_WARNINGS) > 0:
        yield MenuRow(f"and {count_text(more, 'more warning')}…", Action.OPEN_CONSOLE)


def _mail_rows(state: TrayState) -> Iterator[MenuRow]:
    yield MenuRow(
        "Open console", Action.OPEN_CONSOLE, enabled=state.url is not None and state.service is ServiceState.ANSWERS
    )
    if not _is_logged_in(state):
        return
    ordered = sorted(state.mailboxes, key=lambda mailbox: (_ORDER.get(mailbox.status, 1), mailbox.email))
    for mailbox in ordered[:MOST_MAILBOXES]:
        yield MenuRow(
            f"{shorten(mailbox.email, _LONGEST_EMAIL)}: {mailbox_status_text(mailbox)}", Action.SHOW_MAILBOXES
        )
    if (more := len(ordered) - MOST_MAILBOXES) > 0:
        yield MenuRow(f"and {more} more…", Action.SHOW_MAILBOXES)
    if not ordered:
        yield MenuRow("Connect a mailbox…", Action.SHOW_MAILBOXES)
    if state.queued:
        yield MenuRow(f"{count_text(state.queued, 'message')} waiting to be sent", enabled=False)


def _backup_rows(state: TrayState) -> Iterator[MenuRow]:
    why = _why_admin_disabled(state)
    if why is None and state.is_backing_up:
        yield MenuRow("Backup in progress…", Action.BACK_UP, enabled=False)
    else:
        yield _row_or_reason("Back up now", Action.BACK_UP, why)
    yield _row_or_reason("Restore…", Action.RESTORE, why)
    if why is None:
        yield MenuRow(_last_backup(state), enabled=False)


def _last_backup(state: TrayState) -> str:
    if has_failed_backup(state):
        return "The last backup failed"
    return "No backup yet" if state.last_backup is None else f"Last backup: {backup_time_text(state.last_backup)}"


def _access_rows(state: TrayState) -> Iterator[MenuRow]:
    why, https = _why_admin_disabled(state), state.https
    is_on = https is not None and https.enabled
    label = "Allow remote access (HTTPS)"
    yield _row_or_reason(label, Action.SWITCH_HTTPS, why, is_known=https is not None, checked=is_on)
    if why is None and https is not None and https.enabled and https.fingerprint is not None:
        for line in fingerprint_lines(https.fingerprint):
            yield MenuRow(line, Action.COPY_FINGERPRINT)


def _program_rows(state: TrayState) -> Iterator[MenuRow]:
    if state.starts_at_login is not None:
        yield MenuRow("Start at login", Action.SWITCH_START_AT_LOGIN, checked=state.starts_at_login)
    yield MenuRow("Open the log folder", Action.OPEN_LOGS)
    if state.service is not ServiceState.STOPPED and not state.is_kept:
        yield MenuRow("Stop the appliance", Action.STOP, enabled=state.service in _STOPPABLE)
    yield MenuRow("Quit (leave the appliance running)" if state.is_kept else "Quit", Action.QUIT)


# --- Enabled and disabled rows ---


def _why_admin_disabled(state: TrayState) -> str | None:
    """Return what disabled rows for administrators end with; None if they are enabled.

    Empty if the first row of the menu shows the reason already.
    """
    if not _is_logged_in(state) or state.setup_code:
        return ""
    return None if state.access is AccessLevel.ADMINISTRATOR else ": administrators only"


def _row_or_reason(
    label: str, action: Action, why: str | None, *, is_known: bool = True, checked: bool | None = None
) -> MenuRow:
    return MenuRow(label + (why or ""), action, enabled=why is None and is_known, checked=checked)


def _is_logged_in(state: TrayState) -> bool:
    return state.service is ServiceState.ANSWERS and state.access in (AccessLevel.MEMBER, AccessLevel.ADMINISTRATOR)
