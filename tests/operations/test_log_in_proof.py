"""The proof of `scripts/prove-logins` in short."""

from pathlib import Path

from tests.operations.log_in_proof import prove

LOG_INS, SEED = 260, 20261121


def test_log_ins_from_everywhere_never_pass_the_limits(tmp_path: Path) -> None:
    outcome = prove(tmp_path / "data", LOG_INS, SEED)
    assert outcome.statuses.keys() >= {400, 401, 429}
    assert outcome.failures >= 40
    assert outcome.calm.count
    assert outcome.attacked.count
