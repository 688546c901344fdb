"""The tables equal the format, and frequent queries are answered from an index."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mailbox_appliance.model.deliveries import Quota
from mailbox_appliance.model.messages import MessageFilter
from mailbox_appliance.model.sync import MessageIdentity
from mailbox_appliance.store.database import Database, Parameters, Row
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.open_file import DirectoryLock
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.labeled import LabeledMailbox
from tests.store.mail import MORNING, Mailbox, fetched, parsed


def test_every_table_is_strict(store: Store) -> None:
    found: dict[str, int] = dict(
        store.database.rows("SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    )
    ours = {name: strict for name, strict in found.items() if not name.startswith("sqlite_")}
    assert len(ours) == 32
    assert set(ours.values()) == {1}, ours


class Noting(Database):
    """A database that records its queries."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.folder / DATABASE_FILE, store.key.cipher, store.key.derive("database"))
        self.asked: list[tuple[str, Parameters]] = []

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        self.asked.append((sql, parameters))
        return super().rows(sql, parameters)

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        self.asked.append((sql, parameters))
        return super().row(sql, parameters)

    def change(self, sql: str, parameters: Parameters = ()) -> int:
        self.asked.append((sql, parameters))
        return super().change(sql, parameters)


Ask = Callable[[Store, Mailbox, str], object]


@pytest.fixture
def plans(store: Store, mailbox: Mailbox, clock: FakeClock, tmp_path: Path) -> Iterator[Callable[[Ask], list[str]]]:
    """Returns the query plans of all queries that a function makes."""
    noting = Noting(store)
    noted = Store(store.folder, DirectoryLock(tmp_path), noting, store.key, clock, store.key_file)
    message_id = mailbox.add(1)

    def find_plans(ask: Ask) -> list[str]:
        noting.asked.clear()
        ask(noted, mailbox, message_id)
        return [
            str(row[3])
            for sql, parameters in noting.asked
            for row in store.database.rows(f"EXPLAIN QUERY PLAN {sql}", parameters)
        ]

    yield find_plans
    noted.close()


HASH = "0" * 64


def _session(store: Store, mailbox: Mailbox) -> str:
    with store.database.transaction():
        return store.credentials.add_session(mailbox.owner, HASH, "a device").id


