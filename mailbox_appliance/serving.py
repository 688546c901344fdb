"""A data directory, served: listening that stays, and the appliance behind it, which a restore replaces.

    request `restore` -> prepared (store/restore) -> 202 -> hand_over
    the serving thread: requests are 503 -> the appliance rests -> its files are closed, the directory stays ours
                        -> complete -> another appliance on what is there now -> requests go on

Where the restore fails the appliance begins again on the store that was there; where the restored store does not open,
what it replaced is put back first.
"""

import gc
import logging
import secrets
import time
from contextlib import suppress
from dataclasses import asdict
from queue import Empty, SimpleQueue

from mailbox_appliance import logs, service_manager
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import HttpsNotOffered, Stopping, StoreUnusable
from mailbox_appliance.listening import Listening
from mailbox_appliance.opening import Opening
from mailbox_appliance.settings import BadSetting
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.files import write_private
from mailbox_appliance.store.restore import Prepared, Restored, complete, put_back
from mailbox_appliance.store.store import Store
from mailbox_appliance.web.app import App

log = logging.getLogger(__name__)

_GIVEN_UP = "a restore was given up, since the service ends"
# Seconds in which it ends, whatever is under way: requests go on for the first of them, and in the next all of them are
# answered.
_END_WITHIN, _GO_ON, _ANSWER = 9.0, 3.0, 3.0
_CLOSE_FILES = 1.5
_RETRY_AFTER = 10
_LOOK_AGAIN = 1.0  # a signal that comes just before the waiting begins is only handled after it
# Seconds for what is under way when a restore begins: requests; sends, of which longer ones become uncertain; and
# whoever still reads.
_ANSWER_WITHIN, _REST_WITHIN, _CLOSE_WITHIN = 10.0, 20.0, 30.0


class _Stopped(Exception):
    """Serving is to end: nothing that was begun is decided any more."""


