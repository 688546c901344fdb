"""Notifications about changes: each is shown once and contains no addresses."""

from dataclasses import replace

import pytest

from mailbox_appliance.system.crashes import Crash
from mailbox_appliance.tray import display, notifications
from mailbox_appliance.tray.state import AccessLevel, AuditOutcome, MailboxState, ServiceState, TrayState
from mailbox_appliance.tray.view import Action
from mailbox_appliance.tray.watcher import with_status
from tests.checked_client import CheckedClient

STARTING = TrayState(ServiceState.STARTING)
NOBODY = TrayState(ServiceState.ANSWERS, "http://127.0.0.1:8025")
LOCKED = replace(NOBODY, access=AccessLevel.LOCKED)
MEMBER = replace(NOBODY, access=AccessLevel.MEMBER, mailboxes=(MailboxState("ada@example.org", "ready"),))
ADMIN = replace(MEMBER, access=AccessLevel.ADMINISTRATOR)
STOPPED = replace(ADMIN, service=ServiceState.STOPPED, url=None)
RESTS, SILENT, STOPPING = (
    replace(ADMIN, service=service) for service in (ServiceState.RESTS, ServiceState.SILENT, ServiceState.STOPPING)
)


def lost(state: TrayState, *emails: str) -> TrayState:
    return replace(state, mailboxes=tuple(MailboxState(email, "reauth_required") for email in emails))


def ended(state: TrayState, number: int, *, well: bool) -> TrayState:
    return replace(state, backup=AuditOutcome(f"aud_{number}", well))


def restored(state: TrayState, number: int, *, well: bool) -> TrayState:
    return replace(state, restore=AuditOutcome(f"aud_{number}", well))


def crashed(state: TrayState, minute: int) -> TrayState:
    return replace(state, last_crash=Crash(at=f"2026-11-22T05:0{minute}:00.000Z", signal="SIGSEGV", file="crash-1.txt"))


UNCERTAIN = replace(ADMIN, uncertain=1)
OFFLINE = replace(ADMIN, mailboxes=(MailboxState("ada@example.org", "error", "provider_unavailable"),))
FAILED = replace(ADMIN, warnings=("The disk is full.",), has_failed_daily_backup=True)
FAILED_AGAIN = replace(FAILED, warnings=("The disk is gone.",))