HOT: list[tuple[str, Ask, str]] = [
    ("a session by its token", lambda s, b, m: s.credentials.find(HASH), "sessions_2 (token_hash=?)"),
    ("a session", lambda s, b, m: s.credentials.get_session(b.owner, _session(s, b), None), "sessions_1 (id=?)"),
    ("sessions that died", lambda s, b, m: _session(s, b), "MULTI-INDEX OR"),
    (
        "the messages of a folder",
        lambda s, b, m: s.messages.list([b.id], MessageFilter(), folders=[b.folder().number], before=None, limit=50),
        "messages_folder (folder=? AND number<?)",
    ),
    (
        "the messages of a mailbox",
        lambda s, b, m: s.messages.list([b.id], MessageFilter(), folders=None, before=7 << 40, limit=50),
        "messages_account (account=? AND number<?)",
    ),
    ("a message", lambda s, b, m: s.messages.get(b.id, m), "messages_1 (id=?)"),
    (
        "a thread",
        lambda s, b, m: s.messages.list_thread(b.id, b.thread_of(m), after=None, limit=50),
        "messages_thread (thread=? AND number>?)",
    ),
    (
        "the UIDs of a folder",
        lambda s, b, m: s.mailbox_writer.load_flags(b.folder().number),
        "messages_2 (folder=? AND uid>?)",
    ),
    ("a mailbox", lambda s, b, m: s.accounts.find_reachable(b.id, b.owner), "accounts_1 (id=?)"),
    (
        "the mailboxes that are one's own",
        lambda s, b, m: s.accounts.list_reachable(b.owner),
        "COVERING INDEX accounts_owner (owner_member_id=?)",
    ),
    (
        "the mailboxes that are granted",
        lambda s, b, m: s.accounts.list_reachable(b.owner),
        "account_grants_member (member_id=?)",
    ),
    (
        "whether a mailbox is connected already",
        lambda s, b, m: s.accounts.exists("a@b.example", b.owner),
        "accounts_owner (owner_member_id=? AND email=?)",
    ),
    ("a replay", lambda s, b, m: s.deliveries.find_replay("ses_1", "key", HASH), "(credential_id=? AND idempotency"),
    (
        "the counts of deliveries",
        lambda s, b, m: s.delivery_lists.count_open([b.id]),
        "COVERING INDEX delivery_operations_open (status=?)",
    ),
    ("what was being sent", lambda s, b, m: s.deliveries.list_sending(), "delivery_operations_open (status=?)"),
    (
        "the operations of a mailbox",
        lambda s, b, m: s.delivery_lists.list(b.id, b.owner, before=None, limit=50),
        "delivery_operations_member (account_id=? AND member_id=? AND number<?)",
    ),
    (
        "the scheduled ones of everybody",
        lambda s, b, m: s.delivery_lists.list(b.id, b.owner, before=None, limit=50),
        "delivery_operations_of_all (account_id=? AND number<?)",
    ),
    (
        "the quota of a mailbox",
        lambda s, b, m: s.delivery_lists.require_quotas(b.id, "", [Quota("account", 1, timedelta(hours=1))]),
        "delivery_operations_account (account_id=?)",
    ),
    (
        "the source of a copy",
        lambda s, b, m: s.delivery_lists.find_source(b.id, m),
        "delivery_operations_result (result_id=?)",
    ),
    (
        "scheduled sends",
        lambda s, b, m: s.delivery_lists.list_scheduled(b.id, after=None, limit=50),
        "delivery_operations_scheduled (account_id=?)",
    ),
    (
        "a draft in use",
        lambda s, b, m: s.delivery_lists.require_free_draft(b.id, m),
        "delivery_operations_draft (draft_id=?)",
    ),
    ("a legacy key", lambda s, b, m: s.legacy_keys.find("key_1", "key", HASH), "(credential_id=? AND idempotency"),
    (
        "evidence",
        lambda s, b, m: s.schedule.list_due_evidence(datetime.now(UTC), b.id),
        "delivery_operations_evidence (evidence_ne",
    ),
    ("chores", lambda s, b, m: s.schedule.list_due_chores(datetime.now(UTC), b.id), "delivery_chores_due (next_at<?)"),
    (
        "the next thing due",
        lambda s, b, m: s.schedule.find_next_due(datetime.now(UTC)),
        "delivery_chores_due (next_at>?)",
    ),
    (
        "copies",
        lambda s, b, m: s.sent_copies.list_due(datetime.now(UTC), b.id),
        "delivery_operations_copy (copy_next_at<?)",
    ),
]


@pytest.mark.parametrize(("ask", "index"), [hot[1:] for hot in HOT], ids=[hot[0] for hot in HOT])
def test_what_is_asked_often_is_answered_from_an_index(plans: Callable[[Ask], list[str]], ask: Ask, index: str) -> None:
    steps = plans(ask)
    assert any(index in step for step in steps), steps
    slow = [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step]
    # `SCAN (`: a page that an index has found. `SCAN j`: the values of a parameter.
    assert not [step for step in slow if not step.startswith(("SCAN (", "SCAN j VIRTUAL"))], steps


def test_whether_there_are_passwords_of_release_0_10_is_told_by_an_index_of_those(
    plans: Callable[[Ask], list[str]],
) -> None:
    assert plans(lambda s, b, m: s.members.has_legacy_passwords()) == ["SCAN members USING INDEX members_legacy"]


