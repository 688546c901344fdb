"""The menu of the tray icon over D-Bus (com.canonical.dbusmenu), and the introspection data of icon and menu.

A row keeps its number as long as it exists, so that a click never reaches another row in its place.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

MENU_INTERFACE = "com.canonical.dbusmenu"
#: Maximum rows that a request may ask about, or events that it may contain; our menu has fewer.
_MOST = 1000

#: A D-Bus variant: its signature and its value.
Variant = tuple[str, Any]
#: A reply: the signature and the values.
Reply = tuple[str, tuple[Any, ...]]


class MenuCallRefused(Exception):
    """The desktop environment sent an invalid request to the menu. The exception's text is sent back to it as the
    error.
    """


@dataclass(frozen=True)
class MenuEntry:
    """A menu row to show. `key`: identifies it among the rows of the same menu, even if its label changes.

    `below`: the rows of its submenu.
    """

    key: str
    label: str = ""
    enabled: bool = True
    checked: bool | None = None
    is_separator: bool = False
    click: Callable[[], None] | None = None
    below: tuple["MenuEntry", ...] = ()


@dataclass(frozen=True)
class _Node:
    properties: dict[str, Variant]
    children: tuple[int, ...] = ()
    click: Callable[[], None] | None = None


@dataclass(frozen=True)
class _MenuSnapshot:
    """All rows of the menu at one moment. It is replaced and never changed, so every thread sees a consistent menu."""

    revision: int
    nodes: dict[int, _Node]


@dataclass(frozen=True)
class MenuChange:
    """A change of the menu, to be reported to the desktop.

    `layout`: the new revision, if rows were added or removed. `updated`, `removed`: the changed properties by row
    number, if the same rows look different.
    """

    layout: int | None = None
    updated: list[tuple[int, dict[str, Variant]]] = field(default_factory=list)
    removed: list[tuple[int, list[str]]] = field(default_factory=list)


class DbusMenu:
    """The menu of the icon as a D-Bus object. `opened`: called when a desktop is about to show it."""

    def __init__(self, opened: Callable[[], None]) -> None:
        self._opened = opened
        self._changing = threading.Lock()
        self._numbers = count(1)
        self._known: dict[tuple[int, str, int], int] = {}
        self._shown = _MenuSnapshot(1, {0: _Node({"children-display": ("s", "submenu")})})
        self._given_out = 0

    def update(self, entries: Sequence[MenuEntry]) -> MenuChange | None:
        """Show these rows from now on. Return the change to report to the desktop; None if nothing visible changed."""
        with self._changing:
            before, nodes = self._shown, dict[int, _Node]()
            known = dict[tuple[int, str, int], int]()
            children = self._place_entries(0, entries, nodes, known)
            nodes[0] = _Node({"children-display": ("s", "submenu")}, children)
            is_moved = _children_by_number(nodes) != _children_by_number(before.nodes)
            self._known = known
            self._shown = _MenuSnapshot(before.revision + is_moved, nodes)
        return MenuChange(layout=self._shown.revision) if is_moved else _differences(before.nodes, nodes)

    def _place_entries(
        self,
        parent: int,
        entries: Iterable[MenuEntry],
        nodes: dict[int, _Node],
        known: dict[tuple[int, str, int], int],
    ) -> tuple[int, ...]:
        placed, seen = list[int](), Counter[str]()
        for entry in entries:
            key = (parent, entry.key, seen[entry.key])
            seen[entry.key] += 1
            number = known[key] = self._known.get(key) or next(self._numbers)
            nodes[number] = _Node(
                _properties(entry),
                self._place_entries(number, entry.below, nodes, known),
                entry.click if entry.enabled else None,
            )
            placed.append(number)
        return tuple(placed)

    # --- Requests of the desktop ---

    def answer(self, member: str, body: tuple[Any, ...]) -> Reply:
        """Carry out a D-Bus method call and return the reply. `member`: the method. `body`: its arguments.

        The caller has checked that their types are those in `SIGNATURES`. Raises MenuCallRefused.
        """
        return _ANSWERS[member](self, *body)

    def _get_layout(self, parent: int, depth: int, names: list[str]) -> Reply:
        shown = self._shown
        if parent not in shown.nodes:
            raise MenuCallRefused(f"there is no row {parent}")
        if parent == 0:
            self._given_out = shown.revision
        return "u(ia{sv}av)", (shown.revision, _layout_of(shown.nodes, parent, depth, frozenset(names)))

    def _get_group_properties(self, numbers: list[int], names: list[str]) -> Reply:
        nodes, wanted = self._shown.nodes, frozenset(names)
        asked = sorted(nodes) if not numbers else [number for number in numbers[:_MOST] if number in nodes]
        return "a(ia{sv})", ([(number, _selected_properties(nodes[number], wanted)) for number in asked],)

    def _get_property(self, number: int, name: str) -> Reply:
        node = self._shown.nodes.get(number)
        if node is None or name not in node.properties:
            raise MenuCallRefused(f"row {number} has no {name}")
        return "v", (node.properties[name],)

    def _about_to_show(self, number: int) -> Reply:
        (_, (outdated, unknown)) = self._about_to_show_group([number])
        if unknown:
            raise MenuCallRefused(f"there is no row {number}")
        return "b", (bool(outdated),)

    def _about_to_show_group(self, numbers: list[int]) -> Reply:
        numbers = numbers[:_MOST]
        if 0 in numbers:
            self._opened()
        shown = self._shown
        outdated = [0] if 0 in numbers and self._given_out != shown.revision else []
        return "aiai", (outdated, [number for number in numbers if number not in shown.nodes])

    def _event(self, number: int, kind: str, data: Variant, when: int) -> Reply:
        if self._event_group([(number, kind, data, when)])[1] != ([],):
            raise MenuCallRefused(f"there is no row {number}")
        return "", ()

    def _event_group(self, events: list[tuple[int, str, Variant, int]]) -> Reply:
        nodes, unknown = self._shown.nodes, list[int]()
        for number, kind, _data, _when in events[:_MOST]:
            if (node := nodes.get(number)) is None:
                unknown.append(number)
            elif kind == "clicked" and node.click:
                node.click()
            elif kind == "opened" and number == 0:
                self._opened()
        return "ai", (unknown,)


_ANSWERS: dict[str, Callable[..., Reply]] = {
    "GetLayout": DbusMenu._get_layout,
    "GetGroupProperties": DbusMenu._get_group_properties,
    "GetProperty": DbusMenu._get_property,
    "Event": DbusMenu._event,
    "EventGroup": DbusMenu._event_group,
    "AboutToShow": DbusMenu._about_to_show,
    "AboutToShowGroup": DbusMenu._about_to_show_group,
}
#: The argument types of each method.
SIGNATURES = {
    "GetLayout": "iias",
    "GetGroupProperties": "aias",
    "GetProperty": "is",
    "Event": "isvu",
    "EventGroup": "a(isvu)",
    "AboutToShow": "i",
    "AboutToShowGroup": "ai",
}
PROPERTIES: dict[str, Variant] = {
    "Version": ("u", 3),
    "TextDirection": ("s", "ltr"),
    "Status": ("s", "normal"),
    "IconThemePath": ("as", []),
}


def _properties(entry: MenuEntry) -> dict[str, Variant]:
    if entry.is_separator:
        return {"type": ("s", "separator")}
    # A single underscore would underline the next letter.
    told: dict[str, Variant] = {"label": ("s", entry.label.replace("_", "__")), "enabled": ("b", entry.enabled)}
    if entry.checked is not None:
        told |= {"toggle-type": ("s", "checkmark"), "toggle-state": ("i", int(entry.checked))}
    return told | ({"children-display": ("s", "submenu")} if entry.below else {})


def _selected_properties(node: _Node, names: frozenset[str]) -> dict[str, Variant]:
    return {name: value for name, value in node.properties.items() if not names or name in names}


def _layout_of(nodes: dict[int, _Node], number: int, depth: int, names: frozenset[str]) -> tuple[Any, ...]:
    node = nodes[number]
    below = () if depth == 0 else node.children
    children = [("(ia{sv}av)", _layout_of(nodes, child, depth - 1, names)) for child in below]
    return number, _selected_properties(node, names), children


def _children_by_number(nodes: dict[int, _Node]) -> dict[int, tuple[int, ...]]:
    return {number: node.children for number, node in nodes.items()}


def _differences(before: dict[int, _Node], after: dict[int, _Node]) -> MenuChange | None:
    """Return the changed properties of rows; None if there are none. Both arguments must have the same row numbers."""
    change = MenuChange()
    for number, node in after.items():
        was = before[number].properties
        if updated := {name: value for name, value in node.properties.items() if was.get(name) != value}:
            change.updated.append((number, updated))
        if removed := [name for name in was if name not in node.properties]:
            change.removed.append((number, removed))
    return change if change.updated or change.removed else None


# --- Introspection: the D-Bus interfaces of icon and menu, for desktops and people ---


ITEM = "org.kde.StatusNotifierItem"
PATH = "/StatusNotifierItem"
#: The path of menus that KDE programs use too.
MENU_PATH = "/MenuBar"

_ITEM_PROPERTIES = {
    "Category": "s",
    "Id": "s",
    "Title": "s",
    "Status": "s",
    "WindowId": "i",
    "IconName": "s",
    "IconThemePath": "s",
    "IconPixmap": "a(iiay)",
    "OverlayIconName": "s",
    "OverlayIconPixmap": "a(iiay)",
    "AttentionIconName": "s",
    "AttentionIconPixmap": "a(iiay)",
    "AttentionMovieName": "s",
    "ToolTip": "(sa(iiay)ss)",
    "ItemIsMenu": "b",
    "Menu": "o",
}
_MENU_PROPERTIES = {"Version": "u", "TextDirection": "s", "Status": "s", "IconThemePath": "as"}
#: Methods and signals: their arguments and results.
_ITEM_METHODS = {
    "ContextMenu": ("i i", ""),
    "Activate": ("i i", ""),
    "SecondaryActivate": ("i i", ""),
    "Scroll": ("i s", ""),
}
_ITEM_SIGNALS = dict.fromkeys(("NewTitle", "NewIcon", "NewAttentionIcon", "NewToolTip"), "") | {"NewStatus": "s"}
_MENU_METHODS = {
    "GetLayout": ("i i as", "u (ia{sv}av)"),
    "GetGroupProperties": ("ai as", "a(ia{sv})"),
    "GetProperty": ("i s", "v"),
    "Event": ("i s v u", ""),
    "EventGroup": ("a(isvu)", "ai"),
    "AboutToShow": ("i", "b"),
    "AboutToShowGroup": ("ai", "ai ai"),
}
_MENU_SIGNALS = {"ItemsPropertiesUpdated": "a(ia{sv}) a(ias)", "LayoutUpdated": "u i"}


def describe_path(path: str) -> str:
    """Return the introspection XML of the D-Bus object at `path`, or the list of objects below it."""
    if path == PATH:
        within = _interface(ITEM, _ITEM_PROPERTIES, _ITEM_METHODS, _ITEM_SIGNALS)
    elif path == MENU_PATH:
        within = _interface("com.canonical.dbusmenu", _MENU_PROPERTIES, _MENU_METHODS, _MENU_SIGNALS)
    else:
        below = (PATH, MENU_PATH) if path == "/" else ()
        within = "".join(f'<node name="{each.removeprefix("/")}"/>' for each in below)
    return f"<node>{within}</node>"


def _interface(
    name: str, properties: dict[str, str], methods: dict[str, tuple[str, str]], signals: dict[str, str]
) -> str:
    told = [f'<property name="{each}" type="{kind}" access="read"/>' for each, kind in properties.items()]
    for each, (taken, given) in methods.items():
        told.append(
            f'<method name="{each}">{_argument_elements(taken, "in")}{_argument_elements(given, "out")}</method>'
        )
    told += [f'<signal name="{each}">{_argument_elements(given)}</signal>' for each, given in signals.items()]
    return f'<interface name="{name}">{"".join(told)}</interface>'


def _argument_elements(types: str, direction: str = "") -> str:
    towards = f' direction="{direction}"' if direction else ""
    return "".join(f'<arg type="{each}"{towards}/>' for each in types.split())
