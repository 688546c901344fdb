"""Tools beside the REST calls that they stand for, in turns; and what MCP costs while nobody uses it."""

import http.client
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psutil

from benchmarks import stage, unassisted
from benchmarks.asking import Asker, p95
from benchmarks.figures import Figure, spread
from benchmarks.filling import filled, vocabulary
from benchmarks.options import OPTIONS
from benchmarks.questions import LARGEST
from tests.mcp_server.assistant import CURRENT, Assistant, environment_of, over_http, over_stdio
from tests.servers.running import RunningAppliance

_MESSAGES, _EACH, _ROUNDS, _STARTS, _MIB = 20_000, 100, 3, 5, 1 << 20
_LISTED = 10
_ACCOUNT = LARGEST.rpartition("/")[2]
#: A library in native code that the SDK brings along: it is mapped into the process as soon as the SDK is imported.
_SDK = "pydantic_core"


@dataclass(frozen=True)
class Pair:
    """A call of a tool, and the REST call that it stands for."""

    tool: str
    arguments: Mapping[str, Any]
    path: str


def measure() -> Iterator[Figure]:
    """How much longer a tool takes than its REST call, both asked by hand; then memory and the first call.

    What the SDK's client takes is told beside it: most of it is its own work, which REST has no counterpart of (it
    checks each answer against its schema, and its HTTP is in Python throughout).
    """
    running = filled(OPTIONS.cache, OPTIONS.scaled(_MESSAGES, least=20_000))
    try:
        yield from _calls(running)
    finally:
        running.stop()
    yield from _cost()


# --- calls ------------------------------------------------------------------------------------------------------------


def _calls(running: RunningAppliance) -> Iterator[Figure]:
    token = str(running.token)
    with ExitStack() as opened:
        folder = opened.enter_context(stage.scratch())
        rest, raw = opened.enter_context(Asker(running)), _Raw(running)
        opened.callback(raw.close)
        sdk = opened.enter_context(over_http(running.url, token))
        arguments = ["--data-dir", str(running.folder)]
        child = opened.enter_context(over_stdio(arguments, environment_of(folder / "config", token), folder / "errors"))
        ways: dict[str, Callable[[Pair], object]] = {
            "REST": lambda pair: rest.body(pair.path),
            "POST /mcp": raw.call,
            "SDK by HTTP": lambda pair: _good(sdk, pair),
            "SDK by stdio": lambda pair: _good(child, pair),
        }
        yield from _compared(_pairs(rest), ways)
        yield _listing(sdk, child, raw)


def _compared(pairs: Mapping[str, Sequence[Pair]], ways: Mapping[str, Callable[[Pair], object]]) -> Iterator[Figure]:
    """Of each call and each way the fastest of some rounds: the cores are shared, and the noise is not ours."""
    for name, each in pairs.items():
        took: dict[str, list[float]] = {way: [] for way in ways}
        for number, pair in enumerate(each):
            rounds: dict[str, list[float]] = {way: [] for way in ways}
            for round_ in range(_ROUNDS):
                order = list(ways)
                random.Random(number * _ROUNDS + round_).shuffle(order)
                for way in order:
                    rounds[way].append(_timed(partial(ways[way], pair)))
            for way, values in rounds.items():
                took[way].append(min(values))
        floor, ours = took.pop("REST"), took.pop("POST /mcp")
        told = "; ".join([_said(ours), *(f"{way}: {_said(values)}" for way, values in took.items())])
        over = p95(ours) - p95(floor)
        yield Figure(f"{name} by POST /mcp: p95 over REST", over, 15, "at most", " ms", told, _said(floor))


def _pairs(rest: Asker) -> dict[str, list[Pair]]:
    """Different ones of each kind."""
    chance, words = random.Random(3), vocabulary().words
    found = rest.data(f"{LARGEST}/messages?limit=100")["items"]
    folders = [chance.choice(("inbox", "archive", "sent", "Lists")) for _ in range(_EACH)]
    moments = [chance.choice(found)["date"] for _ in range(_EACH)]
    queries = [f"{words[chance.randrange(100)]} {words[chance.randrange(100, 3000)]}" for _ in range(_EACH)]
    ids = [chance.choice(found)["id"] for _ in range(_EACH)]
    return {
        "list_emails": [
            _pair("list_emails", "/messages", folder=folder, before=moment, limit=_LISTED)
            for folder, moment in zip(folders, moments, strict=True)
        ],
        "get_email": [
            Pair("get_email", {"accountId": _ACCOUNT, "messageId": one}, f"{LARGEST}/messages/{one}") for one in ids
        ],
        "search_emails": [_pair("search_emails", "/messages", q=query, limit=_LISTED) for query in queries],
    }


