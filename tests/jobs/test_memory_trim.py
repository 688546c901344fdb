"""Memory of large work is returned to the system."""

import subprocess
import sys

import pytest

from mailbox_appliance.system import files

_LARGE_WORK = """
import threading, time
import psutil
from mailbox_appliance.jobs import memory_trim
from mailbox_appliance.events import Events, LargeWorkEnded
memory_trim.PAUSE = 0.05
def use():
    for _ in range(3):
        kept = [bytearray(64 << 10) for _ in range(24 << 4)]
    used.wait()
    ended.wait()
rss = psutil.Process().memory_info
events = Events()
trimmer = memory_trim.MemoryTrimmer(events)
trimmer.start()
used, ended = threading.Barrier(9), threading.Event()
before = rss().rss
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads:
    thread.start()
used.wait()
ended.set()
for thread in threads:
    thread.join()
events.publish(LargeWorkEnded())
until = time.monotonic() + 20
while rss().rss - before > 24 << 20 and time.monotonic() < until:
    time.sleep(0.05)
print(rss().rss - before)
trimmer.stop(5)
print([one.name for one in threading.enumerate()])
"""


@pytest.mark.skipif(not files.can_trim_memory(), reason="the habit of one C library")
def test_memory_is_given_back_after_large_work() -> None:
    said = subprocess.run([sys.executable, "-c", _LARGE_WORK], capture_output=True, check=True, timeout=60, text=True)
    kept, threads = said.stdout.splitlines()
    assert int(kept) <= 24 << 20
    assert threads == "['MainThread']"


_LARGE_PIECES = """
import sys, threading
import psutil
from mailbox_appliance.system import files
if sys.argv[1] == "tuned":
    files.tune_memory()
def use():
    for _ in range(3):
        bytearray(24 << 20)
    used.wait()
    ended.wait()
used, ended = threading.Barrier(9), threading.Event()
before = psutil.Process().memory_info().rss
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads:
    thread.start()
used.wait()
print(psutil.Process().memory_info().rss - before)
ended.set()
"""


@pytest.mark.skipif(not files.can_trim_memory(), reason="the habit of one C library")
@pytest.mark.parametrize(("how", "is_kept"), [("as it is", True), ("tuned", False)])
def test_threads_keep_no_large_pieces(how: str, *, is_kept: bool) -> None:
    said = subprocess.run([sys.executable, "-c", _LARGE_PIECES, how], capture_output=True, check=True, timeout=60)
    assert (int(said.stdout) > 48 << 20) == is_kept
