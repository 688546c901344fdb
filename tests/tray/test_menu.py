"""Menu rows, icon look and tooltip for each state."""

from dataclasses import replace
from typing import Any

import pytest

from mailbox_appliance.tray import menu
from mailbox_appliance.tray.state import (
    AccessLevel,
    AuditOutcome,
    HttpsState,
    MailboxState,
    ServiceState,
    TrayState,
    backup_time_text,
)
from mailbox_appliance.tray.view import Action, IconLook, MenuRow

FINGERPRINT = "sha256:" + "0123456789abcdef" * 4
URL = "http://127.0.0.1:8025"
STOPPED = TrayState(ServiceState.STOPPED)
NOBODY = TrayState(ServiceState.ANSWERS, URL)
ADA, BEA = MailboxState("ada@example.org", "ready"), MailboxState("bea@example.org", "ready")
MEMBER = replace(NOBODY, access=AccessLevel.MEMBER, mailboxes=(ADA,))
ADMIN = replace(MEMBER, access=AccessLevel.ADMINISTRATOR, https=HttpsState(enabled=False))
LOST = MailboxState("cy@example.org", "reauth_required", "authentication_failed")
OFFLINE = MailboxState("di@example.org", "error", "provider_unavailable")
STARTING, LOCKED = TrayState(ServiceState.STARTING), replace(NOBODY, access=AccessLevel.LOCKED)
TO_SET_UP = replace(NOBODY, setup_code="ab-cd")
FAILED: dict[str, Any] = {"warnings": ("The disk is full.",), "has_failed_daily_backup": True}
DISABLED: dict[str, Any] = {"warnings": ("Webhooks of yours that were disabled: 1.",), "disabled_webhooks": 1}
RESTS, STOPPING, SILENT = (
    replace(ADMIN, service=one) for one in (ServiceState.RESTS, ServiceState.STOPPING, ServiceState.SILENT)
)


def mailbox(
    status: str, count: tuple[int, int] | None = None, error: str | None = None, *, fetches: bool = False
) -> TrayState:
    state = MailboxState("ada@example.org", status, error, fetches or count is not None, count)
    return replace(ADMIN, mailboxes=(state,))


def drawn(state: TrayState) -> list[str]:
    """Return the menu as text; `(…)` marks a disabled row."""
    return ["---" if row.is_separator else _drawn(row) for row in menu.menu_rows(state)]


def _drawn(row: MenuRow) -> str:
    box = {None: "", True: "[x] ", False: "[ ] "}[row.checked]
    return box + row.label if row.enabled else f"({box}{row.label})"


def row(state: TrayState, label: str) -> MenuRow:
    return next(row for row in menu.menu_rows(state) if row.label == label)


