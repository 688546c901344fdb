"""The text between the tags of HTML, and its attributes and references, as written. Nothing is known about styles.

`html.parser`, and every library based on it, takes quadratic time on unclosed tags, so a single mail could stop the
appliance. Here, every character is read a bounded number of times (HTML 13.2.5).
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from html import unescape
from urllib.parse import quote, unquote

from mailbox_appliance.mail.encoded_words import without_surrogates

MAX_INPUT = 2 * 1024 * 1024  # characters that are read
#: Elements whose content is not text of the message, and is not counted.
NO_TEXT = frozenset({"script", "style", "title"})
# Elements whose content is not HTML: a `<` in it opens nothing (HTML 13.2.5.2, 13.2.5.3, 13.2.5.17).
_RAW_TEXT_ELEMENTS = NO_TEXT | {"textarea", "xmp", "iframe", "noembed", "noframes"}
# fmt: off
_LINES = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "li", "main",
    "nav", "ol", "option", "p", "pre", "section", "table", "tbody", "tfoot", "thead", "tr", "ul"
})
# fmt: on
_CELLS = frozenset({"td", "th"})

# Possessive (`++`): nothing here can match in a second way, and backtracking would need memory for every character.
_NAME = r"(?:=[^\t\n\f\r />=]*+|[^\t\n\f\r />=]++)"
_VALUE = r"""[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\t\n\f\r >]*+)"""
_TOKEN = re.compile(
    rf"""(?P<text>(?:[^<]++|<+(?=<)|<(?!/?[A-Za-z]|[!?]|/[^A-Za-z]))++)
    | <(?P<close>/?)(?P<name>[A-Za-z][^\t\n\f\r />]*+)
      (?:(?:[\t\n\f\r /]++|{_NAME}(?:{_VALUE}|(?![\t\n\f\r ]*+=)))*+)>
    | <!--(?:-?>|.*?(?:--!?>|\Z))          # one that is not closed goes to the end
    | <(?:[!?]|/(?=[^A-Za-z]))[^>]*+>?       # a declaration, or a comment of the lenient kind
    | <.*                                               # a tag that never ends is not shown, nor what follows""",
    re.X | re.S,
)


def text_pieces(html: str) -> Iterator[str]:
    """Yield the texts between tags in order, without scripts, style sheets, titles and comments. A block element yields
    a line break, a table cell a space.

    Only the first MAX_INPUT characters of the HTML are read, in linear time.
    """
    html = without_surrogates(html[:MAX_INPUT]).replace("\0", "\ufffd")
    position = 0
    while found := _TOKEN.match(html, position):
        position = found.end()
        text, close, written = found.group("text", "close", "name")
        if text:
            yield _plain(text)
        elif written:
            name = written.lower()
            if name in _LINES or name in _CELLS:
                yield "\n" if name in _LINES else " "
            elif not close and name in _RAW_TEXT_ELEMENTS:
                end = _end_of_raw_text(name, html, position)
                if name not in NO_TEXT:
                    yield _plain(html[position:end])
                position = end
            elif not close and name == "plaintext":
                yield html[position:].replace("\n", " ")
                return


def _plain(text: str) -> str:
    return (unescape(text) if "&" in text else text).replace("\n", " ")


def _end_of_raw_text(name: str, html: str, start: int) -> int:
    """Return the position of the closing tag of an element without markup inside, such as `style`."""
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


_ATTRIBUTE = re.compile(
    rf"""(?P<name>{_NAME})(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+
    (?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\t\n\f\r >]*+)))?+""",
    re.X,
)


def find_attribute(content: str, name: str) -> str:
    """Return the value of one attribute as written; empty if the tag does not have it. If a name occurs twice, the
    first one counts. `content`: the text of the tag after its name. `name`: in lower case.
    """
    for match in _ATTRIBUTE.finditer(content):
        if match["name"].lower() == name:
            return match["double"] or match["single"] or match["bare"] or ""
    return ""


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
