"""The polling schedule, also when the menu opens."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mailbox_appliance.tray.display import EVERY, TrayDisplay
from mailbox_appliance.tray.item_actions import DesktopLauncher, TrayParts
from mailbox_appliance.tray.service import ServiceProcess as Serving
from mailbox_appliance.tray.state import (
    LIVELY_FOR,
    QUIET_EVERY,
    AccessLevel,
    MailboxState,
    PollSchedule,
    ServiceState,
    TrayState,
)
from tests.servers.fake_clock import FakeClock
from tests.tray.watched import CHEAP, DEAR, FILE, Scene, scene

__all__ = ["scene"]  # a fixture

READY = MailboxState("ada@example.org", "ready")
QUIET = TrayState(ServiceState.ANSWERS, access=AccessLevel.MEMBER, mailboxes=(READY,), queued=3, uncertain=1)


def looks_within(seconds: int, state: TrayState, pace: PollSchedule, clock: FakeClock) -> int:
    """Return how many polls happen within so many seconds."""
    count = 0
    for _ in range(0, seconds, int(EVERY)):
        if pace.is_due(state):
            pace.note_poll()
            count += 1
        clock.advance(EVERY)
    return count


def test_while_somebody_is_there_and_afterwards(clock: FakeClock) -> None:
    pace = PollSchedule(clock)
    assert looks_within(int(LIVELY_FOR), QUIET, pace, clock) == LIVELY_FOR / EVERY
    assert looks_within(600, QUIET, pace, clock) == 600 / QUIET_EVERY
    pace.note_use()
    assert looks_within(600, QUIET, pace, clock) == LIVELY_FOR / EVERY + (600 - LIVELY_FOR) / QUIET_EVERY


# fmt: off
#: a state, and whether it is polled often
GOES_ON: list[tuple[Mapping[str, object], bool]] = [
    ({"service": ServiceState.STARTING},                                   True),
    ({"service": ServiceState.RESTS},                                      True),
    ({"service": ServiceState.STOPPING},                                   True),
    ({"service": ServiceState.SILENT},                                     True),
    ({"service": ServiceState.STOPPED, "is_backing_up": True},             False),
    ({"is_backing_up": True},                                         True),
    ({"mailboxes": (READY, replace(READY, status="syncing"))},        True),
    ({"mailboxes": (READY, replace(READY, status="error"))},          False),
]
# fmt: on


@pytest.mark.parametrize(("how", "is_soon"), GOES_ON)
def test_while_something_goes_on(how: Mapping[str, object], is_soon: bool, clock: FakeClock) -> None:
    pace = PollSchedule(clock)
    clock.advance(LIVELY_FOR)
    pace.note_poll()
    clock.advance(EVERY)
    assert pace.is_due(replace(QUIET, **how)) is is_soon  # type: ignore[arg-type]


def test_the_menu_that_opens_asks_everything_but_not_all_the_time(scene: Scene) -> None:
    showing = TrayDisplay(
        TrayParts(scene.data_dir, scene.watcher, Serving(scene.data_dir, FILE), DesktopLauncher(FILE), None)
    )
    assert showing.state.service is ServiceState.STARTING, "until the first look is over, however long that takes"
    scene.answers()
    scene.log_in()
    with scene.owned():
        showing._poll()
        scene.asked()
        for expected in (CHEAP + DEAR, CHEAP):
            showing.on_menu_opened()
            showing._poll()
            assert scene.asked() == expected
