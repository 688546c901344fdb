"""The menu of the tray icon over D-Bus (com.canonical.dbusmenu).

A row keeps its number as long as it exists, so that a click never reaches another row in its place.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from mailbox_appliance.tray.linux.dbus import to_bus_text
from mailbox_appliance.tray.view import Action, MenuRow, OnClick, OnOpen

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
class _MenuSnapshot:
    """The properties and actions of all rows at one moment, by their numbers; 0 is the menu itself.

    It is replaced and never changed, so every thread sees a consistent menu.
    """

    revision: int
    properties: dict[int, dict[str, Variant]]
    actions: dict[int, Action | None]


@dataclass(frozen=True)
class MenuChange:
    """A change of the menu, to be reported to the desktop.

    `layout`: the new revision, if rows were added or removed. `updated`, `removed`: the changed properties by row
    number, if the same rows look different.
    """

    layout: int | None = None
    updated: list[tuple[int, dict[str, Variant]]] = field(default_factory=list)
    removed: list[tuple[int, list[str]]] = field(default_factory=list)


_ROOT: dict[int, dict[str, Variant]] = {0: {"children-display": ("s", "submenu")}}


class DbusMenu:
    """The menu of the icon as a D-Bus object."""

    def __init__(self, on_click: OnClick, on_open: OnOpen) -> None:
        self._on_click, self._on_open = on_click, on_open
        self._numbers = count(1)
        self._known: dict[tuple[object, int], int] = {}
        self._shown = _MenuSnapshot(1, _ROOT, {})
        self._given_out = 0

    def update(self, rows: Sequence[MenuRow]) -> MenuChange | None:
        """Show these rows from now on. Return the change to report to the desktop; None if nothing visible changed.

        Only one thread at a time may call this.
        """
        before, known, seen = self._shown, dict[tuple[object, int], int](), Counter[object]()
        properties, actions = dict(_ROOT), dict[int, Action | None]()
        for row in rows:
            kind = "separator" if row.is_separator else row.action
            number = known[kind, seen[kind]] = self._known.get((kind, seen[kind])) or next(self._numbers)
            seen[kind] += 1
            properties[number], actions[number] = _properties(row), row.action if row.enabled else None
        is_moved = list(properties) != list(before.properties)
        self._known, self._shown = known, _MenuSnapshot(before.revision + is_moved, properties, actions)
        return MenuChange(self._shown.revision) if is_moved else _differences(before.properties, properties)

    # --- Requests of the desktop ---

    def answer(self, member: str, body: tuple[Any, ...]) -> Reply:
        """Carry out a D-Bus method call and return the reply. `member`: the method. `body`: its arguments.

        The caller has checked that their types are those in `METHODS`. Raises MenuCallRefused.
        """
        return _ANSWERS[member](self, *body)

    def _get_layout(self, parent: int, depth: int, names: list[str]) -> Reply:
        shown, wanted = self._shown, frozenset(names)
        if parent not in shown.properties:
            raise MenuCallRefused(f"there is no row {parent}")
        children = list[tuple[str, tuple[int, dict[str, Variant], list[Any]]]]()
        if parent == 0:
            self._given_out = shown.revision
            below = list(shown.properties)[1:] if depth else []
            children = [("(ia{sv}av)", (each, _selected(shown.properties[each], wanted), [])) for each in below]
        return "u(ia{sv}av)", (shown.revision, (parent, _selected(shown.properties[parent], wanted), children))

    def _get_group_properties(self, numbers: list[int], names: list[str]) -> Reply:
        known, wanted = self._shown.properties, frozenset(names)
        asked = [number for number in numbers[:_MOST] if number in known] if numbers else sorted(known)
        return "a(ia{sv})", ([(number, _selected(known[number], wanted)) for number in asked],)

    def _get_property(self, number: int, name: str) -> Reply:
        known = self._shown.properties.get(number, {})
        if name not in known:
            raise MenuCallRefused(f"row {number} has no {name}")
        return "v", (known[name],)

    def _about_to_show(self, number: int) -> Reply:
        (_, (outdated, unknown)) = self._about_to_show_group([number])
        if unknown:
            raise MenuCallRefused(f"there is no row {number}")
        return "b", (bool(outdated),)

    def _about_to_show_group(self, numbers: list[int]) -> Reply:
        numbers = numbers[:_MOST]
        if 0 in numbers:
            self._on_open()
        shown = self._shown
        outdated = [0] if 0 in numbers and self._given_out != shown.revision else []
        return "aiai", (outdated, [number for number in numbers if number not in shown.properties])

    def _event(self, number: int, kind: str, data: Variant, when: int) -> Reply:
        if self._event_group([(number, kind, data, when)])[1] != ([],):
            raise MenuCallRefused(f"there is no row {number}")
        return "", ()

    def _event_group(self, events: list[tuple[int, str, Variant, int]]) -> Reply:
        shown, unknown = self._shown, list[int]()
        for number, kind, _data, _when in events[:_MOST]:
            if number not in shown.properties:
                unknown.append(number)
            elif kind == "clicked" and (action := shown.actions.get(number)) is not None:
                self._on_click(action)
            elif kind == "opened" and number == 0:
                self._on_open()
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
#: The types of the arguments and results of each method, and of the arguments of each signal.
METHODS = {
    "GetLayout": ("i i as", "u (ia{sv}av)"),
    "GetGroupProperties": ("ai as", "a(ia{sv})"),
    "GetProperty": ("i s", "v"),
    "Event": ("i s v u", ""),
    "EventGroup": ("a(isvu)", "ai"),
    "AboutToShow": ("i", "b"),
    "AboutToShowGroup": ("ai", "ai ai"),
}
SIGNALS = {"ItemsPropertiesUpdated": "a(ia{sv}) a(ias)", "LayoutUpdated": "u i"}
PROPERTIES: dict[str, Variant] = {
    "Version": ("u", 3),
    "TextDirection": ("s", "ltr"),
    "Status": ("s", "normal"),
    "IconThemePath": ("as", []),
}


def _properties(row: MenuRow) -> dict[str, Variant]:
    if row.is_separator:
        return {"type": ("s", "separator")}
    # A single underscore would underline the next letter.
    label = to_bus_text(row.label).replace("_", "__")
    told: dict[str, Variant] = {"label": ("s", label), "enabled": ("b", row.enabled)}
    if row.checked is not None:
        told |= {"toggle-type": ("s", "checkmark"), "toggle-state": ("i", int(row.checked))}
    return told


def _selected(properties: dict[str, Variant], names: frozenset[str]) -> dict[str, Variant]:
    return {name: value for name, value in properties.items() if not names or name in names}


def _differences(before: dict[int, dict[str, Variant]], after: dict[int, dict[str, Variant]]) -> MenuChange | None:
    """Return the changed properties of rows; None if there are none. Both arguments must have the same row numbers."""
    change = MenuChange()
    for number, properties in after.items():
        was = before[number]
        if updated := {name: value for name, value in properties.items() if was.get(name) != value}:
            change.updated.append((number, updated))
        if removed := [name for name in was if name not in properties]:
            change.removed.append((number, removed))
    return change if change.updated or change.removed else None
