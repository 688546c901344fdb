"""Who reads the HTML of a message for a parser: a full analysis, or its tags alone.

Analyzing hostile HTML takes seconds, so only a child process does it (`sync.parsing`). All else takes `TAGS`, or a
reader that asks such a child.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Literal, Protocol

from mailbox_appliance.mail.elements import NO_TEXT
from mailbox_appliance.mail.hidden import Form, Hidden, visible_text
from mailbox_appliance.mail.markup import MAX_INPUT, tokens

#: A form of a body, or what suffices for a preview of one line.
ReadForm = Literal[Form, "beginning"]

#: Warnings of what could not be analyzed.
UNANALYZED = (
    "The HTML of this message could not be analyzed in time, so the text of its tags is used. Text that mail programs"
    " hide may be in it. Try again later, and check the message in a mail program before you act on it."
)
UNANALYZED_PLAIN = (
    "The HTML of this message could not be analyzed in time, so its stored plain text is shown. It may differ from"
    " what mail programs show. Try again later, and check the message in a mail program before you act on it."
)
UNANALYZED_PART = (
    "HTML in this message could not be analyzed when it arrived, so it is left out of the text. Check the message in a"
    " mail program before you act on it."
)
UNANALYZED_PREVIEW = (
    "The HTML of this message could not be analyzed when it arrived, so it has no preview. Check the message in a mail"
    " program before you act on it."
)
UNANALYZED_OUTGOING = (
    "The HTML of this message could not be analyzed in time to make its plain-text part. That part may show text that"
    " mail programs hide, or lack text that they show. The HTML itself is unchanged."
)
UNCOMPARED = (
    "The plain-text and HTML versions of this message could not be compared in time, so they may differ. Try again"
    " later, and check the message in a mail program before you act on it."
)

_FOR_A_BEGINNING = 20_000  # characters
_LOOKED_THROUGH = 50  # times as much is looked through for style sheets and scripts as is read
_MOST_REMOVED = 1_000  # elements
_SPACES = re.compile(r"[ \t\r\f\u00a0]+")
_EDGES = re.compile(r" ?\n ?")
_EMPTY_LINES = re.compile(r"\n{3,}")
# fmt: off
_LINES = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "li", "main",
    "nav", "ol", "option", "p", "pre", "section", "table", "tbody", "tfoot", "thead", "title", "tr", "ul"
})
# fmt: on
_CELLS = frozenset({"td", "th"})


@dataclass(frozen=True)
class Seen:
    """What a reader found. Without an analysis `text` is plain text, whatever form was wanted, hidden text included."""

    text: str
    hidden: Hidden
    is_analyzed: bool = True
    is_whole: bool = True


class HtmlReader(Protocol):
    """Reads HTML. Never raises."""

    def extract(self, html: str, form: ReadForm) -> Seen:
        """Return what is seen of HTML in a form."""


class TagReader:
    """Reads the text between tags, without any look at styles.

    `longest`: how many characters are read; of longer HTML style sheets and scripts are left out first.
    """

    def __init__(self, longest: int = MAX_INPUT) -> None:
        self._longest = longest

    def extract(self, html: str, form: ReadForm) -> Seen:
        """Return the text of the tags, in time linear in the length of the HTML."""
        if form == "beginning":
            html = html[:_FOR_A_BEGINNING]
        html, is_whole = self._bound_html(html)
        text, hidden = visible_text(text_of_tags(html))
        return Seen(text, hidden, is_analyzed=False, is_whole=is_whole)

    def has_text(self, html: str) -> bool:
        """Return whether there is text between the tags. Reads no further than its first visible character."""
        return any(visible_text(piece)[0].strip() for piece in _pieces(self._bound_html(html)[0]))

    def _bound_html(self, html: str) -> tuple[str, bool]:
        """The HTML that is read, and whether that is all of it."""
        most = self._longest * _LOOKED_THROUGH
        is_whole = len(html) <= most
        if len(html) > self._longest:
            html = _without(_without(html[:most], "style"), "script")
        return html[: self._longest], is_whole and len(html) <= self._longest


TAGS = TagReader()
#: For the threads of the service: the first page, in a few thousandths of a second.
TAGS_OF_BEGINNING = TagReader(12_000)


def _without(html: str, name: str) -> str:
    """The HTML without the first elements of that name. By plain searches, which are hundreds of times as fast."""
    small = html.lower()
    pieces: list[str] = []
    place = 0
    while len(pieces) < _MOST_REMOVED and len(small) == len(html):  # a few capitals are longer when small
        start = small.find(f"<{name}", place)
        if start < 0:
            break
        pieces.append(html[place:start])
        end = small.find(f"</{name}", start)
        place = len(html) if end < 0 else end
    return "".join([*pieces, html[place:]])


def text_of_tags(html: str) -> str:
    """Return the text between tags: lines where blocks are, without scripts, style sheets, titles and comments.

    Linear in the length of the HTML, of which 2 Mi characters are read (`markup.MAX_INPUT`).
    """
    text = _EDGES.sub("\n", _SPACES.sub(" ", "".join(_pieces(html))))
    return _EMPTY_LINES.sub("\n\n", text).strip()


def _pieces(html: str) -> Iterator[str]:
    is_text = True
    for token in tokens(html):
        name = token.name
        if not name:
            if is_text:
                content = unescape(token.content) if "&" in token.content else token.content
                yield content.replace("\n", " ")
        elif name in NO_TEXT:
            is_text = token.closes
        elif name in _LINES:
            yield "\n"
        elif name in _CELLS:
            yield " "
