"""What a click does. Each click has a thread of its own, so that none keeps the menu waiting; what is under way is not
begun a second time. What came of it is told where nothing else shows it, in the words of the API where it has some.
"""

import logging
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from mailbox_appliance.client.errors import INTERNAL, Failure
from mailbox_appliance.client.http import ApiRequest
from mailbox_appliance.client.local import RunningAppliance
from mailbox_appliance.clock import SystemClock
from mailbox_appliance.system import processes
from mailbox_appliance.tray import console, notices, service
from mailbox_appliance.tray.autostart import Autostart
from mailbox_appliance.tray.notices import Notice
from mailbox_appliance.tray.opening import Opening
from mailbox_appliance.tray.restarts import MOST, WITHIN, Restarts
from mailbox_appliance.tray.rows import Action
from mailbox_appliance.tray.service import Service
from mailbox_appliance.tray.state import State
from mailbox_appliance.tray.watching import Watcher

log = logging.getLogger(__name__)

#: Seconds that a backup may take without a word.
_BACKUP_WITHIN = 6 * 3600.0
#: How it is told that something could not be done.
_FAILED = {
    Action.START: "The appliance did not start",
    Action.RESTART: "The appliance crashed and did not start again",
    Action.STOP: "The appliance was not stopped",
    Action.QUIT: "The appliance goes on",
    Action.SWITCH_HTTPS: "Remote access stays as it was",
    Action.SWITCH_START_AT_LOGIN: "Start at login stays as it was",
}
#: Where the console is opened.
_PLACES = {
    Action.OPEN_CONSOLE: "",
    Action.SET_UP: "",
    Action.SHOW_MAILBOXES: "/mailboxes",
    Action.SHOW_UNCERTAIN: "/deliveries",
    Action.RESTORE: "/backups",
}


class Tray(Protocol):
    """What an action knows of the tray around it."""

    @property
    def state(self) -> State:
        """What was seen last."""

    def show_notice(self, notice: Notice) -> None:
        """Show a notice."""

    def refresh(self) -> None:
        """Something has changed: show it soon."""

    def end(self) -> None:
        """Let the tray end."""


@dataclass(frozen=True)
class Parts:
    """What the actions act on."""

    data_dir: Path
    watcher: Watcher
    service: Service
    opening: Opening
    autostart: Autostart | None


