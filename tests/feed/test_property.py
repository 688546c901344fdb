"""Applying the feed to an empty copy gives the mirror, after any mix of changes, restarts and trims."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.clock import from_millis
from mailbox_appliance.feed.events import to_events
from mailbox_appliance.model.changes import Event, list_event_types
from mailbox_appliance.model.messages import Message
from mailbox_appliance.model.sync import FlagChange, ListedFolder, MessageIdentity
from mailbox_appliance.store.changes import ChangeFilter
from mailbox_appliance.store.messages import unpack_flags
from mailbox_appliance.store.store import Store
from tests.store.mail import ROLES, Mailbox, execute, fetched, parsed

SEEDS = range(10)
STEPS = 80
PATHS = ("INBOX", "Sent", "Junk", "Lists")


class Reader:
    """A copy of the mirror that is kept by the feed alone."""

    def __init__(self, store: Store) -> None:
        self.position, self.copy = store.changes.to_position(0), dict[str, Message]()
        self.told = Counter[str]()
        self.resets = 0

    def read(self, store: Store, box: Mailbox, limit: int) -> None:
        """Apply all that is there; read the lists anew if something was lost."""
        seen = ChangeFilter(frozenset(list_event_types()), frozenset({box.id}), box.owner)
        while True:
            after = store.changes.from_position(self.position)
            if after is None:
                self.resets += 1
                after = store.changes.end()
                self.copy = mirror(store, box)
            changes, end = store.changes.read(after, seen, limit)
            for event in to_events(store, changes):
                self.apply(event)
            self.position = store.changes.to_position(end)
            if not changes:
                return

    def apply(self, event: Event) -> None:
        """Change the copy as a program would."""
        self.told[event.type] += 1
        if event.type == "message.deleted":
            self.copy.pop(event.data.id)  # what was never created is never deleted
        elif event.type.startswith("message."):
            assert (event.data.id in self.copy) == (event.type != "message.created"), event
            if isinstance(event.data, Message):
                self.copy[event.data.id] = event.data
            else:  # it does not exist any more; its deletion follows
                self.copy.setdefault(event.data.id, event.data)


def mirror(store: Store, box: Mailbox) -> dict[str, Message]:
    """All messages of the mailbox whose body is known, as lists show them."""
    rows = store.database.rows(
        "SELECT m.id FROM messages m JOIN accounts a ON a.number = m.account WHERE a.id = ? AND m.body > 0", (box.id,)
    )
    ids = [row[0] for row in rows]
    return {one.id: one for one in store.messages.list_by_ids(ids)} if ids else {}


class Walk:
    """Random changes as sync and the appliance make them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.store = Store.open(folder)
        self.box = Mailbox(self.store)
        self.next_uid = 1
        self.paths = list(PATHS)
        self.list_folders()

    def list_folders(self) -> None:
        listed = [ListedFolder(path, "/", frozenset()) for path in self.paths]
        self.store.folders.replace(self.box.id, listed, ROLES)

    def there(self) -> list[tuple[str, str, int, str | None]]:
        """ID, folder, UID and Message-ID of the messages that are in a folder."""
        return self.store.database.rows(
            "SELECT m.id, f.path, m.uid, m.message_id FROM messages m JOIN folders f ON f.number = m.folder"
            " WHERE m.uid IS NOT NULL ORDER BY m.number"
        )

    def uid(self) -> int:
        self.next_uid += 1
        return self.next_uid

    def step(self) -> None:
        acts = (
            self.arrive,
            self.arrive,
            self.header_first,
            self.flag,
            self.move,
            self.delete,
            self.renumber,
            self.rename,
        )
        self.chance.choice(acts)()

    def message(self) -> Any:
        number = self.chance.randrange(1 << 60)
        return parsed(f"<{number}@example.test>", subject=self.chance.choice(("One", "Two", "Re: One")))

    def arrive(self) -> None:
        self.box.add(self.uid(), self.message(), self.chance.choice(self.paths), after=self.chance.randrange(1000))

    def header_first(self) -> None:
        folder = self.box.folder(self.chance.choice(self.paths))
        pair = (fetched(self.uid(), after=self.chance.randrange(1000)), self.message())
        self.store.mailbox_writer.add_headers(folder, [pair])
        if self.chance.random() < 0.8:
            self.store.mailbox_writer.add_bodies(folder, [pair])

    def flag(self) -> None:
        for _, path, uid, _ in self.some():
            flags = frozenset(self.chance.sample(("\\Seen", "\\Flagged", "work"), 2))
            self.store.mailbox_writer.change_flags(self.box.folder(path).number, [FlagChange(uid, flags)])

    def some(self) -> list[tuple[str, str, int, str | None]]:
        there = self.there()
        return self.chance.sample(there, min(len(there), self.chance.randint(1, 3)))

    def move(self) -> None:
        """Another client moves them: they are gone here, and seen there."""
        for _, path, uid, message_id in self.some():
            target = self.chance.choice([one for one in self.paths if one != path])
            self.seen_again(path, [uid], target, message_id)

    def seen_again(self, path: str, uids: list[int], target: str, message_id: str | None) -> None:
        number = self.box.folder(path).number
        rows = self.store.database.rows(
            "SELECT size, internal_date, uid FROM messages WHERE folder = ? AND uid = ?", (number, uids[0])
        )
        self.store.mailbox_writer.detach(number, uids)
        (size, moment, _) = rows[0]
        sighting = MessageIdentity(self.uid(), frozenset(), message_id, size, from_millis(moment), None, None)
        self.store.mailbox_writer.reattach(self.box.folder(target), [sighting])
        self.store.mailbox_writer.purge_gone(self.box.id)

    def renumber(self) -> None:
        """Another UIDVALIDITY: all are gone, and seen in the same folder again."""
        path = self.chance.choice(self.paths)
        self.gone_and_back(path, path)

    def gone_and_back(self, path: str, target: str, *, is_removed: bool = False) -> None:
        number = self.box.folder(path).number
        rows = self.store.database.rows(
            "SELECT size, internal_date, message_id, flags & 3 FROM messages WHERE folder = ? AND uid IS NOT NULL",
            (number,),
        )
        if is_removed:
            self.paths = [target if one == path else one for one in self.paths]
            self.list_folders()
        else:
            self.store.mailbox_writer.detach(number, None)
        sightings = [
            MessageIdentity(self.uid(), unpack_flags(flags, "[]"), message_id, size, from_millis(moment))
            for size, moment, message_id, flags in rows
        ]
        self.store.mailbox_writer.reattach(self.box.folder(target), sightings)
        self.store.mailbox_writer.purge_gone(self.box.id)

    def rename(self) -> None:
        """Another client renames a folder: to the store, one is gone and another one is new."""
        path = self.chance.choice([one for one in self.paths if one not in ROLES])
        self.gone_and_back(path, f"Lists{self.uid()}", is_removed=True)

    def delete(self) -> None:
        for _, path, uid, _ in self.some():
            self.store.mailbox_writer.delete_by_uid(self.box.folder(path).number, [uid])

    def restart(self) -> None:
        self.store.close()
        self.store = Store.open(self.folder)
        self.box.store = self.store


