"""Lists, messages, threads and searches through HTTP, one request after the other over a connection that is kept."""

import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from benchmarks import maildirs, peers
from benchmarks.asking import Asker, described, p95
from benchmarks.figures import Figure, spread
from benchmarks.filling import Filling, filled, prepared
from benchmarks.options import OPTIONS
from benchmarks.questions import COMMON, IN_TINY, SHORT_PREFIX, Kind, questions
from benchmarks.statements import BareSearches

_MESSAGES, _EACH = 1_000_000, 100
_LARGE_MESSAGES, _LARGE_MAILBOXES = 5_000_000, 300
_CIPHER_MESSAGES, _ROUNDS = 200_000, 3
_PEER_EACH = 20
#: Words that notmuch reads as operators.
_OPERATORS = frozenset({"and", "or", "not", "xor", "near", "adj"})
_OVER_ME, _OVER_SQL, _OVER_NOTMUCH, _OVER_SMALLER = 2.5, 1.8, 0.4, 1.5
_OVER_COMMON = {SHORT_PREFIX: 4.0, IN_TINY: 1.5}


@dataclass
class _Times:
    """Milliseconds by the name of a kind; those of GET /me under its path."""

    ours: dict[str, list[float]] = field(default_factory=dict)
    sql: dict[str, list[float]] = field(default_factory=dict)


def measure() -> Iterator[Figure]:
    """Each path is asked for once, in mixed order, after a few others: no answer was there before."""
    count = OPTIONS.scaled(_MESSAGES, least=20_000)
    running = filled(OPTIONS.cache, count)
    try:
        with Asker(running) as asker, closing(BareSearches(running.folder)) as bare:
            kinds = questions(asker, _EACH)
            times = _measured(asker, bare, running.folder, kinds)
    finally:
        running.stop()
    for kind in kinds:
        yield _figure(kind.name, f"{kind.name}, {count:,}: p95", times)


def _measured(asker: Asker, bare: BareSearches, data: Path, kinds: Sequence[Kind]) -> _Times:
    """In turns with the paths, GET /me is asked for, and the statements of a search are executed on a connection that
    has executed all of them once.
    """
    _read_once(data)
    asked = _mixed(kinds)
    said = {path: bare.statements(path) for name, path in asked if _is_search(name)}
    times = _Times()
    for name, path in asked:
        times.ours.setdefault(name, []).extend(asker.milliseconds([path]))
        times.ours.setdefault("/me", []).extend(asker.milliseconds(["/me"]))
        if path in said:
            times.sql.setdefault(name, []).append(bare.milliseconds(said[path]))
    return times


def _figure(name: str, title: str, times: _Times) -> Figure:
    ours, me = times.ours[name], times.ours["/me"]
    if name in _OVER_COMMON:
        common, most = times.ours[COMMON], _OVER_COMMON[name]
        ratio = p95(ours) / p95(common)
        return Figure(f"{title} over a common word", ratio, most, "at most", "x", described(ours), described(common))
    if not _is_search(name):
        ratio = p95(ours) / p95(me)
        return Figure(f"{title} over GET /me", ratio, _OVER_ME, "at most", "x", described(ours), described(me))
    sql = times.sql[name]
    beside = f"{described(sql, '.2f')}; GET /me p95 {p95(me):.1f} ms"
    return Figure(
        f"{title} over its bare SQL", p95(ours) / p95(sql), _OVER_SQL, "at most", "x", described(ours), beside
    )


def _mixed(kinds: Sequence[Kind]) -> list[tuple[str, str]]:
    asked = [(kind.name, path) for kind in kinds for path in kind.paths]
    random.Random(5).shuffle(asked)
    return asked


def _is_search(name: str) -> bool:
    return name.startswith("search")


def _read_once(data: Path) -> None:
    """Let the system keep the store's file in memory, as far as there is room, whoever used that before."""
    with (data / "mailbox.db").open("rb") as file:
        while file.read(1 << 22):
            pass


