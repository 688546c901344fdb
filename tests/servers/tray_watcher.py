"""A desktop's tray, as far as D-Bus tells of it: it sees an icon, reads its menu, clicks rows by their label, and
takes notifications. Real D-Bus, no pixels; `SessionBus` makes the bus, or any other address does.
"""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from typing import Any

from jeepney import (
    DBusAddress,
    HeaderFields,
    MatchRule,
    Message,
    MessageType,
    new_error,
    new_method_call,
    new_method_return,
    new_signal,
)
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection
from jeepney.io.threading import ReceiveStopped
from jeepney.io.threading import open_dbus_connection as open_shared_connection

from tests.servers.mailboxes import wait_until

WATCHER = "org.kde.StatusNotifierWatcher"
ITEM = "org.kde.StatusNotifierItem"
MENU = "com.canonical.dbusmenu"
NOTIFICATIONS = "org.freedesktop.Notifications"
PROPERTIES = "org.freedesktop.DBus.Properties"
PATIENCE = 10.0


@dataclass(frozen=True)
class SeenRow:
    """A row as a desktop sees it. `checked` is None without a box; a separator has no label."""

    id: int
    label: str
    enabled: bool
    checked: bool | None
    rows: tuple["SeenRow", ...] = field(default=())
    is_separator: bool = False


@dataclass(frozen=True)
class SeenNotice:
    title: str
    text: str


@dataclass(frozen=True)
class SeenSignal:
    """A signal of an icon or of its menu."""

    interface: str
    name: str
    body: tuple[Any, ...]


