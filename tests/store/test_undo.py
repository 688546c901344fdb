"""Undo tokens in the store: single use, expiry, and what a restore makes of them."""

import threading
from pathlib import Path

import pytest

from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.errors import UndoUnknown, UndoUsed
from mailbox_appliance.model.sync import MessageState, StateChange
from mailbox_appliance.security.tokens import is_well_formed
from mailbox_appliance.store import undo
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.restored import People, Restoring, populate

CHANGES = (
    StateChange(
        MessageState("fld_1", frozenset({"\\Seen", "Work"})), MessageState("fld_2", frozenset({"\\Seen"})), ("a", "b")
    ),
    StateChange(MessageState("fld_1", frozenset()), MessageState("fld_1", frozenset({"Übersicht (neu)"})), ("c",)),
)


@pytest.fixture
def people(store: Store) -> People:
    return populate(store)


def count(store: Store) -> int:
    return int(store.database.value("SELECT count(*) FROM undo_tokens"))


def test_a_token_is_valid_once_for_its_member_and_mailbox(store: Store, people: People) -> None:
    offer = store.undo.add(people.box, people.ada, "archive", CHANGES)
    assert is_well_formed(offer.token)
    for account_id, member_id in ((people.others_box, people.ada), (people.box, people.bob)):
        with pytest.raises(UndoUnknown):
            store.undo.get(offer.token, account_id, member_id)
    found = store.undo.get(offer.token, people.box, people.ada)
    assert (found.action, found.changes, found.is_used) == ("archive", CHANGES, False)
    store.undo.use(found)
    assert store.undo.get(offer.token, people.box, people.ada).is_used
    with pytest.raises(UndoUsed):
        store.undo.use(found)
    store.undo.give_back(found)
    assert store.undo.get(offer.token, people.box, people.ada) == found


def test_only_its_hash_is_stored(store: Store, people: People) -> None:
    token = store.undo.add(people.box, people.ada, "archive", CHANGES).token
    rows = store.database.rows("SELECT * FROM undo_tokens")
    assert token not in str(rows)
    assert token[5:20] not in str(rows)


def test_of_many_requests_at_once_one_succeeds(store: Store, people: People) -> None:
    offer = store.undo.add(people.box, people.ada, "archive", CHANGES)
    found = store.undo.get(offer.token, people.box, people.ada)
    start, outcomes = threading.Barrier(8), list[str]()

    def use() -> None:
        start.wait()
        try:
            store.undo.use(found)
            outcomes.append("used")
        except UndoUsed:
            outcomes.append("refused")

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 7 + ["used"]


def test_a_token_expires_after_a_day(store: Store, people: People, clock: FakeClock) -> None:
    offer = store.undo.add(people.box, people.ada, "archive", CHANGES)
    assert from_timestamp(offer.expires_at) == clock.now() + undo.VALID_FOR
    clock.advance(undo.VALID_FOR.total_seconds() - 1)
    store.undo.add(people.box, people.ada, "star", CHANGES)
    store.cleaner.delete_expired()
    assert store.undo.get(offer.token, people.box, people.ada).action == "archive"
    clock.advance(1)
    with pytest.raises(UndoUnknown):
        store.undo.get(offer.token, people.box, people.ada)
    assert count(store) == 2
    store.cleaner.delete_expired()
    assert count(store) == 1


def test_the_newest_tokens_of_a_member_are_kept(store: Store, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "MOST_KEPT", 3)
    others = store.undo.add(people.box, people.bob, "star", CHANGES)
    offers = [store.undo.add(people.box, people.ada, "star", CHANGES) for _ in range(5)]
    for offer in offers[:2]:
        with pytest.raises(UndoUnknown):
            store.undo.get(offer.token, people.box, people.ada)
    for offer in offers[2:]:
        store.undo.get(offer.token, people.box, people.ada)
    store.undo.get(others.token, people.box, people.bob)


def test_a_used_token_stays_used_when_the_process_dies(
    store: Store, people: People, clock: FakeClock, tmp_path: Path
) -> None:
    offer = store.undo.add(people.box, people.ada, "archive", CHANGES)
    store.undo.use(store.undo.get(offer.token, people.box, people.ada))
    store.close()
    again = Store.open(tmp_path / "data", clock)
    assert again.undo.get(offer.token, people.box, people.ada).is_used
    again.close()


@pytest.mark.parametrize("with_present", [True, False])
def test_a_restore_drops_all_tokens(tmp_path: Path, with_present: bool) -> None:
    restoring = Restoring(tmp_path)

    def act(store: Store, people: People, _clock: FakeClock) -> None:
        store.undo.add(people.box, people.ada, "archive", CHANGES)

    restored, _ = restoring.run(act, act, with_present=with_present)
    assert count(restored) == 0
    restoring.close()


def test_tokens_go_with_their_member(store: Store, people: People) -> None:
    store.undo.add(people.box, people.bob, "archive", CHANGES)
    with store.database.transaction():
        store.database.change("UPDATE accounts SET owner_member_id = NULL WHERE owner_member_id = ?", (people.bob,))
        store.database.change("DELETE FROM members WHERE id = ?", (people.bob,))
    assert count(store) == 0


def test_tokens_go_with_their_mailbox(store: Store, people: People) -> None:
    store.undo.add(people.box, people.ada, "archive", CHANGES)
    with store.database.transaction():
        store.accounts.remove(people.box)
    assert count(store) == 0
