"""The proof of `scripts/prove-logins` in short."""

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.operations.log_in_proof import Outcome, prove
from tests.servers.prober import Latency

LOG_INS, SEED = 260, 20261121


@pytest.mark.slow
def test_log_ins_from_everywhere_never_pass_the_limits(tmp_path: Path) -> None:
    outcome = prove(tmp_path / "data", LOG_INS, SEED)
    assert outcome.statuses.keys() >= {400, 401, 429}
    assert outcome.failures >= 40
    # How quick it is depends on what else the computer does. Who waits for all who log in waits for longer than this.
    for latency in (outcome.calm, outcome.attacked, outcome.crowded):
        assert latency.count
        assert latency.worst < 5000


def latency(median: float) -> Latency:
    return Latency(100, median, 2 * median, 3 * median)


#: Medians in milliseconds: in peace, under attack, in a crowd.
JUDGED = {
    "as quick": (3, 4, 5, True),
    "slower, but who notices": (1, 49, 49, True),
    "felt, on a slow computer": (30, 290, 290, True),
    "starved by attackers": (3, 51, 5, False),
    "a crowd that waits for each other": (3, 5, 500, True),
}


@pytest.mark.parametrize(("calm", "attacked", "crowded", "passes"), JUDGED.values(), ids=list(JUDGED))
def test_who_starves_is_found(calm: float, attacked: float, crowded: float, *, passes: bool) -> None:
    medians = (latency(calm), latency(attacked), latency(crowded))
    outcome = Outcome(Counter(), 0, *medians, Counter({200: 1}), 1, 1)
    with nullcontext() if passes else pytest.raises(AssertionError, match="GET /me"):
        outcome.require_quick()
