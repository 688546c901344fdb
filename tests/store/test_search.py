"""A search finds what a slow reading of every message finds, with every query plan; and every plan uses an index."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from mailbox_appliance.clock import to_millis
from mailbox_appliance.mail import search
from mailbox_appliance.model.messages import (
    Address,
    Message,
    MessageFilter,
    ParsedAttachment,
    ParsedMessage,
    SearchedField,
    SearchMatch,
    SearchTerm,
    SearchUnavailable,
)
from mailbox_appliance.model.sync import FetchedMessage
from mailbox_appliance.store.database import Database, Parameters, Row
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.search import Search, SearchLimits
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.parse_child import BoundedReader
from tests.servers.fake_clock import FakeClock
from tests.store.mail import MORNING, Mailbox, fetched, parsed

EVERYTHING = MessageFilter()
SAID = "an and ant anthem antler red reed reeds rose rosemary over overt oven a1 a2 to be"
WORDS = SAID.split()
PEOPLE = [
    Address(email=f"{name}@{host}.test", name=name.title()) for name in ("ada", "an", "red") for host in ("a1", "b")
]
LABELS = ["$Important", "Work", "work-2"]
PATHS = ["INBOX", "Sent", "Junk"]
BOUNDS = {
    "always": SearchLimits(1 << 40, 1 << 40, 1 << 40, 1 << 40, asked=-1),
    "always asked": SearchLimits(1 << 40, 1 << 40, 1 << 40, 1 << 40, asked=1 << 40),
    "never": SearchLimits(-1, -1, -1, -1, -1, -1),
    "many mailboxes": SearchLimits(sources=0, one_by_one=0),
    "as it is": SearchLimits(),
}


@dataclass(frozen=True)
class Stored:
    """A message in the store, as the test knows it."""

    mailbox: str
    path: str
    message: ParsedMessage
    fetched: FetchedMessage


class Crowd:
    """Two mailboxes full of messages, and the results of reading all of them."""

    def __init__(self, store: Store, count: int = 400) -> None:
        self.store, self.random = store, random.Random(5)
        self.mailboxes = [Mailbox(store), Mailbox(store)]
        self.messages: list[Stored] = []
        for number in range(1, count + 1):
            self._add(number)

    def found(self, wanted: MessageFilter, mailboxes: list[str], path: str | None) -> list[str]:
        """Return the subjects that match a filter, newest first."""
        kept = [
            one
            for one in self.messages
            if one.mailbox in mailboxes
            and (one.path == path if path else one.path != "Junk")
            and _is_meant(one, wanted)
        ]
        return [one.message.subject for one in sorted(kept, key=lambda one: one.fetched.internal_date, reverse=True)]

    def a_filter(self) -> MessageFilter:
        """Return a random filter that may match something."""
        pick = self.random
        terms = [self._term() for _ in range(pick.choice((0, 0, 1, 1, 2)))]
        after = pick.choice((None, None, to_millis(MORNING) + pick.randrange(500) * 1000))
        return MessageFilter(
            terms=tuple(terms),
            text=pick.choice((None, None, None, pick.choice(WORDS))),
            unread=pick.choice((None, None, True, False)),
            starred=pick.choice((None, None, None, True, False)),
            has_attachment=pick.choice((None, None, None, True, False)),
            labels=pick.choice(((), (), (), ("WORK",), ("Work", "$important"), ("none",))),
            after=after,
            before=pick.choice((None, None, to_millis(MORNING) + pick.randrange(500) * 1000)),
        )

    def _term(self) -> SearchTerm:
        pick = self.random
        fields: tuple[SearchedField, ...] = ("any", "any", "any", "from", "to", "subject")
        field = pick.choice(fields)
        if pick.random() < 0.3:
            word = pick.choice(WORDS)
            return SearchTerm(word[: pick.randrange(2, 6)], field, is_prefix=True)
        return SearchTerm(" ".join(pick.choices(WORDS, k=pick.choice((1, 1, 2)))), field)

    def _add(self, number: int) -> None:
        pick = self.random
        mailbox, path = pick.choice(self.mailboxes), pick.choice(PATHS)
        plan = ParsedAttachment("2", "a.pdf", "application/pdf", 5, None, pick.choice(("inline", "attachment")))
        message = msgspec.structs.replace(
            parsed(subject=f"{' '.join(pick.choices(WORDS, k=3))} n{number}", attachments=[plan][: pick.randrange(2)]),
            sender=pick.choice(PEOPLE),
            to=tuple(pick.choices(PEOPLE, k=pick.randrange(3))),
            date=MORNING + timedelta(seconds=pick.randrange(500)),
            text=" ".join(pick.choices(WORDS, k=8)),
        )
        flags = [flag for flag in ("\\Seen", "\\Flagged", *LABELS) if pick.random() < 0.4]
        fetched = FetchedMessage(number, frozenset(flags), MORNING + timedelta(seconds=number), 1000, b"")
        self.store.mailbox_writer.add(mailbox.folder(path), [(fetched, message)])
        self.messages.append(Stored(mailbox.id, path, message, fetched))


def _is_meant(one: Stored, wanted: MessageFilter) -> bool:
    date, flags = to_millis(one.message.date or MORNING), one.fetched.flags
    return (
        wanted.unread in (None, "\\Seen" not in flags)
        and wanted.starred in (None, "\\Flagged" in flags)
        and wanted.has_attachment in (None, any(a.disposition == "attachment" for a in one.message.attachments))
        and {label.lower() for label in wanted.labels} <= {flag.lower() for flag in flags}
        and (wanted.after is None or wanted.after <= date)
        and (wanted.before is None or date < wanted.before)
        and all(_has_term(one.message, term) for term in wanted.terms)
        and (wanted.text is None or _has_term(one.message, SearchTerm(wanted.text)))
    )


def _has_term(message: ParsedMessage, term: SearchTerm) -> bool:
    people = [f"{each.name} {each.email}" for each in message.to]
    sender = f"{message.sender.name} {message.sender.email}" if message.sender else ""
    fields = {"subject": message.subject, "from": sender, "to": " ".join(people), "body": message.text or ""}
    searched = fields.values() if term.field == "any" else [fields[term.field]]
    ending = "" if term.is_prefix else r"\b"
    pattern = re.compile(rf"\b{re.escape(term.words)}{ending}", re.IGNORECASE)
    return any(pattern.search(re.sub(r"\W+", " ", text)) for text in searched)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """Many messages, made once."""
    store = Store.open(tmp_path_factory.mktemp("crowd") / "data", FakeClock())
    yield Crowd(store)
    store.close()


def _subjects(crowd: Crowd, numbers: list[int]) -> list[str]:
    rows: dict[int, str] = dict(crowd.store.database.rows("SELECT number, subject FROM messages"))
    return [rows[number] for number in numbers]


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_every_way_finds_what_reading_everything_finds(crowd: Crowd, bounds: SearchLimits) -> None:
    search = Search(crowd.store.database, bounds)
    found = 0
    for _ in range(150):
        wanted = crowd.a_filter()
        boxes = crowd.random.choice(([0], [1], [0, 1]))
        path = crowd.random.choice((None, None, *PATHS))
        mailboxes = [crowd.mailboxes[at] for at in boxes]
        folders = [box.folder(path).number for box in mailboxes] if path else None
        ids = [box.id for box in mailboxes]
        numbers = search.find_numbers(ids, wanted, folders=folders, before=None, limit=1000)
        assert _subjects(crowd, numbers) == crowd.found(wanted, ids, path), (wanted, boxes, path)
        half = search.find_numbers(ids, wanted, folders=folders, before=None, limit=7)
        rest = search.find_numbers(ids, wanted, folders=folders, before=half[-1] if half else None, limit=1000)
        assert half == numbers[:7]
        assert rest == (numbers[7:] if half else [])
        found += len(numbers)
    assert found > 500


def test_nothing_is_found_where_nothing_can_be(crowd: Crowd) -> None:
    ids = [box.id for box in crowd.mailboxes]
    for wanted in (
        replace(EVERYTHING, is_impossible=True),
        MessageFilter(text="!!!"),
        MessageFilter(terms=(SearchTerm("?"),)),
    ):
        assert crowd.store.messages.list(ids, wanted, folders=None, before=None, limit=9) == ((), None)
    assert crowd.store.messages.list([], EVERYTHING, folders=None, before=None, limit=9) == ((), None)
    assert crowd.store.messages.list(ids, EVERYTHING, folders=[], before=None, limit=9) == ((), None)
    assert crowd.store.messages.list(["acc_unknown"], EVERYTHING, folders=None, before=None, limit=9) == ((), None)


# --- prefixes ---

BEGUN = (
    "in ink inka inkas inkblot invoice invoices involved über überall Éclair eclipse ÉCLAT 東京都 日本"
    " x1 x12 x123 x1234 x12345"
)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("in*", ["in", "ink", "inka", "inkas", "inkblot", "invoice", "invoices", "involved"]),
        ("ink*", ["ink", "inka", "inkas", "inkblot"]),
        ("inka*", ["inka", "inkas"]),
        ("invo*", ["invoice", "invoices", "involved"]),
        ("INVOI*", ["invoice", "invoices"]),
        ("invoices*", ["invoices"]),
        ("invoicesx*", []),
        ("ub*", ["über", "überall"]),
        ("Übera*", ["überall"]),
        ("ec*", ["Éclair", "eclipse", "ÉCLAT"]),
        ("écla*", ["Éclair", "ÉCLAT"]),
        ("éclai*", ["Éclair"]),
        ("東*", ["東京都"]),
        ("京都*", ["東京都"]),
        ("x1*", ["x1", "x12", "x123", "x1234", "x12345"]),
        ("x123*", ["x123", "x1234", "x12345"]),
        ("x1234*", ["x1234", "x12345"]),
        ("zz*", []),
        ("subject:in*", []),
        ('"the in"*', ["in", "ink", "inka", "inkas", "inkblot", "invoice", "invoices", "involved"]),
        ('"the invoi"*', ["invoice", "invoices"]),
    ],
)
def test_the_beginning_of_a_word_finds_it(store: Store, mailbox: Mailbox, typed: str, found: list[str]) -> None:
    batch = []
    for uid, word in enumerate(BEGUN.split(), 1):
        fetched = FetchedMessage(uid, frozenset(), MORNING - timedelta(seconds=uid), 1, b"")
        batch.append((fetched, parsed(subject=f"s{uid}", text=f"the {word}")))
    store.mailbox_writer.add(mailbox.folder(), batch)
    listed, _ = store.messages.list([mailbox.id], search.parse_query(typed), folders=None, before=None, limit=100)
    assert [str(message.snippet).removeprefix("the ") for message in listed] == found


def test_a_beginning_with_very_many_words_is_found_as_well(store: Store, mailbox: Mailbox) -> None:
    text = " ".join(f"beginning{number}" for number in range(400))
    mailbox.add(1, parsed(text=text))
    for typed in ("be*", "begin*", "beginning399*"):
        assert len(_list(store, mailbox, search.parse_query(typed))) == 1
    assert _list(store, mailbox, search.parse_query("beginning400*")) == []


# --- the matching text ---


def _list(store: Store, mailbox: Mailbox, wanted: MessageFilter) -> list[Message]:
    return list(store.messages.list([mailbox.id], wanted, folders=None, before=None, limit=100)[0])


def test_a_message_tells_where_the_text_stands(store: Store, mailbox: Mailbox) -> None:
    mailbox.add(1, parsed(subject="other", text="We met in\n the  Red house."))
    mailbox.add(2, parsed(subject="the red", text="No such thing."), after=1)
    mailbox.add(3, msgspec.structs.replace(parsed(text=""), text=None, html="<p>In <b>the Red</b> barn"), after=2)
    listed, _ = store.messages.list(
        [mailbox.id], MessageFilter(text="the red"), folders=None, before=None, limit=100, reader=BoundedReader()
    )
    contexts = {message.subject: message.search_context for message in listed}
    statuses = [msgspec.to_builtins(context) for context in contexts.values()]
    assert statuses == [
        {"status": "matched", "excerpt": "In the Red barn"},
        {"status": "no_literal_match"},
        {"status": "matched", "excerpt": "We met in the Red house."},
    ]
    assert all(
        message.search_context is msgspec.UNSET for message in _list(store, mailbox, search.parse_query("the red"))
    )


def test_a_body_that_is_not_there_yet_is_unavailable(store: Store, mailbox: Mailbox) -> None:
    fetched = FetchedMessage(1, frozenset(), MORNING, 1000, b"")
    store.mailbox_writer.add_headers(mailbox.folder(), [(fetched, parsed(subject="the red", text=""))])
    (message,) = _list(store, mailbox, MessageFilter(text="red"))
    assert message.search_context == SearchUnavailable()
    store.mailbox_writer.add(mailbox.folder(), [(fetched, parsed(subject="the red", text="a red body"))])
    (message,) = _list(store, mailbox, MessageFilter(text="red"))
    assert message.search_context == SearchMatch(excerpt="a red body")


# --- labels ---


def test_labels_are_those_that_messages_have(crowd: Crowd, store: Store, mailbox: Mailbox) -> None:
    assert crowd.store.messages.list_labels(crowd.mailboxes[0].id) == ("$Important", "Work", "work-2")
    mailbox.add(1)
    assert store.messages.list_labels(mailbox.id) == ()


# --- query plans ---


class _Noting(Database):
    """Records the queries."""

    asked: list[tuple[str, Parameters]]

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        self.asked.append((sql, parameters))
        return super().rows(sql, parameters)

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        self.asked.append((sql, parameters))
        return super().row(sql, parameters)


@pytest.fixture(scope="module")
def plans(crowd: Crowd) -> Iterator[Callable[[MessageFilter, str | None, SearchLimits], list[str]]]:
    """Returns the query plan of the last query of a search."""
    store = crowd.store
    noting = _Noting(Path(store.folder) / DATABASE_FILE, store.key.cipher, store.key.derive("database"))
    box = crowd.mailboxes[0]

    def ask(wanted: MessageFilter, path: str | None, bounds: SearchLimits) -> list[str]:
        noting.asked = []
        folders = [box.folder(path).number] if path else None
        Search(noting, bounds).find_numbers([box.id], wanted, folders=folders, before=7 << 50, limit=50)
        sql, parameters = noting.asked[-1]
        return [str(row[3]) for row in store.database.rows(f"EXPLAIN QUERY PLAN {sql}", parameters)]

    yield ask
    noting.close()


FEW, ASKED, MANY = BOUNDS["always"], BOUNDS["always asked"], BOUNDS["never"]
DATED = MessageFilter(after=to_millis(MORNING), before=to_millis(MORNING) + 99_000)
WORD = SearchTerm("red")
# fmt: off
#: filter, folder, bounds -> the steps of the plan, without `SEARCH messages USING`
PLANS: list[tuple[MessageFilter, str | None, SearchLimits, list[str]]] = [
    (EVERYTHING,                     None,    MANY, ["COVERING INDEX messages_account (account=? AND number<?)"]),
    (EVERYTHING,                     "INBOX", MANY, ["COVERING INDEX messages_folder (folder=? AND number<?)"]),
    (MessageFilter(unread=True),     None,    MANY, ["COVERING INDEX messages_unread (folder=? AND number<?)"]),
    (MessageFilter(unread=False),    "INBOX", MANY, ["INDEX messages_folder (folder=? AND number<?)"]),
    (MessageFilter(starred=True),    None,    MANY, ["COVERING INDEX messages_starred (account=? AND number<?)"]),
    (MessageFilter(starred=True),    "INBOX", MANY, ["COVERING INDEX messages_starred (account=? AND number<?)"]),
    (MessageFilter(starred=True),    "INBOX", FEW,  ["INDEX messages_folder (folder=? AND number<?)"]),
    (MessageFilter(has_attachment=True), None, MANY,
        ["COVERING INDEX messages_with_attachment (account=? AND number<?)"]),
    (MessageFilter(labels=("work",)), None,   MANY,
        ["COVERING INDEX messages_labeled (account=? AND keywords=? AND number<?)"]),
    (DATED,                          None,    MANY, ["COVERING INDEX messages_account (account=? AND number<?)"]),
    (DATED,                          None,    FEW,
        ["COVERING INDEX messages_date (account=? AND date>? AND date<?)", "USE TEMP B-TREE FOR ORDER BY"]),
    (MessageFilter(terms=(WORD,)),   None,    MANY,
        ["SCAN x VIRTUAL TABLE INDEX 192:M5<",
         "SEARCH m USING COVERING INDEX messages_account (account=? AND number=?)"]),
    (MessageFilter(terms=(WORD,)),   "INBOX", FEW,
        ["SCAN message_index VIRTUAL TABLE INDEX 192:M5><", "LIST SUBQUERY 1",
         "COVERING INDEX messages_folder (folder=?)", "CREATE BLOOM FILTER"]),
    (MessageFilter(terms=(WORD,)),   "INBOX", ASKED,
        ["SCAN message_index VIRTUAL TABLE INDEX 0:=M5", "LIST SUBQUERY 1",
         "COVERING INDEX messages_folder (folder=?)"]),
]
# fmt: on


@pytest.mark.parametrize(("wanted", "path", "bounds", "plan"), PLANS)
def test_lists_and_searches_come_from_an_index_in_their_order(
    plans: Callable[[MessageFilter, str | None, SearchLimits], list[str]],
    wanted: MessageFilter,
    path: str | None,
    bounds: SearchLimits,
    plan: list[str],
) -> None:
    steps = [step.removeprefix("SEARCH messages USING ") for step in plans(wanted, path, bounds)]
    assert steps == plan


def test_many_mailboxes_are_searched_in_one_statement(crowd: Crowd) -> None:
    store, ids = crowd.store, [box.id for box in crowd.mailboxes]
    noting = _Noting(Path(store.folder) / DATABASE_FILE, store.key.cipher, store.key.derive("database"))
    inboxes = [box.folder("INBOX").number for box in crowd.mailboxes]
    for wanted, folders, count in (
        (EVERYTHING, None, 1),
        (MessageFilter(unread=True), None, 1),
        (EVERYTHING, inboxes, 3),
        (MessageFilter(terms=(WORD,)), None, 1),
    ):
        noting.asked = []
        found = Search(noting, BOUNDS["many mailboxes"]).find_numbers(
            ids, wanted, folders=folders, before=None, limit=5
        )
        assert len(found) == 5
        assert len(noting.asked) <= count, noting.asked
    noting.close()


@pytest.mark.parametrize(("typed", "most"), [("re*", 4), ("ree*", 1), ("reeds*", 1), ("rosemar*", 3)])
def test_a_prefix_takes_few_statements(crowd: Crowd, typed: str, most: int) -> None:
    store = crowd.store
    noting = _Noting(Path(store.folder) / DATABASE_FILE, store.key.cipher, store.key.derive("database"))
    noting.asked = []
    ids, wanted = [box.id for box in crowd.mailboxes], search.parse_query(typed)
    assert Search(noting, BOUNDS["many mailboxes"]).find_numbers(ids, wanted, folders=None, before=None, limit=5)
    noting.close()
    assert len(noting.asked) <= most, noting.asked


def test_words_and_labels_are_looked_up_by_steps(crowd: Crowd) -> None:
    steps = {
        "SELECT term FROM message_words WHERE term >= 'in' LIMIT 1": "SCAN message_words VIRTUAL TABLE INDEX 513:",
        "SELECT min(keywords) FROM messages INDEXED BY messages_labeled WHERE account = 1 AND keywords <> '[]'"
        " AND keywords > ''": "SEARCH messages USING COVERING INDEX messages_labeled (account=? AND keywords>?)",
    }
    for sql, step in steps.items():
        assert [row[3] for row in crowd.store.database.rows(f"EXPLAIN QUERY PLAN {sql}")] == [step]


def test_matches_in_mail_of_others_are_not_all_read(store: Store) -> None:
    """Seventeen small mailboxes beside a large one that the reader does not see."""
    stranger, own = Mailbox(store), [Mailbox(store) for _ in range(17)]
    for start in range(0, 1500, 500):
        messages = [(fetched(start + n + 1, after=start + n), parsed(text="invoice")) for n in range(500)]
        store.mailbox_writer.add(stranger.folder(), messages)
    own[3].add(1, parsed(text="invoice"))
    ids, wanted = [box.id for box in own], MessageFilter(terms=(SearchTerm("invoice"),))
    search = Search(store.database)
    assert search._find_in_many(ids, wanted.terms, wanted, None, 1 << 62, 50) is None
    assert len(search.find_numbers(ids, wanted, folders=None, before=None, limit=50)) == 1
