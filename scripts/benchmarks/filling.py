"""Fills a store with as many messages as are asked for, straight into its tables: a million in two minutes.

Words follow Zipf's law over 120,000 of them, those of mail in four languages or those made of syllables. Mailboxes have
very different sizes, and the first one has a tiny folder. The index is merged at the end, as the appliance merges it
when writing pauses; otherwise the measurements would compete with that.
"""

import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.plain import ARGV, leave_out_encryption
from mailbox_appliance.model.messages import Address
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.store import Store
from tests.servers.running import PASSWORD, RunningAppliance
from tests.servers.vocabulary import MailVocabulary, Vocabulary, reference

#: To be raised when other messages are made: a store in the cache is then made anew, as when the format changes.
VERSION = 3
_SHARES = (0.5, 0.25, 0.15, 0.08, 0.02)  # of the messages, by mailbox, where there are five
_FOLDERS = (("INBOX", "inbox", 0.45), ("Archive", "archive", 0.4), ("Sent", "sent", 0.1), ("Lists", None, 0.05))
TINY, TINY_MESSAGES = "Tiny", 40
BATCH, START, SPAN = 10_000, 1_500_000_000, 8 * 365 * 86_400
_MESSAGES = (
    "INSERT INTO messages (number, id, account, folder, uid, thread, message_id, flags, date, internal_date, size,"
    " subject, snippet, people) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_BODIES = "INSERT INTO bodies (number, text, headers) VALUES (?, ?, ?)"
_THREADS = "INSERT INTO threads (number, id, account, base_subject, newest) VALUES (?, ?, ?, ?, ?)"
_LINKS = "INSERT INTO thread_links VALUES (?, ?, ?)"
_INDEX = "INSERT INTO message_index (subject, sender, recipients, body, scope, rowid) VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class Filling:
    """What a store is filled with. `is_plain`: without encryption. `syllables`: words of random syllables."""

    count: int
    mailboxes: int = len(_SHARES)
    is_plain: bool = False
    syllables: bool = False

    @property
    def name(self) -> str:
        """The name of its folder in the cache."""
        marks = ("plain" if self.is_plain else "encrypted", *(["syllables"] if self.syllables else []))
        return "-".join((*marks, str(self.count), *([f"in-{self.mailboxes}"] if self.mailboxes != 5 else [])))

    @property
    def shares(self) -> Sequence[float]:
        """The part of the messages in each mailbox; of many mailboxes few are large."""
        if self.mailboxes == len(_SHARES):
            return _SHARES
        return [1 / (rank + 3) for rank in range(self.mailboxes)]


def vocabulary(*, syllables: bool = False) -> MailVocabulary | Vocabulary:
    """The words of such a store, the most frequent first."""
    return Vocabulary(120_000, seed=7) if syllables else MailVocabulary(120_000, seed=7)


def filled(
    cache: Path, count: int, *, mailboxes: int = len(_SHARES), is_plain: bool = False, syllables: bool = False
) -> RunningAppliance:
    """A started appliance with so many messages; its store is made where the cache has none that fits."""
    running = _appliance(prepared(cache, Filling(count, mailboxes, is_plain, syllables)), is_plain).start()
    request = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "bench"}
    answer = running.ask("POST", "/auth/login", request)
    assert answer.status == 200, answer
    running.token = answer.data["token"]
    return running


def prepared(cache: Path, filling: Filling) -> Path:
    """The data directory of such a store, which nobody serves yet. It is made where the cache has none that fits."""
    folder = cache / filling.name
    stamp = folder / "filled"
    wanted = hashlib.sha256(f"{VERSION} {format_5.SCHEMA}".encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder / "data", filling)
        stamp.write_text(wanted)
    return folder / "data"


def _make(data: Path, filling: Filling) -> None:
    data.parent.mkdir(parents=True)
    running = _appliance(data, filling.is_plain).start()
    running.set_up()
    running.stop()
    command = [sys.executable, "-m", "benchmarks.filling", str(data), json.dumps(astuple(filling))]
    subprocess.run(command, check=True)


