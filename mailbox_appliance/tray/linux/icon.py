"""The tray icon on Linux: a StatusNotifierItem on D-Bus, which panels with a tray show."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
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

from mailbox_appliance.tray.linux import menu
from mailbox_appliance.tray.linux.dbus import BusUnavailable, SessionBus, bus_address, make_notification, to_bus_text
from mailbox_appliance.tray.linux.menu import MenuCallRefused, Reply, Variant
from mailbox_appliance.tray.view import (
    ICON_SIZES,
    NAME,
    TITLE,
    Icon,
    IconLook,
    MenuRow,
    NoTrayHost,
    OnClick,
    OnOpen,
    default_action,
    icon_pixels,
)

log = logging.getLogger(__name__)

WATCHER = "org.kde.StatusNotifierWatcher"
ITEM = "org.kde.StatusNotifierItem"
PATH = "/StatusNotifierItem"
#: The path of menus that KDE programs use too.
MENU_PATH = "/MenuBar"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_BUS = "org.freedesktop.DBus"
_ASKED = (HeaderFields.path, HeaderFields.interface, HeaderFields.member, HeaderFields.signature)
_TOLD = (HeaderFields.sender, HeaderFields.interface, HeaderFields.member, HeaderFields.signature)
#: Methods of the icon, with the types of their arguments and results; only `Activate`, a click, has an effect.
_METHODS = {
    "ContextMenu": ("i i", ""),
    "Activate": ("i i", ""),
    "SecondaryActivate": ("i i", ""),
    "Scroll": ("i s", ""),
}
#: Methods of some desktops that are not in the specification.
_OTHER_METHODS = ("XAyatanaSecondaryActivate", "ProvideXdgActivationToken")
_SIGNALS = dict.fromkeys(("NewTitle", "NewIcon", "NewAttentionIcon", "NewToolTip"), "") | {"NewStatus": "s"}


class StatusNotifierIcon:
    """A tray icon shown over D-Bus, on the connection `bus`."""

    def __init__(self, bus: SessionBus, on_click: OnClick, on_open: OnOpen) -> None:
        self._bus, self._on_click = bus, on_click
        self._menu = menu.DbusMenu(on_click, on_open)
        self._ends = False
        self._changing = threading.Lock()
        self._look, self._title, self._rows = IconLook.STOPPED, TITLE, tuple[MenuRow, ...]()

    def run(self) -> None:
        """Show the icon until `stop` is called, or until the session bus ends."""
        try:
            self._register()
            while not self._ends:
                if (message := self._bus.receive()) is not None:
                    self._on_message(message)
        except BusUnavailable:
            log.info("dbus_disconnected")
        finally:
            self._bus.close()

    def stop(self) -> None:
        """Make `run` return, also if it has not begun."""
        self._ends = True
        self._bus.wake()

    def show(self, look: IconLook, title: str, rows: Sequence[MenuRow]) -> None:
        """Show this look, title and menu from now on. If they are the current ones, the desktop is not notified."""
        title = to_bus_text(f"{TITLE}: {title}")
        with self._changing:  # the menu that is shown last is announced last
            before = self._look, self._title
            self._look, self._title, self._rows = look, title, tuple(rows)
            if (change := self._menu.update(rows)) is not None:
                self._send_menu_change(change)
            if title != before[1]:
                self._send_signals("NewTitle", "NewToolTip")
            if look is not before[0]:
                self._send_signals("NewIcon", "NewAttentionIcon")
                self._send_signal(PATH, ITEM, "NewStatus", "s", (self._status(),))

    def notify(self, title: str, text: str) -> None:
        """Show a desktop notification. Never raises, even if no program shows it."""
        self._send(make_notification(title, text))

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
        elif kind is MessageType.signal and _is_new_watcher(message):
            self._register()  # it was restarted, and does not know the earlier icon

    def _register(self) -> None:
        watcher = DBusAddress("/StatusNotifierWatcher", WATCHER, WATCHER)
        call = new_method_call(watcher, "RegisterStatusNotifierItem", "s", (self._bus.name,))
        call.header.flags = MessageFlag.no_reply_expected
        self._send(call)

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
        path, interface, member, signature = (message.header.fields.get(name) for name in _ASKED)
        if member == "Introspect":
            return "s", (self._describe(path),)
        if member == "Ping":
            return "", ()
        if interface == _PROPERTIES:
            return self._properties(path, member, signature, message.body)
        if path == MENU_PATH and member in menu.METHODS and menu.METHODS[member][0].replace(" ", "") == signature:
            return self._menu.answer(member, message.body)
        if path == PATH and (member in _METHODS or member in _OTHER_METHODS):
            if member == "Activate" and (action := default_action(self._rows)) is not None:
                self._on_click(action)
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
        sizes = [(size, size, _to_argb(icon_pixels(size, self._look))) for size in ICON_SIZES]
        return {
            "Category": ("s", "ApplicationStatus"),
            "Id": ("s", NAME),
            "Title": ("s", self._title),
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
            "ToolTip": ("(sa(iiay)ss)", ("", [], self._title, "")),
            # With this, a click with the first button opens the menu, as it has no other effect.
            "ItemIsMenu": ("b", default_action(self._rows) is None),
            "Menu": ("o", MENU_PATH),
        }

    def _status(self) -> str:
        return "NeedsAttention" if self._look is IconLook.ATTENTION else "Active"

    def _describe(self, path: str) -> str:
        """Return the introspection XML of the D-Bus object at `path`, or the list of objects below it."""
        if path == PATH:
            within = _interface(ITEM, self._item(), _METHODS, _SIGNALS)
        elif path == MENU_PATH:
            within = _interface(menu.MENU_INTERFACE, menu.PROPERTIES, menu.METHODS, menu.SIGNALS)
        else:
            below = (PATH, MENU_PATH) if path == "/" else ()
            within = "".join(f'<node name="{each.removeprefix("/")}"/>' for each in below)
        return f"<node>{within}</node>"

    def _send_menu_change(self, change: menu.MenuChange) -> None:
        if change.layout is not None:
            self._send_signal(MENU_PATH, menu.MENU_INTERFACE, "LayoutUpdated", "ui", (change.layout, 0))
        else:
            body = (change.updated, change.removed)
            self._send_signal(MENU_PATH, menu.MENU_INTERFACE, "ItemsPropertiesUpdated", "a(ia{sv})a(ias)", body)

    def _send_signals(self, *names: str) -> None:
        for name in names:
            self._send_signal(PATH, ITEM, name)

    def _send_signal(
        self, path: str, interface: str, name: str, signature: str | None = None, body: tuple[Any, ...] = ()
    ) -> None:
        self._send(new_signal(DBusAddress(path, interface=interface), name, signature, body))

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
    if tuple(signal.header.fields.get(name) for name in _TOLD) != (_BUS, _BUS, "NameOwnerChanged", "sss"):
        return False
    name, _before, owner = signal.body
    return name == WATCHER and bool(owner)


def _to_argb(rgba: bytes) -> bytes:
    """Return RGBA pixels as ARGB, that is, with the opacity first."""
    turned = bytearray(len(rgba))
    turned[0::4], turned[1::4], turned[2::4], turned[3::4] = rgba[3::4], rgba[0::4], rgba[1::4], rgba[2::4]
    return bytes(turned)


def _interface(
    name: str, properties: dict[str, Variant], methods: dict[str, tuple[str, str]], signals: dict[str, str]
) -> str:
    told = [f'<property name="{each}" type="{kind}" access="read"/>' for each, (kind, _) in properties.items()]
    for each, (taken, given) in methods.items():
        arguments = f"{_argument_elements(taken, 'in')}{_argument_elements(given, 'out')}"
        told.append(f'<method name="{each}">{arguments}</method>')
    told += [f'<signal name="{each}">{_argument_elements(given)}</signal>' for each, given in signals.items()]
    return f'<interface name="{name}">{"".join(told)}</interface>'


def _argument_elements(types: str, direction: str = "") -> str:
    towards = f' direction="{direction}"' if direction else ""
    return "".join(f'<arg type="{each}"{towards}/>' for each in types.split())


# --- Icons on a Linux desktop: shown by a StatusNotifierWatcher ---


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
    return StatusNotifierIcon(bus, on_click, on_open)


def _wait_for_watcher(bus: SessionBus, environment: Mapping[str, str], patience: float) -> None:
    """Wait up to `patience` seconds for a program that shows icons. Raises NoTrayHost if there is none.

    Without a screen (DISPLAY, WAYLAND_DISPLAY), no such program can start, so this does not wait. The bus reports
    programs that start later, too.
    """
    rule = MatchRule(type="signal", sender=_BUS, interface=_BUS, member="NameOwnerChanged")
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
