"""Cut HTML into tags and text as a browser does (HTML 13.2.5). Also lists which elements are blocks, formatting, table
parts and so on.

`html.parser`, and every library based on it, takes quadratic time on unclosed tags, so a single mail could stop the
appliance. This tokenizer reads every character a bounded number of times.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from html import escape, unescape
from urllib.parse import quote, unquote

import msgspec

from mailbox_appliance.mail.encoded_words import without_surrogates

MAX_INPUT = 2 * 1024 * 1024  # characters that are read
COMMENT = "!"  # the name of a token for a comment

# Possessive (`++`): nothing here can match in a second way, and backtracking would need memory for every character.
_NAME = r"(?:=[^\t\n\f\r />=]*+|[^\t\n\f\r />=]++)"
_VALUE = r"""[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\t\n\f\r >]*+)"""
_TOKEN = re.compile(
    rf"""(?P<text>(?:[^<]++|<+(?=<)|<(?!/?[A-Za-z]|[!?]|/[^A-Za-z]))++)
    | <(?P<close>/?)(?P<name>[A-Za-z][^\t\n\f\r />]*+)
      (?P<attributes>(?:[\t\n\f\r /]++|{_NAME}(?:{_VALUE}|(?![\t\n\f\r ]*+=)))*+)>
    | <!--(?:-?>|(?P<comment>.*?)(?:--!?>|\Z))          # one that is not closed goes to the end
    | <(?:[!?]|/(?=[^A-Za-z]))(?P<bogus>[^>]*+)>?       # a declaration, or a comment of the lenient kind
    | <.*                                               # a tag that never ends is not shown, nor what follows""",
    re.X | re.S,
)
_ATTRIBUTE = re.compile(
    rf"""(?P<name>{_NAME})(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+
    (?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\t\n\f\r >]*+)))?+""",
    re.X,
)

#: Elements whose content is not HTML: a `<` in it opens nothing (HTML 13.2.5.2, 13.2.5.3, 13.2.5.17).
RAW_TEXT_ELEMENTS = frozenset({"script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"})
_ENTITIES_ARE_READ = frozenset({"title", "textarea"})
_LONGEST_NAME = 200  # characters of an attribute's name that are read


class Token(msgspec.Struct, frozen=True, gc=False):
    """A tag, text between tags, or a comment."""

    name: str = ""  # name of a tag in lower case; empty for text
    closes: bool = False
    content: str = ""  # the attributes of a tag, or the text, or the comment, as written
    end: int = 0  # the position of its end


def tokenize(html: str) -> Iterator[Token]:
    """Yield the tags, texts and comments of HTML in order. Only the first MAX_INPUT characters are read."""
    html = without_surrogates(html[:MAX_INPUT])
    if "\0" in html:
        html = html.replace("\0", "\ufffd")
    position = 0
    while found := _TOKEN.match(html, position):
        position = found.end()
        text, close, written, attributes = found.group("text", "close", "name", "attributes")
        if text:
            yield Token("", False, text, position)
        elif written:
            name, closes = written.lower(), close == "/"
            yield Token(name, closes, attributes, position)
            if name in RAW_TEXT_ELEMENTS and not closes:
                end = _end_of_raw_text(name, html, position)
                yield _raw_text(name, html[position:end], end)
                position = end
            elif name == "plaintext" and not closes:
                yield Token(content=escape(html[position:]), end=len(html))
                return
        elif comment := found["comment"] or found["bogus"]:
            yield Token(COMMENT, content=comment, end=position)


def _raw_text(name: str, content: str, end: int) -> Token:
    return Token(content=content if name in _ENTITIES_ARE_READ else escape(content, quote=False), end=end)


def _end_of_raw_text(name: str, html: str, start: int) -> int:
    """Return the position of the closing tag of an element without markup inside, such as `style`. The end of the HTML
    if there is none. `start`: the position after its opening tag.
    """
    if name == "script":
        return _end_of_script(html, start)
    found = _closing_tag(name).search(html, start)
    return found.start() if found else len(html)


@cache
def _closing_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\t\n\f\r />])", re.I)


_IN_SCRIPT = re.compile(r"<!--|-->|<(?P<close>/?)script(?=[\t\n\f\r />])", re.I)


def _end_of_script(html: str, start: int) -> int:
    """Return the position of the closing tag of a script, or the end of the HTML. A comment in the script may contain
    another pair of script tags, which does not count (HTML 13.2.5.20 to 31).
    """
    in_comment = in_script = False
    for found in _IN_SCRIPT.finditer(html, start):
        if found[0] in ("<!--", "-->"):
            in_comment = found[0] == "<!--"
            in_script = in_script and in_comment
        elif not found["close"]:
            in_script = in_comment
        elif in_script:
            in_script = False
        else:
            return found.start()
    return len(html)


