"""The tray icon on Linux: shown by the library AppIndicator if installed, else as a StatusNotifierItem on D-Bus."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from jeepney import (
    DBusAddress,
    HeaderFields,
    MatchRule,
    Message,
    MessageFlag,
    MessageType,
    new_error,
    new_method_call,
    new_method_return,
    new_signal,
)
from jeepney.bus_messages import message_bus

from mailbox_appliance.tray import pystray
from mailbox_appliance.tray.linux import menu
from mailbox_appliance.tray.linux.dbus import BusUnavailable, SessionBus, bus_address, make_notification, to_bus_text
from mailbox_appliance.tray.linux.menu import (
    ITEM,
    MENU_PATH,
    PATH,
    MenuCallRefused,
    MenuChange,
    MenuEntry,
    Reply,
    Variant,
    describe_path,
)
from mailbox_appliance.tray.pystray import MenuOpenNotifier, PystrayIcon, draw_icon, icon_image
from mailbox_appliance.tray.view import Icon, IconLook, NoTrayHost, OnClick, OnOpen

log = logging.getLogger(__name__)

WATCHER = "org.kde.StatusNotifierWatcher"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_BUS = "org.freedesktop.DBus"
#: The D-Bus methods of the icon; only a click with the first button has an effect.
_CLICKS = {
    "Activate",
    "SecondaryActivate",
    "ContextMenu",
    "Scroll",
    "XAyatanaSecondaryActivate",
    "ProvideXdgActivationToken",
}
_ASKED = (HeaderFields.path, HeaderFields.member, HeaderFields.signature)
_TOLD = (HeaderFields.sender, HeaderFields.interface, HeaderFields.member, HeaderFields.signature)
_WATCHER_COMES = MatchRule(type="signal", sender=_BUS, interface=_BUS, member="NameOwnerChanged")
_WATCHER_COMES.add_arg_condition(0, WATCHER)

_base: Any = pystray.load_pystray_base()


@dataclass(frozen=True)
class IconPixmaps:
    """The icon for StatusNotifierItem: (width, height, ARGB pixels) for each size, and whether attention is needed."""

    sizes: tuple[tuple[int, int, bytes], ...]
    needs_attention: bool = False


class StatusNotifierIcon(_base.Icon):
    """A pystray icon shown over D-Bus, on the connection `bus`. `opened`: called when its menu is about to be shown."""

    def __init__(self, bus: SessionBus, opened: Callable[[], None], *arguments: Any, **named: Any) -> None:
        self._bus = bus
        self._shown = menu.DbusMenu(opened)
        self._ends = self._is_visible = False
        self._changing = threading.RLock()
        super().__init__(*arguments, **named)

    # --- Called by pystray ---

    def _show(self) -> None:
        # Set before the desktop asks: pystray itself sets it only afterwards.
        self._is_visible = True
        self._register()

    def _hide(self) -> None:
        self._is_visible = False
        self._send_status()

    def _update_icon(self) -> None:
        for name in ("NewIcon", "NewAttentionIcon"):
            self._send_signal(PATH, ITEM, name)
        self._send_status()
        self._icon_valid = True

    def _update_title(self) -> None:
        for name in ("NewTitle", "NewToolTip"):
            self._send_signal(PATH, ITEM, name)

    def _update_menu(self) -> None:
        # The state at this moment is shown, no matter which thread calls.
        with self._changing:
            change = self._shown.update(_menu_entries(self, self.menu or ()))
            if change is not None:
                self._send_menu_change(change)

    def _notify(self, message: str, title: str | None = None) -> None:
        self._send(make_notification(title or self.title, message))

    def _remove_notification(self) -> None:
        """Do nothing, since notifications disappear by themselves. pystray requires this method."""

    def _run(self) -> None:
        try:
            # First, since the thread that pystray started waits for it, and the process does not end before.
            self._mark_ready()
            self._bus.send(_unanswered(message_bus.AddMatch(_WATCHER_COMES.serialise())))
            while not self._ends:
                if (message := self._bus.receive()) is not None:
                    self._on_message(message)
        except BusUnavailable:
            log.info("dbus_disconnected")
        finally:
            self._running = self._is_visible = False
            self._bus.close()

    def _stop(self) -> None:
        self._ends = True
        self._bus.wake()

    # --- The bus ---

    def _on_message(self, message: Message) -> None:
        try:
            self._handle_message(message)
        except Exception:  # any program of this user may have sent it
            log.exception("dbus_message_failed")

    def _handle_message(self, message: Message) -> None:
        kind = message.header.message_type
        if kind is MessageType.method_call:
            answer = self._answer_call(message)
            if not message.header.flags & MessageFlag.no_reply_expected:
                self._send(answer)
        elif kind is MessageType.signal and self._is_visible and _is_new_watcher(message):
            self._register()  # it was restarted, and does not know the earlier icon

    def _register(self) -> None:
        watcher = DBusAddress("/StatusNotifierWatcher", WATCHER, WATCHER)
        self._send(_unanswered(new_method_call(watcher, "RegisterStatusNotifierItem", "s", (self._bus.name,))))

    def _answer_call(self, message: Message) -> Message:
        try:
            signature, body = self._reply(message)
        except MenuCallRefused as problem:
            return new_error(message, f"{_BUS}.Error.InvalidArgs", "s", (str(problem),))
        except NotImplementedError:
            member = message.header.fields.get(HeaderFields.member)
            return new_error(message, f"{_BUS}.Error.UnknownMethod", "s", (f"unknown method {member}",))
        except Exception:
            log.exception("dbus_call_failed")
            return new_error(message, f"{_BUS}.Error.Failed", "s", ("internal error",))
        return new_method_return(message, signature or None, body)

    def _reply(self, message: Message) -> Reply:
        fields = message.header.fields
        path, member, signature = (fields.get(name) for name in _ASKED)
        interface = fields.get(HeaderFields.interface)
        if member == "Introspect":
            return "s", (describe_path(str(path)),)
        if member == "Ping":
            return "", ()
        if interface == _PROPERTIES:
            return self._properties(path, member, signature, message.body)
        if path == MENU_PATH and member in menu.SIGNATURES and menu.SIGNATURES[member] == signature:
            return self._shown.answer(member, message.body)
        if path == PATH and member in _CLICKS:
            if member == "Activate":
                self()
            return "", ()
        raise NotImplementedError

    def _properties(self, path: str, member: str, signature: str, body: tuple[Any, ...]) -> Reply:
        if path not in (PATH, MENU_PATH) or (member, signature) not in (("Get", "ss"), ("GetAll", "s")):
            raise NotImplementedError
        known = self._item() if path == PATH else menu.PROPERTIES
        if member == "GetAll":
            return "a{sv}", (known,)
        if body[1] not in known:
            raise MenuCallRefused(f"unknown property {body[1]}")
        return "v", (known[body[1]],)

    def _item(self) -> dict[str, Variant]:
        sizes = list(self.icon.sizes) if self.icon else []
        title = to_bus_text(self.title)
        return {
            "Category": ("s", "ApplicationStatus"),
            "Id": ("s", self.name),
            "Title": ("s", title),
            "Status": ("s", self._status()),
            "WindowId": ("i", 0),
            "IconName": ("s", ""),
            "IconThemePath": ("s", ""),
            "IconPixmap": ("a(iiay)", sizes),
            "OverlayIconName": ("s", ""),
            "OverlayIconPixmap": ("a(iiay)", []),
            "AttentionIconName": ("s", ""),
            "AttentionIconPixmap": ("a(iiay)", sizes),
            "AttentionMovieName": ("s", ""),
            "ToolTip": ("(sa(iiay)ss)", ("", [], title, "")),
            # With this, a click with the first button opens the menu, as it has no other effect.
            "ItemIsMenu": ("b", not any(item.default for item in self.menu or ())),
            "Menu": ("o", MENU_PATH),
        }

    def _status(self) -> str:
        if not self._is_visible or not self.icon:
            return "Passive"
        return "NeedsAttention" if self.icon.needs_attention else "Active"

    def _send_status(self) -> None:
        self._send_signal(PATH, ITEM, "NewStatus", "s", (self._status(),))

    def _send_menu_change(self, change: MenuChange) -> None:
        if change.layout is not None:
            self._send_signal(MENU_PATH, menu.MENU_INTERFACE, "LayoutUpdated", "ui", (change.layout, 0))
        else:
            body = (change.updated, change.removed)
            self._send_signal(MENU_PATH, menu.MENU_INTERFACE, "ItemsPropertiesUpdated", "a(ia{sv})a(ias)", body)

    def _send_signal(
        self, path: str, interface: str, name: str, signature: str = "", body: tuple[Any, ...] = ()
    ) -> None:
        self._send(new_signal(DBusAddress(path, interface=interface), name, signature or None, body))

    def _send(self, message: Message) -> None:
        try:
            self._bus.send(message)
        except BusUnavailable:
            # The reading thread notices too, and ends.
            log.info("dbus_write_failed")


def _is_new_watcher(signal: Message) -> bool:
    """Whether a D-Bus signal reports that a program that shows icons has started. Only signals of the bus itself
    count.
    """
    fields = signal.header.fields
    if tuple(fields.get(name) for name in _TOLD) != (_BUS, _BUS, "NameOwnerChanged", "sss"):
        return False
    name, _before, owner = signal.body
    return name == WATCHER and bool(owner)


def _unanswered(call: Message) -> Message:
    call.header.flags = MessageFlag.no_reply_expected
    return call


def _menu_entries(icon: StatusNotifierIcon, items: Iterable[Any]) -> list[MenuEntry]:
    """Return the menu items of pystray as rows for the D-Bus menu."""
    return [_menu_entry(icon, item) for item in items]


def _menu_entry(icon: StatusNotifierIcon, item: Any) -> MenuEntry:
    if item is _base.Menu.SEPARATOR:
        return MenuEntry("separator", is_separator=True)
    below = tuple(_menu_entries(icon, item.submenu)) if item.submenu else ()
    key, label = getattr(item, "key", item.text), to_bus_text(item.text)
    return MenuEntry(
        key, label, bool(item.enabled), item.checked, click=None if below else lambda: item(icon), below=below
    )


# --- Icons on a Linux desktop: a StatusNotifierWatcher, used through AppIndicator or directly ---


#: Icon sizes that panels use, up to those for high-resolution screens.
_SIZES = (16, 22, 24, 32, 48, 64)
_NO_SESSION = "The tray icon cannot be shown: this is not a desktop session (no D-Bus session bus)."
_GNOME = (
    "GNOME shows tray icons only with the extension “AppIndicator and KStatusNotifierItem Support”, "
    "which is not running."
)
_NO_WATCHER = (
    "This desktop shows no tray icons: no program acts as StatusNotifierWatcher, "
    "as panels with a tray do (KDE, XFCE, Cinnamon, LXQt, waybar)."
)


def find_linux_icon(on_click: OnClick, on_open: OnOpen, environment: Mapping[str, str], patience: float) -> Icon:
    """Return an icon for this desktop, not shown yet.

    `on_click`: called when a menu item is clicked. `on_open`: called when the menu opens. Waits up to `patience`
    seconds for a desktop that shows icons. Raises NoTrayHost if there is none.
    """
    address = bus_address(environment)
    if address is None:
        raise NoTrayHost(_NO_SESSION)
    try:
        bus = SessionBus(address)
    except BusUnavailable as error:
        raise NoTrayHost(f"The D-Bus session bus of this desktop does not answer ({error}).") from error
    try:
        _wait_for_watcher(bus, environment, patience)
    except BusUnavailable as error:
        bus.close()
        raise NoTrayHost(f"The D-Bus session bus of this desktop has ended ({error}).") from error
    except NoTrayHost:
        bus.close()
        raise
    return _make_app_indicator(bus, on_click, environment) or _make_own_icon(bus, on_click, on_open)


def _wait_for_watcher(bus: SessionBus, environment: Mapping[str, str], patience: float) -> None:
    """Wait up to `patience` seconds for a program that shows icons. Raises NoTrayHost if there is none.

    Without a screen (DISPLAY, WAYLAND_DISPLAY), no such program can start, so this does not wait.
    """
    rule = MatchRule(type="signal", interface="org.freedesktop.DBus", member="NameOwnerChanged")
    rule.add_arg_condition(0, WATCHER)
    bus.call(message_bus.AddMatch(rule.serialise()))
    has_screen = any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    end = time.monotonic() + (patience if has_screen else 0)
    while not bus.has_owner(WATCHER):
        rest = end - time.monotonic()
        if rest <= 0:
            is_gnome = "GNOME" in environment.get("XDG_CURRENT_DESKTOP", "").upper()
            raise NoTrayHost(_GNOME if is_gnome else _NO_WATCHER)
        bus.receive(rest)


def _make_own_icon(bus: SessionBus, on_click: OnClick, on_open: OnOpen) -> Icon:
    def make(*arguments: Any) -> StatusNotifierIcon:
        return StatusNotifierIcon(bus, MenuOpenNotifier(on_open), *arguments)

    return PystrayIcon(make, _make_pixmaps, on_click)


def _make_pixmaps(look: IconLook) -> IconPixmaps:
    sizes = tuple((size, size, _to_argb(draw_icon(size, look))) for size in _SIZES)
    return IconPixmaps(sizes, needs_attention=look is IconLook.ATTENTION)


def _to_argb(rgba: bytes) -> bytes:
    """Return RGBA pixels as ARGB, that is, with the opacity first."""
    turned = bytearray(len(rgba))
    turned[0::4], turned[1::4], turned[2::4], turned[3::4] = rgba[3::4], rgba[0::4], rgba[1::4], rgba[2::4]
    return bytes(turned)


def _make_app_indicator(bus: SessionBus, on_click: OnClick, environment: Mapping[str, str]) -> Icon | None:
    """Return an icon shown by the library AppIndicator; None without the library, GTK or a screen."""
    # The library finds bus and screen itself, in the environment of this process.
    names = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY")
    if find_spec("gi") is None or any(environment.get(name) != os.environ.get(name) for name in names):
        return None
    try:
        backend: Any = import_module("pystray._appindicator")
    except Exception:  # a C library, a screen or a version may be missing
        log.info("appindicator_unavailable", exc_info=True)
        return None

    class AppIndicator(backend.Icon):
        """pystray's AppIndicator icon, with this module's notifications. pystray's own would end the icon if no program
        shows them.
        """

        def _initialize(self) -> None:
            self._mark_ready()

        def _finalize(self) -> None:
            self._remove_fs_icon()
            bus.close()

        def _notify(self, message: str, title: str | None = None) -> None:
            bus.send(make_notification(title or self.title, message))

    return PystrayIcon(AppIndicator, icon_image, on_click)
