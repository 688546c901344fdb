"""HTML as tags and text, cut where a browser cuts it (HTML 13.2.5): else a sender could hide words in the difference.

A reader of its own instead of a library: `html.parser`, and all that is built on it, takes quadratic time on unclosed
tags (eight thousand times `<a ` need seven seconds), and whoever can send a mail could stop the appliance. Here every
character is looked at a bounded number of times.
"""

import re
from collections.abc import Iterator
from functools import cache
from html import escape

import msgspec

from mailbox_appliance.mail.charsets import without_surrogates

MAX_INPUT = 2 * 1024 * 1024  # characters that are read
COMMENT = "!"  # the name of a token that is a comment

# Possessive (`++`): nothing here can match in a second way, and ways back would be kept for every character.
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

#: Elements whose content is no HTML: a `<` in it opens nothing (HTML 13.2.5.2, 13.2.5.3, 13.2.5.17).
RAW = frozenset({"script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"})
_ENTITIES_ARE_READ = frozenset({"title", "textarea"})
_LONGEST_NAME = 200  # characters of the name of an attribute that are looked at


class Token(msgspec.Struct, frozen=True, gc=False):
    """A tag, text between tags, or a comment."""

    name: str = ""  # of a tag, in lower case; empty for text
    closes: bool = False
    content: str = ""  # the attributes of a tag, or the text, or the comment, as written
    end: int = 0  # where it ends


def tokens(html: str) -> Iterator[Token]:
    """The tags, texts and comments of HTML; at most MAX_INPUT characters are read."""
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
            if name in RAW and not closes:
                end = _end_of(name, html, position)
                yield _raw_text(name, html[position:end], end)
                position = end
            elif name == "plaintext" and not closes:
                yield Token(content=escape(html[position:]), end=len(html))
                return
        elif comment := found["comment"] or found["bogus"]:
            yield Token(COMMENT, content=comment, end=position)


def _raw_text(name: str, content: str, end: int) -> Token:
    return Token(content=content if name in _ENTITIES_ARE_READ else escape(content, quote=False), end=end)


def _end_of(name: str, html: str, start: int) -> int:
    """Where the closing tag of such an element begins; the end of the HTML where there is none."""
    if name == "script":
        return _end_of_script(html, start)
    found = _closing(name).search(html, start)
    return found.start() if found else len(html)


@cache
def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\t\n\f\r />])", re.I)


_IN_SCRIPT = re.compile(r"<!--|-->|<(?P<close>/?)script(?=[\t\n\f\r />])", re.I)


def _end_of_script(html: str, start: int) -> int:
    """HTML 13.2.5.20 to 31: in a comment of a script, one more script may be opened and closed."""
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


def attributes_of(content: str) -> dict[str, str]:
    """The attributes of a tag by their names in lower case; the values as written. Of two alike the first counts."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(content):
        name, double, single, bare = match.groups()
        found.setdefault(name[:_LONGEST_NAME].lower(), double or single or bare or "")
    return found


def attribute(content: str, name: str) -> str:
    """The value of one attribute as written; empty where there is none."""
    return attributes_of(content).get(name, "") if name in content.lower() else ""
