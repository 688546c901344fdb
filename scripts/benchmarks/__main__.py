"""`scripts/bench`: run the measurements that were asked for, print the table, and say which targets hold."""

import argparse
import importlib
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, table
from benchmarks.options import OPTIONS, LeftOut

#: Name -> the function that measures, and what it is about.
BENCHMARKS = {
    "me": ("serving:measure", "GET /me over a bare WSGI application on the same server"),
    "start": ("starting:measure_serve", "from the start of `serve` to its first answer"),
    "memory": ("memory:measure", "the serving process with a mailbox, idle"),
    "help": ("starting:measure_help", "`--help` over the import of click"),
    "cli": ("starting:measure_cli", "help, completion and `emails list` over an empty Python"),
    "send": ("sending:measure", "sends through the API over plain smtplib"),
    "stall": ("stalling:measure", "GET /me while a mail server does not answer"),
    "first-sync": ("first_sync:measure", "20,000 messages for the first time, beside mbsync and notmuch"),
    "resync": ("resyncing:measure", "100,000 messages in which nothing is new"),
    "label-sync": ("label_syncing:measure", "a mailbox with labels for the first time, beside the same without"),
    "labels": ("labeling:measure", "lists and counts of 100,000 messages with 30 labels, beside the same without"),
    "delivered": ("delivering:measure", "from the server's announcement to the API"),
    "watching": ("watching:measure", "100 and 300 mailboxes that are watched"),
    "reading": ("reading:measure", "lists, messages and searches among 1,000,000 messages"),
    "peers": ("peering:measure", "list views beside Cyrus JMAP, searches beside notmuch"),
    "cipher": ("reading:measure_cipher", "the same reads on an encrypted store over a plain one"),
    "backup": ("backing_up:measure", "a backup of 1,000,000 messages while it serves"),
    "https": ("securing:measure", "GET /me and downloads over HTTPS, beside HTTP"),
    "crowd": ("crowding:measure", "GET /me while 600 bad clients stand there"),
    "mcp": ("assisting:measure", "tools over the REST calls they stand for, and what MCP costs while unused"),
    "console": ("browsing:measure", "the console in a browser with an empty cache, beside a page of plain text"),
    "package": ("packaged:measure", "the packages: how large, and how long until they answer"),
    "upgrade": ("upgrading:measure", "a store of release 0.10 with 1,000,000 rows of audit log"),
}


def main(arguments: Sequence[str]) -> int:
    """Returns 0 where all targets hold."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures what the project promises.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to measure; without: everything")
    parser.add_argument("--list", action="store_true", help="name what can be measured")
    parser.add_argument("--scale", type=float, default=1, help="0.1: a tenth of the messages, for a quick look")
    parser.add_argument("--cache", type=Path, help="where the large store lies between two runs")
    options = parser.parse_args(arguments)
    OPTIONS.scale, OPTIONS.cache = options.scale, options.cache or OPTIONS.cache
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    if options.list:
        print("\n".join(f"{name:11}{about}" for name, (_, about) in BENCHMARKS.items()))
        return 0
    return _report([figure for name in options.names or BENCHMARKS for figure in _measure(name)])


def _measure(name: str) -> list[Figure]:
    place, about = BENCHMARKS[name]
    module, _, function = place.partition(":")
    began = time.perf_counter()
    print(f"{name}: {about} ...", file=sys.stderr, end=" ", flush=True)
    figures: list[Figure] = []
    try:
        figures += getattr(importlib.import_module(f"benchmarks.{module}"), function)()
    except LeftOut as reason:
        figures.append(Figure(f"{name}: left out", float("nan"), 0, "at most", "", str(reason)))
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    return figures


def _report(figures: Sequence[Figure]) -> int:
    import os

    print(f"\nPython {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(table(figures))
    missed = [figure.name for figure in figures if not figure.holds]
    print(f"\n{len(figures) - len(missed)} of {len(figures)} targets hold." + "".join(f"\nMissed: {m}" for m in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
