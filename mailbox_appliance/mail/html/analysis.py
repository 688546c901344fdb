"""Interface of the HTML package: the visible content of HTML as text, Markdown or HTML, and counts of hidden text.

Analyzing hostile HTML takes seconds, so only a child process does it (`sync.parse_child`). All other callers use
`TAG_READER`, which ignores styles, or a reader that asks that child process.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mailbox_appliance.mail import invisible_characters
from mailbox_appliance.mail.html.tags import MAX_INPUT, text_pieces
from mailbox_appliance.model.base import OwnText, own_text

# --- Hidden text: removed for programs and AI agents too, and counted ---


Form = Literal["text", "markdown", "html"]
_LINE_BREAKS = re.compile(r"[\t\n]+")

#: The name of each technique, and what it covers. The reference page about hidden text has this table.
TECHNIQUES: Mapping[str, str] = {
    "display": (
        "`display: none`, `content-visibility: hidden`, `mso-hide: all` (except on links), the attributes `hidden` and"
        " `popover`, `dialog` without `open`"
    ),
    "visibility": (
        "`visibility: hidden` and `collapse`, unless an element inside is visible again; collapsed table rows and"
        " columns"
    ),
    "opacity": "`opacity` and `filter: opacity()` below 0.1, multiplied over all enclosing elements",
    "size": (
        "text under 2 pixels (also through `zoom`, `scale` and `font-size-adjust`), pictures of at most 1 pixel, and"
        " lines or boxes of at most 1 pixel with hidden overflow. Also `scale(0)`, rotations by 90 degrees out of the"
        " page, and a `clip` or `clip-path` that leaves nothing"
    ),
    "color": (
        "text in nearly the same color as the color or gradient behind it (contrast below 1.25 to 1), and transparent"
        " text"
    ),
    "off-screen": (
        "positions, margins, `translate` and `text-indent` that move text 400 pixels or more to the left or up, or"
        " 5,000 pixels or more in any direction"
    ),
    "element": (
        "comments; `template`; hidden `input`; the fallback content of `iframe`, `audio`, `video`, `progress` and"
        " similar elements; `svg` and `math`"
    ),
    "zero-width": "characters without width: joiners that join nothing, fillers, tags, variation selectors, controls",
    "bidi": "control characters for the writing direction",
}
_MOST_NAMED = 10
_CHARACTERS = ("zero-width", "bidi")


@dataclass(frozen=True)
class HiddenText:
    """Counts of the hidden text in one body.

    - counts: the number of removed passages of text, zero-width characters and direction controls, by technique (see
      TECHNIQUES).
    - unjudged: the number of elements with a style that may hide text but whose effect is unknown, by the name of the
      style. Their text was kept. Names come from a fixed vocabulary, so senders cannot choose them.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    unjudged: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.counts.values()) or any(self.unjudged.values())

    def __add__(self, other: "HiddenText") -> "HiddenText":
        return HiddenText(_add_counts(self.counts, other.counts), _add_counts(self.unjudged, other.unjudged))

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings for readers of the body: about removed text, and about styles that may hide text. Empty
        if there is nothing to report.
        """
        return tuple(filter(None, (self._left_out_warning(), self._unjudged_warning())))

    def _unjudged_warning(self) -> str:
        """Return the warning about styles that may hide text: up to ten by name, the most frequent first."""
        found = sorted(
            ((count, name) for name, count in self.unjudged.items() if count), key=lambda one: (-one[0], one)
        )
        if not found:
            return ""
        named = [f"{name} ({count})" for count, name in found[:_MOST_NAMED]]
        if len(found) > _MOST_NAMED:
            named.append(f"{len(found) - _MOST_NAMED} more")
        return own_text("Some text may be hidden: the appliance cannot judge {named}.", named=OwnText(", ".join(named)))

    def _left_out_warning(self) -> str:
        """Return the warning about removed passages and characters; empty if nothing was removed."""
        by_name = {name: count for name, count in sorted(self.counts.items()) if count and name not in _CHARACTERS}
        pieces = sum(by_name.values())
        characters = sum(self.counts.get(name, 0) for name in _CHARACTERS)
        removed = []
        if not pieces and not characters:
            return ""
        if pieces:
            named = ", ".join(f"{name} {count}" for name, count in by_name.items())
            removed.append(f"{pieces} passage{'s' if pieces > 1 else ''} ({named})")
        if characters:
            removed.append(f"{characters} invisible character{'s' if characters > 1 else ''}")
        return own_text("Hidden text was removed: {removed}.", removed=OwnText(", ".join(removed)))


def _add_counts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def visible_text(text: str) -> tuple[str, HiddenText]:
    """Return plain text without invisible characters, and counts of the removed ones. Line breaks of all kinds become
    line feeds.
    """
    seen, zero_width, bidi = invisible_characters.strip_invisible(text)
    return seen, HiddenText({name: count for name, count in zip(_CHARACTERS, (zero_width, bidi), strict=True) if count})


def visible_line(text: str) -> tuple[str, HiddenText]:
    """Return text on one line without invisible characters, and counts of the removed ones. Line breaks and tabs become
    spaces.
    """
    seen, hidden = visible_text(text)
    return _LINE_BREAKS.sub(" ", seen).strip(), hidden


def extract_visible(html: str, form: Form) -> tuple[str, HiddenText]:
    """Return the visible content of HTML as plain text, Markdown or HTML (`form`), and the counts of removed text.

    Hostile HTML takes seconds of pure Python, so only the child process that parses mail calls this
    (`sync.parse_child`).
    """
    from mailbox_appliance.mail.html.hidden_text import to_visible_html
    from mailbox_appliance.mail.html.text import to_markdown, to_text

    counts: Counter[str] = Counter()
    match form:
        case "text":
            seen = to_text(html, counts)
        case "markdown":
            seen = to_markdown(html, counts)
        case "html":
            seen = to_visible_html(html, counts)
    left_out = {name: counts[name] for name in TECHNIQUES if counts[name]}
    return seen, HiddenText(
        left_out, {name: count for name, count in counts.items() if count and name not in TECHNIQUES}
    )


def extract_preview(html: str) -> str:
    """Return the first visible text of HTML, enough for a preview of one line. Only the child process that parses mail
    calls this.
    """
    from mailbox_appliance.mail.html.text import to_preview_text

    return to_preview_text(html)


# --- Readers: the source of the parser for text of HTML ---


#: A form of a body, or enough of it for a preview of one line.
ReadForm = Literal[Form, "beginning"]

#: Warnings about HTML that could not be analyzed or compared.
UNANALYZED = own_text(
    "The HTML of this message could not be analyzed in time, so the text of its tags is used. Text that mail programs"
    " hide may be in it. Try again later, and check the message in a mail program before you act on it."
)
UNANALYZED_PLAIN = own_text(
    "The HTML of this message could not be analyzed in time, so its stored plain text is shown. It may differ from"
    " what mail programs show. Try again later, and check the message in a mail program before you act on it."
)
UNANALYZED_PART = own_text(
    "HTML in this message could not be analyzed when it arrived, so it is left out of the text. Check the message in a"
    " mail program before you act on it."
)
UNANALYZED_PREVIEW = own_text(
    "The HTML of this message could not be analyzed when it arrived, so it has no preview. Check the message in a mail"
    " program before you act on it."
)
UNANALYZED_OUTGOING = own_text(
    "The HTML of this message could not be analyzed in time to make its plain-text part. That part may show text that"
    " mail programs hide, or lack text that they show. The HTML itself is unchanged."
)
UNCOMPARED = own_text(
    "The plain-text and HTML versions of this message could not be compared in time, so they may differ. Try again"
    " later, and check the message in a mail program before you act on it."
)

_PREVIEW_CHARACTERS = 20_000  # characters
_LOOKED_THROUGH = 50  # this many times as much is searched for style sheets and scripts as is read
_MOST_REMOVED = 1_000  # elements
_SPACES = re.compile(r"[ \t\r\f\u00a0]+")
_EDGES = re.compile(r" ?\n ?")
_EMPTY_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class VisibleContent:
    """The content that an `HtmlReader` found in HTML, and the counts of hidden text.

    - is_analyzed: false if styles were ignored. `text` is then plain text, even if Markdown or HTML was requested, and
      may include hidden text.
    - is_whole: whether all of the HTML was read.
    """

    text: str
    hidden: HiddenText
    is_analyzed: bool = True
    is_whole: bool = True


class HtmlReader(Protocol):
    """Interface for extracting the visible content of HTML. Implementations never raise."""

    def extract(self, html: str, form: ReadForm) -> VisibleContent:
        """Return the visible content of HTML in this form. The form `beginning` is plain text, at least enough for a
        preview.
        """


class TagReader:
    """A fast reader of HTML that returns the text between the tags and ignores styles, so hidden text is included.

    `longest`: the maximum number of characters to read. From longer HTML, style sheets and scripts are removed first.
    """

    def __init__(self, longest: int = MAX_INPUT) -> None:
        self._longest = longest

    def extract(self, html: str, form: ReadForm) -> VisibleContent:
        """Return the text between the tags, in time linear in the length of the HTML. The result is plain text for
        every `form`. For `beginning`, only the first 20,000 characters of HTML are read.
        """
        if form == "beginning":
            html = html[:_PREVIEW_CHARACTERS]
        html, is_whole = self._bound_html(html)
        text, hidden = visible_text(text_of_tags(html))
        return VisibleContent(text, hidden, is_analyzed=False, is_whole=is_whole)

    def has_text(self, html: str) -> bool:
        """Whether there is text between the tags. Reads only up to the first visible character."""
        return any(visible_text(piece)[0].strip() for piece in text_pieces(self._bound_html(html)[0]))

    def _bound_html(self, html: str) -> tuple[str, bool]:
        """Return the part of the HTML to read, and whether that is all of it."""
        most = self._longest * _LOOKED_THROUGH
        is_whole = len(html) <= most
        if len(html) > self._longest:
            html = _without_elements(_without_elements(html[:most], "style"), "script")
        return html[: self._longest], is_whole and len(html) <= self._longest


TAG_READER = TagReader()
#: For threads of the service: the first page, in a few milliseconds.
PREVIEW_TAG_READER = TagReader(12_000)


def _without_elements(html: str, name: str) -> str:
    """Return the HTML without the first 1,000 elements of this name. They are found by plain text searches, which are
    hundreds of times as fast.
    """
    small = html.lower()
    pieces: list[str] = []
    place = 0
    while len(pieces) < _MOST_REMOVED and len(small) == len(html):  # a few capitals are longer in lower case
        start = small.find(f"<{name}", place)
        if start < 0:
            break
        pieces.append(html[place:start])
        end = small.find(f"</{name}", start)
        place = len(html) if end < 0 else end
    return "".join([*pieces, html[place:]])


def text_of_tags(html: str) -> str:
    """Return the text between tags, without scripts, style sheets, titles and comments. A block element starts a new
    line.

    It reads the first 2 Mi characters of the HTML (`tags.MAX_INPUT`), in linear time.
    """
    text = _EDGES.sub("\n", _SPACES.sub(" ", "".join(text_pieces(html))))
    return _EMPTY_LINES.sub("\n\n", text).strip()
