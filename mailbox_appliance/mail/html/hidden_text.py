"""Write HTML again without its hidden text, with only safe elements and attributes."""

import re
from collections import Counter
from dataclasses import dataclass, field
from html import escape, unescape

from mailbox_appliance.mail import invisible_characters
from mailbox_appliance.mail.html import css_parser
from mailbox_appliance.mail.html.reader import StyledReader
from mailbox_appliance.mail.html.tokenizer import VOID_ELEMENTS, Token, parse_attributes, tokenize

_LEFT_OUT_ELEMENTS = frozenset(
    {"html", "body", "select", "option", "input", "embed", "source", "track", "area", "keygen", "frame", "param"}
)
_NAME = re.compile(r"[a-z][a-z0-9]{0,15}")
_URL_PREFIXES = {"href": ("http://", "https://", "mailto:", "tel:"), "src": ("http://", "https://", "cid:")}
_LONGEST_ADDRESS, _LONGEST_WORDS = 2_000, 2_000
_CLOSING_DUE = "/"  # suffix of an open element whose closing tag was read
# fmt: off
_ONE_WORD = frozenset({
    "align", "valign", "width", "height", "border", "cellpadding", "cellspacing", "bgcolor", "color", "size", "dir",
    "colspan", "rowspan", "start"
})
_STYLES = frozenset({
    "color", "background-color", "font-size", "font-weight", "font-style", "text-align", "text-decoration"
})
# fmt: on
_PLAIN_VALUE = re.compile(r"[#+-]?[A-Za-z0-9.]{1,12}%?")
_COLOUR_VALUE = re.compile(r"(?:rgb|hsl)a?\([0-9.,%/ ]{1,40}\)")


def to_visible_html(html: str, hidden: Counter[str] | None = None) -> str:
    """Return the HTML of the visible content, with every tag closed in the correct order. `hidden`: receives the counts
    of hidden text that is left out, by technique such as `opacity`.
    """
    writer = _VisibleHtmlWriter()
    reader = StyledReader(html, writer.write_token, Counter() if hidden is None else hidden)
    for token in tokenize(html):
        reader.feed(token)
    return writer.finish()


@dataclass
class _VisibleHtmlWriter:
    """Collects visible tokens and writes them as HTML."""

    pieces: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    _places: dict[str, list[int]] = field(default_factory=dict)  # open elements by name

    def write_token(self, token: Token) -> None:
        """Write the next token, which must be visible."""
        if not token.name:
            self.pieces.append(escape(token.content, quote=False))
        elif token.closes:
            self._close(token.name)
        elif token.name not in _LEFT_OUT_ELEMENTS and _NAME.fullmatch(token.name):
            self.pieces.append(_opening_tag(token))
            if token.name not in VOID_ELEMENTS:
                self._places.setdefault(token.name, []).append(len(self._open))
                self._open.append(token.name)

    def _close(self, name: str) -> None:
        """Close an element. If elements inside it are still open, its closing tag is written after theirs, so that tags
        stay nested.
        """
        places = self._places.get(name)
        if not places:
            return
        self._open[places.pop()] += _CLOSING_DUE
        while self._open and self._open[-1].endswith(_CLOSING_DUE):
            self.pieces.append(f"</{self._open.pop().removesuffix(_CLOSING_DUE)}>")

    def finish(self) -> str:
        """Close all open tags, and return the HTML."""
        self.pieces += (f"</{name.removesuffix(_CLOSING_DUE)}>" for name in reversed(self._open))
        return "".join(self.pieces)


def _opening_tag(token: Token) -> str:
    given = parse_attributes(token.content)
    kept = (
        (name, _safe_attribute(name, invisible_characters.strip_invisible(unescape(value))[0]))
        for name, value in given.items()
    )
    written = (f' {name}="{escape(value)}"' for name, value in kept if value)
    return f"<{token.name}{''.join(written)}>"


def _safe_attribute(name: str, value: str) -> str:
    """Return the attribute's value if it is safe, or the safe part of it; otherwise an empty text."""
    value = value.strip()
    if name in _URL_PREFIXES:
        return value if value.lower().startswith(_URL_PREFIXES[name]) and len(value) <= _LONGEST_ADDRESS else ""
    if name == "alt":
        return value[:_LONGEST_WORDS]
    if name == "style":
        return _safe_style(value)
    return value if name in _ONE_WORD and _PLAIN_VALUE.fullmatch(value) else ""


def _safe_style(value: str) -> str:
    found = (
        f"{name}: {given}"
        for name, given, _ in css_parser.parse_declarations(value)
        if name in _STYLES and _is_plain_value(given)
    )
    return "; ".join(found)


def _is_plain_value(value: str) -> bool:
    return bool(_PLAIN_VALUE.fullmatch(value) or _COLOUR_VALUE.fullmatch(value))