#: The queries of the timer: only due rows are sorted, however many others there are.
LOOKS: list[tuple[str, Callable[[Store], object], str]] = [
    (
        "scheduled",
        lambda s: s.schedule.list_due_sends(datetime.now(UTC)),
        "delivery_operations_due (account_id=? AND next_attem",
    ),
    (
        "the next",
        lambda s: s.schedule.find_next_due(datetime.now(UTC)),
        "delivery_operations_due (account_id=? AND next_attempt_at>?)",
    ),
    (
        "evidence",
        lambda s: s.schedule.list_evidence_accounts(datetime.now(UTC)),
        "delivery_operations_evidence (evidence_next_at<?)",
    ),
    ("chores", lambda s: s.schedule.list_chore_accounts(datetime.now(UTC)), "delivery_chores_due (next_at<?)"),
    (
        "copies",
        lambda s: s.sent_copies.list_due_accounts(datetime.now(UTC)),
        "delivery_operations_copy (copy_next_at<?)",
    ),
]


@pytest.mark.parametrize(("ask", "index"), [look[1:] for look in LOOKS], ids=[look[0] for look in LOOKS])
def test_what_the_timer_asks_is_answered_from_an_index(
    plans: Callable[[Ask], list[str]], ask: Callable[[Store], object], index: str
) -> None:
    steps = plans(lambda store, _, __: ask(store))
    assert any(index in step for step in steps), steps
    # `a`: the mailboxes, of which there are few.
    assert not [step for step in steps if step.startswith("SCAN") and not step.startswith("SCAN a ")], steps


def test_unread_messages_are_counted_from_their_index(plans: Callable[[Ask], list[str]]) -> None:
    steps = plans(lambda s, b, m: s.folders.list_with_counts(b.id))
    assert "SEARCH m USING COVERING INDEX messages_unread (folder=?)" in steps
    assert "SEARCH m USING COVERING INDEX messages_folder (folder=?)" in steps
    assert not [step for step in steps if step.startswith("SCAN")]


SEEN_BY_ID = MessageIdentity(9, frozenset(), "a@x", 1000, MORNING, "m1", "t1")
#: The same for a label folder, and further queries for a mailbox with labels.
LABELED: list[tuple[str, Ask, str]] = [
    (
        "the messages of a label",
        lambda s, b, m: s.messages.list(
            [b.id], MessageFilter(), folders=[b.folder("Work").number], before=7 << 40, limit=5
        ),
        "message_labels USING PRIMARY KEY (folder=? AND number<?)",
    ),
    (
        "the unread ones of a label",
        lambda s, b, m: s.messages.list(
            [b.id], MessageFilter(unread=True), folders=[b.folder("Work").number], before=7 << 40, limit=5
        ),
        "message_labels USING COVERING INDEX message_labels_unread (folder=? AND number<?)",
    ),
    (
        "a label among those of another",
        lambda s, b, m: s.messages.list(
            [b.id], MessageFilter(labels=("Work", "Play")), folders=None, before=7 << 40, limit=5
        ),
        "o EXISTS USING COVERING INDEX message_labels_message (number=? AND folder=?)",
    ),
    (
        "a provider's ids",
        lambda s, b, m: s.mailbox_writer.reattach(b.folder(), [SEEN_BY_ID]),
        "messages_provider (account=? AND provider_id=?)",
    ),
    (
        "the labels of a mailbox",
        lambda s, b, m: s.messages.list_labels(b.id),
        "messages USING COVERING INDEX messages_labeled (account=? AND keywords>?)",
    ),
    (
        "how many have a label",
        lambda s, b, m: s.folders.list_with_counts(b.id),
        "l USING COVERING INDEX message_labels_unread (folder=?)",
    ),
]


