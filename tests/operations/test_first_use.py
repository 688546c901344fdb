"""Types that threads decode are used once, in one thread, before anything is decoded."""

import json
import subprocess
import sys
from pathlib import Path

TRIES = 100


def test_threads_may_read_a_first_body_at_once(tmp_path: Path) -> None:
    # In a process of its own: in this one, other tests have read such a body before.
    command = (sys.executable, "-m", "tests.operations.first_use", str(tmp_path / "data"), str(TRIES))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"0": TRIES}
