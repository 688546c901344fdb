"""What `scripts/bench` can measure is documented; measuring itself is no test, since times depend on the machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "explanation" / "performance.md").read_text()


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
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


def in_benchmarks(program: str) -> subprocess.CompletedProcess[str]:
    """What a few lines print where the measurements can be imported."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / "scripts",
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_the_95th_of_a_hundred() -> None:
    program = "from benchmarks.asking import p95; print(p95(range(1, 101)), p95([7]), p95([3, 1, 2]))"
    assert in_benchmarks(program).stdout.split() == ["95", "7", "3"]


def test_what_is_left_out_is_no_target_that_holds() -> None:
    program = (
        "import os; os.environ['PATH'] = '/nowhere'; import benchmarks.__main__ as bench;"
        "raise SystemExit(bench.main(['first-sync']))"
    )
    done = in_benchmarks(program)
    assert done.returncode == 1, done.stderr
    assert "first-sync: left out" in done.stdout
    assert "scripts/setup --bench" in done.stdout


def test_the_size_of_a_run_is_heeded() -> None:
    program = (
        "from benchmarks.options import OPTIONS; OPTIONS.scale = 0.1;"
        "print(OPTIONS.scaled(20_000), OPTIONS.scaled(100), OPTIONS.scaled(100, least=10))"
    )
    assert in_benchmarks(program).stdout.split() == ["2000", "100", "10"]


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_store_is_filled_and_read(tmp_path: Path, is_plain: bool) -> None:
    program = f"""
from pathlib import Path
from benchmarks.asking import Asker
from benchmarks.filling import filled
from benchmarks.questions import questions
running = filled(Path({str(tmp_path)!r}), 400, is_plain={is_plain})
try:
    with Asker(running) as asker:
        print(sum(folder["totalCount"] for account in asker.data("/accounts")
                  for folder in asker.data(f"/accounts/{{account['id']}}/folders")))
        print(sum(asker.data(path).get("items") != [] for kind in questions(asker, 4) for path in kind.paths))
finally:
    running.stop()
"""
    done = in_benchmarks(program)
    assert done.returncode == 0, done.stderr
    count, with_something = map(int, done.stdout.split())
    assert count == 400
    assert with_something >= 24
    with next(tmp_path.rglob("mailbox.db")).open("rb") as file:
        assert (file.read(15) == b"SQLite format 3") == is_plain


@pytest.mark.parametrize("program", ["benchmarks.unassisted", "benchmarks.plain"])
def test_a_service_that_is_made_for_a_measurement_serves(tmp_path: Path, program: str) -> None:
    argv = (sys.executable, "-m", program, "--data-dir", str(tmp_path / "data"), "serve", "--port", "0", "--ready-json")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = process.stdout.readline()
        process.terminate()
        assert json.loads(ready or "{}").get("event") == "ready", process.stderr.read()
