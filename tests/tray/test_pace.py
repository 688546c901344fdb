"""When the tray looks, and what the menu asks for when it opens."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mailbox_appliance.tray.actions import Parts
from mailbox_appliance.tray.opening import Opening
from mailbox_appliance.tray.pace import LIVELY_FOR, QUIET_EVERY, Pace
from mailbox_appliance.tray.service import Service as Serving
from mailbox_appliance.tray.showing import EVERY, Showing
from mailbox_appliance.tray.state import Access, Mailbox, Service, State
from tests.servers.fake_clock import FakeClock
from tests.tray.watched import CHEAP, DEAR, FILE, Scene, scene

__all__ = ["scene"]  # a fixture

READY = Mailbox("ada@example.org", "ready")
QUIET = State(Service.ANSWERS, access=Access.MEMBER, mailboxes=(READY,), queued=3, uncertain=1)


def looks_within(seconds: int, state: State, pace: Pace, clock: FakeClock) -> int:
    """How often one looks who asks as often as the tray does."""
    count = 0
    for _ in range(0, seconds, int(EVERY)):
        if pace.is_due(state):
            pace.note_poll()
            count += 1
        clock.advance(EVERY)
    return count


def test_while_somebody_is_there_and_afterwards(clock: FakeClock) -> None:
    pace = Pace(clock)
    assert looks_within(int(LIVELY_FOR), QUIET, pace, clock) == LIVELY_FOR / EVERY
    assert looks_within(600, QUIET, pace, clock) == 600 / QUIET_EVERY
    pace.note_use()
    assert looks_within(600, QUIET, pace, clock) == LIVELY_FOR / EVERY + (600 - LIVELY_FOR) / QUIET_EVERY


# fmt: off
#: how it is, and whether that is looked at again soon
GOES_ON: list[tuple[Mapping[str, object], bool]] = [
    ({"service": Service.STARTING},                                   True),
    ({"service": Service.RESTS},                                      True),
    ({"service": Service.STOPPING},                                   True),
    ({"service": Service.SILENT},                                     True),
    ({"service": Service.STOPPED, "is_backing_up": True},             False),
    ({"is_backing_up": True},                                         True),
    ({"mailboxes": (READY, replace(READY, status="syncing"))},        True),
    ({"mailboxes": (READY, replace(READY, status="error"))},          False),
]
# fmt: on


@pytest.mark.parametrize(("how", "is_soon"), GOES_ON)
def test_while_something_goes_on(how: Mapping[str, object], is_soon: bool, clock: FakeClock) -> None:
    pace = Pace(clock)
    clock.advance(LIVELY_FOR)
    pace.note_poll()
    clock.advance(EVERY)
    assert pace.is_due(replace(QUIET, **how)) is is_soon  # type: ignore[arg-type]


def test_the_menu_that_opens_asks_everything_but_not_all_the_time(scene: Scene) -> None:
    showing = Showing(Parts(scene.data_dir, scene.watcher, Serving(scene.data_dir, FILE), Opening(FILE), None))
    assert showing.state.service is Service.STARTING, "until the first look is over, however long that takes"
    scene.answers()
    scene.log_in()
    with scene.owned():
        showing._poll()
        scene.asked()
        for expected in (CHEAP + DEAR, CHEAP):
            showing.on_menu_opened()
            showing._poll()
            assert scene.asked() == expected
