"""The full-text index contains exactly the stored messages, with their current words."""

import random
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from mailbox_appliance.mail.search import match_expression
from mailbox_appliance.model.messages import Address, ParsedMessage, SearchTerm
from mailbox_appliance.model.sync import MessageIdentity
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox, execute, fetched, parsed

PATHS = ("INBOX", "Sent", "Junk")


def found(store: Store, words: str) -> list[int]:
    """Return the numbers of the messages that contain these words as a phrase."""
    sql = "SELECT rowid FROM message_index WHERE message_index MATCH ? ORDER BY rowid"
    return [row[0] for row in store.database.rows(sql, (match_expression([SearchTerm(words)]),))]


#: A message, words that find it, and words that do not.
INDEXED: list[tuple[ParsedMessage, list[str], list[str]]] = [
    (parsed(subject="Grüße vom See", text="Der Fluß"), ["GRUẞE", "grüße vom", "see", "fluß"], ["seen"]),
    (replace(parsed(text=""), text=None, html="<p>Hello <b>there</b><script>var x</script>"), ["hello there"], ["var"]),
    (replace(parsed(text="Text"), html="<p>Markup"), ["text"], ["markup"]),
    (parsed(text="東京都の天気"), ["京都", "天気", "都の天"], ["都京"]),
    (
        parsed(text="before " + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5" + " after"),
        ["after"],
        ["QUJD"],
    ),
    (parsed(text="word " * 250_000 + "end"), ["word"], ["end"]),
    (
        replace(parsed(), to=(Address(email="x@to.example"),), cc=(Address(email="y@cc.example", name="Carbon"),)),
        ["to.example", "carbon", "bob@example.test"],
        ["ada"],
    ),
    (replace(parsed(text="Text"), searched="made before"), ["made before"], ["text"]),
]


@pytest.mark.parametrize(("message", "by", "not_by"), INDEXED)
def test_what_a_message_is_found_by(
    store: Store, mailbox: Mailbox, message: ParsedMessage, by: list[str], not_by: list[str]
) -> None:
    mailbox.add(1, message)
    numbers = [row[0] for row in store.database.rows("SELECT number FROM messages")]
    assert {words: found(store, words) for words in by} == dict.fromkeys(by, numbers)
    assert not any(found(store, words) for words in not_by)


# --- random changes -------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """A server, as folder -> UID -> name of a message, and the updates of its mirror."""

    mailbox: Mailbox
    random: random.Random
    folders: dict[str, dict[int, str]] = field(default_factory=lambda: {path: {} for path in PATHS})
    whole: set[str] = field(default_factory=set)
    count: int = 0

    def message(self, name: str, *, is_whole: bool) -> ParsedMessage:
        """Return a message whose subject is its name, and whose body is another word for it."""
        text = f"body{name}" if is_whole else ""
        return parsed(f"<{name}@x>", subject=name, text=text, references=[f"<{int(name[1:]) // 3}@ref>"])

    def step(self) -> None:
        """Change a few messages of a folder."""
        path = self.random.choice(PATHS)
        steps = (self.deliver, self.deliver, self.list_headers, self.fill, self.move, self.renumber, self.remove)
        self.random.choice(steps)(path)

    def names(self, path: str) -> list[tuple[int, str]]:
        there = sorted(self.folders[path].items())
        return self.random.sample(there, self.random.randint(0, len(there)))

    def new(self, path: str) -> list[tuple[int, str]]:
        """Add messages on the server."""
        made = []
        for _ in range(self.random.randint(1, 8)):
            self.count += 1
            made.append((self.count, f"m{self.count}"))
        self.folders[path].update(made)
        return made

    def deliver(self, path: str) -> None:
        new = self.new(path)
        self.whole.update(name for _, name in new)
        batch = [(fetched(uid, after=uid // 20), self.message(name, is_whole=True)) for uid, name in new]
        self.mailbox.store.mailbox_writer.add(self.mailbox.folder(path), batch)

    def list_headers(self, path: str) -> None:
        batch = [(fetched(uid, after=uid // 20), self.message(name, is_whole=False)) for uid, name in self.new(path)]
        self.mailbox.store.mailbox_writer.add_headers(self.mailbox.folder(path), batch[::-1])

    def fill(self, path: str) -> None:
        there = self.names(path)
        self.whole.update(name for _, name in there)
        batch = [(fetched(uid), self.message(name, is_whole=True)) for uid, name in there]
        self.mailbox.store.mailbox_writer.add_bodies(self.mailbox.folder(path), batch)

    def move(self, path: str) -> None:
        there = self.names(path)
        target = self.random.choice(PATHS)
        self.take(path, there)
        self.settle(target, there)

    def renumber(self, path: str) -> None:
        there = sorted(self.folders[path].items())
        self.folders[path].clear()
        self.mailbox.store.mailbox_writer.detach(self.mailbox.folder(path).number, None)
        self.settle(path, there)

    def remove(self, path: str) -> None:
        self.take(path, self.names(path))
        self.mailbox.store.mailbox_writer.purge_gone(self.mailbox.id)

    def take(self, path: str, there: list[tuple[int, str]]) -> None:
        for uid, _ in there:
            del self.folders[path][uid]
        self.mailbox.store.mailbox_writer.detach(self.mailbox.folder(path).number, [uid for uid, _ in there])

    def settle(self, path: str, messages: list[tuple[int, str]]) -> None:
        """Report gone messages as seen again, under new UIDs."""
        sightings = []
        for _, name in messages:
            self.count += 1
            self.folders[path][self.count] = name
            first = fetched(0, after=int(name[1:]) // 20)
            sightings.append(MessageIdentity(self.count, first.flags, f"{name}@x", first.size, first.internal_date))
        settled = self.mailbox.store.mailbox_writer.reattach(self.mailbox.folder(path), sightings)
        assert len(settled) == len(messages)

    def check(self) -> None:
        """Check that the mirror, its threads and its index equal the server."""
        store = self.mailbox.store
        for path, there in self.folders.items():
            assert store.mailbox_writer.load_flags(self.mailbox.folder(path).number).keys() == there.keys()
        everything = {name for there in self.folders.values() for name in there.values()}
        numbers: dict[str, int] = dict(store.database.rows("SELECT subject, number FROM messages"))
        assert numbers.keys() == everything
        assert [row[0] for row in store.database.rows("SELECT id FROM message_index_docsize ORDER BY id")] == sorted(
            numbers.values()
        )
        for name, number in numbers.items():
            assert found(store, name) == [number]
            assert found(store, f"body{name}") == ([number] if name in self.whole else [])
        assert store.database.value("SELECT count(*) FROM bodies") == len(everything)
        empty = "SELECT count(*) FROM threads t WHERE NOT EXISTS (SELECT 1 FROM messages WHERE thread = t.number)"
        assert store.database.value(empty) == 0


@pytest.mark.parametrize("seed", range(12))
def test_the_index_follows_whatever_happens(store: Store, mailbox: Mailbox, seed: int) -> None:
    server = Server(mailbox, random.Random(seed))
    for number in range(100):
        server.step()
        if number % 20 == 19:
            server.mailbox.store.mailbox_writer.purge_gone(mailbox.id)
            server.check()
            store.cleaner.merge_index()
            server.check()
    execute(store, "INSERT INTO message_index (message_index) VALUES ('integrity-check')")
