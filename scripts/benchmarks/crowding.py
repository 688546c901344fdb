"""How long GET /me takes over HTTPS while crowds of bad clients stand there, beside how long it took in peace."""

import time
from collections.abc import Iterator

from benchmarks import stage
from benchmarks.figures import Figure, spread
from benchmarks.securing import SECURE
from tests.servers.crowd import Crowd, Plan
from tests.servers.prober import Latency, Prober

_SECONDS, _ROUNDS = 4.0, 5
#: Seconds after all have come: what it takes to let them in is no part of what is compared.
_SETTLED = 4.0
#: Who comes, over HTTPS and over HTTP.
_SECURE = {"silent": 200, "half-hello": 100, "slow-header": 150, "slow-body": 150}
_PLAIN = {"silent": 300, "slow-header": 150, "slow-body": 150}
_MANY = 600


def measure() -> Iterator[Figure]:
    """Peace and crowd in turn; from an address each, and all from the one that the good clients have, too."""
    with stage.scratch() as folder, stage.appliance(folder / "data", SECURE) as running:
        secure, token = str(running.https), running.token or ""
        for url, members in ((secure, _SECURE), (running.url, _PLAIN)):
            for sources in (_MANY, 1):
                yield _beside(url, Plan(url, members, sources), token)


def _beside(url: str, plan: Plan, token: str) -> Figure:
    scheme = url.partition(":")[0]
    place = url if scheme == "https" else url.removeprefix("http://")
    _asked(place, token, 1)
    peace, crowded = [], []
    for _ in range(_ROUNDS):
        peace.append(_asked(place, token))
        with Crowd(plan):
            time.sleep(_SETTLED)
            crowded.append(_asked(place, token))
    before, during = [one.p95 for one in peace], [one.p95 for one in crowded]
    where = "an address each" if plan.sources > 1 else "our own address"
    return Figure(
        f"p95 of GET /me, {scheme}, {sum(plan.members.values())} bad clients of {where}",
        sorted(during)[_ROUNDS // 2] / sorted(before)[_ROUNDS // 2],
        2,
        "at most",
        "x",
        f"{spread(during, '.1f')} ms",
        f"in peace: {spread(before, '.1f')} ms",
    )


def _asked(place: str, token: str, seconds: float | None = None) -> Latency:
    prober = Prober(place, token)
    time.sleep(seconds or _SECONDS)
    return prober.stop()
