"""Which messages a filter means: their numbers, newest first, a page at a time.

Without words the numbers come from one index (see `sources`). With words the full-text index gives what it finds in the
order of the numbers and stops when a page is full; of that is kept what the other conditions allow:

    few can be meant (a small folder, a label)   their numbers are gathered first, each find is looked up among them
    else                                         each find is looked up in the index of the mailbox, which is dense

Asking the full-text index about single numbers (`rowid IN`) is not among the ways: it searches anew for each of them.
A small mailbox in a large store is part of the search (`scope`); of a large one the finds are looked up, which is
quicker than walking along all its messages.
"""

from collections.abc import Collection, Sequence

from mailbox_appliance.mail import words
from mailbox_appliance.model.records import MessageFilter, SearchTerm
from mailbox_appliance.store import label_sources
from mailbox_appliance.store.beginnings import Beginnings
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.sources import DEFAULT, Bounds, Place, Source, Sources, among, dates, marks

_END = 1 << 62


class Search:
    """Finds numbers of messages."""

    def __init__(self, database: Database, bounds: Bounds = DEFAULT) -> None:
        self._database = database
        self._limits = bounds
        self._planner = Sources(database, bounds)
        self._prefixes = Beginnings(database)

    def find_numbers(
        self,
        account_ids: Sequence[str],
        wanted: MessageFilter,
        *,
        folders: Collection[int] | None,
        before: int | None,
        limit: int,
    ) -> list[int]:
        """The newest `limit` numbers below `before` that a filter means; without folders: all but spam and trash."""
        terms = wanted.terms + tuple(SearchTerm(word) for word in words.words(wanted.text or ""))
        if wanted.is_impossible or (wanted.text is not None and not terms):
            return []
        places = self._places(account_ids, folders)
        below = _END if before is None else before
        if not places:
            return []
        if terms:
            return self._find_by_words(places, terms, wanted, below, limit)
        sources = [source for place in places for source in self._planner.plan(place, wanted)]
        numbers = [number for source in sources for number in self._newest(source, below, limit)]
        return sorted(numbers, reverse=True)[:limit]

    def list_keyword_sets(self, account_id: str) -> tuple[str, ...]:
        """The different sets of keywords in a mailbox, as they are stored."""
        return self._planner.list_keyword_sets(
            self._database.value("SELECT number FROM accounts WHERE id = ?", (account_id,))
        )

    def _places(self, account_ids: Sequence[str], folders: Collection[int] | None) -> list[Place]:
        sql = (
            "SELECT f.account, f.number, f.role IN ('spam', 'trash'), f.label IS NOT NULL FROM accounts a"
            " JOIN folders f ON f.account = a.number WHERE a.id = ?"
        )
        places = []
        for account_id in account_ids:
            rows = self._database.rows(sql, (account_id,))
            lying = [(number, is_hidden) for _, number, is_hidden, is_label in rows if not is_label]
            excluded = tuple(number for number, is_hidden in lying if is_hidden) if folders is None else ()
            meant = tuple(n for n, _ in lying if (n not in excluded if folders is None else n in folders))
            shown = tuple(n for _, n, _, is_label in rows if is_label and folders is not None and n in folders)
            if meant:
                places.append(Place(rows[0][0], meant, excluded, is_named=folders is not None))
            if shown:
                places.append(Place(rows[0][0], (), (), is_named=True, shown=shown))
        return places

    def _newest(self, source: Source, below: int, limit: int) -> list[int]:
        sql = f"{source.sql} AND number < ? ORDER BY number DESC LIMIT ?"
        return [number for (number,) in self._database.rows(sql, (*source.parameters, below, limit))]

    # --- with words ---

    def _find_by_words(
        self, places: Sequence[Place], terms: Collection[SearchTerm], wanted: MessageFilter, below: int, limit: int
    ) -> list[int]:
        scopes = self._scopes([place.account for place in places])
        match = words.match(terms, scopes, self._prefixes.expand)
        if match is None:
            return []
        if all(self._is_narrow(place, wanted) for place in places):
            sources = [source for place in places for source in self._planner.plan(place, wanted)]
            if self._are_few(sources):
                return self._find_among_few(sources, match, below, limit) if sources else []
        if wanted.before is not None:
            newest = [self._planner.find_newest_by_date(place.account, wanted) for place in places]
            below = min(below, max((number for number in newest if number is not None), default=-1) + 1)
        return self._find_by_lookup(places, match, wanted, below, limit)

    def _scopes(self, accounts: Sequence[int]) -> list[str]:
        """The scopes to be searched; none where that would take longer than to look up each find."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM messages INDEXED BY messages_account WHERE account = ? LIMIT ?)"
        total = 0
        for account in accounts:
            found = self._database.cached_row(sql, (account, self._limits.mailboxes + 1))
            total += found[0] if found else 0
            if total > self._limits.mailboxes:
                return []
        return [f"a{account}" for account in accounts]

    def _is_narrow(self, place: Place, wanted: MessageFilter) -> bool:
        """Whether one of the conditions may leave little, and an index tells quickly how much."""
        return bool(
            wanted.labels
            or wanted.starred
            or wanted.unread
            or self._planner.has_few_by_date(place.account, wanted)
            or (place.is_named and self._planner.has_few_in_folders(place))
        )

    def _are_few(self, sources: Sequence[Source]) -> bool:
        if len(sources) > self._limits.sources:
            return False
        left = self._limits.gathered
        for source in sources:
            left -= self._database.value(f"SELECT count(*) FROM ({source.sql} LIMIT ?)", (*source.parameters, left + 1))
            if left < 0:
                return False
        return True

    def _find_among_few(self, sources: Sequence[Source], match: str, below: int, limit: int) -> list[int]:
        few = " UNION ALL ".join(source.sql for source in sources)
        values = [value for source in sources for value in source.parameters]
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
        self, places: Sequence[Place], match: str, wanted: MessageFilter, below: int, limit: int
    ) -> list[int]:
        accounts = [place.account for place in places]
        conditions, values = self._conditions(places, wanted)
        if len(accounts) == 1:
            join, joined = (
                "CROSS JOIN messages m INDEXED BY messages_account ON m.account = ? AND m.number = x.rowid",
                accounts,
            )
        else:
            join, joined = "CROSS JOIN messages m ON m.number = x.rowid AND " + among("m.account", accounts), accounts
        sql = (
            f"SELECT x.rowid FROM message_index x {join} WHERE x.message_index MATCH ? AND x.rowid < ?"
            f"{''.join(f' AND {one}' for one in conditions)} ORDER BY x.rowid DESC LIMIT ?"
        )
        return [number for (number,) in self._database.rows(sql, (*joined, match, below, *values, limit))]

    def _conditions(self, places: Sequence[Place], wanted: MessageFilter) -> tuple[list[str], list[object]]:
        conditions, values = marks(wanted, "m."), list[object]()
        moments = dates(wanted, "m.")
        if moments[0]:
            conditions.append(moments[0])
            values += moments[1]
        is_named = places[0].is_named
        folders = [number for place in places for number in (place.folders if is_named else place.excluded)]
        lying = [(among("m.folder", folders, not_in=not is_named), folders)] if folders else []
        shown = [number for place in places for number in place.shown]
        _add_any(conditions, values, [*lying, *([label_sources.shown_by(shown, "m.number")] if shown else [])])
        if wanted.labels:
            _add_any(conditions, values, self._label_conditions(places, wanted))
        return conditions, values

    def _label_conditions(self, places: Sequence[Place], wanted: MessageFilter) -> list[label_sources.Condition]:
        """Each of these conditions says that a message has the labels: by its keywords, or by who shows it."""
        found: list[label_sources.Condition] = []
        sets: list[object] = []
        for place in places:
            needed = self._planner.find_label_folders(place, wanted)
            if needed is None:
                sets += self._planner.list_keyword_sets_with(place.account, wanted.labels)
            else:
                all_of = [label_sources.shown_by([number], "m.number") for number in needed]
                found.append((" AND ".join(sql for sql, _ in all_of), needed))
        return [*found, (f"m.keywords IN ({', '.join('?' * len(sets))})", tuple(sets))]


def _add_any(conditions: list[str], values: list[object], any_of: Sequence[tuple[str, Sequence[object]]]) -> None:
    """One more condition: that one of these holds."""
    if any_of:
        conditions.append(f"({' OR '.join(sql for sql, _ in any_of)})")
        values += [value for _, given in any_of for value in given]
