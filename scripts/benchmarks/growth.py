"""What grows with a store: values at several sizes, kept in a file, and the exponent with which each grows."""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from benchmarks import history
from benchmarks.figures import number

FILE = history.FILE.with_name("performance-growth.csv")


@dataclass(frozen=True)
class Point:
    """What something costs at a store of so many messages."""

    name: str
    messages: int
    value: float
    unit: str
    date: str
    commit: str


@dataclass(frozen=True)
class Curve:
    """The points of one name, the smallest store first."""

    name: str
    unit: str
    points: tuple[tuple[int, float], ...]

    @property
    def exponent(self) -> float:
        """The k of `messages ** k` by least squares over the logarithms; 0 where there is one point."""
        logs = [(math.log(messages), math.log(value)) for messages, value in self.points]
        across, up = (sum(each) / len(logs) for each in zip(*logs, strict=True))
        width = sum((x - across) ** 2 for x, _ in logs)
        return sum((x - across) * (y - up) for x, y in logs) / width if width else 0.0


def read(file: Path = FILE) -> list[Point]:
    """All points."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            Point(row["name"], int(row["messages"]), float(row["value"]), row["unit"], row["date"], row["commit"])
            for row in csv.DictReader(lines)
        ]


def merged(kept: Iterable[Point], measured: Iterable[Point]) -> list[Point]:
    """The points with newer ones in the place of those of the same name and size."""
    points = {(each.name, each.messages): each for each in (*kept, *measured)}
    return list(points.values())


def write(points: Iterable[Point], file: Path = FILE) -> None:
    """Keep these points and no others."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(field.name for field in fields(Point))
        writer.writerows(astuple(each) for each in points)


def curves(points: Iterable[Point]) -> list[Curve]:
    """One for each name, in the order in which they were measured."""
    by_name: dict[str, list[Point]] = {}
    for each in points:
        by_name.setdefault(each.name, []).append(each)
    return [
        Curve(name, some[0].unit, tuple(sorted((each.messages, each.value) for each in some)))
        for name, some in by_name.items()
    ]


def heading(points: Iterable[Point]) -> list[str]:
    """The sizes."""
    return [f"{size:,}" for size in sorted({each.messages for each in points})]


def rows(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """For each name its values at the sizes of the heading, and the exponent."""
    sizes = sorted({each.messages for each in points})
    lines = []
    for curve in curves(points):
        values = dict(curve.points)
        cells = (f"{number(values[size])}{curve.unit}" if size in values else "" for size in sizes)
        lines.append((curve.name, *cells, f"{curve.exponent:.2f}"))
    return lines