class Service:
    """Serves until it is told to stop. One thread calls `serve`, any thread and a signal `stop`."""

    def __init__(self, opening: Opening, appliance: Appliance) -> None:
        """Take an open appliance over; it listens from now on. Raises CannotListen, CertificateUnusable."""
        self._opening = opening
        self._app = App(appliance)
        self.listening = Listening(self._app, appliance)
        self._lock = appliance.store.lock
        self._appliance: Appliance | None = appliance
        # A signal handler may put into it at any moment, also while it is being read; an event cannot be set so.
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._is_stopping = self._is_to_reload = False
        self._handed_over: tuple[Prepared, Actor] | None = None
        #: Shows that somebody on this computer is its operator.
        self.secret = secrets.token_urlsafe(32)
        #: What set-up asks for, until that is done.
        self.setup_code: str | None = None

    def start(self) -> None:
        """Begin to work, and to answer."""
        assert self._appliance is not None  # noqa: S101 - as it was taken over
        self._make_ready(self._appliance)
        self._appliance.start()
        self.listening.start()
        _keep_out_of_the_way()

    def serve(self) -> None:
        """Wait until it is told to stop; a restore that is handed over meanwhile is carried out here."""
        while not self._is_stopping:
            with suppress(Empty):
                self._woken.get(timeout=_LOOK_AGAIN)
            if self._handed_over is not None and not self._is_stopping:
                handed_over, self._handed_over = self._handed_over, None
                self._restore(*handed_over)
            if self._is_to_reload and not self._is_stopping:
                self._is_to_reload = False
                self._take_up_anew()
            self.listening.look()
        if self._handed_over is not None and self._appliance is not None:
            prepared, actor = self._handed_over
            log.warning(_GIVEN_UP, extra={"backup": prepared.backup_id})
            _note_failure(self._appliance.store, prepared, actor)

    def stop(self) -> None:
        """Let `serve` end. For signal handlers as well."""
        self._is_stopping = True
        self._woken.put(None)

    def reload(self) -> None:
        """Let `serve` take up configuration, certificate and log files as they are now. For signal handlers as well."""
        self._is_to_reload = True
        self._woken.put(None)

    def close(self) -> None:
        """Answer what is in flight, end, and let others have the directory; within seconds."""
        until = time.monotonic() + _END_WITHIN
        # Requests that wait for a send are released first; those that wait for others have some time to go on.
        if self._appliance is not None:
            self._appliance.release()
        self.listening.stop_listening()
        if not self.listening.is_through(_GO_ON):
            if self._appliance is not None:
                self._appliance.break_off()
            self.listening.refuse_unfinished(Stopping(retry_after=_RETRY_AFTER))
        self.listening.stop(_ANSWER)
        if self._appliance is not None:
            self._appliance.stop(max(0.0, until - time.monotonic() - _CLOSE_FILES))
        self._lock.release()

    def _take_up_anew(self) -> None:
        assert self._appliance is not None  # noqa: S101 - only `serve` takes it away, and puts another one there
        service_manager.reloading()
        logs.reopen()
        try:
            later = self._appliance.use_configuration(self._opening.options())
        except BadSetting as error:
            log.error("the configuration does not fit, so it stays as it was", extra={"why": str(error)})
        except HttpsNotOffered as problem:
            log.error("the configuration was taken up, but for HTTPS", extra={"why": problem.message})
        else:
            log.info("the configuration was taken up", extra={"at_the_next_start": list(later)})
        self.listening.reload()
        service_manager.ready()

    def _make_ready(self, appliance: Appliance) -> None:
        appliance.local_url, appliance.operator_secret = self.listening.local_url, self.secret
        appliance.hand_over, appliance.https = self._take, self.listening
        self.setup_code = _setup_code(appliance)
        if self._opening.prepare is not None:
            self._opening.prepare(appliance)

    def _take(self, prepared: Prepared, actor: Actor) -> None:
        self._handed_over = prepared, actor
        self._woken.put(None)

    def _restore(self, prepared: Prepared, actor: Actor) -> None:
        facts = {"backup": prepared.backup_id}
        log.info("the service rests for a restore", extra=facts)
        is_closed = self._rest()
        try:
            if not is_closed:
                raise StoreUnusable(reason="a thread that does not end still uses the store's files.")
            restored = complete(prepared, SystemClock(), actor, self._look)
        except _Stopped:
            log.warning(_GIVEN_UP, extra=facts)
            return
        except Exception:
            log.exception("the restore failed; the store stays as it was", extra=facts)
            self._go_on(self._opened(failed=(prepared, actor)))
            return
        if self._is_stopping:  # the next start moves the restored store into its place
            return
        try:
            appliance = self._opened()
        except Exception:
            log.exception("the restored store does not open; what it replaced is put back", extra=facts)
            if restored.kept is not None:
                put_back(prepared, restored.kept)
            self._go_on(self._opened(failed=(prepared, actor)))
            return
        # From here on there is no way back: it may send, and what it sends must not be forgotten.
        self._go_on(appliance)
        log.info("the restore is done", extra=facts | _told(restored))

    def _rest(self) -> bool:
        """Stop the appliance and close its files; the directory stays ours.

        False: somebody still has a file open, and might fold an old log into a new one. Nothing can be replaced then.
        """
        appliance, self._appliance = self._appliance, None
        assert appliance is not None  # noqa: S101 - it is what handed over
        self._app.present.pause(0)
        appliance.release()
        if not self._app.present.pause(_ANSWER_WITHIN):
            log.warning("a request is not answered yet; the store is closed under its hands")
        appliance.rest(_REST_WITHIN)
        return appliance.store.close_files(_CLOSE_WITHIN)

    def _opened(self, failed: tuple[Prepared, Actor] | None = None) -> Appliance:
        """Another appliance on the store that is there now, ready to begin; what failed is noted in it."""
        appliance = self._opening.again(self._lock)
        try:
            if failed is not None:
                _note_failure(appliance.store, *failed)
            logs.set_level(appliance.settings.text("log.level"))
            self._make_ready(appliance)
        except BaseException:
            appliance.rest()
            appliance.store.close_files()
            raise
        return appliance

    def _go_on(self, appliance: Appliance) -> None:
        self._appliance = appliance  # whatever fails now, who ends stops it
        appliance.start()
        self.listening.use(appliance)
        self._app.present.resume(appliance)
        _keep_out_of_the_way()

    def _look(self, _step: str, _done: int, _total: int) -> None:
        if self._is_stopping:
            raise _Stopped


def _note_failure(store: Store, prepared: Prepared, actor: Actor) -> None:
    with store.database.transaction(durable=True):
        store.audit.record(actor, "backup.restore", ("backup", prepared.backup_id), "failure")


def _told(restored: Restored) -> dict[str, object]:
    carried = restored.carried
    how = {"known": carried.is_known, "relation": carried.relation, "log_goes_on": carried.has_log}
    return {**how, **asdict(carried.sends), **asdict(carried.rights)}


def _setup_code(appliance: Appliance) -> str | None:
    """The code that set-up asks for, kept in a file that only the owner reads; None where set-up is done."""
    file = appliance.folder / SETUP_CODE
    if appliance.store.members.any():
        file.unlink(missing_ok=True)
        return None
    code = "-".join(secrets.token_hex(3) for _ in range(4))
    write_private(file, code.encode() + b"\n")
    return code


def _keep_out_of_the_way() -> None:
    """What stays for good is not looked through for garbage any more, and the rest not after every few objects."""
    gc.unfreeze()  # another appliance may have been there before
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
