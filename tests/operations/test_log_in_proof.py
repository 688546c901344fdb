"""The proof of `scripts/prove-logins` in short."""

from pathlib import Path

from tests.operations.log_in_proof import prove

LOG_INS, SEED = 260, 20261121


def test_log_ins_from_everywhere_never_pass_the_limits(tmp_path: Path) -> None:
    outcome = prove(tmp_path / "data", LOG_INS, SEED)
    # One address and one network were tried for more than they have, and one email.
    assert outcome.failures >= 30 + 30 + 5
    assert outcome.calm.count
    assert outcome.attacked.count
