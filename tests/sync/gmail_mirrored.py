"""A mailbox of Gmail, an appliance that mirrors it, and whether both have the same."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mailbox_appliance.mail import folder_roles
from mailbox_appliance.store.store import Store
from tests.servers.corpus import Corpus
from tests.servers.fault_proxy import FaultProxy
from tests.servers.gmail_mailbox import IMPORTANT, INBOX, SENT, STARRED, GmailMailbox, Place
from tests.servers.running import RunningAppliance
from tests.sync.gmail_rival import LABELS
from tests.sync.proof import Mirrored, hash_of, hash_of_source

_PLACES: tuple[Place, ...] = ("all", "trash", "spam")
_KEPT = frozenset({"\\Seen", "\\Answered", "\\Flagged", "\\Draft", "$Forwarded"})
_SETTINGS = {"MAILBOX_APPLIANCE_SYNC_POLL_INTERVAL": "1"}


@dataclass(frozen=True)
class Kept:
    """What is compared of one message: where it lies, flags and labels, its thread, what it says."""

    path: str
    uid: int
    flags: frozenset[str]
    thread: str
    hash: str


#: X-GM-MSGID to message; path to those that it shows.
Content = tuple[dict[str, Kept], dict[str, frozenset[str]]]


# --- both sides -------------------------------------------------------------------------------------------------------


def at_gmail(box: GmailMailbox) -> Content:
    """What the double has."""
    with box.lock:
        places = {"all": box.own("\\All"), "spam": box.own("\\Junk"), "trash": box.own("\\Trash")}
        kept = {}
        for letter in box.letters.values():
            folder = places[letter.place or ""]
            flags = (letter.flags() & _KEPT) | {folder_roles.canonical_label(each) for each in letter.labels}
            told = Kept(folder.path, letter.uids[folder], flags, str(letter.thread), hash_of_source(letter.source))
            kept[str(letter.number)] = told
        shown = {path: frozenset(map(str, numbers.values())) for path, numbers in box.contents().items()}
        return kept, shown


def in_store(folder: Path) -> Content:
    """What the store of an appliance that is stopped has. Each message once, indexed once, and nothing is gone."""
    store = Store.open(folder)
    try:
        rows = store.database.rows(
            "SELECT m.provider_id, f.number, f.path, m.uid, t.provider_id, m.subject, b.text, b.html FROM messages m"
            " JOIN folders f ON f.number = m.folder JOIN threads t ON t.number = m.thread"
            " LEFT JOIN bodies b ON b.number = m.number"
        )
        known = {number: store.mailbox_writer.load_flags(number) for number in {row[1] for row in rows}}
        kept = {
            identity: Kept(path, uid, known[number].get(uid, frozenset()), thread, hash_of(*texts))
            for identity, number, path, uid, thread, *texts in rows
        }
        twice = (
            [row[:7] for row in rows if sum(row[0] == other[0] for other in rows) > 1] if len(kept) < len(rows) else []
        )
        assert not twice, f"{len(rows)} rows for {len(kept)} messages: {twice[:6]}"
        indexed = store.database.value("SELECT count(*) FROM message_index_docsize")
        assert indexed == len(rows), f"{indexed} messages are indexed, {len(rows)} are there"
        return kept, _shown(store)
    finally:
        store.close()


def _shown(store: Store) -> dict[str, frozenset[str]]:
    shown: dict[str, list[str]] = {path: [] for (path,) in store.database.rows("SELECT path FROM folders")}
    lying = "SELECT f.path, m.provider_id FROM messages m JOIN folders f ON f.number = m.folder"
    labeled = (
        "SELECT f.path, m.provider_id FROM message_labels l JOIN folders f ON f.number = l.folder"
        " JOIN messages m ON m.number = l.number"
    )
    for path, identity in store.database.rows(f"{lying} UNION ALL {labeled}"):
        shown[path].append(identity)
    return {path: frozenset(identities) for path, identities in shown.items()}


def ids_in(folder: Path) -> dict[str, str]:
    """X-GM-MSGID to the id that we gave a message."""
    store = Store.open(folder)
    try:
        return dict(store.database.rows("SELECT provider_id, id FROM messages"))
    finally:
        store.close()


def assert_equal(box: GmailMailbox, folder: Path) -> int:
    """The mirror has what the double has; answers how many messages that are."""
    (theirs, their_folders), (ours, our_folders) = at_gmail(box), in_store(folder)
    missing, surplus = theirs.keys() - ours.keys(), ours.keys() - theirs.keys()
    assert not missing, f"{len(missing)} are missing: {[theirs[one] for one in sorted(missing)[:3]]}"
    assert not surplus, f"{len(surplus)} are too many: {[ours[one] for one in sorted(surplus, key=str)[:3]]}"
    different = [(theirs[one], ours[one]) for one in theirs if theirs[one] != ours[one]]
    assert not different, f"{len(different)} differ: {different[:3]}"
    assert our_folders.keys() == their_folders.keys(), f"folders {sorted(our_folders.keys() ^ their_folders.keys())}"
    wrong = {path: len(their_folders[path] ^ our_folders[path]) for path in their_folders}
    assert not any(wrong.values()), f"folders show what they should not, or not what they should: {wrong}"
    return len(theirs)


# --- a mailbox and its appliance --------------------------------------------------------------------------------------


class MirroredGmail(Mirrored):
    """A mailbox of Gmail, and an appliance that mirrors it through a proxy."""

    def __init__(self, box: GmailMailbox, folder: Path, messages: int, proxy: FaultProxy, smtp_port: int) -> None:
        self.box, self.proxy, self.user = box, proxy, box.address
        #: X-GM-MSGID to our id, when it was last compared.
        self.ids: dict[str, str] = {}
        seed(box, messages)
        self.appliance = RunningAppliance(folder, _SETTINGS)
        self.appliance.start().set_up()
        self.account_id = self.appliance.connect(self.user, imap_port=proxy.port, smtp_port=smtp_port)

    def check(self, patience: float, *, goes_on: bool = True) -> int:
        """Let it come to rest, compare what it tells, stop it, compare what it has, and start it again."""
        self.wait_until_complete(patience)
        wrong = self._wrong_counts()
        assert self.appliance.stop() == 0
        assert not self.box.expunged_in_all_mail
        count = assert_equal(self.box, self.appliance.folder)
        assert not wrong, f"counts of folders: {wrong}"
        self.ids = ids_in(self.appliance.folder)
        if goes_on:
            self.appliance.start()
        return count

    def rest(self, patience: float) -> None:
        """Let it come to rest, and compare what it tells."""
        self.wait_until_complete(patience)
        wrong = self._wrong_counts()
        assert not wrong, f"counts of folders: {wrong}"

    def _wrong_counts(self) -> list[object]:
        """The folders whose counts are not those at the double: path, ours, theirs."""
        told = self.appliance.ask("GET", f"/accounts/{self.account_id}/folders").data
        ours = {each["path"]: (each["totalCount"], each["unreadCount"]) for each in told}
        theirs = {
            path: (len(folder.members), sum("\\Seen" not in each.kept_flags for each in folder.members.values()))
            for path, folder in self.box.folders.items()
        }
        paths = [path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)]
        return [(path, ours.get(path), theirs.get(path)) for path in paths]


def seed(box: GmailMailbox, count: int) -> None:
    """Fill a mailbox with mail of some years, that has labels."""
    chance = random.Random(count)
    pool = (INBOX, INBOX, SENT, STARRED, IMPORTANT, *LABELS)
    for message in Corpus(box.address, count).messages(count):
        if b'boundary="never"' in message.source:
            continue  # where it is large only its parts are read, of which the double's reader tells none
        date = datetime.fromtimestamp(message.date, UTC)
        flags = ["\\Seen"] if "S" in message.flags else []
        place = chance.choices(_PLACES, (95, 3, 2))[0]
        some = chance.sample(pool, chance.choice((0, 1, 1, 1, 2, 3, 5))) if place == "all" else []
        box.deliver(message.source, *some, flags=flags, date=date, place=place, is_appended=True)
