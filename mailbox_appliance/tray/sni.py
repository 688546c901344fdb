"""A backend for pystray that needs no toolkit: the icon is a StatusNotifierItem on the session bus, which KDE, XFCE,
Cinnamon, LXQt, waybar and, with the AppIndicator extension, GNOME show, and its menu is drawn by the desktop.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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

from mailbox_appliance.tray import dbus_menu, pystray_base
from mailbox_appliance.tray.dbus_menu import Change, Entry, Refused, Reply, Variant
from mailbox_appliance.tray.introspection import ITEM, MENU_PATH, PATH, described
from mailbox_appliance.tray.notifications import notification
from mailbox_appliance.tray.session_bus import BusGone, SessionBus, plain

log = logging.getLogger(__name__)

WATCHER = "org.kde.StatusNotifierWatcher"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_BUS = "org.freedesktop.DBus"
#: What a desktop may ask of the icon besides its properties; only a click with the first button does something.
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

_base: Any = pystray_base.base()


@dataclass(frozen=True)
class Picture:
    """What this backend takes for an image: (width, height, ARGB) of each size that there is, and whether it calls."""

    sizes: tuple[tuple[int, int, bytes], ...]
    needs_attention: bool = False


class Icon(_base.Icon):
    """pystray's icon on `bus`. `opened` is called when its menu is about to be shown."""

    def __init__(self, bus: SessionBus, opened: Callable[[], None], *arguments: Any, **named: Any) -> None:
        self._bus = bus
        self._shown = dbus_menu.Menu(opened)
        self._ends = self._is_visible = False
        self._changing = threading.RLock()
        super().__init__(*arguments, **named)

    # --- what pystray asks of a backend ---

    def _show(self) -> None:
        # Before the desktop asks: pystray itself notes it only afterwards.
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
        # What the last one reads is what is shown, whichever thread it was.
        with self._changing:
            change = self._shown.update(_entries(self, self.menu or ()))
            if change is not None:
                self._send_menu_change(change)

    def _notify(self, message: str, title: str | None = None) -> None:
        self._send(notification(title or self.title, message))

    def _remove_notification(self) -> None:
        """One goes by itself."""

    def _run(self) -> None:
        try:
            # First, as the thread that pystray has started waits for it, and a process does not end before that.
            self._mark_ready()
            self._bus.send(_unanswered(message_bus.AddMatch(_WATCHER_COMES.serialise())))
            while not self._ends:
                if (message := self._bus.receive()) is not None:
                    self._on_message(message)
        except BusGone:
            log.info("the session bus has ended")
        finally:
            self._running = self._is_visible = False
            self._bus.close()

    def _stop(self) -> None:
        self._ends = True
        self._bus.wake()

    # --- the bus ---

    def _on_message(self, message: Message) -> None:
        try:
            self._handle_message(message)
        except Exception:  # any program of this user may have written it
            log.exception("a message on the session bus could not be heeded")

    def _handle_message(self, message: Message) -> None:
        kind = message.header.message_type
        if kind is MessageType.method_call:
            answer = self._answer_call(message)
            if not message.header.flags & MessageFlag.no_reply_expected:
                self._send(answer)
        elif kind is MessageType.signal and self._is_visible and _tells_of_watcher(message):
            self._register()  # it has come back, and knows of no icon that was there before

    def _register(self) -> None:
        watcher = DBusAddress("/StatusNotifierWatcher", WATCHER, WATCHER)
        self._send(_unanswered(new_method_call(watcher, "RegisterStatusNotifierItem", "s", (self._bus.name,))))

    def _answer_call(self, message: Message) -> Message:
        try:
            signature, body = self._reply(message)
        except Refused as problem:
            return new_error(message, f"{_BUS}.Error.InvalidArgs", "s", (str(problem),))
        except NotImplementedError:
            member = message.header.fields.get(HeaderFields.member)
            return new_error(message, f"{_BUS}.Error.UnknownMethod", "s", (f"there is no {member} here",))
        except Exception:
            log.exception("a desktop's question could not be answered")
            return new_error(message, f"{_BUS}.Error.Failed", "s", ("a fault of this program",))
        return new_method_return(message, signature or None, body)

    def _reply(self, message: Message) -> Reply:
        fields = message.header.fields
        path, member, signature = (fields.get(name) for name in _ASKED)
        interface = fields.get(HeaderFields.interface)
        if member == "Introspect":
            return "s", (described(str(path)),)
        if member == "Ping":
            return "", ()
        if interface == _PROPERTIES:
            return self._properties(path, member, signature, message.body)
        if path == MENU_PATH and member in dbus_menu.SIGNATURES and dbus_menu.SIGNATURES[member] == signature:
            return self._shown.answer(member, message.body)
        if path == PATH and member in _CLICKS:
            if member == "Activate":
                self()
            return "", ()
        raise NotImplementedError

    def _properties(self, path: str, member: str, signature: str, body: tuple[Any, ...]) -> Reply:
        if path not in (PATH, MENU_PATH) or (member, signature) not in (("Get", "ss"), ("GetAll", "s")):
            raise NotImplementedError
        known = self._item() if path == PATH else dbus_menu.PROPERTIES
        if member == "GetAll":
            return "a{sv}", (known,)
        if body[1] not in known:
            raise Refused(f"there is no property {body[1]}")
        return "v", (known[body[1]],)

    def _item(self) -> dict[str, Variant]:
        sizes = list(self.icon.sizes) if self.icon else []
        title = plain(self.title)
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
            # Then a click with the first button opens the menu, as there is nothing else for it to do.
            "ItemIsMenu": ("b", not any(item.default for item in self.menu or ())),
            "Menu": ("o", MENU_PATH),
        }

    def _status(self) -> str:
        if not self._is_visible or not self.icon:
            return "Passive"
        return "NeedsAttention" if self.icon.needs_attention else "Active"

    def _send_status(self) -> None:
        self._send_signal(PATH, ITEM, "NewStatus", "s", (self._status(),))

    def _send_menu_change(self, change: Change) -> None:
        if change.layout is not None:
            self._send_signal(MENU_PATH, dbus_menu.INTERFACE, "LayoutUpdated", "ui", (change.layout, 0))
        else:
            body = (change.updated, change.removed)
            self._send_signal(MENU_PATH, dbus_menu.INTERFACE, "ItemsPropertiesUpdated", "a(ia{sv})a(ias)", body)

    def _send_signal(
        self, path: str, interface: str, name: str, signature: str = "", body: tuple[Any, ...] = ()
    ) -> None:
        self._send(new_signal(DBusAddress(path, interface=interface), name, signature or None, body))

    def _send(self, message: Message) -> None:
        try:
            self._bus.send(message)
        except BusGone:
            # The thread that reads notices too, and ends.
            log.info("the session bus takes nothing")


def _tells_of_watcher(signal: Message) -> bool:
    """Whether somebody shows icons now who did not before. Only the bus itself tells."""
    fields = signal.header.fields
    if tuple(fields.get(name) for name in _TOLD) != (_BUS, _BUS, "NameOwnerChanged", "sss"):
        return False
    name, _before, owner = signal.body
    return name == WATCHER and bool(owner)


def _unanswered(call: Message) -> Message:
    call.header.flags = MessageFlag.no_reply_expected
    return call


def _entries(icon: Icon, items: Iterable[Any]) -> list[Entry]:
    """pystray's items as rows of the menu."""
    return [_entry(icon, item) for item in items]


def _entry(icon: Icon, item: Any) -> Entry:
    if item is _base.Menu.SEPARATOR:
        return Entry("separator", is_separator=True)
    below = tuple(_entries(icon, item.submenu)) if item.submenu else ()
    key, label = getattr(item, "key", item.text), plain(item.text)
    return Entry(key, label, bool(item.enabled), item.checked, click=None if below else lambda: item(icon), below=below)
