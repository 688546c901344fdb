"""How long `serve` takes from the start of the process to its first answer, and `--help` beside the import of click."""

import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import stage
from benchmarks.figures import Figure, ratio_of, spread

_STARTS, _CALLS = 5, 15
_PROGRAM = Path(sys.executable).with_name("mailbox-appliance")


def measure_serve() -> Iterator[Figure]:
    """On new data directories, and again on the same ones."""
    with stage.scratch() as folder:
        fresh = [_first_answer(folder / str(number)) for number in range(_STARTS)]
        again = [_first_answer(folder / str(number)) for number in range(_STARTS)]
    for name, values in (("new data directory", fresh), ("existing one", again)):
        yield Figure(
            f"first 200, {name}", statistics.median(values), 1.0, "at most", " s", f"{spread(values, '.2f')} s"
        )


def measure_help() -> Iterator[Figure]:
    """Each call beside its floor."""
    commands = [str(_PROGRAM), "--help"], [sys.executable, "-c", "import click"]
    pairs = [tuple(_wall(command) for command in commands) for _ in range(_CALLS)]
    ours, floor = ([pair[place] * 1000 for pair in pairs] for place in (0, 1))
    yield Figure(
        "--help over import click",
        ratio_of(ours, floor),
        3,
        "at most",
        "x",
        f"{spread(ours)} ms",
        f"import click: {spread(floor)} ms",
    )


def _first_answer(folder: Path) -> float:
    command = [str(_PROGRAM), "--data-dir", str(folder), "serve", "--port", "0", "--ready-json"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=stage.ENVIRONMENT) as process:
        assert process.stdout is not None
        try:
            connection = http.client.HTTPConnection(urlsplit(json.loads(process.stdout.readline())["http"]).netloc)
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            took = time.perf_counter() - began
            assert answer.status == 200, answer.status
            connection.close()
        finally:
            process.terminate()
    return took


def _wall(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=stage.ENVIRONMENT)
    return time.perf_counter() - began