# fmt: off
#: state, title, look
TITLES: list[tuple[TrayState, str, IconLook]] = [
    (STOPPED,                                                 "The appliance is stopped",          IconLook.STOPPED),
    (STARTING,                                                "The appliance is starting…",        IconLook.STOPPED),
    (replace(RESTS, uncertain=1),                             "The appliance is restarting…",      IconLook.STOPPED),
    (STOPPING,                                                "The appliance is stopping…",        IconLook.STOPPED),
    (SILENT,                                                  "The appliance does not answer",     IconLook.ATTENTION),
    (TO_SET_UP,                                               "Setup required",                    IconLook.ATTENTION),
    (NOBODY,                                                  "Not signed in",                     IconLook.WELL),
    (LOCKED,                                                  "The keychain is locked",            IconLook.ATTENTION),
    (ADMIN,                                                   "Everything is up to date",          IconLook.WELL),
    (MEMBER,                                                  "Everything is up to date",          IconLook.WELL),
    (replace(ADMIN, mailboxes=()),                            "No mailbox connected",              IconLook.WELL),
    (replace(ADMIN, is_backing_up=True),                      "Backup in progress…",               IconLook.WELL),
    (mailbox("connecting"),                                   "Fetching mail…",                    IconLook.WELL),
    (mailbox("syncing", (400, 1_000)),                        "Fetching mail: 40%",                IconLook.WELL),
    (mailbox("ready", fetches=True),                          "Fetching mail…",                    IconLook.WELL),
    (replace(ADMIN, mailboxes=(ADA, OFFLINE)),                "1 mailbox is offline",              IconLook.WELL),
    (replace(ADMIN, mailboxes=(OFFLINE, OFFLINE)),            "2 mailboxes are offline",           IconLook.WELL),
    (replace(ADMIN, mailboxes=(ADA, LOST)),                   "A mailbox needs a new sign-in",     IconLook.ATTENTION),
    (replace(ADMIN, uncertain=1),                             "A message may not have been sent",  IconLook.ATTENTION),
    (replace(ADMIN, uncertain=1, mailboxes=(ADA, LOST)),      "2 items need attention",            IconLook.ATTENTION),
    (replace(MEMBER, uncertain=3),                            "3 items need attention",            IconLook.ATTENTION),
    (replace(MEMBER, pending_approvals=1),                    "A message waits for approval",      IconLook.ATTENTION),
    (replace(MEMBER, pending_approvals=1, uncertain=1),       "2 items need attention",            IconLook.ATTENTION),
    (replace(ADMIN, warnings=("Little room.",)),              "1 warning",                         IconLook.ATTENTION),
    (replace(MEMBER, warnings=("Little room.",)),             "Everything is up to date",          IconLook.WELL),
    (replace(MEMBER, **DISABLED),                             "A webhook was disabled",            IconLook.ATTENTION),
    (replace(ADMIN, **DISABLED),                              "A webhook was disabled",            IconLook.ATTENTION),
    (replace(ADMIN, **FAILED),                                "The daily backup failed",           IconLook.ATTENTION),
    (replace(ADMIN, backup=AuditOutcome("aud_1", succeeded=False)),
                                                              "The last backup failed",            IconLook.ATTENTION),
    (replace(ADMIN, backup=AuditOutcome("aud_1", succeeded=True)),
                                                              "Everything is up to date",          IconLook.WELL),
    (replace(ADMIN, backup=AuditOutcome("aud_1", succeeded=False), **FAILED),
                                                              "The daily backup failed",           IconLook.ATTENTION),
]

#: a mailbox, how its row ends
MAILBOXES: list[tuple[TrayState, str]] = [
    (mailbox("ready"),                                              "up to date"),
    (mailbox("ready", fetches=True),       "fetching…"),
    (mailbox("connecting"),                                         "connecting…"),
    (mailbox("syncing"),                                            "fetching…"),
    (mailbox("syncing", (1_200, 5_000)),                 "fetching 24%"),
    (mailbox("syncing", (0, 5)),                         "fetching 0%"),
    (mailbox("syncing", (4_999, 5_000)),                 "fetching 99%"),
    (mailbox("syncing", (5, 5)),                         "fetching 99%"),
    (mailbox("syncing", (0, 0)),                         "fetching…"),
    (mailbox("reauth_required", error="authentication_failed"),     "needs a new sign-in"),
    (mailbox("error", error="provider_unavailable"),                "offline: its mail server cannot be reached"),
    (mailbox("error", error="provider_rate_limited"),               "paused by the provider's rate limit"),
    (mailbox("error", error="unsupported_capability"),              "offline: its mail server is not supported"),
    (mailbox("error", error="internal_error"),                      "internal error, see the log folder"),
    (mailbox("error", error="something_new"),                       "offline: its mail server cannot be reached"),
    (mailbox("error"),                                              "offline: its mail server cannot be reached"),
    (mailbox("paused"),                                             "paused"),
]

