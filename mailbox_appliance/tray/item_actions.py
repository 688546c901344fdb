"""Carries out the actions of menu items, each in a separate thread. Opens the console, folders and terminals."""

import logging
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mailbox_appliance.client.errors import INTERNAL, NETWORK, Failure
from mailbox_appliance.client.http import ApiRequest
from mailbox_appliance.client.local import RunningAppliance
from mailbox_appliance.clock import SystemClock
from mailbox_appliance.system import ownership, processes
from mailbox_appliance.tray import notifications, service
from mailbox_appliance.tray.autostart import Autostart
from mailbox_appliance.tray.notifications import Notice
from mailbox_appliance.tray.service import MAX_RESTARTS, RESTART_WINDOW, RestartLimit, ServiceProcess
from mailbox_appliance.tray.view import Action
from mailbox_appliance.tray.watcher import ApplianceWatcher

if TYPE_CHECKING:
    from mailbox_appliance.tray.display import TrayDisplay

# --- The console: opened by a single-use link if there is a session, otherwise its sign-in page ---


def console_url(data_dir: Path, place: str = "") -> str:
    """Return the address of a console page, which asks the user to sign in if necessary.

    `place`: the page, as the fragment of the address. Raises Failure if no appliance is running.
    """
    return f"{service.owner_url(data_dir)}/{place and '#' + place}"


def console_link(data_dir: Path, watcher: ApplianceWatcher, place: str = "") -> str:
    """Return an address that opens a console page and signs the user in. It is valid for a minute.

    `place`: the page. If the tray has no session, the address opens the sign-in page. Raises Failure if no appliance
    responds. Open the address at once and show it to nobody, since anyone who has it is signed in.
    """
    closed = console_url(data_dir, place)
    watcher.poll()  # which finds a new session
    try:
        answer = watcher.client().call(ApiRequest("POST", "/auth/console-links", timeout=10))
        return f"{answer['data']['url']}{place and '&to=' + place}"
    except Failure as failure:
        if failure.exit_code == NETWORK:
            raise
    except (KeyError, TypeError):
        pass
    return closed


# --- Other programs opened from the menu: a browser, a folder, a terminal; and text put into the clipboard ---
#
# None is waited for longer than it takes to see that it has begun, and none is left as a zombie. The functions return
# False for what cannot be opened: a bare desktop may have no browser and no clipboard.


#: Seconds after which a program that still runs counts as started successfully.
_BEGINS_WITHIN = 3.0
_BROWSERS = (
    ("xdg-open",),
    ("gio", "open"),
    ("x-www-browser",),
    ("sensible-browser",),
    ("firefox",),
    ("chromium",),
    ("google-chrome",),
)
_FILES = (("xdg-open",), ("gio", "open"))
#: Terminals, and the options of each before the command.
_TERMINALS = (
    ("xdg-terminal-exec",),
    ("x-terminal-emulator", "-e"),
    ("gnome-terminal", "--"),
    ("konsole", "-e"),
    ("xfce4-terminal", "-x"),
    ("mate-terminal", "-x"),
    ("ptyxis", "--"),
    ("kgx", "--"),
    ("foot",),
    ("kitty",),
    ("alacritty", "-e"),
    ("xterm", "-e"),
)
#: A variable that the clipboard needs -> programs that write it from their input.
_CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
)
_CLIPBOARD_OF: dict[str, tuple[str, ...]] = {"darwin": ("pbcopy",), "win32": ("clip",)}
_AND_STAY = '"$@"; printf "\\nPress Enter to close this window. "; read -r _'
_IN_TERMINAL = 'on run argv\ntell application "Terminal"\nactivate\ndo script (item 1 of argv)\nend tell\nend run'