def _appliance(data: Path, is_plain: bool) -> RunningAppliance:
    return RunningAppliance(data, argv=ARGV if is_plain else None)


def _fill(data: Path, filling: Filling) -> None:
    store = Store.open(data)
    database = store.database
    # A store that is lost in a crash is made again.
    for pragma in ("cache_size = -262144", "synchronous = off"):
        database.rows(f"PRAGMA {pragma}")
    with database.transaction():
        mailboxes = [_Mailbox.make(database, number) for number in range(1, filling.mailboxes + 1)]
    messages = _Generator(mailboxes, filling).messages()
    while batch := list(islice(messages, BATCH)):
        with database.transaction():
            for sql, rows in zip((_THREADS, _LINKS, _MESSAGES, _BODIES, _INDEX), zip(*batch, strict=True), strict=True):
                database.change_many(sql, [row for row in rows if row is not None])
    _merge_index(database)
    database.rows("PRAGMA optimize")
    store.close()


def _merge_index(database: Database) -> None:
    structure = "SELECT block FROM message_index_data WHERE id = 10"
    before = None
    while (now := database.value(structure)) != before:
        before = now
        with database.transaction():
            database.change("INSERT INTO message_index (message_index, rank) VALUES ('merge', 5000)")


@dataclass
class _Mailbox:
    """A mailbox that is being filled."""

    number: int
    folders: tuple[int, ...]
    tiny: int
    uids: dict[int, int]
    threads: list[tuple[int, str, "_Phrases"]]

    @classmethod
    def make(cls, database: Any, number: int) -> "_Mailbox":
        """Its rows. Nothing listens where its server is said to be, so that nobody changes it."""
        endpoint = {"host": "127.0.0.1", "port": 9, "security": "none", "username": f"user{number}"}
        database.change(
            "INSERT INTO accounts (id, owner_member_id, email, provider, connection, secret, created_at, last_sync_at)"
            " SELECT ?, id, ?, 'imap', ?, ?, created_at, created_at FROM members",
            (
                f"acc_{number:026d}",
                f"user{number}@example.test",
                json.dumps({"imap": endpoint, "smtp": endpoint}),
                json.dumps({"imapPassword": "secret", "smtpPassword": "secret"}),
            ),
        )
        folders = []
        for place, (path, role, _) in enumerate((*_FOLDERS, (TINY, None, 0))):
            folders.append(number * 10 + place)
            database.change(
                "INSERT INTO folders (number, id, account, path, name, delimiter, role, role_source)"
                " VALUES (?, ?, ?, ?, ?, '/', ?, ?)",
                (folders[-1], f"fld_{folders[-1]:026d}", number, path, path, role, role and "extension"),
            )
        return cls(number, tuple(folders[:-1]), folders[-1], dict.fromkeys(folders, 0), [])


_Rows = tuple[Sequence[object] | None, ...]


