"""Random changes of a store, as sync, people and the appliance make them, and readers who know them by the feed alone.

The same seed makes the same changes. What a walk has to know about the mailboxes it reads from the store, so that
another process can go on after the first one was killed.
"""

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from mailbox_appliance.clock import from_millis
from mailbox_appliance.feed.events import to_events
from mailbox_appliance.model.accounts import AccountError
from mailbox_appliance.model.changes import Event, EventType, list_event_types
from mailbox_appliance.model.messages import Message, ParsedAttachment, ParsedMessage
from mailbox_appliance.model.sync import FlagChange, ListedFolder, MessageIdentity, MirroredFolder
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store import moves
from mailbox_appliance.store.changes import ChangeFilter
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.mailbox_writer import PendingCopy
from mailbox_appliance.store.messages import unpack_flags
from mailbox_appliance.store.restore.merge import merge_nothing, merge_present
from mailbox_appliance.store.store import Store
from tests.store.mail import ROLES, Mailbox, add_member, fetched, parsed

PATHS = ("INBOX", "Sent", "Junk", "Lists")
EVERYTHING = frozenset(list_event_types())
_ATTACHMENT = ParsedAttachment("2", "a.pdf", "application/pdf", 10, None, "attachment")

Copy = dict[str, tuple[str, Any]]  # ID -> mailbox, and what is known of the message


# --- readers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Page:
    """What a reader gets at once. `anew`: the lists, where the events before `position` are lost."""

    events: list[Event]
    position: str
    mailboxes: frozenset[str]
    anew: Copy | None = None


def seen_by_all(store: Store, types: frozenset[EventType] = EVERYTHING) -> ChangeFilter:
    """Everything in all mailboxes."""
    return ChangeFilter(types, frozenset(store.accounts.list_ids()), "")


def pages(store: Store, position: str, limit: int) -> Iterator[Page]:
    """Everything after a position, in pages of `limit` events; the last page is empty."""
    while True:
        seen = seen_by_all(store)
        after, anew = store.changes.from_position(position), None
        if after is None:
            after, anew = store.changes.end(), mirror(store)
        changes, end = store.changes.read(after, seen, limit)
        position = store.changes.to_position(end)
        yield Page(to_events(store, changes), position, seen.account_ids, anew)
        if not changes:
            return


def mirror(store: Store) -> Copy:
    """All messages whose body is known, as lists show them."""
    rows = store.database.rows(
        "SELECT m.id FROM messages m JOIN accounts a ON a.number = m.account WHERE a.status <> 'removed' AND m.body > 0"
    )
    ids = [row[0] for row in rows]
    return {one.id: (one.account_id, one) for one in store.messages.list_by_ids(ids)} if ids else {}


class Reader:
    """A copy of the mirror that is kept by the feed alone."""

    def __init__(self, position: str) -> None:
        self.position, self.copy, self.told, self.resets = position, Copy(), Counter[str](), 0

    def read(self, store: Store, limit: int) -> None:
        """Apply all that is there."""
        for page in pages(store, self.position, limit):
            self.take(page)

    def take(self, page: Page) -> None:
        """Apply a page as a program would: forget mailboxes that are gone, read the lists if something was lost."""
        self.copy = {key: known for key, known in self.copy.items() if known[0] in page.mailboxes}
        if page.anew is not None:
            self.copy, self.resets = dict(page.anew), self.resets + 1
        for event in page.events:
            self._apply(event)
        self.position = page.position

    def _apply(self, event: Event) -> None:
        assert _number(event.position) > _number(self.position), (event.position, self.position)
        self.position = event.position
        self.told[event.type] += 1
        if not event.type.startswith("message."):
            return
        identity, account = event.data.id, event.account_id or ""
        # Never created twice, and never changed or deleted before that.
        assert (identity in self.copy) == (event.type != "message.created"), event
        if event.type == "message.deleted":
            del self.copy[identity]
        elif isinstance(event.data, Message) or identity not in self.copy:
            self.copy[identity] = account, event.data
        # Otherwise it does not exist any more, and its deletion follows.

    def require_equal(self, store: Store) -> None:
        """Raise AssertionError if the copy differs from the mirror.

        A message whose folder was removed waits in another one until it is found or deleted; readers are told then.
        """
        waiting = {row[0] for row in store.database.rows("SELECT id FROM messages WHERE gone = 2")}
        mine, theirs = (
            {key: msgspec.structs.replace(one, folder=UNSET) if key in waiting else one for key, (_, one) in of.items()}
            for of in (self.copy, mirror(store))
        )
        assert mine.keys() == theirs.keys(), (mine.keys() - theirs.keys(), theirs.keys() - mine.keys())
        different = [(mine[key], theirs[key]) for key in mine if mine[key] != theirs[key]]
        assert not different, different[:2]


