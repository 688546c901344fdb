"""Runs the tray process: one for each data directory, with the icon in the main thread.

The service is a separate process. The effect on it depends on how the tray ends:

Quit             The service is stopped, unless systemd runs it.
SIGTERM, Ctrl-C  The service continues, unless it is still starting, and the next tray finds it. A desktop sends SIGTERM
                 to all programs when the user signs out, but the user may still want mail to be sent. If the system
                 then ends all processes of the user (see `loginctl enable-linger`), the service stops in order.
any other end    The service continues.
"""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from mailbox_appliance import logs
from mailbox_appliance.client.errors import INTERNAL, Failure
from mailbox_appliance.client.local import RunningAppliance, find_running
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.system import files, ownership, stdio
from mailbox_appliance.tray import autostart, item_actions, service
from mailbox_appliance.tray.display import TrayDisplay
from mailbox_appliance.tray.item_actions import DesktopLauncher, TrayParts
from mailbox_appliance.tray.service import ServiceProcess
from mailbox_appliance.tray.view import Icon, NoTrayHost
from mailbox_appliance.tray.watcher import ApplianceWatcher

# --- One tray for a data directory: a lock on `tray.lock` there, which contains its PID and ends with the process ---


#: Seconds within which a tray ends on request, including what it was starting.
_END_SECONDS = 20.0
#: Seconds within which a tray that holds the lock has written its process ID.
_PID_SECONDS = 1.0
_EVERY = 0.05


class OtherTray(Exception):
    """Another tray process is already running for the data directory."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"The tray is already running{f' (pid {pid})' if pid else ''}.")


class DirectoryUnusable(Exception):
    """The tray cannot use the data directory. The text is the reason."""


@contextmanager
def hold_tray_lock(data_dir: Path) -> Iterator[None]:
    """Context manager: be the only tray of the data directory until the block ends. Raises OtherTray or
    DirectoryUnusable.
    """
    file = data_dir / "tray.lock"
    try:
        ownership.make_folder(data_dir)
        # No child inherits it: O_CLOEXEC is Python's default.
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DirectoryUnusable(f"{error.filename or data_dir} cannot be used ({error.strerror}).") from error
    try:
        if not files.acquire_lock(lock):
            raise OtherTray(files.find_lock_holder(file))
        files.write_lock_holder(lock)
        try:
            yield
        finally:
            files.unlock_file(lock)
    finally:
        os.close(lock)


def end_tray(data_dir: Path) -> bool:
    """End the tray of a data directory, but not its service; return whether no tray is running afterwards.

    Raises Failure if the tray cannot be stopped, or its process ID is unknown.
    """
    lock, until = data_dir / "tray.lock", time.monotonic() + _PID_SECONDS
    while (pid := files.find_lock_holder(lock)) is None and files.is_lock_held(lock):
        if time.monotonic() > until:
            told = "A tray is running, but its process ID is unknown, as on a full disk. Quit it from its menu."
            raise Failure("not_stopped", told, INTERNAL)
        time.sleep(_EVERY)
    try:
        return pid is None or service.end_process(lock, pid, _END_SECONDS)
    except service.CannotEndProcess as why:
        raise Failure("not_stopped", f"The tray (pid {pid}) {why}", INTERNAL) from why


# --- Signals: ending the tray no matter what its main thread does; a desktop's loop may run no Python for long ---
#
# Python writes the number of a signal to a socket at once, and a thread that reads it acts.


_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
_OVER = b"\0"


@contextmanager
def end_on_signals(end: Callable[[], None], is_waiting: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Context manager: until the block ends, call `end` in a separate thread when this process is asked to end.

    Such requests are SIGTERM, Ctrl-C and similar signals or, on Windows, `files.request_end` in another process. While
    `is_waiting`, a signal also raises KeyboardInterrupt in the main thread.
    """

    def interrupt(_number: int, _frame: object) -> None:
        if is_waiting():
            raise KeyboardInterrupt

    def listen() -> None:
        while _OVER not in receiver.recv(64):
            end()

    receiver, sender = socket.socketpair()
    with receiver, sender:
        sender.setblocking(False)
        thread = threading.Thread(target=listen, name="tray-signals", daemon=True)
        thread.start()
        files.on_end_request(end)
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        # nohup leaves SIGHUP ignored.
        before = {each: signal.signal(each, interrupt) for each in numbers if signal.getsignal(each) != signal.SIG_IGN}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            sender.send(_OVER)
            thread.join()


# --- The process ---


log = logging.getLogger(__name__)

#: Maximum bytes of tray.log; one older log is kept.
_LARGEST_LOG = 200_000
#: Seconds to wait for a desktop that shows icons, after a click of the user.
_CLICK_WAIT_SECONDS = 1.0
_NO_PLACE = "The tray icon cannot be shown"


def run(data_dir: Path, config_dir: Path, *, opens_console: bool, environment: Mapping[str, str] = os.environ) -> int:
    """Show the tray icon until it ends; return the exit code. `opens_console`: open the console once the appliance
    responds.

    If the desktop shows no icons, or another tray runs, this reports it and returns 0, so that login managers do not
    retry. With `opens_console`, the console is still opened, if there is a screen.
    """
    parts = _make_parts(data_dir, config_dir, environment)
    try:
        with hold_tray_lock(data_dir):
            return _run_tray(parts, environment, opens_console=opens_console)
    except OtherTray as other:
        _print_error(str(other))
        if opens_console:
            parts.service.start()
            _open_console(parts)
        return 0
    except DirectoryUnusable as problem:
        return _report_unusable(str(problem), parts, environment)
    except NoTrayHost as nothing:
        return _without_icon(str(nothing), parts, environment, opens_console=opens_console)


