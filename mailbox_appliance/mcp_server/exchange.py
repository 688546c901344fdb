"""One POST on its way: the thread that waits for its answer does the work of its tools meanwhile.

So tools run in as many threads as requests do, under the id of their request, and none is left behind; the loop of the
SDK never waits for a store or a server.
"""

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from mailbox_appliance.mcp_server.handing_over import handed_over
from mailbox_appliance.mcp_server.tool import Asked

T = TypeVar("T")


class Exchange:
    """Who asks, and what the loop wants to have done for them."""

    def __init__(self, asked: Asked) -> None:
        self.context = asked
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """What this gives, done by the thread that waits. For coroutines."""
        return await handed_over(work, self._work.put)

    def wait_for_answer(self, awaited: "Future[T]", patience: float) -> T:
        """Wait for the answer, and do what is asked for meanwhile.

        Raises Empty where nothing is heard of the loop for so many seconds, and whatever the answer ends with.
        """
        awaited.add_done_callback(lambda _: self._work.put(None))
        while (work := self._work.get(timeout=patience)) is not None:
            work()
        return awaited.result()
