"""What is seen of HTML, token by token; what a browser would not show is left out, and counted.

Most mail of persons has nothing that can hide words but a few elements: it is read without a look at styles, which
saves half of the time. All other is read as a browser reads it, by `styled_html`.
"""

import re
from collections import Counter
from collections.abc import Callable
from html import unescape

from mailbox_appliance.mail import invisible
from mailbox_appliance.mail.elements import NO_TEXT
from mailbox_appliance.mail.markup import COMMENT, MAX_INPUT, Token, tokens
from mailbox_appliance.mail.styled_html import Reader, is_remark

_HIDING = (
    *("style", "hidden", "color", "background", "<image", "<plaintext", "<small", "<su", "<button", "<mark", "popover"),
    *("<select", "<svg", "<math", "<template", "<object", "<applet", "<audio", "<video", "<canvas", "<iframe"),
    *("<datalist", "<dialog", "<meter", "<progress", "<rp", "<no", "<input", "<marquee", "<details"),
)
_HIDING_BY_VALUE = re.compile(
    r"(?:width|height)[\t\n\f\r ]*+=[\t\n\f\r ]*+[\"']?\s*+\+?0*+1?(?!\d)|(?:text|link)[\t\n\f\r ]*+="
)


def read(
    html: str,
    tell: Callable[[Token], object],
    hidden: Counter[str] | None = None,
    *,
    limit: int = MAX_INPUT,
    is_enough: Callable[[], bool] | None = None,
) -> None:
    """Tell the tokens that are seen of the first characters of HTML, until it is enough.

    In the texts that are told, entities are read and no character is invisible; attributes are as written. `hidden`:
    where it is counted, by technique, what is left out.
    """
    counts = Counter[str]() if hidden is None else hidden
    reader = _SimpleReader(tell, counts) if _is_simple(html, limit) else Reader(html, tell, counts)
    for token in tokens(html[:limit]):
        reader.feed(token)
        if is_enough and is_enough():
            return


def _is_simple(html: str, limit: int) -> bool:
    """Whether nothing can be hidden but in comments, a title or a script."""
    start = html[:limit].lower()
    if any(word in start for word in _HIDING) or "<style" in html[limit:].lower():
        return False
    return not _HIDING_BY_VALUE.search(start)


class _SimpleReader:
    def __init__(self, tell: Callable[[Token], object], hidden: Counter[str]) -> None:
        self._write, self._hidden = tell, hidden
        self._is_text = True

    def feed(self, token: Token) -> None:
        """Read on."""
        name, content = token.name, token.content
        if not name:
            if self._is_text:
                self._take_text(token, content)
        elif name == COMMENT:
            self._hidden["element"] += is_remark(content)
        elif name in NO_TEXT:
            self._is_text = token.closes
        else:
            self._write(token)

    def _take_text(self, token: Token, content: str) -> None:
        words, zero_width, bidi = invisible.without(unescape(content) if "&" in content else content)
        if zero_width or bidi:
            self._hidden["zero-width"] += zero_width
            self._hidden["bidi"] += bidi
        self._write(token if words is content else Token(content=words))
