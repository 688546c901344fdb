"""Finds the row numbers of the messages that match a filter, newest first, one page at a time.

A row number contains the message's date, so that numbers in descending order are messages from new to old. Without
words in the filter, `QueryPlanner` chooses an index that returns the numbers in order. With words, the full-text index
returns matches in this order until the page is full. Each match must also meet the other conditions:

    very few candidates (a tiny folder)        the full-text index is asked about each of them (`rowid IN`)
    few candidates (a small folder, a label)   their numbers are collected first, and each match is looked up in them
    otherwise                                  each match is looked up in the mailbox's index

Hundreds of mailboxes are not searched one by one: their newest messages or matches are read together, and the mailbox
and folder of each are looked up.

For `rowid IN` the full-text index searches again for each number: some microseconds a word. A small mailbox becomes
part of the full-text query, by its word in the column `scope`. For a large mailbox, looking up each match is faster.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import apsw

from mailbox_appliance.mail import search
from mailbox_appliance.mail.folder_roles import is_user_label
from mailbox_appliance.mail.search import WordPrefix
from mailbox_appliance.model.messages import MessageFilter, SearchTerm
from mailbox_appliance.store.database import Database

# --- Messages that a folder shows by its label: from `message_labels`, in its order ---
#
# That table contains the flags as well. Further labels are looked up in it, dates in the index of the mailbox. Of
# several labels the rarest is read.


_LABEL_FOLDERS = "SELECT number, label FROM folders WHERE account = ? AND label IS NOT NULL"
_COUNT_LABELED = "SELECT count(*) FROM (SELECT 1 FROM message_labels WHERE folder = ? LIMIT ?)"
_MAX_COUNTED = 10_000  # Folders with more are treated alike.

Condition = tuple[str, tuple[object, ...]]


def find_label_folders(database: Database, account: int, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return the row numbers of the folders that stand for these labels; None if a label has no folder. Case is
    ignored.

    `account`: row number of the mailbox. `names`: labels that people made.
    """
    found = {
        label.casefold(): number for number, label in database.rows(_LABEL_FOLDERS, (account,)) if is_user_label(label)
    }
    numbers = tuple(dict.fromkeys(found.get(name.casefold(), 0) for name in names))
    return numbers if 0 not in numbers else None


def sort_rarest_first(database: Database, folders: Sequence[int]) -> tuple[int, ...]:
    """Return folders (row numbers) that stand for labels by their number of messages, the smallest first."""
    if len(folders) < 2:
        return tuple(folders)
    return tuple(sorted(folders, key=lambda number: int(database.value(_COUNT_LABELED, (number, _MAX_COUNTED)))))


def label_condition(folders: Sequence[int], number: str) -> Condition:
    """Return the SQL condition that a message has at least one of these labels, and its parameters.

    `folders`: row numbers of the folders that stand for the labels. `number`: SQL name of the column with the message's
    row number.
    """
    marks = ", ".join("?" * len(folders))
    sql = f"EXISTS (SELECT 1 FROM message_labels o WHERE o.folder IN ({marks}) AND o.number = {number})"
    return sql, tuple(folders)


def select_labeled(
    account: int, folder: int, others: Sequence[int], marks: Sequence[str], dates: Condition
) -> Condition:
    """Return a SELECT of the row numbers of messages that have all these labels, and its parameters.

    `folder`, `others`: row numbers of the folders that stand for the labels; the index of `folder` is read. `account`:
    row number of the mailbox. `marks`: SQL conditions on flags. `dates`: SQL condition on the date, '' for none.
    """
    conditions = ["folder = ?", *marks]
    parameters: list[object] = [folder]
    for other in others:
        sql, numbers = label_condition([other], "message_labels.number")
        conditions.append(sql)
        parameters += numbers
    if dates[0]:
        conditions.append(
            "EXISTS (SELECT 1 FROM messages m INDEXED BY messages_account WHERE m.account = ?"
            f" AND m.number = message_labels.number AND {dates[0]})"
        )
        parameters += [account, *dates[1]]
    return f"SELECT number FROM message_labels WHERE {' AND '.join(conditions)}", tuple(parameters)


# --- The index that returns the messages of a filter in order; each single condition has one ---
#
# A source is a SELECT of numbers without ORDER BY and LIMIT. If several are needed (folders, sets of keywords), a page
# is merged from a page of each. Facts that an index lacks are looked up in the row (RFC 9051 2.3.2: flags).


