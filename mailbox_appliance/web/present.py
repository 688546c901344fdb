"""The appliance that answers requests now. A restore puts another one in its place, while connections stay open."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Restarting

#: Seconds after which to ask again during a pause.
RETRY_AFTER = 3


class Present:
    """Lends the appliance to each request, and knows when nobody has it any more. May be used from any thread."""

    def __init__(self, appliance: Appliance) -> None:
        self._appliance: Appliance = appliance
        self._changed = threading.Condition()
        self._borrowed, self._is_paused = 0, False

    @property
    def is_paused(self) -> bool:
        """Whether nobody is given the appliance at the moment."""
        return self._is_paused

    @property
    def borrower_count(self) -> int:
        """How many requests have it now."""
        return self._borrowed

    @contextmanager
    def borrow(self) -> Iterator[Appliance]:
        """The appliance, for one request. Raises Restarting during a pause."""
        with self._changed:
            if self._is_paused:
                raise Restarting(retry_after=RETRY_AFTER)
            appliance = self._appliance
            self._borrowed += 1
        try:
            yield appliance
        finally:
            with self._changed:
                self._borrowed -= 1
                if not self._borrowed:
                    self._changed.notify_all()

    def pause(self, timeout: float) -> bool:
        """Lend it to nobody from now on; whether all who have it have answered within so many seconds."""
        with self._changed:
            self._is_paused = True
            return self._changed.wait_for(lambda: self._borrowed == 0, timeout)

    def resume(self, appliance: Appliance) -> None:
        """Go on with another one."""
        with self._changed:
            self._appliance, self._is_paused = appliance, False
