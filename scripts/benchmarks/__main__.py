"""`scripts/bench`: run the measurements that were asked for, print the table, and say which targets hold."""

import argparse
import importlib
import math
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import growth, history, pages
from benchmarks.busy import BusyWatch
from benchmarks.figures import Figure, combined
from benchmarks.history import Record
from benchmarks.measurements import MEASUREMENTS
from benchmarks.options import OPTIONS, LeftOut


def main(arguments: Sequence[str]) -> int:
    """Returns 0 where all targets hold; in a quick run, where all measurements ran through."""
    if arguments[:1] == ["growth"]:
        from benchmarks import growing

        return growing.main(arguments[1:])
    options = _options(arguments)
    OPTIONS.scale, OPTIONS.quick, OPTIONS.cache = options.scale, options.quick, options.cache or OPTIONS.cache
    if options.list:
        print(
            "\n".join(f"{name:18}{one.about}{' (only if named)' * one.is_long}" for name, one in MEASUREMENTS.items())
        )
        return 0
    if options.page:
        pages.write(history.read(), growth.read())
        return 0
    names = options.names or [name for name, one in MEASUREMENTS.items() if not one.is_long]
    if options.quick:
        return _run_quickly(names)
    measured: list[Record] = []
    for name in names:
        records = _measure(name, options.runs)
        measured += records
        if options.write:  # after each: whoever ends a long run keeps what it has
            history.append(records)
            pages.write(history.read(), growth.read())
    return _report(measured)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures what the project promises. `scripts/bench growth` measures what grows with a store.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to measure; without: all that is not long")
    parser.add_argument("--list", action="store_true", help="name what can be measured")
    parser.add_argument("--runs", type=int, default=1, help="measure each so many times; told are median and range")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write them into the pages")
    parser.add_argument("--page", action="store_true", help="write the pages again from what was kept")
    parser.add_argument("--quick", action="store_true", help="see that each measurement works; nothing is judged")
    parser.add_argument("--scale", type=float, default=1, help="0.1: a tenth of the messages, for a quick look")
    parser.add_argument("--cache", type=Path, help="where the large store lies between two runs")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(MEASUREMENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    if options.quick and options.write:
        parser.error("figures of a quick run are not kept")
    if options.runs < 1:
        parser.error("--runs: at least 1")
    return options


def _measure(name: str, runs: int) -> list[Record]:
    began = time.perf_counter()
    print(f"{name}: {MEASUREMENTS[name].about} ...", file=sys.stderr, end=" ", flush=True)
    with BusyWatch() as watch:
        results = combined([_once(name) for _ in range(runs)])
    print(f"{time.perf_counter() - began:.0f} s, {watch.busy}", file=sys.stderr)
    return history.records_of(name, results, watch.busy, OPTIONS.scale)


def _once(name: str) -> list[Figure]:
    place, _, function = MEASUREMENTS[name].place.partition(":")
    module = importlib.import_module(f"benchmarks.{place}")
    OPTIONS.hurry(module)
    figures: list[Figure] = []
    try:
        figures += getattr(module, function)()
    except LeftOut as reason:
        figures.append(Figure(f"{name}: left out", math.nan, 0, "at most", "", str(reason)))
    return figures


def _run_quickly(names: Sequence[str]) -> int:
    """Run each once; returns 1 where one has no figure, or has one that is no number. One that raises ends all."""
    broken = False
    for name in names:
        began = time.perf_counter()
        verdict, is_broken = _judged(_once(name))
        broken |= is_broken
        print(f"{name:18}{time.perf_counter() - began:4.0f} s  {verdict}", flush=True)
    return int(broken)


def _judged(figures: Sequence[Figure]) -> tuple[str, bool]:
    if len(figures) == 1 and figures[0].name.endswith(": left out"):
        return f"left out: {figures[0].measured}", False
    odd = [figure.name for figure in figures if not math.isfinite(figure.value)]
    if odd or not figures:
        return f"BROKEN: no number: {', '.join(odd) or 'no figure'}", True
    return f"{len(figures)} figures", False


def _report(records: Sequence[Record]) -> int:
    print(f"\nPython {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(pages.all_figures(records, history.read()))
    missed = [each.figure.name for each in records if not each.figure.holds]
    print(f"\n{len(records) - len(missed)} of {len(records)} targets hold." + "".join(f"\nMissed: {m}" for m in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