_FLAG_CONDITIONS: Mapping[str, Mapping[bool, str]] = {
    # Written exactly as in the partial indexes of formats/format_5.py, so that SQLite uses them.
    "unread": {True: "flags & 1 = 0", False: "flags & 1 <> 0"},
    "starred": {True: "flags & 2 <> 0", False: "flags & 2 = 0"},
    "has_attachment": {True: "flags & 64 <> 0", False: "flags & 64 = 0"},
}


_FIRST_KEYWORDS = """
SELECT min(keywords) FROM messages INDEXED BY messages_labeled WHERE account = :account AND keywords <> '[]'"""
# One step in the index for each set.
_KEYWORD_SETS = f"""
WITH RECURSIVE sets (words) AS ({_FIRST_KEYWORDS} UNION ALL
  SELECT ({_FIRST_KEYWORDS} AND keywords > sets.words) FROM sets WHERE sets.words IS NOT NULL)
SELECT words FROM sets WHERE words IS NOT NULL"""


@dataclass(frozen=True)
class SearchLimits:
    """Numbers of messages at which the search changes to another method. They affect its speed, never its results."""

    #: Up to this, the messages in a range of dates are sorted; in a larger range, messages are read in their order.
    dates: int = 50_000
    #: Up to this, every row of the folders may be read.
    folders: int = 10_000
    #: Up to this, a mailbox is part of a search for words; for a larger one the matches are looked up.
    mailboxes: int = 10_000
    #: Up to this, all candidates are collected before words are searched, from at most `sources` queries.
    gathered: int = 20_000
    sources: int = 100
    #: Up to this, candidates times words of the query, the full-text index is asked about each candidate.
    asked: int = 400
    #: Up to this number of mailboxes, each mailbox is searched by its indexes.
    one_by_one: int = 16


DEFAULT_LIMITS = SearchLimits()


@dataclass(frozen=True)
class SearchPlace:
    """The part of one mailbox that is searched. All numbers are row numbers.

    - folders: the folders to search.
    - excluded: spam and trash, if the caller named no folders; otherwise empty.
    - is_named: whether the caller named folders.
    - shown: folders that stand for labels, searched instead of `folders`; their messages are stored in all mail.
    """

    account: int
    folders: tuple[int, ...]
    excluded: tuple[int, ...]
    is_named: bool
    shown: tuple[int, ...] = ()


@dataclass(frozen=True)
class NumberQuery:
    """A SELECT of row numbers of messages, without ORDER BY and LIMIT, and its parameters."""

    sql: str
    parameters: tuple[object, ...]


