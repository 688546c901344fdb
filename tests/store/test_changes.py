"""Positions of the journal: what readers may rely on."""

import os

import pytest

from mailbox_appliance.errors import Invalid
from mailbox_appliance.feed.events import to_events
from mailbox_appliance.model.changes import list_event_types
from mailbox_appliance.store.changes import ChangeFilter
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox


def test_what_a_reader_gets_is_on_the_disk(store: Store, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power failure takes it back, and its position comes to mean another change."""
    synced: list[int] = []
    seen = ChangeFilter(frozenset(list_event_types()), frozenset({mailbox.id}), mailbox.owner)
    store.changes.to_position(store.changes.end())
    monkeypatch.setattr(os, "fsync", synced.append)
    mailbox.add(1)
    assert synced == []  # who follows no events does not wait either
    changes, _ = store.changes.read(0, seen, 100)
    assert len(synced) == 1
    mailbox.add(2)  # what is shown of a change may be later than the change
    to_events(store, changes)
    assert len(synced) == 2
    assert store.changes.end()
    assert len(synced) == 2


@pytest.mark.parametrize("position", ["", "-", "12", "-12", "a-", "a--1", "a-1.0", "a b-1", f"a-{'1' * 20}"])
def test_what_is_no_position_is_refused(store: Store, position: str) -> None:
    with pytest.raises(Invalid):
        store.changes.from_position(position)


def test_positions_of_another_store_and_of_the_future_are_lost(store: Store, mailbox: Mailbox) -> None:
    mailbox.add(1)
    end, mark = store.changes.end(), store.changes.mark
    assert store.changes.from_position(f"{mark}-{end}") == end
    assert store.changes.from_position(f"{mark}-{end + 1}") is None
    assert store.changes.from_position(f"{'0' * 16}-{end}") is None