def quit_tray(data_dir: Path, *, environment: Mapping[str, str] = os.environ) -> int:
    """End the tray of a data directory and its service, like `Quit` in its menu; return the exit code.

    A tray or service that is not running is ignored. Raises Failure if one of them does not end.
    """
    if not end_tray(data_dir):
        raise Failure("not_stopped", f"The tray did not end within {_END_SECONDS:.0f} seconds.", INTERNAL)
    ServiceProcess(data_dir, environment).quit()
    return 0


def _make_parts(data_dir: Path, config_dir: Path, environment: Mapping[str, str]) -> TrayParts:
    return TrayParts(
        data_dir,
        ApplianceWatcher(data_dir, TokenStore(config_dir, environment), environment),
        ServiceProcess(data_dir, environment),
        DesktopLauncher(environment),
        autostart.for_this_system(environment, None if data_dir == autostart.find_data_dir(None) else data_dir),
    )


def _run_tray(parts: TrayParts, environment: Mapping[str, str], *, opens_console: bool) -> int:
    showing, icon = TrayDisplay(parts), None
    with end_on_signals(showing.end, lambda: icon is None):
        try:
            icon = _find_icon(showing, environment, is_clicked=opens_console)
        except KeyboardInterrupt:  # nothing was started yet
            return 0
        _start_log(parts.data_dir)
        _refresh_autostart(parts.autostart)
        log.info("tray_started", extra={"pid": os.getpid()})
        showing.start(icon, opens_console=opens_console)
        try:
            icon.run()
        finally:
            showing.close()
            parts.service.abandon()  # before this process ends: nothing starts afterwards
    log.info("tray_stopped")
    return 0


def _find_icon(showing: TrayDisplay, environment: Mapping[str, str], *, is_clicked: bool) -> Icon:
    from mailbox_appliance.tray import display  # imported late: a second tray needs none of the icon libraries

    patience = _CLICK_WAIT_SECONDS if is_clicked else display.HOST_WAIT_SECONDS
    return display.find_icon(showing.actions.start, showing.on_menu_opened, environment, patience=patience)


def _start_log(data_dir: Path) -> None:
    try:
        logs.configure(data_dir / "logs", "INFO", max_bytes=_LARGEST_LOG, keep=1, name="tray.log")
    except OSError as error:  # the start of the service reports that to the user
        logs.configure(None, "INFO")
        log.warning("tray_log_unavailable", extra={"why": error.strerror})


def _refresh_autostart(entry: autostart.Autostart | None) -> None:
    """Set the current path of the program in the login item, if that has moved.

    `entry`: None if there can be no login item.
    """
    try:
        if entry is not None and entry.refresh():
            log.info("autostart_updated")
    except Failure as failure:
        log.warning("autostart_outdated", extra={"code": failure.code})


def _without_icon(why: str, parts: TrayParts, environment: Mapping[str, str], *, opens_console: bool) -> int:
    """Report that there is no icon (`why`) and what works without one; return the exit code.

    With `opens_console`, start the appliance if necessary and open the console. Otherwise nothing is started.
    """
    running = find_running(parts.data_dir)
    has_screen = any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if running is None and opens_console and has_screen:
        running = _start_without_icon(why, parts, environment)
    if running is None:
        told = f"{why} The appliance is not running. Start it with `mailbox-appliance serve`."
        _print_error(told)
        if opens_console:
            _notify(_NO_PLACE, told, environment)
        return 0
    _print_console_url(why, running)
    if opens_console:
        _open_console(parts)
    return 0


def _start_without_icon(why: str, parts: TrayParts, environment: Mapping[str, str]) -> RunningAppliance:
    """Start the appliance and return it. Notify the user how to stop it, since there is no icon.

    `why`: a sentence with the reason why there is no icon. Raises Failure if the appliance does not start.
    """
    try:
        running = parts.service.start()
    except Failure as failure:
        _notify("The appliance did not start", failure.message, environment)
        raise
    _notify(_NO_PLACE, f"{why} The appliance is running. To stop it, run `mailbox-appliance tray --quit`.", environment)
    return running


def _report_unusable(why: str, parts: TrayParts, environment: Mapping[str, str]) -> int:
    """Report why the data directory cannot be used, in the terminal and on the desktop; return the exit code."""
    if (running := find_running(parts.data_dir)) is None:
        _print_error(why)
    else:
        _print_console_url(why, running)
    _notify(_NO_PLACE, why, environment)
    return 1


def _print_console_url(why: str, running: RunningAppliance) -> None:
    _print_error(f"{why} The console is at:")
    stdio.write_quietly(sys.stdout, f"{running.url}\n")


def _notify(title: str, text: str, environment: Mapping[str, str]) -> None:
    """Show a desktop notification, since a user who started the tray from a menu sees no stderr."""
    if sys.platform == "linux":
        from mailbox_appliance.tray.linux.dbus import BusUnavailable, SessionBus, bus_address, make_notification

        if (address := bus_address(environment)) is not None:
            with suppress(BusUnavailable):
                bus = SessionBus(address)
                bus.send(make_notification(title, text))
                bus.close()


def _open_console(parts: TrayParts) -> None:
    if not parts.opening.open_browser(partial(item_actions.console_link, parts.data_dir, parts.watcher)):
        _print_error(f"Could not open a browser. The console is at {item_actions.console_url(parts.data_dir)}")


def _print_error(text: str) -> None:
    stdio.write_quietly(sys.stderr, text + "\n")
