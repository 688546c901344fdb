"""The tray as a process: the icon has the main thread, one thread looks, and each click has one of its own.

What ends it     and what becomes of the service
Quit             it is stopped, unless systemd keeps it
SIGTERM, Ctrl-C  it goes on. A desktop that ends tells all its programs so, and nobody has asked for mail to stop: where
                 processes may stay (`loginctl enable-linger`), scheduled sends still go out, and where they may not the
                 system ends the service as well, in order. The next tray finds it. One that does not serve yet ends
no more tray     it goes on
"""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from mailbox_appliance import logs
from mailbox_appliance.client.errors import INTERNAL, Failure
from mailbox_appliance.client.local import RunningAppliance, default_data_dir, find_running
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.system import processes
from mailbox_appliance.tray import autostart, console
from mailbox_appliance.tray.actions import Parts
from mailbox_appliance.tray.alone import OtherTray, Unusable, alone, end_tray
from mailbox_appliance.tray.endings import Endings
from mailbox_appliance.tray.host import Icon, NoTray
from mailbox_appliance.tray.opening import Opening
from mailbox_appliance.tray.service import Service
from mailbox_appliance.tray.showing import Showing
from mailbox_appliance.tray.watching import Watcher

log = logging.getLogger(__name__)

#: Bytes of tray.log, of which one older one is kept.
_LARGEST_LOG = 200_000
#: Seconds that a desktop has to show icons on which somebody has clicked already.
_PATIENCE_OF_CLICKS = 1.0
_NO_PLACE = "There is no place for the icon"


def run(data_dir: Path, config_dir: Path, *, opens_console: bool, environment: Mapping[str, str] = os.environ) -> int:
    """Show the icon until it ends; returns the exit code. `opens_console` once the appliance answers.

    Without a place for icons, and beside another tray, it says so and returns at once, without an error: what starts at
    login is not started again for that. Who asked for the console gets it all the same, where there is a screen.
    """
    parts = _parts(data_dir, config_dir, environment)
    try:
        with alone(data_dir):
            return _run(parts, environment, opens_console=opens_console)
    except OtherTray as other:
        return _beside(other, parts, opens_console=opens_console)
    except Unusable as problem:
        return _unusable(str(problem), parts, environment)
    except NoTray as nothing:
        return _without_icon(str(nothing), parts, environment, opens_console=opens_console)


def end(data_dir: Path, *, environment: Mapping[str, str] = os.environ) -> int:
    """End the tray of a data directory, and the service as well, as `Quit` in its menu does; returns the exit code.

    Neither need be there. Raises Failure where one of them does not end.
    """
    if not end_tray(data_dir):
        raise Failure("not_stopped", "The tray was told to end and has not.", INTERNAL)
    Service(data_dir, environment).quit()
    return 0


def _parts(data_dir: Path, config_dir: Path, environment: Mapping[str, str]) -> Parts:
    return Parts(
        data_dir,
        Watcher(data_dir, TokenStore(config_dir, environment), environment),
        Service(data_dir, environment),
        Opening(environment),
        autostart.for_this_system(environment, None if _is_usual(data_dir) else data_dir),
    )


def _is_usual(data_dir: Path) -> bool:
    try:
        return data_dir == default_data_dir()
    except Failure:  # this user has no home
        return False


def _run(parts: Parts, environment: Mapping[str, str], *, opens_console: bool) -> int:
    showing = Showing(parts)
    with Endings(showing.end) as endings:
        try:
            with endings.interrupt_main_thread():
                icon = _found_icon(showing, environment, is_clicked=opens_console)
        except KeyboardInterrupt:  # nothing is begun yet
            return 0
        _begin_log(parts.data_dir)
        _refresh(parts.autostart)
        log.info("the tray is there", extra={"pid": os.getpid()})
        showing.start(icon, opens_console=opens_console)
        try:
            icon.run()
        finally:
            showing.close()
            parts.service.abandon()  # while whoever told us to end waits: nothing comes up afterwards
    log.info("the tray has ended")
    return 0


def _found_icon(showing: Showing, environment: Mapping[str, str], *, is_clicked: bool) -> Icon:
    from mailbox_appliance.tray import hosts  # a second tray needs none of what shows icons

    patience = _PATIENCE_OF_CLICKS if is_clicked else hosts.PATIENCE
    return hosts.find(showing.actions.start, showing.on_menu_opened, environment, patience=patience)


def _begin_log(data_dir: Path) -> None:
    try:
        logs.configure(data_dir / "logs", "INFO", max_bytes=_LARGEST_LOG, keep=1, name="tray.log")
    except OSError as error:  # the start of the service tells that a person
        logs.configure(None, "INFO")
        log.warning("there is no log file", extra={"why": error.strerror})


def _refresh(entry: autostart.Autostart | None) -> None:
    """Let start at login name this program where it lies now."""
    try:
        if entry is not None and entry.refresh():
            log.info("start at login names this program anew")
    except Failure as failure:
        log.warning("start at login names a program that is gone", extra={"code": failure.code})


def _beside(other: OtherTray, parts: Parts, *, opens_console: bool) -> int:
    """Leave it to the tray that is there, but for what was asked for here."""
    _say(str(other))
    if opens_console:
        parts.service.start()
        _open(parts)
    return 0


def _without_icon(why: str, parts: Parts, environment: Mapping[str, str], *, opens_console: bool) -> int:
    """Say why, and how one gets on without. Who clicked for the console gets it; nothing else starts anything here."""
    running = find_running(parts.data_dir)
    if running is None and opens_console and _has_screen(environment):
        running = _begun_by_click(why, parts, environment)
    if running is None:
        told = f"{why} The appliance does not run: start it with `mailbox-appliance serve`."
        _say(told)
        if opens_console:
            _notify(_NO_PLACE, told, environment)
        return 0
    _say_where(why, running)
    if opens_console:
        _open(parts)
    return 0


def _has_screen(environment: Mapping[str, str]) -> bool:
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _begun_by_click(why: str, parts: Parts, environment: Mapping[str, str]) -> RunningAppliance:
    """The appliance, which no menu tells of and stops."""
    try:
        running = parts.service.start()
    except Failure as failure:
        _notify("The appliance did not start", failure.message, environment)
        raise
    _notify(_NO_PLACE, f"{why} The appliance runs; `mailbox-appliance tray --quit` stops it.", environment)
    return running


def _unusable(why: str, parts: Parts, environment: Mapping[str, str]) -> int:
    """Say why, on the desktop too: no part of the menu or of the log-in to it would."""
    if (running := find_running(parts.data_dir)) is None:
        _say(why)
    else:
        _say_where(why, running)
    _notify("The icon cannot be shown", why, environment)
    return 1


def _say_where(why: str, running: RunningAppliance) -> None:
    _say(f"{why} The console is at:")
    processes.write_quietly(sys.stdout, f"{running.url}\n")


def _notify(title: str, text: str, environment: Mapping[str, str]) -> None:
    """Tell it on the desktop too: who clicked an entry of its menu sees no standard error."""
    from mailbox_appliance.tray.notifications import notification
    from mailbox_appliance.tray.session_bus import BusGone, SessionBus, address_in

    if sys.platform == "linux" and (address := address_in(environment)) is not None:
        with suppress(BusGone):
            bus = SessionBus(address)
            bus.send(notification(title, text))
            bus.close()


def _open(parts: Parts) -> None:
    if not parts.opening.open_browser(partial(console.link, parts.data_dir, parts.watcher)):
        _say(f"No browser could be opened. The console is at {console.door(parts.data_dir)}")


def _say(text: str) -> None:
    processes.write_quietly(sys.stderr, text + "\n")
