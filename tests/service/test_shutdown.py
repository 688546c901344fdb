"""A process that does not stop in time is killed, even if everything hangs, including the log."""

import subprocess
import sys

import pytest

_HANGS = """
import logging, threading, time
from mailbox_appliance.service.shutdown import ShutdownWatchdog
handler = logging.StreamHandler()
logging.getLogger().addHandler(handler)
if {is_stuck}:
    # As somebody whose write does not come back.
    threading.Thread(target=lambda: (handler.acquire(), time.sleep(60)), daemon=True).start()
watchdog = ShutdownWatchdog(within=0.2)
watchdog.arm()
watchdog.arm()
if {is_over}:
    watchdog.cancel()
time.sleep(1 if {is_over} else 60)
raise SystemExit(7)
"""


@pytest.mark.parametrize(
    ("is_stuck", "is_over", "told"),
    [
        (False, False, (0, "shutdown_timeout\n")),
        (True, False, (0, "")),
        (False, True, (7, "")),
    ],
    ids=["hangs", "its log hangs too", "ends in order"],
)
def test_what_hangs_is_ended(is_stuck: bool, is_over: bool, told: tuple[int, str]) -> None:
    program = _HANGS.format(is_stuck=is_stuck, is_over=is_over)
    done = subprocess.run([sys.executable, "-c", program], timeout=10, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == told
