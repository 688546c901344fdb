"""From which index the messages of a filter come, in their order. There is one for every question of one filter.

A source is a SELECT of numbers without ORDER BY and LIMIT. Where several are needed (folders, sets of keywords), a
page is put together from a page of each. What an index does not hold is looked up in the row (RFC 9051 2.3.2: flags).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mailbox_appliance.mail.labels import is_of_user
from mailbox_appliance.model.records import MessageFilter
from mailbox_appliance.store import label_sources
from mailbox_appliance.store.database import Database

_MARKS: Mapping[str, Mapping[bool, str]] = {
    # Written exactly as in the partial indexes of formats/format_5.py, or these are not used.
    "unread": {True: "flags & 1 = 0", False: "flags & 1 <> 0"},
    "starred": {True: "flags & 2 <> 0", False: "flags & 2 = 0"},
    "has_attachment": {True: "flags & 64 <> 0", False: "flags & 64 = 0"},
}


_FIRST_SET = """
SELECT min(keywords) FROM messages INDEXED BY messages_labeled WHERE account = :account AND keywords <> '[]'"""
# One step in the index for each set.
_SETS = f"""
WITH RECURSIVE sets (words) AS ({_FIRST_SET} UNION ALL
  SELECT ({_FIRST_SET} AND keywords > sets.words) FROM sets WHERE sets.words IS NOT NULL)
SELECT words FROM sets WHERE words IS NOT NULL"""


@dataclass(frozen=True)
class Bounds:
    """Up to how many messages one way is quicker than another; the answers are the same."""

    #: A range of dates is sorted; of a larger one each message is looked at in its order.
    dates: int = 50_000
    #: Of folders each row may be looked at.
    folders: int = 10_000
    #: A mailbox is part of a search for words; the finds of a larger one are looked up.
    mailboxes: int = 10_000
    #: All that can be meant is gathered before words are searched, from so many sources.
    gathered: int = 20_000
    sources: int = 100


DEFAULT = Bounds()


@dataclass(frozen=True)
class Place:
    """Where messages are looked for: a mailbox, and of that these folders, or all but the excluded ones.

    `shown`: the folders, in place of those in which messages lie, that show them by a label.
    """

    account: int
    folders: tuple[int, ...]
    excluded: tuple[int, ...]
    is_named: bool
    shown: tuple[int, ...] = ()


@dataclass(frozen=True)
class Source:
    """A SELECT of the numbers of messages, with its parameters."""

    sql: str
    parameters: tuple[object, ...]


class Sources:
    """Chooses among the indexes."""

    def __init__(self, database: Database, bounds: Bounds) -> None:
        self._database = database
        self._limits = bounds

    def plan(self, place: Place, wanted: MessageFilter) -> list[Source]:
        """The sources of what a filter means in one place; its words are not among it."""
        needed = self.find_label_folders(place, wanted)
        if wanted.labels and needed is None:
            return self._keyword_queries(place, wanted)
        if place.shown or needed:
            return self._label_queries(place, wanted, needed or ())
        is_plain = not (marks(wanted) or dates(wanted)[0])
        if place.is_named and (is_plain or self.has_few_in_folders(place)):
            return [_source("messages_folder", ("folder = ?", folder), None, wanted) for folder in place.folders]
        if self.has_few_by_date(place.account, wanted):
            return [_source("messages_date", ("account = ?", place.account), place, wanted)]
        if wanted.starred:
            return [_source("messages_starred", ("account = ?", place.account), place, wanted)]
        if wanted.unread:
            return [_source("messages_unread", ("folder = ?", folder), None, wanted) for folder in place.folders]
        if wanted.has_attachment:
            return [_source("messages_with_attachment", ("account = ?", place.account), place, wanted)]
        if place.is_named and not dates(wanted)[0]:
            return [_source("messages_folder", ("folder = ?", folder), None, wanted) for folder in place.folders]
        return [_source("messages_account", ("account = ?", place.account), place, wanted)]

    def has_few_in_folders(self, place: Place) -> bool:
        """Whether there is little in the folders of a place."""
        if place.shown:
            sql = f"SELECT 1 FROM message_labels WHERE {among('folder', place.shown)} LIMIT ?"
            count = self._database.value(f"SELECT count(*) FROM ({sql})", (*place.shown, self._limits.folders + 1))
            return bool(count <= self._limits.folders)
        within = f"SELECT 1 FROM messages INDEXED BY messages_folder WHERE {among('folder', place.folders)} LIMIT ?"
        count = self._database.value(f"SELECT count(*) FROM ({within})", (*place.folders, self._limits.folders + 1))
        return bool(count <= self._limits.folders)

    def has_few_by_date(self, account: int, wanted: MessageFilter) -> bool:
        """Whether there are dates, and little between them in a mailbox."""
        sql, parameters = dates(wanted)
        if not sql:
            return False
        within = f"SELECT 1 FROM messages INDEXED BY messages_date WHERE account = ? AND {sql} LIMIT ?"
        count = self._database.value(f"SELECT count(*) FROM ({within})", (account, *parameters, self._limits.dates + 1))
        return bool(count <= self._limits.dates)

    def find_newest_by_date(self, account: int, wanted: MessageFilter) -> int | None:
        """The highest number of a mailbox's messages within the dates."""
        sql, parameters = dates(wanted)
        within = f"SELECT max(number) FROM messages INDEXED BY messages_date WHERE account = ? AND {sql}"
        found: int | None = self._database.value(within, (account, *parameters))
        return found

    def list_keyword_sets(self, account: int) -> tuple[str, ...]:
        """The different sets of keywords in a mailbox, as they are stored."""
        return tuple(words for (words,) in self._database.rows(_SETS, {"account": account}))

    def list_keyword_sets_with(self, account: int, labels: Iterable[str]) -> tuple[str, ...]:
        """Those of the sets that hold all these labels. Case does not count (RFC 9051 2.3.2)."""
        wanted = {label.casefold() for label in labels}
        return tuple(
            words
            for words in self.list_keyword_sets(account)
            if wanted <= {word.casefold() for word in json.loads(words) if is_of_user(word)}
        )

    def find_label_folders(self, place: Place, wanted: MessageFilter) -> tuple[int, ...] | None:
        """The folders that all show what has the labels of a filter; None where these are to be looked up as keywords.

        What lies in spam or trash no folder shows.
        """
        if not wanted.labels or (place.is_named and not place.shown):
            return None
        return label_sources.folders_of(self._database, place.account, wanted.labels)

    def _label_queries(self, place: Place, wanted: MessageFilter, needed: Sequence[int]) -> list[Source]:
        if self.has_few_by_date(place.account, wanted):
            source = _source("messages_date", ("account = ?", place.account), place, wanted)
            return [_narrowed(source, [[number] for number in needed])]
        if not place.shown:
            folder, *others = label_sources.rarest_first(self._database, needed)
            return [_shown(place.account, folder, others, wanted)]
        sources = []
        for one in place.shown:
            folder, *others = label_sources.rarest_first(self._database, (one, *needed))
            sources.append(_shown(place.account, folder, others, wanted))
        return sources

    def _keyword_queries(self, place: Place, wanted: MessageFilter) -> list[Source]:
        return [
            _source(
                "messages_labeled",
                ("keywords <> '[]' AND keywords = ? AND account = ?", words, place.account),
                place,
                wanted,
            )
            for words in self.list_keyword_sets_with(place.account, wanted.labels)
        ]