class TrayHost:
    """A StatusNotifierWatcher with a host, and a notification service, on the bus at `address`.

    `tray`: False where a real panel is there; then `adopt` takes the icons that it shows.
    """

    def __init__(self, address: str, *, notifications: bool = True, tray: bool = True) -> None:
        self._address = address
        self._names = [*([WATCHER] if tray else []), *([NOTIFICATIONS] if notifications else [])]
        #: What was told, in its order.
        self.notices: list[SeenNotice] = []
        self.signals: list[SeenSignal] = []
        #: (bus name, path of the item) of every icon that has registered and not gone away, the newest last.
        self.icons: list[tuple[str, str]] = []
        self._asking = threading.Lock()

    # --- there, and gone ---

    def start(self) -> "TrayHost":
        """Own the names, from now on. May be called again after `stop`, as where a panel was restarted."""
        self.icons.clear()
        self._client = open_dbus_connection(self._address)
        self._server = open_shared_connection(self._address)
        self._thread = threading.Thread(target=self._serve, name="tray host", daemon=True)
        for rule in (MatchRule(type="signal", interface=ITEM), MatchRule(type="signal", interface=MENU)):
            self._server.send(message_bus.AddMatch(rule.serialise()))
        gone = MatchRule(type="signal", interface="org.freedesktop.DBus", member="NameOwnerChanged")
        self._server.send(message_bus.AddMatch(gone.serialise()))
        self._thread.start()
        for name in self._names:
            self._server.send(message_bus.RequestName(name))
            self._wait(partial(self._owns, name), f"{name} is not ours")
        return self

    def stop(self) -> None:
        self._server.interrupt()
        self._thread.join(PATIENCE)
        self._server.close()
        self._client.close()

    # --- what a person sees and does ---

    def wait_for_icon(self, patience: float = PATIENCE) -> dict[str, Any]:
        """Wait until there is an icon; returns its properties."""
        self._wait(lambda: bool(self.icons), "no icon has appeared", patience)
        return self.item()

    def adopt(self) -> None:
        """Read the menu of the icon that a real panel has."""
        asked = (WATCHER, "RegisteredStatusNotifierItems")
        ((_, items),) = self.call(WATCHER, "/StatusNotifierWatcher", PROPERTIES, "Get", "ss", asked)
        self.icons = [(name, "/" + path) for name, _, path in (item.partition("/") for item in items)]

    def wait_until_gone(self, patience: float = PATIENCE) -> None:
        """Wait until no icon is left."""
        self._wait(lambda: not self.icons, "the icon is still there", patience)

    def item(self) -> dict[str, Any]:
        """The properties of the newest icon: Title, Status, IconPixmap, ToolTip, ..."""
        name, path = self.icons[-1]
        (told,) = self.call(name, path, PROPERTIES, "GetAll", "s", (ITEM,))
        return {key: value for key, (_, value) in told.items()}

    def open_menu(self) -> tuple[SeenRow, ...]:
        """Open the menu as a desktop does, which lets the program know; returns its rows."""
        self.call_menu("AboutToShow", "i", (0,))
        return self.rows()

    def rows(self) -> tuple[SeenRow, ...]:
        """The rows of the menu, without opening it; none while there is no icon."""
        if not self.icons:  # A notice may come before the icon does.
            return ()
        _revision, layout = self.call_menu("GetLayout", "iias", (0, -1, []))
        return _seen(layout).rows

    def labels(self) -> list[str]:
        """Every label, with those of menus below, in the order of the menu."""
        return [row.label for row in _all(self.rows()) if not row.is_separator]

    def row(self, label: str) -> SeenRow:
        """The row with this label, at any depth."""
        found = [row for row in _all(self.rows()) if row.label == label]
        assert found, f"no row {label!r} among {self.labels()}"
        return found[0]

    def click(self, label: str) -> None:
        """Click the row with this label. Returns once the program has taken the click, not once it has done it."""
        row = self.row(label)
        assert row.enabled, f"{label!r} cannot be clicked"
        self.call_menu("EventGroup", "a(isvu)", ([(row.id, "clicked", ("i", 0), 0)],))

    def wait_for(
        self, label: str, *, enabled: bool | None = None, checked: bool | None = None, patience: float = PATIENCE
    ) -> SeenRow:
        """Wait until a row has this label, and where they are named, can be clicked (or not) and is ticked (or not)."""

        def is_there() -> bool:
            return any(
                row.label == label and enabled in (None, row.enabled) and checked in (None, row.checked)
                for row in _all(self.rows())
            )

        wait_until(is_there, lambda: f"no such row {label!r} among {self.rows()}", patience)
        return self.row(label)

    def wait_for_notice(self, title: str, patience: float = PATIENCE) -> SeenNotice:
        """Wait for a notification that has `title` in its title."""
        found: list[SeenNotice] = []

        def is_there() -> bool:
            found[:] = [notice for notice in list(self.notices) if title in notice.title]
            return bool(found)

        wait_until(is_there, lambda: f"no notice {title!r} among {self.notices}", patience)
        return found[-1]

    def settle(self) -> None:
        """Return once everything that the icon told until now is in `signals` and `notices`."""
        self.rows()  # the icon answers this after what it has told,
        self.call(
            self._server.unique_name, "/StatusNotifierWatcher", PROPERTIES, "GetAll", "s", (WATCHER,)
        )  # and we this

    # --- D-Bus ---

    def call_menu(self, member: str, signature: str, body: Sequence[Any]) -> tuple[Any, ...]:
        """Call the menu of the newest icon."""
        return self.call(self.icons[-1][0], self.item()["Menu"], MENU, member, signature, tuple(body))

    def call(
        self, name: str, path: str, interface: str, member: str, signature: str = "", body: tuple[Any, ...] = ()
    ) -> tuple[Any, ...]:
        """Call anybody; an error is an AssertionError."""
        message = new_method_call(DBusAddress(path, name, interface), member, signature or None, body)
        with self._asking:
            answer = self._client.send_and_get_reply(message, timeout=PATIENCE)
        assert answer.header.message_type is MessageType.method_return, (member, answer.body)
        return tuple(answer.body)

    def _owns(self, name: str) -> bool:
        owner = self._client.send_and_get_reply(message_bus.GetNameOwner(name), timeout=PATIENCE).body[0]
        return bool(owner == self._server.unique_name)

    def _wait(self, condition: Callable[[], bool], complaint: str, patience: float = PATIENCE) -> None:
        wait_until(condition, lambda: complaint, patience)

    def _serve(self) -> None:
        try:
            while True:
                message = self._server.receive()
                if message.header.message_type is MessageType.method_call:
                    self._server.send(self._answer(message))
                elif message.header.message_type is MessageType.signal:
                    self._take(message)
        except (ReceiveStopped, OSError):
            return

    def _take(self, message: Message) -> None:
        fields = message.header.fields
        interface, member = fields[HeaderFields.interface], fields[HeaderFields.member]
        if member == "NameOwnerChanged":
            name, _before, owner = message.body
            if not owner:
                self.icons = [icon for icon in self.icons if icon[0] != name]
        elif interface in (ITEM, MENU):
            self.signals.append(SeenSignal(interface, member, tuple(message.body)))

    def _answer(self, message: Message) -> Message:
        fields = message.header.fields
        member, interface = fields[HeaderFields.member], fields.get(HeaderFields.interface)
        if interface == PROPERTIES:
            return self._property(message)
        if member == "RegisterStatusNotifierItem":
            self._register(message.body[0], fields[HeaderFields.sender])
            return new_method_return(message)
        if member == "Notify":
            _app, _replaced, _icon, title, text, *_rest = message.body
            self.notices.append(SeenNotice(title, _without_tags(text)))
            return new_method_return(message, "u", (len(self.notices),))
        if member == "GetCapabilities":
            return new_method_return(message, "as", (["body", "body-markup"],))
        return new_error(message, "org.freedesktop.DBus.Error.UnknownMethod", "s", (member,))

    def _register(self, service: str, sender: str) -> None:
        name, path = (sender, service) if service.startswith("/") else (service, "/StatusNotifierItem")
        self.icons.append((name, path))
        told = DBusAddress("/StatusNotifierWatcher", interface=WATCHER)
        self._server.send(new_signal(told, "StatusNotifierItemRegistered", "s", (name + path,)))

    def _property(self, message: Message) -> Message:
        values = {
            "RegisteredStatusNotifierItems": ("as", [name + path for name, path in self.icons]),
            "IsStatusNotifierHostRegistered": ("b", True),
            "ProtocolVersion": ("i", 0),
        }
        if message.header.fields[HeaderFields.member] == "GetAll":
            return new_method_return(message, "a{sv}", (values,))
        return new_method_return(message, "v", (values[message.body[1]],))


def _seen(layout: tuple[int, dict[str, tuple[str, Any]], list[tuple[str, Any]]]) -> SeenRow:
    number, properties, below = layout
    told = {name: value for name, (_, value) in properties.items()}
    return SeenRow(
        number,
        # One underscore underlines the letter behind it, and is not seen itself; two are one.
        re.sub("_(_?)", r"\1", told.get("label", "")),
        told.get("enabled", True),
        bool(told["toggle-state"]) if told.get("toggle-type") else None,
        tuple(_seen(child) for _, child in below),
        told.get("type") == "separator",
    )


def _without_tags(text: str) -> str:
    """What is read of a notification, as its tags are heeded."""
    return unescape(re.sub("<[^>]*>", "", text))


def _all(rows: Sequence[SeenRow]) -> list[SeenRow]:
    return [each for row in rows for each in (row, *_all(row.rows))]
