"""Write HTML again without its hidden text, with only safe elements and attributes."""

import re
from collections import Counter
from html import escape

from turbohtml import Element

from mailbox_appliance.mail import invisible_characters
from mailbox_appliance.mail.html import css_parser
from mailbox_appliance.mail.html.reader import Attributes, Writer, read_visible

#: Elements without content (HTML 13.1.2).
VOID_ELEMENTS = frozenset({"br", "hr", "img", "wbr"})
_LEFT_OUT_ELEMENTS = frozenset({
    "html", "head", "body", "base", "basefont", "bgsound", "link", "meta", "select", "option", "optgroup", "embed",
    "source", "track", "area", "keygen", "frame", "frameset", "param", "plaintext"
})  # fmt: skip
_NAME = re.compile(r"[a-z][a-z0-9]{0,15}")
_URL_PREFIXES = {"href": ("http://", "https://", "mailto:", "tel:"), "src": ("http://", "https://", "cid:")}
_LONGEST_ADDRESS, _LONGEST_WORDS = 2_000, 2_000
# fmt: off
_ONE_WORD = frozenset({
    "align", "valign", "width", "height", "border", "cellpadding", "cellspacing", "bgcolor", "color", "size", "dir",
    "colspan", "rowspan", "start"
})
_STYLES = frozenset({
    "color", "background-color", "font-size", "font-weight", "font-style", "text-align", "text-decoration"
})
# fmt: on
_KEPT = _ONE_WORD | set(_URL_PREFIXES) | {"alt", "style"}
_PLAIN_VALUE = re.compile(r"[#+-]?[A-Za-z0-9.]{1,12}%?")
_COLOUR_VALUE = re.compile(r"(?:rgb|hsl)a?\([0-9.,%/ ]{1,40}\)")


def to_visible_html(html: str, hidden: Counter[str]) -> str:
    """Return the HTML of the visible content, with every tag closed in the correct order. `hidden`: receives the counts
    of hidden text that is left out, by technique such as `opacity`.
    """
    writer = _VisibleHtmlWriter()
    read_visible(html, writer, hidden)
    return "".join(writer.pieces)


class _VisibleHtmlWriter(Writer):
    """Writes visible content as HTML."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._tags: dict[str, str] = {}  # one string for all equal tags, since hostile HTML has millions of them

    def _add(self, tag: str) -> None:
        self.pieces.append(self._tags.setdefault(tag, tag))

    def open(self, name: str, attributes: Attributes, _: Element) -> None:
        """Write the opening tag of an element."""
        if name not in _LEFT_OUT_ELEMENTS and _NAME.fullmatch(name):
            kept = ((each, safe_attribute(each, str(value))) for each, value in attributes.items())
            written = "".join([f' {each}="{escape(value)}"' for each, value in kept if value])
            self._add(f"<{name}{written}>")

    def close(self, name: str) -> None:
        """Write the closing tag of an element."""
        if name not in _LEFT_OUT_ELEMENTS and name not in VOID_ELEMENTS and _NAME.fullmatch(name):
            self._add(f"</{name}>")

    def text(self, words: str) -> None:
        """Write text."""
        self.pieces.append(escape(words, quote=False))


def safe_attribute(name: str, value: str) -> str:
    """Return the attribute's value if it is safe, or the safe part of it; otherwise an empty text."""
    if name not in _KEPT:
        return ""
    value = invisible_characters.strip_invisible(value)[0].strip()
    if name in _URL_PREFIXES:
        return value if value.lower().startswith(_URL_PREFIXES[name]) and len(value) <= _LONGEST_ADDRESS else ""
    if name == "alt":
        return value[:_LONGEST_WORDS]
    if name == "style":
        return _safe_style(value)
    return value if _PLAIN_VALUE.fullmatch(value) else ""


def _safe_style(value: str) -> str:
    found = (
        f"{name}: {given}"
        for name, given, _ in css_parser.parse_declarations(value)
        if name in _STYLES and (_PLAIN_VALUE.fullmatch(given) or _COLOUR_VALUE.fullmatch(given))
    )
    return "; ".join(found)
