"""Variables of CSS whose value is the same in all of a mail, and their use (CSS Variables 1)."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from html import unescape

from mailbox_appliance.mail import css

_LONGEST_VALUE = 60  # characters
_LONGEST_TEXT = 200_000  # characters in which variables are replaced
_EVERYWHERE = frozenset({":root", "html", "body", "*"})
_MENTION = re.compile(r"(?<![\w-])(var\(\s*+)?(--[\w-]{1,100})", re.I)
_DEFINITION = re.compile(r"""(?:\A|;)\s*+(--[\w-]{1,100})\s*+:((?:[^;{}()"'!\\]|\([^(){};"'\\]*+\))++)(?=;|\Z)""")
_USE = re.compile(r"(?<![\w-])var\(\s*+(--[\w-]{1,100})\s*+(?:,[^()]*+)?\)", re.I)


def constants(html: str, sheets: Iterable[str]) -> Mapping[str, str]:
    """The variables with one literal definition in all of the HTML, on its outermost elements or on all elements.

    Whatever else mentions the name, in style sheets or attributes, may be another definition.
    """
    if "var(" not in html.lower():
        return {}
    mentions = Counter(found[2].lower() for found in _MENTION.finditer(css.unescaped(unescape(html))) if not found[1])
    return {
        name: value
        for sheet in sheets
        for block in css.blocks(css.without_comments(sheet))
        if "{" not in block.content and _EVERYWHERE.issuperset(map(str.strip, block.prelude.lower().split(",")))
        for name, value in ((found[1], found[2].strip()) for found in _DEFINITION.finditer(block.content))
        if mentions[name.lower()] == 1 and 0 < len(value) <= _LONGEST_VALUE and "--" not in value
    }


def replaced(text: str, known: Mapping[str, str]) -> str:
    """CSS with the values of variables in their place; those that are not known stay."""
    if not known or len(text) > _LONGEST_TEXT:
        return text
    return _USE.sub(lambda found: f" {known[found[1]]} " if found[1] in known else found[0], text)