def parse_attributes(content: str) -> dict[str, str]:
    """Return the attributes of a tag: names in lower case, values as written. If a name occurs twice, the first one
    counts. `content`: the text of the tag after its name.
    """
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(content):
        name, double, single, bare = match.groups()
        found.setdefault(name[:_LONGEST_NAME].lower(), double or single or bare or "")
    return found


def find_attribute(content: str, name: str) -> str:
    """Return the value of one attribute as written; empty if the tag does not have it. `content`: the text of the tag
    after its name. `name`: in lower case.
    """
    return parse_attributes(content).get(name, "") if name in content.lower() else ""


# --- The kinds of elements (HTML 13.1.2, 13.2.4.2, 13.2.6) ---


# fmt: off
VOID_ELEMENTS = frozenset({
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link",
    "meta", "param", "source", "track", "wbr"
})
FORMATTING_ELEMENTS = frozenset({
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"
})
CELLS = frozenset({"td", "th"})
SECTIONS = frozenset({"tbody", "thead", "tfoot"})
TABLE_PARTS = CELLS | SECTIONS | {"tr", "caption"}
ROWS_AND_ABOVE = SECTIONS | {"table", "tr"}  # text directly in these is shown before the table
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
LISTS = frozenset({"ol", "ul"})
ITEMS = frozenset({"dd", "dt"})
OPTIONS = frozenset({"option"})
CLOSES_PARAGRAPH = frozenset({
    "address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "listing", "main", "menu", "nav", "ol", "p",
    "plaintext", "pre", "search", "section", "summary", "ul", "xmp", "li"
}) | HEADINGS | ITEMS
#: These close more than a paragraph when they open.
CLOSES_OTHERS = HEADINGS | ITEMS | OPTIONS | {"button", "li", "optgroup", "table"}
#: A closing tag does not affect elements outside these.
SCOPE_ELEMENTS = frozenset({"applet", "caption", "marquee", "object", "table"}) | CELLS
#: In these, formatting starts again.
MARKER_ELEMENTS = SCOPE_ELEMENTS - {"table"}
SPECIAL_ELEMENTS = CLOSES_PARAGRAPH | SCOPE_ELEMENTS | SECTIONS | {
    "audio", "button", "canvas", "iframe", "noembed", "noframes", "noscript", "script", "select", "style", "template",
    "textarea", "title", "tr", "video"
} - {"dialog"}
#: Elements that are not in a line with the text around them, or are boxes in it.
BLOCK_ELEMENTS = CLOSES_PARAGRAPH | TABLE_PARTS | {
    "body", "button", "html", "iframe", "img", "input", "legend", "marquee", "meter", "object", "optgroup", "option",
    "progress", "select", "table", "textarea"
}
#: Special elements beyond which an open list item is not found.
BARRIER_ELEMENTS = SPECIAL_ELEMENTS - {"address", "div", "p"}
#: No program shows their content, or it shows something else instead. They end with the element around them.
UNSHOWN_ELEMENTS = frozenset({
    "audio", "datalist", "iframe", "meter", "noembed", "noframes", "progress", "rp", "script", "style", "title", "video"
})
#: Only their own closing tag ends them.
SELF_CONTAINED_ELEMENTS = frozenset({"math", "select", "svg", "template"})
#: Their content is not text of the message, and is not counted.
NO_TEXT = frozenset({"script", "style", "title"})
OUTER_ELEMENTS = frozenset({"body", "html"})
#: Tags that open nothing, or whose element exists without its tag.
IGNORED_ELEMENTS = frozenset({"base", "basefont", "bgsound", "col", "colgroup", "frame", "frameset", "head", "link",
                              "meta"})
# fmt: on


# --- Content-IDs that HTML refers to (RFC 2392) ---

# RFC 2392 2, in an attribute or in CSS.
_REFERENCE = re.compile(
    r"""(?P<quote>["'])\s{0,10}cid:(?P<quoted>[^"'<>]{1,1000}+)(?P=quote)
    | (?<![\w-])cid:(?P<bare>[^\s"'<>)&;]{1,1000})""",
    re.I | re.X,
)
_SAFE = "@!$*+-._~"


def replace_content_ids(html: str, rename: Callable[[tuple[str, ...]], str | None]) -> str:
    """Return the HTML with other Content-IDs in its `cid:` references (RFC 2392).

    `rename` is called for each reference. It returns the Content-ID to write, or None to leave the reference unchanged.
    Its argument has the possible readings of the Content-ID, the most likely first: in practice, some are not
    percent-encoded.
    """

    def replaced(match: re.Match[str]) -> str:
        group = "quoted" if match["quoted"] else "bare"
        plain = unescape(match[group]).strip()
        other = rename((unquote(plain), plain))
        if other is None:
            return match[0]
        start, end = (place - match.start() for place in match.span(group))
        return f"{match[0][:start]}{quote(other, safe=_SAFE)}{match[0][end:]}"

    return _REFERENCE.sub(replaced, html)
