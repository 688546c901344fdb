"""The history of the figures: a line for each figure of each run that was kept, the oldest first."""

import csv
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.busy import Busy
from benchmarks.figures import Figure, Result

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "explanation" / "performance.csv"
_COLUMNS = (
    *("date", "commit", "measurement", "scale", "figure", "value", "low", "high", "runs", "sense", "target", "unit"),
    *("measured", "beside", "others", "load_before", "load_after"),
)


@dataclass(frozen=True)
class Record:
    """One result, and where it comes from. How busy the machine was is not known of the oldest."""

    date: str
    commit: str
    measurement: str
    scale: float
    result: Result
    busy: Busy | None

    @property
    def figure(self) -> Figure:
        """The figure of the result."""
        return self.result.figure


def records_of(measurement: str, results: Iterable[Result], busy: Busy, scale: float) -> list[Record]:
    """What is kept of a measurement that has just ended. At other sizes than the usual its figures are others."""
    date, commit = f"{datetime.now(UTC):%Y-%m-%d %H:%M}", checked_out()
    more = "" if scale == 1 else f" (scale {scale:g})"
    named = [replace(each, figure=replace(each.figure, name=each.figure.name + more)) for each in results]
    return [Record(date, commit, measurement, scale, each, busy) for each in named]


def read(file: Path = FILE) -> list[Record]:
    """All records."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [_record(row) for row in csv.DictReader(lines)]


def append(records: Iterable[Record], file: Path = FILE) -> None:
    """Add records. What was left out has no value and is not kept."""
    with file.open("a", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, _COLUMNS, lineterminator="\n")
        if not lines.tell():
            writer.writeheader()
        writer.writerows(_row(each) for each in records if each.figure.value == each.figure.value)


def current(records: Iterable[Record]) -> list[Record]:
    """The records of the newest run of each measurement at each size."""
    newest: dict[tuple[str, float], list[Record]] = {}
    for each in records:
        kept = newest.setdefault((each.measurement, each.scale), [])
        if kept and kept[0].date != each.date:
            kept.clear()
        kept.append(each)
    return [each for kept in newest.values() for each in kept]


def _record(row: dict[str, str]) -> Record:
    sense: Any = row["sense"]
    figure = Figure(
        row["figure"],
        float(row["value"]),
        float(row["target"]),
        sense,
        row["unit"],
        row["measured"],
        row["beside"],
    )
    result = Result(figure, float(row["low"]), float(row["high"]), int(row["runs"]))
    busy = None
    if row["others"]:
        busy = Busy(float(row["others"]), float(row["load_before"]), float(row["load_after"]))
    return Record(row["date"], row["commit"], row["measurement"], float(row["scale"]), result, busy)


def _row(record: Record) -> dict[str, object]:
    figure, result, busy = record.figure, record.result, record.busy
    row: dict[str, object] = {
        "date": record.date,
        "commit": record.commit,
        "measurement": record.measurement,
        "scale": f"{record.scale:g}",
        "figure": figure.name,
        "value": f"{figure.value:.6g}",
        "low": f"{result.low:.6g}",
        "high": f"{result.high:.6g}",
        "runs": result.runs,
        "sense": figure.sense,
        "target": f"{figure.target:g}",
        "unit": figure.unit,
        "measured": figure.measured,
        "beside": figure.beside,
    }
    if busy is not None:
        row |= {"others": f"{busy.others:.3f}"}
        row |= {"load_before": f"{busy.load_before:.1f}", "load_after": f"{busy.load_after:.1f}"}
    return row


def checked_out() -> str:
    """The commit that is checked out; with a plus sign if the program differs from it, and empty without git."""
    if shutil.which("git") is None:
        return ""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short=8", "HEAD") + ("+" if git("status", "--porcelain", "mailbox_appliance") else "")