def marks(wanted: MessageFilter, table: str = "") -> list[str]:
    """The conditions on flags."""
    given = {"unread": wanted.unread, "starred": wanted.starred, "has_attachment": wanted.has_attachment}
    return [table + _MARKS[name][value] for name, value in given.items() if value is not None]


def dates(wanted: MessageFilter, table: str = "") -> tuple[str, tuple[int, ...]]:
    """The condition on the date that a message shows, and its parameters; empty without dates."""
    given = [(f"{table}date >= ?", wanted.after), (f"{table}date < ?", wanted.before)]
    return " AND ".join(sql for sql, at in given if at is not None), tuple(at for _, at in given if at is not None)


def among(column: str, numbers: Sequence[int], *, not_in: bool = False) -> str:
    """The condition that a column is one of these numbers, or none of them."""
    return f"{column} {'NOT IN' if not_in else 'IN'} ({', '.join('?' * len(numbers))})"


def _source(index: str, key: tuple[object, ...], place: Place | None, wanted: MessageFilter) -> Source:
    """Messages by an index and its key; of the place's folders, unless the key is one of them (place: None)."""
    condition, *values = key
    conditions, parameters = [str(condition)], list(values)
    if place is not None and place.shown:
        shown, numbers = label_sources.shown_by(place.shown, "messages.number")
        conditions.append(shown)
        parameters += numbers
    elif place is not None:
        folders = place.folders if place.is_named else place.excluded
        if folders:
            conditions.append(among("folder", folders, not_in=not place.is_named))
            parameters += folders
    sql, moments = dates(wanted)
    conditions += [*marks(wanted), *filter(None, [sql])]
    return Source(
        f"SELECT number FROM messages INDEXED BY {index} WHERE {' AND '.join(conditions)}", (*parameters, *moments)
    )


def _narrowed(source: Source, needed: Sequence[Sequence[int]]) -> Source:
    """A source of `messages`, of what all of these show as well."""
    conditions = [label_sources.shown_by(folders, "messages.number") for folders in needed]
    sql = "".join(f" AND {sql}" for sql, _ in conditions)
    return Source(source.sql + sql, (*source.parameters, *(value for _, values in conditions for value in values)))


def _shown(account: int, folder: int, others: Sequence[int], wanted: MessageFilter) -> Source:
    return Source(*label_sources.select(account, folder, others, marks(wanted), dates(wanted, "m.")))
