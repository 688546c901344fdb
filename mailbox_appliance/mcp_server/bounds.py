"""How large an answer may be, and how it is measured and cut: as on the wire, text and structure together.

Characters are counted as most clients count them, in code units of UTF-16: a character beyond U+FFFF is two.
"""

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mailbox_appliance.mcp_server.tool import Shown

#: Characters of a whole result as on the wire, text and structure together.
LARGEST = 18_000
#: Characters of a text about an error.
LARGEST_FAILURE = 4_000
#: How far back a better place for a cut is looked for, as a part of what is shown.
_LINE_WITHIN, _WORD_WITHIN = 5, 10
_LONGEST_CLUSTER = 16
_JOINS = frozenset("\u200d\ufe0e\ufe0f\u20e3")


@dataclass(frozen=True)
class Limits:
    """How much of what is shown: characters of bodies, of a sender's lines, of our own values; entries and fields.

    `listed`: recipients and attachments of a message that is shown by itself. `depth`: objects within objects.
    """

    text: int = LARGEST // 2
    line: int = 1_000
    plain: int = 4_000
    entries: int = 1_000
    listed: int = 20
    fields: int = 100
    depth: int = 12
    warnings: int = 20


#: From all that may be of use to what fits whatever the data is. Records stay whole in all of them but the last.
TIGHTER = (
    Limits(),
    Limits(line=500, plain=2_000, entries=100),
    Limits(line=250, plain=1_000, entries=50, listed=10),
    Limits(line=120, plain=500, entries=20, listed=5, fields=50),
    Limits(text=1_000, line=60, plain=400, entries=10, listed=3, fields=30, depth=8, warnings=10),
    Limits(text=300, line=40, plain=400, entries=5, listed=2, fields=30, depth=8, warnings=5),
    Limits(text=100, line=20, plain=400, entries=2, listed=1, fields=30, depth=8, warnings=3),
    Limits(text=10, line=10, plain=40, entries=1, listed=1, fields=8, depth=3, warnings=2),
)


#: JSON as it is measured and shown: on one line, with characters that are not ASCII as they are.
as_json = json.JSONEncoder(ensure_ascii=False).encode


def size(value: Any) -> int:
    """Characters of a value as JSON."""
    text = as_json(value)
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def size_of(shown: Shown) -> int:
    """Characters of the result on the wire, as JSON with everything in it."""
    return size(on_the_wire(shown))


def on_the_wire(shown: Shown) -> dict[str, Any]:
    """The result as the SDK writes it."""
    content: list[dict[str, Any]] = [{"type": "text", "text": shown.text}]
    content += [
        {"type": "resource_link", "name": link.name, "uri": link.url, "mimeType": link.media_type}
        | ({} if link.size is None else {"size": link.size})
        for link in shown.links
    ]
    if shown.content is not None:
        place = shown.links[0] if shown.links else None
        file = {"uri": place.url if place else "", "mimeType": place.media_type if place else "", "blob": shown.content}
        content.append({"type": "resource", "resource": file})
    result = {"content": content, "isError": shown.is_error, "resultType": "complete"}
    return result if shown.structured is None else result | {"structuredContent": shown.structured}


def texts_limit(texts: Sequence[str], room: int) -> int:
    """How many characters of each body can be shown, so that all of them take at most this room, twice as JSON."""
    return _most(LARGEST // 2, lambda number: sum(2 * size(text[:number]) for text in texts) <= room)


def items_limit(sizes: Sequence[int], room: int) -> int:
    """How many of the first entries fit."""
    return _most(len(sizes), lambda number: sum(sizes[:number]) <= room)


def with_texts(limits: Limits, number: int) -> Limits:
    """The same with shorter bodies."""
    return replace(limits, text=min(limits.text, max(number, 1)))


def cut_place(text: str, number: int) -> int:
    """Where to cut a text that is to be shown up to this many characters: after a line or a word where one ends near.

    Nothing that is one character to a reader is cut in two, where that is cheaply told. At least one is shown.
    """
    if len(text) <= number:
        return len(text)
    number = max(number, 1)
    line = text.rfind("\n", number - number // _LINE_WITHIN, number)
    word = text.rfind(" ", number - number // _WORD_WITHIN, number)
    place = max(line, word if line < 0 else line) + 1 or number
    back = place
    while back > max(place - _LONGEST_CLUSTER, 0) and _belongs_together(text, back):
        back -= 1
    return back if back > max(place - _LONGEST_CLUSTER, 0) else place


def shortened(text: str, number: int) -> str:
    """A text of at most this many characters, which ends with `…` where it was longer."""
    return text if len(text) <= number else text[: max(number - 1, 0)].rstrip() + "…"


def _belongs_together(text: str, place: int) -> bool:
    before, after = text[place - 1], text[place]
    return (
        before + after == "\r\n"
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or unicodedata.combining(after) > 0
        or after in _JOINS
        or before == "\u200d"
    )


def _most(highest: int, holds: Callable[[int], bool]) -> int:
    """The highest number from 0 on for which something holds that holds for all lower ones."""
    low, high = 0, highest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
