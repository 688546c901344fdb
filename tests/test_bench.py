"""What `scripts/bench` measures is documented, and its page agrees with the figures that were kept.

Times depend on the machine, so that no test asserts them; that each measurement works is in test_bench_quick.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "explanation" / "performance-figures.md").read_text()


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


@pytest.mark.parametrize(
    ("value", "sense", "holds"), [(0.4, "at least", True), (0.39, "at least", False), (0.41, "at most", False)]
)
def test_a_target_that_is_missed_is_told(value: float, sense: str, holds: bool) -> None:
    program = f"""
from benchmarks.__main__ import _report
from benchmarks.busy import Busy
from benchmarks.figures import Figure, combined
from benchmarks.history import records_of
results = combined([[Figure("f", {value}, 0.4, "{sense}", "", "m")]])
raise SystemExit(_report(records_of("me", results, Busy(0.1, 1.0, 2.0), 1)))
"""
    done = in_benchmarks(program)
    assert done.returncode == (0 if holds else 1), done.stderr
    assert ("MISSED" in done.stdout, "Missed: f" in done.stdout) == (not holds, not holds)
    assert " 10% " in done.stdout


def test_several_runs_have_a_median_and_a_range() -> None:
    program = """
from benchmarks.figures import Figure, combined
[result] = combined([[Figure("f", value, 1, "at most", " s", f"run of {value}")] for value in (0.9, 0.2, 0.5)])
print(result.text, result.figure.measured, sep=", ")
"""
    assert in_benchmarks(program).stdout.strip() == "0.50 s (0.20..0.90), run of 0.5"


def test_what_others_do_is_seen_and_what_we_do_is_not() -> None:
    """A child counts as we do, whether it lives or has ended."""
    program = """
import subprocess, sys, time
from benchmarks import busy
burn = "import time\\nwhile time.process_time() < 0.7: pass\\nprint()\\ninput()"
before = busy._times()
ended = subprocess.run([sys.executable, "-c", burn], input="\\n", text=True, capture_output=True)
with subprocess.Popen([sys.executable, "-c", burn], stdin=-1, stdout=-1, text=True) as alive:
    alive.stdout.readline()
    whole, used, ours = (after - then for after, then in zip(busy._times(), before))
    alive.communicate("\\n")
print(ours >= 1.3, used >= ours - 0.2, whole >= used - 0.01)
"""
    assert in_benchmarks(program).stdout.split() == ["True", "True", "True"]


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    """Of a measurement the newest run counts, at each size; without what was left out."""
    program = f"""
from dataclasses import replace
from pathlib import Path
from benchmarks import history
from benchmarks.busy import Busy
from benchmarks.figures import Figure, combined
file = Path({str(tmp_path / "history.csv")!r})
def kept(date, scale, **figures):
    results = combined([[Figure(name, value, 1, "at most", " ms", "a, b", '"c"') for name, value in figures.items()]])
    records = history.records_of("me", results, Busy(0.125, 1.0, 2.0), scale)
    history.append([replace(each, date=date) for each in records], file)
kept("2026-01-01 10:00", 1, gone=1, stays=2)
kept("2026-01-02 10:00", 1, stays=3, nothing=float("nan"))
kept("2026-01-03 10:00", 0.5, stays=4)
records = history.read(file)
for each in history.current(records):
    print(each.date, each.figure.name, each.result.text, each.figure.measured, each.figure.beside, each.busy.others)
print(len(records))
"""
    done = in_benchmarks(program)
    assert done.stdout.splitlines() == [
        '2026-01-02 10:00 stays 3.00 ms a, b "c" 0.125',
        '2026-01-03 10:00 stays (scale 0.5) 4.00 ms a, b "c" 0.125',
        "4",
    ], done.stderr


def test_the_pages_and_the_plot_agree_with_the_figures_that_were_kept() -> None:
    """Write them again with `scripts/bench --page`."""
    program = """
from benchmarks import growth, history, pages, plot
texts, grown = [page.read_text("utf-8") for page in pages.PAGES], growth.read()
tables = pages.blocks(history.read(), grown)
print([page.name for page, text in zip(pages.PAGES, texts) if text != pages.filled(text, tables)])
print(pages.PLOT.read_text("utf-8") == plot.drawn(growth.curves(grown)))
print(sorted(place for text in texts for place in pages.places(text)) == sorted(tables))
"""
    assert in_benchmarks(program).stdout.splitlines() == ["[]", "True", "True"]


@pytest.mark.parametrize("power", [0, 0.5, 1])
def test_the_exponent_of_a_growth(power: float) -> None:
    program = f"""
from benchmarks.growth import Point, curves
points = [Point("list", size, 3 * size ** {power}, "ms", "", "") for size in (10**4, 10**6, 10**5)]
[curve] = curves(points)
print(round(curve.exponent, 6), [size for size, _ in curve.points])
"""
    assert in_benchmarks(program).stdout.strip() == f"{float(power)} [10000, 100000, 1000000]"


def test_a_new_growth_replaces_that_of_its_size() -> None:
    program = """
from benchmarks.growth import Point, merged
kept = [Point("list", size, 1.0, "ms", "", "") for size in (10, 20)]
print([(each.messages, each.value) for each in merged(kept, [Point("list", 20, 2.0, "ms", "", "")])])
"""
    assert in_benchmarks(program).stdout.strip() == "[(10, 1.0), (20, 2.0)]"


def test_a_quick_run_hurries_and_judges_nothing() -> None:
    program = """
import math
from benchmarks.__main__ import _judged
from benchmarks.figures import Figure
from benchmarks.options import OPTIONS
from benchmarks import serving, watching
OPTIONS.quick = True
OPTIONS.hurry(serving), OPTIONS.hurry(watching)
print(serving._ROUNDS, serving._SECONDS, watching._STEPS, OPTIONS.scaled(1_000_000, least=20_000))
for value in (99.0, math.nan, math.inf):
    print(_judged([Figure("f", value, 1, "at most", "", "")])[1])
print(_judged([])[1], _judged([Figure("me: left out", math.nan, 0, "at most", "", "")])[1])
"""
    assert in_benchmarks(program).stdout.split("\n")[:-1] == [
        "1 0.4 (20,) 2000",
        *("False", "True", "True"),
        "True False",
    ]


def test_the_95th_of_a_hundred() -> None:
    program = "from benchmarks.asking import p95; print(p95(range(1, 101)), p95([7]), p95([3, 1, 2]))"
    assert in_benchmarks(program).stdout.split() == ["95", "7", "3"]


@pytest.mark.parametrize(
    ("query", "asked"),
    [("and", '"and"'), ("or Note", '"or" Note'), ("android no*", "android no*"), ('"and so"', '"and so"')],
)
def test_words_of_mail_are_no_operators_of_notmuch(query: str, asked: str) -> None:
    done = in_benchmarks(f"from benchmarks.peers import as_words; print(as_words({query!r}))")
    assert done.stdout.strip() == asked, done.stderr


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