#: state, rows in its menu, rows that are not
ROWS: list[tuple[TrayState, tuple[str, ...], tuple[str, ...]]] = [
    (STOPPED,                                 ("Start the appliance", "Quit"),             ("Stop the appliance",)),
    (STOPPED,                                 (),                                          ("Sign in…",)),
    (STOPPED,                                 ("(Open console)", "(Back up now)", "(Restore…)"), ("No backup yet",)),
    (STARTING,                                ("(Stop the appliance)",),                   ("Start the appliance",)),
    (SILENT,                                  ("Stop the appliance", "(Open console)"),    ("Start the appliance",)),
    (STOPPING,                                ("(Stop the appliance)",),                   ("Back up now",)),
    (RESTS,                                   ("(Open console)", "(Back up now)"),         ("Back up now",)),
    (NOBODY,                                  ("Sign in…", "Open console"),                 ("Set up…",)),
    (NOBODY,                                  (),                                          ("Connect a mailbox…",)),
    (NOBODY,                                  ("(Back up now)", "([ ] Allow remote access (HTTPS))"), ()),
    (LOCKED,                                  ("Try the keychain again",),                 ("Sign in…",)),
    (TO_SET_UP,                               ("Set up…", "Setup code: ab-cd"),           ("Sign in…",)),
    (MEMBER,                                  ("(Back up now: administrators only)",),      ("Back up now",)),
    (MEMBER,                                  (),                                          ("(No backup yet)",)),
    (MEMBER,                                  ("([ ] Allow remote access (HTTPS): administrators only)",), ()),
    (ADMIN,                                   ("Back up now", "Restore…", "(No backup yet)"), ("Sign in…",)),
    (replace(ADMIN, is_backing_up=True),      ("(Backup in progress…)", "Restore…"), ("Back up now",)),
    (replace(ADMIN, **FAILED),      ("(The last backup failed)",),               ("(No backup yet)",)),
    (replace(MEMBER, **DISABLED),             DISABLED["warnings"],                        ()),
    (replace(ADMIN, https=None),              ("([ ] Allow remote access (HTTPS))",),      ()),
    (ADMIN,                                   ("[ ] Allow remote access (HTTPS)",),        ()),
    (replace(ADMIN, mailboxes=()),            ("Connect a mailbox…",),                     ()),
    (replace(ADMIN, uncertain=1),             ("1 message may not have been sent: review…",),           ()),
    (replace(ADMIN, uncertain=2),             ("2 messages may not have been sent: review…",),         ()),
    (replace(MEMBER, pending_approvals=2),    ("2 messages wait for approval: review…",),              ()),
    (replace(MEMBER, pending_approvals=1, uncertain=1),
        ("1 message waits for approval: review…", "1 message may not have been sent: review…"),             ()),
    (replace(ADMIN, queued=1),                ("(1 message waiting to be sent)",),           ()),
    (replace(ADMIN, queued=2),                ("(2 messages waiting to be sent)",),           ()),
    (ADMIN,                                   (),                                          ("Start at login",)),
    (replace(ADMIN, starts_at_login=True),    ("[x] Start at login",),                     ()),
    (replace(STOPPED, starts_at_login=False), ("[ ] Start at login",),                     ()),
    (replace(ADMIN, is_kept=True),            ("Quit (leave the appliance running)",),           ("Quit",)),
    (replace(ADMIN, is_kept=True),            (),                                          ("Stop the appliance",)),
]
# fmt: on


@pytest.mark.parametrize(("state", "title", "look"), TITLES)
def test_in_a_few_words(state: TrayState, title: str, look: IconLook) -> None:
    assert (menu.title_text(state), menu.icon_look(state)) == (title, look)
    assert menu.menu_rows(state)[0] == MenuRow(title, enabled=False)


@pytest.mark.parametrize(("state", "status"), MAILBOXES)
def test_how_a_mailbox_is(state: TrayState, status: str) -> None:
    assert row(state, f"ada@example.org: {status}").action is Action.SHOW_MAILBOXES


@pytest.mark.parametrize(("state", "there", "not_there"), ROWS)
def test_what_a_state_brings(state: TrayState, there: tuple[str, ...], not_there: tuple[str, ...]) -> None:
    seen = drawn(state)
    assert set(there) <= set(seen)
    assert not set(not_there) & set(seen)


@pytest.mark.parametrize("state", [RESTS, STOPPING, SILENT, replace(ADMIN, service=ServiceState.STOPPED)])
def test_what_was_known_before_is_not_shown_as_true_now(state: TrayState) -> None:
    known = replace(state, uncertain=1, queued=1, warnings=("Little room.",), last_backup="2026-11-22T05:46:01.000Z")
    seen = " ".join(drawn(known))
    assert not [word for word in ("ada@", "uncertain", "waits", "Little", "Last backup") if word in seen]


