"""A measured figure beside its floor and its target, and what becomes of it in several runs."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Figure:
    """One result. `value` is what the target is about; `measured` and `beside` say in words what it was made of."""

    name: str
    value: float
    target: float
    sense: Literal["at least", "at most"]
    unit: str
    measured: str
    beside: str = ""

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        return self.value >= self.target if self.sense == "at least" else self.value <= self.target

    @property
    def wanted(self) -> str:
        """The target as text."""
        return f"{'>=' if self.sense == 'at least' else '<='} {self.target:g}{self.unit}"


@dataclass(frozen=True)
class Result:
    """A figure of one run or of several: its value is their median, its words are of the run next to it."""

    figure: Figure
    low: float
    high: float
    runs: int = 1

    @property
    def text(self) -> str:
        """The value, and of several runs the range, with the unit."""
        value = number(self.figure.value) + self.figure.unit
        return value if self.runs == 1 else f"{value} ({number(self.low)}..{number(self.high)})"


def combined(runs: Sequence[Iterable[Figure]]) -> list[Result]:
    """The results of measuring the same several times, in the order of the figures."""
    by_name: dict[str, list[Figure]] = {}
    for run in runs:
        for each in run:
            by_name.setdefault(each.name, []).append(each)
    return [_median_of(figures) for figures in by_name.values()]


def _median_of(figures: Sequence[Figure]) -> Result:
    values = [each.value for each in figures]
    middle = statistics.median(values)
    nearest = min(figures, key=lambda each: abs(each.value - middle))
    return Result(replace(nearest, value=middle), min(values), max(values), len(values))


def ratio_of(ours: Sequence[float], floor: Sequence[float]) -> float:
    """The median of the ratios of rounds that were measured next to each other."""
    return statistics.median(one / other for one, other in zip(ours, floor, strict=True))


def spread(values: Sequence[float], form: str = ".0f") -> str:
    """The median, and from where to where the rounds went."""
    return f"{statistics.median(values):{form}} ({min(values):{form}}..{max(values):{form}})"


def number(value: float) -> str:
    """A value with as many digits as it is worth."""
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns of equal width; the first is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
