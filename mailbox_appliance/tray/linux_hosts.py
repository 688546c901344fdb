"""What shows an icon on a Linux desktop: a StatusNotifierWatcher on the session bus, reached through AppIndicator where
its library is installed, else by ourselves.
"""

import logging
import os
import time
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from jeepney import MatchRule
from jeepney.bus_messages import message_bus

from mailbox_appliance.tray import sni
from mailbox_appliance.tray.host import Icon, Look, NoTray, OnClick, OnOpen
from mailbox_appliance.tray.icon import pixels
from mailbox_appliance.tray.notifications import notification
from mailbox_appliance.tray.pystray_icon import Opening, PystrayIcon, image
from mailbox_appliance.tray.session_bus import BusGone, SessionBus, address_in

log = logging.getLogger(__name__)

#: What panels want, from a small one to one on a screen with many dots.
_SIZES = (16, 22, 24, 32, 48, 64)
_NO_SESSION = "No icon can be shown: this is no desktop session (there is no D-Bus session bus)."
_GNOME = (
    "GNOME shows tray icons only with an extension, “AppIndicator and KStatusNotifierItem Support”, "
    "which is not running."
)
_NO_WATCHER = (
    "Nothing on this desktop shows tray icons: no program is its StatusNotifierWatcher, "
    "as panels with a tray are (KDE, XFCE, Cinnamon, LXQt, waybar)."
)


def find(on_click: OnClick, on_open: OnOpen, environment: Mapping[str, str], patience: float) -> Icon:
    """The icon, not shown yet; raises `NoTray`."""
    address = address_in(environment)
    if address is None:
        raise NoTray(_NO_SESSION)
    try:
        bus = SessionBus(address)
    except BusGone as error:
        raise NoTray(f"The D-Bus session bus of this desktop does not answer ({error}).") from error
    try:
        _wait_for_watcher(bus, environment, patience)
    except BusGone as error:
        bus.close()
        raise NoTray(f"The D-Bus session bus of this desktop has ended ({error}).") from error
    except NoTray:
        bus.close()
        raise
    return _by_app_indicator(bus, on_click, environment) or _by_ourselves(bus, on_click, on_open)


def _wait_for_watcher(bus: SessionBus, environment: Mapping[str, str], patience: float) -> None:
    """Wait until something shows icons, where there is a screen on which it could yet come."""
    rule = MatchRule(type="signal", interface="org.freedesktop.DBus", member="NameOwnerChanged")
    rule.add_arg_condition(0, sni.WATCHER)
    bus.call(message_bus.AddMatch(rule.serialise()))
    has_screen = any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    end = time.monotonic() + (patience if has_screen else 0)
    while not bus.has_owner(sni.WATCHER):
        rest = end - time.monotonic()
        if rest <= 0:
            is_gnome = "GNOME" in environment.get("XDG_CURRENT_DESKTOP", "").upper()
            raise NoTray(_GNOME if is_gnome else _NO_WATCHER)
        bus.receive(rest)


def _by_ourselves(bus: SessionBus, on_click: OnClick, on_open: OnOpen) -> Icon:
    def make(*arguments: Any) -> sni.Icon:
        return sni.Icon(bus, Opening(on_open), *arguments)

    return PystrayIcon(make, _picture, on_click)


def _picture(look: Look) -> sni.Picture:
    sizes = tuple((size, size, _argb(pixels(size, look))) for size in _SIZES)
    return sni.Picture(sizes, needs_attention=look is Look.ATTENTION)


def _argb(rgba: bytes) -> bytes:
    """The same pixels, with the opacity first."""
    turned = bytearray(len(rgba))
    turned[0::4], turned[1::4], turned[2::4], turned[3::4] = rgba[3::4], rgba[0::4], rgba[1::4], rgba[2::4]
    return bytes(turned)


def _by_app_indicator(bus: SessionBus, on_click: OnClick, environment: Mapping[str, str]) -> Icon | None:
    """The icon through the library, which asks for GTK and for a screen; None where either is missing."""
    # The library finds bus and screen by itself, in the environment of this process.
    names = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY")
    if find_spec("gi") is None or any(environment.get(name) != os.environ.get(name) for name in names):
        return None
    try:
        backend: Any = import_module("pystray._appindicator")
    except Exception:  # what is missing may be a library of C, a screen, or a version
        log.info("there is no AppIndicator here", exc_info=True)
        return None

    class AppIndicator(backend.Icon):
        """pystray's, with notifications of ours: its own end the icon where nobody shows any."""

        def _initialize(self) -> None:
            self._mark_ready()

        def _finalize(self) -> None:
            self._remove_fs_icon()
            bus.close()

        def _notify(self, message: str, title: str | None = None) -> None:
            bus.send(notification(title or self.title, message))

    return PystrayIcon(AppIndicator, image, on_click)
