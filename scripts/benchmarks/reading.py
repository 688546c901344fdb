"""Lists, messages, threads and searches through HTTP, one request after the other over a connection that is kept."""

import random
from collections.abc import Iterator

from benchmarks.asking import Asker, described, p95
from benchmarks.figures import Figure
from benchmarks.filling import filled
from benchmarks.options import OPTIONS
from benchmarks.questions import questions

_MESSAGES, _EACH = 1_000_000, 100
_CIPHER_MESSAGES, _ROUNDS = 200_000, 3


def measure() -> Iterator[Figure]:
    """Each path is asked for once, in mixed order, after a few others: no answer was there before."""
    count = OPTIONS.scaled(_MESSAGES, least=20_000)
    running = filled(OPTIONS.cache, count)
    try:
        with Asker(running) as asker:
            kinds = questions(asker, _EACH)
            took: dict[str, list[float]] = {kind.name: [] for kind in kinds}
            asked = [(kind.name, path) for kind in kinds for path in kind.paths]
            random.Random(5).shuffle(asked)
            for name, path in asked:
                took[name] += asker.milliseconds([path])
    finally:
        running.stop()
    for kind in kinds:
        values = took[kind.name]
        yield Figure(f"{kind.name}, {count:,}: p95", p95(values), kind.target, "at most", " ms", described(values))


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
