"""What is asked of a store that `filling` made: many different paths of each kind, the same in every run."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from benchmarks.asking import Asker
from benchmarks.filling import SPAN, START, TINY, vocabulary

LARGEST = f"/accounts/acc_{1:026d}"
SHORT_PREFIX, IN_TINY = "search: common word, short prefix", "search: common word in a tiny folder"
COMMON = "search: common word"


@dataclass(frozen=True)
class Kind:
    """Paths of one kind."""

    name: str
    paths: tuple[str, ...]


def questions(asker: Asker, each: int) -> list[Kind]:
    """All kinds, with so many different paths each."""
    chance = random.Random(11)
    sample = _sample(asker, chance, each)
    return _reads(asker, chance, sample, each) + _searches(asker, chance, sample, each)


def _sample(asker: Asker, chance: random.Random, count: int) -> list[Any]:
    """Messages of all times and mailboxes."""
    found: list[Any] = []
    while len(found) < count:
        before = datetime.fromtimestamp(START + SPAN * chance.uniform(0.05, 1), UTC)
        found += asker.data(f"/messages?limit=5&before={before:%Y-%m-%dT%H:%M:%SZ}")["items"]
    return found[:count]


def _reads(asker: Asker, chance: random.Random, sample: Sequence[Any], each: int) -> list[Kind]:
    of = [f"/accounts/{one['accountId']}" for one in sample]
    folders = [f"folder={chance.choice(('inbox', 'archive', 'sent', 'Lists'))}" for _ in sample]
    return [
        Kind("list 50", tuple(f"{one}/messages?{folder}" for one, folder in zip(of, folders, strict=True))),
        Kind("list 50, further pages", _pages(asker, f"{LARGEST}/messages?folder=inbox", each)),
        Kind("list 50 of all mailboxes", _pages(asker, "/messages?limit=50", each)),
        Kind("get", tuple(f"{a}/messages/{one['id']}" for a, one in zip(of, sample, strict=True))),
        Kind("thread", tuple(f"{a}/threads/{one['threadId']}" for a, one in zip(of, sample, strict=True))),
    ]


def _pages(asker: Asker, path: str, count: int) -> tuple[str, ...]:
    """A list, and the pages that follow."""
    paths = [path]
    while len(paths) < count and (cursor := asker.data(paths[-1])["nextCursor"]):
        paths.append(f"{path}&cursor={cursor}")
    return tuple(paths)


def _searches(asker: Asker, chance: random.Random, sample: Sequence[Any], each: int) -> list[Kind]:
    words = vocabulary().words

    def kind(name: str, query: Callable[[], str], folder: str = "") -> Kind:
        return Kind(
            name,
            tuple(
                f"{LARGEST if folder or number % 2 else ''}/messages?q={quote(query())}{folder}"
                for number in range(each)
            ),
        )

    def common() -> str:
        return words[chance.randrange(100)]

    texts = [asker.data(f"/accounts/{one['accountId']}/messages/{one['id']}")["body"]["text"] for one in sample]
    phrases = iter([_phrase(chance, text) for text in texts])
    names = iter([one["from"]["name"].split()[-1] for one in sample])
    long = [word for word in words[100:20_000] if len(word) > 5]
    return [
        kind("search: rare word", lambda: words[chance.randrange(60_000, len(words))]),
        kind(COMMON, common),
        kind("search: two words", lambda: f"{common()} {words[chance.randrange(300, 3000)]}"),
        kind("search: phrase", lambda: f'"{next(phrases)}"'),
        kind("search: from:", lambda: f"from:{next(names)}"),
        kind("search: prefix of 3 or more", lambda: f"{chance.choice(long)[: chance.randint(3, 5)]}*"),
        kind(SHORT_PREFIX, lambda: f"{common()} {chance.choice(long)[:2]}*"),
        kind(IN_TINY, common, f"&folder={TINY}"),
    ]


def _phrase(chance: random.Random, text: str) -> str:
    sentence = chance.choice(text.split(". ")).split()
    at = chance.randrange(max(1, len(sentence) - 2))
    return " ".join(sentence[at : at + chance.choice((2, 3))])
