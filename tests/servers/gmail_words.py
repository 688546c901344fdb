"""Commands of IMAP as words, and words as IMAP writes them (RFC 9051 4, RFC 3501 5.1.3)."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from imapclient import imap_utf7

#: An atom, a string or a literal; or a list of words.
Word = bytes | list["Word"]

#: An atom may hold a list in brackets: BODY.PEEK[HEADER.FIELDS (DATE FROM)]<0.1000>.
_WORD = re.compile(rb' *(?:([()])|"((?:[^"\\]|\\.)*)"|([^\s()"\[\]]*\[[^\]]*\][^\s()"]*|[^\s()"]+))', re.S)
_ESCAPED = re.compile(rb"\\(.)", re.S)
_ATOM = re.compile(r"[A-Za-z0-9._/&+,-]+")
_LITERAL = re.compile(rb"~?\{\d+\+?\}$")


class Unreadable(Exception):
    """Not a command."""


def words(pieces: Sequence[bytes]) -> list[Word]:
    """The words of a command: text, literal, text, ..."""
    whole: list[Word] = []
    nested = [whole]
    for index, piece in enumerate(pieces):
        if index % 2:
            nested[-1].append(piece)
            continue
        text = _LITERAL.sub(b"", piece) if index + 1 < len(pieces) else piece
        position = 0
        while text[position:].strip(b" "):
            found = _WORD.match(text, position)
            if not found:
                raise Unreadable
            position = found.end()
            _take(nested, found)
    if len(nested) != 1:
        raise Unreadable
    return whole


def _take(nested: list[list[Word]], found: re.Match[bytes]) -> None:
    if found[1] == b"(":
        inner: list[Word] = []
        nested[-1].append(inner)
        nested.append(inner)
    elif found[1]:
        nested.pop()
        if not nested:
            raise Unreadable
    else:
        nested[-1].append(found[3] if found[2] is None else _ESCAPED.sub(rb"\1", found[2]))


def text_of(word: Word) -> str:
    """A word that is no list, as text."""
    if isinstance(word, list):
        raise Unreadable
    return word.decode("utf-8", "replace")


def texts_of(word: Word) -> list[str]:
    """The words of a list; one that stands alone is a list too."""
    return [text_of(each) for each in (word if isinstance(word, list) else [word])]


def name_of(word: Word) -> str:
    """A folder or label, from modified UTF-7."""
    if isinstance(word, list):
        raise Unreadable
    return str(imap_utf7.decode(word))


def quoted(text: str) -> str:
    """A quoted string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def written_name(path: str) -> str:
    """A folder's path: a quoted string in modified UTF-7."""
    return quoted(imap_utf7.encode(path).decode("ascii"))


def written_label(label: str) -> str:
    """A label as Gmail writes it: `foo`, `"Muy Importante"`, `"\\\\Inbox"`."""
    text = imap_utf7.encode(label).decode("ascii")
    return text if _ATOM.fullmatch(text) else quoted(text)


def chosen(text: str, there: Sequence[int]) -> list[int]:
    """Those numbers, of ascending ones, that a sequence set names: `1:3,7,*`."""
    found: set[int] = set()
    for part in text.split(","):
        ends = [(there[-1] if there else 0) if end == "*" else _number(end) for end in part.split(":")]
        if len(ends) > 2:
            raise Unreadable
        found.update(there[bisect_left(there, min(ends)) : bisect_right(there, max(ends))])
    return sorted(found)


def _number(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise Unreadable
    return int(text)


def number_set(numbers: Iterable[int]) -> str:
    """Numbers as a sequence set, in their order where that is not ascending (COPYUID, RFC 4315 3)."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] + 1 == number:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}:{last}" for first, last in parts)
