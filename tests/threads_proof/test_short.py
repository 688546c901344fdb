"""The proof of `scripts/prove-threads` in short: a round of each subject, and that a death would be seen."""

import pytest

from tests.threads_proof.child import SUBJECTS
from tests.threads_proof.proof import play

pytestmark = pytest.mark.slow

SEED = "20261123"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_threads_share_a_library(subject: str) -> None:
    tally = play(subject, 1, SEED, rounds=5)
    assert not tally.deaths, tally.traces
    assert tally.rounds


def test_a_death_is_counted_with_its_signal_and_stacks() -> None:
    tally = play("crash", 1, SEED)
    assert tally.deaths == {"SIGSEGV": 1}
    assert "in _crash" in tally.traces[0]
