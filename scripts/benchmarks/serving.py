"""GET /api/v1/me beside a bare WSGI application on the same server class, over 8 connections that are kept."""

from collections.abc import Iterator

from benchmarks import stage
from benchmarks.bare import bare_server
from benchmarks.figures import Figure, ratio_of, spread
from benchmarks.wire import load

_CONNECTIONS, _SECONDS, _ROUNDS = 8, 3.0, 5


def measure() -> Iterator[Figure]:
    """Rounds in turn, so that both see the same machine."""
    with stage.scratch() as folder, stage.appliance(folder / "data") as running, bare_server() as bare:
        token = running.token or ""

        def ours(seconds: float) -> float:
            return load(running.url, "/api/v1/me", connections=_CONNECTIONS, seconds=seconds, token=token).rate

        def floor(seconds: float) -> float:
            return load(bare, "/", connections=_CONNECTIONS, seconds=seconds).rate

        ours(0.5), floor(0.5)
        rates = [(ours(_SECONDS), floor(_SECONDS)) for _ in range(_ROUNDS)]
    me, hello = zip(*rates, strict=True)
    yield Figure(
        "GET /me over bare WSGI",
        ratio_of(me, hello),
        0.6,
        "at least",
        "",
        f"{spread(me)} a second",
        f"bare: {spread(hello)} a second",
    )
