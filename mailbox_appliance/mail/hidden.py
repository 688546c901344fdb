"""What senders hide from the eye is kept from programs and assistants too, and counted."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mailbox_appliance.mail import invisible

Form = Literal["text", "markdown", "html"]
_LINE_BREAKS = re.compile(r"[\t\n]+")

#: The name of each technique, and what it covers. The guide has this table.
TECHNIQUES: Mapping[str, str] = {
    "display": (
        "`display: none`, `content-visibility: hidden`, `mso-hide: all` (but for links), the attributes `hidden` and"
        " `popover`, `dialog` without `open`"
    ),
    "visibility": (
        "`visibility: hidden` and `collapse`, where nothing inside undoes it; table rows and columns that are collapsed"
    ),
    "opacity": "`opacity` and `filter: opacity()` below 0.1, all elements around taken together",
    "size": (
        "letters below 2 pixels, also by `zoom`, `scale` and `font-size-adjust`; lines or boxes of at most 1 pixel"
        " whose overflow is not shown; `scale(0)` and turns by 90 degrees out of the page; `clip` and `clip-path` that"
        " leave nothing; pictures of at most 1 pixel"
    ),
    "colour": (
        "letters of nearly the colour or the gradient that lies behind them (contrast below 1.25 to 1), or transparent"
        " ones"
    ),
    "off-screen": (
        "positions, margins, `translate` and `text-indent` that move text 400 pixels or more to the left or above,"
        " or 5,000 and more anywhere"
    ),
    "element": (
        "comments; `template`, hidden `input`; what `iframe`, `audio`, `video`, `progress` and the like show in their"
        " stead; `svg` and `math`"
    ),
    "zero-width": "characters without width: joiners that join nothing, fillers, tags, variation selectors, controls",
    "bidi": "controls of the direction of writing",
}
_MOST_NAMED = 10
_CHARACTERS = ("zero-width", "bidi")


@dataclass(frozen=True)
class Hidden:
    """How much was left out, by technique: pieces of text, and characters of no width or of direction.

    `unjudged`: style that may hide text or not, by its name, and how many elements whose text was kept have it. The
    names come from a fixed vocabulary: no sender writes them.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    unjudged: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.counts.values()) or any(self.unjudged.values())

    def __add__(self, other: "Hidden") -> "Hidden":
        return Hidden(_sum(self.counts, other.counts), _sum(self.unjudged, other.unjudged))

    def warnings(self) -> tuple[str, ...]:
        """Warnings: how much was left out, and what could not be judged."""
        return tuple(filter(None, (self._left_out_warning(), self._unjudged_warning())))

    def _unjudged_warning(self) -> str:
        """Names the most frequent style first, and at most a few."""
        found = sorted(
            ((count, name) for name, count in self.unjudged.items() if count), key=lambda one: (-one[0], one)
        )
        if not found:
            return ""
        named = [f"{name} ({count})" for count, name in found[:_MOST_NAMED]]
        if len(found) > _MOST_NAMED:
            named.append(f"{len(found) - _MOST_NAMED} more")
        return f"Some text may be hidden: the appliance cannot judge {', '.join(named)}."

    def _left_out_warning(self) -> str:
        """Empty if nothing was left out."""
        by_name = {name: count for name, count in sorted(self.counts.items()) if count and name not in _CHARACTERS}
        pieces = sum(by_name.values())
        characters = sum(self.counts.get(name, 0) for name in _CHARACTERS)
        told = []
        if not pieces and not characters:
            return ""
        if pieces:
            named = ", ".join(f"{name} {count}" for name, count in by_name.items())
            told.append(f"{pieces} piece{'s' if pieces > 1 else ''} ({named})")
        if characters:
            told.append(f"{characters} invisible character{'s' if characters > 1 else ''}")
        return f"Text that is not seen was left out: {', '.join(told)}."


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def visible_text(text: str) -> tuple[str, Hidden]:
    """Plain text without invisible characters; line breaks of whatever kind are line feeds."""
    seen, zero_width, bidi = invisible.without(text)
    return seen, Hidden({name: count for name, count in zip(_CHARACTERS, (zero_width, bidi), strict=True) if count})


def visible_line(text: str) -> tuple[str, Hidden]:
    """As `visible_text`, on one line: line breaks and tabs are spaces."""
    seen, hidden = visible_text(text)
    return _LINE_BREAKS.sub(" ", seen).strip(), hidden


def of_html(html: str, form: Form) -> tuple[str, Hidden]:
    """Return what is seen of HTML in one of three forms, and what was left out.

    Hostile HTML takes seconds of pure Python, so only the child process calls this (`sync.parsing`).
    """
    from mailbox_appliance.mail.html import to_text
    from mailbox_appliance.mail.markdown import to_markdown
    from mailbox_appliance.mail.visible_html import to_visible_html

    counts: Counter[str] = Counter()
    match form:
        case "text":
            seen = to_text(html, counts)
        case "markdown":
            seen = to_markdown(html, counts)
        case "html":
            seen = to_visible_html(html, counts)
    left_out = {name: counts[name] for name in TECHNIQUES if counts[name]}
    return seen, Hidden(left_out, {name: count for name, count in counts.items() if count and name not in TECHNIQUES})


def of_beginning(html: str) -> str:
    """Return some of the text that is seen of HTML, for a preview of one line. As `of_html`, for the child alone."""
    from mailbox_appliance.mail.html import start_of_text

    return start_of_text(html)
