"""The running service of a data directory. Its listeners stay open while a restore replaces the appliance behind them.

The steps of a restore:

1. The API prepares it (store/restore/restore.py), calls `Appliance.start_restore`, and responds with 202.
2. The thread in `Service.serve` lets requests get 503, stops the appliance, and closes its files. It keeps the lock of
   the directory.
3. `complete_restore` replaces the files.
4. A new appliance opens the restored store, and requests are served again.

If the restore fails, an appliance starts again on the current store. If the restored store cannot be opened, the
previous store is put back first.
"""

import logging
import math
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue

from mailbox_appliance import logs
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import HttpsNotOffered, Stopping, StoreUnusable
from mailbox_appliance.mcp_server.http import McpEndpoint
from mailbox_appliance.service import signals
from mailbox_appliance.service.bootstrap import Bootstrap, ensure_setup_code, tune_garbage_collector
from mailbox_appliance.service.listeners import ServiceListeners
from mailbox_appliance.service.shutdown import shut_down_in_background
from mailbox_appliance.settings import BadSetting
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.restore import pending
from mailbox_appliance.store.restore.restore import PreparedRestore, RestoreResult, complete_restore, undo_restore
from mailbox_appliance.web.app import App

log = logging.getLogger(__name__)

#: Seconds from a stop request to the end of the process, whatever is in progress.
SHUTDOWN_SECONDS = 9.0
# Requests continue for the first of these; within the second, all of them get a response.
_FINISH_SECONDS, _ANSWER_SECONDS = 3.0, 3.0
_CLOSE_FILES_SECONDS = 1.5
_POLL_SECONDS = 0.05
_RETRY_AFTER = 10
_WAKE_EVERY = 1.0  # a signal just before the wait begins is handled only after it
# Seconds for requests in progress when a restore begins.
_DRAIN_SECONDS = 10.0


class _StopRequested(Exception):
    """Raised to abort a restore because the service must stop."""


