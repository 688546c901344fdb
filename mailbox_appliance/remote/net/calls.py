"""Run calls to external servers for which an API request waits, so that all of them can be abandoned at once.

Each call has its own thread, because a DNS lookup or a connection to a silent host cannot be interrupted before its
timeout. After a call is abandoned, neither the request nor the end of the process waits for it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextvars import copy_context
from typing import Any, TypeVar

from mailbox_appliance.remote.errors import ServerName, stopping_fault

T = TypeVar("T")


class RemoteCalls:
    """Runs calls to external servers in threads of their own. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Future[Any], ServerName] = {}
        self._is_over = False

    def start(
        self, server: ServerName, act: Callable[[], T], discard: Callable[[T], object] = lambda _: None
    ) -> "Future[T]":
        """Run `act` in a new thread. Returns a future for its result or its exception.

        `abandon_all` gives the future a RemoteFault (`stopping_fault`). If `act` returns after that, `discard` gets the
        result, in the same thread. Raises RemoteFault if `abandon_all` was called before.
        """
        future = Future[T]()
        with self._lock:
            if self._is_over:
                raise stopping_fault(server)
            self._waiting[future] = server
        run = copy_context().run  # Its log lines belong to the request.
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
        """Let every waiting caller continue with a RemoteFault, and refuse new calls."""
        with self._lock:
            self._is_over = True
            waiting = dict(self._waiting)
        for future, server in waiting.items():
            try:
                future.set_exception(stopping_fault(server))
            except InvalidStateError:  # its result has just arrived
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
        """Finish a call. `settle`: sets the future's result or exception to `outcome`.

        Returns False if the call was abandoned before.
        """
        self._forget(future)
        try:
            settle(outcome)
        except InvalidStateError:
            return False
        return True

    def _forget(self, future: "Future[Any]") -> None:
        with self._lock:
            self._waiting.pop(future, None)
