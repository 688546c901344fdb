"""com.canonical.dbusmenu without a bus: rows with numbers, and what a desktop is answered that asks for them.

A row keeps its number for as long as it is there: a click that was meant for it can never reach another one that has
meanwhile taken its place.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

INTERFACE = "com.canonical.dbusmenu"
#: Rows that one request may ask about, or events that it may bring; no menu of ours has as many.
_MOST = 1000

#: A D-Bus variant: its signature and its value.
Variant = tuple[str, Any]
#: What is answered: the signature and the values.
Reply = tuple[str, tuple[Any, ...]]


class Refused(Exception):
    """The request makes no sense; the text says why, to the program that asked."""


@dataclass(frozen=True)
class Entry:
    """A row to be. `key` says which row it is among its neighbours, whatever its label says at the moment."""

    key: str
    label: str = ""
    enabled: bool = True
    checked: bool | None = None
    is_separator: bool = False
    click: Callable[[], None] | None = None
    below: tuple["Entry", ...] = ()


@dataclass(frozen=True)
class _Node:
    properties: dict[str, Variant]
    children: tuple[int, ...] = ()
    click: Callable[[], None] | None = None


@dataclass(frozen=True)
class _Shown:
    """What is shown at one moment; replaced as a whole, so that every thread sees one moment."""

    revision: int
    nodes: dict[int, _Node]


@dataclass(frozen=True)
class Change:
    """What a desktop is to be told: that rows came and went, or only how some look now."""

    layout: int | None = None
    updated: list[tuple[int, dict[str, Variant]]] = field(default_factory=list)
    removed: list[tuple[int, list[str]]] = field(default_factory=list)


class Menu:
    """The menu. `opened` is called when a desktop is about to show it."""

    def __init__(self, opened: Callable[[], None]) -> None:
        self._opened = opened
        self._changing = threading.Lock()
        self._numbers = count(1)
        self._known: dict[tuple[int, str, int], int] = {}
        self._shown = _Shown(1, {0: _Node({"children-display": ("s", "submenu")})})
        self._given_out = 0

    def update(self, entries: Sequence[Entry]) -> Change | None:
        """Show these rows from now on; returns what is to be told, if anything changed for the eye."""
        with self._changing:
            before, nodes = self._shown, dict[int, _Node]()
            known = dict[tuple[int, str, int], int]()
            children = self._place_entries(0, entries, nodes, known)
            nodes[0] = _Node({"children-display": ("s", "submenu")}, children)
            is_moved = _tree(nodes) != _tree(before.nodes)
            self._known = known
            self._shown = _Shown(before.revision + is_moved, nodes)
        return Change(layout=self._shown.revision) if is_moved else _differences(before.nodes, nodes)

    def _place_entries(
        self,
        parent: int,
        entries: Iterable[Entry],
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

    # --- what a desktop asks ---

    def answer(self, member: str, body: tuple[Any, ...]) -> Reply:
        """Answer a call of `member`, whose arguments have the types of `SIGNATURES`; raises `Refused`."""
        return _ANSWERS[member](self, *body)

    def _get_layout(self, parent: int, depth: int, names: list[str]) -> Reply:
        shown = self._shown
        if parent not in shown.nodes:
            raise Refused(f"there is no row {parent}")
        if parent == 0:
            self._given_out = shown.revision
        return "u(ia{sv}av)", (shown.revision, _layout(shown.nodes, parent, depth, frozenset(names)))

    def _get_group_properties(self, numbers: list[int], names: list[str]) -> Reply:
        nodes, wanted = self._shown.nodes, frozenset(names)
        asked = sorted(nodes) if not numbers else [number for number in numbers[:_MOST] if number in nodes]
        return "a(ia{sv})", ([(number, _chosen(nodes[number], wanted)) for number in asked],)

    def _get_property(self, number: int, name: str) -> Reply:
        node = self._shown.nodes.get(number)
        if node is None or name not in node.properties:
            raise Refused(f"row {number} has no {name}")
        return "v", (node.properties[name],)

    def _about_to_show(self, number: int) -> Reply:
        (_, (outdated, unknown)) = self._about_to_show_group([number])
        if unknown:
            raise Refused(f"there is no row {number}")
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
            raise Refused(f"there is no row {number}")
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
    "GetLayout": Menu._get_layout,
    "GetGroupProperties": Menu._get_group_properties,
    "GetProperty": Menu._get_property,
    "Event": Menu._event,
    "EventGroup": Menu._event_group,
    "AboutToShow": Menu._about_to_show,
    "AboutToShowGroup": Menu._about_to_show_group,
}
#: The types of the arguments that each method takes.
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


def _properties(entry: Entry) -> dict[str, Variant]:
    if entry.is_separator:
        return {"type": ("s", "separator")}
    # One underscore would underline the letter behind it.
    told: dict[str, Variant] = {"label": ("s", entry.label.replace("_", "__")), "enabled": ("b", entry.enabled)}
    if entry.checked is not None:
        told |= {"toggle-type": ("s", "checkmark"), "toggle-state": ("i", int(entry.checked))}
    return told | ({"children-display": ("s", "submenu")} if entry.below else {})


def _chosen(node: _Node, names: frozenset[str]) -> dict[str, Variant]:
    return {name: value for name, value in node.properties.items() if not names or name in names}


def _layout(nodes: dict[int, _Node], number: int, depth: int, names: frozenset[str]) -> tuple[Any, ...]:
    node = nodes[number]
    below = () if depth == 0 else node.children
    children = [("(ia{sv}av)", _layout(nodes, child, depth - 1, names)) for child in below]
    return number, _chosen(node, names), children


def _tree(nodes: dict[int, _Node]) -> dict[int, tuple[int, ...]]:
    return {number: node.children for number, node in nodes.items()}


def _differences(before: dict[int, _Node], after: dict[int, _Node]) -> Change | None:
    """How rows look otherwise than before, where the same rows are there."""
    change = Change()
    for number, node in after.items():
        was = before[number].properties
        if updated := {name: value for name, value in node.properties.items() if was.get(name) != value}:
            change.updated.append((number, updated))
        if removed := [name for name in was if name not in node.properties]:
            change.removed.append((number, removed))
    return change if change.updated or change.removed else None
