"""Search in mail: the words of the full-text index, the query language of `q`, and excerpts."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from unicodedata import normalize

from msgspec import structs

from mailbox_appliance.clock import to_millis
from mailbox_appliance.mail import headers, invisible_characters
from mailbox_appliance.mail.html.analysis import TAG_READER, HtmlReader
from mailbox_appliance.model.messages import (
    MessageFilter,
    ParsedMessage,
    SearchContext,
    SearchedField,
    SearchMatch,
    SearchNoMatch,
    SearchScanLimit,
    SearchTerm,
    SearchUnavailable,
)

# --- Words, and how a search is written for the full-text index (FTS5, unicode61) ---
#
# A word is a run of letters and digits; case and diacritics do not count. Chinese, Japanese and Korean are written
# without spaces between words, so there every two neighboring characters are a word, and the last one of a run is one:
#
#     `東京都 Windows版`  ->  `東京 京都 都  Windows 版`
#
# So any part of a run is found by the pairs in it, and a single character by the words that begin with it.


_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")
_WORD = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_FOLDED = re.compile("[\uff01-\uffee]+")  # full-width letters, half-width kana
_IGNORED = re.compile("[\u00ad\u0300-\u036f]")  # soft hyphens; marks that are not composed with a letter

_COLUMNS: Mapping[SearchedField, str] = {
    "any": "{subject sender recipients body} : ",
    "from": "sender : ",
    "to": "recipients : ",
    "subject": "subject : ",
}


@dataclass(frozen=True)
class WordPrefix:
    """A search term for the full-text index: a whole word, or a prefix of words."""

    text: str
    is_whole: bool


#: Returns the words to search for a prefix, or None if the index finds the prefix itself.
Expansion = Callable[[str], Sequence[WordPrefix] | None]


def to_index_text(text: str) -> str:
    """Return a text in the form that is stored in the full-text index. In runs of Chinese, Japanese and Korean
    characters, every two neighbors become a word.
    """
    if text.isascii():
        return text
    return _CJK_RUN.sub(lambda run: f" {_closed_pairs(run[0])} ", _normalize(text))


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text as a person counts them. A run of Chinese, Japanese or Korean characters is one
    word.
    """
    return tuple(_WORD.findall(_normalize(text)))


def is_cjk_run(word: str) -> bool:
    """Whether a word is a run of Chinese, Japanese or Korean characters."""
    return _CJK_RUN.match(word) is not None


def match_expression(
    terms: Collection[SearchTerm], scopes: Collection[str] = (), expand: Expansion = lambda _: None
) -> str | None:
    """Return the query in SQLite's FTS5 syntax that finds messages with all these terms. Text of the user is quoted, so
    it has no effect as syntax.

    - scopes: values of the index column `scope`, one of which must match; empty for no restriction.
    - expand: a function that is called with a prefix. It returns the words to search for, or None to let the index
      search for the prefix.

    Terms without a letter or digit are left out. Returns None if no term remains.
    """
    said = [_column_filter(term) + found for term in terms if (found := _term_expression(term, expand))]
    if not said:
        return None
    if scopes:
        said.append(f"scope : ({' OR '.join(map(_quote, sorted(scopes)))})")
    return " AND ".join(said)


def _column_filter(term: SearchTerm) -> str:
    """Return the column filter for a term, in FTS5 syntax. It is empty to search all columns, which is faster.

    All columns include `scope`, so a term that could match a value there gets a filter with the other columns.
    """
    found = split_words(term.words)
    is_like_scope = len(found) == 1 and (term.is_prefix or found[0][-1].isnumeric())
    return _COLUMNS[term.field] if term.field != "any" or is_like_scope else ""


def _term_expression(term: SearchTerm, expand: Expansion) -> str | None:
    found = split_words(term.words)
    if not found:
        return None
    # Before another word, a run ends here as it does in the index.
    before = [_closed_pairs(word) if is_cjk_run(word) else word for word in found[:-1]]
    said = [
        _quote(" ".join([*before, last.text])) + ("" if last.is_whole else " *")
        for last in _last_word_expression(found[-1], term, expand)
    ]
    return said[0] if len(said) == 1 else f"({' OR '.join(said)})"