@pytest.mark.parametrize("seed", SEEDS)
def test_applying_the_feed_gives_the_mirror(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path / "data", seed)
    readers = [Reader(walk.store) for _ in range(3)]
    for number in range(STEPS):
        walk.step()
        if walk.chance.random() < 0.05:
            walk.restart()
        if walk.chance.random() < 0.05:
            walk.store.changes.delete_some(0, walk.chance.randrange(40))
        for reader in readers:
            if number == STEPS - 1 or walk.chance.random() < 0.2:
                reader.read(walk.store, walk.box, walk.chance.randint(1, 20))
                assert reader.copy == mirror(walk.store, walk.box), number
    walk.store.close()


def test_a_message_that_only_moved_is_not_created_again(tmp_path: Path) -> None:
    walk = Walk(tmp_path / "data", 1)
    for _ in range(20):
        walk.arrive()
    reader = Reader(walk.store)
    reader.read(walk.store, walk.box, 100)
    assert reader.told == {"message.created": 20, "account.updated": 1}
    reader.told.clear()
    for path in walk.paths:
        walk.gone_and_back(path, path)
    reader.read(walk.store, walk.box, 100)
    assert reader.told == {}
    inside = len([one for one in walk.there() if one[1] == "Lists"])
    walk.gone_and_back("Lists", "Archive", is_removed=True)
    reader.read(walk.store, walk.box, 100)
    assert reader.told == {"message.moved": inside}
    assert inside
    execute(walk.store, "UPDATE accounts SET status = 'removed'")
    execute(walk.store, "DELETE FROM messages")
    assert walk.store.changes.read(0, ChangeFilter(frozenset({"message.deleted"}), frozenset(), "m"), 10)[0] == ()
    walk.store.close()
