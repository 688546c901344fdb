"""The sockets of one loop, and its turns: who is ready is told by the system, and only who may have changed is asked.

Waitress asks every connection in every turn what it waits for, and tells the system anew: with hundreds that stand idle
or stall, each request of everybody else waits for that, two or three times. Here what was told stays told.

A connection is asked again after something happened on it, in the next turn while a worker has it, and with all others
when the deadlines are looked at (`Turns.everybody`). Of Waitress (pinned to 3.0.*) it takes the place of the socket map
and of `wasyncore.loop`, and uses `wasyncore.read` and `write`.
"""

import selectors
from typing import Any

from waitress import wasyncore


class Turns(dict[int, Any]):
    """The listener's socket, its trigger and its connections, by descriptor. For the loop's thread."""

    def __init__(self) -> None:
        super().__init__()
        self.poll_all = True  # whether all are to be asked in the next turn
        self._selector = selectors.DefaultSelector()
        self._registered: dict[int, int] = {}  # what the system was told to look out for
        self._to_update: set[int] = set()

    def __setitem__(self, descriptor: int, one: Any) -> None:
        super().__setitem__(descriptor, one)
        self._to_update.add(descriptor)

    def __delitem__(self, descriptor: int) -> None:
        super().__delitem__(descriptor)
        if self._registered.pop(descriptor, 0):
            self._selector.unregister(descriptor)

    def poll(self, timeout: float) -> None:
        """Wait for so many seconds at most, and have those that are ready read or write."""
        asked, self._to_update = (list(self) if self.poll_all else self._to_update), set()
        self.poll_all = False
        for descriptor in asked:
            self._update(descriptor)
        for key, events in self._selector.select(timeout):
            self._to_update.add(key.fd)
            # Another may have this descriptor by now, since what comes first in a turn may close what comes later.
            if events & selectors.EVENT_READ and self.get(key.fd) is key.data:
                wasyncore.read(key.data)
            if events & selectors.EVENT_WRITE and self.get(key.fd) is key.data:
                wasyncore.write(key.data)

    def _update(self, descriptor: int) -> None:
        if (one := self.get(descriptor)) is None:
            return
        try:
            self._update_interest(descriptor, one)
        except Exception:  # noqa: BLE001 - it is reported there, and the others are asked all the same
            one.handle_error()

    def _update_interest(self, descriptor: int, one: Any) -> None:
        # First of all: a worker that is through just after this has woken the loop, and is seen in the next turn.
        if getattr(one, "is_with_worker", False):
            self._to_update.add(descriptor)
        wanted = selectors.EVENT_READ if one.readable() else 0
        wanted |= selectors.EVENT_WRITE if one.writable() else 0
        self._register(descriptor, wanted, one)

    def _register(self, descriptor: int, wanted: int, one: Any) -> None:
        told = self._registered.get(descriptor, 0)
        if wanted == told:
            return
        if not wanted:
            self._selector.unregister(descriptor)
        elif told:
            self._selector.modify(descriptor, wanted, one)
        else:
            self._selector.register(descriptor, wanted, one)
        self._registered[descriptor] = wanted

    def close(self) -> None:
        """Let the system forget all of it."""
        self._registered.clear()
        self._selector.close()
