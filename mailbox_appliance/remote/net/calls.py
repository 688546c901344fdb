"""Calls of other servers that a request waits for: all of them can be given up at once, whatever they wait for.

Each has a thread of its own: nothing ends a look-up of a name, or a connection that a silent host never answers, before
its time is over. Who gave it up does not wait for that, and neither does the end of the process.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextvars import copy_context
from typing import Any, TypeVar

from mailbox_appliance.remote.errors import ServerName, stopping_fault

T = TypeVar("T")


class RemoteCalls:
    """The calls under way. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Future[Any], ServerName] = {}
        self._is_over = False

    def start(
        self, server: ServerName, act: Callable[[], T], discard: Callable[[T], object] = lambda _: None
    ) -> "Future[T]":
        """Make a call; its future has the outcome, or a RemoteFault (`stopping_fault`) once all are given up.

        `discard` is given what comes too late, in the call's own thread. Raises RemoteFault where all are given up.
        """
        future = Future[T]()
        with self._lock:
            if self._is_over:
                raise stopping_fault(server)
            self._waiting[future] = server
        run = copy_context().run  # what it logs is part of the request's
        thread = threading.Thread(
            target=run, args=(self._run, future, act, discard), name=f"{server} call", daemon=True
        )
        try:
            thread.start()
        except BaseException:
            self._forget(future)
            raise
        return future

    def abandon_all(self) -> None:
        """Have nobody wait any more; no call is begun from now on."""
        with self._lock:
            self._is_over = True
            waiting = dict(self._waiting)
        for future, server in waiting.items():
            try:
                future.set_exception(stopping_fault(server))
            except InvalidStateError:  # its outcome has just come
                pass

    def _run(self, future: "Future[T]", act: Callable[[], T], discard: Callable[[T], object]) -> None:
        try:
            outcome = act()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self._resolve(future, future.set_exception, error)
            return
        if not self._resolve(future, future.set_result, outcome):
            discard(outcome)

    def _resolve(self, future: "Future[T]", settle: Callable[[Any], None], outcome: object) -> bool:
        """Whether somebody waits for the outcome still."""
        self._forget(future)
        try:
            settle(outcome)
        except InvalidStateError:
            return False
        return True

    def _forget(self, future: "Future[Any]") -> None:
        with self._lock:
            self._waiting.pop(future, None)