class _Generator:
    """Makes the rows of messages, the oldest first."""

    def __init__(self, mailboxes: Sequence[_Mailbox], filling: Filling) -> None:
        self._chance = chance = random.Random(7)
        self._mailboxes, self._count = mailboxes, filling.count
        self._weights = list(accumulate(filling.shares))
        self._phrases, self._has_references = _phrases(chance, filling), not filling.syllables
        words = vocabulary(syllables=filling.syllables)
        self._people = [_person(words.words, chance, number) for number in range(4000)]
        self._next_thread = 1

    def messages(self) -> Iterator[_Rows]:
        """A row for each table, or None where there is none."""
        count = self._count
        tiny = {count * step // TINY_MESSAGES for step in range(TINY_MESSAGES)}
        for number in range(count):
            mailbox = self._chance.choices(self._mailboxes, cum_weights=self._weights)[0]
            yield self._message(mailbox, number, START + SPAN * number // count, is_tiny=number in tiny)

    def _message(self, mailbox: _Mailbox, count: int, second: int, *, is_tiny: bool) -> _Rows:
        chance = self._chance
        if is_tiny:
            mailbox = self._mailboxes[0]
        number, message_id = (second << 4) + count % 16, f"{count}.{second}@example.org"
        thread, subject, phrases, thread_row = self._thread(mailbox, second)
        folder = mailbox.tiny if is_tiny else chance.choices(mailbox.folders, [part for *_, part in _FOLDERS])[0]
        mailbox.uids[folder] += 1
        sender, receiver = (self._people[int(chance.paretovariate(0.5)) % len(self._people)] for _ in range(2))
        sentences = chance.choices(phrases.sentences, k=max(1, int(chance.lognormvariate(1.6, 0.8))))
        text = ". ".join([*sentences, reference(chance)] if self._has_references else sentences)
        flags = (1 if chance.random() < 0.9 else 0) | (2 if chance.random() < 0.01 else 0)
        people = f'{{"sender":{sender[0]},"to":[{receiver[0]}],"cc":[],"bcc":[],"reply_to":[]}}'
        message = (
            number, f"msg_{count:026d}", mailbox.number, folder, mailbox.uids[folder], thread, message_id, flags,
            second * 1000, second * 1000, len(text) + 900, subject, text[:160], people,
        )  # fmt: skip
        headers = f'{{"From":"{sender[1]}","To":"{receiver[1]}","Message-ID":"<{message_id}>","MIME-Version":"1.0"}}'
        index = (subject, sender[1], receiver[1], text, f"a{mailbox.number}", number)
        return thread_row, (mailbox.number, message_id, thread), message, (number, text, headers), index

    def _thread(self, mailbox: _Mailbox, second: int) -> tuple[int, str, "_Phrases", _Rows | None]:
        if mailbox.threads and self._chance.random() < 0.5:
            number, subject, phrases = self._chance.choice(mailbox.threads[-300:])
            return number, f"Re: {subject}", phrases, None
        number, self._next_thread = self._next_thread, self._next_thread + 1
        phrases = self._chance.choice(self._phrases)
        subject = self._chance.choice(phrases.subjects)
        mailbox.threads.append((number, subject, phrases))
        row: Any = (number, f"thr_{number:026d}", mailbox.number, subject, second * 1000)
        return number, subject, phrases, row


@dataclass(frozen=True)
class _Phrases:
    """Texts of one language, of which messages are made."""

    sentences: Sequence[str]
    subjects: Sequence[str]


def _phrases(chance: random.Random, filling: Filling) -> Sequence[_Phrases]:
    """Twenty sets, as many of each language as its share says."""
    words = vocabulary(syllables=filling.syllables)
    languages = words.languages if isinstance(words, MailVocabulary) else [(words, 1)]
    each = min(200_000, filling.count) // 20

    def texts(language: Vocabulary, count: int, least: int, most: int) -> Sequence[str]:
        return [" ".join(language.choose(chance, chance.randint(least, most))) for _ in range(count)]

    return [
        _Phrases(texts(language, each, 6, 18), texts(language, each // 4, 2, 7))
        for language, share in languages
        for _ in range(round(20 * share))
    ]


def _person(words: Sequence[str], chance: random.Random, number: int) -> tuple[str, str]:
    """As JSON, and as text. Names are rarer than the words of a text."""
    first, last = (chance.choice(words[2000:12_000]) for _ in range(2))
    email = f"{first}{number}@example.org"
    return msgspec.json.encode(Address(email=email, name=f"{first} {last}")).decode(), f"{first} {last} {email}"


if __name__ == "__main__":
    filling = Filling(*json.loads(sys.argv[2]))
    if filling.is_plain:
        leave_out_encryption()
    _fill(Path(sys.argv[1]), filling)