class QueryPlanner:
    """Chooses the index with which the messages of a filter without words are found fastest."""

    def __init__(self, database: Database, bounds: SearchLimits) -> None:
        self._database = database
        self._limits = bounds

    def plan(self, place: SearchPlace, wanted: MessageFilter) -> list[NumberQuery]:
        """Return queries that together find a filter's messages in one place. Words in the filter are ignored."""
        needed = self.find_label_folders(place, wanted)
        if wanted.labels and needed is None:
            return self._keyword_queries(place, wanted)
        if place.shown or needed:
            return self._label_queries(place, wanted, needed or ())
        is_plain = not (flag_conditions(wanted) or date_condition(wanted)[0])
        if place.is_named and (is_plain or self.has_few_in_folders(place)):
            return [_index_query("messages_folder", ("folder = ?", folder), None, wanted) for folder in place.folders]
        if self.has_few_by_date(place.account, wanted):
            return [_index_query("messages_date", ("account = ?", place.account), place, wanted)]
        if wanted.starred:
            return [_index_query("messages_starred", ("account = ?", place.account), place, wanted)]
        if wanted.unread:
            return [_index_query("messages_unread", ("folder = ?", folder), None, wanted) for folder in place.folders]
        if wanted.has_attachment:
            return [_index_query("messages_with_attachment", ("account = ?", place.account), place, wanted)]
        if place.is_named and not date_condition(wanted)[0]:
            return [_index_query("messages_folder", ("folder = ?", folder), None, wanted) for folder in place.folders]
        return [_index_query("messages_account", ("account = ?", place.account), place, wanted)]

    def has_few_in_folders(self, place: SearchPlace) -> bool:
        """Whether the folders of a place together have at most `SearchLimits.folders` messages."""
        table = "message_labels" if place.shown else "messages INDEXED BY messages_folder"
        folders = place.shown or place.folders
        within = f"SELECT 1 FROM {table} WHERE {in_condition('folder', folders)} LIMIT ?"
        count = self._database.value(f"SELECT count(*) FROM ({within})", (*folders, self._limits.folders + 1))
        return bool(count <= self._limits.folders)

    def has_few_by_date(self, account: int, wanted: MessageFilter) -> bool:
        """Whether the filter has dates, and at most `SearchLimits.dates` messages of the mailbox are between them."""
        sql, parameters = date_condition(wanted)
        if not sql:
            return False
        within = f"SELECT 1 FROM messages INDEXED BY messages_date WHERE account = ? AND {sql} LIMIT ?"
        count = self._database.value(f"SELECT count(*) FROM ({within})", (account, *parameters, self._limits.dates + 1))
        return bool(count <= self._limits.dates)

    def find_newest_by_date(self, account: int, wanted: MessageFilter) -> int | None:
        """Return the highest row number of a mailbox's messages between a filter's dates; None if there is none."""
        sql, parameters = date_condition(wanted)
        within = f"SELECT max(number) FROM messages INDEXED BY messages_date WHERE account = ? AND {sql}"
        found: int | None = self._database.value(within, (account, *parameters))
        return found

    def list_keyword_sets(self, account: int) -> tuple[str, ...]:
        """Return the different sets of IMAP keywords that messages of a mailbox have, as stored JSON arrays."""
        return tuple(words for (words,) in self._database.rows(_KEYWORD_SETS, {"account": account}))

    def list_keyword_sets_with(self, account: int, labels: Iterable[str]) -> tuple[str, ...]:
        """Return those sets of IMAP keywords of a mailbox that contain all these labels, as stored JSON arrays.

        Case is ignored (RFC 9051 2.3.2). `account`: row number of the mailbox.
        """
        wanted = {label.casefold() for label in labels}
        return tuple(
            words
            for words in self.list_keyword_sets(account)
            if wanted <= {word.casefold() for word in json.loads(words) if is_user_label(word)}
        )

    def find_label_folders(self, place: SearchPlace, wanted: MessageFilter) -> tuple[int, ...] | None:
        """Return the row numbers of the folders that stand for the labels of a filter.

        Returns None if the filter has no labels, or if they must be found as IMAP keywords: on a server without labels,
        and in folders that store their own messages, such as spam and trash.
        """
        if not wanted.labels or (place.is_named and not place.shown):
            return None
        return find_label_folders(self._database, place.account, wanted.labels)

    def _label_queries(self, place: SearchPlace, wanted: MessageFilter, needed: Sequence[int]) -> list[NumberQuery]:
        if self.has_few_by_date(place.account, wanted):
            source = _index_query("messages_date", ("account = ?", place.account), place, wanted)
            return [_narrow_query(source, [[number] for number in needed])]
        if not place.shown:
            folder, *others = sort_rarest_first(self._database, needed)
            return [_label_query(place.account, folder, others, wanted)]
        sources = []
        for one in place.shown:
            folder, *others = sort_rarest_first(self._database, (one, *needed))
            sources.append(_label_query(place.account, folder, others, wanted))
        return sources

    def _keyword_queries(self, place: SearchPlace, wanted: MessageFilter) -> list[NumberQuery]:
        return [
            _index_query(
                "messages_labeled",
                ("keywords <> '[]' AND keywords = ? AND account = ?", words, place.account),
                place,
                wanted,
            )
            for words in self.list_keyword_sets_with(place.account, wanted.labels)
        ]


def flag_conditions(wanted: MessageFilter, table: str = "") -> list[str]:
    """Return the SQL conditions for unread, starred and attachments. `table`: prefix of the columns, such as `m.`."""
    given = {"unread": wanted.unread, "starred": wanted.starred, "has_attachment": wanted.has_attachment}
    return [table + _FLAG_CONDITIONS[name][value] for name, value in given.items() if value is not None]


