"""What is told for a moment when one look finds something else than the one before. Pure.

A notice stays on a screen, a locked one too, that others may see: it has no addresses, no senders and no subjects; the
menu tells which mailbox it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mailbox_appliance.tray.state import Access, Service, State
from mailbox_appliance.tray.words import counted, has_failed_backup, is_lost

_RUNS = (Service.ANSWERS, Service.RESTS, Service.STOPPING, Service.SILENT)

_LOGGED_OUT = "The tray's log-in has ended: log in again from its menu. If that is refused, ask an administrator."


@dataclass(frozen=True)
class Notice:
    """What is told: a title, and a sentence or two."""

    title: str
    text: str


def between(before: State | None, after: State) -> tuple[Notice, ...]:
    """What to tell of a change. Where nothing was known before, only what needs a person, in one notice."""
    return (*_of_service(before, after), *_of_crash(before, after), *_of_mail(before, after))


def backed_up() -> Notice:
    """That a backup is made which somebody asked for here."""
    return Notice("The backup is made", "It was read back and found good.")


def not_backed_up(reason: str) -> Notice:
    """That a backup is not made which somebody asked for here; `reason` is a sentence."""
    return Notice("The backup failed", reason)


def _of_service(before: State | None, after: State) -> Iterator[Notice]:
    if before is None or after.service is not Service.STOPPED:
        return
    if before.service in _RUNS:
        text = "No mail is fetched or sent until it runs again: start it from the menu."
        yield Notice("The appliance has stopped", text)
    elif before.service is Service.STARTING:
        yield Notice("The appliance did not start", "The files in the log folder tell why.")


def _of_crash(before: State | None, after: State) -> Iterator[Notice]:
    crash = after.last_crash
    if crash is not None and (before is None or before.last_crash != crash):
        text = f"It was restarted. Report it, with {crash.file} of the log folder, which contains no mail."
        yield Notice("The appliance crashed", text)


def _of_mail(before: State | None, after: State) -> Iterator[Notice]:
    if not _knows(after):
        if before is not None and _knows(before) and _has_lost_access(after):
            yield Notice("You are logged out", _LOGGED_OUT)
    elif before is None or not _knows(before):
        yield from _summary(after)
    else:
        yield from _uncertain(after.uncertain - before.uncertain)
        yield from _lost(len(_lost_ones(after) - _lost_ones(before)))
        yield from _backup(before, after)
        yield from _restore(before, after)


def _summary(state: State) -> Iterator[Notice]:
    """What needs a person, at the first look."""
    notices = [*_uncertain(state.uncertain), *_lost(len(_lost_ones(state)))]
    if len(notices) == 1:
        yield notices[0]
    elif notices:
        yield Notice("Some things need you", " ".join(f"{notice.title}." for notice in notices))


def _uncertain(count: int) -> Iterator[Notice]:
    if count > 0:
        verb, those = ("is", "It") if count == 1 else ("are", "They")
        text = f"{those} may have arrived or not, and nothing is sent again by itself: decide in the console."
        yield Notice(f"{counted(count, 'send')} {verb} uncertain", text)


def _lost(count: int) -> Iterator[Notice]:
    if count > 0:
        verb = "needs" if count == 1 else "need"
        text = "The provider or its mail server ended the access. Sign in again on the mailbox's page in the console."
        yield Notice(f"{counted(count, 'mailbox', 'mailboxes')} {verb} you to sign in again", text)


def _backup(before: State, after: State) -> Iterator[Notice]:
    if after.access is not Access.ADMINISTRATOR:
        return
    is_another = after.backup != before.backup and after.backup is not None and not after.backup.succeeded
    if has_failed_backup(after) and (is_another or not has_failed_backup(before)):
        yield Notice("A backup failed", "The console and the log tell why.")


def _restore(before: State, after: State) -> Iterator[Notice]:
    if after.restore is None or after.restore == before.restore:
        return
    if after.restore.succeeded:
        yield Notice("The restore is done", "The appliance runs on the restored store; what it replaced is kept.")
    else:
        yield Notice("The restore failed", "The appliance goes on as it was. The log tells why.")


def _lost_ones(state: State) -> set[str]:
    return {mailbox.email for mailbox in state.mailboxes if is_lost(mailbox)}


def _knows(state: State) -> bool:
    return state.access in (Access.MEMBER, Access.ADMINISTRATOR)


def _has_lost_access(state: State) -> bool:
    return state.service is Service.ANSWERS and state.access is Access.NOBODY
