"""From an event loop to a thread and back."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def handed_over(work: Callable[[], T], to: Callable[[Callable[[], None]], None]) -> T:
    """What this gives or raises, done by whichever thread `to` brings it to. Who gives up does not end it."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def do() -> None:
        outcome: Future[T] = Future()
        try:
            outcome.set_result(work())
        except Exception as error:  # noqa: BLE001 - who asked for it is told
            outcome.set_exception(error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_pass_on, outcome, result)

    to(do)
    return await result


def _pass_on(outcome: "Future[T]", result: "asyncio.Future[T]") -> None:
    if result.done():  # nobody waits for it any more
        return
    if (error := outcome.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(outcome.result())
