"""Run functions at once in threads, while child processes start and the garbage collector runs."""

import gc
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress

_PATIENCE = 120.0


class TooSlow(AssertionError):
    """Threads do not end."""


def run_together(*actions: Callable[[], None]) -> None:
    """Run each action in a thread of its own, all from the same moment on, and wait for them.

    Meanwhile child processes are started (fork and exec, as subprocess does) and garbage is collected in other threads.
    Raises the first exception of an action, or TooSlow.
    """
    gate, ending = threading.Barrier(len(actions)), threading.Event()
    errors: list[BaseException] = []

    def run(action: Callable[[], None]) -> None:
        try:
            gate.wait(_PATIENCE)
            action()
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that waits
            errors.append(error)

    def disturb(act: Callable[[], object]) -> None:
        while not ending.wait(0.002):
            act()

    disturbers = [threading.Thread(target=disturb, args=(act,)) for act in (_start_child, gc.collect)]
    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in (*disturbers, *threads):
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE)
    ending.set()
    for thread in disturbers:
        thread.join(_PATIENCE)
    if errors:
        raise errors[0]
    if any(thread.is_alive() for thread in threads):
        raise TooSlow


def _start_child() -> None:
    with suppress(OSError):
        subprocess.run(("true",), check=False)