def measure_large() -> Iterator[Figure]:
    """The same in turns on a store of a million messages, and on five times as many in 300 mailboxes."""
    count, large = OPTIONS.scaled(_MESSAGES, least=20_000), OPTIONS.scaled(_LARGE_MESSAGES, least=100_000)
    mailboxes = _LARGE_MAILBOXES
    smaller, larger = filled(OPTIONS.cache, count), filled(OPTIONS.cache, large, mailboxes=mailboxes)
    try:
        with Asker(smaller) as one, Asker(larger) as other:
            kinds, others = questions(one, _EACH), questions(other, _EACH)
            for running in (smaller, larger):
                _read_once(running.folder)
            took: tuple[dict[str, list[float]], ...] = ({}, {})
            for pair in zip(_mixed(kinds), _mixed(others), strict=False):
                for asker, times, (name, path) in zip((one, other), took, pair, strict=True):
                    times.setdefault(name, []).extend(asker.milliseconds([path]))
    finally:
        smaller.stop()
        larger.stop()
    for kind in kinds:
        before, after = (times[kind.name] for times in took)
        title = f"{kind.name}, {large:,} in {mailboxes} mailboxes: p95 over {count:,}"
        ratio = p95(after) / p95(before)
        yield Figure(title, ratio, _OVER_SMALLER, "at most", "x", described(after), described(before))


def measure_notmuch() -> Iterator[Figure]:
    """Searches of all mailboxes, in turns with notmuch on the same messages; each from the start of its process."""
    peers.need("notmuch")
    count = OPTIONS.scaled(_MESSAGES, least=20_000)
    mail = maildirs.indexed(prepared(OPTIONS.cache, Filling(count)))
    running = filled(OPTIONS.cache, count)
    try:
        with Asker(running) as asker:
            kinds = [
                kind for kind in questions(asker, _EACH) if _is_search(kind.name) and kind.name not in _OVER_COMMON
            ]
            _read_once(running.folder)
            for kind in kinds:
                ours, theirs = [], []
                queries = [parse_qs(urlsplit(path).query)["q"][0] for path in kind.paths]
                for query in [one for one in queries if not _OPERATORS.intersection(one.split())][:_PEER_EACH]:
                    ours += asker.milliseconds([f"/messages?{urlencode({'q': query})}"])
                    theirs.append(peers.notmuch_search(mail, query)[0] * 1000)
                ratio, said = statistics.median(ours) / statistics.median(theirs), f"{spread(ours, '.1f')} ms"
                title = f"{kind.name}, {count:,}: median over notmuch"
                yield Figure(title, ratio, _OVER_NOTMUCH, "at most", "x", said, f"{spread(theirs, '.1f')} ms")
    finally:
        running.stop()


def measure_cipher() -> Iterator[Figure]:
    """In turns, path by path; the ratio is of the sums of each kind's fastest rounds."""
    count = OPTIONS.scaled(_CIPHER_MESSAGES, least=20_000)
    encrypted = filled(OPTIONS.cache, count)
    plain = filled(OPTIONS.cache, count, is_plain=True)
    with (plain.folder / "mailbox.db").open("rb") as file:
        assert file.read(15) == b"SQLite format 3", "the plain store is not plain"
    try:
        with Asker(encrypted) as ours, Asker(plain) as beside:
            kinds = questions(beside, _EACH)
            ratios, sums = [], [0.0, 0.0]
            for kind in kinds:
                pair = _sums(ours, beside, kind.paths)
                ratios.append((pair[0] / pair[1], kind.name))
                sums = [sums[0] + pair[0], sums[1] + pair[1]]
    finally:
        encrypted.stop()
        plain.stop()
    said = f"from {min(ratios)[0]:.2f} ({min(ratios)[1]}) to {max(ratios)[0]:.2f} ({max(ratios)[1]})"
    requests = _EACH * len(kinds)
    beside_it = f"{sums[0] / requests:.2f} and {sums[1] / requests:.2f} ms each"
    yield Figure(f"reads, encrypted over plain, {count:,}", sums[0] / sums[1], 1.3, "at most", "x", said, beside_it)


def _sums(ours: Asker, beside: Asker, paths: tuple[str, ...]) -> tuple[float, float]:
    best: list[tuple[float, float]] = []
    for path in paths:
        rounds = [(ours.milliseconds([path])[0], beside.milliseconds([path])[0]) for _ in range(_ROUNDS)]
        best.append((min(one for one, _ in rounds), min(other for _, other in rounds)))
    return sum(one for one, _ in best), sum(other for _, other in best)
