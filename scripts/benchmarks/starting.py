"""How long `serve` takes from the start of the process to its first answer, and how long short commands take."""

import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import stage
from benchmarks.figures import Figure, ratio_of, spread

_STARTS, _CALLS = 5, 15
_EMPTY = (sys.executable, "-c", "pass")
#: The console script of the checkout.
PROGRAM = Path(sys.executable).with_name("mailbox-appliance")


def measure_serve() -> Iterator[Figure]:
    """On new data directories, and again on the same ones, in turns with an empty Python."""
    with stage.scratch() as folder:
        first_answer(PROGRAM, folder / "compiled")
        fresh = [first_answer(PROGRAM, folder / str(number)) for number in range(_STARTS)]
        pairs = [(first_answer(PROGRAM, folder / str(number)), _wall(_EMPTY)) for number in range(_STARTS)]
    again, empty = ([pair[place] for pair in pairs] for place in (0, 1))
    yield Figure("first 200, new data directory", statistics.median(fresh), 1.0, "at most", " s", _seconds(fresh))
    name = "first 200, existing directory over python -c pass"
    yield Figure(name, ratio_of(again, empty), 25, "at most", "x", _seconds(again), f"{_millis(empty)} ms")


def measure_help() -> Iterator[Figure]:
    """Each call beside its floor."""
    commands = [str(PROGRAM), "--help"], [sys.executable, "-c", "import click"]
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


def measure_cli() -> Iterator[Figure]:
    """Whole processes, each in turns with an empty Python."""
    tab = {"_MAILBOX_APPLIANCE_COMPLETE": "bash_complete", "_MAILBOX_APPLIANCE_LINE": "mailbox-appliance emails l"}
    cheap: dict[str, tuple[Sequence[str], dict[str, str]]] = {
        "--help": (["--help"], {}),
        "emails --help": (["emails", "--help"], {}),
        "backup --help": (["backup", "--help"], {}),
        "a completion": ([], tab),
    }
    for name, (words, more) in cheap.items():
        ours, empty = _in_turns([str(PROGRAM), *words], stage.ENVIRONMENT | more)
        if name == "--help":
            yield _over_empty(name, ours, empty, 4)
            continue
        value = statistics.median(one - other for one, other in zip(ours, empty, strict=True))
        yield Figure(
            f"{name} over python -c pass", value, 100, "at most", " ms", f"{spread(ours)} ms", f"{spread(empty)} ms"
        )
    yield from _measure_list()


def _measure_list() -> Iterator[Figure]:
    with (
        stage.scratch() as folder,
        stage.mail_servers(folder) as mail,
        stage.appliance(folder / "data") as running,
    ):
        account = running.connect(
            mail.sender, imap_port=mail.imap_port, smtp_port=mail.smtp_port, password=mail.password
        )
        stage.wait_until_ready(running, account)
        words = ["--data-dir", str(running.folder), "emails", "list"]
        ours, empty = _in_turns(
            [str(PROGRAM), *words], stage.ENVIRONMENT | {"MAILBOX_APPLIANCE_TOKEN": str(running.token)}
        )
    yield _over_empty("emails list", ours, empty, 8)


def _over_empty(name: str, ours: Sequence[float], empty: Sequence[float], most: float) -> Figure:
    value, beside = ratio_of(ours, empty), f"{spread(empty)} ms"
    return Figure(f"{name} over python -c pass", value, most, "at most", "x", f"{spread(ours)} ms", beside)


def _in_turns(command: Sequence[str], environment: Mapping[str, str]) -> tuple[list[float], list[float]]:
    """Milliseconds of a command, and of an empty Python beside it."""
    _wall(command, environment)
    pairs = [(_wall(command, environment), _wall(_EMPTY, environment)) for _ in range(_CALLS)]
    return [ours * 1000 for ours, _ in pairs], [theirs * 1000 for _, theirs in pairs]


def first_answer(program: Path, folder: Path, environment: Mapping[str, str] = stage.ENVIRONMENT) -> float:
    """Seconds from the start of `serve` on a data directory until it has answered a request."""
    command = [str(program), "--data-dir", str(folder), "serve", "--port", "0", "--ready-json"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
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


def _seconds(values: Sequence[float]) -> str:
    return f"{spread(values, '.2f')} s"


def _millis(values: Sequence[float]) -> str:
    return spread([value * 1000 for value in values])


def _wall(command: Sequence[str], environment: Mapping[str, str] = stage.ENVIRONMENT) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - began
