"""The language of `q`: what a person types to find mail, as a filter.

    invoice "due date" inv*  from:ada@example.org subject:"the plan"  after:2026-01-01 before:2026-02-01T12:00Z
    is:unread is:read is:starred  has:attachment  label:work

All of it must hold. Keys are written in any case; what looks like a key and is none (`12:30`, an address of the web) is
looked for as it stands.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mailbox_appliance.clock import to_millis
from mailbox_appliance.mail import words
from mailbox_appliance.model.records import MessageFilter, SearchedField, SearchTerm

#: Words and phrases that one query may hold, and how many of them may be beginnings, which take longer.
MOST_TERMS, MOST_BEGINNINGS = 50, 5
#: Of all terms together: a phrase that repeats a common word takes a time that grows with every word.
MOST_WORDS = 100
#: Letters that the beginning of a word has at least; one letter begins half of all words.
SHORTEST_BEGINNING = 2

_PIECE = re.compile(
    r'(?:(?P<key>[A-Za-z]+):)?(?:"(?P<quoted>[^"]*)(?:"|$)(?P<star>\*(?=\s|$))?|(?P<bare>[^\s"]+))|"|\s+'
)
_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"'})
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d\d:\d\d)?)?", re.ASCII)

#: Keys of other query languages: whoever types them means more than the text.
_ELSEWHERE = re.compile(r"account|b?cc|filename|folder|in|larger|list|(?:newer|older)(?:_than)?|size|smaller", re.I)
#: Words that leave out or choose there, as far as one is shown.
_CHOOSES = re.compile(r'-(?:"|[^\W\d_]\w{0,39})|(?:OR|AND|NOT)(?!\S)')
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
class _Piece:
    """Something between spaces: `key:value`, a word, or a phrase."""

    key: str
    value: str
    has_star: bool


def read(text: str) -> MessageFilter:
    """The filter that a query stands for. Raises ValueError with a sentence for a person."""
    found = combine(_filter_of(piece) for piece in _pieces(text.translate(_QUOTES)))
    if len(found.terms) > MOST_TERMS:
        raise ValueError(f"A query holds at most {MOST_TERMS} words and phrases.")
    if sum(len(words.words(term.words)) for term in found.terms) > MOST_WORDS:
        raise ValueError(f"A query holds at most {MOST_WORDS} words, those of its phrases counted one by one.")
    if sum(term.is_prefix for term in found.terms) > MOST_BEGINNINGS:
        raise ValueError(f"A query holds at most {MOST_BEGINNINGS} beginnings of words.")
    return without_signs(found)


def known_keys() -> tuple[str, ...]:
    """What may stand before a colon."""
    return tuple(_READERS)


def misread_keys(text: str) -> tuple[str, ...]:
    """What looks like a key of another query language, or like one of ours with a minus, and is looked for as text."""
    found: dict[str, None] = {}
    text = text.translate(_QUOTES)
    for piece in _PIECE.finditer(text):
        typed = _LIKE_A_KEY.match(text, piece.start())
        if typed and (_ELSEWHERE.fullmatch(typed[2]) or (typed[1] and typed[2].lower() in _READERS)):
            found[typed[0].lower()] = None
    return tuple(found)


def misread_words(text: str) -> tuple[str, ...]:
    """What leaves out or chooses in other query languages (`-word`, OR, AND, NOT), and is looked for as text here."""
    text = text.translate(_QUOTES)
    keys = misread_keys(text)
    begins = (piece.start() for piece in _PIECE.finditer(text) if not text[piece.start() - 1 : piece.start()].strip())
    found = (_CHOOSES.match(text, start) for start in begins)
    return tuple(dict.fromkeys(typed[0] for typed in found if typed and f"{typed[0].lower()}:" not in keys))


def combine(filters: Iterable[MessageFilter]) -> MessageFilter:
    """All of these at once. Where two exclude each other, nothing is meant."""
    whole = MessageFilter()
    for one in filters:
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
    """Leave out what has no letter or digit in it, say a dash between two words.

    Where nothing is left to look for, or a field was to hold such a thing, nothing is meant.
    """
    kept = tuple(term for term in found.terms if words.words(term.words))
    lost = [term for term in found.terms if term not in kept]
    is_senseless = bool(lost) and (not kept or any(term.field != "any" for term in lost))
    return replace(found, terms=kept, is_impossible=found.is_impossible or is_senseless)


def read_moment(text: str) -> int:
    """Milliseconds of a date (its beginning in UTC) or of a date-time (in UTC unless it says otherwise).

    Raises ValueError with a sentence for a person.
    """
    try:
        if not _MOMENT.fullmatch(text):
            raise ValueError("not of this form")
        moment = datetime.fromisoformat(text.upper())
        return to_millis(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except ValueError as error:
        raise ValueError("A date is written as 2026-01-31 or 2026-01-31T12:00:00Z.") from error


def _pieces(text: str) -> Iterable[_Piece]:
    for found in _PIECE.finditer(text):
        key, quoted, bare = found["key"] or "", found["quoted"], found["bare"]
        if quoted is not None:
            yield _Piece(key.lower(), quoted, has_star=bool(found["star"]))
        elif bare is not None:
            if not key and bare[:-1].lower() in _READERS and bare.endswith(":"):
                key, bare = bare[:-1], ""
            yield _Piece(key.lower(), bare, has_star=bare.endswith("*"))


def _filter_of(piece: _Piece) -> MessageFilter:
    reader = _READERS.get(piece.key)
    if reader is not None:
        if not piece.value.strip():
            raise ValueError(f"After {piece.key}: comes what to look for, without a space.")
        return reader(piece)
    # No key of ours: the text is looked for as it stands.
    return _term(piece, "any", f"{piece.key}:{piece.value}" if piece.key else piece.value)


def _term(piece: _Piece, field: SearchedField, text: str) -> MessageFilter:
    found = words.words(text)
    if piece.has_star and found and len(found[-1]) < SHORTEST_BEGINNING and not words.is_run(found[-1]):
        raise ValueError(f"Before * come at least {SHORTEST_BEGINNING} letters of a word.")
    return MessageFilter(terms=(SearchTerm(text, field, is_prefix=piece.has_star),))


def _mark(piece: _Piece) -> MessageFilter:
    marks = _MARKS[piece.key]
    found = marks.get(piece.value.lower())
    if found is None:
        there_is = ", ".join(f"{piece.key}:{name}" for name in marks)
        raise ValueError(f"There is no {piece.key}:{piece.value[:50]}; there is {there_is}.")
    return found


_READERS: Mapping[str, Callable[[_Piece], MessageFilter]] = {
    **{key: lambda piece: _term(piece, _FIELDS[piece.key], piece.value) for key in _FIELDS},
    **dict.fromkeys(_MARKS, _mark),
    "after": lambda piece: MessageFilter(after=read_moment(piece.value)),
    "before": lambda piece: MessageFilter(before=read_moment(piece.value)),
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