def _last_word_expression(word: str, term: SearchTerm, expand: Expansion) -> Sequence[WordPrefix]:
    if is_cjk_run(word):
        # A single character may be the first of a pair. Text inside a longer run is found by its pairs.
        return [WordPrefix(_character_pairs(word), is_whole=len(word) > 1)]
    if not term.is_prefix:
        return [WordPrefix(word, is_whole=True)]
    return expand(word) or [WordPrefix(word, is_whole=False)]


def _character_pairs(run: str) -> str:
    """Return every two adjacent characters of a Chinese, Japanese or Korean run, separated by spaces. A single
    character stays unchanged.
    """
    return " ".join(run[at : at + 2] for at in range(len(run) - 1)) or run


def _closed_pairs(run: str) -> str:
    """Return the words that the index has for a whole run of Chinese, Japanese or Korean characters: its pairs of
    adjacent characters, and its last character alone. A single character stays unchanged.
    """
    return f"{_character_pairs(run)} {run[-1]}" if len(run) > 1 else run


def _normalize(text: str) -> str:
    if text.isascii():
        return text
    composed = _IGNORED.sub("", unicodedata.normalize("NFC", text))
    return _FOLDED.sub(lambda found: unicodedata.normalize("NFKC", found[0]), composed)


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# --- The query language of `q` ---


#: Words and phrases in one query, and how many of them may be prefixes, which take longer.
MOST_TERMS, MOST_BEGINNINGS = 50, 5
#: Words of all terms together: a phrase that repeats a common word takes time for every word.
MOST_WORDS = 100
#: Minimum number of letters in a prefix: one letter starts half of all words.
SHORTEST_BEGINNING = 2

_PIECE = re.compile(
    r'(?:(?P<key>[A-Za-z]+):)?(?:"(?P<quoted>[^"]*)(?:"|$)(?P<star>\*(?=\s|$))?|(?P<bare>[^\s"]+))|"|\s+'
)
_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"'})
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d\d:\d\d)?)?", re.ASCII)

#: Keys of other query languages: their users expect more than a text search.
_FOREIGN_KEYS = re.compile(r"account|b?cc|filename|folder|in|larger|list|(?:newer|older)(?:_than)?|size|smaller", re.I)
#: Exclusions and choices of other query languages, cut to the length that a warning shows.
_FOREIGN_OPERATORS = re.compile(r'-(?:"|[^\W\d_]\w{0,39})|(?:OR|AND|NOT)(?!\S)')
_LIKE_A_KEY = re.compile(r"(-?)([A-Za-z_]+):(?=\S)")

_FIELDS: Mapping[str, SearchedField] = {"from": "from", "to": "to", "subject": "subject"}
_MARKS: Mapping[str, Mapping[str, MessageFilter]] = {
    "is": {
        "unread": MessageFilter(unread=True),
        "read": MessageFilter(unread=False),
        "starred": MessageFilter(starred=True),
    },
    "has": {"attachment": MessageFilter(has_attachment=True)},
}


@dataclass(frozen=True)
class _QueryPiece:
    """One element of a search query as typed: `key:value`, a word, or a phrase in quotes. `has_star`: it ends with `*`,
    which marks a prefix.
    """

    key: str
    value: str
    has_star: bool


def parse_query(text: str) -> MessageFilter:
    """Return the filter for a search query (parameter `q`). Raises ValueError with a message for the user."""
    found = combine_filters([_filter_of(piece) for piece in _split_query(text.translate(_QUOTES))])
    if len(found.terms) > MOST_TERMS:
        raise ValueError(f"A query can have at most {MOST_TERMS} words and phrases.")
    if sum(len(split_words(term.words)) for term in found.terms) > MOST_WORDS:
        raise ValueError(f"A query can have at most {MOST_WORDS} words, including the words of its phrases.")
    if sum(term.is_prefix for term in found.terms) > MOST_BEGINNINGS:
        raise ValueError(f"A query can have at most {MOST_BEGINNINGS} prefixes (words that end in *).")
    return without_signs(found)


