"""Excerpts of bodies: the beginning of one, and where a text stands in it, with some of what is around it."""

from dataclasses import dataclass
from unicodedata import normalize

from mailbox_appliance.mail import field_reading, invisible
from mailbox_appliance.mail.readers import TAGS, HtmlReader
from mailbox_appliance.model.records import (
    SearchContext,
    SearchMatched,
    SearchNoMatch,
    SearchScanLimit,
    SearchUnavailable,
)

#: Characters of a body that are looked through, and of all the HTML of one page of messages: reading it takes time.
LONGEST, MOST_HTML = 200_000, 500_000
#: Characters before the text, and of the whole excerpt.
BEFORE, LENGTH = 50, 160
_ELLIPSIS = "…"
_LONGEST_SNIPPET = 200
_GLANCE, _LOOK = 400, 4000  # characters that a snippet is made from


@dataclass
class Excerpts:
    """Looks for one text in the bodies of one page of messages. Case and the kind of white space do not count."""

    literal: str
    reader: HtmlReader = TAGS
    _html_left: int = MOST_HTML

    def __post_init__(self) -> None:
        self._wanted = _plain(self.literal)

    def find(self, text: str | None, html: str | None, *, is_there: bool = True) -> SearchContext:
        """What is to be said of one message: its text, or where it has none the text of its HTML."""
        if not is_there:
            return SearchUnavailable()
        if text is None and html is not None:
            return self._context_of_html(html)
        text = text or ""
        return self._find_context(invisible.without(text[:LONGEST])[0], is_whole=len(text) <= LONGEST)

    def _context_of_html(self, html: str) -> SearchContext:
        kept = html[: min(LONGEST, self._html_left)]
        self._html_left -= len(kept)
        if not kept:
            return SearchScanLimit() if html else SearchNoMatch()
        seen = self.reader.extract(kept, "text")
        if not seen.is_analyzed:
            # Hidden text could be in it, and reading more would keep the whole page waiting.
            self._html_left = 0
            return SearchScanLimit()
        return self._find_context(seen.text, is_whole=len(kept) == len(html))

    def _find_context(self, text: str, *, is_whole: bool) -> SearchContext:
        plain = _plain(text)
        at = _find(plain, self._wanted)
        if at is not None:
            return SearchMatched(excerpt=_around(plain, at, len(self._wanted)))
        return SearchNoMatch() if is_whole else SearchScanLimit()


def _plain(text: str) -> str:
    """With single spaces, and composed (so that an accent is no character of its own)."""
    return " ".join((text if text.isascii() else normalize("NFC", text)).split())


def _find(text: str, wanted: str) -> int | None:
    """Where a text begins, whatever the case."""
    at = _small(text).find(_small(wanted))
    return None if at < 0 else at


def _small(text: str) -> str:
    """In small letters, each in its place: a few capitals are longer when small (`İ`), and stay."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(letter if len(letter := one.lower()) == 1 else one for one in text)


def _around(text: str, at: int, length: int) -> str:
    start = max(0, at - BEFORE)
    end = min(len(text), max(at + length, start + LENGTH))
    # Words are not cut, unless they are very long.
    if start:
        start = space + 1 if (space := text.find(" ", start - 1, at)) >= 0 else start
    if end < len(text):
        end = space if (space := text.rfind(" ", at + length, end + 1)) >= 0 else end
    return f"{_ELLIPSIS if start else ''}{text[start:end].rstrip()}{_ELLIPSIS if end < len(text) else ''}"


def snippet(text: str) -> str:
    """The beginning of a text on one line, about 200 characters, without quoted lines where there are others."""
    line = _own_words(text[:_GLANCE])
    if len(line) <= _LONGEST_SNIPPET or "=?" in line:
        start = text[:_LOOK]
        line = _own_words(start) or _one_line(start)
    return _cut(line)


def _own_words(text: str) -> str:
    if ">" in text:
        text = "\n".join(line for line in text.split("\n") if not line.startswith(">"))
    return _one_line(text)


def _one_line(text: str) -> str:
    """On one line; senders of bulk mail fill the preview with what is not seen."""
    line = " ".join(invisible.without(text)[0].split())
    return line if line.isprintable() and "=?" not in line else field_reading.without_controls(line)


def _cut(line: str) -> str:
    if len(line) <= _LONGEST_SNIPPET:
        return line
    cut = line[:_LONGEST_SNIPPET]
    return (cut.rpartition(" ")[0] if " " in cut[150:] else cut.rstrip("\u200c\u200d")) + _ELLIPSIS