@dataclass(frozen=True)
class DesktopLauncher:
    """Opens addresses, folders and terminals with the programs of this desktop.

    Methods return whether that succeeded.
    """

    environment: Mapping[str, str]
    platform: str = sys.platform

    def open_browser(self, address: Callable[[], str]) -> bool:
        """Open an address in a browser: the one that the variable BROWSER names, else the desktop's default.

        `address` is called again for each browser tried, since a failed one may have used up a single-use link.
        """
        named = [_browser_command(part) for part in self.environment.get("BROWSER", "").split(os.pathsep)]
        return self._try_viewers(named, address) or self._show_in_any(_BROWSERS, address)

    def open_path(self, path: Path) -> bool:
        """Show a folder or a text file in the desktop's default program."""
        return self._show_in_any(_FILES, lambda: str(path))

    def open_terminal(self, command: Sequence[str]) -> bool:
        """Run a command of this program in a terminal window that stays open until the user closes it."""
        if self.platform == "win32":
            # With /s, cmd removes only the outer quotes.
            line = f'cmd /s /k "{" ".join(map(_quote_for_cmd, command))}"'
            return self._start_and_check(line, getattr(subprocess, "CREATE_NEW_CONSOLE", 0))
        if self.platform == "darwin":
            return self._start_and_check(("osascript", "-e", _IN_TERMINAL, shlex.join(command)))
        staying = ("sh", "-c", _AND_STAY, "sh", *command)
        named = [(name, "-e")] if (name := self.environment.get("TERMINAL")) else []
        return any(self._start_and_check((*terminal, *staying)) for terminal in (*named, *_TERMINALS))

    def copy_to_clipboard(self, text: str) -> bool:
        """Copy a text to the clipboard."""
        named = _CLIPBOARD_OF.get(self.platform)
        ways = [named] if named else [command for name, command in _CLIPBOARDS if self.environment.get(name)]
        return any(self._send_text(command, text) for command in ways)

    def _show_in_any(self, ways: Sequence[tuple[str, ...]], what: Callable[[], str]) -> bool:
        if self.platform == "win32":
            return _open_with_windows(what())
        return self._try_viewers([("open",)] if self.platform == "darwin" else ways, what)

    def _try_viewers(self, ways: Sequence[Sequence[str]], what: Callable[[], str]) -> bool:
        path = self.environment.get("PATH")
        there = (way for way in ways if way and shutil.which(way[0], path=path) is not None)
        return any(self._start_and_check(_with_target(way, what())) for way in there)

    def _start_and_check(self, command: Sequence[str], creationflags: int = 0) -> bool:
        child = self._start_program(command, subprocess.DEVNULL, creationflags)
        if child is None:
            return False
        try:
            return child.wait(_BEGINS_WITHIN) == 0
        except subprocess.TimeoutExpired:
            threading.Thread(target=child.wait, name=f"child-{child.pid}", daemon=True).start()
            return True

    def _send_text(self, command: Sequence[str], text: str) -> bool:
        child = self._start_program(command, subprocess.PIPE)
        if child is None:
            return False
        try:
            child.communicate(text.encode(), _BEGINS_WITHIN)
        except (subprocess.TimeoutExpired, OSError):
            child.kill()
            child.wait()
        return child.returncode == 0

    def _start_program(
        self, command: Sequence[str], stdin: int, creationflags: int = 0
    ) -> "subprocess.Popen[bytes] | None":
        """Start a program in a session of its own, so that Ctrl-C does not end it; return None if it does not exist.

        `stdin`, `creationflags`: as for `subprocess.Popen`.
        """
        with suppress(OSError):
            return subprocess.Popen(
                command,
                env=processes.foreign_environment(self.environment),
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=self.platform != "win32",
                creationflags=creationflags,
                umask=ownership.original_umask(),
            )
        return None


def show_in_browser(address: str, environment: Mapping[str, str]) -> bool:
    """Open an address in a browser; return whether that succeeded. For commands, which have no tray."""
    return DesktopLauncher(environment).open_browser(lambda: address)


def _browser_command(part: str) -> list[str]:
    """Return one entry of the variable BROWSER as a command; empty if a quotation mark is not closed."""
    try:
        return [word for word in shlex.split(part) if word != "&"]
    except ValueError:
        return []


