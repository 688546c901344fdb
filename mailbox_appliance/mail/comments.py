"""Comments in header fields: text in parentheses, which may hold others (RFC 5322 3.2.2)."""

import re

_SIGN = re.compile(r"\\.|[()]", re.S)


def end_of(value: str, start: int) -> int:
    """Where the comment ends whose `(` stands at `start`; the end of the value where it is not closed."""
    depth = 0
    for sign in _SIGN.finditer(value, start):
        depth += {"(": 1, ")": -1}.get(sign[0], 0)
        if depth == 0:
            return sign.end()
    return len(value)


def remove(value: str) -> str:
    """The value without its comments, a space for each."""
    pieces: list[str] = []
    position = 0
    while (start := value.find("(", position)) >= 0:
        pieces += [value[position:start], " "]
        position = end_of(value, start)
    return "".join([*pieces, value[position:]]) if pieces else value
