"""A measured figure beside its floor and its target, and all of them as a table."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


def ratio_of(ours: Sequence[float], floor: Sequence[float]) -> float:
    """The median of the ratios of rounds that were measured next to each other."""
    return statistics.median(one / other for one, other in zip(ours, floor, strict=True))


def spread(values: Sequence[float], form: str = ".0f") -> str:
    """The median, and from where to where the rounds went."""
    return f"{statistics.median(values):{form}} ({min(values):{form}}..{max(values):{form}})"


def table(figures: Iterable[Figure]) -> str:
    """The figures, one a line, under a heading."""
    rows = [("figure", "value", "target", "", "measured", "beside")]
    for each in figures:
        verdict = "holds" if each.holds else "MISSED"
        rows.append((each.name, f"{each.value:.2f}{each.unit}", each.wanted, verdict, each.measured, each.beside))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
