"""Notices about the difference between two polls. Pure.

A notice stays on a screen, also on a locked one that others see: it contains no addresses, senders or subjects; the
menu shows which mailbox it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mailbox_appliance.tray.state import (
    AccessLevel,
    ServiceState,
    TrayState,
    count_text,
    has_failed_backup,
    has_lost_access,
)

_RUNS = (ServiceState.ANSWERS, ServiceState.RESTS, ServiceState.STOPPING, ServiceState.SILENT)

_LOGGED_OUT = "The tray's log-in has ended: log in again from its menu. If that is refused, ask an administrator."


@dataclass(frozen=True)
class Notice:
    """A notice: a title, and a sentence or two."""

    title: str
    text: str


def notices_between(before: TrayState | None, after: TrayState) -> tuple[Notice, ...]:
    """The notices about a change. If nothing was known before, only what needs a person, in one notice."""
    return (*_service_notices(before, after), *_crash_notices(before, after), *_mail_notices(before, after))


def backup_made() -> Notice:
    """A backup that somebody requested here was made."""
    return Notice("The backup is made", "It was read back and found good.")


def backup_failed(reason: str) -> Notice:
    """A backup that somebody requested here failed; `reason` is a sentence."""
    return Notice("The backup failed", reason)


def _service_notices(before: TrayState | None, after: TrayState) -> Iterator[Notice]:
    if before is None or after.service is not ServiceState.STOPPED:
        return
    if before.service in _RUNS:
        text = "No mail is fetched or sent until it runs again: start it from the menu."
        yield Notice("The appliance has stopped", text)
    elif before.service is ServiceState.STARTING:
        yield Notice("The appliance did not start", "The files in the log folder tell why.")


def _crash_notices(before: TrayState | None, after: TrayState) -> Iterator[Notice]:
    crash = after.last_crash
    if crash is not None and (before is None or before.last_crash != crash):
        text = f"It was restarted. Report it, with {crash.file} of the log folder, which contains no mail."
        yield Notice("The appliance crashed", text)


def _mail_notices(before: TrayState | None, after: TrayState) -> Iterator[Notice]:
    if not _knows_mailboxes(after):
        if before is not None and _knows_mailboxes(before) and _has_lost_access(after):
            yield Notice("You are logged out", _LOGGED_OUT)
    elif before is None or not _knows_mailboxes(before):
        yield from _summary(after)
    else:
        yield from _uncertain_text(after.uncertain - before.uncertain)
        yield from _lost_access_text(len(_lost_mailboxes(after) - _lost_mailboxes(before)))
        yield from _backup_notices(before, after)
        yield from _restore_notices(before, after)


def _summary(state: TrayState) -> Iterator[Notice]:
    """What needs a person, at the first poll."""
    notices = [*_uncertain_text(state.uncertain), *_lost_access_text(len(_lost_mailboxes(state)))]
    if len(notices) == 1:
        yield notices[0]
    elif notices:
        yield Notice("Some things need you", " ".join(f"{notice.title}." for notice in notices))


def _uncertain_text(count: int) -> Iterator[Notice]:
    if count > 0:
        verb, those = ("is", "It") if count == 1 else ("are", "They")
        text = f"{those} may have arrived or not, and nothing is sent again by itself: decide in the console."
        yield Notice(f"{count_text(count, 'send')} {verb} uncertain", text)


def _lost_access_text(count: int) -> Iterator[Notice]:
    if count > 0:
        verb = "needs" if count == 1 else "need"
        text = "The provider or its mail server ended the access. Sign in again on the mailbox's page in the console."
        yield Notice(f"{count_text(count, 'mailbox', 'mailboxes')} {verb} you to sign in again", text)


def _backup_notices(before: TrayState, after: TrayState) -> Iterator[Notice]:
    if after.access is not AccessLevel.ADMINISTRATOR:
        return
    is_another = after.backup != before.backup and after.backup is not None and not after.backup.succeeded
    if has_failed_backup(after) and (is_another or not has_failed_backup(before)):
        yield Notice("A backup failed", "The console and the log tell why.")


def _restore_notices(before: TrayState, after: TrayState) -> Iterator[Notice]:
    if after.restore is None or after.restore == before.restore:
        return
    if after.restore.succeeded:
        yield Notice("The restore is done", "The appliance runs on the restored store; what it replaced is kept.")
    else:
        yield Notice("The restore failed", "The appliance goes on as it was. The log tells why.")


def _lost_mailboxes(state: TrayState) -> set[str]:
    return {mailbox.email for mailbox in state.mailboxes if has_lost_access(mailbox)}


def _knows_mailboxes(state: TrayState) -> bool:
    return state.access in (AccessLevel.MEMBER, AccessLevel.ADMINISTRATOR)


def _has_lost_access(state: TrayState) -> bool:
    return state.service is ServiceState.ANSWERS and state.access is AccessLevel.NOBODY
