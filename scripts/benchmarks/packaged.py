"""The packages as they are built for a release: how large they are, and how long their program takes to answer."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import stage
from benchmarks.figures import Figure, spread
from benchmarks.options import LeftOut
from benchmarks.starting import PROGRAM, first_answer

_ROOT = Path(__file__).resolve().parents[2]
_STARTS, _CALLS = 7, 15
#: As for somebody who has just installed it: nothing of ours.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
_MB = 1_000_000


def measure() -> Iterator[Figure]:
    """Built, unpacked as dpkg does it, and started."""
    with stage.scratch() as folder:
        package, one_file = _built(folder / "dist")
        installed = folder / "installed"
        subprocess.run(["dpkg-deb", "--extract", package, installed], check=True)
        yield _size("the package, installed", _bytes_below(installed), 60)
        yield _size("the package, .deb", package.stat().st_size, 25)
        yield _size("the program in one file", one_file.stat().st_size, 30)
        yield from _times(installed / "usr" / "bin" / "mailbox-appliance", one_file, folder)


def _built(output: Path) -> tuple[Path, Path]:
    command = [sys.executable, str(_ROOT / "packaging" / "build"), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise LeftOut(done.stderr.strip())
    packages = list(output.glob("*.deb"))
    if not packages:
        raise LeftOut("a .deb is made on Debian only")
    return packages[0], next(output.glob("mailbox-appliance-*-linux-*"))


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _size(name: str, size: int, target: int) -> Figure:
    return Figure(name, size / _MB, target, "at most", " MB", f"{size:,} bytes")


def _times(program: Path, one_file: Path, folder: Path) -> Iterator[Figure]:
    """In turns with the same from the checkout."""
    environment = {**_ENVIRONMENT, "HOME": str(folder)}
    programs = {"installed": program, "one file": one_file, "checkout": PROGRAM}
    took: dict[str, list[float]] = {}
    for number in range(_STARTS):
        for moment in ("new", "existing"):
            for name, started in programs.items():
                values = took.setdefault(f"{name}, {moment}", [])
                values.append(first_answer(started, folder / f"{name} {number}", environment))
    for name, target in (("installed", 0.6), ("one file", 2.0)):
        for moment in ("new", "existing"):
            beside = f"checkout: {spread(took[f'checkout, {moment}'], '.2f')} s"
            yield _seconds(f"{name}: first 200, {moment} data directory", took[f"{name}, {moment}"], target, beside)
    yield _seconds("installed: --help", [_help(program, environment) for _ in range(_CALLS)], 0.3)


def _help(program: Path, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - began


def _seconds(name: str, values: list[float], target: float, beside: str = "") -> Figure:
    return Figure(name, statistics.median(values), target, "at most", " s", f"{spread(values, '.2f')} s", beside)
