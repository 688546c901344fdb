"""Derives notifications from the states of two successive polls. Pure functions.

A notification stays on the screen, also on a locked one that others see. So it contains no addresses, senders or
subjects; the menu shows which mailbox is affected.
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

_SIGNED_OUT = "Your session has ended. Sign in again from the tray menu."


@dataclass(frozen=True)
class Notice:
    """A desktop notification: a title, and one or two sentences."""

    title: str
    text: str


def notices_between(before: TrayState | None, after: TrayState) -> tuple[Notice, ...]:
    """Return the notifications about changes between two states.

    If `before` is None, as at the first poll, return one about all that needs attention in `after`.
    """
    return (*_service_notices(before, after), *_crash_notices(before, after), *_mail_notices(before, after))


def backup_made() -> Notice:
    """Return the notification that a backup requested in this tray is finished."""
    return Notice("Backup complete", "The backup was verified.")


def backup_failed(reason: str) -> Notice:
    """Return the notification that a backup requested in this tray has failed. `reason`: a sentence."""
    return Notice("Backup failed", reason)


def _service_notices(before: TrayState | None, after: TrayState) -> Iterator[Notice]:
    if before is None or after.service is not ServiceState.STOPPED:
        return
    if before.service in _RUNS:
        text = "No mail is fetched or sent until it runs again. Start it from the menu."
        yield Notice("The appliance has stopped", text)
    elif before.service is ServiceState.STARTING:
        yield Notice("The appliance did not start", "The files in the log folder show the reason.")


def _crash_notices(before: TrayState | None, after: TrayState) -> Iterator[Notice]:
    crash = after.last_crash
    if crash is not None and (before is None or before.last_crash != crash):
        text = f"It was restarted. Report the crash with {crash.file} from the log folder; the file contains no mail."
        yield Notice("The appliance crashed", text)


def _mail_notices(before: TrayState | None, after: TrayState) -> Iterator[Notice]:
    if not _knows_mailboxes(after):
        if before is not None and _knows_mailboxes(before) and _has_lost_access(after):
            yield Notice("You are signed out", _SIGNED_OUT)
    elif before is None or not _knows_mailboxes(before):
        yield from _summary(after)
    else:
        if _has_new_approval(before, after):
            yield from _approval_text(after.pending_approvals)
        yield from _uncertain_text(after.uncertain - before.uncertain)
        yield from _lost_access_text(len(_lost_mailboxes(after) - _lost_mailboxes(before)))
        yield from _webhook_text(after.disabled_webhooks - before.disabled_webhooks)
        yield from _backup_notices(before, after)
        yield from _restore_notices(before, after)


def _summary(state: TrayState) -> Iterator[Notice]:
    """Yield one notification about all that needs attention at the first poll; none if nothing does."""
    notices = [
        *_approval_text(state.pending_approvals),
        *_uncertain_text(state.uncertain),
        *_lost_access_text(len(_lost_mailboxes(state))),
        *_webhook_text(state.disabled_webhooks),
    ]
    if len(notices) == 1:
        yield notices[0]
    elif notices:
        yield Notice("Several items need attention", " ".join(f"{notice.title}." for notice in notices))


def _has_new_approval(before: TrayState, after: TrayState) -> bool:
    """Whether another message waits. Their number may be the same: others may have been decided."""
    return after.pending_approvals > before.pending_approvals or after.newest_approval > before.newest_approval


def _approval_text(count: int) -> Iterator[Notice]:
    if count > 0:
        verb, them = ("waits", "it") if count == 1 else ("wait", "them")
        text = f"Nothing is sent until you approve {them}. Open Approvals from the tray menu."
        yield Notice(f"{count_text(count, 'message')} {verb} for approval", text)


def _uncertain_text(count: int) -> Iterator[Notice]:
    if count > 0:
        those, them = ("It", "it") if count == 1 else ("They", "them")
        again = f"{those} will not be resent automatically; review {them} in the console."
        title = f"{count_text(count, 'message')} may not have been sent"
        yield Notice(title, f"Delivery could not be confirmed. {again}")


def _lost_access_text(count: int) -> Iterator[Notice]:
    if count > 0:
        verb = "needs" if count == 1 else "need"
        text = "The provider or mail server ended the access. Sign in again on the mailbox's page in the console."
        yield Notice(f"{count_text(count, 'mailbox', 'mailboxes')} {verb} a new sign-in", text)


def _webhook_text(count: int) -> Iterator[Notice]:
    if count > 0:
        verb = "was" if count == 1 else "were"
        text = "Its address" if count == 1 else "Their addresses"
        reason = f"{text} failed for three days or refused all events. Open Webhooks in the console."
        yield Notice(f"{count_text(count, 'webhook')} {verb} disabled", reason)


def _backup_notices(before: TrayState, after: TrayState) -> Iterator[Notice]:
    if after.access is not AccessLevel.ADMINISTRATOR:
        return
    is_another = after.backup != before.backup and after.backup is not None and not after.backup.succeeded
    if has_failed_backup(after) and (is_another or not has_failed_backup(before)):
        yield Notice("Backup failed", "The console and the log show the reason.")


def _restore_notices(before: TrayState, after: TrayState) -> Iterator[Notice]:
    if after.restore is None or after.restore == before.restore:
        return
    if after.restore.succeeded:
        yield Notice(
            "Restore complete", "The appliance uses the restored store. The previous store was kept as a backup."
        )
    else:
        yield Notice("Restore failed", "The appliance continues with the current store. The log shows the reason.")


def _lost_mailboxes(state: TrayState) -> set[str]:
    return {mailbox.email for mailbox in state.mailboxes if has_lost_access(mailbox)}


def _knows_mailboxes(state: TrayState) -> bool:
    return state.access in (AccessLevel.MEMBER, AccessLevel.ADMINISTRATOR)


def _has_lost_access(state: TrayState) -> bool:
    return state.service is ServiceState.ANSWERS and state.access is AccessLevel.NOBODY
