"""HTML of a received message as it stands inside the HTML of another: without what would break that, else as it is.

Its style sheets reach the comment and the header block too, as in all mail programs.
"""

import re
from collections.abc import Callable
from html import escape, unescape
from urllib.parse import quote, unquote

from mailbox_appliance.mail.markup import attribute

# Possessive (`++`): nothing here can match in a second way, and ways back would be kept for every character.
_TOKEN = re.compile(
    r"""<!--(?:-?>|.*?--!?>|.*)                 # a comment (HTML 13.2.5.43); an unclosed one goes to the end
    | <[!?][^>]*>?
    | (?P<text>(?:[^<]++|<+(?=<)|<(?!/?[A-Za-z]|[!?]))++)
    | <(?P<close>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]{0,30})
      (?P<attributes>(?:[^<>"']++|"[^"]{0,5000}+"|'[^']{0,5000}+')*+)>
    | </?[A-Za-z][^<>]*>?                       # a tag with broken quotes""",
    re.X | re.S,
)
_RAW = re.compile(r"</(script|style|textarea|title|noscript)", re.I)
_OUTER = frozenset({"html", "head", "body"})
_FOR_THE_WHOLE = frozenset({"base", "meta"})  # a character set, a refresh, where links lead
_DECLARATION = re.compile(r"<(?:!doctype|\?xml)", re.I)
_SCRIPT = re.compile(r"<(/?)script(?![A-Za-z0-9:-])", re.I)
_WHOLE_COMMENT = re.compile(r"<!--(?:-?>|.*--!?>)\Z", re.S)
_END_OF_TITLE = re.compile(r"</title[^>]{0,100}>", re.I)
_COLOR = re.compile(r"#?[A-Za-z0-9]{3,20}")
# RFC 2392 2, in an attribute or in CSS.
_REFERENCE = re.compile(
    r"""(?P<quote>["'])\s{0,10}cid:(?P<quoted>[^"'<>]{1,1000}+)(?P=quote)
    | (?<![\w-])cid:(?P<bare>[^\s"'<>)&;]{1,1000})""",
    re.I | re.X,
)

_SAFE = "@!$*+-._~"


def embedded(html: str) -> str:
    """The inside of a document as a `div`; what its `body` says of colours, style and direction is kept.

    Scripts are left out, and nothing that is not closed reaches beyond the `div`.
    """
    pieces: list[str] = []
    position, pictures, opening = 0, 0, "<div>"
    while match := _TOKEN.match(html, position):
        start, position = position, match.end()
        name = (match["name"] or "").lower()
        if name == "svg":
            pictures += -1 if match["close"] else 1
        if name == "title" and pictures <= 0:
            position = _behind_title(html, position) if not match["close"] else position
        elif name == "body" and not match["close"] and opening == "<div>":
            opening = _as_div(match["attributes"])
        elif script := _SCRIPT.match(match[0]):
            position = position if script[1] else _end_of("script", html, position)
        elif name == "style" and not match["close"]:
            position = _end_of(name, html, position)
            pieces.append(html[start:position] + ("</style>" if position == len(html) else ""))
        elif not (name in _OUTER or name in _FOR_THE_WHOLE or (not name and _is_left_out(match[0]))):
            pieces.append(match[0])
    return f"{opening}{''.join(pieces).strip()}{html[position:]}</div>"


def _is_left_out(token: str) -> bool:
    """Whether this, which is no tag, is a declaration or a comment that is not closed."""
    if token.startswith("<!--"):
        return not _WHOLE_COMMENT.match(token)
    return _DECLARATION.match(token) is not None


def _behind_title(html: str, position: int) -> int:
    found = _END_OF_TITLE.search(html, position)
    return found.end() if found else len(html)


def _end_of(name: str, html: str, start: int) -> int:
    """Where the closing tag of a script or style begins; the end of the HTML where there is none."""
    for match in _RAW.finditer(html, start):
        if match[1].lower() == name:
            return match.start()
    return len(html)


def _as_div(attributes: str) -> str:
    """The opening tag of a `div` that looks as a `body` with these attributes."""
    style = unescape(attribute(attributes, "style")).strip().rstrip(";")
    for name, rule in (("bgcolor", "background-color"), ("text", "color")):
        color = unescape(attribute(attributes, name)).strip()
        style += f"; {rule}: {color}" if _COLOR.fullmatch(color) else ""
    kept = {"style": style.removeprefix("; ")} | {
        name: unescape(attribute(attributes, name)) for name in ("dir", "lang", "class")
    }
    written = (f' {name}="{escape(value)}"' for name, value in kept.items() if value)
    return f"<div{''.join(written)}>"


def with_content_ids(html: str, rename: Callable[[tuple[str, ...]], str | None]) -> str:
    """The HTML with each Content-ID that it names (RFC 2392) given to `rename`, and replaced where that tells another.

    `rename` gets what the Content-ID may be, the likeliest first: seen in practice, some are not percent-encoded.
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
