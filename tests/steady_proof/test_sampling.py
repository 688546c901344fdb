"""The verdict on samples, as a table."""

import dataclasses
from typing import Any

import pytest

from tests.steady_proof.sampling import Sample, judge

BASE = Sample(0, 100, 10, 20, 60, 1, 0, 0, 0, 0, 0)


def _line(name: str, values: list[float], every: float) -> bool:
    changes: list[dict[str, Any]] = [{"at": every * place, name: value} for place, value in enumerate(values, 1)]
    samples = [dataclasses.replace(BASE, **change) for change in changes]
    return next(line for line in judge(samples) if line.name == name).holds


@pytest.mark.parametrize(
    ("name", "values", "holds"),
    [
        ("rss", [100.0] * 40, True),
        ("rss", [50.0] * 20 + [400.0] * 20, True),  # the first half is not judged
        ("rss", [100.0] * 20 + [100.0 + place for place in range(20)], False),
        ("rss", [100.0] * 35 + [104.9] * 5, True),
        ("rss", [100.0] * 35 + [105.1] * 5, False),
        ("rss", [1000.0] * 35 + [1049.0] * 5, True),
        ("rss", [100.0] * 38 + [900.0] + [100.0], True),  # a peak is no growth
        ("threads", [20.0] * 35 + [22.0] * 5, True),
        ("threads", [20.0] * 35 + [23.0] * 5, False),
        ("files", [60.0] * 35 + [66.0] * 5, False),
        ("children_rss", [0.0] * 35 + [6.0] * 5, False),
    ],
)
def test_growth_is_told_from_what_is_steady(name: str, values: list[float], holds: bool) -> None:
    assert _line(name, values, 10) == holds


def test_at_most_the_last_hour_is_judged() -> None:
    hours = [100.0 + place for place in range(720)] + [820.0] * 361  # three hours, of which the first two grow
    assert _line("rss", hours, 10)
    assert not _line("rss", hours[:720], 10)


def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="no sample"):
        judge([])
    with pytest.raises(ValueError, match="2 samples"):
        judge([dataclasses.replace(BASE, at=10), dataclasses.replace(BASE, at=20)])