def _quote_for_cmd(argument: str) -> str:
    """Quote a path or word for the Windows shell `cmd`.

    Outside quotes, cmd would treat & as an operator. A backslash before the closing quote is doubled.
    """
    ending = argument[len(argument.rstrip("\\")) :]
    return f'"{argument}{ending}"'


def _with_target(way: Sequence[str], what: str) -> list[str]:
    """Return the command `way` with the argument `what`: in place of `%s`, or at the end."""
    return [word.replace("%s", what) for word in way] if any("%s" in word for word in way) else [*way, what]


def _open_with_windows(what: str) -> bool:
    if sys.platform == "win32":
        with suppress(OSError):
            os.startfile(what)  # noqa: S606 - an address or a folder of ours
            return True
    return False


# --- The actions ---


log = logging.getLogger(__name__)

#: Maximum seconds of a backup without a response.
_BACKUP_SECONDS = 6 * 3600.0
#: Titles of failure notifications.
_FAILED = {
    Action.START: "The appliance did not start",
    Action.RESTART: "The appliance crashed and did not restart",
    Action.STOP: "Could not stop the appliance",
    Action.QUIT: "Could not stop the appliance",
    Action.SWITCH_HTTPS: "Could not change remote access",
    Action.SWITCH_START_AT_LOGIN: "Could not change start at login",
}
#: Actions that open a page of the console.
_CONSOLE_PAGES = {
    Action.OPEN_CONSOLE: "",
    Action.SET_UP: "",
    Action.SHOW_MAILBOXES: "/mailboxes",
    Action.SHOW_UNCERTAIN: "/deliveries",
    Action.SHOW_APPROVALS: "/approvals",
    Action.RESTORE: "/backups",
}


@dataclass(frozen=True)
class TrayParts:
    """The objects with which the actions of a tray work, for one data directory."""

    data_dir: Path
    watcher: ApplianceWatcher
    service: ServiceProcess
    opening: DesktopLauncher
    autostart: Autostart | None


