"""How long to wait before trying again."""

import random
from collections.abc import Iterator


def backoff(first: float, longest: float, *, factor: float = 2.0, jitter: float = 0.2) -> Iterator[float]:
    """Seconds to wait before each next try: growing from `first` to `longest`, each varied by up to `jitter` of itself.

    The variation keeps many mailboxes of one server from knocking at the same moment.
    """
    wait = first
    while True:
        yield min(wait, longest) * (1 + random.uniform(-jitter, jitter))  # noqa: S311 - not for secrets
        wait = min(wait * factor, longest)


def delay(attempts: int, first: float, longest: float, *, factor: float = 2.0) -> float:
    """Seconds to wait after so many failed tries (1 is the first), without variation: what a stored schedule needs."""
    return float(min(longest, first * factor ** min(max(0, attempts - 1), 64)))
