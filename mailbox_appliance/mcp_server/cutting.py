"""A copy of an answer's data that can be shown: bounded, without what is not seen, with pointers to senders' words."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

from mailbox_appliance.mail.html.analysis import HiddenText, visible_line, visible_text
from mailbox_appliance.mcp_server.bounds import Limits, cut_place, shortened
from mailbox_appliance.mcp_server.untrusted import RECORD_OF_BODY, Place, Senders, places, pointer, within

#: Characters of a sender's line that are shown at most, by field.
_LENGTHS = {"subject": 500, "name": 200, "email": 320, "filename": 255, "mimeType": 127, "contentId": 255}
#: Lists that one message may have very long, and how many entries of them an item of a list of messages shows.
_LISTED = frozenset({"to", "cc", "bcc", "replyTo", "attachments"})
_LISTED_IN_ITEMS = 5
_TEXT_IN_ITEMS = 2_000
#: A line is looked at this many times as far as it is shown, since what is not seen goes.
_LOOKED_AT = 4
#: Values and characters that are looked at: several times what could ever fit.
_MOST_VALUES, _MOST_CHARACTERS = 5_000, 60_000
_LONGEST_NAME = 100
_NO_CHARACTER = re.compile("[\ud800-\udfff]")
_LARGEST_NUMBER = 2**63
_BODY_FACTS = frozenset({"format", "offset", "nextOffset", "totalChars"})

T = TypeVar("T")
Clean = Callable[[str], tuple[str, HiddenText]]


@dataclass(frozen=True)
class CutList:
    """A list of which some entries are shown, from `first` (0 is the first) on."""

    name: str
    first: int
    shown: int
    total: int


@dataclass
class Prepared:
    """Data that can be shown, and what was done to it."""

    data: Any = None
    pointers: list[str] = field(default_factory=list)
    hidden: HiddenText = field(default_factory=HiddenText)
    #: Pointers to strings that end with `…`.
    shortened: list[str] = field(default_factory=list)
    lists: list[CutList] = field(default_factory=list)
    #: Pieces of lists and objects that are not shown at all, and that nothing goes on with.
    left_out: int = 0
    #: Bodies as they came, as far as they could be shown.
    texts: list[str] = field(default_factory=list)


def prepared(data: Any, senders: Senders, limits: Limits, list_offset: int = 0) -> Prepared:
    """A copy within the limits."""
    copy = _Copy(limits, list_offset)
    copy.result.data = copy.copy_value(data, places(senders), "", "", 0)
    return copy.result


class _Copy:
    def __init__(self, limits: Limits, list_offset: int) -> None:
        self.limits, self.list_offset = limits, list_offset
        self.result = Prepared()
        self._values_left, self._characters_left = _MOST_VALUES, _MOST_CHARACTERS
        self._in_items = False
        self._is_body_shown = False

    def copy_value(self, value: Any, place: Place | None, at: str, name: str, depth: int) -> Any:
        if isinstance(value, str):
            return self._copy_string(value, place, at, name)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            return self._copy_object(value, place, at, depth + 1)
        if isinstance(value, list | tuple):
            return self._copy_list(value, place, at, name, depth + 1)
        is_number = isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER
        return value if is_number else None

    def _copy_string(self, value: str, place: Place | None, at: str, name: str) -> str:
        if place == "text":
            self.result.pointers.append(f"/data{at}")
            return self._clean(value[: self.limits.text * 2], visible_text, self.limits.text, at)
        if place == "line":
            self.result.pointers.append(f"/data{at}")
            most = min(_LENGTHS.get(name, self.limits.line), self.limits.line)
            clean = _uncounted if name == "snippet" and self._is_body_shown else visible_line
            return self._clean(value, clean, most, at)
        if len(value) > self.limits.plain:
            self.result.shortened.append(at)
            value = shortened(value, self.limits.plain)
        self._characters_left -= len(value)
        return as_unicode(value)

    def _clean(self, value: str, clean: Clean, most: int, at: str) -> str:
        looked_at = value[: min(most * _LOOKED_AT, max(self._characters_left, 1))]
        self._characters_left -= len(looked_at)
        seen = self._make_visible(looked_at, clean)
        if len(looked_at) < len(value):
            seen = seen[: most - 1] + "…"
        if len(seen) > most or len(looked_at) < len(value):
            self.result.shortened.append(at)
        return shortened(seen, most)

    def _make_visible(self, value: str, clean: Clean) -> str:
        if value.isascii() and value.isprintable():
            return value
        seen, hidden = clean(as_unicode(value))
        if hidden:
            self.result.hidden += hidden
        return as_unicode(seen)

    def _copy_object(self, value: dict[Any, Any], place: Place | None, at: str, depth: int) -> dict[str, Any]:
        if depth > self.limits.depth:
            self.result.left_out += len(value)
            return {}
        if place == RECORD_OF_BODY and "nextOffset" in value:
            return self._copy_body(value, at)
        outside, self._is_body_shown = self._is_body_shown, isinstance(value.get("body"), dict)
        copy = self._copy_fields(value, place, at, depth)
        self._is_body_shown = outside
        return copy

    def _copy_fields(self, value: dict[Any, Any], place: Place | None, at: str, depth: int) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for name, inner in self._take_allowed(value.items(), len(value), self.limits.fields):
            there = place.get(name) if isinstance(place, dict) else place
            if not _is_name(name):
                self.result.left_out += 1
            elif there is None and (inner is None or isinstance(inner, bool)):
                copy[name] = inner
            else:
                copy[name] = self.copy_value(inner, there, pointer(at, name), name, depth)
        return copy

    def _copy_body(self, value: dict[Any, Any], at: str) -> dict[str, Any]:
        """A part of a body (see BodyPart), with `nextOffset` where it is cut."""
        content = str(value.get("content") or "")
        most = min(self.limits.text, _TEXT_IN_ITEMS) if self._in_items else self.limits.text
        place = cut_place(content, min(most, max(self._characters_left, 1)))
        self._characters_left -= place
        self.result.texts.append(content[:place])
        self.result.pointers.append(f"/data{at}/content")
        facts = {name: inner for name, inner in value.items() if name in _BODY_FACTS}
        copy = self._copy_object(facts, None, at, 0) | {"content": self._make_visible(content[:place], visible_text)}
        if place < len(content):
            offset = copy.get("offset")
            copy["nextOffset"] = (offset if isinstance(offset, int) else 0) + place
        return copy

    def _copy_list(self, value: Sequence[Any], place: Place | None, at: str, name: str, depth: int) -> list[Any]:
        if depth > self.limits.depth:
            self.result.left_out += len(value)
            return []
        if name in _LISTED:
            return self._copy_long_list(value, place, at, name, depth)
        outside, self._in_items = self._in_items, self._in_items or depth == 1 or name == "items"
        copy = self._copy_entries(self._take_allowed(value, len(value), self.limits.entries), place, at, depth)
        self._in_items = outside
        return copy

    def _copy_long_list(self, value: Sequence[Any], place: Place | None, at: str, name: str, depth: int) -> list[Any]:
        """Recipients or attachments: the first ones, or those from an offset on where one message is shown."""
        most = min(self.limits.listed, _LISTED_IN_ITEMS) if self._in_items else self.limits.listed
        first = 0 if self._in_items else self.list_offset
        some = value[first : first + most] if self._values_left > 0 else ()
        self._values_left -= len(some)
        if len(some) < len(value):
            self.result.lists.append(CutList(name, first, len(some), len(value)))
        return self._copy_entries(some, place, at, depth)

    def _copy_entries(self, entries: Iterable[Any], place: Place | None, at: str, depth: int) -> list[Any]:
        inner = within(place, 0)
        return [self.copy_value(entry, inner, pointer(at, number), "", depth) for number, entry in enumerate(entries)]

    def _take_allowed(self, entries: Iterable[T], total: int, most: int) -> Iterable[T]:
        if total <= most and total <= self._values_left:
            self._values_left -= total
            return entries
        taken = min(total, most, max(self._values_left, 0))
        self._values_left -= taken
        self.result.left_out += total - taken
        return islice(entries, taken)


def _uncounted(text: str) -> tuple[str, HiddenText]:
    """A line that stands in a body as well, where what is not seen is counted."""
    return visible_line(text)[0], HiddenText()


def as_unicode(text: str) -> str:
    """The text with U+FFFD for what is no character by itself (a lone surrogate), so that it can be encoded."""
    return text if text.isascii() else _NO_CHARACTER.sub("\ufffd", text)


@lru_cache(512)
def _is_name(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and not _NO_CHARACTER.search(name)