class Actions:
    """The clicks of one tray."""

    def __init__(self, tray: Tray, parts: Parts) -> None:
        self._tray, self._parts = tray, parts
        self._acts: Mapping[Action, Callable[[], None]] = {
            **{action: partial(self._open_console, place) for action, place in _PLACES.items()},
            Action.LOG_IN: self._log_in,
            Action.UNLOCK: parts.watcher.retry_keychain,
            Action.BACK_UP: self._back_up,
            Action.SWITCH_HTTPS: self._switch_https,
            Action.COPY_FINGERPRINT: self._copy_fingerprint,
            Action.COPY_SETUP_CODE: self._copy_setup_code,
            Action.SWITCH_START_AT_LOGIN: self._switch_start_at_login,
            Action.OPEN_LOGS: self._open_logs,
            Action.START: self._start_or_restart,
            Action.RESTART: self._restart,
            Action.STOP: parts.service.stop,
            Action.QUIT: self._quit,
        }
        self._restarts = Restarts(SystemClock())
        parts.service.on_crash = partial(self.start, Action.RESTART)
        self._changing = threading.Lock()
        self._running: frozenset[Action] = frozenset()
        self._done: frozenset[Action] = frozenset()
        #: Why the service did not start when it was last asked to.
        self.not_started: str | None = None

    @property
    def running(self) -> frozenset[Action]:
        """What goes on now."""
        return self._running

    def take_recent(self) -> frozenset[Action]:
        """What goes on now, or has come to its end since this was asked for the last time."""
        with self._changing:
            done, self._done = self._done, frozenset()
            return self._running | done

    def start(self, action: Action, *, then: Action | None = None) -> None:
        """Do what a click asks for, if it is not being done; and another thing, once that is done. Returns at once."""
        with self._changing:
            if action in self._running:
                return
            self._running |= {action}
        threading.Thread(target=self._run_action, args=(action, then), name=f"tray-{action.value}", daemon=True).start()

    def _run_action(self, action: Action, then: Action | None) -> None:
        try:
            self._tray.refresh()
            self._acts[action]()
        except Failure as failure:
            self._show_failure(action, failure.code, failure.message)
        except Exception:
            log.exception("a fault of ours", extra={"action": action.value})
            self._show_failure(action, "internal_error", "This is a fault of ours; the log has more.")
        else:
            if then is not None:
                self.start(then)
        finally:
            with self._changing:
                self._running, self._done = self._running - {action}, self._done | {action}
            self._parts.watcher.poll_all_next()
            self._tray.refresh()

    def _show_failure(self, action: Action, code: str, message: str) -> None:
        if code == service.STOPPED:
            log.info("a start was called off")
        else:
            log.warning("a click came to nothing", extra={"action": action.value, "code": code})
            self._show_notice(_FAILED.get(action, "That could not be done"), message)

    def _show_notice(self, title: str, text: str) -> None:
        self._tray.show_notice(Notice(title, text))

    # --- what leads elsewhere ---

    def _open_console(self, place: str) -> None:
        parts = self._parts
        if not parts.opening.open_browser(partial(console.link, parts.data_dir, parts.watcher, place)):
            self._show_notice("No browser could be opened", f"The console is at {console.door(parts.data_dir, place)}")

    def _log_in(self) -> None:
        """In a terminal: a password is typed where nothing of ours is drawn that others could imitate."""
        command = processes.own_command("--data-dir", str(self._parts.data_dir), "login", "--format", "table")
        if not self._parts.opening.open_terminal(command):
            line = subprocess.list2cmdline(command) if sys.platform == "win32" else shlex.join(command)
            self._show_notice("Log in", f"Type in a terminal: {line}")

    def _open_logs(self) -> None:
        folder = self._parts.data_dir / "logs"
        if not self._parts.opening.open_folder(folder):
            self._show_notice("The log folder", str(folder))

    def _copy_fingerprint(self) -> None:
        https = self._tray.state.https
        if https is None or https.fingerprint is None:
            return
        if self._parts.opening.copy_to_clipboard(https.fingerprint):
            self._show_notice("The fingerprint is copied", "Compare it with what the other computer shows.")
        else:
            self._show_notice("The fingerprint of the certificate", https.fingerprint)

    def _copy_setup_code(self) -> None:
        """It is in no notice: those are kept, and shown on locked screens."""
        code, file = self._tray.state.setup_code, self._parts.data_dir / "setup-code"
        if code is None:
            return
        if self._parts.opening.copy_to_clipboard(code):
            self._show_notice("The set-up code is copied", "Paste it where the console asks for it.")
        elif not self._parts.opening.open_file(file):
            self._show_notice("The set-up code", f"It is in the menu, and in the file {file}")

    # --- what is changed ---

    def _back_up(self) -> None:
        request = ApiRequest("POST", "/admin/backups", body={}, timeout=_BACKUP_WITHIN, advice="The log tells more.")
        try:
            self._parts.watcher.client().call(request)
        except Failure as failure:
            self._tray.show_notice(notices.not_backed_up(failure.message))
        else:
            self._tray.show_notice(notices.backed_up())

    def _switch_https(self) -> None:
        https = self._tray.state.https
        if https is None:
            return
        request = ApiRequest("PATCH", "/admin/https", body={"enabled": not https.enabled}, advice="The menu tells.")
        answer = self._parts.watcher.client().call(request)
        warnings = " ".join(answer.get("warnings") or ())
        if answer["data"]["enabled"]:
            port = urlsplit(answer["data"]["url"] or "").port or answer["data"]["port"]
            told = f"Other computers reach it by HTTPS at port {port}; the menu has the fingerprint. {warnings}"
            self._show_notice("Remote access is on", told.rstrip())
        else:
            self._show_notice("Remote access is off", warnings or "Only this computer reaches the appliance.")

    def _switch_start_at_login(self) -> None:
        autostart = self._parts.autostart
        if autostart is None:
            return
        if autostart.is_ours:
            autostart.disable()
        else:
            autostart.enable()

    # --- the service, and the tray itself ---

    def _start_or_restart(self) -> None:
        try:
            self._start_service(self._parts.service.start)
        except Failure as failure:
            if failure.code != service.CRASHED:
                raise
            self._restart()

    def _restart(self) -> None:
        """Start the service again after a crash, later each time; what crashes again and again is left to a person."""
        while (delay := self._restarts.next_delay()) is not None:
            try:
                self._start_service(partial(self._parts.service.restart, delay))
                return
            except Failure as failure:
                if failure.code != service.CRASHED:
                    raise
        often = f"It crashed more than {MOST} times in {WITHIN / 60:.0f} minutes"
        self.not_started = f"{often}. Report the traces in the log folder."
        raise Failure(service.CRASHED, self.not_started, INTERNAL)

    def _start_service(self, start: Callable[[], RunningAppliance]) -> None:
        try:
            start()
        except Failure as failure:
            self.not_started = None if failure.code == service.STOPPED else failure.message
            raise
        self.not_started = None

    def _quit(self) -> None:
        """The service ends with the tray, unless systemd keeps it; what cannot be ended is told, and goes on."""
        try:
            self._parts.service.quit()
        except Failure as failure:
            self._show_failure(Action.QUIT, failure.code, failure.message)  # now: there is no icon afterwards
        finally:
            self._tray.end()
