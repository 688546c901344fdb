"""Checks a result without trusting it: which text is in which fence, and what must not occur at all.

It shares no code with the checked code. A fence is `<untrusted-NONCE>` and `</untrusted-NONCE>`, each on its own line,
with NONCE of 24 hex digits. A line ends wherever any reader could see a line end.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mailbox_appliance.mcp_server.tool import ToolResult
from tests.servers.injected.case import ARRIVES, NEVER_ARRIVES

#: Maximum characters of a result, text and structure together.
BOUND = 18_000
_MARK = re.compile(r"<(/?)untrusted-([0-9a-f]{24})>")
_ANGLES = "<＜﹤〈⟨《⟪❬❮❰⧼˂ᐸ≺≪⋖«"
_SLASHES = "/\\／＼⁄∕╱⧸"
_WORD = re.compile(r"[<]\s*[/]*\s*untrusted", re.I)
#: Characters that no result may contain: controls, and those that reverse, hide or imitate text.
_NEVER = re.compile(
    "[\0-\b\v-\x1f\x7f-\x9f\u200b\u2028\u2029\u202a-\u202e\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0100-\U000e01ef]"
)
#: England, Scotland and Wales: the flags that are written with tag characters.
_FLAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in place) for place in ("gbeng", "gbsct", "gbwls"))
_FLAG = re.compile(f"\U0001f3f4(?:{_FLAGS})\U000e007f")
_TAGS = re.compile("[\U000e0000-\U000e007f]")


@dataclass(frozen=True)
class Answer:
    """A result as on the wire."""

    tool: str
    text: str
    structure: Any
    links: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, tool: str, shown: ToolResult) -> "Answer":
        """Return the result that a client receives."""
        links: list[dict[str, Any]] = [
            {"type": "resource_link", "uri": one.url, "name": one.name, "mimeType": one.media_type, "size": one.size}
            for one in shown.links
        ]
        if shown.content is not None:
            links.append({"type": "resource", "resource": {"uri": links[0]["uri"], "blob": shown.content}})
        return cls(tool, shown.text, shown.structured, tuple(links))

    @property
    def data(self) -> Any:
        """The data of a successful result."""
        assert self.structure is not None, self.text
        return self.structure["data"]

    @property
    def whole(self) -> str:
        """The whole result as JSON."""
        content = [{"type": "text", "text": self.text}, *self.links]
        return json.dumps({"content": content, "structuredContent": self.structure}, ensure_ascii=False)

    def everything(self) -> str:
        """Return every string in it, unescaped."""
        return "\n".join((self.text, *strings(self.structure), *strings(self.links)))

    def faults(self) -> list[str]:
        """Return the faults that a result of any kind can have."""
        found = [*self._outside(), *self._marks(), *self._pointers()]
        if len(self.whole) > BOUND:
            found.append(f"it has {len(self.whole)} characters")
        if NEVER_ARRIVES.lower() in self.everything().lower():
            found.append("it has words that are hidden")
        found += filter(None, map(_unwanted, (self.text, *strings(self.structure), *strings(self.links))))
        return [f"{self.tool}: {each}" for each in found]

    def fenced(self) -> list[str]:
        """Return the lines inside fences."""
        return [line for line, inside in self._lines() if inside]

    def _lines(self) -> Iterator[tuple[str, bool]]:
        """Yield each line and whether it is in a fence, without the marks."""
        inside = False
        for line in self.text.splitlines():
            if mark := _MARK.fullmatch(line):
                inside = not mark[1]
            else:
                yield line, inside

    def _outside(self) -> Iterator[str]:
        for line, inside in self._lines():
            if not inside and ARRIVES.lower() in line.lower():
                yield f"outside of a fence: {line[:200]!r}"
        structure = self.structure or {}
        for where in ("warnings", "nextCursor"):
            for pointer, each in leaves(structure.get(where), f"/{where}"):
                if ARRIVES.lower() in each.lower() and pointer not in structure["untrusted"]:
                    yield f"in {where}: {each[:200]!r}"
        linked = [each for each in strings(self.links) if ARRIVES.lower() in each.lower()]
        yield from (f"in a link: {each[:200]!r}" for each in linked)

    def _marks(self) -> Iterator[str]:
        marks = [found for line in self.text.splitlines() if (found := _MARK.fullmatch(line))]
        if [mark[1] for mark in marks] != ["", "/"] * (len(marks) // 2):
            yield f"marks out of turn: {[mark[0] for mark in marks][:6]}"
        nonces = {mark[2] for mark in marks}
        if len(nonces) > 1:
            yield f"several nonces: {nonces}"
        for nonce in sorted(nonces):
            # The legend contains it once more.
            if not self.text.count(nonce) <= len(marks) + 1 or nonce in " ".join(strings(self.structure)):
                yield "the nonce stands elsewhere"
        looks = len(_WORD.findall(_plain(self.text)))
        if looks != len(marks):
            yield f"{looks} places look like marks, and {len(marks)} are"

    def _pointers(self) -> Iterator[str]:
        if self.structure is None:
            return
        named = set(self.structure["untrusted"])
        for pointer in named:
            if not isinstance(at(self.structure, pointer), str):
                yield f"{pointer} names no text"
        for pointer, text in leaves(self.structure, ""):
            if ARRIVES.lower() in text.lower() and pointer not in named and not pointer.startswith("/untrusted/"):
                yield f"{pointer} is not named as untrusted"


def _unwanted(text: str) -> str | None:
    """Return the first forbidden character and its place."""
    bad = _NEVER.search(text) or _TAGS.search(_FLAG.sub("", text))
    return f"U+{ord(bad[0]):04X} in {text[max(0, bad.start() - 30) : bad.end() + 30]!r}" if bad else None


def _plain(text: str) -> str:
    """Return the text with plain angles, slashes and letters, and without invisible characters."""
    table = {ord(each): "<" for each in _ANGLES} | {ord(each): "/" for each in _SLASHES}
    seen = "".join(each for each in text.translate(table) if unicodedata.category(each) not in ("Cf", "Mn"))
    return unicodedata.normalize("NFKC", seen).translate(table)


def strings(value: Any) -> Iterator[str]:
    """Yield every string in a value, names of fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings(inner)


def leaves(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield every string value with its JSON pointer (RFC 6901)."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{pointer}/{place}")


def at(value: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer, or None."""
    for part in pointer.split("/")[1:]:
        step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
