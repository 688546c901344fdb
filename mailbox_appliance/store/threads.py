"""Which messages belong together (RFC 5256): by the Message-IDs they have and name, else by base subject.

    links lead to threads ........ the message joins them; several become one, and the oldest keeps its id
    none, a reply or forward ..... joins the newest thread of its subject that was there before it; one that waits for
                                   its beginning only where it names no messages, for those may still come
    none, an original ............ is the beginning that threads of its subject wait for, those of later replies
    else ......................... begins a thread, and waits for the beginning where it is a reply or forward

Subjects join within 30 days only: this month's invoice is no reply to the last one.

Where the provider says to which of its threads a message belongs, that alone counts, and such threads never become one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mailbox_appliance.mail.threads import subject_key
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import as_json

# A message may name any number of others; more than this tells no more about where it belongs.
_MOST_LINKS = 100
_WINDOW = 30 * 86_400_000  # milliseconds
_MOST_CANDIDATES = 20

_COLUMNS = "t.number, t.base_subject, t.newest, t.began_as_reply, t.provider_id"
_LINKED = f"""
SELECT l.message_id, {_COLUMNS} FROM json_each(?) j CROSS JOIN thread_links l
  ON l.account = ? AND l.message_id = j.value JOIN threads t ON t.number = l.thread"""
_WAITING = f"""
SELECT {_COLUMNS} FROM json_each(?) j CROSS JOIN threads t
  ON t.account = ? AND t.base_subject = j.value AND t.newest >= ? AND t.began_as_reply = 1 LIMIT 2000"""
_OF_SUBJECT = f"""
SELECT {_COLUMNS} FROM threads t WHERE t.account = ? AND t.base_subject = ? AND t.newest >= ?
  ORDER BY t.newest DESC LIMIT ?"""
_PROVIDED = f"""
SELECT {_COLUMNS} FROM json_each(?) j CROSS JOIN threads t INDEXED BY threads_provider
  ON t.account = ? AND t.provider_id = j.value"""
_INSERT = """
INSERT INTO threads (number, id, account, base_subject, newest, began_as_reply, provider_id)
  VALUES (?, ?, ?, ?, ?, ?, ?)"""


@dataclass(frozen=True, slots=True)
class Joining:
    """What tells where a message belongs. `named`: the canonical Message-IDs that it has and names.

    `proposed` is the id of the thread it begins where it belongs to none, whether that is there already or not.
    `provided` is the provider's own id of its thread.
    """

    own: str | None
    named: tuple[str, ...]
    subject: str
    millis: int
    proposed: str | None = None
    provided: str | None = None


@dataclass(slots=True, eq=False)
class _Thread:
    """A thread while a batch joins. It `waits` for its beginning where the first message that came was a reply."""

    number: int
    base: str | None
    newest: int
    waits: bool
    first: int | None  # the first moment of what joined in this batch
    provided: str | None  # the provider's id
    identity: str = ""  # of a new one
    part_of: "_Thread | None" = None

    @property
    def root(self) -> "_Thread":
        """The thread that this one has become part of, or itself."""
        thread = self
        while thread.part_of is not None:
            thread = thread.part_of
        return thread


class Threads:
    """Finds the threads of a batch of messages. Made inside a transaction, asked once."""

    def __init__(self, database: Database, account: int, batch: Sequence[Joining]) -> None:
        self._database, self._account, self._batch = database, account, batch
        self._keys = [subject_key(one.subject) for one in batch]
        self._last_number = int(database.value("SELECT coalesce(max(number), 0) FROM threads"))
        self._threads: dict[int, _Thread] = {}
        self._links: dict[str, _Thread] = {}
        self._new_links: list[tuple[str, _Thread]] = []
        self._provided: dict[str, _Thread] = {}  # by the provider's id
        self._waiting: dict[str, list[_Thread]] = {}  # by base subject
        self._new: list[_Thread] = []  # not written yet
        self._changed: dict[_Thread, None] = {}

    def assign(self) -> list[int]:
        """The number of the thread of each message, which is there when this returns."""
        self._load_linked()
        joined = [self._assign_one(one, *key) for one, key in zip(self._batch, self._keys, strict=True)]
        self._write()
        rows = [(self._account, message_id, thread.root.number) for message_id, thread in self._new_links]
        self._database.change_many("INSERT INTO thread_links VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)
        return [thread.root.number for thread in joined]

    def _load_linked(self) -> None:
        provided = {one.provided for one in self._batch if one.provided}
        if provided:
            for thread in map(self._add_loaded, self._database.rows(_PROVIDED, (as_json(provided), self._account))):
                self._provided[thread.provided or ""] = thread
        named = {message_id for one in self._batch if not one.provided for message_id in one.named}
        for message_id, *row in self._database.rows(_LINKED, (as_json(named), self._account)):
            self._links[message_id] = self._add_loaded(row)
        pairs = zip(self._batch, self._keys, strict=True)
        originals = {base for one, (base, is_reply) in pairs if base and not is_reply and not one.provided}
        if originals:
            asked = (as_json(originals), self._account, min(one.millis for one in self._batch))
            for thread in map(self._add_loaded, self._database.rows(_WAITING, asked)):
                self._waiting.setdefault(thread.base or "", []).append(thread)

    def _add_loaded(self, row: Sequence[Any]) -> _Thread:
        number, base, newest, began_as_reply, provided = row
        if number not in self._threads:
            self._threads[number] = _Thread(number, base, newest, bool(began_as_reply), None, provided)
        return self._threads[number]

    def _assign_one(self, one: Joining, base: str, is_reply: bool) -> _Thread:
        if one.provided is not None:
            return self._assign_by_provider(one, base, one.provided)
        named = one.named[:_MOST_LINKS]
        found = _exact([self._links[each].root for each in named if each in self._links])
        if not found and one.proposed:
            found = self._find_proposed(one.proposed)
        if not found and base:
            found = self._find_by_subject(one, base) if is_reply else self._find_waiting_for(one, base)
        thread = self._merge(found) if found else self._begin_thread(one, base, is_reply)
        self._note_arrival(thread, one.millis, is_reply)
        self._link(thread, named)
        return thread

    def _assign_by_provider(self, one: Joining, base: str, provided: str) -> _Thread:
        """The provider's own thread; the proposed one becomes it where nobody knew yet which that is."""
        thread = self._provided.get(provided)
        if thread is None:
            thread = self._find_unclaimed(one.proposed, provided) if one.proposed else None
            # The id of a thread that is another one of the provider's is not given twice.
            thread = thread or self._begin_thread(replace(one, proposed=None), base, is_reply=False)
            self._provided[provided] = thread
        self._note_arrival(thread, one.millis, is_reply=False)
        self._link(thread, [one.own] if one.own else [])
        return thread

    def _find_unclaimed(self, identity: str, provided: str) -> _Thread | None:
        """A thread of ours of which it was not known yet which of the provider's it is."""
        for thread in self._find_proposed(identity):
            if thread.provided is None:
                thread.provided = provided
                self._database.change("UPDATE threads SET provider_id = ? WHERE number = ?", (provided, thread.number))
                return thread
        return None

    def _link(self, thread: _Thread, message_ids: Sequence[str]) -> None:
        for message_id in message_ids:
            if message_id not in self._links:
                self._links[message_id] = thread
                self._new_links.append((message_id, thread))

    def _note_arrival(self, thread: _Thread, millis: int, is_reply: bool) -> None:
        thread.first = millis if thread.first is None else min(thread.first, millis)
        if millis > thread.newest or (thread.waits and not is_reply):
            thread.newest, thread.waits = max(millis, thread.newest), thread.waits and is_reply
            self._changed[thread] = None

    def _find_proposed(self, identity: str) -> set[_Thread]:
        sql = f"SELECT {_COLUMNS} FROM threads t WHERE t.id = ? AND t.account = ?"
        return {self._add_loaded(row).root for row in self._database.rows(sql, (identity, self._account))}

    def _find_by_subject(self, one: Joining, base: str) -> set[_Thread]:
        """The newest thread of this subject that a reply may join which nothing else leads anywhere."""
        self._write()
        names_others = any(each != one.own for each in one.named)
        rows = self._database.rows(_OF_SUBJECT, (self._account, base, one.millis - _WINDOW, _MOST_CANDIDATES))
        for thread in map(self._add_loaded, rows):
            # Where the beginning of a thread is here, what is earlier is no reply to it.
            latest = one.millis + (_WINDOW if thread.waits else 0)
            if not (thread.waits and names_others) and self._first_moment(thread) <= latest:
                return {thread}
        return set()

    def _find_waiting_for(self, one: Joining, base: str) -> set[_Thread]:
        """The threads that this original may be the beginning of."""
        waiting = {thread.root for thread in self._waiting.get(base, ())}
        later = [each for each in waiting if each.waits and 0 <= self._first_moment(each) - one.millis <= _WINDOW]
        return set(sorted(later, key=lambda thread: thread.number)[:_MOST_CANDIDATES])

    def _first_moment(self, thread: _Thread) -> int:
        """When its first message came."""
        number = self._database.value("SELECT min(number) FROM messages WHERE thread = ?", (thread.number,))
        moments = ([] if number is None else [(number >> 4) * 1000]) + ([] if thread.first is None else [thread.first])
        return min(moments, default=thread.newest)

    def _begin_thread(self, one: Joining, base: str, is_reply: bool) -> _Thread:
        self._last_number += 1
        identity = one.proposed or new_id("thr")
        thread = _Thread(self._last_number, base or None, one.millis, is_reply, None, one.provided, identity)
        self._threads[thread.number] = thread
        if is_reply and base:
            self._waiting.setdefault(base, []).append(thread)
        self._new.append(thread)
        return thread

    def _merge(self, threads: set[_Thread]) -> _Thread:
        """Make several threads one. The oldest keeps its id, so that it stays what clients know."""
        kept, *others = sorted(threads, key=lambda thread: thread.number)
        if others:
            self._write()
        for other in others:
            for table in ("messages", "thread_links"):
                self._database.change(f"UPDATE {table} SET thread = ? WHERE thread = ?", (kept.number, other.number))
            self._database.change("DELETE FROM threads WHERE number = ?", (other.number,))
            other.part_of = kept
            self._changed[kept] = None
            kept.newest, kept.waits = max(kept.newest, other.newest), kept.waits and other.waits
            kept.first = min((each.first for each in (kept, other) if each.first is not None), default=None)
        return kept

    def _write(self) -> None:
        """Write the threads that are new or have changed, so that the database can be asked about all of them."""
        new, self._new = self._new, []
        changed, self._changed = self._changed, {}
        self._database.change_many(
            _INSERT, [(t.number, t.identity, self._account, t.base, t.newest, t.waits, t.provided) for t in new]
        )
        self._database.change_many(
            "UPDATE threads SET newest = ?, began_as_reply = ? WHERE number = ?",
            [(t.newest, t.waits, t.number) for t in changed],
        )


def _exact(threads: Sequence[_Thread]) -> set[_Thread]:
    """Of the threads that a message names those it joins: with a provider's among them, the one it named last."""
    provided = [thread for thread in threads if thread.provided is not None]
    return {provided[-1]} if provided else set(threads)