def known_keys() -> tuple[str, ...]:
    """Return the keys that are supported before a colon in a search query, such as `from` and `after`."""
    return tuple(_READERS)


def misread_keys(text: str) -> tuple[str, ...]:
    """Return keys in a query that users of other mail services may expect to work, such as `in:` or `-from:`. The
    appliance searches for them as text, so callers warn about them.
    """
    found: dict[str, None] = {}
    text = text.translate(_QUOTES)
    for piece in _PIECE.finditer(text):
        typed = _LIKE_A_KEY.match(text, piece.start())
        if typed and (_FOREIGN_KEYS.fullmatch(typed[2]) or (typed[1] and typed[2].lower() in _READERS)):
            found[typed[0].lower()] = None
    return tuple(found)


def misread_words(text: str) -> tuple[str, ...]:
    """Return operators of other query languages in a query: `-word`, OR, AND, NOT. The appliance searches for them as
    text, so callers warn about them.
    """
    text = text.translate(_QUOTES)
    keys = misread_keys(text)
    begins = (piece.start() for piece in _PIECE.finditer(text) if not text[piece.start() - 1 : piece.start()].strip())
    found = (_FOREIGN_OPERATORS.match(text, start) for start in begins)
    return tuple(dict.fromkeys(typed[0] for typed in found if typed and f"{typed[0].lower()}:" not in keys))


def combine_filters(filters: Sequence[MessageFilter]) -> MessageFilter:
    """Return one filter that requires all of these filters. If two contradict each other, it matches no message."""
    whole, *others = filters or (MessageFilter(),)
    for one in others:
        whole = replace(
            _with_marks(whole, one),
            terms=whole.terms + one.terms,
            text=one.text if whole.text is None else whole.text,
            labels=whole.labels + one.labels,
            after=max((at for at in (whole.after, one.after) if at is not None), default=None),
            before=min((at for at in (whole.before, one.before) if at is not None), default=None),
        )
    return whole


def without_signs(found: MessageFilter) -> MessageFilter:
    """Return the filter without search terms that have no letter or digit, such as a dash between two words.

    If no term remains, or if a removed term was for one field (such as `from:-`), the filter matches no message.
    """
    kept = tuple(term for term in found.terms if split_words(term.words))
    if len(kept) == len(found.terms):
        return found
    lost = [term for term in found.terms if term not in kept]
    is_senseless = not kept or any(term.field != "any" for term in lost)
    return replace(found, terms=kept, is_impossible=found.is_impossible or is_senseless)


