"""FETCH answers (RFC 9051 7.5.2) to values: what is told of a message, in any order and any number of answers."""

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mailbox_appliance.model.records import FetchedMessage
from mailbox_appliance.remote import gmail
from mailbox_appliance.remote.imap_lexer import MAX_UID, Reader, Value, number, uid_number
from mailbox_appliance.remote.imap_wire import Pieces

MAX_MESSAGES = 3_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_FLAGS = 200  # of one message
_MOST_OF_SECTIONS = 1 << 20  # bytes in answer to one question for some ends
_CACHED = 256  # characters of flags, at most, whose set is kept

_FETCH = re.compile(rb"\* \d{1,10} FETCH \(", re.I)
_NAME = re.compile(rb" *([^ ()\[\]<>]+(?:\[[^\]]*\])?(?:<\d+>)?) ")
_FLAT = re.compile(rb' *\(([^()"]*)\)')
_END = re.compile(rb" *\) *$")
#: What nearly all answers to FETCH (UID FLAGS) look like.
_FLAGS_ONLY = re.compile(rb'\* \d{1,10} FETCH \(UID (\d{1,10}) FLAGS \(([^()"]*)\)(?: MODSEQ \(\d{1,19}\))?\)')
#: What nearly all others look like, up to the source: in the order in which we ask.
_USUAL = re.compile(
    rb"\* \d{1,10} FETCH \(UID (\d{1,10})(?: FLAGS \(([^()\"]*)\))?(?: INTERNALDATE \"([^\"\\]*)\")?"
    rb"(?: RFC822\.SIZE (\d{1,18}))?(?:\)| BODY\[[^\]]*\](<\d+>)? )"
)
_LABEL_LIST = rb"(\((?:[^()\"{}]++|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\")*+\))"
#: What nearly all answers to FETCH (UID FLAGS X-GM-LABELS) look like, in the order in which Gmail tells.
_LABELS_ONLY = re.compile(
    rb"\* \d{1,10} FETCH \(X-GM-LABELS %b UID (\d{1,10})(?: MODSEQ \(\d{1,19}\))? FLAGS \(([^()\"]*)\)\)" % _LABEL_LIST
)
#: An item that can be told by itself, in any order; what is written in another way is read word by word.
_ITEM = re.compile(
    rb" *(?:UID (\d{1,10})|FLAGS \(([^()\"]*)\)|INTERNALDATE \"([^\"\\]*)\"|RFC822\.SIZE (\d{1,18})"
    rb"|X-GM-MSGID (\d{1,20})|X-GM-THRID (\d{1,20})"
    rb"|X-GM-LABELS %b|MODSEQ (\()\d{1,19}\))(?=[ )])" % _LABEL_LIST,
    re.I,
)
_DATE = re.compile(rb" ?(\d{1,2})-([A-Za-z]{3})-(\d{4}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_MONTHS = {name: number for number, name in enumerate(b"jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_SYSTEM_FLAGS = {flag.lower(): flag for flag in ("\\Seen", "\\Flagged", "\\Draft", "\\Answered", "\\Deleted")}


@dataclass(slots=True)
class Told:
    """What FETCH told of one message; None where it did not. A `section` that the server cannot give is empty."""

    uid: int | None = None
    flags: frozenset[str] | None = None
    internal_date: datetime | None = None
    size: int | None = None
    section: bytes | None = None
    is_partial: bool = False
    structure: Value = None
    labels: frozenset[str] | None = None
    provider_id: str | None = None
    provider_thread_id: str | None = None

    @property
    def kept_flags(self) -> frozenset[str]:
        """The flags as we keep them: with the labels, on a server that has these."""
        flags = self.flags or frozenset()
        return flags if self.labels is None else gmail.kept(flags, self.labels)

    def update(self, later: "Told") -> None:
        """Put what a later answer told over it."""
        if later.flags is not None:
            self.flags = later.flags
        if later.internal_date is not None:
            self.internal_date = later.internal_date
        if later.size is not None:
            self.size = later.size
        if later.section is not None:
            self.section, self.is_partial = later.section, later.is_partial
        if later.structure is not None:
            self.structure = later.structure
        if later.labels is not None:
            self.labels = later.labels
        self.provider_id = later.provider_id or self.provider_id
        self.provider_thread_id = later.provider_thread_id or self.provider_thread_id

    def to_message(self) -> FetchedMessage | None:
        """As a record; None where no section was told."""
        if self.uid is None or self.section is None:
            return None
        size = len(self.section) if self.size is None else self.size
        date, identity = self.internal_date or EPOCH, (self.provider_id, self.provider_thread_id)
        return FetchedMessage(self.uid, self.kept_flags, date, size, self.section, *identity)


class Answers:
    """Collects what FETCH tells of some messages."""

    def __init__(self, uids: Iterable[int], *, with_flags: bool = True) -> None:
        """`with_flags`: flags were asked for; else flags are news of a change."""
        self._wanted = frozenset(uids)
        self._with_flags = with_flags
        self.found: dict[int, Told] = {}

    def collect(self, pieces: Pieces) -> bool:
        """Take an untagged answer in; says whether it was asked for."""
        told = read(pieces)
        if told is None or told.uid not in self._wanted:
            return False
        known = self.found.setdefault(told.uid, told)
        if known is not told:
            known.update(told)
        return self._with_flags or told.flags is None


class SectionAnswers:
    """Collects parts of sections of one message, by what they are called: `BODY[1.2]<300>`."""

    def __init__(self, uid: int, wanted: Mapping[str, int]) -> None:
        """`wanted`: how many bytes were asked for of each; what else is told is not kept."""
        self._uid, self._wanted = uid, wanted
        self._room = _MOST_OF_SECTIONS
        self.found: dict[str, bytes] = {}

    def collect(self, pieces: Pieces) -> bool:
        """Take an untagged answer in; says whether it was asked for. Raises ValueError where far too much is told."""
        sections: dict[str, bytes] = {}
        told = _read_any(pieces, sections)
        if told is None or told.uid != self._uid:
            return False
        self._room -= sum(map(len, pieces))
        if self._room < 0:
            raise ValueError("far more than was asked for")
        self.found |= {name: data[: self._wanted[name]] for name, data in sections.items() if name in self._wanted}
        return told.flags is None


class FlagAnswers:
    """Collects the flags of messages: of those wanted, or of all."""

    def __init__(self, wanted: Collection[int] | None = None) -> None:
        self._wanted = wanted
        self.found: dict[int, frozenset[str]] = {}

    def collect(self, pieces: Pieces) -> bool:
        """Take an untagged answer in; says whether it was asked for. Of two for one message the later one counts."""
        if usual := _FLAGS_ONLY.fullmatch(pieces[0]):
            uid, flags = int(usual[1]), flag_set(usual[2])
        else:
            told = read(pieces)
            if told is None or told.uid is None or told.flags is None:
                return False
            uid, flags = told.uid, told.flags
        if not 0 < uid <= MAX_UID:
            raise ValueError("not a UID")
        return self._add(uid, flags)

    def _add(self, uid: int, flags: frozenset[str]) -> bool:
        if self._wanted is not None and uid not in self._wanted:
            return False
        self.found[uid] = flags
        if len(self.found) > MAX_MESSAGES:
            raise ValueError("more messages than we can deal with")
        return True


class LabelAnswers(FlagAnswers):
    """Collects the flags and labels of messages."""

    def collect(self, pieces: Pieces) -> bool:
        """Take an untagged answer in; says whether it was asked for: one without labels was not."""
        if usual := _LABELS_ONLY.fullmatch(pieces[0]):
            labels, uid, flags = gmail.label_set(usual[1]), uid_number(usual[2]), flag_set(usual[3])
            return self._add(uid, gmail.kept(flags, labels))
        told = read(pieces)
        if told is None or told.uid is None or told.flags is None:
            return False
        if told.labels is not None:
            return self._add(told.uid, told.kept_flags)
        if told.uid in self.found:  # a change that was told unasked, of a message whose labels have been told before
            self.found[told.uid] = gmail.kept(told.flags, gmail.labels_in(self.found[told.uid]))
        return False


def read(pieces: Pieces) -> Told | None:
    """What an untagged answer tells of a message; None when it is no FETCH. Raises ValueError where it is odd."""
    usual = _USUAL.fullmatch(pieces[0])
    if usual and (len(pieces) == 1 if pieces[0].endswith(b")") else len(pieces) == 3 and pieces[2] == b")"):
        return _read_usual(usual, pieces)
    return _read_any(pieces, {})


def _read_any(pieces: Pieces, sections: dict[str, bytes]) -> Told | None:
    """The same, item by item. `sections`: is given all of them, by their names."""
    begin = _FETCH.match(pieces[0])
    if not begin:
        return None
    told, reader = Told(), Reader(pieces, begin.end())
    while not reader.match(_END):
        if plain := reader.match(_ITEM):
            _read_plain(told, plain)
        elif name := reader.match(_NAME):
            _read_item(told, name[1].upper(), reader, sections)
        else:
            raise ValueError("no item where one is due")
    return told


def _read_usual(found: re.Match[bytes], pieces: Pieces) -> Told | None:
    uid, flags, date, size, partial = found.groups()
    return Told(
        uid_number(uid),
        None if flags is None else flag_set(flags),
        None if date is None else moment(date),
        None if size is None else int(size),
        pieces[1] if len(pieces) == 3 else None,
        partial is not None,
    )


def _read_plain(told: Told, item: re.Match[bytes]) -> None:
    match item.lastindex:
        case 1:
            told.uid = uid_number(item[1])
        case 2:
            told.flags = flag_set(item[2])
        case 3:
            told.internal_date = moment(item[3])
        case 4:
            told.size = int(item[4])
        case 5:
            told.provider_id = item[5].decode("ascii")
        case 6:
            told.provider_thread_id = item[6].decode("ascii")
        case 7:
            told.labels = gmail.label_set(item[7])


def _read_item(told: Told, name: bytes, reader: Reader, sections: dict[str, bytes]) -> None:
    if name == b"FLAGS":
        if not (flags := reader.match(_FLAT)):
            raise ValueError("flags are no list")
        told.flags = flag_set(flags[1])
        return
    value = reader.read_value()
    if name == b"UID":
        told.uid = uid_number(value)
    elif name == b"INTERNALDATE":
        told.internal_date = moment(value)
    elif name == b"RFC822.SIZE":
        told.size = number(value)
    elif name.startswith(b"BODY["):
        if isinstance(value, list):
            raise ValueError("a section is a list")
        told.section, told.is_partial = value or b"", name.endswith(b">")
        sections[name.decode("ascii", "replace")] = told.section
    elif name == b"BODYSTRUCTURE":
        told.structure = value
    elif name == b"X-GM-LABELS":  # one of them is a literal
        told.labels = gmail.read_labels(value)


def moment(value: Value) -> datetime | None:
    """An INTERNALDATE, in UTC; the epoch where it names no moment between the years 1 and 9999."""
    found = _DATE.fullmatch(value) if isinstance(value, bytes) else None
    if not found:
        return EPOCH
    day, month, year, hour, minute, second, sign, zone_hours, zone_minutes = found.groups()
    offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
    try:
        local = datetime(
            int(year), _MONTHS.get(month.lower(), 0), int(day), int(hour), int(minute), min(int(second), 59), tzinfo=UTC
        )
        return local + offset if sign == b"-" else local - offset
    except (ValueError, OverflowError):
        return EPOCH


def flag_set(written: bytes) -> frozenset[str]:
    """Flags as we keep them: system flags in the standard's spelling, keywords as written, without \\Recent."""
    # A folder of 100,000 messages has a dozen different sets.
    return _cached_flags(written) if len(written) <= _CACHED else _flags(written)


def _flags(written: bytes) -> frozenset[str]:
    names = written.decode("utf-8", "replace").split(" ")
    if len(names) > MAX_FLAGS:  # system flags are kept first
        names = sorted(names, key=lambda name: name.lower() not in _SYSTEM_FLAGS)[:MAX_FLAGS]
    return frozenset(_SYSTEM_FLAGS.get(name.lower(), name) for name in names if name and name.lower() != "\\recent")


_cached_flags = functools.lru_cache(maxsize=2048)(_flags)
