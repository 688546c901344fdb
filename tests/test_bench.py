"""What `scripts/bench` can measure is documented; measuring itself is no test, since times depend on the machine."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "performance.md").read_text()


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A finished call."""
    return subprocess.run([ROOT / "scripts" / "bench", *arguments], capture_output=True, text=True, timeout=30)


def test_every_measurement_is_documented() -> None:
    listed = [line.split()[0] for line in bench("--list").stdout.splitlines()]
    assert "me" in listed
    assert [name for name in listed if f"\n| `{name}` |" not in DOCUMENT] == []


def test_a_name_that_is_not_known_is_refused() -> None:
    refused = bench("no-such-thing")
    assert refused.returncode == 2
    assert "no-such-thing" in refused.stderr


@pytest.mark.parametrize(
    ("value", "sense", "holds"), [(0.4, "at least", True), (0.39, "at least", False), (0.41, "at most", False)]
)
def test_a_target_that_is_missed_is_told(value: float, sense: str, holds: bool) -> None:
    program = (
        "from benchmarks.figures import Figure; from benchmarks.__main__ import _report;"
        f"raise SystemExit(_report([Figure('f', {value}, 0.4, '{sense}', '', 'm')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "scripts", capture_output=True, text=True, timeout=30
    )
    assert done.returncode == (0 if holds else 1), done.stderr
    assert ("MISSED" in done.stdout, "Missed: f" in done.stdout) == (not holds, not holds)
