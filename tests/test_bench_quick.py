"""Every measurement of `scripts/bench` runs through at a tiny size and has figures; which, no test asserts."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MEASUREMENTS = (
    *("me", "start", "memory", "help", "cli", "send", "stall", "first-sync", "resync", "label-sync", "labels"),
    *("delivered", "watching", "reading", "reading-notmuch", "reading-large", "peers", "cipher", "backup", "https"),
    *("crowd", "mcp", "events", "uploads", "console", "upgrade"),
)
#: The packages are built, started and weighed by tests/packaging; the others are the same with more messages.
ELSEWHERE = ("package", "first-sync-small", "first-sync-large")
pytestmark = pytest.mark.slow


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "scripts" / "bench", *arguments], capture_output=True, text=True, timeout=300)


def test_all_are_here() -> None:
    listed = [line.split()[0] for line in bench("--list").stdout.splitlines()]
    assert sorted(listed) == sorted(MEASUREMENTS + ELSEWHERE)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores that several measurements read."""
    return tmp_path_factory.mktemp("bench")


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_a_measurement_runs_through(name: str, cache: Path) -> None:
    done = bench("--quick", name, "--cache", cache)
    assert done.returncode == 0, done.stdout + done.stderr
    if "left out" in done.stdout:
        pytest.skip(done.stdout)


def test_growth_is_measured(cache: Path) -> None:
    done = bench("growth", "--quick", "2000", "--cache", cache)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "backup" in done.stdout
