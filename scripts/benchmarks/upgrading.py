"""The upgrade of a store of release 0.10 with a long audit log and as many stored answers, as a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks import stage
from benchmarks.figures import Figure
from benchmarks.options import OPTIONS
from benchmarks.processes import MemoryWatch
from tests.stores.make_format_3 import make

_ROWS = 1_000_000


def measure() -> Iterator[Figure]:
    """`store migrate`, with what it tells of its progress on the way."""
    rows = OPTIONS.scaled(_ROWS, least=10_000)
    with stage.scratch() as folder:
        make(folder / "data", rows)
        size = (folder / "data" / "mailbox.db").stat().st_size >> 20
        command = [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(folder / "data"), "store", "migrate"]
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        with MemoryWatch(process.pid) as memory:
            said, told = process.communicate()
        took = time.perf_counter() - began
        if process.returncode:
            raise SystemExit(f"the upgrade failed: {said}{told}")
    name = f"upgrade of {rows:,} audit rows and as many answers"
    yield Figure(name, took, 60, "at most", " s", f"{size} MiB")
    yield Figure("memory of that upgrade", memory.peak, 200, "at most", " MiB", "peak RSS")