def _pair(tool: str, path: str, **given: Any) -> Pair:
    query = "&".join(f"{name}={quote(str(value))}" for name, value in given.items())
    return Pair(tool, {"accountId": _ACCOUNT, **given}, f"{LARGEST}{path}?{query}")


def _listing(sdk: Assistant, child: Assistant, raw: "_Raw") -> Figure:
    """What a client asks for first, each time it is started."""
    asks: dict[str, Callable[[], object]] = {"POST": raw.tools, "SDK by HTTP": sdk.tools, "SDK by stdio": child.tools}
    took = {name: [_timed(ask) for _ in range(_EACH // 2)] for name, ask in asks.items()}
    said = "; ".join(f"{name}: {_said(values)}" for name, values in took.items())
    size = len(json.dumps(raw.tools())) / 1024
    return Figure("tools/list by POST: p95", p95(took["POST"]), 50, "at most", " ms", said, f"{size:.0f} KiB of JSON")


def _good(assistant: Assistant, pair: Pair) -> None:
    result = assistant.call(pair.tool, pair.arguments)
    if result.get("isError"):
        raise SystemExit(f"{pair.tool} {pair.arguments}: {result['content']}")


def _timed(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def _said(values: Sequence[float]) -> str:
    return f"median {statistics.median(values):.1f}, p95 {p95(values):.1f} ms"


class _Raw:
    """Messages to `/mcp` over one connection that is kept, by hand."""

    def __init__(self, running: RunningAppliance) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=60)
        self._fields = {
            "Authorization": f"Bearer {running.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": CURRENT,
        }

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def call(self, pair: Pair) -> None:
        """Call a tool."""
        result = self._ask("tools/call", {"name": pair.tool, "arguments": dict(pair.arguments)}, pair.tool)
        if result.get("isError"):
            raise SystemExit(f"{pair.tool} {pair.arguments}: {result['content']}")

    def tools(self) -> Any:
        """What is listed."""
        return self._ask("tools/list", {})["tools"]

    def _ask(self, method: str, params: dict[str, Any], name: str = "") -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": CURRENT,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        fields = {**self._fields, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
        self._connection.request("POST", "/mcp", json.dumps(message), fields)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{method}: {answer.status} {content[:200]!r}")
        return json.loads(content)["result"]


# --- what it costs ----------------------------------------------------------------------------------------------------


def _cost() -> Iterator[Figure]:
    """Memory in turns with a build without MCP, each just started and asked a little; then the first call."""
    without, idle, used, first, second = [list[float]() for _ in range(5)]
    loaded = 0
    with stage.scratch() as folder:
        for number in range(_STARTS):
            with stage.appliance(folder / f"without-{number}", argv=unassisted.ARGV) as running:
                without.append(_settled(running))
            with stage.appliance(folder / f"with-{number}") as running:
                idle.append(_settled(running))
                loaded += _has_sdk(running)
                raw = _Raw(running)
                first.append(_timed(raw.tools) / 1000)
                second.append(_timed(raw.tools))
                used.append(_settled(running))
                assert _has_sdk(running), "the SDK is not where it is looked for"
                raw.close()
    more = statistics.median(idle) - statistics.median(without)
    said = f"{spread(idle, '.1f')} MiB; the SDK was loaded in {loaded} of {_STARTS}"
    yield Figure("idle memory over a build without", more, 1, "at most", " MiB", said, f"{spread(without, '.1f')} MiB")
    yield Figure("SDK loaded before anybody came", loaded, 0, "at most", "", f"{_STARTS} starts")
    grown = statistics.median(used) - statistics.median(idle)
    yield Figure("memory once somebody came", grown, 20, "at most", " MiB more", f"{spread(used, '.1f')} MiB in all")
    beside = f"the one after it: {spread(second, '.0f')} ms"
    yield Figure("first POST /mcp", statistics.median(first), 1, "at most", " s", f"{spread(first, '.2f')} s", beside)


def _settled(running: RunningAppliance) -> float:
    """RSS in MiB after some requests."""
    for _ in range(20):
        running.ask("GET", "/me")
    time.sleep(0.5)
    assert running.process is not None
    return float(psutil.Process(running.process.pid).memory_info().rss) / _MIB


def _has_sdk(running: RunningAppliance) -> bool:
    assert running.process is not None
    return _SDK in Path(f"/proc/{running.process.pid}/maps").read_text()
