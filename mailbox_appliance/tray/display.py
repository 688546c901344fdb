"""Keeps the tray icon up to date, and finds the program or library that shows icons on this system."""

import logging
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.tray import menu, notifications
from mailbox_appliance.tray.item_actions import Actions, TrayParts
from mailbox_appliance.tray.notifications import Notice
from mailbox_appliance.tray.pystray import PystrayIcon
from mailbox_appliance.tray.state import PollSchedule, ServiceState, TrayState
from mailbox_appliance.tray.view import Action, Icon, NoTrayHost, OnClick, OnOpen

log = logging.getLogger(__name__)

#: Seconds between checks of local files, and between polls while an action is in progress.
EVERY = 5.0
#: Seconds to wait for a running poll, as of an appliance that does not answer.
_ENDS_WITHIN = 0.5
_OF_SERVICE = frozenset({Action.START, Action.RESTART, Action.STOP, Action.QUIT})
_STARTS_SERVICE = frozenset({Action.START, Action.RESTART})
_ENDS_SERVICE = frozenset({Action.STOP, Action.QUIT})
_RUNS = (ServiceState.ANSWERS, ServiceState.RESTS, ServiceState.SILENT)
_ENDING = (ServiceState.STOPPED, ServiceState.STOPPING)


class TrayDisplay:
    """The tray of a data directory: polls the appliance and shows its state on the icon.

    `start` starts the one thread that polls; any thread may call the other methods.
    """

    def __init__(self, parts: TrayParts) -> None:
        self._parts, self.actions, self._schedule = parts, Actions(self, parts), PollSchedule(SystemClock())
        self._icon: Icon | None = None
        self._seen: TrayState | None = None
        self._starts_at_login: bool | None = None
        self._one_shown = threading.Lock()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._poll_loop, name="tray-look", daemon=True)

    @property
    def state(self) -> TrayState:
        """The state that the last poll found, with the actions in progress in this tray."""
        return self._with_own_actions(self._seen or TrayState(ServiceState.STARTING))  # set once it is started or found

    def start(self, icon: Icon, *, opens_console: bool) -> None:
        """Start polling and show the state on this icon. Also start the service, if it is not running.

        `opens_console`: open the console once the service responds.
        """
        self._icon = icon
        if self._ended.is_set():  # requested before there was an icon
            icon.stop()
        self.actions.start(Action.START, then=Action.OPEN_CONSOLE if opens_console else None)
        self._update_icon()
        self._thread.start()

    def close(self) -> None:
        """Stop polling. Call it after the icon was removed."""
        self._ended.set()
        self._wake.set()
        self._thread.join(_ENDS_WITHIN)

    def show_notice(self, notice: Notice) -> None:
        """Show a desktop notification."""
        if self._icon is not None and not self._ended.is_set():
            self._icon.notify(notice.title, notice.text)

    def refresh(self) -> None:
        """Show the known state on the icon now, and poll at once for changes."""
        self._update_icon()
        self._wake.set()

    def on_menu_opened(self) -> None:
        """Poll at once, since the user has opened the menu. The user counts as present for the polling schedule."""
        self._schedule.note_use()
        if self._schedule.try_poll_all():
            self._parts.watcher.poll_all_next()
        self._wake.set()

    def end(self) -> None:
        """Remove the icon and end the tray."""
        self._ended.set()
        if self._icon is not None:
            self._icon.stop()

    # --- The polling thread ---

    def _poll_loop(self) -> None:
        while not self._ended.is_set():
            is_woken = self._wake.is_set()
            self._wake.clear()
            try:
                if is_woken or self._is_due():
                    self._poll()
            except Exception:
                log.exception("tray_refresh_failed")
            self._wake.wait(EVERY)

    def _is_due(self) -> bool:
        return self._seen is None or self._schedule.is_due(self.state) or self._parts.watcher.has_news()

    def _poll(self) -> None:
        self._schedule.note_poll()
        ours, autostart = self.actions.take_recent(), self._parts.autostart
        if autostart is not None:
            self._starts_at_login = autostart.is_ours
        before, seen = self._seen, self._parts.watcher.poll()
        if before is not None and before.service is not seen.service:
            log.info("tray_service_changed", extra={"service": seen.service.value})
        self._seen = seen
        if seen.service is ServiceState.ANSWERS:
            self.actions.not_started = None  # the user has started it
        self._update_icon()
        for notice in notifications.notices_between(_with_expected_changes(before, seen, ours), seen):
            self.show_notice(notice)

    def _update_icon(self) -> None:
        with self._one_shown:  # of two states, the newer one is shown last
            state = self.state
            if self._icon is not None and not self._ended.is_set():
                self._icon.show(menu.icon_look(state), menu.title_text(state), menu.menu_rows(state))

    def _with_own_actions(self, seen: TrayState) -> TrayState:
        under_way = self.actions.running
        return replace(
            seen,
            service=_with_requested_service(seen, under_way),
            not_started=self.actions.not_started,
            is_backing_up=seen.is_backing_up or Action.BACK_UP in under_way,
            starts_at_login=self._starts_at_login,
        )


def _with_requested_service(seen: TrayState, under_way: frozenset[Action]) -> ServiceState:
    """Return the state of the service: STARTING or STOPPING if an action in progress starts or stops it, else as
    polled.

    `seen`: the polled state. `under_way`: the actions in progress in this tray.
    """
    if under_way & _STARTS_SERVICE and seen.service is ServiceState.STOPPED:
        return ServiceState.STARTING
    if under_way & _ENDS_SERVICE and seen.service in _RUNS and not seen.is_kept:
        return ServiceState.STOPPING
    return seen.service


def _with_expected_changes(before: TrayState | None, seen: TrayState, ours: frozenset[Action]) -> TrayState | None:
    """Return the previous state with the changes that this tray caused, so that they cause no notification.

    `before`: the previous state. `seen`: the polled one. `ours`: the actions of this tray since then.
    """
    if before is not None and ours & _OF_SERVICE and seen.service in _ENDING:
        before = replace(before, service=ServiceState.STOPPED)
    if before is not None and Action.BACK_UP in ours:
        before = replace(before, backup=seen.backup)
    return before


# --- Where icons are shown: the tray of Windows and macOS; on Linux the result of `find_linux_icon` ---


#: Seconds. A desktop may start the tray at login before the program that shows icons.
HOST_WAIT_SECONDS = 10.0
_WITHOUT_EXTRA = "The tray icon needs more packages. Install them with `pip install 'mailbox-appliance[tray]'`."


def find_icon(
    on_click: OnClick,
    on_open: OnOpen,
    environment: Mapping[str, str],
    *,
    patience: float = HOST_WAIT_SECONDS,
    platform: str = sys.platform,
) -> Icon:
    """Return a tray icon for this system, not shown yet.

    `on_click`: called when a menu item is clicked. `on_open`: called when the menu opens. Waits up to `patience`
    seconds for a desktop that shows icons. Raises NoTrayHost if there is none.
    """
    if platform in ("win32", "darwin"):
        return _system_icon(on_click, platform)
    if platform != "linux":
        raise NoTrayHost(f"Tray icons are not supported on this system ({platform}).")
    from mailbox_appliance.tray.linux import icon

    return icon.find_linux_icon(on_click, on_open, environment, patience)


def _system_icon(on_click: OnClick, platform: str) -> Icon:
    """Return the icon for Windows or macOS."""
    try:
        return PystrayIcon(on_click, platform)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "pystray":
            raise NoTrayHost(_WITHOUT_EXTRA) from error
        raise NoTrayHost(f"This session cannot show a tray icon ({type(error).__name__}: {error}).") from error
