"""What counts as a word when mail is searched, and how a search is said to a full-text index (FTS5, unicode61).

A word is a run of letters and digits; case and diacritics do not count. Chinese, Japanese and Korean are written
without spaces between words, so there every two neighbouring characters are a word, and the last one of a run is one:

    `東京都 Windows版`  ->  `東京 京都 都  Windows 版`

so that any part of a run is found by the pairs in it, and a single character by the words that begin with it.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mailbox_appliance.model.records import SearchedField, SearchTerm

_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_CJK}]+")
_WORD = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_FOLDED = re.compile("[\uff01-\uffee]+")  # full-width letters, half-width kana
_IGNORED = re.compile("[\u00ad\u0300-\u036f]")  # soft hyphens; marks that no letter is composed with

_COLUMNS: Mapping[SearchedField, str] = {
    "any": "{subject sender recipients body} : ",
    "from": "sender : ",
    "to": "recipients : ",
    "subject": "subject : ",
}


@dataclass(frozen=True)
class Beginning:
    """A word as the index has it, or the beginning of words."""

    text: str
    is_whole: bool


#: Gives what stands for the beginning of a word, or None where the index finds it by itself.
Expansion = Callable[[str], Sequence[Beginning] | None]


def for_index(text: str) -> str:
    """A text as it is given to the index."""
    if text.isascii():
        return text
    return _RUN.sub(lambda run: f" {_closed(run[0])} ", _normal(text))


def words(text: str) -> tuple[str, ...]:
    """The words of a text as a person sees them: a run of Chinese, Japanese or Korean characters is one."""
    return tuple(_WORD.findall(_normal(text)))


def is_run(word: str) -> bool:
    """Whether a word is a run of Chinese, Japanese or Korean characters."""
    return _RUN.match(word) is not None


def match(
    terms: Collection[SearchTerm], scopes: Collection[str] = (), expand: Expansion = lambda _: None
) -> str | None:
    """The search for all these terms, in any of these scopes (none: everywhere), in the language of FTS5.

    Terms without a word in them are left out; None where nothing is left. Whatever was typed is quoted.
    """
    said = [_columns(term) + found for term in terms if (found := _found_by(term, expand))]
    if not said:
        return None
    if scopes:
        said.append(f"scope : ({' OR '.join(map(_quoted, sorted(scopes)))})")
    return " AND ".join(said)


def _columns(term: SearchTerm) -> str:
    """The columns to look in. Naming them takes time, so they are not where the column of scopes cannot be meant."""
    found = words(term.words)
    is_like_scope = len(found) == 1 and (term.is_prefix or found[0][-1].isnumeric())
    return _COLUMNS[term.field] if term.field != "any" or is_like_scope else ""


def _found_by(term: SearchTerm, expand: Expansion) -> str | None:
    found = words(term.words)
    if not found:
        return None
    # Where another word follows, a run ends here as it does in the index.
    before = [_closed(word) if is_run(word) else word for word in found[:-1]]
    said = [
        _quoted(" ".join([*before, last.text])) + ("" if last.is_whole else " *")
        for last in _last(found[-1], term, expand)
    ]
    return said[0] if len(said) == 1 else f"({' OR '.join(said)})"


def _last(word: str, term: SearchTerm, expand: Expansion) -> Sequence[Beginning]:
    if is_run(word):
        # A single character may be the first of a pair; what lies inside a longer run is found by its pairs.
        return [Beginning(_pairs(word), is_whole=len(word) > 1)]
    if not term.is_prefix:
        return [Beginning(word, is_whole=True)]
    return expand(word) or [Beginning(word, is_whole=False)]


def _pairs(run: str) -> str:
    """Every two neighbours; a single character as it is."""
    return " ".join(run[at : at + 2] for at in range(len(run) - 1)) or run


def _closed(run: str) -> str:
    """The pairs of a whole run, and its last character."""
    return f"{_pairs(run)} {run[-1]}" if len(run) > 1 else run


def _normal(text: str) -> str:
    if text.isascii():
        return text
    composed = _IGNORED.sub("", unicodedata.normalize("NFC", text))
    return _FOLDED.sub(lambda found: unicodedata.normalize("NFKC", found[0]), composed)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