class Actions:
    """Runs the actions of one tray, and knows which are in progress."""

    def __init__(self, tray: "TrayDisplay", parts: TrayParts) -> None:
        self._tray, self._parts = tray, parts
        self._acts: Mapping[Action, Callable[[], None]] = {
            **{action: partial(self._open_console, place) for action, place in _CONSOLE_PAGES.items()},
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
        self._restarts = RestartLimit(SystemClock())
        parts.service.on_crash = partial(self.start, Action.RESTART)
        self._changing = threading.Lock()
        self._running: frozenset[Action] = frozenset()
        self._done: frozenset[Action] = frozenset()
        #: The reason why the last start of the service failed.
        self.not_started: str | None = None

    @property
    def running(self) -> frozenset[Action]:
        """The actions that are in progress."""
        return self._running

    def take_recent(self) -> frozenset[Action]:
        """Return the actions in progress, and those that have ended since the last call of this method."""
        with self._changing:
            done, self._done = self._done, frozenset()
            return self._running | done

    def start(self, action: Action, *, then: Action | None = None) -> None:
        """Start an action in a separate thread and return at once. Do nothing if the same action is in progress.

        `then`: an action to start after success. An action that conflicts with one in progress waits for that to end.
        """
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
            log.exception("tray_action_error", extra={"action": action.value})
            self._show_failure(action, "internal_error", "Internal error. The log has the details.")
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
            log.info("tray_start_canceled")
        else:
            log.warning("tray_action_failed", extra={"action": action.value, "code": code})
            self._show_notice(_FAILED.get(action, "Action failed"), message)

    def _show_notice(self, title: str, text: str) -> None:
        self._tray.show_notice(Notice(title, text))

    # --- Opening other programs ---

    def _open_console(self, place: str) -> None:
        parts = self._parts
        if not parts.opening.open_browser(partial(console_link, parts.data_dir, parts.watcher, place)):
            self._show_notice("Could not open a browser", f"The console is at {console_url(parts.data_dir, place)}")

    def _log_in(self) -> None:
        """Open a terminal in which the user signs in.

        A password window of the tray could be imitated by other programs.
        """
        command = processes.own_command("--data-dir", str(self._parts.data_dir), "login", "--format", "table")
        if not self._parts.opening.open_terminal(command):
            line = subprocess.list2cmdline(command) if sys.platform == "win32" else shlex.join(command)
            self._show_notice("Sign in", f"Run in a terminal: {line}")

    def _open_logs(self) -> None:
        folder = self._parts.data_dir / "logs"
        if not self._parts.opening.open_path(folder):
            self._show_notice("Log folder", str(folder))

    def _copy_fingerprint(self) -> None:
        https = self._tray.state.https
        if https is None or https.fingerprint is None:
            return
        if self._parts.opening.copy_to_clipboard(https.fingerprint):
            self._show_notice("Fingerprint copied", "Compare it with the one that the other computer shows.")
        else:
            self._show_notice("Certificate fingerprint", https.fingerprint)

    def _copy_setup_code(self) -> None:
        """Copy the setup code to the clipboard.

        No notification contains it, since desktops keep notifications and show them on locked screens.
        """
        code, file = self._tray.state.setup_code, self._parts.data_dir / "setup-code"
        if code is None:
            return
        if self._parts.opening.copy_to_clipboard(code):
            self._show_notice("Setup code copied", "Paste it when the console asks for it.")
        elif not self._parts.opening.open_path(file):
            self._show_notice("Setup code", f"It is in the menu, and in the file {file}")

    # --- Changes ---

    def _back_up(self) -> None:
        request = ApiRequest("POST", "/admin/backups", body={}, timeout=_BACKUP_SECONDS, advice="Check the log.")
        try:
            self._parts.watcher.client().call(request)
        except Failure as failure:
            self._tray.show_notice(notifications.backup_failed(failure.message))
        else:
            self._tray.show_notice(notifications.backup_made())

    def _switch_https(self) -> None:
        https = self._tray.state.https
        if https is None:
            return
        request = ApiRequest("PATCH", "/admin/https", body={"enabled": not https.enabled}, advice="Check the menu.")
        answer = self._parts.watcher.client().call(request)
        warnings = " ".join(answer.get("warnings") or ())
        if answer["data"]["enabled"]:
            port = urlsplit(answer["data"]["url"] or "").port or answer["data"]["port"]
            told = f"Other computers can connect over HTTPS on port {port}. The menu shows the fingerprint. {warnings}"
            self._show_notice("Remote access is on", told.rstrip())
        else:
            self._show_notice("Remote access is off", warnings or "Only this computer can connect to the appliance.")

    def _switch_start_at_login(self) -> None:
        autostart = self._parts.autostart
        if autostart is None:
            return
        if autostart.is_ours:
            autostart.disable()
        else:
            autostart.enable()

    # --- The service, and the tray itself ---

    def _start_or_restart(self) -> None:
        try:
            self._start_service(self._parts.service.start)
        except Failure as failure:
            if failure.code != service.CRASHED:
                raise
            self._restart()

    def _restart(self) -> None:
        """Start the service again after a crash, after a delay that grows with each crash.

        After too many crashes it is not started again, since a person must correct the cause.
        """
        while (delay := self._restarts.next_delay()) is not None:
            try:
                self._start_service(partial(self._parts.service.restart, delay))
                return
            except Failure as failure:
                if failure.code != service.CRASHED:
                    raise
        often = f"It crashed more than {MAX_RESTARTS} times in {RESTART_WINDOW / 60:.0f} minutes"
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
        """Stop the service and end the tray. A service that systemd runs is not stopped.

        If the service cannot be stopped, the user is notified and the tray ends anyway.
        """
        try:
            self._parts.service.quit()
        except Failure as failure:
            self._show_failure(Action.QUIT, failure.code, failure.message)  # now, since the icon is gone afterwards
        finally:
            self._tray.end()
