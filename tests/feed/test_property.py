"""Applying the feed to an empty copy gives the mirror, after any mix of changes and accidents."""

from pathlib import Path

import pytest

from tests.feed.proof import prove
from tests.feed.walk import Reader, Walk
from tests.store.mail import parsed

SEEDS, STEPS = range(10), 60


@pytest.mark.parametrize("seed", SEEDS)
def test_applying_the_feed_gives_the_mirror(tmp_path: Path, seed: int) -> None:
    assert prove(tmp_path, seed, STEPS)["changes"] == STEPS


def test_a_message_that_only_moved_is_not_created_again(tmp_path: Path) -> None:
    walk = Walk(tmp_path / "data", 1)
    for number in range(20):
        path = walk.paths[number % len(walk.paths)]
        walk.box.add(number + 1, parsed(f"<{number}@example.test>"), path, after=number)
    reader = Reader(walk.store.changes.to_position(0))
    reader.read(walk.store, 100)
    assert reader.told == {"message.created": 20, "account.updated": 1}
    reader.told.clear()
    for path in walk.paths:  # another UIDVALIDITY
        found = walk.identities(path)
        walk.store.mailbox_writer.detach(walk.box.folder(path).number, None)
        assert len(walk.store.mailbox_writer.reattach(walk.box.folder(path), found)) == len(found)
    reader.read(walk.store, 100)
    assert reader.told == {}
    inside = len(walk.identities("Lists"))
    found = walk.remove("Lists")
    reader.read(walk.store, 100)
    assert reader.told == {}
    walk.list_folders(walk.box, [*walk.paths, "Archive"])
    walk.store.mailbox_writer.reattach(walk.box.folder("Archive"), found)
    reader.read(walk.store, 100)
    assert reader.told == {"message.moved": inside} == {"message.moved": 5}
    walk.store.close()