class Service:
    """The running service: its appliance and listeners, until it is stopped.

    One thread calls `serve`; any thread and a signal handler may call `stop`.
    """

    def __init__(self, bootstrap: Bootstrap, appliance: Appliance) -> None:
        """Open the listeners for an appliance, which `close` will close. Raises CannotListen, CertificateUnusable."""
        self._bootstrap = bootstrap
        self._assistants = McpEndpoint()
        self._app = App(appliance, assistants=self._assistants)
        self.listening = ServiceListeners(self._app, appliance)
        self._lock = appliance.store.lock
        self._appliance: Appliance | None = appliance
        # A signal handler may add an item at any moment, even while it is being read; an event is not safe for that.
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._is_stopping = self._must_reload = False
        self._stop_requested_at: float | None = None
        self._shutdown: Future[bool] | None = None
        self._pending_restore: tuple[PreparedRestore, Actor] | None = None
        #: The secret by which a local user proves to be the operator.
        self.secret = secrets.token_urlsafe(32)
        #: The setup code, until setup is done.
        self.setup_code: str | None = None

    def start(self) -> None:
        """Start the appliance and begin to serve requests."""
        assert self._appliance is not None  # noqa: S101 - as it was taken over
        self._attach(self._appliance)
        self._appliance.start()
        self.listening.start()
        tune_garbage_collector()

    def serve(self) -> None:
        """Wait until `stop` is called. Until then, carry out requested restores and reloads in this thread."""
        while not self._is_stopping:
            with suppress(Empty):
                self._wakeups.get(timeout=_WAKE_EVERY)
            if self._pending_restore is not None and not self._is_stopping:
                handed_over, self._pending_restore = self._pending_restore, None
                self._carry_out_restore(*handed_over)
            if self._must_reload and not self._is_stopping:
                self._must_reload = False
                self._reload_all()
            self.listening.refresh_certificate()
        if self._pending_restore is not None:
            self._abandon_restore(*self._pending_restore)

    @property
    def data_dir(self) -> Path:
        """The path of the data directory that is served."""
        return self._bootstrap.data_dir

    @property
    def pending_work(self) -> str:
        """The work that a shutdown would wait for now, such as `2 requests and messages being sent`.

        Empty if there is none.
        """
        requests, appliance = self.listening.requests, self._appliance
        parts = [f"{requests} request{'' if requests == 1 else 's'}"] if requests else []
        parts += ["messages being sent"] if appliance is not None and appliance.sender.is_sending() else []
        return " and ".join([*parts, *(["the restore"] if self._shutdown is not None else [])])

    def stop(self) -> None:
        """Make `serve` return. Safe in signal handlers."""
        if self._stop_requested_at is None:
            self._stop_requested_at = time.monotonic()
        self._is_stopping = True
        self._wakeups.put(None)

    def reload(self) -> None:
        """Make `serve` reload configuration, certificate and log files. Safe in signal handlers."""
        self._must_reload = True
        self._wakeups.put(None)

    def close(self) -> None:
        """Finish requests in progress, stop within seconds, and release the lock of the data directory."""
        began = self._stop_requested_at or time.monotonic()
        until = began + SHUTDOWN_SECONDS
        log.info("service_stopping")
        # Requests that wait for a send are released first; those that wait for other servers get some time.
        if self._appliance is not None:
            self._appliance.stop_sending()
        self.listening.stop_listening()
        if not self.listening.wait_until_idle(min(_FINISH_SECONDS, _seconds_left(until) / 3)):
            if self._appliance is not None:
                self._appliance.abort_requests()
            self.listening.refuse_unfinished(Stopping(retry_after=_RETRY_AFTER))
        self.listening.stop(min(_ANSWER_SECONDS, _seconds_left(until) / 2))
        self._assistants.close()
        if self._shutdown is not None:
            wait([self._shutdown], max(0.0, _seconds_left(until) - _CLOSE_FILES_SECONDS))
        if self._appliance is not None:
            self._appliance.stop(max(0.0, _seconds_left(until) - _CLOSE_FILES_SECONDS))
        log.info("service_stopped", extra={"seconds": round(time.monotonic() - began, 1)})
        self._lock.release()

    def _reload_all(self) -> None:
        """An error is logged, and the service continues."""
        signals.notify_reloading()
        try:
            logs.reopen()
            self._reload_configuration()
            self.listening.reload()
        except Exception:
            log.exception("reload_failed")
        finally:
            signals.notify_ready()

    def _reload_configuration(self) -> None:
        assert self._appliance is not None  # noqa: S101 - only `serve` takes it away, and puts another one there
        settings = self._appliance.settings
        try:
            loaded = self._bootstrap.load_settings()
        except BadSetting as error:
            settings.is_file_invalid = True
            log.error("config_rejected", extra={"why": str(error)})
            return
        except Exception:
            settings.is_file_invalid = True
            raise
        try:
            later = self._appliance.apply_configuration(loaded)
        except HttpsNotOffered as problem:
            log.error("config_reloaded_without_https", extra={"why": problem.message})
        else:
            log.info("config_reloaded", extra={"at_the_next_start": list(later)})

    def _attach(self, appliance: Appliance) -> None:
        appliance.local_url, appliance.operator_secret = self.listening.local_url, self.secret
        appliance.start_restore, appliance.https = self._accept_restore, self.listening
        self.setup_code = ensure_setup_code(appliance)
        if self._bootstrap.prepare is not None:
            self._bootstrap.prepare(appliance)

    def _accept_restore(self, prepared: PreparedRestore, actor: Actor) -> None:
        # the audit log will have a row about it from here on, even if this process is killed
        _note_restore(prepared, actor)
        self._pending_restore = prepared, actor
        self._wakeups.put(None)

    def _carry_out_restore(self, prepared: PreparedRestore, actor: Actor) -> None:
        facts = {"backup": prepared.backup_id}
        log.info("restore_started", extra=facts)
        try:
            if not self._shut_down_appliance():
                raise StoreUnusable(reason="a thread that did not stop still uses the store's files.")
            restored = complete_restore(prepared, SystemClock(), actor, self._check_stopping)
        except _StopRequested:
            self._abandon_restore(prepared, actor)
            return
        except Exception:
            log.exception("restore_failed", extra=facts)
            self._resume_after_failure(prepared, actor)
            return
        if self._is_stopping:  # the next start moves the restored store into place
            return
        try:
            appliance = self._reopen()
        except Exception:
            log.exception("restore_reverted", extra=facts)
            if restored.kept is not None:
                undo_restore(prepared, restored.kept)
            self._resume_after_failure(prepared, actor)
            return
        # There is no way back from here: the appliance may send, and what it sends must not be forgotten.
        self._resume(appliance)
        log.info("restore_finished", extra=facts | _restore_facts(restored))

    def _abandon_restore(self, prepared: PreparedRestore, actor: Actor) -> None:
        """The audit log gets the outcome at the next start, because the store may be closed by now."""
        log.warning("restore_abandoned", extra={"backup": prepared.backup_id})
        _note_restore(prepared, actor)

    def _shut_down_appliance(self) -> bool:
        """Return False if a thread still has a file open: it might write an old log into a new store."""
        appliance = self._appliance
        assert appliance is not None  # noqa: S101 - it is what handed over
        self._app.handle.pause(0)
        appliance.stop_sending()
        if not self._wait_for(_DRAIN_SECONDS, self._app.handle.pause):
            log.warning("restore_forced_close")
        self._appliance, shutdown = None, shut_down_in_background(appliance)
        self._shutdown = shutdown
        try:
            self._wait_for(math.inf, lambda within: bool(wait([shutdown], within).done))  # it has its own time limits
        except _StopRequested:
            appliance.abort_requests()
            raise
        self._shutdown = None
        return shutdown.result()

    def _wait_for(self, within: float, has_come: Callable[[float], bool]) -> bool:
        """Return whether `has_come`, which waits the given seconds, was true in time. Raises _StopRequested."""
        until = time.monotonic() + within
        while not has_come(_POLL_SECONDS):
            if self._is_stopping:
                raise _StopRequested
            if not _seconds_left(until):
                return False
        return True

    def _reopen(self) -> Appliance:
        appliance = self._bootstrap.reopen(self._lock)
        try:
            logs.set_level(appliance.settings.text("log.level"))
            self._attach(appliance)
        except BaseException:
            appliance.stop_workers()
            appliance.store.close_files()
            raise
        return appliance

    def _resume_after_failure(self, prepared: PreparedRestore, actor: Actor) -> None:
        _note_restore(prepared, actor)  # the failed step discarded the mark; the next opening of the store records it
        if not self._is_stopping:
            self._resume(self._reopen())

    def _resume(self, appliance: Appliance) -> None:
        self._appliance = appliance  # if a later step fails, `close` still stops it
        if self._is_stopping:
            return
        appliance.start()
        self.listening.switch_to(appliance)
        self._app.handle.resume(appliance)
        tune_garbage_collector(is_restored=True)

    def _check_stopping(self, _step: str, _done: int, _total: int) -> None:
        if self._is_stopping:
            raise _StopRequested


def _seconds_left(until: float) -> float:
    return max(0.0, until - time.monotonic())


def _note_restore(prepared: PreparedRestore, actor: Actor) -> None:
    pending.mark_pending(prepared.folder, prepared.backup_id, actor)


def _restore_facts(restored: RestoreResult) -> dict[str, object]:
    carried = restored.carried
    how = {"known": carried.is_known, "relation": carried.relation, "log_goes_on": carried.has_log}
    return {**how, **asdict(carried.sends), **asdict(carried.rights)}