def _number(position: str) -> int:
    return int(position.rpartition("-")[2])


# --- changes ----------------------------------------------------------------------------------------------------------


class _Box(Mailbox):
    """A mailbox that is there already."""

    def __init__(self, store: Store, identity: str) -> None:
        self.store, self.id = store, identity


class Walk:
    """Random changes of the store in a folder, which it opens."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.store = Store.open(folder)
        self._lost: list[MessageIdentity] = []  # messages of a folder that was removed
        self._acts = (
            *[self.arrive] * 6,
            *[self.header_first] * 2,
            *[self.flag] * 3,
            *[self.move] * 3,
            *[self.move_by_us] * 2,
            *[self.delete] * 2,
            self.delete_by_us,
            *[self.draft] * 2,
            *[self.sent_copy] * 2,
            self.renumber,
            self.rename,
            self.remove_folder,
            self.return_folder,
            self.correct_sizes,
            self.trouble,
            self.reconnect,
        )
        self.require_mailbox()

    # --- the mailbox of a step, which is any of those that are there

    def require_mailbox(self) -> None:
        """Connect a mailbox if there is none."""
        if not self.store.accounts.list_ids():
            self._connect()
        self.choose()

    def choose(self) -> None:
        """Choose the mailbox of the next step."""
        self.box: Mailbox = _Box(self.store, self.chance.choice(self.store.accounts.list_ids()))
        self.paths = [one.path for one in self.store.folders.list(self.box.id)]
        if len(self.paths) < 3:
            self.list_folders(self.box, PATHS)

    def _connect(self) -> None:
        owner = self.store.database.value("SELECT id FROM members LIMIT 1") or add_member(self.store)
        self.list_folders(Mailbox(self.store, owner), PATHS)

    def list_folders(self, box: Mailbox, paths: Sequence[str]) -> None:
        """Let the server list these folders."""
        self.store.folders.replace(box.id, [ListedFolder(path, "/", frozenset()) for path in paths], ROLES)
        self.paths = list(paths)

    def step(self) -> None:
        """Make one change."""
        self.choose()
        self.chance.choice(self._acts)()

    def _path(self, *, but: str = "") -> str:
        return self.chance.choice([path for path in self.paths if path != but])

    def _folder(self, *, but: str = "") -> MirroredFolder:
        return self.box.folder(self._path(but=but))

    def _uid(self) -> int:
        return self.chance.randrange(1, 1 << 32)

    def _some(self) -> list[tuple[str, str, int]]:
        """ID, path and UID of some messages that are in a folder."""
        there = self.store.database.rows(
            "SELECT m.id, f.path, m.uid FROM messages m JOIN folders f ON f.number = m.folder"
            " JOIN accounts a ON a.number = m.account WHERE m.uid IS NOT NULL AND a.id = ? ORDER BY m.number",
            (self.box.id,),
        )
        return self.chance.sample(there, min(len(there), self.chance.randint(1, 3)))

    def _message(self) -> ParsedMessage:
        """Some answer others, and some join two conversations."""
        known = self.store.database.rows("SELECT message_id FROM messages WHERE message_id IS NOT NULL ORDER BY number")
        named = [f"<{row[0]}>" for row in self.chance.sample(known, min(len(known), self.chance.choice((0, 0, 1, 2))))]
        return parsed(
            f"<{self.chance.randrange(1 << 60)}@example.test>",
            subject=self.chance.choice(("One", "Two", "Re: One")),
            references=named,
            attachments=self.chance.choice(((), (), (_ATTACHMENT,))),
        )

    def _after(self) -> int:
        return self.chance.randrange(1000)

    # --- what sync does

    def arrive(self) -> None:
        """A message arrives."""
        self.box.add(self._uid(), self._message(), self._path(), after=self._after())

    def header_first(self) -> None:
        """Some messages arrive, most of them with their bodies a little later."""
        folder = self._folder()
        batch = [(fetched(self._uid(), after=self._after()), self._message()) for _ in range(self.chance.randint(1, 4))]
        self.store.mailbox_writer.add_headers(folder, batch)
        self.store.mailbox_writer.add_bodies(folder, batch[: self.chance.randint(0, 4)])

    def flag(self) -> None:
        """Another client sets flags."""
        for _, path, uid in self._some():
            flags = frozenset(self.chance.sample(("\\Seen", "\\Flagged", "\\Answered", "work"), 2))
            self.store.mailbox_writer.change_flags(self.box.folder(path).number, [FlagChange(uid, flags)])

    def move(self) -> None:
        """Another client moves messages: they are gone here, and seen there, or nowhere."""
        for _, path, uid in self._some():
            found = self.identities(path, uid)
            self.store.mailbox_writer.detach(self.box.folder(path).number, [uid])
            if self.chance.random() < 0.8:
                self.store.mailbox_writer.reattach(self._folder(but=path), found)
        self._purge()

    def delete(self) -> None:
        """Another client deletes messages."""
        for _, path, uid in self._some():
            self.store.mailbox_writer.delete_by_uid(self.box.folder(path).number, [uid])

    def renumber(self) -> None:
        """Another UIDVALIDITY: all are gone, and most are seen in the same folder again."""
        path = self._path()
        found = self.identities(path)
        self.store.mailbox_writer.detach(self.box.folder(path).number, None)
        self.store.mailbox_writer.reattach(self.box.folder(path), found[: self.chance.choice((1000, 1000, 2))])
        self._purge()

    def rename(self) -> None:
        """Another client renames a folder: to the store, one is gone and another one is new."""
        path = self._path(but="INBOX")
        found = self.identities(path)
        self.list_folders(self.box, [f"Lists{self._uid()}" if one == path else one for one in self.paths])
        self.store.mailbox_writer.reattach(self.box.folder(self.paths[-1]), found)
        self._purge()

    def remove_folder(self) -> None:
        """A folder is gone; nobody has looked in the others for its messages yet."""
        self._lost = self.remove(self._path(but="INBOX"))

    def return_folder(self) -> None:
        """The messages of a folder that was gone are in another one, which may be new."""
        self.list_folders(self.box, list(dict.fromkeys([*self.paths, self.chance.choice(PATHS)])))
        self.store.mailbox_writer.reattach(self._folder(), self._lost)
        self._lost = []
        if self.chance.random() < 0.5:
            self._purge()

    def remove(self, path: str) -> list[MessageIdentity]:
        """Remove a folder; return what sync may see of its messages elsewhere."""
        found = self.identities(path)
        self.list_folders(self.box, [one for one in self.paths if one != path])
        return found

    def identities(self, path: str, uid: int | None = None) -> list[MessageIdentity]:
        """What sync would see of the messages of a folder, under new UIDs."""
        rows = self.store.database.rows(
            "SELECT size, internal_date, message_id, flags & 3 FROM messages"
            " WHERE folder = ? AND uid IS NOT NULL AND (?2 IS NULL OR uid = ?2)",
            (self.box.folder(path).number, uid),
        )
        return [
            MessageIdentity(self._uid(), unpack_flags(flags, "[]"), message_id, size, from_millis(moment))
            for size, moment, message_id, flags in rows
        ]

    def _purge(self) -> None:
        self.store.mailbox_writer.purge_gone(self.box.id)
        self._lost = []

    # --- what the appliance does

    def move_by_us(self) -> None:
        """The server says the new UID, or sync finds the message, or it is not there any more."""
        for identity, path, uid in self._some():
            folder, found = self._folder(but=path), self.identities(path, uid)
            known = self.chance.choice((None, self._uid()))
            self.store.mailbox_writer.record_moves(self.box.id, [(identity, folder.number, known)])
            if known is None and self.chance.random() < 0.8:
                self.store.mailbox_writer.reattach(folder, found)

    def delete_by_us(self) -> None:
        """Somebody deletes messages."""
        self.store.mailbox_writer.delete_by_id(self.box.id, [one[0] for one in self._some()])

    def draft(self) -> None:
        """A draft is saved, once or several times, and the server reports its UID or not."""
        identity, writer = new_id("msg"), self.store.mailbox_writer
        with self.store.database.transaction():
            copy = PendingCopy(identity, new_id("thr"))
            writer.add_pending(self._folder(), fetched(0, ["\\Draft"]), self._message(), copy)
        for _ in range(self.chance.randint(0, 3)):
            writer.set_uid(identity, self.chance.choice((None, self._uid())))
            if self.chance.random() < 0.7:
                version = fetched(0, ["\\Draft"], after=self._after())
                writer.replace_source(identity, version, self._message(), self.chance.choice((None, self._folder())))

    def sent_copy(self) -> None:
        """A copy of a sent message is shown, then the server has it; sync may see it before we know its UID."""
        folder, message, uid = self.box.folder(self.paths[-1]), self._message(), self._uid()
        identity, writer = new_id("msg"), self.store.mailbox_writer
        if self.chance.random() < 0.3:
            writer.add(folder, [(fetched(uid), message)])
        with self.store.database.transaction():
            writer.add_pending(folder, fetched(0), message, PendingCopy(identity, new_id("thr")))
        if self.chance.random() < 0.5:
            writer.add(folder, [(fetched(uid), message)])
        writer.set_uid(identity, uid)

    def correct_sizes(self) -> None:
        """An attachment turns out to have another size."""
        rows = self.store.database.rows("SELECT number FROM messages WHERE attachments <> '[]' ORDER BY number LIMIT 3")
        for (number,) in rows:
            self.store.mailbox_writer.correct_sizes(number, {("2", "application/pdf"): self.chance.randrange(1000)})

    def trouble(self) -> None:
        """The server of a mailbox is out of order, or well again."""
        error = AccountError(code="unavailable", message="The server cannot be reached.")
        self.store.accounts.set_status(self.box.id, *self.chance.choice((("error", error), ("ready", None))))

    def reconnect(self) -> None:
        """A mailbox is removed, some of its mail is deleted at once, and sometimes another one takes its place."""
        number = self.store.database.value("SELECT number FROM accounts WHERE id = ?", (self.box.id,))
        with self.store.database.transaction():
            self.store.accounts.remove(self.box.id)
        for _ in range(self.chance.randrange(4)):
            moves.delete_some_of_account(self.store.database, number)
        for _ in range(self.chance.randint(1, 2)):
            self._connect()

    # --- what happens to the store

    def restart(self) -> None:
        """Close the store, and open it again."""
        self.store.close()
        self.store = Store.open(self.folder)
        self.require_mailbox()

    def trim(self) -> None:
        """Delete the oldest changes, by number or by age."""
        end = self.store.changes.end()
        before = self.store.database.value(
            "SELECT at FROM changes WHERE position <= ? ORDER BY position DESC LIMIT 1", (self.chance.randint(0, end),)
        )
        most = self.chance.choice((1_000_000, self.chance.randrange(60)))
        while self.store.changes.delete_some(before or 0, most):
            pass

    def back_up(self) -> None:
        """Keep a copy of the store as it is now."""
        self.store.close()
        kept = self.folder.with_name("backup")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.folder, kept)
        self.store = Store.open(self.folder)
        self.require_mailbox()

    def restore(self) -> None:
        """Restore the copy, with what the present store has that is later; or without, as if that were lost."""
        kept, present = self.folder.with_name("backup"), self.folder.with_name("present")
        if not kept.exists():
            return
        self.store.close()
        self.folder.rename(present)
        shutil.copytree(kept, self.folder)
        self.store = Store.open(self.folder)
        if self.chance.random() < 0.5:
            merge_present(self.store.database, present / DATABASE_FILE, self.store.key, datetime.now(UTC))
        else:
            merge_nothing(self.store.database, datetime.now(UTC))
        shutil.rmtree(present)
        self._lost = []
        self.restart()