def date_condition(wanted: MessageFilter, table: str = "") -> tuple[str, tuple[int, ...]]:
    """Return the SQL condition for the dates in a filter, and its parameters; '' if it has none.

    It compares the date that clients see. `table`: prefix of the column, such as `m.`.
    """
    given = [(f"{table}date >= ?", wanted.after), (f"{table}date < ?", wanted.before)]
    return " AND ".join(sql for sql, at in given if at is not None), tuple(at for _, at in given if at is not None)


def in_condition(column: str, numbers: Sequence[object], *, not_in: bool = False) -> str:
    """Return the SQL condition that a column is (`not_in`: is not) one of these values, with placeholders."""
    return f"{column} {'NOT IN' if not_in else 'IN'} ({', '.join('?' * len(numbers))})"


def _index_query(index: str, key: tuple[object, ...], place: SearchPlace | None, wanted: MessageFilter) -> NumberQuery:
    """`key`: condition on the index's columns, with parameters. `place`: None if `key` restricts the folders."""
    condition, *values = key
    conditions, parameters = [str(condition)], list(values)
    if place is not None and place.shown:
        shown, numbers = label_condition(place.shown, "messages.number")
        conditions.append(shown)
        parameters += numbers
    elif place is not None:
        folders = place.folders if place.is_named else place.excluded
        if folders:
            conditions.append(in_condition("folder", folders, not_in=not place.is_named))
            parameters += folders
    sql, moments = date_condition(wanted)
    conditions += [*flag_conditions(wanted), *filter(None, [sql])]
    return NumberQuery(
        f"SELECT number FROM messages INDEXED BY {index} WHERE {' AND '.join(conditions)}", (*parameters, *moments)
    )


def _narrow_query(source: NumberQuery, needed: Sequence[Sequence[int]]) -> NumberQuery:
    """`needed`: groups of folders that stand for labels; a message must have a label of each group."""
    conditions = [label_condition(folders, "messages.number") for folders in needed]
    sql = "".join(f" AND {sql}" for sql, _ in conditions)
    return NumberQuery(source.sql + sql, (*source.parameters, *(value for _, values in conditions for value in values)))


def _label_query(account: int, folder: int, others: Sequence[int], wanted: MessageFilter) -> NumberQuery:
    return NumberQuery(*select_labeled(account, folder, others, flag_conditions(wanted), date_condition(wanted, "m.")))


# --- Prefixes of words, in a form that the index finds quickly ---
#
# The index holds prefixes of three and of five characters (`prefix='3 5'` in formats/format_5.py). One of another
# length is replaced by all longer indexed prefixes that begin with it, or by the words themselves:
#
# `in`  ->  `in` or `inb*` or `inf*` or ...        `inv`  ->  `inv*`        `invo`  ->  `invo` or `invoi*` or ...
# `invoic`  ->  `invoice` or `invoices`
#
# FTS5 by itself would read all entries of all these words before it answers. With a million messages that takes half a
# second, and this takes about one millisecond.


INDEXED_PREFIXES = (3, 5)
#: The number of alternatives up to which this is faster than reading everything.
_MAX_WORDS, _MAX_PREFIXES = 1000, 2000
_QUOTED_PREFIX = re.compile(r'([^" ]*)" \*')
_NEXT_WORD = "SELECT term FROM message_words WHERE term >= ? LIMIT 1"