# fmt: off
#: before, after, titles of the notifications
CHANGES: list[tuple[TrayState | None, TrayState, tuple[str, ...]]] = [
    # at first
    (None,                       ADMIN,                                 ()),
    (None,                       STOPPED,                               ()),
    (None,                       STARTING,                              ()),
    (None,                       NOBODY,                                ()),
    (None,                       LOCKED,                                ()),
    (None,                       FAILED,                                ()),
    (None,                       restored(ADMIN, 1, well=False),        ()),
    # crashes, which are reported no matter who is signed in
    (None,                       crashed(NOBODY, 1),                    ("The appliance crashed",)),
    (None,                       crashed(STOPPED, 1),                   ("The appliance crashed",)),
    (NOBODY,                     crashed(NOBODY, 1),                    ("The appliance crashed",)),
    (crashed(MEMBER, 1),         crashed(MEMBER, 1),                    ()),
    (crashed(ADMIN, 1),          crashed(ADMIN, 2),                     ("The appliance crashed",)),
    (crashed(ADMIN, 1),          ADMIN,                                 ()),
    (None,                       replace(ADMIN, uncertain=2),           ("2 messages may not have been sent",)),
    (None,                       lost(ADMIN, "a@x", "b@x"),             ("2 mailboxes need a new sign-in",)),
    (None,                       lost(replace(ADMIN, uncertain=1), "a@x"), ("Several items need attention",)),
    (STARTING,                   replace(MEMBER, uncertain=1),          ("1 message may not have been sent",)),
    (LOCKED,                     replace(MEMBER, uncertain=1),          ("1 message may not have been sent",)),
    (NOBODY,                     restored(ADMIN, 1, well=True),         ()),
    # sends
    (ADMIN,                      replace(ADMIN, uncertain=1),           ("1 message may not have been sent",)),
    (replace(ADMIN, uncertain=1), replace(ADMIN, uncertain=3),          ("2 messages may not have been sent",)),
    (replace(ADMIN, uncertain=3), replace(ADMIN, uncertain=3),          ()),
    (replace(ADMIN, uncertain=3), replace(ADMIN, uncertain=1),          ()),
    # mailboxes
    (ADMIN,                      lost(ADMIN, "ada@example.org"),        ("1 mailbox needs a new sign-in",)),
    (lost(ADMIN, "a@x"),         lost(ADMIN, "a@x"),                    ()),
    (lost(ADMIN, "a@x"),         lost(ADMIN, "b@x"),                    ("1 mailbox needs a new sign-in",)),
    (lost(ADMIN, "a@x"),         ADMIN,                                 ()),
    (ADMIN,                      OFFLINE,                               ()),
    (OFFLINE,                    lost(ADMIN, "ada@example.org"),        ("1 mailbox needs a new sign-in",)),
    # approvals: many new ones are one notification
    (MEMBER,                     replace(MEMBER, pending_approvals=1),  ("1 message waits for approval",)),
    (replace(MEMBER, pending_approvals=1), replace(MEMBER, pending_approvals=4), ("4 messages wait for approval",)),
    (replace(MEMBER, pending_approvals=1, newest_approval="apr_1"),
     replace(MEMBER, pending_approvals=1, newest_approval="apr_2"),     ("1 message waits for approval",)),
    (replace(MEMBER, pending_approvals=2, newest_approval="apr_2"),
     replace(MEMBER, pending_approvals=1, newest_approval="apr_2"),     ()),
    (replace(MEMBER, pending_approvals=2), replace(MEMBER, pending_approvals=2), ()),
    (replace(MEMBER, pending_approvals=2), replace(MEMBER, pending_approvals=1), ()),
    (None,                       replace(MEMBER, pending_approvals=2),  ("2 messages wait for approval",)),
    (None,                       replace(MEMBER, pending_approvals=1, uncertain=1), ("Several items need attention",)),
    # webhooks
    (MEMBER,                     replace(MEMBER, disabled_webhooks=1),  ("1 webhook was disabled",)),
    (replace(MEMBER, disabled_webhooks=1), replace(MEMBER, disabled_webhooks=3), ("2 webhooks were disabled",)),
    (replace(MEMBER, disabled_webhooks=1), replace(MEMBER, disabled_webhooks=1), ()),
    (replace(MEMBER, disabled_webhooks=1), MEMBER,                      ()),
    (None,                       replace(MEMBER, disabled_webhooks=1),  ("1 webhook was disabled",)),
    # backups
    (ADMIN,                      FAILED,                                ("Backup failed",)),
    (FAILED,                     FAILED,                                ()),
    (FAILED,                     FAILED_AGAIN,                          ()),
    (FAILED,                     ADMIN,                                 ()),
    (MEMBER,                     replace(FAILED, access=AccessLevel.MEMBER),  ()),
    (ADMIN,                      ended(ADMIN, 1, well=True),            ()),
    (ADMIN,                      ended(ADMIN, 1, well=False),           ("Backup failed",)),
    (ended(ADMIN, 1, well=False), ended(ADMIN, 1, well=False),          ()),
    (ended(ADMIN, 1, well=False), ended(ADMIN, 2, well=False),          ("Backup failed",)),
    (ADMIN,                      ended(FAILED, 1, well=False),          ("Backup failed",)),
    (ADMIN,                      replace(ADMIN, warnings=("Little room.",)), ()),
    # restores
    (RESTS,                      restored(ADMIN, 1, well=True),         ("Restore complete",)),
    (restored(ADMIN, 1, well=True), restored(ADMIN, 2, well=False),     ("Restore failed",)),
    (restored(ADMIN, 1, well=True), restored(ADMIN, 1, well=True),      ()),
    (RESTS,                      restored(UNCERTAIN, 1, well=True),
                                               ("1 message may not have been sent", "Restore complete")),
    (RESTS,                      NOBODY,                                ("You are signed out",)),
    # the session
    (ADMIN,                      NOBODY,                                ("You are signed out",)),
    (NOBODY,                     NOBODY,                                ()),
    (NOBODY,                     LOCKED,                                ()),
    # the service
    (ADMIN,                      STOPPED,                               ("The appliance has stopped",)),
    (RESTS,                      STOPPED,                               ("The appliance has stopped",)),
    (STOPPING,                   STOPPED,                               ("The appliance has stopped",)),
    (SILENT,                     STOPPED,                               ("The appliance has stopped",)),
    (STARTING,                   STOPPED,                               ("The appliance did not start",)),
    (STOPPED,                    STOPPED,                               ()),
    (ADMIN,                      SILENT,                                ()),
    (ADMIN,                      RESTS,                                 ()),
    (ADMIN,                      STOPPING,                              ()),
    (STOPPED,                    ADMIN,                                 ()),
    (replace(STOPPED, uncertain=1), replace(ADMIN, uncertain=1),        ()),
]
# fmt: on


@pytest.mark.parametrize(("before", "after", "titles"), CHANGES)
def test_what_is_told_of_a_change(before: TrayState | None, after: TrayState, titles: tuple[str, ...]) -> None:
    assert tuple(notice.title for notice in notifications.notices_between(before, after)) == titles


def test_who_looks_at_the_screen_is_told_no_addresses() -> None:
    told = [notice for before, after, _ in CHANGES for notice in notifications.notices_between(before, after)]
    assert told
    assert not [notice for notice in told if "@" in notice.title + notice.text or not notice.text.endswith(".")]


def test_the_first_summary_has_all_of_it() -> None:
    (notice,) = notifications.notices_between(None, lost(replace(ADMIN, uncertain=1), "a@x"))
    assert notice.text == "1 message may not have been sent. 1 mailbox needs a new sign-in."


def test_the_api_says_so_when_a_daily_backup_fails(
    checked_client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_client.appliance.daily_backup, "_failed", "The disk is full.")
    answer = checked_client.ask("GET", "/status")
    state = with_status(ADMIN, {"data": answer.data, "warnings": answer.warnings}, {"data": []})
    assert [one.title for one in notifications.notices_between(ADMIN, state)] == ["Backup failed"]


def test_a_backup_that_was_asked_for_here() -> None:
    assert notifications.backup_made().title == "Backup complete"
    assert notifications.backup_failed("The disk is full.").text == "The disk is full."


def test_a_backup_of_ours_that_fails_is_told_by_its_action_alone() -> None:
    seen = ended(ADMIN, 1, well=False)
    for ours, count in ((frozenset[Action](), 1), (frozenset({Action.BACK_UP}), 0)):
        assert len(notifications.notices_between(display._with_expected_changes(ADMIN, seen, ours), seen)) == count