@pytest.mark.parametrize(("ask", "index"), [asked[1:] for asked in LABELED], ids=[asked[0] for asked in LABELED])
def test_what_is_asked_of_labels_is_answered_from_an_index(
    store: Store, clock: FakeClock, tmp_path: Path, ask: Ask, index: str
) -> None:
    box = LabeledMailbox(store, "Work", "Play")
    (message_id,) = box.bring(1, ("Work", "Play", "\\Inbox"))
    noting = Noting(store)
    noted = Store(store.folder, DirectoryLock(tmp_path), noting, store.key, clock, store.key_file)
    ask(noted, box, message_id)
    steps = [
        str(row[3])
        for sql, parameters in noting.asked
        for row in store.database.rows(f"EXPLAIN QUERY PLAN {sql}", parameters)
    ]
    noted.close()
    assert any(index in step for step in steps), steps
    # `sets`: the results of a step of the recursion; `j`: given values.
    scans = [
        step for step in steps if step.startswith("SCAN") and not step.startswith(("SCAN sets", "SCAN (", "SCAN j"))
    ]
    assert not scans, steps


SEEN = MessageIdentity(1, frozenset(), "a@x", 1000, MORNING)
REPLY = parsed("<b@x>", subject="Re: Subject", references=["<a@x>"])
#: The queries of sync, and the indexes that answer them.
SYNC: list[tuple[str, Ask, list[str]]] = [
    (
        "what is missing",
        lambda s, b, m: s.mailbox_writer.list_without_body(b.folder().number, 50),
        ["messages_unfilled (folder=?)"],
    ),
    (
        "how much is missing",
        lambda s, b, m: s.mailbox_writer.count_without_body(b.id),
        ["COVERING INDEX messages_unfilled (folder>?)"],
    ),
    (
        "some UIDs",
        lambda s, b, m: s.mailbox_writer.load_flags(b.folder().number, [1]),
        ["messages_2 (folder=? AND uid=?)"],
    ),
    ("whether any is gone", lambda s, b, m: s.mailbox_writer.has_gone(b.id), ["messages_gone (account=?)"]),
    (
        "what is found",
        lambda s, b, m: s.mailbox_writer.reattach(b.folder(), [SEEN]),
        ["messages_gone (account=? AND message_id"],
    ),
    (
        "what is elsewhere",
        lambda s, b, m: s.mailbox_writer.find_other_folders(b.folder(), [SEEN]),
        ["messages_message_id (account=? AND message_id=?)"],
    ),
    ("where messages lie", lambda s, b, m: s.mailbox_writer.locate(b.id, [m]), ["messages_1 (id=?)"]),
    (
        "what comes",
        lambda s, b, m: s.mailbox_writer.add_headers(b.folder(), [(fetched(7), REPLY), (fetched(8), parsed("<c@x>"))]),
        [
            "messages_2 (folder=? AND uid=?)",
            "messages_message_id (account=? AND message_id=?)",
            "l USING PRIMARY KEY (account=? AND message_id=?)",
            "threads_waiting (account=? AND base_subject=? AND newest>?)",
            "threads_account (account=? AND base_subject=? AND newest>?)",
            "m USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    ),
]


@pytest.mark.parametrize(("ask", "indexes"), [asked[1:] for asked in SYNC], ids=[asked[0] for asked in SYNC])
def test_what_sync_asks_is_answered_from_indexes(
    plans: Callable[[Ask], list[str]], ask: Ask, indexes: list[str]
) -> None:
    steps = plans(ask)
    assert not [index for index in indexes if not any(index in step for step in steps)], steps
    assert not [step for step in steps if step.startswith("SCAN") and "VIRTUAL TABLE" not in step], steps


def test_threads_are_joined_from_indexes(store: Store) -> None:
    expected = {
        "UPDATE messages SET thread = ? WHERE thread = ?": "messages_thread",
        "UPDATE thread_links SET thread = ? WHERE thread = ?": "thread_links_thread",
        "SELECT min(number) FROM messages WHERE thread = ?": "messages_thread",
    }
    for sql, how in expected.items():
        steps = [str(row[3]) for row in store.database.rows(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?"))]
        assert how in steps[0], steps