def parse_moment(text: str) -> int:
    """Return a date or date-time in milliseconds since 1970. A date means its start in UTC; a date-time without offset
    is in UTC.

    Raises ValueError with a message for the user.
    """
    try:
        if not _MOMENT.fullmatch(text):
            raise ValueError("not of this form")
        moment = datetime.fromisoformat(text.upper())
        return to_millis(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except ValueError as error:
        raise ValueError("A date must be written as 2026-01-31 or 2026-01-31T12:00:00Z.") from error


def _split_query(text: str) -> Iterable[_QueryPiece]:
    for found in _PIECE.finditer(text):
        key, quoted, bare = found["key"] or "", found["quoted"], found["bare"]
        if quoted is not None:
            yield _QueryPiece(key.lower(), quoted, has_star=bool(found["star"]))
        elif bare is not None:
            if not key and bare[:-1].lower() in _READERS and bare.endswith(":"):
                key, bare = bare[:-1], ""
            yield _QueryPiece(key.lower(), bare, has_star=bare.endswith("*"))


def _filter_of(piece: _QueryPiece) -> MessageFilter:
    reader = _READERS.get(piece.key)
    if reader is not None:
        if not piece.value.strip():
            raise ValueError(f"{piece.key}: needs a value directly after the colon, without a space.")
        return reader(piece)
    # Not a supported key: the text is searched unchanged.
    return _to_term(piece, "any", f"{piece.key}:{piece.value}" if piece.key else piece.value)


def _to_term(piece: _QueryPiece, field: SearchedField, text: str) -> MessageFilter:
    found = split_words(text)
    if piece.has_star and found and len(found[-1]) < SHORTEST_BEGINNING and not is_cjk_run(found[-1]):
        raise ValueError(f"A prefix needs at least {SHORTEST_BEGINNING} letters before *.")
    return MessageFilter(terms=(SearchTerm(text, field, is_prefix=piece.has_star),))


def _mark_filter(piece: _QueryPiece) -> MessageFilter:
    marks = _MARKS[piece.key]
    found = marks.get(piece.value.lower())
    if found is None:
        there_is = ", ".join(f"{piece.key}:{name}" for name in marks)
        raise ValueError(f"Unknown value {piece.key}:{piece.value[:50]}. Supported values: {there_is}.")
    return found


_READERS: Mapping[str, Callable[[_QueryPiece], MessageFilter]] = {
    **{key: lambda piece: _to_term(piece, _FIELDS[piece.key], piece.value) for key in _FIELDS},
    **dict.fromkeys(_MARKS, _mark_filter),
    "after": lambda piece: MessageFilter(after=parse_moment(piece.value)),
    "before": lambda piece: MessageFilter(before=parse_moment(piece.value)),
    "label": lambda piece: MessageFilter(labels=(piece.value,)),
}


def _with_marks(whole: MessageFilter, one: MessageFilter) -> MessageFilter:
    is_impossible = whole.is_impossible or one.is_impossible
    for ours, theirs in (
        (whole.unread, one.unread),
        (whole.starred, one.starred),
        (whole.has_attachment, one.has_attachment),
    ):
        is_impossible = is_impossible or (None not in (ours, theirs) and ours != theirs)
    return replace(
        whole,
        unread=one.unread if whole.unread is None else whole.unread,
        starred=one.starred if whole.starred is None else whole.starred,
        has_attachment=one.has_attachment if whole.has_attachment is None else whole.has_attachment,
        is_impossible=is_impossible,
    )


# --- The searchable words of a body: its text, or that of its HTML, in the form of the index ---


_LONGEST_SEARCHED = 1_000_000  # characters
# Nobody searches for a piece of base64, a key or a tracking link; each would be a separate word.
_JUNK = re.compile(r"[0-9A-Za-z+/=_-]{65,}")
_HAS_LONG_WORD = re.compile(r"(?:\S{0,64}+\s++)*+\S{65}")  # three times as fast as `search`


def searched_words(parsed: ParsedMessage, reader: HtmlReader = TAG_READER) -> str:
    """Return the body of a message in the form that is stored in the full-text index. `reader`: extracts the text of
    HTML if there is no plain text.
    """
    if parsed.searched is not None:
        return parsed.searched
    text = parsed.text
    if text is None and parsed.html:
        text = reader.extract(parsed.html, "text").text
    text = invisible_characters.strip_invisible((text or "")[:_LONGEST_SEARCHED])[0]
    return to_index_text(_JUNK.sub(" ", text) if _HAS_LONG_WORD.match(text) else text)


def with_searched_words(parsed: ParsedMessage, reader: HtmlReader = TAG_READER) -> ParsedMessage:
    """Return the message with its text for the full-text index in `searched`. That takes long, above all for HTML, so
    callers do it before they begin a transaction.
    """
    return parsed if parsed.searched is not None else structs.replace(parsed, searched=searched_words(parsed, reader))


# --- Excerpts: the start of a body, or a text in it with its surroundings ---


#: Characters of a body that are searched, and of all HTML for one page of messages: reading it takes time.
LONGEST_TEXT, MOST_HTML = 200_000, 500_000
#: Characters before the text found, and of the whole excerpt.
EXCERPT_BEFORE, EXCERPT_LENGTH = 50, 160
_ELLIPSIS = "…"
_LONGEST_SNIPPET = 200
_GLANCE, _LOOK = 400, 4000  # characters from which a snippet is made


@dataclass
class ExcerptFinder:
    """Finds excerpts around a searched text in the bodies of one page of messages. Case and the kind of white space do
    not count. HTML is read only up to a limit for the whole page.
    """

    literal: str
    reader: HtmlReader = TAG_READER
    _html_left: int = MOST_HTML

    def __post_init__(self) -> None:
        self._wanted = _normalize_spaces(self.literal)

    def find(self, text: str | None, html: str | None, *, is_there: bool = True) -> SearchContext:
        """Return an excerpt of the body around the searched text, or the reason for none. `text`: the plain text.
        `html`: used if there is no plain text. `is_there`: whether the body is stored.
        """
        if not is_there:
            return SearchUnavailable()
        if text is None and html is not None:
            return self._context_of_html(html)
        text = text or ""
        return self._find_context(
            invisible_characters.strip_invisible(text[:LONGEST_TEXT])[0], is_whole=len(text) <= LONGEST_TEXT
        )

    def _context_of_html(self, html: str) -> SearchContext:
        kept = html[: min(LONGEST_TEXT, self._html_left)]
        self._html_left -= len(kept)
        if not kept:
            return SearchScanLimit() if html else SearchNoMatch()
        seen = self.reader.extract(kept, "text")
        if not seen.is_analyzed:
            # It could contain hidden text, and reading more would delay the whole page.
            self._html_left = 0
            return SearchScanLimit()
        return self._find_context(seen.text, is_whole=len(kept) == len(html))

    def _find_context(self, text: str, *, is_whole: bool) -> SearchContext:
        plain = _normalize_spaces(text)
        at = _find_text(plain, self._wanted)
        if at is not None:
            return SearchMatch(excerpt=_cut_around(plain, at, len(self._wanted)))
        return SearchNoMatch() if is_whole else SearchScanLimit()


def _normalize_spaces(text: str) -> str:
    """Return the text with single spaces, and with each accent composed with its letter (NFC)."""
    return " ".join((text if text.isascii() else normalize("NFC", text)).split())


def _find_text(text: str, wanted: str) -> int | None:
    """Return the position of `wanted` in the text, ignoring case. None if it does not occur."""
    at = _lower_case(text).find(_lower_case(wanted))
    return None if at < 0 else at


def _lower_case(text: str) -> str:
    """Return the text in lower case with the same length, so that positions stay valid. The few capitals that become
    longer in lower case (`İ`) stay unchanged.
    """
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(letter if len(letter := one.lower()) == 1 else one for one in text)


def _cut_around(text: str, at: int, length: int) -> str:
    start = max(0, at - EXCERPT_BEFORE)
    end = min(len(text), max(at + length, start + EXCERPT_LENGTH))
    # Only very long words are cut.
    if start:
        start = space + 1 if (space := text.find(" ", start - 1, at)) >= 0 else start
    if end < len(text):
        end = space if (space := text.rfind(" ", at + length, end + 1)) >= 0 else end
    return f"{_ELLIPSIS if start else ''}{text[start:end].rstrip()}{_ELLIPSIS if end < len(text) else ''}"


def snippet(text: str) -> str:
    """Return the start of a text on one line, about 200 characters, for message lists. Quoted lines are left out,
    unless there are no others.
    """
    line = _own_words(text[:_GLANCE])
    if len(line) <= _LONGEST_SNIPPET or "=?" in line:
        start = text[:_LOOK]
        line = _own_words(start) or _one_line(start)
    return _cut(line)


def _own_words(text: str) -> str:
    if ">" in text:
        text = "\n".join(line for line in text.split("\n") if not line.startswith(">"))
    return _one_line(text)


def _one_line(text: str) -> str:
    """Return the text on one line and without invisible characters, which senders of bulk mail use to fill the
    preview.
    """
    line = " ".join(invisible_characters.strip_invisible(text)[0].split())
    return line if line.isprintable() and "=?" not in line else headers.without_controls(line)


def _cut(line: str) -> str:
    if len(line) <= _LONGEST_SNIPPET:
        return line
    cut = line[:_LONGEST_SNIPPET]
    return (cut.rpartition(" ")[0] if " " in cut[150:] else cut.rstrip("\u200c\u200d")) + _ELLIPSIS