def test_the_whole_of_it() -> None:
    state = replace(
        ADMIN,
        mailboxes=(BEA, ADA, OFFLINE, LOST),
        uncertain=1,
        warnings=("Little room.",),
        last_backup="2026-11-22T05:46:01.000Z",
        https=HttpsState(enabled=True, url="https://127.0.0.1:8443", fingerprint=FINGERPRINT),
        starts_at_login=True,
    )
    assert drawn(state) == [
        "(3 items need attention)",
        "1 message may not have been sent: review…",
        "Little room.",
        "---",
        "Open console",
        "cy@example.org: needs a new sign-in",
        "di@example.org: offline: its mail server cannot be reached",
        "ada@example.org: up to date",
        "bea@example.org: up to date",
        "---",
        "Back up now",
        "Restore…",
        f"(Last backup: {backup_time_text('2026-11-22T05:46:01.000Z')})",
        "---",
        "[x] Allow remote access (HTTPS)",
        "Fingerprint: 0123 4567 89ab cdef 0123 4567 89ab cdef",
        "0123 4567 89ab cdef 0123 4567 89ab cdef",
        "---",
        "[x] Start at login",
        "Open the log folder",
        "Stop the appliance",
        "Quit",
    ]


def test_what_can_be_clicked_has_an_action() -> None:
    states = [state for state, *_ in TITLES] + [state for state, *_ in ROWS]
    rows = [row for state in states for row in menu.menu_rows(state)]
    assert not [row.label for row in rows if row.enabled and row.action is None and not row.is_separator]


def test_of_many_mailboxes_those_that_need_somebody_are_seen() -> None:
    many = tuple(MailboxState(f"m{number:02}@example.org", "ready") for number in range(16))
    rows = [
        each for each in menu.menu_rows(replace(ADMIN, mailboxes=(*many, LOST))) if each.action is Action.SHOW_MAILBOXES
    ]
    assert len(rows) == menu.MOST_MAILBOXES + 1
    assert rows[0].label == "cy@example.org: needs a new sign-in"
    assert rows[-1].label == "and 5 more…"


def test_what_is_long_is_cut() -> None:
    long = MailboxState("a" * 60 + "@example.org", "ready")
    warnings = ("Little room is left. " * 9, "second", "third", "fourth", "fifth")
    labels = [row.label for row in menu.menu_rows(replace(ADMIN, mailboxes=(long,), warnings=warnings))]
    assert max(map(len, labels)) <= 72
    assert "a" * 43 + "…: up to date" in labels
    assert labels[1] == "Little room is left. Little room is left. Little room is left. Little r…"
    assert labels[2:5] == ["second", "third", "and 2 more warnings…"]


def test_why_it_did_not_start_stands_there_until_it_runs() -> None:
    failed = replace(STOPPED, not_started="127.0.0.1:8025 is already in use. Stop the program that uses it, or else.")
    why = menu.menu_rows(failed)[1]
    assert (why.label[:51], why.action) == ("It did not start: 127.0.0.1:8025 is already in use.", Action.OPEN_LOGS)
    assert len(why.label) <= 72
    assert not [row for row in menu.menu_rows(replace(failed, service=ServiceState.STARTING)) if "did not" in row.label]


# fmt: off
#: a time as in the API, and as a row shows it in New York
TIMES: list[tuple[str, str]] = [
    ("2026-11-22T05:46:01.000Z", "22 Nov 2026, 00:46"),
    ("2026-07-02T02:05:59.999Z", "1 Jul 2026, 22:05"),
    ("0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z"),
    ("yesterday",                "yesterday"),
]
# fmt: on


@pytest.mark.parametrize(("timestamp", "shown"), TIMES)
def test_a_backup_has_the_time_of_the_wall_clock(timestamp: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert backup_time_text(timestamp) == shown
    finally:
        monkeypatch.undo()
        time.tzset()