class PrefixIndex:
    """Expands a prefix of a word to searches that the full-text index answers fast."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def expand(self, typed: str) -> Sequence[WordPrefix] | None:
        """Return the words and indexed prefixes to search instead of the prefix `typed`, any of which may match.

        Returns None to search the prefix itself: if that is faster, or no word begins with it.
        """
        start = self._fold(typed)
        if start is None or len(start) in INDEXED_PREFIXES:
            return None
        length = next((each for each in INDEXED_PREFIXES if each > len(start)), None)
        most = _MAX_WORDS if length is None else _MAX_PREFIXES
        found: list[WordPrefix] = []
        at: str | None = start
        while (
            at is not None and (word := self._database.value(_NEXT_WORD, (at,))) is not None and word.startswith(start)
        ):
            if len(found) == most:
                return None
            is_word = length is None or len(word) < length
            found.append(WordPrefix(word if is_word else word[:length], is_whole=is_word))
            at = f"{word}\0" if is_word else _next_prefix(word[:length])
        return found or None

    def _fold(self, typed: str) -> str | None:
        """Return a prefix as the index stores words; None if it is not exactly one word."""
        with suppress(apsw.Error, UnicodeEncodeError):
            words = self._database.tokenize(typed)
            return words[0] if len(words) == 1 else None
        return None


def _has_quick_prefixes(match: str) -> bool:
    """Whether the index holds all prefixes in a full-text query, so that it does not read many words for each."""
    return all(len(prefix) in INDEXED_PREFIXES for prefix in _QUOTED_PREFIX.findall(match))


def _next_prefix(start: str) -> str | None:
    """Return the smallest text that is greater than all texts with this prefix; None if there is none."""
    for at in range(len(start) - 1, -1, -1):
        following = ord(start[at]) + 1
        if following <= 0x10FFFF:
            # Surrogates do not occur in texts.
            return start[:at] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)
    return None


# --- The search ---


_AFTER_ALL = 1 << 62
_PLACE_OF_MESSAGE = "CROSS JOIN accounts a ON a.number = m.account CROSS JOIN folders f ON f.number = m.folder"
_ANY_LABEL_FOLDER = (
    "SELECT 1 FROM json_each(?) j CROSS JOIN folders f ON f.number = j.value WHERE f.label IS NOT NULL LIMIT 1"
)
#: In this many steps the newest messages of all mailboxes are looked up, each time twice as many as a page has.
_MAX_STEPS = 5


class Search:
    """Finds the row numbers of messages that match a filter, with or without words."""

    def __init__(self, database: Database, bounds: SearchLimits = DEFAULT_LIMITS) -> None:
        self._database = database
        self._limits = bounds
        self._planner = QueryPlanner(database, bounds)
        self._prefixes = PrefixIndex(database)

    def find_numbers(
        self,
        account_ids: Sequence[str],
        wanted: MessageFilter,
        *,
        folders: Collection[int] | None,
        before: int | None,
        limit: int,
    ) -> list[int]:
        """Return the row numbers of matching messages, newest first, at most `limit`.

        `folders`: row numbers of the folders to search; None: all except spam and trash. `before`: only lower numbers;
        None begins with the newest.
        """
        terms = wanted.terms + tuple(SearchTerm(word) for word in search.split_words(wanted.text or ""))
        if wanted.is_impossible or (wanted.text is not None and not terms):
            return []
        below = _AFTER_ALL if before is None else before
        # Candidates are collected only from few mailboxes, see `_is_narrow`.
        is_narrow = terms and (wanted.starred or wanted.unread or folders is not None)
        most = self._limits.sources if is_narrow else self._limits.one_by_one
        if len(account_ids) > most and not (wanted.labels or date_condition(wanted)[0]):
            found = self._find_in_many(account_ids, terms, wanted, folders, below, limit)
            if found is not None:
                return found
        places = self._places(account_ids, folders)
        if not places:
            return []
        if terms:
            return self._find_by_words(places, terms, wanted, below, limit)
        sources = [source for place in places for source in self._planner.plan(place, wanted)]
        numbers = [number for source in sources for number in self._newest(source, below, limit)]
        return sorted(numbers, reverse=True)[:limit]

    def list_keyword_sets(self, account_id: str) -> tuple[str, ...]:
        """Return all different sets of IMAP keywords that messages of a mailbox have, as stored JSON arrays."""
        return self._planner.list_keyword_sets(
            self._database.value("SELECT number FROM accounts WHERE id = ?", (account_id,))
        )

    def _places(self, account_ids: Sequence[str], folders: Collection[int] | None) -> list[SearchPlace]:
        sql = (
            "SELECT f.account, f.number, f.role IN ('spam', 'trash'), f.label IS NOT NULL FROM json_each(?) j"
            " CROSS JOIN accounts a ON a.id = j.value CROSS JOIN folders f ON f.account = a.number"
        )
        meant = None if folders is None else frozenset(folders)
        places = []
        for account, of_account in groupby(self._database.rows(sql, (json.dumps(account_ids),)), itemgetter(0)):
            rows = list(of_account)
            lying = [(number, is_hidden) for _, number, is_hidden, is_label in rows if not is_label]
            excluded = tuple(number for number, is_hidden in lying if is_hidden) if meant is None else ()
            searched = tuple(n for n, _ in lying if (n not in excluded if meant is None else n in meant))
            shown = tuple(n for _, n, _, is_label in rows if is_label and meant is not None and n in meant)
            if searched:
                places.append(SearchPlace(account, searched, excluded, is_named=meant is not None))
            if shown:
                places.append(SearchPlace(account, (), (), is_named=True, shown=shown))
        return places

    # --- in many mailboxes ---

    def _find_in_many(
        self,
        account_ids: Sequence[str],
        terms: Collection[SearchTerm],
        wanted: MessageFilter,
        folders: Collection[int] | None,
        below: int,
        limit: int,
    ) -> list[int] | None:
        """Return what `find_numbers` returns, from the newest messages or matches of all mailboxes, each of which is
        looked up. Returns None if another way is better or necessary.
        """
        fits = ["a.id IN (SELECT value FROM json_each(?))", *flag_conditions(wanted, "m.")]
        values: list[object] = [json.dumps(account_ids)]
        if folders is None:
            fits.append("coalesce(f.role, '') NOT IN ('spam', 'trash')")
        else:
            fits.append("f.number IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(list(folders)))
            if self._database.value(_ANY_LABEL_FOLDER, (values[-1],)):
                return None
        fit = " AND ".join(fits)
        if not terms:
            newest = f"SELECT m.number, {fit} FROM messages m {_PLACE_OF_MESSAGE} WHERE m.number < ?"
            return self._fill_page(f"{newest} ORDER BY m.number DESC LIMIT ?", values, below, limit)
        match = search.match_expression(terms, (), self._prefixes.expand)
        if match is None:
            return []
        sql = (
            f"SELECT x.rowid, {fit} FROM message_index x CROSS JOIN messages m ON m.number = x.rowid"
            f" {_PLACE_OF_MESSAGE} WHERE x.message_index MATCH ? AND x.rowid < ? ORDER BY x.rowid DESC LIMIT ?"
        )
        return self._fill_page(sql, (*values, match), below, limit)

    def _fill_page(self, sql: str, values: Sequence[object], below: int, limit: int) -> list[int] | None:
        """Return the first numbers that fit; None if too few of the newest do, as among much mail of other people.

        `sql`: returns numbers below one, each with whether it fits, newest first.
        """
        found: list[int] = []
        for _ in range(_MAX_STEPS):
            rows = self._database.rows(sql, (*values, below, 2 * limit))
            found += [number for number, is_fit in rows if is_fit]
            if len(found) >= limit or len(rows) < 2 * limit:
                return found[:limit]
            below = rows[-1][0]
        return None

    def _newest(self, source: NumberQuery, below: int, limit: int) -> list[int]:
        sql = f"{source.sql} AND number < ? ORDER BY number DESC LIMIT ?"
        return [number for (number,) in self._database.rows(sql, (*source.parameters, below, limit))]

    # --- with words ---

    def _find_by_words(
        self,
        places: Sequence[SearchPlace],
        terms: Collection[SearchTerm],
        wanted: MessageFilter,
        below: int,
        limit: int,
    ) -> list[int]:
        scopes = self._scopes([place.account for place in places])
        match = search.match_expression(terms, scopes, self._prefixes.expand)
        if match is None:
            return []
        if all(self._is_narrow(place, wanted) for place in places):
            sources = [source for place in places for source in self._planner.plan(place, wanted)]
            count = self._count_if_few(sources)
            if count is not None:
                return self._find_among_few(sources, count, match, below, limit) if sources else []
        if wanted.before is not None:
            newest = [self._planner.find_newest_by_date(place.account, wanted) for place in places]
            below = min(below, max((number for number in newest if number is not None), default=-1) + 1)
        return self._find_by_lookup(places, match, wanted, below, limit)

    def _scopes(self, accounts: Sequence[int]) -> list[str]:
        """Return words that restrict a full-text query to these mailboxes; none if checking each match is faster."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM messages INDEXED BY messages_account WHERE account = ? LIMIT ?)"
        total = 0
        for account in accounts:
            found = self._database.cached_row(sql, (account, self._limits.mailboxes + 1))
            total += found[0] if found else 0
            if total > self._limits.mailboxes:
                return []
        return [f"a{account}" for account in accounts]

    def _is_narrow(self, place: SearchPlace, wanted: MessageFilter) -> bool:
        """Whether the filter or the place may leave few messages, so that it is worth counting them first."""
        return bool(
            wanted.labels
            or wanted.starred
            or wanted.unread
            or self._planner.has_few_by_date(place.account, wanted)
            or (place.is_named and self._planner.has_few_in_folders(place))
        )

    def _count_if_few(self, sources: Sequence[NumberQuery]) -> int | None:
        """Return the number of candidates; None if there are too many to collect them."""
        if len(sources) > self._limits.sources:
            return None
        left = self._limits.gathered
        for source in sources:
            left -= self._database.value(f"SELECT count(*) FROM ({source.sql} LIMIT ?)", (*source.parameters, left + 1))
            if left < 0:
                return None
        return self._limits.gathered - left

    def _find_among_few(
        self, sources: Sequence[NumberQuery], count: int, match: str, below: int, limit: int
    ) -> list[int]:
        few = " UNION ALL ".join(source.sql for source in sources)
        values = [value for source in sources for value in source.parameters]
        if count * (match.count('"') // 2) <= self._limits.asked and _has_quick_prefixes(match):
            # ORDER BY would make SQLite read all matches in their order instead.
            sql = f"SELECT rowid FROM message_index WHERE message_index MATCH ? AND rowid IN ({few}) AND rowid < ?"
            rows = self._database.rows(sql, (match, *values, below))
            return sorted((number for (number,) in rows), reverse=True)[:limit]
        lowest, highest = self._database.row(f"SELECT min(number), max(number) FROM ({few})", values) or (None, None)
        if lowest is None:
            return []
        sql = (
            f"SELECT rowid FROM message_index WHERE message_index MATCH ? AND +rowid IN ({few})"
            " AND rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"
        )
        rows = self._database.rows(sql, (match, *values, lowest, min(below, highest + 1), limit))
        return [number for (number,) in rows]

    def _find_by_lookup(
        self, places: Sequence[SearchPlace], match: str, wanted: MessageFilter, below: int, limit: int
    ) -> list[int]:
        accounts = [place.account for place in places]
        conditions, values = self._conditions(places, wanted)
        join = "CROSS JOIN messages m INDEXED BY messages_account ON m.account = ? AND m.number = x.rowid"
        if len(accounts) > 1:
            join = f"CROSS JOIN messages m ON m.number = x.rowid AND {in_condition('m.account', accounts)}"
        sql = (
            f"SELECT x.rowid FROM message_index x {join} WHERE x.message_index MATCH ? AND x.rowid < ?"
            f"{''.join(f' AND {one}' for one in conditions)} ORDER BY x.rowid DESC LIMIT ?"
        )
        return [number for (number,) in self._database.rows(sql, (*accounts, match, below, *values, limit))]

    def _conditions(self, places: Sequence[SearchPlace], wanted: MessageFilter) -> tuple[list[str], list[object]]:
        conditions, values = flag_conditions(wanted, "m."), list[object]()
        moments = date_condition(wanted, "m.")
        if moments[0]:
            conditions.append(moments[0])
            values += moments[1]
        is_named = places[0].is_named
        folders = [number for place in places for number in (place.folders if is_named else place.excluded)]
        lying = [(in_condition("m.folder", folders, not_in=not is_named), folders)] if folders else []
        shown = [number for place in places for number in place.shown]
        _add_any(conditions, values, [*lying, *([label_condition(shown, "m.number")] if shown else [])])
        if wanted.labels:
            _add_any(conditions, values, self._label_conditions(places, wanted))
        return conditions, values

    def _label_conditions(self, places: Sequence[SearchPlace], wanted: MessageFilter) -> list[Condition]:
        """Labels are found by the folders that stand for them, or as IMAP keywords on a server without labels."""
        found: list[Condition] = []
        sets: list[object] = []
        for place in places:
            needed = self._planner.find_label_folders(place, wanted)
            if needed is None:
                sets += self._planner.list_keyword_sets_with(place.account, wanted.labels)
            else:
                all_of = [label_condition([number], "m.number") for number in needed]
                found.append((" AND ".join(sql for sql, _ in all_of), needed))
        return [*found, (f"m.keywords IN ({', '.join('?' * len(sets))})", tuple(sets))]


def _add_any(conditions: list[str], values: list[object], any_of: Sequence[tuple[str, Sequence[object]]]) -> None:
    if any_of:
        conditions.append(f"({' OR '.join(sql for sql, _ in any_of)})")
        values += [value for _, given in any_of for value in given]
