"""When the tray looks: often while something goes on or somebody is at it, else now and then.

Each look is a few requests, which keep a disk awake and have lines in the log of the appliance.
"""

from mailbox_appliance.clock import Clock
from mailbox_appliance.tray.state import Service, State
from mailbox_appliance.tray.words import is_busy

#: Seconds between two looks while nothing goes on.
QUIET_EVERY = 30.0
#: Seconds that somebody is thought to be there after the menu was opened.
LIVELY_FOR = 60.0
#: Seconds between two times that everything is asked because the menu opens.
_HURRIES_EVERY = 2.0


class Pace:
    """For one tray, from its start on, when somebody is there. May be used from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._touched_at = clock.monotonic()
        self._looked_at = self._hurried_at = float("-inf")

    def note_use(self) -> None:
        """Somebody uses the tray."""
        self._touched_at = self._clock.monotonic()

    def try_poll_all(self) -> bool:
        """Whether everything may be asked already because the menu opens; it is then."""
        now = self._clock.monotonic()
        if now < self._hurried_at + _HURRIES_EVERY:
            return False
        self._hurried_at = now
        return True

    def note_poll(self) -> None:
        """A look begins."""
        self._looked_at = self._clock.monotonic()

    def is_due(self, state: State) -> bool:
        """Whether it is time for a look, as far as nothing is seen without one."""
        now = self._clock.monotonic()
        return now < self._touched_at + LIVELY_FOR or now >= self._looked_at + QUIET_EVERY or _goes_on(state)


def _goes_on(state: State) -> bool:
    """Whether something will soon be otherwise. Who has stopped is seen to come back without a look."""
    if state.service not in (Service.ANSWERS, Service.STOPPED):
        return True
    return state.service is Service.ANSWERS and (state.is_backing_up or any(map(is_busy, state.mailboxes)))
